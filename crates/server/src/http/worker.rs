//! The shared state of one worker's HTTP connections besides its pages: sockets and buffers,
//! limits, the log.

use std::{
    cell::{Cell, RefCell},
    io::IoSlice,
    net::IpAddr,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
};

use tokio::task::spawn_local;

use crate::{
    access_log::{WorkerLog, live::LiveFeed},
    clock::Ms,
    counters::Timing,
    net::{
        conns::{Conns, Group, TrackedConnection},
        out::Out,
        passing::Passed,
        sendfile::SendfileCache,
        slot::Slot,
        socket::{Ended, Pace, Watch},
        stream::Stream,
        tls::Configs,
    },
    settings::Settings,
};
use crate::{
    http::{conn::Conn, h2, h3, opening},
    request::{Peer, limits::network, pages::Pages, stalls::Stall},
    wire::Wire,
};

/// Connections beyond the limit that are told so in order (the answer read before the end) at the
/// same time; the others are closed at once.
const REFUSING: usize = 256;

/// One worker's HTTP side, reached from all its connections.
pub(crate) struct Worker {
    pub(crate) pages: Rc<Pages>,
    pub(crate) conns: Rc<Conns>,
    /// Large pages that are asked for often, in files.
    pub(crate) sendfile: SendfileCache,
    pub(crate) log: Option<WorkerLog>,
    pub(crate) feed: Option<LiveFeed>,
    /// Empty, for the answers of a batch: its memory is used again.
    pub(crate) timing: Cell<Timing>,
    /// Memory for a round of HTTP/2.
    pub(crate) h2: Cell<Option<Box<h2::Scratch>>>,
    refusing: Cell<usize>,
    /// Memory for a look at a connection of HTTP/3.
    pub(crate) h3: Cell<Option<Box<h3::Scratch>>>,
    /// For connections from now on; None: HTTPS is not served.
    tls: RefCell<Option<Arc<Configs>>>,
    /// The same for HTTP/3.
    quic: RefCell<Option<Arc<quinn_proto::ServerConfig>>>,
}

impl Worker {
    pub(crate) fn new(pages: Rc<Pages>, conns: Rc<Conns>) -> Result<Rc<Self>, rustls::Error> {
        let settings: Arc<Settings> = pages.config().settings.clone();
        let sendfile = SendfileCache::new(
            settings.sendfile_cache() - settings.file_memory(),
            settings.threads,
            pages.counters.sendfile_cache.clone(),
        );
        let shared = &pages.shared;
        let tls = Configs::new(&settings, &shared.acme)?;
        let quic = quic(tls.as_deref(), &settings);
        Ok(Rc::new(Self {
            conns,
            tls: RefCell::new(tls),
            quic: RefCell::new(quic),
            sendfile,
            log: shared.logger.as_ref().map(|logger| logger.worker()),
            feed: shared.live.get().map(|live| live.feed()),
            timing: Cell::default(),
            h2: Cell::default(),
            h3: Cell::default(),
            refusing: Cell::new(0),
            pages,
        }))
    }

    /// The settings of connections of HTTP/3 from now on; None: it is not spoken.
    pub(crate) fn quic(&self) -> Option<Arc<quinn_proto::ServerConfig>> {
        self.quic.borrow().clone()
    }

    /// A place for a connection of HTTP/3; None: it is one too many.
    pub(crate) fn place(self: &Rc<Self>) -> Option<OpenConnection> {
        let (open, fits) = self.enter();
        if !fits {
            self.pages.counters.connections.refused.one();
        }
        fits.then_some(open)
    }

    /// Counts a connection of HTTP/3 for its client, whose address is proved by now. False: the
    /// client has too many.
    pub(super) fn count_client(&self, open: &mut OpenConnection, client: IpAddr) -> bool {
        let counted = self.client_fits(client);
        let fits = counted.is_ok();
        open.client = counted.ok().flatten();
        fits
    }

    /// Whether connections end when they are idle: the server stops.
    #[inline]
    pub(crate) fn draining(&self) -> bool {
        self.conns.draining(Group::Pages)
    }

    /// Whether connections that cannot be passed on end: the server stops, or another process is
    /// about to have the pages.
    #[inline]
    pub(crate) fn leaving(&self) -> bool {
        self.draining() || self.conns.passing.is_on()
    }

    /// Counts a connection as accepted and open. False: it is one too many.
    fn enter(self: &Rc<Self>) -> (OpenConnection, bool) {
        self.pages.counters.connections.accepted.one();
        let before = self.pages.shared.open.fetch_add(1, Ordering::Relaxed);
        let tracked = self.conns.track(Group::Pages);
        let open = OpenConnection { worker: self.clone(), tracked, client: None };
        (open, before < self.pages.config().settings.http.limits.connections)
    }

    /// Takes in a connection that another process has passed, between two requests.
    pub(crate) fn adopt(self: &Rc<Self>, passed: Passed) {
        let Some(address) = passed.client else { return };
        let Ok(stream) = Stream::new(&self.conns.reactor, passed.socket, passed.kind) else {
            return;
        };
        let said = |what: &str| passed.state[what].as_bool().unwrap_or(false);
        let mut peer = Peer::new(address, false);
        (peer.secure, peer.unnamed) = (said("secure"), said("unnamed"));
        self.take_in(stream, peer, true);
    }

