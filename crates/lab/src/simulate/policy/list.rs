//! Linked queues of objects in one table: an object is in one queue at a time and moves without
//! allocation.

/// No object.
pub(super) const NONE: u32 = u32::MAX;

/// Entry of an object: 16 bytes for each object of a trace, stored or not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// Towards the front.
    before: u32,
    /// Towards the back.
    behind: u32,
    /// Bytes.
    pub(super) size: u32,
    /// The queue it is in, as numbered by its policy; 0: none.
    pub(super) place: u8,
    /// For use by the policy.
    pub(super) mark: u8,
    /// For use by the policy.
    pub(super) count: u16,
}

const EMPTY: Node = Node { before: NONE, behind: NONE, size: 0, place: 0, mark: 0, count: 0 };

/// Ends and size of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    /// The number of this queue, in the `place` of its objects.
    place: u8,
    front: u32,
    back: u32,
    pub(super) bytes: u64,
    pub(super) items: u64,
}

impl Queue {
    pub(super) fn new(place: u8) -> Queue {
        Queue { place, front: NONE, back: NONE, bytes: 0, items: 0 }
    }

    /// The object at the back; [`NONE`] if empty.
    pub(super) fn back(&self) -> u32 {
        self.back
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items == 0
    }
}

/// The table of all objects.
#[derive(Debug)]
pub(super) struct Nodes(Vec<Node>);

impl Nodes {
    pub(super) fn new(ids: usize) -> Nodes {
        Nodes(vec![EMPTY; ids])
    }

    #[inline]
    pub(super) fn of(&mut self, id: u32) -> &mut Node {
        &mut self.0[id as usize]
    }

    #[inline]
    pub(super) fn place(&self, id: u32) -> u8 {
        self.0[id as usize].place
    }

    /// The object before this one, towards the front.
    pub(super) fn before(&self, id: u32) -> u32 {
        self.0[id as usize].before
    }

    pub(super) fn push(&mut self, queue: &mut Queue, id: u32, size: u32) {
        let front = queue.front;
        let node = self.of(id);
        (node.before, node.behind, node.size, node.place) = (NONE, front, size, queue.place);
        match front {
            NONE => queue.back = id,
            front => self.of(front).before = id,
        }
        queue.front = id;
        queue.bytes += u64::from(size);
        queue.items += 1;
    }

    /// Removes an object from its queue; returns its size.
    pub(super) fn take(&mut self, queue: &mut Queue, id: u32) -> u32 {
        let node = self.of(id);
        node.place = 0;
        let Node { before, behind, size, .. } = *node;
        match before {
            NONE => queue.front = behind,
            before => self.of(before).behind = behind,
        }
        match behind {
            NONE => queue.back = before,
            behind => self.of(behind).before = before,
        }
        queue.bytes -= u64::from(size);
        queue.items -= 1;
        size
    }

    /// Removes the object at the back, if there is one.
    pub(super) fn pop(&mut self, queue: &mut Queue) -> Option<u32> {
        let back = queue.back;
        if back == NONE {
            return None;
        }
        self.take(queue, back);
        Some(back)
    }

    pub(super) fn advance(&mut self, queue: &mut Queue, id: u32) {
        if queue.front != id {
            let size = self.take(queue, id);
            self.push(queue, id, size);
        }
    }

    /// Changes the size of an object in this queue.
    pub(super) fn resize(&mut self, queue: &mut Queue, id: u32, size: u32) {
        let node = self.of(id);
        queue.bytes = queue.bytes - u64::from(node.size) + u64::from(size);
        node.size = size;
    }
}
