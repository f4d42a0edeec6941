//! Descriptors that stay open between requests, up to a bound. When the bound is reached, or after
//! some time without use, the ones that were not used lately are closed (second chance).

use std::{
    collections::VecDeque,
    os::fd::OwnedFd,
    sync::{Arc, Weak, atomic::Ordering},
    time::Instant,
};

use fuser::BackingId;
use parking_lot::Mutex;

use super::nodes::Node;

/// An open file of the source.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) file: Arc<OwnedFd>,
    /// The kernel reads from the file itself. None: this program reads for it.
    pub(super) backing: Option<Arc<BackingId>>,
    /// The count of moved directories when it was opened: its name may lead elsewhere since.
    pub(super) moves: u64,
    pub(super) since: Instant,
}

/// Descriptors of the latest lookups: an open follows most of them at once.
const LOOKED: usize = 512;

/// Nodes with a descriptor, in the order in which they are looked at.
#[derive(Debug)]
pub(super) struct Kept {
    queue: Mutex<VecDeque<Weak<Node>>>,
    most: usize,
    /// Nodes that were looked up of late, the latest last.
    looked: Mutex<VecDeque<Weak<Node>>>,
}

impl Kept {
    pub(super) fn new(most: usize) -> Kept {
        Kept { queue: Mutex::default(), most: most.max(1), looked: Mutex::default() }
    }

    /// A descriptor of this node was opened. Closes others where there are too many. The caller
    /// holds no node's state.
    pub(super) fn add(&self, node: &Arc<Node>) {
        node.touch();
        let mut queue = self.queue.lock();
        queue.push_back(Arc::downgrade(node));
        let over = queue.len().saturating_sub(self.most);
        drop(queue);
        if over > 0 {
            self.close(over);
        }
    }

    /// Keeps the descriptor of a lookup for the open that may follow.
    pub(super) fn add_looked(&self, node: &Arc<Node>, file: OwnedFd) {
        // Also where a file is open in this program: it may be closed until then.
        if node.state.lock().looked.replace(Arc::new(file)).is_some() {
            return;
        }
        let mut looked = self.looked.lock();
        looked.push_back(Arc::downgrade(node));
        let oldest = if looked.len() > LOOKED { looked.pop_front() } else { None };
        drop(looked);
        close_looked(oldest);
    }

    /// Closes half of all: the system has no descriptor left.
    pub(super) fn halve(&self) {
        self.close_all_looked();
        let half = self.queue.lock().len().div_ceil(2);
        self.close(half);
    }

    /// Closes those that were not used since the last time.
    pub(super) fn sweep(&self) {
        self.close_all_looked();
        let all = self.queue.lock().len();
        for _ in 0..all {
            self.look_at_next();
        }
    }

    fn close_all_looked(&self) {
        let all = std::mem::take(&mut *self.looked.lock());
        all.into_iter().for_each(|node| close_looked(Some(node)));
    }

    /// Closes this many, if there are so many that are not open in the kernel.
    fn close(&self, wanted: usize) {
        // Each is looked at twice at most: the first look takes the mark of its use.
        let looks = self.queue.lock().len() * 2;
        let mut closed = 0;
        for _ in 0..looks {
            closed += usize::from(self.look_at_next());
            if closed >= wanted {
                return;
            }
        }
    }

    /// Closes the first in the queue or puts it behind the others. Gives whether it is gone.
    fn look_at_next(&self) -> bool {
        let Some(first) = self.queue.lock().pop_front() else { return false };
        let Some(node) = first.upgrade() else { return true };
        let mut state = node.state.lock();
        if state.held.is_none() {
            return true;
        }
        if state.opens == 0 && !node.used.swap(false, Ordering::Relaxed) {
            state.held = None;
            return true;
        }
        drop(state);
        self.queue.lock().push_back(first);
        false
    }
}

fn close_looked(node: Option<Weak<Node>>) {
    if let Some(node) = node.and_then(|node| node.upgrade()) {
        node.state.lock().looked = None;
    }
}
