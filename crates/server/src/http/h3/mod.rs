//! A connection of HTTP/3: requests in, frames out, on the streams of QUIC.
//!
//! The endpoint ([`crate::net::quic`]) has it look whenever something has happened: packets, a wake
//! by a task, a deadline. Requests that memory answers are answered in that look, without a stream
//! object or a task. A request that has to wait gets a [`Stream`] and a task, as over HTTP/2
//! ([`super::streams`]); what the task composes waits there until QUIC takes it.
//!
//! QUIC holds copies of what the client has not acknowledged, at most [`SEND_WINDOW`] of a
//! connection. Pages of the store are pinned until they are copied, and count as those of a stalled
//! client when that takes long.

mod answers;
mod drive;
mod requests;

use std::{collections::VecDeque, net::SocketAddr, rc::Rc, sync::Arc, time::Duration};

use larder_proto::{
    http3::{self, ErrorCode, Incoming},
    pseudo::{Priority, Workspace},
};
use quinn_proto::{IdleTimeout, ServerConfig, StreamId, TransportConfig, VarInt};

use crate::{
    clock::Ms,
    http::{
        stall::Stall,
        worker::{OpenConnection, Worker},
    },
    net::{
        out::Out,
        quic::Service,
        socket::{PROGRESS, Progress},
        tls::{TlsFailure, quic_config},
    },
    request::Peer,
    settings::HttpSettings,
    wire::stream::{Mail, Stream},
};

/// Bytes of a request's body that may wait for its task; QUIC holds as many again.
const BODY_WINDOW: usize = 64 * 1024;
/// Bytes that a client may send on one stream before they are read.
const STREAM_WINDOW: u32 = BODY_WINDOW as u32;
/// The same for all streams of a connection.
const CONNECTION_WINDOW: u32 = 256 * 1024;
/// Bytes of answers that QUIC holds until the client acknowledges them.
const SEND_WINDOW: u64 = 512 * 1024;
/// Unidirectional streams that a client may have open: three are of use.
const UNI_STREAMS: u32 = 16;

/// Memory for a look, shared by all connections of a worker.
#[derive(Default)]
pub(crate) struct Scratch {
    work: Workspace,
    /// The answer that is composed.
    out: Out,
    /// The same in frames.
    framed: Out,
}

/// Takes in the connections of a worker.
pub(crate) struct Http3(pub(crate) Rc<Worker>);

/// The state of one connection.
pub(crate) struct Session {
    worker: Rc<Worker>,
    codec: http3::Connection,
    limits: Arc<http3::Limits>,
    mail: Rc<Mail>,
    peer: Peer,
    phase: drive::Phase,
    drain: drive::Drain,
    /// Requests that have not come whole, or whose answers have not gone whole.
    streams: Vec<Open>,
    /// Our control stream, and bytes of it that QUIC did not take.
    control: Option<StreamId>,
    control_out: Vec<u8>,
    /// One behind the last stream of a request.
    next: u64,
    /// Requests on later streams are rejected.
    accept_until: u64,
    /// Bytes received with the handshake, and bytes of streams read since.
    before: u64,
    read: u64,
    /// Streams whose answers the client has not acknowledged, with their bytes.
    unacknowledged: VecDeque<(u64, u64)>,
    stall: Stall,
    /// Bytes of answers that QUIC has taken.
    sent: u64,
    /// The time of this look.
    now: Ms,
    /// When the codec was told the time last.
    ticked: Ms,
    /// Its place among the open connections.
    open: OpenConnection,
}

/// A stream with a request.
struct Open {
    id: u64,
    /// When it was opened.
    since: Ms,
    incoming: Incoming,
    /// The request is whole, or no more of it is read.
    received: bool,
    /// Something may be there to be read.
    readable: bool,
    /// Bytes of the body that no task has taken.
    unread: usize,
    priority: Priority,
    /// None: all of the answer is in `framed`.
    stream: Option<Rc<Stream>>,
    /// Frames that QUIC has not taken.
    framed: Out,
    /// The answer has begun.
    answered: bool,
    /// All of the answer is in `framed`.
    complete: bool,
    /// QUIC takes no more of it for now: it said so when it had taken so many bytes of all.
    blocked: Option<u64>,
    progress: Progress,
}

