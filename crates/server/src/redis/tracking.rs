//! Client-side caching: the clients that may cache a key, and the invalidation messages to them
//! (Redis documentation, "Client-side caching in Redis"; tracking.c).
//!
//! A key is recorded before it is read: an intervening write is reported too early rather than
//! never. The table is divided into locked parts and bounded by `tracking-table-max-keys`; a key
//! dropped to make room is reported as changed. While no client tracks keys, reads and writes skip
//! this module ([`super::attention`]).

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use larder_proto::resp::{Reply, Version};
use parking_lot::{Mutex, RwLock};

use super::{
    attention,
    known::{Known, flag},
    shared::Shared,
};

/// Locked parts of the table.
const PARTS: usize = 64;
/// Size of a key's list from which ids of departed clients are removed, whenever the list has
/// doubled.
const CHECK_FROM: usize = 64;
/// Bytes of an entry beside its key: its slot in the part, and the first client of its list.
const ENTRY: usize = 112;
/// Bytes of each further client of an entry.
const ITEM: usize = 8;
/// Share of the clients' memory ([`Room::most`](crate::room::Room::most)) for the table, as
/// a divisor.
const SHARE: u64 = 8;
/// Channel of invalidations for RESP2 clients.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// A prefix and its clients.
type PrefixClients = (Box<[u8]>, Vec<Arc<Known>>);

type Part = HashMap<Box<[u8]>, Vec<u64>>;

/// The table. One per process.
pub(crate) struct Tracking {
    parts: Box<[Mutex<Part>]>,
    keys: AtomicUsize,
    items: AtomicUsize,
    /// Bytes of the keys and their entries.
    bytes: AtomicUsize,
    /// BCAST: prefixes, and the clients that track all keys with them.
    prefixes: RwLock<Vec<PrefixClients>>,
    /// Number of tracking clients.
    clients: AtomicUsize,
}

impl Tracking {
    pub(crate) fn new() -> Tracking {
        Tracking {
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            keys: AtomicUsize::new(0),
            items: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            prefixes: RwLock::default(),
            clients: AtomicUsize::new(0),
        }
    }

    fn part(&self, key: &[u8]) -> &Mutex<Part> {
        &self.parts[rapidhash::v3::rapidhash_v3(key) as usize % PARTS]
    }

    /// Starts tracking for a client, with prefixes in the mode BCAST.
    pub(crate) fn enter(&self, shared: &Shared, known: &Arc<Known>, prefixes: &[Box<[u8]>]) {
        let mut all = self.prefixes.write();
        add(&mut all, known, prefixes);
        // Counted under the lock, so that the last client to leave and the next one to come cannot
        // interleave.
        self.clients.fetch_add(1, Relaxed);
        attention::set(shared, attention::TRACKING, true);
    }

    /// Adds prefixes to a client that tracks already.
    pub(crate) fn add_prefixes(&self, known: &Arc<Known>, prefixes: &[Box<[u8]>]) {
        add(&mut self.prefixes.write(), known, prefixes);
    }

    /// Ends tracking for a client. Its entries are dropped later.
    pub(crate) fn leave(&self, shared: &Shared, known: &Known) {
        let mut all = self.prefixes.write();
        all.iter_mut().for_each(|(_, clients)| clients.retain(|other| other.id() != known.id()));
        all.retain(|(_, clients)| !clients.is_empty());
        if self.clients.fetch_sub(1, Relaxed) == 1 {
            attention::set(shared, attention::TRACKING, false);
        }
    }

    /// Records that a client is about to read a key that it may cache.
    pub(crate) fn remember(&self, shared: &Shared, key: &[u8], id: u64) {
        let mut dropped = Vec::new();
        {
            let mut part = self.part(key).lock();
            if let Some(ids) = part.get_mut(key) {
                if !ids.contains(&id) {
                    self.remove_departed(shared, ids);
                    ids.push(id);
                    self.items.fetch_add(1, Relaxed);
                }
                return;
            }
            // Keys of the same part make room. If there are none, this key is not recorded but
            // invalidated.
            while self.is_full(shared, key) {
                let Some(victim) = part.keys().next().cloned() else { break };
                dropped.extend(part.remove_entry(&victim));
                self.count_removed(&victim);
            }
            if self.is_full(shared, key) {
                dropped.push((key.into(), vec![id]));
            } else {
                part.insert(key.into(), vec![id]);
                self.keys.fetch_add(1, Relaxed);
                self.bytes.fetch_add(ENTRY + key.len(), Relaxed);
            }
            self.items.fetch_add(1, Relaxed);
        }
        for (key, ids) in dropped {
            self.items.fetch_sub(ids.len(), Relaxed);
            ids.iter().for_each(|id| self.invalidate_for_id(shared, *id, Some(&key), None));
        }
    }

