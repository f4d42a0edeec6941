//! May this page answer this request now? (RFC 9111 4, 5.2.1; RFC 5861)

use super::{Policy, RequestView};
use crate::Ms;
use crate::page::Meta;

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Serve it.
    Fresh {
        /// Current age in seconds, for the Age field.
        age: u32,
        /// Seconds of freshness left, for Cache-Status.
        ttl: i64,
    },
    /// Serve it although it is stale.
    Stale {
        /// Current age in seconds.
        age: u32,
        /// Seconds of freshness left: negative, or 0.
        ttl: i64,
        /// Who allows it.
        why: StaleWhy,
    },
    /// Ask the origin first: conditionally where the page has a validator, else in full.
    Revalidate {
        /// What asks for it.
        why: RevalidateWhy,
        /// Whether the page may be served should the origin not be reachable or fail; [`stale_on_error`] has the last word.
        may_serve_on_error: bool,
    },
    /// The page plays no part in this request.
    Unusable(Unusable),
    /// Answer 504: the client wants a stored response or none (only-if-cached).
    GatewayTimeout,
}

/// Who allows a stale answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleWhy {
    /// stale-while-revalidate or the operator's grace: refresh behind the answer.
    SwrRefresh,
    /// The client's max-stale.
    MaxStale,
}

/// What asks for validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevalidateWhy {
    /// Its lifetime is over.
    Stale,
    /// It was softly purged.
    SoftPurged,
    /// The response said no-cache.
    ResponseNoCache,
    /// The client said no-cache, or an age the page exceeds.
    Request,
}

/// Why a page plays no part in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// Neither GET nor HEAD.
    Method,
    /// The record is a marker.
    NotAPage,
    /// The client said no-store: neither reuse nor store.
    RequestNoStore,
}

/// What went wrong at the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCause {
    /// No answer: refused, timed out, broken off.
    Disconnected,
    /// An answer with this status.
    Status(u16),
}

/// Decides on a hit. Allocates nothing; reads only the page's fixed facts and the request's Cache-Control and Pragma.
pub fn decide(req: &RequestView<'_>, meta: &Meta, policy: &Policy, now: Ms) -> Decision {
    let _ = (req, meta, policy, now);
    todo!()
}

/// Whether the page may be served instead of the origin's failure (RFC 9111 4.2.4, RFC 5861 4).
pub fn stale_on_error(meta: &Meta, policy: &Policy, req: &RequestView<'_>, now: Ms, cause: ErrorCause) -> bool {
    let _ = (meta, policy, req, now, cause);
    todo!()
}

/// Whether a request with nothing stored for it is to be answered 504 (RFC 9111 5.2.1.7).
pub fn only_if_cached(req: &RequestView<'_>, policy: &Policy) -> bool {
    let _ = (req, policy);
    todo!()
}
