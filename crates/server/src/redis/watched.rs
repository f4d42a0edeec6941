//! Keys that somebody WATCHes, and how often each was written meanwhile: of a key that came and
//! went again, or was given an expiry and lost it, nothing else tells.
//!
//! While nobody watches, a write pays nothing ([`attention::WATCHES`]).

use std::{
    collections::HashMap,
    hash::BuildHasher,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::AcqRel},
    },
};

use larder_store::Namespace;
use parking_lot::Mutex;

use super::{attention, shared::Shared};

/// Parts of the table: writers of different keys seldom meet.
const PARTS: usize = 64;

type Key = (u8, Box<[u8]>);

/// One watched key.
#[derive(Debug, Default)]
struct Place {
    watchers: usize,
    writes: u64,
}

struct Parts([Mutex<HashMap<Key, Place>>; PARTS]);

impl Default for Parts {
    fn default() -> Self {
        Parts(std::array::from_fn(|_| Mutex::default()))
    }
}

/// The table. One per process; it has an entry for each key watched now (a connection watches a
/// limited number).
#[derive(Default)]
pub(crate) struct Watched {
    parts: Parts,
    hasher: std::hash::RandomState,
    watches: AtomicUsize,
    /// Held while the first watch comes or the last goes, so that the bit in `attention` follows.
    turn: Mutex<()>,
}

/// A watch. The key is watched no more when it is dropped.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    key: Key,
    writes: u64,
}

impl Watched {
    fn part(&self, key: &Key) -> &Mutex<HashMap<Key, Place>> {
        &self.parts.0[self.hasher.hash_one(key) as usize % PARTS]
    }

    /// A key was written. Called with its stripe held.
    #[cold]
    pub(crate) fn wrote(&self, ns: Namespace, key: &[u8]) {
        let key = (ns.0, key.into());
        if let Some(place) = self.part(&key).lock().get_mut(&key) {
            place.writes += 1;
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.parts.0.iter().map(|part| part.lock().len()).sum()
    }
}

impl Watch {
    /// Watches a key from now on. With its stripe held: a write that has not seen that somebody
    /// watches is over then.
    pub(crate) fn new(shared: &Arc<Shared>, ns: Namespace, key: &[u8]) -> Watch {
        let watched = &shared.watched;
        let key = (ns.0, Box::from(key));
        let turn = watched.turn.lock();
        if watched.watches.fetch_add(1, AcqRel) == 0 {
            attention::set(shared, attention::WATCHES, true);
        }
        drop(turn);
        let mut part = watched.part(&key).lock();
        let place = part.entry(key.clone()).or_default();
        place.watchers += 1;
        let writes = place.writes;
        drop(part);
        Watch { shared: shared.clone(), key, writes }
    }

    /// Was it written since?
    pub(crate) fn is_written(&self) -> bool {
        let part = self.shared.watched.part(&self.key).lock();
        part.get(&self.key).is_none_or(|place| place.writes != self.writes)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let watched = &self.shared.watched;
        let mut part = watched.part(&self.key).lock();
        if let Some(place) = part.get_mut(&self.key) {
            place.watchers -= 1;
            if place.watchers == 0 {
                part.remove(&self.key);
            }
        }
        drop(part);
        let _turn = watched.turn.lock();
        if watched.watches.fetch_sub(1, AcqRel) == 1 {
            attention::set(&self.shared, attention::WATCHES, false);
        }
    }
}
