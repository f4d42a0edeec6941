//! Client-side caching: which clients may hold a key, and the messages that tell them it changed
//! (Redis documentation, "Client-side caching in Redis"; tracking.c).
//!
//! A key is entered before it is read: a write that comes between is told too early rather than
//! never. The table is spread over locked parts and bounded by `tracking-table-max-keys`; a key
//! dropped for room is told as changed. While nobody tracks, reads and writes do not come here
//! ([`super::attention`]).

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
/// From so many entries for one key on, those of clients that are gone are dropped whenever there
/// are twice as many.
const CROWD: usize = 64;
/// Bytes of an entry beside its key: the key's place in its part, and the first client of its list.
const ENTRY: usize = 112;
/// Bytes of a further client of an entry.
const ITEM: usize = 8;
/// Of the most that clients may hold ([`Room::most`](crate::object::room::Room::most)), the table
/// may have one part in so many.
const SHARE: u64 = 8;
/// The channel RESP2 clients hear invalidations on.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// A pattern or prefix, and who asked for it.
type Listeners = (Box<[u8]>, Vec<Arc<Known>>);

type Part = HashMap<Box<[u8]>, Vec<u64>>;

/// The table. One per process.
pub(crate) struct Tracking {
    parts: Box<[Mutex<Part>]>,
    keys: AtomicUsize,
    items: AtomicUsize,
    /// Of the keys and their entries.
    bytes: AtomicUsize,
    /// BCAST: prefixes and those who want to hear of every key that begins so.
    prefixes: RwLock<Vec<Listeners>>,
    /// Clients with tracking on.
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

    /// A client turns tracking on, with prefixes where it wants to hear of all keys.
    pub(crate) fn enter(&self, shared: &Shared, known: &Arc<Known>, prefixes: &[Box<[u8]>]) {
        let mut all = self.prefixes.write();
        add(&mut all, known, prefixes);
        // Under the lock: the last to leave and the next to come must not meet.
        self.clients.fetch_add(1, Relaxed);
        attention::set(shared, attention::TRACKING, true);
    }

    /// One that tracks already wants to hear of more.
    pub(crate) fn add_prefixes(&self, known: &Arc<Known>, prefixes: &[Box<[u8]>]) {
        add(&mut self.prefixes.write(), known, prefixes);
    }

    /// It turns it off. What it had entered is dropped when its turn comes.
    pub(crate) fn leave(&self, shared: &Shared, known: &Known) {
        let mut all = self.prefixes.write();
        all.iter_mut().for_each(|(_, clients)| clients.retain(|other| other.id() != known.id()));
        all.retain(|(_, clients)| !clients.is_empty());
        if self.clients.fetch_sub(1, Relaxed) == 1 {
            attention::set(shared, attention::TRACKING, false);
        }
    }

    /// A client is about to read a key it may keep.
    pub(crate) fn remember(&self, shared: &Shared, key: &[u8], id: u64) {
        let mut dropped = Vec::new();
        {
            let mut part = self.part(key).lock();
            if let Some(ids) = part.get_mut(key) {
                if !ids.contains(&id) {
                    self.forget_gone(shared, ids);
                    ids.push(id);
                    self.items.fetch_add(1, Relaxed);
                }
                return;
            }
            // Keys of the same part make room; where there are none, this one is not entered but
            // told.
            while self.is_full(shared, key) {
                let Some(victim) = part.keys().next().cloned() else { break };
                dropped.extend(part.remove_entry(&victim));
                self.count_out(&victim);
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
            ids.iter().for_each(|id| self.tell_id(shared, *id, Some(&key), None));
        }
    }

    /// Has the table no place for one more key?
    fn is_full(&self, shared: &Shared, key: &[u8]) -> bool {
        let most = shared.config.tracking_keys.load(Relaxed) as usize;
        let bytes = self.bytes.load(Relaxed) + self.items.load(Relaxed) * ITEM + ENTRY + key.len();
        (most > 0 && self.keys.load(Relaxed) >= most)
            || bytes as u64 > shared.clients.room().most() / SHARE
    }

    /// This key is out of the table.
    fn count_out(&self, key: &[u8]) {
        self.keys.fetch_sub(1, Relaxed);
        self.bytes.fetch_sub(ENTRY + key.len(), Relaxed);
    }

    /// Drops the entries of clients that are gone: a key that everybody reads and nobody writes
    /// would collect them.
    fn forget_gone(&self, shared: &Shared, ids: &mut Vec<u64>) {
        if ids.len() < CROWD || ids.len() < ids.capacity() {
            return;
        }
        let before = ids.len();
        ids.retain(|id| shared.registry.get(*id).is_some());
        self.items.fetch_sub(before - ids.len(), Relaxed);
        if ids.len() > before / 2 {
            // Most are there: not again before there are twice as many.
            ids.reserve(before);
        }
    }

    /// A key changed or went: those who may hold it are told. `writer`: whose doing it was.
    pub(crate) fn invalidate(&self, shared: &Shared, key: &[u8], writer: Option<u64>) {
        for (prefix, clients) in self.prefixes.read().iter() {
            if key.starts_with(prefix) {
                clients.iter().for_each(|known| tell(shared, known, Some(key), writer));
            }
        }
        let ids = self.part(key).lock().remove(key);
        if let Some(ids) = ids {
            self.count_out(key);
            self.items.fetch_sub(ids.len(), Relaxed);
            ids.iter().for_each(|id| self.tell_id(shared, *id, Some(key), writer));
        }
    }

    /// All keys went (FLUSHDB, FLUSHALL): everybody is told so.
    pub(crate) fn flush(&self, shared: &Shared) {
        for part in &self.parts {
            let mut part = part.lock();
            part.keys().for_each(|key| self.count_out(key));
            self.items.fetch_sub(part.values().map(Vec::len).sum(), Relaxed);
            part.clear();
        }
        for known in shared.registry.list() {
            if known.has(flag::TRACKING) {
                tell(shared, &known, None, None);
            }
        }
    }

    fn tell_id(&self, shared: &Shared, id: u64, key: Option<&[u8]>, writer: Option<u64>) {
        let Some(known) = shared.registry.get(id) else { return };
        // It may have turned it off since, or to BCAST.
        if known.has(flag::TRACKING) && !known.has(flag::BROADCAST) {
            tell(shared, &known, key, writer);
        }
    }

    /// Keys in the table, entries for clients in it, prefixes, and clients that track.
    pub(crate) fn counts(&self) -> (usize, usize, usize, usize) {
        let prefixes = self.prefixes.read().len();
        (self.keys.load(Relaxed), self.items.load(Relaxed), prefixes, self.clients.load(Relaxed))
    }
}

fn add(all: &mut Vec<Listeners>, known: &Arc<Known>, prefixes: &[Box<[u8]>]) {
    for prefix in prefixes {
        match all.iter_mut().find(|(other, _)| other == prefix) {
            Some((_, clients)) => clients.push(known.clone()),
            None => all.push((prefix.clone(), vec![known.clone()])),
        }
    }
}

/// Sends one client one invalidation; without a key: of everything.
fn tell(shared: &Shared, known: &Known, key: Option<&[u8]>, writer: Option<u64>) {
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
