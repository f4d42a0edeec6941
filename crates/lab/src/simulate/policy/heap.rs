//! Indexed heap: objects by a number, the lowest on top; numbers can change and objects can be
//! removed.

const ABSENT: u32 = u32::MAX;

/// 16 bytes for each stored object and 4 for each object of the trace.
#[derive(Debug)]
pub(super) struct Heap {
    entries: Vec<(u64, u32)>,
    /// Index in `entries` of each object.
    places: Vec<u32>,
}

impl Heap {
    pub(super) fn new(ids: usize) -> Heap {
        Heap { entries: Vec::new(), places: vec![ABSENT; ids] }
    }

    pub(super) fn has(&self, id: u32) -> bool {
        self.places[id as usize] != ABSENT
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The lowest number and its object; among equal numbers the lower object.
    pub(super) fn least(&self) -> Option<(u64, u32)> {
        self.entries.first().copied()
    }

    /// Inserts an object, or changes its number.
    pub(super) fn put(&mut self, id: u32, number: u64) {
        let at = match self.places[id as usize] {
            ABSENT => {
                self.entries.push((number, id));
                self.entries.len() - 1
            }
            at => {
                self.entries[at as usize].0 = number;
                at as usize
            }
        };
        self.settle(at);
    }

    /// Removes an object if present.
    pub(super) fn take(&mut self, id: u32) {
        let at = std::mem::replace(&mut self.places[id as usize], ABSENT);
        if at == ABSENT {
            return;
        }
        self.entries.swap_remove(at as usize);
        if (at as usize) < self.entries.len() {
            self.settle(at as usize);
        }
    }

    /// Restores the heap order at an entry.
    fn settle(&mut self, mut at: usize) {
        let entry = self.entries[at];
        while at > 0 && entry < self.entries[(at - 1) / 2] {
            self.set(at, self.entries[(at - 1) / 2]);
            at = (at - 1) / 2;
        }
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let Some(mut least) = self.entries.get(left).map(|_| left) else { break };
            if right < self.entries.len() && self.entries[right] < self.entries[left] {
                least = right;
            }
            if entry <= self.entries[least] {
                break;
            }
            self.set(at, self.entries[least]);
            at = least;
        }
        self.set(at, entry);
    }

    fn set(&mut self, at: usize, entry: (u64, u32)) {
        self.entries[at] = entry;
        self.places[entry.1 as usize] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn as_an_ordered_set() {
        let (mut heap, mut set, mut numbers) = (Heap::new(50), BTreeSet::new(), [None; 50]);
        let mut state = 7u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (id, number) = ((state >> 40) as u32 % 50, state >> 60);
            if let Some(old) = numbers[id as usize].take() {
                set.remove(&(old, id));
            }
            if (state >> 20).is_multiple_of(3) {
                heap.take(id);
            } else {
                heap.put(id, number);
                set.insert((number, id));
                numbers[id as usize] = Some(number);
            }
            assert_eq!(heap.least(), set.first().copied());
            assert_eq!((heap.len(), heap.has(id)), (set.len(), numbers[id as usize].is_some()));
        }
    }
}
