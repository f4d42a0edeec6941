//! Starting, reloading and stopping: the outside of the workers.

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    io,
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize},
    },
    thread::JoinHandle,
    time::Duration,
};

use larder_proto::http::RejectReason;
use larder_store::{Options, Policy, Store};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::mpsc;

use crate::{
    access_log::Logger,
    clock::Clock,
    counters::Counters,
    http::{flight::Flights, lookup::PAGES},
    net::socket::Stalled,
    origin::{OriginCounters, OriginError},
    settings::Settings,
    worker::{self, Order, Shared, Start},
};

/// Connections the kernel keeps waiting per listener.
const BACKLOG: i32 = 4096;
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
        address: SocketAddr,
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

/// A running server.
pub struct Server {
    shared: Arc<Shared>,
    settings: Arc<Settings>,
    addrs: Vec<SocketAddr>,
    counters: Vec<Arc<Counters>>,
    orders: Vec<mpsc::Sender<Order>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Server {
    /// Binds the listeners, opens the store and the log, starts the workers. Nothing is left running on an error.
    pub fn start(settings: Settings) -> Result<Server, StartError> {
        let settings = Arc::new(settings);
        let (listeners, addrs) = listen_all(&settings)?;
        let shared = Arc::new(Shared {
            store: open_store(&settings)?,
            clock: Clock::start(),
            flights: Flights::new(),
            open: AtomicUsize::new(0),
            stalled: Stalled::new(settings.memory / 2),
            loop_id: format!("larder-{:016x}", random()),
            nonces: AtomicU64::new(random()),
            origin_counters: Arc::new(OriginCounters::default()),
            logger: open_log(&settings)?,
        });
        let mut server =
            Server { shared, settings, addrs, counters: Vec::new(), orders: Vec::new(), threads: Vec::new() };
        for (number, listeners) in listeners.into_iter().enumerate() {
            server.start_worker(number, listeners)?;
        }
        server.start_sweeper()?;
        Ok(server)
    }

    fn start_worker(&mut self, number: usize, listeners: Vec<TcpListener>) -> io::Result<()> {
        let (send, orders) = mpsc::channel(ORDERS);
        let counters = Arc::new(Counters::default());
        let (shared, settings) = (self.shared.clone(), self.settings.clone());
        let (ready, up) = std::sync::mpsc::channel();
        let start = Start { shared, settings, counters: counters.clone(), listeners, orders, ready };
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
        self.counters.push(counters);
        self.orders.push(send);
        Ok(())
    }

    /// The thread that returns expired memory. It ends with the process: it owns nothing that needs an end.
    fn start_sweeper(&self) -> io::Result<()> {
        let (store, clock) = (self.shared.store, self.shared.clock);
        std::thread::Builder::new().name("larder-sweep".to_owned()).spawn(move || {
            loop {
                std::thread::sleep(SWEEP.0);
                store.sweep(clock.now(), SWEEP.1);
            }
        })?;
        Ok(())
    }

    /// The addresses listened on, with the ports the system picked.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.addrs.clone()
    }

    /// Uses new settings from now on; connections stay. What cannot change while running is an error, and nothing
    /// changes then.
    pub fn reload(&mut self, settings: Settings) -> Result<(), ReloadError> {
        let old = &self.settings;
        let fixed = [
            ("memory", settings.memory != old.memory),
            ("threads", settings.threads != old.threads),
            ("http.listen", settings.http.listen != old.http.listen),
            ("http.sndbuf", settings.http.sndbuf != old.http.sndbuf),
            ("http.access_log", settings.access_log != old.access_log),
        ];
        if let Some((name, _)) = fixed.iter().find(|(_, changed)| *changed) {
            return Err(ReloadError::Fixed(name));
        }
        self.settings = Arc::new(settings);
        for orders in &self.orders {
            let _ = orders.blocking_send(Order::Reload(self.settings.clone()));
        }
        Ok(())
    }

    /// Opens the access log anew, after it was moved away.
    pub fn reopen_logs(&self) {
        if let Some(logger) = &self.shared.logger {
            logger.reopen();
        }
    }

