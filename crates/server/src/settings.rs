//! The validated configuration.
//!
//! The binary turns text (TOML and flags) into these types, with every mistake reported there. Code in this crate never
//! sees raw text: what it holds here has been checked. All types are plain data plus the matching that belongs to them
//! (hosts, globs, networks, rules), so that a request is resolved to its policy in one place.

use std::{
    borrow::Cow,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

pub use larder_proto::http::query::Pattern;
pub use larder_proto::resp::number::parse_bytes as redis_bytes;
pub use larder_proto::rules::{Policy, RefreshPattern, StatusTtl, Unframed, forward::KeyField};

use crate::net::sendfile::FILES;

mod admin;
mod objects;
mod patterns;
mod remote;
mod rules;
mod tracing;

pub use admin::{AdminSettings, ReadAccess};
pub use objects::{
    DEFAULT_REQUESTS_PER_EVENT, Listen, MemcachedSettings, RedisSettings, Share, Users, WireProtocol,
};
pub use patterns::{CookiePattern, Glob, HostPattern, Net, Secret};
pub use remote::{PeerToken, RemoteProtocol, RemoteSettings, ValkeyLogin};
pub use rules::{AnyField, CacheAction, Matcher, RequestView, Rule, RuleAction, RulePolicy};
pub use tracing::TracingSettings;

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
    /// The pages' part of the memory.
    pub pages: Share,
    /// The memcached face; None: there is none.
    pub memcached: Option<MemcachedSettings>,
    /// The Redis face; None: there is none.
    pub redis: Option<RedisSettings>,
    /// The admin interface; None: there is none.
    pub admin: Option<AdminSettings>,
    /// The servers pages are shared through; None: there are none.
    pub remote: Option<RemoteSettings>,
    /// The collector of traces; None: requests are not recorded.
    pub tracing: Option<TracingSettings>,
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
    /// Peers whose `X-Forwarded-For`, `-Proto` and `-Host` are believed; from all others these fields and `Forwarded` are
    /// dropped.
    pub trusted_proxies: Vec<Net>,
    /// `SO_SNDBUF` of client connections in bytes; 0 leaves it to the system. Bounded so that what is in flight of a
    /// large body stays in the processor's cache.
    pub sndbuf: usize,
    /// Bytes of the memory for copies of large pages that are asked for often, from which they are sent without copying;
    /// over all workers. None: a sixteenth of the memory, 256 MiB at the most.
    pub shelf: Option<u64>,
}

impl Settings {
    /// Bytes for [`HttpSettings::shelf`]: half of the memory at the most; none without HTTP, or where a worker's part of it would
    /// be less than 1 MiB.
    pub fn shelf(&self) -> u64 {
        let wanted = self.http.shelf.unwrap_or((self.memory / 16).min(256 << 20)).min(self.memory / 2);
        let worth = !self.http.listen.is_empty() && wanted >= (self.threads as u64) << 20;
        if worth { wanted } else { 0 }
    }

    /// Files that are open for it at the most.
    pub fn shelf_files(&self) -> usize {
        if self.shelf() > 0 { self.threads * FILES } else { 0 }
    }

    /// Bytes of the store: what is left of the memory.
    pub fn store(&self) -> u64 {
        self.memory - self.shelf()
    }
}

/// Limits on what a client may ask of the server. Each refusal has its own status and counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request head, else 431.
    pub head_bytes: usize,
    /// Bytes of the request line, else 414.
    pub request_line: usize,
    /// Header fields in a request, else 431. At most 256: so many slots there are.
    pub fields: usize,
    /// Client connections at once over all threads; the next one gets 503 and is closed.
    pub connections: usize,
    /// Bytes of a request body, else 413.
    pub request_body: u64,
    /// From the first byte of a request to the end of its head, else 408.
    pub header_timeout: Duration,
    /// Between requests on a kept-alive connection, then it is closed.
    pub idle_timeout: Duration,
    /// Without progress while receiving a request body, else 408.
    pub body_timeout: Duration,
    /// In this time the client must take 16 KiB of its answer, or all that is left; else the connection is dropped.
    pub send_timeout: Duration,
    /// Answers to pipelined requests that are collected before they are sent.
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
            shelf: None,
        }
    }
}

impl Settings {
    /// The site that answers for `host` (a host name without port, any case): an exact name first, then the longest
    /// matching wildcard, then the first site without `hosts`. None: nobody here answers for it (421).
    pub fn site_for(&self, host: &str) -> Option<&Arc<Site>> {
        self.site_number(host).and_then(|number| self.sites.get(number))
    }

    /// The same as the site's number among `sites`.
    pub fn site_number(&self, host: &str) -> Option<usize> {
        let host = host.strip_suffix('.').unwrap_or(host);
        let mut best: Option<(usize, usize)> = None;
        for (number, site) in self.sites.iter().enumerate() {
            let Some(rank) = site.rank(host) else { continue };
            if best.is_none_or(|(held, _)| rank > held) {
                best = Some((rank, number));
            }
        }
        best.map(|(_, number)| number)
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
    pub purge: Permission,
    /// Its pages are shared through the servers of the remote tier.
    pub remote: bool,
    /// Who is told how an answer came about (`Larder-Debug`).
    pub debug: Permission,
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
    /// Connections at once, per worker thread. Tunnels (101) do not count.
    pub max_connections: usize,
    /// Requests waiting for a connection, per worker thread; the next one gets 503.
    pub max_waiting: usize,
    /// Idle connections kept, per worker thread.
    pub idle_connections: usize,
    /// How long an idle connection is kept.
    pub idle_timeout: Duration,
}

impl OriginSettings {
    /// `http://host:port`: what it is called in figures and listings.
    pub fn name(&self) -> String {
        let OriginScheme::Http = self.scheme;
        if self.host.contains(':') {
            return format!("http://[{}]:{}", self.host, self.port);
        }
        format!("http://{}:{}", self.host, self.port)
    }
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

/// Who may do something: a client of one of the networks, or whoever has the token. By default nobody.
#[derive(Clone, Debug, Default)]
pub struct Permission {
    /// Clients that need no token.
    pub from: Vec<Net>,
    /// `Authorization: Bearer <token>`.
    pub token: Option<Secret>,
}

impl Permission {
    /// Whether `client` with this `Authorization` value may. The client is the TCP peer; where that is a trusted proxy, whom it
    /// names: else it would let everybody in.
    pub fn allows(&self, client: IpAddr, authorization: Option<&[u8]>) -> bool {
        if self.from.iter().any(|net| net.contains(client)) {
            return true;
        }
        let (Some(token), Some(value)) = (&self.token, authorization) else { return false };
        let bearer = value.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
        bearer.is_some() && token.matches(value[7..].trim_ascii())
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
