//! Statistics of the memcached face: the data kept per worker, the hooks that feed it, and the
//! commands that read it (protocol.txt, "Statistics"; docs/memcached.md lists the extensions).
//!
//! | file | contents |
//! |---|---|
//! | `lines.rs` | names and values in the form of a protocol |
//! | `command.rs` | `stats ...` by its first word |
//! | `general.rs`, `config.rs`, `classes.rs`, `conns.rs` | `stats`; `settings`; `items`, `slabs`; `conns` |
//! | `extensions.rs` | `prefixes`, `hotkeys`, `latency` |
//! | `prefixes.rs` | the tables behind `detail` and `prefixes` |
//! | `admin.rs`, `tunables.rs` | `lru_crawler`, `slabs`, `lru`, `cache_memlimit`, `verbosity`, `watch` |
//!
//! `../crawl.rs` walks over the items; `../watch.rs` holds the watchers.

pub(crate) mod admin;
mod classes;
mod command;
mod config;
mod conns;
mod extensions;
mod general;
pub(crate) mod lines;
mod prefixes;
#[cfg(test)]
mod tests;
mod tunables;

pub(crate) use command::command;
pub(crate) use conns::sockets;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use larder_metrics::{Histogram, Recorder};
use larder_store::{Cause, NamespaceStats, Over, Store};
use parking_lot::Mutex;

use self::{prefixes::Prefixes, tunables::Tunables};
use super::{
    Face, OBJECTS, Shared,
    watch::{
        CONNEVENTS, DELETIONS, DETAIL, Dropped, EVICTIONS, FETCHERS, GetResult, MUTATIONS,
        Store as Seen, WatchLog,
    },
};
use crate::{
    clock::Ms,
    object::{Client, hot::Hot},
    settings::MemcachedSettings,
};

/// Statistics of one worker beside its counters. The worker writes, others read; aligned to cache
/// lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct WorkerStats {
    pub(crate) latency: Recorder,
    watch_log: Arc<WatchLog>,
    pub(crate) hot: Hot,
    prefixes: Prefixes,
    delimiter: u8,
    /// Id of the client whose commands are being executed.
    serving: AtomicU64,
    /// Time of its last datagram.
    pub(crate) datagram: AtomicU64,
}

/// Statistics shared by all workers.
#[derive(Debug)]
pub(crate) struct FaceStats {
    pub(crate) watch_log: Arc<WatchLog>,
    pub(crate) workers: Box<[Arc<WorkerStats>]>,
    /// Figures at the last `stats reset`.
    before: Mutex<Baseline>,
    tunables: Mutex<Tunables>,
    /// Started walks.
    walks: AtomicU64,
    delimiter: u8,
}

/// Figures at `stats reset`. Counters have a single writer, so a reset subtracts instead of
/// clearing.
#[derive(Clone, Debug, Default)]
struct Baseline {
    counters: Vec<u64>,
    store: NamespaceStats,
    latency: Histogram,
    log: super::watch::Figures,
    walks: u64,
}

impl FaceStats {
    /// Starts with empty figures. From now on the store reports evictions if they are watched.
    pub(crate) fn new(settings: &MemcachedSettings, store: &'static Store, workers: usize) -> Self {
        let watch_log = Arc::new(WatchLog::default());
        watch_log.detail(settings.detail);
        let observer = watch_log.clone();
        store.observe(Box::new(move |gone| {
            if gone.ns == OBJECTS && gone.cause == Cause::Evicted && observer.any(EVICTIONS) {
                observer.evicted(
                    Dropped {
                        key: gone.key,
                        fetched: gone.info.fetched,
                        expires: gone.info.expires,
                        last_access: gone.info.last_access,
                        size: gone.info.len,
                    },
                    gone.now,
                );
            }
        }));
        Self {
            workers: (0..workers)
                .map(|_| Arc::new(WorkerStats::new(&watch_log, settings.prefix_delimiter)))
                .collect(),
            delimiter: settings.prefix_delimiter,
            watch_log,
            before: Mutex::default(),
            tunables: Mutex::new(Tunables::new(settings)),
            walks: AtomicU64::new(0),
        }
    }

    /// Statistics of a worker. For a worker number out of range it returns an unread one.
    pub(crate) fn worker(&self, worker: usize) -> Arc<WorkerStats> {
        let known = self.workers.get(worker).cloned();
        known.unwrap_or_else(|| Arc::new(WorkerStats::new(&self.watch_log, self.delimiter)))
    }

    /// Batch latencies of all workers.
    pub(crate) fn latency(&self) -> Histogram {
        Histogram::of(self.workers.iter().map(|worker| &worker.latency))
    }

    /// `stats reset`.
    fn reset(&self, shared: &Shared) {
        for worker in &self.workers {
            worker.hot.forget();
            worker.prefixes.forget();
            worker.latency.forget_max();
        }
        *self.before.lock() = Baseline {
            counters: general::counted(shared),
            store: shared.store.stats(OBJECTS),
            latency: self.latency(),
            log: self.watch_log.figures(),
            walks: self.walks.load(Relaxed),
        };
    }
}

