//! The layout of a stripe: its buckets, the cursor of its growth, and the homes of tags (see
//! `index.rs`).

/// Bits of a hash that a slot keeps.
pub(super) const TAG_BITS: u32 = 24;

/// Buckets of the wider layout.
#[inline]
pub(super) fn grown(buckets: usize) -> usize {
    buckets + (buckets / 8).max(1)
}

/// Buckets and cursor of a stripe.
#[inline]
pub(super) fn unpack(layout: u64) -> (usize, usize) {
    ((layout & 0xffff_ffff) as usize, (layout >> 32) as usize)
}

#[inline]
pub(super) fn pack(buckets: usize, cursor: usize) -> u64 {
    buckets as u64 | (cursor as u64) << 32
}

/// The first bucket that an entry with this tag is looked for in.
#[inline]
pub(super) fn home(tag: u64, buckets: usize) -> usize {
    ((tag * buckets as u64) >> TAG_BITS) as usize
}

/// Home and buckets of the layout that holds for `tag`.
#[inline]
pub(super) fn place_in(layout: u64, tag: u64) -> (usize, usize) {
    let (buckets, cursor) = unpack(layout);
    let old = home(tag, buckets);
    if old < cursor { (old, buckets) } else { (home(tag, grown(buckets)), grown(buckets)) }
}
