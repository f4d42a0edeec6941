//! The validated configuration.
//!
//! The binary turns text (TOML and flags) into these types and reports every mistake: this crate
//! never sees raw text. All types are plain data plus the matching that belongs to them (hosts,
//! globs, networks, rules), so that a request is resolved to its policy in one place.

use std::{
    borrow::Cow,
    fmt,
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use larder_proto::http::path::plain;
pub use larder_proto::http::query::Pattern;
pub use larder_proto::resp::number::parse_bytes as redis_bytes;
pub use larder_proto::rules::{
    Esi, Policy, RefreshPattern, StatusTtl, Unframed, forward::KeyField,
};

mod access_log;
mod acme;
mod admin;
mod app;
mod client_auth;
mod dictionary;
mod disk;
mod error_pages;
mod family;
mod fastcgi;
mod group;
mod handling;
mod https;
mod objects;
mod origin;
mod patterns;
mod permission;
mod publish;
mod queue;
mod rate;
mod remote;
mod rules;
mod snapshot;
mod streams;
mod tracing;
mod tree;
mod upgrade;

pub use access_log::{AccessLogSettings, LogFormat};
pub use acme::{AcmeSettings, ChallengeKind, ExternalAccount};
pub use admin::{AdminSettings, ReadAccess};
pub use app::{AppListen, AppProtocol, AppSettings, AppUse};
pub use client_auth::{ClientAuth, ClientAuthError};
pub use dictionary::DictionarySettings;
pub use disk::{DiskSettings, DiskUse};
pub use error_pages::{ErrorPage, ErrorPages};
pub(crate) use error_pages::{Fault, phrase};
pub use family::{
    FamilySettings, HtcpKey, HtcpSettings, IcpSettings, PeerRole, PeerSelect, PeerSettings,
};
pub use fastcgi::{FastCgiSettings, Release};
pub use group::{Balance, GroupMember, HealthCheck, OriginGroup};
pub use handling::{FieldEdit, Handling, Redirect};
pub use https::{
    Certificate, CertificateError, CertificateSource, HttpsSettings, OriginTls, TICKET_KEY_BYTES,
    TlsVersion,
};
pub(crate) use objects::sha256;
pub use objects::{
    AclFile, DEFAULT_REQUESTS_PER_EVENT, FaceTls, Listen, MemcachedSettings, RedisSettings, Share,
    Users, WireProtocol,
};
pub use origin::{OriginScheme, OriginSettings, TargetForm};
pub use patterns::{CookiePattern, Glob, HostPattern, Net, Secret};
pub use permission::Permission;
pub use publish::{ObjectSpace, PublishSettings};
pub use queue::{QueueSettings, QueueSync};
pub use rate::Rate;
pub use remote::{PeerToken, RemoteProtocol, RemoteSettings, ValkeyLogin};
pub use rules::{
    AnyField, CacheAction, MAX_RULES, Matcher, Parts, PartsAction, RequestView, Rule, RuleAction,
    RulePolicy, Slicing,
};
pub use snapshot::SnapshotSettings;
pub use tracing::TracingSettings;
pub use tree::{Candidate, NamePattern, TreeSettings};
pub use upgrade::UpgradeSettings;

/// The whole configuration of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes of the one store, index and bookkeeping included.
    pub memory: u64,
    /// Worker threads, at least 1.
    pub threads: usize,
    /// The HTTP face.
    pub http: HttpSettings,
    /// HTTPS; None: pages are served over plain HTTP alone.
    pub https: Option<HttpsSettings>,
    /// Sites, in the order of the file. `site_for` picks one by host.
    pub sites: Vec<Arc<Site>>,
    /// Applications that Larder runs.
    pub apps: Vec<Arc<AppSettings>>,
    /// None: no access log.
    pub access_log: Option<AccessLogSettings>,
    /// The pages' part of the memory.
    pub pages: Share,
    /// The memcached face; None: it is not served.
    pub memcached: Option<MemcachedSettings>,
    /// The Redis face; None: it is not served.
    pub redis: Option<RedisSettings>,
    /// The queue face; None: it is not served.
    pub queue: Option<QueueSettings>,
    /// The admin interface; None: it is not served.
    pub admin: Option<AdminSettings>,
    /// The user to become once the addresses are bound; None: the server stays as it is started.
    pub identity: Option<Identity>,
    /// The path of the socket for commands of the same user and of root; None: there is none.
    pub control: Option<PathBuf>,
    /// How another process takes over.
    pub upgrade: UpgradeSettings,
    /// The file that keeps what memory has between a stop and a start; None: there is none.
    pub snapshot: Option<SnapshotSettings>,
    /// The disk tier; None: pages are in memory alone.
    pub disk: Option<DiskSettings>,
    /// The servers through which pages are shared; None: pages are not shared.
    pub remote: Option<RemoteSettings>,
    /// Other caches that are asked before the origins, and those that may ask here.
    pub family: FamilySettings,
    /// The collector of traces; None: requests are not recorded.
    pub tracing: Option<TracingSettings>,
    /// Objects that are served as pages; None: no object is.
    pub publish: Option<PublishSettings>,
}

