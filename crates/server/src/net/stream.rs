//! A client's byte stream: TCP or a unix socket. An enum, as there are these two and a call through a table would cost
//! each read and write.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
};

/// A connected client.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The same call on whichever it is.
macro_rules! each {
    ($on:expr, $stream:ident => $call:expr) => {
        match $on {
            Stream::Tcp($stream) => $call,
            Stream::Unix($stream) => $call,
        }
    };
}

impl Stream {
    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_read_ready(cx))
    }

    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_write_ready(cx))
    }

    pub(crate) fn try_read_buf(&self, buf: &mut Vec<u8>) -> io::Result<usize> {
        each!(self, stream => stream.try_read_buf(buf))
    }

    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        each!(self, stream => stream.try_write(bytes))
    }

    /// One write of all `slices`; a single one without the price of a list.
    pub(crate) fn try_send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match slices {
            [one] => self.try_write(one),
            many => each!(self, stream => stream.try_write_vectored(many)),
        }
    }

    /// Looks at what is there without taking it. Over a unix socket the system offers no such look: it waits for ever, and
    /// who asks does not learn that the client left.
    pub(crate) fn poll_peek(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        match self {
            Stream::Tcp(stream) => stream.poll_peek(cx, buf),
            Stream::Unix(_) => Poll::Pending,
        }
    }

    /// Acknowledges what was received at once, not with the next answer.
    pub(crate) fn acknowledge(&self) {
        if let Stream::Tcp(stream) = self {
            // It is an optimisation: without it the connection works as well, only later.
            let _ = rustix::net::sockopt::set_tcp_quickack(stream, true);
        }
    }

    /// When it is closed the peer is told that it broke off.
    pub(crate) fn reset_on_close(&self) {
        let now = Some(std::time::Duration::ZERO);
        let _ = each!(self, stream => socket2::SockRef::from(stream).set_linger(now));
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(cx))
    }
}
