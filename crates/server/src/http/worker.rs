//! What one worker's HTTP connections share besides its pages: sockets and buffers, limits, the log.

use std::{
    cell::Cell,
    io::IoSlice,
    net::SocketAddr,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
};

use tokio::task::spawn_local;

use crate::{
    access_log::{WorkerLog, live::LiveFeed},
    clock::Ms,
    net::{
        conns::Conns,
        out::Out,
        shelf::Shelf,
        socket::{Ended, Pace, Socket},
        stream::Stream,
    },
    settings::Settings,
};
use crate::{http::conn, request::pages::Pages};

/// Connections beyond the limit that are told so in order (the answer read before the end) at the same time; the others
/// are closed at once.
const REFUSING: usize = 256;

/// One worker's HTTP side, reached from all its connections.
pub(crate) struct Worker {
    pub(crate) pages: Rc<Pages>,
    pub(crate) conns: Rc<Conns>,
    /// Large pages that are asked for often, in files.
    pub(crate) shelf: Shelf,
    pub(crate) log: Option<WorkerLog>,
    pub(crate) feed: Option<LiveFeed>,
    refusing: Cell<usize>,
}

impl Worker {
    pub(crate) fn new(pages: Rc<Pages>, conns: Rc<Conns>) -> Rc<Self> {
        let settings: Arc<Settings> = pages.config().settings.clone();
        let shelf = Shelf::new(settings.shelf(), settings.threads, pages.counters.shelf.clone());
        let shared = &pages.shared;
        Rc::new(Self {
            conns,
            shelf,
            log: shared.logger.as_ref().map(|logger| logger.worker()),
            feed: shared.live.get().map(|live| live.feed()),
            refusing: Cell::new(0),
            pages,
        })
    }

    /// Takes in an accepted connection, or refuses it where it is one too many.
    pub(crate) fn admit(self: &Rc<Self>, stream: Stream, peer: SocketAddr) {
        let worker = self.clone();
        worker.pages.counters.connections.accepted.one();
        let open = worker.pages.shared.open.fetch_add(1, Ordering::Relaxed);
        let place = Place(worker.clone());
        let seat = worker.conns.seat();
        if open >= worker.pages.config().settings.http.limits.connections {
            worker.pages.counters.connections.refused.one();
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
        let mut pace = Pace::new(self.pages.clock, patience, &self.conns.ground.stalled);
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
        let mut pace = Pace::new(self.pages.clock, patience, &self.conns.ground.stalled);
        let sent = socket.send_with(out, more, pinned, &mut pace).await;
        self.count_sent(sent)
    }

    fn count_sent(&self, sent: Result<u64, Ended>) -> Result<(), Ended> {
        if matches!(sent, Err(Ended::TimedOut)) {
            self.pages.counters.timeouts.send.one();
        }
        self.pages.counters.bytes_out.add(sent?);
        Ok(())
    }

    /// Whether finished requests are written down or shown to somebody.
    #[inline]
    pub(crate) fn shows(&self) -> bool {
        self.log.is_some() || self.feed.as_ref().is_some_and(LiveFeed::watched)
    }
}

/// Counts an open connection against `limits.connections`; gives it back when dropped.
struct Place(Rc<Worker>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.pages.shared.open.fetch_sub(1, Ordering::Relaxed);
    }
}
