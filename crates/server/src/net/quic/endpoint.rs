//! The task of a worker that has the connections of one address.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    future::poll_fn,
    io,
    net::UdpSocket,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Instant,
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
/// Calls that receive before what was received is answered.
const RECEIVES: usize = 4;
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
    ready: Rc<Ready>,
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
            ready: Rc::default(),
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
            let now = instant().into_std();
            self.receive(now);
            self.expire(now);
            for connection in self.ready.list.take() {
                self.turn(connection, now);
            }
            // Others of the worker have their turn.
            yield_now().await;
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
        while let Poll::Ready(Some(packet)) = self.handover.own.poll_recv(cx) {
            let now = instant().into_std();
            self.packet(packet, now);
        }
        if !self.ready.list.borrow().is_empty() || self.socket.poll_readable(cx).is_ready() {
            return Poll::Ready(());
        }
        self.ready.waker.replace(Some(cx.waker().clone()));
        let Some(&(next, _)) = self.timers.first() else { return Poll::Pending };
        if timer.deadline().into_std() != next {
            timer.as_mut().reset(next.into());
        }
        timer.poll(cx)
    }

    /// Takes packets from the socket.
    fn receive(&mut self, now: Instant) {
        let mut packets = Vec::new();
        for _ in 0..RECEIVES {
            if !self.socket.receive(|packet| packets.push(packet)) {
                break;
            }
        }
        for packet in packets {
            let ids = &self.handover.ids;
            let worker = ids.worker_of(&packet.data).filter(|&worker| worker != ids.worker());
            match worker.and_then(|worker| self.handover.workers.get(worker)) {
                // A worker that is overloaded loses packets, as any network does.
                Some(worker) => drop(worker.try_send(packet)),
                None => self.packet(packet, now),
            }
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

    /// Has the connections look whose timers have run out.
    fn expire(&mut self, now: Instant) {
        while let Some(&(when, connection)) = self.timers.first()
            && when <= now
        {
            self.timers.pop_first();
            if let Some(Some(open)) = self.connections.get_mut(connection) {
                open.deadline = None;
                open.quic.handle_timeout(now);
                self.ready.push(connection);
            }
        }
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
