//! QUIC (RFC 9000): a worker's endpoint of one address, between a UDP socket and the connections.
//!
//! The protocol is that of `quinn_proto`, which knows neither sockets nor clocks. Here one task of
//! the worker receives packets, has each connection that something has happened to take its look
//! ([`Session::look`]), and sends what follows from it. There is no task for a connection, and none
//! for a stream.
//!
//! The system chooses a worker by the address of a packet. A client that changes its address (from
//! one network to another, or behind a translator) comes to another worker: connection IDs name the
//! worker that has the connection ([`ids`]), and packets are handed over.

mod endpoint;
mod ids;
mod socket;

use std::{net::SocketAddr, rc::Rc, sync::Arc, time::Instant};

use quinn_proto::{Connection, ServerConfig, VarInt};
use tokio::sync::mpsc;

pub(crate) use endpoint::Endpoint;

use self::ids::Ids;
use super::socket::Watch;

/// Packets that may wait for another worker; more are lost, as packets may be.
const HANDED: usize = 1024;

/// The protocol above QUIC.
pub(crate) trait Service: 'static {
    type Session: Session;

    /// The settings of a new connection; None: there are to be no new ones.
    fn config(&self) -> Option<Arc<ServerConfig>>;

    /// A client wants to connect; None: it is refused.
    fn admit(&self, remote: SocketAddr) -> Option<Self::Session>;

    /// The first packet of a client that was admitted has a handshake that cannot succeed.
    fn failed(&self);
}

/// The state of a connection above QUIC. Dropping it gives its place back.
pub(crate) trait Session: 'static {
    /// Its watch: a wake of it has the session look.
    fn watch(&self) -> &Rc<Watch>;

    /// Looks at what has come, and writes what can be sent.
    fn look(&mut self, quic: &mut Connection, now: Instant) -> Look;

    /// The code by which a connection is closed for an error of ours.
    const INTERNAL_ERROR: VarInt;

    /// The code by which a connection is closed in order.
    const NO_ERROR: VarInt;
}

/// The result of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Nothing is to be done until something happens.
    Rest,
    /// There is more to do, once others had their turn.
    Again,
    /// The connection is closed.
    Over,
}

/// The ways between the workers of one address: each worker's own end, and the others' beginnings.
pub(crate) struct Handover {
    own: mpsc::Receiver<socket::Packet>,
    workers: Arc<[mpsc::Sender<socket::Packet>]>,
    ids: Ids,
}

impl Handover {
    /// Those of so many workers. `secret`: a number that nobody outside can guess.
    pub(crate) fn between(workers: usize, secret: u64) -> Vec<Handover> {
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..workers).map(|_| mpsc::channel(HANDED)).unzip();
        let workers: Arc<[_]> = senders.into();
        let each = receivers.into_iter().enumerate();
        let ends = each.map(|(number, own)| Handover {
            own,
            workers: workers.clone(),
            ids: Ids::new(number, secret),
        });
        ends.collect()
    }
}
