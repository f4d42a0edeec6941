//! The clients of a face: who is connected, and a way to reach them from any thread.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
    task::Waker,
};

use parking_lot::Mutex;
use tokio::sync::{Notify, futures::Notified};

use crate::{
    clock::Ms,
    room::{Holder, Place, Room},
};

/// Where a client comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Over TCP.
    Tcp(SocketAddr),
    /// One that sent a datagram.
    Udp(SocketAddr),
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
    pub(crate) local: Arc<String>,
    /// When it connected.
    pub(crate) since: Ms,
    /// When its last batch began.
    pub(crate) active: AtomicU64,
    /// The command phase of its session, in numbers of the face's own; 0: none. For statistics.
    pub(crate) phase: AtomicU8,
    /// Where what it holds is counted.
    pub(crate) holder: Arc<Holder>,
    /// See [`Client::call`].
    called: AtomicBool,
    stays: AtomicBool,
    /// Bytes from others.
    mail: Mutex<Vec<u8>>,
    /// There is something in the mail: looked at without the lock.
    has_mail: AtomicBool,
}

impl Client {
    /// Bytes to be sent to this client between its answers, from any thread. False when more than
    /// `limit` bytes would wait, when there is no [`Room`] for them, or when it is gone: nothing
    /// was added then.
    pub(crate) fn push(&self, bytes: &[u8], limit: usize) -> bool {
        // Before the lock is taken: room may be made by closing others, which takes theirs.
        let len = bytes.len() as u64;
        if self.is_killed() || !self.holder.room().take_mail(&self.holder, len) {
            return false;
        }
        let mut mail = self.mail.lock();
        // It may have been closed meanwhile: what is added now would never be taken.
        if mail.len() + bytes.len() > limit || self.is_killed() {
            drop(mail);
            self.holder.room().give(&self.holder, Place::Heap, len);
            return false;
        }
        mail.extend_from_slice(bytes);
        let had_mail = self.has_mail.swap(true, Ordering::AcqRel);
        drop(mail);
        // If there was mail before, the connection is woken already, and takes this with it.
        if !had_mail {
            self.holder.wake();
        }
        true
    }

    /// Borrows what mail has taken; see [`Room::settle`].
    pub(super) fn settle(&self) {
        self.holder.room().settle();
    }

    /// Bytes waiting to be sent to it from others.
    pub(crate) fn waiting(&self) -> usize {
        self.mail.lock().len()
    }

    /// Closes its connection, from any thread. Mail that waits is dropped.
    pub(crate) fn kill(&self) {
        self.holder.kill();
    }

    /// A command of this client that was put off may be tried again, at once. From any thread.
    pub(crate) fn call(&self) {
        self.called.store(true, Ordering::Release);
        self.holder.wake();
    }

    /// Was it called since this was asked last?
    pub(crate) fn take_call(&self) -> bool {
        self.called.load(Ordering::Acquire) && self.called.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.holder.is_killed()
    }

    /// True: it waits for what others send (a subscriber, a watcher), and is not closed for its
    /// silence.
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
            let mut bytes = std::mem::take(&mut *mail);
            drop(mail);
            self.holder.room().give(&self.holder, Place::Heap, bytes.len() as u64);
            into.append(&mut bytes);
        }
    }

    /// Notes progress: the client has sent or taken enough to be no burden.
    pub(crate) fn moves(&self, now: Ms) {
        self.holder.moves(now);
    }

    /// Bytes it holds.
    #[cfg(test)]
    pub(crate) fn held(&self) -> u64 {
        self.holder.held()
    }

    /// Calls `waker` from now on when there is mail, or the connection is to be closed. Ask for
    /// both after this.
    pub(crate) fn register(&self, waker: &Waker) {
        self.holder.register(waker);
    }

    /// Its connection has ended: nothing reaches it any more.
    fn end(&self) {
        self.holder.kill();
        let mail = std::mem::take(&mut *self.mail.lock());
        self.holder.room().give(&self.holder, Place::Heap, mail.len() as u64);
    }
}

/// All clients of a face.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    room: Arc<Room>,
    all: Mutex<HashMap<u64, Arc<Client>>>,
    next: AtomicU64,
    open: AtomicUsize,
    /// Told when one leaves: for who waits for a place.
    left: Notify,
}

impl Clients {
    /// An empty list. The bytes that clients hold are counted in `room`.
    pub(crate) fn new(room: &Arc<Room>) -> Arc<Self> {
        Self::numbered_from(room, 0)
    }

    /// Of a face whose listening sockets have the first `taken` numbers: clients are numbered on.
    pub(crate) fn numbered_from(room: &Arc<Room>, taken: u64) -> Arc<Self> {
        Arc::new(Self { next: AtomicU64::new(taken), room: room.clone(), ..Self::default() })
    }

    /// Where what they hold is counted.
    pub(crate) fn room(&self) -> &Arc<Room> {
        &self.room
    }

    /// A new client. It leaves with [`Clients::leave`].
    pub(crate) fn enter(&self, peer: Peer, local: impl Into<String>, now: Ms) -> Arc<Client> {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.insert(peer, Arc::new(local.into()), now)
    }

    /// The same if fewer than `limit` are open.
    pub(crate) fn enter_below(
        &self,
        limit: usize,
        peer: Peer,
        local: &Arc<String>,
        now: Ms,
    ) -> Option<Arc<Client>> {
        let more = |open| (open < limit).then_some(open + 1);
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(self.insert(peer, local.clone(), now))
    }

    fn insert(&self, peer: Peer, local: Arc<String>, now: Ms) -> Arc<Client> {
        let client = Arc::new(Client {
            id: self.next.fetch_add(1, Ordering::Relaxed) + 1,
            peer,
            local,
            since: now,
            active: AtomicU64::new(now),
            phase: AtomicU8::new(0),
            holder: self.room.enter(),
            called: AtomicBool::new(false),
            stays: AtomicBool::new(false),
            mail: Mutex::default(),
            has_mail: AtomicBool::new(false),
        });
        self.all.lock().insert(client.id, client.clone());
        client
    }

    pub(crate) fn leave(&self, client: &Client) {
        client.end();
        self.room.leave(&client.holder);
        if self.all.lock().remove(&client.id).is_some() {
            self.open.fetch_sub(1, Ordering::Relaxed);
            self.left.notify_waiters();
        }
    }

    /// Ends at the next [`Clients::leave`] or [`Clients::look_again`] after this call (not after
    /// the first poll).
    pub(crate) fn left(&self) -> Notified<'_> {
        self.left.notified()
    }

    /// Connections that wait for a place look again: the limit has changed.
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
