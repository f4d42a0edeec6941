//! Results of a run.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;

/// Results of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Short name of what was measured.
    pub name: String,
    /// Description as name and value for the head of a report: address, connections, rate, ...
    pub how: Vec<(String, String)>,
    /// Time from the end of the warm-up to the last answer or the end of the run, whichever is
    /// later.
    pub took: Duration,
    /// Counted requests: right answers, wrong answers and errors (without failures to connect,
    /// which belong to no request).
    pub requests: u64,
    /// Right answers.
    pub answers: u64,
    /// Answers that were hits (a get of an object; HTTP: by `Cache-Status`, `X-Cache`, or neither).
    pub hits: u64,
    /// Answers that were misses; see `hits`.
    pub misses: u64,
    /// Bytes received, framing included.
    pub received: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Failures by kind (`connect`, `timeout`, `closed`, `status 503`, ...). Their time is in no
    /// percentile.
    pub errors: BTreeMap<String, u64>,
    /// Answers with wrong bytes.
    pub wrong: u64,
    /// Nanoseconds from the due time (open loop) or send time (closed loop) of a request to the
    /// last byte of its answer.
    pub latency: Histogram<u64>,
    /// Nanoseconds from the send time, in an open loop.
    pub service: Option<Histogram<u64>>,
    /// Figures of each second.
    pub seconds: Vec<Second>,
    /// Processor time of the server's processes.
    pub servers: Vec<Cpu>,
    /// Processor time of this program's threads.
    pub own_cpu: Duration,
    /// Share of time that the busiest thread of this program was on a processor. Near 1, the
    /// figures show this program's limit, not the server's.
    pub busiest: f64,
}

/// One second of a run.
#[derive(Clone, Debug, Default)]
pub struct Second {
    /// Right answers.
    pub answers: u64,
    /// Failures and wrong answers.
    pub errors: u64,
    /// Bytes received.
    pub received: u64,
    /// Median latency in nanoseconds.
    pub p50: u64,
    /// 99th percentile of the latency in nanoseconds.
    pub p99: u64,
    /// Maximum latency in nanoseconds.
    pub max: u64,
}

/// Processor time of a server process during the counted time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Process id.
    pub pid: u32,
    /// Time of all its threads.
    pub time: Duration,
}
