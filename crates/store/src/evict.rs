//! Eviction: which segment is emptied next, and which of its entries stay.
//!
//! S3-FIFO (SOSP '23) at the granularity of entries, on logs. Entries start in the small queue.
//! When a segment of it is evicted, entries that were read meanwhile are copied to the main queue;
//! the others are dropped and remembered by the ghost. An entry stored again while remembered
//! starts in the main queue. When a segment of the main queue is evicted, entries read since are
//! copied to its young end with their count lowered, the others dropped.
//!
//! Two rules are added to the published policy; docs/decisions/0002-store.md has the figures.
//!
//! - The small queue's share of the memory is not fixed at a tenth. An entry stored again just
//!   after a queue dropped it is a hit that this queue would have had with a little more memory;
//!   each such hit moves the border in its favour. Where popularity drifts, the small queue grows
//!   until the whole is close to LRU; elsewhere it stays small.
//! - Entries of similar size share segments. Among the oldest segments of the size classes, the
//!   next victim has the greatest product of age and entry size (relative to the mean, from a half
//!   to the double): a segment of large entries is worth fewer hits than one of small entries.

use crate::hash::Hash;
use crate::held::{self, Hold};
use crate::index::Seen;
use crate::item::{CLAIMED, Record, STALE};
use crate::log::{Log, Outcome, Space};
use crate::queues::{CLASSES, Spare, Victim, row};
use crate::segment::Kind;
use crate::shares::GROUPS;
use crate::store::{Gone, Store};
use crate::sync::thread_number;
use crate::types::{Cause, Ms, Policy, PutError};
use std::sync::atomic::Ordering::Relaxed;

/// Failed evictions before the search becomes stricter, and failed attempts to find a victim before
/// it ends.
const PATIENCE: u32 = 16;
/// Evictions tried for one segment. After each [`PATIENCE`] failures, entries must have been read
/// more often to stay, until none stays: so the loop ends, and soon.
const ROUNDS: u32 = PATIENCE * 5;
/// Segments per group and class required before entries are sorted by size when there are several
/// groups: open segments must stay a small part of the memory.
const SORTED: usize = 64;

/// Groups whose segments may be evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum From {
    /// Segments of any group, for a writer of this one.
    Any(usize),
    /// Segments of this group, which is above its ceiling with this many more bytes.
    Only(usize, u64),
}

/// Treatment of the live records of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// Keep those with a higher frequency.
    Evict(u32),
    /// The same in a group that is above its ceiling with this many more bytes; once it is below,
    /// large values stay.
    Trim(u32, u64),
    /// Keep all of them, in another segment.
    Compact,
}

/// Result for one record of a victim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Settled {
    Done,
    /// It was touched between the reservation of its new place and its move.
    Again,
    /// It must be kept, and there is no free space for it.
    NoRoom,
}

impl Store {
    /// Free segments reserved for copying survivors.
    pub(crate) fn reserve(&self) -> usize {
        1 + 2 * self.sets
    }

    /// A segment for `kind` and a writer of `group`; evicts if necessary. No lock may be held.
    pub(crate) fn take_segment(&self, kind: Kind, group: usize, now: Ms) -> Result<u32, PutError> {
        let segment = self.take_bare_segment(kind, group, now)?;
        self.segments.want_huge(segment);
        Ok(segment)
    }

    /// [`Store::take_segment`] where nobody is going to write to it.
    pub(crate) fn take_bare_segment(
        &self,
        kind: Kind,
        group: usize,
        now: Ms,
    ) -> Result<u32, PutError> {
        self.enforce(group, 0, now)?;
        let mut idle = 0;
        // An eviction may free almost nothing when nearly all entries were read recently.
        for round in 0..ROUNDS {
            if let Some(segment) = self.segments.take_bare(kind, self.reserve()) {
                return Ok(segment);
            }
            if !self.options.evict {
                if !self.reclaim(now) {
                    break;
                }
            } else if !self.evict(round / PATIENCE, From::Any(group), now) {
                // Other threads are evicting, or readers pin everything.
                idle += 1;
                std::thread::yield_now();
            }
            if idle > PATIENCE {
                break;
            }
        }
        self.segments.take_bare(kind, self.reserve()).ok_or(PutError::Full)
    }

