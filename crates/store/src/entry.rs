//! What a reader holds: an entry whose bytes stay where they are.

use crate::held::Held;
use crate::index::Seen;
use crate::item::{Record, Word};
use crate::stats::Count;
use crate::store::Store;
use crate::types::{EntryInfo, Ms, Namespace};

/// An entry found by [`Store::get`]: pinned, so that its bytes stay where they are until this is dropped, on any thread.
/// Holding one never blocks the eviction of others.
#[derive(Debug)]
pub struct Entry<'s> {
    held: Held<'s>,
    /// As it was before this read left its traces.
    word: Word,
}

impl Store {
    /// Finds an entry, counts a hit or a miss, and notes the read. Takes no lock.
    #[inline]
    pub fn get<'s>(&'s self, ns: Namespace, key: &[u8], now: Ms) -> Option<Entry<'s>> {
        let entry = self.peek(ns, key, now);
        match &entry {
            Some(e) => {
                e.record().note_read(e.word, now);
                self.stats.add(ns, Count::Hits, 1);
            }
            None if self.hash(ns, key).is_ok() => self.stats.add(ns, Count::Misses, 1),
            None => {}
        }
        entry
    }

    /// Finds an entry without leaving any trace.
    #[inline]
    pub fn peek<'s>(&'s self, ns: Namespace, key: &[u8], now: Ms) -> Option<Entry<'s>> {
        let hash = self.hash(ns, key).ok()?;
        let found = self.index.find(&self.segments, hash, |slot, value, loc| {
            let Some(held) = Held::by_slot(&self.segments, slot, value, loc) else { return Seen::Changed };
            if held.record().is(ns, key) { Seen::Yes(held) } else { Seen::No }
        })?;
        let word = found.record().word();
        Some(Entry { held: found, word }).filter(|e| !self.outdated(&e.record(), now))
    }
}

impl Entry<'_> {
    pub(crate) fn record(&self) -> Record<'_> {
        self.held.record()
    }

    pub(crate) fn word(&self) -> Word {
        self.word
    }

    /// Bytes of the whole value.
    #[inline]
    pub fn len(&self) -> u64 {
        self.record().total()
    }

    /// Is the value empty?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first piece of the value: all of it when it fits one segment.
    #[inline]
    pub fn head(&self) -> &[u8] {
        self.record().head()
    }

    /// The pieces of the value in order.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        let mut offset = 0;
        std::iter::from_fn(move || {
            let chunk = self.chunk_at(offset);
            offset += chunk.len() as u64;
            (!chunk.is_empty()).then_some(chunk)
        })
    }

    /// The bytes from `offset` that lie in one piece; empty at the end.
    pub fn chunk_at(&self, offset: u64) -> &[u8] {
        self.held.chunk_at(offset)
    }

    /// The key it was stored under.
    pub fn key(&self) -> &[u8] {
        self.record().key()
    }

    /// The client's bits.
    #[inline]
    pub fn flags(&self) -> u32 {
        self.record().flags()
    }

    /// When it stops being there.
    pub fn expires(&self) -> Option<Ms> {
        self.record().expires()
    }

    /// Unique per write of the store; the same as long as nobody writes the entry.
    #[inline]
    pub fn version(&self) -> u64 {
        self.record().version()
    }

    /// When it was last read before this (or written, if never), to the second.
    pub fn last_access(&self) -> Ms {
        self.word.last_access(self.record().base())
    }

    /// Was it read before?
    pub fn fetched(&self) -> bool {
        self.word.fetched()
    }

    /// Was it marked stale?
    #[inline]
    pub fn stale(&self) -> bool {
        self.word.stale()
    }

    /// All of the above at once.
    pub fn info(&self) -> EntryInfo {
        let (last_access, fetched) = (self.last_access(), self.fetched());
        EntryInfo { last_access, fetched, stale: self.stale(), ..self.record().info() }
    }
}
