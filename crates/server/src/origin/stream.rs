//! The connection to an origin, as hyper reads and writes it.
//!
//! The socket is shared (`Arc`) by the connection task, which reads and writes, and the pool, which
//! has to know three things about it that hyper does not tell:
//!
//! - whether any byte of an answer has come, which decides whether a request may be sent again;
//! - whether an idle connection is dead *now*: the task may not have been polled since the origin
//!   closed it;
//! - whose turn it is ([`Turn`]): what an origin says before it is asked is no answer. It is looked
//!   for when a connection is taken from the pool, and once more right before the first byte of a
//!   request is written. Bytes that are on their way at that moment cannot be told from an answer;
//!   so a connection on which more may come is not pooled.
//!
//! Writing to an origin that has answered early and closed (a 413 in the middle of an upload)
//! fails, and hyper would then drop the answer that lies in our receive buffer. So a failed write
//! is swallowed here: reading goes on, and brings the answer or the error (RFC 9112 section 9.5
//! wants a client to look for that answer).

use std::{
    io::{self, IoSlice},
    net::Shutdown,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use larder_proto::http::Turn;
use rustix::net::{RecvFlags, recv};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    OriginCounters, OriginError, channel::Channel, counters::count, remaining::Remaining,
    tls::Session,
};

/// A socket and what is known about it.
#[derive(Debug)]
pub(super) struct Socket {
    channel: Channel,
    /// None: bytes pass as they are.
    tls: Option<Session>,
    received: AtomicU64,
    write_failed: AtomicBool,
    /// A [`Turn`]. One thread reads and writes it; it is atomic because hyper wants connections
    /// that can be sent.
    turn: AtomicU8,
    remaining: Remaining,
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
        tls: Option<Session>,
        counters: Arc<OriginCounters>,
    ) -> Arc<Socket> {
        Arc::new(Socket {
            channel,
            tls,
            received: AtomicU64::new(0),
            write_failed: AtomicBool::new(false),
            turn: AtomicU8::new(Turn::Idle as u8),
            remaining: Remaining::default(),
            counters,
        })
    }

    /// The side that may send.
    pub(super) fn turn(&self) -> Turn {
        Turn::ALL.get(usize::from(self.turn.load(Relaxed))).copied().unwrap_or(Turn::Spoilt)
    }

    /// A request is handed over.
    pub(super) fn ask(&self) {
        self.turn.store(self.turn().ask() as u8, Relaxed);
        self.remaining.begin();
    }

    /// The answer is complete; `over`: nothing of it can follow.
    pub(super) fn answered(&self, over: bool) {
        self.turn.store(self.turn().end(over) as u8, Relaxed);
    }

    /// The origin spoke when it had not been asked. Counted once for each connection.
    pub(super) fn spoke(&self) {
        if self.turn.swap(Turn::Spoilt as u8, Relaxed) != Turn::Spoilt as u8 {
            count(&self.counters.unasked);
        }
    }

    /// Bytes received so far.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// Whether an idle connection may carry a request: still open, and nothing has come that nobody
    /// asked for (an answer taken for the wrong request would be a poisoned page).
    pub(super) fn is_quiet(&self) -> bool {
        let look = self.look();
        if look == Look::Spoke {
            self.spoke();
        }
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
        let mut byte = [0_u8; 1];
        match recv(&self.channel, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Err(error) if error == rustix::io::Errno::WOULDBLOCK => Look::Quiet,
            Ok((_, 1..)) => Look::Spoke,
            Ok(_) | Err(_) => Look::Dead,
        }
    }

    /// Before bytes of a request are written: an error when the origin spoke before it had any of
    /// it.
    fn begin_writing(&self) -> io::Result<()> {
        let turn = self.turn();
        if turn != Turn::Asked {
            return Ok(());
        }
        match turn.write(self.look() == Look::Spoke) {
            Turn::Spoilt => Err(self.out_of_turn()),
            next => {
                self.turn.store(next as u8, Relaxed);
                Ok(())
            }
        }
    }

    /// After bytes were read: an error when nobody had asked for them.
    fn heard(&self, bytes: usize) -> io::Result<()> {
        match self.turn().read(bytes) {
            Turn::Spoilt => Err(self.out_of_turn()),
            _ => {
                self.received.fetch_add(bytes as u64, Relaxed);
                Ok(())
            }
        }
    }

    fn out_of_turn(&self) -> io::Error {
        self.spoke();
        io::Error::new(io::ErrorKind::InvalidData, "the origin spoke before it was asked")
    }

    fn try_read(&self, buf: &mut ReadBuf<'_>) -> io::Result<usize> {
        let Some(tls) = &self.tls else { return self.channel.try_read_buf(buf) };
        let read = tls.read(&self.channel, buf.initialize_unfilled())?;
        buf.advance(read);
        Ok(read)
    }

    fn try_write(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match &self.tls {
            Some(tls) => tls.write(&self.channel, bufs),
            None => self.channel.try_write_vectored(bufs),
        }
    }

    /// True when the failed write is to be taken for a success.
    fn swallow(&self, error: &io::Error) -> bool {
        let gone =
            matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
        if gone {
            self.write_failed.store(true, Relaxed);
        }
        gone
    }
}

