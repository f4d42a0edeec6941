//! Counters of a connection. Only its task writes them, so a count is a load and a store without
//! contention.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Buckets of the latency histogram: the first ends at 16 microseconds, each bound is the square
/// root of two times the previous one, and the last bucket is open.
pub(crate) const BUCKETS: usize = 40;

/// Counters of one connection.
#[derive(Debug)]
pub struct Counters {
    /// Keys requested.
    pub lookups: Count,
    /// Keys found.
    pub hits: Count,
    /// Keys not found.
    pub misses: Count,
    /// Writes of every kind.
    pub writes: Count,
    /// Answers that timed out.
    pub timeouts: Count,
    /// Failed connections, and answers that were errors.
    pub errors: Count,
    /// Connection attempts.
    pub connects: Count,
    pub(crate) latency: [Count; BUCKETS],
    pub(crate) latency_sum_us: Count,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            lookups: Count::default(),
            hits: Count::default(),
            misses: Count::default(),
            writes: Count::default(),
            timeouts: Count::default(),
            errors: Count::default(),
            connects: Count::default(),
            latency: std::array::from_fn(|_| Count::default()),
            latency_sum_us: Count::default(),
        }
    }
}

impl Counters {
    /// Counts an answer to `operations` operations that took `took`.
    pub fn answered(&self, took: Duration) {
        self.answered_together(1, took);
    }

    /// Counts one answer to several operations; `took` is measured from the first of them.
    pub(crate) fn answered_together(&self, operations: u64, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.latency[bucket(us)].add(operations);
        self.latency_sum_us.add(us.saturating_mul(operations));
    }
}

/// A counter with one writer at a time.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds. Called by the one writer only.
    pub fn add(&self, more: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(more), Relaxed);
    }

    /// The current value. Any thread may call this.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The bucket of a time in microseconds.
fn bucket(us: u64) -> usize {
    // Twice the logarithm, plus one for each of the two bounds of its power of two below it.
    let us = us.clamp(16, 1 << 40);
    let whole = 2 * (us.ilog2() as usize - 4);
    let above = usize::from(us > bound_of(whole)) + usize::from(us > bound_of(whole + 1));
    (whole + above).min(BUCKETS - 1)
}

/// Upper bound of a bucket in microseconds.
pub(crate) fn bound_of(bucket: usize) -> u64 {
    let power = 16_u64 << (bucket / 2).min(40);
    if bucket.is_multiple_of(2) { power } else { power * 1414 / 1000 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_within_the_bounds_of_its_bucket() {
        for us in (0..100_000).chain([1 << 20, (1 << 20) + 1, 8_000_000]) {
            let bucket = bucket(us);
            assert!(us <= bound_of(bucket), "{us}");
            assert!(bucket == 0 || us > bound_of(bucket - 1), "{us} in {bucket}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
