//! Plain LFU: evicts the object used least often since it was stored, among equals the least
//! recently used. Counts exist for stored objects only, do not age, and saturate at 65,535.
//! (Redis's LFU with ageing is [`super::redis`].)

use super::Policy;
use super::list::{Nodes, Queue};
use crate::simulate::request::Request;

#[derive(Debug)]
pub(super) struct Lfu {
    nodes: Nodes,
    /// A queue for each count, by recency.
    queues: Vec<Queue>,
    /// Lower bound of all counts.
    least: usize,
    used: u64,
    items: u64,
    capacity: u64,
}

impl Lfu {
    pub(super) fn new(capacity: u64, ids: usize) -> Lfu {
        Lfu {
            nodes: Nodes::new(ids),
            queues: vec![Queue::new(1)],
            least: 0,
            used: 0,
            items: 0,
            capacity,
        }
    }

    fn make_room(&mut self, size: u32) {
        while self.used + u64::from(size) > self.capacity && self.items > 0 {
            while self.queues[self.least].is_empty() {
                self.least += 1;
            }
            let victim = self.queues[self.least].back();
            self.remove(victim);
        }
    }

    fn put(&mut self, id: u32, size: u32, count: u16) {
        let at = usize::from(count);
        if at == self.queues.len() {
            self.queues.push(Queue::new(1));
        }
        self.nodes.push(&mut self.queues[at], id, size);
        self.nodes.of(id).count = count;
        self.least = self.least.min(at);
        self.used += u64::from(size);
        self.items += 1;
    }
}

impl Policy for Lfu {
    fn get(&mut self, request: &Request) -> bool {
        let node = *self.nodes.of(request.id);
        let found = node.place != 0;
        if found {
            self.remove(request.id);
            self.put(request.id, node.size, node.count.saturating_add(1));
        }
        found
    }

    fn set(&mut self, request: &Request) {
        let node = *self.nodes.of(request.id);
        self.remove(request.id);
        if u64::from(request.size) <= self.capacity {
            self.make_room(request.size);
            self.put(
                request.id,
                request.size,
                if node.place == 0 { 0 } else { node.count.saturating_add(1) },
            );
        }
    }

    fn remove(&mut self, id: u32) {
        let node = *self.nodes.of(id);
        if node.place != 0 {
            self.nodes.take(&mut self.queues[usize::from(node.count)], id);
            self.used -= u64::from(node.size);
            self.items -= 1;
        }
    }

    fn used(&self) -> u64 {
        self.used
    }

    fn items(&self) -> u64 {
        self.items
    }
}
