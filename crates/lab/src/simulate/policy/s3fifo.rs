//! S3-FIFO as published (Yang et al., SOSP '23): a small queue of a tenth, a main queue, a ghost
//! queue as large as main, all counted in bytes. Objects read twice move from small to main; in
//! main an object gets a further round per read, at most three.

use super::Policy;
use super::list::{Nodes, Queue};
use crate::simulate::request::Request;

const SMALL: u8 = 1;
const MAIN: u8 = 2;
const GHOST: u8 = 3;

#[derive(Debug)]
pub(super) struct S3Fifo {
    nodes: Nodes,
    small: Queue,
    main: Queue,
    ghost: Queue,
    capacity: u64,
}

impl S3Fifo {
    pub(super) fn new(capacity: u64, ids: usize) -> S3Fifo {
        let nodes = Nodes::new(ids);
        S3Fifo {
            nodes,
            small: Queue::new(SMALL),
            main: Queue::new(MAIN),
            ghost: Queue::new(GHOST),
            capacity,
        }
    }

    fn make_room(&mut self, size: u32) {
        while self.used() + u64::from(size) > self.capacity && self.items() > 0 {
            if self.small.bytes > self.capacity / 10 || self.main.is_empty() {
                self.evict_small();
            } else {
                self.evict_main();
            }
        }
    }

    fn evict_small(&mut self) {
        let Some(id) = self.nodes.pop(&mut self.small) else { return };
        let node = self.nodes.of(id);
        let (size, count) = (node.size, std::mem::take(&mut node.count));
        if count > 1 {
            return self.nodes.push(&mut self.main, id, size);
        }
        self.nodes.push(&mut self.ghost, id, size);
        while self.ghost.bytes > self.capacity - self.capacity / 10 {
            self.nodes.pop(&mut self.ghost);
        }
    }

    fn evict_main(&mut self) {
        let back = self.main.back();
        let count = &mut self.nodes.of(back).count;
        if *count > 0 {
            *count -= 1;
            self.nodes.advance(&mut self.main, back);
        } else {
            self.nodes.pop(&mut self.main);
        }
    }
}

impl Policy for S3Fifo {
    fn get(&mut self, request: &Request) -> bool {
        let node = self.nodes.of(request.id);
        let found = matches!(node.place, SMALL | MAIN);
        if found {
            node.count = (node.count + 1).min(3);
        }
        found
    }

    fn set(&mut self, request: &Request) {
        if u64::from(request.size) > self.capacity {
            return self.remove(request.id);
        }
        let place = self.nodes.place(request.id);
        if matches!(place, SMALL | MAIN) {
            self.get(request);
            let queue = if place == SMALL { &mut self.small } else { &mut self.main };
            self.nodes.resize(queue, request.id, request.size);
            return self.make_room(0);
        }
        if place == GHOST {
            self.nodes.take(&mut self.ghost, request.id);
        }
        self.make_room(request.size);
        let queue = if place == GHOST { &mut self.main } else { &mut self.small };
        self.nodes.push(queue, request.id, request.size);
        self.nodes.of(request.id).count = 0;
    }

    fn remove(&mut self, id: u32) {
        let queue = match self.nodes.place(id) {
            SMALL => &mut self.small,
            MAIN => &mut self.main,
            _ => return,
        };
        self.nodes.take(queue, id);
    }

    fn used(&self) -> u64 {
        self.small.bytes + self.main.bytes
    }

    fn items(&self) -> u64 {
        self.small.items + self.main.items
    }
}
