//! Everything there is to know at one moment. As JSON it is the answer of `GET /api/v1/stats`, version 1.
//!
//! Every number is counted since the start unless its name says otherwise; `_us` are microseconds, `_ms` milliseconds (since
//! the UNIX epoch for moments), everything of memory and traffic bytes. A face that is not served is `null`.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::Merged;

/// The version of the form below; a field that is added does not change it.
pub const VERSION: u32 = 1;

/// Everything at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Snapshot {
    /// [`VERSION`].
    pub version: u32,
    /// Larder's own version.
    pub larder: &'static str,
    /// What this instance is called.
    pub name: String,
    /// The process.
    pub pid: u32,
    /// When it started.
    pub started_ms: u64,
    /// When this was read.
    pub now_ms: u64,
    /// Seconds between the two.
    pub uptime_s: u64,
    /// Worker threads.
    pub threads: usize,
    /// The store.
    pub memory: Memory,
    /// The HTTP face.
    pub http: Option<Http>,
    /// The memcached face.
    pub memcached: Option<Objects>,
    /// The Redis face.
    pub redis: Option<Objects>,
    /// The remote tier.
    pub remote: Option<Remote>,
    /// How late a worker gets to a timer: what waits because something else is being done.
    pub loop_delay: Hist,
    /// The access log.
    pub log: Log,
    /// None: no requests are recorded.
    pub tracing: Option<Spans>,
}

/// The store's memory.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Memory {
    /// What the store may take.
    pub budget: u64,
    /// What it has taken of that: bookkeeping and segments in use.
    pub used: u64,
    /// What the system keeps in memory for the whole process.
    pub resident: u64,
    /// Keys and values stored.
    pub payload: u64,
    /// The part of the segments in use for entries that holds no live entry, 0 to 1.
    pub fragmentation: f64,
    /// By whom it is used.
    pub namespaces: Vec<Namespace>,
}

/// The entries of one face.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Namespace {
    /// `pages`, `memcached` or `redis`.
    pub name: &'static str,
    /// Entries now.
    pub items: u64,
    /// Their keys and values.
    pub bytes: u64,
    /// Entries that went because memory was needed.
    pub evictions: u64,
    /// Entries that went because their time was over.
    pub expired: u64,
    /// What is kept for them; None: nothing.
    pub floor: Option<u64>,
    /// What they may take; None: everything.
    pub ceiling: Option<u64>,
}

/// Requests by what became of them: each is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Results {
    /// Answered from the store, fresh.
    pub hit: u64,
    /// Answered by the origin because nothing usable was stored.
    pub miss: u64,
    /// Answered from the store, stale.
    pub stale: u64,
    /// Answered from the store after the origin confirmed the page.
    pub refresh: u64,
    /// Answered by the origin past the cache, as the rules or the method want it.
    pub pass: u64,
    /// Answered by the origin past the queue, because the page is known not to be storable.
    pub hit_for_miss: u64,
    /// Followed another request's fetch.
    pub coalesced: u64,
    /// Told that the origin failed.
    pub error: u64,
    /// Purges carried out.
    pub purge: u64,
    /// Purges not permitted.
    pub denied: u64,
    /// Refused by Larder itself: no such site, malformed, too large, loops.
    pub refused: u64,
    /// Became a tunnel (Upgrade).
    pub tunnel: u64,
    /// The client left before its answer began.
    pub aborted: u64,
}

/// Answers by the class of their status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Statuses {
    /// 101 only: interim answers are not counted.
    #[serde(rename = "1xx")]
    pub informational: u64,
    /// 200 to 299.
    #[serde(rename = "2xx")]
    pub successful: u64,
    /// 300 to 399.
    #[serde(rename = "3xx")]
    pub redirection: u64,
    /// 400 to 499.
    #[serde(rename = "4xx")]
    pub client_error: u64,
    /// 500 and above.
    #[serde(rename = "5xx")]
    pub server_error: u64,
    /// No answer: the client left before.
    pub none: u64,
}

/// Connections of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Connections {
    /// Open now.
    pub open: u64,
    /// Accepted, the refused ones included.
    pub accepted: u64,
    /// Refused because there were too many.
    pub refused: u64,
}

/// How long answers took, until the system had taken them.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Latencies {
    /// From memory: nobody was asked or waited for.
    pub hit: Hist,
    /// The others that were delivered: the origin was asked, or waited for.
    pub miss: Hist,
}

/// Connections closed because the client took too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Timeouts {
    /// To send a request head.
    pub header: u64,
    /// To send a request body.
    pub body: u64,
    /// To take its answer.
    pub send: u64,
}

/// The HTTP face.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Http {
    /// Requests, refused and aborted ones included.
    pub requests: u64,
    /// The same by result.
    pub results: Results,
    /// The same by status.
    pub status: Statuses,
    /// Received from clients.
    pub bytes_in: u64,
    /// Sent to clients.
    pub bytes_out: u64,
    /// Of clients.
    pub connections: Connections,
    /// Over all sites.
    pub latency: Latencies,
    /// Requests that memory alone could not answer, by the reason in the words of RFC 9211 section 2.2.
    pub why_missed: BTreeMap<&'static str, u64>,
    /// Requests that waited for a fetch that was under way.
    pub coalesced_waits: u64,
    /// Pages stored.
    pub stored: u64,
    /// Bytes of copies from which large pages are sent.
    pub shelf: u64,
    /// Responses not stored, by reason.
    pub not_stored: BTreeMap<&'static str, u64>,
    /// Requests that could not be read, by reason.
    pub rejected: BTreeMap<&'static str, u64>,
    /// Clients that took too long.
    pub timeouts: Timeouts,
    /// Answers that broke off because the origin did.
    pub truncated: u64,
    /// Answers of origins with neither length nor chunks.
    pub unframed: u64,
    /// By site, in the order of the configuration.
    pub sites: Vec<Site>,
    /// By origin.
    pub origins: Vec<Origin>,
}

