//! Isolation: makes EXEC and commands of several keys atomic although workers run in parallel.
//!
//! A fixed table of stripes, each a lock for the keys that hash to it. Every write holds its key's
//! stripe. An atomic operation on several keys (EXEC, MSET, RENAME, MGET, ...) holds the stripes of
//! all its keys, taken in rising order so that two of them never deadlock; FLUSHALL and similar
//! commands hold all. A key's stripe is the same in all databases: COPY and MOVE take two of them
//! at once.
//!
//! A command in steps keeps its stripes between two steps ([`KeptStripes`]). No thread waits for
//! these: a client that needs one joins the stripe's queue, and its connection tries again when it
//! is called. A free stripe with a queue is reserved for the queue's first client, so that no
//! pipeline of long commands keeps others from its keys for ever. Queues are ordered by tickets,
//! which a command takes when it has to wait for the first time. The lowest ticket comes first in
//! every queue, so that two waiters never deadlock. The first of a queue that does not come loses
//! its place ([`PATIENCE`]).
//!
//! A read of one key takes no lock while no such operation writes (`busy` is 0). That is enough: a
//! client that has seen one write of an operation has also seen `busy` raised, because it was
//! raised before; its next read waits at the stripe until the operation ends.
//!
//! Rejected: one lock for all writes (a worker's writes would stop all others), and taking a read's
//! stripe always (two locked instructions on every GET).

use std::{
    cell::Cell,
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering, fence},
    },
};

use parking_lot::{Mutex, MutexGuard};

use super::{script::Declared, shared::Shared};
use crate::{clock::Ms, object::Client};

/// Number of stripes. Keys that share one wait for each other; there is no other effect.
const STRIPES: usize = 1024;
const WORDS: usize = STRIPES / 64;
/// An operation with more keys takes all stripes: it would need nearly all of them, and finding out
/// which takes longer.
const ALL_FROM: usize = 8 * STRIPES;

/// Milliseconds after which a waiter tries again without being called.
pub(crate) const LOOK: Ms = 100;
/// Milliseconds after which the first of a queue loses its place unless it has tried again.
const PATIENCE: Ms = 250;

/// A lock on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Stripe(Mutex<State>, Commits);

/// Number of commits of collections begun and ended with a stripe: odd while one is under way. A
/// reader that does not hold the stripe has seen all parts of a collection at one moment if the
/// number was even before, and is the same afterwards. It changes while the stripe is held.
#[derive(Default)]
struct Commits(AtomicU64);

/// A commit under way.
pub(crate) struct Commit<'a>(&'a AtomicU64);

impl Drop for Commit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store((self.0.load(Ordering::Relaxed) | 1) + 1, Ordering::Release);
    }
}

/// State of a stripe.
#[derive(Default)]
struct State {
    /// A command in steps owns it, between two of its steps.
    kept: bool,
    /// Waiting clients in the order of their tickets. A client has at most one place.
    queue: VecDeque<Waiter>,
}

/// A client whose command waits for a stripe.
struct Waiter {
    client: Arc<Client>,
    ticket: u64,
    /// Time of its last attempt.
    tried: Ms,
}

/// A client that takes stripes, and the current time.
pub(crate) struct Requester<'a> {
    pub(crate) client: &'a Arc<Client>,
    pub(crate) now: Ms,
    /// Ticket of its command; 0: it has not waited yet, and gets one if it must.
    pub(crate) ticket: Cell<u64>,
}

impl State {
    /// Returns whether this client may take the stripe. If not, it has a place in the queue.
    #[inline]
    fn admits(&mut self, requester: &Requester<'_>, tickets: &AtomicU64) -> bool {
        (!self.kept && self.queue.is_empty()) || self.waits(requester, tickets)
    }

