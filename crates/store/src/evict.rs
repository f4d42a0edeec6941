//! Room for new entries: which segment goes next, and what of it stays.
//!
//! S3-FIFO (SOSP '23) at the granularity of entries, on logs. Entries start in the small queue. When a segment of it goes,
//! entries that were read meanwhile are copied to the main queue, the others are dropped and remembered by the ghost; who
//! comes back while remembered starts in the main queue. When a segment of the main queue goes, entries read since are copied
//! to its young end with their count lowered, the others dropped.
//!
//! Two things are added to the published policy; docs/decisions/0002-store.md has the figures.
//!
//! - The small queue's part of the memory is not fixed at a tenth. An entry that comes back just after a queue dropped it is a
//!   hit that queue would have had with a little more memory; each such hit moves the border its way. Where popularity drifts
//!   the small queue grows until the whole is close to LRU, elsewhere it stays small.
//! - Entries of like size share segments, and among the oldest segments of the classes the one that goes next has the
//!   greatest age times size of its entries (in terms of the mean, from a half to the double): a segment of large entries is
//!   worth fewer hits than one of small ones.

use crate::hash::Hash;
use crate::held::{self, Hold};
use crate::index::Seen;
use crate::item::{CLAIMED, Record, STALE};
use crate::log::{Log, Outcome, Space};
use crate::segment::Kind;
use crate::store::{Gone, Store};
use crate::sync::thread_number;
use crate::types::{Ms, Policy, PutError};
use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Classes of size.
pub(crate) const CLASSES: usize = 3;

/// The small queue's part of the memory, in millionths: at first, at least, at most.
const SMALL: usize = 100_000;
const SMALL_LEAST: usize = 50_000;
const SMALL_MOST: usize = 900_000;
/// Evictions in vain after which one looks more closely, and vain attempts to find a victim after which one gives up.
const PATIENCE: u32 = 16;
/// How many mean entries the border moves by for one near hit.
const STEP: usize = 32;

/// Sealed segments in order of age.
#[derive(Debug)]
pub(crate) struct Queues {
    small: [VecDeque<u32>; CLASSES],
    main: [VecDeque<u32>; CLASSES],
    /// Middle pieces of large values whose records are in each queue.
    chained_small: usize,
    chained_main: usize,
}

/// What the policy has learnt.
#[derive(Debug)]
pub(crate) struct Learnt {
    /// The small queue's part, in millionths.
    small: AtomicUsize,
    /// Mean bytes of an entry stored.
    mean: AtomicUsize,
}

impl Learnt {
    pub(crate) fn new() -> Learnt {
        Learnt { small: AtomicUsize::new(SMALL), mean: AtomicUsize::new(0) }
    }

    /// An entry of `bytes` is stored. Samples one in sixteen, so that writers seldom write this line.
    pub(crate) fn stored(&self, hash: Hash, bytes: u64) {
        let mean = self.mean.load(Relaxed);
        if mean == 0 {
            self.mean.store(bytes as usize, Relaxed);
        } else if hash.low().is_multiple_of(16) {
            self.mean.store((mean * 255 + bytes as usize).div_ceil(256), Relaxed);
        }
    }

    /// An entry came back just after `queue` had dropped it. (Racing threads may lose a step: no harm.)
    pub(crate) fn near_hit(&self, queue: Kind, memory: usize) {
        let step = (STEP * self.mean.load(Relaxed)).saturating_mul(1_000_000) / memory;
        let step = step.clamp(1, 10_000);
        let small = self.small.load(Relaxed);
        let new = if queue == Kind::Main { small.saturating_sub(step) } else { small + step };
        self.small.store(new.clamp(SMALL_LEAST, SMALL_MOST), Relaxed);
    }

    fn class(&self, bytes: u64) -> usize {
        let mean = self.mean.load(Relaxed) as u64;
        // Entries of about the mean size are all in the middle.
        usize::from(bytes * 4 >= mean * 3) + usize::from(bytes * 4 >= mean * 7)
    }

