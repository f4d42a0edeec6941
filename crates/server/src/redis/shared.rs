//! State shared by the connections of the Redis face.

use std::{
    cell::{Cell, RefCell},
    net::IpAddr,
    rc::Rc,
    sync::{
        Arc,
        atomic::{
            AtomicU8, AtomicU32, AtomicU64,
            Ordering::{AcqRel, Relaxed},
        },
    },
};

use larder_proto::resp::{Decoder, collection::HASH_FADING, hash};
use larder_store::{Cause, Evicted, Hint, MAX_KEY, Namespace, Store};

use rapidhash::v3::RapidSecrets;

use crate::room::Room;
use crate::{
    clock::{Clock, Ms},
    object::{
        self, COMMANDS, Client, Clients, Limits, TurnTime,
        ahead::{Ahead, Firsts},
        stop::StopHandle,
    },
    settings::RedisSettings,
};

use super::{
    acl::Acl,
    attention,
    config::Config,
    counters::Counters,
    ctx::Class,
    dispatch::{self, Handler},
    due_fields::DueFields,
    events::Events,
    hub::Hub,
    known::Registry,
    locks::Locks,
    monitor::Monitors,
    notify,
    pause::Pause,
    script::{Libraries, Machines, Scripts},
    session::Session,
    slowlog::Slowlog,
    stats::Baseline,
    tracking::{Gathered, Tracking},
    untold::UntoldQueue,
    waiting::{Ready, Waiting},
    watched::Watched,
};

/// Namespace of database 0; the others follow. If the memcached face's namespace is shared,
/// database 0 is [`SHARED_NAMESPACE`].
const FIRST_NAMESPACE: u8 = 2;
/// Makes the seed of marks another than those of the store's hashes.
const MARKS: u64 = 0x6d61_726b_735f_6f66;
/// Decoders kept for reuse per worker: as many as connections with a batch in progress at the same
/// time.
const DECODERS: usize = 64;
/// Namespace of the memcached face.
const SHARED_NAMESPACE: u8 = 1;
/// Bytes of answers, and as many of commands, kept for a client that sends more before it reads, if
/// memory permits. (Redis keeps answers without a limit, and 1 GB of commands.)
const GATHER: u64 = 64 << 20;
/// Minimum of the longest argument: the length of keys and fields.
const LEAST_ITEM: u64 = MAX_KEY as u64;
/// Maximum of databases.
pub(crate) const DATABASES: usize = 16;

/// One per process.
pub(crate) struct Shared {
    pub(crate) settings: RedisSettings,
    pub(crate) config: Config,
    pub(crate) acl: Acl,
    pub(crate) store: &'static Store,
    /// The store's memory at the start, in bytes.
    pub(crate) budget: u64,
    pub(crate) clients: Arc<Clients>,
    pub(crate) stop: StopHandle,
    pub(crate) started: Ms,
    pub(crate) clock: Clock,
    pub(crate) workers: usize,
    /// One set per worker.
    pub(crate) counters: Vec<Arc<Counters>>,
    /// Figures at the last CONFIG RESETSTAT.
    pub(crate) baseline: Baseline,
    pub(crate) locks: Locks,
    pub(crate) hub: Hub,
    pub(crate) tracking: Tracking,
    pub(crate) registry: Registry,
    pub(crate) monitors: Monitors,
    pub(crate) slowlog: Slowlog,
    pub(crate) events: Events,
    pub(crate) watched: Watched,
    pub(crate) pause: Pause,
    /// Raised by every change of users and of the places of databases.
    pub(super) changes: AtomicU32,
    /// Bits of [`attention`].
    pub(crate) attention: AtomicU32,
    /// Identifies this run of the process (`run_id`).
    pub(crate) run: u64,
    pub(crate) nonce: AtomicU64,
    /// Orders the members of sets and the fields of hashes: clients cannot tell which hash alike.
    /// Their trees outlive the process, so it comes of the store's seed, which does too.
    pub(crate) marks: RapidSecrets,
    /// Clients in blocking commands.
    pub(crate) waiting: Waiting,
    pub(crate) scripts: Scripts,
    pub(crate) libraries: Libraries,
    /// Hashes with fields that expire.
    pub(crate) due_fields: DueFields,
    /// The place of each database among the namespaces, which SWAPDB changes.
    places: [AtomicU8; DATABASES],
}