/// A user of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// User ID.
    pub user: u32,
    /// Group ID.
    pub group: u32,
    /// The name, whose supplementary groups are taken over; None: the user has none.
    pub name: Option<String>,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "user {name}"),
            None => write!(f, "user {}", self.user),
        }
    }
}

/// Listeners and settings of all sites.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Addresses to listen on; port 0 lets the system choose.
    pub listen: Vec<SocketAddr>,
    /// Limits that protect the server from its clients.
    pub limits: Limits,
    /// Send `X-Cache` and `X-Cache-Lookup`.
    pub x_cache: bool,
    /// Send `Cache-Status` (RFC 9211).
    pub cache_status: bool,
    /// A whole header line (`Name: value`) added to every answer from memory; None: no line.
    pub announce: Option<String>,
    /// The pseudonym in `Via` (RFC 9110 section 7.6.3); None: no `Via` is sent.
    pub via: Option<String>,
    /// Peers whose `X-Forwarded-For`, `-Proto` and `-Host` are trusted; from others these fields
    /// and `Forwarded` are dropped.
    pub trusted_proxies: Vec<Net>,
    /// Connections of trusted proxies begin with a header of the PROXY protocol.
    pub proxy_protocol: bool,
    /// HTTP/2 is spoken with clients that begin with its preface, without TLS (RFC 9113 section
    /// 3.3).
    pub h2c: bool,
    /// `SO_SNDBUF` of client connections in bytes; 0: the system's default. Bounded so that the
    /// unsent part of a large body stays in the processor's cache.
    pub sndbuf: usize,
    /// Bytes of the memory for file copies of large popular pages, which `sendfile` sends without
    /// copying, and for the content of small files; over all workers. None: a sixteenth of the
    /// memory, at most 256 MiB.
    pub sendfile_cache: Option<u64>,
    /// Files of this machine that are kept open, over all workers.
    pub open_files: usize,
    /// Pages for answers of Larder's own, of all sites.
    pub error_pages: Arc<ErrorPages>,
}

impl HttpSettings {
    /// Connections from this address begin with a header of the PROXY protocol.
    pub fn announces(&self, address: IpAddr) -> bool {
        let trusted = || self.trusted_proxies.iter().any(|net| net.contains(address));
        self.proxy_protocol && trusted()
    }
}

impl Settings {
    /// Pages are served, by HTTP or HTTPS.
    pub fn serves_pages(&self) -> bool {
        !self.http.listen.is_empty() || self.https.is_some()
    }

    /// Bytes for [`HttpSettings::sendfile_cache`]: at most half of the memory; 0 without HTTP, or
    /// if a worker's part would be less than 1 MiB.
    pub fn sendfile_cache(&self) -> u64 {
        let wanted = self
            .http
            .sendfile_cache
            .unwrap_or((self.memory / 16).min(256 << 20))
            .min(self.memory / 2);
        let worth = self.serves_pages() && wanted >= (self.threads as u64) << 20;
        if worth { wanted } else { 0 }
    }

    /// The part of [`Settings::sendfile_cache`] for the content of small files: half of it, where
    /// files are served.
    pub(crate) fn file_memory(&self) -> u64 {
        if self.serves_files() { self.sendfile_cache() / 2 } else { 0 }
    }

    /// Whether files of this machine are served.
    fn serves_files(&self) -> bool {
        self.sites.iter().flat_map(|site| site.origins()).any(|origin| origin.files().is_some())
    }

