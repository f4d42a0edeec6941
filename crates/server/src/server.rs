//! Starts, reloads and stops the workers.

mod control;
mod drain;
mod error;
mod fixed;
mod memory;
mod notes;
mod reload;
mod snapshot;
mod sockets;
mod successor;
mod upgrade;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use larder_store::{Cursor, Store};
use tokio::sync::mpsc;

pub use self::{
    error::StartError,
    reload::ReloadError,
    successor::succeed,
    upgrade::{Beat, Successor},
};
use self::{
    memory::{open_store, random},
    sockets::{Kept, Sockets, Wanted, next, remove_files, wanted_admin},
    successor::Given,
};
use crate::{
    access_log::Logger,
    acme::Acme,
    admin::{self, Admin, AdminView},
    app::Apps,
    clock::{Clock, Ms},
    counters::Counters,
    disk::{Missed, Tier, fingerprint},
    measure::{Parts, Registry},
    memcache,
    net::{
        conns::WorkerShared,
        face_name::{FaceName, told},
        inherited::Inherited,
        link::Link,
        listen::Address,
    },
    queue, redis, remote, request,
    request::object_pages::ObjectPages,
    room::Room,
    settings::{AdminSettings, Certificate, PARTS, Settings},
    trace::Tracing,
    worker::{self, Command, Start, StartFace, StartHttp},
};

/// Commands that may wait for a worker. A command waits at most for the longest step of a task.
const COMMANDS: usize = 16;
/// Interval of the search for expired entries, and the most bytes of segments per search.
const SWEEP: (Duration, usize) = (Duration::from_millis(100), 16 << 20);
/// Milliseconds between two looks at the states of the process.
const LOOK: u64 = 1000;

/// Places of the store looked at in a search for parts of collections that are gone, and the most
/// searches at once.
const REAP: (usize, usize) = (16 << 10, 16);

/// The shared state of each face; None: it is not served.
#[derive(Default)]
struct Faces {
    http: Option<(Arc<request::pages::Shared>, Vec<Arc<Counters>>)>,
    memcached: Option<Arc<memcache::Shared>>,
    redis: Option<Arc<redis::Shared>>,
    queue: Option<Arc<queue::Shared>>,
    /// The account of the memory that clients hold.
    room: Option<Arc<Room>>,
    disk: Option<Arc<Tier>>,
}

