//! The validated configuration.
//!
//! The binary turns text (TOML and flags) into these types, with every mistake reported there. Code in this crate never
//! sees raw text: what it holds here has been checked. All types are plain data plus the matching that belongs to them
//! (hosts, globs, networks, rules), so that a request is resolved to its policy in one place.

use std::{
    borrow::Cow,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

pub use larder_proto::http::query::Pattern;
pub use larder_proto::rules::{Policy, RefreshPattern, StatusTtl};
use regex::Regex;

/// Everything a server needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes of the one store, index and bookkeeping included.
    pub memory: u64,
    /// Worker threads, at least 1.
    pub threads: usize,
    /// The HTTP side.
    pub http: HttpSettings,
    /// Sites, in the order of the file. `site_for` picks one by host.
    pub sites: Vec<Arc<Site>>,
    /// None: no access log.
    pub access_log: Option<AccessLogSettings>,
}

/// Listeners and what all sites share.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Addresses to listen on; port 0 lets the system pick.
    pub listen: Vec<SocketAddr>,
    /// What protects the server from its clients.
    pub limits: Limits,
    /// Send `X-Cache` and `X-Cache-Lookup`.
    pub x_cache: bool,
    /// Send `Cache-Status` (RFC 9211).
    pub cache_status: bool,
    /// A whole header line (`Name: value`) added to every answer from memory; None: nothing is announced.
    pub announce: Option<String>,
    /// The pseudonym in `Via` (RFC 9110 section 7.6.3); None: no `Via` is sent.
    pub via: Option<String>,
    /// Peers whose `X-Forwarded-*` and `Forwarded` are believed; from all others these fields are dropped.
    pub trusted_proxies: Vec<Net>,
    /// `SO_SNDBUF` of client connections in bytes; 0 leaves it to the system. Bounded so that what is in flight of a
    /// large body stays in the processor's cache.
    pub sndbuf: usize,
}

/// Limits on what a client may ask of the server. Each refusal has its own status and counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request head, else 431.
    pub head_bytes: usize,
    /// Bytes of the request line, else 414.
    pub request_line: usize,
    /// Header fields in a request, else 431.
    pub fields: usize,
    /// Client connections at once over all threads; the next one is closed at once.
    pub connections: usize,
    /// Bytes of a request body, else 413.
    pub request_body: u64,
    /// From the first byte of a request to the end of its head, else 408.
    pub header_timeout: Duration,
    /// Between requests on a kept-alive connection, then it is closed.
    pub idle_timeout: Duration,
    /// Without progress while receiving a request body, else 408.
    pub body_timeout: Duration,
    /// Without progress while sending an answer, then the connection is dropped.
    pub send_timeout: Duration,
    /// Pipelined requests read ahead of the answers on one connection.
    pub pipeline: usize,
    /// How long requests under way may take to finish when the server is told to stop.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            head_bytes: 64 << 10,
            request_line: 16 << 10,
            fields: 100,
            connections: 10_000,
            request_body: 1 << 30,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(30),
            send_timeout: Duration::from_secs(60),
            pipeline: 64,
            drain: Duration::from_secs(30),
        }
    }
}

impl Default for HttpSettings {
    fn default() -> Self {
        HttpSettings {
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 8080))],
            limits: Limits::default(),
            x_cache: true,
            cache_status: true,
            announce: None,
            via: Some("larder".to_owned()),
            trusted_proxies: Vec::new(),
            sndbuf: 256 << 10,
        }
    }
}

impl Settings {
    /// The site that answers for `host` (a host name without port, any case): an exact name first, then the longest
    /// matching wildcard, then the first site without `hosts`. None: nobody here answers for it (421).
    pub fn site_for(&self, host: &str) -> Option<&Arc<Site>> {
        let host = host.strip_suffix('.').unwrap_or(host);
        let mut best: Option<(usize, &Arc<Site>)> = None;
        for site in &self.sites {
            let Some(rank) = site.rank(host) else { continue };
            if best.is_none_or(|(held, _)| rank > held) {
                best = Some((rank, site));
            }
        }
        best.map(|(_, site)| site)
    }
}

