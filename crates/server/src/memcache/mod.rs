//! The memcached face: the text, meta and binary protocols over the shared store.
//!
//! | file | contents |
//! |---|---|
//! | `session.rs` | one client's session: its protocol, its state, one command at a time |
//! | `incoming.rs` | data blocks: copied once from the received bytes, or stored as they arrive |
//! | `ops.rs` | effects of commands on the store, for all protocols |
//! | `text.rs`, `meta.rs` | execution of text and meta commands |
//! | `away.rs` | items whose value is on the disk |
//! | `counters.rs` | counters of a worker |
//! | `stats/` | statistics and administrative commands |
//! | `echo.rs` | the log of `-vv` |
//! | `watch.rs`, `crawl.rs` | watchers; walks over all items |
//!
//! One [`Shared`] per process, one [`Face`] per worker, one [`Session`] per client.

pub(crate) mod auth;
mod away;
pub(crate) mod binary;
pub(crate) mod counters;
pub(crate) mod crawl;
mod echo;
mod face;
mod figures;
mod incoming;
mod meta;
pub(crate) mod ops;
pub(crate) mod session;
pub(crate) mod stats;
mod text;
pub(crate) mod udp;
pub(crate) mod watch;

use std::{
    cell::{Cell, RefCell},
    net::IpAddr,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use larder_store::{Namespace, Store};
use parking_lot::RwLock;

pub(crate) use counters::Counters;
pub(crate) use session::Session;

use crate::{
    clock::Ms,
    object::ahead::{Ahead, Firsts},
    object::{self, COMMANDS, Client, Clients, Limits, TurnTime, stop::StopHandle},
    settings::{DEFAULT_REQUESTS_PER_EVENT, MemcachedSettings},
};
use crate::{disk::Tier, room::Room};

/// The namespace of memcached's items in the store.
pub(crate) const OBJECTS: Namespace = Namespace(1);

/// Answer to a connection beyond the limit.
const REFUSAL: &[u8] = b"ERROR Too many open connections\r\n";

/// State shared by all workers.
pub(crate) struct Shared {
    pub(crate) store: &'static Store,
    settings: RwLock<Arc<MemcachedSettings>>,
    /// Number of reloads. A worker compares it to learn whether its copy of the settings is
    /// current.
    reloads: AtomicU64,
    /// Commands are printed (`-vv`, `verbosity 2`).
    pub(crate) echoes: AtomicBool,
    pub(crate) clients: Arc<Clients>,
    pub(crate) paused: face::PausedListeners,
    /// Time at which all earlier items are flushed (`flush_all <delay>`); 0: none planned.
    flush_at: AtomicU64,
    /// When the process started.
    pub(crate) started: Ms,
    /// One set of counters per worker.
    pub(crate) counters: Box<[Arc<Counters>]>,
    /// Watchers, and the statistics of each worker beside its counters.
    pub(crate) stats: stats::FaceStats,
    /// Ends the process (`shutdown`).
    pub(crate) stop: StopHandle,
    /// The disk that has values of items; None: none is to have any.
    pub(crate) disk: Option<Arc<Tier>>,
}

impl Shared {
    pub(crate) fn new(
        settings: MemcachedSettings,
        store: &'static Store,
        (room, disk): (&Arc<Room>, Option<Arc<Tier>>),
        now: Ms,
        workers: usize,
    ) -> Arc<Shared> {
        let stats = stats::FaceStats::new(&settings, store, workers);
        let clients = Clients::numbered_from(room, stats::sockets(&settings, workers));
        Arc::new(Shared {
            store,
            echoes: AtomicBool::new(settings.verbosity > 1),
            settings: RwLock::new(Arc::new(settings)),
            reloads: AtomicU64::new(0),
            clients,
            paused: face::PausedListeners::default(),
            flush_at: AtomicU64::new(0),
            started: now,
            counters: (0..workers).map(|_| Arc::default()).collect(),
            stats,
            stop: StopHandle,
            disk,
        })
    }

    /// The current settings.
    pub(crate) fn settings(&self) -> Arc<MemcachedSettings> {
        self.settings.read().clone()
    }

    /// Replaces the settings: all later commands follow them.
    pub(crate) fn reload(&self, settings: MemcachedSettings) {
        *self.settings.write() = Arc::new(settings);
        self.reloads.fetch_add(1, Ordering::Release);
    }

    /// Plans a flush of all present items at `at`. It replaces an earlier plan.
    pub(crate) fn flush_at(&self, at: Ms) {
        self.flush_at.store(at, Ordering::Release);
    }

    /// When a flush is planned; 0: none is.
    pub(crate) fn planned_flush(&self) -> Ms {
        self.flush_at.load(Ordering::Acquire)
    }

    /// Flushes if the planned time has come. Only one thread performs the flush.
    #[inline]
    pub(crate) fn flush_due(&self, now: Ms) {
        let at = self.flush_at.load(Ordering::Acquire);
        if at != 0 && at <= now {
            self.flush_now(at, now);
        }
    }

    #[cold]
    fn flush_now(&self, at: Ms, now: Ms) {
        if self.flush_at.compare_exchange(at, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.store.flush(OBJECTS, now);
        }
    }
}

impl object::Shared for Shared {
    fn clients(&self) -> &Clients {
        &self.clients
    }

    fn limits(&self) -> Limits {
        let settings = self.settings();
        Limits {
            connections: settings.connections,
            connections_fast: settings.connections_fast,
            idle: settings.idle_timeout.as_millis() as Ms,
            receive: settings.receive_timeout.as_millis() as Ms,
            send: settings.send_timeout.as_millis() as Ms,
            // As in memcached, nothing is received while answers wait.
            gather: 0,
            commands: match settings.requests_per_event {
                DEFAULT_REQUESTS_PER_EVENT => COMMANDS,
                commands => commands,
            },
            backlog: settings.backlog,
        }
    }

    fn announces(&self, address: IpAddr) -> bool {
        self.settings.read().proxies.iter().any(|net| net.contains(address))
    }

    fn refusal(&self) -> &'static [u8] {
        REFUSAL
    }
}