    /// Brings a group below its ceiling, if it would be above it with this many more bytes.
    pub(crate) fn enforce(&self, group: usize, coming: u64, now: Ms) -> Result<(), PutError> {
        if !self.shares.limited() || !self.options.evict {
            return Ok(());
        }
        let mut idle = 0;
        for round in 0..ROUNDS {
            if !self.shares.over(group, coming) {
                return Ok(());
            }
            if !self.evict(round / PATIENCE, From::Only(group, coming), now) {
                idle += 1;
                std::thread::yield_now();
            }
            if idle > PATIENCE {
                break;
            }
        }
        if self.shares.over(group, coming) { Err(PutError::Full) } else { Ok(()) }
    }

    /// May a record of this size be stored in a group at all? Without eviction, the ceiling is
    /// strict.
    pub(crate) fn admit(&self, group: usize, bytes: u64) -> Result<(), PutError> {
        if !self.shares.limited() {
            return Ok(());
        }
        if bytes > self.shares.ceiling(group) {
            return Err(PutError::TooLarge);
        }
        if !self.options.evict && self.shares.over(group, bytes) {
            return Err(PutError::Full);
        }
        Ok(())
    }

    /// Seals segments that have been open for long because few entries are of their class, so that
    /// their entries get their turn. A nearly empty one stays open: sealed, it would hold the place
    /// of a full segment until its turn came.
    pub(crate) fn close_old(&self) {
        let now = self.segments.next_serial();
        let old = self.segments.count() as u64 / 4;
        let size = self.segments.size();
        self.close(None, |segment, fill| {
            let much = fill * 2 >= size || self.segments.alive(segment) >= size;
            self.segments.serial(segment) + old < now && much
        });
    }

    /// Seals open segments, of one group or all.
    pub(crate) fn close(&self, group: Option<usize>, which: impl Fn(u32, usize) -> bool) {
        let logs = self.small.iter().chain(&self.main);
        for log in logs.filter(|log| group.is_none_or(|g| log.row / CLASSES == g)) {
            log.close_if(&self.segments, &which, &mut |s| self.sealed(log, s));
        }
    }

    /// Removes all entries of one segment except those read more than `pressure` times. False if no
    /// segment can be emptied.
    fn evict(&self, pressure: u32, from: From, now: Ms) -> bool {
        // A segment that is being emptied is in no queue: it is not given away meanwhile.
        let _here = self.leaving.hold();
        self.close_old();
        let (From::Any(group) | From::Only(group, _)) = from;
        let victim = self.victim(from).or_else(|| {
            // A few large values can occupy all of the memory through records in segments that are
            // still open.
            let worth = self.segments.size() / 8;
            self.close(self.shares.limited().then_some(group), |s, _| {
                self.segments.alive(s) >= worth
            });
            self.victim(from)
        });
        let victim = victim.or_else(|| {
            self.close(matches!(from, From::Only(..)).then_some(group), |_, _| true);
            self.victim(from)
        });
        let Some(victim) = victim else { return false };
        let why = match from {
            From::Any(_) => Why::Evict(pressure),
            From::Only(_, coming) => Why::Trim(pressure, coming),
        };
        self.empty(victim.segment, victim.kind, why, now);
        if self.shares.limited() {
            self.queues.lock().left(victim);
        }
        self.segments.release(victim.segment, victim.segment);
        true
    }

    fn victim(&self, from: From) -> Option<Victim> {
        // While few segments are in limbo, a segment pinned by readers is evicted like any other
        // (and is free a moment later, mostly). Beyond that, pinned segments are skipped, so that
        // slow readers cannot take the memory of the rest.
        let crowded = self.segments.number(Kind::Limbo) * 8 > self.segments.count();
        let mut queues = self.queues.lock();
        let only = |group| {
            let mut spare = [0; GROUPS];
            spare[group] = usize::MAX;
            spare
        };
        if !self.shares.limited() {
            return queues.take(self, &[usize::MAX; GROUPS], crowded);
        }
        match from {
            From::Only(group, _) => queues.take(self, &only(group), crowded),
            From::Any(group) => {
                let spare: Spare =
                    std::array::from_fn(|g| self.shares.spare(g, queues.leaving(self, g)));
                queues
                    .take(self, &spare, crowded)
                    .or_else(|| queues.take(self, &only(group), crowded))
            }
        }
    }