/// One site: the hosts it answers for, where its pages come from and the rules for keeping them.
#[derive(Clone, Debug)]
pub struct Site {
    /// For logs and listings: the first host, or `default`.
    pub name: String,
    /// Empty: any host no other site claims.
    pub hosts: Vec<HostPattern>,
    /// Where pages come from.
    pub origin: Arc<OriginSettings>,
    /// Who may purge.
    pub purge: PurgeSettings,
    /// What holds where no rule says otherwise.
    pub defaults: Arc<RulePolicy>,
    /// In order: for every field the first matching rule that sets it wins. At most `MAX_RULES`.
    pub rules: Vec<Rule>,
}

/// Rules of one site, those of its preset included.
pub const MAX_RULES: usize = 64;

impl Site {
    /// None: not this site's host. Else the higher the better: exact, then longer wildcards, then "any".
    fn rank(&self, host: &str) -> Option<usize> {
        if self.hosts.is_empty() {
            return Some(0);
        }
        self.hosts.iter().filter_map(|pattern| pattern.rank(host)).max()
    }

    /// The policy for one request. Borrowed when no rule or a single rule matches (the hit path allocates nothing);
    /// several matching rules are merged into an owned one.
    pub fn policy(&self, request: &RequestView<'_>) -> Cow<'_, Arc<RulePolicy>> {
        let mut matching = self.rules.iter().filter(|rule| rule.matcher.matches(request));
        let Some(first) = matching.next() else { return Cow::Borrowed(&self.defaults) };
        let Some(second) = matching.next() else { return Cow::Borrowed(&first.alone) };
        let mut action = first.action.clone();
        action.fill_from(&second.action);
        for rule in matching {
            action.fill_from(&rule.action);
        }
        Cow::Owned(Arc::new(action.over(&self.defaults)))
    }
}

/// A host name or `*.` and a domain, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// Exactly this host.
    Exact(String),
    /// Any host that ends in this, which begins with a dot (`.example.org` for `*.example.org`); not the domain itself.
    Suffix(String),
}

impl HostPattern {
    /// From `wiki.example.org` or `*.example.org`. None: neither.
    pub fn parse(text: &str) -> Option<HostPattern> {
        let lower = text.trim_end_matches('.').to_ascii_lowercase();
        let (name, wildcard) = match lower.strip_prefix("*.") {
            Some(rest) => (rest, true),
            None => (lower.as_str(), false),
        };
        let literal_v6 = name.starts_with('[') && name.ends_with(']');
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
        if name.is_empty() || !(literal_v6 || name.bytes().all(plain)) {
            return None;
        }
        Some(if wildcard {
            HostPattern::Suffix(format!(".{name}"))
        } else {
            HostPattern::Exact(name.to_owned())
        })
    }

    fn rank(&self, host: &str) -> Option<usize> {
        match self {
            HostPattern::Exact(name) => name.eq_ignore_ascii_case(host).then_some(usize::MAX),
            HostPattern::Suffix(suffix) => {
                let cut = host.len().checked_sub(suffix.len()).filter(|&cut| cut > 0)?;
                host.as_bytes()[cut..].eq_ignore_ascii_case(suffix.as_bytes()).then_some(suffix.len())
            }
        }
    }
}

/// How the origin is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginScheme {
    /// HTTP/1.1 over TCP.
    Http,
}

/// Where a site's pages come from, and for how long it may keep us waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginSettings {
    /// How it is spoken to.
    pub scheme: OriginScheme,
    /// Host name or address, brackets of an IPv6 address removed.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// `Host` sent to the origin; None passes the client's on.
    pub host_header: Option<String>,
    /// For the TCP connection.
    pub connect_timeout: Duration,
    /// From the request sent to the head of the final response.
    pub first_byte_timeout: Duration,
    /// Between two pieces of the body.
    pub between_bytes_timeout: Duration,
    /// For the whole response.
    pub total_timeout: Duration,
    /// Connections at once, per worker thread.
    pub max_connections: usize,
    /// Requests waiting for a connection, per worker thread; the next one gets 503.
    pub max_waiting: usize,
    /// Idle connections kept, per worker thread.
    pub idle_connections: usize,
    /// How long an idle connection is kept.
    pub idle_timeout: Duration,
}

