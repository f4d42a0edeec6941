//! Readiness of a worker's sockets: an epoll instance of its own, edge-triggered, that the runtime watches as one descriptor.
//!
//! The runtime's own registrations cost each request several atomic operations, a lock and two visits to its scheduler. Here what
//! happened is noted in plain cells, as nobody but this thread looks at them; a task that waits is woken, and who is registered
//! as [`Readable`] is called instead, at no task's cost. Those that received something then are answered in a
//! [`Round`]. (Measured: docs/performance.md, "Rounds".)

use std::{
    cell::{Cell, RefCell},
    io,
    os::fd::{AsFd, OwnedFd},
    rc::{Rc, Weak},
    task::{Context, Poll, Waker},
};

use rustix::{
    buffer::spare_capacity,
    event::{
        Timespec,
        epoll::{self, CreateFlags, Event, EventData, EventFlags},
    },
    io::Errno,
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    task::yield_now,
};

use super::round::{MOST, Round};

/// Something can be received, or the end has come.
pub(crate) const READ: u8 = 1;
/// Something can be sent.
pub(crate) const WRITE: u8 = 2;
/// The peer has closed, or the connection is broken: reading finds that out, however often.
const ENDED: u8 = 4;

/// Does not wait.
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A worker's epoll instance.
pub(crate) struct Reactor {
    epoll: AsyncFd<OwnedFd>,
    sources: RefCell<Sources>,
    /// Those that have received something and wait to be answered.
    pub(crate) round: Round,
}

/// By their place, which is what the system knows of them.
#[derive(Default)]
struct Sources {
    all: Vec<Option<Rc<Source>>>,
    free: Vec<usize>,
}

/// Somebody who looks himself when something has come.
pub(crate) trait Readable {
    /// False: it is for the task that waits.
    fn readable(self: Rc<Self>) -> bool;
}

/// A socket's readiness.
#[derive(Default)]
pub(crate) struct Source {
    /// What is known: [`READ`], [`WRITE`], [`ENDED`].
    ready: Cell<u8>,
    reader: RefCell<Option<Waker>>,
    writer: RefCell<Option<Waker>>,
    by: RefCell<Option<Weak<dyn Readable>>>,
}

/// A place among a reactor's sources; given back when dropped. The socket is to be closed with it: then the system forgets it.
pub(crate) struct Registered {
    reactor: Rc<Reactor>,
    at: usize,
    pub(crate) source: Rc<Source>,
}

impl Reactor {
    /// On the runtime that runs it.
    pub(crate) fn new() -> io::Result<Rc<Self>> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        // Its replacement is `unsafe` for the sake of types whose descriptor changes; an `OwnedFd` has one, open for as long as it lives.
        #[expect(deprecated)]
        let epoll = AsyncFd::with_interest(epoll, Interest::READABLE)?;
        Ok(Rc::new(Self { epoll, sources: RefCell::default(), round: Round::default() }))
    }

    /// Watches a socket, which must not block.
    pub(crate) fn register(self: &Rc<Self>, socket: impl AsFd) -> io::Result<Registered> {
        let source = Rc::new(Source::default());
        source.ready.set(WRITE);
        let mut sources = self.sources.borrow_mut();
        let at = sources.free.pop().unwrap_or_else(|| {
            sources.all.push(None);
            sources.all.len() - 1
        });
        sources.all[at] = Some(source.clone());
        drop(sources);
        let registered = Registered { reactor: self.clone(), at, source };
        let events = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(self.epoll.get_ref(), socket, EventData::new_u64(at as u64), events)?;
        Ok(registered)
    }

    /// Tells those that wait what happened, and has answered what was received, until the task is ended. On an error no socket
    /// of the worker is heard of any more.
    pub(crate) async fn run(&self) -> io::Result<()> {
        let mut events = Vec::with_capacity(MOST);
        loop {
            let mut ready = self.epoll.readable().await?;
            self.look(&mut events)?;
            // What happens from here on makes it ready again.
            let all = events.len() < events.capacity();
            if all {
                ready.clear_ready();
            }
            drop(ready);
            while !self.round.answer() {
                yield_now().await;
            }
            if !all {
                yield_now().await;
            }
        }
    }

    fn look(&self, events: &mut Vec<Event>) -> io::Result<()> {
        events.clear();
        match epoll::wait(self.epoll.get_ref(), spare_capacity(events), Some(&AT_ONCE)) {
            Err(Errno::INTR) => return Ok(()),
            done => done?,
        };
        for event in events.iter() {
            let source = self.sources.borrow().all.get(event.data.u64() as usize).cloned().flatten();
            // One that is gone may be heard of once more, and who has its place now looks in vain.
            if let Some(source) = source {
                source.happened(event.flags);
            }
        }
        Ok(())
    }
}

impl Source {
    fn happened(&self, flags: EventFlags) {
        let ended = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        let read = ended || flags.contains(EventFlags::IN);
        let write = flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR);
        let bit = |is, bit| if is { bit } else { 0 };
        self.ready.set(self.ready.get() | bit(read, READ) | bit(write, WRITE) | bit(ended, ENDED));
        if read {
            let by = self.by.borrow().as_ref().and_then(Weak::upgrade);
            if !by.is_some_and(Readable::readable) {
                wake(&self.reader);
            }
        }
        if write {
            wake(&self.writer);
        }
    }

    /// What comes is first told this one.
    pub(crate) fn tell(&self, by: Weak<dyn Readable>) {
        *self.by.borrow_mut() = Some(by);
    }

    /// Whether this ([`READ`] or [`WRITE`]) is to be tried; else the task is woken when it is.
    #[inline]
    pub(crate) fn poll(&self, what: u8, cx: &Context<'_>) -> Poll<()> {
        if self.ready.get() & what != 0 {
            return Poll::Ready(());
        }
        let mut waits = if what == READ { self.reader.borrow_mut() } else { self.writer.borrow_mut() };
        match &mut *waits {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// It was tried, and there was no more.
    #[inline]
    pub(crate) fn none_left(&self, what: u8) {
        if what == WRITE || self.ready.get() & ENDED == 0 {
            self.ready.set(self.ready.get() & !what);
        }
    }
}

fn wake(waits: &RefCell<Option<Waker>>) {
    let waker = waits.borrow_mut().take();
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut sources = self.reactor.sources.borrow_mut();
        sources.all[self.at] = None;
        sources.free.push(self.at);
    }
}
