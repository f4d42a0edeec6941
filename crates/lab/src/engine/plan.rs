//! A run, as it is to be.

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

use super::Known;
use crate::load::{Lengths, Pace};

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// TCP.
    Tcp(SocketAddr),
    /// A socket in the file system.
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

/// What is spoken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1 with keep-alive. No redirect is followed.
    Http {
        /// `Host` of every request whose key is a path; one that is a whole URL (`http://host/path`) names its own.
        host: String,
        /// Further field lines of every request, as `Name: value`.
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
            Protocol::Http { .. } => "HTTP/1.1",
            Protocol::MemcachedText => "memcached text",
            Protocol::MemcachedMeta => "memcached meta",
            Protocol::Redis => "Redis",
        })
    }
}

/// Ends a run from outside: no more is asked, what is under way is waited for, and what was measured is reported.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Ends the run, or runs, that have it in their plan.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was called.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// When a run ends; whatever comes first. A source with nothing more ends it as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Until {
    /// After this time, the warm-up not counted.
    pub time: Option<Duration>,
    /// After so many requests of the whole run, those of the warm-up not counted.
    pub requests: Option<u64>,
}

/// What an answer must hold to be right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// Well-formed is enough.
    #[default]
    Framing,
    /// And of HTTP, its status is 200.
    Ok,
    /// A value is what `load` makes of its key and length; a page is what [`Plan::known`] says, or the same each time it is asked for.
    Bytes,
    /// As `Bytes`; but of the pages only each thread's first and then every so many are looked at, 1 or more; of the others it is
    /// enough that their status is 200.
    Every(u32),
}

/// A run, as it is to be.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where.
    pub address: Address,
    /// In which language.
    pub protocol: Protocol,
    /// Connections of the whole run.
    pub connections: usize,
    /// Requests under way on one connection.
    pub depth: usize,
    /// Threads; each has its share of connections and rate.
    pub threads: usize,
    /// When requests are due.
    pub pace: Pace,
    /// When it ends.
    pub until: Until,
    /// Requests that are due (closed loop: sent) within this time from the start are not counted, whenever they are answered.
    pub warm_up: Duration,
    /// Connections start spread over this time.
    pub ramp_up: Duration,
    /// An answer that takes longer is an error, and its connection is made anew.
    pub timeout: Duration,
    /// What an answer must hold.
    pub check: Check,
    /// How long the values are that gets find, where bytes are checked.
    pub lengths: Lengths,
    /// Pages that are known beforehand, where bytes are checked: they come with status 200 and these bytes.
    pub known: Arc<Known>,
    /// Each connection asks so many times and is done: a virtual user's loops.
    pub per_connection: Option<u64>,
    /// A new connection for each request; latency counts from its beginning.
    pub reconnect: bool,
    /// What is drawn (Poisson gaps) is drawn from this.
    pub seed: u64,
    /// Ends the run from outside.
    pub stop: Stop,
    /// Server processes whose processor time is read (with all their threads and children).
    pub server_pids: Vec<u32>,
}

impl Plan {
    /// One connection, one request at a time, until it is stopped; a starting point for plans.
    pub fn new(address: Address, protocol: Protocol) -> Plan {
        Plan {
            address,
            protocol,
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