impl Face {
    /// Reports to watchers of fetchers a look-up by a command that does not request the value, as
    /// memcached does for stores.
    #[inline]
    pub(crate) fn saw_lookup(&self, key: &[u8], now: Ms) {
        if self.stats.watch_log.any(FETCHERS) {
            self.report_lookup(key, now);
        }
    }

    #[cold]
    fn report_lookup(&self, key: &[u8], now: Ms) {
        let found = match (self.store.peek(OBJECTS, key, now), self.store.over(OBJECTS, key, now)) {
            (Some(entry), _) => GetResult::Hit(entry.len()),
            (None, None) => GetResult::Miss,
            (None, Some(Over::Expired)) => GetResult::Expired,
            (None, Some(Over::Flushed)) => GetResult::Flushed,
        };
        self.stats.watch_log.fetched(self.stats.serving.load(Relaxed), key, found, now);
    }

    /// The reason why a key is missing, for [`WorkerStats::saw_get`]. Counts it among the misses.
    #[inline]
    pub(crate) fn missing(&self, key: &[u8], now: Ms) -> GetResult {
        match self.store.over(OBJECTS, key, now) {
            None => GetResult::Miss,
            Some(Over::Expired) => {
                self.counters.get_expired.one();
                GetResult::Expired
            }
            Some(Over::Flushed) => {
                self.counters.get_flushed.one();
                GetResult::Flushed
            }
        }
    }
}

/// Hooks, called beside the counters by the code that executes a command. Without watchers each
/// costs one relaxed load; a get also counts down to the next sample of hot keys.
impl WorkerStats {
    fn new(watch_log: &Arc<WatchLog>, delimiter: u8) -> Self {
        Self {
            latency: Recorder::default(),
            watch_log: watch_log.clone(),
            hot: Hot::default(),
            prefixes: Prefixes::default(),
            delimiter,
            serving: AtomicU64::new(0),
            datagram: AtomicU64::new(0),
        }
    }

    /// Sets the client of the next commands. Called by the owning worker, once per batch.
    #[inline]
    pub(crate) fn serving(&self, client: u64) {
        self.serving.store(client, Relaxed);
    }

    /// Reports a requested key.
    #[inline]
    pub(crate) fn saw_get(&self, key: &[u8], found: GetResult, now: Ms) {
        if let Some(weight) = self.hot.due(now) {
            self.hot.sample(key, weight);
        }
        if self.watch_log.any(FETCHERS | DETAIL) {
            self.report_get(key, found, now);
        }
    }

    #[cold]
    fn report_get(&self, key: &[u8], found: GetResult, now: Ms) {
        if self.watch_log.any(DETAIL) {
            self.prefixes.count(key, self.delimiter, |row| {
                row.gets += 1;
                if let GetResult::Hit(size) = found {
                    row.hits += 1;
                    row.bytes_out += size;
                }
            });
        }
        if self.watch_log.any(FETCHERS) {
            self.watch_log.fetched(self.serving.load(Relaxed), key, found, now);
        }
    }

    /// Returns whether stores or their look-ups are watched.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.watch_log.any(FETCHERS | MUTATIONS | DETAIL)
    }

    /// Reports a store command.
    #[cold]
    pub(crate) fn saw_store(&self, seen: &Seen<'_>, now: Ms) {
        if self.watch_log.any(DETAIL) {
            self.prefixes.count(seen.key, self.delimiter, |row| {
                row.sets += 1;
                row.bytes_in += seen.sent;
            });
        }
        if self.watch_log.any(MUTATIONS) {
            self.watch_log.stored(self.serving.load(Relaxed), *seen, now);
        }
    }

    /// Reports a deletion. `size`: bytes of the deleted value; None: the key was missing.
    #[inline]
    pub(crate) fn saw_delete(&self, key: &[u8], command: &'static str, size: Option<u64>, now: Ms) {
        if self.watch_log.any(DELETIONS | DETAIL) {
            self.report_delete(key, command, size, now);
        }
    }

    #[cold]
    fn report_delete(&self, key: &[u8], command: &'static str, size: Option<u64>, now: Ms) {
        if self.watch_log.any(DETAIL) {
            self.prefixes.count(key, self.delimiter, |row| row.deletes += 1);
        }
        if let Some(size) = size.filter(|_| self.watch_log.any(DELETIONS)) {
            self.watch_log.deleted(self.serving.load(Relaxed), key, command, size, now);
        }
    }

    /// Reports a new client.
    pub(crate) fn saw_connection(&self, client: &Client, now: Ms) {
        if self.watch_log.any(CONNEVENTS) {
            self.watch_log.connected(client, now);
        }
    }

    /// Reports the end of a connection. `reason`: `normal`, `error`, `idle_timeout`, `shutdown`.
    pub(crate) fn saw_end(&self, client: &Client, reason: &'static str, now: Ms) {
        self.watch_log.leave(client);
        if self.watch_log.any(CONNEVENTS) {
            self.watch_log.disconnected(client, reason, now);
        }
    }
}