    /// How much its entries' size makes a segment of `bytes` with so many records older, in 256ths.
    fn weight(&self, bytes: u32, records: u32) -> u64 {
        let mean = self.mean.load(Relaxed).max(1) as u64;
        (u64::from(bytes / records.max(1)) * 256 / mean).clamp(128, 512)
    }
}

impl Queues {
    pub(crate) fn new(segments: usize) -> Queues {
        let queue = || std::array::from_fn(|_| VecDeque::with_capacity(segments / 2));
        Queues { small: queue(), main: queue(), chained_small: 0, chained_main: 0 }
    }

    fn queue(&mut self, kind: Kind) -> &mut [VecDeque<u32>; CLASSES] {
        if kind == Kind::Main { &mut self.main } else { &mut self.small }
    }

    pub(crate) fn push(&mut self, kind: Kind, class: usize, segment: u32) {
        self.queue(kind)[class].push_back(segment);
    }

    /// Takes a segment out, whatever its age; its class, if it was there.
    pub(crate) fn remove(&mut self, kind: Kind, segment: u32) -> Option<usize> {
        self.queue(kind).iter_mut().position(|queue| {
            let at = queue.iter().position(|s| *s == segment);
            at.is_some_and(|at| queue.remove(at).is_some())
        })
    }

    pub(crate) fn chained(&mut self, kind: Kind, change: isize) {
        let count = if kind == Kind::Main { &mut self.chained_main } else { &mut self.chained_small };
        *count = count.saturating_add_signed(change);
    }

    /// Which queue gives next.
    fn next(&self, policy: Policy, learnt: &Learnt) -> Kind {
        let length = |queue: &[VecDeque<u32>]| queue.iter().map(VecDeque::len).sum::<usize>();
        let small = length(&self.small) + self.chained_small;
        let main = length(&self.main) + self.chained_main;
        match policy {
            Policy::Fifo => Kind::Small,
            Policy::S3Fifo if length(&self.main) == 0 => Kind::Small,
            Policy::S3Fifo if length(&self.small) == 0 => Kind::Main,
            Policy::S3Fifo if small * 1_000_000 > (small + main) * learnt.small.load(Relaxed) => Kind::Small,
            Policy::S3Fifo => Kind::Main,
        }
    }

    /// The segment of a queue that goes next among those nobody is writing to; those held by readers too are left if
    /// `spare_pinned`.
    fn pop(&mut self, kind: Kind, store: &Store, spare_pinned: bool) -> Option<u32> {
        let segments = &store.segments;
        let now = segments.next_serial();
        let free = |segment: &u32| {
            let busy = segments.heat(*segment).writers.load(Acquire) != 0;
            let spared = spare_pinned && segments.pins.pinned(*segment);
            !busy && !spared
        };
        let age = |segment: u32| {
            let heat = segments.heat(segment);
            let weight = store.learnt.weight(heat.filled.load(Relaxed), heat.records.load(Relaxed));
            (now - segments.serial(segment)) * if store.options.policy == Policy::Fifo { 1 } else { weight }
        };
        let oldest = self.queue(kind).iter().enumerate().filter_map(|(class, queue)| {
            let at = queue.iter().position(free)?;
            Some((age(queue[at]), class, at))
        });
        let (_, class, at) = oldest.max()?;
        self.queue(kind)[class].remove(at)
    }
}

/// What to do with the live records of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// Keep those with a higher frequency.
    Evict(u32),
    /// Keep all of them, elsewhere.
    Compact,
}

impl Store {
    /// Free segments kept back for copying survivors.
    fn reserve(&self) -> usize {
        1 + 2 * self.main.len() / CLASSES
    }

