//! The index: from a key's hash to its record, eight bytes a slot at a load of 79 to 84 %.
//!
//! The hash picks a stripe (its top bits) and a 24-bit tag. A stripe is a row of buckets, each a
//! cache line of eight slots; the home bucket is `tag * buckets >> 24`, so that an entry's home
//! follows from its slot alone, and buckets are in the order of tags. When the home is full, the
//! entry goes to a later bucket. Every bucket counts the entries that were put beyond it (one bit
//! of the count in each of its slots), and a search continues only while the count is not zero.
//!
//! A stripe grows by a sixteenth, in place: buckets are emptied from the last to the first into the
//! wider layout, a few with each insertion (`STEPS`). Homes only move up, so that a bucket's new
//! home is never one that is still to be emptied. Below the cursor the old layout holds, from it on
//! the new one.
//!
//! Readers take no lock. A slot is moved by writing the new place before clearing the old; a reader
//! that finds nothing looks in the new layout too while one is being built, and starts again if the
//! cursor moved meanwhile. Every thread that changes slots holds the stripe's lock ([`Locked`]).
//!
//! slot = overflow bit 1 | tag 24 | segment 21 | offset 18; zero but for the overflow bit: empty.
//! (Segment 0 is always the index's first page, so that no location is zero.)

mod ahead;
mod growth;
mod layout;
mod succession;
#[cfg(test)]
mod tests;

use crate::hash::Hash;
use crate::map::Bucket;
use crate::pin::SLOT;
use crate::segment::{LOC_BITS, Loc, Segments};
use layout::{TAG_BITS, grown, home, pack, place_in, unpack};
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
pub(crate) use succession::LockedIndex;

const OVERFLOW: u64 = 1 << 63;
/// The tag in a slot.
const TAG: u64 = SLOT & !((1 << LOC_BITS) - 1);
const BUCKET: usize = 64;
/// Buckets an insertion examines before it fails. At the load at which the index grows, a run of so
/// many full buckets is eight deviations off (a run of 64 is four, and occurred once in 300,000
/// insertions), so only an index that cannot grow for lack of memory reaches this limit.
const REACH: usize = 256;
/// Buckets emptied with each insertion while a stripe grows. Slightly more than one would suffice;
/// with more a stripe is seldom growing when it is read, which costs readers a second search.
const STEPS: usize = 12;
/// The cursor of a stripe that is not growing: above every bucket, so that one layout holds for
/// all.
const IDLE: usize = 0x7fff_ffff;
/// Buckets visited by a walk under one lock.
const VISIT: usize = 4;

/// Number of entries of a stripe, on a cache line of its own: every change of its slots writes it.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Count(Mutex<usize>);

/// See the module.
#[derive(Debug)]
pub(crate) struct Index {
    /// Of each stripe: buckets (low half) and cursor (high half). Side by side, as every search
    /// reads one and only growth writes them (a bucket at a time): 32 lines stay in the near
    /// caches; one line for each stripe would not.
    layouts: Box<[AtomicU64]>,
    counts: Box<[Count]>,
    stripe_bits: u32,
    /// Buckets of one stripe in one page, as a power of two.
    local_bits: u32,
    /// Segment of each page; that of the first where there is none yet, so that a reader that is
    /// late finds memory that it may read.
    pages: Box<[AtomicU32]>,
    installing: Mutex<usize>,
}

/// Result of a reader's look at one slot.
pub(crate) enum Seen<R> {
    /// Another key.
    No,
    /// The slot changed meanwhile: search again.
    Changed,
    Yes(R),
}

/// A slot found under the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Offset of its bucket.
    at: usize,
    slot: usize,
    distance: usize,
    loc: Loc,
}

/// An empty slot found under the lock, and its distance from the requested home.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Free {
    at: usize,
    slot: usize,
    distance: usize,
}

/// A stripe whose slots this thread may change.
pub(crate) struct Locked<'a> {
    index: &'a Index,
    segments: &'a Segments,
    stripe: usize,
    tag: u64,
    count: MutexGuard<'a, usize>,
}

fn tag_of(slot: u64) -> u64 {
    (slot & SLOT) >> LOC_BITS
}

fn loc_of(slot: u64) -> Loc {
    Loc(slot & ((1 << LOC_BITS) - 1))
}

fn overflow(bucket: &Bucket) -> bool {
    bucket.iter().any(|s| s.load(Ordering::Acquire) & OVERFLOW != 0)
}

