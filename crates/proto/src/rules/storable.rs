//! Which responses may be stored (RFC 9111 3).

use super::directives::{governing, of_request};
use super::freshness::{self, heuristically_cacheable, is_explicit, stale_forbidden};
use super::invalidate::resolve;
use super::{Lifetime, Policy, RequestFacts, ResponseFacts, Uri, Vary, partial, strip, vary};
use crate::http::framing::content_length;
use crate::http::{CacheControl, Codings, Method, Restriction};
use crate::page::{PageFlags, Partial};

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storable {
    /// Store it, and keep it by these facts.
    Yes(Lifetime),
    /// Do not, and why.
    No(NoStore),
}

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoStore {
    /// Only GET is stored (and POST under conditions).
    Method,
    /// Not a final status; or a 304, 412 or 416, which answer a condition or range that is no part of the key.
    Status,
    /// The request said no-store.
    RequestNoStore,
    /// The response said no-store.
    NoStore,
    /// The response said private.
    Private,
    /// must-understand with a status this cache does not know.
    NotUnderstood,
    /// The request carried Authorization.
    Authorization,
    /// The response sets a cookie, and does not keep the field to its client itself.
    SetCookie,
    /// `Vary: *`
    VaryStar,
    /// Varies on Accept-Encoding, and came in a coding not known here.
    OddCoding,
    /// A 206 without a Content-Range that makes sense.
    ContentRange,
    /// No lifetime and no validator: it could never be used.
    NoFreshness,
}

impl NoStore {
    /// A word for the log and Cache-Status's detail.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::Status => "status",
            Self::RequestNoStore => "request-no-store",
            Self::NoStore => "no-store",
            Self::Private => "private",
            Self::NotUnderstood => "must-understand",
            Self::Authorization => "authorization",
            Self::SetCookie => "set-cookie",
            Self::VaryStar => "vary-star",
            Self::OddCoding => "odd-coding",
            Self::ContentRange => "content-range",
            Self::NoFreshness => "no-freshness",
        }
    }
}

/// Whether the response to a GET may be stored (RFC 9111 3) and for how long it is fresh (4.2).
pub fn storable(req: &RequestFacts<'_>, resp: &ResponseFacts<'_>, policy: &Policy) -> Storable {
    if req.method != Method::Get {
        return Storable::No(NoStore::Method);
    }
    let partial = match resp.status {
        206 => part(req, resp).map(Some),
        _ => Ok(None),
    };
    partial.and_then(|partial| judge(req, resp, policy, partial)).map_or_else(Storable::No, Storable::Yes)
}

/// Whether the response to a POST may be stored for later GETs of `uri` (RFC 9110 9.3.3): explicit freshness and a
/// Content-Location equal to the target.
pub fn storable_post(
    req: &RequestFacts<'_>,
    resp: &ResponseFacts<'_>,
    policy: &Policy,
    uri: &Uri<'_>,
) -> Storable {
    let (directives, source) = governing(resp.fields, policy);
    let located = resp.fields.get("content-location").and_then(|value| resolve(uri, value));
    let allowed = req.method == Method::Post
        && (200..300).contains(&resp.status)
        && resp.status != 206
        && is_explicit(resp.fields, &directives, source)
        && located.as_deref() == Some(uri.path_and_query);
    if !allowed {
        return Storable::No(NoStore::Method);
    }
    judge(req, resp, policy, None).map_or_else(Storable::No, Storable::Yes)
}

/// RFC 9111 3, condition by condition.
pub(super) fn judge(
    req: &RequestFacts<'_>,
    resp: &ResponseFacts<'_>,
    policy: &Policy,
    partial: Option<Partial>,
) -> Result<Lifetime, NoStore> {
    if !(200..1000).contains(&resp.status) || matches!(resp.status, 304 | 412 | 416) {
        return Err(NoStore::Status);
    }
    if of_request(req, policy).no_store {
        return Err(NoStore::RequestNoStore);
    }
    let (directives, source) = governing(resp.fields, policy);
    allowed_by_directives(resp, &directives, policy)?;
    authorised(req, &directives, policy)?;
    if sets_cookie(resp, policy) && !policy.allow_set_cookie && !policy.force_cache {
        return Err(NoStore::SetCookie);
    }
    selectable(resp)?;
    let (mut lifetime, has_freshness) = freshness::lifetime(resp, policy);
    let validator = resp.fields.has("etag") || lifetime.last_modified.is_some();
    // "at least one of": public, Expires, max-age, s-maxage, or a heuristically cacheable status.
    let kind_allows = has_freshness
        || directives.public
        || is_explicit(resp.fields, &directives, source)
        || heuristically_cacheable(resp.status);
    let fresh = lifetime.freshness > lifetime.initial_age;
    // How long it may be used stale is for what once was fresh: it makes no page of one that says nothing.
    let stale =
        has_freshness && !stale_forbidden(lifetime.flags, policy) && (lifetime.swr > 0 || lifetime.sie > 0);
    let usable = validator || (!lifetime.flags.any(PageFlags::NO_CACHE) && (fresh || stale));
    if !kind_allows || !usable {
        return Err(NoStore::NoFreshness);
    }
    lifetime.partial = partial;
    lifetime.flags = lifetime.flags.with_if(PageFlags::AUTHORIZED, req.known.authorization().is_some());
    Ok(lifetime)
}

