//! Opening connections: names, addresses, sockets.

use std::{io, net::SocketAddr};

use tokio::{
    net::{TcpStream, lookup_host},
    time::{Duration, Instant, timeout_at},
};

use super::{
    OriginError,
    channel::Channel,
    tls::{Needs, Session, Tls},
};
use crate::{clock::instant, settings::OriginSettings};

/// The most that is read at a time: no piece of a body is longer, and each is part of a buffer of
/// that size.
pub(crate) const LONGEST_PIECE: usize = 64 * 1024;

/// Writes all of it.
pub(super) async fn send(channel: &Channel, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        channel.writable().await?;
        match channel.try_write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            written => bytes = &bytes[written?..],
        }
    }
    Ok(())
}

pub(super) async fn shake_hands(tls: &Tls, channel: &Channel) -> io::Result<Session> {
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