impl Shared {
    /// `workers`: the number of faces.
    pub(crate) fn new(
        settings: RedisSettings,
        store: &'static Store,
        room: &Arc<Room>,
        clock: Clock,
        workers: usize,
    ) -> Arc<Shared> {
        let now = clock.now();
        let run =
            std::hash::BuildHasher::hash_one(&std::collections::hash_map::RandomState::new(), now);
        let shared = Arc::new(Shared {
            config: Config::new(&settings),
            acl: Acl::new(&settings, room),
            settings,
            store,
            budget: store.totals().budget,
            clients: Clients::new(room),
            stop: StopHandle,
            started: now,
            clock,
            workers,
            counters: (0..workers).map(|_| Arc::default()).collect(),
            baseline: Baseline::default(),
            locks: Locks::new(),
            hub: Hub::new(),
            tracking: Tracking::new(),
            registry: Registry::default(),
            monitors: Monitors::default(),
            slowlog: Slowlog::default(),
            events: Events::default(),
            watched: Watched::default(),
            pause: Pause::default(),
            changes: AtomicU32::new(1),
            attention: AtomicU32::new(0),
            run,
            nonce: AtomicU64::new(run),
            marks: RapidSecrets::seed(store.seed() ^ MARKS),
            waiting: Waiting::default(),
            scripts: Scripts::default(),
            libraries: Libraries::default(),
            due_fields: DueFields::default(),
            places: std::array::from_fn(|place| AtomicU8::new(place as u8)),
        });
        let weak = Arc::downgrade(&shared);
        // The store has room for an observer of each face, and there are only two.
        store.observe(Box::new(move |gone| {
            if let Some(shared) = weak.upgrade() {
                shared.gone(gone);
            }
        }));
        shared
    }

    /// Applies changed settings that can change at run time.
    pub(crate) fn reload(&self, settings: &RedisSettings) {
        self.config.reload(settings);
        self.acl.reload(self, settings);
    }

    /// The namespace of a database.
    pub(crate) fn namespace(&self, db: u8) -> Namespace {
        let place = self.places.get(usize::from(db)).map_or(db, |place| place.load(Relaxed));
        if place == 0 && self.settings.share_memcached {
            Namespace(SHARED_NAMESPACE)
        } else {
            Namespace(FIRST_NAMESPACE + place)
        }
    }

    /// Swaps two databases. Call it with all stripes held.
    pub(super) fn swap(&self, first: u8, second: u8) {
        if let (Some(one), Some(two)) =
            (self.places.get(usize::from(first)), self.places.get(usize::from(second)))
        {
            one.store(two.swap(one.load(Relaxed), Relaxed), Relaxed);
            self.look_again();
        }
    }

    /// The places of all databases, for another run of this server.
    pub(crate) fn places(&self) -> Vec<u8> {
        self.places.iter().map(|place| place.load(Relaxed)).collect()
    }

    /// Takes the places of another run, before anybody is served. They must be all of them.
    pub(crate) fn set_places(&self, places: &[u8]) {
        let mut sorted = places.to_vec();
        sorted.sort_unstable();
        if sorted.iter().copied().eq(0..DATABASES as u8) {
            self.places.iter().zip(places).for_each(|(own, place)| own.store(*place, Relaxed));
        }
    }

    /// The process ends.
    pub(crate) fn stopping(&self) {
        self.scripts.stop();
    }

    /// Users or databases have changed: connections look at theirs before their next command.
    pub(super) fn look_again(&self) {
        self.changes.fetch_add(1, AcqRel);
        attention::set(self, attention::CHANGES, true);
    }

    /// Number of databases.
    pub(crate) fn databases(&self) -> u8 {
        self.settings.databases.clamp(1, DATABASES) as u8
    }

    /// The database of a namespace, if it has one.
    pub(super) fn database(&self, ns: Namespace) -> Option<u8> {
        (0..self.databases()).find(|&db| self.namespace(db) == ns)
    }

    /// Reports an entry that was evicted, or expired and swept.
    pub(crate) fn gone(&self, gone: &Evicted<'_>) {
        let (class, event) = match gone.cause {
            Cause::Expired if matches!(gone.info.flags, hash::FADING | HASH_FADING) => {
                (Class::Hash, "hexpired")
            }
            Cause::Expired => (Class::Expired, "expired"),
            _ => (Class::Evicted, "evicted"),
        };
        self.removed(gone.ns, gone.key, class, event);
        if class == Class::Hash {
            self.removed(gone.ns, gone.key, Class::Generic, "del");
        }
    }

    /// Reports an entry that no command has removed.
    pub(crate) fn removed(&self, ns: Namespace, key: &[u8], class: Class, event: &'static str) {
        let Some(db) = self.database(ns) else { return };
        if attention::any(self, attention::READERS) {
            self.waiting.removed(db, key);
        }
        if attention::any(self, attention::TRACKING)
            && let Some(untold) = self.tracking.invalidate(key, None)
        {
            self.tell_removed(untold);
        }
        if attention::any(self, attention::EVENTS) {
            notify::event(self, class, event, db, key).for_each(|untold| self.tell_removed(untold));
        }
    }

