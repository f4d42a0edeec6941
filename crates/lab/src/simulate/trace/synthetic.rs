//! Synthetic traces from a seed, also for `larder bench compare --plan hitratio`. The store's
//! benchmark has the same generator, number for number (crates/store/benches/store/trace.rs), so
//! that all figures refer to the same requests. Writes and times to live are additions.

use std::time::Duration;

use super::spec::{Shape, Synthetic, Values};
use crate::load::{Operation, Source, Verb};
use crate::random::{Random, mix, unit};

/// Requests between two scans, start of the scan within them, and its length.
const SCAN: (u64, u64, u64) = (150_000, 100_000, 50_000);
/// Requests between two drifts; each moves popularity by a sixteenth of all keys.
const DRIFT: u64 = 250_000;
/// Entries of the guide table for the binary search.
const GUIDE: usize = 1 << 16;

pub(super) struct Generator {
    spec: Synthetic,
    cdf: Vec<f64>,
    /// For each 65,536th of the range, the first possible rank.
    guide: Vec<u32>,
    random: Random,
    /// Random numbers for additions to the original, so that keys stay the same.
    extra: Random,
    produced: u64,
    fresh: u32,
    shift: u64,
    scan: u64,
}

impl Generator {
    pub(super) fn new(spec: Synthetic) -> Generator {
        let skew = if spec.shape == Shape::Uniform { 0.0 } else { spec.skew };
        let mut total = 0.0;
        let mut cdf: Vec<f64> = (1..=spec.keys)
            .map(|rank| {
                total += f64::from(rank).powf(-skew);
                total
            })
            .collect();
        cdf.iter_mut().for_each(|sum| *sum /= total);
        let guide = (0..=GUIDE).map(|at| at as f64 / GUIDE as f64);
        let guide = guide.map(|start| cdf.partition_point(|sum| *sum < start) as u32).collect();
        Generator {
            random: Random::new(spec.seed),
            extra: Random::new(mix(spec.seed ^ 0x0065_7874_7261)),
            fresh: spec.keys,
            cdf,
            guide,
            spec,
            produced: 0,
            shift: 0,
            scan: 0,
        }
    }

    fn fresh(&mut self) -> u32 {
        self.fresh = self.fresh.wrapping_add(1);
        self.fresh.wrapping_sub(1)
    }

    fn popular(&self, u: f64) -> u32 {
        let part = (u * GUIDE as f64) as usize;
        let (low, high) = (self.guide[part] as usize, self.guide[part + 1] as usize);
        let high = (high + 1).min(self.cdf.len());
        let rank = low + self.cdf[low..high].partition_point(|sum| *sum < u);
        let rank = rank.min(self.cdf.len() - 1) as u64;
        let spread = rank.wrapping_mul(2_654_435_761).wrapping_add(12_345 + self.shift);
        (spread % u64::from(self.spec.keys)) as u32
    }

    fn key(&mut self) -> u32 {
        let (at, u) = (self.produced, self.random.unit());
        match self.spec.shape {
            Shape::Scan => {
                if at % SCAN.0 == SCAN.1 {
                    self.scan = SCAN.2;
                }
                if self.scan > 0 {
                    self.scan -= 1;
                    return self.fresh();
                }
            }
            Shape::OneHit if self.random.number() & 1 == 1 => return self.fresh(),
            Shape::Drift if at > 0 && at.is_multiple_of(DRIFT) => {
                self.shift += u64::from(self.spec.keys / 16 + 1)
            }
            _ => {}
        }
        self.popular(u)
    }
}

fn scrambled(number: u64) -> u64 {
    Random::new(number.wrapping_mul(0x2545_f491_4f6c_dd1d).wrapping_add(77)).number()
}

/// Size of a key's value, always the same.
fn value(values: Values, id: u32) -> usize {
    match values {
        Values::Fixed(bytes) => bytes as usize,
        Values::Lognormal => {
            let first = scrambled(u64::from(id));
            let second = scrambled(first ^ 0x5bd1_e995);
            let z = (-2.0 * (unit(first) + 1e-18).ln()).sqrt()
                * (std::f64::consts::TAU * unit(second)).cos();
            (300.0 * z.exp()).clamp(16.0, 4096.0) as usize
        }
    }
}

impl Source for Generator {
    fn next(&mut self, operation: &mut Operation) -> bool {
        if self.produced == self.spec.requests {
            return false;
        }
        let id = self.key();
        operation.key.clear();
        operation.key.extend_from_slice(b"k0000000");
        let hex = b"0123456789abcdef";
        operation.key.extend((0..8).map(|at| hex[(id >> (28 - 4 * at)) as usize & 15]));
        operation.size = value(self.spec.values, id);
        operation.ttl = self.spec.ttl;
        operation.verb = Verb::Get;
        if self.spec.writes > 0.0 && self.extra.unit() < self.spec.writes {
            operation.verb = Verb::Set;
        }
        operation.at = Some(Duration::from_secs_f64(self.produced as f64 / self.spec.rate));
        self.produced += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(shape: Shape, requests: u64) -> Vec<(String, usize)> {
        let mut source = Generator::new(Synthetic { shape, requests, ..Synthetic::default() });
        let (mut operation, mut all) = (Operation::default(), Vec::new());
        while source.next(&mut operation) {
            all.push((String::from_utf8_lossy(&operation.key).into_owned(), operation.size));
        }
        all
    }

    #[test]
    fn scans_and_one_hit_wonders_are_of_new_keys() {
        let scan = first(Shape::Scan, 150_001);
        assert_eq!(scan.len(), 150_001);
        assert_eq!(scan[100_000].0, format!("k0000000{:08x}", 1_000_000));
        assert_eq!(scan[149_999].0, format!("k0000000{:08x}", 1_049_999));
        let new = first(Shape::OneHit, 20_000)
            .iter()
            .filter(|(key, _)| key.as_str() >= "k0000000000f4240")
            .count();
        assert!((9_700..10_300).contains(&new), "{new}");
    }

    #[test]
    fn sizes_are_lognormal_and_belong_to_the_key() {
        let mut sizes: Vec<usize> = (0..100_000).map(|id| value(Values::Lognormal, id)).collect();
        sizes.sort_unstable();
        assert!((295..305).contains(&sizes[50_000]), "median {}", sizes[50_000]);
        assert!(sizes[0] >= 16 && sizes[99_999] <= 4096);
        assert_eq!(value(Values::Lognormal, 77), value(Values::Lognormal, 77));
    }
}
