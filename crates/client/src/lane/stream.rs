//! Stream of a connection: TCP, a unix socket, or a user's connector.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
    task::JoinSet,
    time,
};

use crate::{Address, Connection, SharedConnector};

/// Most addresses of one name that are tried.
const ADDRESSES: usize = 8;
/// Time an address is tried alone before the next is tried in parallel (RFC 8305, "Connection
/// Attempt Delay": at least 100 ms is recommended for the open internet; a cache is near).
const HEAD_START: Duration = Duration::from_millis(50);

pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Other(Box<dyn Connection>),
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stream::Tcp(stream) => std::fmt::Debug::fmt(stream, f),
            Stream::Unix(stream) => std::fmt::Debug::fmt(stream, f),
            Stream::Other(_) => f.write_str("Other"),
        }
    }
}

impl Stream {
    /// Connects, with the connector if there is one.
    pub(super) async fn by(
        connector: Option<&SharedConnector>,
        address: &Address,
    ) -> io::Result<Stream> {
        match connector {
            None => Stream::connect(address).await,
            Some(connector) => Ok(Stream::Other(connector.connect(address).await?)),
        }
    }

    pub(crate) async fn connect(address: &Address) -> io::Result<Stream> {
        match address {
            Address::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path).await?)),
            Address::Tcp(host, port) => {
                let stream = match host.parse::<IpAddr>() {
                    Ok(ip) => TcpStream::connect(SocketAddr::new(ip, *port)).await?,
                    Err(_) => race(tokio::net::lookup_host((host.as_str(), *port)).await?).await?,
                };
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }
}

/// The first of a name's addresses that accepts the connection (RFC 8305): address families
/// alternate, each address has a head start over the next, which a failure cuts short.
async fn race(addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let mut next = by_turns(addresses.collect()).into_iter();
    let mut tries = JoinSet::new();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    if let Some(address) = next.next() {
        tries.spawn(TcpStream::connect(address));
    }
    loop {
        let more = next.len() > 0;
        tokio::select! {
            ended = tries.join_next() => match ended {
                None if !more => return Err(last),
                Some(Ok(Ok(stream))) => return Ok(stream),
                Some(Ok(Err(error))) => last = error,
                Some(Err(_)) | None => {}
            },
            () = time::sleep(HEAD_START), if more => {}
        }
        if let Some(address) = next.next() {
            tries.spawn(TcpStream::connect(address));
        }
    }
}

fn by_turns(all: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = all.first().is_some_and(SocketAddr::is_ipv6);
    let (one, other): (Vec<_>, Vec<_>) = all.into_iter().partition(|a| a.is_ipv6() == first_is_v6);
    let (mut one, mut other) = (one.into_iter(), other.into_iter());
    let mut order = Vec::new();
    while order.len() < ADDRESSES {
        let before = order.len();
        order.extend(one.next());
        order.extend(other.next());
        if order.len() == before {
            break;
        }
    }
    order.truncate(ADDRESSES);
    order
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, into),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, into),
            Stream::Other(stream) => Pin::new(stream).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Other(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Stream::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Stream::Other(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => true,
            Stream::Other(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Other(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Other(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let addresses = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().expect("an address")).collect()
        };
        let order = by_turns(addresses(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1"]));
        assert_eq!(order, addresses(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "[::3]:1"]));
        assert_eq!(by_turns(addresses(&["1.1.1.1:1"; 30])).len(), ADDRESSES);
        assert!(by_turns(Vec::new()).is_empty());
    }

    #[tokio::test]
    async fn an_address_that_refuses_costs_only_the_next_try() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let good = listener.local_addr().unwrap();
        // Closed again at the end of the statement.
        let closed =
            tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let stream = race([closed, good].into_iter()).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), good);
        assert_eq!(
            race([closed].into_iter()).await.unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
        assert!(race(std::iter::empty()).await.is_err());
    }

    #[tokio::test]
    async fn an_address_that_is_silent_costs_a_head_start() {
        // A listener whose backlog is full: the kernel does not answer. On IPv6 if the machine has
        // it.
        let silent = match tokio::net::TcpSocket::new_v6() {
            Ok(socket) if socket.bind("[::1]:0".parse().unwrap()).is_ok() => socket,
            _ => {
                let socket = tokio::net::TcpSocket::new_v4().unwrap();
                socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
                socket
            }
        };
        let silent = silent.listen(1).unwrap();
        let mut waiting = Vec::new();
        while let Ok(taken) =
            time::timeout(2 * HEAD_START, TcpStream::connect(silent.local_addr().unwrap())).await
        {
            waiting.push(taken.unwrap());
            assert!(waiting.len() < 100, "its queue does not fill");
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let good = listener.local_addr().unwrap();
        let stream = race([silent.local_addr().unwrap(), good].into_iter()).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), good);
    }
}
