//! Random numbers as Redis's `math.random` gives them after `math.randomseed`: the generator of
//! `drand48`, 48 bits, of which 31 are shown.

/// The generator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

const MASK: u64 = (1 << 48) - 1;
/// Largest number drawn (Redis: `REDIS_LRAND48_MAX`).
const MOST: u64 = i32::MAX as u64;

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        let mut random = Random(0);
        random.seed(seed as i32);
        random
    }

    pub(crate) fn seed(&mut self, seed: i32) {
        self.0 = u64::from(seed as u32) << 16 | 0x330E;
    }

    /// A number from 0 up to, but not including, 1.
    pub(crate) fn draw(&mut self) -> f64 {
        self.0 = (self.0.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB)) & MASK;
        ((self.0 >> 17) % MOST) as f64 / MOST as f64
    }
}