    #[cold]
    fn waits(&mut self, requester: &Requester<'_>, tickets: &AtomicU64) -> bool {
        if requester.ticket.get() == 0 {
            requester.ticket.set(tickets.fetch_add(1, Ordering::Relaxed) + 1);
        }
        let (client, now, ticket) = (requester.client, requester.now, requester.ticket.get());
        while self.queue.front().is_some_and(|first| first.ticket != ticket && !first.is_there(now))
        {
            self.queue.pop_front();
        }
        let at = self.queue.partition_point(|waiter| waiter.ticket < ticket);
        match self.queue.get_mut(at) {
            Some(waiter) if waiter.ticket == ticket => waiter.tried = now,
            _ => self.queue.insert(at, Waiter { client: client.clone(), ticket, tried: now }),
        }
        !self.kept && at == 0
    }

    /// Removes a client that has the stripe from the queue.
    #[inline]
    fn admitted(&mut self, requester: &Requester<'_>) {
        if self.queue.front().is_some_and(|waiter| waiter.client.id == requester.client.id) {
            self.queue.pop_front();
        }
    }

    /// Calls the first waiter of a free stripe.
    #[inline]
    fn free(&self) {
        if let Some(first) = self.queue.iter().find(|waiter| !waiter.client.is_killed()) {
            first.client.call();
        }
    }
}

impl Waiter {
    fn is_there(&self, now: Ms) -> bool {
        self.tried + PATIENCE > now
            && !self.client.is_killed()
            && Arc::strong_count(&self.client) > 1
    }
}

/// Number of writing operations on several keys. On a cache line of its own: every read looks at
/// it.
#[derive(Default)]
#[repr(align(128))]
struct Busy(AtomicUsize);

/// The table. StripeGuard per process.
pub(crate) struct Locks {
    busy: Busy,
    stripes: Box<[Stripe]>,
    /// Last ticket issued.
    tickets: AtomicU64,
    /// Scripts that need no stripes but those of the keys they declare.
    pub(crate) declared: Declared,
}

/// A set of stripes.
#[derive(Clone, Debug)]
struct StripeSet([u64; WORDS]);

impl StripeSet {
    fn iter(&self) -> impl Iterator<Item = usize> {
        (0..STRIPES).filter(|at| self.0[at / 64] >> (at % 64) & 1 == 1)
    }
}

/// One stripe held; released when dropped.
pub(crate) struct StripeGuard<'a> {
    guard: MutexGuard<'a, State>,
    at: usize,
}

impl Drop for StripeGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.guard.kept {
            self.guard.free();
        }
    }
}

/// Stripes held; released when dropped.
pub(crate) struct StripeGuards<'a> {
    /// Dropped before `busy` is lowered.
    guards: Vec<MutexGuard<'a, State>>,
    set: StripeSet,
    busy: Option<&'a AtomicUsize>,
}

impl Drop for StripeGuards<'_> {
    fn drop(&mut self) {
        // Lowered while the stripes are held: a read that sees 0 sees all writes of the operation.
        if let Some(busy) = self.busy {
            busy.fetch_sub(1, Ordering::Release);
        }
        self.guards.drain(..).filter(|guard| !guard.kept).for_each(|guard| guard.free());
    }
}

/// Stripes of a command in steps, between two steps. No thread waits for these; waiters try again.
/// Released when dropped.
pub(crate) struct KeptStripes {
    shared: Arc<Shared>,
    set: StripeSet,
    busy: bool,
}

impl Drop for KeptStripes {
    fn drop(&mut self) {
        let locks = &self.shared.locks;
        if self.busy {
            locks.busy.0.fetch_sub(1, Ordering::Release);
        }
        for at in self.set.iter() {
            let mut state = locks.stripes[at].0.lock();
            state.kept = false;
            state.free();
        }
    }
}

impl StripeGuard<'_> {
    /// Keeps the stripe until the command ends.
    pub(crate) fn keep(mut self, shared: &Arc<Shared>) -> KeptStripes {
        let mut set = StripeSet([0; WORDS]);
        set.0[self.at / 64] |= 1 << (self.at % 64);
        self.guard.kept = true;
        KeptStripes { shared: shared.clone(), set, busy: false }
    }
}

