//! How long something took: a histogram per worker, written by its worker alone, merged on reading.
//!
//! Buckets are log-linear: sixteen to a power of two, so that a figure read from it is at most 1/16 too high.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::counters::Counter;

/// Buckets per power of two, as a power of two.
const FINE: u32 = 4;
/// The highest power of two with buckets of its own: 2^31 microseconds are 35 minutes; what is longer counts as that.
const TOP: u32 = 31;
const BUCKETS: usize = ((TOP - FINE + 2) as usize) << FINE;

/// One worker's histogram, in microseconds.
#[derive(Debug)]
pub struct Histogram {
    buckets: Box<[Counter]>,
    sum: Counter,
    max: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| Counter::default()).collect(),
            sum: Counter::default(),
            max: AtomicU64::new(0),
        }
    }
}

/// The bucket of a duration.
fn bucket(micros: u64) -> usize {
    let micros = micros.min((1 << (TOP + 1)) - 1);
    if micros < 1 << FINE {
        return micros as usize;
    }
    let power = micros.ilog2();
    let within = (micros >> (power - FINE)) as usize & ((1 << FINE) - 1);
    (((power - FINE + 1) as usize) << FINE) + within
}

/// The longest duration that falls into a bucket.
fn longest(bucket: usize) -> u64 {
    let (row, within) = (bucket >> FINE, (bucket & ((1 << FINE) - 1)) as u64);
    match row.checked_sub(1) {
        None => within,
        Some(shift) => ((within + (1 << FINE) + 1) << shift) - 1,
    }
}

impl Histogram {
    /// Counts one. Only the owning worker may call it.
    pub fn record(&self, micros: u64) {
        self.buckets[bucket(micros)].one();
        self.sum.add(micros);
        if micros > self.max.load(Relaxed) {
            self.max.store(micros, Relaxed);
        }
    }

    /// Forgets the longest one, from any thread; one that is counted at that moment may be forgotten too.
    pub fn forget_max(&self) {
        self.max.store(0, Relaxed);
    }
}

/// Several histograms added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Empty: nothing was counted.
    buckets: Vec<u64>,
    /// All durations together, in microseconds.
    pub sum: u64,
    /// The longest in microseconds.
    pub max: u64,
}

impl Merged {
    /// All workers' together.
    pub fn of<'a>(all: impl Iterator<Item = &'a Histogram>) -> Self {
        let mut merged = Self::default();
        for one in all {
            merged.add(one);
        }
        merged
    }

    /// Adds one worker's.
    pub fn add(&mut self, one: &Histogram) {
        self.buckets.resize(BUCKETS, 0);
        for (sum, bucket) in self.buckets.iter_mut().zip(&one.buckets) {
            *sum += bucket.get();
        }
        self.sum = self.sum.wrapping_add(one.sum.get());
        self.max = self.max.max(one.max.load(Relaxed));
    }

    /// Adds what was added up elsewhere.
    pub fn add_merged(&mut self, other: &Merged) {
        if !other.buckets.is_empty() {
            self.buckets.resize(BUCKETS, 0);
        }
        for (sum, bucket) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum += bucket;
        }
        self.sum = self.sum.wrapping_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// Adds `count` durations of at most `micros` each, for figures kept in classes elsewhere. The sum is added apart.
    pub fn add_class(&mut self, micros: u64, count: u64) {
        self.buckets.resize(BUCKETS, 0);
        self.buckets[bucket(micros)] += count;
        if count > 0 {
            self.max = self.max.max(micros);
        }
    }

    /// What came after `before` was taken. The longest stays that of all.
    pub fn since(mut self, before: &Merged) -> Self {
        for (now, then) in self.buckets.iter_mut().zip(&before.buckets) {
            *now = now.saturating_sub(*then);
        }
        self.sum = self.sum.saturating_sub(before.sum);
        self
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The duration in microseconds within which `per_mille` of a thousand were done; 0 without any.
    pub fn quantile(&self, per_mille: u64) -> u64 {
        let rank = (self.count() * per_mille).div_ceil(1000);
        let mut below = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            below += count;
            if *count > 0 && below >= rank {
                return longest(bucket).min(self.max);
            }
        }
        0
    }

    /// How many took less than `micros`, which is a power of two of at least 16: there buckets end exactly.
    pub fn below(&self, micros: u64) -> u64 {
        self.buckets.iter().take(bucket(micros)).sum()
    }

    /// The buckets with a count: the longest duration that falls into one, in microseconds, and its count.
    pub fn fine(&self) -> impl Iterator<Item = (u64, u64)> {
        let counted = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(bucket, count)| (longest(bucket), *count))
    }

    /// The same, two to a power of two: enough to be drawn.
    pub fn coarse(&self) -> Vec<(u64, u64)> {
        let mut out: Vec<(u64, u64)> = Vec::new();
        for (bucket, count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            let upper = longest(coarse_end(bucket));
            match out.last_mut() {
                Some(last) if last.0 == upper => last.1 += count,
                _ => out.push((upper, *count)),
            }
        }
        out
    }
}

