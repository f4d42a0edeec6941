//! Settings that an operator may make per rule. The default is the RFC.

use super::VaryField;
use crate::http::Codings;

/// A lifetime for responses without their own, by status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusTtl {
    /// First status it applies to.
    pub first: u16,
    /// Last status it applies to.
    pub last: u16,
    /// Seconds.
    pub ttl: u32,
}

/// A lifetime for responses without their own, like Squid's `refresh_pattern`: a part of the time
/// since the last modification, at least `min`, at most `max` seconds; `min` if there is no
/// Last-Modified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshPattern {
    /// Seconds.
    pub min: u32,
    /// Percent of the time since Last-Modified.
    pub percent: u32,
    /// Seconds.
    pub max: u32,
}

/// Treatment of a response with neither length nor chunks. Its end is the end of the connection:
/// RFC 9112 8 counts it as complete unless the connection reports an error, and a server that dies
/// in the middle of it ends it without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unframed {
    /// Stored as any other.
    Keep,
    /// Stored for [`Unframed::BRIEF`] at most, and fetched whole after that.
    #[default]
    Brief,
    /// Not stored.
    Pass,
}

impl Unframed {
    /// Seconds: long enough that many who ask at once cost the origin one request, short enough
    /// that half a page is gone before it is reported.
    pub const BRIEF: u32 = 10;
}

/// Which pages are searched for the markup of Edge Side Includes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Esi {
    /// None.
    Never,
    /// Those whose Surrogate-Control says `content="ESI/1.0"`.
    #[default]
    Surrogate,
    /// All of the usual types.
    Always,
}

/// Settings that an operator may make per rule. [`Policy::default`] is RFC 9111.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Freshness lifetime in seconds from receipt, overriding that of a storable response. Not for
    /// errors (400 and up), which keep their own lifetime or that of `status_ttl`.
    pub ttl: Option<u32>,
    /// Lifetimes by status for responses without their own (the first that matches); also makes
    /// statuses storable that are not heuristically cacheable. Default: none, errors are stored
    /// only if configured.
    pub status_ttl: Vec<StatusTtl>,
    /// stale-while-revalidate in seconds if the response has none (Varnish: grace).
    pub grace: Option<u32>,
    /// stale-if-error in seconds if the response has none (Varnish: keep).
    pub keep: Option<u32>,
    /// How long past its lifetime a page may be served if the origin cannot be reached at all and
    /// nothing forbids it (RFC 9111 4.2.4, "disconnected"). Default: a day.
    pub disconnected: u32,
    /// For responses without a lifetime of their own; replaces the heuristic.
    pub refresh: Option<RefreshPattern>,
    /// Heuristic lifetime: percent of the time since Last-Modified (RFC 9111 4.2.2). Default: 10.
    pub heuristic_percent: u32,
    /// The longest heuristic lifetime in seconds. Default: a day.
    pub heuristic_max: u32,
    /// Store responses with Set-Cookie, and the cookie with them. Default: no.
    pub allow_set_cookie: bool,
    /// Store the response to a request with Authorization, even if the response does not allow it.
    /// Default: no.
    pub allow_authorization: bool,
    /// Store a response despite its no-store, no-cache or private. Default: no.
    pub force_cache: bool,
    /// Use the stale windows even if must-revalidate, proxy-revalidate or s-maxage forbids it
    /// (never against no-cache). Default: no.
    pub stale_against_origin: bool,
    /// Whether a client's Cache-Control and Pragma count. Default: yes.
    pub honour_client_cc: bool,
    /// Targeted cache-control fields for this cache, the most specific first (RFC 9213 2.2).
    pub targets: Vec<String>,
    /// Whether this cache obeys and removes Surrogate-Control. Default: yes.
    pub surrogate: bool,
    /// The device token of our Surrogate-Capability: `max-age=60;larder` is for this cache only.
    pub surrogate_id: String,
    /// Remove s-maxage (and proxy-revalidate) from Cache-Control on the way to clients. Default:
    /// no.
    pub strip_s_maxage: bool,
    /// Cookies that select a variant if the response varies on Cookie; empty: the whole Cookie
    /// field does.
    pub vary_cookies: Vec<String>,
    /// Response fields that say by which parts of fields a page varies, the preferred one first;
    /// they count instead of Vary. Default: none.
    pub vary_fields: Vec<VaryField>,
    /// Responses whose end is the end of the connection. Default: kept briefly.
    pub unframed: Unframed,
    /// Codings in which stored pages are kept too, the preferred one first; empty: none. The origin
    /// is then asked for uncoded content.
    pub compress: Vec<Codings>,
    /// Pages are compressed with dictionaries too (RFC 9842). Default: no.
    pub dictionary: bool,
    /// Pages that are put together of parts. Default: those that say so.
    pub esi: Esi,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            ttl: None,
            status_ttl: Vec::new(),
            grace: None,
            keep: None,
            disconnected: 86_400,
            refresh: None,
            heuristic_percent: 10,
            heuristic_max: 86_400,
            allow_set_cookie: false,
            allow_authorization: false,
            force_cache: false,
            stale_against_origin: false,
            honour_client_cc: true,
            targets: vec!["CDN-Cache-Control".to_owned()],
            surrogate: true,
            surrogate_id: "larder".to_owned(),
            strip_s_maxage: false,
            vary_cookies: Vec::new(),
            vary_fields: Vec::new(),
            unframed: Unframed::default(),
            compress: Vec::new(),
            dictionary: false,
            esi: Esi::default(),
        }
    }
}

impl Policy {
    /// The operator's lifetime for responses of `status`. Not for errors that a request's own
    /// fields may cause, which are not in the key: one client would make them for all.
    pub fn status_ttl(&self, status: u16) -> Option<u32> {
        if matches!(status, 400 | 406 | 411..=417 | 421 | 428 | 429 | 431) {
            return None;
        }
        self.status_ttl.iter().find(|s| (s.first..=s.last).contains(&status)).map(|s| s.ttl)
    }
}