impl StripeGuards<'_> {
    /// Keeps the stripes until the command ends.
    pub(crate) fn keep(mut self, shared: &Arc<Shared>) -> KeptStripes {
        self.guards.iter_mut().for_each(|guard| guard.kept = true);
        // The end of the command lowers it, not this drop.
        let busy = self.busy.take().is_some();
        KeptStripes { shared: shared.clone(), set: self.set.clone(), busy }
    }
}

/// The stripes that an operation needs, collected before it takes them.
#[derive(Clone, Debug)]
pub(crate) struct WantedStripes {
    set: StripeSet,
    keys: usize,
    writes: bool,
}

impl Default for WantedStripes {
    fn default() -> WantedStripes {
        WantedStripes { set: StripeSet([0; WORDS]), keys: 0, writes: false }
    }
}

impl WantedStripes {
    /// Adds a key.
    pub(crate) fn key(&mut self, key: &[u8]) {
        self.keys += 1;
        if self.is_all() {
            return self.all();
        }
        let at = stripe(key);
        self.set.0[at / 64] |= 1 << (at % 64);
    }

    /// Adds every key.
    pub(crate) fn all(&mut self) {
        self.keys = ALL_FROM + 1;
        self.set.0 = [u64::MAX; WORDS];
    }

    /// Returns whether every key is wanted: further keys change nothing.
    pub(crate) fn is_all(&self) -> bool {
        self.keys > ALL_FROM
    }

    /// Marks the operation as a write.
    pub(crate) fn writes(&mut self) {
        self.writes = true;
    }

    /// Returns whether these include all of the others.
    pub(crate) fn cover(&self, others: &WantedStripes) -> bool {
        self.set.0.iter().zip(&others.set.0).all(|(own, other)| other & !own == 0)
    }

    /// Returns whether no stripe is needed.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys == 0 && !self.writes
    }
}

impl Locks {
    pub(crate) fn new() -> Locks {
        let stripes = (0..STRIPES).map(|_| Stripe::default()).collect();
        let declared = Declared::default();
        Locks { busy: Busy::default(), stripes, tickets: AtomicU64::new(0), declared }
    }

    /// Locks for a write of one key. None: the client must wait, and is called.
    #[inline]
    pub(crate) fn write(&self, key: &[u8], requester: &Requester<'_>) -> Option<StripeGuard<'_>> {
        let at = stripe(key);
        let mut guard = self.stripes[at].0.lock();
        if !guard.admits(requester, &self.tickets) {
            return None;
        }
        guard.admitted(requester);
        Some(StripeGuard { guard, at })
    }

    /// Locks for a write of one key, if nobody has it or waits for it. The caller may hold others.
    pub(crate) fn try_write(&self, key: &[u8]) -> Option<StripeGuard<'_>> {
        let at = stripe(key);
        let guard = self.stripes[at].0.try_lock()?;
        (!guard.kept && guard.queue.is_empty()).then_some(StripeGuard { guard, at })
    }

    /// Takes and keeps the stripes that an operation wants and does not hold yet, if nobody has one
    /// of them. `held` becomes the union. Err: somebody has one. The operation comes before those
    /// in the queues, because they may wait for what it holds.
    pub(crate) fn add(
        &self,
        shared: &Arc<Shared>,
        held: &mut WantedStripes,
        wanted: &WantedStripes,
    ) -> Result<Option<KeptStripes>, ()> {
        let mut missing = wanted.set.clone();
        missing.0.iter_mut().zip(&held.set.0).for_each(|(word, held)| *word &= !held);
        if missing.0 == [0; WORDS] {
            return Ok(None);
        }
        let mut guards = Vec::new();
        for at in missing.iter() {
            let guard = self.stripes[at].0.try_lock().ok_or(())?;
            if guard.kept {
                return Err(());
            }
            guards.push(guard);
        }
        guards.iter_mut().for_each(|guard| guard.kept = true);
        held.set.0.iter_mut().zip(&missing.0).for_each(|(word, added)| *word |= added);
        Ok(Some(KeptStripes { shared: shared.clone(), set: missing, busy: false }))
    }

