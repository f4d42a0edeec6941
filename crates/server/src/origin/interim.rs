//! Interim responses (RFC 9110 section 15.2) on their way from an origin to its client, both in one
//! task or on one thread. Most requests have none: the way costs one small block of memory.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    fmt,
    future::poll_fn,
    rc::Rc,
    task::{Poll, Waker},
};

use http::HeaderMap;

/// An interim response: 100, 102, 103 or an unknown 1xx, never 101.
#[derive(Debug)]
pub struct InterimHead {
    /// 100 or 102 to 199.
    pub status: u16,
    /// Its fields as received.
    pub headers: HeaderMap,
}

/// Where interim responses go. Bounded: heads that the receiver does not take in time are dropped
/// (and counted), as a client may do without any of them.
#[derive(Debug)]
pub struct Interim(Rc<Way>);

/// The other end.
#[derive(Debug)]
pub struct InterimHeads(Rc<Way>);

#[derive(Default)]
struct Way {
    limit: usize,
    waiting: RefCell<VecDeque<InterimHead>>,
    senders: Cell<usize>,
    receiver: Cell<Option<Waker>>,
    /// Nobody receives any more.
    closed: Cell<bool>,
}

/// A way on which up to `limit` heads may wait.
pub fn interim(limit: usize) -> (Interim, InterimHeads) {
    let way = Rc::new(Way { limit, senders: Cell::new(1), ..Way::default() });
    (Interim(way.clone()), InterimHeads(way))
}

impl Interim {
    /// False: it is dropped.
    pub(super) fn send(&self, head: InterimHead) -> bool {
        let mut waiting = self.0.waiting.borrow_mut();
        let room = waiting.len() < self.0.limit && !self.0.closed.get();
        if room {
            waiting.push_back(head);
            drop(waiting);
            self.0.wake();
        }
        room
    }
}

impl Clone for Interim {
    fn clone(&self) -> Self {
        self.0.senders.set(self.0.senders.get() + 1);
        Self(self.0.clone())
    }
}

impl Drop for Interim {
    fn drop(&mut self) {
        self.0.senders.set(self.0.senders.get() - 1);
        self.0.wake();
    }
}

impl Drop for InterimHeads {
    fn drop(&mut self) {
        self.0.closed.set(true);
        self.0.waiting.borrow_mut().clear();
    }
}

impl InterimHeads {
    /// The next one. None: no more will come.
    pub async fn recv(&mut self) -> Option<InterimHead> {
        poll_fn(|cx| {
            if let Some(head) = self.waiting() {
                return Poll::Ready(Some(head));
            }
            if self.0.senders.get() == 0 {
                return Poll::Ready(None);
            }
            self.0.receiver.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await
    }

    /// One that has come already.
    pub fn waiting(&self) -> Option<InterimHead> {
        self.0.waiting.borrow_mut().pop_front()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.waiting.borrow().len()
    }
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Way").field("waiting", &self.waiting.borrow().len()).finish()
    }
}

impl Way {
    fn wake(&self) {
        if let Some(waker) = self.receiver.take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_for_nobody_are_not_kept() {
        let (to, heads) = interim(2);
        let head = || InterimHead { status: 103, headers: HeaderMap::new() };
        assert!(to.send(head()));
        drop(heads);
        assert!(!to.send(head()));
        assert!(to.0.waiting.borrow().is_empty());
    }
}
