//! Output: a batch of answers, written with one vectored write.
//!
//! Composed bytes lie in one scratch buffer; bodies stay where they are in the store, pinned until
//! they are sent. Small bodies are copied into the scratch buffer instead: one plain write is
//! cheaper than a vectored one with a pin held.

use std::{
    io::{self, IoSlice},
    os::fd::OwnedFd,
    rc::Rc,
};

use larder_store::Entry;

use super::sendfile::FileCopy;

/// Bodies up to this size are copied: below it a second `iovec` costs more than the copy.
pub(crate) const COPY_LIMIT: usize = 4096;
/// The most slices given to one `writev` (the kernel's limit is 1024; more gains nothing).
const MAX_SLICES: usize = 64;
/// The same where few pieces wait, as for one large answer (head, body, end): a list of 64 costs 1
/// KB to set up (150 of the 4,700 instructions of a get of 10 KB). A body lies in slices of at
/// least 256 KiB, so that these are more than the system takes at once.
const FEW_SLICES: usize = 8;
/// Bytes given to the system in one call: a client that reads while they are copied makes room for
/// more, and the call would take as long as there is more.
const AT_ONCE: u64 = 1 << 20;
/// Bytes of a buffer that are kept from one batch to the next.
const KEPT: usize = 64 * 1024;
/// The same in pieces.
const KEPT_PIECES: usize = 256;
/// Pieces that are few.
const FEW_PIECES: usize = 3;

enum Piece {
    Scratch {
        from: usize,
        to: usize,
    },
    Stored {
        entry: usize,
        from: u64,
        to: u64,
    },
    /// Of the copy of a stored value.
    Copied {
        copy: usize,
        from: u64,
        to: u64,
    },
}

/// Takes bytes, as many as it will.
pub(crate) trait Sink {
    type Error;

