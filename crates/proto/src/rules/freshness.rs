//! Freshness lifetimes (RFC 9111 4.2).

use super::age::{age_value, initial_age};
use super::directives::{Source, governing};
use super::{Policy, ResponseFacts, Vary, vary};
use crate::Secs;
use crate::http::{CacheControl, Fields, Restriction, date};
use crate::page::{Encoding, Kind, Meta, PageFlags, Partial};

/// The lifetime of a storable response: the facts stored with its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Freshness lifetime in seconds; 0: validate before each use.
    pub freshness: u32,
    /// Corrected initial age in seconds (RFC 9111 4.2.3).
    pub initial_age: u32,
    /// stale-while-revalidate in seconds.
    pub swr: u32,
    /// stale-if-error in seconds.
    pub sie: u32,
    /// Directives and how the lifetime was found.
    pub flags: PageFlags,
    /// Date of the response, the time of receipt where it has none.
    pub date: Secs,
    /// Last-Modified of the response.
    pub last_modified: Option<Secs>,
    /// For a 206: the bytes it contains.
    pub partial: Option<Partial>,
}

impl Lifetime {
    /// The page's fixed facts (kind Page) for a response with this lifetime.
    pub fn meta(&self, response: &ResponseFacts<'_>) -> Meta {
        let mut codings = response.fields.elements("content-encoding");
        let encoding = match (codings.next(), codings.next()) {
            (first, None) => Encoding::of(first),
            _ => Encoding::Other,
        };
        Meta {
            kind: Kind::Page,
            status: response.status,
            flags: self.flags.with_if(PageFlags::HAS_LENGTH, response.fields.has("content-length")),
            response_time: response.response_time,
            initial_age: self.initial_age,
            freshness: self.freshness,
            swr: self.swr,
            sie: self.sie,
            date: self.date,
            last_modified: self.last_modified,
            encoding,
            partial: self.partial,
            nonce: 0,
            soft_purged_at: 0,
        }
    }

    /// The lifetime of a response whose end was the end of the connection, so that nobody knows
    /// whether it is whole: fresh for `seconds` from its receipt at most, then gone. It is not
    /// validated either: a 304 would confirm what may be half a page.
    #[must_use]
    pub fn briefly(self, seconds: u32) -> Lifetime {
        let freshness = self.freshness.min(self.initial_age.saturating_add(seconds));
        Lifetime { freshness, swr: 0, sie: 0, flags: self.flags.with(PageFlags::UNFRAMED), ..self }
    }

    /// Number of seconds from its receipt for which the page can be of use: fresh, stale within a
    /// window or for a lost origin, or to validate against. The store's expiry.
    pub fn useful_for(&self, policy: &Policy, has_validator: bool) -> u64 {
        let fresh = u64::from(self.freshness.saturating_sub(self.initial_age));
        let stale = self.swr.max(self.sie).max(policy.disconnected);
        if self.flags.any(PageFlags::UNFRAMED) {
            return fresh;
        }
        let forbidden = stale_forbidden(self.flags, policy);
        let window = if forbidden { 0 } else { u64::from(stale) };
        // A validator saves the transfer of the body for the same time again as the page was fresh,
        // and at least for a day.
        let validate = if has_validator { fresh.max(86_400) } else { 0 };
        fresh + window.max(validate)
    }
}

/// Whether the page must never be served stale, not even with a client's own max-stale (RFC 9111
/// 4.2.4).
#[inline]
pub fn stale_forbidden(flags: PageFlags, policy: &Policy) -> bool {
    let forbids =
        if policy.stale_against_origin { PageFlags::NO_CACHE } else { PageFlags::NO_STALE };
    flags.any(forbids)
}

/// How a lifetime was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Operator(u32),
    Explicit(u32),
    Status(u32),
    Heuristic(u32),
    None,
}

/// Computes the lifetime of a response by its governing directives. `false` in the second place:
/// neither the response nor the operator gives it one, explicit or heuristic.
pub(super) fn lifetime(resp: &ResponseFacts<'_>, policy: &Policy) -> (Lifetime, bool) {
    let (directives, source) = governing(resp.fields, policy);
    let received = resp.response_time / 1000;
    let date = single_date(resp.fields, "date", received);
    let last_modified = single_date(resp.fields, "last-modified", received);
    let age = age_value(resp.fields);
    let dates = Dates { date: date.unwrap_or(received), last_modified, received };
    let found = find(resp, &directives, source, &dates, policy);
    let initial_age = initial_age(resp, age, date);
    let (freshness, origin_flag) = match found {
        // The operator's ttl counts from receipt; Age stays correct.
        Found::Operator(secs) => (secs.saturating_add(initial_age), PageFlags::empty()),
        Found::Explicit(secs) => (secs, PageFlags::empty()),
        Found::Status(secs) => (secs, PageFlags::NEGATIVE),
        Found::Heuristic(secs) => (secs, PageFlags::HEURISTIC),
        Found::None => (0, PageFlags::empty()),
    };
    let swr = directives.stale_while_revalidate.or(policy.grace).unwrap_or(0);
    let surrogate_stale =
        (source == Source::Surrogate).then_some(directives.stale_while_revalidate).flatten();
    let sie = directives.stale_if_error.or(surrogate_stale).or(policy.keep).unwrap_or(0);
    // `force_cache` says that the content is the same for everyone; by no-cache the site itself
    // judges each use.
    let for_all = policy.force_cache
        || matches!(found, Found::Explicit(_))
        || directives.no_cache == Restriction::Whole;
    let cookieless = !for_all && !varies_on_cookie(resp.fields);
    let lifetime = Lifetime {
        freshness,
        initial_age,
        swr,
        sie,
        flags: flags(&directives, policy)
            .with(origin_flag)
            .with_if(PageFlags::COOKIELESS, cookieless),
        date: dates.date,
        last_modified,
        partial: None,
    };
    (lifetime, found != Found::None)
}

