//! W-TinyLFU (Einziger, Friedman, Manes 2017) as in Caffeine: a window of one percent, and a
//! segmented LRU, four fifths protected, which objects leaving the window enter only if they were
//! requested more often than the next victim.
//!
//! Frequencies are counted for every object up to 15 and halved after ten times as many requests as
//! objects fit. Caffeine uses a sketch of 4-bit counters, whose collisions overestimate; here each
//! object has its own counter. The window does not adapt, and no candidate is admitted at random.

use super::Policy;
use super::list::{NONE, Nodes, Queue};
use crate::simulate::request::Request;

const WINDOW: u8 = 1;
const PROBATION: u8 = 2;
const PROTECTED: u8 = 3;

const MOST: u8 = 15;
/// Requests between two halvings, per object that fits.
const SAMPLE: u64 = 10;

#[derive(Debug)]
pub(super) struct TinyLfu {
    nodes: Nodes,
    frequency: Vec<u8>,
    counted: u64,
    /// Most objects stored at the same time so far.
    fits: u64,
    window: Queue,
    probation: Queue,
    protected: Queue,
    capacity: u64,
}

impl TinyLfu {
    pub(super) fn new(capacity: u64, ids: usize) -> TinyLfu {
        TinyLfu {
            nodes: Nodes::new(ids),
            frequency: vec![0; ids],
            counted: 0,
            fits: 1,
            window: Queue::new(WINDOW),
            probation: Queue::new(PROBATION),
            protected: Queue::new(PROTECTED),
            capacity,
        }
    }

    /// Size of the window in bytes.
    fn window_share(&self) -> u64 {
        (self.capacity / 100).max(1)
    }

    fn count(&mut self, id: u32) {
        let frequency = &mut self.frequency[id as usize];
        *frequency = (*frequency + 1).min(MOST);
        self.counted += 1;
        if self.counted >= SAMPLE * self.fits {
            self.frequency.iter_mut().for_each(|frequency| *frequency /= 2);
            self.counted /= 2;
        }
    }

    fn touch(&mut self, id: u32) {
        match self.nodes.place(id) {
            WINDOW => self.nodes.advance(&mut self.window, id),
            PROTECTED => self.nodes.advance(&mut self.protected, id),
            _ => {
                let size = self.nodes.take(&mut self.probation, id);
                self.nodes.push(&mut self.protected, id, size);
                while self.protected.bytes > (self.capacity - self.window_share()) / 5 * 4 {
                    let Some(id) = self.nodes.pop(&mut self.protected) else { break };
                    let size = self.nodes.of(id).size;
                    self.nodes.push(&mut self.probation, id, size);
                }
            }
        }
    }

    /// Compares the object that leaves the window with the next victim of the main part.
    fn settle(&mut self) {
        while self.window.bytes > self.window_share() {
            let Some(candidate) = self.nodes.pop(&mut self.window) else { return };
            let size = self.nodes.of(candidate).size;
            if self.admit(candidate, size) {
                self.nodes.push(&mut self.probation, candidate, size);
            }
        }
        while self.used() > self.capacity {
            let Some(victim) = self.victim() else { return };
            self.remove(victim);
        }
    }

    fn victim(&self) -> Option<u32> {
        let backs = [self.probation.back(), self.protected.back(), self.window.back()];
        backs.into_iter().find(|back| *back != NONE)
    }

    fn admit(&mut self, candidate: u32, size: u32) -> bool {
        let room = self.capacity - self.window_share();
        if u64::from(size) > room {
            return false;
        }
        while self.probation.bytes + self.protected.bytes + u64::from(size) > room {
            let victim = if self.probation.is_empty() {
                self.protected.back()
            } else {
                self.probation.back()
            };
            if self.frequency[candidate as usize] <= self.frequency[victim as usize] {
                return false;
            }
            self.remove(victim);
        }
        true
    }
}

impl Policy for TinyLfu {
    fn get(&mut self, request: &Request) -> bool {
        let found = self.nodes.place(request.id) != 0;
        if found {
            self.count(request.id);
            self.touch(request.id);
        }
        found
    }

    fn set(&mut self, request: &Request) {
        if u64::from(request.size) > self.capacity {
            return self.remove(request.id);
        }
        self.count(request.id);
        if self.nodes.place(request.id) == 0 {
            self.nodes.push(&mut self.window, request.id, request.size);
        } else {
            self.touch(request.id);
            let queue = match self.nodes.place(request.id) {
                WINDOW => &mut self.window,
                PROBATION => &mut self.probation,
                _ => &mut self.protected,
            };
            self.nodes.resize(queue, request.id, request.size);
        }
        self.settle();
        self.fits = self.fits.max(self.items());
    }

    fn remove(&mut self, id: u32) {
        let queue = match self.nodes.place(id) {
            WINDOW => &mut self.window,
            PROBATION => &mut self.probation,
            PROTECTED => &mut self.protected,
            _ => return,
        };
        self.nodes.take(queue, id);
    }

    fn used(&self) -> u64 {
        self.window.bytes + self.probation.bytes + self.protected.bytes
    }

    fn items(&self) -> u64 {
        self.window.items + self.probation.items + self.protected.items
    }
}
