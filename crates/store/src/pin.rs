//! Pins: readers keep bytes in place without writing a line that other threads write.
//!
//! Every thread has a row of counters, one per segment. A reader that found a slot pins the slot's
//! segment in its own row and then reads the slot again; an evictor first clears all slots into a
//! segment and then reads the counters of all rows. Of these two (write mine, read yours) pairs at
//! least one sees the other, since the reader's are sequentially consistent and a fence stands
//! between the evictor's: either the reader finds the slot changed and releases the pin, or the
//! evictor finds the pin and sets the segment aside. `tests/loom.rs` runs this module through every
//! interleaving.
//!
//! A pin remembers its row, so that it may be dropped on any thread.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence, thread_number};
use std::ptr::NonNull;

/// The slot's location and tag bits (all but the overflow flag, see `index.rs`).
pub const SLOT: u64 = !(1 << 63);

const LINE: usize = 32;

/// A pair of cache lines (processors fetch pairs) so that rows never share one.
#[repr(align(128))]
#[derive(Debug)]
struct Line([AtomicU32; LINE]);

/// Lines of counters, on the heap or in a mapping that outlives them.
#[derive(Debug)]
struct Lines {
    lines: NonNull<[Line]>,
    own: bool,
}

// SAFETY: counters are atomics, and may be used by any thread.
unsafe impl Send for Lines {}
// SAFETY: as above.
unsafe impl Sync for Lines {}

impl Lines {
    fn own(lines: Box<[Line]>) -> Lines {
        // SAFETY: a box is never null.
        Lines { lines: unsafe { NonNull::new_unchecked(Box::into_raw(lines)) }, own: true }
    }
}

impl std::ops::Deref for Lines {
    type Target = [Line];

    #[inline]
    fn deref(&self) -> &[Line] {
        // SAFETY: they live as long as this value (`own`, or the promise of `PinTable::mapped`).
        unsafe { self.lines.as_ref() }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if self.own {
            // SAFETY: made from a box in `own`, and given back once.
            drop(unsafe { Box::from_raw(self.lines.as_ptr()) });
        }
    }
}

/// Counters of all threads for all segments.
#[derive(Debug)]
pub struct PinTable {
    lines: Lines,
    lines_per_row: usize,
    rows: usize,
    /// Counters of another process that has the same memory.
    other: Option<Lines>,
}

/// Keeps a segment from being reused until dropped.
#[derive(Debug)]
pub struct Pin<'s> {
    counter: &'s AtomicU32,
}

impl PinTable {
    /// For `segments` segments and about `threads` threads; further threads share rows.
    pub fn new(segments: usize, threads: usize) -> PinTable {
        let rows = rows(threads);
        let lines_per_row = segments.div_ceil(LINE);
        let line = |_| Line(std::array::from_fn(|_| AtomicU32::new(0)));
        let lines = Lines::own((0..rows * lines_per_row).map(line).collect());
        PinTable { lines, lines_per_row, rows, other: None }
    }

    /// A table in memory that two processes share, each with a half of `memory`, whose length is
    /// twice [`PinTable::size`]. `second`: this process has the second half.
    ///
    /// # Safety
    /// The memory is aligned to 128 bytes, zero at first, used for nothing else, and outlives the
    /// table.
    #[cfg(not(loom))]
    pub(crate) unsafe fn mapped(
        memory: NonNull<u8>,
        segments: usize,
        threads: usize,
        second: bool,
    ) -> PinTable {
        let (rows, lines_per_row) = (rows(threads), segments.div_ceil(LINE));
        let half = |n: usize| {
            let number = rows * lines_per_row;
            // SAFETY: within the memory, by the caller's promise.
            let start = unsafe { memory.cast::<Line>().add(n * number) };
            Lines { lines: NonNull::slice_from_raw_parts(start, number), own: false }
        };
        let (own, other) = (half(usize::from(second)), half(usize::from(!second)));
        PinTable { lines: own, lines_per_row, rows, other: Some(other) }
    }

