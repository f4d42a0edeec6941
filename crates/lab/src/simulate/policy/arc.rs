//! ARC (Megiddo and Modha, FAST '03), counted in bytes: objects used once and objects used more
//! often share the space, and ghosts of both adapt their shares. With objects of one size it equals
//! the published algorithm, step by step.

use super::Policy;
use super::list::{Nodes, Queue};
use crate::simulate::request::Request;

const ONCE: u8 = 1;
const OFTEN: u8 = 2;
const ONCE_GHOST: u8 = 3;
const OFTEN_GHOST: u8 = 4;

#[derive(Debug)]
pub(super) struct Arc {
    nodes: Nodes,
    /// T1, T2, B1 and B2 of the paper.
    once: Queue,
    often: Queue,
    once_ghost: Queue,
    often_ghost: Queue,
    /// p of the paper: target size of `once` in bytes.
    target: f64,
    capacity: u64,
}

impl Arc {
    pub(super) fn new(capacity: u64, ids: usize) -> Arc {
        Arc {
            nodes: Nodes::new(ids),
            once: Queue::new(ONCE),
            often: Queue::new(OFTEN),
            once_ghost: Queue::new(ONCE_GHOST),
            often_ghost: Queue::new(OFTEN_GHOST),
            target: 0.0,
            capacity,
        }
    }

    /// REPLACE of the paper.
    fn make_room(&mut self, size: u32, was_often: bool) {
        while self.used() + u64::from(size) > self.capacity && self.items() > 0 {
            let once = self.once.bytes as f64;
            let over = once > self.target || (was_often && once == self.target);
            let (from, to) = if !self.once.is_empty() && (over || self.often.is_empty()) {
                (&mut self.once, &mut self.once_ghost)
            } else {
                (&mut self.often, &mut self.often_ghost)
            };
            if let Some(id) = self.nodes.pop(from) {
                let size = self.nodes.of(id).size;
                self.nodes.push(to, id, size);
            }
        }
    }

    /// Case IV of the paper: an object in none of the lists.
    fn forget(&mut self, size: u32) {
        let size = u64::from(size);
        while self.once.bytes + self.once_ghost.bytes + size > self.capacity {
            if self.nodes.pop(&mut self.once_ghost).is_none()
                && self.nodes.pop(&mut self.once).is_none()
            {
                break;
            }
        }
        let ghosts = |arc: &Arc| arc.once_ghost.bytes + arc.often_ghost.bytes;
        while self.used() + ghosts(self) + size > 2 * self.capacity {
            if self.nodes.pop(&mut self.often_ghost).is_none() {
                break;
            }
        }
    }

    fn learn(&mut self, size: u32, was_often: bool) {
        let (once, often) = (self.once_ghost.bytes as f64, self.often_ghost.bytes as f64);
        let step = f64::from(size);
        self.target = if was_often {
            (self.target - step * (once / often).max(1.0)).max(0.0)
        } else {
            (self.target + step * (often / once).max(1.0)).min(self.capacity as f64)
        };
    }
}

impl Policy for Arc {
    fn get(&mut self, request: &Request) -> bool {
        match self.nodes.place(request.id) {
            ONCE => {
                let size = self.nodes.take(&mut self.once, request.id);
                self.nodes.push(&mut self.often, request.id, size);
                true
            }
            OFTEN => {
                self.nodes.advance(&mut self.often, request.id);
                true
            }
            _ => false,
        }
    }

    fn set(&mut self, request: &Request) {
        if u64::from(request.size) > self.capacity {
            return self.remove(request.id);
        }
        match self.nodes.place(request.id) {
            ONCE | OFTEN => {
                self.get(request);
                self.nodes.resize(&mut self.often, request.id, request.size);
                self.make_room(0, false);
            }
            ghost @ (ONCE_GHOST | OFTEN_GHOST) => {
                let was_often = ghost == OFTEN_GHOST;
                self.learn(request.size, was_often);
                let queue = if was_often { &mut self.often_ghost } else { &mut self.once_ghost };
                self.nodes.take(queue, request.id);
                self.make_room(request.size, was_often);
                self.nodes.push(&mut self.often, request.id, request.size);
            }
            _ => {
                self.forget(request.size);
                self.make_room(request.size, false);
                self.nodes.push(&mut self.once, request.id, request.size);
            }
        }
    }

    fn remove(&mut self, id: u32) {
        let queue = match self.nodes.place(id) {
            ONCE => &mut self.once,
            OFTEN => &mut self.often,
            _ => return,
        };
        self.nodes.take(queue, id);
    }

    fn used(&self) -> u64 {
        self.once.bytes + self.often.bytes
    }

    fn items(&self) -> u64 {
        self.once.items + self.often.items
    }
}
