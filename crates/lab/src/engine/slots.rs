//! The requests of a connection that are under way.

use std::collections::VecDeque;

use crate::load::Operation;

/// A request. Its buffers are reused.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) operation: Operation,
    /// When it was due.
    pub(super) due: u64,
    /// When it was sent.
    pub(super) sent: u64,
    /// Whether its answer is counted.
    pub(super) counted: bool,
}

/// The requests of a connection, in the order in which they were made.
pub(super) struct Slots {
    slots: Box<[Slot]>,
    /// Indexes of those under way, the oldest first.
    order: VecDeque<usize>,
    free: Vec<usize>,
}

impl Slots {
    pub(super) fn new(depth: usize) -> Slots {
        Slots {
            slots: (0..depth).map(|_| Slot::default()).collect(),
            order: VecDeque::new(),
            free: (0..depth).rev().collect(),
        }
    }

    /// Most requests under way.
    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Requests under way.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// The slot of the next request, if there is one left.
    #[inline]
    pub(super) fn vacant(&self) -> Option<usize> {
        self.free.last().copied()
    }

    /// The request in the vacant slot is under way.
    #[inline]
    pub(super) fn begin(&mut self) {
        if let Some(at) = self.free.pop() {
            self.order.push_back(at);
        }
    }

    /// Index of the request that was made before all others but `n`.
    #[inline]
    pub(super) fn nth(&self, n: usize) -> Option<usize> {
        self.order.get(n).copied()
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> &Slot {
        &self.slots[at]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: usize) -> &mut Slot {
        &mut self.slots[at]
    }

    /// The request is answered or lost.
    #[inline]
    pub(super) fn end(&mut self, at: usize) {
        if self.order.front() == Some(&at) {
            self.order.pop_front();
        } else if let Some(place) = self.order.iter().position(|&other| other == at) {
            self.order.remove(place);
        } else {
            return;
        }
        self.free.push(at);
    }
}
