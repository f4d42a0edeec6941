//! The proxy: one thread, one listener.

use std::{
    io,
    rc::Rc,
    sync::{
        Arc,
        atomic::Ordering::Relaxed,
        mpsc::{Sender, SyncSender, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tokio::{sync::Semaphore, sync::watch, task::LocalSet};

use super::{
    Config, Protocol,
    connection::{self, Shared},
    plan::Plans,
    record::{Counters, RecentRequests, Request, RequestLog, Totals},
    report::Reporter,
    rule::{Per, Rule},
    stream::Listener,
    timer::Timer,
};
use crate::engine::Address;

/// Most connections; more wait in the kernel until others end.
const CONNECTIONS: usize = 16_384;
/// Pause of accepting when the process has no descriptors left.
const BREATH: Duration = Duration::from_millis(100);

/// Why a proxy does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is in use or not local.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: Address,
        /// Error of the system.
        source: io::Error,
    },
    /// The system refused a thread, timer or event loop.
    #[error("the system refuses what the proxy needs: {0}")]
    System(#[from] io::Error),
}

/// A running proxy; dropping it ends it with all its connections.
pub struct Handle {
    address: Address,
    counters: Arc<Counters>,
    recent: Arc<RecentRequests>,
    rules: Option<watch::Sender<Vec<Rule>>>,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    /// Its address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Totals so far.
    pub fn totals(&self) -> Totals {
        self.counters.totals()
    }

    /// The last finished requests, as many as the configuration keeps.
    pub fn requests(&self) -> Vec<Request> {
        self.recent.all()
    }

    /// Replaces the rules for new connections and new requests; pending ones keep theirs.
    pub fn set(&self, rules: Vec<Rule>) {
        if let Some(orders) = &self.rules {
            orders.send_replace(rules);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.rules = None;
        if let Some(thread) = self.thread.take() {
            // A panic has already been printed.
            let _ = thread.join();
        }
    }
}

/// Starts a proxy on its own thread; it listens when this returns.
pub fn start(config: Config) -> Result<Handle, Error> {
    start_logged(config, None)
}

pub(super) fn start_logged(
    config: Config,
    log: Option<SyncSender<Request>>,
) -> Result<Handle, Error> {
    let counters = Arc::new(Counters::default());
    let recent = Arc::new(RecentRequests::new(config.keep));
    let request_log = RequestLog::new(counters.clone(), recent.clone(), log);
    let (rules, orders) = watch::channel(config.rules.clone());
    let (ready, told) = channel();
    let thread = std::thread::Builder::new()
        .name("slow".to_owned())
        .spawn(move || run_thread(&config, request_log, orders, ready))?;
    match told.recv() {
        Ok(Ok(address)) => {
            Ok(Handle { address, counters, recent, rules: Some(rules), thread: Some(thread) })
        }
        Ok(Err(error)) => Err(error),
        Err(_) => Err(Error::System(io::Error::other("its thread ended at once"))),
    }
}

fn run_thread(
    config: &Config,
    request_log: RequestLog,
    orders: watch::Receiver<Vec<Rule>>,
    ready: Sender<Result<Address, Error>>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(ready.send(Err(error.into()))),
    };
    LocalSet::new().block_on(&runtime, async {
        let begun = begin(config, request_log, orders.clone());
        match begun {
            // The receiver is gone only if the starter is.
            Err(error) => drop(ready.send(Err(error))),
            Ok((listener, shared, address)) => {
                drop(ready.send(Ok(address)));
                tokio::task::spawn_local(shared.timer.clone().run());
                accept(&listener, shared, orders).await;
            }
        }
    });
}

fn begin(
    config: &Config,
    request_log: RequestLog,
    orders: watch::Receiver<Vec<Rule>>,
) -> Result<(Listener, Rc<Shared>, Address), Error> {
    let cannot = |source| Error::Listen { address: config.listen.clone(), source };
    let listener = Listener::bind(&config.listen).map_err(cannot)?;
    let address = listener.address()?;
    let start = Instant::now();
    let per = if config.protocol == Protocol::Tcp { Per::Bytes } else { Per::Request };
    let shared = Rc::new(Shared {
        timer: Timer::new()?,
        start,
        plans: Plans::new(config.seed, start, per, orders),
        to: config.to.clone(),
        protocol: config.protocol,
        request_log,
        teller: Reporter::new(config.tell),
    });
    Ok((listener, shared, address))
}

async fn accept(listener: &Listener, shared: Rc<Shared>, mut orders: watch::Receiver<Vec<Rule>>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let next = async || {
        let place = room.clone().acquire_owned().await;
        (place, listener.accept().await)
    };
    loop {
        let (place, accepted) = tokio::select! {
            changed = orders.changed() => match changed {
                Ok(()) => continue,
                // The handle is gone.
                Err(_) => return,
            },
            next = next() => next,
        };
        let (client, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                shared.teller.say(&format!("cannot accept a connection: {error}"));
                shared.timer.until(Instant::now() + BREATH).await;
                continue;
            }
        };
        let counters = shared.request_log.counters.clone();
        let number = counters.connections.fetch_add(1, Relaxed) + 1;
        let open = OpenConnection::new(counters);
        let shared = shared.clone();
        tokio::task::spawn_local(async move {
            connection::serve(shared, client, peer, number).await;
            drop((open, place));
        });
    }
}

/// Counts a connection as open while it exists.
struct OpenConnection(Arc<Counters>);

impl OpenConnection {
    fn new(counters: Arc<Counters>) -> OpenConnection {
        counters.open.fetch_add(1, Relaxed);
        OpenConnection(counters)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}
