//! Starting, reloading and stopping: the outside of the workers.

mod fixed;
mod memory;
mod sockets;

use std::{
    fmt, io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use larder_store::Store;
use tokio::sync::mpsc;

pub(crate) use self::memory::GROUPS;
use self::{
    fixed::fixed,
    memory::{open_store, random},
    sockets::{Sockets, next, remove_files},
};
use crate::{
    access_log::Logger,
    admin::{self, Admin, AdminView},
    clock::Clock,
    counters::Counters,
    measure::{Parts, Registry},
    memcache,
    net::{conns::WorkerShared, listen::Address},
    object::room::Room,
    redis, remote, request,
    settings::Settings,
    trace::Tracing,
    worker::{self, Order, Start, StartFace, StartHttp},
};

/// Orders that may wait for a worker; an order waits for a worker at most as long as its longest task step.
const ORDERS: usize = 16;
/// How often expired memory is looked for, and how many bytes of segments that hold some one look may go through.
const SWEEP: (Duration, usize) = (Duration::from_millis(100), 16 << 20);

/// What may be done about an address that cannot be had.
fn hint(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::AddrInUse => "; another program listens there: end it, or take another port",
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 are for root and for who has CAP_NET_BIND_SERVICE: take one above, or give it that"
        }
        io::ErrorKind::AddrNotAvailable => "; this machine has no such address",
        _ => "",
    }
}

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address could not be listened on.
    #[error("cannot listen on {address}: {source}{}", hint(source.kind()))]
    Listen {
        /// The address.
        address: Address,
        /// What the system said.
        source: io::Error,
    },
    /// The store could not be made.
    #[error("cannot set up {bytes} bytes of memory: {reason}")]
    Memory {
        /// The budget.
        bytes: u64,
        /// What the store said.
        reason: String,
    },
    /// The access log could not be opened.
    #[error("cannot open the access log {path}: {source}")]
    Log {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// Why new settings were not taken.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// These take a restart.
    #[error("{0} cannot change while running: restart to use the new value")]
    Fixed(&'static str),
}

/// Asks the process to stop, as if it had got SIGTERM: for clients that may (memcached's `shutdown`, Redis's SHUTDOWN).
///
/// A signal, as the program waits for signals anyway: there is one way to stop, and it drains.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StopHandle;

impl StopHandle {
    /// Asks. What was received is still answered, then connections are closed.
    pub(crate) fn ask(self) {
        // The signal to the own process needs no permission and cannot fail while the process lives.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM);
    }
}

/// A protocol spoken to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaceName {
    /// HTTP/1.1.
    Http,
    /// memcached's protocols.
    Memcached,
    /// Redis's.
    Redis,
}

impl fmt::Display for FaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FaceName::Http => "http",
            FaceName::Memcached => "memcached",
            FaceName::Redis => "redis",
        })
    }
}

/// What the workers of each face share; None: the face is not there.
#[derive(Default)]
struct Faces {
    http: Option<(Arc<request::pages::Shared>, Vec<Arc<Counters>>)>,
    memcached: Option<Arc<memcache::Shared>>,
    redis: Option<Arc<redis::Shared>>,
}

