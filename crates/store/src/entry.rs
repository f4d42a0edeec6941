//! What a reader holds: an entry whose bytes stay where they are.

use crate::hash::Hash;
use crate::held::Held;
use crate::index::Seen;
use crate::item::{Record, Word};
use crate::stats::Count;
use crate::store::Store;
use crate::types::{EntryInfo, Ms, NAMESPACES, Namespace};

/// An entry found by [`Store::get`]: pinned, so that its bytes stay where they are until this is dropped, on any thread.
/// Holding one never blocks the eviction of others.
#[derive(Debug)]
pub struct Entry<'s> {
    store: &'s Store,
    held: Held<'s>,
    hash: Hash,
    /// These two as they were when it was found, before this read left its traces.
    word: Word,
    expires: Option<Ms>,
}

impl Store {
    /// Finds an entry, counts a hit or a miss, and notes the read. Takes no lock.
    #[inline]
    pub fn get<'s>(&'s self, ns: Namespace, key: &[u8], now: Ms) -> Option<Entry<'s>> {
        self.get_hashed(self.hash(ns, key).ok()?, ns, key, now)
    }

    /// [`Store::get`] of a hashed key. One function with all of its parts inlined, and no copies of it elsewhere.
    pub(crate) fn get_hashed<'s>(
        &'s self,
        hash: Hash,
        ns: Namespace,
        key: &[u8],
        now: Ms,
    ) -> Option<Entry<'s>> {
        let entry = self.look(hash, ns, key, now);
        match &entry {
            Some(e) => self.bump(e, now),
            None => self.count_miss(ns),
        }
        entry
    }

    /// Finds an entry without leaving any trace.
    #[inline]
    pub fn peek<'s>(&'s self, ns: Namespace, key: &[u8], now: Ms) -> Option<Entry<'s>> {
        self.peek_hashed(self.hash(ns, key).ok()?, ns, key, now)
    }

    /// What `get` does beyond [`Store::peek`] when it finds an entry: the hit is counted and the read noted.
    #[inline]
    pub fn bump(&self, entry: &Entry<'_>, now: Ms) {
        let record = entry.record();
        record.note_read(entry.word, now);
        self.stats.add(record.ns(), Count::Hits, 1);
    }

    /// What `get` does beyond [`Store::peek`] when it finds nothing.
    pub fn count_miss(&self, ns: Namespace) {
        if usize::from(ns.0) < NAMESPACES {
            self.stats.add(ns, Count::Misses, 1);
        }
    }

    pub(crate) fn peek_hashed<'s>(
        &'s self,
        hash: Hash,
        ns: Namespace,
        key: &[u8],
        now: Ms,
    ) -> Option<Entry<'s>> {
        self.look(hash, ns, key, now)
    }

    #[inline(always)]
    fn look<'s>(&'s self, hash: Hash, ns: Namespace, key: &[u8], now: Ms) -> Option<Entry<'s>> {
        let held = self.index.find(&self.segments, hash, |slot, value, loc| {
            let Some(held) = Held::by_slot(&self.segments, slot, value, loc) else { return Seen::Changed };
            if held.record().is(ns, key) { Seen::Yes(held) } else { Seen::No }
        })?;
        self.entry(held, hash, now)
    }

    /// What a reader gets of a record found, if it lives.
    #[inline(always)]
    pub(crate) fn entry<'s>(&'s self, held: Held<'s>, hash: Hash, now: Ms) -> Option<Entry<'s>> {
        let record = held.record();
        let (word, expires) = (record.word(), record.expires());
        if expires.is_some_and(|t| t <= now) || self.is_flushed(&record) {
            return None;
        }
        Some(Entry { store: self, held, hash, word, expires })
    }
}

impl Entry<'_> {
    pub(crate) fn record(&self) -> Record<'_> {
        self.held.record()
    }

    pub(crate) fn hash(&self) -> Hash {
        self.hash
    }

    /// Is `record` what this entry was read from, wherever it lies now, and was its expiry not changed since?
    pub(crate) fn is_still(&self, record: &Record<'_>) -> bool {
        record.origin() == self.record().origin() && record.expires() == self.expires
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
        self.expires
    }

    /// What its writer chose, or unique per write of the store; the same as long as nobody writes the entry.
    #[inline]
    pub fn version(&self) -> u64 {
        self.record().version()
    }

    /// Which write of the store made it: no other has the same, and it stays wherever the entry is moved.
    #[inline]
    pub fn written(&self) -> u64 {
        self.record().origin()
    }

    /// When it was last read before this (or written, if never), to the second.
    pub fn last_access(&self) -> Ms {
        self.word.last_access(self.record().base())
    }

    /// How often it was read lately, as evictions weigh it: 0 to 3.
    pub fn frequency(&self) -> u32 {
        self.word.frequency()
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

    /// Claims the entry: true for the first caller since it was written, false for all others, and for everybody once it is
    /// replaced or removed. Nothing but another write of the entry clears it. Takes a lock.
    pub fn claim(&self) -> bool {
        self.store.claim(self)
    }

    /// Was it claimed when it was found?
    #[inline]
    pub fn claimed(&self) -> bool {
        self.word.claimed()
    }

    /// All of the above at once.
    pub fn info(&self) -> EntryInfo {
        let (last_access, fetched) = (self.last_access(), self.fetched());
        let (stale, claimed) = (self.stale(), self.claimed());
        EntryInfo { last_access, fetched, stale, claimed, expires: self.expires, ..self.record().info() }
    }
}
