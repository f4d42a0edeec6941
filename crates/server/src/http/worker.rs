//! What one worker's HTTP connections share: the settings as they are now, origins, counters, the log. All workers share
//! the store and the table of flights, nothing else.

use std::{
    cell::{Cell, RefCell},
    io::IoSlice,
    net::SocketAddr,
    rc::Rc,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use larder_proto::http::RequestHead;
use larder_store::Store;
use tokio::task::spawn_local;

use super::{compose::HitLines, conn, flight::Flights, purge};
use crate::{
    access_log::{Logger, WorkerLog},
    admin::tail::{Feed, Tail},
    clock::{Clock, Ms},
    counters::Counters,
    measure::counted::Sites,
    net::{
        conns::Conns,
        out::Out,
        shelf::Shelf,
        socket::{Ended, Pace, Socket},
        stream::Stream,
    },
    origin::Origin,
    remote::{self, Remote},
    settings::{OriginSettings, Settings, Site},
    trace::{Traced, Tracer, Tracing},
};

/// Connections beyond the limit that are told so in order (the answer read before the end) at the same time; the others
/// are closed at once.
const REFUSING: usize = 256;

/// What the HTTP side of all workers shares.
pub(crate) struct Shared {
    pub(crate) flights: Flights,
    /// Client connections open now, over all workers.
    pub(crate) open: AtomicUsize,
    /// Names this process in CDN-Loop (RFC 8586).
    pub(crate) loop_id: String,
    /// Random start, then counted up: no two are alike, and nobody outside can tell them.
    nonces: AtomicU64,
    pub(crate) logger: Option<Arc<Logger>>,
    pub(crate) tracing: Option<Arc<Tracing>>,
    /// The latest purges.
    pub(crate) purges: purge::History,
    /// Where requests are shown as they end; set before the workers start, where there is an admin interface.
    pub(crate) tail: OnceLock<Arc<Tail>>,
    /// The fleet pages are shared through.
    pub(crate) remote: Option<Arc<remote::Shared>>,
}

impl Shared {
    /// `random`: two numbers nobody outside can guess.
    pub(crate) fn new(
        random: [u64; 2],
        logger: Option<Arc<Logger>>,
        tracing: Option<Arc<Tracing>>,
        remote: Option<Arc<remote::Shared>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            flights: Flights::new(),
            open: AtomicUsize::new(0),
            loop_id: format!("larder-{:016x}", random[0]),
            nonces: AtomicU64::new(random[1]),
            logger,
            tracing,
            purges: purge::History::default(),
            tail: OnceLock::new(),
            remote,
        })
    }

    pub(crate) fn nonce(&self) -> u64 {
        rapidhash::v3::rapidhash_v3(&self.nonces.fetch_add(1, Ordering::Relaxed).to_le_bytes())
    }
}

/// A worker's view of the settings: changed as a whole by a reload.
pub(crate) struct Config {
    pub(crate) settings: Arc<Settings>,
    pub(crate) hit_lines: HitLines,
    /// Where its sites are counted.
    pub(crate) counted: Sites,
    origins: Vec<(Arc<OriginSettings>, Rc<Origin>)>,
}

impl Config {
    fn new(settings: Arc<Settings>, counters: &Counters, before: Option<&Config>) -> Self {
        let mut origins: Vec<(Arc<OriginSettings>, Rc<Origin>)> = Vec::new();
        for site in &settings.sites {
            if origins.iter().any(|(known, _)| *known == site.origin) {
                continue;
            }
            let kept = before.and_then(|b| b.origins.iter().find(|(known, _)| *known == site.origin));
            let origin = match kept {
                Some((_, origin)) => origin.clone(),
                None => Origin::new(site.origin.clone(), counters.origins.of(&site.origin.name())),
            };
            origins.push((site.origin.clone(), origin));
        }
        let counted = Sites::new(&counters.sites, settings.sites.iter().map(|site| site.name.as_str()));
        Self { hit_lines: HitLines::new(&settings.http), counted, settings, origins }
    }

    /// The site that answers for a host, and its place among the counters.
    pub(crate) fn site_for(&self, host: &str) -> Option<(&Arc<Site>, u16)> {
        let number = self.settings.site_number(host)?;
        Some((self.settings.sites.get(number)?, self.counted.place(number)))
    }