impl Default for OriginSettings {
    fn default() -> Self {
        OriginSettings {
            scheme: OriginScheme::Http,
            host: "127.0.0.1".to_owned(),
            port: 80,
            host_header: None,
            connect_timeout: Duration::from_secs(3),
            first_byte_timeout: Duration::from_secs(60),
            between_bytes_timeout: Duration::from_secs(30),
            total_timeout: Duration::from_secs(3600),
            max_connections: 128,
            max_waiting: 1024,
            idle_connections: 32,
            idle_timeout: Duration::from_secs(30),
        }
    }
}

/// Who may purge: a peer of one of the networks, or whoever has the token. By default nobody.
#[derive(Clone, Debug, Default)]
pub struct PurgeSettings {
    /// Peers that need no token.
    pub from: Vec<Net>,
    /// `Authorization: Bearer <token>`.
    pub token: Option<Secret>,
}

impl PurgeSettings {
    /// Whether `peer` (the TCP peer, never a forwarded address) with this `Authorization` value may purge.
    pub fn allows(&self, peer: IpAddr, authorization: Option<&[u8]>) -> bool {
        if self.from.iter().any(|net| net.contains(peer)) {
            return true;
        }
        let (Some(token), Some(value)) = (&self.token, authorization) else { return false };
        let bearer = value.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
        bearer.is_some() && token.matches(value[7..].trim_ascii())
    }
}

/// Text that must not show up in logs.
#[derive(Clone)]
pub struct Secret(Arc<[u8]>);

impl Secret {
    /// Keeps `bytes`, which must not be empty (an empty token would let everyone in): None then.
    pub fn new(bytes: &[u8]) -> Option<Secret> {
        (!bytes.is_empty()).then(|| Secret(bytes.into()))
    }

