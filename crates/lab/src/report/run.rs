//! What came of a run.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// What was measured, in a word or two.
    pub name: String,
    /// How, as pairs for the head of a report: address, connections, rate, ...
    pub how: Vec<(String, String)>,
    /// From the end of the warm-up to the last answer, or to the end of the run where that came later.
    pub took: Duration,
    /// Requests counted: right answers, wrong ones and errors together (but for failures to connect, which are no request's).
    pub asked: u64,
    /// Right answers.
    pub answers: u64,
    /// Of these: found, and not found (a get of an object; HTTP: by `Cache-Status`, `X-Cache`, or neither).
    pub hits: u64,
    /// See `hits`.
    pub misses: u64,
    /// Bytes received, framing included.
    pub received: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Failures by what they were (`connect`, `timeout`, `closed`, `status 503`, ...). Their time is in no percentile.
    pub errors: BTreeMap<String, u64>,
    /// Answers with other bytes than they should have.
    pub wrong: u64,
    /// Nanoseconds from when a request was due (open loop) or sent (closed loop) to its last byte.
    pub latency: Histogram<u64>,
    /// Nanoseconds from when it was sent, in an open loop.
    pub service: Option<Histogram<u64>>,
    /// Second by second.
    pub seconds: Vec<Second>,
    /// Processor time of the server's processes.
    pub servers: Vec<Cpu>,
    /// Processor time of our own threads.
    pub own_cpu: Duration,
    /// The share of its time that the busiest of our threads was on a processor. Near 1, the figures are ours and not the server's.
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
    /// Latency, nanoseconds.
    pub p50: u64,
    /// Latency, nanoseconds.
    pub p99: u64,
    /// Latency, nanoseconds.
    pub max: u64,
}

/// Processor time of a server's process while the run was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// The process.
    pub pid: u32,
    /// What all its threads took.
    pub time: Duration,
}
