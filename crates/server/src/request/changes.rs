//! Changes of stored pages that clients ask for (purges, published pages): those under way while
//! another process takes over, and their way to it.

use std::sync::{
    atomic::{AtomicUsize, Ordering},
    mpsc::Sender,
};

use parking_lot::Mutex;

use crate::net::passing::Parcel;

/// No more changes begin.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// See the module.
#[derive(Default)]
pub(crate) struct Changes {
    /// Changes under way, and [`CLOSED`].
    state: AtomicUsize,
    successor: Mutex<Option<Sender<Parcel>>>,
}

/// A change under way.
pub(crate) struct Change<'c>(&'c Changes);

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.0.state.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Changes {
    /// Begins a change; `None`: another process has the pages, or is about to.
    pub(crate) fn begin(&self) -> Option<Change<'_>> {
        let change = Change(self);
        (self.state.fetch_add(1, Ordering::SeqCst) & CLOSED == 0).then_some(change)
    }

    /// Changes under way; no more begin.
    pub(crate) fn close(&self) -> usize {
        self.state.fetch_or(CLOSED, Ordering::SeqCst) & !CLOSED
    }

    /// They may begin again: no other process has the pages.
    pub(crate) fn open(&self) {
        *self.successor.lock() = None;
        self.state.fetch_and(!CLOSED, Ordering::SeqCst);
    }

    /// Another process is about to have the pages.
    pub(crate) fn pass_to(&self, successor: Sender<Parcel>) {
        *self.successor.lock() = Some(successor);
    }

    /// Tells the process that has the pages of a change that follows from a request here.
    pub(crate) fn tell(&self, parcel: impl FnOnce() -> Parcel) {
        if let Some(successor) = &*self.successor.lock() {
            let _ = successor.send(parcel());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_begins_after_the_last() {
        let changes = Changes::default();
        let one = changes.begin().expect("open");
        assert_eq!(changes.close(), 1);
        assert!(changes.begin().is_none());
        assert_eq!(changes.close(), 1, "the one that was refused is not counted");
        drop(one);
        assert_eq!(changes.close(), 0);
        changes.open();
        assert!(changes.begin().is_some());
    }
}
