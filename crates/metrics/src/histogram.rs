//! Durations: a recorder per worker, written by its worker alone, and the histograms that readers
//! make of them.
//!
//! Buckets are log-linear: sixteen to a power of two, so that a figure read from them is at most
//! 1/16 too high. (`hdrhistogram` has the same buckets, but a histogram of it that one thread
//! writes while another reads it takes a lock or a channel; here both are plain loads and stores.)

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

use crate::Counter;

/// Buckets per power of two, as a power of two.
const FINE: u32 = 4;
/// The highest power of two with buckets of its own: 2^31 microseconds are 35 minutes; longer times
/// count as that.
const TOP: u32 = 31;
const BUCKETS: usize = ((TOP - FINE + 2) as usize) << FINE;

/// The durations of one worker, in microseconds.
#[derive(Debug)]
pub struct Recorder {
    buckets: Box<[Counter]>,
    sum: Counter,
    max: AtomicU64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| Counter::default()).collect(),
            sum: Counter::default(),
            max: AtomicU64::new(0),
        }
    }
}

/// The bucket of a duration.
#[inline]
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

impl Recorder {
    /// Records a duration. Only the owning worker may call it.
    #[inline]
    pub fn record(&self, micros: u64) {
        self.buckets[bucket(micros)].one();
        self.sum.add(micros);
        if micros > self.max.load(Relaxed) {
            self.max.store(micros, Relaxed);
        }
    }

    /// Forgets the longest duration, from any thread; one that is recorded at that moment may be
    /// forgotten too.
    pub fn forget_max(&self) {
        self.max.store(0, Relaxed);
    }
}

/// A histogram: the durations of several recorders. In JSON: [`HistogramJson`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "HistogramJson", into = "HistogramJson")]
#[cfg_attr(test, derive(ts_rs::TS), ts(as = "HistogramJson"))]
pub struct Histogram {
    /// Empty: nothing was counted.
    buckets: Vec<u64>,
    /// All durations together, in microseconds.
    pub sum: u64,
    /// The longest in microseconds.
    pub max: u64,
}

/// A latency histogram. Buckets are not cumulative: `[upper bound in microseconds, count]`, only
/// those with a count.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Histogram"))]
pub(crate) struct HistogramJson {
    count: u64,
    sum_us: u64,
    max_us: u64,
    p50_us: u64,
    p90_us: u64,
    p99_us: u64,
    p999_us: u64,
    buckets: Vec<(u64, u64)>,
}

impl HistogramJson {
    /// A histogram with these buckets.
    pub(crate) fn with(histogram: &Histogram, buckets: Vec<(u64, u64)>) -> Self {
        Self {
            count: histogram.count(),
            sum_us: histogram.sum,
            max_us: histogram.max,
            p50_us: histogram.quantile(500),
            p90_us: histogram.quantile(900),
            p99_us: histogram.quantile(990),
            p999_us: histogram.quantile(999),
            buckets,
        }
    }
}

impl From<Histogram> for HistogramJson {
    fn from(histogram: Histogram) -> Self {
        Self::with(&histogram, histogram.coarse())
    }
}

impl From<HistogramJson> for Histogram {
    fn from(json: HistogramJson) -> Self {
        let mut histogram = Histogram::default();
        json.buckets.iter().for_each(|(upper, count)| histogram.add_class(*upper, *count));
        histogram.sum = json.sum_us;
        // Without it, as in the intervals of `/api/v1/hist`: the end of the highest bucket.
        histogram.max = if json.max_us > 0 { json.max_us } else { histogram.max };
        histogram
    }
}

impl Histogram {
    /// The durations of several recorders.
    pub fn of<'a>(all: impl Iterator<Item = &'a Recorder>) -> Self {
        let mut histogram = Self::default();
        for one in all {
            histogram.add(one);
        }
        histogram
    }

    /// Adds the durations of a recorder.
    pub fn add(&mut self, one: &Recorder) {
        self.buckets.resize(BUCKETS, 0);
        for (sum, bucket) in self.buckets.iter_mut().zip(&one.buckets) {
            *sum += bucket.get();
        }
        self.sum = self.sum.wrapping_add(one.sum.get());
        self.max = self.max.max(one.max.load(Relaxed));
    }

    /// Adds another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        if !other.buckets.is_empty() {
            self.buckets.resize(BUCKETS, 0);
        }
        for (sum, bucket) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum = sum.saturating_add(*bucket);
        }
        self.sum = self.sum.wrapping_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// Adds `count` durations of at most `micros` each, for figures kept in classes elsewhere.
    /// Their sum is added apart.
    pub fn add_class(&mut self, micros: u64, count: u64) {
        self.buckets.resize(BUCKETS, 0);
        let sum = &mut self.buckets[bucket(micros)];
        *sum = sum.saturating_add(count);
        if count > 0 {
            self.max = self.max.max(micros);
        }
    }

    /// The durations that were added after `before` was taken. The longest stays that of all. If
    /// `before` is of another run of the server, that is everything.
    pub fn since(mut self, before: &Histogram) -> Self {
        if before.count() > self.count() {
            return self;
        }
        for (now, then) in self.buckets.iter_mut().zip(&before.buckets) {
            *now = now.saturating_sub(*then);
        }
        self.sum = self.sum.saturating_sub(before.sum);
        self
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The duration in microseconds within which `per_mille` of a thousand were done; 0 without
    /// any.
    pub fn quantile(&self, per_mille: u64) -> u64 {
        let rank = (u128::from(self.count()) * u128::from(per_mille)).div_ceil(1000);
        let mut below = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            below += u128::from(*count);
            if *count > 0 && below >= rank {
                return longest(bucket).min(self.max);
            }
        }
        0
    }

    /// The number of durations below `micros`, a power of two of at least 16: there buckets end
    /// exactly.
    pub fn below(&self, micros: u64) -> u64 {
        self.buckets.iter().take(bucket(micros)).sum()
    }

    /// The buckets with a count: the longest duration that falls into one, in microseconds, and its
    /// count.
    pub fn fine(&self) -> impl Iterator<Item = (u64, u64)> {
        let counted = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(bucket, count)| (longest(bucket), *count))
    }

    /// The same, two to a power of two: enough for a chart.
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