    /// Files of this machine that are kept open, over all workers, where they are served; the
    /// process's limit may leave fewer.
    pub fn open_files(&self) -> usize {
        if self.serves_files() { self.http.open_files } else { 0 }
    }

    /// The most open files of the disk.
    pub fn disk_files(&self) -> usize {
        let options = |disk: &DiskSettings| larder_disk::Options {
            size: disk.size,
            write_limit: 0,
            random: 0,
        };
        self.disk.as_ref().map_or(0, |disk| options(disk).files())
    }

    /// The most open files for these copies.
    pub fn sendfile_cache_files(&self) -> usize {
        if self.sendfile_cache() > 0 { self.threads * SENDFILE_CACHE_FILES } else { 0 }
    }

    /// The namespaces of the store by face, with their shares of the memory.
    pub(crate) fn namespaces(&self) -> [NamespaceGroup; 5] {
        let (memcached, redis) = (self.memcached.as_ref(), self.redis.as_ref());
        let group = |name, numbers, served, share| NamespaceGroup { name, numbers, served, share };
        [
            group("pages", 0..=0, true, self.pages),
            group(
                "memcached",
                1..=1,
                memcached.is_some(),
                memcached.map_or(Share::default(), |face| face.share),
            ),
            group(
                "redis",
                2..=18,
                redis.is_some(),
                redis.map_or(Share::default(), |face| face.share),
            ),
            group("compressed", 19..=19, self.compresses(), Share::default()),
            group("slices", 20..=20, self.slices(), Share::default()),
        ]
    }

    /// The policies of all sites and rules.
    fn policies(&self) -> impl Iterator<Item = &Arc<RulePolicy>> {
        self.sites
            .iter()
            .flat_map(|site| site.rules.iter().map(|rule| &rule.alone).chain([&site.defaults]))
    }

    /// Whether some pages are kept in slices.
    fn slices(&self) -> bool {
        self.policies().any(|policy| policy.slice != Slicing::Never)
    }

    /// Whether some pages are kept in compressed forms too.
    pub(crate) fn compresses(&self) -> bool {
        self.policies().any(|policy| !policy.cache.compress.is_empty())
    }

    /// Bytes of the store: the memory without the files.
    pub fn store(&self) -> u64 {
        self.memory - self.sendfile_cache()
    }
}

/// The most files of one worker's cache of large pages.
pub(crate) const SENDFILE_CACHE_FILES: usize = 256;

/// The namespace of parts of Redis's collections: the last one of the Redis group.
pub(crate) const PARTS: larder_store::Namespace = larder_store::Namespace(18);

/// The namespaces of one face.
pub(crate) struct NamespaceGroup {
    /// The name in the figures.
    pub(crate) name: &'static str,
    /// The numbers of the namespaces.
    pub(crate) numbers: RangeInclusive<u8>,
    /// Whether the face is served; pages always are.
    pub(crate) served: bool,
    /// Their share of the memory.
    pub(crate) share: Share,
}

/// Limits on requests and connections of clients. Each refusal has its own status and counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request head, else 431.
    pub head_bytes: usize,
    /// Bytes of the request line, else 414.
    pub request_line: usize,
    /// Header fields in a request, else 431. At most 256, the number of slots.
    pub fields: usize,
    /// Client connections at once over all threads; the next one gets 503 and is closed.
    pub connections: usize,
    /// Connections of one client at once; None: no limit but that of all.
    pub connections_per_client: Option<usize>,
    /// Length of the prefix of an IPv4 address that is one client.
    pub client_prefix_v4: u32,
    /// The same of an IPv6 address.
    pub client_prefix_v6: u32,
    /// Bytes of a request body, else 413.
    pub request_body: u64,
    /// From the first byte of a request to the end of its head, else 408.
    pub header_timeout: Duration,
    /// Between requests on a kept-alive connection, then it is closed.
    pub idle_timeout: Duration,
    /// Without progress while receiving a request body, else 408.
    pub body_timeout: Duration,
    /// Time in which the client must take 16 KiB of its answer, or the rest; else the connection is
    /// dropped.
    pub send_timeout: Duration,
    /// Answers to pipelined requests that are collected before they are sent.
    pub pipeline: usize,
    /// Requests that a client of HTTP/2 may have open at once.
    pub streams: u32,
    /// Time for open requests to finish when the server stops.
    pub drain: Duration,
}

