//! Channels with their subscribers, and the delivery of messages.
//!
//! Channels are divided by name into locked parts. A message costs its channel's subscribers, and
//! one comparison per pattern. It is delivered under the part's lock. A channel with many
//! subscribers keeps its messages in a queue, from which each step delivers some: so two messages
//! of one channel reach all subscribers in the same order. Messages that two clients publish at the
//! same time may reach subscribers of patterns in different orders. (Redis's pubsub.c; "Redis
//! Pub/Sub", "Format of pushed messages", describes the messages.)

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use larder_proto::resp::glob;
use parking_lot::{Mutex, RwLock};

use super::{
    known::Known,
    subscribers::{AT_ONCE, Message, Subscribers},
};

/// Locked parts of a table of channels.
const PARTS: usize = 64;

/// Maximum of patterns: an event compares its channel with all of them at once.
const PATTERNS: usize = 1 << 16;

/// Steps of comparisons between two checks of the clock ([`glob::matches_counted`]), and the cost
/// of a pattern and of a delivery in the same unit.
const COMPARED: usize = 256 * 1024;
const ENTRY: usize = 64;
const DELIVERY: usize = 256;
/// Bytes of a message that cost as much as one step of a comparison.
const BYTES: usize = 8;

type Part = HashMap<Box<[u8]>, Channel>;

/// Is called with a name and the numbers of its subscribers.
type EachName<'f> = dyn FnMut(&[u8], &mut dyn Iterator<Item = u64>) + 'f;

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

/// A channel: its subscribers, and the messages that wait for the next steps.
#[derive(Default)]
struct Channel {
    subscribers: Subscribers,
    #[allow(clippy::box_collection)] // most channels never have one
    queue: Option<Box<VecDeque<Queued>>>,
}

/// A message in delivery to the subscribers of a channel.
struct Queued {
    ticket: u64,
    message: Message,
    /// Number of the next subscriber.
    next: u64,
}

/// Channels with their subscribers.
struct Channels {
    parts: Box<[Mutex<Part>]>,
    /// Number of names with a subscriber.
    count: AtomicUsize,
    /// The next ticket of a queued message.
    tickets: AtomicU64,
}

impl Channels {
    fn new() -> Channels {
        Channels {
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            count: AtomicUsize::new(0),
            tickets: AtomicU64::new(0),
        }
    }

    fn part(&self, name: &[u8]) -> &Mutex<Part> {
        &self.parts[rapidhash::v3::rapidhash_v3(name) as usize % PARTS]
    }

    fn add(&self, name: &[u8], known: &Arc<Known>) {
        let mut part = self.part(name).lock();
        match part.get_mut(name) {
            Some(channel) => channel.subscribers.add(known),
            None => {
                let subscribers = Subscribers::new(known);
                part.insert(name.into(), Channel { subscribers, queue: None });
                self.count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn remove(&self, name: &[u8], known: &Known) {
        let mut part = self.part(name).lock();
        let Some(channel) = part.get_mut(name) else { return };
        channel.subscribers.remove(known);
        if channel.subscribers.is_empty() {
            part.remove(name);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Delivers a message to the first subscribers of `name`.
    fn send(&self, name: &[u8], parts: &[&[u8]], limit: usize) -> NameDelivery {
        let none = NameDelivery { receivers: 0, ticket: None };
        if self.count.load(Ordering::Relaxed) == 0 {
            return none;
        }
        let mut part = self.part(name).lock();
        let Some(channel) = part.get_mut(name) else { return none };
        let receivers = channel.subscribers.len();
        let mut message = Message::new(parts);
        let mut next = 0;
        if channel.queue.is_none() {
            match channel.subscribers.send(0, &mut message, limit).1 {
                Some(id) => next = id,
                None => return NameDelivery { receivers, ticket: None },
            }
        }
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        channel.queue.get_or_insert_default().push_back(Queued { ticket, message, next });
        NameDelivery { receivers, ticket: Some(ticket) }
    }

    /// Continues the queue of `name` until the message with `ticket` is delivered, by one step.
    /// True: it is not yet.
    fn send_next(&self, name: &[u8], ticket: u64, limit: usize) -> bool {
        let mut part = self.part(name).lock();
        let Some(channel) = part.get_mut(name) else { return false };
        let Some(queue) = &mut channel.queue else { return false };
        if let Some(first) = queue.front_mut() {
            match channel.subscribers.send(first.next, &mut first.message, limit).1 {
                Some(id) => first.next = id,
                None => drop(queue.pop_front()),
            }
        }
        let remains = queue.front().is_some_and(|first| first.ticket <= ticket);
        if queue.is_empty() {
            channel.queue = None;
        }
        remains
    }

    fn is_queued(&self, name: &[u8]) -> bool {
        let part = self.part(name).lock();
        let is_queued =
            |channel: &Channel| channel.queue.is_some() || channel.subscribers.len() > AT_ONCE;
        part.get(name).is_some_and(is_queued)
    }

    fn subscribers(&self, name: &[u8]) -> usize {
        self.part(name).lock().get(name).map_or(0, |channel| channel.subscribers.len())
    }
}

/// A pattern and its subscribers.
type PatternSubscribers = (Box<[u8]>, Subscribers);

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
            subscribers.add(known);
            return true;
        }
        if self.all.len() >= PATTERNS {
            return false;
        }
        self.numbers.insert(pattern.into(), self.next);
        self.all.insert(self.next, (pattern.into(), Subscribers::new(known)));
        self.next += 1;
        true
    }

    fn remove(&mut self, pattern: &[u8], known: &Known) {
        let Some(number) = self.numbers.get(pattern).copied() else { return };
        let Some((_, subscribers)) = self.all.get_mut(&number) else { return };
        subscribers.remove(known);
        if subscribers.is_empty() {
            self.all.remove(&number);
            self.numbers.remove(pattern);
        }
    }
}

/// A message whose delivery to the subscribers of a channel has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NameDelivery {
    /// Number of subscribers.
    receivers: usize,
    /// Its place in the channel's queue; `None`: all have it.
    ticket: Option<u64>,
}

/// A message in delivery to the subscribers of patterns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PatternDelivery {
    /// The next pattern.
    next: u64,
    /// Number of its next subscriber.
    subscriber: u64,
    /// First pattern not compared: a client that subscribes meanwhile may have had the message by
    /// another pattern.
    end: Option<u64>,
    /// Number of receivers so far.
    receivers: usize,
}