    /// Begins a commit of a collection, of which the caller holds the stripe.
    #[inline]
    pub(crate) fn commit(&self, key: &[u8]) -> Commit<'_> {
        let Stripe(state, Commits(commits)) = &self.stripes[stripe(key)];
        debug_assert!(
            state.try_lock().is_none_or(|state| state.kept),
            "a commit without the stripe of its key"
        );
        // Odd from here on, even if an earlier commit has left a wrong number.
        commits.store((commits.load(Ordering::Relaxed) + 1) | 1, Ordering::Relaxed);
        // Before the changes. (These are made, and read, under locks of the store.)
        fence(Ordering::SeqCst);
        Commit(commits)
    }

    /// The number of commits with the stripe of a key; None: one is under way.
    #[inline]
    pub(crate) fn commits(&self, key: &[u8]) -> Option<u64> {
        fence(Ordering::SeqCst);
        let commits = self.stripes[stripe(key)].1.0.load(Ordering::Acquire);
        commits.is_multiple_of(2).then_some(commits)
    }

    /// Locks for a moment without a write of this key in progress.
    pub(crate) fn moment(&self, key: &[u8]) -> impl Drop + '_ {
        self.stripes[stripe(key)].0.lock()
    }

    /// Returns whether a read of one key needs its stripe: only while an operation on several keys
    /// writes.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.0.load(Ordering::Acquire) != 0
    }

    /// Locks for an operation on several keys. None: the client must wait for one of the stripes,
    /// and is called. It keeps its places in the queues meanwhile.
    pub(crate) fn take(
        &self,
        wanted: &WantedStripes,
        requester: &Requester<'_>,
    ) -> Option<StripeGuards<'_>> {
        let busy = wanted.writes.then_some(&self.busy.0);
        if let Some(busy) = busy {
            busy.fetch_add(1, Ordering::AcqRel);
        }
        let mut guards = Vec::new();
        for at in wanted.set.iter() {
            let mut guard = self.stripes[at].0.lock();
            if !guard.admits(requester, &self.tickets) {
                // Nobody is called: the client itself is first in an earlier queue.
                if let Some(busy) = busy {
                    busy.fetch_sub(1, Ordering::Release);
                }
                return None;
            }
            guards.push(guard);
        }
        guards.iter_mut().for_each(|guard| guard.admitted(requester));
        Some(StripeGuards { guards, set: wanted.set.clone(), busy })
    }
}

