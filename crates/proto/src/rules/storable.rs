//! Which responses may be stored (RFC 9111 3).

use super::{Lifetime, Policy, RequestFacts, ResponseFacts, Uri};

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
    /// Not a final status, or a 304.
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
    /// The response sets a cookie.
    SetCookie,
    /// `Vary: *`
    VaryStar,
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
            Self::ContentRange => "content-range",
            Self::NoFreshness => "no-freshness",
        }
    }
}

/// Whether the response to a GET may be stored (RFC 9111 3) and for how long it is fresh (4.2).
pub fn storable(req: &RequestFacts<'_>, resp: &ResponseFacts<'_>, policy: &Policy) -> Storable {
    let _ = (req, resp, policy);
    todo!()
}

/// Whether the response to a POST may be stored for later GETs of `uri` (RFC 9110 9.3.3): explicit freshness and a
/// Content-Location equal to the target.
pub fn storable_post(
    req: &RequestFacts<'_>,
    resp: &ResponseFacts<'_>,
    policy: &Policy,
    uri: &Uri<'_>,
) -> Storable {
    let _ = (req, resp, policy, uri);
    todo!()
}