/// A message in delivery: by PUBLISH, or by a keyspace event. Its owner continues it
/// ([`Hub::go_on`]) until none remain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    kind: Kind,
    by_name: NameDelivery,
    by_pattern: PatternDelivery,
}

impl Delivery {
    /// Number of receivers so far.
    pub(crate) fn receivers(&self) -> usize {
        self.by_name.receivers + self.by_pattern.receivers
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

    /// Delivers a message to the first subscribers of a channel; [`Hub::go_on`] continues. A
    /// receiver with more than `limit` waiting bytes is disconnected. `kind` is `Channel` or
    /// `Shard`.
    pub(crate) fn begin(
        &self,
        kind: Kind,
        channel: &[u8],
        payload: &[u8],
        limit: usize,
    ) -> Delivery {
        let word = if kind == Kind::Shard { &b"smessage"[..] } else { b"message" };
        let by_name = self.by_name(kind).send(channel, &[word, channel, payload], limit);
        Delivery { kind, by_name, by_pattern: PatternDelivery::default() }
    }

    /// Delivers it to the next subscribers: of the channel, after the messages before it, then of
    /// patterns. False: none remain.
    pub(crate) fn go_on(
        &self,
        delivery: &mut Delivery,
        channel: &[u8],
        payload: &[u8],
        limit: usize,
    ) -> bool {
        let Delivery { kind, by_name, by_pattern } = delivery;
        let send_next = |ticket: &u64| self.by_name(*kind).send_next(channel, *ticket, limit);
        by_name.ticket = by_name.ticket.filter(send_next);
        by_name.ticket.is_some()
            || *kind == Kind::Channel
                && self.publish_by_pattern(by_pattern, channel, payload, limit)
    }

    /// Returns whether a message to `name` would be queued rather than delivered at once.
    pub(crate) fn is_queued(&self, kind: Kind, name: &[u8]) -> bool {
        self.by_name(kind).is_queued(name)
    }

    /// Delivers it to the subscribers of the next patterns, within about [`COMPARED`] steps. True:
    /// some remain.
    fn publish_by_pattern(
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
            if *number != delivery.next {
                delivery.subscriber = 0;
            }
            compared += ENTRY;
            delivery.next = number + 1;
            if !glob::matches_counted(pattern, channel, &mut compared) {
                continue;
            }
            let mut message = Message::new(&[&b"pmessage"[..], pattern, channel, payload]);
            // It is composed for each pattern.
            compared += (channel.len() + payload.len()) / BYTES;
            let (sent, next) = subscribers.send(delivery.subscriber, &mut message, limit);
            delivery.receivers += sent;
            compared += sent * DELIVERY;
            delivery.subscriber = next.unwrap_or(0);
            if next.is_some() {
                delivery.next = *number;
                return true;
            }
        }
        false
    }

    fn by_name(&self, kind: Kind) -> &Channels {
        if kind == Kind::Shard { &self.shards } else { &self.channels }
    }

    /// Passes the subscribed channels of one part of the table to `f`. False: there is no such
    /// part.
    pub(crate) fn names(&self, kind: Kind, part: usize, f: &mut dyn FnMut(&[u8])) -> bool {
        let Some(part) = self.by_name(kind).parts.get(part) else { return false };
        part.lock().keys().for_each(|name| f(name));
        true
    }

    /// Passes the subscribed names of one part of the table, with the numbers of their subscribers,
    /// to `f`. All patterns are one part. False: there is no such part.
    pub(crate) fn subscriptions(&self, kind: Kind, part: usize, f: &mut EachName<'_>) -> bool {
        if kind == Kind::Pattern {
            let patterns = self.patterns.read();
            patterns.all.values().for_each(|(name, known)| f(name, &mut known.ids()));
            return false;
        }
        let Some(part) = self.by_name(kind).parts.get(part) else { return false };
        part.lock().iter().for_each(|(name, channel)| f(name, &mut channel.subscribers.ids()));
        true
    }

    /// Number of subscribers of a channel (by name).
    pub(crate) fn subscribers(&self, kind: Kind, name: &[u8]) -> usize {
        self.by_name(kind).subscribers(name)
    }

    /// Number of channels, patterns and shard channels.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let load = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        (load(&self.channels.count), load(&self.pattern_count), load(&self.shards.count))
    }
}