/// Adds to the count of entries put beyond `bucket`. The count never looks like zero in between.
fn count_beyond(bucket: &Bucket, add: bool) {
    // Usually only the lowest bit changes.
    let (first, last) = (bucket[0].load(Ordering::Relaxed), bucket[7].load(Ordering::Relaxed));
    if add != (first & OVERFLOW != 0) && (add || last & OVERFLOW == 0) {
        bucket[0].store(first ^ OVERFLOW, Ordering::Release);
        return;
    }
    let flags = bucket
        .iter()
        .enumerate()
        .fold(0u32, |n, (i, s)| n | ((s.load(Ordering::Relaxed) >> 63) as u32) << i);
    // A count that reached its maximum stays there: searches are longer than necessary, never
    // wrong.
    let new = if flags == 255 {
        255
    } else if add {
        flags + 1
    } else {
        flags.saturating_sub(1)
    };
    for (i, slot) in bucket.iter().enumerate().filter(|(i, _)| new & !flags & 1 << i != 0) {
        slot.store(slot.load(Ordering::Relaxed) | OVERFLOW, Ordering::Release);
        debug_assert!(new >> i & 1 == 1);
    }
    for (_, slot) in bucket.iter().enumerate().filter(|(i, _)| flags & !new & 1 << i != 0) {
        slot.store(slot.load(Ordering::Relaxed) & SLOT, Ordering::Release);
    }
}

impl Index {
    /// An index whose first `first` segments are already taken as pages.
    pub(crate) fn new(segments: &Segments, first: u32) -> Index {
        let stripe_bits = if segments.size() > 1 << 18 { 8 } else { 6 };
        let local_bits = segments.size().ilog2() - BUCKET.ilog2() - stripe_bits;
        Index {
            layouts: (0..1 << stripe_bits)
                .map(|_| AtomicU64::new(pack(1 << local_bits, IDLE)))
                .collect(),
            counts: (0..1 << stripe_bits).map(|_| Count::default()).collect(),
            stripe_bits,
            local_bits,
            pages: (0..segments.count()).map(|_| AtomicU32::new(first)).collect(),
            installing: Mutex::new(1),
        }
    }

    fn split(&self, hash: Hash) -> (usize, u64) {
        let short = u64::from(hash.short());
        let stripe = (short >> (32 - self.stripe_bits)) as usize;
        (stripe, short >> (32 - self.stripe_bits - TAG_BITS) & ((1 << TAG_BITS) - 1))
    }

    pub(crate) fn stripes(&self) -> usize {
        self.layouts.len()
    }

    /// Number of slots.
    pub(crate) fn slots(&self) -> usize {
        self.layouts.iter().map(|layout| 8 * unpack(layout.load(Ordering::Relaxed)).0).sum()
    }

