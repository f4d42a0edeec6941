//! What a reader holds: an entry whose bytes stay where they are.

use crate::index::Seen;
use crate::item::{Record, Word};
use crate::pin::Pin;
use crate::segment::Segments;
use crate::stats::Count;
use crate::store::Store;
use crate::types::{EntryInfo, Ms, Namespace};

/// An entry found by [`Store::get`]: pinned, so that its bytes stay where they are until this is dropped, on any thread.
/// Holding one never blocks the eviction of others.
#[derive(Debug)]
pub struct Entry<'s> {
    segments: &'s Segments,
    record: Record<'s>,
    /// As it was before this read left its traces.
    word: Word,
    head: &'s [u8],
    _pin: Pin<'s>,
    /// The first middle piece stands for all of them.
    _anchor: Option<Pin<'s>>,
}

impl Store {
    /// Finds an entry, counts a hit or a miss, and notes the read. Takes no lock.
    #[inline]
    pub fn get<'s>(&'s self, ns: Namespace, key: &[u8], now: Ms) -> Option<Entry<'s>> {
        let entry = self.peek(ns, key, now);
        match &entry {
            Some(e) => {
                e.record.note_read(e.word, now);
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
            let Some(pin) = self.segments.pins.pin_if(loc.segment(), slot, value) else {
                return Seen::Changed;
            };
            // SAFETY: the pin was taken while the slot led here, so the segment is not reused before it is dropped, and
            // the record goes into the entry together with the pin.
            let record = unsafe { Record::at(&self.segments, loc) };
            if !record.is(ns, key) {
                return Seen::No;
            }
            let Some(first) = record.piece(0) else {
                return Seen::Yes(Entry::new(&self.segments, record, pin, None));
            };
            // The slot still leads here after the second pin, so that the pieces were not given back before it.
            match self.segments.pins.pin_if(first, slot, value) {
                Some(anchor) => Seen::Yes(Entry::new(&self.segments, record, pin, Some(anchor))),
                None => Seen::Changed,
            }
        });
        found.filter(|e| !self.outdated(&e.record, now))
    }
}

impl<'s> Entry<'s> {
    #[inline]
    fn new(segments: &'s Segments, record: Record<'s>, pin: Pin<'s>, anchor: Option<Pin<'s>>) -> Entry<'s> {
        Entry { segments, record, word: record.word(), head: record.head(), _pin: pin, _anchor: anchor }
    }

    pub(crate) fn record(&self) -> &Record<'s> {
        &self.record
    }

    pub(crate) fn word(&self) -> Word {
        self.word
    }

    /// Bytes of the whole value.
    #[inline]
    pub fn len(&self) -> u64 {
        self.record.total()
    }

    /// Is the value empty?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first piece of the value: all of it when it fits one segment.
    #[inline]
    pub fn head(&self) -> &[u8] {
        self.head
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
        let head = self.head.len() as u64;
        if offset < head {
            return &self.head[offset as usize..];
        }
        let local = self.record.local();
        let middle = self.len() - local.len() as u64;
        let within = offset - head;
        if within >= middle {
            let tail = &local[self.head.len()..];
            return tail.get((within - middle) as usize..).unwrap_or_default();
        }
        let size = self.segments.size() as u64;
        let Some(piece) = self.record.piece((within / size) as usize) else { return &[] };
        let from = within % size;
        let len = (size - from).min(middle - within);
        // SAFETY: the pieces belong to the record, are never written after its commit, and are not reused before the
        // anchor's pin is dropped.
        unsafe { self.segments.map.bytes(self.segments.start(piece) + from as usize, len as usize) }
    }

    /// The key it was stored under.
    pub fn key(&self) -> &[u8] {
        self.record.key()
    }

    /// The client's bits.
    #[inline]
    pub fn flags(&self) -> u32 {
        self.record.flags()
    }

    /// When it stops being there.
    pub fn expires(&self) -> Option<Ms> {
        self.record.expires()
    }

    /// Unique per write of the store; the same as long as nobody writes the entry.
    #[inline]
    pub fn version(&self) -> u64 {
        self.record.version()
    }

    /// When it was last read before this (or written, if never), to the second.
    pub fn last_access(&self) -> Ms {
        self.word.last_access(self.record.base())
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
        EntryInfo { last_access, fetched, stale: self.stale(), ..self.record.info() }
    }
}