/// The last fine bucket of the coarse one that `bucket` belongs to. Coarse buckets meet at 2^n and
/// at 1.4375 times that: the fine bucket nearest to the square root of 2 ends there.
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
        let (one, two) = (Recorder::default(), Recorder::default());
        (1..=900).for_each(|_| one.record(10));
        (1..=99).for_each(|_| two.record(1000));
        two.record(50_000);
        let merged = Histogram::of([&one, &two].into_iter());
        assert_eq!((merged.count(), merged.sum), (1000, 9_000 + 99_000 + 50_000));
        assert_eq!(merged.quantile(500), 10);
        assert_eq!(merged.quantile(900), 10);
        assert!((1000..=1062).contains(&merged.quantile(990)));
        assert_eq!((merged.quantile(1000), merged.max), (50_000, 50_000));
    }

    #[test]
    fn nothing_counted_is_no_duration() {
        let none = Histogram::of([&Recorder::default()].into_iter());
        assert_eq!((none.quantile(500), none.count(), none.coarse()), (0, 0, Vec::new()));
        assert_eq!(Histogram::default().quantile(500), 0);
    }

    #[test]
    fn what_was_before_is_left_out() {
        let one = Recorder::default();
        one.record(7);
        let before = Histogram::of([&one].into_iter());
        one.record(9);
        one.record(9);
        let since = Histogram::of([&one].into_iter()).since(&before);
        assert_eq!((since.count(), since.sum, since.quantile(1)), (2, 18, 9));
    }

    #[test]
    fn below_a_power_of_two_is_exact() {
        let one = Recorder::default();
        (0..5000).for_each(|micros| one.record(micros));
        let merged = Histogram::of([&one].into_iter());
        for power in 4..12 {
            assert_eq!(merged.below(1 << power), 1 << power);
        }
        assert_eq!(merged.below(8192), 5000);
    }

    #[test]
    fn json_keeps_the_coarse_buckets() {
        let one = Recorder::default();
        [3, 9, 100, 5000, 123_456].into_iter().for_each(|micros| one.record(micros));
        let histogram = Histogram::of([&one].into_iter());
        let json = serde_json::to_value(&histogram).expect("JSON");
        assert_eq!((&json["count"], &json["max_us"]), (&5.into(), &123_456.into()));
        let read: Histogram = serde_json::from_value(json.clone()).expect("a histogram");
        assert_eq!(read.coarse(), histogram.coarse());
        assert_eq!((read.sum, read.max, read.count()), (histogram.sum, histogram.max, 5));
        let odd = r#"{"buckets":[[18446744073709551615,18446744073709551615],[1,9]]}"#;
        let odd: Histogram = serde_json::from_str(odd).expect("a histogram");
        assert_eq!(odd.count(), u64::MAX);
        assert!(odd.quantile(500) > 0);
    }

    #[test]
    fn histograms_of_another_run_are_not_subtracted() {
        let (mut old, mut new) = (Histogram::default(), Histogram::default());
        old.add_class(8, 10);
        new.add_class(8, 3);
        assert_eq!(new.since(&old).count(), 3);
    }

    #[test]
    fn coarse_buckets_hold_what_fine_ones_do_and_are_few() {
        let one = Recorder::default();
        (0..1_000_000).step_by(7).for_each(|micros| one.record(micros));
        let merged = Histogram::of([&one].into_iter());
        let coarse = merged.coarse();
        assert!(coarse.len() <= 40, "{}", coarse.len());
        assert_eq!(coarse.iter().map(|(_, count)| count).sum::<u64>(), merged.count());
        assert!(coarse.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let fine: u64 =
            merged.fine().filter(|(upper, _)| *upper <= coarse[20].0).map(|(_, count)| count).sum();
        assert_eq!(fine, coarse[..=20].iter().map(|(_, count)| count).sum::<u64>());
    }
}
