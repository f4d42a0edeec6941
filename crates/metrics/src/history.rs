//! The last hour, one sample a second, in columns: a page that has just been opened draws them
//! before the first live figure.
//!
//! 20 columns of 3,600 rows of 8 bytes: at most 660 KB, which fill during the first hour.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::{Histogram, Http, Latencies, Objects, Outcome, Snapshot};

/// Samples kept: an hour.
const ROWS: usize = 3600;
/// Milliseconds from one sample to the next.
const STEP: u64 = 1000;

/// How a column is computed from two snapshots.
enum Value {
    /// The increase of a count.
    Rate(fn(&Snapshot) -> u64),
    /// A figure of the moment.
    Gauge(fn(&Snapshot) -> u64),
    /// A quantile, in thousandths, of the times recorded in between, in microseconds; 0 without
    /// any.
    Quantile(fn(&Snapshot) -> Option<&Histogram>, u64),
}

/// The columns.
const COLUMNS: [(&str, Value); 20] = [
    ("requests", Value::Rate(|s| of_http(s, |http| http.requests))),
    ("hits", Value::Rate(|s| of_http(s, |http| http.results[Outcome::Hit]))),
    (
        "misses",
        Value::Rate(|s| of_http(s, |http| http.results.sum([Outcome::Miss, Outcome::HitForMiss]))),
    ),
    ("stale", Value::Rate(|s| of_http(s, |http| http.results[Outcome::Stale]))),
    ("passes", Value::Rate(|s| of_http(s, |http| http.results[Outcome::Pass]))),
    ("errors", Value::Rate(|s| of_http(s, |http| http.results[Outcome::Error]))),
    (
        "origin_requests",
        Value::Rate(|s| of_http(s, |http| http.origins.iter().map(|origin| origin.requests).sum())),
    ),
    (
        "origin_failures",
        Value::Rate(|s| {
            of_http(s, |http| http.origins.iter().map(|origin| origin.failures.total()).sum())
        }),
    ),
    ("hit_p50_us", Value::Quantile(|s| latency(s).map(|of| &of.hit), 500)),
    ("hit_p99_us", Value::Quantile(|s| latency(s).map(|of| &of.hit), 990)),
    ("miss_p50_us", Value::Quantile(|s| latency(s).map(|of| &of.miss), 500)),
    ("miss_p99_us", Value::Quantile(|s| latency(s).map(|of| &of.miss), 990)),
    (
        "evictions",
        Value::Rate(|s| s.memory.namespaces.iter().map(|namespace| namespace.evictions).sum()),
    ),
    (
        "connections",
        Value::Gauge(|s| {
            of_http(s, |http| http.connections.open) + of_objects(s, |face| face.connections.open)
        }),
    ),
    ("object_gets", Value::Rate(|s| of_objects(s, |face| face.gets))),
    ("object_hits", Value::Rate(|s| of_objects(s, |face| face.get_hits))),
    ("object_sets", Value::Rate(|s| of_objects(s, |face| face.sets))),
    ("loop_delay_p99_us", Value::Quantile(|s| Some(&s.loop_delay), 990)),
    (
        "bytes_out",
        Value::Rate(|s| of_http(s, |http| http.bytes_out) + of_objects(s, |face| face.bytes_out)),
    ),
    ("memory_used", Value::Gauge(|s| s.memory.used)),
];

fn of_http(snapshot: &Snapshot, figure: fn(&Http) -> u64) -> u64 {
    snapshot.http.as_ref().map_or(0, figure)
}

fn of_objects(snapshot: &Snapshot, figure: fn(&Objects) -> u64) -> u64 {
    [&snapshot.memcached, &snapshot.redis].into_iter().flatten().map(figure).sum()
}

fn latency(snapshot: &Snapshot) -> Option<&Latencies> {
    snapshot.http.as_ref().map(|http| &http.latency)
}

impl Value {
    /// The value of second number `part` of `parts` between two snapshots. Missed seconds share the
    /// counts of the time between.
    fn between(&self, before: &Snapshot, now: &Snapshot, part: u64, parts: u64) -> u64 {
        match self {
            Value::Rate(count) => share(count(now).saturating_sub(count(before)), part, parts),
            Value::Gauge(figure) => figure(now),
            Value::Quantile(times, per_mille) => match (times(now), times(before)) {
                (Some(now), Some(before)) => now.clone().since(before).quantile(*per_mille),
                (now, _) => now.map_or(0, |now| now.quantile(*per_mille)),
            },
        }
    }
}

/// The part of a count that belongs to second number `part` of `parts`.
fn share(total: u64, part: u64, parts: u64) -> u64 {
    total * (part + 1) / parts - total * part / parts
}