/// no-store, must-understand and private (RFC 9111 5.2.2.3, 5.2.2.5, 5.2.2.7). `private` with field names leaves the rest
/// of the response to be stored; [`super::strip`] drops the fields.
fn allowed_by_directives(
    resp: &ResponseFacts<'_>,
    directives: &CacheControl,
    policy: &Policy,
) -> Result<(), NoStore> {
    if directives.must_understand && !understood(resp.status) {
        return Err(NoStore::NotUnderstood);
    }
    if policy.force_cache {
        return Ok(());
    }
    // A cache that knows must-understand and the status disregards the no-store put beside it for those that do not.
    if directives.no_store && !directives.must_understand {
        return Err(NoStore::NoStore);
    }
    if directives.private == Restriction::Whole {
        return Err(NoStore::Private);
    }
    Ok(())
}

/// Whether the response sets a cookie that is not kept out of the stored head by the response itself
/// (`no-cache="set-cookie"`, `private="set-cookie"`; RFC 9111 5.2.2.4, 5.2.2.7): then the rest of it is for everyone.
fn sets_cookie(resp: &ResponseFacts<'_>, policy: &Policy) -> bool {
    resp.fields.has("set-cookie") && !strip::restricted(resp.fields, policy, "set-cookie")
}

/// What a request with Authorization got is stored only where the response says so (RFC 9111 3.5).
fn authorised(req: &RequestFacts<'_>, directives: &CacheControl, policy: &Policy) -> Result<(), NoStore> {
    let allowed = directives.must_revalidate || directives.public || directives.s_maxage.is_some();
    if req.known.authorization().is_none() || allowed || policy.allow_authorization || policy.force_cache {
        Ok(())
    } else {
        Err(NoStore::Authorization)
    }
}

/// Whether a variant could be found again: not with `Vary: *`, and not where Accept-Encoding selects and the response came
/// in a coding that the normalised form of that field does not tell apart.
fn selectable(resp: &ResponseFacts<'_>) -> Result<(), NoStore> {
    match vary::names(resp.fields) {
        Vary::None => Ok(()),
        Vary::Star => Err(NoStore::VaryStar),
        Vary::Names(names) => {
            let mut codings = resp.fields.elements("content-encoding");
            let known = codings.all(|c| c.eq_ignore_ascii_case(b"identity") || Codings::named(c).is_some());
            if known || names.iter().all(|n| n != "accept-encoding") {
                Ok(())
            } else {
                Err(NoStore::OddCoding)
            }
        }
    }
}

/// Statuses whose caching requirements this cache implements: those of RFC 9110 15, and 421, 451 and the like, of which
/// caches need know nothing more. 206 and 304 are handled; 1xx are never stored.
fn understood(status: u16) -> bool {
    matches!(
        status,
        200..=206 | 300..=303 | 305 | 307 | 308 | 400..=417 | 421 | 422 | 425 | 426 | 428 | 429 | 431 | 451 | 500..=505 | 511
    )
}

/// A 206 is stored as the part its Content-Range names (RFC 9111 3.3): one range with a known total, as long as the
/// body where its length is given.
fn part(req: &RequestFacts<'_>, resp: &ResponseFacts<'_>) -> Result<Partial, NoStore> {
    let part = partial::content_range(resp.fields).ok_or(NoStore::ContentRange)?;
    let length = resp.fields.get("content-length").map(content_length);
    if req.known.range().is_none() || length.is_some_and(|length| length != Some(part.bytes())) {
        return Err(NoStore::ContentRange);
    }
    Ok(part)
}

#[cfg(test)]
#[path = "storable_tests.rs"]
mod tests;