    /// The other process has ended: what it had pinned is free.
    #[cfg(not(loom))]
    pub(crate) fn clear_other(&self) {
        let lines = self.other.iter().flat_map(|other| other.iter());
        lines.flat_map(|line| &line.0).for_each(|counter| counter.store(0, Ordering::SeqCst));
    }

    /// Size of a table, in bytes.
    pub fn size(segments: usize, threads: usize) -> usize {
        rows(threads) * segments.div_ceil(LINE) * size_of::<Line>()
    }

    #[inline]
    fn counter(&self, row: usize, segment: u32) -> &AtomicU32 {
        let s = segment as usize;
        &self.lines[row * self.lines_per_row + s / LINE].0[s % LINE]
    }

    /// Pins `segment` in this thread's row if `slot` still holds `expected` afterwards.
    #[inline]
    pub fn pin_if(&self, segment: u32, slot: &AtomicU64, expected: u64) -> Option<Pin<'_>> {
        self.pin_row(thread_number() & (self.rows - 1), segment, slot, expected)
    }

    /// [`PinTable::pin_if`] in a given row.
    #[inline]
    pub fn pin_row(
        &self,
        row: usize,
        segment: u32,
        slot: &AtomicU64,
        expected: u64,
    ) -> Option<Pin<'_>> {
        let pin = self.pin_in(row, segment);
        (slot.load(Ordering::SeqCst) & SLOT == expected & SLOT).then_some(pin)
    }

    /// Pins a segment that the caller knows cannot be reused now.
    #[inline]
    pub fn pin(&self, segment: u32) -> Pin<'_> {
        self.pin_in(thread_number() & (self.rows - 1), segment)
    }

    #[inline]
    fn pin_in(&self, row: usize, segment: u32) -> Pin<'_> {
        let counter = self.counter(row, segment);
        counter.fetch_add(1, Ordering::SeqCst);
        // On x86 the locked add is a full barrier already. Elsewhere, and in the model (which knows
        // sequential consistency of fences only), it is spelled out.
        #[cfg(any(loom, not(target_arch = "x86_64")))]
        fence(Ordering::SeqCst);
        Pin { counter }
    }

    /// Does any reader hold `segment`? Call it after every slot into the segment was cleared: a
    /// "no" then stays true, and all accesses of readers happened before it.
    pub fn pinned(&self, segment: u32) -> bool {
        fence(Ordering::SeqCst);
        let at = |lines: &[Line], row: usize| {
            let s = segment as usize;
            lines[row * self.lines_per_row + s / LINE].0[s % LINE].load(Ordering::SeqCst) != 0
        };
        (0..self.rows).any(|row| at(&self.lines, row))
            || self.other.as_ref().is_some_and(|other| (0..self.rows).any(|row| at(other, row)))
    }
}

fn rows(threads: usize) -> usize {
    // Two more: the caller's own thread and a sweeping thread.
    (threads + 2).next_power_of_two().min(1024)
}

impl Clone for Pin<'_> {
    /// The segment is pinned already: no order is needed.
    #[inline]
    fn clone(&self) -> Self {
        self.counter.fetch_add(1, Ordering::Relaxed);
        Pin { counter: self.counter }
    }
}

impl Drop for Pin<'_> {
    #[inline]
    fn drop(&mut self) {
        self.counter.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_pin_counts_until_dropped_even_elsewhere() {
        let table = PinTable::new(100, 4);
        let slot = AtomicU64::new(7 | 1 << 63);
        let pin = table.pin_if(42, &slot, 7).expect("the flag is not compared");
        assert!(table.pinned(42) && !table.pinned(41));
        std::thread::scope(|s| s.spawn(move || drop(pin)).join()).expect("no panic");
        assert!(!table.pinned(42));
    }

    #[test]
    fn no_pin_on_a_slot_that_changed() {
        let table = PinTable::new(1, 1);
        assert!(table.pin_if(0, &AtomicU64::new(8), 7).is_none());
        assert!(!table.pinned(0));
    }
}