    /// Unlinks every record of a segment that was taken out of its queue. False if it could not: if
    /// all records are to be kept and free space ran out, the rest is unchanged.
    pub(crate) fn empty(&self, segment: u32, kind: Kind, why: Why, now: Ms) -> bool {
        self.segments.unseal(segment);
        let filled = self.segments.heat(segment).filled.load(Relaxed) as usize;
        let mut whole = true;
        held::walk(&self.segments, Hold::victim(), segment, filled, |record| {
            whole = whole && self.settle(record, kind, why, now);
        });
        whole
    }

    /// Queue and changing word of a record that is kept; `None` if it is dropped.
    fn fate(&self, record: &Record<'_>, kind: Kind, why: Why, now: Ms) -> Option<(Kind, u32)> {
        let word = record.word();
        if let Why::Evict(pressure) | Why::Trim(pressure, _) = why
            && let Some(stays) = self.owner_stays(record, kind, pressure, now)
        {
            // From now on it is in its next turn (`parts.rs`).
            return stays.then(|| (Kind::Main, word.history(Some(now))));
        }
        if let Why::Evict(pressure) | Why::Trim(pressure, _) = why
            && let Some(stays) = self.stub_stays(record, pressure)
        {
            return stays.then_some((Kind::Main, word.0));
        }
        match (why, self.options.policy, kind) {
            (Why::Compact, _, _) => Some((kind, word.0)),
            (Why::Trim(_, coming), _, _)
                if record.piece(0).is_some()
                    && !self.shares.over(self.shares.of(record.ns()), coming) =>
            {
                Some((kind, word.0))
            }
            (_, Policy::Fifo, _) => None,
            (Why::Evict(pressure) | Why::Trim(pressure, _), _, _)
                if word.frequency() <= pressure =>
            {
                None
            }
            (_, Policy::S3Fifo, Kind::Main) => {
                Some((Kind::Main, word.with_frequency(word.frequency() - 1)))
            }
            // An owner's parts follow: they find it used.
            (_, Policy::S3Fifo, _) => {
                Some((Kind::Main, word.with_frequency(u32::from(self.may_own(record)))))
            }
        }
    }

    /// Moves or drops one record of a victim. False if it must be kept and there is no free space.
    fn settle(&self, record: &Record<'_>, kind: Kind, why: Why, now: Ms) -> bool {
        let hash = self.hasher.key(record.ns(), record.key());
        loop {
            match self.try_settle(record, hash, kind, why, now) {
                Settled::Done => return true,
                Settled::NoRoom => return false,
                Settled::Again => {}
            }
        }
    }

    fn try_settle(
        &self,
        record: &Record<'_>,
        hash: Hash,
        kind: Kind,
        why: Why,
        now: Ms,
    ) -> Settled {
        let linked = |_: &_, _, loc| if loc == record.loc() { Seen::Yes(()) } else { Seen::No };
        let fate = self.fate(record, kind, why, now).filter(|_| !self.outdated(record, now));
        let fate = fate.filter(|_| self.index.find(&self.segments, hash, linked).is_some());
        // Space first: nothing is reserved under a stripe's lock.
        let draft = fate.map(|(to, word)| (to, record.draft(word, self.roomy())));
        let group = self.shares.of(record.ns());
        let space = draft.and_then(|(to, d)| {
            Some((self.survivor_space(to, group, d.size(now), d.bytes(), now)?, to, d))
        });
        if why == Why::Compact && draft.is_some() && space.is_none() {
            return Settled::NoRoom;
        }
        let leaves = why != Why::Compact && space.is_none();
        let ticket = if leaves { self.handover_ticket(record, kind) } else { None };
        let may_leave = leaves && ticket.is_none();
        let mut stub = if may_leave { self.coming_stub(record, hash, now) } else { None };
        // Even a record that looks unlinked needs the lock: the thread that unlinked it may still
        // be reading it.
        let mut locked = self.index.lock(&self.segments, hash);
        let Some(place) = locked.find_loc(record.loc()) else { return Settled::Done };
        if let Some((mut space, to, mut draft)) = space {
            if record.expires() != draft.expires {
                return Settled::Again;
            }
            draft.word = draft.word & !(STALE | CLAIMED) | record.word().0 & (STALE | CLAIMED);
            draft.write(&self.segments, &mut space, now, &[record.local()]);
            locked.replace(place, space.loc());
            self.moved(record, kind, to, draft.size(now), space.segment());
            self.away.moved(record, draft.size(now));
            return Settled::Done;
        }
        let outdated = self.outdated(record, now);
        if let Some(stub) = stub.as_mut().filter(|_| !outdated) {
            let left = self.leave_stub(&mut locked, record, kind, stub, now);
            drop(locked);
            let Some(leaving) = left else { return Settled::Again };
            leaving.give();
            return Settled::Done;
        }
        if why == Why::Compact && !outdated {
            // It was linked or touched a moment ago.
            return Settled::Again;
        }
        let handed = ticket.filter(|_| !outdated);
        let handed = handed.and_then(|ticket| self.handed(&locked, record, hash, ticket));
        locked.remove(place);
        self.retire(record, if outdated { Gone::Outdated } else { Gone::Evicted }, now);
        drop(locked);
        if let Some(handed) = handed {
            handed.give();
        }
        if !outdated {
            self.tell(record, Cause::Evicted, now);
        } else if !self.is_flushed(record) {
            self.tell(record, Cause::Expired, now);
        }
        if !outdated && self.options.policy == Policy::S3Fifo {
            self.ghost.add(hash, kind, record.size());
        }
        Settled::Done
    }

