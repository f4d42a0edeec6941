//! Policies that rank objects by a number: GDSF and Belady's MIN.

use super::Policy;
use super::heap::Heap;
use crate::simulate::request::Request;

/// Stored objects with their sizes, and the total.
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

/// Greedy-Dual-Size-Frequency (Cherkasova 1998) as in Squid (Dilley, Arlitt and Perret 1999), with
/// equal cost for all objects: evicts the lowest `age + uses / bytes`, which becomes the new age.
/// New objects are always stored. It favours small objects: good by objects, bad by bytes.
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

    /// The bits of positive floating-point numbers sort like the numbers.
    fn number(&self, id: u32, size: u32) -> u64 {
        (self.age + f64::from(self.uses[id as usize]) / f64::from(size.max(1))).to_bits()
    }
}

impl Policy for Gdsf {
    fn get(&mut self, request: &Request) -> bool {
        let found = self.stored.heap.has(request.id);
        if found {
            self.uses[request.id as usize] += 1;
            let number = self.number(request.id, self.stored.sizes[request.id as usize]);
            self.stored.heap.put(request.id, number);
        }
        found
    }

    fn set(&mut self, request: &Request) {
        let uses =
            if self.stored.heap.has(request.id) { self.uses[request.id as usize] } else { 0 };
        self.stored.take(request.id);
        if u64::from(request.size) > self.stored.capacity {
            return;
        }
        while self.stored.full_for(request.size) {
            let Some((number, victim)) = self.stored.heap.least() else { return };
            self.age = f64::from_bits(number);
            self.stored.take(victim);
        }
        self.uses[request.id as usize] = uses + 1;
        self.stored.put(request.id, request.size, self.number(request.id, request.size));
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

/// Belady's MIN, which knows the future: evicts the object read again last, and does not store an
/// object read again later than all others. With objects of one size that do not expire, no policy
/// has more hits. With different sizes it is an approximation that another policy may beat.
#[derive(Debug)]
pub(super) struct Belady(Stored);

impl Belady {
    pub(super) fn new(capacity: u64, ids: usize) -> Belady {
        Belady(Stored::new(capacity, ids))
    }
}

/// Lower for later reads: the lowest is evicted first.
fn remoteness(request: &Request) -> u64 {
    u64::from(u32::MAX - request.next)
}

impl Policy for Belady {
    fn get(&mut self, request: &Request) -> bool {
        let found = self.0.heap.has(request.id);
        if found {
            self.0.heap.put(request.id, remoteness(request));
        }
        found
    }

    fn set(&mut self, request: &Request) {
        self.0.take(request.id);
        let mine = remoteness(request);
        if mine == 0 || u64::from(request.size) > self.0.capacity {
            return;
        }
        while self.0.full_for(request.size) {
            match self.0.heap.least() {
                Some((number, victim)) if number < mine => self.0.take(victim),
                _ => return,
            }
        }
        self.0.put(request.id, request.size, mine);
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
