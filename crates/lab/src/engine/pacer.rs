//! Due times of an open loop, in nanoseconds since the start of the run.

use rand::{Rng, SeedableRng, rngs::SmallRng};
use rand_distr::{Distribution, Exp1};

use super::Plan;
use crate::load::{Arrivals, Pace};

/// Generator of the due times of one thread.
pub(super) enum Pacer {
    /// Closed loop: answers trigger requests.
    Answers,
    /// Equal gaps over the run; the threads alternate, so that the whole run has exactly its rate.
    Even { next: u64, step: u64, rate: u128 },
    /// Exponential gaps; the combined times of all threads are again a Poisson process.
    Poisson { at: f64, gap: f64, random: Box<SmallRng> },
    /// Times that come with the requests.
    Recorded { speed: f64 },
}

/// Rates are counted in thousandths of a request per second, so that due times have no accumulating
/// rounding errors.
const PARTS: f64 = 1000.0;

impl Pacer {
    pub(super) fn new(plan: &Plan, thread: usize) -> Pacer {
        match plan.pace {
            Pace::Closed => Pacer::Answers,
            Pace::Open { rate, arrivals: Arrivals::Even } => Pacer::Even {
                next: thread as u64,
                step: plan.threads as u64,
                rate: ((rate * PARTS).round() as u128).max(1),
            },
            Pace::Open { rate, arrivals: Arrivals::Poisson } => {
                let seed = plan.seed ^ (thread as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let gap = 1e9 * plan.threads as f64 / rate;
                let mut pacer = Pacer::Poisson {
                    at: 0.0,
                    gap,
                    random: Box::new(SmallRng::seed_from_u64(seed)),
                };
                pacer.advance();
                pacer
            }
            Pace::Recorded { speed } => Pacer::Recorded { speed },
        }
    }

    /// Next due time; `None` in a closed loop or if the requests have times.
    #[inline]
    pub(super) fn due(&self) -> Option<u64> {
        match self {
            Pacer::Answers | Pacer::Recorded { .. } => None,
            Pacer::Even { next, rate, .. } => {
                Some((u128::from(*next) * 1_000_000_000_000 / rate) as u64)
            }
            Pacer::Poisson { at, .. } => Some(*at as u64),
        }
    }

    /// Advances to the next due time.
    pub(super) fn advance(&mut self) {
        match self {
            Pacer::Answers | Pacer::Recorded { .. } => {}
            Pacer::Even { next, step, .. } => *next += *step,
            Pacer::Poisson { at, gap, random } => {
                let drawn: f64 = Exp1.sample(random.as_mut());
                *at += drawn * *gap;
            }
        }
    }

    /// Whether latency counts from a due time instead of the send time.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self, Pacer::Answers)
    }
}

/// A random number between 0 and `most`, to spread pauses.
pub(super) fn spread(random: &mut SmallRng, most: u64) -> u64 {
    random.random_range(0..=most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Address, Protocol};

    fn plan(rate: f64, arrivals: Arrivals, threads: usize) -> Plan {
        let address = Address::Unix("unused".into());
        Plan { threads, pace: Pace::Open { rate, arrivals }, ..Plan::new(address, Protocol::Redis) }
    }

    fn times(plan: &Plan, thread: usize, before: u64) -> Vec<u64> {
        let mut pacer = Pacer::new(plan, thread);
        let mut times = Vec::new();
        while let Some(due) = pacer.due().filter(|due| *due < before) {
            times.push(due);
            pacer.advance();
        }
        times
    }

    #[test]
    fn even_arrivals_are_exactly_as_many_as_the_rate_says() {
        for rate in [1.0, 3.0, 7.5, 333.0, 12_345.0, 99_999.0] {
            for threads in [1, 2, 3] {
                let plan = plan(rate, Arrivals::Even, threads);
                let mut all: Vec<u64> =
                    (0..threads).flat_map(|t| times(&plan, t, 4_000_000_000)).collect();
                all.sort_unstable();
                assert_eq!(all.len() as f64, rate * 4.0, "{rate} {threads}");
                let gap = 1e9 / rate;
                assert!(
                    all.windows(2).all(|w| ((w[1] - w[0]) as f64 - gap).abs() <= 1.0),
                    "{rate} {threads}"
                );
                // Including those after a second of warm-up.
                assert_eq!(
                    all.iter().filter(|due| **due >= 1_000_000_000).count(),
                    (rate * 3.0).floor() as usize
                );
            }
        }
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_its_spread() {
        let plan = plan(10_000.0, Arrivals::Poisson, 2);
        let all: Vec<Vec<u64>> =
            (0..2).map(|thread| times(&plan, thread, 10_000_000_000)).collect();
        assert_ne!(all[0], all[1], "threads draw apart");
        // Expected: 100,000, standard deviation 316.
        let count = all[0].len() + all[1].len();
        assert!((98_500..101_500).contains(&count), "{count}");
        let gaps: Vec<f64> = all[0].windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation =
            (gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!(
            (0.95..1.05).contains(&(deviation / mean)),
            "exponential: deviation as large as the mean"
        );
    }
}
