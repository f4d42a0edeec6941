//! The socket of a connection to an HTTP origin, and whose turn it is on it.
//!
//! Bytes that an origin sends before it is asked are no answer. They are looked for when a
//! connection is taken from the pool, and once more right before the first byte of a request is
//! written, unless that is the same moment. Bytes that are on their way at that moment cannot be
//! told from an answer; so a connection on which more may come is not pooled ([`Turn`]).

use std::{
    cell::Cell,
    io::{self, IoSlice},
    net::Shutdown,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use larder_proto::http::Turn;
use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    task::coop::poll_proceed,
};

use super::{OriginCounters, channel::Channel, counters::count, tls::Session};

/// A socket and what is known about it.
#[derive(Debug)]
pub(super) struct Socket {
    channel: Channel,
    /// None: bytes pass as they are. In a box: it is a kilobyte, which most connections have not.
    tls: Option<Box<Session>>,
    turn: Cell<Turn>,
    /// It was looked whether the origin has spoken, and nothing was waited for since.
    looked: Cell<bool>,
    counters: Arc<OriginCounters>,
}

/// State of an idle connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Quiet,
    /// Bytes have come that nobody asked for.
    Spoke,
    Dead,
}

impl Socket {
    pub(super) fn new(
        channel: Channel,
        tls: Option<Box<Session>>,
        counters: Arc<OriginCounters>,
    ) -> Socket {
        Socket { channel, tls, turn: Cell::default(), looked: Cell::default(), counters }
    }

    fn turn(&self) -> Turn {
        self.turn.get()
    }

    /// The origin spoke out of turn, or may do so.
    pub(super) fn is_spoilt(&self) -> bool {
        self.turn() == Turn::Spoilt
    }

    /// A request is handed over.
    pub(super) fn ask(&self) {
        self.turn.set(self.turn.get().ask());
    }

    /// The answer is complete; `over`: nothing of it can follow.
    pub(super) fn answered(&self, over: bool) {
        self.turn.set(self.turn.get().end(over));
    }

    /// The origin spoke when it had not been asked. Counted once for each connection.
    pub(super) fn spoke(&self) {
        if self.turn.replace(Turn::Spoilt) != Turn::Spoilt {
            count(&self.counters.unasked);
        }
    }

    /// Whether an idle connection may carry a request: still open, and nothing has come that nobody
    /// asked for (an answer taken for the wrong request would be a poisoned page).
    pub(super) fn is_quiet(&self) -> bool {
        let look = self.look();
        if look == Look::Spoke {
            self.spoke();
        }
        self.looked.set(true);
        look == Look::Quiet && self.turn() == Turn::Idle
    }