    /// The version of a large collection, by which its parts find it.
    pub(crate) fn part_owner(&self) -> u64 {
        self.random() | 1 << 63
    }

    /// A number that no other call returns.
    pub(crate) fn random(&self) -> u64 {
        rapidhash::v3::rapidhash_v3(&self.nonce.fetch_add(1, Relaxed).to_le_bytes())
    }
}

impl object::Shared for Shared {
    fn clients(&self) -> &Clients {
        &self.clients
    }

    fn limits(&self) -> Limits {
        Limits {
            connections: self.config.connections.load(Relaxed) as usize,
            connections_fast: true,
            idle: self.config.timeout.load(Relaxed) * 1000,
            receive: self.config.receive.load(Relaxed),
            send: self.settings.send_timeout.as_millis() as Ms,
            gather: GATHER,
            commands: COMMANDS,
            backlog: self.settings.backlog,
        }
    }

    fn announces(&self, address: IpAddr) -> bool {
        self.settings.proxies.iter().any(|net| net.contains(address))
    }

    fn refusal(&self) -> &'static [u8] {
        b"-ERR max number of clients reached\r\n"
    }
}

/// One per worker.
pub(crate) struct Face {
    pub(crate) shared: Arc<Shared>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) clock: Clock,
    /// Sample-ups ahead for the client whose batch is being executed.
    pub(crate) ahead: RefCell<Ahead>,
    /// Hints for the first commands of a round.
    pub(crate) firsts: Firsts,
    /// The hint of the current command's key, if it was looked up ahead.
    pub(crate) hint: Cell<Option<Hint>>,
    /// Messages that the current command leaves to be delivered in later steps.
    pub(crate) untold: RefCell<UntoldQueue>,
    /// Keys that the current command has changed, for clients that track prefixes.
    pub(crate) gathered: Gathered,
    /// Lists and sorted sets with new items that clients may wait for.
    pub(crate) ready: RefCell<Ready>,
    /// Lua states.
    pub(crate) machines: Machines,
    /// End of the current step's time in microseconds; 0: it has just begun.
    pub(crate) until: Cell<u64>,
    /// Time of the current turn.
    pub(crate) turn_time: TurnTime,
    pub(crate) handlers: Box<[Handler; dispatch::COMMANDS]>,
    /// Unused decoders.
    #[allow(clippy::vec_box)] // moved as a box for every batch
    decoders: RefCell<Vec<Box<Decoder>>>,
    /// Longest useful argument, in bytes.
    pub(crate) item: u64,
    /// Longest command that memory could hold, in bytes.
    pub(crate) room: u64,
}

impl Face {
    /// `worker`: less than the number given to [`Shared::new`].
    pub(crate) fn new(shared: &Arc<Shared>, worker: usize) -> Rc<Face> {
        Rc::new(Face {
            counters: shared.counters[worker % shared.workers.max(1)].clone(),
            clock: shared.clock,
            ahead: RefCell::default(),
            firsts: Firsts::default(),
            hint: Cell::default(),
            untold: RefCell::default(),
            gathered: Gathered::default(),
            ready: RefCell::default(),
            machines: Machines::default(),
            until: Cell::default(),
            turn_time: TurnTime::default(),
            handlers: dispatch::handlers(),
            decoders: RefCell::default(),
            item: shared.settings.item_size.min(shared.clients.room().item()).max(LEAST_ITEM),
            room: shared.clients.room().most(),
            shared: shared.clone(),
        })
    }

    #[inline]
    pub(super) fn take_decoder(&self) -> Box<Decoder> {
        self.decoders.borrow_mut().pop().unwrap_or_default()
    }

    #[inline]
    pub(super) fn give_decoder(&self, decoder: Box<Decoder>) {
        let mut kept = self.decoders.borrow_mut();
        if kept.len() < DECODERS {
            kept.push(decoder);
        }
    }

    /// Creates the session of a new client.
    pub(crate) fn session(self: &Rc<Face>, client: Arc<Client>) -> Session {
        Session::new(self.clone(), client)
    }

    /// Microseconds since the epoch.
    pub(crate) fn wall_micros(&self) -> u64 {
        self.shared.wall_micros()
    }
}

impl Shared {
    /// Microseconds since the epoch.
    pub(crate) fn wall_micros(&self) -> u64 {
        self.clock.wall_micros(self.clock.micros())
    }
}
