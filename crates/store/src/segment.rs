//! Segments: equal parts of the mapping, their use, and the pool of free ones.
//!
//! | kind    | holds                                    | leaves when                                            |
//! |---------|------------------------------------------|--------------------------------------------------------|
//! | Free    | nothing                                  | somebody takes it                                      |
//! | Index   | buckets                                  | never                                                  |
//! | Tags    | blocks of tag lists                      | never                                                  |
//! | Staging | bytes of fills on their way; or it is lent | its last fill and the last follower are gone; the loan ends |
//! | Chain   | a middle piece of one large value        | the value is removed                                   |
//! | Small, Main | records; open, then sealed           | evicted or compacted                                   |
//! | Limbo   | bytes nobody finds but readers still hold | the last of these readers leaves                       |
//! | Given   | bytes of another process that has the same memory (`succession.rs`) | that process ends            |

use crate::map::Map;
use crate::pin::PinTable;
use crate::succession::{Image, Saved};
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Use of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    Free,
    Index,
    Tags,
    Staging,
    Chain,
    Small,
    Main,
    Limbo,
    Given,
}

const KINDS: [Kind; 9] = [
    Kind::Free,
    Kind::Index,
    Kind::Tags,
    Kind::Staging,
    Kind::Chain,
    Kind::Small,
    Kind::Main,
    Kind::Limbo,
    Kind::Given,
];

/// A place in the mapping: segment and offset in units of four bytes. 39 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Loc(pub(crate) u64);

/// Bits of the offset in a [`Loc`].
pub(crate) const OFFSET_BITS: u32 = 18;
/// Bits of a [`Loc`].
pub(crate) const LOC_BITS: u32 = 39;

impl Loc {
    #[inline]
    pub(crate) fn new(segment: u32, byte: usize) -> Loc {
        Loc(u64::from(segment) << OFFSET_BITS | (byte as u64 >> 2))
    }

    #[inline]
    pub(crate) fn segment(self) -> u32 {
        (self.0 >> OFFSET_BITS) as u32
    }

    /// Offset in bytes.
    #[inline]
    pub(crate) fn byte(self) -> usize {
        ((self.0 & ((1 << OFFSET_BITS) - 1)) << 2) as usize
    }
}

/// Facts of a log segment that readers need; written only when it is opened.
#[derive(Debug, Default)]
struct Meta {
    /// Unique per use of a segment: upper part of the versions of its records.
    serial: AtomicU64,
    /// Start of the clock that its records' expiries count from.
    base: AtomicU64,
}

/// Counters of a log segment that writers change. On a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Heat {
    /// `serial << 1 | sealed`: what a sweep's pin checks.
    pub(crate) phase: AtomicU64,
    /// Earliest time at which an entry in it may expire.
    pub(crate) expiry: AtomicU64,
    /// Low half: bytes of linked records. High half: spaces released. One word, so that a record
    /// that is written and linked under one lock changes both at once.
    progress: AtomicU64,
    /// Segments owned by large values whose records are linked here.
    pub(crate) chained: AtomicU32,
    /// Bytes of records; valid once sealed.
    pub(crate) filled: AtomicU32,
    /// Spaces reserved: records and gaps. Changes under the lock of its log only.
    pub(crate) records: AtomicU32,
    kind: AtomicU8,
}

/// One released space, in [`Heat`]'s progress.
const GIVEN_BACK: u64 = 1 << 32;

impl Heat {
    /// Bytes of linked records.
    #[inline]
    pub(crate) fn live(&self) -> usize {
        self.progress.load(Ordering::Relaxed) as u32 as usize
    }

    /// Is a reserved space not yet released? Call it with the log locked, or after sealing: a "no"
    /// then stays true, and all writes happened before it.
    #[inline]
    pub(crate) fn busy(&self) -> bool {
        (self.progress.load(Ordering::Acquire) >> 32) as u32 != self.records.load(Ordering::Relaxed)
    }

    /// Releases a space whose record, of `bytes`, has just been linked (0: there is none, or it was
    /// counted before).
    #[inline]
    pub(crate) fn give_back(&self, bytes: usize) {
        self.progress.fetch_add(GIVEN_BACK | bytes as u64, Ordering::Release);
    }
}

/// A segment that waits for the readers of `guard` (itself, or the first segment of its chain).
#[derive(Debug)]
struct Waiting {
    guard: u32,
    segment: u32,
}

#[derive(Debug, Default)]
struct Pool {
    free: Vec<u32>,
    limbo: VecDeque<Waiting>,
}

