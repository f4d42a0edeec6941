//! Entries as readers hold them: their bytes stay in place.

use crate::hash::Hash;
use crate::held::Held;
use crate::index::Seen;
use crate::item::{Record, Word};
use crate::segment::OFFSET_BITS;
use crate::stats::Count;
use crate::store::Store;
use crate::types::{EntryInfo, Ms, NAMESPACES, Namespace};

/// An entry found by [`Store::get`]: pinned, so that its bytes stay where they are until this is
/// dropped, on any thread. Holding one never blocks the eviction of others. A clone is another pin
/// of the same bytes.
#[derive(Clone, Debug)]
pub struct Entry<'s> {
    store: &'s Store,
    held: Held<'s>,
    hash: Hash,
    /// Both as they were when the entry was found, before this read updated them.
    word: Word,
    expires: Option<Ms>,
}

impl Store {
    /// Finds an entry, counts a hit or a miss, and records the read. Takes no lock.
    #[inline]
    pub fn get<'s>(&'s self, ns: Namespace, key: &[u8], now: Ms) -> Option<Entry<'s>> {
        self.get_hashed(self.hash(ns, key).ok()?, ns, key, now)
    }

    /// [`Store::get`] of a hashed key. One function with all its parts inlined, and no other copy
    /// of it.
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

    /// Finds an entry without changing any state or counter.
    #[inline]
    pub fn peek<'s>(&'s self, ns: Namespace, key: &[u8], now: Ms) -> Option<Entry<'s>> {
        self.peek_hashed(self.hash(ns, key).ok()?, ns, key, now)
    }

    /// The additional effect of `get` over [`Store::peek`] when it finds an entry: counts the hit
    /// and records the read.
    #[inline]
    pub fn bump(&self, entry: &Entry<'_>, now: Ms) {
        let record = entry.record();
        record.note_read(entry.word, now);
        self.stats.add(record.ns(), Count::Hits, 1);
    }

    /// [`Store::bump`] for an entry that [`Store::mark_stale`] marked: the time of the mark stays.
    #[inline]
    pub fn bump_stale(&self, entry: &Entry<'_>) {
        self.stats.add(entry.record().ns(), Count::Hits, 1);
    }

    /// The additional effect of `get` over [`Store::peek`] when it finds nothing.
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
            let Some(held) = Held::by_slot(&self.segments, slot, value, loc) else {
                return Seen::Changed;
            };
            if held.record().is(ns, key) { Seen::Yes(held) } else { Seen::No }
        })?;
        self.entry(held, hash, now)
    }

    /// The reader's view of a found record, if it is alive.
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

impl<'s> Entry<'s> {
    /// The entry of a pinned record, whatever its state.
    pub(crate) fn of(store: &'s Store, held: Held<'s>, hash: Hash) -> Entry<'s> {
        let (word, expires) = (held.record().word(), held.record().expires());
        Entry { store, held, hash, word, expires }
    }
}

impl Entry<'_> {
    pub(crate) fn record(&self) -> Record<'_> {
        self.held.record()
    }

    pub(crate) fn hash(&self) -> Hash {
        self.hash
    }

    /// Is `record` the record this entry was read from, wherever it lies now, with an unchanged
    /// expiry?
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

    /// Time of expiry.
    pub fn expires(&self) -> Option<Ms> {
        self.expires
    }

    /// The version its writer chose, or one that is unique per write of the store; it stays until
    /// the entry is written again.
    #[inline]
    pub fn version(&self) -> u64 {
        self.record().version()
    }

    /// Number of the write that made it: no other write has the same, and it stays when the entry
    /// is moved.
    #[inline]
    pub fn written(&self) -> u64 {
        self.record().origin()
    }

    /// Can `version`, one that an entry of this key had and this one has not, be of an earlier
    /// write? Versions that writers chose are compared by size. Of the store's own, each has its
    /// segment in the upper part: one of another segment is of an earlier write, as there is no
    /// later one of this key, and one of the same segment if it is smaller. A number that the store
    /// has not given yet is not.
    pub fn is_newer_than(&self, version: u64) -> bool {
        if self.version() != self.written() {
            return version < self.version();
        }
        let (own, other) = (self.version() >> OFFSET_BITS, version >> OFFSET_BITS);
        version < self.version() || own != other && other < self.store.segments.next_serial()
    }

    /// Time of the last read before this one (or of the write, if it was never read), to the
    /// second.
    pub fn last_access(&self) -> Ms {
        self.word.last_access(self.record().base())
    }

    /// How often it was read recently, as eviction counts it: 0 to 3.
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

    /// Claims the entry: true for the first caller since it was written, false for all others, and
    /// for all callers once it is replaced or removed. Only another write of the entry clears the
    /// claim. Takes a lock.
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
        EntryInfo {
            last_access,
            fetched,
            stale,
            claimed,
            expires: self.expires,
            ..self.record().info()
        }
    }
}
