//! A connection to an application: one request at a time, each under a number of its own.

use std::{
    cell::Cell,
    io, mem,
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::BytesMut;
use tokio::time::Instant;

use crate::{
    origin::{
        OriginCounters, OriginError,
        channel::Channel,
        connect::in_time,
        counters::{Held, count},
        pool::Pooled,
        tls::Tls,
    },
    settings::{FastCgiSettings, OriginSettings},
};

/// Requests after which a connection is closed. An application of one request at a time (php-fpm:
/// each process) serves a connection until it ends, while others wait for it to take theirs.
const MAX_REQUESTS: u32 = 64;

/// Numbers of requests: they follow each other, so that bytes that an application sends late for
/// one request are never read as the answer to the next. Small, because applications may keep
/// requests in a table.
const IDS: u32 = 8;

/// Free bytes in the buffer before a read: most records fit, the largest takes two reads.
const READ_BYTES: usize = 32 << 10;

/// An open connection.
#[derive(Debug)]
pub(super) struct Connection {
    channel: Channel,
    /// The address that answers; the loopback address for a unix socket.
    pub(super) peer: SocketAddr,
    /// Bytes received and not yet decoded.
    pub(super) input: BytesMut,
    /// Bytes of an answer were read, and more of it follows if another read is begun.
    unacknowledged: bool,
    /// Requests begun on it.
    requests: u32,
    application: Option<Arc<FastCgiSettings>>,
    /// How often connections had been asked for when it was opened.
    released: u64,
    /// It must not be used again: bytes came that nobody asked for.
    spoilt: Cell<bool>,
    counters: Arc<OriginCounters>,
    _counted: Held,
}

impl Pooled for Connection {
    async fn open(
        settings: &OriginSettings,
        _tls: Option<&Tls>,
        counters: &Arc<OriginCounters>,
        deadline: Option<Instant>,
    ) -> Result<Connection, OriginError> {
        let (channel, peer) =
            in_time(settings, deadline, async |limit| Channel::open(settings, limit).await).await?;
        let application = settings.scheme.application().cloned();
        Ok(Connection {
            channel,
            peer,
            input: BytesMut::new(),
            unacknowledged: false,
            requests: 0,
            released: application.as_ref().map_or(0, |application| application.release.times()),
            application,
            spoilt: Cell::new(false),
            counters: counters.clone(),
            _counted: Held::new(counters, |counters| &counters.open),
        })
    }

    fn is_quiet(&self) -> bool {
        let spoke = match self.channel.peek() {
            Ok(0) => false,
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.input.is_empty() => {
                return true;
            }
            Err(_) => !self.input.is_empty(),
        };
        if spoke && !self.spoilt.replace(true) {
            count(&self.counters.unasked);
        }
        false
    }

    fn is_closed(&self) -> bool {
        let times = self.application.as_ref().map(|application| application.release.times());
        self.requests >= MAX_REQUESTS
            || self.spoilt.get()
            || times.is_some_and(|times| times != self.released)
    }

    fn answered(&mut self, _over: bool) {
        if !self.input.is_empty() && !self.spoilt.replace(true) {
            count(&self.counters.unasked);
        }
    }

    fn is_ready(&self) -> bool {
        true
    }

    async fn ready(&mut self) -> bool {
        true
    }
}

impl Connection {
    /// The number of the next request.
    pub(super) fn next_id(&mut self) -> u16 {
        let id = 1 + self.requests % IDS;
        self.requests += 1;
        self.unacknowledged = false;
        id as u16
    }

    /// The request under way had the workers close idle connections, for the `times`th time. This
    /// connection stays open.
    pub(super) fn stays(&mut self, times: u64) {
        self.released = times;
    }

    /// Reads into the buffer; 0 is the end of the connection.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let read = self.channel.poll_read_buf(cx, &mut self.input, READ_BYTES);
        match &read {
            Poll::Pending if mem::take(&mut self.unacknowledged) => self.channel.acknowledge(),
            Poll::Pending => {}
            Poll::Ready(_) => self.unacknowledged = true,
        }
        read
    }

    /// Writes some of the bytes.
    pub(super) fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.channel.poll_write_ready(cx))?;
            match self.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    /// Writes as many of the bytes as can be written at once.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.channel.try_write(bytes)
    }
}
