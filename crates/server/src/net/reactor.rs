//! Readiness of a worker's sockets: an epoll instance of its own, edge-triggered, that the runtime
//! watches as one descriptor.
//!
//! The runtime's own registrations cost each request several atomic operations, a lock and two
//! visits to its scheduler. Here readiness is noted in plain cells that only this thread reads. A
//! waiting task is woken; a connection that is registered as [`Readable`] is called instead, which
//! needs no task. Connections that have received something are then answered in a [`Round`].
//! (Measured: docs/notebook/rounds.md.)

use std::{
    cell::{Cell, OnceCell, RefCell},
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

use super::{
    round::{MOST, Round, TIME, Work},
    turns::Turns,
};
use crate::clock::Clock;

/// Something can be received, or the end has come.
pub(crate) const READ: u8 = 1;
/// Something can be sent.
pub(crate) const WRITE: u8 = 2;
/// The peer has closed, or the connection is broken: reading finds that out, however often.
const ENDED: u8 = 4;

/// Timeout of a poll that does not wait.
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A worker's epoll instance.
pub(crate) struct Reactor {
    epoll: AsyncFd<OwnedFd>,
    sources: RefCell<Sources>,
    pub(super) clock: Clock,
    /// Time of the last poll, in microseconds.
    polled_at: Cell<u64>,
    /// The same of the first poll of the present turn; 0: it is still to come.
    began: Cell<u64>,
    /// Connections that have received something and wait to be answered.
    pub(super) round: Round,
    /// The round is answered before anything else is done.
    pub(super) in_round: Cell<bool>,
    /// Tasks that send much.
    pub(crate) turns: Turns,
}

/// The watched sockets by index, which is the number the system reports them by.
#[derive(Default)]
struct Sources {
    all: Vec<Option<Rc<Source>>>,
    free: Vec<usize>,
}

/// A connection that is called when bytes have come.
pub(crate) trait Readable {
    /// Receives. False: a task has the connection, and is to be woken.
    fn readable(self: Rc<Self>) -> bool;
}

/// A socket's readiness.
#[derive(Default)]
pub(crate) struct Source {
    /// Known readiness: [`READ`], [`WRITE`], [`ENDED`].
    ready: Cell<u8>,
    reader: Cell<Option<Waker>>,
    writer: Cell<Option<Waker>>,
    by: OnceCell<Weak<dyn Readable>>,
}

/// Result of a poll of the sockets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Polled {
    Nothing,
    /// All events are for the round.
    Received,
    /// A task is to go on.
    Woken,
    /// There may be more.
    Full,
}

/// Decides whether to poll again before the runtime does: where many connections are busy, bytes
/// have come while a round was answered.
#[derive(Default)]
struct PollBackoff {
    again: bool,
    /// Polls to skip.
    skip: u32,
}

impl PollBackoff {
    /// Polls skipped after one in vain.
    const SKIPPED: u32 = 15;

    fn note(&mut self, polled: Polled) {
        if std::mem::take(&mut self.again) && polled == Polled::Nothing {
            self.skip = Self::SKIPPED;
        }
    }

    fn allows(&mut self, events: usize) -> bool {
        self.again = events > 1 && self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        self.again
    }
}