    /// Every counter's name and value, summed over the workers: requests by result, refusals by reason, failures of
    /// origins by reason, and the store.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let mut sums = vec![0u64; Counters::NAMES.len()];
        for counters in &self.counters {
            for (sum, value) in sums.iter_mut().zip(counters.values()) {
                *sum += value;
            }
        }
        let mut out: Vec<(String, u64)> =
            Counters::NAMES.iter().map(|name| (*name).to_owned()).zip(sums).collect();
        for reason in RejectReason::ALL {
            let count = self.counters.iter().map(|counters| counters.reasons.get(*reason)).sum();
            out.push((format!("rejected_{reason}"), count));
        }
        for index in 0..OriginError::REASONS {
            let name = format!("origin_failed_{}", OriginError::reason_at(index).replace('-', "_"));
            out.push((name, self.shared.origin_counters.failed(index)));
        }
        let (pages, totals) = (self.shared.store.stats(PAGES), self.shared.store.totals());
        out.extend([
            ("store_budget_bytes".to_owned(), totals.budget),
            ("store_items".to_owned(), pages.items),
            ("store_bytes".to_owned(), pages.bytes),
            ("store_evictions".to_owned(), pages.evictions),
            ("store_expired".to_owned(), pages.expired),
        ]);
        if let Some(logger) = &self.shared.logger {
            out.push(("log_lines_dropped".to_owned(), logger.dropped()));
        }
        out
    }

    /// Stops accepting, lets requests under way finish (at most `limits.drain`), writes the log out and returns.
    pub fn drain(mut self) {
        for orders in &self.orders {
            let _ = orders.blocking_send(Order::Drain);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        if let Some(logger) = &self.shared.logger {
            logger.close();
        }
    }
}

/// A number nobody outside can guess: the standard library's hash keys come from the system's random source.
fn random() -> u64 {
    RandomState::new().hash_one(0u8)
}

fn open_store(settings: &Settings) -> Result<&'static Store, StartError> {
    let options = Options {
        budget: settings.memory as usize,
        max_value: 1 << 30,
        policy: Policy::S3Fifo,
        seed: random(),
        threads: settings.threads + 1,
        ..Options::default()
    };
    let store = Store::open(options)
        .map_err(|error| StartError::Memory { bytes: settings.memory, reason: error.to_string() })?;
    // One store per process, for as long as it lives: readers on every thread hold plain references to it, so that a
    // hit counts no references.
    Ok(Box::leak(Box::new(store)))
}

fn open_log(settings: &Settings) -> Result<Option<Arc<Logger>>, StartError> {
    let Some(log) = &settings.access_log else { return Ok(None) };
    Logger::open(log)
        .map(Some)
        .map_err(|source| StartError::Log { path: log.path.display().to_string(), source })
}

type PerWorker = Vec<Vec<TcpListener>>;

/// One listener per address and worker. The first of each address takes the port, the others join it.
fn listen_all(settings: &Settings) -> Result<(PerWorker, Vec<SocketAddr>), StartError> {
    let mut per_worker: PerWorker = (0..settings.threads.max(1)).map(|_| Vec::new()).collect();
    let mut addrs = Vec::new();
    for &wanted in &settings.http.listen {
        let mut address = wanted;
        free(wanted).map_err(|source| StartError::Listen { address: wanted, source })?;
        for listeners in &mut per_worker {
            let listener = listen(address, settings.http.sndbuf)
                .map_err(|source| StartError::Listen { address: wanted, source })?;
            address = listener.local_addr()?;
            listeners.push(listener);
        }
        addrs.push(address);
    }
    Ok((per_worker, addrs))
}

/// `SO_REUSEPORT` would let a second server of the same user share the port in silence: bind once without it first.
fn free(address: SocketAddr) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())
}

/// Accepted sockets inherit `TCP_NODELAY` and `SO_SNDBUF` from their listener: no system call per connection.
fn listen(address: SocketAddr, sndbuf: usize) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_tcp_nodelay(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    if sndbuf > 0 {
        socket.set_send_buffer_size(sndbuf)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
