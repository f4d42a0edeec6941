//! The interface between a face and the workers: sessions for clients, and the rules for admitting
//! them.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    io,
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::Arc,
    task::{Poll, ready},
    time::Duration,
};

use serde_json::Value;
use tokio::task::spawn_local;

use super::{
    Clients, Limits, Peer, Session,
    conn::{self, Admission, End},
};
use crate::{
    clock::Ms,
    net::{
        accept::{Acceptor, Closing},
        conns::{Conns, Group},
        passing::Passed,
        stream::Stream,
        tls::Configs,
    },
    settings::FaceTls,
};

/// Connections of proxies, of one worker, that wait for their header, or for a place; further ones
/// are closed.
const ANNOUNCED: usize = 1024;

/// A protocol's side of one worker.
pub(crate) trait Face: 'static {
    type Session: Session + 'static;
    type Shared: Shared;

    /// The part that all workers share.
    fn shared(&self) -> &Self::Shared;

    /// A conversation with a client that has just connected.
    fn session(self: &Rc<Self>, client: Arc<super::Client>) -> Self::Session;

    /// For its statistics.
    fn count(&self, event: Event);

    /// A client is gone, for those who watch connections.
    fn left(&self, _client: &super::Client, _end: End, _now: Ms) {}
}

/// A protocol's side of all workers: who is in, and who may come in.
pub(crate) trait Shared {
    /// Its clients.
    fn clients(&self) -> &Clients;

    /// The present limits of its clients.
    fn limits(&self) -> Limits;

    /// Connections from this address begin with a header of the PROXY protocol.
    fn announces(&self, address: IpAddr) -> bool;

    /// The answer to a connection beyond the limit.
    fn refusal(&self) -> &'static [u8];
}

/// An event of a face's acceptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A connection was let in.
    Accepted,
    /// A connection was one too many: told so and closed.
    Refused,
    /// A connection was one too many: it waits, and with it all behind it. When, in microseconds.
    Paused(u64),
    /// It waits no more. When, in microseconds.
    Resumed(u64),
    /// A handshake of TLS has succeeded.
    Secured {
        /// The client had a ticket.
        resumed: bool,
    },
    /// A connection has ended before its handshake of TLS was done.
    Unsecured,
    /// A connection has ended.
    Ended(End),
}

/// Admits the clients of a face on one worker.
pub(crate) struct FaceAcceptor<F> {
    face: Rc<F>,
    conns: Rc<Conns>,
    limits: Cell<Limits>,
    /// For connections from now on; None: TLS is not spoken.
    tls: RefCell<Option<Arc<Configs>>>,
    /// Connections of proxies whose header is still to come.
    announced: Cell<usize>,
}

impl<F: Face> FaceAcceptor<F> {
    pub(crate) fn new(face: Rc<F>, conns: Rc<Conns>) -> Rc<Self> {
        let limits = Cell::new(face.shared().limits());
        let acceptor =
            Rc::new(Self { face, conns, limits, tls: RefCell::default(), announced: Cell::new(0) });
        let follows = Rc::downgrade(&acceptor);
        acceptor.conns.at_sweep(move || {
            if let Some(acceptor) = follows.upgrade() {
                acceptor.follow_limits();
            }
        });
        acceptor
    }

    /// The face whose clients it admits.
    pub(crate) fn face(&self) -> &Rc<F> {
        &self.face
    }

    /// Takes over the face's limits where they have changed (by a reload, by Redis's CONFIG SET),
    /// and has every connection compute its deadline anew.
    fn follow_limits(&self) -> Limits {
        let limits = self.face.shared().limits();
        if self.limits.replace(limits) != limits {
            self.conns.wake_all();
        }
        limits
    }

    /// The face's limits have changed, or its certificates. Those in use stay where the new ones
    /// cannot be used.
    pub(crate) fn reload(&self, tls: Option<&FaceTls>) {
        if let Some(Ok(configs)) = tls.map(Configs::of_face) {
            *self.tls.borrow_mut() = Some(configs);
        }
        self.follow_limits();
        self.face.shared().clients().look_again();
    }