/// A running server.
pub struct Server {
    worker_shared: Arc<WorkerShared>,
    store: &'static Store,
    faces: Faces,
    logger: Option<Arc<Logger>>,
    registry: Arc<Registry>,
    admin: Option<Admin>,
    settings: Arc<Settings>,
    addresses: Vec<(FaceName, Address)>,
    orders: Vec<mpsc::Sender<Order>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Server {
    /// Binds the listeners, opens the store and the log, starts the workers. Nothing is left running on an error.
    pub fn start(settings: Settings) -> Result<Server, StartError> {
        let settings = Arc::new(settings);
        let mut sockets = Sockets::bind(&settings)?;
        let addresses = std::mem::take(&mut sockets.addresses);
        Server::start_with(settings, sockets, addresses.clone()).inspect_err(|_| remove_files(&addresses))
    }

    fn start_with(
        settings: Arc<Settings>,
        mut sockets: Sockets,
        addresses: Vec<(FaceName, Address)>,
    ) -> Result<Server, StartError> {
        let (store, clock, workers) = (open_store(&settings)?, Clock::start(), settings.threads.max(1));
        let logger = open_log(&settings)?;
        let tracing = settings.tracing.as_ref().map(Tracing::start).transpose()?;
        let faces = Faces::new(&settings, store, clock, workers, &logger, tracing);
        let registry = Registry::new(Parts {
            clock,
            store,
            settings: settings.clone(),
            http: faces.http.clone(),
            memcached: faces.memcached.clone(),
            redis: faces.redis.clone(),
            logger: logger.clone(),
        });
        if let Some(fleet) = faces.http.as_ref().and_then(|(shared, _)| shared.remote.clone()) {
            registry.set_remote(move || fleet.stats().measured());
        }
        let mut server = Server {
            worker_shared: WorkerShared::new(clock, settings.store()),
            store,
            faces,
            logger,
            registry,
            admin: None,
            settings,
            addresses,
            orders: Vec::new(),
            threads: Vec::new(),
        };
        for number in 0..workers {
            server.start_worker(number, &mut sockets)?;
        }
        server.start_sweeper()?;
        server.start_admin(std::mem::take(&mut sockets.admin))?;
        Ok(server)
    }

    fn start_worker(&mut self, number: usize, sockets: &mut Sockets) -> io::Result<()> {
        let (send, orders) = mpsc::channel(ORDERS);
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
            }),
            memcached: faces
                .memcached
                .as_ref()
                .map(|shared| StartFace { shared: shared.clone(), listeners: next(&mut sockets.memcached) }),
            udp: next(&mut sockets.udp),
            redis: faces
                .redis
                .as_ref()
                .map(|shared| StartFace { shared: shared.clone(), listeners: next(&mut sockets.redis) }),
            orders,
            ready,
        };
        let thread = std::thread::Builder::new().name(format!("larder-{number}"));
        let thread = thread.spawn(move || worker::run(start))?;
        if up.recv().is_err() {
            // It ended before it was up: its own word says why.
            return Err(thread
                .join()
                .ok()
                .and_then(Result::err)
                .unwrap_or_else(|| io::Error::other("a worker failed")));
        }
        self.threads.push(thread);
        self.orders.push(send);
        Ok(())
    }

    fn start_admin(&mut self, listeners: Vec<TcpListener>) -> io::Result<()> {
        let Some(settings) = &self.settings.admin else { return Ok(()) };
        let start = admin::Start {
            settings: self.settings.clone(),
            listeners,
            clock: self.worker_shared.clock,
            store: self.store,
            registry: self.registry.clone(),
            http: self.faces.http.as_ref().map(|(shared, _)| shared.clone()),
            memcached: self.faces.memcached.clone(),
            redis: self.faces.redis.clone(),
            orders: self.orders.clone(),
        };
        self.admin = Some(Admin::start(start, settings.clone())?);
        Ok(())
    }

    /// Where the admin interface is, and how to get in; None: there is none.
    pub fn admin(&self) -> Option<AdminView> {
        self.admin.as_ref().map(Admin::view)
    }

    /// The thread that returns expired memory. It ends with the process: it owns nothing that needs an end.
    fn start_sweeper(&self) -> io::Result<()> {
        let (store, clock) = (self.store, self.worker_shared.clock);
        std::thread::Builder::new().name("larder-sweep".to_owned()).spawn(move || {
            loop {
                std::thread::sleep(SWEEP.0);
                store.sweep(clock.now(), SWEEP.1);
            }
        })?;
        Ok(())
    }

    /// What is served where, with the ports the system picked.
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

    /// Uses new settings from now on; connections stay. What cannot change while running is an error, and nothing
    /// changes then.
    pub fn reload(&mut self, settings: Settings) -> Result<(), ReloadError> {
        if let Some(name) = fixed(&self.settings, &settings) {
            return Err(ReloadError::Fixed(name));
        }
        self.settings = Arc::new(settings);
        self.registry.reload(self.settings.clone());
        if let Some(admin) = &self.admin {
            admin.reload(&self.settings);
        }
        if let (Some(shared), Some(settings)) = (&self.faces.memcached, &self.settings.memcached) {
            shared.reload(settings.clone());
        }
        if let (Some(shared), Some(settings)) = (&self.faces.redis, &self.settings.redis) {
            shared.reload(settings);
        }
        for orders in &self.orders {
            let _ = orders.blocking_send(Order::Reload(self.settings.clone()));
        }
        Ok(())
    }

    /// Opens the access log anew, after it was moved away.
    pub fn reopen_logs(&self) {
        if let Some(logger) = &self.logger {
            logger.reopen();
        }
    }

    /// Every counter's name and value, see [`Registry::counters`].
    pub fn counters(&self) -> Vec<(String, u64)> {
        self.registry.counters()
    }

    /// Where everything counted is found.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Stops accepting, lets requests under way finish (at most `limits.drain`), writes the log out and returns.
    pub fn drain(mut self) {
        remove_files(&self.addresses);
        if let Some(admin) = &self.admin {
            admin.draining();
        }
        for orders in &self.orders {
            let _ = orders.blocking_send(Order::Drain(self.settings.http.limits.drain));
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        if let Some(admin) = &mut self.admin {
            admin.end();
        }
        if let Some(logger) = &self.logger {
            logger.close();
        }
    }
}

impl Faces {
    fn new(
        settings: &Settings,
        store: &'static Store,
        clock: Clock,
        workers: usize,
        logger: &Option<Arc<Logger>>,
        tracing: Option<Arc<Tracing>>,
    ) -> Faces {
        let remote = settings.remote.clone().map(|settings| remote::Shared::new(settings, workers, random()));
        let http = || {
            let watch = settings.admin.is_some();
            let counters = (0..workers).map(|_| Arc::new(Counters::new(watch))).collect();
            let shared = request::pages::Shared::new([random(), random()], logger.clone(), tracing, remote);
            if settings.admin.is_some() {
                let _ = shared.live.set(Arc::default());
            }
            (shared, counters)
        };
        let (now, room) = (clock.now(), Room::new(store, clock));
        Faces {
            http: (!settings.http.listen.is_empty()).then(http),
            memcached: settings
                .memcached
                .as_ref()
                .map(|settings| memcache::Shared::new(settings.clone(), store, &room, now, workers)),
            redis: settings
                .redis
                .as_ref()
                .map(|settings| redis::Shared::new(settings.clone(), store, &room, clock, workers)),
        }
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
