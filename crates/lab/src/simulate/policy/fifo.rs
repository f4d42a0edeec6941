//! Three that keep objects in the order they came: FIFO, CLOCK (second chance) and SIEVE.

use super::Policy;
use super::list::{NONE, Nodes, Queue};
use crate::simulate::request::Request;

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chance {
    /// First in, first out.
    None,
    /// CLOCK: who was read since it came or was looked at last goes to the front once more.
    Second,
    /// SIEVE (Zhang et al., NSDI '24): the same, but it stays where it is, and a hand walks over the queue.
    Sieve,
}

#[derive(Debug)]
pub(super) struct Fifo {
    nodes: Nodes,
    queue: Queue,
    capacity: u64,
    chance: Chance,
    /// SIEVE: who is looked at next; [`NONE`]: the back.
    hand: u32,
}

impl Fifo {
    pub(super) fn new(chance: Chance, capacity: u64, ids: usize) -> Fifo {
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
            Chance::None => self.queue.back(),
            Chance::Second => loop {
                let back = self.queue.back();
                if back == NONE || std::mem::take(&mut self.nodes.of(back).mark) == 0 {
                    return back;
                }
                self.nodes.advance(&mut self.queue, back);
            },
            Chance::Sieve => loop {
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
    fn get(&mut self, ask: &Request) -> bool {
        let node = self.nodes.of(ask.id);
        node.mark = 1;
        node.place != 0
    }

    fn set(&mut self, ask: &Request) {
        if u64::from(ask.size) > self.capacity {
            return self.remove(ask.id);
        }
        if self.nodes.place(ask.id) == 0 {
            self.make_room(ask.size);
            self.nodes.push(&mut self.queue, ask.id, ask.size);
            self.nodes.of(ask.id).mark = 0;
        } else {
            self.nodes.of(ask.id).mark = 1;
            self.nodes.resize(&mut self.queue, ask.id, ask.size);
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