    /// Takes in an accepted connection, or refuses it where it is one too many.
    pub(crate) fn admit(self: &Rc<Self>, stream: Stream, peer: Peer) {
        self.take_in(stream, peer, false);
    }

    fn take_in(self: &Rc<Self>, stream: Stream, peer: Peer, passed: bool) {
        let stream = match &*self.tls.borrow() {
            Some(configs) if peer.tls => stream.secured(configs),
            _ => Ok(stream),
        };
        // Without memory for it there is no connection.
        let Ok(stream) = stream else { return };
        let worker = self.clone();
        let (open, fits) = worker.enter();
        let watch = open.watch().clone();
        let mut open = open;
        let client = worker.client_fits(peer.address.ip());
        let fits = fits && client.is_ok();
        open.client = client.ok().flatten();
        if fits {
            let mut conn = Conn::new(worker, stream, watch, peer, open);
            if passed {
                conn.begun();
            }
            return Slot::open(conn, &self.conns.reactor);
        }
        worker.pages.counters.connections.refused.one();
        if worker.refusing.get() < REFUSING {
            worker.refusing.set(worker.refusing.get() + 1);
            spawn_local(async move {
                opening::refuse(&worker, stream, watch).await;
                worker.refusing.set(worker.refusing.get() - 1);
                drop(open);
            });
        }
    }

    /// Uses these settings for further requests, and their certificates for further connections.
    /// Those in use stay where the new ones cannot be used.
    pub(crate) fn reload(&self, settings: Arc<Settings>) {
        if let Ok(Some(configs)) = Configs::new(&settings, &self.pages.shared.acme) {
            self.quic.replace(quic(Some(&configs), &settings));
            *self.tls.borrow_mut() = Some(configs);
        }
        if let (Some(log), Some(settings)) = (&self.log, &settings.access_log) {
            log.set_format(settings.format);
        }
        self.pages.reload(settings);
    }

    /// Sends what was composed, within `patience` milliseconds for each stretch of it.
    pub(crate) async fn send(
        &self,
        wire: Wire<'_>,
        out: &mut Out,
        patience: Ms,
    ) -> Result<(), Ended> {
        let mut pace = Pace::new(self.pages.clock, patience, &self.conns.shared.stalled);
        let sent = wire.send(out, &mut pace).await;
        self.count_sent(wire, sent)
    }

    /// Sends what was composed and `more` behind it, in one write where it fits. `pinned`: bytes of
    /// the store it holds.
    pub(crate) async fn send_with(
        &self,
        wire: Wire<'_>,
        out: &mut Out,
        more: &[IoSlice<'_>],
        pinned: &dyn Fn() -> u64,
        patience: Ms,
    ) -> Result<(), Ended> {
        let mut pace = Pace::new(self.pages.clock, patience, &self.conns.shared.stalled);
        let sent = wire.send_with(out, more, pinned, &mut pace).await;
        self.count_sent(wire, sent)
    }

    /// Connections of HTTP/2 and 3 count what they send themselves.
    fn count_sent(&self, wire: Wire<'_>, sent: Result<u64, Ended>) -> Result<(), Ended> {
        if matches!(sent, Err(Ended::TimedOut)) {
            self.pages.counters.timeouts.send.one();
        }
        let sent = sent?;
        if let Wire::H1(_) = wire {
            self.pages.counters.bytes_out.add(sent);
        }
        Ok(())
    }

    /// Counts a connection of a client. An error: it has too many. Trusted proxies may have any
    /// number.
    fn client_fits(&self, client: IpAddr) -> Result<Option<Stall>, ()> {
        let config = self.pages.config();
        let http = &config.settings.http;
        let Some(most) = http.limits.connections_per_client else { return Ok(None) };
        let Some(client) = limited_network(http, client) else { return Ok(None) };
        let held = self.pages.shared.clients.enter_up_to(client, most);
        if held.is_none() {
            self.pages.counters.crowded.one();
        }
        held.map(Some).ok_or(())
    }

    /// Whether finished requests are written down or shown to somebody.
    #[inline]
    pub(crate) fn shows(&self) -> bool {
        self.log.is_some() || self.feed.as_ref().is_some_and(LiveFeed::watched)
    }
}

/// The network that a client is counted as. None: a trusted proxy, for which nothing is limited.
pub(super) fn limited_network(
    http: &crate::settings::HttpSettings,
    client: IpAddr,
) -> Option<IpAddr> {
    let trusted = http.trusted_proxies.iter().any(|net| net.contains(client));
    let (v4, v6) = (http.limits.client_prefix_v4, http.limits.client_prefix_v6);
    (!trusted).then(|| network(client, v4, v6))
}

/// Counts an open connection against `limits.connections`, and keeps its place in the sweep's list;
/// gives both back when dropped.
pub(crate) struct OpenConnection {
    worker: Rc<Worker>,
    tracked: TrackedConnection,
    /// Its client's count, where connections of clients are limited.
    client: Option<Stall>,
}

impl OpenConnection {
    pub(crate) fn watch(&self) -> &Rc<Watch> {
        &self.tracked.watch
    }
}

fn quic(tls: Option<&Configs>, settings: &Settings) -> Option<Arc<quinn_proto::ServerConfig>> {
    settings.https.as_ref().filter(|https| https.http3)?;
    h3::server_config(tls?.first(), &settings.http)
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.worker.pages.shared.open.fetch_sub(1, Ordering::Relaxed);
    }
}
