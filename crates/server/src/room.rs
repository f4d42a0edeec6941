//! The memory that clients may hold outside the store: requests and commands still arriving,
//! transactions, answers and messages that are not taken. One account for all clients of all faces
//! and workers, so that no number of clients holds more than is configured.
//!
//! The first [`FREE`] bytes outside the store are on top of the memory that was configured. The
//! store lends the bytes beyond them ([`Loan`]), and holds that much less. Lent bytes and the
//! values on their way into the store together are at most half of the memory.
//!
//! At the limit clients leave, as with Redis's `maxmemory-clients`: those first that have come no
//! further for [`STANDS_STILL`], longest first; then those that hold more than the one who asks,
//! most first. Where none does, the one who asks gets nothing: its command is refused, or it is
//! closed. A client that waits for this server, and neither owes bytes nor leaves its answer
//! untaken, does not stand still ([`Holder::waits`]).

mod counted;
mod holder;

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use larder_store::{Loan, Store};
use parking_lot::Mutex;

pub(crate) use self::{
    counted::Counted,
    holder::{Held, Holder, Holding},
};
use crate::clock::{Clock, Ms};

/// Bytes outside the store that need no loan: what thousands of clients hold for a moment in
/// ordinary use.
const FREE: u64 = 8 << 20;
/// Of the memory, one part in so many may be lent and taken by values on their way.
const PART: u64 = 2;
/// Milliseconds without progress ([`Holder::moves`]) after which a client is the first to leave.
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
    limit: AtomicU64,
    /// The longest value the store takes.
    item: u64,
    /// None: nobody lends (tests).
    loan: Option<Mutex<Loan<'static>>>,
    /// Bytes lent.
    lent: AtomicU64,
    clock: Clock,
    holders: Mutex<HashMap<u64, Arc<Holder>>>,
    /// Number of the next holder.
    next: AtomicU64,
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
            limit: AtomicU64::new(store.totals().budget / PART),
            item: store.max_value(),
            loan: Some(Mutex::new(store.loan())),
            ..Self::without_store(clock)
        })
    }

    /// The store has another budget from now on.
    pub(crate) fn resized(&self, budget: u64) {
        self.limit.store(budget / PART, Relaxed);
    }

    fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    fn without_store(clock: Clock) -> Self {
        Self {
            heap: AtomicU64::new(0),
            store: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX / 2),
            item: u64::MAX / 2,
            loan: None,
            lent: AtomicU64::new(0),
            clock,
            holders: Mutex::default(),
            next: AtomicU64::new(0),
            leaving: Default::default(),
            making: Mutex::default(),
            closed: AtomicU64::new(0),
        }
    }

    /// A new holder: it may have to leave for another. It leaves with [`Room::leave`].
    pub(crate) fn enter(self: &Arc<Self>) -> Arc<Holder> {
        let holder = Holder::new(self.next.fetch_add(1, Relaxed), self, self.clock.now());
        self.holders.lock().insert(holder.id, holder.clone());
        holder
    }

    /// A holder is gone: it is no longer asked to leave.
    pub(crate) fn leave(&self, holder: &Holder) {
        self.holders.lock().remove(&holder.id);
    }

    /// The most one client can hold outside the store: a command longer than this never becomes
    /// whole.
    pub(crate) fn most(&self) -> u64 {
        self.limit() + FREE
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

    /// At most half of what may be held is: room for what is of use and not needed.
    pub(crate) fn has_plenty(&self) -> bool {
        self.wanted() + self.store.load(Relaxed) <= self.limit() / 2
    }

    /// This client holds so many bytes more. False: it may not, and nothing was counted.
    pub(crate) fn take(&self, holder: &Holder, place: Place, bytes: u64) -> bool {
        let Some(first) = holder.account.add(self.count(place), bytes) else { return false };
        if first {
            holder.moves(self.clock.now());
        }
        let granted = (self.over() == 0 || self.make(holder)) && self.borrow();
        if !granted {
            self.give(holder, place, bytes);
        }
        granted
    }

    /// The same for mail, which is pushed under locks of those who send it. Nothing is borrowed
    /// here: an eviction would be told to others through the same locks. The connection borrows
    /// when it counts its buffers.
    pub(crate) fn take_mail(&self, holder: &Holder, bytes: u64) -> bool {
        let place = self.count(Place::Heap);
        let Some(first) = holder.account.add(place, bytes) else { return false };
        if first {
            holder.moves(self.clock.now());
        }
        let granted = self.over() == 0 || self.make(holder);
        if !granted {
            holder.account.sub(place, &self.leaving, bytes);
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
    pub(crate) fn give(&self, holder: &Holder, place: Place, bytes: u64) {
        holder.account.sub(self.count(place), &self.leaving, bytes);
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
        (self.wanted() + self.store.load(Relaxed)).saturating_sub(self.limit())
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
    fn make(&self, asks: &Holder) -> bool {
        let _making = self.making.lock();
        (self.excess() == 0 || self.close_others(asks)) && self.over() <= self.limit() / OVERSHOOT
    }

    fn close_others(&self, asks: &Holder) -> bool {
        let now = self.clock.now();
        let mut others: Vec<_> = self
            .holders
            .lock()
            .values()
            .filter(|other| !std::ptr::eq(&***other, asks))
            .map(|other| (other.moved(), other.account.held(), other.clone()))
            .filter(|(_, held, _)| *held > 0)
            .collect();
        others.sort_unstable_by_key(|(moved, ..)| *moved);
        let still = others.partition_point(|(moved, ..)| moved.saturating_add(STANDS_STILL) <= now);
        let own = asks.account.held();
        let may_leave =
            others.iter().enumerate().filter(|(at, (_, held, _))| *at < still || *held > own);
        if may_leave.map(|(_, (_, held, _))| held).sum::<u64>() < self.excess() {
            // Nobody leaves for what is refused all the same.
            return false;
        }
        let more = self.excess() + self.limit() / AT_ONCE;
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

    fn close(&self, holder: &Holder) {
        if holder.account.close(&self.leaving) {
            holder.kill();
            self.closed.fetch_add(1, Relaxed);
        }
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

#[cfg(test)]
mod tests;
