//! Client-side caching: the clients that may cache a key, and the invalidation messages to them
//! (Redis documentation, "Client-side caching in Redis"; tracking.c).
//!
//! A key is recorded before it is read: an intervening write is reported too early rather than
//! never. The table is divided into locked parts and bounded by `tracking-table-max-keys`; a key
//! dropped to make room is reported as changed. While no client tracks keys, reads and writes skip
//! this module ([`super::attention`]).

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet, HashMap, hash_map},
    ops::Bound,
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
    subscribers::Subscribers,
    untold::Untold,
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

/// Bytes of changed keys of one command that are gathered for a message (Redis: those of a turn of
/// its loop): a message is copied for each client.
const GATHERED: usize = 64 << 10;
const GATHERED_ENTRY: usize = size_of::<Box<[u8]>>();

/// Receivers of an invalidation, and tracked keys dropped, in one step: some half a millisecond.
const AT_ONCE: usize = 512;
const DROPPED: usize = 4096;

type Part = HashMap<Box<[u8]>, Vec<u64>>;

/// The table. One per process.
pub(crate) struct Tracking {
    parts: Box<[Mutex<Part>]>,
    keys: AtomicUsize,
    items: AtomicUsize,
    /// Bytes of the keys and their entries.
    bytes: AtomicUsize,
    /// BCAST: prefixes, and the clients that track all keys with them.
    prefixes: RwLock<BTreeMap<Box<[u8]>, Subscribers>>,
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
        prefixes.iter().for_each(|prefix| add(&mut all, known, prefix));
        // Counted under the lock, so that the last client to leave and the next one to come cannot
        // interleave.
        self.clients.fetch_add(1, Relaxed);
        attention::set(shared, attention::TRACKING, true);
    }

    /// Adds prefixes to a client that tracks already.
    pub(crate) fn add_prefixes(&self, known: &Arc<Known>, prefixes: &[Box<[u8]>]) {
        let mut all = self.prefixes.write();
        prefixes.iter().for_each(|prefix| add(&mut all, known, prefix));
    }

    /// Ends tracking for a client with these prefixes. Its entries are dropped later.
    pub(crate) fn leave(&self, shared: &Shared, known: &Known, prefixes: &[Box<[u8]>]) {
        let mut all = self.prefixes.write();
        for prefix in prefixes {
            let Some(clients) = all.get_mut(prefix) else { continue };
            clients.remove(known);
            if clients.is_empty() {
                all.remove(prefix);
            }
        }
        if self.clients.fetch_sub(1, Relaxed) == 1 {
            attention::set(shared, attention::TRACKING, false);
        }
    }

    /// Records that a client is about to read a key that it may cache. Returns the invalidations of
    /// keys that were dropped for it.
    pub(super) fn remember(
        &self,
        shared: &Shared,
        key: &[u8],
        id: u64,
    ) -> impl Iterator<Item = Untold> + use<> {
        self.record(shared, key, id).into_iter().map(|(key, ids)| {
            let receivers = ids.into_iter().map(|id| (id, false)).collect::<Vec<_>>().into_iter();
            Untold::Invalidation(Invalidation { keys: vec![key], writer: None, receivers })
        })
    }

    /// As `remember`: returns the dropped keys with their clients.
    fn record(&self, shared: &Shared, key: &[u8], id: u64) -> Vec<(Box<[u8]>, Vec<u64>)> {
        let mut dropped = Vec::new();
        {
            let mut part = self.part(key).lock();
            if let Some(ids) = part.get_mut(key) {
                if !ids.contains(&id) {
                    self.remove_departed(shared, ids);
                    ids.push(id);
                    self.items.fetch_add(1, Relaxed);
                }
                return dropped;
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
        for (_, ids) in &dropped {
            self.items.fetch_sub(ids.len(), Relaxed);
        }
        dropped
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

    /// The invalidation of a key that was changed or removed, if a client tracks it. `writer`: the
    /// client that did it.
    pub(super) fn invalidate(&self, key: &[u8], writer: Option<u64>) -> Option<Untold> {
        let mut receivers = Vec::new();
        {
            let prefixes = self.prefixes.read();
            for (_, clients) in prefixes_of(&prefixes, key) {
                receivers.extend(clients.ids().map(|id| (id, true)));
            }
        }
        self.take(key, &mut receivers);
        Invalidation::told(vec![key.into()], writer, receivers)
    }

    /// As `invalidate`, for a key that a command has changed: clients that track its prefixes are
    /// told of all keys of the command at its end.
    pub(super) fn changed(&self, key: &[u8], writer: u64, gathered: &Gathered) -> Option<Untold> {
        {
            let prefixes = self.prefixes.read();
            prefixes_of(&prefixes, key).for_each(|(prefix, _)| gathered.add(prefix, key));
        }
        let mut receivers = Vec::new();
        self.take(key, &mut receivers);
        Invalidation::told(vec![key.into()], Some(writer), receivers)
    }

    /// The invalidation of changed keys with this prefix.
    pub(super) fn of_prefix(
        &self,
        prefix: &[u8],
        keys: BTreeSet<Box<[u8]>>,
        writer: u64,
    ) -> Option<Untold> {
        let prefixes = self.prefixes.read();
        let receivers = prefixes.get(prefix)?.ids().map(|id| (id, true)).collect();
        Invalidation::told(keys.into_iter().collect(), Some(writer), receivers)
    }

    /// Takes the clients that track a key from the table.
    fn take(&self, key: &[u8], receivers: &mut Vec<(u64, bool)>) {
        let ids = self.part(key).lock().remove(key);
        if let Some(ids) = ids {
            self.count_removed(key);
            self.items.fetch_sub(ids.len(), Relaxed);
            receivers.extend(ids.into_iter().map(|id| (id, false)));
        }
    }

    /// Number of keys, entries for clients, prefixes, and tracking clients.
    pub(crate) fn counts(&self) -> (usize, usize, usize, usize) {
        let prefixes = self.prefixes.read().len();
        (self.keys.load(Relaxed), self.items.load(Relaxed), prefixes, self.clients.load(Relaxed))
    }
}

/// Prefixes, and the keys with each, in the order of Redis: that of the names.
type KeysByPrefix = BTreeMap<Box<[u8]>, BTreeSet<Box<[u8]>>>;

/// Keys that a command has changed, by the prefixes that are tracked.
#[derive(Default)]
pub(crate) struct Gathered {
    /// None are there: one look for each command.
    is_used: Cell<bool>,
    keys: RefCell<KeysByPrefix>,
    bytes: Cell<usize>,
}

impl Gathered {
    fn add(&self, prefix: &[u8], key: &[u8]) {
        self.is_used.set(true);
        self.bytes.set(self.bytes.get() + GATHERED_ENTRY + key.len());
        self.keys.borrow_mut().entry(prefix.into()).or_default().insert(key.into());
    }

    #[inline]
    pub(super) fn is_used(&self) -> bool {
        self.is_used.get()
    }

    /// Is there so much that it is sent before the command has ended?
    pub(super) fn is_much(&self) -> bool {
        self.bytes.get() > GATHERED
    }

    /// Takes all, by prefix.
    pub(super) fn take(&self) -> KeysByPrefix {
        self.is_used.set(false);
        self.bytes.set(0);
        self.keys.take()
    }
}

/// Changed keys in delivery to the clients that may cache them.
pub(crate) struct Invalidation {
    keys: Vec<Box<[u8]>>,
    writer: Option<u64>,
    /// Numbers of the clients, and whether each tracks a prefix (BCAST) of the key.
    receivers: std::vec::IntoIter<(u64, bool)>,
}

impl Invalidation {
    /// None: nobody is to be told.
    fn told(
        keys: Vec<Box<[u8]>>,
        writer: Option<u64>,
        receivers: Vec<(u64, bool)>,
    ) -> Option<Untold> {
        (!receivers.is_empty()).then(|| {
            let receivers = receivers.into_iter();
            Untold::Invalidation(Invalidation { keys, writer, receivers })
        })
    }

    /// Sends it to the next clients. False: none remain.
    pub(super) fn step(&mut self, shared: &Shared) -> bool {
        for (id, broadcast) in self.receivers.by_ref().take(AT_ONCE) {
            let Some(known) = shared.registry.get(id) else { continue };
            // The client may have ended tracking since, or changed its mode.
            if known.has(flag::TRACKING) && known.has(flag::BROADCAST) == broadcast {
                send_invalidation(shared, &known, Some(&self.keys), self.writer);
            }
        }
        self.receivers.len() > 0
    }

    pub(super) fn bytes(&self) -> usize {
        let keys: usize = self.keys.iter().map(|key| size_of::<Box<[u8]>>() + key.len()).sum();
        keys + self.receivers.len() * size_of::<(u64, bool)>()
    }
}

/// The invalidation of all keys (FLUSHDB, FLUSHALL): the table is emptied, then all clients that
/// track keys are told.
#[derive(Default)]
pub(crate) struct Forget {
    /// The next part of the table.
    part: usize,
    /// Keys of the last one that are still to be dropped.
    keys: Option<hash_map::IntoIter<Box<[u8]>, Vec<u64>>>,
    /// Numbers of the clients.
    receivers: Option<std::vec::IntoIter<u64>>,
}

impl Forget {
    /// Performs the next step. False: none remains.
    pub(super) fn step(&mut self, shared: &Shared) -> bool {
        let tracking = &shared.tracking;
        if let Some(keys) = &mut self.keys {
            for (key, ids) in keys.take(DROPPED) {
                tracking.count_removed(&key);
                tracking.items.fetch_sub(ids.len(), Relaxed);
            }
            if keys.len() == 0 {
                self.keys = None;
            }
            return true;
        }
        if let Some(part) = tracking.parts.get(self.part) {
            self.keys = Some(std::mem::take(&mut *part.lock()).into_iter());
            self.part += 1;
            return true;
        }
        let receivers = self.receivers.get_or_insert_with(|| {
            let tracks = |known: &Arc<Known>| known.has(flag::TRACKING).then(|| known.id());
            shared.registry.list().iter().filter_map(tracks).collect::<Vec<_>>().into_iter()
        });
        for id in receivers.take(AT_ONCE) {
            if let Some(known) = shared.registry.get(id).filter(|known| known.has(flag::TRACKING)) {
                send_invalidation(shared, &known, None, None);
            }
        }
        receivers.len() > 0
    }
}

fn add(all: &mut BTreeMap<Box<[u8]>, Subscribers>, known: &Arc<Known>, prefix: &[u8]) {
    match all.get_mut(prefix) {
        Some(clients) => clients.add(known),
        None => drop(all.insert(prefix.into(), Subscribers::new(known))),
    }
}

/// All prefixes of `key` with their clients, the longest prefix first. Costs a look-up for each
/// prefix, and one for each other that shares a beginning with it.
fn prefixes_of<'a>(
    all: &'a BTreeMap<Box<[u8]>, Subscribers>,
    key: &'a [u8],
) -> impl Iterator<Item = (&'a [u8], &'a Subscribers)> {
    // Prefixes of the key that are longer than this were seen.
    let mut rest = Some(key);
    std::iter::from_fn(move || {
        loop {
            let upto = (Bound::Unbounded, Bound::Included(rest?));
            let Some((last, clients)) = all.range::<[u8], _>(upto).next_back() else {
                rest = None;
                return None;
            };
            // The last name not behind the key: prefixes of the key that are longer than what the
            // two share would lie between them.
            let shared = last.iter().zip(key).take_while(|(a, b)| a == b).count();
            if shared == last.len() {
                rest = shared.checked_sub(1).map(|shorter| &key[..shorter]);
                return Some((&**last, clients));
            }
            rest = Some(&key[..shared]);
        }
    })
}

/// Sends an invalidation to one client; without keys: of all keys.
fn send_invalidation(
    shared: &Shared,
    known: &Known,
    keys: Option<&[Box<[u8]>]>,
    writer: Option<u64>,
) {
    if known.has(flag::NO_LOOP) && writer == Some(known.id()) {
        return;
    }
    let limit = shared.config.mail_limit();
    let redirect = known.redirect.load(Relaxed);
    if redirect == 0 {
        if known.version() == Version::V3 {
            known.push(&message(Version::V3, keys), limit);
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
        target.push(&message(version, keys), limit);
    }
}

fn message(version: Version, keys: Option<&[Box<[u8]>]>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    let mut reply = Reply::new(&mut bytes, version);
    if version == Version::V3 {
        reply.push(2);
        reply.bulk(b"invalidate");
    } else {
        reply.array(3);
        reply.bulk(b"message");
        reply.bulk(CHANNEL);
    }
    match keys {
        Some(keys) => {
            reply.array(keys.len());
            keys.iter().for_each(|key| reply.bulk(key));
        }
        None => reply.null(),
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Clients, Peer};

    #[test]
    fn a_key_finds_all_of_its_prefixes() {
        let clients = Clients::default();
        let known = || Arc::new(Known::new(clients.enter(Peer::Unix, "here", 0), 0));
        let mut all = BTreeMap::new();
        let prefixes = ["", "a", "ab", "abc", "abd", "ac", "b", "user:", "user:1", "user:12"];
        let numbers: HashMap<&str, u64> = prefixes
            .iter()
            .map(|prefix| {
                let known = known();
                add(&mut all, &known, prefix.as_bytes());
                (*prefix, known.id())
            })
            .collect();
        for key in ["", "a", "abce", "abde", "abz", "ad", "c", "user:1", "user:123", "user:2", "us"]
        {
            let found: Vec<u64> =
                prefixes_of(&all, key.as_bytes()).flat_map(|(_, clients)| clients.ids()).collect();
            let mut expected: Vec<&str> =
                prefixes.iter().copied().filter(|prefix| key.starts_with(prefix)).collect();
            expected.sort_by_key(|prefix| usize::MAX - prefix.len());
            let expected: Vec<u64> = expected.iter().map(|prefix| numbers[prefix]).collect();
            assert_eq!(found, expected, "{key}");
        }
    }
}