    /// Updates the counters for a record that moves to another place.
    pub(crate) fn moved(
        &self,
        record: &Record<'_>,
        from: Kind,
        to: Kind,
        size: usize,
        segment: u32,
    ) {
        let pieces = record.pieces().len() / 4;
        if pieces != 0 && from != to {
            let group = self.shares.of(record.ns());
            let mut queues = self.queues.lock();
            queues.chained(from, group, -(pieces as isize));
            queues.chained(to, group, pieces as isize);
        }
        self.segments.enter(segment, size, pieces);
        self.segments.leave(record.loc().segment(), record.size(), pieces);
        self.shares.add(record.ns(), size.wrapping_sub(record.size()));
    }

    /// Space in a log of `kind` and `group` for a record of `len` bytes whose entry has `bytes`;
    /// evicts if necessary. No lock may be held.
    pub(crate) fn space(
        &self,
        kind: Kind,
        group: usize,
        len: usize,
        bytes: u64,
        now: Ms,
    ) -> Result<Space<'_>, PutError> {
        self.reserve_space(kind, group, len, bytes, now, || self.take_segment(kind, group, now))
    }

    /// Space without evicting: from the reserved segments.
    pub(crate) fn survivor_space(
        &self,
        kind: Kind,
        group: usize,
        len: usize,
        bytes: u64,
        now: Ms,
    ) -> Option<Space<'_>> {
        let fresh = || self.segments.take(kind, 0).ok_or(PutError::Full);
        self.reserve_space(kind, group, len, bytes, now, fresh).ok()
    }

    fn reserve_space(
        &self,
        kind: Kind,
        group: usize,
        len: usize,
        bytes: u64,
        now: Ms,
        segment: impl Fn() -> Result<u32, PutError>,
    ) -> Result<Space<'_>, PutError> {
        let mut fresh = None;
        let log = self.log(kind, group, bytes);
        loop {
            match log.reserve(&self.segments, len, now, &mut fresh, &mut |s| self.sealed(log, s)) {
                Outcome::NeedsSegment => fresh = Some(segment()?),
                Outcome::Space(space) => {
                    // Another thread opened a new segment meanwhile.
                    if let Some(unneeded) = fresh {
                        self.segments.release(unneeded, unneeded);
                    }
                    return Ok(space);
                }
            }
        }
    }

    pub(crate) fn sealed(&self, log: &Log, segment: u32) {
        self.queues.lock().push(log.kind, log.row, segment);
    }

    /// Size classes by which entries are sorted.
    pub(crate) fn classes_for(segments: usize, groups: usize, policy: Policy) -> usize {
        let few = groups > 1 && segments < SORTED * groups;
        if few || policy == Policy::Fifo { 1 } else { CLASSES }
    }

    #[inline]
    pub(crate) fn log(&self, kind: Kind, group: usize, bytes: u64) -> &Log {
        let logs = if kind == Kind::Main { &self.main } else { &self.small };
        let class = if self.classes == 1 { 0 } else { self.learnt.class(group, bytes) };
        let set = if self.sets == 1 { 0 } else { thread_number() % self.sets };
        &logs[set * row(self.shares.groups(), 0) + row(group, class)]
    }
}
