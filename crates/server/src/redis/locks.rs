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

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

/// Stripes. Keys that share one only wait for each other.
const STRIPES: usize = 1024;

/// A lock on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Stripe(Mutex<()>);

/// How many steps of several keys write now, on a line of its own: every read looks at it.
#[derive(Default)]
#[repr(align(128))]
struct Busy(AtomicUsize);

/// The table. One per process.
pub(crate) struct Locks {
    busy: Busy,
    stripes: Box<[Stripe]>,
}

/// Stripes held; released when dropped.
pub(crate) struct Held<'a> {
    /// Dropped before `busy` is lowered.
    guards: Vec<MutexGuard<'a, ()>>,
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

/// The stripes a step needs, collected first.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    stripes: Vec<u16>,
    all: bool,
    writes: bool,
}

impl Wanted {
    /// This key.
    pub(crate) fn key(&mut self, key: &[u8]) {
        self.stripes.push(stripe(key) as u16);
    }

    /// Every key there is.
    pub(crate) fn all(&mut self) {
        self.all = true;
    }

    /// The step writes.
    pub(crate) fn writes(&mut self) {
        self.writes = true;
    }

    /// Nothing is needed.
    pub(crate) fn is_empty(&self) -> bool {
        self.stripes.is_empty() && !self.all
    }
}

impl Locks {
    pub(crate) fn new() -> Locks {
        Locks { busy: Busy::default(), stripes: (0..STRIPES).map(|_| Stripe::default()).collect() }
    }

    /// For a write of one key.
    #[inline]
    pub(crate) fn write(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        self.stripes[stripe(key)].0.lock()
    }

    /// For a read of one key: nothing, unless a step of several keys writes now.
    #[inline]
    pub(crate) fn read(&self, key: &[u8]) -> Option<MutexGuard<'_, ()>> {
        if self.busy.0.load(Ordering::Acquire) == 0 {
            return None;
        }
        Some(self.write(key))
    }

    /// For a step of several keys. `wanted` is left in order.
    pub(crate) fn take(&self, wanted: &mut Wanted) -> Held<'_> {
        let busy = wanted.writes.then_some(&self.busy.0);
        if let Some(busy) = busy {
            busy.fetch_add(1, Ordering::AcqRel);
        }
        if wanted.all {
            return Held { guards: self.stripes.iter().map(|stripe| stripe.0.lock()).collect(), busy };
        }
        wanted.stripes.sort_unstable();
        wanted.stripes.dedup();
        Held { guards: wanted.stripes.iter().map(|&at| self.stripes[at as usize].0.lock()).collect(), busy }
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
                        let _held = locks.take(&mut wanted);
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
        assert!(locks.read(b"other").is_none());
        let mut wanted = Wanted::default();
        wanted.key(b"key");
        let reading = locks.take(&mut wanted);
        assert!(locks.read(b"other").is_none(), "a step that only reads stops no read");
        drop(reading);
        wanted.writes();
        let writing = locks.take(&mut wanted);
        assert!(locks.read(b"other").is_some());
        assert!(locks.stripes[stripe(b"key")].0.try_lock().is_none());
        drop(writing);
        assert!(locks.read(b"key").is_none());
    }

    #[test]
    fn the_same_stripe_twice_is_taken_once() {
        let locks = Locks::new();
        let mut wanted = Wanted::default();
        wanted.key(b"key");
        wanted.key(b"key");
        assert_eq!(locks.take(&mut wanted).guards.len(), 1);
        let mut wanted = Wanted::default();
        wanted.all();
        assert_eq!(locks.take(&mut wanted).guards.len(), STRIPES);
    }
}
