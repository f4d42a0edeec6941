//! The task of a worker that has the connections of one address.

use std::{
    cell::RefCell,
    collections::{BTreeSet, VecDeque},
    future::poll_fn,
    io,
    net::UdpSocket,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use bytes::Bytes;
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, EndpointConfig, Incoming, Transmit,
};
use tokio::{
    sync::Notify,
    task::yield_now,
    time::{Sleep, sleep_until},
};

use super::{
    Handover, Look, Service, Session,
    socket::{Packet, Socket},
};
use crate::{
    clock::instant,
    net::slot::{Resting, guard},
};

/// Handshakes under way from which on clients have to prove their address first, by a token
/// (RFC 9000 section 8.1.2): these cost no memory.
const HANDSHAKES: usize = 64;
/// Time after which others of the worker have their turn: half of it for received packets, and the
/// whole with timers and looks. One packet, or one look, may come behind that.
const TURN: Duration = Duration::from_millis(2);
/// Calls that receive before what was received is answered.
const RECEIVES: usize = 4;
/// Packets of other workers that are taken at a time.
const TAKES: usize = 64;
/// Calls that send for one connection before others have their turn.
const SENDS: usize = 8;
/// The version that is spoken (RFC 9000).
const VERSION_1: u32 = 1;

/// A worker's connections of one address.
pub(crate) struct Endpoint<S: Service> {
    service: S,
    socket: Socket,
    handover: Handover,
    quic: quinn_proto::Endpoint,
    /// By their handles, which are small numbers.
    connections: Vec<Option<Open<S::Session>>>,
    timers: BTreeSet<(Instant, usize)>,
    /// Packets that were received and not looked at: those of a few calls.
    received: VecDeque<Packet>,
    ready: Rc<Ready>,
    /// Connections that have to look before those that become ready from now on.
    looks: BTreeSet<usize>,
    /// Connections whose handshake is under way.
    handshakes: usize,
    /// Memory for packets to be sent.
    packets: Vec<u8>,
}

struct Open<C> {
    quic: Connection,
    /// None: it is closed, and remembered until the client knows for certain.
    session: Option<C>,
    deadline: Option<Instant>,
    handshaking: bool,
}

/// Connections that have to look.
#[derive(Default)]
struct Ready {
    list: RefCell<BTreeSet<usize>>,
    waker: RefCell<Option<Waker>>,
}

