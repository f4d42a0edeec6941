//! Channels with their subscribers, and the delivery of messages.
//!
//! Channels are divided by name into locked parts. A message costs its channel's subscribers, and
//! one comparison per pattern. It is delivered under the part's lock, so two messages of one
//! channel reach all subscribers in the same order. Messages that two clients publish at the same
//! time may reach subscribers of patterns in different orders. (Redis's pubsub.c; "Redis Pub/Sub",
//! "Format of pushed messages", describes the messages.)

use std::{
    collections::{BTreeMap, HashMap},
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

/// Maximum of patterns: an event compares its channel with all of them at once.
const PATTERNS: usize = 1 << 16;

/// Byte comparisons between two checks of the clock, and the cost of a pattern and of a delivery in
/// the same unit.
const COMPARED: usize = 256 * 1024;
const ENTRY: usize = 64;
const DELIVERY: usize = 256;

type Part = HashMap<Box<[u8]>, Vec<Arc<Known>>>;

/// Kinds of subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// SUBSCRIBE.
    Channel,
    /// PSUBSCRIBE.
    Pattern,
    /// SSUBSCRIBE: channels in a separate namespace.
    Shard,
}

/// Channels with their subscribers.
struct Channels {
    parts: Box<[Mutex<Part>]>,
    /// Number of names with a subscriber.
    count: AtomicUsize,
}

impl Channels {
    fn new() -> Channels {
        Channels {
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            count: AtomicUsize::new(0),
        }
    }

    fn part(&self, name: &[u8]) -> &Mutex<Part> {
        &self.parts[rapidhash::v3::rapidhash_v3(name) as usize % PARTS]
    }

