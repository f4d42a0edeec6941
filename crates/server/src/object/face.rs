//! The interface between a face and the workers: sessions for clients, and the rules for admitting
//! them.

use std::{cell::Cell, net::SocketAddr, rc::Rc, sync::Arc};

use super::{
    Clients, Limits, Peer, Session,
    conn::{self, End, Leaving},
};
use crate::{
    clock::Ms,
    net::{accept::Acceptor, conns::Conns, stream::Stream},
};

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
    /// A connection has ended.
    Ended(End),
}

/// Admits the clients of a face on one worker.
pub(crate) struct FaceAcceptor<F> {
    face: Rc<F>,
    conns: Rc<Conns>,
    limits: Rc<Cell<Limits>>,
}

impl<F: Face> FaceAcceptor<F> {
    pub(crate) fn new(face: Rc<F>, conns: Rc<Conns>) -> Rc<Self> {
        let limits = Rc::new(Cell::new(face.shared().limits()));
        let acceptor = Rc::new(Self { face, conns, limits });
        let follows = Rc::downgrade(&acceptor);
        acceptor.conns.at_sweep(move || {
            if let Some(acceptor) = follows.upgrade() {
                acceptor.follow_limits();
            }
        });
        acceptor
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

    /// The face's limits have changed.
    pub(crate) fn reload(&self) {
        self.follow_limits();
        self.face.shared().clients().look_again();
    }

    /// Lets clients in until the task is ended.
    pub(crate) async fn accept(self: Rc<Self>, acceptor: Acceptor) {
        loop {
            let (stream, address) = acceptor.next().await;
            let local = acceptor.local(&stream);
            self.admit(stream, address, &local).await;
        }
    }

    /// Takes in a connection; one too many is refused, or waits for a place.
    async fn admit(self: &Rc<Self>, stream: Stream, address: Option<SocketAddr>, local: &Arc<str>) {
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
        let session = self.face.session(client.clone());
        let leave = Leave { acceptor: self.clone(), client: client.clone(), end: End::Closed };
        conn::open(
            self.conns.track(),
            stream,
            session,
            client,
            self.limits.clone(),
            Box::new(leave),
        );
    }
}

/// Says why, and closes. Bytes that the client has sent by now are received first: a reset would
/// take the answer from it.
fn refuse(stream: &Stream, refusal: &[u8]) {
    let _ = stream.try_write(refusal);
    let _ = stream.try_read_buf(&mut Vec::with_capacity(1024));
}

/// A client leaves its face's list when its connection ends, whatever way.
struct Leave<F: Face> {
    acceptor: Rc<FaceAcceptor<F>>,
    client: Arc<super::Client>,
    end: End,
}

impl<F: Face> Leaving for Leave<F> {
    fn ends(&mut self, end: End) {
        self.end = end;
    }
}

impl<F: Face> Drop for Leave<F> {
    fn drop(&mut self) {
        let face = &self.acceptor.face;
        face.count(Event::Ended(self.end));
        face.left(&self.client, self.end, self.acceptor.conns.clock.now());
        face.shared().clients().leave(&self.client);
    }
}
