//! What is counted about one origin, over all worker threads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::OriginError;

/// Counters of one origin, shared by the [`super::Origin`] of every worker. Each counts events since the start.
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
    /// Requests that had to wait for a connection.
    pub waited: AtomicU64,
    /// Interim responses (1xx) received.
    pub interim: AtomicU64,
    /// Interim responses that were dropped because nobody took them fast enough.
    pub interim_dropped: AtomicU64,
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

    pub(super) fn count_failure(&self, error: &OriginError) {
        self.failed[error.index()].fetch_add(1, Relaxed);
    }
}

/// Adds one. A relaxed add is enough: the counters are read by people, not by code that decides.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
