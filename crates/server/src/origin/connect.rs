//! Opening connections: names, addresses, sockets.

use std::{io, net::SocketAddr, sync::Arc};

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpStream, lookup_host},
    task::JoinHandle,
    time::{Duration, Instant, timeout_at},
};

use super::{
    OriginCounters, OriginError,
    channel::Channel,
    counters::Held,
    pool::Pooled,
    stream::{OriginStream, Socket},
    tls::{Needs, Session, Tls},
    upload::Upload,
};
use crate::{clock::instant, settings::OriginSettings};

/// Size of hyper's read buffer: no piece of a body is longer, and each is part of such a buffer.
pub(crate) const LONGEST_PIECE: usize = 64 * 1024;

/// Response heads longer than this are refused: what an origin sends in real life is below 16 KiB,
/// and the head is kept with every stored page. hyper's read
/// buffer is as large, so at most this much lies unread per connection.
const HEAD_BYTES: usize = LONGEST_PIECE;

/// Response heads with more fields than this are refused.
const HEAD_FIELDS: usize = 256;

/// hyper's error for bytes behind an answer.
const UNASKED: &str = "received unexpected message from connection";

/// An open connection that speaks HTTP/1.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) sender: http1::SendRequest<Upload>,
    pub(super) socket: Arc<Socket>,
    pub(super) peer: SocketAddr,
    /// hyper's connection task; dropping the connection ends it and closes the socket. None once it
    /// is a tunnel.
    task: Option<JoinHandle<()>>,
    /// Its place among the open ones.
    _counted: Held,
}

impl Pooled for Connection {
    /// Resolves, connects, shakes hands over TLS if it has `tls`, and starts the connection task.
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
                Some(tls) => Some(shake_hands(tls, &channel).await?),
                None => None,
            };
            Ok((Socket::new(channel, session, counters.clone()), peer))
        })
        .await?;
        let counted = Held::new(counters, |counters| &counters.open);
        Connection::start(socket, peer, counted).await
    }

    fn is_quiet(&self) -> bool {
        self.socket.is_quiet()
    }

    fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    fn answered(&self, over: bool) {
        self.socket.answered(over);
    }

    fn is_ready(&self) -> bool {
        self.sender.is_ready()
    }

    async fn ready(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }
}

impl Connection {
    async fn start(
        socket: Arc<Socket>,
        peer: SocketAddr,
        counted: Held,
    ) -> Result<Connection, OriginError> {
        let io = TokioIo::new(OriginStream::new(socket.clone()));
        let (sender, connection) = client()
            .handshake::<_, Upload>(io)
            .await
            .map_err(|error| OriginError::Connect(io::Error::other(error)))?;
        let driven = socket.clone();
        let task = tokio::task::spawn_local(async move {
            // Errors reach whoever waits for the answer. Of an idle connection one thing is to be
            // said: that more came than the answer, and lay in hyper's buffer (hyper has no other
            // word for it than this).
            if let Err(error) = connection.with_upgrades().await
                && error.to_string() == UNASKED
            {
                driven.spoke();
            }
        });
        Ok(Connection { sender, socket, peer, task: Some(task), _counted: counted })
    }

    /// The connection became a tunnel: its task lives on, and hands the socket over to it. The
    /// socket stays open until the tunnel is dropped.
    pub(super) fn detach(mut self) {
        self.task = None;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// hyper's HTTP/1 client with our limits. Tolerant where RFC 9112 lets a proxy repair what it got
/// (obs-fold, section 5.2; space before the colon, section 5.1), strict elsewhere.
fn client() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .max_buf_size(HEAD_BYTES)
        .max_header_size(HEAD_BYTES)
        .max_headers(HEAD_FIELDS)
        .allow_obsolete_multiline_headers_in_responses(true)
        .allow_spaces_after_header_name_in_responses(true)
        .ignore_invalid_headers_in_responses(false);
    builder
}

/// Writes all of it.
async fn send(channel: &Channel, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        channel.writable().await?;
        match channel.try_write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            written => bytes = &bytes[written?..],
        }
    }
    Ok(())
}

async fn shake_hands(tls: &Tls, channel: &Channel) -> io::Result<Session> {
    let session = tls.session()?;
    loop {
        match session.shake_hands(channel)? {
            Needs::Nothing => return Ok(session),
            Needs::Read => channel.readable().await?,
            Needs::Write => channel.writable().await?,
        }
    }
}

