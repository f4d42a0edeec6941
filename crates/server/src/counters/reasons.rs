//! Counters by reason.

use std::collections::BTreeMap;

use larder_metrics::{Counter, Counts};
use larder_proto::{http::RejectReason, rules::Forward};
use parking_lot::Mutex;

/// Requests that could not be read, by reason.
#[derive(Debug)]
pub(crate) struct RejectReasons([Counter; RejectReason::COUNT]);

impl Default for RejectReasons {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

impl RejectReasons {
    /// Counts one.
    pub(crate) fn one(&self, reason: RejectReason) {
        self.0[reason.index()].one();
    }

    pub(super) fn add_to(&self, sums: &mut Counts) {
        for reason in RejectReason::ALL {
            sums.add(reason.as_str(), self.0[reason.index()].get());
        }
    }
}

/// Requests that memory could not answer, by reason (RFC 9211 section 2.2).
#[derive(Debug, Default)]
pub(crate) struct ForwardReasons([Counter; FORWARDS.len()]);

const FORWARDS: [Forward; 8] = [
    Forward::Bypass,
    Forward::Method,
    Forward::UriMiss,
    Forward::VaryMiss,
    Forward::Miss,
    Forward::Request,
    Forward::Stale,
    Forward::Partial,
];

impl ForwardReasons {
    /// Counts one.
    pub(crate) fn one(&self, why: Forward) {
        if let Some(at) = FORWARDS.iter().position(|one| *one == why) {
            self.0[at].one();
        }
    }

    pub(super) fn add_to(&self, sums: &mut Counts) {
        for (why, count) in FORWARDS.iter().zip(&self.0) {
            sums.add(why.as_str(), count.get());
        }
    }
}

/// Responses that were not stored, by reason: constants of the code, so there are few. Not used for
/// hits.
#[derive(Debug, Default)]
pub(crate) struct NotStored(Mutex<BTreeMap<&'static str, u64>>);

impl NotStored {
    /// Counts one.
    pub(crate) fn one(&self, why: &'static str) {
        *self.0.lock().entry(why).or_default() += 1;
    }

    pub(super) fn add_to(&self, sums: &mut Counts) {
        for (why, count) in self.0.lock().iter() {
            sums.add(*why, *count);
        }
    }
}
