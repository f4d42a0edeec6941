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
    conn::{self, Shared},
    plan::Plans,
    record::{Book, Counters, Kept, Request, Totals},
    rule::{Per, Rule},
    stream::Listener,
    tell::Teller,
    timer::Timer,
};
use crate::engine::Address;

/// Most connections at a time; more wait in the kernel until others end.
const CONNECTIONS: usize = 16_384;
/// How long no connection is accepted when the process has no descriptors left.
const BREATH: Duration = Duration::from_millis(100);

/// Why a proxy does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is taken, or not ours.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Which.
        address: Address,
        /// Why.
        source: io::Error,
    },
    /// The system gives no thread, timer or event loop.
    #[error("the system refuses what the proxy needs: {0}")]
    System(#[from] io::Error),
}

/// A proxy that runs; dropped, it ends with all its connections.
pub struct Handle {
    address: Address,
    counters: Arc<Counters>,
    kept: Arc<Kept>,
    rules: Option<watch::Sender<Vec<Rule>>>,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// What went through it so far.
    pub fn totals(&self) -> Totals {
        self.counters.totals()
    }

    /// The last requests that are over, as many as the configuration keeps.
    pub fn requests(&self) -> Vec<Request> {
        self.kept.all()
    }

    /// Other rules from now on, for new connections and new requests; what is under way goes on as it began.
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
            // If it panicked, the message was shown.
            let _ = thread.join();
        }
    }
}

/// Starts a proxy on a thread of its own; it listens when this returns.
pub fn start(config: Config) -> Result<Handle, Error> {
    start_logged(config, None)
}

pub(super) fn start_logged(config: Config, log: Option<SyncSender<Request>>) -> Result<Handle, Error> {
    let counters = Arc::new(Counters::default());
    let kept = Arc::new(Kept::new(config.keep));
    let book = Book::new(counters.clone(), kept.clone(), log);
    let (rules, orders) = watch::channel(config.rules.clone());
    let (ready, told) = channel();
    let thread = std::thread::Builder::new()
        .name("slow".to_owned())
        .spawn(move || run_thread(&config, book, orders, ready))?;
    match told.recv() {
        Ok(Ok(address)) => Ok(Handle { address, counters, kept, rules: Some(rules), thread: Some(thread) }),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(Error::System(io::Error::other("its thread ended at once"))),
    }
}

fn run_thread(
    config: &Config,
    book: Book,
    orders: watch::Receiver<Vec<Rule>>,
    ready: Sender<Result<Address, Error>>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(ready.send(Err(error.into()))),
    };
    LocalSet::new().block_on(&runtime, async {
        let begun = begin(config, book, orders.clone());
        match begun {
            // Whoever started it has gone if nobody hears.
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
    book: Book,
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
        book,
        teller: Teller::new(config.tell),
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
        let counters = shared.book.counters.clone();
        let number = counters.connections.fetch_add(1, Relaxed) + 1;
        let open = Guard::new(counters);
        let shared = shared.clone();
        tokio::task::spawn_local(async move {
            conn::serve(shared, client, peer, number).await;
            drop((open, place));
        });
    }
}

/// Counts a connection as open.
struct Guard(Arc<Counters>);

impl Guard {
    fn new(counters: Arc<Counters>) -> Guard {
        counters.open.fetch_add(1, Relaxed);
        Guard(counters)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}
