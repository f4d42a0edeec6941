//! What is to be sent: a batch of answers, written with one vectored write.
//!
//! Composed bytes lie in one scratch buffer; bodies stay where they are in the store, pinned until they are sent. Small
//! bodies are copied into the scratch buffer instead: one plain write is cheaper than a vectored one with a pin held.

use std::io::IoSlice;

use larder_store::Entry;

/// Bodies up to this size are copied: below it a second `iovec` costs more than the copy.
pub(crate) const COPY_LIMIT: usize = 4096;
/// The most slices given to one `writev` (the kernel's limit is 1024; more gains nothing).
const MAX_SLICES: usize = 64;
/// The same where few pieces wait, as for one large answer (head, body, end): a list of 64 costs 1 KB to set up (150 of the 4,700
/// instructions of a get of 10 KB). A body lies in slices of at least 256 KiB, so that these are more than the system takes at once.
const FEW_SLICES: usize = 8;
/// Pieces that are few.
const FEW_PIECES: usize = 3;

enum Piece {
    Scratch { from: usize, to: usize },
    Stored { entry: usize, from: u64, to: u64 },
}

/// A batch of bytes to send, in order.
#[derive(Default)]
pub(crate) struct Out {
    scratch: Vec<u8>,
    pieces: Vec<Piece>,
    entries: Vec<Entry<'static>>,
    /// Piece to send next, and how much of it is sent.
    next: usize,
    done: u64,
    /// Scratch bytes already covered by a piece.
    covered: usize,
    queued: u64,
}

impl Out {
    /// The buffer to compose heads in. What is appended is sent in its place in the order.
    pub(crate) fn scratch(&mut self) -> &mut Vec<u8> {
        &mut self.scratch
    }

    /// Bytes not yet sent.
    pub(crate) fn pending(&self) -> u64 {
        let sent = if self.pieces.is_empty() { self.done } else { 0 };
        self.queued + (self.scratch.len() - self.covered) as u64 - sent
    }

    /// Composed bytes, those already sent of an unfinished batch included: the memory it takes besides the store's.
    pub(crate) fn composed(&self) -> u64 {
        self.scratch.len() as u64
    }

    /// Bytes of the store that cannot be evicted until this is sent.
    pub(crate) fn pinned(&self) -> u64 {
        self.entries.iter().map(Entry::len).sum()
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

    /// Appends `head_from..` style ranges of an entry already appended last (several ranges of one body).
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
            self.pieces.push(Piece::Scratch { from: self.covered, to: self.scratch.len() });
            self.queued += (self.scratch.len() - self.covered) as u64;
            self.covered = self.scratch.len();
        }
    }

    /// Calls `write` with the next pieces until all is sent or it does not return `Ok`.
    pub(crate) fn send<E>(
        &mut self,
        mut write: impl FnMut(&[IoSlice<'_>]) -> Result<usize, E>,
    ) -> Result<(), E> {
        if self.pieces.is_empty() {
            // Nothing but composed bytes: the usual case, and cheaper than a list of slices (1 KB to set up).
            while self.done < self.scratch.len() as u64 {
                self.done += write(&[IoSlice::new(&self.scratch[self.done as usize..])])? as u64;
            }
            self.clear();
            return Ok(());
        }
        self.cover();
        while self.next < self.pieces.len() {
            let sent = if self.pieces.len() - self.next <= FEW_PIECES {
                self.send_some::<FEW_SLICES, E>(&mut write)?
            } else {
                self.send_some::<MAX_SLICES, E>(&mut write)?
            };
            self.advance(sent as u64);
        }
        self.clear();
        Ok(())
    }

    /// One call of `write`, with at most `N` slices.
    fn send_some<const N: usize, E>(
        &self,
        write: &mut impl FnMut(&[IoSlice<'_>]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let mut slices = [IoSlice::new(&[]); N];
        let used = self.fill_slices(&mut slices);
        write(&slices[..used])
    }

    fn fill_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut used = 0;
        let mut skip = self.done;
        for piece in &self.pieces[self.next..] {
            match *piece {
                Piece::Scratch { from, to } => {
                    slices[used] = IoSlice::new(&self.scratch[from + skip as usize..to]);
                    used += 1;
                }
                Piece::Stored { entry, from, to } => {
                    let (entry, mut at) = (&self.entries[entry], from + skip);
                    while at < to && used < slices.len() {
                        let chunk = entry.chunk_at(at);
                        if chunk.is_empty() {
                            break;
                        }
                        let take = (chunk.len() as u64).min(to - at) as usize;
                        slices[used] = IoSlice::new(&chunk[..take]);
                        used += 1;
                        at += take as u64;
                    }
                }
            }
            skip = 0;
            if used == slices.len() {
                break;
            }
        }
        used
    }

    fn advance(&mut self, mut sent: u64) {
        self.queued -= sent;
        while sent > 0 {
            let len = match self.pieces[self.next] {
                Piece::Scratch { from, to } => (to - from) as u64,
                Piece::Stored { from, to, .. } => to - from,
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

    /// Forgets everything, keeps the buffers.
    pub(crate) fn clear(&mut self) {
        self.scratch.clear();
        self.pieces.clear();
        self.entries.clear();
        (self.next, self.done, self.covered, self.queued) = (0, 0, 0, 0);
        if self.scratch.capacity() > 64 * 1024 {
            self.scratch = Vec::with_capacity(4096);
        }
    }
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

    /// What is sent when the system takes at most `takes` bytes at a time, and the most slices it was offered.
    fn sent(out: &mut Out, takes: usize) -> (Vec<u8>, usize) {
        let (mut all, mut most) = (Vec::new(), 0);
        while !out.is_empty() {
            let taken = out.send(|slices| {
                most = most.max(slices.len());
                let offered: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
                let taken = &offered[..offered.len().min(takes)];
                all.extend_from_slice(taken);
                if taken.is_empty() { Err("nothing was offered") } else { Ok(taken.len()) }
            });
            assert_eq!(taken, Ok(()));
        }
        (all, most)
    }

    #[test]
    fn what_lies_in_more_slices_than_one_write_takes_is_sent_in_order() {
        let options = Options { budget: 32 << 20, max_value: 16 << 20, ..Options::default() };
        let store: &'static Store = Box::leak(Box::new(Store::open(options).expect("a store")));
        let value: Vec<u8> = (0..3_000_000_u32).map(|n| ((n * 31) >> 7) as u8).collect();
        let put = Put { value: &[&value], ..Put::default() };
        store.put(Namespace(1), b"key", put, If::Always, 1).expect("stored");
        let get = || store.get(Namespace(1), b"key", 1).expect("found");
        assert!(get().chunks().count() > FEW_SLICES, "the value lies in many pieces");
        for (answers, takes) in [(1, usize::MAX), (1, 100_001), (2, 700_001), (9, 5_000_000)] {
            let mut out = Out::default();
            for _ in 0..answers {
                out.scratch().extend_from_slice(b"head ");
                out.whole(get(), b" end");
            }
            let expected = [&b"head "[..], &value, b" end"].concat().repeat(answers);
            let (all, most) = sent(&mut out, takes);
            assert!(all == expected, "{answers} answers, {takes} bytes at a time");
            assert!(most <= if answers == 1 { FEW_SLICES } else { MAX_SLICES }, "{most} slices at once");
        }
    }
}
