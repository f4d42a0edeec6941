//! Which events are looked at: all at a low rate, a sample at a high one.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The pace of one worker, its only writer.
#[derive(Debug, Default)]
pub struct Pace {
    second: AtomicU64,
    /// Events looked at one by one in this second.
    looked: AtomicU32,
    /// Events until the next sample.
    left: AtomicU32,
    /// Events that the next sample stands for.
    weight: AtomicU32,
}

impl Pace {
    /// Whether this event is looked at, and for how many it stands: the first `exact` of each
    /// second for themselves, a later one for as many as `every` says, itself included. Events
    /// that are not followed by a sample in the same second stand for nothing.
    #[inline]
    pub fn due(&self, second: u64, exact: u32, every: impl FnOnce() -> u32) -> Option<u32> {
        let left = self.left.load(Relaxed);
        if left > 0 && self.second.load(Relaxed) == second {
            self.left.store(left - 1, Relaxed);
            return None;
        }
        self.look(second, exact, every)
    }

    #[cold]
    fn look(&self, second: u64, exact: u32, every: impl FnOnce() -> u32) -> Option<u32> {
        if self.second.load(Relaxed) != second {
            self.second.store(second, Relaxed);
            self.looked.store(0, Relaxed);
            self.weight.store(1, Relaxed);
        }
        let (looked, weight) = (self.looked.load(Relaxed), self.weight.load(Relaxed));
        if looked < exact {
            self.left.store(0, Relaxed);
            self.looked.store(looked + 1, Relaxed);
            if looked + 1 == exact {
                self.next(every());
            }
            return Some(1);
        }
        self.next(every());
        Some(weight)
    }

    fn next(&self, every: u32) {
        let every = every.max(1);
        self.left.store(every - 1, Relaxed);
        self.weight.store(every, Relaxed);
    }
}
