//! A run as JSON. The schema is documented in docs/bench.md; names contain units and never change
//! their meaning.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;
use serde::{Serialize, Serializer};

use super::{Run, machine::machine, percentiles, show};

/// Changes if a name is removed or changes its meaning; new names do not change it.
const SCHEMA: &str = "larder-bench-1";

/// A run as one JSON object.
pub fn json(run: &Run) -> String {
    // Serialisation fails only for maps with other keys than strings; there are none.
    serde_json::to_string(&Document::new(run)).unwrap_or_default()
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'a str,
    name: &'a str,
    #[serde(serialize_with = "in_order")]
    how: Vec<(String, String)>,
    #[serde(serialize_with = "in_order")]
    machine: Vec<(String, String)>,
    took_seconds: f64,
    requests: u64,
    answers: u64,
    answers_per_second: f64,
    hits: u64,
    misses: u64,
    /// Null if hits are unknown.
    hit_ratio: Option<f64>,
    errors_total: u64,
    errors: &'a BTreeMap<String, u64>,
    wrong: u64,
    received_bytes: u64,
    sent_bytes: u64,
    received_bytes_per_second: f64,
    sent_bytes_per_second: f64,
    latency: Distribution,
    /// Null in a closed loop, where it equals the latency.
    service: Option<Distribution>,
    seconds: Vec<Second>,
    servers: Vec<Server>,
    own: Own,
}

#[derive(Serialize)]
struct Distribution {
    count: u64,
    min_ns: u64,
    mean_ns: f64,
    stddev_ns: f64,
    p50_ns: u64,
    p75_ns: u64,
    p90_ns: u64,
    p95_ns: u64,
    p99_ns: u64,
    p99_9_ns: u64,
    p99_99_ns: u64,
    max_ns: u64,
    percentiles: Vec<Percentile>,
    /// `[nanoseconds, count]` of each non-empty bucket.
    buckets: Vec<(u64, u64)>,
}

#[derive(Serialize)]
struct Percentile {
    percentile: f64,
    value_ns: u64,
    count: u64,
}

#[derive(Serialize)]
struct Second {
    second: usize,
    answers: u64,
    errors: u64,
    received_bytes: u64,
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
}

#[derive(Serialize)]
struct Server {
    pid: u32,
    cpu_seconds: f64,
    cpu_ns_per_request: Option<f64>,
}

#[derive(Serialize)]
struct Own {
    cpu_seconds: f64,
    cpu_ns_per_request: Option<f64>,
    busiest_thread_share: f64,
}

impl<'a> Document<'a> {
    fn new(run: &'a Run) -> Document<'a> {
        let known = run.hits + run.misses;
        let per_request = |time: Duration| {
            (run.requests > 0).then(|| time.as_nanos() as f64 / run.requests as f64)
        };
        let server = |cpu: &super::Cpu| Server {
            pid: cpu.pid,
            cpu_seconds: cpu.time.as_secs_f64(),
            cpu_ns_per_request: per_request(cpu.time),
        };
        let second = |(n, second): (usize, &super::Second)| Second {
            second: n,
            answers: second.answers,
            errors: second.errors,
            received_bytes: second.received,
            p50_ns: second.p50,
            p99_ns: second.p99,
            max_ns: second.max,
        };
        Document {
            schema: SCHEMA,
            name: &run.name,
            how: run.how.clone(),
            machine: machine(),
            took_seconds: run.took.as_secs_f64(),
            requests: run.requests,
            answers: run.answers,
            answers_per_second: show::per_second(run.answers, run.took),
            hits: run.hits,
            misses: run.misses,
            hit_ratio: (known > 0).then(|| run.hits as f64 / known as f64),
            errors_total: run.errors.values().sum(),
            errors: &run.errors,
            wrong: run.wrong,
            received_bytes: run.received,
            sent_bytes: run.sent,
            received_bytes_per_second: show::per_second(run.received, run.took),
            sent_bytes_per_second: show::per_second(run.sent, run.took),
            latency: Distribution::new(&run.latency),
            service: run.service.as_ref().map(Distribution::new),
            seconds: run.seconds.iter().enumerate().map(second).collect(),
            servers: run.servers.iter().map(server).collect(),
            own: Own {
                cpu_seconds: run.own_cpu.as_secs_f64(),
                cpu_ns_per_request: per_request(run.own_cpu),
                busiest_thread_share: run.busiest,
            },
        }
    }
}

impl Distribution {
    fn new(histogram: &Histogram<u64>) -> Distribution {
        let at = |share| histogram.value_at_quantile(share);
        let percentile =
            |(share, value_ns, count)| Percentile { percentile: share * 100.0, value_ns, count };
        let bucket = |step: hdrhistogram::iterators::IterationValue<u64>| {
            (step.value_iterated_to(), step.count_since_last_iteration())
        };
        Distribution {
            count: histogram.len(),
            min_ns: histogram.min(),
            mean_ns: histogram.mean(),
            stddev_ns: histogram.stdev(),
            p50_ns: at(0.50),
            p75_ns: at(0.75),
            p90_ns: at(0.90),
            p95_ns: at(0.95),
            p99_ns: at(0.99),
            p99_9_ns: at(0.999),
            p99_99_ns: at(0.9999),
            max_ns: histogram.max(),
            percentiles: percentiles::curve(histogram).into_iter().map(percentile).collect(),
            buckets: histogram.iter_recorded().map(bucket).collect(),
        }
    }
}

/// Serialises pairs as an object in their order.
fn in_order<S: Serializer>(pairs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}
