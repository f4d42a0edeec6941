//! Hashes with fields that expire, by the time of the first of these. The sweep removes expired
//! fields of hashes that nobody looks at, so that their memory is free and their events are sent
//! soon. Each look at a hash removes them anyway, so this table need not be complete: it
//! forgets those with the latest times when it is full, and is empty after a start.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use larder_store::Namespace;
use parking_lot::Mutex;

use super::{data, shared::Shared};
use crate::clock::Ms;

/// Most hashes: with the next constant, 6 MB.
const MOST: usize = 16 * 1024;
/// Longest key in bytes.
const LONGEST: usize = 256;
/// Hashes of one sweep, each of which is written anew: some milliseconds.
const AT_ONCE: usize = 256;

/// The time of a hash's first expiry, its database, its key.
type Due = (Ms, u8, Box<[u8]>);

/// The table. One per process.
#[derive(Default)]
pub(crate) struct DueFields {
    keys: Mutex<BTreeSet<Due>>,
    /// Fields removed since the start because they had expired.
    expired: AtomicU64,
}

impl DueFields {
    pub(super) fn add(&self, ns: Namespace, key: &[u8], soonest: Ms) {
        if key.len() > LONGEST {
            return;
        }
        let mut keys = self.keys.lock();
        keys.insert((soonest, ns.0, key.into()));
        if keys.len() > MOST {
            keys.pop_last();
        }
    }

    fn take(&self, now: Ms) -> Option<(Namespace, Box<[u8]>)> {
        let mut keys = self.keys.lock();
        if keys.first().is_none_or(|(time, ..)| *time > now) {
            return None;
        }
        keys.pop_first().map(|(_, ns, key)| (Namespace(ns), key))
    }

    pub(super) fn count(&self, fields: usize) {
        self.expired.fetch_add(fields as u64, Relaxed);
    }

    pub(super) fn expired(&self) -> u64 {
        self.expired.load(Relaxed)
    }
}

impl Shared {
    /// Removes expired fields of hashes. For the thread that sweeps the store.
    pub(crate) fn sweep_fields(&self, now: Ms) {
        for _ in 0..AT_ONCE {
            let Some((ns, key)) = self.due_fields.take(now) else { return };
            data::sweep_fields(self, ns, &key, now);
        }
    }
}
