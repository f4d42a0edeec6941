//! Who hears of entries that went by themselves: evicted, or expired and swept. While nobody listens it costs one relaxed load
//! for each of them.

use crate::item::Record;
use crate::store::Store;
use crate::types::{Cause, Evicted, Ms};
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

type Callback = Box<dyn Fn(&Evicted<'_>) + Send + Sync>;

/// The observer, if there is one, and whether it wants to hear now.
#[derive(Default)]
pub(crate) struct Observer {
    observing: AtomicBool,
    callback: OnceLock<Callback>,
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Observer({:?})", self.observing)
    }
}

impl Store {
    /// Sets who hears of evicted and expired entries while [`Store::observing`]. Once: false, and nothing set, if somebody was
    /// set before. No lock of the store is held when it is called. It must not write to the store.
    pub fn observe(&self, observer: Callback) -> bool {
        self.observer.callback.set(observer).is_ok()
    }

    /// Whether the observer is called from now on.
    pub fn observing(&self, yes: bool) {
        self.observer.observing.store(yes, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_observing(&self) -> bool {
        self.observer.observing.load(Ordering::Relaxed)
    }

    /// Tells of a record that was unlinked; it is still in place, and no lock is held.
    pub(crate) fn tell(&self, record: &Record<'_>, cause: Cause, now: Ms) {
        if self.is_observing()
            && let Some(callback) = self.observer.callback.get()
        {
            let info = record.info();
            callback(&Evicted { ns: record.ns(), key: record.key(), info, cause, now });
        }
    }
}
