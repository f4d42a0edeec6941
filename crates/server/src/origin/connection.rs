//! A connection to an HTTP origin: one request out, one answer in, both at a time, since an origin
//! may answer before it has read the whole request. The task that waits for the answer writes and
//! reads; there is no task of the connection.
//!
//! Writing to an origin that has answered early and closed (a 413 in the middle of an upload)
//! fails, while the answer lies in our receive buffer. So after a failed write reading goes on, and
//! brings the answer or the error (RFC 9112 section 9.5 wants a client to look for that answer).

use std::{
    future::poll_fn,
    io, mem,
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use larder_proto::http::{Elements, chunked};
use tokio::time::Instant;

use super::{
    OriginCounters, OriginError, RequestBody,
    channel::Channel,
    connect::{LONGEST_PIECE, in_time, send, shake_hands},
    counters::Held,
    pool::Pooled,
    stream::{Socket, Tunnel, is_gone},
    tls::Tls,
    upload::{Aborted, Part, Upload},
};
use crate::settings::OriginSettings;

/// Room for the first read of an answer; more is made where one read fills it.
const FIRST_READ: usize = 16 << 10;

/// An open connection.
#[derive(Debug)]
pub(super) struct Connection {
    socket: Socket,
    pub(super) peer: SocketAddr,
    /// Bytes received and not yet decoded.
    pub(super) input: BytesMut,
    /// Room for the next read.
    room: usize,
    /// Bytes of an answer were read, and more of it follows if another read is begun.
    unacknowledged: bool,
    request: Sending,
    /// Its place among the open ones.
    _counted: Held,
}

/// A request on its way.
#[derive(Debug, Default)]
pub(super) struct Sending {
    /// The head, or a part of the body; those before `written` are written.
    bytes: Vec<u8>,
    written: usize,
    /// The body that is still to be sent.
    upload: Option<Upload>,
    /// The body goes in chunks, and these lines name its trailers.
    chunked: Option<Vec<HeaderValue>>,
    /// Some of it has left.
    sent: bool,
    /// A write failed because the origin has closed its side; an answer may have come before.
    deaf: bool,
}

impl Pooled for Connection {
    /// Resolves, connects, and shakes hands over TLS if it has `tls`.
    async fn open(
        settings: &OriginSettings,
        tls: Option<&Tls>,
        counters: &Arc<OriginCounters>,
        deadline: Option<Instant>,
    ) -> Result<Connection, OriginError> {
        let (socket, peer) = in_time(settings, deadline, async |limit| {
            let (channel, peer) = Channel::open(settings, limit).await?;
            if let Some(version) = settings.proxy_protocol {
                send(&channel, version.own()).await?;
            }
            let session = match tls {
                Some(tls) => Some(Box::new(shake_hands(tls, &channel).await?)),
                None => None,
            };
            Ok((Socket::new(channel, session, counters.clone()), peer))
        })
        .await?;
        Ok(Connection {
            socket,
            peer,
            input: BytesMut::new(),
            room: FIRST_READ,
            unacknowledged: false,
            request: Sending::default(),
            _counted: Held::new(counters, |counters| &counters.open),
        })
    }

    fn is_quiet(&self) -> bool {
        self.socket.is_quiet()
    }

    fn is_closed(&self) -> bool {
        self.socket.is_spoilt() || self.request.deaf
    }

    fn answered(&mut self, over: bool) {
        if over && !self.input.is_empty() {
            self.socket.spoke();
        }
        self.socket.answered(over);
        if self.request.is_sent() {
            self.request = Sending::default();
        }
        // An idle connection holds no large buffer.
        let room = mem::replace(&mut self.room, FIRST_READ);
        if room > FIRST_READ || self.input.capacity() > FIRST_READ {
            self.input = BytesMut::new();
        }
    }

    fn is_ready(&self) -> bool {
        self.request.is_sent() && !self.socket.has_unsent()
    }

    async fn ready(&mut self) -> bool {
        let sent = poll_fn(|cx| self.poll_send(cx)).await.is_ok() && self.request.is_sent();
        if sent {
            self.request = Sending::default();
        }
        sent
    }
}

impl Connection {
    /// Hands over a request, to be sent by [`Connection::poll_send`].
    pub(super) fn ask(&mut self, request: Sending) {
        self.socket.ask();
        self.unacknowledged = false;
        self.request = request;
    }

    /// The request of [`Connection::ask`], to be sent again: it has no body, or nothing of it has
    /// left.
    pub(super) fn take_back(&mut self) -> Sending {
        let request = mem::take(&mut self.request);
        Sending { written: 0, sent: false, deaf: false, ..request }
    }

    /// Some of the request has left.
    pub(super) fn has_sent(&self) -> bool {
        self.request.sent
    }

    /// Sends as much as the origin takes. Ready: all of it.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), OriginError>> {
        loop {
            if ready!(self.request.poll_write(&self.socket, cx)).is_err() {
                return Poll::Ready(Err(self.error()));
            }
            if !ready!(self.request.poll_more(cx))? {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Reads into the buffer; 0 is the end of the connection.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let read = self.socket.poll_read(cx, &mut self.input, self.room);
        match &read {
            Poll::Pending if mem::take(&mut self.unacknowledged) => self.socket.acknowledge(),
            Poll::Ready(Ok(bytes)) => {
                self.unacknowledged = true;
                if *bytes == self.room {
                    self.room = LONGEST_PIECE;
                }
            }
            _ => {}
        }
        read
    }

    /// The failure that an error of the socket is.
    pub(super) fn error(&self) -> OriginError {
        match self.socket.is_spoilt() {
            true => OriginError::before_request(),
            false => OriginError::Truncated,
        }
    }

    /// The connection in another protocol.
    pub(super) fn into_tunnel(self) -> Tunnel {
        Tunnel::new(self.socket, self.input.freeze())
    }
}

impl Sending {
    /// A request with this head; `headers` are its fields, which say how the body goes.
    pub(super) fn new(head: Vec<u8>, headers: &HeaderMap, upload: Upload) -> Sending {
        let trailers = || headers.get_all(http::header::TRAILER).iter().cloned().collect();
        let chunked = headers.contains_key(http::header::TRANSFER_ENCODING).then(trailers);
        let upload = (!upload.is_over()).then_some(upload);
        Sending { bytes: head, upload, chunked, ..Sending::default() }
    }

    /// The body, where nothing of it was taken.
    pub(super) fn into_body(self) -> RequestBody {
        self.upload.map_or(RequestBody::Empty, Upload::into_request_body)
    }

    fn is_sent(&self) -> bool {
        self.upload.is_none() && self.written == self.bytes.len() && !self.deaf
    }

    fn poll_write(&mut self, socket: &Socket, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.bytes.len() && !self.deaf {
            match ready!(socket.poll_write(cx, &self.bytes[self.written..])) {
                Ok(bytes) => {
                    self.written += bytes;
                    self.sent |= bytes > 0;
                }
                Err(error) if is_gone(&error) => self.hear_no_more(),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        match ready!(socket.poll_flush(cx)) {
            Err(error) if is_gone(&error) => self.hear_no_more(),
            flushed => return Poll::Ready(flushed),
        }
        Poll::Ready(Ok(()))
    }

    /// The origin takes nothing more. Its answer is read, if there is one.
    fn hear_no_more(&mut self) {
        self.deaf = true;
        if self.sent {
            self.upload = None;
        }
    }

    /// Takes the next part of the body. False: there is none.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, OriginError>> {
        let Some(upload) = self.upload.as_mut().filter(|_| !self.deaf) else {
            return Poll::Ready(Ok(false));
        };
        let part = ready!(upload.poll_part(cx));
        let over = upload.is_over();
        self.bytes.clear();
        self.written = 0;
        let mut trailers = None;
        match part {
            Ok(Part::Data(data)) => self.part(&data),
            Ok(Part::Trailers(section)) => trailers = Some(section),
            Ok(Part::End) => {}
            Err(Aborted) => return Poll::Ready(Err(OriginError::BodyAborted)),
        }
        if over {
            self.upload = None;
            self.end(trailers.as_ref());
        }
        Poll::Ready(Ok(true))
    }

    fn part(&mut self, data: &Bytes) {
        match self.chunked {
            Some(_) if data.is_empty() => {}
            Some(_) => {
                chunked::write_chunk_head(data.len(), &mut self.bytes);
                self.bytes.extend_from_slice(data);
                self.bytes.extend_from_slice(b"\r\n");
            }
            None => self.bytes.extend_from_slice(data),
        }
    }

    /// The end of the body, with those trailers that were announced.
    fn end(&mut self, trailers: Option<&HeaderMap>) {
        let Some(announced) = &self.chunked else { return };
        let is_announced = |name: &str| {
            let mut names = announced.iter().flat_map(|line| Elements::of(line.as_bytes()));
            names.any(|one| one.eq_ignore_ascii_case(name.as_bytes()))
        };
        let all = trailers.into_iter().flatten().map(|(name, value)| (name.as_str(), value));
        let sent = all.filter(|(name, _)| is_announced(name));
        chunked::write_end(sent.map(|(name, value)| (name, value.as_bytes())), &mut self.bytes);
    }
}
