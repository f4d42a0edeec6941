//! The socket of a connection to an origin: TCP, or a unix socket.

use std::{
    io::{self, IoSlice},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::fd::{AsFd, BorrowedFd},
    pin::{Pin, pin},
    task::{Context, Poll},
};

use bytes::{BufMut, BytesMut};
use rustix::net::{RecvFlags, recv};
use tokio::{
    io::{AsyncRead, AsyncReadExt, ReadBuf},
    net::{TcpStream, UnixStream},
    time::Instant,
};

use super::connect::dial;
use crate::{net::descriptors, settings::OriginSettings};

/// An open socket.
#[derive(Debug)]
pub(super) enum Channel {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The same call for both kinds.
macro_rules! either {
    ($channel:expr, $socket:ident => $call:expr) => {
        match $channel {
            Channel::Tcp($socket) => $call,
            Channel::Unix($socket) => $call,
        }
    };
}

impl Channel {
    /// Connects to a server, and tells its address; the loopback address for a unix socket.
    pub(super) async fn open(
        settings: &OriginSettings,
        limit: Option<Instant>,
    ) -> io::Result<(Channel, SocketAddr)> {
        let Some(path) = &settings.socket else {
            let (tcp, peer) = dial(settings, limit).await.inspect_err(descriptors::failed)?;
            return Ok((Channel::Tcp(tcp), peer));
        };
        let unix = UnixStream::connect(path).await.inspect_err(descriptors::failed)?;
        Ok((Channel::Unix(unix), SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)))
    }

    pub(super) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, socket => socket.poll_read_ready(cx))
    }

    pub(super) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, socket => socket.poll_write_ready(cx))
    }

    pub(super) async fn readable(&self) -> io::Result<()> {
        either!(self, socket => socket.readable().await)
    }

    pub(super) async fn writable(&self) -> io::Result<()> {
        either!(self, socket => socket.writable().await)
    }

    pub(super) fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        either!(self, socket => socket.try_read(buf))
    }

    /// Appends up to `room` bytes to `buf`; 0 is the end of the connection. A read that gets less
    /// than there is room for says that there is no more: the next one waits, instead of asking the
    /// system in vain.
    pub(super) fn poll_read_buf(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut BytesMut,
        room: usize,
    ) -> Poll<io::Result<usize>> {
        buf.reserve(room);
        let mut buf = buf.limit(room);
        either!(self, socket => pin!(socket.read_buf(&mut buf)).poll(cx))
    }

    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, socket => Pin::new(socket).poll_read(cx, buf))
    }

    /// Bytes that wait to be read, 1 at most; 0 is the end of the connection.
    pub(super) fn peek(&self) -> io::Result<usize> {
        let mut byte = [0_u8; 1];
        Ok(recv(self, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT)?.1)
    }

    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        either!(self, socket => socket.try_write(bytes))
    }

    pub(super) fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        either!(self, socket => socket.try_write_vectored(bufs))
    }

    /// Acknowledges at once what was read. An origin that writes head and body apart without
    /// TCP_NODELAY holds the second piece back until the first is acknowledged; the system would
    /// wait 40 ms to do so (measured with Python's server: 44 ms a miss before, 1 ms since). The
    /// option wears off, so it is set after each read that is not the last of an answer.
    pub(super) fn acknowledge(&self) {
        if let Channel::Tcp(tcp) = self {
            let _ = rustix::net::sockopt::set_tcp_quickack(tcp, true);
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        either!(self, socket => socket.as_fd())
    }
}