impl Open {
    fn new(id: u64, since: Ms) -> Self {
        Self {
            id,
            since,
            incoming: Incoming::default(),
            received: false,
            readable: true,
            unread: 0,
            priority: Priority::default(),
            stream: None,
            framed: Out::default(),
            answered: false,
            complete: false,
            blocked: None,
            progress: Progress::default(),
        }
    }

    /// Memory of what is composed, besides the store's.
    fn composed(&self) -> u64 {
        let composed = self.stream.as_ref().map_or(0, |stream| stream.out.borrow().composed());
        composed + self.framed.composed()
    }

    /// Bytes of the answer that wait.
    fn unsent(&self) -> u64 {
        let composed = self.stream.as_ref().map_or(0, |stream| stream.out.borrow().pending());
        composed + self.framed.pending()
    }

    /// Bytes of the store that it holds.
    fn pinned(&self) -> u64 {
        self.framed.pinned() + self.stream.as_ref().map_or(0, |stream| stream.pinned())
    }

    /// Milliseconds for which the client has taken too little of it.
    fn stands(&self, now: Ms) -> Ms {
        self.progress.stands(self.unsent() > 0, now)
    }

    /// The stream's own window is shut. QUIC does not tell, but once it takes anything of others it
    /// has told all that waited for the connection. `sent`: bytes that it has taken of all.
    fn is_shut(&self, sent: u64) -> bool {
        self.blocked.is_some_and(|then| sent - then >= PROGRESS)
    }

    /// The head of its request is whole.
    fn has_begun(&self) -> bool {
        self.answered || self.stream.is_some()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            stream.close();
        }
    }
}

impl Service for Http3 {
    type Session = Session;

    fn config(&self) -> Option<Arc<ServerConfig>> {
        self.0.quic()
    }

    fn admit(&self, remote: SocketAddr) -> Option<Session> {
        let worker = &self.0;
        let config = worker.pages.config();
        let http = &config.settings.http;
        // A proxy that has to name its clients cannot do so here.
        if worker.draining() || http.announces(remote.ip()) {
            return None;
        }
        let open = worker.place()?;
        let watch = open.watch().clone();
        let now = worker.pages.clock.now();
        watch.wait_head(now + http.limits.header_timeout.as_millis() as Ms);
        Some(Session {
            worker: worker.clone(),
            codec: http3::Connection::default(),
            limits: config.http3.clone(),
            mail: Mail::new(watch),
            peer: Peer::new(remote, true),
            phase: drive::Phase::default(),
            drain: drive::Drain::default(),
            streams: Vec::new(),
            control: None,
            control_out: Vec::new(),
            next: 0,
            accept_until: u64::MAX,
            before: 0,
            read: 0,
            unacknowledged: VecDeque::new(),
            stall: Stall::default(),
            sent: 0,
            now,
            ticked: now,
            open,
        })
    }

    fn failed(&self) {
        self.0.pages.counters.tls_failures.one(TlsFailure::Malformed);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stall.release(&self.worker.conns.shared.stalled);
        self.streams.clear();
        // News and their streams hold each other.
        drop(self.mail.take());
    }
}

/// The settings of connections from now on, for a TLS server with these.
pub(crate) fn server_config(
    tls: &rustls::ServerConfig,
    http: &HttpSettings,
) -> Option<Arc<ServerConfig>> {
    let limits = &http.limits;
    let mut transport = TransportConfig::default();
    let idle = limits.idle_timeout.max(Duration::from_secs(1));
    transport
        .max_concurrent_bidi_streams(limits.streams.into())
        .max_concurrent_uni_streams(UNI_STREAMS.into())
        .stream_receive_window(STREAM_WINDOW.into())
        .receive_window(CONNECTION_WINDOW.into())
        .send_window(SEND_WINDOW)
        .datagram_receive_buffer_size(None)
        // A request may wait for longer than a connection may be idle.
        .keep_alive_interval(Some(idle / 3))
        .max_idle_timeout(IdleTimeout::try_from(idle).ok());
    let mut config = ServerConfig::with_crypto(quic_config(tls)?);
    config.transport_config(Arc::new(transport));
    Some(Arc::new(config))
}

/// A code as QUIC has it.
fn var(code: ErrorCode) -> VarInt {
    VarInt::from_u64(code.0).unwrap_or_default()
}

/// A stream's number as QUIC has it.
fn stream_id(id: u64) -> StreamId {
    VarInt::from_u64(id).unwrap_or_default().into()
}
