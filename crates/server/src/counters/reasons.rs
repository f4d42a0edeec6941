//! Counters by reason.

use std::{collections::BTreeMap, marker::PhantomData};

use larder_metrics::{Counter, Counts};
use larder_proto::{http::RejectReason, http2::Flood, rules::Forward};
use parking_lot::Mutex;

use crate::net::tls::TlsFailure;

/// One of a few reasons.
pub(crate) trait Reason: Copy + 'static {
    /// Every reason, in the order of their numbers.
    const ALL: &'static [Self];

    fn number(self) -> usize;

    /// Its word in the figures.
    fn word(self) -> &'static str;
}

macro_rules! reasons {
    ($($kind:ident)*) => {$(
        impl Reason for $kind {
            const ALL: &'static [Self] = $kind::ALL;

            fn number(self) -> usize {
                self as usize
            }

            fn word(self) -> &'static str {
                self.as_str()
            }
        }
    )*};
}

reasons! { RejectReason Flood TlsFailure }

/// Counters by reason.
#[derive(Debug)]
pub(crate) struct Reasons<R> {
    counters: Box<[Counter]>,
    reasons: PhantomData<R>,
}

impl<R: Reason> Default for Reasons<R> {
    fn default() -> Self {
        let counters = R::ALL.iter().map(|_| Counter::default()).collect();
        Self { counters, reasons: PhantomData }
    }
}

impl<R: Reason> Reasons<R> {
    /// Counts one.
    pub(crate) fn one(&self, reason: R) {
        self.counters[reason.number()].one();
    }

    pub(super) fn add_to(&self, sums: &mut Counts) {
        for reason in R::ALL {
            sums.add(reason.word(), self.counters[reason.number()].get());
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
