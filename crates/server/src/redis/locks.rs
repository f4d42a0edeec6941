//! Isolation: what makes EXEC and commands of several keys one step although workers run in
//! parallel.
//!
//! A fixed table of stripes, each a lock for the keys that hash to it. Every write holds its key's
//! stripe. What must be seen as one step (EXEC, MSET, RENAME, MGET, ...) holds the stripes of all
//! its keys, taken in rising order so that two of them never wait for each other in a circle;
//! FLUSHALL and its like hold all. A key's stripe is the same in all databases: COPY and MOVE take
//! two of them at once.
//!
//! A command that goes on in steps keeps its stripes between two of them ([`Kept`]). No thread
//! waits for these: whoever needs one is put in the stripe's queue, and its connection tries again
//! when it is called. A stripe with a queue is the first one's in it, so that no pipeline of long
//! commands keeps others from its keys for ever. Queues are in the order of tickets, which a command
//! takes when it has to wait first: the one with the lowest passes all that wait wherever it comes,
//! so that no two of them wait for each other in a circle. The first of a queue that does not come
//! loses its place ([`PATIENCE`]).
//!
//! A read of one key takes no lock as long as no such step writes (`busy` is 0). That is enough:
//! who has seen one write of a step has also seen `busy` raised, for it was raised before; its next
//! read waits at the stripe until the step is over.
//!
//! Rejected: one lock for all writes (a worker's writes would stop all others), and taking a read's
//! stripe always (two locked instructions on every GET).

use std::{
    cell::Cell,
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};

use super::shared::Shared;
use crate::{clock::Ms, object::Client};

/// Stripes. Keys that share one only wait for each other.
const STRIPES: usize = 1024;
const WORDS: usize = STRIPES / 64;
/// A step of more keys than this takes all stripes: it would need nearly all of them, and finding
/// out which takes longer.
const ALL_FROM: usize = 8 * STRIPES;

/// Milliseconds after which a waiter tries again although it was not called.
pub(crate) const LOOK: Ms = 100;
/// Milliseconds after which the first of a queue that has not tried again loses its place.
const PATIENCE: Ms = 250;

/// A lock on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Stripe(Mutex<State>);

/// State of a stripe.
#[derive(Default)]
struct State {
    /// It belongs to a command that goes on in steps, and is between two of them.
    kept: bool,
    /// Clients that wait for it, by their tickets. A client has one place at the most.
    queue: VecDeque<Waiter>,
}

/// A client whose command waits for a stripe.
struct Waiter {
    client: Arc<Client>,
    ticket: u64,
    /// Time of its last attempt.
    tried: Ms,
}

/// A client that takes stripes, and the present time.
pub(crate) struct Taker<'a> {
    pub(crate) client: &'a Arc<Client>,
    pub(crate) now: Ms,
    /// Of its command; 0: it has not waited, and gets one if it has to.
    pub(crate) ticket: Cell<u64>,
}

impl State {
    /// May this client have the stripe? If not, it has a place in the queue now.
    #[inline]
    fn admits(&mut self, taker: &Taker<'_>, tickets: &AtomicU64) -> bool {
        (!self.kept && self.queue.is_empty()) || self.waits(taker, tickets)
    }

    #[cold]
    fn waits(&mut self, taker: &Taker<'_>, tickets: &AtomicU64) -> bool {
        if taker.ticket.get() == 0 {
            taker.ticket.set(tickets.fetch_add(1, Ordering::Relaxed) + 1);
        }
        let (client, now, ticket) = (taker.client, taker.now, taker.ticket.get());
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

    /// This client has the stripe: it waits no longer.
    #[inline]
    fn admitted(&mut self, taker: &Taker<'_>) {
        if self.queue.front().is_some_and(|waiter| waiter.client.id == taker.client.id) {
            self.queue.pop_front();
        }
    }

    /// The stripe is free: calls the first that waits.
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

/// How many steps of several keys write now, on a line of its own: every read looks at it.
#[derive(Default)]
#[repr(align(128))]
struct Busy(AtomicUsize);

/// The table. One per process.
pub(crate) struct Locks {
    busy: Busy,
    stripes: Box<[Stripe]>,
    /// Tickets given out.
    tickets: AtomicU64,
}

/// Some of the stripes.
#[derive(Clone, Debug)]
struct Set([u64; WORDS]);

impl Set {
    fn iter(&self) -> impl Iterator<Item = usize> {
        (0..STRIPES).filter(|at| self.0[at / 64] >> (at % 64) & 1 == 1)
    }
}

/// One stripe held; released when dropped.
pub(crate) struct One<'a> {
    guard: MutexGuard<'a, State>,
    at: usize,
}

impl Drop for One<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.guard.kept {
            self.guard.free();
        }
    }
}

