//! May this page answer this request now? (RFC 9111 4, 5.2.1; RFC 5861)

use super::age::current_age;
use super::directives::of_request;
use super::freshness::stale_forbidden;
use super::{Policy, RequestView};
use crate::Ms;
use crate::http::{CacheControl, Method, Restriction};
use crate::page::{Kind, Meta, PageFlags};

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
        /// The permission for it.
        why: StaleWhy,
    },
    /// Ask the origin first: conditionally where the page has a validator, else in full.
    Revalidate {
        /// The reason for validation.
        why: RevalidateWhy,
        /// Whether the page may be served if the origin cannot be reached or fails;
        /// [`stale_on_error`] decides.
        may_serve_on_error: bool,
    },
    /// The page cannot be used for this request.
    Unusable(Unusable),
    /// Answer 504: the client accepts a stored response only (only-if-cached).
    GatewayTimeout,
}

/// Permissions for a stale answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleWhy {
    /// stale-while-revalidate or the operator's grace: refresh in the background.
    SwrRefresh,
    /// The client's max-stale.
    MaxStale,
}

/// Reasons for validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevalidateWhy {
    /// Its lifetime is over.
    Stale,
    /// It was softly purged.
    SoftPurged,
    /// The response has no-cache.
    ResponseNoCache,
    /// The client sent no-cache, or a maximum age that the page exceeds.
    Request,
}

/// Why a page cannot be used for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// Neither GET nor HEAD.
    Method,
    /// The record is a marker.
    NotAPage,
    /// The client sent no-store: neither reuse nor store.
    RequestNoStore,
}

/// Kind of failure of the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCause {
    /// No answer: refused, timed out, cut off.
    Disconnected,
    /// An answer with this status.
    Status(u16),
}

/// Decides on a hit. Allocates nothing; reads only the page's fixed facts and the request's
/// Cache-Control and Pragma.
pub fn decide(req: &RequestView<'_>, meta: &Meta, policy: &Policy, now: Ms) -> Decision {
    if !matches!(req.method, Method::Get | Method::Head) {
        return Decision::Unusable(Unusable::Method);
    }
    if meta.kind != Kind::Page {
        return Decision::Unusable(Unusable::NotAPage);
    }
    let asked = of_request(req, policy);
    let decision = reuse(meta, policy, &asked, now);
    match decision {
        Decision::Revalidate { .. } | Decision::Unusable(_) if asked.only_if_cached => {
            Decision::GatewayTimeout
        }
        decided => decided,
    }
}

fn reuse(meta: &Meta, policy: &Policy, asked: &CacheControl, now: Ms) -> Decision {
    if asked.no_store {
        return Decision::Unusable(Unusable::RequestNoStore);
    }
    let age = current_age(meta, now);
    let ttl = ttl(meta, age, now);
    let allowed = !stale_forbidden(meta.flags, policy);
    let revalidate = |why| Decision::Revalidate { why, may_serve_on_error: allowed };
    // RFC 9111 5.2.2.4: not without validation, and not if that fails.
    if meta.flags.any(PageFlags::NO_CACHE) {
        return revalidate(RevalidateWhy::ResponseNoCache);
    }
    if !suits(asked, meta, age, ttl) {
        return revalidate(RevalidateWhy::Request);
    }
    if ttl > 0 {
        return Decision::Fresh { age, ttl };
    }
    if allowed && asked.max_age.is_none() && asked.min_fresh.is_none() && within(ttl, meta.swr) {
        return Decision::Stale { age, ttl, why: StaleWhy::SwrRefresh };
    }
    // RFC 9111 5.2.1.2. A client's max-stale does not apply to a page that was purged.
    if allowed
        && meta.soft_purged_at == 0
        && asked.max_stale.is_some_and(|most| -ttl <= i64::from(most))
    {
        return Decision::Stale { age, ttl, why: StaleWhy::MaxStale };
    }
    revalidate(if meta.soft_purged_at == 0 {
        RevalidateWhy::Stale
    } else {
        RevalidateWhy::SoftPurged
    })
}

/// Freshness left in seconds: positive while fresh (RFC 9111 4.2: lifetime > age). A soft purge
/// ends it at that time. A copy from the remote tier is as good as the original until its time is
/// over; from then on it is within no window, as the page may have been purged there.
#[inline]
fn ttl(meta: &Meta, age: u32, now: Ms) -> i64 {
    let natural = i64::from(meta.freshness) - i64::from(age);
    if meta.soft_purged_at == 0 {
        return natural;
    }
    if meta.flags.any(PageFlags::COPY) {
        return if now < meta.soft_purged_at { natural } else { COPY_OVER };
    }
    let since = now.saturating_sub(meta.soft_purged_at) / 1000;
    natural.min(-i64::try_from(since).unwrap_or(i64::MAX))
}

/// Beyond every window, without risk of overflow.
const COPY_OVER: i64 = i64::MIN / 2;

/// Whether a page stale by `-ttl` seconds is inside a window of `window` seconds.
#[inline]
fn within(ttl: i64, window: u32) -> bool {
    -ttl < i64::from(window)
}

/// Whether the request's own directives allow a page of this age (RFC 9111 5.2.1.1, .3, .4).
/// `max-age=0` is a browser's reload and requires validation even within the second; not so for an
/// immutable page (RFC 8246 2), for which only no-cache does.
#[inline]
fn suits(asked: &CacheControl, meta: &Meta, age: u32, ttl: i64) -> bool {
    if asked.no_cache != Restriction::Absent {
        return false;
    }
    let immutable = meta.flags.any(PageFlags::IMMUTABLE) && ttl > 0;
    let young = match asked.max_age {
        Some(0) => immutable,
        Some(most) => age <= most,
        None => true,
    };
    young && asked.min_fresh.is_none_or(|least| ttl >= i64::from(least))
}

/// Whether the page may be served instead of the origin's failure (RFC 9111 4.2.4, RFC 5861 4). A
/// page that is still fresh (the client wanted validation) may; a client's no-cache is a
/// preference, the response's is not.
pub fn stale_on_error(
    meta: &Meta,
    policy: &Policy,
    req: &RequestView<'_>,
    now: Ms,
    cause: ErrorCause,
) -> bool {
    let failed = match cause {
        ErrorCause::Disconnected => true,
        ErrorCause::Status(status) => matches!(status, 500 | 502 | 503 | 504),
    };
    if !failed || meta.kind != Kind::Page || meta.flags.any(PageFlags::NO_CACHE) {
        return false;
    }
    let ttl = ttl(meta, current_age(meta, now), now);
    if ttl > 0 {
        return true;
    }
    if stale_forbidden(meta.flags, policy) {
        return false;
    }
    let asked = of_request(req, policy);
    let window = meta.sie.max(asked.stale_if_error.unwrap_or(0));
    within(ttl, window) || (cause == ErrorCause::Disconnected && within(ttl, policy.disconnected))
}

/// Whether a request with nothing stored for it must be answered with 504 (RFC 9111 5.2.1.7).
pub fn only_if_cached(req: &RequestView<'_>, policy: &Policy) -> bool {
    of_request(req, policy).only_if_cached
}

#[cfg(test)]
mod tests;
