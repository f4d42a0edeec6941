//! The logs: open segments to which records are appended, and the right to write one record.
//!
//! A writer reserves space under the log's lock, copies its bytes without any lock, links the
//! record in the index, and only then releases the space ([`Space`] dropped). A sealed segment is
//! walked, compacted or evicted only when all its spaces were released, so that every record in it
//! is complete.

use crate::item::pad;
use crate::segment::{Heat, Kind, Loc, Segments};
use parking_lot::{Mutex, MutexGuard};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// One of the logs of a queue.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) kind: Kind,
    /// Group and class of its records (`queues.rs`).
    pub(crate) row: usize,
    open: Mutex<Open>,
}

/// The open segment and the length already reserved in it.
#[derive(Debug, Default)]
pub(crate) struct Open {
    pub(crate) segment: Option<u32>,
    pub(crate) fill: usize,
    /// Times within the range of the segment's clock.
    times: Range<u64>,
}

/// Result of a reservation.
pub(crate) enum Outcome<'s> {
    Space(Space<'s>),
    /// The open segment cannot take it: give [`Log::reserve`] a fresh one.
    NeedsSegment,
}

/// The exclusive right to a range of an open segment.
#[derive(Debug)]
pub(crate) struct Space<'s> {
    heat: &'s Heat,
    loc: Loc,
    /// Start of the range: checked once to lie in the mapping with its whole length.
    start: *mut u8,
    len: usize,
    written: usize,
    /// Bytes to count as linked when it is released.
    linked: usize,
}

impl Log {
    pub(crate) fn new(kind: Kind, row: usize) -> Log {
        Log { kind, row, open: Mutex::new(Open::default()) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock()
    }

    /// Reserves `len` bytes (a multiple of 4, at most a segment). With a `fresh` segment the open
    /// one is sealed if needed; sealed segments go to `sealed`; an unneeded fresh one is left in
    /// place.
    #[inline]
    pub(crate) fn reserve<'s>(
        &self,
        segments: &'s Segments,
        len: usize,
        now: u64,
        fresh: &mut Option<u32>,
        sealed: &mut dyn FnMut(u32),
    ) -> Outcome<'s> {
        debug_assert!(len.is_multiple_of(4) && len <= segments.size());
        let mut open = self.open.lock();
        loop {
            if let Some(segment) = open.segment
                && open.fill + len <= segments.size()
                && open.times.contains(&now)
            {
                let loc = Loc::new(segment, open.fill);
                open.fill += len;
                // Nobody else writes it while the log is locked.
                let heat = segments.heat(segment);
                heat.records.store(heat.records.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                let start = segments.map.range(segments.at(loc), len);
                return Outcome::Space(Space { heat, loc, start, len, written: 0, linked: 0 });
            }
            let Some(segment) = fresh.take() else { return Outcome::NeedsSegment };
            seal(&mut open, segments, sealed);
            segments.begin(segment, now);
            segments.set_kind(segment, self.kind);
            *open = Open { segment: Some(segment), fill: 0, times: segments.clock(segment) };
        }
    }

    /// Seals the open segment if `f`, which is given its reserved length, returns true; does
    /// nothing if the log is busy.
    pub(crate) fn close_if(
        &self,
        segments: &Segments,
        f: impl Fn(u32, usize) -> bool,
        sealed: &mut dyn FnMut(u32),
    ) {
        let Some(mut open) = self.open.try_lock() else { return };
        if open.segment.is_some_and(|segment| f(segment, open.fill)) {
            seal(&mut open, segments, sealed);
        }
    }

    /// Seals the open segment of a log that the caller has locked.
    pub(crate) fn close_locked(open: &mut Open, segments: &Segments, sealed: &mut dyn FnMut(u32)) {
        seal(open, segments, sealed);
    }

    /// Seals the open segment, so that records stored later have a higher serial.
    pub(crate) fn close(&self, segments: &Segments, sealed: &mut dyn FnMut(u32)) {
        seal(&mut self.open.lock(), segments, sealed);
    }
}

fn seal(open: &mut Open, segments: &Segments, sealed: &mut dyn FnMut(u32)) {
    if let Some(segment) = open.segment.take() {
        segments.seal(segment, open.fill);
        sealed(segment);
    }
}

impl Space<'_> {
    pub(crate) fn loc(&self) -> Loc {
        self.loc
    }

    pub(crate) fn segment(&self) -> u32 {
        self.loc.segment()
    }

    /// Appends bytes to the record.
    #[inline(always)]
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.len - self.written, "a record fits its space");
        // SAFETY: this value has the exclusive right to its range, which lies in the mapping (the
        // mapping outlives `'s`), and the bytes fit its rest.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(self.written), bytes.len())
        };
        self.written += bytes.len();
    }

    /// [`Space::put`] for a few bytes, without a call.
    #[inline(always)]
    pub(crate) fn put_word<const N: usize>(&mut self, bytes: [u8; N]) {
        self.put(&bytes);
    }

    /// Releases the space and counts its record, which is linked, under the lock of the record's
    /// stripe.
    #[inline]
    pub(crate) fn give_back_linked(mut self) {
        self.linked = self.len;
    }

    /// Turns the range into a gap that walks skip.
    pub(crate) fn discard(mut self) {
        self.clear();
    }

    fn clear(&mut self) {
        self.written = 0;
        self.put(&pad(self.len));
        self.written = self.len;
    }
}

impl Drop for Space<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.written == 0 {
            self.clear();
        }
        self.heat.give_back(self.linked);
    }
}
