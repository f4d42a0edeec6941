//! One Larder renders, the others wait: a short lease in the fleet.
//!
//! A Larder that finds a page nowhere takes its lease, by an `add` that only one can win, and asks
//! the origin. The others look for the page repeatedly, at most as long as a lease lasts. The lease
//! is deleted when the page has been sent. If the page will not be sent, a marker replaces the
//! lease, so that all who wait ask the origin at once.
//!
//! A holder that dies delays others at most for the time of the lease; a fleet that does not answer
//! delays nobody.

use std::{rc::Rc, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::oneshot,
    task::spawn_local,
    time::{sleep, timeout_at},
};

use super::{Answer, Remote, key};
use crate::clock::instant;

/// The first and the longest pause between two lookups; each is one and a half times the previous
/// one.
const FIRST_LOOK: Duration = Duration::from_millis(10);
const LAST_LOOK: Duration = Duration::from_millis(200);
/// The marker in place of a lease: the page is not shared. Memcached counts in seconds.
const NOT_SHARED: &[u8] = b"not shared";
const NOT_SHARED_FOR: Duration = Duration::from_secs(1);

/// A held lease. It goes to the sender of the page; if it is dropped before, the page will not be
/// sent.
pub(crate) struct Lease {
    remote: Rc<Remote>,
    name: Vec<u8>,
    /// The value in the fleet, unique for each holder.
    token: Bytes,
    sent: bool,
}

/// The result of a request for a lease.
pub(crate) enum LeaseResult {
    /// The lease is ours, or there is none: ask the origin.
    Origin(Option<Lease>),
    /// Another Larder has rendered the page.
    Shared(Answer),
}

impl Lease {
    /// The page has been sent.
    pub(crate) fn sent(mut self) {
        self.sent = true;
    }

    /// All clients have left: the next request may have the lease.
    fn left(mut self) {
        self.sent = true;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let (remote, name, sent) = (self.remote.clone(), std::mem::take(&mut self.name), self.sent);
        let token = std::mem::take(&mut self.token);
        spawn_local(async move {
            // The result does not matter: the lease ends by itself.
            if sent {
                let _ = remote.backend.release(&name, &token).await;
            } else {
                let word = Bytes::from_static(NOT_SHARED);
                let _ = remote.backend.set(&name, word, NOT_SHARED_FOR).await;
            }
        });
    }
}

impl Remote {
    /// Takes the lease of a key, or waits for the page of its holder. `look` looks the page up.
    pub(crate) async fn turn<L>(self: &Rc<Self>, key: &[u8], look: impl Fn() -> L) -> LeaseResult
    where
        L: Future<Output = Answer>,
    {
        let settings = self.settings();
        if settings.lease.is_zero() || settings.read_only {
            return LeaseResult::Origin(None);
        }
        let name = key::lease(&settings.namespace, key);
        let end = instant() + settings.lease;
        let mut waited = false;
        let mut pause = FIRST_LOOK;
        loop {
            match timeout_at(end, self.take_lease(&name)).await {
                Ok(Some(Some(lease))) => {
                    self.counters.leases.one();
                    // The page may have been sent between our lookup and the lease.
                    return match if waited {
                        timeout_at(end, look()).await
                    } else {
                        Ok(Answer::Nothing)
                    } {
                        Ok(answer @ Answer::Record(_)) => {
                            lease.sent();
                            LeaseResult::Shared(answer)
                        }
                        _ => LeaseResult::Origin(Some(lease)),
                    };
                }
                Ok(Some(None)) => {}
                Ok(None) | Err(_) => break,
            }
            if !std::mem::replace(&mut waited, true) {
                self.counters.waits.one();
            }
            sleep(pause.min(end.saturating_duration_since(instant()))).await;
            pause = (pause * 3 / 2).min(LAST_LOOK);
            match timeout_at(end, look()).await {
                Ok(Answer::Nothing) => {}
                Ok(answer @ Answer::Record(_)) => return LeaseResult::Shared(answer),
                Ok(Answer::Failed) | Err(_) => break,
            }
            match timeout_at(end, self.backend.get(&name)).await {
                Ok(Ok(Some(word))) if word == NOT_SHARED => break,
                Ok(Ok(_)) => {}
                Ok(Err(_)) | Err(_) => break,
            }
        }
        self.counters.waits_over.one();
        LeaseResult::Origin(None)
    }

    /// Takes the lease, if it is free. None: the fleet does not answer.
    async fn take_lease(self: &Rc<Self>, name: &[u8]) -> Option<Option<Lease>> {
        let (told, taken) = oneshot::channel();
        let (remote, name) = (self.clone(), name.to_vec());
        // In a task of its own: the client may leave, and the lease must not remain without a
        // holder.
        spawn_local(async move {
            let token =
                Bytes::from(format!("held {:016x}{:016x}", remote.random(), remote.random()));
            let added =
                remote.backend.add(&name, token.clone(), remote.settings().lease).await.ok();
            let lease = |added: bool| added.then(|| Lease { remote, name, token, sent: false });
            if let Err(Some(Some(lease))) = told.send(added.map(lease)) {
                lease.left();
            }
        });
        taken.await.ok().flatten()
    }
}