/// A stretch of the history.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(default)]
pub struct Columns {
    /// Milliseconds from one value to the next.
    pub step_ms: u64,
    /// The start of the second of the first value, in milliseconds since the UNIX epoch.
    pub from_ms: u64,
    /// One value a second in each column, the oldest first; null: nothing was sampled.
    #[cfg_attr(test, ts(type = "Record<string, (number | null)[]>"))]
    pub columns: BTreeMap<String, Vec<u64>>,
}

#[derive(Debug, Default)]
struct Samples {
    /// The second of the last sample and its snapshot.
    last: Option<(u64, Snapshot)>,
    columns: [VecDeque<u64>; COLUMNS.len()],
}

/// An hour of samples.
#[derive(Debug, Default)]
pub struct History(Mutex<Samples>);

impl History {
    /// Adds the sample of a second; further ones of the same second are ignored.
    pub fn push(&self, now: &Snapshot) {
        let mut samples = self.0.lock();
        let second = now.now_ms / STEP;
        if let Some((last, before)) = samples.last.take() {
            let parts = second.saturating_sub(last);
            if parts == 0 {
                samples.last = Some((last, before));
                return;
            }
            for part in parts.saturating_sub(ROWS as u64)..parts {
                for ((_, value), column) in COLUMNS.iter().zip(&mut samples.columns) {
                    if column.len() == ROWS {
                        column.pop_front();
                    }
                    column.push_back(value.between(&before, now, part, parts));
                }
            }
        }
        samples.last = Some((second, now.clone()));
    }

    /// The samples of the seconds that began at `ms` or later.
    pub fn since(&self, ms: u64) -> Columns {
        let samples = self.0.lock();
        let Some((last, _)) = &samples.last else {
            return Columns { step_ms: STEP, ..Columns::default() };
        };
        let held = samples.columns[0].len() as u64;
        let first = last.saturating_sub(held);
        let skip = ms.div_ceil(STEP).saturating_sub(first).min(held);
        let columns = COLUMNS.iter().zip(&samples.columns).map(|((name, _), column)| {
            ((*name).to_owned(), column.iter().skip(skip as usize).copied().collect())
        });
        Columns { step_ms: STEP, from_ms: (first + skip) * STEP, columns: columns.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64, requests: u64) -> Snapshot {
        let http = Http { requests, ..Http::default() };
        Snapshot { now_ms: second * STEP + 17, http: Some(http), ..Snapshot::default() }
    }

    fn requests(columns: &Columns) -> &[u64] {
        columns.columns.get("requests").map_or(&[], Vec::as_slice)
    }

    #[test]
    fn one_row_a_second_of_the_counts_in_it() {
        let history = History::default();
        assert!(requests(&history.since(0)).is_empty());
        for (second, requests) in [(100, 7), (101, 9), (101, 12), (102, 30)] {
            history.push(&at(second, requests));
        }
        let all = history.since(0);
        assert_eq!((all.from_ms, requests(&all)), (100_000, &[2, 21][..]));
        let last = history.since(100_001);
        assert_eq!((last.from_ms, requests(&last)), (101_000, &[21][..]));
        assert!(requests(&history.since(u64::MAX)).is_empty());
    }

    #[test]
    fn missed_seconds_share_the_counts() {
        let history = History::default();
        history.push(&at(10, 0));
        history.push(&at(14, 10));
        assert_eq!(requests(&history.since(0)), [2, 3, 2, 3]);
    }

    #[test]
    fn times_are_those_of_the_second() {
        let snapshot = |second, micros: &[u64]| {
            let mut snapshot = at(second, 0);
            micros.iter().for_each(|micros| snapshot.loop_delay.add_class(*micros, 1));
            snapshot
        };
        let history = History::default();
        history.push(&snapshot(1, &[15, 15, 15]));
        history.push(&snapshot(2, &[15, 15, 15, 7]));
        history.push(&snapshot(3, &[15, 15, 15, 7]));
        assert_eq!(history.since(0).columns["loop_delay_p99_us"], [7, 0]);
    }

    #[test]
    fn an_hour_is_kept() {
        let history = History::default();
        for second in 0..5000 {
            history.push(&at(second, second * 2));
        }
        history.push(&at(50_000, 10_000));
        let columns = history.since(0);
        assert_eq!((requests(&columns).len(), columns.from_ms), (ROWS, (50_000 - 3600) * STEP));
        let samples = history.0.lock();
        assert!(samples.columns.iter().all(|column| column.capacity() <= 2 * ROWS));
    }
}