impl Ready {
    fn push(&self, connection: usize) {
        self.list.borrow_mut().insert(connection);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Has a connection look when its watch is woken.
struct Wake {
    ready: Rc<Ready>,
    connection: usize,
}

impl Resting for Wake {
    fn look(self: Rc<Self>) {
        self.ready.push(self.connection);
    }
}

impl<S: Service> Endpoint<S> {
    /// On the runtime of the worker.
    pub(crate) fn new(socket: UdpSocket, handover: Handover, service: S) -> io::Result<Self> {
        let socket = Socket::new(socket)?;
        let ids = handover.ids;
        let mut config = EndpointConfig::default();
        config.supported_versions(vec![VERSION_1]);
        config.cid_generator(move || Box::new(ids));
        let config = Arc::new(config);
        let quic =
            quinn_proto::Endpoint::new(config, service.config(), socket.never_divides(), None);
        Ok(Self {
            service,
            socket,
            handover,
            quic,
            connections: Vec::new(),
            timers: BTreeSet::new(),
            received: VecDeque::new(),
            ready: Rc::default(),
            looks: BTreeSet::new(),
            handshakes: 0,
            packets: Vec::new(),
        })
    }

    /// Works until the task is ended, or `stop` is notified: then it closes its connections, and
    /// leaves the socket to others.
    pub(crate) async fn run(mut self, stop: Rc<Notify>) {
        let mut timer = Box::pin(sleep_until(instant()));
        loop {
            tokio::select! {
                biased;
                () = stop.notified() => return self.close_all(),
                () = poll_fn(|cx| self.poll(cx, timer.as_mut())) => {}
            }
            self.work();
            // Others of the worker have their turn.
            yield_now().await;
        }
    }

    /// Does what there is to do, as far as a turn allows. A flood of packets keeps nobody out:
    /// timers and looks have their own part of it.
    fn work(&mut self) {
        let now = instant().into_std();
        let has = |part: Duration| instant().into_std() < now + part;
        self.receive();
        while let Some(packet) = self.received.pop_front() {
            self.route(packet, now);
            if !has(TURN / 2) {
                break;
            }
        }
        while self.expire(now) && has(TURN) {}
        if self.looks.is_empty() {
            self.looks = self.ready.list.take();
        }
        while let Some(connection) = self.looks.pop_first() {
            self.turn(connection, now);
            if !has(TURN) {
                break;
            }
        }
    }

    /// Another process has the socket from now on, and cannot go on with connections of this one.
    fn close_all(&mut self) {
        let now = instant().into_std();
        for connection in 0..self.connections.len() {
            if let Some(Some(open)) = self.connections.get_mut(connection) {
                open.quic.close(now, S::Session::NO_ERROR, Bytes::new());
                self.turn(connection, now);
            }
        }
    }

    /// Ends when there is something to do.
    fn poll(&mut self, cx: &mut Context<'_>, mut timer: Pin<&mut Sleep>) -> Poll<()> {
        if self.socket.poll_flush(cx).is_pending() {
            return Poll::Pending;
        }
        while self.received.len() < TAKES
            && let Poll::Ready(Some(packet)) = self.handover.own.poll_recv(cx)
        {
            self.received.push_back(packet);
        }
        let waits = !self.received.is_empty() || !self.looks.is_empty();
        if waits || !self.ready.list.borrow().is_empty() || self.socket.poll_readable(cx).is_ready()
        {
            return Poll::Ready(());
        }
        self.ready.waker.replace(Some(cx.waker().clone()));
        let Some(&(next, _)) = self.timers.first() else { return Poll::Pending };
        if timer.deadline().into_std() != next {
            timer.as_mut().reset(next.into());
        }
        timer.poll(cx)
    }

    /// Takes packets from the socket, once those that it has taken are looked at: the system loses
    /// what is too much.
    fn receive(&mut self) {
        let received = &mut self.received;
        if received.len() < TAKES {
            let mut calls = 0..RECEIVES;
            while calls.next().is_some() && self.socket.receive(|one| received.push_back(one)) {}
        }
    }

    /// Takes a packet, or hands it to the worker that it is for.
    fn route(&mut self, packet: Packet, now: Instant) {
        let ids = &self.handover.ids;
        let worker = ids.worker_of(&packet.data).filter(|&worker| worker != ids.worker());
        match worker.and_then(|worker| self.handover.workers.get(worker)) {
            // A worker that is overloaded loses packets, as any network does.
            Some(worker) => drop(worker.try_send(packet)),
            None => self.packet(packet, now),
        }
    }

    /// Takes a packet of this worker.
    fn packet(&mut self, packet: Packet, now: Instant) {
        let Packet { remote, local, ecn, data } = packet;
        self.packets.clear();
        match self.quic.handle(now, remote, local, ecn, data, &mut self.packets) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(Some(open)) = self.connections.get_mut(handle.0) {
                    open.quic.handle_event(event);
                    self.ready.push(handle.0);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.accept(incoming, now),
            Some(DatagramEvent::Response(transmit)) => self.respond(transmit),
            None => {}
        }
    }

    /// Sends an answer of the endpoint itself. It is lost where the system takes no more.
    fn respond(&mut self, transmit: Transmit) {
        if !self.socket.is_full() {
            self.socket.send(transmit, &self.packets);
        }
    }

    /// A client begins.
    fn accept(&mut self, incoming: Incoming, now: Instant) {
        self.packets.clear();
        let Some(config) = self.service.config() else { return self.refuse(incoming) };
        if self.handshakes >= HANDSHAKES && !incoming.remote_address_validated() {
            match self.quic.retry(incoming, &mut self.packets) {
                Ok(transmit) => self.respond(transmit),
                Err(error) => self.quic.ignore(error.into_incoming()),
            }
            return;
        }
        let Some(session) = self.service.admit(incoming.remote_address()) else {
            return self.refuse(incoming);
        };
        match self.quic.accept(incoming, now, &mut self.packets, Some(config)) {
            Ok((handle, quic)) => self.open(handle, quic, session),
            Err(error) => {
                self.service.failed();
                if let Some(transmit) = error.response {
                    self.respond(transmit);
                }
            }
        }
    }

    fn refuse(&mut self, incoming: Incoming) {
        let transmit = self.quic.refuse(incoming, &mut self.packets);
        self.respond(transmit);
    }

    fn open(&mut self, handle: ConnectionHandle, quic: Connection, session: S::Session) {
        let wake = Wake { ready: self.ready.clone(), connection: handle.0 };
        session.watch().settle(Rc::new(wake));
        if self.connections.len() <= handle.0 {
            self.connections.resize_with(handle.0 + 1, || None);
        }
        let open = Open { quic, session: Some(session), deadline: None, handshaking: true };
        self.connections[handle.0] = Some(open);
        self.handshakes += 1;
        self.ready.push(handle.0);
    }

    /// Has the connection look whose timer runs out first. False: none has run out.
    fn expire(&mut self, now: Instant) -> bool {
        let due = self.timers.first().is_some_and(|&(when, _)| when <= now);
        if !due {
            return false;
        }
        let Some((_, connection)) = self.timers.pop_first() else { return false };
        if let Some(Some(open)) = self.connections.get_mut(connection) {
            open.deadline = None;
            open.quic.handle_timeout(now);
            self.ready.push(connection);
        }
        true
    }

    /// Something has happened to a connection: it looks, and what it has to send is sent.
    fn turn(&mut self, connection: usize, now: Instant) {
        let Some(Some(open)) = self.connections.get_mut(connection) else { return };
        let look = match &mut open.session {
            Some(session) => {
                guard(|| Some(session.look(&mut open.quic, now))).unwrap_or_else(|| {
                    open.quic.close(now, S::Session::INTERNAL_ERROR, Bytes::new());
                    Look::Over
                })
            }
            None => Look::Rest,
        };
        if open.handshaking && (look == Look::Over || !open.quic.is_handshaking()) {
            open.handshaking = false;
            self.handshakes -= 1;
        }
        let mut again = look == Look::Again;
        for sends in 0.. {
            if self.socket.is_full() || sends == SENDS {
                again = true;
                break;
            }
            self.packets.clear();
            let segments = self.socket.segments();
            let Some(transmit) = open.quic.poll_transmit(now, segments, &mut self.packets) else {
                break;
            };
            self.socket.send(transmit, &self.packets);
        }
        if look == Look::Over {
            open.session = None;
        }
        let handle = ConnectionHandle(connection);
        let mut drained = false;
        while let Some(event) = open.quic.poll_endpoint_events() {
            drained |= event.is_drained();
            if let Some(event) = self.quic.handle_event(handle, event) {
                open.quic.handle_event(event);
                again = true;
            }
        }
        let deadline = if drained { None } else { open.quic.poll_timeout() };
        if deadline != open.deadline {
            if let Some(before) = open.deadline {
                self.timers.remove(&(before, connection));
            }
            if let Some(deadline) = deadline {
                self.timers.insert((deadline, connection));
            }
            open.deadline = deadline;
        }
        if drained {
            self.connections[connection] = None;
        } else if again {
            self.ready.push(connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, net::SocketAddr};

    use bytes::BytesMut;
    use quinn_proto::{ClientConfig, ServerConfig, VarInt, crypto::rustls::QuicClientConfig};
    use rustls::{RootCertStore, crypto::aws_lc_rs, server::ResolvesServerCertUsingSni};

    use super::*;
    use crate::net::{socket::Watch, tls::quic_config};

    /// Takes half a turn and more for each client, and refuses it.
    struct Slow {
        config: Arc<ServerConfig>,
        asked: Rc<Cell<usize>>,
    }

    impl Service for Slow {
        type Session = Never;

        fn config(&self) -> Option<Arc<ServerConfig>> {
            Some(self.config.clone())
        }

        fn admit(&self, _: SocketAddr) -> Option<Never> {
            self.asked.set(self.asked.get() + 1);
            let until = instant() + TURN;
            while instant() < until {}
            None
        }

        fn failed(&self) {}
    }

    struct Never;

    impl Session for Never {
        const INTERNAL_ERROR: VarInt = VarInt::from_u32(1);
        const NO_ERROR: VarInt = VarInt::from_u32(0);

        fn watch(&self) -> &Rc<Watch> {
            unreachable!("nobody is admitted")
        }

        fn look(&mut self, _: &mut Connection, _: Instant) -> Look {
            Look::Over
        }
    }

    fn server_config() -> Arc<ServerConfig> {
        let tls = rustls::ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
        Arc::new(ServerConfig::with_crypto(quic_config(&tls).expect("a suite for QUIC")))
    }

    /// The first packet of a client at this port.
    fn first_packet(port: u16) -> Packet {
        let tls = rustls::ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let tls = QuicClientConfig::try_from(tls).expect("a suite for QUIC");
        let (mut packet, now) = (Vec::new(), instant().into_std());
        let mut client = quinn_proto::Endpoint::new(Arc::default(), None, true, None);
        let config = ClientConfig::new(Arc::new(tls));
        let server = SocketAddr::from(([127, 0, 0, 1], 443));
        let (_, mut connection) = client.connect(now, config, server, "a.test").expect("a client");
        assert!(connection.poll_transmit(now, 1, &mut packet).is_some(), "a first packet");
        let remote = SocketAddr::from(([127, 0, 0, 1], port));
        Packet { remote, local: None, ecn: None, data: BytesMut::from(&packet[..]) }
    }

    #[test]
    fn a_flood_of_packets_leaves_others_their_turn() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(async {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            socket.set_nonblocking(true).expect("a flag");
            let handover = Handover::between(1, 7).remove(0);
            let asked = Rc::new(Cell::new(0));
            let service = Slow { config: server_config(), asked: asked.clone() };
            let mut endpoint = Endpoint::new(socket, handover, service).expect("an endpoint");
            endpoint.received.extend((1..=10).map(first_packet));
            for turn in 1..=10 {
                // Some connection looks, whatever came.
                endpoint.looks.extend([0, 1]);
                endpoint.work();
                assert_eq!((asked.get(), endpoint.received.len()), (turn, 10 - turn));
                assert_eq!(endpoint.looks.len(), 1);
                endpoint.looks.clear();
            }
        });
    }
}
