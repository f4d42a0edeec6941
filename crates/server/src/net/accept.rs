//! Accepting connections.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::net::{TcpListener, UnixListener};

use super::{listen::Listener, stream::Stream};

/// After `accept` failed for want of descriptors or memory, how long to leave the queue to the kernel.
const PAUSE: Duration = Duration::from_millis(50);

/// Where connections of one address come in, on a worker's own runtime.
pub(crate) struct Door {
    listener: OnRuntime,
    /// The address as clients are told it; None: any of the machine's, each connection knows its own.
    name: Option<Arc<str>>,
}

enum OnRuntime {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Door {
    pub(crate) fn open(listener: Listener) -> io::Result<Door> {
        let name = listener.name()?.into();
        Ok(match listener {
            Listener::Tcp(listener) => {
                let any = listener.local_addr()?.ip().is_unspecified();
                let listener = OnRuntime::Tcp(TcpListener::from_std(listener)?);
                Door { listener, name: (!any).then_some(name) }
            }
            Listener::Unix(listener, _) => {
                Door { listener: OnRuntime::Unix(UnixListener::from_std(listener)?), name: Some(name) }
            }
        })
    }

    /// The address a connection came in at, as its client knows it.
    pub(crate) fn local(&self, stream: &Stream) -> Arc<str> {
        match (&self.name, stream) {
            (Some(name), _) => name.clone(),
            (None, Stream::Tcp(stream)) => {
                stream.local_addr().map(|address| address.to_string()).unwrap_or_default().into()
            }
            (None, Stream::Unix(_)) => Arc::default(),
        }
    }

    /// The next connection, and its address where it has one (TCP).
    pub(crate) async fn next(&self) -> (Stream, Option<SocketAddr>) {
        loop {
            let accepted = match &self.listener {
                OnRuntime::Tcp(listener) => {
                    listener.accept().await.map(|(stream, peer)| (Stream::Tcp(stream), Some(peer)))
                }
                OnRuntime::Unix(listener) => {
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
