//! Which responses may be stored (RFC 9111 3).

use super::directives::{governing, of_request};
use super::freshness::{self, heuristically_cacheable, is_explicit, stale_forbidden};
use super::{Lifetime, Policy, RequestFacts, ResponseFacts, Vary, compress, partial, strip, vary};
use crate::http::accept::is_coding;
use crate::http::framing::content_length;
use crate::http::{CacheControl, Codings, Method, Restriction};
use crate::page::{PageFlags, Partial};

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storable {
    /// Store it, with these facts.
    Yes(Lifetime),
    /// Do not store it; the reason.
    No(NoStore),
}

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoStore {
    /// Only GET is stored.
    Method,
    /// Not a final status; not a status at all (RFC 9110 15: 600 and up are invalid); or a 304, 412
    /// or 416, which answer a condition or range that is not part of the key.
    Status,
    /// The request has no-store.
    RequestNoStore,
    /// The response has no-store.
    NoStore,
    /// The response has private.
    Private,
    /// must-understand with a status this cache does not know.
    NotUnderstood,
    /// The request carried Authorization.
    Authorization,
    /// The response sets a cookie, and does not restrict the field to its client itself.
    SetCookie,
    /// `Vary: *`
    VaryStar,
    /// Varies on Accept-Encoding, and came in an unknown coding.
    OddCoding,
    /// Came in a coding that the request does not accept.
    CodingNotAccepted,
    /// A 206 without a Content-Range that makes sense.
    ContentRange,
    /// No lifetime and no validator: it could never be used.
    NoFreshness,
}

impl NoStore {
    /// A word for the log and for `detail` of Cache-Status.
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
            Self::CodingNotAccepted => "coding-not-accepted",
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
    partial
        .and_then(|partial| judge(req, resp, policy, partial))
        .and_then(|lifetime| accepted(req, resp, policy).map(|()| lifetime))
        .map_or_else(Storable::No, Storable::Yes)
}

/// Whether the response came in a coding that the request accepts. One that did not was not made
/// for its Accept-Encoding, by which it would be found again.
fn accepted(
    req: &RequestFacts<'_>,
    resp: &ResponseFacts<'_>,
    policy: &Policy,
) -> Result<(), NoStore> {
    if !policy.compress.is_empty() && !vary::is_coded(resp.fields) {
        return Ok(());
    }
    let codings = Codings::parse(req.fields.all("accept-encoding"));
    let allowed =
        codings.allows(resp.fields.elements("content-encoding").filter(|name| is_coding(name)));
    if allowed { Ok(()) } else { Err(NoStore::CodingNotAccepted) }
}

/// RFC 9111 3, condition by condition.
pub(super) fn judge(
    req: &RequestFacts<'_>,
    resp: &ResponseFacts<'_>,
    policy: &Policy,
    partial: Option<Partial>,
) -> Result<Lifetime, NoStore> {
    if !(200..600).contains(&resp.status) || matches!(resp.status, 304 | 412 | 416) {
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
    selectable(resp, policy)?;
    let (mut lifetime, has_freshness) = freshness::lifetime(resp, policy);
    let validator = resp.fields.has("etag") || lifetime.last_modified.is_some();
    // "at least one of": public, Expires, max-age, s-maxage, or a heuristically cacheable status.
    let kind_allows = has_freshness
        || directives.public
        || is_explicit(resp.fields, &directives, source)
        || heuristically_cacheable(resp.status);
    let fresh = lifetime.freshness > lifetime.initial_age;
    // A stale window applies to a page that once was fresh: it does not make a response without a
    // lifetime storable.
    let stale = has_freshness
        && !stale_forbidden(lifetime.flags, policy)
        && (lifetime.swr > 0 || lifetime.sie > 0);
    let usable = validator || (!lifetime.flags.any(PageFlags::NO_CACHE) && (fresh || stale));
    if !kind_allows || !usable {
        return Err(NoStore::NoFreshness);
    }
    lifetime.partial = partial;
    let compressible = partial.is_none() && compress::compressible(resp, policy);
    lifetime.flags = lifetime
        .flags
        .with_if(PageFlags::AUTHORIZED, req.known.authorization().is_some())
        .with_if(PageFlags::COMPRESSIBLE, compressible);
    Ok(lifetime)
}

/// no-store, must-understand and private (RFC 9111 5.2.2.3, 5.2.2.5, 5.2.2.7). With `private` and
/// field names the rest of the response may be stored; [`super::strip`] drops the fields.
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
    // A cache that implements must-understand and the status ignores the no-store that accompanies
    // it for other caches.
    if directives.no_store && !directives.must_understand {
        return Err(NoStore::NoStore);
    }
    if directives.private == Restriction::Whole {
        return Err(NoStore::Private);
    }
    Ok(())
}

/// Whether the response sets a cookie that it does not itself keep out of the stored head
/// (`no-cache="set-cookie"`, `private="set-cookie"`; RFC 9111 5.2.2.4, 5.2.2.7): with such a
/// directive the rest is for everyone.
fn sets_cookie(resp: &ResponseFacts<'_>, policy: &Policy) -> bool {
    resp.fields.has("set-cookie") && !strip::restricted(resp.fields, policy, "set-cookie")
}

/// The response to a request with Authorization is stored only if the response allows it (RFC 9111
/// 3.5).
fn authorised(
    req: &RequestFacts<'_>,
    directives: &CacheControl,
    policy: &Policy,
) -> Result<(), NoStore> {
    let allowed = directives.must_revalidate || directives.public || directives.s_maxage.is_some();
    if req.known.authorization().is_none()
        || allowed
        || policy.allow_authorization
        || policy.force_cache
    {
        Ok(())
    } else {
        Err(NoStore::Authorization)
    }
}

/// Whether a variant could be found again: not with `Vary: *`, and not if Accept-Encoding selects
/// and the response came in a coding that the normalised form of that field does not distinguish.
fn selectable(resp: &ResponseFacts<'_>, policy: &Policy) -> Result<(), NoStore> {
    match vary::finest(resp.fields, policy) {
        Vary::None => Ok(()),
        Vary::Star => Err(NoStore::VaryStar),
        Vary::Names(names) => {
            let mut codings = resp.fields.elements("content-encoding");
            let known =
                codings.all(|c| c.eq_ignore_ascii_case(b"identity") || Codings::named(c).is_some());
            if known || names.iter().all(|n| n != "accept-encoding") {
                Ok(())
            } else {
                Err(NoStore::OddCoding)
            }
        }
    }
}

/// Statuses whose caching requirements this cache implements: those of RFC 9110 15, and 421, 451
/// and the like, which have no special requirements for caches. 206 and 304 are handled; 1xx are
/// never stored.
fn understood(status: u16) -> bool {
    matches!(
        status,
        200..=206 | 300..=303 | 305 | 307 | 308 | 400..=417 | 421 | 422 | 425 | 426 | 428
        | 429 | 431 | 451 | 500..=505 | 511
    )
}

/// A 206 is stored as the part named by its Content-Range (RFC 9111 3.3): one range with a known
/// total, of the length of the body if that is given.
fn part(req: &RequestFacts<'_>, resp: &ResponseFacts<'_>) -> Result<Partial, NoStore> {
    let part = partial::content_range(resp.fields).ok_or(NoStore::ContentRange)?;
    let length = resp.fields.get("content-length").map(content_length);
    if req.known.range().is_none() || length.is_some_and(|length| length != Some(part.bytes())) {
        return Err(NoStore::ContentRange);
    }
    Ok(part)
}

#[cfg(test)]
mod tests;
