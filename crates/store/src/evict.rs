//! Room for new entries: which segment goes next, and what of it stays.
//!
//! S3-FIFO (SOSP '23) at the granularity of entries, on logs. Entries start in the small queue, a tenth of the memory. When
//! its oldest segment goes, entries that were read meanwhile are copied to the main queue, the others are dropped and
//! remembered by the ghost; who comes back while remembered starts in the main queue. When the main queue's oldest segment
//! goes, entries read since are copied to its young end with their count lowered, the others dropped.

use crate::hash::Hash;
use crate::index::Seen;
use crate::item::{Record, STALE};
use crate::log::{Log, Outcome, Space};
use crate::segment::{Kind, Loc, Segments};
use crate::store::{Gone, Store};
use crate::sync::thread_number;
use crate::types::{Ms, Policy, PutError};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// The small queue's part of the memory, in percent.
const SMALL_PERCENT: usize = 10;

/// Sealed segments in order of age.
#[derive(Debug)]
pub(crate) struct Queues {
    small: VecDeque<u32>,
    main: VecDeque<u32>,
    /// Middle pieces of large values whose records are in each queue.
    chained_small: usize,
    chained_main: usize,
}

impl Queues {
    pub(crate) fn new(segments: usize) -> Queues {
        let queue = || VecDeque::with_capacity(segments);
        Queues { small: queue(), main: queue(), chained_small: 0, chained_main: 0 }
    }

    fn queue(&mut self, kind: Kind) -> &mut VecDeque<u32> {
        if kind == Kind::Main { &mut self.main } else { &mut self.small }
    }

    pub(crate) fn push(&mut self, kind: Kind, segment: u32) {
        self.queue(kind).push_back(segment);
    }

    /// Takes a segment out, whatever its age; false if it is not there.
    pub(crate) fn remove(&mut self, kind: Kind, segment: u32) -> bool {
        let queue = self.queue(kind);
        queue.iter().position(|s| *s == segment).is_some_and(|at| queue.remove(at).is_some())
    }

    pub(crate) fn chained(&mut self, kind: Kind, change: isize) {
        let count = if kind == Kind::Main { &mut self.chained_main } else { &mut self.chained_small };
        *count = count.saturating_add_signed(change);
    }

    /// Which queue gives next.
    fn next(&self, policy: Policy) -> Kind {
        let small = self.small.len() + self.chained_small;
        let all = small + self.main.len() + self.chained_main;
        match policy {
            Policy::Fifo => Kind::Small,
            Policy::S3Fifo if self.main.is_empty() => Kind::Small,
            Policy::S3Fifo if self.small.is_empty() => Kind::Main,
            Policy::S3Fifo if small * 100 > all * SMALL_PERCENT => Kind::Small,
            Policy::S3Fifo => Kind::Main,
        }
    }

    /// The oldest segment of a queue that nobody is writing to; those held by readers too are left if `spare_pinned`.
    fn pop(&mut self, kind: Kind, segments: &Segments, spare_pinned: bool) -> Option<u32> {
        let queue = self.queue(kind);
        for _ in 0..queue.len() {
            let segment = queue.pop_front()?;
            let busy = segments.heat(segment).writers.load(Ordering::Acquire) != 0;
            let spared = spare_pinned && segments.pins.pinned(segment);
            if !busy && !spared {
                return Some(segment);
            }
            queue.push_back(segment);
        }
        None
    }
}

/// What to do with the live records of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    Evict,
    /// Keep all of them, elsewhere.
    Compact,
}

impl Store {
    /// Free segments kept back for copying survivors.
    fn reserve(&self) -> usize {
        1 + 2 * self.main.len()
    }

    /// A segment for `kind`; evicts if need be. No lock may be held.
    pub(crate) fn take_segment(&self, kind: Kind, now: Ms) -> Result<u32, PutError> {
        // An eviction may free nothing (everything was read, or is held by readers): three rounds wear every count down.
        for _ in 0..4 * self.segments.count() + 64 {
            if let Some(segment) = self.segments.take(kind, self.reserve()) {
                return Ok(segment);
            }
            if !self.evict(now) {
                std::thread::yield_now();
                if self.segments.reap_limbo() <= self.reserve() && self.queues.lock().is_empty() {
                    break;
                }
            }
        }
        self.segments.take(kind, self.reserve()).ok_or(PutError::Full)
    }

