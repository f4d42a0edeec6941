//! Counters of a worker for one origin.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use larder_metrics::{Origin, Recorder};

use super::OriginError;

/// Counters of one origin, as one worker sees it (origins of one name but other settings share
/// them). Each counts events since the start, unless it says otherwise.
#[derive(Debug, Default)]
pub struct OriginCounters {
    /// Requests given to [`super::Origin::send`].
    pub requests: AtomicU64,
    /// Connections opened.
    pub opened: AtomicU64,
    /// Requests sent over a connection that had served one before.
    pub reused: AtomicU64,
    /// Requests sent a second time because a pooled connection turned out dead.
    pub retried: AtomicU64,
    /// Requests that failed and were sent to another server of the same origin.
    pub sent_elsewhere: AtomicU64,
    /// Requests that had to wait for a connection.
    pub waited: AtomicU64,
    /// Interim responses (1xx) received.
    pub interim: AtomicU64,
    /// Interim responses that were dropped because nobody took them fast enough.
    pub interim_dropped: AtomicU64,
    /// Connections closed because the origin sent bytes on them that nobody had asked for.
    pub unasked: AtomicU64,
    /// Connections that are open now, idle ones included, tunnels not.
    pub open: AtomicU64,
    /// Connections that are idle now.
    pub idle: AtomicU64,
    /// From a request to the head of its response.
    pub ttfb: Recorder,
    failed: [AtomicU64; OriginError::REASONS],
}

impl OriginCounters {
    /// Failed requests for the reason with this [`OriginError::index`].
    pub fn failed(&self, index: usize) -> u64 {
        self.failed.get(index).map_or(0, |count| count.load(Relaxed))
    }

    /// Failed requests, whatever the reason.
    pub fn failed_total(&self) -> u64 {
        self.failed.iter().map(|count| count.load(Relaxed)).sum()
    }

    /// Adds what the worker counted to the figures of all.
    pub(crate) fn add_to(&self, figures: &mut Origin) {
        figures.requests += self.requests.load(Relaxed);
        figures.connections_open += self.open.load(Relaxed);
        figures.connections_idle += self.idle.load(Relaxed);
        figures.sent_elsewhere += self.sent_elsewhere.load(Relaxed);
        figures.unasked += self.unasked.load(Relaxed);
        figures.ttfb.add(&self.ttfb);
        for index in 0..OriginError::REASONS {
            figures.failures.add(OriginError::reason_at(index), self.failed(index));
        }
    }

    pub(super) fn count_failure(&self, error: &OriginError) {
        self.failed[error.index()].fetch_add(1, Relaxed);
    }
}

/// Adds one. A relaxed add is enough: the counters are read by people, not by code that decides.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// One more, for as long as it lives.
#[derive(Debug)]
pub(super) struct Held(Arc<OriginCounters>, fn(&OriginCounters) -> &AtomicU64);

impl Held {
    pub(super) fn new(
        counters: &Arc<OriginCounters>,
        gauge: fn(&OriginCounters) -> &AtomicU64,
    ) -> Held {
        gauge(counters).fetch_add(1, Relaxed);
        Held(counters.clone(), gauge)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        (self.1)(&self.0).fetch_sub(1, Relaxed);
    }
}
