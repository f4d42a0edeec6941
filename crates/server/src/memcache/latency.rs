//! How long batches take, from when their bytes were there until the system had taken the answers: a histogram per
//! worker, written by its worker alone, merged on reading.
//!
//! Buckets are log-linear: sixteen to a power of two, so that a figure read from it is at most 1/16 too high.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::counters::Counter;

/// Buckets per power of two, as a power of two.
const FINE: u32 = 4;
/// The highest power of two with buckets of its own: 2^31 microseconds are 35 minutes; what is longer counts as that.
const TOP: u32 = 31;
const BUCKETS: usize = ((TOP - FINE + 2) as usize) << FINE;

/// One worker's histogram.
#[derive(Debug)]
pub(crate) struct Latency {
    buckets: Box<[Counter]>,
    max: AtomicU64,
}

impl Default for Latency {
    fn default() -> Self {
        Self { buckets: (0..BUCKETS).map(|_| Counter::default()).collect(), max: AtomicU64::new(0) }
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

impl Latency {
    /// Counts a batch. Only the owning worker may call it.
    pub(crate) fn record(&self, micros: u64) {
        self.buckets[bucket(micros)].one();
        if micros > self.max.load(Relaxed) {
            self.max.store(micros, Relaxed);
        }
    }

    /// Forgets the longest one, from any thread; a batch that is counted at that moment may be forgotten too.
    pub(crate) fn forget_max(&self) {
        self.max.store(0, Relaxed);
    }
}

/// Several histograms added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Merged {
    buckets: Vec<u64>,
    /// The longest in microseconds.
    pub(crate) max: u64,
}

impl Merged {
    /// All workers' together.
    pub(crate) fn of<'a>(all: impl Iterator<Item = &'a Latency>) -> Self {
        let mut merged = Self { buckets: vec![0; BUCKETS], max: 0 };
        for one in all {
            for (sum, bucket) in merged.buckets.iter_mut().zip(&one.buckets) {
                *sum += bucket.get();
            }
            merged.max = merged.max.max(one.max.load(Relaxed));
        }
        merged
    }

    /// What came after `before` was taken.
    pub(crate) fn since(mut self, before: &Merged) -> Self {
        for (now, then) in self.buckets.iter_mut().zip(&before.buckets) {
            *now = now.saturating_sub(*then);
        }
        self
    }

    /// Batches counted.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The duration in microseconds within which `per_mille` of a thousand batches were answered; 0 without any.
    pub(crate) fn quantile(&self, per_mille: u64) -> u64 {
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
        let (one, two) = (Latency::default(), Latency::default());
        (1..=900).for_each(|_| one.record(10));
        (1..=99).for_each(|_| two.record(1000));
        two.record(50_000);
        let merged = Merged::of([&one, &two].into_iter());
        assert_eq!(merged.count(), 1000);
        assert_eq!(merged.quantile(500), 10);
        assert_eq!(merged.quantile(900), 10);
        assert!((1000..=1062).contains(&merged.quantile(990)));
        assert_eq!((merged.quantile(1000), merged.max), (50_000, 50_000));
    }

    #[test]
    fn nothing_counted_is_no_duration() {
        assert_eq!(Merged::of([&Latency::default()].into_iter()).quantile(500), 0);
    }

    #[test]
    fn what_was_before_is_left_out() {
        let one = Latency::default();
        one.record(7);
        let before = Merged::of([&one].into_iter());
        one.record(9);
        one.record(9);
        let since = Merged::of([&one].into_iter()).since(&before);
        assert_eq!((since.count(), since.quantile(1)), (2, 9));
    }
}
