//! Memory fetched ahead. A batch of pipelined commands names its keys before any of them is taken
//! up: the index and the records of several are fetched at once, so that the waits for memory
//! overlap instead of adding up. (A million items of 100 B, 16 gets in a batch: see
//! docs/notebook/objects.md.)

use std::cell::Cell;

use larder_store::{Hint, Namespace, Store};

use crate::net::round::MOST;

/// Commands looked at together: about as many lines as a processor core fetches at once.
const AHEAD: usize = 16;
/// First commands of a round looked at together, those with a hint at the most.
const FIRSTS: usize = MOST;

/// Hints for the next commands of a batch. One per worker; it belongs to the client it was filled
/// for, until that client's received bytes are used up.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    client: u64,
    ns: Option<Namespace>,
    /// How many received bytes were left where the command begins, and where its key may lie.
    hints: [(usize, Hint); AHEAD],
    next: usize,
    len: usize,
}

/// Hints for the first commands of the clients of a round. One per worker.
#[derive(Debug)]
pub(crate) struct Firsts {
    hints: [Cell<Hint>; FIRSTS],
    /// Number of the last one.
    last: Cell<u32>,
}

impl Default for Firsts {
    fn default() -> Self {
        Self { hints: std::array::from_fn(|_| Cell::default()), last: Cell::default() }
    }
}

/// The hint for the first command of a client in a round, fetched together with those of other
/// clients. It belongs to the client's session, and to that command alone. 0: none; else its number
/// in [`Firsts`], which has the last [`FIRSTS`] of them.
#[derive(Debug, Default)]
pub(crate) struct First(u32);

impl First {
    /// Has the index's line fetched.
    #[inline]
    pub(crate) fn fetch(&mut self, firsts: &Firsts, store: &Store, ns: Namespace, key: &[u8]) {
        self.0 = firsts.last.get().wrapping_add(1).max(1);
        firsts.last.set(self.0);
        firsts.hints[self.0 as usize % FIRSTS].set(store.prefetch(ns, key));
    }

    /// Has the record fetched that the line leads to.
    #[inline]
    pub(crate) fn fetch_record(&self, firsts: &Firsts, store: &Store) {
        if let Some(cell) = self.find(firsts) {
            let mut hint = cell.get();
            store.prefetch_record(&mut hint);
            cell.set(hint);
        }
    }

    /// For whatever command comes next.
    #[inline]
    pub(crate) fn take(&mut self, firsts: &Firsts) -> Option<Hint> {
        let hint = self.find(firsts).map(Cell::get);
        self.0 = 0;
        hint
    }

    #[inline]
    fn find<'f>(&self, firsts: &'f Firsts) -> Option<&'f Cell<Hint>> {
        let is_there = self.0 != 0 && firsts.last.get().wrapping_sub(self.0) < FIRSTS as u32;
        is_there.then(|| &firsts.hints[self.0 as usize % FIRSTS])
    }
}

impl Ahead {
    /// The hint for the command of this client that begins `left` bytes before the end of what was
    /// received.
    #[inline]
    pub(crate) fn take(&mut self, client: u64, ns: Namespace, left: usize) -> Option<Hint> {
        while self.next < self.len && self.client == client && self.ns == Some(ns) {
            let (at, hint) = self.hints[self.next];
            if at < left {
                return None;
            }
            self.next += 1;
            if at == left {
                return Some(hint);
            }
        }
        None
    }

    /// Are all hints used, or somebody else's?
    #[inline]
    pub(crate) fn is_used(&self, client: u64) -> bool {
        self.next >= self.len || self.client != client
    }

    /// Forgets what there is: new bytes will be received, and change what is left.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Has the memory fetched for the next commands of `input`. `look` gives the key and the length
    /// of the first command of what it is given, None where that cannot be told.
    pub(crate) fn fill(
        &mut self,
        client: u64,
        store: &Store,
        ns: Namespace,
        input: &[u8],
        look: impl Fn(&[u8]) -> Option<(&[u8], usize)>,
    ) {
        (self.client, self.ns, self.next, self.len) = (client, Some(ns), 0, 0);
        let mut rest = input;
        while self.len < AHEAD
            && let Some((key, used)) = look(rest)
        {
            self.hints[self.len] = (rest.len(), store.prefetch(ns, key));
            self.len += 1;
            rest = &rest[used..];
        }
        for (_, hint) in &mut self.hints[..self.len] {
            store.prefetch_record(hint);
        }
    }
}

/// Keys of one command looked up together: answers each by `f`, with its memory fetched some keys
/// ahead.
pub(crate) fn each<'k>(
    store: &Store,
    ns: Namespace,
    keys: &mut impl Iterator<Item = &'k [u8]>,
    mut f: impl FnMut(&'k [u8], Hint) -> bool,
) -> bool {
    let mut batch = [(&b""[..], Hint::default()); AHEAD];
    loop {
        let mut len = 0;
        for (place, key) in batch.iter_mut().zip(&mut *keys) {
            *place = (key, store.prefetch(ns, key));
            len += 1;
        }
        let batch = &mut batch[..len];
        batch.iter_mut().for_each(|(_, hint)| store.prefetch_record(hint));
        if !batch.iter().all(|(key, hint)| f(key, *hint)) {
            return false;
        }
        if len < AHEAD {
            return true;
        }
    }
}
