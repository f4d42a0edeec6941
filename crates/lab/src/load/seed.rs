//! Seeds of seeds.

/// A seed of its own for part `part` of what has `seed` (splitmix64's finish).
pub(crate) fn mixed(seed: u64, part: u64) -> u64 {
    let mut word = seed.wrapping_add(part.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