    /// `more`: something follows at once.
    fn send(&mut self, slices: &[IoSlice<'_>], more: bool) -> Result<usize, Self::Error>;

    /// The bytes from `from` of a file, `len` at the most, which it has.
    fn send_file(&mut self, file: &OwnedFd, from: u64, len: u64) -> Result<usize, Self::Error>;

    /// So many bytes were taken without a wait. An error: others get their turn before the rest.
    fn took(&self, _bytes: u64) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// All of it, at once.
impl Sink for Vec<u8> {
    type Error = io::Error;

    fn send(&mut self, slices: &[IoSlice<'_>], _: bool) -> io::Result<usize> {
        slices.iter().for_each(|slice| self.extend_from_slice(slice));
        Ok(slices.iter().map(|slice| slice.len()).sum())
    }

    fn send_file(&mut self, file: &OwnedFd, from: u64, len: u64) -> io::Result<usize> {
        let before = self.len();
        self.resize(before + len as usize, 0);
        let read = rustix::io::pread(file, &mut self[before..], from)?;
        self.truncate(before + read);
        Ok(read)
    }
}

/// A place in what is composed, to which [`Out::truncate`] goes back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    scratch: usize,
    pieces: usize,
    entries: usize,
    copies: usize,
    covered: usize,
    queued: u64,
}

/// A batch of bytes to send, in order.
#[derive(Default)]
pub(crate) struct Out {
    scratch: Vec<u8>,
    pieces: Vec<Piece>,
    entries: Vec<Entry<'static>>,
    copies: Vec<Rc<FileCopy>>,
    /// Piece to send next, and how much of it is sent.
    next: usize,
    done: u64,
    /// Scratch bytes already covered by a piece.
    covered: usize,
    queued: u64,
}

impl Out {
    /// The buffer to compose heads in. Appended bytes are sent in their place in the order.
    pub(crate) fn scratch(&mut self) -> &mut Vec<u8> {
        &mut self.scratch
    }

    /// Bytes not yet sent.
    pub(crate) fn pending(&self) -> u64 {
        let sent = if self.pieces.is_empty() { self.done } else { 0 };
        self.queued + (self.scratch.len() - self.covered) as u64 - sent
    }

    /// Composed bytes and the lists of values, those already sent of an unfinished batch included:
    /// the memory it takes besides the store's.
    pub(crate) fn composed(&self) -> u64 {
        (self.scratch.len() + lists(self.pieces.len(), self.entries.len())) as u64
    }

    /// The memory that it has for that.
    pub(crate) fn capacity(&self) -> u64 {
        let lists = lists(self.pieces.capacity(), self.entries.capacity());
        (self.scratch.capacity() + lists) as u64
    }

    /// Bytes of the store, and of copies, that cannot be evicted until this is sent.
    pub(crate) fn pinned(&self) -> u64 {
        let copies: u64 = self.copies.iter().map(|copy| copy.memory()).sum();
        copies + self.entries.iter().map(Entry::len).sum::<u64>()
    }

    /// True when nothing waits to be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending() == 0
    }

    /// Appends a whole stored value and `end` behind it.
    #[inline]
    pub(crate) fn whole(&mut self, entry: Entry<'static>, end: &[u8]) {
        let (head, len) = (entry.head(), entry.len());
        if head.len() as u64 == len && head.len() <= COPY_LIMIT {
            self.scratch.reserve(head.len() + end.len());
            self.scratch.extend_from_slice(head);
            self.scratch.extend_from_slice(end);
            return;
        }
        self.stored(entry, 0, len);
        self.scratch.extend_from_slice(end);
    }

    /// Appends the bytes `from..to` of a stored value; the entry stays pinned until they are sent.
    pub(crate) fn stored(&mut self, entry: Entry<'static>, from: u64, to: u64) {
        if to <= from {
            return;
        }
        if to - from <= COPY_LIMIT as u64 {
            copy_stored(&entry, from, to, &mut self.scratch);
            return;
        }
        self.cover();
        self.entries.push(entry);
        self.pieces.push(Piece::Stored { entry: self.entries.len() - 1, from, to });
        self.queued += to - from;
    }

    /// Appends the bytes `from..to` of a copy of a stored value.
    pub(crate) fn copied(&mut self, copy: Rc<FileCopy>, from: u64, to: u64) {
        self.cover();
        self.copies.push(copy);
        self.pieces.push(Piece::Copied { copy: self.copies.len() - 1, from, to });
        self.queued += to - from;
    }

    /// Appends `head_from..` style ranges of an entry already appended last (several ranges of one
    /// body).
    pub(crate) fn stored_again(&mut self, from: u64, to: u64) {
        if to <= from || self.entries.is_empty() {
            return;
        }
        self.cover();
        self.pieces.push(Piece::Stored { entry: self.entries.len() - 1, from, to });
        self.queued += to - from;
    }

    /// Pins an entry for following calls of [`Out::stored_again`].
    pub(crate) fn pin(&mut self, entry: Entry<'static>) {
        self.entries.push(entry);
    }

    fn cover(&mut self) {
        if self.scratch.len() > self.covered {
            let sent = if self.pieces.is_empty() { self.done } else { 0 };
            self.pieces.push(Piece::Scratch { from: self.covered, to: self.scratch.len() });
            self.queued += (self.scratch.len() - self.covered) as u64 - sent;
            self.covered = self.scratch.len();
        }
    }

    /// Gives `sink` the next pieces until all is sent or it does not return `Ok`.
    pub(crate) fn send<S: Sink>(&mut self, sink: &mut S) -> Result<(), S::Error> {
        let mut taken = 0;
        if self.pieces.is_empty() {
            // Nothing but composed bytes: the usual case, and cheaper than a list of slices (1 KB
            // to set up).
            while self.done < self.scratch.len() as u64 {
                sink.took(taken)?;
                let left = &self.scratch[self.done as usize..];
                let some = &left[..left.len().min(AT_ONCE as usize)];
                let sent = sink.send(&[IoSlice::new(some)], false)? as u64;
                self.done += sent;
                taken += sent;
            }
            self.clear();
            return Ok(());
        }
        if let Some((slices, used)) = self.usual() {
            let sent = sink.send(&slices[..used], false)? as u64;
            if sent == self.pending() {
                self.clear();
                return Ok(());
            }
            self.cover();
            self.advance(sent);
            taken += sent;
        }
        self.cover();
        while self.next < self.pieces.len() {
            sink.took(taken)?;
            let sent = if let Piece::Copied { copy, from, to } = self.pieces[self.next] {
                let from = from + self.done;
                let (file, at) = self.copies[copy].file(from);
                sink.send_file(file, at, (to - from).min(AT_ONCE))?
            } else if self.pieces.len() - self.next <= FEW_PIECES {
                self.send_some::<FEW_SLICES, S>(sink)?
            } else {
                self.send_some::<MAX_SLICES, S>(sink)?
            };
            self.advance(sent as u64);
            taken += sent as u64;
        }
        self.clear();
        Ok(())
    }

    /// The slices of which nothing is sent yet where one value lies in one piece between composed
    /// bytes, and how many they are.
    #[inline]
    fn usual(&self) -> Option<([IoSlice<'_>; 3], usize)> {
        let [Piece::Scratch { from: 0, to: before }, Piece::Stored { entry: 0, from, to }] =
            self.pieces[..]
        else {
            return None;
        };
        if self.next > 0 || self.done > 0 {
            return None;
        }
        let value = self.entries[0].chunk_at(from).get(..(to - from) as usize)?;
        let (head, end) = self.scratch.split_at(before);
        Some(([head, value, end].map(IoSlice::new), 2 + usize::from(!end.is_empty())))
    }

    /// One call of `sink`, with at most `N` slices.
    fn send_some<const N: usize, S: Sink>(&self, sink: &mut S) -> Result<usize, S::Error> {
        let mut slices = [IoSlice::new(&[]); N];
        let (used, more) = self.fill_slices(&mut slices);
        sink.send(&slices[..used], more)
    }

    /// How many it fills, up to the next copy: true if that is what follows.
    fn fill_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> (usize, bool) {
        let mut used = 0;
        let mut room = AT_ONCE;
        let mut skip = self.done;
        for piece in &self.pieces[self.next..] {
            match *piece {
                Piece::Scratch { from, to } => {
                    let bytes = &self.scratch[from + skip as usize..to];
                    let bytes = &bytes[..bytes.len().min(room as usize)];
                    slices[used] = IoSlice::new(bytes);
                    room = room.saturating_sub(bytes.len() as u64);
                    used += 1;
                }
                Piece::Stored { entry, from, to } => {
                    let (entry, mut at) = (&self.entries[entry], from + skip);
                    while at < to && used < slices.len() && room > 0 {
                        let chunk = entry.chunk_at(at);
                        if chunk.is_empty() {
                            break;
                        }
                        let take = (chunk.len() as u64).min(to - at).min(room);
                        slices[used] = IoSlice::new(&chunk[..take as usize]);
                        used += 1;
                        at += take;
                        room -= take;
                    }
                }
                Piece::Copied { .. } => return (used, true),
            }
            skip = 0;
            if used == slices.len() || room == 0 {
                break;
            }
        }
        (used, false)
    }

    fn advance(&mut self, mut sent: u64) {
        self.queued -= sent;
        while sent > 0 {
            let len = match self.pieces[self.next] {
                Piece::Scratch { from, to } => (to - from) as u64,
                Piece::Stored { from, to, .. } | Piece::Copied { from, to, .. } => to - from,
            };
            let left = len - self.done;
            if sent < left {
                self.done += sent;
                return;
            }
            sent -= left;
            self.done = 0;
            self.next += 1;
        }
    }

    /// The end of what is composed.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            scratch: self.scratch.len(),
            pieces: self.pieces.len(),
            entries: self.entries.len(),
            copies: self.copies.len(),
            covered: self.covered,
            queued: self.queued,
        }
    }

    /// Forgets what was composed since, of which nothing may have been sent.
    pub(crate) fn truncate(&mut self, mark: Mark) {
        let (pieces, entries) = (self.pieces.len(), self.entries.len());
        if self.scratch.len() < mark.scratch || pieces < mark.pieces || entries < mark.entries {
            // Everything was dropped meanwhile.
            return self.clear();
        }
        self.scratch.truncate(mark.scratch);
        self.scratch.shrink_to(KEPT);
        self.pieces.truncate(mark.pieces);
        self.pieces.shrink_to(KEPT_PIECES);
        self.entries.truncate(mark.entries);
        self.entries.shrink_to(KEPT_PIECES);
        self.copies.truncate(mark.copies);
        (self.covered, self.queued) = (mark.covered, mark.queued);
    }

    /// The composed bytes that come next, as far as no value lies before them.
    pub(crate) fn front(&self) -> &[u8] {
        match self.pieces.get(self.next) {
            None if self.pieces.is_empty() => &self.scratch[self.done as usize..],
            None => &self.scratch[self.covered..],
            Some(&Piece::Scratch { from, to }) => &self.scratch[from + self.done as usize..to],
            Some(_) => &[],
        }
    }

    /// Drops the next `n` bytes, as if they were sent.
    pub(crate) fn skip(&mut self, n: u64) {
        if self.pieces.is_empty() {
            self.done += n;
            // More may always be composed before all is gone.
            if self.done >= KEPT as u64 / 2 && self.done * 2 >= self.scratch.len() as u64 {
                self.scratch.drain(..self.done as usize);
                self.done = 0;
            }
        } else {
            self.cover();
            self.advance(n);
        }
        if self.is_empty() {
            self.clear();
        }
    }

    /// Moves the next `n` bytes behind those of `into`. A value of which a part stays is pinned by
    /// both.
    pub(crate) fn move_to(&mut self, n: u64, into: &mut Out) {
        if self.pieces.is_empty() {
            let from = self.done as usize;
            into.scratch.extend_from_slice(&self.scratch[from..from + n as usize]);
            return self.skip(n);
        }
        self.cover();
        let mut left = n;
        while left > 0 {
            let done = self.done;
            let moved = match self.pieces[self.next] {
                Piece::Scratch { from, to } => {
                    let from = from + done as usize;
                    let moved = left.min((to - from) as u64);
                    into.scratch.extend_from_slice(&self.scratch[from..from + moved as usize]);
                    moved
                }
                Piece::Stored { entry, from, to } => {
                    let from = from + done;
                    let moved = left.min(to - from);
                    into.refer(&self.entries[entry], from, from + moved);
                    moved
                }
                Piece::Copied { copy, from, to } => {
                    let from = from + done;
                    let moved = left.min(to - from);
                    into.refer_copy(&self.copies[copy], from, from + moved);
                    moved
                }
            };
            self.advance(moved);
            left -= moved;
        }
        if self.is_empty() {
            self.clear();
        }
    }

    /// Appends the bytes `from..to` of a value that somebody else has pinned too.
    fn refer(&mut self, entry: &Entry<'static>, from: u64, to: u64) {
        let same = |held: &Entry<'_>| std::ptr::eq(held.head(), entry.head());
        let place = self.entries.iter().rposition(same).unwrap_or_else(|| {
            self.entries.push(entry.clone());
            self.entries.len() - 1
        });
        self.cover();
        self.pieces.push(Piece::Stored { entry: place, from, to });
        self.queued += to - from;
    }

    /// The same of a copy.
    fn refer_copy(&mut self, copy: &Rc<FileCopy>, from: u64, to: u64) {
        let same = |held: &Rc<FileCopy>| Rc::ptr_eq(held, copy);
        let place = self.copies.iter().rposition(same).unwrap_or_else(|| {
            self.copies.push(copy.clone());
            self.copies.len() - 1
        });
        self.cover();
        self.pieces.push(Piece::Copied { copy: place, from, to });
        self.queued += to - from;
    }

    fn clear_lists(&mut self) {
        self.pieces.clear();
        self.entries.clear();
        self.copies.clear();
        if self.pieces.capacity() > KEPT_PIECES || self.entries.capacity() > KEPT_PIECES {
            (self.pieces, self.entries) = Default::default();
        }
    }

    /// Forgets everything, keeps the buffers.
    pub(crate) fn clear(&mut self) {
        if self.scratch.is_empty() && self.entries.is_empty() && self.copies.is_empty() {
            return;
        }
        self.scratch.clear();
        if !self.entries.is_empty() || !self.copies.is_empty() {
            self.clear_lists();
        }
        (self.next, self.done, self.covered, self.queued) = (0, 0, 0, 0);
        if self.scratch.capacity() > KEPT {
            self.scratch = Vec::with_capacity(4096);
        }
    }
}

/// Bytes of lists of so many pieces and entries.
fn lists(pieces: usize, entries: usize) -> usize {
    pieces * size_of::<Piece>() + entries * size_of::<Entry<'static>>()
}

/// Appends the bytes `from..to` of a stored value to `into`.
pub(crate) fn copy_stored(entry: &Entry<'_>, from: u64, to: u64, into: &mut Vec<u8>) {
    let mut at = from;
    while at < to {
        let chunk = entry.chunk_at(at);
        if chunk.is_empty() {
            return;
        }
        let take = (chunk.len() as u64).min(to - at) as usize;
        into.extend_from_slice(&chunk[..take]);
        at += take as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_store::{If, Namespace, Options, Put, Store};

    /// A system that takes at most so many bytes at a time.
    struct Narrow {
        takes: usize,
        all: Vec<u8>,
        /// The most slices it was offered.
        most: usize,
        /// Of files.
        files: usize,
    }

    impl Sink for Narrow {
        type Error = &'static str;

        fn send(&mut self, slices: &[IoSlice<'_>], _: bool) -> Result<usize, &'static str> {
            self.most = self.most.max(slices.len());
            let offered: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
            let taken = offered.len().min(self.takes);
            self.all.extend_from_slice(&offered[..taken]);
            if taken == 0 { Err("nothing was offered") } else { Ok(taken) }
        }

        fn send_file(
            &mut self,
            file: &OwnedFd,
            from: u64,
            len: u64,
        ) -> Result<usize, &'static str> {
            self.files += 1;
            self.all.send_file(file, from, len.min(self.takes as u64)).map_err(|_| "not read")
        }
    }

    fn sent(out: &mut Out, takes: usize) -> Narrow {
        let mut system = Narrow { takes, all: Vec::new(), most: 0, files: 0 };
        while !out.is_empty() {
            assert_eq!(out.send(&mut system), Ok(()));
        }
        system
    }

    fn stored(len: u32) -> (&'static Store, Vec<u8>) {
        let options = Options { budget: 32 << 20, max_value: 16 << 20, ..Options::default() };
        let store: &'static Store = Box::leak(Box::new(Store::open(options).expect("a store")));
        let value: Vec<u8> = (0..len).map(|n| ((n * 31) >> 7) as u8).collect();
        let put = Put { value: &[&value], ..Put::default() };
        store.put(Namespace(1), b"key", put, If::Always, 1).expect("stored");
        (store, value)
    }

    #[test]
    fn copies_go_out_in_order_with_what_is_around_them() {
        let (store, value) = stored(300_000);
        let entry = store.get(Namespace(1), b"key", 1).expect("found");
        let cache =
            super::super::sendfile::SendfileCache::new(4 << 20, 1, std::sync::Arc::default());
        let copy =
            (0..100).find_map(|_| cache.find(&entry, 1, entry.len())).expect("asked for often");
        for takes in [1_000, 70_001, usize::MAX] {
            let mut out = Out::default();
            out.scratch().extend_from_slice(b"first ");
            out.copied(copy.clone(), 0, 300_000);
            out.scratch().extend_from_slice(b" second ");
            out.copied(copy.clone(), 7, 200_000);
            out.stored(store.get(Namespace(1), b"key", 1).expect("found"), 0, 50_000);
            // Two files of whole pages of memory, and a value.
            assert_eq!(out.pinned(), 2 * 307_200 + 300_000);
            assert_eq!(out.pending(), 300_000 + 200_000 - 7 + 50_000 + 14);
            let expected =
                [b"first ", &value[..], b" second ", &value[7..200_000], &value[..50_000]].concat();
            let system = sent(&mut out, takes);
            assert!(system.all == expected, "{takes} bytes at a time");
            assert!(system.files >= 2);
        }
    }

    #[test]
    fn what_is_sent_of_composed_bytes_does_not_wait_any_more_when_a_value_follows() {
        let (store, value) = stored(10_000);
        let mut out = Out::default();
        out.scratch().extend_from_slice(b"composed ");
        assert_eq!(out.send(&mut Takes(&mut 4, &mut Vec::new())), Err(()));
        out.stored(store.get(Namespace(1), b"key", 1).expect("found"), 0, 10_000);
        assert_eq!(out.pending(), 5 + 10_000);
        assert!(sent(&mut out, usize::MAX).all == [&b"osed "[..], &value].concat());
    }

    #[test]
    fn what_was_composed_since_a_mark_is_forgotten() {
        let (store, value) = stored(10_000);
        let get = || store.get(Namespace(1), b"key", 1).expect("found");
        for (values, sent_before) in [(0, 0), (0, 3), (1, 0), (2, 12_000)] {
            let mut out = Out::default();
            let mut expected = Vec::new();
            for _ in 0..values {
                out.scratch().extend_from_slice(b"head ");
                out.whole(get(), b"");
                expected.extend([b"head ", &value[..]].concat());
            }
            out.scratch().extend_from_slice(b"composed ");
            expected.extend_from_slice(b"composed ");
            let mut sent = Vec::new();
            if sent_before > 0 {
                let mut left = sent_before;
                assert_eq!(out.send(&mut Takes(&mut left, &mut sent)), Err(()));
            }
            let (mark, before) = (out.mark(), (out.pending(), out.pinned()));
            out.whole(get(), b" end");
            out.scratch().extend_from_slice(&[b'x'; 100_000]);
            out.whole(get(), b"");
            out.truncate(mark);
            assert_eq!((out.pending(), out.pinned()), before);
            out.scratch().extend_from_slice(b"last");
            expected.extend_from_slice(b"last");
            sent.extend(self::sent(&mut out, usize::MAX).all);
            assert!(sent == expected, "{values} values, {sent_before} bytes sent before");
        }
    }

    /// Takes so many bytes, and no more.
    struct Takes<'a>(&'a mut usize, &'a mut Vec<u8>);

    impl Sink for Takes<'_> {
        type Error = ();

        fn send(&mut self, slices: &[IoSlice<'_>], _: bool) -> Result<usize, ()> {
            let all: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
            let taken = all.len().min(*self.0);
            self.1.extend_from_slice(&all[..taken]);
            *self.0 -= taken;
            if taken == 0 { Err(()) } else { Ok(taken) }
        }

        fn send_file(&mut self, _: &OwnedFd, _: u64, _: u64) -> Result<usize, ()> {
            Err(())
        }
    }

    #[test]
    fn lists_of_many_values_are_counted_and_not_kept() {
        let (store, _) = stored(COPY_LIMIT as u32 + 1);
        let mut out = Out::default();
        for _ in 0..10_000 {
            out.scratch().push(b'.');
            out.whole(store.get(Namespace(1), b"key", 1).expect("found"), b"");
        }
        let least = 10_000 * (2 * size_of::<Piece>() + size_of::<Entry<'static>>());
        assert!(out.capacity() >= least as u64, "{} bytes", out.capacity());
        out.clear();
        assert!(out.capacity() < 100_000, "{} bytes", out.capacity());
    }

    #[test]
    fn one_value_between_composed_bytes_is_sent_in_order_however_little_is_taken() {
        let (store, value) = stored(10_000);
        let get = || store.get(Namespace(1), b"key", 1).expect("found");
        let mut out = Out::default();
        for (end, from) in [(&b" end"[..], 0), (b"", 0), (b" end", 4_000)] {
            for takes in [1, 4, 5, 6, 9_999, 10_004, 10_005, 10_006, 10_008, 10_009, usize::MAX] {
                // Bytes that were sent before with the same buffers are forgotten.
                out.scratch().extend_from_slice(b"head ");
                out.stored(get(), from, 10_000);
                out.scratch().extend_from_slice(end);
                let expected = [&b"head "[..], &value[from as usize..], end].concat();
                assert_eq!(out.pending(), expected.len() as u64);
                let Narrow { all, .. } = sent(&mut out, takes);
                assert!(all == expected, "{takes} bytes at a time, {from}");
                assert_eq!((out.pending(), out.pinned(), out.composed()), (0, 0, 0));
            }
        }
    }

    #[test]
    fn what_lies_in_more_slices_than_one_write_takes_is_sent_in_order() {
        let (store, value) = stored(3_000_000);
        let get = || store.get(Namespace(1), b"key", 1).expect("found");
        assert!(get().chunks().count() > FEW_SLICES, "the value lies in many pieces");
        for (answers, takes) in [(1, usize::MAX), (1, 100_001), (2, 700_001), (9, 5_000_000)] {
            let mut out = Out::default();
            for _ in 0..answers {
                out.scratch().extend_from_slice(b"head ");
                out.whole(get(), b" end");
            }
            let expected = [&b"head "[..], &value, b" end"].concat().repeat(answers);
            let Narrow { all, most, .. } = sent(&mut out, takes);
            assert!(all == expected, "{answers} answers, {takes} bytes at a time");
            assert!(
                most <= if answers == 1 { FEW_SLICES } else { MAX_SLICES },
                "{most} slices at once"
            );
        }
    }
}