    /// The origin of a site; sites with equal settings share their connections.
    pub(crate) fn origin(&self, site: &Site) -> Option<Rc<Origin>> {
        self.origins.iter().find(|(known, _)| *known == site.origin).map(|(_, origin)| origin.clone())
    }
}

/// One worker's HTTP side, reached from all its connections.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) conns: Rc<Conns>,
    pub(crate) store: &'static Store,
    pub(crate) clock: Clock,
    pub(crate) counters: Arc<Counters>,
    /// Large pages that are asked for often, in files.
    pub(crate) shelf: Shelf,
    pub(crate) log: Option<WorkerLog>,
    pub(crate) feed: Option<Feed>,
    /// The fleet pages are shared through.
    pub(crate) remote: Option<Rc<Remote>>,
    pub(crate) tracer: Option<Tracer>,
    config: RefCell<Rc<Config>>,
    refusing: Cell<usize>,
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        conns: Rc<Conns>,
        store: &'static Store,
        counters: Arc<Counters>,
        settings: Arc<Settings>,
        remote: Option<Rc<Remote>>,
    ) -> Rc<Self> {
        let shelf = Shelf::new(settings.shelf(), settings.threads, counters.shelf.clone());
        let config = Rc::new(Config::new(settings, &counters, None));
        Rc::new(Self {
            store,
            clock: conns.clock,
            conns,
            counters,
            shelf,
            log: shared.logger.as_ref().map(|logger| logger.worker()),
            feed: shared.tail.get().map(|tail| tail.feed()),
            remote,
            tracer: shared.tracing.as_ref().map(|tracing| tracing.worker(shared.nonce())),
            config: RefCell::new(config),
            refusing: Cell::new(0),
            shared,
        })
    }

    pub(crate) fn config(&self) -> Rc<Config> {
        self.config.borrow().clone()
    }

    /// Uses these settings for every request from now on.
    pub(crate) fn reload(&self, settings: Arc<Settings>) {
        let config = Config::new(settings, &self.counters, Some(&self.config()));
        *self.config.borrow_mut() = Rc::new(config);
    }

    /// Takes in an accepted connection, or refuses it where it is one too many.
    pub(crate) fn admit(self: &Rc<Self>, stream: Stream, peer: SocketAddr) {
        let worker = self.clone();
        worker.counters.connections.one();
        let open = worker.shared.open.fetch_add(1, Ordering::Relaxed);
        let place = Place(worker.clone());
        let seat = worker.conns.seat();
        if open >= worker.config.borrow().settings.http.limits.connections {
            worker.counters.refused_connections.one();
            if worker.refusing.get() < REFUSING {
                worker.refusing.set(worker.refusing.get() + 1);
                spawn_local(async move {
                    conn::refuse(&worker, stream, seat.watch.clone()).await;
                    worker.refusing.set(worker.refusing.get() - 1);
                    drop((place, seat));
                });
            }
            return;
        }
        spawn_local(async move {
            conn::serve(worker, stream, peer, seat.watch.clone()).await;
            drop((place, seat));
        });
    }

    /// Sends what was composed, within `patience` milliseconds for each stretch of it.
    pub(crate) async fn send(&self, socket: &Socket, out: &mut Out, patience: Ms) -> Result<(), Ended> {
        let mut pace = Pace::new(self.clock, patience, &self.conns.ground.stalled);
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
        let mut pace = Pace::new(self.clock, patience, &self.conns.ground.stalled);
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

    /// Whether finished requests are written down or shown to somebody.
    #[inline]
    pub(crate) fn shows(&self) -> bool {
        self.log.is_some() || self.feed.as_ref().is_some_and(Feed::watched)
    }

    /// A number that no other call returns.
    pub(crate) fn nonce(&self) -> u64 {
        self.shared.nonce()
    }

    /// The request's part of a trace, if it is recorded.
    #[inline]
    pub(crate) fn trace_of(&self, head: &RequestHead<'_>) -> Option<Traced> {
        self.tracer.as_ref()?.begin(head.known.traceparent())
    }
}

/// Counts an open connection against `limits.connections`; gives it back when dropped.
struct Place(Rc<Worker>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.shared.open.fetch_sub(1, Ordering::Relaxed);
    }
}
