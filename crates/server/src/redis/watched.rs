//! Keys under WATCH, each with a count of its writes. The count also detects a key that was deleted
//! and created again, or given an expiry and stripped of it.
//!
//! While no key is watched, a write pays nothing ([`attention::WATCHES`]).

use std::{
    collections::HashMap,
    hash::BuildHasher,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::AcqRel},
    },
};

use larder_store::Namespace;
use parking_lot::Mutex;

use super::{attention, shared::Shared};

/// Parts of the table, so that writers of different keys seldom contend.
const PARTS: usize = 64;

type Key = (u8, Box<[u8]>);

/// One watched key.
#[derive(Debug, Default)]
struct WatchedKey {
    watchers: usize,
    writes: u64,
}

struct Parts([Mutex<HashMap<Key, WatchedKey>>; PARTS]);

impl Default for Parts {
    fn default() -> Self {
        Parts(std::array::from_fn(|_| Mutex::default()))
    }
}

/// The table. One per process; it has an entry per watched key (their number per connection is
/// limited).
#[derive(Default)]
pub(crate) struct Watched {
    parts: Parts,
    hasher: std::hash::RandomState,
    watches: AtomicUsize,
    /// Held while the first watch starts or the last ends, so that the flag in `attention` follows.
    turn: Mutex<()>,
}

/// A watch. Dropping it ends it.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    key: Key,
    writes: u64,
}

impl Watched {
    fn part(&self, key: &Key) -> &Mutex<HashMap<Key, WatchedKey>> {
        &self.parts.0[self.hasher.hash_one(key) as usize % PARTS]
    }

    /// Counts a write of a key. Call it with the key's stripe held.
    #[cold]
    pub(crate) fn wrote(&self, ns: Namespace, key: &[u8]) {
        let key = (ns.0, key.into());
        if let Some(place) = self.part(&key).lock().get_mut(&key) {
            place.writes += 1;
        }
    }

    /// Counts a write of every key of some namespaces: what their databases are has changed.
    pub(crate) fn wrote_all(&self, namespaces: [Namespace; 2]) {
        for part in &self.parts.0 {
            let mut part = part.lock();
            let of = |key: &Key| namespaces.iter().any(|ns| ns.0 == key.0);
            part.iter_mut().filter(|(key, _)| of(key)).for_each(|(_, place)| place.writes += 1);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.parts.0.iter().map(|part| part.lock().len()).sum()
    }
}

impl Watch {
    /// Starts to watch a key. Call it with the key's stripe held: then a write that has not seen
    /// the flag is over.
    pub(crate) fn new(shared: &Arc<Shared>, ns: Namespace, key: &[u8]) -> Watch {
        let watched = &shared.watched;
        let key = (ns.0, Box::from(key));
        let turn = watched.turn.lock();
        if watched.watches.fetch_add(1, AcqRel) == 0 {
            attention::set(shared, attention::WATCHES, true);
        }
        drop(turn);
        let mut part = watched.part(&key).lock();
        let place = part.entry(key.clone()).or_default();
        place.watchers += 1;
        let writes = place.writes;
        drop(part);
        Watch { shared: shared.clone(), key, writes }
    }

    /// Returns whether the key was written since.
    pub(crate) fn is_written(&self) -> bool {
        let part = self.shared.watched.part(&self.key).lock();
        part.get(&self.key).is_none_or(|place| place.writes != self.writes)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let watched = &self.shared.watched;
        let mut part = watched.part(&self.key).lock();
        if let Some(place) = part.get_mut(&self.key) {
            place.watchers -= 1;
            if place.watchers == 0 {
                part.remove(&self.key);
            }
        }
        drop(part);
        let _turn = watched.turn.lock();
        if watched.watches.fetch_sub(1, AcqRel) == 1 {
            attention::set(&self.shared, attention::WATCHES, false);
        }
    }
}