/// One site.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Site {
    /// Its name; `-` for requests that reached no site, `other` for sites beyond those counted.
    pub name: String,
    /// As of [`Http`].
    pub requests: u64,
    /// As of [`Http`].
    pub results: Results,
    /// As of [`Http`].
    pub status: Statuses,
    /// Sent to its clients, heads included.
    pub bytes_out: u64,
    /// As of [`Http`].
    pub latency: Latencies,
}

/// One origin.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Origin {
    /// `http://host:port`.
    pub name: String,
    /// Requests to it.
    pub requests: u64,
    /// Requests that failed, before a response head or in the middle, by reason.
    pub failures: BTreeMap<&'static str, u64>,
    /// Connections to it now, idle ones included.
    pub connections_open: u64,
    /// Of these, idle.
    pub connections_idle: u64,
    /// Connections closed because the origin sent bytes that nobody had asked for.
    pub unasked: u64,
    /// From the request to the head of its response: waiting for a connection, connecting and the origin's own time.
    pub ttfb: Hist,
}

/// An object face (memcached, Redis).
#[derive(Clone, Debug, Default, Serialize)]
pub struct Objects {
    /// Of clients.
    pub connections: Connections,
    /// Keys asked for.
    pub gets: u64,
    /// And found.
    pub get_hits: u64,
    /// And not found.
    pub get_misses: u64,
    /// Values sent to be stored.
    pub sets: u64,
    /// Keys to be deleted.
    pub deletes: u64,
    /// Keys given a new time to live.
    pub touches: u64,
    /// Entries that went because memory was needed.
    pub evictions: u64,
    /// Received.
    pub bytes_in: u64,
    /// Sent.
    pub bytes_out: u64,
    /// Commands by name; those never used are left out.
    pub commands: BTreeMap<String, u64>,
    /// memcached: of batches of commands, until the system had taken the answers. Redis: of commands, their own time.
    pub latency: Hist,
}

/// The remote tier.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Remote {
    /// Its servers.
    pub servers: Vec<RemoteServer>,
    /// What became of pages.
    pub pages: RemotePages,
    /// What Larders did with each other's help.
    pub events: Events,
}

/// Counts by name; a map in JSON.
#[derive(Clone, Debug, Default)]
pub struct Events(pub Vec<(&'static str, u64)>);

impl Serialize for Events {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().copied())
    }
}

/// One server of the remote tier.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RemoteServer {
    /// Its address.
    pub name: String,
    /// `up`, `down`, `probing` or `ejected`, now.
    pub state: &'static str,
    /// Keys asked for.
    pub lookups: u64,
    /// And found.
    pub hits: u64,
    /// And not found.
    pub misses: u64,
    /// Lookups and writes that took too long.
    pub timeouts: u64,
    /// Lookups and writes that failed otherwise.
    pub errors: u64,
    /// Times it was taken out because it failed.
    pub ejections: u64,
    /// Values written.
    pub writes: u64,
    /// Values that were not written because too many waited.
    pub writes_dropped: u64,
    /// Of lookups.
    pub latency: Hist,
}

/// Pages in the remote tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RemotePages {
    /// Pages looked for.
    pub lookups: u64,
    /// Found and used.
    pub hits: u64,
    /// Not there.
    pub misses: u64,
    /// The server that would have it did not answer.
    pub failed: u64,
    /// Came after the origin's answer.
    pub late: u64,
    /// Could not be used: damaged, or of another key.
    pub damaged: u64,
    /// Handed over to be stored.
    pub stores: u64,
    /// Not handed over, because too many waited.
    pub dropped: u64,
}

/// The access log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Log {
    /// Lines handed to the writer.
    pub lines: u64,
    /// Lines lost.
    pub dropped: u64,
}

/// Spans for the collector of traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spans {
    /// Taken by the collector.
    pub exported: u64,
    /// Lost: too many waited, or the collector did not take them.
    pub dropped: u64,
}

/// A histogram; as JSON with its most asked-for quantiles and with coarse buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hist(pub Merged);

#[derive(Serialize)]
struct HistView {
    count: u64,
    sum_us: u64,
    max_us: u64,
    p50_us: u64,
    p90_us: u64,
    p99_us: u64,
    p999_us: u64,
    /// Longest duration of the bucket and its count, not cumulative.
    buckets: Vec<(u64, u64)>,
}

impl Serialize for Hist {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let merged = &self.0;
        HistView {
            count: merged.count(),
            sum_us: merged.sum,
            max_us: merged.max,
            p50_us: merged.quantile(500),
            p90_us: merged.quantile(900),
            p99_us: merged.quantile(990),
            p999_us: merged.quantile(999),
            buckets: merged.coarse(),
        }
        .serialize(to)
    }
}

#[cfg(test)]
pub(super) fn empty() -> Snapshot {
    Snapshot {
        version: VERSION,
        larder: "0",
        name: String::new(),
        pid: 1,
        started_ms: 0,
        now_ms: 0,
        uptime_s: 0,
        threads: 1,
        memory: Memory::default(),
        http: None,
        memcached: None,
        redis: None,
        remote: None,
        loop_delay: Hist::default(),
        log: Log::default(),
        tracing: Some(Spans::default()),
    }
}
