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
    mail: Mutex<Mail>,
    /// There is something in the mail: looked at without the lock.
    has_mail: AtomicBool,
}

#[derive(Debug, Default)]
struct Mail {
    bytes: Vec<u8>,
    waker: Option<Waker>,
}

impl Client {
    /// Bytes to be sent to this client between its answers, from any thread. False when more than `limit` bytes would
    /// wait: nothing was added then.
    pub(crate) fn push(&self, bytes: &[u8], limit: usize) -> bool {
        let mut mail = self.mail.lock();
        if mail.bytes.len() + bytes.len() > limit {
            return false;
        }
        mail.bytes.extend_from_slice(bytes);
        self.has_mail.store(true, Ordering::Release);
        let waker = mail.waker.take();
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

    /// Closes its connection, from any thread.
    pub(crate) fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        let waker = self.mail.lock().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// Takes what others sent, into `into`.
    pub(crate) fn take_mail(&self, into: &mut Vec<u8>) {
        if self.has_mail.swap(false, Ordering::AcqRel) {
            into.append(&mut self.mail.lock().bytes);
        }
    }

    /// Is there something to be sent, or is it to be closed? If not, `waker` is called when there is.
    pub(crate) fn called(&self, waker: &Waker) -> bool {
        let mut mail = self.mail.lock();
        if self.is_killed() || !mail.bytes.is_empty() {
            return true;
        }
        match &mail.waker {
            Some(known) if known.will_wake(waker) => {}
            _ => mail.waker = Some(waker.clone()),
        }
        false
    }
}

/// All clients of a face.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    all: Mutex<HashMap<u64, Arc<Client>>>,
    next: AtomicU64,
    open: AtomicUsize,
}

impl Clients {
    /// A new client. It leaves with [`Clients::leave`].
    pub(crate) fn enter(&self, peer: Peer, local: Arc<str>, now: Ms) -> Arc<Client> {
        let client = Arc::new(Client {
            id: self.next.fetch_add(1, Ordering::Relaxed) + 1,
            peer,
            local,
            since: now,
            active: AtomicU64::new(now),
            killed: AtomicBool::new(false),
            mail: Mutex::default(),
            has_mail: AtomicBool::new(false),
        });
        self.all.lock().insert(client.id, client.clone());
        self.open.fetch_add(1, Ordering::Relaxed);
        client
    }

    pub(crate) fn leave(&self, client: &Client) {
        if self.all.lock().remove(&client.id).is_some() {
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Open now.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    pub(crate) fn get(&self, id: u64) -> Option<Arc<Client>> {
        self.all.lock().get(&id).cloned()
    }

    /// All of them, oldest first.
    pub(crate) fn list(&self) -> Vec<Arc<Client>> {
        let mut all: Vec<_> = self.all.lock().values().cloned().collect();
        all.sort_unstable_by_key(|client| client.id);
        all
    }
}
