//! Statistics of the memcached face: what is kept for them per worker, the hooks that feed it, and
//! the commands that read it (protocol.txt, "Statistics"; what goes beyond is listed in
//! docs/memcached.md).
//!
//! | file | what |
//! |---|---|
//! | `lines.rs` | names and values in the form of a protocol |
//! | `command.rs` | `stats ...` by its first word |
//! | `general.rs`, `config.rs`, `classes.rs`, `conns.rs` | `stats`; `settings`; `items`, `slabs`; `conns` |
//! | `beyond.rs` | `prefixes`, `hotkeys`, `latency` |
//! | `prefixes.rs` | the tables behind `detail` and `prefixes` |
//! | `admin.rs`, `knobs.rs` | `lru_crawler`, `slabs`, `lru`, `cache_memlimit`, `verbosity`, `watch`: what tools send |
//!
//! Walks over the items are in `../crawl.rs`, watchers in `../watch.rs`.

pub(crate) mod admin;
mod beyond;
mod classes;
mod command;
mod config;
mod conns;
mod general;
mod knobs;
pub(crate) mod lines;
mod prefixes;
#[cfg(test)]
mod tests;

pub(crate) use command::command;
pub(crate) use conns::sockets;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use larder_metrics::{Histogram, Recorder};
use larder_store::{Cause, NamespaceStats, Over, Store};
use parking_lot::Mutex;

use self::{knobs::Knobs, prefixes::Prefixes};
use super::{
    Face, OBJECTS, Shared,
    watch::{
        CONNEVENTS, DELETIONS, DETAIL, Dropped, EVICTIONS, Eyes, FETCHERS, Found, MUTATIONS,
        Store as Seen,
    },
};
use crate::{
    clock::Ms,
    object::{Client, hot::Hot},
    settings::MemcachedSettings,
};

/// What one worker keeps beside its counters. It writes, others read; on lines of memory of its
/// own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct WorkerStats {
    pub(crate) latency: Recorder,
    eyes: Arc<Eyes>,
    pub(crate) hot: Hot,
    prefixes: Prefixes,
    delimiter: u8,
    /// Whose commands are being carried out.
    serving: AtomicU64,
    /// When its last datagram came.
    pub(crate) datagram: AtomicU64,
}

/// What all workers share of it.
#[derive(Debug)]
pub(crate) struct FaceStats {
    pub(crate) eyes: Arc<Eyes>,
    pub(crate) workers: Box<[Arc<WorkerStats>]>,
    /// What the figures were at `stats reset`.
    before: Mutex<Before>,
    knobs: Mutex<Knobs>,
    /// Walks begun.
    walks: AtomicU64,
    delimiter: u8,
}

/// Figures at `stats reset`: counters have one writer, so they are not set back but subtracted.
#[derive(Clone, Debug, Default)]
struct Before {
    counters: Vec<u64>,
    store: NamespaceStats,
    latency: Histogram,
    log: super::watch::Figures,
    walks: u64,
}

impl FaceStats {
    /// Nothing counted yet. The store tells of evicted items from now on, if somebody watches for
    /// them.
    pub(crate) fn new(settings: &MemcachedSettings, store: &'static Store, workers: usize) -> Self {
        let eyes = Arc::new(Eyes::default());
        eyes.detail(settings.detail);
        let observer = eyes.clone();
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
                .map(|_| Arc::new(WorkerStats::new(&eyes, settings.prefix_delimiter)))
                .collect(),
            delimiter: settings.prefix_delimiter,
            eyes,
            before: Mutex::default(),
            knobs: Mutex::new(Knobs::new(settings)),
            walks: AtomicU64::new(0),
        }
    }

    /// A worker's part; one that nobody reads for a worker there is not.
    pub(crate) fn worker(&self, worker: usize) -> Arc<WorkerStats> {
        let known = self.workers.get(worker).cloned();
        known.unwrap_or_else(|| Arc::new(WorkerStats::new(&self.eyes, self.delimiter)))
    }

    /// How long batches of all workers took.
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
        *self.before.lock() = Before {
            counters: general::counted(shared),
            store: shared.store.stats(OBJECTS),
            latency: self.latency(),
            log: self.eyes.figures(),
            walks: self.walks.load(Relaxed),
        };
    }
}

impl Face {
    /// A command that does not ask for a value looks its key up, as the stores of memcached do:
    /// told to those who watch fetchers.
    #[inline]
    pub(crate) fn looks_up(&self, key: &[u8], now: Ms) {
        if self.stats.eyes.any(FETCHERS) {
            self.tell_look(key, now);
        }
    }

