//! splitmix64 (Steele, Lea, Flood 2014): the same seed gives the same numbers on every machine and
//! with every library version.

/// Increment of the generator's state.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    #[inline]
    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number from 0 to below 1.
    pub(crate) fn unit(&mut self) -> f64 {
        unit(self.number())
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(bound)) >> 64) as u64
    }
}

/// The finalizer of splitmix64: similar inputs give unrelated outputs.
#[inline]
pub(crate) fn mix(number: u64) -> u64 {
    let z = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A seed for part `part`, derived from `seed`.
pub(crate) fn derived(seed: u64, part: u64) -> u64 {
    mix(seed.wrapping_add(part.wrapping_add(1).wrapping_mul(STEP)))
}

pub(crate) fn unit(number: u64) -> f64 {
    (number >> 11) as f64 / 9_007_199_254_740_992.0
}
