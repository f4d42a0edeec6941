//! Choice of keys: Zipf, uniform, a hot set, in order, each once.

use rand::{Rng, rngs::SmallRng};
use rand_distr::{Distribution, Zipf};

use super::parse;

/// Distribution of requests over keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Popularity {
    /// A key of rank r is chosen in proportion to r^-s. Ranks are scattered over all keys.
    Zipf {
        /// The exponent: 0 is uniform; the web is near 0.8, objects behind it near 1.
        s: f64,
    },
    /// Equal probability.
    Uniform,
    /// Some keys get a given share of the requests; uniform within and outside of them.
    Hot {
        /// Share of the keys, between 0 and 1.
        keys: f64,
        /// Share of the requests, between 0 and 1.
        requests: f64,
    },
    /// In order, repeatedly. Thread t of T takes the keys t, t + T, ...
    Sequential,
    /// In order, each once, then the run ends. Divided among threads like `Sequential`.
    Once,
}

impl Popularity {
    /// Parses `zipf:0.99`, `uniform`, `hot=1%:90%`, `sequential`, `once`.
    pub fn parse(text: &str) -> Result<Popularity, String> {
        let wrong = || {
            format!(
                "popularity {text:?}: expected zipf:0.99, uniform, hot=1%:90%, sequential or once"
            )
        };
        match text {
            "uniform" => return Ok(Popularity::Uniform),
            "sequential" => return Ok(Popularity::Sequential),
            "once" => return Ok(Popularity::Once),
            "zipf" => return Ok(Popularity::Zipf { s: 1.0 }),
            _ => {}
        }
        if let Some(s) = text.strip_prefix("zipf:").or_else(|| text.strip_prefix("zipf=")) {
            let s = parse::number(s).ok_or_else(wrong)?;
            return Ok(Popularity::Zipf { s });
        }
        let shares =
            text.strip_prefix("hot=").or_else(|| text.strip_prefix("hot:")).ok_or_else(wrong)?;
        let (keys, requests) = shares.split_once(':').ok_or_else(wrong)?;
        let keys = parse::share(keys).ok_or_else(wrong)?;
        let requests = parse::share(requests).ok_or_else(wrong)?;
        Ok(Popularity::Hot { keys, requests })
    }

    pub(crate) fn describe(&self) -> String {
        match self {
            Popularity::Zipf { s } => format!("Zipf, s = {s}"),
            Popularity::Uniform => "uniform".to_owned(),
            Popularity::Hot { keys, requests } => {
                format!("{} % of the requests for {} % of the keys", requests * 100.0, keys * 100.0)
            }
            Popularity::Sequential => "in order, again and again".to_owned(),
            Popularity::Once => "in order, each once".to_owned(),
        }
    }
}

/// Chooses keys for one thread.
#[derive(Debug)]
pub(crate) struct KeyChooser {
    count: u64,
    permutation: Permutation,
    choice: Choice,
}

#[derive(Debug)]
enum Choice {
    Zipf(Zipf<f64>),
    Uniform,
    Hot { hot: u64, share: f64 },
    Sequential { next: u64, step: u64 },
    Once { next: u64, step: u64 },
}

impl KeyChooser {
    /// For thread `thread` of `threads`, over `count` keys. `seed` is the run's, so that all
    /// threads agree on the popular keys.
    pub(crate) fn new(
        popularity: Popularity,
        count: u64,
        thread: u64,
        threads: u64,
        seed: u64,
    ) -> KeyChooser {
        let (next, step) = (thread, threads.max(1));
        let choice = match popularity {
            Popularity::Zipf { s } => {
                Zipf::new(count as f64, s).map_or(Choice::Uniform, Choice::Zipf)
            }
            Popularity::Uniform => Choice::Uniform,
            Popularity::Hot { keys, requests } => {
                let hot = ((count as f64 * keys).round() as u64).clamp(1, count);
                Choice::Hot { hot, share: if hot == count { 1.0 } else { requests } }
            }
            Popularity::Sequential => Choice::Sequential { next: next % count, step: step % count },
            Popularity::Once => Choice::Once { next, step },
        };
        KeyChooser { count, permutation: Permutation::new(count, seed), choice }
    }

    /// The number of the next key; `None` when every key was chosen once.
    pub(crate) fn pick(&mut self, rng: &mut SmallRng) -> Option<u64> {
        let rank = match &mut self.choice {
            Choice::Uniform => return Some(rng.random_range(0..self.count)),
            Choice::Zipf(zipf) => (zipf.sample(rng) as u64).clamp(1, self.count) - 1,
            Choice::Hot { hot, share } if rng.random::<f64>() < *share => rng.random_range(0..*hot),
            Choice::Hot { hot, .. } => rng.random_range(*hot..self.count),
            Choice::Sequential { next, step } => {
                let number = *next;
                *next = (number + *step) % self.count;
                return Some(number);
            }
            Choice::Once { next, step } => {
                let number = Some(*next).filter(|number| *number < self.count)?;
                *next += *step;
                return Some(number);
            }
        };
        Some(self.permutation.place(rank))
    }
}

/// Permutation of the numbers below `count` that separates popular keys.
///
/// Each step is a bijection of the numbers of a given bit width (shifted xor, product with an odd
/// number); results outside the range pass through again, on average fewer than two rounds.
#[derive(Clone, Copy, Debug)]
struct Permutation {
    count: u64,
    mask: u64,
    shift: u32,
    factor: u64,
    add: u64,
}

impl Permutation {
    fn new(count: u64, seed: u64) -> Permutation {
        let bits = (64 - count.saturating_sub(1).leading_zeros()).max(1);
        let mask = u64::MAX >> (64 - bits);
        let seed = crate::random::derived(seed, 0x5ca7);
        Permutation { count, mask, shift: bits.div_ceil(2), factor: seed | 1, add: seed >> 32 }
    }