/// Registration of a socket at a reactor; ends when dropped. Close the socket with it: then the
/// system forgets it.
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
        let (sources, polled_at, began, round, in_round) = Default::default();
        let turns = Turns::new(clock);
        Ok(Rc::new(Self { epoll, sources, clock, polled_at, began, round, in_round, turns }))
    }

    /// Time of the last poll, in microseconds: the time of arrival of all bytes that it reported.
    pub(crate) fn polled_at(&self) -> u64 {
        self.polled_at.get()
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

    /// Stops watching a socket that stays open elsewhere, in another process or under another
    /// number: closing it does not do that then.
    pub(crate) fn forget(&self, socket: impl AsFd) {
        let _ = epoll::delete(self.epoll.get_ref(), socket);
    }

    /// Wakes waiting tasks and answers received bytes, until the task is ended. After an error no
    /// socket of the worker is watched.
    pub(crate) async fn run(&self) -> io::Result<()> {
        let (mut events, mut backoff) = (Vec::with_capacity(MOST), PollBackoff::default());
        loop {
            // Events from here on make it ready again.
            self.epoll.readable().await?.clear_ready();
            let mut done = Work::default();
            self.began.set(0);
            loop {
                self.in_round.set(true);
                let polled = self.poll_sockets(&mut events, &mut done)?;
                done.commands += 1;
                backoff.note(polled);
                let all_answered = self.round.answer(&mut done, || self.is_late());
                self.in_round.set(false);
                if !all_answered {
                    // Others join what is left of the round: clients that always have sent more
                    // would keep it going for ever.
                    yield_now().await;
                    done = Work::default();
                    self.began.set(0);
                    continue;
                }
                match polled {
                    Polled::Full => yield_now().await,
                    Polled::Received if !done.task && backoff.allows(events.len()) => {}
                    _ => break,
                }
            }
        }
    }

    /// Is the time of the turn over?
    fn is_late(&self) -> bool {
        self.clock.micros().saturating_sub(self.began.get()) >= TIME
    }

    /// Polls once, without waiting. Full groups of the round are answered on the way, and added to
    /// `done`.
    fn poll_sockets(&self, events: &mut Vec<Event>, done: &mut Work) -> io::Result<Polled> {
        events.clear();
        match epoll::wait(self.epoll.get_ref(), spare_capacity(events), Some(&AT_ONCE)) {
            Err(Errno::INTR) => return Ok(Polled::Full),
            done => done?,
        };
        self.polled_at.set(self.clock.micros());
        self.turns.looked(self.polled_at.get());
        if self.began.get() == 0 {
            self.began.set(self.polled_at.get());
        }
        let mut woke = false;
        for event in events.iter() {
            let source =
                self.sources.borrow().all.get(event.data.u64() as usize).cloned().flatten();
            // A closed socket may be reported once more: the new owner of its index reads in vain.
            if let Some(source) = source {
                woke |= source.happened(event.flags);
            }
            if self.round.is_full() {
                // When the turn is over, later connections are received from and wait.
                self.round.answer(done, || self.is_late());
            }
        }
        Ok(match events.len() {
            0 => Polled::Nothing,
            full if full == events.capacity() => Polled::Full,
            _ if woke => Polled::Woken,
            _ => Polled::Received,
        })
    }
}

impl Source {
    /// Notes what the system reports. True: a task is to go on.
    fn happened(&self, flags: EventFlags) -> bool {
        let ended = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        let read = ended || flags.contains(EventFlags::IN);
        let write = flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR);
        let bit = |is, bit| if is { bit } else { 0 };
        self.ready.set(self.ready.get() | bit(read, READ) | bit(write, WRITE) | bit(ended, ENDED));
        let mut woke = false;
        if read {
            let by = self.by.get().and_then(Weak::upgrade);
            woke = !by.is_some_and(Readable::readable) && wake(&self.reader);
        }
        (write && wake(&self.writer)) || woke
    }

    /// Drops the wakers of waiting tasks.
    pub(crate) fn forget_wakers(&self) {
        drop((self.reader.take(), self.writer.take()));
    }

    /// Calls this one first when bytes have come.
    pub(crate) fn tell(&self, by: Weak<dyn Readable>) {
        let _ = self.by.set(by);
    }

    /// Whether this ([`READ`] or [`WRITE`]) is worth a try.
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
        let waits = if what == READ { &self.reader } else { &self.writer };
        let waker = match waits.take() {
            Some(mut waker) => {
                waker.clone_from(cx.waker());
                waker
            }
            None => cx.waker().clone(),
        };
        waits.set(Some(waker));
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
fn wake(waits: &Cell<Option<Waker>>) -> bool {
    waits.take().map(Waker::wake).is_some()
}

impl Registered {
    /// The turns of the worker's tasks.
    pub(crate) fn turns(&self) -> &Turns {
        &self.reactor.turns
    }

    /// See [`Reactor::forget`].
    pub(crate) fn forget(&self, socket: impl AsFd) {
        self.reactor.forget(socket);
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut sources = self.reactor.sources.borrow_mut();
        sources.all[self.at] = None;
        sources.free.push(self.at);
    }
}
