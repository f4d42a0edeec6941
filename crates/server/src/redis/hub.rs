//! Who hears which channel, and the sending.
//!
//! Channels are spread over locked parts by their names; a message costs its channel's subscribers, and one comparison
//! for each pattern there is. A message is handed to a subscriber under the lock of the part: two messages of one channel
//! reach all subscribers in the same order. (Redis's pubsub.c; the messages are described in "Redis Pub/Sub", "Format of
//! pushed messages".)

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use larder_proto::resp::{Reply, Version, glob};
use parking_lot::{Mutex, RwLock};

use super::known::Known;

/// Locked parts of a table of channels.
const PARTS: usize = 64;

/// A pattern or prefix, and who asked for it.
type Listeners = (Box<[u8]>, Vec<Arc<Known>>);

type Part = HashMap<Box<[u8]>, Vec<Arc<Known>>>;

/// The three kinds of subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// SUBSCRIBE.
    Channel,
    /// PSUBSCRIBE.
    Pattern,
    /// SSUBSCRIBE: channels in a space of their own.
    Shard,
}

/// Names with those who hear them.
struct Names {
    parts: Box<[Mutex<Part>]>,
    /// Names with at least one listener.
    count: AtomicUsize,
}

impl Names {
    fn new() -> Names {
        Names { parts: (0..PARTS).map(|_| Mutex::default()).collect(), count: AtomicUsize::new(0) }
    }

    fn part(&self, name: &[u8]) -> &Mutex<Part> {
        &self.parts[rapidhash::v3::rapidhash_v3(name) as usize % PARTS]
    }

    fn add(&self, name: &[u8], known: &Arc<Known>) {
        let mut part = self.part(name).lock();
        match part.get_mut(name) {
            Some(listeners) => listeners.push(known.clone()),
            None => {
                part.insert(name.into(), vec![known.clone()]);
                self.count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn remove(&self, name: &[u8], known: &Known) {
        let mut part = self.part(name).lock();
        let Some(listeners) = part.get_mut(name) else { return };
        listeners.retain(|other| other.id() != known.id());
        if listeners.is_empty() {
            part.remove(name);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Hands a message to all who hear `name`; how many.
    fn send(&self, name: &[u8], message: &mut Message<'_>, limit: usize) -> usize {
        if self.count.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let part = self.part(name).lock();
        let Some(listeners) = part.get(name) else { return 0 };
        for known in listeners {
            known.push(message.bytes(known.version()), limit);
        }
        listeners.len()
    }

    fn listeners(&self, name: &[u8]) -> usize {
        self.part(name).lock().get(name).map_or(0, Vec::len)
    }

    fn names(&self, wanted: Option<&[u8]>) -> Vec<Box<[u8]>> {
        let mut names = Vec::new();
        for part in &self.parts {
            let part = part.lock();
            names.extend(part.keys().filter(|name| wanted.is_none_or(|w| glob::matches(w, name))).cloned());
        }
        names
    }
}

/// A message, composed once for each RESP it is wanted in.
struct Message<'a> {
    parts: &'a [&'a [u8]],
    composed: [Option<Vec<u8>>; 2],
}

impl<'a> Message<'a> {
    fn new(parts: &'a [&'a [u8]]) -> Message<'a> {
        Message { parts, composed: [None, None] }
    }

    fn bytes(&mut self, version: Version) -> &[u8] {
        self.composed[usize::from(version == Version::V3)].get_or_insert_with(|| {
            let mut bytes = Vec::new();
            let mut reply = Reply::new(&mut bytes, version);
            reply.push(self.parts.len());
            self.parts.iter().for_each(|part| reply.bulk(part));
            bytes
        })
    }
}

/// All subscriptions. One per process.
pub(crate) struct Hub {
    channels: Names,
    shards: Names,
    patterns: RwLock<Vec<Listeners>>,
    /// Patterns there are: looked at without the lock.
    pattern_count: AtomicUsize,
}

impl Hub {
    pub(crate) fn new() -> Hub {
        Hub {
            channels: Names::new(),
            shards: Names::new(),
            patterns: RwLock::default(),
            pattern_count: AtomicUsize::new(0),
        }
    }

    /// `known` hears `name` from now on. It must not already.
    pub(crate) fn add(&self, kind: Kind, name: &[u8], known: &Arc<Known>) {
        match kind {
            Kind::Channel => self.channels.add(name, known),
            Kind::Shard => self.shards.add(name, known),
            Kind::Pattern => {
                let mut patterns = self.patterns.write();
                match patterns.iter_mut().find(|(pattern, _)| **pattern == *name) {
                    Some((_, listeners)) => listeners.push(known.clone()),
                    None => patterns.push((name.into(), vec![known.clone()])),
                }
                self.pattern_count.store(patterns.len(), Ordering::Relaxed);
            }
        }
    }

    /// `known` hears `name` no more.
    pub(crate) fn remove(&self, kind: Kind, name: &[u8], known: &Known) {
        match kind {
            Kind::Channel => self.channels.remove(name, known),
            Kind::Shard => self.shards.remove(name, known),
            Kind::Pattern => {
                let mut patterns = self.patterns.write();
                if let Some((_, listeners)) = patterns.iter_mut().find(|(pattern, _)| **pattern == *name) {
                    listeners.retain(|other| other.id() != known.id());
                }
                patterns.retain(|(_, listeners)| !listeners.is_empty());
                self.pattern_count.store(patterns.len(), Ordering::Relaxed);
            }
        }
    }

    /// Sends a message to all who hear the channel, by its name or a pattern. How many that are. Who has more than `limit`
    /// bytes waiting is closed.
    pub(crate) fn publish(&self, channel: &[u8], payload: &[u8], limit: usize) -> usize {
        let parts = [&b"message"[..], channel, payload];
        let mut receivers = self.channels.send(channel, &mut Message::new(&parts), limit);
        if self.pattern_count.load(Ordering::Relaxed) == 0 {
            return receivers;
        }
        for (pattern, listeners) in self.patterns.read().iter() {
            if !glob::matches(pattern, channel) {
                continue;
            }
            let parts = [&b"pmessage"[..], pattern, channel, payload];
            let mut message = Message::new(&parts);
            for known in listeners {
                known.push(message.bytes(known.version()), limit);
            }
            receivers += listeners.len();
        }
        receivers
    }

    /// The same for a channel of the other space.
    pub(crate) fn publish_shard(&self, channel: &[u8], payload: &[u8], limit: usize) -> usize {
        let parts = [&b"smessage"[..], channel, payload];
        self.shards.send(channel, &mut Message::new(&parts), limit)
    }

    /// Channels someone hears, those that match the pattern if there is one.
    pub(crate) fn names(&self, kind: Kind, wanted: Option<&[u8]>) -> Vec<Box<[u8]>> {
        if kind == Kind::Shard { self.shards.names(wanted) } else { self.channels.names(wanted) }
    }

    /// How many hear a channel (by its name).
    pub(crate) fn listeners(&self, kind: Kind, name: &[u8]) -> usize {
        if kind == Kind::Shard { self.shards.listeners(name) } else { self.channels.listeners(name) }
    }

    /// Different channels, patterns, and channels of the other space.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let load = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        (load(&self.channels.count), load(&self.pattern_count), load(&self.shards.count))
    }
}
