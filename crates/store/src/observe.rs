//! Observers of entries that the store removed by itself: evicted, or expired and swept. Without
//! observers it costs one relaxed load for each entry.

use crate::item::Record;
use crate::store::Store;
use crate::types::{Cause, Evicted, Ms};
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

type Callback = Box<dyn Fn(&Evicted<'_>) + Send + Sync>;

/// Most observers: one for each protocol that notifies its clients.
const OBSERVERS: usize = 4;

/// The observers, and whether any of them listens now.
#[derive(Default)]
pub(crate) struct Observer {
    observing: AtomicBool,
    callbacks: [OnceLock<Callback>; OBSERVERS],
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Observer({:?})", self.observing)
    }
}

impl Store {
    /// Adds a callback for evicted and expired entries while [`Store::observing`]. False, and
    /// nothing added, if there are four already. No lock of the store is held when it is called. It
    /// must not write to the store (that could evict, and so call it again), and is not called for
    /// entries that a write, a delete or a flush removes, expired or not.
    pub fn observe(&self, observer: Callback) -> bool {
        let mut observer = observer;
        for place in &self.observer.callbacks {
            match place.set(observer) {
                Ok(()) => return true,
                Err(back) => observer = back,
            }
        }
        false
    }

    /// Whether the observers are called from now on. With several observers, turning it off applies
    /// to all.
    pub fn observing(&self, yes: bool) {
        self.observer.observing.store(yes, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_observing(&self) -> bool {
        self.observer.observing.load(Ordering::Relaxed)
    }

    /// Reports a record that was unlinked; it is still in place, and no lock is held.
    pub(crate) fn tell(&self, record: &Record<'_>, cause: Cause, now: Ms) {
        if !self.is_observing() {
            return;
        }
        for callback in self.observer.callbacks.iter().filter_map(OnceLock::get) {
            let info = record.info();
            callback(&Evicted { ns: record.ns(), key: record.key(), info, cause, now });
        }
    }
}
