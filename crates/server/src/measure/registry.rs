//! The registry: all counters of the process.

use std::sync::{Arc, OnceLock, atomic::Ordering};

use larder_metrics::{
    By, Format, Histogram, Recorder, Snapshot, TopUrls, VERSION, prometheus, top_urls,
};
use larder_store::Store;
use parking_lot::RwLock;
use serde_json::Value;

use super::{certificates, conditions::States};
use crate::{
    access_log::Logger,
    app::Apps,
    clock::{Clock, Ms},
    counters::{self, Counters},
    disk::Tier,
    memcache, queue, redis, request,
    settings::Settings,
};

/// The parts of a registry.
pub(crate) struct Parts {
    pub(crate) clock: Clock,
    pub(crate) store: &'static Store,
    pub(crate) settings: Arc<Settings>,
    pub(crate) http: Option<(Arc<request::pages::Shared>, Vec<Arc<Counters>>)>,
    pub(crate) memcached: Option<Arc<memcache::Shared>>,
    pub(crate) queue: Option<Arc<queue::Shared>>,
    pub(crate) redis: Option<Arc<redis::Shared>>,
    pub(crate) disk: Option<Arc<Tier>>,
    pub(crate) logger: Option<Arc<Logger>>,
    pub(crate) apps: Arc<Apps>,
}

/// All counters of the process; any thread may read them.
pub struct Registry {
    pub(super) parts: Parts,
    /// The present settings: a reload changes them.
    pub(super) settings: RwLock<Arc<Settings>>,
    name: OnceLock<String>,
    started: Ms,
    pub(super) states: States,
    /// One per worker: how late it handles a timer.
    delays: Box<[Arc<Recorder>]>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("started", &self.started).finish_non_exhaustive()
    }
}

impl Registry {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        Arc::new(Self {
            settings: RwLock::new(parts.settings.clone()),
            name: OnceLock::new(),
            started: parts.clock.now(),
            states: States::default(),
            delays: (0..parts.settings.threads.max(1)).map(|_| Arc::default()).collect(),
            parts,
        })
    }

    /// Names this instance, once; the default is the name of the machine.
    pub fn set_name(&self, name: String) {
        let _ = self.name.set(name);
    }

    /// Takes new settings.
    pub(crate) fn reload(&self, settings: Arc<Settings>) {
        *self.settings.write() = settings;
    }

    /// The recorder of how late a worker handles a timer.
    pub(crate) fn delay(&self, worker: usize) -> Arc<Recorder> {
        self.delays.get(worker).cloned().unwrap_or_default()
    }

    /// The figures of this moment. It adds up some hundred kilobytes of counters: once a second is
    /// cheap.
    pub fn snapshot(&self, now: Ms) -> Snapshot {
        let Parts { http, memcached, redis, queue, logger, apps, .. } = &self.parts;
        let shared = http.as_ref().map(|(shared, _)| shared);
        Snapshot {
            version: VERSION,
            larder: env!("CARGO_PKG_VERSION").to_owned(),
            name: self.name.get_or_init(host_name).clone(),
            pid: std::process::id(),
            started_ms: self.started,
            now_ms: now,
            uptime_s: now.saturating_sub(self.started) / 1000,
            threads: self.delays.len(),
            memory: self.memory(),
            http: http.as_ref().map(|(shared, workers)| {
                let open = shared.open.load(Ordering::Relaxed) as u64;
                counters::figures(workers, &self.settings.read(), &shared.groups, open)
            }),
            compression: shared
                .filter(|_| self.settings.read().compresses())
                .map(|shared| shared.compressor.figures()),
            advice: shared.map(|shared| shared.findings.advice()).unwrap_or_default(),
            certificates: self.certificates(),
            apps: apps.rows(),
            memcached: memcached.as_ref().map(|shared| shared.figures()),
            redis: redis.as_ref().map(|shared| shared.figures()),
            queues: queue.as_ref().map(|shared| shared.figures()),
            disk: self.parts.disk.as_ref().map(|disk| disk.figures()),
            remote: shared
                .and_then(|shared| shared.remote.as_ref())
                .map(|remote| remote.stats().figures()),
            family: shared.and_then(|shared| {
                let settings = &self.settings.read().family;
                let served = [("icp", settings.icp.is_some()), ("htcp", settings.htcp.is_some())];
                shared.family.figures(served)
            }),
            loop_delay: Histogram::of(self.delays.iter().map(|delay| &**delay)),
            conditions: self.states.figures(),
            log: logger.as_ref().map(|logger| logger.figures()).unwrap_or_default(),
            tracing: shared
                .and_then(|shared| shared.tracing.as_ref())
                .map(|tracing| tracing.counts.figures()),
        }
    }

    /// The certificates of HTTPS; none where it is not served.
    fn certificates(&self) -> Vec<larder_metrics::Certificate> {
        let settings = self.settings.read();
        let (Some(https), Some((shared, _))) = (&settings.https, &self.parts.http) else {
            return Vec::new();
        };
        certificates::rows(https, &shared.acme)
    }

    /// Every number of the snapshot with its path in the JSON, such as `http.results.hit`, without
    /// the buckets of histograms.
    pub fn numbers(&self, now: Ms) -> Vec<(String, u64)> {
        let mut numbers = Vec::new();
        // A snapshot has no keys or values that JSON does not have.
        let snapshot = serde_json::to_value(self.snapshot(now)).unwrap_or_default();
        flatten("", &snapshot, &mut numbers);
        numbers
    }

    /// The hottest URLs, estimated from samples.
    pub fn top(&self, by: By, limit: usize) -> TopUrls {
        let workers = self.parts.http.iter().flat_map(|(_, workers)| workers);
        top_urls(workers.map(|worker| &worker.urls), by, limit)
    }

    /// All metrics as text.
    pub fn prometheus(&self, now: Ms, format: Format) -> String {
        prometheus(&self.snapshot(now), format)
    }
}

/// Adds the numbers in `value`. Elements of lists are called by their names.
fn flatten(path: &str, value: &Value, numbers: &mut Vec<(String, u64)>) {
    let below =
        |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Number(number) => {
            numbers.extend(number.as_u64().map(|number| (path.to_owned(), number)))
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| flatten(&below(name), value, numbers));
        }
        Value::Array(rows) => {
            for row in rows {
                if let Some(name) = row.get("name").and_then(Value::as_str) {
                    flatten(&below(name), row, numbers);
                }
            }
        }
        _ => {}
    }
}

/// The system's name of the machine (uname(2)).
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