/// Stripes held; released when dropped.
pub(crate) struct Held<'a> {
    /// Dropped before `busy` is lowered.
    guards: Vec<MutexGuard<'a, State>>,
    set: Set,
    busy: Option<&'a AtomicUsize>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Lowered while the stripes are held: a read that sees 0 sees all writes of the step.
        if let Some(busy) = self.busy {
            busy.fetch_sub(1, Ordering::Release);
        }
        self.guards.drain(..).filter(|guard| !guard.kept).for_each(|guard| guard.free());
    }
}

/// Stripes of a command that goes on in steps, between two of them: no thread waits for these,
/// whoever needs one comes again. Given back when dropped.
pub(crate) struct Kept {
    shared: Arc<Shared>,
    set: Set,
    busy: bool,
}

impl Drop for Kept {
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

impl One<'_> {
    /// The stripe stays the command's until it has ended.
    pub(crate) fn keep(mut self, shared: &Arc<Shared>) -> Kept {
        let mut set = Set([0; WORDS]);
        set.0[self.at / 64] |= 1 << (self.at % 64);
        self.guard.kept = true;
        Kept { shared: shared.clone(), set, busy: false }
    }
}

impl Held<'_> {
    /// The stripes stay the command's until it has ended.
    pub(crate) fn keep(mut self, shared: &Arc<Shared>) -> Kept {
        self.guards.iter_mut().for_each(|guard| guard.kept = true);
        // Not lowered here, but when the command has ended.
        let busy = self.busy.take().is_some();
        Kept { shared: shared.clone(), set: self.set.clone(), busy }
    }
}

/// The stripes a step needs, collected first.
#[derive(Debug)]
pub(crate) struct Wanted {
    set: Set,
    keys: usize,
    writes: bool,
}

impl Default for Wanted {
    fn default() -> Wanted {
        Wanted { set: Set([0; WORDS]), keys: 0, writes: false }
    }
}

impl Wanted {
    /// This key.
    pub(crate) fn key(&mut self, key: &[u8]) {
        self.keys += 1;
        if self.keys > ALL_FROM {
            return self.all();
        }
        let at = stripe(key);
        self.set.0[at / 64] |= 1 << (at % 64);
    }

    /// Every key there is.
    pub(crate) fn all(&mut self) {
        self.keys = self.keys.max(1);
        self.set.0 = [u64::MAX; WORDS];
    }

    /// The step writes.
    pub(crate) fn writes(&mut self) {
        self.writes = true;
    }

    /// Nothing is needed.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys == 0
    }
}

impl Locks {
    pub(crate) fn new() -> Locks {
        let stripes = (0..STRIPES).map(|_| Stripe::default()).collect();
        Locks { busy: Busy::default(), stripes, tickets: AtomicU64::new(0) }
    }

    /// For a write of one key. None: the client has to wait, and is called.
    #[inline]
    pub(crate) fn write(&self, key: &[u8], taker: &Taker<'_>) -> Option<One<'_>> {
        let at = stripe(key);
        let mut guard = self.stripes[at].0.lock();
        if !guard.admits(taker, &self.tickets) {
            return None;
        }
        guard.admitted(taker);
        Some(One { guard, at })
    }

    /// For a moment in which no write of this key is under way.
    pub(crate) fn moment(&self, key: &[u8]) -> impl Drop + '_ {
        self.stripes[stripe(key)].0.lock()
    }

