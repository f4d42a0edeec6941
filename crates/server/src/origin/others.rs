//! Clients that wait for the answer to another client's request.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::Notify;

use crate::net::network;

/// Whether clients of other networks wait for the answer to a request. Then the request is not held
/// back for what its own client has under way ([`super::queue::Shares`]).
#[derive(Debug, Default)]
pub struct Others {
    /// The network of the client that asked first; None: Larder's own request.
    client: Option<IpAddr>,
    waiting: AtomicBool,
    came: Notify,
}

impl Others {
    /// Nobody waits yet for the answer to the request of this client.
    pub(crate) fn new(client: Option<IpAddr>) -> Arc<Self> {
        let client = client.map(|client| network(client, 32, 64));
        Arc::new(Self { client, ..Self::default() })
    }

    /// Notes a client that waits for the same answer.
    pub(crate) fn note(&self, client: IpAddr) {
        if self.client != Some(network(client, 32, 64)) {
            self.waiting.store(true, Ordering::Release);
            self.came.notify_waiters();
        }
    }

    /// Whether one of another network waits.
    pub(super) fn wait(&self) -> bool {
        self.waiting.load(Ordering::Acquire)
    }

    /// Returns once one of another network waits.
    pub(super) async fn come(&self) {
        let mut came = std::pin::pin!(self.came.notified());
        // Before it is looked, so that none is missed.
        came.as_mut().enable();
        if !self.wait() {
            came.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn clients_of_the_same_network_are_no_others() {
        let [one, same, other] =
            ["2001:db8::1", "2001:db8::2", "192.0.2.1"].map(|a| a.parse().expect("an address"));
        let others = Others::new(Some(one));
        others.note(same);
        assert!(!others.wait());
        let noting = async { others.note(other) };
        tokio::join!(others.come(), noting);
        others.come().await;
        assert!(others.wait());
    }
}