    fn add(&self, name: &[u8], known: &Arc<Known>) {
        let mut part = self.part(name).lock();
        match part.get_mut(name) {
            Some(subscribers) => subscribers.push(known.clone()),
            None => {
                part.insert(name.into(), vec![known.clone()]);
                self.count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn remove(&self, name: &[u8], known: &Known) {
        let mut part = self.part(name).lock();
        let Some(subscribers) = part.get_mut(name) else { return };
        subscribers.retain(|other| other.id() != known.id());
        if subscribers.is_empty() {
            part.remove(name);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Delivers a message to all subscribers of `name`; returns their number.
    fn send(&self, name: &[u8], message: &mut Message<'_>, limit: usize) -> usize {
        if self.count.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let part = self.part(name).lock();
        let Some(subscribers) = part.get(name) else { return 0 };
        for known in subscribers {
            known.push(message.bytes(known.version()), limit);
        }
        subscribers.len()
    }

    fn subscribers(&self, name: &[u8]) -> usize {
        self.part(name).lock().get(name).map_or(0, Vec::len)
    }
}

/// A pattern and its subscribers.
type PatternSubscribers = (Box<[u8]>, Vec<Arc<Known>>);

/// Patterns with their subscribers.
#[derive(Default)]
struct Patterns {
    /// By number, in the order of their arrival, so that a comparison in steps misses none.
    all: BTreeMap<u64, PatternSubscribers>,
    numbers: HashMap<Box<[u8]>, u64>,
    next: u64,
}

impl Patterns {
    /// False: there are too many patterns.
    fn add(&mut self, pattern: &[u8], known: &Arc<Known>) -> bool {
        if let Some((_, subscribers)) =
            self.numbers.get(pattern).and_then(|number| self.all.get_mut(number))
        {
            subscribers.push(known.clone());
            return true;
        }
        if self.all.len() >= PATTERNS {
            return false;
        }
        self.numbers.insert(pattern.into(), self.next);
        self.all.insert(self.next, (pattern.into(), vec![known.clone()]));
        self.next += 1;
        true
    }

    fn remove(&mut self, pattern: &[u8], known: &Known) {
        let Some(number) = self.numbers.get(pattern).copied() else { return };
        let Some((_, subscribers)) = self.all.get_mut(&number) else { return };
        subscribers.retain(|other| other.id() != known.id());
        if subscribers.is_empty() {
            self.all.remove(&number);
            self.numbers.remove(pattern);
        }
    }
}

/// A message in delivery to the subscribers of patterns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PatternDelivery {
    /// The next pattern.
    next: u64,
    /// First pattern not compared: a client that subscribes meanwhile may have had the message by
    /// another pattern.
    end: Option<u64>,
    /// Number of receivers so far.
    pub(crate) receivers: usize,
}

/// A message, composed once per RESP version.
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
    channels: Channels,
    shards: Channels,
    patterns: RwLock<Patterns>,
    /// Number of patterns, readable without the lock.
    pattern_count: AtomicUsize,
}

impl Hub {
    pub(crate) fn new() -> Hub {
        Hub {
            channels: Channels::new(),
            shards: Channels::new(),
            patterns: RwLock::default(),
            pattern_count: AtomicUsize::new(0),
        }
    }

    /// Subscribes `known` to `name`. It must not be subscribed already. False: there are too many
    /// patterns.
    pub(crate) fn add(&self, kind: Kind, name: &[u8], known: &Arc<Known>) -> bool {
        match kind {
            Kind::Channel => self.channels.add(name, known),
            Kind::Shard => self.shards.add(name, known),
            Kind::Pattern => {
                let mut patterns = self.patterns.write();
                let added = patterns.add(name, known);
                self.pattern_count.store(patterns.all.len(), Ordering::Relaxed);
                return added;
            }
        }
        true
    }

    /// Unsubscribes `known` from `name`.
    pub(crate) fn remove(&self, kind: Kind, name: &[u8], known: &Known) {
        match kind {
            Kind::Channel => self.channels.remove(name, known),
            Kind::Shard => self.shards.remove(name, known),
            Kind::Pattern => {
                let mut patterns = self.patterns.write();
                patterns.remove(name, known);
                self.pattern_count.store(patterns.all.len(), Ordering::Relaxed);
            }
        }
    }

    /// Delivers a message to all subscribers of the channel, by name or by pattern. A receiver with
    /// more than `limit` waiting bytes is disconnected.
    pub(crate) fn publish(&self, channel: &[u8], payload: &[u8], limit: usize) {
        let mut delivery = self.publish_by_name(channel, payload, limit);
        while self.publish_by_pattern(&mut delivery, channel, payload, limit) {}
    }

    /// As `publish`, for the subscribers by name only; [`Hub::publish_by_pattern`] continues.
    pub(crate) fn publish_by_name(
        &self,
        channel: &[u8],
        payload: &[u8],
        limit: usize,
    ) -> PatternDelivery {
        let parts = [&b"message"[..], channel, payload];
        let receivers = self.channels.send(channel, &mut Message::new(&parts), limit);
        PatternDelivery { next: 0, end: None, receivers }
    }

    /// Delivers it to the subscribers of the next patterns, with about [`COMPARED`] byte
    /// comparisons plus the subscribers of one pattern. True: patterns remain.
    pub(crate) fn publish_by_pattern(
        &self,
        delivery: &mut PatternDelivery,
        channel: &[u8],
        payload: &[u8],
        limit: usize,
    ) -> bool {
        if self.pattern_count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let patterns = self.patterns.read();
        let mut compared = 0;
        let end = *delivery.end.get_or_insert(patterns.next);
        for (number, (pattern, subscribers)) in
            patterns.all.range(delivery.next..end.max(delivery.next))
        {
            if compared > COMPARED {
                return true;
            }
            compared += ENTRY + pattern.len() * channel.len();
            delivery.next = number + 1;
            if !glob::matches(pattern, channel) {
                continue;
            }
            let parts = [&b"pmessage"[..], pattern, channel, payload];
            let mut message = Message::new(&parts);
            for known in subscribers {
                known.push(message.bytes(known.version()), limit);
            }
            delivery.receivers += subscribers.len();
            compared += subscribers.len() * DELIVERY;
        }
        false
    }

    /// As `publish`, for a shard channel.
    pub(crate) fn publish_shard(&self, channel: &[u8], payload: &[u8], limit: usize) -> usize {
        let parts = [&b"smessage"[..], channel, payload];
        self.shards.send(channel, &mut Message::new(&parts), limit)
    }

    /// Passes the subscribed channels of one part of the table to `f`. False: there is no such
    /// part.
    pub(crate) fn names(&self, kind: Kind, part: usize, f: &mut dyn FnMut(&[u8])) -> bool {
        let names = if kind == Kind::Shard { &self.shards } else { &self.channels };
        let Some(part) = names.parts.get(part) else { return false };
        part.lock().keys().for_each(|name| f(name));
        true
    }

    /// Number of subscribers of a channel (by name).
    pub(crate) fn subscribers(&self, kind: Kind, name: &[u8]) -> usize {
        if kind == Kind::Shard {
            self.shards.subscribers(name)
        } else {
            self.channels.subscribers(name)
        }
    }

    /// Number of channels, patterns and shard channels.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let load = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        (load(&self.channels.count), load(&self.pattern_count), load(&self.shards.count))
    }
}
