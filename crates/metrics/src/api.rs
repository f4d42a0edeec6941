//! Answers of the admin API beside the snapshot that have more than one reader.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize, Serializer};

use crate::{Histogram, histogram::HistogramJson};

/// The latencies of one second, an event of `GET /api/v1/hist`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Interval {
    /// Answers from memory.
    #[serde(serialize_with = "fine")]
    pub hit: Histogram,
    /// Answers for which the origin was asked or waited for.
    #[serde(serialize_with = "fine")]
    pub miss: Histogram,
}

/// A histogram with all its buckets.
fn fine<S: Serializer>(histogram: &Histogram, to: S) -> Result<S::Ok, S::Error> {
    HistogramJson::with(histogram, histogram.fine().collect()).serialize(to)
}

/// A key of an object face, with estimates of the recent past.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(default)]
pub struct HotKey {
    /// The key.
    pub key: String,
    /// Gets of it: exact while few are asked for, an estimate otherwise.
    pub gets: u64,
    /// Gets that were certainly of this key: those that were looked at.
    pub gets_at_least: u64,
}

/// The hottest keys of an object face.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(default)]
pub struct TopKeys {
    /// `memcached` or `redis`.
    pub face: String,
    /// Gets per sample, beyond those that are counted exactly.
    pub sampled_one_in: u32,
    /// Gets that each thread counts exactly in a second.
    pub exact_per_second: u32,
    /// Gets of which the figures are estimates.
    pub gets: u64,
    /// The first keys, the hottest first.
    pub keys: Vec<HotKey>,
}

/// A request that has ended, an event of `GET /api/v1/log`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(default)]
pub struct LogLine {
    /// Its end, in milliseconds since the UNIX epoch.
    pub time_ms: u64,
    /// From the first byte of the request to the last byte of the response.
    pub elapsed_us: u64,
    /// The address of the client.
    pub client: String,
    /// The method as received.
    pub method: String,
    /// The absolute URL.
    pub url: String,
    /// The name of its site.
    pub site: String,
    /// The status of the answer; 0: the client left before.
    pub status: u16,
    /// Bytes sent, head included.
    pub bytes: u64,
    /// The result in Squid's words.
    pub result: Cow<'static, str>,
    /// The outcome in the words of the statistics.
    pub outcome: Cow<'static, str>,
    /// The server that was asked, in Squid's words.
    pub hierarchy: String,
    /// Content-Type of the response.
    pub content_type: Option<String>,
    /// Cache-Status of the response (RFC 9211).
    pub cache_status: Option<String>,
    /// The reference that the page shows, where it is an error of Larder's own.
    pub reference: Option<String>,
    /// `HTTP/1.1` and the like.
    pub http_version: String,
    /// Version, cipher suite, and whether the session was resumed; None: the client's connection
    /// is not TLS.
    pub tls: Option<String>,
}

/// An error that Larder answered with itself, in `GET /api/v1/errors`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(default)]
pub struct AnsweredError {
    /// The reference that its page shows.
    pub reference: String,
    /// The moment, in milliseconds since the UNIX epoch.
    pub time_ms: u64,
    /// From the first byte of the request to the answer, in microseconds.
    pub elapsed_us: u64,
    /// The status.
    pub status: u16,
    /// The reason as the visitor was told it.
    pub why: Cow<'static, str>,
    /// The reason in full, where there is more to say: the error of the origin.
    pub detail: Option<String>,
    /// The method as received.
    pub method: String,
    /// The absolute URL.
    pub url: String,
    /// The name of the site; empty: none has this host.
    pub site: String,
    /// The address of the client.
    pub client: String,
    /// `HTTP/1.1` and the like.
    pub http_version: String,
}

/// A stored response in `GET /api/v1/objects`: one row for each variant of a page.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ObjectRow {
    /// The URL of the page.
    pub url: String,
    /// The host that the origin was told, if it is in the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub forwarded_host: Option<String>,
    /// Lines of the site's `key_fields` that are in the key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, ts(optional, as = "Option<Vec<String>>"))]
    pub key_fields: Vec<String>,
    /// The name of its site.
    pub site: String,
    /// The stored status.
    pub status: u16,
    /// Its Content-Type.
    pub content_type: Option<String>,
    /// Bytes of the body.
    pub size: u64,
    /// Its age in seconds.
    pub age_s: u64,
    /// Seconds left of its freshness; negative: stale for that long.
    pub ttl_s: i64,
    /// `fresh` or `stale`.
    pub state: Cow<'static, str>,
    /// The request fields that select this variant; null: the page has no variants.
    pub vary: Option<BTreeMap<String, Option<String>>>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Whether it was published through the admin API.
    pub published: bool,
    /// Whether it was ever served from the store.
    pub read: bool,
    /// The last time it was served, in milliseconds since the UNIX epoch.
    pub last_read_ms: u64,
}

/// A purge that was carried out, in `GET /api/v1/purges`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Purge {
    /// The moment, in milliseconds since the UNIX epoch.
    pub time_ms: u64,
    /// `url`, `prefix`, `tags` or `ban`.
    pub kind: Cow<'static, str>,
    /// The URL, the tags, the expression.
    pub what: String,
    /// Marked as stale instead of removed.
    pub soft: bool,
    /// Pages that were there.
    pub purged: u64,
    /// The client and the interface it used.
    pub by: String,
}
