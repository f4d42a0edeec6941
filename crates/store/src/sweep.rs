//! The sweep frees the memory of expired, flushed and replaced entries that nobody accesses. Every
//! segment has the earliest time at which an entry in it may expire; a sweep reads only segments
//! whose time has come, not single entries.

use crate::evict::Why;
use crate::held::{self, Hold};
use crate::item::Record;
use crate::segment::Kind;
use crate::store::{Gone, Store};
use crate::types::{Cause, Ms};
use std::sync::atomic::{Ordering, fence};

/// Shortest time between two sweeps of a segment, in ms, however many different expiries it holds.
const PAUSE: Ms = 1000;

/// Huge pages that one sweep asks for, of 2 MiB each, if nothing was written since the last one;
/// and if something was: threads that write may wait for each (docs/performance.md, the longest a
/// command holds its thread).
const HUGE_PAGES: (usize, usize) = (32, 1);
/// Segments begun since the last sweep with which that counts as nothing.
const LITTLE: u64 = 1;

impl Store {
    /// Frees memory of expired and flushed entries, and of segments that are mostly dead; reads at
    /// most about `budget` bytes of segments. Returns the bytes of the removed entries. Call it
    /// about every 100 ms, on a thread that may wait for some milliseconds: it also asks the system
    /// for huge pages.
    pub fn sweep(&self, now: Ms, budget: usize) -> usize {
        self.sweep_hidden();
        self.sweep_stubs(now);
        let mut removed = self.sweep_open(now);
        let count = self.segments.count();
        let start = self.swept.load(Ordering::Relaxed) as usize;
        let mut looked = 0;
        for step in 0..count {
            if looked >= budget {
                break;
            }
            let segment = ((start + step) % count) as u32;
            self.swept.store(u64::from(segment) + 1, Ordering::Relaxed);
            looked += self.sweep_segment(segment, now, &mut removed);
        }
        self.tags.tidy(self);
        self.segments.reap_limbo();
        self.make_huge();
        removed
    }

    /// Asks for huge pages where nobody writes.
    fn make_huge(&self) {
        let serial = self.segments.next_serial();
        let begun = serial.saturating_sub(self.swept_serial.swap(serial, Ordering::Relaxed));
        let most = if begun <= LITTLE { HUGE_PAGES.0 } else { HUGE_PAGES.1 };
        let size = self.segments.size();
        self.segments.map.make_huge(most, |at, len| {
            let mut segments = (at / size..(at + len).div_ceil(size)).map(|n| n as u32);
            segments.all(|segment| {
                let is_log = matches!(self.segments.kind(segment), Kind::Small | Kind::Main);
                !is_log || self.segments.sealed(segment).is_some()
            })
        });
    }

    /// Returns the bytes read.
    fn sweep_segment(&self, segment: u32, now: Ms, removed: &mut usize) -> usize {
        let mut looked = self.sweep_outdated(segment, now, removed);
        let kind = self.segments.kind(segment);
        if self.segments.sealed(segment).is_none() || !matches!(kind, Kind::Small | Kind::Main) {
            return looked;
        }
        let heat = self.segments.heat(segment);
        let live = heat.live();
        // This includes a segment that was sealed nearly empty. Copying needs space that eviction
        // needs too.
        if live * 2 <= self.segments.size() && self.segments.number(Kind::Free) >= 2 {
            looked += live;
            self.compact(segment, kind, now);
        }
        looked
    }

    /// Removes outdated entries of a sealed segment, if its time has come. Returns the bytes read.
    pub(crate) fn sweep_outdated(&self, segment: u32, now: Ms, removed: &mut usize) -> usize {
        let heat = self.segments.heat(segment);
        if heat.expiry.load(Ordering::Relaxed) > now {
            return 0;
        }
        let kind = self.segments.kind(segment);
        let Some(phase) = self.segments.sealed(segment) else { return 0 };
        if !matches!(kind, Kind::Small | Kind::Main) || heat.busy() {
            return 0;
        }
        let filled = heat.filled.load(Ordering::Relaxed) as usize;
        // As for readers of a slot: pinned while sealed, the segment is not reused before the pin
        // is dropped.
        let Some(pin) = self.segments.pins.pin_if(segment, &heat.phase, phase) else { return 0 };
        heat.expiry.store(u64::MAX, Ordering::Relaxed);
        *removed += self.remove_outdated(Hold::pinned(&pin), segment, filled, now);
        filled
    }

    /// Copies the live records of a segment to the end of its queue. False, and nothing lost, if
    /// there is no space for them.
    pub(crate) fn compact(&self, segment: u32, kind: Kind, now: Ms) -> bool {
        let _here = self.leaving.hold();
        let Some(row) = self.queues.lock().remove(kind, segment) else { return false };
        let heat = self.segments.heat(segment);
        let idle = !heat.busy();
        if idle && self.empty(segment, kind, Why::Compact, now) {
            self.segments.release(segment, segment);
            return true;
        }
        heat.phase.fetch_or(1, Ordering::SeqCst);
        self.queues.lock().put_back(kind, row, segment, |s| self.segments.serial(s));
        false
    }

    /// Sweeps open segments up to their filled length, when nobody is writing to them.
    pub(crate) fn sweep_open(&self, now: Ms) -> usize {
        let logs = self.small.iter().chain(&self.main);
        logs.map(|log| {
            let open = log.lock();
            let Some(segment) = open.segment else { return 0 };
            let heat = self.segments.heat(segment);
            let due = heat.expiry.load(Ordering::Relaxed) <= now && !heat.busy();
            if !due {
                return 0;
            }
            // Pinned while the log is locked, so that a thread that seals and evicts it later finds
            // the pin. The bytes written so far do not change.
            let (pin, fill) = (self.segments.pins.pin(segment), open.fill);
            // From here on it is the earliest time of the bytes written beyond that.
            heat.expiry.store(u64::MAX, Ordering::Relaxed);
            drop(open);
            self.remove_outdated(Hold::pinned(&pin), segment, fill, now)
        })
        .sum()
    }

    fn unlink_outdated(&self, record: &Record<'_>, now: Ms) -> bool {
        let unlinked = self.unlink(record, Gone::Outdated, now);
        if unlinked && !self.is_flushed(record) {
            self.tell(record, Cause::Expired, now);
        }
        unlinked
    }

    /// Removes outdated entries of a segment whose time was set to never, and sets the time again.
    fn remove_outdated(&self, hold: Hold<'_>, segment: u32, filled: usize, now: Ms) -> usize {
        let expiry = &self.segments.heat(segment).expiry;
        fence(Ordering::SeqCst);
        let mut next = u64::MAX;
        let mut removed = 0;
        held::walk(&self.segments, hold, segment, filled, |record| {
            if self.outdated(record, now) {
                removed += if self.unlink_outdated(record, now) { record.size() } else { 0 };
            } else {
                next = next.min(record.expires().unwrap_or(u64::MAX));
            }
        });
        // A thread that touched an entry meanwhile has set its own time.
        expiry.fetch_min(next.max(now + PAUSE), Ordering::Relaxed);
        removed
    }
}
