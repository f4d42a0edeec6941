//! Readiness of a worker's sockets: an epoll instance of its own, edge-triggered, that the runtime
//! watches as one descriptor.
//!
//! The runtime's own registrations cost each request several atomic operations, a lock and two
//! visits to its scheduler. Here what happened is noted in plain cells, as nobody but this thread
//! looks at them; a task that waits is woken, and who is registered as [`Readable`] is called
//! instead, at no task's cost. Those that received something then are answered in a [`Round`].
//! (Measured: docs/notebook/rounds.md.)

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

use super::round::{MOST, Round, Work};
use crate::clock::Clock;

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
    pub(super) clock: Clock,
    /// When it was last asked who is ready, microseconds.
    looked: Cell<u64>,
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
    /// Known readiness: [`READ`], [`WRITE`], [`ENDED`].
    ready: Cell<u8>,
    reader: RefCell<Option<Waker>>,
    writer: RefCell<Option<Waker>>,
    by: RefCell<Option<Weak<dyn Readable>>>,
}

/// Result of a poll of the sockets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    /// All that was seen is for the round.
    Received,
    /// A task is to go on.
    Woken,
    /// There may be more.
    Full,
}

/// Whether another look before the runtime's own is worth it: where many connections are busy
/// something has come while a round was answered, and the runtime need not be asked.
#[derive(Default)]
struct Luck {
    again: bool,
    /// Looks to leave out.
    out: u32,
}

impl Luck {
    /// After a look in vain.
    const OUT: u32 = 15;

    fn saw(&mut self, seen: Seen) {
        if std::mem::take(&mut self.again) && seen == Seen::Nothing {
            self.out = Self::OUT;
        }
    }

    fn tempts(&mut self, events: usize) -> bool {
        self.again = events > 1 && self.out == 0;
        self.out = self.out.saturating_sub(1);
        self.again
    }
}

/// A place among a reactor's sources; given back when dropped. The socket is to be closed with it:
/// then the system forgets it.
pub(crate) struct Registered {
    reactor: Rc<Reactor>,
    at: usize,
    pub(crate) source: Rc<Source>,
}

impl Reactor {
    /// On the runtime that runs it.
    pub(crate) fn new(clock: Clock) -> io::Result<Rc<Self>> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        // Its replacement is `unsafe` for the sake of types whose descriptor changes; an `OwnedFd`
        // has one, open for as long as it lives.
        #[expect(deprecated)]
        let epoll = AsyncFd::with_interest(epoll, Interest::READABLE)?;
        let (sources, looked, round) = Default::default();
        Ok(Rc::new(Self { epoll, sources, clock, looked, round }))
    }

    /// When what is received in this round was there, microseconds: one reading of the clock for
    /// all.
    pub(crate) fn looked(&self) -> u64 {
        self.looked.get()
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

    /// Tells those that wait what happened, and has answered what was received, until the task is
    /// ended. On an error no socket of the worker is heard of any more.
    pub(crate) async fn run(&self) -> io::Result<()> {
        let (mut events, mut luck) = (Vec::with_capacity(MOST), Luck::default());
        loop {
            // Events from here on make it ready again.
            self.epoll.readable().await?.clear_ready();
            let mut done = Work::default();
            loop {
                let seen = self.look(&mut events, &mut done)?;
                done.commands += 1;
                luck.saw(seen);
                while !self.round.answer(&mut done) {
                    yield_now().await;
                    done = Work::default();
                }
                match seen {
                    Seen::Full => yield_now().await,
                    Seen::Received if !done.task && luck.tempts(events.len()) => {}
                    _ => break,
                }
            }
        }
    }

    /// Answers all but the last that received something on the way, and adds that to what was
    /// `done`.
    fn look(&self, events: &mut Vec<Event>, done: &mut Work) -> io::Result<Seen> {
        events.clear();
        match epoll::wait(self.epoll.get_ref(), spare_capacity(events), Some(&AT_ONCE)) {
            Err(Errno::INTR) => return Ok(Seen::Full),
            done => done?,
        };
        self.looked.set(self.clock.micros());
        let mut woke = false;
        for event in events.iter() {
            let source = self.sources.borrow().all.get(event.data.u64() as usize).cloned().flatten();
            // One that is gone may be heard of once more, and who has its place now looks in vain.
            if let Some(source) = source {
                woke |= source.happened(event.flags);
            }
            if self.round.is_full() {
                // When others are to have their turn, the rest is received and waits.
                self.round.answer(done);
            }
        }
        Ok(match events.len() {
            0 => Seen::Nothing,
            full if full == events.capacity() => Seen::Full,
            _ if woke => Seen::Woken,
            _ => Seen::Received,
        })
    }
}

impl Source {
    /// True: a task is to go on.
    fn happened(&self, flags: EventFlags) -> bool {
        let ended = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        let read = ended || flags.contains(EventFlags::IN);
        let write = flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR);
        let bit = |is, bit| if is { bit } else { 0 };
        self.ready.set(self.ready.get() | bit(read, READ) | bit(write, WRITE) | bit(ended, ENDED));
        let mut woke = false;
        if read {
            let by = self.by.borrow().as_ref().and_then(Weak::upgrade);
            woke = !by.is_some_and(Readable::readable) && wake(&self.reader);
        }
        (write && wake(&self.writer)) || woke
    }

    /// Forgets the tasks that wait.
    pub(crate) fn forget_wakers(&self) {
        drop((self.reader.take(), self.writer.take()));
    }

    /// Tells this one first that bytes have come.
    pub(crate) fn tell(&self, by: Weak<dyn Readable>) {
        *self.by.borrow_mut() = Some(by);
    }

    /// Is this ([`READ`] or [`WRITE`]) to be tried?
    #[inline]
    pub(crate) fn is_ready(&self, what: u8) -> bool {
        self.ready.get() & what != 0
    }

    /// The same; if it is not, the task is woken when it is.
    #[inline]
    pub(crate) fn poll(&self, what: u8, cx: &Context<'_>) -> Poll<()> {
        if self.is_ready(what) {
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

/// True: there was a task that waits.
fn wake(waits: &RefCell<Option<Waker>>) -> bool {
    let waker = waits.borrow_mut().take();
    waker.map(Waker::wake).is_some()
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut sources = self.reactor.sources.borrow_mut();
        sources.all[self.at] = None;
        sources.free.push(self.at);
    }
}
