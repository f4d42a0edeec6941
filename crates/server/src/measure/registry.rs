//! Where everything that is counted is found.

use std::sync::{Arc, OnceLock};

use larder_store::Store;
use parking_lot::RwLock;

use super::{
    By, Hist, Histogram, Log, Merged, Remote, Snapshot, Spans, Top, hot, snapshot::VERSION, table, text,
};
use crate::{
    access_log::Logger,
    clock::{Clock, Ms},
    counters::Counters,
    memcache, redis, request,
    settings::Settings,
};

/// What the remote tier says of itself, when it is asked.
type AskRemote = Box<dyn Fn() -> Remote + Send + Sync>;

/// What a registry is made of.
pub(crate) struct Parts {
    pub(crate) clock: Clock,
    pub(crate) store: &'static Store,
    pub(crate) settings: Arc<Settings>,
    pub(crate) http: Option<(Arc<request::pages::Shared>, Vec<Arc<Counters>>)>,
    pub(crate) memcached: Option<Arc<memcache::Shared>>,
    pub(crate) redis: Option<Arc<redis::Shared>>,
    pub(crate) logger: Option<Arc<Logger>>,
}

/// Knows where every counter is; one per process. Any thread may ask it.
pub struct Registry {
    pub(super) parts: Parts,
    /// As they are now: a reload changes them.
    pub(super) settings: RwLock<Arc<Settings>>,
    name: OnceLock<String>,
    remote: OnceLock<AskRemote>,
    started: Ms,
    /// One per worker: how late it gets to a timer.
    delays: Box<[Arc<Histogram>]>,
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
            remote: OnceLock::new(),
            started: parts.clock.now(),
            delays: (0..parts.settings.threads.max(1)).map(|_| Arc::default()).collect(),
            parts,
        })
    }

    /// Names this instance, once; without a name it is called as its machine.
    pub fn set_name(&self, name: String) {
        let _ = self.name.set(name);
    }

    /// Asks the remote tier from now on; only the first such call counts.
    pub fn set_remote(&self, ask: impl Fn() -> Remote + Send + Sync + 'static) {
        let _ = self.remote.set(Box::new(ask));
    }

    /// New settings.
    pub(crate) fn reload(&self, settings: Arc<Settings>) {
        *self.settings.write() = settings;
    }

    /// Where a worker counts how late it gets to a timer.
    pub(crate) fn delay(&self, worker: usize) -> Arc<Histogram> {
        self.delays.get(worker).cloned().unwrap_or_default()
    }

    /// Everything, as it is now. It adds up some hundred kilobytes of counters: once a second is cheap.
    pub fn snapshot(&self, now: Ms) -> Snapshot {
        let logger = self.parts.logger.as_ref();
        Snapshot {
            version: VERSION,
            larder: env!("CARGO_PKG_VERSION"),
            name: self.name.get_or_init(host_name).clone(),
            pid: std::process::id(),
            started_ms: self.started,
            now_ms: now,
            uptime_s: now.saturating_sub(self.started) / 1000,
            threads: self.delays.len(),
            memory: self.memory(),
            http: self.http(),
            memcached: self.memcached(),
            redis: self.redis(),
            remote: self.remote.get().map(|ask| ask()),
            loop_delay: Hist(Merged::of(self.delays.iter().map(|delay| &**delay))),
            log: Log {
                lines: logger.map_or(0, |logger| logger.lines()),
                dropped: logger.map_or(0, |logger| logger.dropped()),
            },
            tracing: self.parts.http.as_ref().and_then(|(shared, _)| shared.tracing.as_ref()).map(
                |tracing| {
                    let (exported, dropped) = tracing.counts.now();
                    Spans { exported, dropped }
                },
            ),
        }
    }

    /// The hottest URLs, estimated from samples.
    pub fn top(&self, by: By, limit: usize) -> Top {
        let workers = self.parts.http.iter().flat_map(|(_, workers)| workers);
        let all: Vec<_> = workers.filter_map(|worker| worker.watched.hot()).collect();
        let sampled_one_in = if all.is_empty() { 0 } else { hot::EVERY };
        Top { by: by.as_str(), sampled_one_in, urls: hot::top(all.into_iter(), by, limit) }
    }

    /// Appends everything as text for Prometheus: OpenMetrics 1.0, or text format 0.0.4.
    pub fn prometheus(&self, now: Ms, out: &mut String, openmetrics: bool) {
        text::write(table::all(), &self.snapshot(now), out, openmetrics);
    }
}

/// As the system calls the machine (uname(2)).
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
