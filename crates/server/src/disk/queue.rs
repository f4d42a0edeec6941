//! Pages and slices on their way to the disk. Evicted ones are pinned in memory: nothing is copied
//! before the writer has its turn.

use std::{collections::VecDeque, time::Duration};

use larder_store::{Entry, Namespace};
use parking_lot::{Condvar, Mutex};

use crate::clock::Ms;

/// Most of them that wait.
pub(super) const LONGEST: usize = 4096;

/// A page or a slice on its way.
pub(super) enum Item {
    /// It left memory under this ticket, and is announced.
    Evicted(Namespace, Entry<'static>, u64),
    /// It is in memory.
    Key(Namespace, Box<[u8]>),
}

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    /// The writer waits.
    idle: bool,
    /// The server ends: until when pages may be written.
    end: Option<Ms>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    news: Condvar,
}

impl Queue {
    /// Adds a page, and leaves nothing in `item`. False: there is no room.
    pub(super) fn push(&self, item: &mut Option<Item>) -> bool {
        let mut state = self.state.lock();
        if state.items.len() >= LONGEST || state.end.is_some() {
            return false;
        }
        state.items.extend(item.take());
        if std::mem::take(&mut state.idle) {
            self.news.notify_one();
        }
        true
    }

    /// Waits for pages, at most so long. All that are there, and the end.
    pub(super) fn wait(&self, patience: Duration) -> (VecDeque<Item>, Option<Ms>) {
        let mut state = self.state.lock();
        if state.items.is_empty() && state.end.is_none() {
            state.idle = true;
            self.news.wait_for(&mut state, patience);
            state.idle = false;
        }
        (std::mem::take(&mut state.items), state.end)
    }

    /// The server ends: until when pages may be written.
    pub(super) fn until(&self) -> Option<Ms> {
        self.state.lock().end
    }

    /// Takes no more.
    pub(super) fn end(&self, until: Ms) {
        self.state.lock().end = Some(until);
        self.news.notify_one();
    }
}
