//! Those who hold memory, and what each holds.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    task::{Poll, Waker},
    time::Duration,
};

use parking_lot::Mutex;

use super::{Place, Room, STANDS_STILL};
use crate::clock::Ms;

/// Interval and number of the tries of one who waits for room: long enough for those who stand
/// still to count as such, and to leave.
const TRY_AGAIN: Duration = Duration::from_millis(50);
const TRIES: u64 = 3 * STANDS_STILL / (2 * TRY_AGAIN.as_millis() as u64);

/// Somebody who holds memory: a client, or a fetch whose clients do not read.
#[derive(Debug)]
pub(crate) struct Holder {
    pub(super) id: u64,
    room: Arc<Room>,
    pub(super) account: Account,
    moved: AtomicU64,
    /// Since when it waits for this server; 0: it does not.
    waits_since: AtomicU64,
    killed: AtomicBool,
    /// Called when it has to leave.
    waker: Mutex<Option<Waker>>,
}

impl Holder {
    pub(super) fn new(id: u64, room: &Arc<Room>, now: Ms) -> Arc<Self> {
        Arc::new(Self {
            id,
            room: room.clone(),
            account: Account::default(),
            moved: AtomicU64::new(now),
            waits_since: AtomicU64::new(0),
            killed: AtomicBool::new(false),
            waker: Mutex::default(),
        })
    }

    /// Its account.
    pub(crate) fn room(&self) -> &Room {
        &self.room
    }

    /// Notes progress: the client has sent or taken enough to be no burden.
    pub(crate) fn moves(&self, now: Ms) {
        self.moved.store(now, Relaxed);
    }

    /// It waits for this server from now on and owes nothing, or it does not any more. That time
    /// does not count as one without progress.
    pub(crate) fn waits(&self, waits: bool) {
        let now = self.room.clock.now();
        if waits {
            // The time 0 is that of the start.
            let _ = self.waits_since.compare_exchange(0, now.max(1), Relaxed, Relaxed);
            return;
        }
        let since = self.waits_since.swap(0, Relaxed);
        if since > 0 {
            let moved = self.moved.load(Relaxed) + now.saturating_sub(since);
            self.moved.store(moved.min(now), Relaxed);
        }
    }

    /// When it last got on; the end of time while it waits for this server.
    pub(super) fn moved(&self) -> Ms {
        let waits = self.waits_since.load(Relaxed) > 0;
        if waits { Ms::MAX } else { self.moved.load(Relaxed) }
    }

    /// It has to leave, and gives back what it holds. From any thread.
    pub(crate) fn kill(&self) {
        self.killed.store(true, Release);
        self.wake();
    }

    /// Calls the registered waker.
    pub(crate) fn wake(&self) {
        let waker = self.waker.lock().clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.killed.load(Acquire)
    }

    /// Calls `waker` from now on when it has to leave. Ask for that after this.
    pub(crate) fn register(&self, waker: &Waker) {
        *self.waker.lock() = Some(waker.clone());
    }

    /// Ends when it has to leave. Of one task only.
    pub(crate) async fn killed(&self) {
        poll_fn(|cx| {
            self.register(cx.waker());
            if self.is_killed() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await
    }

    /// Bytes it holds.
    #[cfg(test)]
    pub(crate) fn held(&self) -> u64 {
        self.account.held()
    }
}

/// Bytes that one client holds.
#[derive(Debug, Default)]
pub(super) struct Account(Mutex<Sums>);

#[derive(Debug, Default)]
struct Sums {
    /// By [`Place`].
    bytes: [u64; 2],
    /// It was told to leave, and holds nothing more.
    closed: bool,
}

impl Account {
    /// True: it held nothing before. None: it is closed.
    pub(super) fn add(&self, (all, place): (&AtomicU64, usize), bytes: u64) -> Option<bool> {
        let mut holding = self.0.lock();
        if holding.closed {
            return None;
        }
        let first = holding.bytes == [0; 2];
        holding.bytes[place] += bytes;
        all.fetch_add(bytes, Relaxed);
        Some(first)
    }

    pub(super) fn sub(
        &self,
        (all, place): (&AtomicU64, usize),
        leaving: &[AtomicU64; 2],
        bytes: u64,
    ) {
        let mut holding = self.0.lock();
        holding.bytes[place] -= bytes;
        all.fetch_sub(bytes, Relaxed);
        if holding.closed {
            leaving[place].fetch_sub(bytes, Relaxed);
        }
    }

    /// Bytes of a client that stays; 0 of one that was told to leave.
    pub(super) fn held(&self) -> u64 {
        let holding = self.0.lock();
        if holding.closed { 0 } else { holding.bytes.iter().sum() }
    }

    /// False: it was closed before.
    pub(super) fn close(&self, leaving: &[AtomicU64; 2]) -> bool {
        let mut holding = self.0.lock();
        let first = !std::mem::replace(&mut holding.closed, true);
        if first {
            for (all, bytes) in leaving.iter().zip(holding.bytes) {
                all.fetch_add(bytes, Relaxed);
            }
        }
        first
    }
}

/// A client's bytes for one purpose; given back when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    holder: Arc<Holder>,
    place: Place,
    bytes: u64,
}

impl Held {
    pub(crate) fn new(holder: &Arc<Holder>, place: Place) -> Self {
        Self { holder: holder.clone(), place, bytes: 0 }
    }

    pub(crate) fn holder(&self) -> &Arc<Holder> {
        &self.holder
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// It is so many bytes from now on. False: that is more than it may be, and it is as before.
    #[inline]
    pub(crate) fn resize(&mut self, bytes: u64) -> bool {
        self.bytes == bytes || self.change(bytes)
    }

    /// The same, and waits for clients that have to leave for it. False: they have not in time.
    pub(crate) async fn wait_for(&mut self, bytes: u64) -> bool {
        for _ in 0..TRIES {
            if self.resize(bytes) {
                return true;
            }
            tokio::time::sleep(TRY_AGAIN).await;
        }
        self.resize(bytes)
    }

    /// There is no room for its client, which has to leave.
    pub(crate) fn close(&self) {
        self.holder.room.close(&self.holder);
    }

    pub(super) fn change(&mut self, bytes: u64) -> bool {
        let room = &self.holder.room;
        match bytes.checked_sub(self.bytes) {
            Some(more) => {
                if !room.take(&self.holder, self.place, more) {
                    return false;
                }
            }
            None => room.give(&self.holder, self.place, self.bytes - bytes),
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.resize(0);
    }
}

/// A holder with one purpose, which leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Holding {
    held: Held,
}

impl Holding {
    /// A new holder of nothing.
    pub(crate) fn new(room: &Arc<Room>) -> Self {
        Self { held: Held::new(&room.enter(), Place::Heap) }
    }

    pub(crate) fn holder(&self) -> &Arc<Holder> {
        &self.held.holder
    }

    /// See [`Held::resize`].
    pub(crate) fn resize(&mut self, bytes: u64) -> bool {
        self.held.resize(bytes)
    }

    /// See [`Held::wait_for`].
    pub(crate) async fn wait_for(&mut self, bytes: u64) -> bool {
        self.held.wait_for(bytes).await
    }

    /// Notes progress now; see [`Holder::moves`].
    pub(crate) fn moves(&self) {
        let holder = self.holder();
        holder.moves(holder.room.clock.now());
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let holder = self.holder().clone();
        holder.room.leave(&holder);
    }
}
