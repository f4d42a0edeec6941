//! QUIC of a connection: quinn-proto on a UDP socket of its own.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, StreamId,
    TransportConfig, VarInt, crypto::rustls::QuicClientConfig,
};

use super::{Address, Tls};

/// Bytes that a server may send on a connection and a stream before they are acknowledged.
const WINDOW: u32 = 1 << 28;
/// Packets in one turn of a connection, before others get theirs.
const PACKETS: usize = 64;

/// A connection.
pub(super) struct Quic {
    socket: UdpSocket,
    remote: SocketAddr,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(super) connection: Connection,
    packet: Vec<u8>,
    /// Bytes sent and received since they were asked for.
    pub(super) sent: usize,
    pub(super) received: usize,
}

impl Quic {
    /// Begins the handshake.
    pub(super) fn dial(address: &Address, tls: &Tls) -> io::Result<Quic> {
        let &Address::Tcp(remote) = address else {
            return Err(io::Error::other("HTTP/3 has no unix sockets"));
        };
        let any: SocketAddr =
            if remote.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
        let socket = UdpSocket::bind(any)?;
        socket.set_nonblocking(true)?;
        socket.connect(remote)?;
        let crypto = QuicClientConfig::try_from(tls.config()).map_err(io::Error::other)?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        let mut transport = TransportConfig::default();
        transport.max_concurrent_bidi_streams(VarInt::from_u32(0));
        transport.stream_receive_window(VarInt::from_u32(WINDOW));
        transport.receive_window(VarInt::from_u32(WINDOW));
        transport.keep_alive_interval(Some(Duration::from_secs(10)));
        config.transport_config(Arc::new(transport));
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let (handle, connection) = endpoint
            .connect(Instant::now(), config, remote, &tls.name())
            .map_err(io::Error::other)?;
        let packet = Vec::with_capacity(2048);
        let mut quic =
            Quic { socket, remote, endpoint, handle, connection, packet, sent: 0, received: 0 };
        quic.transmit()?;
        Ok(quic)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes the packets that have arrived. True: there may be more.
    pub(super) fn receive(&mut self, scratch: &mut [u8]) -> io::Result<bool> {
        for _ in 0..PACKETS {
            let length = match self.socket.recv(scratch) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.received += length;
            let data = BytesMut::from(&scratch[..length]);
            self.packet.clear();
            let taken = self.endpoint.handle(
                Instant::now(),
                self.remote,
                None,
                None,
                data,
                &mut self.packet,
            );
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = taken {
                self.connection.handle_event(event);
            }
        }
        Ok(true)
    }

    /// Sends what the connection has to send. A packet that the socket does not take is lost, as
    /// networks lose some.
    pub(super) fn transmit(&mut self) -> io::Result<()> {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        loop {
            self.packet.clear();
            if self.connection.poll_transmit(Instant::now(), 1, &mut self.packet).is_none() {
                return Ok(());
            }
            match self.socket.send(&self.packet) {
                Ok(length) => self.sent += length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The time of the next timer.
    pub(super) fn timeout(&mut self) -> Option<Instant> {
        self.connection.poll_timeout()
    }

    /// Takes a timer that has run out, if one has.
    pub(super) fn expire_if_due(&mut self) {
        let now = Instant::now();
        if self.timeout().is_some_and(|due| due <= now) {
            self.connection.handle_timeout(now);
        }
    }

    /// Writes a part of a stream's bytes; returns its length.
    pub(super) fn write(&mut self, stream: StreamId, bytes: &[u8]) -> Result<usize, String> {
        match self.connection.send_stream(stream).write(bytes) {
            Ok(written) => Ok(written),
            Err(quinn_proto::WriteError::Blocked) => Ok(0),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for Quic {
    /// Tells the server, which would wait for a timeout otherwise. H3_NO_ERROR.
    fn drop(&mut self) {
        self.connection.close(Instant::now(), VarInt::from_u32(0x100), bytes::Bytes::new());
        // The run goes on whether the server hears it or not.
        let _ = self.transmit();
    }
}