/// A connection to an origin: bytes in both directions. Dropping it closes it.
#[derive(Debug)]
pub struct OriginStream {
    socket: Arc<Socket>,
}

impl OriginStream {
    pub(super) fn new(socket: Arc<Socket>) -> OriginStream {
        OriginStream { socket }
    }

    fn poll_write_with(
        &self,
        cx: &mut Context<'_>,
        offered: usize,
        write: impl Fn(&Socket) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let socket = &*self.socket;
        socket.begin_writing()?;
        if socket.write_failed.load(Relaxed) {
            return Poll::Ready(Ok(offered));
        }
        loop {
            ready!(socket.channel.poll_write_ready(cx))?;
            match write(socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if socket.swallow(&error) => return Poll::Ready(Ok(offered)),
                done => return Poll::Ready(done),
            }
        }
    }
}

impl AsyncRead for OriginStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let socket = &*self.socket;
        let filled = buf.filled().len();
        loop {
            match socket.try_read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(socket.channel.poll_read_ready(cx))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
                Ok(read) => {
                    socket.heard(read)?;
                    if socket.remaining.after(&buf.filled()[filled..]) {
                        socket.channel.acknowledge();
                    }
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
        self.poll_write_with(cx, buf.len(), |socket| socket.try_write(&[IoSlice::new(buf)]))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered = bufs.iter().map(|buf| buf.len()).sum();
        self.poll_write_with(cx, offered, |socket| socket.try_write(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = &*self.socket;
        let Some(tls) = &socket.tls else { return Poll::Ready(Ok(())) };
        loop {
            match tls.flush(&socket.channel) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(socket.channel.poll_write_ready(cx))?;
                }
                Err(error) if socket.swallow(&error) => return Poll::Ready(Ok(())),
                flushed => return Poll::Ready(flushed),
            }
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

/// A connection after `101 Switching Protocols`. It does not count against the origin's connection
/// limit: whoever holds it has to be limited, as clients' connections are. Dropping it closes the
/// connection.
#[derive(Debug)]
pub struct Tunnel {
    /// The connection, in the new protocol.
    pub stream: OriginStream,
    /// Bytes of the new protocol that came with the 101, to be taken before anything is read from
    /// `stream`.
    pub early: Bytes,
}

/// Turns [`super::Response::upgraded`] into the bare connection.
///
/// Once an origin's 101 is passed on, nothing of HTTP is left: no timeout of
/// [`crate::settings::OriginSettings`] applies, and it is for the caller to end a tunnel that
/// stands still.
pub async fn tunnel(upgraded: OnUpgrade) -> Result<Tunnel, OriginError> {
    let upgraded = upgraded.await.map_err(|_| OriginError::Truncated)?;
    let parts = upgraded.downcast::<TokioIo<OriginStream>>().map_err(|_| {
        OriginError::Malformed("an upgraded connection that is not ours".to_owned())
    })?;
    Ok(Tunnel { stream: parts.io.into_inner(), early: parts.read_buf })
}
