//! One worker: a thread with its own runtime, its own listeners on the shared addresses (`SO_REUSEPORT`), its own
//! connections to the origins and its own counters. Workers share the store and the table of flights, nothing else.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    io::{self, IoSlice},
    net::{SocketAddr, TcpListener as StdListener},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use larder_store::Store;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::spawn_local,
};

use crate::{
    access_log::{Logger, WorkerLog},
    clock::{Clock, Ms},
    counters::Counters,
    http::{compose::HitLines, conn, flight::Flights},
    net::{
        out::Out,
        socket::{Ended, Pace, Socket, Stalled, Watch},
    },
    origin::{Origin, OriginCounters},
    settings::{OriginSettings, Settings, Site},
};

/// How often deadlines are looked at and logs handed over: the precision of every client timeout.
const SWEEP: Duration = Duration::from_millis(250);
/// How often a worker that is to stop looks whether the last client is served.
const DRAIN_LOOK: Duration = Duration::from_millis(20);
/// Connections beyond the limit that are told so in order (the answer read before the end) at the same time; the others
/// are closed at once.
const REFUSING: usize = 256;
/// After `accept` failed for want of descriptors or memory, how long to leave the queue to the kernel.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What all workers share.
pub(crate) struct Shared {
    pub(crate) store: &'static Store,
    pub(crate) clock: Clock,
    pub(crate) flights: Flights,
    /// Client connections open now, over all workers.
    pub(crate) open: AtomicUsize,
    /// What stalled clients hold of the store.
    pub(crate) stalled: Stalled,
    /// Names this process in CDN-Loop (RFC 8586).
    pub(crate) loop_id: String,
    /// Random start, then counted up: no two are alike, and nobody outside can tell them.
    pub(crate) nonces: AtomicU64,
    pub(crate) origin_counters: Arc<OriginCounters>,
    pub(crate) logger: Option<Arc<Logger>>,
}

/// What a worker is told from outside.
pub(crate) enum Order {
    /// Use these settings for every request from now on.
    Reload(Arc<Settings>),
    /// Stop accepting; end when the last connection has ended.
    Drain,
}

/// A worker's view of the settings: changed as a whole by a reload.
pub(crate) struct Config {
    pub(crate) settings: Arc<Settings>,
    pub(crate) hit_lines: HitLines,
    origins: Vec<(Arc<OriginSettings>, Rc<Origin>)>,
}

impl Config {
    fn new(settings: Arc<Settings>, counters: &Arc<OriginCounters>, before: Option<&Config>) -> Self {
        let mut origins: Vec<(Arc<OriginSettings>, Rc<Origin>)> = Vec::new();
        for site in &settings.sites {
            if origins.iter().any(|(known, _)| *known == site.origin) {
                continue;
            }
            let kept = before.and_then(|b| b.origins.iter().find(|(known, _)| *known == site.origin));
            let origin = match kept {
                Some((_, origin)) => origin.clone(),
                None => Origin::new(site.origin.clone(), counters.clone()),
            };
            origins.push((site.origin.clone(), origin));
        }
        Self { hit_lines: HitLines::new(&settings.http), settings, origins }
    }

    /// The origin of a site; sites with equal settings share their connections.
    pub(crate) fn origin(&self, site: &Site) -> Option<Rc<Origin>> {
        self.origins.iter().find(|(known, _)| *known == site.origin).map(|(_, origin)| origin.clone())
    }
}

/// One worker's state, reached from all its connections.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) store: &'static Store,
    pub(crate) clock: Clock,
    pub(crate) counters: Arc<Counters>,
    pub(crate) log: Option<WorkerLog>,
    config: RefCell<Rc<Config>>,
    pub(crate) draining: Cell<bool>,
    watches: RefCell<HashMap<u64, Rc<Watch>>>,
    next_watch: Cell<u64>,
    refusing: Cell<usize>,
    /// Receive buffers of connections that are idle now.
    buffers: RefCell<Vec<Vec<u8>>>,
}

/// Receive buffers kept for reuse per worker, and the largest worth keeping.
const BUFFERS: (usize, usize) = (256, 64 * 1024);

impl Worker {
    pub(crate) fn config(&self) -> Rc<Config> {
        self.config.borrow().clone()
    }

    /// Sends what was composed, within `patience` milliseconds for each stretch of it.
    pub(crate) async fn send(&self, socket: &Socket, out: &mut Out, patience: Ms) -> Result<(), Ended> {
        let mut pace = Pace::new(self.clock, patience, &self.shared.stalled);
        let sent = socket.flush(out, &mut pace).await;
        self.count_sent(sent)
    }