    #[cold]
    fn tell_look(&self, key: &[u8], now: Ms) {
        let found = match (self.store.peek(OBJECTS, key, now), self.store.over(OBJECTS, key, now)) {
            (Some(entry), _) => Found::Hit(entry.len()),
            (None, None) => Found::Miss,
            (None, Some(Over::Expired)) => Found::Expired,
            (None, Some(Over::Flushed)) => Found::Flushed,
        };
        self.stats.eyes.fetched(self.stats.serving.load(Relaxed), key, found, now);
    }

    /// Why a key that was asked for is not found: counted among the misses, and for
    /// [`WorkerStats::saw_get`].
    #[inline]
    pub(crate) fn missing(&self, key: &[u8], now: Ms) -> Found {
        match self.store.over(OBJECTS, key, now) {
            None => Found::Miss,
            Some(Over::Expired) => {
                self.counters.get_expired.one();
                Found::Expired
            }
            Some(Over::Flushed) => {
                self.counters.get_flushed.one();
                Found::Flushed
            }
        }
    }
}

/// Hooks: called by whoever carries a command out, beside counting it. While nobody wants to know,
/// each is one relaxed load; a get also counts down to the next sample of hot keys.
impl WorkerStats {
    fn new(eyes: &Arc<Eyes>, delimiter: u8) -> Self {
        Self {
            latency: Recorder::default(),
            eyes: eyes.clone(),
            hot: Hot::default(),
            prefixes: Prefixes::default(),
            delimiter,
            serving: AtomicU64::new(0),
            datagram: AtomicU64::new(0),
        }
    }

    /// The commands that follow are this client's. Called by the owning worker, once a batch.
    #[inline]
    pub(crate) fn serving(&self, client: u64) {
        self.serving.store(client, Relaxed);
    }

    /// A key was asked for.
    #[inline]
    pub(crate) fn saw_get(&self, key: &[u8], found: Found, now: Ms) {
        if self.hot.due() {
            self.hot.sample(key);
        }
        if self.eyes.any(FETCHERS | DETAIL) {
            self.tell_get(key, found, now);
        }
    }

    #[cold]
    fn tell_get(&self, key: &[u8], found: Found, now: Ms) {
        if self.eyes.any(DETAIL) {
            self.prefixes.count(key, self.delimiter, |row| {
                row.gets += 1;
                if let Found::Hit(size) = found {
                    row.hits += 1;
                    row.bytes_out += size;
                }
            });
        }
        if self.eyes.any(FETCHERS) {
            self.eyes.fetched(self.serving.load(Relaxed), key, found, now);
        }
    }

    /// Does anybody want to know of stores, or of what they look up?
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.eyes.any(FETCHERS | MUTATIONS | DETAIL)
    }

    /// A value was sent to be stored.
    #[cold]
    pub(crate) fn saw_store(&self, seen: &Seen<'_>, now: Ms) {
        if self.eyes.any(DETAIL) {
            self.prefixes.count(seen.key, self.delimiter, |row| {
                row.sets += 1;
                row.bytes_in += seen.sent;
            });
        }
        if self.eyes.any(MUTATIONS) {
            self.eyes.stored(self.serving.load(Relaxed), *seen, now);
        }
    }

    /// A deletion was asked for. `size`: bytes of the value deleted; None: there was none.
    #[inline]
    pub(crate) fn saw_delete(&self, key: &[u8], command: &'static str, size: Option<u64>, now: Ms) {
        if self.eyes.any(DELETIONS | DETAIL) {
            self.tell_delete(key, command, size, now);
        }
    }

    #[cold]
    fn tell_delete(&self, key: &[u8], command: &'static str, size: Option<u64>, now: Ms) {
        if self.eyes.any(DETAIL) {
            self.prefixes.count(key, self.delimiter, |row| row.deletes += 1);
        }
        if let Some(size) = size.filter(|_| self.eyes.any(DELETIONS)) {
            self.eyes.deleted(self.serving.load(Relaxed), key, command, size, now);
        }
    }

    /// A client connected.
    pub(crate) fn saw_connection(&self, client: &Client, now: Ms) {
        if self.eyes.any(CONNEVENTS) {
            self.eyes.connected(client, now);
        }
    }

    /// A client is gone. `reason`: `normal`, `error`, `idle_timeout`, `shutdown`.
    pub(crate) fn saw_end(&self, client: &Client, reason: &'static str, now: Ms) {
        self.eyes.leave(client);
        if self.eyes.any(CONNEVENTS) {
            self.eyes.disconnected(client, reason, now);
        }
    }
}