/// All segments of a store.
#[derive(Debug)]
pub(crate) struct Segments {
    pub(crate) map: Map,
    pub(crate) pins: PinTable,
    shift: u32,
    meta: Box<[Meta]>,
    heat: Box<[Heat]>,
    pool: Mutex<Pool>,
    serial: AtomicU64,
    kinds: [AtomicU32; KINDS.len()],
    /// Those that a predecessor keeps until it ends.
    predecessors: Mutex<Vec<u32>>,
}

/// Bookkeeping per segment without pins, in bytes: tables, pool, queues, the index's directory.
pub(crate) const PER_SEGMENT: usize =
    size_of::<Meta>() + size_of::<Heat>() + 4 + size_of::<Waiting>() + 6 * 4 + 4;

/// Segments in limbo examined when a free one is wanted.
const REAP: usize = 64;
/// How far before its opening a segment's clock starts, in ms: callers' clocks may differ slightly.
const SLACK: u64 = 1 << 20;
/// Longest time a segment stays open, in ms, so that its clock covers every short expiry.
const OPEN_FOR: u64 = 1 << 30;

impl Segments {
    pub(crate) fn new(map: Map, pins: PinTable, count: usize, shift: u32) -> Segments {
        let mut pool =
            Pool { free: Vec::with_capacity(count), limbo: VecDeque::with_capacity(count) };
        pool.free.extend((0..count as u32).rev());
        let kinds: [AtomicU32; KINDS.len()] = Default::default();
        kinds[0].store(count as u32, Ordering::Relaxed);
        Segments {
            map,
            pins,
            shift,
            meta: (0..count).map(|_| Meta::default()).collect(),
            heat: (0..count).map(|_| Heat::default()).collect(),
            pool: Mutex::new(pool),
            serial: AtomicU64::new(1),
            kinds,
            predecessors: Mutex::default(),
        }
    }

