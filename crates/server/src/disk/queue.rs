//! Pages and slices on their way to the disk. Evicted ones are pinned in memory: nothing is copied
//! before the writer has its turn. Values of objects are copied: all that are evicted come here,
//! and an eviction whose memory is pinned would evict more.

use std::{collections::VecDeque, time::Duration};

use larder_proto::page::object_on_disk;
use larder_store::{Entry, Namespace, Stub};
use parking_lot::{Condvar, Mutex};

use crate::clock::Ms;

/// Most of them that wait.
pub(super) const LONGEST: usize = 4096;

/// A page or a slice on its way.
pub(super) enum Item {
    /// It left memory under this ticket, and is announced.
    Evicted(Namespace, Entry<'static>, u64),
    Object(Object),
    /// It is in memory.
    Key(Namespace, Box<[u8]>),
}

/// The value of an item that left memory under a ticket, and a stub there.
pub(super) struct Object {
    pub(super) stub: Stub,
    /// A copy.
    pub(super) value: Box<[u8]>,
    pub(super) ticket: u64,
}

impl Object {
    /// Its key on the disk, under which it is announced.
    pub(super) fn key(&self) -> Vec<u8> {
        object_on_disk(self.stub.place.run, self.stub.place.number, &self.stub.key)
    }
}

/// The server ends.
#[derive(Clone, Copy)]
pub(super) struct End {
    /// Until when what waits may be written.
    pub(super) until: Ms,
    /// Whether what is hot in memory is written, too.
    pub(super) hottest: bool,
}

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    /// Bytes of the copies among them.
    copied: usize,
    /// The writer waits.
    idle: bool,
    /// Somebody waits for a record that is not written yet.
    hurried: bool,
    end: Option<End>,
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
        if let Some(Item::Object(object)) = item {
            state.copied += object.value.len();
        }
        state.items.extend(item.take());
        if std::mem::take(&mut state.idle) {
            self.news.notify_one();
        }
        true
    }

    /// Whether one more copy has room where all may have so many bytes, as far as is known now.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        let state = self.state.lock();
        state.items.len() < LONGEST && state.copied < bytes && state.end.is_none()
    }

    /// Has the writer write all that is there, to the end of its buffer.
    pub(super) fn hurry(&self) {
        self.state.lock().hurried = true;
        self.news.notify_one();
    }

    /// Waits for pages, at most so long. All that are there, the end, and whether somebody waits
    /// for them.
    pub(super) fn wait(&self, patience: Duration) -> (VecDeque<Item>, Option<End>, bool) {
        let mut state = self.state.lock();
        if state.items.is_empty() && state.end.is_none() && !state.hurried {
            state.idle = true;
            self.news.wait_for(&mut state, patience);
            state.idle = false;
        }
        let hurried = std::mem::take(&mut state.hurried);
        state.copied = 0;
        (std::mem::take(&mut state.items), state.end, hurried)
    }

    /// The server ends: until when pages may be written.
    pub(super) fn until(&self) -> Option<Ms> {
        self.state.lock().end.map(|end| end.until)
    }

    /// Takes no more.
    pub(super) fn end(&self, end: End) {
        self.state.lock().end = Some(end);
        self.news.notify_one();
    }
}