    #[inline]
    fn bucket<'a>(&self, segments: &'a Segments, stripe: usize, bucket: usize) -> &'a Bucket {
        segments.map.bucket(self.bucket_at(segments, stripe, bucket))
    }

    #[inline]
    fn bucket_at(&self, segments: &Segments, stripe: usize, bucket: usize) -> usize {
        let page = self.pages[bucket >> self.local_bits].load(Ordering::Acquire);
        let within = stripe << self.local_bits | (bucket & ((1 << self.local_bits) - 1));
        segments.start(page) + within * BUCKET
    }

    /// Calls `f` with every slot that has the key's tag until it accepts one. Takes no lock.
    #[inline(always)]
    pub(crate) fn find<'a, R>(
        &self,
        segments: &'a Segments,
        hash: Hash,
        mut f: impl FnMut(&'a AtomicU64, u64, Loc) -> Seen<R>,
    ) -> Option<R> {
        let (stripe, tag) = self.split(hash);
        let layout = &self.layouts[stripe];
        let before = layout.load(Ordering::Acquire);
        let idle = unpack(before).1 == IDLE;
        match self.probe(segments, stripe, tag, place_in(before, tag), &mut f) {
            Seen::Yes(r) => return Some(r),
            Seen::No if idle && layout.load(Ordering::Acquire) == before => return None,
            Seen::No | Seen::Changed => {}
        }
        self.find_moving(segments, stripe, tag, &mut f)
    }

    /// [`Index::find`] for a key that the first search missed while the stripe grows, or whose slot
    /// just changed.
    #[cold]
    #[inline(never)]
    fn find_moving<'a, R>(
        &self,
        segments: &'a Segments,
        stripe: usize,
        tag: u64,
        f: &mut impl FnMut(&'a AtomicU64, u64, Loc) -> Seen<R>,
    ) -> Option<R> {
        loop {
            let layout = self.layouts[stripe].load(Ordering::Acquire);
            let mut seen = self.probe(segments, stripe, tag, place_in(layout, tag), f);
            let (buckets, cursor) = unpack(layout);
            if matches!(seen, Seen::No) && cursor != IDLE {
                let wide = (home(tag, grown(buckets)), grown(buckets));
                seen = self.probe(segments, stripe, tag, wide, f);
            }
            match seen {
                Seen::Yes(r) => return Some(r),
                Seen::No if self.layouts[stripe].load(Ordering::Acquire) == layout => return None,
                Seen::No | Seen::Changed => std::hint::spin_loop(),
            }
        }
    }

    #[inline(always)]
    fn probe<'a, R>(
        &self,
        segments: &'a Segments,
        stripe: usize,
        tag: u64,
        (home, buckets): (usize, usize),
        f: &mut impl FnMut(&'a AtomicU64, u64, Loc) -> Seen<R>,
    ) -> Seen<R> {
        let mut bucket = home;
        let mut at = self.bucket_at(segments, stripe, bucket);
        for _ in 0..buckets {
            let mut flags = 0;
            for slot in segments.map.bucket(at) {
                let value = slot.load(Ordering::Acquire);
                flags |= value;
                if (value ^ tag << LOC_BITS) & TAG == 0 && value & SLOT != 0 {
                    match f(slot, value, loc_of(value)) {
                        Seen::No => {}
                        other => return other,
                    }
                }
            }
            if flags & OVERFLOW == 0 {
                break;
            }
            (bucket, at) = self.next(segments, stripe, buckets, bucket, at);
        }
        Seen::No
    }

    /// The bucket after `bucket`, whose offset is `at`.
    #[inline(always)]
    fn next(
        &self,
        segments: &Segments,
        stripe: usize,
        buckets: usize,
        bucket: usize,
        at: usize,
    ) -> (usize, usize) {
        let next = if bucket + 1 == buckets { 0 } else { bucket + 1 };
        // The next bucket of a page is the next line.
        let crosses = next & ((1 << self.local_bits) - 1) == 0;
        (next, if crosses { self.bucket_at(segments, stripe, next) } else { at + BUCKET })
    }

    #[inline]
    pub(crate) fn lock<'a>(&'a self, segments: &'a Segments, hash: Hash) -> Locked<'a> {
        let (stripe, tag) = self.split(hash);
        Locked { index: self, segments, stripe, tag, count: self.counts[stripe].0.lock() }
    }

    /// Makes room for stripes to grow: `segment` becomes the next page, unless another thread
    /// already installed page `wanted`. `segment` belongs to the caller. False if it was not
    /// needed.
    pub(crate) fn install(&self, segments: &Segments, wanted: usize, segment: u32) -> bool {
        let mut installed = self.installing.lock();
        if *installed > wanted || *installed == self.pages.len() {
            return false;
        }
        segments.zero(segment);
        self.pages[*installed].store(segment, Ordering::Release);
        *installed += 1;
        true
    }

    /// Calls `f` with the places of entries of `stripe` whose tag is at least `from`, for a few
    /// buckets, holding the lock. Returns the tag to continue with; `None` at the stripe's end.
    pub(crate) fn visit(
        &self,
        segments: &Segments,
        stripe: usize,
        from: u64,
        f: &mut dyn FnMut(&Locked<'_>, Loc),
    ) -> Option<u64> {
        let count = self.counts[stripe].0.lock();
        let mut locked = Locked { index: self, segments, stripe, tag: from, count };
        for _ in 0..VISIT {
            let (home, buckets) = locked.place();
            // All entries of this home have tags below this one. (Where the layouts meet, a walk
            // enters a wide home in the middle.)
            let end = ((home as u64 + 1) << TAG_BITS).div_ceil(buckets as u64);
            let wanted = locked.tag..end;
            for distance in 0..buckets {
                let bucket = locked.bucket((home + distance) % buckets);
                let values = bucket.iter().map(|s| s.load(Ordering::Relaxed));
                values
                    .filter(|v| v & SLOT != 0 && wanted.contains(&tag_of(*v)))
                    .for_each(|v| f(&locked, loc_of(v)));
                if !overflow(bucket) {
                    break;
                }
            }
            if end >= 1 << TAG_BITS {
                return None;
            }
            locked.tag = end;
        }
        Some(locked.tag)
    }
}

impl<'a> Locked<'a> {
    fn place(&self) -> (usize, usize) {
        place_in(self.layout(), self.tag)
    }

    fn layout(&self) -> u64 {
        self.index.layouts[self.stripe].load(Ordering::Relaxed)
    }

