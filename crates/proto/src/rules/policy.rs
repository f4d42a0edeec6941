//! What an operator may decide per rule. The default is the RFC.

/// A lifetime for responses that give none themselves, by status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusTtl {
    /// First status it applies to.
    pub first: u16,
    /// Last status it applies to.
    pub last: u16,
    /// Seconds.
    pub ttl: u32,
}

/// A lifetime for responses that give none themselves, as Squid's `refresh_pattern`: a part of the time since the last
/// modification, at least `min`, at most `max` seconds; `min` where there is no Last-Modified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshPattern {
    /// Seconds.
    pub min: u32,
    /// Percent of the time since Last-Modified.
    pub percent: u32,
    /// Seconds.
    pub max: u32,
}

/// What an operator may set per rule. [`Policy::default`] is what RFC 9111 says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Freshness lifetime in seconds from receipt, whatever a storable response says. Not for errors (400 and up), which
    /// keep their own lifetime or that of `status_ttl`.
    pub ttl: Option<u32>,
    /// Lifetimes by status for responses without one of their own (the first that matches); also makes statuses
    /// storable that are not heuristically cacheable. Default: none, errors are kept only when asked for.
    pub status_ttl: Vec<StatusTtl>,
    /// stale-while-revalidate in seconds where the response says nothing (Varnish: grace).
    pub grace: Option<u32>,
    /// stale-if-error in seconds where the response says nothing (Varnish: keep).
    pub keep: Option<u32>,
    /// How long past its lifetime a page may be served when the origin cannot be reached at all and nothing forbids it
    /// (RFC 9111 4.2.4, "disconnected"). Default: a day.
    pub disconnected: u32,
    /// For responses without a lifetime of their own; replaces the heuristic.
    pub refresh: Option<RefreshPattern>,
    /// Heuristic lifetime: percent of the time since Last-Modified (RFC 9111 4.2.2). Default: 10.
    pub heuristic_percent: u32,
    /// The longest heuristic lifetime in seconds. Default: a day.
    pub heuristic_max: u32,
    /// Store responses with Set-Cookie, and the cookie with them. Default: no.
    pub allow_set_cookie: bool,
    /// Store what a request with Authorization got, although the response does not allow it. Default: no.
    pub allow_authorization: bool,
    /// Store although the response says no-store, no-cache or private. Default: no.
    pub force_cache: bool,
    /// Use the stale windows although must-revalidate, proxy-revalidate or s-maxage forbids it (never against no-cache).
    /// Default: no.
    pub stale_against_origin: bool,
    /// Whether a client's Cache-Control and Pragma count. Default: yes.
    pub honour_client_cc: bool,
    /// Targeted cache-control fields meant for us, the most specific first (RFC 9213 2.2).
    pub targets: Vec<String>,
    /// Whether Surrogate-Control is ours to obey and consume. Default: yes.
    pub surrogate: bool,
    /// The device token of our Surrogate-Capability: `max-age=60;larder` is meant for us alone.
    pub surrogate_id: String,
    /// Remove s-maxage (and proxy-revalidate) from Cache-Control on the way to clients. Default: no.
    pub strip_s_maxage: bool,
    /// Cookies that select a variant where the response varies on Cookie; empty: the whole Cookie field does.
    pub vary_cookies: Vec<String>,
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
        }
    }
}

impl Policy {
    /// The lifetime the operator gives responses of `status`.
    pub fn status_ttl(&self, status: u16) -> Option<u32> {
        self.status_ttl.iter().find(|s| (s.first..=s.last).contains(&status)).map(|s| s.ttl)
    }
}