    /// Lets clients in until the task is ended, or the listener closed.
    pub(crate) async fn accept(
        self: Rc<Self>,
        acceptor: Acceptor,
        tls: bool,
        closing: Rc<Closing>,
    ) {
        while let Some((stream, address)) = acceptor.next_until(&closing).await {
            let local = acceptor.local(&stream);
            let announces = |address: &SocketAddr| self.face.shared().announces(address.ip());
            if let Some(address) = address.filter(announces) {
                if self.announced.get() < ANNOUNCED {
                    self.announced.set(self.announced.get() + 1);
                    spawn_local(self.clone().hear(stream, address, local, tls));
                }
                continue;
            }
            self.secure(stream, address, &local, tls).await;
        }
    }

    /// Waits for the header by which a proxy names its client, and takes the connection in. One
    /// without it is closed.
    async fn hear(
        self: Rc<Self>,
        stream: Stream,
        address: SocketAddr,
        local: Arc<String>,
        tls: bool,
    ) {
        let patience = Duration::from_millis(self.limits.get().receive);
        let header = poll_fn(|cx| {
            loop {
                ready!(stream.poll_read_ready(cx));
                match stream.take_proxy_header() {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    header => return Poll::Ready(header),
                }
            }
        });
        let header = tokio::time::timeout(patience, header).await;
        if let Ok(Ok(header)) = header {
            let address = header.source.map_or(address, |source| source.client);
            self.secure(stream, Some(address), &local, tls).await;
        }
        self.announced.set(self.announced.get() - 1);
    }

    /// Takes in a connection, over TLS where its listener says so.
    async fn secure(
        self: &Rc<Self>,
        stream: Stream,
        address: Option<SocketAddr>,
        local: &Arc<String>,
        tls: bool,
    ) {
        let stream = match &*self.tls.borrow() {
            Some(configs) if tls => stream.secured(configs),
            None if tls => return,
            _ => Ok(stream),
        };
        // Without memory for it there is no connection.
        if let Ok(stream) = stream {
            self.admit(stream, address, local, None).await;
        }
    }

    /// Takes in a connection that another process has passed.
    pub(crate) async fn adopt(self: Rc<Self>, passed: Passed) {
        if let Ok(stream) = Stream::new(&self.conns.reactor, passed.socket, passed.kind) {
            let local = Arc::new(passed.local);
            self.admit(stream, passed.client, &local, Some(&passed.state)).await;
        }
    }

    /// Takes in a connection; one too many is refused, or waits for a place.
    async fn admit(
        self: &Rc<Self>,
        stream: Stream,
        address: Option<SocketAddr>,
        local: &Arc<String>,
        passed: Option<&Value>,
    ) {
        let peer = address.map_or(Peer::Unix, Peer::Tcp);
        let mut told = false;
        let client = loop {
            let limits = self.follow_limits();
            let clients = self.face.shared().clients();
            let left = clients.left();
            if let Some(client) =
                clients.enter_below(limits.connections, peer, local, self.conns.clock.now())
            {
                break client;
            }
            if limits.connections_fast {
                if told {
                    self.face.count(Event::Resumed(self.conns.clock.micros()));
                }
                self.face.count(Event::Refused);
                refuse(&stream, self.face.shared().refusal());
                return;
            }
            if !std::mem::replace(&mut told, true) {
                self.face.count(Event::Paused(self.conns.clock.micros()));
            }
            left.await;
        };
        if told {
            self.face.count(Event::Resumed(self.conns.clock.micros()));
        }
        self.face.count(Event::Accepted);
        let mut session = self.face.session(client.clone());
        if let Some(passed) = passed {
            session.adopt(passed);
        }
        conn::open(self.conns.track(Group::Objects), stream, session, client, self.clone());
    }
}

/// Says why, and closes. Bytes that the client has sent by now are received first: a reset would
/// take the answer from it.
fn refuse(stream: &Stream, refusal: &[u8]) {
    let _ = stream.try_write(refusal);
    let _ = stream.try_read_buf(&mut Vec::with_capacity(1024));
}

impl<F: Face> Admission for FaceAcceptor<F> {
    fn limits(&self) -> Limits {
        self.limits.get()
    }

    fn count(&self, event: Event) {
        self.face.count(event);
    }

    /// A client leaves its face's list when its connection ends, whatever way.
    fn left(&self, client: &super::Client, end: End) {
        self.face.count(Event::Ended(end));
        self.face.left(client, end, self.conns.clock.now());
        self.face.shared().clients().leave(client);
    }
}
