//! Counters: one set per worker, each written by its worker alone, merged on reading. No line of memory is
//! written by two threads.

use larder_proto::http::RejectReason;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the owning thread may call it: it is a load and a store, not a locked add.
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Adds one.
    pub fn one(&self) {
        self.add(1);
    }

    /// The present value, from any thread.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Rejected requests by reason.
#[derive(Debug)]
pub struct Reasons([Counter; RejectReason::COUNT]);

impl Default for Reasons {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

impl Reasons {
    /// Rejected for this reason.
    pub fn get(&self, reason: RejectReason) -> u64 {
        self.0[reason.index()].get()
    }
}

impl Counters {
    /// Counts a rejected request.
    pub fn reject(&self, reason: RejectReason) {
        self.rejected.one();
        self.reasons.0[reason.index()].one();
    }
}

/// Declares what one worker of a face counts: a struct of [`Counter`]s on lines of its own, their names and their
/// values in one order. `with` adds fields that are not plain counters.
macro_rules! counters {
    (
        $(#[$about:meta])* $vis:vis struct $type:ident { $($(#[$doc:meta])* $name:ident,)* }
        $(with { $($(#[$more_doc:meta])* $more:ident: $more_type:ty,)* })?
    ) => {
        $(#[$about])*
        #[derive(Debug, Default)]
        #[repr(align(128))]
        $vis struct $type {
            $($(#[$doc])* $vis $name: $crate::counters::Counter,)*
            $($($(#[$more_doc])* $vis $more: $more_type,)*)?
        }

        impl $type {
            /// Every counter's name, in the order of `values`.
            $vis const NAMES: &'static [&'static str] = &[$(stringify!($name),)*];

            /// Every counter's value now.
            $vis fn values(&self) -> Vec<u64> {
                vec![$(self.$name.get(),)*]
            }
        }
    };
}
pub(crate) use counters;

counters! {
    /// What one worker counted since it started.
    pub struct Counters {
        /// Connections accepted.
        connections,
        /// Connections refused because `limits.connections` was reached.
        refused_connections,
        /// Requests answered, refused ones included.
        requests,
        /// Answered from the store, fresh.
        hits,
        /// Answered from the store, stale: while a refresh runs, or because the origin failed.
        stale_hits,
        /// Answered after the origin confirmed the stored page (304).
        refresh_hits,
        /// Answered by the origin (or with its failure), passed requests included.
        misses,
        /// Followed another request's fetch.
        coalesced,
        /// Sent to the origin past the cache: these are among the misses, tunnels, or failures too.
        passes,
        /// Purge requests allowed.
        purges,
        /// Purge requests refused.
        purges_denied,
        /// Requests answered with an error of our own making: no such site, loops, nothing stored and only that wanted.
        refused,
        /// Requests refused for their syntax or size (400, 413, 414, 417, 431, 501, 505).
        rejected,
        /// Connections closed because a request head did not arrive in time.
        header_timeouts,
        /// Connections closed because a request body stopped arriving.
        body_timeouts,
        /// Connections closed because the client stopped reading.
        send_timeouts,
        /// Answers that could not be completed because the origin broke off.
        truncated,
        /// Fetches that failed before a response head.
        origin_failures,
        /// Pages stored.
        stored,
        /// Pages not stored because the store was full or the page too large.
        store_refused,
        /// Tunnels opened (Upgrade).
        tunnels,
        /// Bytes received from clients.
        bytes_in,
        /// Bytes sent to clients.
        bytes_out,
    }
    with {
        /// Rejected requests by reason, in the order of [`RejectReason::index`].
        reasons: Reasons,
    }
}