    /// A segment for `kind`; evicts if need be. No lock may be held.
    pub(crate) fn take_segment(&self, kind: Kind, now: Ms) -> Result<u32, PutError> {
        let mut idle = 0;
        // An eviction may free next to nothing when nearly all was read lately. Every few in vain, entries must have been
        // read more often to stay, until none does: so this ends, and soon.
        for round in 0..PATIENCE * 5 {
            if let Some(segment) = self.segments.take(kind, self.reserve()) {
                return Ok(segment);
            }
            if !self.evict(round / PATIENCE, now) {
                // Others are evicting, or readers hold everything.
                idle += 1;
                std::thread::yield_now();
            }
            if idle > PATIENCE {
                break;
            }
        }
        self.segments.take(kind, self.reserve()).ok_or(PutError::Full)
    }

    /// Seals segments that lie open since long, because few entries are of their class: what is in them must get its turn.
    fn close_old(&self) {
        let now = self.segments.next_serial();
        let old = self.segments.count() as u64 / 4;
        self.close(|segment| self.segments.serial(segment) + old < now);
    }

    fn close(&self, which: impl Fn(u32) -> bool) {
        for log in self.small.iter().chain(&self.main) {
            log.close_if(&self.segments, &which, &mut |s| self.sealed(log, s));
        }
    }

    /// Empties one segment of all entries but those read more than `pressure` times. False if there is none to empty.
    fn evict(&self, pressure: u32, now: Ms) -> bool {
        self.close_old();
        let victim = self.victim().or_else(|| {
            // A few large values can hold all of the memory by records in segments that are still open.
            self.close(|_| true);
            self.victim()
        });
        let Some((kind, segment)) = victim else { return false };
        self.empty(segment, kind, Why::Evict(pressure), now);
        self.segments.release(segment, segment);
        true
    }

    fn victim(&self) -> Option<(Kind, u32)> {
        // As long as few segments are set aside, a segment that readers hold goes like any other (and is free a moment
        // later, mostly); beyond that they are spared, so that slow readers cannot take the memory of the rest.
        let crowded = self.segments.number(Kind::Limbo) * 8 > self.segments.count();
        let mut queues = self.queues.lock();
        let first = queues.next(self.options.policy, &self.learnt);
        let second = if first == Kind::Main { Kind::Small } else { Kind::Main };
        [first, second].into_iter().find_map(|kind| Some((kind, queues.pop(kind, self, crowded)?)))
    }

    /// Unlinks every record of a segment that was taken out of its queue.
    pub(crate) fn empty(&self, segment: u32, kind: Kind, why: Why, now: Ms) {
        self.segments.unseal(segment);
        let filled = self.segments.heat(segment).filled.load(Relaxed) as usize;
        held::walk(&self.segments, Hold::victim(), segment, filled, |r| self.settle(r, kind, why, now));
    }

    /// The queue a record goes on in and its changing word there, if it goes on.
    fn fate(&self, record: &Record<'_>, kind: Kind, why: Why) -> Option<(Kind, u32)> {
        let word = record.word();
        match (why, self.options.policy, kind) {
            (Why::Compact, _, _) => Some((kind, word.0)),
            (_, Policy::Fifo, _) => None,
            (Why::Evict(pressure), _, _) if word.frequency() <= pressure => None,
            (_, Policy::S3Fifo, Kind::Main) => Some((Kind::Main, word.with_frequency(word.frequency() - 1))),
            (_, Policy::S3Fifo, _) => Some((Kind::Main, word.with_frequency(0))),
        }
    }

    /// Moves or drops one record of a victim.
    fn settle(&self, record: &Record<'_>, kind: Kind, why: Why, now: Ms) {
        let hash = self.hasher.key(record.ns(), record.key());
        while !self.try_settle(record, hash, kind, why, now) {}
    }

