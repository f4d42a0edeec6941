//! Wakes connections from any thread, also those at rest, which have no task.
//!
//! A woken connection is put into a list of its worker; an eventfd in the worker's reactor tells
//! that the list is not empty. Many wakes at a time cost one system call.

use std::{
    cell::RefCell,
    collections::HashMap,
    io,
    os::fd::OwnedFd,
    rc::{Rc, Weak},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Wake, Waker},
};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};

use super::{
    reactor::{READ, Reactor, Readable, Registered},
    socket::Watch,
};

/// The open connections of a worker, by their number.
pub(super) type Watches = Rc<RefCell<HashMap<u64, Rc<Watch>>>>;

/// The part that other threads see.
struct List {
    eventfd: OwnedFd,
    /// At most one entry for each connection.
    woken: Mutex<Vec<Arc<RemoteWaker>>>,
}

/// Wakes one connection.
struct RemoteWaker {
    id: u64,
    /// It is in the list.
    listed: AtomicBool,
    list: Arc<List>,
}

impl Wake for RemoteWaker {
    fn wake(self: Arc<Self>) {
        if self.listed.swap(true, Ordering::AcqRel) {
            return;
        }
        let list = self.list.clone();
        let mut woken = list.woken.lock();
        woken.push(self);
        if woken.len() == 1 {
            drop(woken);
            // An error would be a counter that overflows: the worker is told already then.
            let _ = rustix::io::write(&list.eventfd, &1u64.to_ne_bytes());
        }
    }
}

/// A worker's list of connections that others have woken.
pub(super) struct RemoteWakes {
    list: Arc<List>,
    watches: Watches,
    registered: Registered,
}

impl RemoteWakes {
    pub(super) fn new(reactor: &Rc<Reactor>, watches: &Watches) -> io::Result<Rc<Self>> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let registered = reactor.register(&eventfd)?;
        let list = Arc::new(List { eventfd, woken: Mutex::default() });
        let wakes = Rc::new(Self { list, watches: watches.clone(), registered });
        let told: Weak<Self> = Rc::downgrade(&wakes);
        wakes.registered.source.tell(told);
        Ok(wakes)
    }

    /// The waker of a connection, for as long as it lives.
    pub(super) fn waker(&self, id: u64) -> Waker {
        Waker::from(Arc::new(RemoteWaker {
            id,
            listed: AtomicBool::new(false),
            list: self.list.clone(),
        }))
    }
}

impl Readable for RemoteWakes {
    fn readable(self: Rc<Self>) -> bool {
        self.registered.source.none_left(READ);
        // Before the list is taken: who adds to an empty list from here on writes again.
        let _ = rustix::io::read(&self.list.eventfd, &mut [0; 8]);
        let woken = std::mem::take(&mut *self.list.woken.lock());
        for waker in woken {
            // A swap: a wake that still finds the flag set happens before it, so that the
            // connection sees what it was woken for. (A store may become visible after the
            // connection has looked.)
            waker.listed.swap(false, Ordering::AcqRel);
            let watch = self.watches.borrow().get(&waker.id).cloned();
            if let Some(watch) = watch {
                watch.wake();
            }
        }
        true
    }
}
