//! How a stripe grows: by a sixteenth, in place, a few buckets with each insertion (see
//! `index.rs`).

use super::{Free, IDLE, Locked, OVERFLOW, TAG_BITS, grown, home, pack, tag_of, unpack};
use crate::pin::SLOT;
use crate::segment::LOC_BITS;
use std::sync::atomic::Ordering;

/// Entries of one home kept without the heap: three times as many as there are slots in it. Few
/// homes have more.
const FEW: usize = 24;

/// Homes in the wide layout that entries of one old home may have: an old home is up to an eighth
/// wider than a wide one, and may begin near the end of one.
const HOMES: usize = 3;

/// An entry being moved to the wide layout: its bucket, its slot there, and the distance from its
/// old home.
#[derive(Clone, Copy, Debug, Default)]
struct Moving {
    value: u64,
    at: usize,
    slot: usize,
    distance: usize,
}

impl Locked<'_> {
    /// Starts growing if the stripe is full enough. Returns the page that is missing for that, if
    /// any.
    pub(crate) fn grow(&mut self) -> Option<usize> {
        let (buckets, cursor) = unpack(self.layout());
        // 84 %: 8 slots * 0.84 = 6.72.
        if cursor != IDLE || *self.count * 100 < buckets * 672 {
            return None;
        }
        let page = (grown(buckets) - 1) >> self.index.local_bits;
        let first = self.index.pages[0].load(Ordering::Acquire);
        if page > 0 && self.index.pages.get(page)?.load(Ordering::Acquire) == first {
            return Some(page);
        }
        // Readers must know of the wide layout before the first entry is moved to it.
        self.publish(pack(buckets, buckets));
        None
    }

    fn publish(&self, layout: u64) {
        self.index.layouts[self.stripe].store(layout, Ordering::SeqCst);
    }

    #[inline]
    pub(super) fn is_growing(&self) -> bool {
        unpack(self.layout()).1 != IDLE
    }

    /// Empties this many more buckets, or all that remain.
    #[inline(never)]
    pub(super) fn migrate(&mut self, steps: usize) {
        for _ in 0..steps {
            let (buckets, cursor) = unpack(self.layout());
            if cursor == IDLE {
                return;
            }
            self.migrate_bucket(buckets, cursor);
        }
    }

    /// Moves the entries of the old home below `cursor` to the wide layout.
    fn migrate_bucket(&mut self, buckets: usize, cursor: usize) {
        let from = cursor - 1;
        // The tags at home here, in the slots' place. (The smallest with `home(tag) >= n` is
        // `n << TAG_BITS / buckets`, rounded up.)
        let first =
            |bucket: usize| (((bucket as u64) << TAG_BITS).div_ceil(buckets as u64)) << LOC_BITS;
        // An empty slot is zero, and no other is.
        let least = first(from).max(1);
        let span = first(cursor) - least;
        let mut list = [Moving::default(); FEW];
        let mut more = Vec::new();
        let mut found = 0;
        let (mut bucket, mut at) = (from, self.index.bucket_at(self.segments, self.stripe, from));
        for distance in 0..buckets {
            let mut flags = 0;
            for (slot, value) in self.segments.map.bucket(at).iter().enumerate() {
                let value = value.load(Ordering::Relaxed);
                flags |= value;
                // During growth an entry of the wide layout may lie here too, but then its old home
                // is above the cursor.
                if (value & SLOT).wrapping_sub(least) < span {
                    let moving = Moving { value: value & SLOT, at, slot, distance };
                    match list.get_mut(found) {
                        Some(place) => *place = moving,
                        None => more.push(moving),
                    }
                    found += 1;
                }
            }
            if flags & OVERFLOW == 0 {
                break;
            }
            (bucket, at) = self.index.next(self.segments, self.stripe, buckets, bucket, at);
        }
        let wide = grown(buckets);
        let lowest = home(tag_of(first(from)), wide);
        let mut walks = [None; HOMES];
        for moving in list[..found.min(FEW)].iter().chain(&more) {
            self.widen(moving, from, buckets, lowest, &mut walks);
        }
        self.publish(if from == 0 { pack(grown(buckets), IDLE) } else { pack(buckets, from) });
    }

    /// Moves an entry from its old home to the wide layout. `walks` are the last empty slots found
    /// for each wide home from `lowest` on.
    #[inline]
    fn widen(
        &self,
        moving: &Moving,
        from: usize,
        buckets: usize,
        lowest: usize,
        walks: &mut [Option<Free>; HOMES],
    ) {
        let wide = grown(buckets);
        let place = (home(tag_of(moving.value), wide), wide);
        let walk = &mut walks[(place.0 - lowest) % HOMES];
        // Where the last entry of this home was put, the buckets before are full. There is always a
        // free slot: the wide layout has more slots than there are entries.
        let beside = walk.and_then(|last| self.free_beside(last));
        *walk = beside.or_else(|| self.free_near(place, wide));
        debug_assert!(walk.is_some());
        if let Some(free) = *walk {
            self.fill(place, free, moving.value);
        }
        self.store(self.segments.map.bucket(moving.at), moving.slot, 0);
        if moving.distance != 0 {
            self.count_run((from, buckets), moving.distance, false);
        }
    }

    /// The next empty slot of the same bucket.
    #[inline]
    fn free_beside(&self, last: Free) -> Option<Free> {
        let slots = &self.segments.map.bucket(last.at)[last.slot..];
        let next = slots.iter().position(|s| s.load(Ordering::Relaxed) & SLOT == 0)?;
        Some(Free { slot: last.slot + next, ..last })
    }
}