    /// False if the record was touched just between the reservation of its new place and its move.
    fn try_settle(&self, record: &Record<'_>, hash: Hash, kind: Kind, why: Why, now: Ms) -> bool {
        let linked = |_: &_, _, loc| if loc == record.loc() { Seen::Yes(()) } else { Seen::No };
        let fate = self.fate(record, kind, why).filter(|_| !self.outdated(record, now));
        let fate = fate.filter(|_| self.index.find(&self.segments, hash, linked).is_some());
        // Space first: nothing is reserved under a stripe's lock.
        let draft = fate.map(|(to, word)| (to, record.draft(word)));
        let space =
            draft.and_then(|(to, d)| Some((self.survivor_space(to, d.size(now), d.bytes(), now)?, to, d)));
        // Even a record that looks unlinked needs the lock: whoever unlinked it may still be reading it.
        let mut locked = self.index.lock(&self.segments, hash);
        let Some(place) = locked.find_loc(record.loc()) else { return true };
        if let Some((mut space, to, mut draft)) = space {
            if record.expires() != draft.expires {
                return false;
            }
            draft.word |= record.word().0 & (STALE | CLAIMED);
            draft.write(&self.segments, &mut space, now, &[record.local()]);
            locked.replace(place, space.loc());
            self.moved(record, kind, to, draft.size(now), space.segment());
            return true;
        }
        locked.remove(place);
        let outdated = self.outdated(record, now);
        self.retire(record, if outdated { Gone::Outdated } else { Gone::Evicted }, now);
        if !outdated && self.options.policy == Policy::S3Fifo {
            self.ghost.add(hash, kind, record.size());
        }
        true
    }

    /// Accounts of a record that goes on elsewhere.
    pub(crate) fn moved(&self, record: &Record<'_>, from: Kind, to: Kind, size: usize, segment: u32) {
        let pieces = (record.pieces().len() / 4) as isize;
        if pieces != 0 && from != to {
            let mut queues = self.queues.lock();
            queues.chained(from, -pieces);
            queues.chained(to, pieces);
        }
        self.segments.heat(segment).live.fetch_add(size as u32, Relaxed);
        self.segments.heat(record.loc().segment()).live.fetch_sub(record.size() as u32, Relaxed);
    }

    /// Space in a log of `kind` for a record of `len` bytes whose entry has `bytes`; evicts if need be. No lock may be held.
    pub(crate) fn space(&self, kind: Kind, len: usize, bytes: u64, now: Ms) -> Result<Space<'_>, PutError> {
        self.reserve_space(kind, len, bytes, now, || self.take_segment(kind, now))
    }

    /// Space without evicting: from the segments kept back.
    fn survivor_space(&self, kind: Kind, len: usize, bytes: u64, now: Ms) -> Option<Space<'_>> {
        self.reserve_space(kind, len, bytes, now, || self.segments.take(kind, 0).ok_or(PutError::Full)).ok()
    }

    fn reserve_space(
        &self,
        kind: Kind,
        len: usize,
        bytes: u64,
        now: Ms,
        segment: impl Fn() -> Result<u32, PutError>,
    ) -> Result<Space<'_>, PutError> {
        let mut fresh = None;
        let log = self.log(kind, bytes);
        loop {
            match log.reserve(&self.segments, len, now, &mut fresh, &mut |s| self.sealed(log, s)) {
                Outcome::NeedsSegment => fresh = Some(segment()?),
                Outcome::Space(space) => {
                    // Somebody else had opened a new segment meanwhile.
                    if let Some(unneeded) = fresh {
                        self.segments.release(unneeded, unneeded);
                    }
                    return Ok(space);
                }
            }
        }
    }

    pub(crate) fn sealed(&self, log: &Log, segment: u32) {
        self.queues.lock().push(log.kind, log.class, segment);
    }

    fn log(&self, kind: Kind, bytes: u64) -> &Log {
        let logs = if kind == Kind::Main { &self.main } else { &self.small };
        let class = if self.options.policy == Policy::Fifo { 0 } else { self.learnt.class(bytes) };
        &logs[thread_number() % (logs.len() / CLASSES) * CLASSES + class]
    }
}
