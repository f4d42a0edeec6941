//! How a stripe grows: by a sixteenth, in place, a few buckets with each insertion (see `index.rs`).

use super::{IDLE, Locked, count_beyond, grown, home, overflow, pack, tag_of, unpack};
use crate::pin::SLOT;
use std::sync::atomic::Ordering;

impl Locked<'_> {
    /// Starts growing if the stripe is full enough. Returns the page that is missing for that, if one is.
    pub(crate) fn grow(&mut self) -> Option<usize> {
        let (buckets, cursor) = unpack(self.layout());
        // 84 %: 8 slots * 0.84 = 6.72.
        if cursor != IDLE || *self.count * 100 < buckets * 672 {
            return None;
        }
        let page = (grown(buckets) - 1) >> self.index.local_bits;
        if self.index.pages.get(page)?.load(Ordering::Acquire) == 0 {
            return Some(page);
        }
        // Readers must know of the wide layout before the first entry is moved to it.
        self.publish(pack(buckets, buckets));
        None
    }

    fn publish(&self, layout: u64) {
        self.index.stripes[self.stripe].layout.0.store(layout, Ordering::SeqCst);
    }

    /// Empties one more bucket, if growing.
    pub(super) fn migrate_bucket(&mut self) {
        let (buckets, cursor) = unpack(self.layout());
        if cursor != IDLE {
            self.migrate(buckets, cursor);
        }
    }

    /// Moves the entries of the old home below `cursor` to the wide layout.
    fn migrate(&mut self, buckets: usize, cursor: usize) {
        let from = cursor - 1;
        let mut list = Vec::with_capacity(32);
        for distance in 0..buckets {
            let bucket = self.bucket((from + distance) % buckets);
            for (slot, value) in bucket.iter().map(|s| s.load(Ordering::Relaxed) & SLOT).enumerate() {
                // During growth an entry of the wide layout may lie here too, but then its old home is above the cursor.
                if value != 0 && home(tag_of(value), buckets) == from {
                    list.push((distance, slot, value));
                }
            }
            if !overflow(bucket) {
                break;
            }
        }
        let wide = grown(buckets);
        for (distance, slot, value) in list {
            // Somewhere there is room: the wide layout has more slots than there are entries.
            let moved = self.insert_in((home(tag_of(value), wide), wide), wide, value);
            debug_assert!(moved);
            self.store(self.bucket((from + distance) % buckets), slot, 0);
            for d in 0..distance {
                count_beyond(self.bucket((from + d) % buckets), false);
            }
        }
        self.publish(if from == 0 { pack(wide, IDLE) } else { pack(buckets, from) });
    }
}
