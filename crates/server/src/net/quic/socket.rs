//! A UDP socket: many packets with one call, where the system can (GRO, GSO).

use std::{
    io::{self, IoSliceMut},
    net::{IpAddr, SocketAddr, UdpSocket},
    task::{Context, Poll},
};

use bytes::BytesMut;
use quinn_proto::{EcnCodepoint, Transmit};
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use tokio::io::Interest;

/// Datagrams received by one call, each of which may be several packets of one client.
const BATCH: usize = 8;
/// Bytes of the largest datagram, or of those that the system has joined.
const LARGEST: usize = 64 * 1024;
/// Packets of one client that are sent by one call. The system takes 64 KiB.
const SEGMENTS: usize = 32;

/// A received packet, or several that came in one datagram.
pub(super) struct Packet {
    pub(super) remote: SocketAddr,
    /// The address of ours that it was sent to.
    pub(super) local: Option<IpAddr>,
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) data: BytesMut,
}

/// A worker's socket.
pub(super) struct Socket {
    socket: tokio::net::UdpSocket,
    state: UdpSocketState,
    received: Vec<u8>,
    /// Packets that the system did not take at once.
    unsent: Option<(Transmit, Vec<u8>)>,
}

impl Socket {
    pub(super) fn new(socket: UdpSocket) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let socket = tokio::net::UdpSocket::from_std(socket)?;
        Ok(Self { socket, state, received: vec![0; BATCH * LARGEST], unsent: None })
    }

    /// Packets that may be joined for one call of [`Socket::send`].
    pub(super) fn segments(&self) -> usize {
        self.state.max_gso_segments().min(SEGMENTS)
    }

    /// The path may be searched for its largest packet: the system divides none.
    pub(super) fn never_divides(&self) -> bool {
        !self.state.may_fragment()
    }

    /// Something can be received.
    pub(super) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_recv_ready(cx)
    }

    /// Receives what one call gives. False: nothing was there.
    pub(super) fn receive(&mut self, mut take: impl FnMut(Packet)) -> bool {
        let mut metas = [RecvMeta::default(); BATCH];
        let mut buffers = self.received.chunks_exact_mut(LARGEST);
        let mut slices: [IoSliceMut<'_>; BATCH] =
            std::array::from_fn(|_| IoSliceMut::new(buffers.next().unwrap_or_default()));
        let (state, socket) = (&self.state, &self.socket);
        let received = socket.try_io(Interest::READABLE, || {
            state.recv(UdpSockRef::from(socket), &mut slices, &mut metas)
        });
        // An error is of an earlier packet that could not be sent: it is lost.
        let Ok(count) = received else {
            return received.is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock);
        };
        for (meta, slice) in metas.iter().zip(&slices).take(count) {
            let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
            // QUIC keeps slices of a packet for as long as their stream waits for others: with
            // memory shared by all, one kept byte would keep the 64 KiB of a joined datagram.
            for packet in slice[..meta.len].chunks(meta.stride.max(1)) {
                let data = BytesMut::from(packet);
                take(Packet { remote: meta.addr, local: meta.dst_ip, ecn, data });
            }
        }
        true
    }

    /// Sends packets; those that the system does not take now wait ([`Socket::is_full`]).
    pub(super) fn send(&mut self, transmit: Transmit, packets: &[u8]) {
        if !self.try_send(&transmit, packets) {
            let packets = packets[..transmit.size].to_vec();
            self.unsent = Some((transmit, packets));
        }
    }

    fn try_send(&self, transmit: &Transmit, packets: &[u8]) -> bool {
        let sent = self.socket.try_io(Interest::WRITABLE, || {
            let transmit = quinn_udp::Transmit {
                destination: transmit.destination,
                ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
                contents: &packets[..transmit.size],
                segment_size: transmit.segment_size,
                src_ip: transmit.src_ip,
            };
            self.state.send(UdpSockRef::from(&self.socket), &transmit)
        });
        // Other errors lose the packets, which QUIC sends again.
        !sent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Packets wait for the system.
    pub(super) fn is_full(&self) -> bool {
        self.unsent.is_some()
    }

    /// Sends the packets that wait, once the system takes more.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some((transmit, packets)) = self.unsent.take() {
            if self.try_send(&transmit, &packets) {
                break;
            }
            self.unsent = Some((transmit, packets));
            if self.socket.poll_send_ready(cx).is_pending() {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }
}
