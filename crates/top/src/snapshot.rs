//! The part of a Larder's `/api/v1/stats` that is shown here. Counts are since the Larder's start.
//!
//! Missing values count as 0 and unknown ones are ignored, so that other versions can be watched.

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;

use crate::text::Text;

/// The supported version of the answer.
pub(crate) const VERSION: u32 = 1;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Snapshot {
    pub(crate) version: u32,
    pub(crate) larder: Text,
    pub(crate) name: Text,
    pub(crate) pid: u64,
    pub(crate) started_ms: u64,
    pub(crate) uptime_s: f64,
    pub(crate) memory: Memory,
    pub(crate) http: Option<Http>,
    pub(crate) memcached: Option<Objects>,
    pub(crate) redis: Option<Objects>,
    pub(crate) remote: Option<Remote>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Memory {
    pub(crate) budget: u64,
    pub(crate) used: u64,
    pub(crate) namespaces: Vec<Namespace>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Namespace {
    pub(crate) name: Text,
    pub(crate) items: u64,
    pub(crate) bytes: u64,
    pub(crate) evictions: u64,
}

/// Counts by name: `{"hit":3}`.
pub(crate) type Counts = BTreeMap<Text, u64>;

/// The count under a name, 0 if absent.
pub(crate) fn of(counts: &Counts, name: &str) -> u64 {
    counts.get(name).copied().unwrap_or(0)
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Http {
    pub(crate) requests: u64,
    pub(crate) results: Counts,
    pub(crate) status: Counts,
    pub(crate) stored: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) connections: Connections,
    pub(crate) latency: HitMiss,
    pub(crate) why_missed: Counts,
    pub(crate) sites: Vec<Site>,
    pub(crate) origins: Vec<Origin>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Connections {
    pub(crate) open: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct HitMiss {
    pub(crate) hit: Histogram,
    pub(crate) miss: Histogram,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Site {
    pub(crate) name: Text,
    pub(crate) requests: u64,
    pub(crate) results: Counts,
    pub(crate) bytes_out: u64,
    pub(crate) latency: HitMiss,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Origin {
    pub(crate) name: Text,
    pub(crate) requests: u64,
    pub(crate) failures: Counts,
    pub(crate) connections_open: u64,
    pub(crate) ttfb: Histogram,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Objects {
    pub(crate) connections: Connections,
    pub(crate) gets: u64,
    pub(crate) get_hits: u64,
    pub(crate) sets: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) commands: Counts,
    pub(crate) latency: Histogram,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Remote {
    pub(crate) servers: Vec<RemoteServer>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RemoteServer {
    pub(crate) name: Text,
    pub(crate) state: Text,
    pub(crate) lookups: u64,
    pub(crate) hits: u64,
    pub(crate) timeouts: u64,
    pub(crate) errors: u64,
}

/// Latency histogram.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Histogram {
    pub(crate) count: u64,
    /// Upper bound in microseconds, and the count between it and the bound before. In ascending
    /// order.
    pub(crate) buckets: Vec<(f64, u64)>,
}

impl Histogram {
    /// The increase since an older histogram; everything if the older one is of another run.
    pub(crate) fn since(&self, older: &Histogram) -> Histogram {
        if older.count > self.count {
            return self.clone();
        }
        let before =
            |upper: f64| older.buckets.iter().find(|(at, _)| *at == upper).map_or(0, |(_, n)| *n);
        let left = self.buckets.iter().map(|(upper, n)| (*upper, n.saturating_sub(before(*upper))));
        Histogram::of(left.filter(|(_, n)| *n > 0).collect())
    }

    pub(crate) fn of(buckets: Vec<(f64, u64)>) -> Histogram {
        Histogram { count: buckets.iter().fold(0, |sum, (_, n)| sum.saturating_add(*n)), buckets }
    }

    /// Adds another histogram.
    pub(crate) fn add(&mut self, other: &Histogram) {
        for (upper, n) in &other.buckets {
            match self.buckets.binary_search_by(|(at, _)| at.total_cmp(upper)) {
                Ok(at) => self.buckets[at].1 = self.buckets[at].1.saturating_add(*n),
                Err(at) => self.buckets.insert(at, (*upper, *n)),
            }
        }
        self.count = self.count.saturating_add(other.count);
    }

    /// Upper bound of the bucket that contains this quantile (0 to 1).
    pub(crate) fn quantile(&self, share: f64) -> Option<Duration> {
        let all = self.buckets.iter().fold(0u64, |sum, (_, n)| sum.saturating_add(*n));
        let mut left = (all as f64 * share).ceil().max(1.0) as u64;
        for (upper, n) in &self.buckets {
            if *n >= left {
                return Duration::try_from_secs_f64(upper / 1e6).ok();
            }
            left -= n;
        }
        None
    }
}

/// Answer of `/api/v1/top`: estimates from samples.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct HotUrls {
    pub(crate) urls: Vec<HotUrl>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct HotUrl {
    pub(crate) url: Text,
    pub(crate) requests: f64,
    pub(crate) hits: f64,
    pub(crate) mean_us: f64,
}

/// Answer of `/api/v1/keys`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct HotKeys {
    pub(crate) keys: Vec<HotKey>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct HotKey {
    pub(crate) key: Text,
    #[serde(alias = "count", alias = "gets")]
    pub(crate) requests: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_counts_as_nothing_and_what_is_new_is_passed_over() {
        let json = r#"{"version":1,"name":"a","new":[1],"http":{"results":{"hit":3,"other":1},"latency":
            {"hit":{"count":3,"p50_us":7,"buckets":[[8,3]]}}},"memcached":null}"#;
        let snapshot: Snapshot = serde_json::from_str(json).expect("a snapshot");
        let http = snapshot.http.expect("http");
        assert_eq!((of(&http.results, "hit"), of(&http.results, "miss")), (3, 0));
        assert_eq!(http.latency.hit.buckets, [(8.0, 3)]);
        assert!(snapshot.memcached.is_none());
    }

    #[test]
    fn histograms_subtract_and_add() {
        let old = Histogram::of(vec![(8.0, 3), (16.0, 1)]);
        let new = Histogram::of(vec![(8.0, 3), (16.0, 5), (32.0, 2)]);
        let between = new.since(&old);
        assert_eq!((between.count, between.buckets.as_slice()), (6, &[(16.0, 4), (32.0, 2)][..]));
        assert_eq!(old.since(&new).count, old.count, "a new life");
        let mut sum = old.clone();
        sum.add(&between);
        assert_eq!((sum.count, sum.buckets), (new.count, new.buckets));
    }

    #[test]
    fn quantiles_are_upper_bounds() {
        let histogram = Histogram::of(vec![(10.0, 90), (100.0, 9), (1000.0, 1)]);
        let us = |share| histogram.quantile(share).map(|time| time.as_micros());
        assert_eq!(
            [us(0.5), us(0.9), us(0.99), us(1.0)],
            [Some(10), Some(10), Some(100), Some(1000)]
        );
        assert_eq!(Histogram::default().quantile(0.5), None);
    }
}