/// Values for tests; the defaults of the program are in its table of options.
#[cfg(test)]
impl Default for Limits {
    fn default() -> Self {
        Limits {
            head_bytes: 64 << 10,
            request_line: 16 << 10,
            fields: 100,
            connections: 10_000,
            connections_per_client: None,
            client_prefix_v4: 32,
            client_prefix_v6: 64,
            request_body: 1 << 30,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(30),
            send_timeout: Duration::from_secs(60),
            pipeline: 64,
            streams: 128,
            drain: Duration::from_secs(30),
        }
    }
}

/// Values for tests; the defaults of the program are in its table of options.
#[cfg(test)]
impl Default for HttpSettings {
    fn default() -> Self {
        HttpSettings {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 8080))],
            limits: Limits::default(),
            x_cache: true,
            cache_status: true,
            announce: None,
            via: Some("larder".to_owned()),
            trusted_proxies: Vec::new(),
            proxy_protocol: false,
            h2c: false,
            sndbuf: 256 << 10,
            sendfile_cache: None,
            open_files: 8192,
            error_pages: Arc::default(),
        }
    }
}

impl Settings {
    /// The site that answers for `host` (a host name without port, any case): an exact name first,
    /// then the longest matching wildcard, then the first site without `hosts`. None: no site
    /// answers for it (421).
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

/// One site: its hosts, its origin and its rules.
#[derive(Clone, Debug)]
pub struct Site {
    /// For logs and listings: the first host, or `default`.
    pub name: String,
    /// Empty: any host that no other site has.
    pub hosts: Vec<HostPattern>,
    /// The source of its pages.
    pub origin: Arc<OriginGroup>,
    /// The permission to purge.
    pub purge: Permission,
    /// Its pages are shared through the servers of the remote tier.
    pub remote: bool,
    /// The certificates that its clients are asked for; None: they are not.
    pub client_auth: Option<Arc<ClientAuth>>,
    /// The permission to see how an answer was made (`Larder-Debug`).
    pub debug: Permission,
    /// Pages for answers of Larder's own.
    pub error_pages: Arc<ErrorPages>,
    /// How the dictionary of its documents is made; None: none is used ([`Policy::dictionary`]).
    pub dictionary: Option<DictionarySettings>,
    /// The policy where no rule sets another.
    pub defaults: Arc<RulePolicy>,
    /// The name of its preset.
    pub preset: Option<String>,
    /// In order: for every field the first matching rule that sets it wins. At most `MAX_RULES`.
    pub rules: Vec<Rule>,
}

impl Site {
    /// None: not this site's host. A higher rank wins: exact, then longer wildcards, then "any".
    fn rank(&self, host: &str) -> Option<usize> {
        if self.hosts.is_empty() {
            return Some(0);
        }
        self.hosts.iter().filter_map(|pattern| pattern.rank(host)).max()
    }

    /// The origins of its pages: its own, and those of rules.
    pub fn origins(&self) -> impl Iterator<Item = &Arc<OriginGroup>> {
        let of_rules = self.rules.iter().filter_map(|rule| rule.action.handling.origin.as_ref());
        std::iter::once(&self.origin).chain(of_rules)
    }

    /// The rules that match, with their places. A path that servers may take for another one
    /// ([`plain`]) matches where that one does, too: else a rule would be gone round.
    pub fn matching(&self, request: &RequestView<'_>) -> impl Iterator<Item = (usize, &Rule)> {
        let other = if self.rules.is_empty() { None } else { plain(request.path) };
        let other = move |rule: &Rule| {
            let other = other.as_deref().map(|path| RequestView { path, ..*request });
            other.is_some_and(|other| rule.matcher.matches(&other))
        };
        let rules = self.rules.iter().enumerate();
        rules.filter(move |(_, rule)| rule.matcher.matches(request) || other(rule))
    }

    /// The policy for one request. Borrowed when no rule or a single rule matches (the hit path
    /// allocates nothing); several matching rules are merged into an owned one.
    pub fn policy(&self, request: &RequestView<'_>) -> Cow<'_, Arc<RulePolicy>> {
        let mut matching = self.matching(request).map(|(_, rule)| rule);
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

#[cfg(test)]
mod tests;
