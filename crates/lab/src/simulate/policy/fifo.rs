//! Policies in order of arrival: FIFO, CLOCK (second chance) and SIEVE.

use super::Policy;
use super::list::{NONE, Nodes, Queue};
use crate::simulate::request::Request;

/// The variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// First in, first out.
    None,
    /// CLOCK: an object read since it arrived or was last examined moves to the front again.
    Second,
    /// SIEVE (Zhang et al., NSDI '24): as CLOCK, but objects stay in place and a hand moves over
    /// the queue.
    Sieve,
}

#[derive(Debug)]
pub(super) struct Fifo {
    nodes: Nodes,
    queue: Queue,
    capacity: u64,
    chance: Variant,
    /// SIEVE: the next object to examine; [`NONE`]: the back.
    hand: u32,
}

impl Fifo {
    pub(super) fn new(chance: Variant, capacity: u64, ids: usize) -> Fifo {
        Fifo { nodes: Nodes::new(ids), queue: Queue::new(1), capacity, chance, hand: NONE }
    }

    fn make_room(&mut self, size: u32) {
        while self.queue.bytes + u64::from(size) > self.capacity {
            let victim = self.victim();
            if victim == NONE {
                return;
            }
            self.drop(victim);
        }
    }

    fn victim(&mut self) -> u32 {
        match self.chance {
            Variant::None => self.queue.back(),
            Variant::Second => loop {
                let back = self.queue.back();
                if back == NONE || std::mem::take(&mut self.nodes.of(back).mark) == 0 {
                    return back;
                }
                self.nodes.advance(&mut self.queue, back);
            },
            Variant::Sieve => loop {
                let at = if self.hand == NONE { self.queue.back() } else { self.hand };
                if at == NONE || std::mem::take(&mut self.nodes.of(at).mark) == 0 {
                    self.hand = at;
                    return at;
                }
                self.hand = self.nodes.before(at);
            },
        }
    }

    fn drop(&mut self, id: u32) {
        if self.hand == id {
            self.hand = self.nodes.before(id);
        }
        self.nodes.take(&mut self.queue, id);
    }
}

impl Policy for Fifo {
    fn get(&mut self, request: &Request) -> bool {
        let node = self.nodes.of(request.id);
        node.mark = 1;
        node.place != 0
    }

    fn set(&mut self, request: &Request) {
        if u64::from(request.size) > self.capacity {
            return self.remove(request.id);
        }
        if self.nodes.place(request.id) == 0 {
            self.make_room(request.size);
            self.nodes.push(&mut self.queue, request.id, request.size);
            self.nodes.of(request.id).mark = 0;
        } else {
            self.nodes.of(request.id).mark = 1;
            self.nodes.resize(&mut self.queue, request.id, request.size);
            self.make_room(0);
        }
    }

    fn remove(&mut self, id: u32) {
        if self.nodes.place(id) != 0 {
            self.drop(id);
        }
    }

    fn used(&self) -> u64 {
        self.queue.bytes
    }

    fn items(&self) -> u64 {
        self.queue.items
    }
}
