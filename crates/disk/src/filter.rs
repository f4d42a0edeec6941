//! Which keys a segment may have records of, live or not: two bytes a record.
//!
//! A purge of a key has to be in the journal if any segment has a record of it, be it one that the
//! index has forgotten: a start would find it again. Without this, each purge of a key that was
//! never on the disk would be written.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bits for each record: one in 1500 keys is thought to be there and is not.
const BITS: usize = 16;
/// Bits set for each record, all in one line of memory.
const SET: u32 = 7;
const LINE: usize = 8;

/// See the module.
pub(crate) struct Filter(Box<[AtomicU64]>);

impl Filter {
    /// A filter for about so many records; with more it errs more often.
    pub(crate) fn new(records: usize) -> Self {
        let lines = (records * BITS).div_ceil(64 * LINE).max(1);
        Self((0..lines * LINE).map(|_| AtomicU64::new(0)).collect())
    }

    fn bits(&self, hash: u64) -> impl Iterator<Item = (usize, u64)> {
        // The index uses the upper and the lower bits for other ends: mix them.
        let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let lines = (self.0.len() / LINE) as u128;
        let line = ((u128::from(mixed) * lines) >> 64) as usize * LINE;
        let bits = mixed.wrapping_mul(0xd6e8_feb8_6659_fd93);
        (0..SET).map(move |n| {
            let bit = bits >> (n * 9) & 511;
            (line + (bit >> 6) as usize, 1 << (bit & 63))
        })
    }

    pub(crate) fn add(&self, hash: u64) {
        for (word, bit) in self.bits(hash) {
            self.0[word].fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Whether the key may have been added.
    pub(crate) fn may_have(&self, hash: u64) -> bool {
        self.bits(hash).all(|(word, bit)| self.0[word].load(Ordering::Relaxed) & bit != 0)
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> u64 {
        (self.0.len() * 8) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::key_hash;

    #[test]
    fn it_knows_what_was_added_and_little_else() {
        let filter = Filter::new(10_000);
        let hash = |n: u32| key_hash(&n.to_le_bytes());
        (0..10_000).for_each(|n| filter.add(hash(n)));
        assert!((0..10_000).all(|n| filter.may_have(hash(n))));
        let wrong = (10_000..110_000).filter(|n| filter.may_have(hash(*n))).count();
        assert!(wrong < 400, "{wrong} of 100,000");
        assert!(filter.memory() <= 10_000 * 2 + 64);
    }
}
