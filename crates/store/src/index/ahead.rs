//! Prefetching the index's memory before the search (see `hint.rs`).

use super::{BUCKET, Index, TAG, loc_of, place_in};
use crate::hash::Hash;
use crate::pin::SLOT;
use crate::segment::{LOC_BITS, Loc, Segments};
use std::sync::atomic::{AtomicU64, Ordering};

impl Index {
    /// Prefetches the home bucket of a hash; returns its offset.
    #[inline]
    pub(crate) fn prefetch(&self, segments: &Segments, hash: Hash) -> usize {
        let (stripe, tag) = self.split(hash);
        let layout = self.layouts[stripe].load(Ordering::Relaxed);
        let (bucket, _) = place_in(layout, tag);
        let at = self.bucket_at(segments, stripe, bucket);
        segments.map.prefetch(at);
        at
    }

    /// Prefetches two lines of the record that a slot of the bucket at `at` with this tag points to
    /// (there is seldom more than one such slot); returns the offset of that slot.
    #[inline]
    pub(crate) fn prefetch_record(
        &self,
        segments: &Segments,
        hash: Hash,
        at: usize,
    ) -> Option<usize> {
        let wanted = self.split(hash).1 << LOC_BITS;
        let at = at & !(BUCKET - 1);
        let slots = segments.map.bucket(at);
        let slot = slots.iter().position(|s| (s.load(Ordering::Relaxed) ^ wanted) & TAG == 0)?;
        let record = segments.at(loc_of(slots[slot].load(Ordering::Relaxed)));
        segments.map.prefetch(record);
        segments.map.prefetch((record + BUCKET).min(segments.size() * segments.count() - 1));
        Some(at + slot * size_of::<u64>())
    }

    /// Calls `f` with the slot at `at`, as returned by [`Index::prefetch_record`], if it has the
    /// key's tag. (Pages of the index are never freed. Offset 0, the default, lies in the first of
    /// them.)
    #[inline]
    pub(crate) fn find_at<'a, R>(
        &self,
        segments: &'a Segments,
        hash: Hash,
        at: usize,
        f: impl FnOnce(&'a AtomicU64, u64, Loc) -> Option<R>,
    ) -> Option<R> {
        let slot = &segments.map.bucket(at & !(BUCKET - 1))[at / size_of::<u64>() % 8];
        let value = slot.load(Ordering::Acquire);
        let found = (value ^ self.split(hash).1 << LOC_BITS) & TAG == 0 && value & SLOT != 0;
        if found { f(slot, value, loc_of(value)) } else { None }
    }
}
