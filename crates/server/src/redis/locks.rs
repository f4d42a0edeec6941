//! Isolation: what makes EXEC and commands of several keys one step although workers run in parallel.
//!
//! A fixed table of stripes, each a lock for the keys that hash to it. Every write holds its key's stripe. What must be
//! seen as one step (EXEC, MSET, RENAME, MGET, ...) holds the stripes of all its keys, taken in rising order so that two
//! of them never wait for each other in a circle; FLUSHALL and its like hold all. A key's stripe is the same in all
//! databases: COPY and MOVE take two of them at once.
//!
//! A read of one key takes no lock as long as no such step writes (`busy` is 0). That is enough: who has seen one write of
//! a step has also seen `busy` raised, for it was raised before; its next read waits at the stripe until the step is over.
//!
//! Rejected: one lock for all writes (a worker's writes would stop all others), and taking a read's stripe always (two
//! locked instructions on every GET).

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use parking_lot::{Mutex, MutexGuard};

use super::shared::Shared;

/// Stripes. Keys that share one only wait for each other.
const STRIPES: usize = 1024;
const WORDS: usize = STRIPES / 64;
/// A step of more keys than this takes all stripes: it would need nearly all of them, and finding
/// out which takes longer.
const ALL_FROM: usize = 8 * STRIPES;

/// A lock on a cache line of its own. True: it belongs to a command that goes on in steps, and is
/// between two of them.
#[derive(Default)]
#[repr(align(64))]
struct Stripe(Mutex<bool>);

/// How many steps of several keys write now, on a line of its own: every read looks at it.
#[derive(Default)]
#[repr(align(128))]
struct Busy(AtomicUsize);

/// The table. One per process.
pub(crate) struct Locks {
    busy: Busy,
    stripes: Box<[Stripe]>,
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
    guard: MutexGuard<'a, bool>,
    at: usize,
}

/// Stripes held; released when dropped.
pub(crate) struct Held<'a> {
    /// Dropped before `busy` is lowered.
    guards: Vec<MutexGuard<'a, bool>>,
    set: Set,
    busy: Option<&'a AtomicUsize>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Lowered while the stripes are held: a read that sees 0 sees all writes of the step.
        if let Some(busy) = self.busy {
            busy.fetch_sub(1, Ordering::Release);
        }
        self.guards.clear();
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
        self.set.iter().for_each(|at| *locks.stripes[at].0.lock() = false);
    }
}

impl One<'_> {
    /// The stripe stays the command's until it has ended.
    pub(crate) fn keep(mut self, shared: &Arc<Shared>) -> Kept {
        let mut set = Set([0; WORDS]);
        set.0[self.at / 64] |= 1 << (self.at % 64);
        *self.guard = true;
        Kept { shared: shared.clone(), set, busy: false }
    }
}

impl Held<'_> {
    /// The stripes stay the command's until it has ended.
    pub(crate) fn keep(mut self, shared: &Arc<Shared>) -> Kept {
        self.guards.iter_mut().for_each(|guard| **guard = true);
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
        Locks { busy: Busy::default(), stripes: (0..STRIPES).map(|_| Stripe::default()).collect() }
    }

    /// For a write of one key. None: it belongs to a command that goes on in steps.
    #[inline]
    pub(crate) fn write(&self, key: &[u8]) -> Option<One<'_>> {
        let at = stripe(key);
        let guard = self.stripes[at].0.lock();
        (!*guard).then_some(One { guard, at })
    }

    /// For a moment in which no write of this key is under way.
    pub(crate) fn moment(&self, key: &[u8]) -> MutexGuard<'_, bool> {
        self.stripes[stripe(key)].0.lock()
    }

    /// Does a read of one key need its stripe? Only while a step of several keys writes.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.0.load(Ordering::Acquire) != 0
    }

    /// For a step of several keys. None: one of its stripes belongs to a command that goes on in
    /// steps.
    pub(crate) fn take(&self, wanted: &Wanted) -> Option<Held<'_>> {
        let busy = wanted.writes.then_some(&self.busy.0);
        if let Some(busy) = busy {
            busy.fetch_add(1, Ordering::AcqRel);
        }
        let mut held = Held { guards: Vec::new(), set: wanted.set.clone(), busy };
        for at in wanted.set.iter() {
            let guard = self.stripes[at].0.lock();
            if *guard {
                return None;
            }
            held.guards.push(guard);
        }
        Some(held)
    }
}

#[inline]
fn stripe(key: &[u8]) -> usize {
    // Which stripe a key has is no secret: a client that picks keys of one stripe makes its own writes wait.
    let hash = rapidhash::v3::rapidhash_v3(key);
    (hash % STRIPES as u64) as usize
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    #[test]
    fn steps_taken_in_any_order_of_keys_never_wait_in_a_circle() {
        let locks = Locks::new();
        let (a, b) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for turned in [false, true, false, true] {
                let (locks, a, b) = (&locks, &a, &b);
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        let mut wanted = Wanted::default();
                        let keys = if turned { [b"one", b"two"] } else { [b"two", b"one"] };
                        keys.iter().for_each(|key| wanted.key(&key[..]));
                        wanted.writes();
                        let _held = locks.take(&wanted).expect("nobody keeps a stripe");
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
        let reading = locks.take(&wanted);
        assert!(!locks.is_busy(), "a step that only reads stops no read");
        drop(reading);
        wanted.writes();
        let writing = locks.take(&wanted);
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
        assert_eq!(locks.take(&wanted).map(|held| held.guards.len()), Some(1));
        let mut wanted = Wanted::default();
        wanted.all();
        assert_eq!(locks.take(&wanted).map(|held| held.guards.len()), Some(STRIPES));
    }

    #[test]
    fn a_kept_stripe_makes_no_thread_wait_and_comes_back() {
        let shared = crate::redis::tests::shared(crate::redis::tests::settings());
        let locks = &shared.locks;
        let mut wanted = Wanted::default();
        wanted.key(b"key");
        wanted.writes();
        let kept = locks.take(&wanted).map(|held| held.keep(&shared));
        assert!(kept.is_some() && locks.write(b"key").is_none() && locks.take(&wanted).is_none());
        assert!(locks.is_busy(), "reads of one key look at its stripe");
        drop(kept);
        assert!(locks.write(b"key").is_some() && !locks.is_busy());
        let kept = locks.write(b"key").map(|one| one.keep(&shared));
        assert!(kept.is_some() && locks.write(b"key").is_none());
        drop(kept);
        assert!(locks.take(&wanted).is_some());
    }
}