#[inline]
fn stripe(key: &[u8]) -> usize {
    // The stripe of a key is predictable: a client that picks keys of one stripe delays its own
    // writes.
    let hash = rapidhash::v3::rapidhash_v3(key);
    (hash % STRIPES as u64) as usize
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::object::{Clients, Peer};

    /// Clients that take stripes.
    struct TestClients(Arc<Clients>, Vec<Arc<Client>>);

    impl TestClients {
        fn new(number: usize) -> TestClients {
            let clients = Clients::new(&Arc::default());
            let list = (0..number).map(|_| clients.enter(Peer::Unix, "here", 0)).collect();
            TestClients(clients, list)
        }

        fn requester(&self, number: usize, now: Ms) -> Requester<'_> {
            self.again(number, now, 0)
        }

        /// As `requester`, with a ticket from before.
        fn again(&self, number: usize, now: Ms, ticket: u64) -> Requester<'_> {
            Requester { client: &self.1[number], now, ticket: Cell::new(ticket) }
        }
    }

    #[test]
    fn operations_with_keys_in_any_order_never_deadlock() {
        let locks = Locks::new();
        let (a, b) = (AtomicU64::new(0), AtomicU64::new(0));
        let clients = TestClients::new(1);
        std::thread::scope(|scope| {
            for turned in [false, true, false, true] {
                let (locks, a, b, clients) = (&locks, &a, &b, &clients);
                scope.spawn(move || {
                    let requester = clients.requester(0, 0);
                    for _ in 0..20_000 {
                        let mut wanted = WantedStripes::default();
                        let keys = if turned { [b"one", b"two"] } else { [b"two", b"one"] };
                        keys.iter().for_each(|key| wanted.key(&key[..]));
                        wanted.writes();
                        let _held = locks.take(&wanted, &requester).expect("nobody keeps a stripe");
                        // Deliberately not atomic: only mutual exclusion makes the sum right.
                        a.store(a.load(Relaxed) + 1, Relaxed);
                        b.store(b.load(Relaxed) + 1, Relaxed);
                    }
                });
            }
        });
        assert_eq!((a.load(Relaxed), b.load(Relaxed)), (80_000, 80_000));
        assert_eq!(locks.busy.0.load(Relaxed), 0, "lowered by everyone who raised it");
    }

    #[test]
    fn a_read_takes_its_stripe_only_while_an_operation_on_several_keys_writes() {
        let locks = Locks::new();
        assert!(!locks.is_busy());
        let mut wanted = WantedStripes::default();
        wanted.key(b"key");
        let clients = TestClients::new(1);
        let requester = clients.requester(0, 0);
        let reading = locks.take(&wanted, &requester);
        assert!(!locks.is_busy(), "a step that only reads stops no read");
        drop(reading);
        wanted.writes();
        let writing = locks.take(&wanted, &requester);
        assert!(locks.is_busy());
        assert!(locks.stripes[stripe(b"key")].0.try_lock().is_none());
        drop(writing);
        assert!(!locks.is_busy());
    }

    #[test]
    fn the_same_stripe_twice_is_taken_once() {
        let locks = Locks::new();
        let mut wanted = WantedStripes::default();
        wanted.key(b"key");
        wanted.key(b"key");
        let clients = TestClients::new(1);
        let requester = clients.requester(0, 0);
        assert_eq!(locks.take(&wanted, &requester).map(|held| held.guards.len()), Some(1));
        let mut wanted = WantedStripes::default();
        wanted.all();
        assert_eq!(locks.take(&wanted, &requester).map(|held| held.guards.len()), Some(STRIPES));
    }

    #[test]
    fn a_kept_stripe_makes_no_thread_wait_and_comes_back() {
        let shared = crate::redis::tests::shared(crate::redis::tests::settings());
        let (locks, clients) = (&shared.locks, TestClients::new(1));
        let requester = clients.requester(0, 0);
        let mut wanted = WantedStripes::default();
        wanted.key(b"key");
        wanted.writes();
        let kept = locks.take(&wanted, &requester).map(|held| held.keep(&shared));
        assert!(kept.is_some() && locks.write(b"key", &requester).is_none());
        assert!(locks.take(&wanted, &requester).is_none());
        assert!(locks.is_busy(), "reads of one key look at its stripe");
        drop(kept);
        assert!(locks.write(b"key", &requester).is_some() && !locks.is_busy());
        let kept = locks.write(b"key", &requester).map(|one| one.keep(&shared));
        assert!(kept.is_some() && locks.write(b"key", &requester).is_none());
        drop(kept);
        assert!(locks.take(&wanted, &requester).is_some());
    }

    #[test]
    fn waiters_have_the_stripe_in_turn() {
        let shared = crate::redis::tests::shared(crate::redis::tests::settings());
        let (locks, clients) = (&shared.locks, TestClients::new(4));
        let [long, second, third, late] = [0, 1, 2, 3].map(|number| clients.requester(number, 0));
        let kept = locks.write(b"key", &long).map(|one| one.keep(&shared));
        let mut both = WantedStripes::default();
        [b"key", b"yek"].iter().for_each(|key| both.key(&key[..]));
        assert!(locks.take(&both, &second).is_none() && locks.write(b"key", &third).is_none());
        assert!(!second.client.take_call());
        drop(kept);
        assert!(second.client.take_call() && !third.client.take_call(), "the first is called");
        assert!(locks.write(b"key", &long).is_none(), "the one that had it waits behind them");
        assert!(locks.write(b"key", &third).is_none());
        // The second client waits for another stripe, and keeps its place at the first.
        let other = locks.write(b"yek", &late).map(|one| one.keep(&shared));
        assert!(locks.take(&both, &second).is_none() && locks.write(b"key", &third).is_none());
        drop(other);
        assert!(second.client.take_call());
        drop(locks.take(&both, &second).expect("its turn"));
        assert!(third.client.take_call());
        drop(locks.write(b"key", &third).expect("its turn"));
        assert!(long.client.take_call() && locks.write(b"key", &long).is_some());
        assert!(locks.write(b"key", &late).is_some(), "nobody waits");
    }

    /// Both need the same two stripes. Each is first in one of the queues.
    #[test]
    fn waiters_for_the_same_stripes_do_not_deadlock() {
        let shared = crate::redis::tests::shared(crate::redis::tests::settings());
        let (locks, clients) = (&shared.locks, TestClients::new(4));
        let [one, other, a, b] = [0, 1, 2, 3].map(|number| clients.requester(number, 0));
        let mut keys = [&b"key"[..], b"yek"];
        keys.sort_unstable_by_key(|key| stripe(key));
        let mut both = WantedStripes::default();
        keys.iter().for_each(|key| both.key(key));
        let second = locks.write(keys[1], &other).map(|one| one.keep(&shared));
        assert!(locks.take(&both, &a).is_none() && locks.take(&both, &b).is_none());
        let first = locks.write(keys[0], &one).map(|one| one.keep(&shared));
        assert!(locks.take(&both, &b).is_none() && locks.take(&both, &a).is_none());
        drop((first, second));
        assert!(a.client.take_call() && !b.client.take_call());
        assert!(locks.take(&both, &b).is_none(), "not its turn");
        drop(locks.take(&both, &a).expect("its turn"));
        assert!(b.client.take_call());
        drop(locks.take(&both, &b).expect("its turn"));
        assert!(keys.iter().all(|key| locks.stripes[stripe(key)].0.lock().queue.is_empty()));
    }

    #[test]
    fn clients_that_do_not_try_again_lose_their_place() {
        let shared = crate::redis::tests::shared(crate::redis::tests::settings());
        let (locks, mut clients) = (&shared.locks, TestClients::new(4));
        let kept = locks.write(b"key", &clients.requester(0, 0)).map(|one| one.keep(&shared));
        for number in 1..4 {
            assert!(locks.write(b"key", &clients.requester(number, 0)).is_none());
        }
        drop(kept);
        clients.1[1].kill();
        assert!(
            locks.write(b"key", &clients.again(3, PATIENCE - 1, 3)).is_none(),
            "the next one's turn"
        );
        let gone = clients.1.remove(2);
        clients.0.leave(&gone);
        drop(gone);
        assert!(locks.write(b"key", &clients.again(2, PATIENCE - 1, 3)).is_some());
        let kept = locks.write(b"key", &clients.requester(0, 0)).map(|one| one.keep(&shared));
        assert!(locks.write(b"key", &clients.requester(2, 0)).is_none());
        drop(kept);
        assert!(locks.write(b"key", &clients.requester(0, PATIENCE - 1)).is_none());
        assert!(locks.write(b"key", &clients.again(0, PATIENCE, 5)).is_some());
    }
}