    /// Sends what was composed and `more` behind it, in one write where it fits. `pinned`: bytes of the store it holds.
    pub(crate) async fn send_with(
        &self,
        socket: &Socket,
        out: &mut Out,
        more: &[IoSlice<'_>],
        pinned: &dyn Fn() -> u64,
        patience: Ms,
    ) -> Result<(), Ended> {
        let mut pace = Pace::new(self.clock, patience, &self.shared.stalled);
        let sent = socket.send_with(out, more, pinned, &mut pace).await;
        self.count_sent(sent)
    }

    fn count_sent(&self, sent: Result<u64, Ended>) -> Result<(), Ended> {
        if matches!(sent, Err(Ended::TimedOut)) {
            self.counters.send_timeouts.one();
        }
        self.counters.bytes_out.add(sent?);
        Ok(())
    }

    /// A number that no other call returns.
    pub(crate) fn nonce(&self) -> u64 {
        rapidhash::v3::rapidhash_v3(&self.shared.nonces.fetch_add(1, Ordering::Relaxed).to_le_bytes())
    }

    pub(crate) fn take_buffer(&self) -> Vec<u8> {
        self.buffers.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(8192))
    }

    pub(crate) fn give_buffer(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut kept = self.buffers.borrow_mut();
        if kept.len() < BUFFERS.0 && buffer.capacity() <= BUFFERS.1 {
            kept.push(buffer);
        }
    }

    fn watch(&self) -> (u64, Rc<Watch>) {
        let (id, watch) = (self.next_watch.get(), Rc::new(Watch::default()));
        self.next_watch.set(id + 1);
        self.watches.borrow_mut().insert(id, watch.clone());
        (id, watch)
    }

    fn unwatch(&self, id: u64) {
        self.watches.borrow_mut().remove(&id);
    }

    async fn sweep(&self) {
        let mut timer = tokio::time::interval(SWEEP);
        loop {
            timer.tick().await;
            let now = self.clock.now();
            for watch in self.watches.borrow().values() {
                watch.sweep(now);
            }
        }
    }

    async fn drained(&self) {
        // A worker without connections of its own may still fetch what another's clients follow.
        while self.shared.open.load(Ordering::Relaxed) > 0 {
            tokio::time::sleep(DRAIN_LOOK).await;
        }
    }

    fn start_drain(&self) {
        self.draining.set(true);
        for watch in self.watches.borrow().values() {
            watch.start_drain();
        }
    }
}

/// Everything a worker thread is started with.
pub(crate) struct Start {
    pub(crate) shared: Arc<Shared>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) listeners: Vec<StdListener>,
    pub(crate) orders: mpsc::Receiver<Order>,
    /// Told once the worker accepts connections.
    pub(crate) ready: std::sync::mpsc::Sender<()>,
}

/// The body of a worker thread. Returns when drained.
pub(crate) fn run(start: Start) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, serve(start))
}

async fn serve(mut start: Start) -> io::Result<()> {
    let config = Rc::new(Config::new(start.settings, &start.shared.origin_counters, None));
    let worker = Rc::new(Worker {
        store: start.shared.store,
        clock: start.shared.clock,
        counters: start.counters,
        log: start.shared.logger.as_ref().map(|logger| logger.worker()),
        config: RefCell::new(config),
        draining: Cell::new(false),
        watches: RefCell::default(),
        next_watch: Cell::new(0),
        refusing: Cell::new(0),
        buffers: RefCell::default(),
        shared: start.shared,
    });
    let mut accepting = Vec::new();
    for listener in start.listeners {
        let listener = TcpListener::from_std(listener)?;
        accepting.push(spawn_local(accept(worker.clone(), listener)));
    }
    let sweeper = worker.clone();
    spawn_local(async move { sweeper.sweep().await });
    let _ = start.ready.send(());
    while let Some(order) = start.orders.recv().await {
        match order {
            Order::Reload(settings) => {
                let before = worker.config();
                let config = Config::new(settings, &worker.shared.origin_counters, Some(&before));
                *worker.config.borrow_mut() = Rc::new(config);
            }
            Order::Drain => break,
        }
    }
    for task in accepting {
        task.abort();
    }
    let patience = worker.config().settings.http.limits.drain;
    worker.start_drain();
    let _ = tokio::time::timeout(patience, worker.drained()).await;
    Ok(())
}

async fn accept(worker: Rc<Worker>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => admit(&worker, stream, peer),
            Err(error) if connection_failed(&error) => {}
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Errors of the connection that was to be accepted, not of the listener (accept(2)).
fn connection_failed(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Counts an open connection; gives it back when dropped.
struct Seat(Rc<Worker>, u64);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.unwatch(self.1);
        self.0.shared.open.fetch_sub(1, Ordering::Relaxed);
    }
}

fn admit(worker: &Rc<Worker>, stream: TcpStream, peer: SocketAddr) {
    worker.counters.connections.one();
    let open = worker.shared.open.fetch_add(1, Ordering::Relaxed);
    let (id, watch) = worker.watch();
    let seat = Seat(worker.clone(), id);
    if open >= worker.config.borrow().settings.http.limits.connections {
        worker.counters.refused_connections.one();
        if worker.refusing.get() < REFUSING {
            worker.refusing.set(worker.refusing.get() + 1);
            let worker = worker.clone();
            spawn_local(async move {
                conn::refuse(&worker, stream, watch).await;
                worker.refusing.set(worker.refusing.get() - 1);
                drop(seat);
            });
        }
        return;
    }
    let worker = worker.clone();
    spawn_local(async move {
        let _seat = seat;
        conn::serve(worker, stream, peer, watch).await;
    });
}