    /// Does a read of one key need its stripe? Only while a step of several keys writes.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.0.load(Ordering::Acquire) != 0
    }

    /// For a step of several keys. None: the client has to wait for one of the stripes, and is
    /// called. It keeps its places in the queues meanwhile.
    pub(crate) fn take(&self, wanted: &Wanted, taker: &Taker<'_>) -> Option<Held<'_>> {
        let busy = wanted.writes.then_some(&self.busy.0);
        if let Some(busy) = busy {
            busy.fetch_add(1, Ordering::AcqRel);
        }
        let mut guards = Vec::new();
        for at in wanted.set.iter() {
            let mut guard = self.stripes[at].0.lock();
            if !guard.admits(taker, &self.tickets) {
                // Nobody is called: a queue before this one has the client itself as its first.
                if let Some(busy) = busy {
                    busy.fetch_sub(1, Ordering::Release);
                }
                return None;
            }
            guards.push(guard);
        }
        guards.iter_mut().for_each(|guard| guard.admitted(taker));
        Some(Held { guards, set: wanted.set.clone(), busy })
    }
}

#[inline]
fn stripe(key: &[u8]) -> usize {
    // Which stripe a key has is no secret: a client that picks keys of one stripe makes its own
    // writes wait.
    let hash = rapidhash::v3::rapidhash_v3(key);
    (hash % STRIPES as u64) as usize
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::object::{Clients, Peer};

    /// Clients that take stripes.
    struct People(Arc<Clients>, Vec<Arc<Client>>);

    impl People {
        fn new(number: usize) -> People {
            let clients = Clients::new(&Arc::default());
            let people = (0..number).map(|_| clients.enter(Peer::Unix, "here".into(), 0)).collect();
            People(clients, people)
        }

        fn taker(&self, number: usize, now: Ms) -> Taker<'_> {
            self.again(number, now, 0)
        }

        /// The same with the ticket that it was given before.
        fn again(&self, number: usize, now: Ms, ticket: u64) -> Taker<'_> {
            Taker { client: &self.1[number], now, ticket: Cell::new(ticket) }
        }
    }

    #[test]
    fn steps_taken_in_any_order_of_keys_never_wait_in_a_circle() {
        let locks = Locks::new();
        let (a, b) = (AtomicU64::new(0), AtomicU64::new(0));
        let people = People::new(1);
        std::thread::scope(|scope| {
            for turned in [false, true, false, true] {
                let (locks, a, b, people) = (&locks, &a, &b, &people);
                scope.spawn(move || {
                    let taker = people.taker(0, 0);
                    for _ in 0..20_000 {
                        let mut wanted = Wanted::default();
                        let keys = if turned { [b"one", b"two"] } else { [b"two", b"one"] };
                        keys.iter().for_each(|key| wanted.key(&key[..]));
                        wanted.writes();
                        let _held = locks.take(&wanted, &taker).expect("nobody keeps a stripe");
                        // Not atomic on purpose: only exclusion makes the sum right.
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
    fn a_read_takes_its_stripe_only_while_a_step_writes() {
        let locks = Locks::new();
        assert!(!locks.is_busy());
        let mut wanted = Wanted::default();
        wanted.key(b"key");
        let people = People::new(1);
        let taker = people.taker(0, 0);
        let reading = locks.take(&wanted, &taker);
        assert!(!locks.is_busy(), "a step that only reads stops no read");
        drop(reading);
        wanted.writes();
        let writing = locks.take(&wanted, &taker);
        assert!(locks.is_busy());
        assert!(locks.stripes[stripe(b"key")].0.try_lock().is_none());
        drop(writing);
        assert!(!locks.is_busy());
    }

    #[test]
    fn the_same_stripe_twice_is_taken_once() {
        let locks = Locks::new();
        let mut wanted = Wanted::default();
        wanted.key(b"key");
        wanted.key(b"key");
        let people = People::new(1);
        let taker = people.taker(0, 0);
        assert_eq!(locks.take(&wanted, &taker).map(|held| held.guards.len()), Some(1));
        let mut wanted = Wanted::default();
        wanted.all();
        assert_eq!(locks.take(&wanted, &taker).map(|held| held.guards.len()), Some(STRIPES));
    }

    #[test]
    fn a_kept_stripe_makes_no_thread_wait_and_comes_back() {
        let shared = crate::redis::tests::shared(crate::redis::tests::settings());
        let (locks, people) = (&shared.locks, People::new(1));
        let taker = people.taker(0, 0);
        let mut wanted = Wanted::default();
        wanted.key(b"key");
        wanted.writes();
        let kept = locks.take(&wanted, &taker).map(|held| held.keep(&shared));
        assert!(kept.is_some() && locks.write(b"key", &taker).is_none());
        assert!(locks.take(&wanted, &taker).is_none());
        assert!(locks.is_busy(), "reads of one key look at its stripe");
        drop(kept);
        assert!(locks.write(b"key", &taker).is_some() && !locks.is_busy());
        let kept = locks.write(b"key", &taker).map(|one| one.keep(&shared));
        assert!(kept.is_some() && locks.write(b"key", &taker).is_none());
        drop(kept);
        assert!(locks.take(&wanted, &taker).is_some());
    }

    #[test]
    fn clients_that_wait_have_the_stripe_in_turn() {
        let shared = crate::redis::tests::shared(crate::redis::tests::settings());
        let (locks, people) = (&shared.locks, People::new(4));
        let [long, second, third, late] = [0, 1, 2, 3].map(|number| people.taker(number, 0));
        let kept = locks.write(b"key", &long).map(|one| one.keep(&shared));
        let mut both = Wanted::default();
        [b"key", b"yek"].iter().for_each(|key| both.key(&key[..]));
        assert!(locks.take(&both, &second).is_none() && locks.write(b"key", &third).is_none());
        assert!(!second.client.take_call());
        drop(kept);
        assert!(second.client.take_call() && !third.client.take_call(), "the first is called");
        assert!(locks.write(b"key", &long).is_none(), "the one that had it waits behind them");
        assert!(locks.write(b"key", &third).is_none());
        // The second has to wait for another stripe, and keeps its place at the first.
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

    /// Both want the same two stripes. One is first at the second of them, and the other comes
    /// first to the first.
    #[test]
    fn clients_that_wait_for_the_same_stripes_do_not_wait_for_each_other() {
        let shared = crate::redis::tests::shared(crate::redis::tests::settings());
        let (locks, people) = (&shared.locks, People::new(4));
        let [one, other, a, b] = [0, 1, 2, 3].map(|number| people.taker(number, 0));
        let mut keys = [&b"key"[..], b"yek"];
        keys.sort_unstable_by_key(|key| stripe(key));
        let mut both = Wanted::default();
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
    fn a_place_is_lost_by_clients_that_do_not_come_for_it() {
        let shared = crate::redis::tests::shared(crate::redis::tests::settings());
        let (locks, mut people) = (&shared.locks, People::new(4));
        let kept = locks.write(b"key", &people.taker(0, 0)).map(|one| one.keep(&shared));
        for number in 1..4 {
            assert!(locks.write(b"key", &people.taker(number, 0)).is_none());
        }
        drop(kept);
        people.1[1].kill();
        assert!(
            locks.write(b"key", &people.again(3, PATIENCE - 1, 3)).is_none(),
            "the next one's turn"
        );
        let gone = people.1.remove(2);
        people.0.leave(&gone);
        drop(gone);
        assert!(locks.write(b"key", &people.again(2, PATIENCE - 1, 3)).is_some());
        let kept = locks.write(b"key", &people.taker(0, 0)).map(|one| one.keep(&shared));
        assert!(locks.write(b"key", &people.taker(2, 0)).is_none());
        drop(kept);
        assert!(locks.write(b"key", &people.taker(0, PATIENCE - 1)).is_none());
        assert!(locks.write(b"key", &people.again(0, PATIENCE, 5)).is_some());
    }
}
