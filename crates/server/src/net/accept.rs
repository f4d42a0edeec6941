//! Accepting connections.

use std::{
    cell::Cell, future::poll_fn, io, net::SocketAddr, os::fd::OwnedFd, rc::Rc, sync::Arc,
    time::Duration,
};

use rustix::net::{SocketFlags, acceptfrom_with};
use tokio::sync::Notify;

use super::{
    descriptors,
    listen::Listener,
    reactor::{READ, Reactor, Registered},
    stream::{Kind, Stream},
};

/// After `accept` failed for want of descriptors or memory, how long to leave the queue to the
/// kernel.
const PAUSE: Duration = Duration::from_millis(50);

/// Whether a listener is to be closed while its face goes on.
#[derive(Default)]
pub(crate) struct Closing {
    closed: Cell<bool>,
    told: Notify,
}

impl Closing {
    /// The listener takes what has come so far, and is closed then.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.told.notify_one();
    }
}

/// Where connections of one address come in, on a worker's own runtime.
pub(crate) struct Acceptor {
    reactor: Rc<Reactor>,
    registered: Registered,
    listener: OwnedFd,
    kind: Kind,
    /// The address as clients are told it; None: any of the machine's, each connection knows its
    /// own.
    name: Option<Arc<String>>,
}

impl Drop for Acceptor {
    /// Other processes, and the main thread, may have the socket too.
    fn drop(&mut self) {
        self.reactor.forget(&self.listener);
    }
}

impl Acceptor {
    pub(crate) fn open(listener: Listener, reactor: &Rc<Reactor>) -> io::Result<Acceptor> {
        let name = listener.name()?.into();
        let (listener, kind, any) = match listener {
            Listener::Tcp(listener) => {
                let any = listener.local_addr()?.ip().is_unspecified();
                (OwnedFd::from(listener), Kind::Tcp, any)
            }
            Listener::Unix(listener, _) => (listener.into(), Kind::Unix, false),
        };
        rustix::io::ioctl_fionbio(&listener, true)?;
        let registered = reactor.register(&listener)?;
        Ok(Acceptor {
            reactor: reactor.clone(),
            registered,
            listener,
            kind,
            name: (!any).then_some(name),
        })
    }

    /// The address a connection came in at, as its client knows it.
    pub(crate) fn local(&self, stream: &Stream) -> Arc<String> {
        match &self.name {
            Some(name) => name.clone(),
            None => {
                stream.local_addr().map(|address| address.to_string()).unwrap_or_default().into()
            }
        }
    }

    /// The next connection, and its address where it has one (TCP).
    pub(crate) async fn next(&self) -> (Stream, Option<SocketAddr>) {
        loop {
            match self.accept() {
                Ok(accepted) => return accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.registered.source.none_left(READ);
                    poll_fn(|cx| self.registered.source.poll(READ, cx)).await;
                }
                Err(error) if connection_failed(&error) => {}
                Err(error) => {
                    descriptors::failed(&error);
                    tokio::time::sleep(PAUSE).await;
                }
            }
            // A flood of connections leaves others their turn.
            tokio::task::coop::consume_budget().await;
        }
    }

    /// The next connection; None: the listener is to be closed, and no connection is left in it,
    /// which the system would reset.
    pub(crate) async fn next_until(
        &self,
        closing: &Closing,
    ) -> Option<(Stream, Option<SocketAddr>)> {
        if !closing.closed.get() {
            tokio::select! {
                biased;
                () = closing.told.notified() => {}
                accepted = self.next() => return Some(accepted),
            }
        }
        loop {
            match self.accept() {
                Ok(accepted) => return Some(accepted),
                Err(error) if connection_failed(&error) => {}
                Err(_) => return None,
            }
        }
    }

    fn accept(&self) -> io::Result<(Stream, Option<SocketAddr>)> {
        let (socket, peer) =
            acceptfrom_with(&self.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
        let peer =
            if self.kind == Kind::Tcp { peer.and_then(|peer| peer.try_into().ok()) } else { None };
        Ok((Stream::new(&self.reactor, socket, self.kind)?, peer))
    }
}

/// Errors of the connection that was to be accepted, not of the listener (accept(2)).
fn connection_failed(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
