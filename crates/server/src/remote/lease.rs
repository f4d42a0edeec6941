//! One Larder renders, the others wait: a short lease in the fleet.
//!
//! Whoever finds a page nowhere takes its lease, by an `add` that only one can win, and asks the
//! origin. Who does not get it looks for the page now and then, for as long as a lease lasts at
//! most. The lease goes when the page has been sent. A page that will not be sent leaves a word in
//! its place, so that those who wait ask the origin at once, all of them.
//!
//! A holder that dies holds nobody up for longer than the lease; a fleet that does not answer holds
//! nobody up.

use std::{rc::Rc, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::oneshot,
    task::spawn_local,
    time::{sleep, timeout_at},
};

use super::{Answer, Remote, key};
use crate::clock::instant;

/// The first pause between two looks; each is half as long again as the one before, up to the last.
const FIRST_LOOK: Duration = Duration::from_millis(10);
const LAST_LOOK: Duration = Duration::from_millis(200);
/// What lies in a lease's place where the page is not for others. Memcached counts in seconds.
const NOT_SHARED: &[u8] = b"not shared";
const NOT_SHARED_FOR: Duration = Duration::from_secs(1);

/// A lease that is held. To be given to whoever sends the page; dropped before that it says that
/// nobody will.
pub(crate) struct Lease {
    remote: Rc<Remote>,
    name: Vec<u8>,
    /// What lies there: of no other holder, here or elsewhere.
    token: Bytes,
    sent: bool,
}

/// What came of asking for a lease.
pub(crate) enum Turn {
    /// It is ours, or there is none to be had: ask the origin.
    Origin(Option<Lease>),
    /// Another Larder has rendered the page.
    Shared(Answer),
}

impl Lease {
    /// The page has been sent.
    pub(crate) fn sent(mut self) {
        self.sent = true;
    }

    /// Nobody wants it any more: the next one who asks may have it.
    fn left(mut self) {
        self.sent = true;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let (remote, name, sent) = (self.remote.clone(), std::mem::take(&mut self.name), self.sent);
        let token = std::mem::take(&mut self.token);
        spawn_local(async move {
            // Whatever becomes of it: the lease ends by itself.
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
    /// Takes the lease of a key, or waits for the page that whoever has it renders. `look` looks
    /// for the page.
    pub(crate) async fn turn<L>(self: &Rc<Self>, key: &[u8], look: impl Fn() -> L) -> Turn
    where
        L: Future<Output = Answer>,
    {
        let settings = self.settings();
        if settings.lease.is_zero() || settings.read_only {
            return Turn::Origin(None);
        }
        let name = key::lease(&settings.namespace, key);
        let end = instant() + settings.lease;
        let mut waited = false;
        let mut pause = FIRST_LOOK;
        loop {
            match timeout_at(end, self.take_lease(&name)).await {
                Ok(Some(Some(lease))) => {
                    self.counters.leases.one();
                    // It may have been sent between our look and the lease.
                    return match if waited { timeout_at(end, look()).await } else { Ok(Answer::Nothing) } {
                        Ok(answer @ Answer::Record(_)) => {
                            lease.sent();
                            Turn::Shared(answer)
                        }
                        _ => Turn::Origin(Some(lease)),
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
                Ok(answer @ Answer::Record(_)) => return Turn::Shared(answer),
                Ok(Answer::Failed) | Err(_) => break,
            }
            match timeout_at(end, self.backend.get(&name)).await {
                Ok(Ok(Some(word))) if word == NOT_SHARED => break,
                Ok(Ok(_)) => {}
                Ok(Err(_)) | Err(_) => break,
            }
        }
        self.counters.waits_over.one();
        Turn::Origin(None)
    }

    /// The lease, if it was to be had. None: the fleet does not answer.
    async fn take_lease(self: &Rc<Self>, name: &[u8]) -> Option<Option<Lease>> {
        let (told, taken) = oneshot::channel();
        let (remote, name) = (self.clone(), name.to_vec());
        // By a task of its own: who asked may leave, and the lease must not be held by nobody.
        spawn_local(async move {
            let token = Bytes::from(format!("held {:016x}{:016x}", remote.random(), remote.random()));
            let added = remote.backend.add(&name, token.clone(), remote.settings().lease).await.ok();
            let lease = |added: bool| added.then(|| Lease { remote, name, token, sent: false });
            if let Err(Some(Some(lease))) = told.send(added.map(lease)) {
                lease.left();
            }
        });
        taken.await.ok().flatten()
    }
}
