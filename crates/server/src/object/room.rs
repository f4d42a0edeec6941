//! The memory that clients of the object faces may hold: commands still arriving, transactions,
//! answers and messages that are not taken. One account for all clients of all faces and workers,
//! so that no number of clients holds more than is configured.
//!
//! The first [`FREE`] bytes outside the store are on top of the memory that was configured. The
//! store lends the bytes beyond them ([`Loan`]), and holds that much less. Lent bytes and the
//! values on their way into the store together are at most half of the memory.
//!
//! At the limit clients leave, as with Redis's `maxmemory-clients`: those first that have come no
//! further for [`STANDS_STILL`], longest first; then those that hold more than the one who asks,
//! most first. Where none does, the one who asks gets nothing: its command is refused, or it is
//! closed.

use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use larder_store::{Loan, Store};
use parking_lot::Mutex;

use super::{Client, Clients};
use crate::clock::{Clock, Ms};

/// Bytes outside the store that need no loan: what thousands of clients hold for a moment in
/// ordinary use.
const FREE: u64 = 8 << 20;
/// Of the memory, one part in so many may be lent and taken by values on their way.
const PART: u64 = 2;
/// Milliseconds without progress ([`Client::moves`]) after which a client is the first to leave.
const STANDS_STILL: Ms = 2000;
/// At least this part of the limit is freed at once, so that all clients are not looked through for
/// every byte.
const AT_ONCE: u64 = 8;
/// Clients that were told to leave may hold one part in so many of the limit on top of it, until
/// they have.
const OVERSHOOT: u64 = 16;
/// Loans are taken and given back in steps of so many bytes.
const STEP: u64 = 1 << 20;

/// Where bytes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Outside the store.
    Heap,
    /// In the store, in a value on its way.
    Store,
}

/// See the module.
pub(crate) struct Room {
    heap: AtomicU64,
    store: AtomicU64,
    /// Of `heap` beyond [`FREE`] and `store` together.
    limit: u64,
    /// The longest value the store takes.
    item: u64,
    /// None: nobody lends (tests).
    loan: Option<Mutex<Loan<'static>>>,
    /// Bytes lent.
    lent: AtomicU64,
    clock: Clock,
    faces: Mutex<Vec<Weak<Clients>>>,
    /// Of `heap` and `store`: held by clients that were told to leave and have not yet.
    leaving: [AtomicU64; 2],
    /// Held by who makes room.
    making: Mutex<()>,
    /// Clients closed to make room.
    closed: AtomicU64,
}

