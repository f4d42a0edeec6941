//! Accepting connections.

use std::{io, net::SocketAddr, time::Duration};

use tokio::net::{TcpListener, UnixListener};

use super::{listen::Listener, stream::Stream};

/// After `accept` failed for want of descriptors or memory, how long to leave the queue to the kernel.
const PAUSE: Duration = Duration::from_millis(50);

/// Where connections of one address come in, on a worker's own runtime.
pub(crate) enum Door {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Door {
    pub(crate) fn open(listener: Listener) -> io::Result<Door> {
        Ok(match listener {
            Listener::Tcp(listener) => Door::Tcp(TcpListener::from_std(listener)?),
            Listener::Unix(listener, _) => Door::Unix(UnixListener::from_std(listener)?),
        })
    }

    /// The next connection, and its address where it has one (TCP).
    pub(crate) async fn next(&self) -> (Stream, Option<SocketAddr>) {
        loop {
            let accepted = match self {
                Door::Tcp(listener) => {
                    listener.accept().await.map(|(stream, peer)| (Stream::Tcp(stream), Some(peer)))
                }
                Door::Unix(listener) => {
                    listener.accept().await.map(|(stream, _)| (Stream::Unix(stream), None))
                }
            };
            match accepted {
                Ok(accepted) => return accepted,
                Err(error) if connection_failed(&error) => {}
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

/// Errors of the connection that was to be accepted, not of the listener (accept(2)).
fn connection_failed(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
