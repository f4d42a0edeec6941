//! The subscribers of a channel, a pattern or a prefix, and the messages to them.

use std::sync::Arc;

use larder_proto::resp::{Reply, Version};

use super::known::Known;

/// Subscribers that get a message in one step: about half a millisecond.
pub(super) const AT_ONCE: usize = 1024;
/// The same in bytes, unless one message has more.
const COPIED: usize = 1 << 20;

/// The subscribers of a name, ordered by their numbers, so that a delivery in steps finds its place
/// again when some have come or left.
#[derive(Default)]
pub(super) struct Subscribers(Vec<Arc<Known>>);

impl Subscribers {
    pub(super) fn new(known: &Arc<Known>) -> Subscribers {
        Subscribers(vec![known.clone()])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Their numbers.
    pub(super) fn ids(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|known| known.id())
    }

    /// Index of the first one whose number is at least `id`.
    fn position(&self, id: u64) -> usize {
        self.0.partition_point(|known| known.id() < id)
    }

    pub(super) fn add(&mut self, known: &Arc<Known>) {
        self.0.insert(self.position(known.id()), known.clone());
    }

    pub(super) fn remove(&mut self, known: &Known) {
        let at = self.position(known.id());
        if self.0.get(at).is_some_and(|other| other.id() == known.id()) {
            self.0.remove(at);
        }
    }

    /// Delivers a message to at most [`AT_ONCE`] subscribers from number `from`, fewer if it is
    /// long. Returns how many they were, and the number to continue from; `None`: there are no
    /// more.
    pub(super) fn send(
        &self,
        from: u64,
        message: &mut Message,
        limit: usize,
    ) -> (usize, Option<u64>) {
        let rest = &self.0[self.position(from)..];
        let (now, later) = rest.split_at(rest.len().min(message.at_once()));
        for known in now {
            known.push(message.bytes(known.version()), limit);
        }
        (now.len(), later.first().map(|known| known.id()))
    }
}

/// A composed message.
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn new(parts: &[&[u8]]) -> Message {
        let mut bytes = Vec::new();
        let mut reply = Reply::new(&mut bytes, Version::V2);
        reply.push(parts.len());
        parts.iter().for_each(|part| reply.bulk(part));
        Message(bytes)
    }

    /// Subscribers that get it in one step.
    fn at_once(&self) -> usize {
        (COPIED / self.0.len().max(1)).clamp(1, AT_ONCE)
    }

    /// Its bytes in a version of the protocol. A push differs from an array by the first byte.
    pub(super) fn bytes(&mut self, version: Version) -> &[u8] {
        self.0[0] = if version == Version::V3 { b'>' } else { b'*' };
        &self.0
    }
}