    /// Compares in a time that depends on the lengths only.
    pub fn matches(&self, offered: &[u8]) -> bool {
        let mut difference = u8::from(self.0.len() != offered.len());
        for (index, byte) in offered.iter().enumerate() {
            difference |= byte ^ self.0[index % self.0.len()];
        }
        std::hint::black_box(difference) == 0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A network: `10.0.0.0/8`, `::1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Net {
    base: u128,
    mask: u128,
}

impl Net {
    /// From an address with or without a prefix length. None: neither, or host bits set below the prefix.
    pub fn parse(text: &str) -> Option<Net> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(width);
        if prefix > width {
            return None;
        }
        let mask = u128::MAX.checked_shl(width - prefix).unwrap_or(0);
        let mask = if address.is_ipv4() { mask | (u128::MAX << 32) } else { mask };
        let base = mapped(address);
        (base & mask == base).then_some(Net { base, mask })
    }

    /// IPv4 addresses and IPv4-mapped IPv6 ones are the same.
    pub fn contains(&self, address: IpAddr) -> bool {
        mapped(address) & self.mask == self.base
    }
}

/// Both families in one number: IPv4 as its IPv4-mapped IPv6 address.
fn mapped(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_ipv6_mapped()),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = Ipv6Addr::from(self.base);
        let prefix = self.mask.leading_ones();
        match base.to_ipv4_mapped() {
            Some(v4) if prefix >= 96 => write!(f, "{v4}/{}", prefix - 96),
            _ => write!(f, "{base}/{prefix}"),
        }
    }
}

/// A pattern in which `*` stands for any run of bytes (also none, also `/`) and `?` for one byte. Case counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(Box<str>);

impl Glob {
    /// Every text is a glob.
    pub fn new(text: &str) -> Glob {
        Glob(text.into())
    }

    /// As written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether all of `text` matches. Linear backtracking to the last `*` only: at most pattern times text steps.
    pub fn matches(&self, text: &[u8]) -> bool {
        let pattern = self.0.as_bytes();
        let (mut p, mut t) = (0, 0);
        let mut retry: Option<(usize, usize)> = None;
        while t < text.len() {
            match pattern.get(p) {
                Some(b'*') => {
                    p += 1;
                    if p == pattern.len() {
                        return true;
                    }
                    retry = Some((p, t));
                }
                Some(&b) if b == b'?' || b == text[t] => {
                    p += 1;
                    t += 1;
                }
                _ => {
                    let Some((after_star, from)) = retry else { return false };
                    p = after_star;
                    t = from + 1;
                    retry = Some((p, t));
                }
            }
        }
        pattern[p..].iter().all(|&b| b == b'*')
    }
}

/// What a rule looks at in a request.
pub struct RequestView<'a> {
    /// As sent: case counts.
    pub method: &'a str,
    /// Path without query, as sent (not percent-decoded).
    pub path: &'a str,
    /// Whether any field line of this name (any case) satisfies the test.
    pub any: &'a dyn Fn(&str, &mut dyn FnMut(&[u8]) -> bool) -> bool,
}

/// When a rule applies: all that is given must match.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    /// One of these over the whole path without query; empty: any path.
    pub paths: Vec<Glob>,
    /// Anywhere in the path without query.
    pub path_regex: Option<Regex>,
    /// One of these; empty: any method.
    pub methods: Vec<String>,
    /// A cookie of the request.
    pub cookie: Option<CookiePattern>,
    /// A field line of the request: name, and glob over its value.
    pub header: Option<(String, Glob)>,
}

impl Matcher {
    /// Whether the request is one of those meant.
    pub fn matches(&self, request: &RequestView<'_>) -> bool {
        (self.paths.is_empty() || self.paths.iter().any(|glob| glob.matches(request.path.as_bytes())))
            && (self.methods.is_empty() || self.methods.iter().any(|method| method == request.method))
            && self.path_regex.as_ref().is_none_or(|regex| regex.is_match(request.path))
            && self.cookie.as_ref().is_none_or(|pattern| {
                (request.any)("cookie", &mut |line| {
                    cookies(line).any(|(name, value)| pattern.matches(name, value))
                })
            })
            && self
                .header
                .as_ref()
                .is_none_or(|(name, glob)| (request.any)(name, &mut |value| glob.matches(value)))
    }
}

/// A cookie by name, and by value when one is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookiePattern {
    /// Over the name.
    pub name: Glob,
    /// Over the value.
    pub value: Option<Glob>,
}

impl CookiePattern {
    /// From `name` or `name=value`, both globs.
    pub fn new(text: &str) -> CookiePattern {
        match text.split_once('=') {
            Some((name, value)) => CookiePattern { name: Glob::new(name), value: Some(Glob::new(value)) },
            None => CookiePattern { name: Glob::new(text), value: None },
        }
    }

    /// Whether this cookie is meant.
    pub fn matches(&self, name: &[u8], value: &[u8]) -> bool {
        self.name.matches(name) && self.value.as_ref().is_none_or(|glob| glob.matches(value))
    }
}

/// Names and values of one `Cookie` field line (RFC 6265 section 4.2.1), blanks around them removed, empty pairs skipped.
/// A pair without `=` is a cookie without name, as browsers treat it: its text is taken as the name here, so that a rule
/// on names still sees it.
pub fn cookies(line: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    line.split(|&b| b == b';').map(<[u8]>::trim_ascii).filter(|pair| !pair.is_empty()).map(|pair| match pair
        .iter()
        .position(|&b| b == b'=')
    {
        Some(at) => (pair[..at].trim_ascii_end(), pair[at + 1..].trim_ascii_start()),
        None => (pair, &[][..]),
    })
}

/// A condition and what it changes.
#[derive(Clone, Debug)]
pub struct Rule {
    /// When.
    pub matcher: Matcher,
    /// What.
    pub action: RuleAction,
    /// `action` over the site's defaults, ready for the common case that only this rule matches.
    pub alone: Arc<RulePolicy>,
}

impl Rule {
    /// `defaults`: those of the site the rule belongs to.
    pub fn new(matcher: Matcher, action: RuleAction, defaults: &RulePolicy) -> Rule {
        let alone = Arc::new(action.over(defaults));
        Rule { matcher, action, alone }
    }
}

/// What becomes of a request and its response.
#[derive(Clone, Debug, PartialEq)]
pub struct RulePolicy {
    /// Straight to the origin: nothing is looked up, nothing is stored.
    pub pass: bool,
    /// A request with one of these cookies (and not ignored) is passed: the anonymous-visitor rule.
    pub bypass_cookies: Arc<[CookiePattern]>,
    /// Cookies treated as if they were not there; see `significant_cookies`.
    pub ignore_cookies: Arc<[Glob]>,
    /// Query parameters left out of key and request.
    pub drop_query: Arc<[Pattern]>,
    /// Query parameters sorted in key and request.
    pub sort_query: bool,
    /// Larger bodies are delivered and not stored.
    pub max_object: u64,
    /// What RFC 9111 leaves to the operator.
    pub cache: Policy,
}

impl Default for RulePolicy {
    fn default() -> Self {
        RulePolicy {
            pass: false,
            bypass_cookies: Arc::new([]),
            ignore_cookies: Arc::new([]),
            drop_query: Arc::new([]),
            sort_query: false,
            max_object: 1 << 30,
            cache: Policy::default(),
        }
    }
}

impl RulePolicy {
    /// Whether a `Cookie` line makes the request one to pass.
    pub fn bypassed_by(&self, line: &[u8]) -> bool {
        !self.bypass_cookies.is_empty()
            && cookies(line).any(|(name, value)| {
                self.bypass_cookies.iter().any(|pattern| pattern.matches(name, value))
                    && !self.ignores_cookie(name)
            })
    }

    /// Whether a cookie is treated as if it were not there.
    pub fn ignores_cookie(&self, name: &[u8]) -> bool {
        self.ignore_cookies.iter().any(|glob| glob.matches(name))
    }

    /// A `Cookie` value without the ignored cookies: what `Vary: Cookie` compares, and what the origin is sent with a
    /// request whose answer may be stored. Borrowed when none is ignored; empty when all are.
    pub fn significant_cookies<'a>(&self, line: &'a [u8]) -> Cow<'a, [u8]> {
        if self.ignore_cookies.is_empty() || !cookies(line).any(|(name, _)| self.ignores_cookie(name)) {
            return Cow::Borrowed(line);
        }
        let pairs = line.split(|&b| b == b';').map(<[u8]>::trim_ascii).filter(|pair| !pair.is_empty());
        let kept: Vec<&[u8]> =
            pairs.filter(|pair| cookies(pair).any(|(name, _)| !self.ignores_cookie(name))).collect();
        Cow::Owned(kept.join(&b"; "[..]))
    }
}

/// Declares the overlay of a policy: the same fields, each optional, and the two ways to combine them.
macro_rules! overlay {
    ($(#[$doc:meta])* $name:ident over $target:ident { $($field:ident: $type:ty),* $(,)? } $(nested { $($inner:ident: $inner_type:ty),* })?) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            $(#[allow(missing_docs)] pub $field: Option<$type>,)*
            $($(#[allow(missing_docs)] pub $inner: $inner_type,)*)?
        }

        impl $name {
            /// Takes from `other` what is not set here.
            pub fn fill_from(&mut self, other: &$name) {
                $(if self.$field.is_none() { self.$field.clone_from(&other.$field); })*
                $($(self.$inner.fill_from(&other.$inner);)*)?
            }

            /// `base` with what is set here.
            pub fn over(&self, base: &$target) -> $target {
                let mut out = base.clone();
                $(if let Some(value) = &self.$field { out.$field = value.clone(); })*
                $($(out.$inner = self.$inner.over(&base.$inner);)*)?
                out
            }
        }
    };
}

overlay! {
    /// What a rule sets of `RulePolicy`; fields are described there. None: not this rule's concern.
    RuleAction over RulePolicy {
        pass: bool,
        bypass_cookies: Arc<[CookiePattern]>,
        ignore_cookies: Arc<[Glob]>,
        drop_query: Arc<[Pattern]>,
        sort_query: bool,
        max_object: u64,
    } nested { cache: CacheAction }
}

overlay! {
    /// What a rule sets of `larder_proto::rules::Policy`; fields are described there. None: not this rule's concern.
    CacheAction over Policy {
        ttl: Option<u32>,
        status_ttl: Vec<StatusTtl>,
        grace: Option<u32>,
        keep: Option<u32>,
        disconnected: u32,
        refresh: Option<RefreshPattern>,
        allow_set_cookie: bool,
        allow_authorization: bool,
        force_cache: bool,
        stale_against_origin: bool,
        honour_client_cc: bool,
        targets: Vec<String>,
        surrogate: bool,
        strip_s_maxage: bool,
        vary_cookies: Vec<String>,
    }
}

/// Where and how requests are logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLogSettings {
    /// A file, appended to and reopened on SIGHUP; `-` is standard output.
    pub path: PathBuf,
    /// How a line looks.
    pub format: LogFormat,
}

/// How a line of the access log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Squid's native format.
    #[default]
    Squid,
    /// Apache's combined format.
    Combined,
    /// One JSON object per line.
    Json,
}

#[cfg(test)]
mod tests;