    /// Empties one segment. False if there is none to empty.
    fn evict(&self, now: Ms) -> bool {
        let Some((kind, segment)) = self.victim() else { return false };
        self.empty(segment, kind, Why::Evict, now);
        self.segments.release(segment, segment);
        true
    }

    fn victim(&self) -> Option<(Kind, u32)> {
        // As long as few segments are set aside, a segment that readers hold goes like any other (and is free a moment
        // later, mostly); beyond that they are spared, so that slow readers cannot take the memory of the rest.
        let crowded = self.segments.number(Kind::Limbo) * 8 > self.segments.count();
        let mut queues = self.queues.lock();
        let first = queues.next(self.options.policy);
        let second = if first == Kind::Main { Kind::Small } else { Kind::Main };
        [first, second].into_iter().find_map(|kind| Some((kind, queues.pop(kind, &self.segments, crowded)?)))
    }

    /// Unlinks every record of a segment that was taken out of its queue.
    pub(crate) fn empty(&self, segment: u32, kind: Kind, why: Why, now: Ms) {
        self.segments.unseal(segment);
        let filled = self.segments.heat(segment).filled.load(Ordering::Relaxed) as usize;
        let mut at = 0;
        while at < filled {
            // SAFETY: records follow one another up to `filled`, all are whole since no writer is left, and the segment is
            // this thread's victim: only it can have it reused.
            let record = unsafe { Record::at(&self.segments, Loc::new(segment, at)) };
            at += record.size();
            if !record.is_gap() {
                self.settle(&record, kind, why, now);
            }
        }
    }

    /// The queue a record goes on in and its changing word there, if it goes on.
    fn fate(&self, record: &Record<'_>, kind: Kind, why: Why) -> Option<(Kind, u32)> {
        let word = record.word();
        match (why, self.options.policy, kind) {
            (Why::Compact, _, _) => Some((kind, word.0)),
            (_, Policy::Fifo, _) => None,
            _ if word.frequency() == 0 => None,
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
        let space = draft.and_then(|(to, d)| Some((self.survivor_space(to, d.size(now), now)?, to, d)));
        // Even a record that looks unlinked needs the lock: whoever unlinked it may still be reading it.
        let mut locked = self.index.lock(&self.segments, hash);
        let Some(place) = locked.find_loc(record.loc()) else { return true };
        if let Some((mut space, to, mut draft)) = space {
            if record.expires() != draft.expires {
                return false;
            }
            draft.word |= record.word().0 & STALE;
            draft.write(&self.segments, &mut space, now, &[record.local()]);
            locked.replace(place, space.loc());
            self.moved(record, kind, to, draft.size(now), space.segment());
            return true;
        }
        locked.remove(place);
        let outdated = self.outdated(record, now);
        self.retire(record, if outdated { Gone::Outdated } else { Gone::Evicted }, now);
        if !outdated && kind == Kind::Small && self.options.policy == Policy::S3Fifo {
            self.ghost.add(hash, record.size());
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
        self.segments.heat(segment).live.fetch_add(size as u32, Ordering::Relaxed);
        self.segments.heat(record.loc().segment()).live.fetch_sub(record.size() as u32, Ordering::Relaxed);
    }

    /// Space in a log of `kind`; evicts if need be. No lock may be held.
    pub(crate) fn space(&self, kind: Kind, len: usize, now: Ms) -> Result<Space<'_>, PutError> {
        self.reserve_space(kind, len, now, || self.take_segment(kind, now))
    }

    /// Space without evicting: from the segments kept back.
    fn survivor_space(&self, kind: Kind, len: usize, now: Ms) -> Option<Space<'_>> {
        self.reserve_space(kind, len, now, || self.segments.take(kind, 0).ok_or(PutError::Full)).ok()
    }

    fn reserve_space(
        &self,
        kind: Kind,
        len: usize,
        now: Ms,
        segment: impl Fn() -> Result<u32, PutError>,
    ) -> Result<Space<'_>, PutError> {
        let mut fresh = None;
        loop {
            let sealed = &mut |kind, segment| self.queues.lock().push(kind, segment);
            match self.log(kind).reserve(&self.segments, len, now, &mut fresh, sealed) {
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

    fn log(&self, kind: Kind) -> &Log {
        let logs = if kind == Kind::Main { &self.main } else { &self.small };
        &logs[thread_number() % logs.len()]
    }
}

impl Queues {
    fn is_empty(&self) -> bool {
        self.small.is_empty() && self.main.is_empty()
    }
}
