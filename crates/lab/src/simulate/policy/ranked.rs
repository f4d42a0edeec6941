//! Two that keep objects by a number: GDSF and Belady's MIN.

use super::Policy;
use super::heap::Heap;
use crate::simulate::request::Request;

/// Sizes of stored objects, and their sum.
#[derive(Debug)]
struct Stored {
    heap: Heap,
    sizes: Vec<u32>,
    used: u64,
    capacity: u64,
}

impl Stored {
    fn new(capacity: u64, ids: usize) -> Stored {
        Stored { heap: Heap::new(ids), sizes: vec![0; ids], used: 0, capacity }
    }

    fn put(&mut self, id: u32, size: u32, number: u64) {
        self.heap.put(id, number);
        self.sizes[id as usize] = size;
        self.used += u64::from(size);
    }

    fn take(&mut self, id: u32) {
        self.heap.take(id);
        self.used -= u64::from(std::mem::take(&mut self.sizes[id as usize]));
    }

    fn full_for(&self, size: u32) -> bool {
        self.used + u64::from(size) > self.capacity
    }
}

/// Greedy-Dual-Size-Frequency (Cherkasova 1998) as Squid has it (Dilley, Arlitt and Perret 1999), all objects of one cost: the least
/// of `age + uses / bytes` goes, and its number becomes the age. What comes is always stored. Small objects are worth more than large ones, so it is good at objects and bad at bytes.
#[derive(Debug)]
pub(super) struct Gdsf {
    stored: Stored,
    uses: Vec<u32>,
    age: f64,
}

impl Gdsf {
    pub(super) fn new(capacity: u64, ids: usize) -> Gdsf {
        Gdsf { stored: Stored::new(capacity, ids), uses: vec![0; ids], age: 0.0 }
    }

    /// Bits of positive floating-point numbers are in the numbers' order.
    fn number(&self, id: u32, size: u32) -> u64 {
        (self.age + f64::from(self.uses[id as usize]) / f64::from(size.max(1))).to_bits()
    }
}

impl Policy for Gdsf {
    fn get(&mut self, ask: &Request) -> bool {
        let found = self.stored.heap.has(ask.id);
        if found {
            self.uses[ask.id as usize] += 1;
            let number = self.number(ask.id, self.stored.sizes[ask.id as usize]);
            self.stored.heap.put(ask.id, number);
        }
        found
    }

    fn set(&mut self, ask: &Request) {
        let uses = if self.stored.heap.has(ask.id) { self.uses[ask.id as usize] } else { 0 };
        self.stored.take(ask.id);
        if u64::from(ask.size) > self.stored.capacity {
            return;
        }
        while self.stored.full_for(ask.size) {
            let Some((number, victim)) = self.stored.heap.least() else { return };
            self.age = f64::from_bits(number);
            self.stored.take(victim);
        }
        self.uses[ask.id as usize] = uses + 1;
        self.stored.put(ask.id, ask.size, self.number(ask.id, ask.size));
    }

    fn remove(&mut self, id: u32) {
        self.stored.take(id);
    }

    fn used(&self) -> u64 {
        self.stored.used
    }

    fn items(&self) -> u64 {
        self.stored.heap.len() as u64
    }
}

/// Belady's MIN, which knows what comes: who is read again last goes, and what is read again later than all others is not
/// stored at all. With objects of one size that do not expire no policy hits more. With sizes it is an approximation by
/// objects, which another policy may beat.
#[derive(Debug)]
pub(super) struct Belady(Stored);

impl Belady {
    pub(super) fn new(capacity: u64, ids: usize) -> Belady {
        Belady(Stored::new(capacity, ids))
    }
}

/// The later, the less: the least goes first.
fn remoteness(ask: &Request) -> u64 {
    u64::from(u32::MAX - ask.next)
}

impl Policy for Belady {
    fn get(&mut self, ask: &Request) -> bool {
        let found = self.0.heap.has(ask.id);
        if found {
            self.0.heap.put(ask.id, remoteness(ask));
        }
        found
    }

    fn set(&mut self, ask: &Request) {
        self.0.take(ask.id);
        let mine = remoteness(ask);
        if mine == 0 || u64::from(ask.size) > self.0.capacity {
            return;
        }
        while self.0.full_for(ask.size) {
            match self.0.heap.least() {
                Some((number, victim)) if number < mine => self.0.take(victim),
                _ => return,
            }
        }
        self.0.put(ask.id, ask.size, mine);
    }

    fn remove(&mut self, id: u32) {
        self.0.take(id);
    }

    fn used(&self) -> u64 {
        self.0.used
    }

    fn items(&self) -> u64 {
        self.0.heap.len() as u64
    }
}
