//! memcached 1.6 with default settings: slab classes, each with a segmented LRU (HOT, WARM, COLD).
//!
//! A class gets pages of 1 MiB while there are any, and keeps them: moving pages between classes
//! takes memcached tens of seconds a page and is not modelled, so memcached itself does better on
//! traces whose sizes drift. The background threads that move items between segments are assumed to
//! keep up.

use super::Policy;
use super::list::{Nodes, Queue};
use crate::simulate::request::Request;

/// `sizeof(item)`, the version, and the terminators of key and value.
const HEAD: u32 = 48 + 8 + 1 + 2;
const PAGE: u64 = 1 << 20;
/// Smallest chunk: `sizeof(item)` and `-n 48`.
const FIRST_CHUNK: u32 = 96;
const FACTOR: f64 = 1.25;
/// Larger items are chains of chunks of this size.
const LAST_CHUNK: u32 = 512 << 10;
/// `-I`.
const MOST: u32 = 1 << 20;
/// Share of a class's bytes in percent, and limit of the age relative to COLD's oldest item.
const HOT: (u64, f64) = (20, 0.2);
const WARM: (u64, f64) = (40, 2.0);

const IN_HOT: u8 = 1;
const IN_WARM: u8 = 2;
const IN_COLD: u8 = 3;

const FETCHED: u8 = 1;
const ACTIVE: u8 = 2;

#[derive(Debug)]
struct Class {
    chunk: u32,
    pages: u64,
    chunks: u64,
    hot: Queue,
    warm: Queue,
    cold: Queue,
}

impl Class {
    fn bytes(&self) -> u64 {
        self.hot.bytes + self.warm.bytes + self.cold.bytes
    }
}

#[derive(Debug)]
pub(super) struct Memcached {
    nodes: Nodes,
    /// Time of each object's last use or move in seconds, as memcached's `time`.
    times: Vec<u32>,
    classes: Vec<Class>,
    pages: u64,
    items: u64,
    used: u64,
}

impl Memcached {
    pub(super) fn new(capacity: u64, ids: usize) -> Memcached {
        let (mut chunks, mut size) = (Vec::new(), FIRST_CHUNK);
        while f64::from(size) < f64::from(LAST_CHUNK) / FACTOR {
            chunks.push(size);
            size = ((f64::from(size) * FACTOR) as u32).next_multiple_of(8);
        }
        chunks.push(LAST_CHUNK);
        let class = |chunk| Class {
            chunk,
            pages: 0,
            chunks: 0,
            hot: Queue::new(IN_HOT),
            warm: Queue::new(IN_WARM),
            cold: Queue::new(IN_COLD),
        };
        Memcached {
            nodes: Nodes::new(ids),
            times: vec![0; ids],
            classes: chunks.into_iter().map(class).collect(),
            pages: capacity / PAGE,
            items: 0,
            used: 0,
        }
    }

    fn class_of(&self, total: u32) -> usize {
        self.classes.partition_point(|class| class.chunk < total).min(self.classes.len() - 1)
    }

    /// Finds a free chunk in a class: in its pages or the page pool, or by evicting COLD's oldest
    /// item.
    fn make_room(&mut self, at: usize, chunks: u64, now: u32) -> bool {
        loop {
            let class = &mut self.classes[at];
            let per_page = PAGE / u64::from(class.chunk);
            if class.chunks + chunks <= class.pages * per_page {
                class.chunks += chunks;
                return true;
            }
            // Every class may have one page, whatever the limit.
            if self.pages > 0 || class.pages == 0 {
                self.pages = self.pages.saturating_sub(1);
                class.pages += 1;
            } else if !self.evict(at, now) {
                return false;
            }
        }
    }

    fn evict(&mut self, at: usize, now: u32) -> bool {
        loop {
            self.juggle(at, now);
            let class = &mut self.classes[at];
            let queue = [&mut class.cold, &mut class.warm, &mut class.hot]
                .into_iter()
                .find(|q| !q.is_empty());
            let Some(id) = queue.map(|queue| queue.back()) else { return false };
            if self.nodes.place(id) == IN_COLD && self.nodes.of(id).mark & ACTIVE != 0 {
                self.go(at, id, IN_WARM, now);
                continue;
            }
            self.remove(id);
            return true;
        }
    }

