//! Random numbers for RANDOMKEY and HRANDFIELD; not for secrets.

use std::{
    cell::Cell,
    hash::{BuildHasher, RandomState},
};

thread_local! {
    static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0));
}

/// The next number (SplitMix64).
pub(super) fn random() -> u64 {
    STATE.with(|state| {
        let next = state.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        state.set(next);
        let mixed = (next ^ next >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    })
}

/// A number of `0..below`.
pub(super) fn pick(below: usize) -> usize {
    ((u128::from(random()) * below as u128) >> 64) as usize
}