    fn place(&self, rank: u64) -> u64 {
        let mut at = rank;
        loop {
            for _ in 0..3 {
                at = at.wrapping_add(self.add).wrapping_mul(self.factor) & self.mask;
                at ^= at >> self.shift;
            }
            if at < self.count {
                return at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn counts(popularity: Popularity, count: u64, draws: u64) -> Vec<u64> {
        let mut rng = SmallRng::seed_from_u64(7);
        let mut chooser = KeyChooser::new(popularity, count, 0, 1, 7);
        let mut counts = vec![0; count as usize];
        for _ in 0..draws {
            counts[chooser.pick(&mut rng).unwrap() as usize] += 1;
        }
        counts
    }

    /// Pearson's statistic of counts against expected probabilities.
    fn chi_square(counts: &[u64], probabilities: &[f64]) -> f64 {
        let draws = counts.iter().sum::<u64>() as f64;
        counts
            .iter()
            .zip(probabilities)
            .map(|(n, p)| (*n as f64 - draws * p).powi(2) / (draws * p))
            .sum()
    }

    /// About the 99.99 % quantile (Wilson and Hilferty's approximation).
    fn limit(freedom: usize) -> f64 {
        let k = freedom as f64;
        k * (1.0 - 2.0 / (9.0 * k) + 3.719 * (2.0 / (9.0 * k)).sqrt()).powi(3)
    }

    fn zipf(count: u64, s: f64) -> Vec<f64> {
        let weights: Vec<f64> = (1..=count).map(|rank| (rank as f64).powf(-s)).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum).collect()
    }

    #[test]
    fn zipf_has_the_frequencies_of_zipf() {
        for s in [0.0, 0.7, 0.99, 1.0, 1.3] {
            let found = counts(Popularity::Zipf { s }, 100, 200_000);
            let permutation = Permutation::new(100, 7);
            let by_rank: Vec<u64> =
                (0..100).map(|rank| found[permutation.place(rank) as usize]).collect();
            let right = chi_square(&by_rank, &zipf(100, s));
            assert!(right < limit(99), "s = {s}: {right}");
            let other = chi_square(&by_rank, &zipf(100, s + 0.05));
            assert!(other > limit(99), "s = {s} cannot be told from {}: {other}", s + 0.05);
        }
    }

    #[test]
    fn uniform_is_uniform() {
        let found = counts(Popularity::Uniform, 50, 100_000);
        assert!(chi_square(&found, &[0.02; 50]) < limit(49));
    }

    #[test]
    fn the_hot_set_gets_its_share_and_no_key_of_a_part_more_than_another() {
        let mut found = counts(Popularity::Hot { keys: 0.1, requests: 0.9 }, 100, 200_000);
        found.sort_unstable();
        let (cold, hot) = found.split_at(90);
        let share = hot.iter().sum::<u64>() as f64 / 200_000.0;
        assert!((share - 0.9).abs() < 0.004, "{share}");
        assert!(chi_square(cold, &[1.0 / 90.0; 90]) < limit(89));
        assert!(chi_square(hot, &[0.1; 10]) < limit(9));
    }

    #[test]
    fn popular_keys_are_scattered_and_agree_between_threads() {
        for count in [1, 2, 3, 100, 1000, 1025, 65_536] {
            let permutation = Permutation::new(count, 42);
            let mut places: Vec<u64> = (0..count).map(|rank| permutation.place(rank)).collect();
            let moved =
                places.iter().enumerate().filter(|(rank, place)| *rank as u64 != **place).count();
            assert!(count < 100 || moved as u64 > count * 9 / 10, "{count}: {moved} moved");
            places.sort_unstable();
            assert_eq!(places, (0..count).collect::<Vec<_>>(), "{count}: not each place once");
        }
    }

    #[test]
    fn threads_share_the_keys_of_an_order() {
        for (threads, count) in [(1, 10), (3, 10), (4, 8), (12, 5)] {
            let mut rng = SmallRng::seed_from_u64(1);
            let mut found = Vec::new();
            for thread in 0..threads {
                let mut chooser = KeyChooser::new(Popularity::Once, count, thread, threads, 1);
                while let Some(number) = chooser.pick(&mut rng) {
                    found.push(number);
                }
            }
            found.sort_unstable();
            assert_eq!(found, (0..count).collect::<Vec<_>>(), "{threads} threads, {count} keys");
        }
        let mut rng = SmallRng::seed_from_u64(1);
        let mut chooser = KeyChooser::new(Popularity::Sequential, 5, 1, 2, 1);
        let numbers: Vec<u64> = (0..6).filter_map(|_| chooser.pick(&mut rng)).collect();
        assert_eq!(numbers, [1, 3, 0, 2, 4, 1]);
    }

    #[test]
    fn what_is_typed_is_read() {
        for (text, expected) in [
            ("zipf:0.99", Popularity::Zipf { s: 0.99 }),
            ("zipf", Popularity::Zipf { s: 1.0 }),
            ("hot=1%:90%", Popularity::Hot { keys: 0.01, requests: 0.9 }),
            ("hot=0.2:0.8", Popularity::Hot { keys: 0.2, requests: 0.8 }),
            ("once", Popularity::Once),
        ] {
            assert_eq!(Popularity::parse(text), Ok(expected), "{text}");
        }
        for text in ["", "zipf:", "zipf:-1", "zipf:inf", "hot=1%", "hot=101%:1%", "random"] {
            assert!(Popularity::parse(text).is_err(), "{text}");
        }
    }
}