    fn bucket(&self, bucket: usize) -> &'a Bucket {
        self.index.bucket(self.segments, self.stripe, bucket)
    }

    /// The first slot of this tag whose location `f` accepts.
    #[inline(always)]
    pub(crate) fn find(&self, mut f: impl FnMut(Loc) -> bool) -> Option<Place> {
        let (home, buckets) = self.place();
        let wanted = self.tag << LOC_BITS;
        let mut bucket = home;
        let mut at = self.index.bucket_at(self.segments, self.stripe, bucket);
        for distance in 0..buckets {
            let mut flags = 0;
            for (slot, value) in self.segments.map.bucket(at).iter().enumerate() {
                let value = value.load(Ordering::Relaxed);
                flags |= value;
                if (value ^ wanted) & TAG == 0 && value & SLOT != 0 && f(loc_of(value)) {
                    return Some(Place { at, slot, distance, loc: loc_of(value) });
                }
            }
            if flags & OVERFLOW == 0 {
                break;
            }
            (bucket, at) = self.index.next(self.segments, self.stripe, buckets, bucket, at);
        }
        None
    }

    /// The slot that points to `loc`, if there is one.
    pub(crate) fn find_loc(&self, loc: Loc) -> Option<Place> {
        self.find(|l| l == loc)
    }

    /// The location the slot points to.
    #[inline]
    pub(crate) fn loc(&self, place: Place) -> Loc {
        place.loc
    }

    /// Release ordering only: a thread that is about to reuse the segment the slot pointed to
    /// fences before it looks for pins (`pin.rs`).
    #[inline]
    fn store(&self, bucket: &Bucket, slot: usize, value: u64) {
        let slot = &bucket[slot];
        slot.store(slot.load(Ordering::Relaxed) & OVERFLOW | value, Ordering::Release);
    }

    /// Points the entry's slot to another place.
    pub(crate) fn replace(&mut self, place: Place, loc: Loc) {
        self.store(self.segments.map.bucket(place.at), place.slot, self.tag << LOC_BITS | loc.0);
    }

    pub(crate) fn remove(&mut self, place: Place) {
        self.store(self.segments.map.bucket(place.at), place.slot, 0);
        self.count_run(self.place(), place.distance, false);
        *self.count -= 1;
    }

    /// An empty slot near the home.
    #[inline]
    pub(crate) fn free(&self) -> Option<Free> {
        self.free_near(self.place(), REACH)
    }

    /// Adds an entry, in the slot that [`Locked::free`] has just found for it.
    #[inline]
    pub(crate) fn insert(&mut self, free: Free, loc: Loc) {
        self.fill(self.place(), free, self.tag << LOC_BITS | loc.0);
        *self.count += 1;
        if self.is_growing() {
            self.migrate(STEPS);
        }
    }

    /// An entry near the home that `f` accepts, to be dropped when `insert` found no free slot.
    pub(crate) fn any(&self, f: impl Fn(Loc) -> bool) -> Option<(Loc, Hash)> {
        let (home, buckets) = self.place();
        let near = (0..buckets.min(REACH)).flat_map(|d| self.bucket((home + d) % buckets));
        let mut values = near.map(|s| s.load(Ordering::Relaxed)).filter(|v| v & SLOT != 0);
        let value = values.find(|v| f(loc_of(*v)))?;
        let short = (self.stripe as u64) << TAG_BITS | tag_of(value);
        Some((loc_of(value), Hash(short << (64 - TAG_BITS - self.index.stripe_bits))))
    }

    /// The same lock, for another entry of the stripe.
    pub(crate) fn aim(&mut self, hash: Hash) {
        let (stripe, tag) = self.index.split(hash);
        debug_assert_eq!(stripe, self.stripe);
        self.tag = tag;
    }

    /// The first empty slot at `home` or in the buckets after it.
    #[inline]
    fn free_near(&self, (home, buckets): (usize, usize), reach: usize) -> Option<Free> {
        let mut bucket = home;
        let mut at = self.index.bucket_at(self.segments, self.stripe, bucket);
        for distance in 0..buckets.min(reach) {
            let slots = self.segments.map.bucket(at);
            let empty = slots.iter().position(|s| s.load(Ordering::Relaxed) & SLOT == 0);
            if let Some(slot) = empty {
                return Some(Free { at, slot, distance });
            }
            (bucket, at) = self.index.next(self.segments, self.stripe, buckets, bucket, at);
        }
        None
    }

    /// Fills an empty slot found from `home` on.
    #[inline]
    fn fill(&self, (home, buckets): (usize, usize), free: Free, value: u64) {
        if free.distance != 0 {
            self.count_run((home, buckets), free.distance, true);
        }
        self.store(self.segments.map.bucket(free.at), free.slot, value);
    }

    /// [`count_beyond`] for a run of buckets from `home` on.
    fn count_run(&self, (home, buckets): (usize, usize), distance: usize, add: bool) {
        let mut bucket = home;
        let mut at = self.index.bucket_at(self.segments, self.stripe, bucket);
        for _ in 0..distance {
            count_beyond(self.segments.map.bucket(at), add);
            (bucket, at) = self.index.next(self.segments, self.stripe, buckets, bucket, at);
        }
    }
}
