//! LRU: evicts the least recently used object.

use super::Policy;
use super::list::{Nodes, Queue};
use crate::simulate::request::Request;

#[derive(Debug)]
pub(super) struct Lru {
    nodes: Nodes,
    queue: Queue,
    capacity: u64,
}

impl Lru {
    pub(super) fn new(capacity: u64, ids: usize) -> Lru {
        Lru { nodes: Nodes::new(ids), queue: Queue::new(1), capacity }
    }

    fn make_room(&mut self, size: u32) {
        while self.queue.bytes + u64::from(size) > self.capacity
            && self.nodes.pop(&mut self.queue).is_some()
        {}
    }
}

impl Policy for Lru {
    fn get(&mut self, request: &Request) -> bool {
        let found = self.nodes.place(request.id) != 0;
        if found {
            self.nodes.advance(&mut self.queue, request.id);
        }
        found
    }

    fn set(&mut self, request: &Request) {
        self.remove(request.id);
        if u64::from(request.size) <= self.capacity {
            self.make_room(request.size);
            self.nodes.push(&mut self.queue, request.id, request.size);
        }
    }

    fn remove(&mut self, id: u32) {
        if self.nodes.place(id) != 0 {
            self.nodes.take(&mut self.queue, id);
        }
    }

    fn used(&self) -> u64 {
        self.queue.bytes
    }

    fn items(&self) -> u64 {
        self.queue.items
    }
}