/// The last fine bucket of the coarse one that `bucket` belongs to. Coarse ones meet at 2^n and at 1.4375 times that,
/// which is the end of a fine one nearest to its square root's.
fn coarse_end(bucket: usize) -> usize {
    let (row, within) = (bucket >> FINE, bucket & ((1 << FINE) - 1));
    if row == 0 {
        // Below 16 microseconds: 0-1, 2-3, 4-7, 8-15.
        return match within {
            0..2 => 1,
            2..4 => 3,
            4..8 => 7,
            _ => 15,
        };
    }
    (row << FINE) + if within < 7 { 6 } else { (1 << FINE) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_bound_what_falls_into_them() {
        let mut last = 0;
        for micros in (0..100_000).chain([1 << 20, (1 << 31) + 5, u64::MAX]) {
            let at = bucket(micros);
            assert!(at >= last && at < BUCKETS);
            last = at;
            let counted = micros.min((1 << 32) - 1);
            assert!(longest(at) >= counted, "{micros}");
            assert!(longest(at) - counted <= counted / 16, "{micros}");
        }
        assert_eq!(last, BUCKETS - 1);
    }

    #[test]
    fn quantiles_of_all_workers() {
        let (one, two) = (Histogram::default(), Histogram::default());
        (1..=900).for_each(|_| one.record(10));
        (1..=99).for_each(|_| two.record(1000));
        two.record(50_000);
        let merged = Merged::of([&one, &two].into_iter());
        assert_eq!((merged.count(), merged.sum), (1000, 9_000 + 99_000 + 50_000));
        assert_eq!(merged.quantile(500), 10);
        assert_eq!(merged.quantile(900), 10);
        assert!((1000..=1062).contains(&merged.quantile(990)));
        assert_eq!((merged.quantile(1000), merged.max), (50_000, 50_000));
    }

    #[test]
    fn nothing_counted_is_no_duration() {
        let none = Merged::of([&Histogram::default()].into_iter());
        assert_eq!((none.quantile(500), none.count(), none.coarse()), (0, 0, Vec::new()));
        assert_eq!(Merged::default().quantile(500), 0);
    }

    #[test]
    fn what_was_before_is_left_out() {
        let one = Histogram::default();
        one.record(7);
        let before = Merged::of([&one].into_iter());
        one.record(9);
        one.record(9);
        let since = Merged::of([&one].into_iter()).since(&before);
        assert_eq!((since.count(), since.sum, since.quantile(1)), (2, 18, 9));
    }

    #[test]
    fn below_a_power_of_two_is_exact() {
        let one = Histogram::default();
        (0..5000).for_each(|micros| one.record(micros));
        let merged = Merged::of([&one].into_iter());
        for power in 4..12 {
            assert_eq!(merged.below(1 << power), 1 << power);
        }
        assert_eq!(merged.below(8192), 5000);
    }

    #[test]
    fn coarse_buckets_hold_what_fine_ones_do_and_are_few() {
        let one = Histogram::default();
        (0..1_000_000).step_by(7).for_each(|micros| one.record(micros));
        let merged = Merged::of([&one].into_iter());
        let coarse = merged.coarse();
        assert!(coarse.len() <= 40, "{}", coarse.len());
        assert_eq!(coarse.iter().map(|(_, count)| count).sum::<u64>(), merged.count());
        assert!(coarse.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let fine: u64 =
            merged.fine().filter(|(upper, _)| *upper <= coarse[20].0).map(|(_, count)| count).sum();
        assert_eq!(fine, coarse[..=20].iter().map(|(_, count)| count).sum::<u64>());
    }
}