/// A running server.
pub struct Server {
    worker_shared: Arc<WorkerShared>,
    store: &'static Store,
    faces: Faces,
    logger: Option<Arc<Logger>>,
    registry: Arc<Registry>,
    apps: Arc<Apps>,
    admin: Option<Admin>,
    /// The control socket.
    control: Option<PathBuf>,
    inherited: Inherited,
    settings: Arc<Settings>,
    addresses: Vec<(FaceName, Address)>,
    /// The address in the settings for each of these.
    wanted: Vec<Wanted>,
    wanted_admin: Vec<(SocketAddr, bool)>,
    /// Copies of all sockets, for a process that takes over.
    kept: Vec<Kept>,
    /// Another process has taken over.
    handed_over: bool,
    /// The thread that passes connections to it.
    passing: Option<JoinHandle<()>>,
    /// The way to the process that has taken over: it counts on what this one keeps until the end.
    after: Option<Arc<Link>>,
    /// `memory` at the start, and the store's part of it: index and tables are made for it.
    memory: u64,
    budget: u64,
    commands: Vec<mpsc::Sender<Command>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Server {
    /// Binds the listeners, opens the store and the log, starts the workers. Nothing is left
    /// running on an error.
    pub fn start(settings: Settings) -> Result<Server, StartError> {
        Server::start_with(settings, Inherited::default(), || Ok(()))
    }

    /// The same with sockets that another program opened. `bound` runs when all addresses are
    /// bound, before a thread is started or a log opened: the right time to give up the rights of
    /// root.
    pub fn start_with(
        settings: Settings,
        mut inherited: Inherited,
        bound: impl FnOnce() -> Result<(), String>,
    ) -> Result<Server, StartError> {
        let before = inherited.take_before();
        let started = Server::start_after(settings, &mut inherited, bound, before.as_ref());
        match (started, before) {
            (Ok(mut server), before) => {
                server.inherited = inherited;
                if let Some(link) = before {
                    server.up(link).map_err(StartError::Before)?;
                    server.inherited.close_handed();
                }
                Ok(server)
            }
            (Err(error), before) => {
                if let Some(link) = before {
                    link.refuse(&error.to_string());
                }
                Err(error)
            }
        }
    }

    fn start_after(
        settings: Settings,
        inherited: &mut Inherited,
        bound: impl FnOnce() -> Result<(), String>,
        before: Option<&Link>,
    ) -> Result<Server, StartError> {
        let settings = Arc::new(settings);
        let mut sockets = Sockets::bind(&settings, inherited)?;
        let addresses = std::mem::take(&mut sockets.addresses);
        let given = || match before {
            Some(link) => successor::ready(link).map_err(StartError::Before),
            None => Ok(Given::default()),
        };
        let started = bound()
            .map_err(StartError::Bound)
            .and_then(|()| Server::start_bound(settings, sockets, addresses.clone(), given));
        if started.is_err() {
            remove_files(&addresses, inherited);
        }
        started
    }

    fn start_bound(
        settings: Arc<Settings>,
        mut sockets: Sockets,
        addresses: Vec<(FaceName, Address)>,
        given: impl FnOnce() -> Result<Given, StartError>,
    ) -> Result<Server, StartError> {
        let logger = open_log(&settings)?;
        // From here on little can fail: the process before this one stands still.
        let Given { memory, notes } = given()?;
        let (store, notes) = open_store(&settings, memory, notes)?;
        let (clock, workers) = (Clock::start(), settings.threads.max(1));
        let tracing = settings.tracing.as_ref().map(Tracing::start).transpose()?;
        let missed = notes.missed.clone();
        let faces = Faces::new(&settings, store, (clock, workers), &logger, tracing, missed)?;
        let apps = Arc::<Apps>::default();
        let wanted_admin = wanted_admin(&settings);
        let registry = Registry::new(Parts {
            clock,
            store,
            settings: settings.clone(),
            http: faces.http.clone(),
            memcached: faces.memcached.clone(),
            redis: faces.redis.clone(),
            queue: faces.queue.clone(),
            disk: faces.disk.clone(),
            logger: logger.clone(),
            apps: apps.clone(),
        });
        let mut server = Server {
            worker_shared: WorkerShared::new(clock, settings.store()),
            store,
            faces,
            logger,
            registry,
            apps,
            admin: None,
            control: None,
            inherited: Inherited::default(),
            memory: settings.memory,
            budget: settings.store(),
            settings,
            addresses,
            wanted: std::mem::take(&mut sockets.wanted),
            wanted_admin,
            kept: std::mem::take(&mut sockets.kept),
            handed_over: false,
            passing: None,
            after: None,
            commands: Vec::new(),
            threads: Vec::new(),
        };
        server.note_https_port();
        notes.apply(&server.faces);
        for number in 0..workers {
            server.start_worker(number, &mut sockets)?;
        }
        server.start_sweeper()?;
        server.start_admin(std::mem::take(&mut sockets.admin))?;
        Ok(server)
    }

    fn start_worker(&mut self, number: usize, sockets: &mut Sockets) -> io::Result<()> {
        let (send, commands) = mpsc::channel(COMMANDS);
        let (ready, up) = std::sync::mpsc::channel();
        let faces = &self.faces;
        let start = Start {
            number,
            delay: self.registry.delay(number),
            worker_shared: self.worker_shared.clone(),
            store: self.store,
            settings: self.settings.clone(),
            http: faces.http.as_ref().map(|(shared, counters)| StartHttp {
                shared: shared.clone(),
                counters: counters[number].clone(),
                listeners: next(&mut sockets.http),
                tls_listeners: next(&mut sockets.https),
                quic: next(&mut sockets.quic),
            }),
            memcached: faces.memcached.as_ref().map(|shared| StartFace {
                shared: shared.clone(),
                listeners: next(&mut sockets.memcached),
                tls_listeners: next(&mut sockets.memcached_tls),
            }),
            udp: next(&mut sockets.udp),
            redis: faces.redis.as_ref().map(|shared| StartFace {
                shared: shared.clone(),
                listeners: next(&mut sockets.redis),
                tls_listeners: next(&mut sockets.redis_tls),
            }),
            queue: faces.queue.as_ref().map(|shared| StartFace {
                shared: shared.clone(),
                listeners: next(&mut sockets.queue),
                tls_listeners: Vec::new(),
            }),
            commands,
            ready,
        };
        let thread = std::thread::Builder::new().name(format!("larder-{number}"));
        let thread = thread.spawn(move || worker::run(start))?;
        if up.recv().is_err() {
            // It ended before it was ready: its result has the reason.
            return Err(thread
                .join()
                .ok()
                .and_then(Result::err)
                .unwrap_or_else(|| io::Error::other("a worker failed")));
        }
        self.threads.push(thread);
        self.commands.push(send);
        Ok(())
    }

    fn start_admin(&mut self, listeners: Vec<(TcpListener, bool)>) -> io::Result<()> {
        let control = self.open_control();
        let settings = match &self.settings.admin {
            Some(settings) => settings.clone(),
            None if control.is_some() => AdminSettings::unlisted(admin::machine()),
            None => return Ok(()),
        };
        let start = admin::Start {
            settings: self.settings.clone(),
            listeners,
            control,
            addresses: self.addresses.iter().map(|(face, at)| told(*face, at)).collect(),
            clock: self.worker_shared.clock,
            store: self.store,
            registry: self.registry.clone(),
            http: self.faces.http.as_ref().map(|(shared, _)| shared.clone()),
            memcached: self.faces.memcached.clone(),
            redis: self.faces.redis.clone(),
            commands: self.commands.clone(),
        };
        self.admin = Some(Admin::start(start, settings)?);
        Ok(())
    }

    /// The address and token of the admin interface; None: there is none.
    pub fn admin(&self) -> Option<AdminView> {
        self.settings.admin.as_ref()?;
        self.admin.as_ref().map(Admin::view)
    }

    /// The thread that returns expired memory, and looks after the states of the process. It ends
    /// with the process: it owns nothing that has to be closed.
    fn start_sweeper(&self) -> io::Result<()> {
        let (store, clock) = (self.store, self.worker_shared.clock);
        let registry = self.registry.clone();
        let redis = self.faces.redis.clone();
        std::thread::Builder::new().name("larder-sweep".to_owned()).spawn(move || {
            let (mut looked, mut cursor) = (clock.now(), Cursor::START);
            loop {
                std::thread::sleep(SWEEP.0);
                let now = clock.now();
                store.sweep(now, SWEEP.1);
                if let Some(redis) = &redis {
                    redis.sweep_fields(now);
                }
                cursor = reap(store, cursor, now);
                if now.saturating_sub(looked) >= LOOK {
                    looked = now;
                    registry.look();
                }
            }
        })?;
        Ok(())
    }

    /// All faces with their addresses, with the ports that the system chose.
    pub fn listening(&self) -> &[(FaceName, Address)] {
        &self.addresses
    }

    /// The addresses HTTP is served at.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        let http = |(face, address): &(FaceName, Address)| match address {
            Address::Tcp(address) if *face == FaceName::Http => Some(*address),
            _ => None,
        };
        self.addresses.iter().filter_map(http).collect()
    }

    /// Uses these ordered certificates for new connections; everything else stays as it is.
    pub fn use_ordered(&mut self, certificates: Vec<Arc<Certificate>>) {
        let mut settings = Settings::clone(&self.settings);
        if let Some(https) = &mut settings.https {
            https.ordered = certificates;
        }
        self.settings = Arc::new(settings);
        self.registry.reload(self.settings.clone());
        self.distribute();
    }

    /// Hands the settings to the workers.
    fn distribute(&self) {
        for commands in &self.commands {
            let _ = commands.blocking_send(Command::Reload(self.settings.clone()));
        }
    }

    /// The present settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The challenges of ACME; None: pages are not served.
    pub fn acme(&self) -> Option<Arc<Acme>> {
        self.faces.http.as_ref().map(|(shared, _)| shared.acme.clone())
    }

    /// The state of the applications that Larder runs.
    pub fn apps(&self) -> Arc<Apps> {
        self.apps.clone()
    }

    /// Opens the access log anew, after it was moved away.
    pub fn reopen_logs(&self) {
        if let Some(logger) = &self.logger {
            logger.reopen();
        }
    }

    /// Every number of the statistics with its path, see [`Registry::numbers`].
    pub fn numbers(&self) -> Vec<(String, u64)> {
        self.registry.numbers(self.worker_shared.clock.now())
    }

    /// All counters of the process.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }
}

