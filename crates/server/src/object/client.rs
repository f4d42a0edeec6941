//! The clients of a face: who is connected, and a way to reach them from any thread.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::Waker,
};

use parking_lot::Mutex;
use tokio::sync::{Notify, futures::Notified};

use crate::clock::Ms;

/// Where a client comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Over TCP.
    Tcp(SocketAddr),
    /// Over a unix socket.
    Unix,
}

/// One connected client.
#[derive(Debug)]
pub(crate) struct Client {
    /// Unique in the process.
    pub(crate) id: u64,
    /// Where from.
    pub(crate) peer: Peer,
    /// The address it connected to, as text (`127.0.0.1:6379`, `/run/larder.sock`).
    pub(crate) local: Arc<str>,
    /// When it connected.
    pub(crate) since: Ms,
    /// When its last batch began.
    pub(crate) active: AtomicU64,
    killed: AtomicBool,
    stays: AtomicBool,
    mail: Mutex<Mail>,
    /// There is something in the mail: looked at without the lock.
    has_mail: AtomicBool,
}

#[derive(Debug, Default)]
struct Mail {
    bytes: Vec<u8>,
    /// The connection's task: stays registered for the connection's life, so that waiting costs no lock.
    waker: Option<Waker>,
}

impl Client {
    /// Bytes to be sent to this client between its answers, from any thread. False when more than `limit` bytes would
    /// wait, or when it is gone: nothing was added then.
    pub(crate) fn push(&self, bytes: &[u8], limit: usize) -> bool {
        if self.is_killed() {
            return false;
        }
        let mut mail = self.mail.lock();
        if mail.bytes.len() + bytes.len() > limit {
            return false;
        }
        mail.bytes.extend_from_slice(bytes);
        // Who found mail there before has woken the connection: it will take this with it.
        let waker = if self.has_mail.swap(true, Ordering::AcqRel) { None } else { mail.waker.clone() };
        drop(mail);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Bytes waiting to be sent to it from others.
    pub(crate) fn waiting(&self) -> usize {
        self.mail.lock().bytes.len()
    }

    /// Closes its connection, from any thread. What waits to be sent to it is dropped.
    pub(crate) fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        let waker = self.mail.lock().waker.clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// True: it waits for what others send (a subscriber, a watcher), and is not closed for its silence.
    pub(crate) fn set_stays(&self, stays: bool) {
        self.stays.store(stays, Ordering::Relaxed);
    }

    pub(crate) fn stays(&self) -> bool {
        self.stays.load(Ordering::Relaxed)
    }

    /// Is there something from others to be sent?
    pub(crate) fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::Acquire)
    }

    /// Takes what others sent, into `into`.
    pub(crate) fn take_mail(&self, into: &mut Vec<u8>) {
        if self.has_mail() {
            let mut mail = self.mail.lock();
            self.has_mail.store(false, Ordering::Release);
            into.append(&mut mail.bytes);
        }
    }

    /// Calls `waker` from now on when there is mail, or the connection is to be closed. Ask for both after this.
    pub(crate) fn register(&self, waker: &Waker) {
        self.mail.lock().waker = Some(waker.clone());
    }

    /// Its connection has ended: nothing reaches it any more.
    fn end(&self) {
        self.killed.store(true, Ordering::Release);
        *self.mail.lock() = Mail::default();
    }
}

/// All clients of a face.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    all: Mutex<HashMap<u64, Arc<Client>>>,
    next: AtomicU64,
    open: AtomicUsize,
    /// Told when one leaves: for who waits for a place.
    left: Notify,
}

impl Clients {
    /// A new client. It leaves with [`Clients::leave`].
    pub(crate) fn enter(&self, peer: Peer, local: Arc<str>, now: Ms) -> Arc<Client> {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.insert(peer, local, now)
    }

    /// The same if fewer than `limit` are open.
    pub(crate) fn enter_below(
        &self,
        limit: usize,
        peer: Peer,
        local: &Arc<str>,
        now: Ms,
    ) -> Option<Arc<Client>> {
        let more = |open| (open < limit).then_some(open + 1);
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(self.insert(peer, local.clone(), now))
    }

    fn insert(&self, peer: Peer, local: Arc<str>, now: Ms) -> Arc<Client> {
        let client = Arc::new(Client {
            id: self.next.fetch_add(1, Ordering::Relaxed) + 1,
            peer,
            local,
            since: now,
            active: AtomicU64::new(now),
            killed: AtomicBool::new(false),
            stays: AtomicBool::new(false),
            mail: Mutex::default(),
            has_mail: AtomicBool::new(false),
        });
        self.all.lock().insert(client.id, client.clone());
        client
    }

    pub(crate) fn leave(&self, client: &Client) {
        client.end();
        if self.all.lock().remove(&client.id).is_some() {
            self.open.fetch_sub(1, Ordering::Relaxed);
            self.left.notify_waiters();
        }
    }

    /// Ends at the next [`Clients::leave`] or [`Clients::look_again`] after this call (not after the first poll).
    pub(crate) fn left(&self) -> Notified<'_> {
        self.left.notified()
    }

    /// Who waits for a place may look again: the limit has changed.
    pub(crate) fn look_again(&self) {
        self.left.notify_waiters();
    }

    /// Open now.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// All of them, oldest first.
    pub(crate) fn list(&self) -> Vec<Arc<Client>> {
        let mut all: Vec<_> = self.all.lock().values().cloned().collect();
        all.sort_unstable_by_key(|client| client.id);
        all
    }
}