impl Room {
    pub(crate) fn new(store: &'static Store, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            limit: store.totals().budget / PART,
            item: store.max_value(),
            loan: Some(Mutex::new(store.loan())),
            ..Self::without_store(clock)
        })
    }

    fn without_store(clock: Clock) -> Self {
        Self {
            heap: AtomicU64::new(0),
            store: AtomicU64::new(0),
            limit: u64::MAX / 2,
            item: u64::MAX / 2,
            loan: None,
            lent: AtomicU64::new(0),
            clock,
            faces: Mutex::default(),
            leaving: Default::default(),
            making: Mutex::default(),
            closed: AtomicU64::new(0),
        }
    }

    /// The clients of a face: each may have to leave for another.
    pub(crate) fn enter(&self, clients: &Arc<Clients>) {
        self.faces.lock().push(Arc::downgrade(clients));
    }

    /// The most one client can hold outside the store: a command longer than this never becomes
    /// whole.
    pub(crate) fn most(&self) -> u64 {
        self.limit + FREE
    }

    /// The longest value the store takes.
    pub(crate) fn item(&self) -> u64 {
        self.item
    }

    /// Clients closed to make room, since the start.
    pub(crate) fn closed(&self) -> u64 {
        self.closed.load(Relaxed)
    }

    /// Bytes held, outside the store and in it, by clients that stay.
    #[cfg(test)]
    pub(crate) fn held(&self) -> (u64, u64) {
        let [heap, store] = self.leaving.each_ref().map(|bytes| bytes.load(Relaxed));
        (self.heap.load(Relaxed) - heap, self.store.load(Relaxed) - store)
    }

    /// This client holds so many bytes more. False: it may not, and nothing was counted.
    pub(crate) fn take(&self, client: &Client, place: Place, bytes: u64) -> bool {
        let Some(first) = client.account.add(self.count(place), bytes) else { return false };
        if first {
            client.moves(self.clock.now());
        }
        let granted = (self.over() == 0 || self.make(client)) && self.borrow();
        if !granted {
            self.give(client, place, bytes);
        }
        granted
    }

    /// The same for mail, which is pushed under locks of those who send it. Nothing is borrowed
    /// here: an eviction would be told to others through the same locks. The connection borrows
    /// when it counts its buffers.
    pub(crate) fn take_mail(&self, client: &Client, bytes: u64) -> bool {
        let place = self.count(Place::Heap);
        let Some(first) = client.account.add(place, bytes) else { return false };
        if first {
            client.moves(self.clock.now());
        }
        let granted = self.over() == 0 || self.make(client);
        if !granted {
            client.account.sub(place, &self.leaving, bytes);
        }
        granted
    }

    /// Borrows what mail has taken since the last time. Not under a lock that a sender of mail
    /// takes.
    pub(crate) fn settle(&self) {
        if self.wanted() > self.lent.load(Relaxed) {
            self.borrow();
        }
    }

    /// It holds so many less.
    pub(crate) fn give(&self, client: &Client, place: Place, bytes: u64) {
        client.account.sub(self.count(place), &self.leaving, bytes);
        self.give_back();
    }

    fn count(&self, place: Place) -> (&AtomicU64, usize) {
        match place {
            Place::Heap => (&self.heap, 0),
            Place::Store => (&self.store, 1),
        }
    }

    /// Bytes to be lent.
    fn wanted(&self) -> u64 {
        self.heap.load(Relaxed).saturating_sub(FREE)
    }

    /// Bytes above the limit.
    fn over(&self) -> u64 {
        (self.wanted() + self.store.load(Relaxed)).saturating_sub(self.limit)
    }

    /// Bytes above the limit when all have left that were told to.
    fn excess(&self) -> u64 {
        let leaving: u64 = self.leaving.iter().map(|bytes| bytes.load(Relaxed)).sum();
        self.over().saturating_sub(leaving)
    }

    /// Has the store lend what is held beyond [`FREE`]. False: it has not as much.
    fn borrow(&self) -> bool {
        if self.wanted() <= self.lent.load(Relaxed) {
            return true;
        }
        // Somebody else borrows just now, or this thread: who hears of an eviction may send a
        // message. The next one sees to it.
        let Some(mut loan) = self.loan.as_ref().and_then(Mutex::try_lock) else { return true };
        let lent = loan.resize(self.wanted().next_multiple_of(STEP), self.clock.now());
        self.lent.store(loan.bytes(), Relaxed);
        lent.is_ok()
    }

    fn give_back(&self) {
        let keeps = self.wanted() + 4 * STEP;
        if self.lent.load(Relaxed) <= keeps {
            return;
        }
        let Some(mut loan) = self.loan.as_ref().and_then(Mutex::try_lock) else { return };
        let wanted = self.wanted().next_multiple_of(STEP).min(loan.bytes());
        // Less than before: it does not fail.
        let _ = loan.resize(wanted, self.clock.now());
        self.lent.store(loan.bytes(), Relaxed);
    }

    /// Closes clients until this one has its room. False: there is nobody to close for it, or those
    /// that are closed still hold too much: their memory is free when their threads have come to
    /// them.
    #[cold]
    fn make(&self, asks: &Client) -> bool {
        let _making = self.making.lock();
        (self.excess() == 0 || self.close_others(asks)) && self.over() <= self.limit / OVERSHOOT
    }

    fn close_others(&self, asks: &Client) -> bool {
        let faces: Vec<_> = self.faces.lock().iter().filter_map(Weak::upgrade).collect();
        let now = self.clock.now();
        let others = faces.iter().flat_map(|clients| clients.list());
        let mut others: Vec<_> = others
            .filter(|other| !std::ptr::eq(&**other, asks) && other.account.held() > 0)
            .map(|other| (other.moved(), other.account.held(), other))
            .collect();
        others.sort_unstable_by_key(|(moved, ..)| *moved);
        let still = others.partition_point(|(moved, ..)| moved + STANDS_STILL <= now);
        let own = asks.account.held();
        let may_leave =
            others.iter().enumerate().filter(|(at, (_, held, _))| *at < still || *held > own);
        if may_leave.map(|(_, (_, held, _))| held).sum::<u64>() < self.excess() {
            // Nobody leaves for what is refused all the same.
            return false;
        }
        let more = self.excess() + self.limit / AT_ONCE;
        let mut freed = 0;
        for (_, held, other) in others.drain(..still) {
            if freed >= more {
                return true;
            }
            freed += held;
            self.close(&other);
        }
        others.sort_unstable_by_key(|(_, held, _)| *held);
        while self.excess() > 0 {
            match others.pop() {
                Some((_, held, other)) if held > own => self.close(&other),
                _ => return false,
            }
        }
        true
    }

    fn close(&self, client: &Client) {
        client.account.close(&self.leaving);
        client.kill();
        self.closed.fetch_add(1, Relaxed);
    }
}

impl Default for Room {
    fn default() -> Self {
        Self::without_store(Clock::start())
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room")
            .field("heap", &self.heap)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

/// Bytes that one client holds.
#[derive(Debug, Default)]
pub(super) struct Account(Mutex<Holding>);

#[derive(Debug, Default)]
struct Holding {
    /// By [`Place`].
    bytes: [u64; 2],
    /// It was told to leave, and holds nothing more.
    closed: bool,
}

impl Account {
    /// True: it held nothing before. None: it is closed.
    fn add(&self, (all, place): (&AtomicU64, usize), bytes: u64) -> Option<bool> {
        let mut holding = self.0.lock();
        if holding.closed {
            return None;
        }
        let first = holding.bytes == [0; 2];
        holding.bytes[place] += bytes;
        all.fetch_add(bytes, Relaxed);
        Some(first)
    }

    fn sub(&self, (all, place): (&AtomicU64, usize), leaving: &[AtomicU64; 2], bytes: u64) {
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

    fn close(&self, leaving: &[AtomicU64; 2]) {
        let mut holding = self.0.lock();
        if !std::mem::replace(&mut holding.closed, true) {
            for (all, bytes) in leaving.iter().zip(holding.bytes) {
                all.fetch_add(bytes, Relaxed);
            }
        }
    }
}

/// A client's bytes for one purpose; given back when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    client: Arc<Client>,
    place: Place,
    bytes: u64,
}

impl Held {
    pub(crate) fn new(client: &Arc<Client>, place: Place) -> Self {
        Self { client: client.clone(), place, bytes: 0 }
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

    fn change(&mut self, bytes: u64) -> bool {
        let room = &self.client.room;
        match bytes.checked_sub(self.bytes) {
            Some(more) => {
                if !room.take(&self.client, self.place, more) {
                    return false;
                }
            }
            None => room.give(&self.client, self.place, self.bytes - bytes),
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

#[cfg(test)]
mod tests;
