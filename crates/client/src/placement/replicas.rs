//! Several servers for one key.

use super::{Kind, Ring};

/// Most servers for one key.
pub const MAX_REPLICAS: usize = 8;

/// The servers of a key, best first. See [`Ring::replicas`].
#[derive(Clone, Debug)]
pub struct Replicas<'a> {
    ring: &'a Ring,
    key: &'a [u8],
    /// Next position, and how many remain, in rings that are walked.
    at: usize,
    left: usize,
    /// Limit of servers to return.
    count: usize,
    taken: [u16; MAX_REPLICAS],
    len: usize,
}

impl<'a> Replicas<'a> {
    pub(super) fn new(ring: &'a Ring, key: &'a [u8], count: usize) -> Replicas<'a> {
        let (at, left, servers) = match &ring.kind {
            Kind::One(_) => (0, 1, 1),
            Kind::Slots(slots) => {
                (ring.hash.of(key) as usize % slots.len(), slots.len(), MAX_REPLICAS)
            }
            Kind::Continuum(points) => {
                (points.point(ring.hash.of(key)), points.len(), MAX_REPLICAS)
            }
            Kind::Rendezvous(servers) => (0, 0, servers.len()),
            Kind::Pymemcache(servers) => (0, 0, servers.len()),
            Kind::Jump(jump) => (0, 0, jump.len()),
        };
        let count = count.min(servers).min(MAX_REPLICAS);
        Replicas { ring, key, at, left, count, taken: [0; MAX_REPLICAS], len: 0 }
    }

    /// The next server, in a ring of `size` positions, that was not returned yet.
    fn walk(&mut self, size: usize, owner: impl Fn(usize) -> u16) -> Option<u16> {
        while self.left > 0 {
            let index = owner(self.at);
            self.left -= 1;
            self.at = if self.at + 1 == size { 0 } else { self.at + 1 };
            if !self.taken[..self.len].contains(&index) {
                return Some(index);
            }
        }
        None
    }
}

impl Iterator for Replicas<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.len == self.count {
            return None;
        }
        let taken = &self.taken[..self.len];
        let index = match &self.ring.kind {
            Kind::One(index) => *index,
            Kind::Slots(slots) => self.walk(slots.len(), |at| slots[at])?,
            Kind::Continuum(points) => self.walk(points.len(), |at| points.owner(at))?,
            Kind::Rendezvous(servers) => servers.best(self.key, taken),
            Kind::Pymemcache(servers) => servers.best(self.key, taken),
            Kind::Jump(jump) => jump.next(self.key, taken),
        };
        self.taken[self.len] = index;
        self.len += 1;
        Some(usize::from(index))
    }
}