impl Faces {
    fn new(
        settings: &Settings,
        store: &'static Store,
        (clock, workers): (Clock, usize),
        logger: &Option<Arc<Logger>>,
        tracing: Option<Arc<Tracing>>,
        missed: Missed,
    ) -> io::Result<Faces> {
        let objects = settings.memcached.as_ref().is_some_and(|memcached| memcached.disk);
        let disk = settings.disk.clone().filter(|_| settings.serves_pages() || objects);
        let start = |disk| {
            let sites = fingerprint(settings);
            Tier::start(disk, store, (clock, random()), sites, missed)
        };
        let disk = disk.map(start).transpose()?;
        if let Some(disk) = disk.as_ref().filter(|_| objects) {
            disk.take_objects(memcache::OBJECTS);
        }
        let remote = settings
            .remote
            .clone()
            .map(|settings| remote::Shared::new(settings, workers, random()));
        let (now, room) = (clock.now(), Room::new(store, clock));
        let http = || {
            let watch = settings.admin.is_some();
            let counters = (0..workers).map(|_| Arc::new(Counters::new(watch))).collect();
            let (random, logger) = ([random(), random()], logger.clone());
            let tiers = (disk.clone(), remote);
            let objects = ObjectPages::new(settings);
            let shared = request::pages::Shared::new(
                random,
                logger,
                tracing,
                tiers,
                clock,
                objects,
                room.clone(),
            );
            if settings.admin.is_some() || settings.control.is_some() {
                let _ = shared.live.set(Arc::default());
            }
            (shared, counters)
        };
        let queue = settings.queue.clone();
        let queue = queue.map(|settings| queue::Shared::start(settings, &room, clock, workers));
        Ok(Faces {
            queue: queue.transpose()?,
            http: settings.serves_pages().then(http),
            memcached: settings.memcached.as_ref().map(|settings| {
                let disk = disk.clone().filter(|_| objects);
                memcache::Shared::new(settings.clone(), store, (&room, disk), now, workers)
            }),
            room: Some(room.clone()),
            disk: disk.clone(),
            redis: settings
                .redis
                .as_ref()
                .map(|settings| redis::Shared::new(settings.clone(), store, &room, clock, workers)),
        })
    }
}

fn open_log(settings: &Settings) -> Result<Option<Arc<Logger>>, StartError> {
    let Some(log) = &settings.access_log else { return Ok(None) };
    Logger::open(log)
        .map(Some)
        .map_err(|source| StartError::Log { path: log.path.display().to_string(), source })
}

#[cfg(test)]
mod tests;

/// Frees parts of Redis's collections that are gone: a slice of a walk over the store, more slices
/// while there is much to free. Returns where to go on.
fn reap(store: &Store, mut cursor: Cursor, now: Ms) -> Cursor {
    if store.stats(PARTS).items == 0 {
        return Cursor::START;
    }
    for _ in 0..REAP.1 {
        let (next, removed) = store.reap(cursor, REAP.0, now);
        cursor = next.unwrap_or(Cursor::START);
        if removed == 0 {
            break;
        }
    }
    cursor
}
