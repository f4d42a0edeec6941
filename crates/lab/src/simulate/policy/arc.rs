//! ARC (Megiddo and Modha, FAST '03), counted in bytes: what was used once and what was used more often share the room, and
//! ghosts of both say which of them deserves more. With objects of one size it is theirs, step by step.

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
    /// Their T1, T2, B1 and B2.
    once: Queue,
    often: Queue,
    once_ghost: Queue,
    often_ghost: Queue,
    /// Their p: bytes that `once` should have.
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

    /// Their REPLACE.
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

    /// Case IV of the paper: what is in none of the lists.
    fn forget(&mut self, size: u32) {
        let size = u64::from(size);
        while self.once.bytes + self.once_ghost.bytes + size > self.capacity {
            if self.nodes.pop(&mut self.once_ghost).is_none() && self.nodes.pop(&mut self.once).is_none() {
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
    fn get(&mut self, ask: &Request) -> bool {
        match self.nodes.place(ask.id) {
            ONCE => {
                let size = self.nodes.take(&mut self.once, ask.id);
                self.nodes.push(&mut self.often, ask.id, size);
                true
            }
            OFTEN => {
                self.nodes.advance(&mut self.often, ask.id);
                true
            }
            _ => false,
        }
    }

    fn set(&mut self, ask: &Request) {
        if u64::from(ask.size) > self.capacity {
            return self.remove(ask.id);
        }
        match self.nodes.place(ask.id) {
            ONCE | OFTEN => {
                self.get(ask);
                self.nodes.resize(&mut self.often, ask.id, ask.size);
                self.make_room(0, false);
            }
            ghost @ (ONCE_GHOST | OFTEN_GHOST) => {
                let was_often = ghost == OFTEN_GHOST;
                self.learn(ask.size, was_often);
                let queue = if was_often { &mut self.often_ghost } else { &mut self.once_ghost };
                self.nodes.take(queue, ask.id);
                self.make_room(ask.size, was_often);
                self.nodes.push(&mut self.often, ask.id, ask.size);
            }
            _ => {
                self.forget(ask.size);
                self.make_room(ask.size, false);
                self.nodes.push(&mut self.once, ask.id, ask.size);
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