/// One worker's view of the face.
pub(crate) struct Face {
    pub(crate) shared: Arc<Shared>,
    pub(crate) store: &'static Store,
    /// Counters of this worker, its only writer.
    pub(crate) counters: Arc<Counters>,
    /// Statistics of this worker beside the counters. Commands report to it (`saw_get`,
    /// `saw_store`, ...).
    pub(crate) stats: Arc<stats::WorkerStats>,
    settings: RefCell<Arc<MemcachedSettings>>,
    reloads: Cell<u64>,
    /// Look-ups ahead for the client whose batch is being executed.
    pub(crate) ahead: RefCell<Ahead>,
    /// Hints for the first commands of a round.
    pub(crate) firsts: Firsts,
    /// Time of the current turn.
    pub(crate) turn_time: TurnTime,
    /// Copy of `settings.cas`, read by every answer with a version.
    pub(crate) cas: Cell<bool>,
    /// Copy of `settings.item_size`, read by every store command.
    pub(crate) item_size: Cell<u64>,
    /// The present turn does without values on the disk.
    without: Cell<bool>,
    /// Size of a store segment, in bytes.
    segment: u64,
}

impl Face {
    pub(crate) fn new(shared: &Arc<Shared>, worker: usize) -> Rc<Face> {
        let settings = shared.settings();
        Rc::new(Face {
            shared: shared.clone(),
            store: shared.store,
            counters: shared.counters.get(worker).cloned().unwrap_or_default(),
            stats: shared.stats.worker(worker),
            ahead: RefCell::default(),
            firsts: Firsts::default(),
            turn_time: TurnTime::default(),
            without: Cell::default(),
            segment: shared.store.totals().segment,
            reloads: Cell::new(shared.reloads.load(Ordering::Acquire)),
            cas: Cell::new(settings.cas),
            item_size: Cell::new(settings.item_size),
            settings: RefCell::new(settings),
        })
    }

    pub(crate) fn session(self: &Rc<Face>, client: Arc<Client>) -> Session {
        Session::new(self.clone(), client)
    }

    /// The settings for this command.
    pub(crate) fn settings(&self) -> Arc<MemcachedSettings> {
        self.settings.borrow().clone()
    }

    /// Version reported for an item; 0 without versions (`-C`).
    #[inline]
    pub(crate) fn version(&self, version: u64) -> u64 {
        if self.cas.get() { version } else { 0 }
    }

    /// Call before every command: takes new settings and performs a flush that is due.
    #[inline]
    pub(crate) fn refresh(&self, now: Ms) {
        if self.shared.reloads.load(Ordering::Relaxed) != self.reloads.get() {
            self.take_settings();
        }
        self.shared.flush_due(now);
    }

    #[cold]
    fn take_settings(&self) {
        self.reloads.set(self.shared.reloads.load(Ordering::Acquire));
        let settings = self.shared.settings();
        self.cas.set(settings.cas);
        self.item_size.set(settings.item_size);
        *self.settings.borrow_mut() = settings;
    }
}
