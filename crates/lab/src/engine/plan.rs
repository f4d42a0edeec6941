//! Description of a run.

use std::{
    fmt,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::{KnownPages, Tls};
use crate::load::{Lengths, Pace};

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// TCP.
    Tcp(SocketAddr),
    /// Path of a unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

/// Protocol of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP, in the version that the plan says. Redirects are not followed.
    Http {
        /// `Host` of requests whose key is a path; a key that is a URL (`http://host/path`)
        /// contains its own host.
        host: String,
        /// Additional field lines of every request, as `Name: value`.
        fields: Vec<String>,
    },
    /// memcached's text commands.
    MemcachedText,
    /// memcached's meta commands.
    MemcachedMeta,
    /// Redis's protocol, RESP2.
    Redis,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Http { .. } => "HTTP",
            Protocol::MemcachedText => "memcached text",
            Protocol::MemcachedMeta => "memcached meta",
            Protocol::Redis => "Redis",
        })
    }
}

/// Version of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.1 with keep-alive.
    #[default]
    Http1,
    /// HTTP/2, without TLS by prior knowledge.
    Http2,
    /// HTTP/3, which needs [`Plan::tls`].
    Http3,
}

impl fmt::Display for HttpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HttpVersion::Http1 => "HTTP/1.1",
            HttpVersion::Http2 => "HTTP/2",
            HttpVersion::Http3 => "HTTP/3",
        })
    }
}

/// Stops a run from outside: no more requests are made, pending ones are awaited, and the result is
/// reported.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Stops all runs whose plans contain it.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// When a run ends; the first condition counts. An exhausted source also ends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Until {
    /// After this time, excluding the warm-up.
    pub time: Option<Duration>,
    /// After this many requests in total, excluding the warm-up.
    pub requests: Option<u64>,
}

/// Conditions for a correct answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// Well-formed.
    #[default]
    Framing,
    /// Well-formed, and for HTTP status 200.
    Ok,
    /// A value must be what `load` makes of its key and length; a page what [`Plan::known`] says,
    /// or else the same each time.
    Bytes,
    /// Like `Bytes`, but only each thread's first page and then one in this many (at least 1) is
    /// compared; the others only need status 200.
    Every(u32),
}

/// Description of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The server's address.
    pub address: Address,
    /// The protocol.
    pub protocol: Protocol,
    /// The version of HTTP.
    pub version: HttpVersion,
    /// TLS, if it is spoken.
    pub tls: Option<Tls>,
    /// Connections of the whole run.
    pub connections: usize,
    /// Most pending requests per connection; over HTTP/2 its streams.
    pub depth: usize,
    /// Threads; connections and rate are divided among them.
    pub threads: usize,
    /// When requests are made.
    pub pace: Pace,
    /// When the run ends.
    pub until: Until,
    /// Requests due (closed loop: sent) within this time from the start are not counted, whenever
    /// they are answered.
    pub warm_up: Duration,
    /// Time over which the start of connections is spread.
    pub ramp_up: Duration,
    /// Timeout of an answer; the request counts as an error and its connection is replaced.
    pub timeout: Duration,
    /// Conditions for a correct answer.
    pub check: Check,
    /// Lengths of the values that gets return, if bytes are checked.
    pub lengths: Lengths,
    /// Pages known beforehand, if bytes are checked: they must come with status 200 and these
    /// bytes.
    pub known: Arc<KnownPages>,
    /// Requests per connection, after which it is done: the loops of a virtual user.
    pub per_connection: Option<u64>,
    /// A new connection for each request; connecting is part of the latency.
    pub reconnect: bool,
    /// Seed of random choices (Poisson gaps).
    pub seed: u64,
    /// Stops the run from outside.
    pub stop: Stop,
    /// Server processes whose processor time is read (with all their threads and children).
    pub server_pids: Vec<u32>,
}

impl Plan {
    /// The protocol in words, with its version and TLS.
    pub(crate) fn spoken(&self) -> String {
        let protocol = match self.protocol {
            Protocol::Http { .. } => self.version.to_string(),
            _ => self.protocol.to_string(),
        };
        let tls = self.tls.as_ref().map(|tls| format!(" over TLS, {}", tls.trust()));
        protocol + &tls.unwrap_or_default()
    }

    /// One connection, one request at a time, until stopped; a starting point for plans.
    pub fn new(address: Address, protocol: Protocol) -> Plan {
        Plan {
            address,
            protocol,
            version: HttpVersion::default(),
            tls: None,
            connections: 1,
            depth: 1,
            threads: 1,
            pace: Pace::Closed,
            until: Until::default(),
            warm_up: Duration::ZERO,
            ramp_up: Duration::ZERO,
            timeout: Duration::from_secs(10),
            check: Check::Framing,
            lengths: Lengths::Any,
            known: Arc::default(),
            per_connection: None,
            reconnect: false,
            seed: 1,
            stop: Stop::default(),
            server_pids: Vec::new(),
        }
    }
}