    fn look(&self) -> Look {
        if let Some(tls) = &self.tls {
            return match tls.has_spoken(&self.channel) {
                Ok(false) => Look::Quiet,
                Ok(true) => Look::Spoke,
                Err(_) => Look::Dead,
            };
        }
        match self.channel.peek() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Look::Quiet,
            Ok(1..) => Look::Spoke,
            Ok(_) | Err(_) => Look::Dead,
        }
    }

    /// The turn once bytes of a request are written, which they are to be now: an error when the
    /// origin spoke before it had any of it.
    fn begin_writing(&self) -> io::Result<Turn> {
        let turn = self.turn();
        if turn != Turn::Asked {
            return Ok(turn);
        }
        let spoke = !self.looked.take() && self.look() == Look::Spoke;
        match turn.write(spoke) {
            Turn::Spoilt => Err(self.out_of_turn()),
            next => Ok(next),
        }
    }

    /// After bytes were read: an error when nobody had asked for them.
    fn heard(&self, bytes: usize) -> io::Result<usize> {
        match self.turn().read(bytes) {
            Turn::Spoilt => Err(self.out_of_turn()),
            _ => Ok(bytes),
        }
    }

    fn out_of_turn(&self) -> io::Error {
        self.spoke();
        io::Error::new(io::ErrorKind::InvalidData, "the origin spoke before it was asked")
    }

    /// Appends up to `room` bytes to `buf`; 0 is the end of the connection.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut BytesMut,
        room: usize,
    ) -> Poll<io::Result<usize>> {
        let Some(tls) = &self.tls else {
            let read = ready!(self.channel.poll_read_buf(cx, buf, room))?;
            return Poll::Ready(self.heard(read));
        };
        // A task that never has to wait leaves others their turn all the same.
        ready!(poll_proceed(cx)).made_progress();
        let before = buf.len();
        loop {
            buf.resize(before + room, 0);
            let read = tls.read(&self.channel, &mut buf[before..]);
            buf.truncate(before + read.as_ref().map_or(0, |read| *read));
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.channel.poll_read_ready(cx))?;
                }
                read => return Poll::Ready(read.and_then(|read| self.heard(read))),
            }
        }
    }

    /// Writes some of the bytes of a request.
    pub(super) fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let Poll::Ready(ready) = self.channel.poll_write_ready(cx) else {
                self.looked.set(false);
                return Poll::Pending;
            };
            ready?;
            let next = self.begin_writing()?;
            let written = match &self.tls {
                Some(tls) => tls.write(&self.channel, &[IoSlice::new(bytes)]),
                None => self.channel.try_write(bytes),
            };
            match written {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(bytes) => {
                    // Before a byte has left, nothing can be an answer.
                    if bytes > 0 {
                        self.turn.set(next);
                    }
                    return Poll::Ready(Ok(bytes));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// TLS has taken some that is not sent yet.
    pub(super) fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_unsent())
    }

    /// Sends what TLS has taken and not sent yet.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(tls) = &self.tls else { return Poll::Ready(Ok(())) };
        loop {
            match tls.flush(&self.channel) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.channel.poll_write_ready(cx))?;
                }
                flushed => return Poll::Ready(flushed),
            }
        }
    }

    /// See [`Channel::acknowledge`].
    pub(super) fn acknowledge(&self) {
        self.channel.acknowledge();
    }
}

/// A connection after `101 Switching Protocols`: bytes in both directions. Dropping it closes it.
#[derive(Debug)]
pub struct OriginStream {
    socket: Socket,
}

impl AsyncRead for OriginStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let socket = &mut self.get_mut().socket;
        let Some(tls) = &socket.tls else { return socket.channel.poll_read(cx, buf) };
        ready!(poll_proceed(cx)).made_progress();
        loop {
            match tls.read(&socket.channel, buf.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(socket.channel.poll_read_ready(cx))?;
                }
                read => {
                    buf.advance(read?);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl AsyncWrite for OriginStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match ready!(self.socket.poll_write(cx, buf)) {
            // The last bytes of the other side are still to be read.
            Err(error) if is_gone(&error) => Poll::Ready(Ok(buf.len())),
            written => Poll::Ready(written),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(self.socket.poll_flush(cx)) {
            Err(error) if is_gone(&error) => Poll::Ready(Ok(())),
            flushed => Poll::Ready(flushed),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(tls) = &self.socket.tls {
            tls.close(&self.socket.channel);
        }
        match SockRef::from(&self.socket.channel).shutdown(Shutdown::Write) {
            Err(error) if error.kind() != io::ErrorKind::NotConnected => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(())),
        }
    }
}

/// The other side has closed: a write failed of which nothing more is to be said.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// A connection in another protocol, after an origin's 101. Nothing of HTTP is left: no timeout of
/// [`crate::settings::OriginSettings`] applies, and it is for its holder to end one that stands
/// still. It does not count against the origin's connection limit: whoever holds it has to be
/// limited, as clients' connections are. Dropping it closes the connection.
#[derive(Debug)]
pub struct Tunnel {
    /// The connection, in the new protocol.
    pub stream: OriginStream,
    /// Bytes of the new protocol that came with the 101, to be taken before anything is read from
    /// `stream`.
    pub early: Bytes,
}

impl Tunnel {
    /// `early`: what was received behind the 101.
    pub(super) fn new(socket: Socket, early: Bytes) -> Tunnel {
        Tunnel { stream: OriginStream { socket }, early }
    }
}