    /// Returns whether the table has no room for one more key.
    fn is_full(&self, shared: &Shared, key: &[u8]) -> bool {
        let most = shared.config.tracking_keys.load(Relaxed) as usize;
        let bytes = self.bytes.load(Relaxed) + self.items.load(Relaxed) * ITEM + ENTRY + key.len();
        (most > 0 && self.keys.load(Relaxed) >= most)
            || bytes as u64 > shared.clients.room().most() / SHARE
    }

    /// Subtracts a removed key.
    fn count_removed(&self, key: &[u8]) {
        self.keys.fetch_sub(1, Relaxed);
        self.bytes.fetch_sub(ENTRY + key.len(), Relaxed);
    }

    /// Removes departed clients: a key that all read and nobody writes would collect them.
    fn remove_departed(&self, shared: &Shared, ids: &mut Vec<u64>) {
        if ids.len() < CHECK_FROM || ids.len() < ids.capacity() {
            return;
        }
        let before = ids.len();
        ids.retain(|id| shared.registry.get(*id).is_some());
        self.items.fetch_sub(before - ids.len(), Relaxed);
        if ids.len() > before / 2 {
            // Most ids are live: reserve room to prevent another check before the list has doubled.
            ids.reserve(before);
        }
    }

    /// Sends invalidations for a key that was changed or removed. `writer`: the client that did it.
    pub(crate) fn invalidate(&self, shared: &Shared, key: &[u8], writer: Option<u64>) {
        for (prefix, clients) in self.prefixes.read().iter() {
            if key.starts_with(prefix) {
                clients
                    .iter()
                    .for_each(|known| send_invalidation(shared, known, Some(key), writer));
            }
        }
        let ids = self.part(key).lock().remove(key);
        if let Some(ids) = ids {
            self.count_removed(key);
            self.items.fetch_sub(ids.len(), Relaxed);
            ids.iter().for_each(|id| self.invalidate_for_id(shared, *id, Some(key), writer));
        }
    }

    /// Sends all clients an invalidation of all keys (FLUSHDB, FLUSHALL).
    pub(crate) fn flush(&self, shared: &Shared) {
        for part in &self.parts {
            let mut part = part.lock();
            part.keys().for_each(|key| self.count_removed(key));
            self.items.fetch_sub(part.values().map(Vec::len).sum(), Relaxed);
            part.clear();
        }
        for known in shared.registry.list() {
            if known.has(flag::TRACKING) {
                send_invalidation(shared, &known, None, None);
            }
        }
    }

    fn invalidate_for_id(&self, shared: &Shared, id: u64, key: Option<&[u8]>, writer: Option<u64>) {
        let Some(known) = shared.registry.get(id) else { return };
        // The client may have ended tracking since, or changed to BCAST.
        if known.has(flag::TRACKING) && !known.has(flag::BROADCAST) {
            send_invalidation(shared, &known, key, writer);
        }
    }

    /// Number of keys, entries for clients, prefixes, and tracking clients.
    pub(crate) fn counts(&self) -> (usize, usize, usize, usize) {
        let prefixes = self.prefixes.read().len();
        (self.keys.load(Relaxed), self.items.load(Relaxed), prefixes, self.clients.load(Relaxed))
    }
}

fn add(all: &mut Vec<PrefixClients>, known: &Arc<Known>, prefixes: &[Box<[u8]>]) {
    for prefix in prefixes {
        match all.iter_mut().find(|(other, _)| other == prefix) {
            Some((_, clients)) => clients.push(known.clone()),
            None => all.push((prefix.clone(), vec![known.clone()])),
        }
    }
}

/// Sends an invalidation to one client; without a key: of all keys.
fn send_invalidation(shared: &Shared, known: &Known, key: Option<&[u8]>, writer: Option<u64>) {
    if known.has(flag::NO_LOOP) && writer == Some(known.id()) {
        return;
    }
    let limit = shared.config.mail_limit();
    let redirect = known.redirect.load(Relaxed);
    if redirect == 0 {
        if known.version() == Version::V3 {
            known.push(&message(Version::V3, key), limit);
        }
        return;
    }
    let Some(target) = shared.registry.get(redirect) else {
        known.raise(flag::BROKEN_REDIRECT);
        if known.version() == Version::V3 {
            let mut bytes = Vec::new();
            let mut reply = Reply::new(&mut bytes, Version::V3);
            reply.push(2);
            reply.bulk(b"tracking-redir-broken");
            reply.integer(redirect as i64);
            known.push(&bytes, limit);
        }
        return;
    };
    let version = target.version();
    if version == Version::V3 || target.has(flag::SUBSCRIBER) {
        target.push(&message(version, key), limit);
    }
}

fn message(version: Version, key: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64 + key.map_or(0, <[u8]>::len));
    let mut reply = Reply::new(&mut bytes, version);
    if version == Version::V3 {
        reply.push(2);
        reply.bulk(b"invalidate");
    } else {
        reply.array(3);
        reply.bulk(b"message");
        reply.bulk(CHANNEL);
    }
    match key {
        Some(key) => {
            reply.array(1);
            reply.bulk(key);
        }
        None => reply.null(),
    }
    bytes
}
