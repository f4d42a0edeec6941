//! TCP and unix sockets behind one type.

use std::{
    io,
    net::Shutdown,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::BytesMut;
use socket2::SockRef;
use tokio::{
    io::{Interest, Ready},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
};

use crate::engine::Address;

/// Backlog of the kernel: a burst of thousands of connections must not be refused.
const BACKLOG: u32 = 4096;

pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, Socket),
}

/// A socket file, removed at the end.
pub(super) struct Socket(PathBuf);

impl Drop for Socket {
    fn drop(&mut self) {
        // It may have been removed already.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Listener {
    pub(super) fn bind(address: &Address) -> io::Result<Listener> {
        match address {
            Address::Tcp(address) => {
                let socket = match address {
                    std::net::SocketAddr::V4(_) => tokio::net::TcpSocket::new_v4(),
                    std::net::SocketAddr::V6(_) => tokio::net::TcpSocket::new_v6(),
                }?;
                socket.set_reuseaddr(true)?;
                socket.bind(*address)?;
                Ok(Listener::Tcp(socket.listen(BACKLOG)?))
            }
            Address::Unix(path) => {
                remove_left_over(path);
                Ok(Listener::Unix(UnixListener::bind(path)?, Socket(path.clone())))
            }
        }
    }

    pub(super) fn address(&self) -> io::Result<Address> {
        match self {
            Listener::Tcp(listener) => Ok(Address::Tcp(listener.local_addr()?)),
            Listener::Unix(_, socket) => Ok(Address::Unix(socket.0.clone())),
        }
    }

    /// A connection, and the name of its peer.
    pub(super) async fn accept(&self) -> io::Result<(Stream, String)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok((Stream::Tcp(stream), peer.to_string()))
            }
            Listener::Unix(listener, socket) => {
                let (stream, _) = listener.accept().await?;
                Ok((Stream::Unix(stream), format!("unix:{}", socket.0.display())))
            }
        }
    }
}

/// Removes the socket file of a server that was killed.
fn remove_left_over(path: &Path) {
    if std::os::unix::net::UnixStream::connect(path)
        .is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused)
    {
        // If it cannot be removed, bind reports the error.
        let _ = std::fs::remove_file(path);
    }
}

/// A connection. Both directions use it at the same time, so everything takes `&self`.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub(super) async fn connect(address: &Address) -> io::Result<Stream> {
        match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Address::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path).await?)),
        }
    }

    /// Reads once, at most `most` bytes, appending to the buffer; 0 at the end. Memory is allocated
    /// when there is something to read.
    pub(super) async fn read(&self, into: &mut BytesMut, most: usize) -> io::Result<usize> {
        use bytes::BufMut;
        loop {
            self.ready(Interest::READABLE).await?;
            into.reserve(most);
            let mut limited = (&mut *into).limit(most);
            let read = match self {
                Stream::Tcp(stream) => stream.try_read_buf(&mut limited),
                Stream::Unix(stream) => stream.try_read_buf(&mut limited),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }

    pub(super) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.ready(Interest::WRITABLE).await?;
            let written = match self {
                Stream::Tcp(stream) => stream.try_write(bytes),
                Stream::Unix(stream) => stream.try_write(bytes),
            };
            match written {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match self {
            Stream::Tcp(stream) => stream.ready(interest).await,
            Stream::Unix(stream) => stream.ready(interest).await,
        }
    }

    /// Whether the peer has finished sending, even if not all is read. Waits until the state is
    /// known.
    pub(super) async fn has_said_all(&self) -> io::Result<bool> {
        Ok(self.ready(Interest::READABLE).await?.is_read_closed())
    }

    /// Shuts down the sending direction.
    pub(super) fn end_writing(&self) {
        // The peer may have left before.
        let _ = match self {
            Stream::Tcp(stream) => SockRef::from(stream).shutdown(Shutdown::Write),
            Stream::Unix(stream) => SockRef::from(stream).shutdown(Shutdown::Write),
        };
    }

    /// Makes closing a reset. Unix sockets have none: the peer sees the end, or fails to write.
    pub(super) fn reset_at_close(&self) {
        if let Stream::Tcp(stream) = self {
            // The peer may have left before.
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
    }
}
