//! Starting, reloading and stopping: the outside of the workers.

mod fixed;
mod memory;
mod sockets;

use std::{fmt, io, net::SocketAddr, sync::Arc, thread::JoinHandle, time::Duration};

use larder_proto::http::RejectReason;
use larder_store::{Namespace, NamespaceStats, Store};
use tokio::sync::mpsc;

use self::{
    fixed::fixed,
    memory::{GROUPS, open_store, random},
    sockets::{Sockets, next, remove_files},
};
use crate::{
    access_log::Logger,
    clock::Clock,
    counters::Counters,
    http, memcache,
    net::{conns::Ground, listen::Address},
    origin::OriginError,
    redis,
    settings::Settings,
    worker::{self, Order, Start, StartFace, StartHttp},
};

/// Orders that may wait for a worker; an order waits for a worker at most as long as its longest task step.
const ORDERS: usize = 16;
/// How often expired memory is looked for, and how many bytes of segments that hold some one look may go through.
const SWEEP: (Duration, usize) = (Duration::from_millis(100), 16 << 20);

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address could not be listened on.
    #[error("cannot listen on {address}: {source}")]
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
    http: Option<(Arc<http::worker::Shared>, Vec<Arc<Counters>>)>,
    memcached: Option<Arc<memcache::Shared>>,
    redis: Option<Arc<redis::Shared>>,
}

/// A running server.
pub struct Server {
    ground: Arc<Ground>,
    store: &'static Store,
    faces: Faces,
    logger: Option<Arc<Logger>>,
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
        let faces = Faces::new(&settings, store, clock, workers, &logger);
        let mut server = Server {
            ground: Ground::new(clock, settings.memory),
            store,
            faces,
            logger,
            settings,
            addresses,
            orders: Vec::new(),
            threads: Vec::new(),
        };
        for number in 0..workers {
            server.start_worker(number, &mut sockets)?;
        }
        server.start_sweeper()?;
        Ok(server)
    }

    fn start_worker(&mut self, number: usize, sockets: &mut Sockets) -> io::Result<()> {
        let (send, orders) = mpsc::channel(ORDERS);
        let (ready, up) = std::sync::mpsc::channel();
        let faces = &self.faces;
        let start = Start {
            number,
            ground: self.ground.clone(),
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

    /// The thread that returns expired memory. It ends with the process: it owns nothing that needs an end.
    fn start_sweeper(&self) -> io::Result<()> {
        let (store, clock) = (self.store, self.ground.clock);
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

    /// Every counter's name and value, summed over the workers: requests by result, refusals by reason, failures of
    /// origins by reason, what the other faces count under their names, and the store.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let mut out = Vec::new();
        if let Some((shared, counters)) = &self.faces.http {
            count_http(shared, counters, &mut out);
        }
        if let Some(shared) = &self.faces.memcached {
            let values = shared.counters.iter().map(|counters| counters.values());
            add_counters("memcached_", memcache::Counters::NAMES, values, &mut out);
            out.push(("memcached_curr_connections".to_owned(), shared.clients.open() as u64));
        }
        if let Some(shared) = &self.faces.redis {
            let values = shared.counters.iter().map(|counters| counters.values());
            add_counters("redis_", redis::Counters::NAMES, values, &mut out);
            out.push(("redis_connected_clients".to_owned(), shared.clients.open() as u64));
        }
        out.push(("store_budget_bytes".to_owned(), self.store.totals().budget));
        let there = [true, self.faces.memcached.is_some(), self.faces.redis.is_some()];
        for ((prefix, group), _) in GROUPS.into_iter().zip(there).filter(|(_, there)| *there) {
            add_store(prefix, self.store, group, &mut out);
        }
        if let Some(logger) = &self.logger {
            out.push(("log_lines_dropped".to_owned(), logger.dropped()));
        }
        out
    }

    /// Stops accepting, lets requests under way finish (at most `limits.drain`), writes the log out and returns.
    pub fn drain(mut self) {
        remove_files(&self.addresses);
        for orders in &self.orders {
            let _ = orders.blocking_send(Order::Drain(self.settings.http.limits.drain));
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
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
    ) -> Faces {
        let http = || {
            let counters = (0..workers).map(|_| Arc::default()).collect();
            (http::worker::Shared::new([random(), random()], logger.clone()), counters)
        };
        let now = clock.now();
        Faces {
            http: (!settings.http.listen.is_empty()).then(http),
            memcached: settings
                .memcached
                .as_ref()
                .map(|settings| memcache::Shared::new(settings.clone(), store, now, workers)),
            redis: settings
                .redis
                .as_ref()
                .map(|settings| redis::Shared::new(settings.clone(), store, clock, workers)),
        }
    }
}

/// Adds up what each worker counted, under `prefix` and the counters' names.
fn add_counters(
    prefix: &str,
    names: &[&str],
    workers: impl Iterator<Item = Vec<u64>>,
    out: &mut Vec<(String, u64)>,
) {
    let mut sums = vec![0u64; names.len()];
    for values in workers {
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = sum.wrapping_add(value));
    }
    out.extend(names.iter().map(|name| format!("{prefix}{name}")).zip(sums));
}

/// Adds up what the store holds and did in a group of namespaces.
fn add_store(prefix: &str, store: &Store, group: (u8, u8), out: &mut Vec<(String, u64)>) {
    let stats: Vec<_> = (group.0..=group.1).map(|ns| store.stats(Namespace(ns))).collect();
    let sum = |value: fn(&NamespaceStats) -> u64| stats.iter().map(value).sum();
    out.extend([
        (format!("{prefix}store_items"), sum(|ns| ns.items)),
        (format!("{prefix}store_bytes"), sum(|ns| ns.bytes)),
        (format!("{prefix}store_evictions"), sum(|ns| ns.evictions)),
        (format!("{prefix}store_expired"), sum(|ns| ns.expired)),
    ]);
}

fn count_http(shared: &http::worker::Shared, workers: &[Arc<Counters>], out: &mut Vec<(String, u64)>) {
    add_counters("", Counters::NAMES, workers.iter().map(|counters| counters.values()), out);
    for reason in RejectReason::ALL {
        let count = workers.iter().map(|counters| counters.reasons.get(*reason)).sum();
        out.push((format!("rejected_{reason}"), count));
    }
    for index in 0..OriginError::REASONS {
        let name = format!("origin_failed_{}", OriginError::reason_at(index).replace('-', "_"));
        out.push((name, shared.origin_counters.failed(index)));
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
