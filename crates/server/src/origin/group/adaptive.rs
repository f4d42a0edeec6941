//! A limit of requests under way at a server, by its latency (`adaptive_limit`).
//!
//! A server works on some requests at a time, and further ones wait there: its latency grows. The
//! mean latency of a round of requests is compared with the least that was seen, as in Envoy's
//! adaptive concurrency: `limit = limit * least * 1.25 / latency + sqrt(limit)`, with no factor
//! above 1. The root is room for growth, which is taken only while it is used.
//!
//! The least latency follows a server that has become slower for good: by a hundredth of the
//! difference each round in which the limit was not reached. Where it is reached for a minute, the
//! least latency is measured anew: for two rounds the limit is so low that nothing waits.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;

/// The limit at the start, until more is known.
const START: f64 = 16.0;
/// The least limit: fewer requests would not tell whether the server has recovered.
const LEAST: f64 = 4.0;
/// The largest limit.
const MOST: f64 = 10_000.0;
/// Requests of a round at least; as many as the limit if that is more.
const ROUND: u32 = 20;
/// Latency above the least one that is no sign of waiting.
const TOLERANCE: f64 = 1.25;
/// The largest step down of one round.
const STEEPEST: f64 = 0.5;
/// The part of the difference by which the least latency follows in a round.
const FOLLOWS: f64 = 0.01;
/// Milliseconds for which a least latency is good.
const MEASURED: u64 = 60_000;

/// The limit of one server, over all workers.
#[derive(Debug)]
pub(super) struct Adaptive {
    limit: AtomicUsize,
    round: Mutex<Round>,
}

#[derive(Debug)]
struct Round {
    limit: f64,
    /// Seconds; None: no round has ended.
    least: Option<f64>,
    requests: u32,
    /// Seconds.
    sum: f64,
    /// The most requests that were under way.
    peak: usize,
    /// Milliseconds at which the least latency was known to be right.
    measured: u64,
    /// The least latency is measured; the limit before.
    measuring: Option<Measuring>,
}

#[derive(Debug)]
struct Measuring {
    limit: f64,
    /// Its round has answers to requests from before.
    begins: bool,
}

impl Adaptive {
    pub(super) fn new() -> Adaptive {
        let round = Round {
            limit: START,
            least: None,
            requests: 0,
            sum: 0.0,
            peak: 0,
            measured: 0,
            measuring: None,
        };
        Adaptive { limit: AtomicUsize::new(START as usize), round: Mutex::new(round) }
    }

    /// Requests that may be under way.
    pub(super) fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }

    /// An answer began, or failed to within its time limit, after `latency`; `under_way`: requests
    /// at the server then, this one included; `now`: milliseconds.
    pub(super) fn answered(&self, latency: Duration, under_way: usize, now: u64) {
        let mut round = self.round.lock();
        round.requests += 1;
        round.sum += latency.as_secs_f64();
        round.peak = round.peak.max(under_way);
        if f64::from(round.requests) >= round.limit.max(ROUND.into()) {
            round.end(now);
            self.limit.store(round.limit as usize, Relaxed);
        }
    }
}

impl Round {
    fn end(&mut self, now: u64) {
        // A clock of coarse steps may measure nothing.
        let latency = (self.sum / f64::from(self.requests)).max(1e-6);
        let peak = self.peak as f64;
        (self.requests, self.sum, self.peak) = (0, 0.0, 0);
        if let Some(measuring) = self.measuring.take() {
            if measuring.begins {
                self.measuring = Some(Measuring { begins: false, ..measuring });
            } else {
                (self.least, self.measured, self.limit) = (Some(latency), now, measuring.limit);
            }
            return;
        }
        let mut least = self.least.unwrap_or(latency).min(latency);
        if peak + 1.0 < self.limit {
            least += (latency - least) * FOLLOWS;
            self.measured = now;
        } else if now.saturating_sub(self.measured) >= MEASURED {
            self.measuring = Some(Measuring { limit: self.limit, begins: true });
            self.limit = LEAST;
            return;
        }
        self.least = Some(least);
        let gradient = (least * TOLERANCE / latency).clamp(STEEPEST, 1.0);
        let limit = (self.limit * gradient + self.limit.sqrt()).clamp(LEAST, MOST);
        if limit < self.limit || peak * 2.0 >= self.limit {
            self.limit = limit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A limit and the time of its server.
    struct Load(Adaptive, f64);

    impl Load {
        fn new() -> Load {
            Load(Adaptive::new(), 0.0)
        }

        /// The limit after so many requests of these visitors, at a server that works on `at_once`
        /// of them at a time, each for `work` milliseconds.
        fn after(&mut self, requests: usize, visitors: usize, at_once: usize, work: f64) -> usize {
            let Load(adaptive, now) = self;
            for _ in 0..requests {
                let under_way = visitors.min(adaptive.limit());
                let latency = work * (under_way as f64 / at_once as f64).max(1.0);
                *now += latency / under_way as f64;
                adaptive.answered(
                    Duration::from_secs_f64(latency / 1000.0),
                    under_way,
                    *now as u64,
                );
            }
            adaptive.limit()
        }
    }

    #[test]
    fn a_busy_server_gets_little_more_than_it_works_on_however_long() {
        let mut load = Load::new();
        for requests in [10_000, 1_000_000] {
            let limit = load.after(requests, 500, 20, 10.0);
            assert!((20..=45).contains(&limit), "{limit}");
        }
    }

    #[test]
    fn a_server_with_room_gets_all() {
        let mut load = Load::new();
        let limit = load.after(20_000, 200, 1000, 10.0);
        assert!(limit > 200, "{limit}");
        assert_eq!(load.after(200_000, 10, 1000, 10.0), limit, "no growth without a use for it");
    }

    #[test]
    fn it_falls_with_a_server_that_slows_down_and_rises_again() {
        let mut load = Load::new();
        load.after(20_000, 200, 1000, 10.0);
        let limit = load.after(2_000, 200, 5, 10.0);
        assert!(limit < 30, "{limit}");
        let limit = load.after(20_000, 200, 1000, 10.0);
        assert!(limit > 200, "{limit}");
    }

    #[test]
    fn a_server_that_is_slower_for_good_is_believed_after_a_minute() {
        let mut load = Load::new();
        load.after(20_000, 100, 1000, 10.0);
        let limit = load.after(500, 100, 1000, 40.0);
        assert!(limit < 60, "{limit}");
        let limit = load.after(60_000, 100, 1000, 40.0);
        assert!(limit > 100, "{limit}");
    }
}