    /// Bytes of a segment.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        1 << self.shift
    }

    pub(crate) fn count(&self) -> usize {
        self.heat.len()
    }

    /// Offset of a segment in the mapping.
    #[inline]
    pub(crate) fn start(&self, segment: u32) -> usize {
        (segment as usize) << self.shift
    }

    /// Offset of a location in the mapping.
    #[inline]
    pub(crate) fn at(&self, loc: Loc) -> usize {
        self.start(loc.segment()) + loc.byte()
    }

    #[inline]
    pub(crate) fn heat(&self, segment: u32) -> &Heat {
        &self.heat[segment as usize]
    }

    #[inline]
    pub(crate) fn serial(&self, segment: u32) -> u64 {
        self.meta[segment as usize].serial.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn base(&self, segment: u32) -> u64 {
        self.meta[segment as usize].base.load(Ordering::Relaxed)
    }

    pub(crate) fn kind(&self, segment: u32) -> Kind {
        KINDS[usize::from(self.heat(segment).kind.load(Ordering::Relaxed)) % KINDS.len()]
    }

    pub(crate) fn set_kind(&self, segment: u32, kind: Kind) {
        let old = self.heat(segment).kind.swap(kind as u8, Ordering::Relaxed);
        self.kinds[usize::from(old) % KINDS.len()].fetch_sub(1, Ordering::Relaxed);
        self.kinds[kind as usize].fetch_add(1, Ordering::Relaxed);
        if kind == Kind::Chain {
            // Age is counted in bytes written since. Large values write little into logs: without
            // this a log segment full of their records would stay young, and open, while everything
            // else is evicted.
            self.serial.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Number of segments of a kind.
    pub(crate) fn number(&self, kind: Kind) -> usize {
        self.kinds[kind as usize].load(Ordering::Relaxed) as usize
    }

    /// The serial the next log segment gets.
    pub(crate) fn next_serial(&self) -> u64 {
        self.serial.load(Ordering::Relaxed)
    }

    /// A free segment to write to, unless only `reserve` are left.
    pub(crate) fn take(&self, kind: Kind, reserve: usize) -> Option<u32> {
        let segment = self.take_bare(kind, reserve)?;
        self.want_huge(segment);
        Some(segment)
    }

    /// A segment is going to be written: it wants huge pages.
    pub(crate) fn want_huge(&self, segment: u32) {
        self.map.want_huge(self.start(segment), self.size());
    }

    /// A free segment that nobody is going to write, unless only `reserve` are left.
    pub(crate) fn take_bare(&self, kind: Kind, reserve: usize) -> Option<u32> {
        let mut pool = self.pool.lock();
        if pool.free.len() <= reserve {
            self.reap(&mut pool, REAP);
        }
        if pool.free.len() <= reserve {
            return None;
        }
        let segment = pool.free.pop()?;
        drop(pool);
        self.set_kind(segment, kind);
        Some(segment)
    }

    /// Zeroes a segment that the caller took and has not published.
    pub(crate) fn zero(&self, segment: u32) {
        // SAFETY: a segment taken from the pool belongs to its taker until it is published.
        unsafe { self.map.zero(self.start(segment), self.size()) };
    }

    /// Frees a segment that nobody can find any more; it waits in limbo for readers that hold
    /// `guard`.
    pub(crate) fn release(&self, segment: u32, guard: u32) {
        let mut pool = self.pool.lock();
        if self.pins.pinned(guard) {
            self.set_kind(segment, Kind::Limbo);
            pool.limbo.push_back(Waiting { guard, segment });
        } else {
            self.set_kind(segment, Kind::Free);
            pool.free.push(segment);
        }
    }

    /// Frees the segments in limbo that are no longer held, among the `most` that were not examined
    /// for longest.
    fn reap(&self, pool: &mut Pool, most: usize) {
        for _ in 0..most.min(pool.limbo.len()) {
            let Some(waiting) = pool.limbo.pop_front() else { return };
            if self.pins.pinned(waiting.guard) {
                pool.limbo.push_back(waiting);
            } else {
                self.set_kind(waiting.segment, Kind::Free);
                pool.free.push(waiting.segment);
            }
        }
    }

    /// [`Segments::reap`] for callers outside.
    pub(crate) fn reap_limbo(&self) {
        self.reap(&mut self.pool.lock(), usize::MAX);
    }

    /// Starts a new use of a log segment: new serial, new clock, no records.
    pub(crate) fn begin(&self, segment: u32, now: u64) {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let meta = &self.meta[segment as usize];
        meta.serial.store(serial, Ordering::Relaxed);
        meta.base.store(now.saturating_sub(SLACK), Ordering::Relaxed);
        let heat = self.heat(segment);
        heat.expiry.store(u64::MAX, Ordering::Relaxed);
        heat.progress.store(0, Ordering::Relaxed);
        heat.chained.store(0, Ordering::Relaxed);
        heat.filled.store(0, Ordering::Relaxed);
        heat.records.store(0, Ordering::Relaxed);
        heat.phase.store(serial << 1, Ordering::SeqCst);
    }

    /// The times at which records may be written to a new segment, as far as its clock is
    /// concerned.
    pub(crate) fn clock(&self, segment: u32) -> Range<u64> {
        let base = self.base(segment);
        let first = if base == 0 { 0 } else { base + SLACK / 2 };
        first..base + OPEN_FOR
    }

    /// Bytes freed when everything in a log segment is removed.
    pub(crate) fn alive(&self, segment: u32) -> usize {
        let heat = self.heat(segment);
        let chained = heat.chained.load(Ordering::Relaxed) as usize;
        heat.live() + chained * self.size()
    }

    /// Counts a record that is now linked in `segment`.
    #[inline]
    pub(crate) fn enter(&self, segment: u32, bytes: usize, pieces: usize) {
        self.heat(segment).progress.fetch_add(bytes as u64, Ordering::Relaxed);
        if pieces != 0 {
            self.heat(segment).chained.fetch_add(pieces as u32, Ordering::Relaxed);
        }
    }

    /// Removes a record that is no longer linked from the counters.
    #[inline]
    pub(crate) fn leave(&self, segment: u32, bytes: usize, pieces: usize) {
        // It was counted before, under the same stripe's lock: the low half never borrows from the
        // high one.
        self.heat(segment).progress.fetch_sub(bytes as u64, Ordering::Relaxed);
        if pieces != 0 {
            self.heat(segment).chained.fetch_sub(pieces as u32, Ordering::Relaxed);
        }
    }

    /// Ends the writing of a log segment.
    pub(crate) fn seal(&self, segment: u32, filled: usize) {
        let heat = self.heat(segment);
        heat.filled.store(filled as u32, Ordering::Relaxed);
        heat.phase.fetch_or(1, Ordering::SeqCst);
    }

    /// The phase of a sealed segment, for [`PinTable::pin_if`]; `None` if it is not sealed.
    pub(crate) fn sealed(&self, segment: u32) -> Option<u64> {
        let phase = self.heat(segment).phase.load(Ordering::Acquire);
        (phase & 1 == 1).then_some(phase)
    }

    /// Marks a victim that is being emptied: no new walker may start.
    pub(crate) fn unseal(&self, segment: u32) {
        self.heat(segment).phase.fetch_and(!1, Ordering::SeqCst);
    }
}

/// The pool while no segment changes hands.
pub(crate) struct LockedPool<'a>(MutexGuard<'a, Pool>);

impl Segments {
    /// Locks the pool.
    pub(crate) fn lock(&self) -> LockedPool<'_> {
        LockedPool(self.pool.lock())
    }

    /// Gives away those that `given` names, and the free ones; `kept` are free from now on.
    pub(crate) fn give(&self, pool: &mut LockedPool<'_>, given: &[bool], kept: &[u32]) {
        pool.0.free.clear();
        for segment in 0..self.count() as u32 {
            if given[segment as usize] {
                self.unseal(segment);
                self.set_kind(segment, Kind::Given);
            }
        }
        for segment in kept {
            self.set_kind(*segment, Kind::Free);
            pool.0.free.push(*segment);
        }
    }

    /// The free segments.
    pub(crate) fn free<'a>(&self, pool: &'a LockedPool<'_>) -> &'a [u32] {
        &pool.0.free
    }

    pub(crate) fn save(&self, out: &mut Image, given: &[bool]) {
        out.put(self.next_serial());
        for (segment, (meta, heat)) in self.meta.iter().zip(&self.heat).enumerate() {
            let kind = if given[segment] { self.kind(segment as u32) } else { Kind::Given };
            out.put(kind as u64);
            let both = [&meta.serial, &meta.base, &heat.phase, &heat.expiry, &heat.progress];
            both.iter().for_each(|word| out.put(word.load(Ordering::Relaxed)));
            let three = [&heat.chained, &heat.filled, &heat.records];
            three.iter().for_each(|word| out.put(u64::from(word.load(Ordering::Relaxed))));
        }
    }

    /// Takes over what [`Segments::save`] wrote; nothing else uses them yet.
    pub(crate) fn load(&self, from: &mut Saved<'_>) -> Option<()> {
        let serial = from.take()?;
        let (mut pool, mut predecessors) = (self.pool.lock(), self.predecessors.lock());
        pool.free.clear();
        for (segment, (meta, heat)) in self.meta.iter().zip(&self.heat).enumerate() {
            let segment = segment as u32;
            let kind = *KINDS.get(usize::try_from(from.take()?).ok()?)?;
            let both = [&meta.serial, &meta.base, &heat.phase, &heat.expiry, &heat.progress];
            for word in both {
                word.store(from.take()?, Ordering::Relaxed);
            }
            for word in [&heat.chained, &heat.filled, &heat.records] {
                word.store(u32::try_from(from.take()?).ok()?, Ordering::Relaxed);
            }
            match kind {
                Kind::Free => pool.free.push(segment),
                Kind::Given => predecessors.push(segment),
                Kind::Staging | Kind::Limbo => return None,
                _ => {}
            }
            self.set_kind(segment, kind);
        }
        self.serial.store(serial, Ordering::Relaxed);
        Some(())
    }

    /// Sets the bytes of linked records of a sealed segment, and the middle pieces of these. Nobody
    /// else uses it.
    pub(crate) fn recount(&self, segment: u32, live: usize, chained: usize) {
        let heat = self.heat(segment);
        let released = heat.progress.load(Ordering::Relaxed) >> 32 << 32;
        heat.progress.store(released | live as u64, Ordering::Relaxed);
        heat.chained.store(chained as u32, Ordering::Relaxed);
    }

    /// Nobody has what was given: it is free.
    pub(crate) fn take_back(&self) {
        self.pins.clear_other();
        for segment in 0..self.count() as u32 {
            if self.kind(segment) == Kind::Given {
                self.release(segment, segment);
            }
        }
    }

    /// The predecessor has ended: what it kept is free.
    pub(crate) fn predecessor_ended(&self) {
        self.pins.clear_other();
        for segment in std::mem::take(&mut *self.predecessors.lock()) {
            self.release(segment, segment);
        }
    }
}

/// Segment size for a budget: enough segments for the queues to work, large enough for a page's
/// head.
pub(crate) fn segment_shift(budget: usize) -> u32 {
    (budget / 256).max(1).ilog2().clamp(18, 20)
}

/// The widest expiry, from now, that fits a record's short form (`item.rs`), in ms: about 24 days.
pub(crate) const SHORT_EXPIRY: u64 = 1 << 31;
/// How long ago a short expiry may lie, in ms.
pub(crate) const SHORT_PAST: u64 = SLACK / 4;
