//! Helpers shared by several tests.

use larder_store::*;

/// A store with large values allowed and evictions that follow the seed.
pub(crate) fn open(budget: usize) -> Store {
    Store::open(Options {
        budget,
        max_value: 1 << 30,
        policy: Policy::S3Fifo,
        seed: 7,
        threads: 2,
        ..Options::default()
    })
    .unwrap()
}

/// All bytes of an entry's value.
pub(crate) fn value(e: &Entry<'_>) -> Vec<u8> {
    e.chunks().flatten().copied().collect()
}