/// Runs what opens a connection, for the connect timeout at most. It is given the end of that time.
pub(super) async fn in_time<T>(
    settings: &OriginSettings,
    deadline: Option<Instant>,
    open: impl AsyncFnOnce(Option<Instant>) -> io::Result<T>,
) -> Result<T, OriginError> {
    let limit = earlier(after(settings.connect_timeout), deadline);
    match within(limit, open(limit)).await {
        Some(Ok(opened)) => Ok(opened),
        Some(Err(error)) if error.kind() != io::ErrorKind::TimedOut => {
            Err(OriginError::Connect(error))
        }
        _ if deadline.is_some_and(|total| total <= instant()) => Err(OriginError::TotalTimeout),
        _ => Err(OriginError::ConnectTimeout),
    }
}

/// A connection over TCP to the address of a server, or to one of the addresses of its name.
pub(super) async fn dial(
    settings: &OriginSettings,
    limit: Option<Instant>,
) -> io::Result<(TcpStream, SocketAddr)> {
    let addresses: Vec<SocketAddr> = match settings.address {
        Some(address) => vec![address],
        None => lookup_host((&*settings.host, settings.port)).await?.collect(),
    };
    let (tcp, peer) = connect_any(&addresses, limit).await?;
    tcp.set_nodelay(true)?;
    Ok((tcp, peer))
}

/// Tries the addresses in the order of the resolver. A silent one may not eat the whole time: each
/// gets an equal share of what is left.
async fn connect_any(
    addresses: &[SocketAddr],
    limit: Option<Instant>,
) -> io::Result<(TcpStream, SocketAddr)> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for (tried, &address) in addresses.iter().enumerate() {
        let share = limit.map(|limit| {
            let now = instant();
            now + limit.saturating_duration_since(now) / remaining(addresses.len(), tried)
        });
        match within(share, TcpStream::connect(address)).await {
            Some(Ok(tcp)) => return Ok((tcp, address)),
            Some(Err(error)) => last = error,
            None => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

fn remaining(all: usize, tried: usize) -> u32 {
    u32::try_from(all - tried).unwrap_or(u32::MAX)
}

/// The earlier of two moments, where None is never.
pub(super) fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Waits for `future` until `limit`; None when it took longer.
pub(super) async fn within<F: Future>(limit: Option<Instant>, future: F) -> Option<F::Output> {
    match limit {
        Some(limit) => timeout_at(limit, future).await.ok(),
        None => Some(future.await),
    }
}

/// When a timeout that starts now is over; None is never (the sum is beyond what the clock can
/// say).
pub(super) fn after(duration: Duration) -> Option<Instant> {
    instant().checked_add(duration)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn closed_port() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        listener.local_addr().expect("address")
    }

    #[tokio::test]
    async fn the_next_address_is_tried_when_one_refuses() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let open = listener.local_addr().expect("address");
        let (_, peer) = connect_any(&[closed_port().await, open], None).await.expect("connect");
        assert_eq!(peer, open);
    }

    #[tokio::test]
    async fn the_last_error_is_told() {
        let refused = connect_any(&[closed_port().await], None).await.expect_err("refused");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let none = connect_any(&[], None).await.expect_err("no address");
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
    }

    /// A listener whose queue is full does not answer at all.
    #[tokio::test]
    async fn a_silent_address_leaves_time_for_the_next() {
        let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
            .expect("socket");
        full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("bind");
        full.listen(0).expect("listen");
        let silent = full.local_addr().expect("address").as_socket().expect("an IP address");
        let _fills_the_queue = std::net::TcpStream::connect(silent).expect("connect");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let open = listener.local_addr().expect("address");
        let limit = after(Duration::from_millis(300));
        let (_, peer) = connect_any(&[silent, open], limit).await.expect("connect");
        assert_eq!(peer, open);
        let late =
            connect_any(&[silent], after(Duration::from_millis(50))).await.expect_err("silent");
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn never_is_later_than_anything() {
        let now = instant();
        assert_eq!(earlier(None, Some(now)), Some(now));
        assert_eq!(earlier(Some(now), None), Some(now));
        assert_eq!(earlier(Some(now + Duration::from_secs(1)), Some(now)), Some(now));
        assert_eq!(after(Duration::MAX), None);
    }
}
