//! The memcached face: text, meta and binary over the one store.
//!
//! | file | what |
//! |---|---|
//! | `session.rs` | one client's conversation: which protocol, which state, one command at a time |
//! | `incoming.rs` | data blocks: from the received bytes in one copy, or as they arrive |
//! | `ops.rs` | what commands do to the store, for all protocols |
//! | `text.rs`, `meta.rs` | commands of the text and meta protocols carried out and answered |
//! | `counters.rs` | what a worker counts |
//! | `stats/` | statistics, and what those who run a server send |
//! | `echo.rs` | what `-vv` prints |
//! | `watch.rs`, `crawl.rs` | watchers, walks over all items |
//!
//! One [`Shared`] per process, one [`Face`] per worker, one [`Session`] per client.

pub(crate) mod auth;
pub(crate) mod binary;
pub(crate) mod counters;
pub(crate) mod crawl;
mod door;
mod echo;
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
    object::ahead::Ahead,
    object::{self, COMMANDS, Client, Clients, Limits, room::Room, stop::StopHandle},
    settings::{DEFAULT_REQUESTS_PER_EVENT, MemcachedSettings},
};

/// The namespace of memcached's items in the store.
pub(crate) const OBJECTS: Namespace = Namespace(1);

/// What a connection too many is told.
const REFUSAL: &[u8] = b"ERROR Too many open connections\r\n";

/// What all workers share.
pub(crate) struct Shared {
    pub(crate) store: &'static Store,
    settings: RwLock<Arc<MemcachedSettings>>,
    /// Counts the reloads, so that a worker sees at one look whether its copy is the present one.
    reloads: AtomicU64,
    /// Commands are printed (`-vv`, `verbosity 2`).
    pub(crate) echoes: AtomicBool,
    pub(crate) clients: Arc<Clients>,
    pub(crate) waiting: door::Waiting,
    /// When everything stored before is to be gone (`flush_all <delay>`); 0: no such time.
    flush_at: AtomicU64,
    /// When the process started.
    pub(crate) started: Ms,
    /// What each worker counted.
    pub(crate) counters: Box<[Arc<Counters>]>,
    /// Watchers, and what each worker keeps for statistics beside its counters.
    pub(crate) stats: stats::FaceStats,
    /// Asks the process to end (`shutdown`).
    pub(crate) stop: StopHandle,
}

impl Shared {
    pub(crate) fn new(
        settings: MemcachedSettings,
        store: &'static Store,
        room: &Arc<Room>,
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
            waiting: door::Waiting::default(),
            flush_at: AtomicU64::new(0),
            started: now,
            counters: (0..workers).map(|_| Arc::default()).collect(),
            stats,
            stop: StopHandle,
        })
    }

    /// The settings as they are now.
    pub(crate) fn settings(&self) -> Arc<MemcachedSettings> {
        self.settings.read().clone()
    }

    /// New settings: every command from now on follows them.
    pub(crate) fn reload(&self, settings: MemcachedSettings) {
        *self.settings.write() = Arc::new(settings);
        self.reloads.fetch_add(1, Ordering::Release);
    }

    /// Everything stored so far is gone at `at`; what was planned before is not any more.
    pub(crate) fn flush_at(&self, at: Ms) {
        self.flush_at.store(at, Ordering::Release);
    }

    /// Flushes when the time for it has come. One thread does it.
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
            // memcached too receives nothing while answers wait.
            gather: 0,
            commands: match settings.requests_per_event {
                DEFAULT_REQUESTS_PER_EVENT => COMMANDS,
                commands => commands,
            },
            backlog: settings.backlog,
        }
    }

    fn refusal(&self) -> &'static [u8] {
        REFUSAL
    }
}

/// One worker's view of the face.
pub(crate) struct Face {
    pub(crate) shared: Arc<Shared>,
    pub(crate) store: &'static Store,
    /// This worker's, written by it alone.
    pub(crate) counters: Arc<Counters>,
    /// This worker's: what is to be known of each command besides (`saw_get`, `saw_store`, ...).
    pub(crate) stats: Arc<stats::WorkerStats>,
    settings: RefCell<Arc<MemcachedSettings>>,
    reloads: Cell<u64>,
    /// Of the client whose batch is taken up now.
    pub(crate) ahead: RefCell<Ahead>,
    /// `settings.cas`, where every answer with a version looks.
    pub(crate) cas: Cell<bool>,
    /// `settings.item_size`, where every store command looks.
    pub(crate) item_size: Cell<u64>,
    /// Bytes of one of the store's segments.
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

    /// The settings as of this command.
    pub(crate) fn settings(&self) -> Arc<MemcachedSettings> {
        self.settings.borrow().clone()
    }

    /// Before every command: new settings, and a flush whose time has come.
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
