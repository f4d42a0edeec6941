//! Counters: one set per worker, each written by its worker alone, merged on reading. No line of memory is
//! written by two threads.

use larder_proto::http::RejectReason;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{
    measure::counted::{Forwards, Named, NotStored, SiteCounters, Watched},
    origin::OriginCounters,
};

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
pub(crate) struct Reasons([Counter; RejectReason::COUNT]);

impl Default for Reasons {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

impl Reasons {
    /// Rejected for this reason.
    pub(crate) fn get(&self, reason: RejectReason) -> u64 {
        self.0[reason.index()].get()
    }
}

impl Counters {
    /// Counts a rejected request.
    pub(crate) fn reject(&self, reason: RejectReason) {
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
    /// What one worker of the HTTP face counted since it started. Requests are counted by site and result, in `sites`.
    pub(crate) struct Counters {
        /// Connections accepted.
        connections,
        /// Connections refused because `limits.connections` was reached.
        refused_connections,
        /// Requests that waited for another's fetch.
        coalesced_waits,
        /// Sent to the origin past the cache: these are among the misses, tunnels, or failures too.
        passes,
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
        /// Answers of origins with neither length nor chunks: their end was the end of the
        /// connection.
        unframed,
        /// Fetches that failed before a response head.
        origin_failures,
        /// Pages stored.
        stored,
        /// Pages not stored because the store was full or the page too large.
        store_refused,
        /// Bytes received from clients.
        bytes_in,
        /// Bytes sent to clients.
        bytes_out,
    }
    with {
        /// Bytes of pages copied into files: what there is now.
        shelf: std::sync::Arc<AtomicU64>,
        /// Rejected requests by reason, in the order of [`RejectReason::index`].
        reasons: Reasons,
        /// Requests by site.
        sites: Named<SiteCounters>,
        /// Requests to origins, by origin.
        origins: Named<OriginCounters>,
        /// Requests that memory could not answer, by reason.
        forwards: Forwards,
        /// Responses not stored, by reason.
        not_stored: NotStored,
        /// The hottest URLs.
        watched: Watched,
    }
}

impl Counters {
    /// `watch`: the hottest URLs are looked for.
    pub(crate) fn new(watch: bool) -> Self {
        Self { watched: if watch { Watched::on() } else { Watched::default() }, ..Self::default() }
    }
}
