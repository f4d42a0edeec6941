//! The index given to another process, and an empty one in its place (`succession.rs`).

use super::layout::{grown, pack, unpack};
use super::{IDLE, Index, loc_of};
use crate::pin::SLOT;
use crate::segment::Segments;
use crate::succession::{Image, Saved};
use parking_lot::MutexGuard;
use std::sync::atomic::Ordering;

/// The index while no slot changes.
pub(crate) struct LockedIndex<'a> {
    counts: Vec<MutexGuard<'a, usize>>,
    installed: MutexGuard<'a, usize>,
}

impl Index {
    /// Locks every stripe. Nobody may hold one and wait for another lock of the caller's.
    pub(crate) fn lock_all(&self) -> LockedIndex<'_> {
        let counts = self.counts.iter().map(|count| count.0.lock()).collect();
        LockedIndex { counts, installed: self.installing.lock() }
    }

    /// The segments of its pages.
    pub(crate) fn page_segments(&self, locked: &LockedIndex<'_>) -> Vec<u32> {
        let pages = self.pages.iter().take(*locked.installed);
        pages.map(|page| page.load(Ordering::Relaxed)).collect()
    }

    pub(crate) fn save(&self, locked: &LockedIndex<'_>, out: &mut Image) {
        out.list(self.layouts.iter().map(|layout| layout.load(Ordering::Relaxed)));
        out.list(locked.counts.iter().map(|count| **count as u64));
        out.list(self.page_segments(locked).into_iter().map(u64::from));
    }

    pub(crate) fn load(&self, from: &mut Saved<'_>) -> Option<()> {
        let (layouts, counts, pages) = (from.list()?, from.list()?, from.list()?);
        let fits = layouts.len() == self.layouts.len() && counts.len() == self.counts.len();
        if !fits || pages.is_empty() || pages.len() > self.pages.len() {
            return None;
        }
        for (new, count) in counts.iter().zip(&self.counts) {
            *count.0.lock() = usize::try_from(*new).ok()?;
        }
        for (number, page) in self.pages.iter().enumerate() {
            let segment = *pages.get(number).unwrap_or(&pages[0]);
            let segment = u32::try_from(segment).ok().filter(|s| (*s as usize) < self.pages.len());
            page.store(segment?, Ordering::Release);
        }
        *self.installing.lock() = pages.len();
        for (new, layout) in layouts.iter().zip(&self.layouts) {
            layout.store(*new, Ordering::SeqCst);
        }
        Some(())
    }

    /// Empties the slots that point to these segments. Nobody else uses the index. (Counts of
    /// entries put beyond a bucket stay: searches are longer than necessary, never wrong.)
    pub(crate) fn drop_slots(&self, segments: &Segments, gone: &[bool]) {
        for (stripe, count) in self.counts.iter().enumerate() {
            let mut count = count.0.lock();
            let (buckets, cursor) = unpack(self.layouts[stripe].load(Ordering::Relaxed));
            let buckets = if cursor == IDLE { buckets } else { grown(buckets) };
            for slot in (0..buckets).flat_map(|n| self.bucket(segments, stripe, n)) {
                let value = slot.load(Ordering::Relaxed);
                if value & SLOT != 0 && gone[loc_of(value).segment() as usize] {
                    slot.store(value & !SLOT, Ordering::Relaxed);
                    *count -= 1;
                }
            }
        }
    }

    /// Empties it: its only page is `first`, which is zero. A reader that is in the middle of a
    /// search finds what was there, or nothing.
    pub(crate) fn reset(&self, locked: &mut LockedIndex<'_>, first: u32) {
        for layout in &self.layouts {
            layout.store(pack(1 << self.local_bits, IDLE), Ordering::SeqCst);
        }
        self.pages.iter().for_each(|page| page.store(first, Ordering::SeqCst));
        *locked.installed = 1;
        locked.counts.iter_mut().for_each(|count| **count = 0);
    }
}