/// Whether requests with other cookies select other responses.
fn varies_on_cookie(fields: Fields<'_>) -> bool {
    matches!(vary::names(fields), Vary::Names(names) if names.iter().any(|name| name == "cookie"))
}

/// Explicit freshness: max-age, s-maxage or Expires in the response itself (RFC 9111 4.2.1).
pub(super) fn is_explicit(fields: Fields<'_>, directives: &CacheControl, source: Source) -> bool {
    directives.max_age.is_some()
        || directives.s_maxage.is_some()
        || (source == Source::CacheControl && fields.has("expires"))
}

/// Statuses defined as heuristically cacheable (RFC 9110 15.1).
pub(super) fn heuristically_cacheable(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

struct Dates {
    date: Secs,
    last_modified: Option<Secs>,
    received: Secs,
}

fn find(
    resp: &ResponseFacts<'_>,
    directives: &CacheControl,
    source: Source,
    dates: &Dates,
    policy: &Policy,
) -> Found {
    if let Some(ttl) = policy.ttl.filter(|_| resp.status < 400) {
        return Found::Operator(ttl);
    }
    // RFC 9111 4.2.1: s-maxage, max-age, Expires minus Date, in this order.
    if let Some(secs) = directives.s_maxage.or(directives.max_age) {
        return Found::Explicit(secs);
    }
    if source == Source::CacheControl && resp.fields.has("expires") {
        return Found::Explicit(expires(resp.fields, dates));
    }
    if let Some(ttl) = policy.status_ttl(resp.status) {
        return Found::Status(ttl);
    }
    if !heuristically_cacheable(resp.status) && !directives.public {
        return Found::None;
    }
    heuristic(resp.fields, source, dates, policy).map_or(Found::None, Found::Heuristic)
}

/// Expires minus Date; 0 if it cannot be read or is given twice with different values (RFC 9111
/// 4.2.1, 5.3).
fn expires(fields: Fields<'_>, dates: &Dates) -> u32 {
    single_date(fields, "expires", dates.received)
        .map_or(0, |expires| u32::try_from(expires.saturating_sub(dates.date)).unwrap_or(u32::MAX))
        .min(crate::http::cache_control::MAX_DELTA)
}

/// A guess from the time since the last modification (RFC 9111 4.2.2), or the operator's pattern.
/// No guess with `Pragma: no-cache`, by which HTTP/1.0 origins forbid it (only if no Cache-Control
/// overrides it, 5.4).
fn heuristic(fields: Fields<'_>, source: Source, dates: &Dates, policy: &Policy) -> Option<u32> {
    let old_no_cache = source == Source::CacheControl
        && !fields.has("cache-control")
        && fields.elements("pragma").any(|e| e.eq_ignore_ascii_case(b"no-cache"));
    if old_no_cache {
        return None;
    }
    let unchanged = dates.last_modified.map(|modified| dates.date.saturating_sub(modified));
    let part = |percent: u32| unchanged.map(|secs| secs.saturating_mul(u64::from(percent)) / 100);
    let secs = match policy.refresh {
        Some(pattern) => part(pattern.percent)
            .unwrap_or(0)
            .max(u64::from(pattern.min))
            .min(u64::from(pattern.max)),
        None => part(policy.heuristic_percent)?.min(u64::from(policy.heuristic_max)),
    };
    Some(u32::try_from(secs).unwrap_or(u32::MAX))
}

fn flags(directives: &CacheControl, policy: &Policy) -> PageFlags {
    PageFlags::empty()
        .with_if(PageFlags::MUST_REVALIDATE, directives.must_revalidate)
        .with_if(PageFlags::PROXY_REVALIDATE, directives.proxy_revalidate)
        .with_if(
            PageFlags::NO_CACHE,
            directives.no_cache == Restriction::Whole && !policy.force_cache,
        )
        .with_if(PageFlags::S_MAXAGE, directives.s_maxage.is_some())
        .with_if(PageFlags::IMMUTABLE, directives.immutable)
        .with_if(PageFlags::NO_TRANSFORM, directives.no_transform)
}

/// A date field given once, or several times with one value; `None` when absent, unreadable or
/// contradictory.
fn single_date(fields: Fields<'_>, name: &str, now: Secs) -> Option<Secs> {
    let mut lines = fields.all(name);
    let first = lines.next()?;
    if lines.any(|other| other != first) {
        return None;
    }
    date::parse(first, now)
}