    /// The LRU maintainer: HOT and WARM give up items beyond their share, or too old.
    fn juggle(&mut self, at: usize, now: u32) {
        let class = &self.classes[at];
        let total = class.bytes();
        let oldest =
            if class.cold.is_empty() { 0 } else { now - self.times[class.cold.back() as usize] };
        for (place, (share, age)) in [(IN_HOT, HOT), (IN_WARM, WARM)] {
            // At most one pass.
            for _ in 0..=self.queue(at, place).items {
                let queue = self.queue(at, place);
                let (over, back) = (queue.bytes > total * share / 100, queue.back());
                if queue.is_empty() {
                    break;
                }
                let old = f64::from(now - self.times[back as usize]) > f64::from(oldest) * age;
                let active = self.nodes.of(back).mark & ACTIVE != 0;
                match (active, over || old) {
                    (true, _) => self.go(at, back, IN_WARM, now),
                    (false, true) => self.go_cold(at, back),
                    (false, false) => break,
                }
            }
        }
    }

    fn queue(&mut self, at: usize, place: u8) -> &mut Queue {
        let class = &mut self.classes[at];
        match place {
            IN_HOT => &mut class.hot,
            IN_WARM => &mut class.warm,
            _ => &mut class.cold,
        }
    }

    /// Moves an active item to the head of another segment.
    fn go(&mut self, at: usize, id: u32, place: u8, now: u32) {
        self.times[id as usize] = now;
        self.nodes.of(id).mark &= !ACTIVE;
        self.shift(at, id, place);
    }

    fn go_cold(&mut self, at: usize, id: u32) {
        self.shift(at, id, IN_COLD);
    }

    fn shift(&mut self, at: usize, id: u32, place: u8) {
        let mut from = *self.queue(at, self.nodes.place(id));
        let was = self.nodes.place(id);
        let size = self.nodes.take(&mut from, id);
        *self.queue(at, was) = from;
        let mut to = *self.queue(at, place);
        self.nodes.push(&mut to, id, size);
        *self.queue(at, place) = to;
    }
}

fn second(request: &Request) -> u32 {
    (request.at / 1000) as u32
}

fn chunks_of(total: u32) -> u64 {
    u64::from(total.div_ceil(LAST_CHUNK)).max(1)
}

impl Policy for Memcached {
    fn get(&mut self, request: &Request) -> bool {
        let node = *self.nodes.of(request.id);
        if node.place == 0 {
            return false;
        }
        self.times[request.id as usize] = second(request);
        let mark = if node.mark & FETCHED == 0 { FETCHED } else { FETCHED | ACTIVE };
        self.nodes.of(request.id).mark = mark;
        if mark & ACTIVE != 0 && node.place == IN_COLD {
            let at = self.class_of(node.size);
            self.go(at, request.id, IN_WARM, second(request));
        }
        true
    }

    fn set(&mut self, request: &Request) {
        self.remove(request.id);
        let total = request.size.saturating_add(HEAD);
        if total > MOST {
            return;
        }
        let at = self.class_of(total);
        if !self.make_room(at, chunks_of(total), second(request)) {
            return;
        }
        self.times[request.id as usize] = second(request);
        self.nodes.of(request.id).mark = 0;
        let mut hot = self.classes[at].hot;
        self.nodes.push(&mut hot, request.id, total);
        self.classes[at].hot = hot;
        self.items += 1;
        self.used += u64::from(request.size);
    }

    fn remove(&mut self, id: u32) {
        let node = *self.nodes.of(id);
        if node.place == 0 {
            return;
        }
        let at = self.class_of(node.size);
        let mut queue = *self.queue(at, node.place);
        self.nodes.take(&mut queue, id);
        *self.queue(at, node.place) = queue;
        self.classes[at].chunks -= chunks_of(node.size);
        self.items -= 1;
        self.used -= u64::from(node.size - HEAD);
    }

    fn used(&self) -> u64 {
        self.used
    }

    fn items(&self) -> u64 {
        self.items
    }
}
