//! The remote tier: whole pages shared by several Larders through the memcached or Valkey servers
//! of a site.
//!
//! Memory first, then the fleet, then the origin. Lookups for requests and copies in the own store
//! are in `fetch::remote`; this room has the records of the fleet, and reads and writes them:
//!
//! | file | what |
//! |---|---|
//! | `record.rs`, `pack.rs` | the bytes of an item; compressed, split, and back |
//! | `key.rs` | names |
//! | `take.rs` | reading a record, with all checks before it is used |
//! | `writer.rs` | sending, in the background |
//! | `purge.rs`, `purged.rs` | purges in the fleet; records from before a purge, which are not used |
//! | `journal/` | the shared journal of purges, and the purges known to each author |
//! | `exchange.rs`, `peers.rs` | transport of the journal: through the fleet, and directly to other Larders |
//! | `lease.rs` | one Larder renders, the others wait |
//! | `skew.rs` | differences between clocks |
//! | `backend.rs`, `valkey/` | the servers: memcacheds through `larder-client`, Valkeys |
//! | `counters.rs` | the counters |
//!
//! Limits: [`LOOKUPS`] lookups at once per worker, [`LARGE`] of pages in parts; `remote.queue`
//! records waiting to be sent, [`writer::SENDING`] large ones or more small ones being sent. A page
//! is at most `remote.page_size` bytes. Beyond a limit, a page is a miss, or is not sent, and is
//! counted.

mod backend;
mod counters;
mod exchange;
pub(crate) mod journal;
mod key;
mod lease;
mod pack;
pub(crate) mod peers;
mod purge;
mod purged;
mod record;
mod skew;
mod take;
mod valkey;
mod writer;

use std::{
    cell::Cell,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use larder_client::{ConfigError, Health};
use larder_store::Store;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

pub use self::counters::StatsView;
pub(crate) use self::exchange::{Exchange, Journalled};
pub(crate) use self::lease::{Lease, LeaseResult};
pub(crate) use self::purge::Begun;
pub(crate) use self::purged::Record;
pub(crate) use self::take::{Answer, Taken};
use self::{
    backend::Backend, counters::Counters, exchange::Reading, journal::Journal, purge::Purges,
    purged::PurgedLately, skew::Skew, writer::Writer,
};
use crate::{
    clock::{Clock, Ms},
    settings::RemoteSettings,
};

/// Concurrent lookups per worker. Further ones wait; their origin is asked when their budget is
/// over.
const LOOKUPS: usize = 256;
/// Concurrent lookups of large pages among them: each may hold twice `remote.page_size`.
const LARGE: usize = 8;

/// The state of the fleet that all workers of a process share.
pub(crate) struct Shared {
    pub(crate) settings: RemoteSettings,
    health: Health,
    skew: Skew,
    counters: Vec<Arc<Counters>>,
    /// The backend of each worker, for statistics.
    backends: Mutex<Vec<Backend>>,
    /// The queue of each worker.
    purges: Mutex<Vec<Purges>>,
    pub(crate) purged: PurgedLately,
    pub(crate) journal: Journal,
    pub(crate) reading: Reading,
    /// Purges sent to peers, counted per peer, and those that peers have to read from the fleet.
    told: AtomicU64,
    untold: AtomicU64,
    /// Requests with purges received from peers.
    heard: AtomicU64,
    /// Purges of other Larders that were executed here.
    pub(crate) learned: AtomicU64,
    /// Times that purges were missed, so that all pages were treated as purged.
    pub(crate) missed: AtomicU64,
    /// Number of copies of the journal.
    pub(crate) copies: AtomicUsize,
    /// Purges that found the queue full.
    purges_lost: AtomicU64,
}

impl Shared {
    /// `random`: a number that no other process has.
    pub(crate) fn new(settings: RemoteSettings, workers: usize, random: u64) -> Arc<Self> {
        let most = exchange::LOG.min(settings.fleet.max_item / 2);
        // The lifetime of records, and the difference of clocks.
        let lasting = settings.max_expiry.as_millis() as Ms + 2 * skew::MOST;
        Arc::new(Self {
            journal: Journal::new(random, most, lasting),
            reading: Reading::default(),
            told: AtomicU64::new(0),
            untold: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            learned: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            copies: AtomicUsize::new(0),
            settings,
            health: Health::new(),
            skew: Skew::default(),
            counters: (0..workers).map(|_| Arc::default()).collect(),
            backends: Mutex::default(),
            purges: Mutex::default(),
            purged: PurgedLately::default(),
            purges_lost: AtomicU64::new(0),
        })
    }

    /// The statistics of all workers.
    pub(crate) fn stats(&self) -> StatsView {
        let mut sums = vec![0u64; Counters::NAMES.len()];
        for worker in &self.counters {
            sums.iter_mut()
                .zip(worker.values())
                .for_each(|(sum, value)| *sum = sum.wrapping_add(value));
        }
        let backends = self.backends.lock().clone();
        let servers = counters::sum_servers(backends.iter().map(Backend::servers));
        let mut pages: Vec<_> = Counters::NAMES.iter().copied().zip(sums).collect();
        let shared = [
            ("purges_lost", &self.purges_lost),
            ("purges_learned", &self.learned),
            ("purges_missed", &self.missed),
            ("purges_told", &self.told),
            ("purges_untold", &self.untold),
            ("parcels_heard", &self.heard),
        ];
        pages.extend(shared.map(|(name, count)| (name, count.load(Ordering::Relaxed))));
        pages.push(("rounds_failed", self.reading.failed()));
        StatsView { servers, pages }
    }
}

/// One worker's remote tier.
pub(crate) struct Remote {
    shared: Arc<Shared>,
    backend: Backend,
    counters: Arc<Counters>,
    clock: Clock,
    writer: Writer,
    lookups: Semaphore,
    large: Arc<Semaphore>,
    random: Cell<u64>,
}

impl Remote {
    /// Opens the tier for worker `number`, on its runtime. `random`: an unpredictable number.
    pub(crate) fn open(
        shared: Arc<Shared>,
        number: usize,
        store: &'static Store,
        clock: Clock,
        random: u64,
    ) -> Result<Rc<Self>, ConfigError> {
        let backend = Backend::open(&shared.settings, &shared.health)?;
        shared.backends.lock().push(backend.clone());
        let counters = shared.counters.get(number).cloned().unwrap_or_default();
        let writer = Writer::start(writer::Start {
            settings: shared.settings.clone(),
            backend: backend.clone(),
            counters: counters.clone(),
            store,
            shared: shared.clone(),
            clock,
            random,
        });
        let remote = Rc::new(Self {
            lookups: Semaphore::new(LOOKUPS),
            large: Arc::new(Semaphore::new(LARGE)),
            random: Cell::new(!random),
            shared,
            backend,
            counters,
            clock,
            writer,
        });
        purge::start(&remote);
        Ok(remote)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// A number that no other call returns, here or elsewhere.
    fn random(&self) -> u64 {
        self.random.set(self.random.get().wrapping_add(1));
        rapidhash::v3::rapidhash_v3(&self.random.get().to_le_bytes())
    }

    pub(crate) fn settings(&self) -> &RemoteSettings {
        &self.shared.settings
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The writer of all records to the fleet.
    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }
}
