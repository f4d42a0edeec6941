//! A client's connection: reading, sending, and the deadline that ends it.
//!
//! Deadlines cost nothing per request: each connection notes when its patience ends ([`Watch`]),
//! and one sweep per worker and quarter second wakes those whose time has come. No timer is
//! registered and none is cancelled.

use std::{
    cell::{Cell, OnceCell, RefCell},
    future::poll_fn,
    io::{self, IoSlice},
    rc::{Rc, Weak},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use super::{
    conns::{BUFFER, Group},
    out::Out,
    remote_wake::RemoteWakes,
    slot::Resting,
    stream::Stream,
};
use crate::{
    clock::{Clock, Ms},
    room::{Holder, Holding, Room},
};

/// How a wait on a connection ended when it did not end well.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The client closed, in order or not.
    Closed,
    /// Its deadline passed.
    TimedOut,
    /// The server is stopping and the connection was idle.
    Drained,
}

impl From<io::Error> for Ended {
    fn from(_: io::Error) -> Self {
        Ended::Closed
    }
}

/// Deadline and state of a connection, for the worker's sweep.
#[derive(Default)]
pub(crate) struct Watch {
    /// 0: none.
    deadline: Cell<Ms>,
    /// Bits of [`state`].
    state: Cell<u8>,
    waker: Cell<Option<Waker>>,
    /// Memory of received bytes that are not used up, once they are more than a buffer.
    holding: OnceCell<Box<RefCell<Holding>>>,
    /// Its number, and the wakers of its worker.
    id: u64,
    pub(super) group: Group,
    wakes: Weak<RemoteWakes>,
    /// Where the connection rests while no task has it.
    slot: Cell<Option<Rc<dyn Resting>>>,
}

/// State of a connection, for its watch.
mod state {
    /// Between requests.
    pub(super) const IDLE: u8 = 1;
    /// The deadline is the one of a request head.
    pub(super) const HEAD: u8 = 2;
    /// The deadline has passed.
    pub(super) const EXPIRED: u8 = 4;
    /// The server is stopping.
    pub(super) const DRAIN: u8 = 8;
    /// It has to leave: see [`crate::room`].
    pub(super) const LEAVES: u8 = 16;
}

impl Watch {
    #[inline]
    fn has(&self, bit: u8) -> bool {
        self.state.get() & bit != 0
    }

    #[inline]
    fn set(&self, bit: u8, on: bool) {
        let state = self.state.get();
        self.state.set(if on { state | bit } else { state & !bit });
    }

    /// Of the connection with this number.
    pub(super) fn new(id: u64, group: Group, wakes: &Rc<RemoteWakes>) -> Rc<Self> {
        Rc::new(Self { id, group, wakes: Rc::downgrade(wakes), ..Self::default() })
    }

    /// Its number among the connections of its worker.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// The connection rests in this slot whenever no task has it.
    pub(super) fn settle(&self, slot: Rc<dyn Resting>) {
        self.slot.set(Some(slot));
    }

    /// The slot is given up, and what rests in it closed.
    pub(super) fn unsettle(&self) {
        drop(self.slot.take());
    }

    /// The connection may wait until `deadline` (0: for ever).
    pub(crate) fn until(&self, deadline: Ms) {
        self.deadline.set(deadline);
    }

    /// Between requests a connection is idle: it may be closed at any time.
    pub(crate) fn wait_idle(&self, deadline: Ms) {
        self.set(state::IDLE, true);
        self.set(state::HEAD, false);
        self.until(deadline);
    }

    /// The first bytes of a request are there: the rest of its head has until `deadline`. Where
    /// that wait has begun already, more bytes do not buy more time.
    pub(crate) fn wait_head(&self, deadline: Ms) {
        if !self.has(state::HEAD) {
            self.set(state::HEAD, true);
            self.set(state::IDLE, false);
            self.until(deadline);
        }
    }

    /// A request is under way: no deadline but those its steps set.
    pub(crate) fn busy(&self) {
        self.set(state::IDLE, false);
        self.set(state::HEAD, false);
        self.until(0);
    }

    /// A deadline that passed is forgotten: there is something left to say.
    pub(crate) fn forgive(&self) {
        self.set(state::EXPIRED, false);
        self.busy();
    }

    /// Its deadline has passed.
    pub(super) fn is_due(&self, now: Ms) -> bool {
        let deadline = self.deadline.get();
        deadline != 0 && now >= deadline
    }

    /// So many bytes are received and not used up: those beyond [`BUFFER`] are counted. False:
    /// there is no room for them.
    pub(crate) fn receives(&self, room: &Arc<Room>, bytes: usize) -> bool {
        let more = bytes.saturating_sub(BUFFER) as u64;
        if more == 0 && self.holding.get().is_none() {
            return true;
        }
        self.holding(room).borrow_mut().resize(more)
    }

    /// Where what it holds is counted, for further purposes.
    pub(crate) fn holder(&self, room: &Arc<Room>) -> Arc<Holder> {
        self.holding(room).borrow().holder().clone()
    }

    /// Notes progress: see [`Holder::moves`].
    pub(crate) fn moves(&self, now: Ms) {
        if let Some(holding) = self.holding.get() {
            holding.borrow().holder().moves(now);
        }
    }

    fn holding(&self, room: &Arc<Room>) -> &RefCell<Holding> {
        self.holding.get_or_init(|| {
            let holding = Holding::new(room);
            if let Some(wakes) = self.wakes.upgrade() {
                holding.holder().register(&wakes.waker(self.id));
            }
            Box::new(RefCell::new(holding))
        })
    }

    /// Called by the sweep.
    pub(crate) fn sweep(&self, now: Ms) {
        if self.is_due(now) {
            self.set(state::EXPIRED, true);
            self.wake();
        }
    }

    /// The server is stopping: idle connections end now, others after their answer.
    pub(crate) fn start_drain(&self) {
        self.set(state::DRAIN, true);
        self.wake();
    }

    /// Has its task look, or its slot.
    pub(crate) fn wake(&self) {
        if self.holding.get().is_some_and(|holding| holding.borrow().holder().is_killed()) {
            self.set(state::LEAVES, true);
        }
        if let Some(waker) = self.waker.take() {
            return waker.wake();
        }
        let slot = self.slot.take();
        self.slot.set(slot.clone());
        if let Some(slot) = slot {
            slot.look();
        }
    }

    /// The reason why the connection has to end, if there is one.
    pub(crate) fn check(&self) -> Result<(), Ended> {
        if self.has(state::LEAVES) {
            return Err(Ended::Closed);
        }
        if self.has(state::EXPIRED) {
            return Err(Ended::TimedOut);
        }
        if self.has(state::DRAIN) && self.has(state::IDLE) {
            return Err(Ended::Drained);
        }
        Ok(())
    }

    /// The task is woken when there is something to be said.
    pub(crate) fn wait<T>(&self, cx: &mut Context<'_>) -> Poll<Result<T, Ended>> {
        let held = self.waker.take().filter(|waker| waker.will_wake(cx.waker()));
        self.waker.set(Some(held.unwrap_or_else(|| cx.waker().clone())));
        Poll::Pending
    }

    /// Polls `io` unless the deadline has passed.
    pub(crate) fn guard<T>(
        &self,
        cx: &mut Context<'_>,
        io: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<Result<T, Ended>> {
        if let Err(ended) = self.check() {
            return Poll::Ready(Err(ended));
        }
        match io(cx) {
            Poll::Ready(result) => Poll::Ready(result.map_err(Ended::from)),
            Poll::Pending => self.wait(cx),
        }
    }
}

/// Bytes a client has to take, or to send of a command of an object face, within its patience to be
/// given more of it: a byte a minute is no progress.
pub(crate) const PROGRESS: u64 = 16 * 1024;

/// Milliseconds without progress after which a client counts as stalled: what it holds of the store
/// is counted then.
pub(crate) const STALLED_AFTER: Ms = 2000;

/// Bytes left when the present deadline was set, and that deadline. None: nothing was waited for
/// yet.
pub(crate) type Mark = Option<(u64, Ms)>;

/// How long a client may take over what it is sent.
pub(crate) struct Pace<'p> {
    clock: Clock,
    /// Milliseconds for [`PROGRESS`] bytes, or for all that is left.
    patience: Ms,
    /// Taken along by who goes on later ([`Pace::resume`]).
    pub(crate) mark: Mark,
    stalled: &'p Stalled,
}

impl<'p> Pace<'p> {
    pub(crate) fn new(clock: Clock, patience: Ms, stalled: &'p Stalled) -> Self {
        Self::resume(clock, patience, stalled, None)
    }

    /// Goes on with a wait that was left.
    pub(crate) fn resume(clock: Clock, patience: Ms, stalled: &'p Stalled, mark: Mark) -> Self {
        Self { clock, patience, mark, stalled }
    }

    fn deadline(&mut self, unsent: u64) -> Ms {
        if let Some((then, deadline)) = self.mark
            && then.saturating_sub(unsent) < PROGRESS
        {
            return deadline;
        }
        let deadline = self.clock.now() + self.patience;
        self.mark = Some((unsent, deadline));
        deadline
    }
}

/// Bytes of the store held by clients that do not read, over all workers. Held bytes cannot be
/// evicted; at the limit (half of the memory) the next client that stalls is dropped, so that there
/// is always room for new pages.
pub(crate) struct Stalled {
    held: AtomicU64,
    limit: u64,
}

impl Stalled {
    pub(crate) fn new(limit: u64) -> Self {
        Self { held: AtomicU64::new(0), limit }
    }

    /// Counts bytes as held, until they are given back. False: they are too many, and not counted.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        self.hold(bytes).map(std::mem::forget).is_some()
    }

    /// Bytes that [`Stalled::take`] counted are not held any more.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn hold(&self, bytes: u64) -> Option<Hold<'_>> {
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        let hold = Hold(self, bytes);
        (bytes == 0 || before + bytes <= self.limit).then_some(hold)
    }
}

struct Hold<'s>(&'s Stalled, u64);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.held.fetch_sub(self.1, Ordering::Relaxed);
    }
}

/// A connection with its deadline.
pub(crate) struct Socket {
    pub(crate) stream: Stream,
    pub(crate) watch: Rc<Watch>,
}

/// The most a connection's receive buffer grows by in one step.
const READ_STEP: usize = 8192;

impl Socket {
    /// Forgets the tasks that waited for it.
    pub(crate) fn forget_wakers(&self) {
        self.stream.forget_wakers();
        drop(self.watch.waker.take());
    }

    /// Appends what can be read to `buf`; 0 is the end.
    pub(crate) async fn read(&self, buf: &mut Vec<u8>) -> Result<usize, Ended> {
        poll_fn(|cx| self.watch.guard(cx, |cx| poll_read_vec(&self.stream, cx, buf))).await
    }

    /// Ends when the client has closed its side while nothing more was expected of it. A client
    /// that closes only its sending side and goes on reading cannot be told from one that left, and
    /// is taken for one (as nginx does).
    pub(crate) async fn gone(&self) {
        let mut more = false;
        let gone = |cx: &mut Context<'_>| {
            if self.watch.has(state::LEAVES) {
                return Poll::Ready(());
            }
            if !more {
                match self.stream.poll_peek(cx) {
                    Poll::Ready(Ok(false) | Err(_)) => return Poll::Ready(()),
                    // The next request is there already: nothing can be learnt behind it.
                    Poll::Ready(Ok(true)) => more = true,
                    Poll::Pending => {}
                }
            }
            let _ = self.watch.wait::<()>(cx);
            Poll::Pending
        };
        poll_fn(gone).await;
    }

    /// The same while something else sends on this connection.
    pub(crate) async fn read_shared(&self, buf: &mut Vec<u8>) -> Result<usize, Ended> {
        buf.reserve(READ_STEP);
        poll_fn(|cx| self.watch.guard(cx, |cx| self.stream.poll_read_buf(cx, buf))).await
    }

    /// Sends all of `out`. Returns how many bytes that were.
    pub(crate) async fn flush(&self, out: &mut Out, pace: &mut Pace<'_>) -> Result<u64, Ended> {
        let total = out.pending();
        while let Err(error) = out.send(&mut &self.stream) {
            self.ready_after(error, out.pending(), &|| out.pinned(), pace, false).await?;
        }
        Ok(total)
    }

    /// Sends what TLS itself has to say, such as the rest of a handshake's flight, until
    /// `deadline`.
    pub(crate) async fn flush_tls(&self, deadline: Ms) -> Result<(), Ended> {
        while let Err(error) = self.stream.try_flush_tls() {
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(error.into());
            }
            self.ready(deadline, false).await?;
        }
        Ok(())
    }

    /// Sends all of `out` (composed bytes only) and `more` behind it. `pinned`: bytes of the store
    /// held meanwhile, asked for when the client has stalled (a fill that is followed grows).
    pub(crate) async fn send_with(
        &self,
        out: &mut Out,
        more: &[IoSlice<'_>],
        pinned: &dyn Fn() -> u64,
        pace: &mut Pace<'_>,
    ) -> Result<u64, Ended> {
        let scratch = std::mem::take(out.scratch());
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(1 + more.len());
        slices.push(IoSlice::new(&scratch));
        slices.extend_from_slice(more);
        let total = slices.iter().map(|slice| slice.len() as u64).sum();
        let mut left = &mut slices[..];
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match self.stream.try_send(left) {
                Ok(sent) => IoSlice::advance_slices(&mut left, sent),
                Err(error) => {
                    let unsent = left.iter().map(|slice| slice.len() as u64).sum();
                    self.ready_after(error, unsent, pinned, pace, false).await?;
                }
            }
        }
        *out.scratch() = scratch;
        out.clear();
        Ok(total)
    }

    /// Waits until more can be sent (or, where `reads`, something be received), if that is what
    /// `error` says. `unsent`: any number that falls by what the client takes.
    pub(crate) async fn ready_after(
        &self,
        error: io::Error,
        unsent: u64,
        pinned: &dyn Fn() -> u64,
        pace: &mut Pace<'_>,
        reads: bool,
    ) -> Result<(), Ended> {
        match error.kind() {
            io::ErrorKind::Interrupted => Ok(()),
            io::ErrorKind::WouldBlock => {
                let deadline = pace.deadline(unsent);
                let soon = pace.clock.now() + STALLED_AFTER;
                if deadline <= soon {
                    return self.ready(deadline, reads).await;
                }
                match self.ready(soon, reads).await {
                    Err(Ended::TimedOut) => self.watch.forgive(),
                    other => return other,
                }
                let _held = pace.stalled.hold(pinned()).ok_or(Ended::TimedOut)?;
                self.ready(deadline, reads).await
            }
            _ => Err(error.into()),
        }
    }

    async fn ready(&self, deadline: Ms, reads: bool) -> Result<(), Ended> {
        self.watch.until(deadline);
        let poll = |cx: &mut Context<'_>| match self.stream.poll_write_ready(cx) {
            Poll::Pending if reads => self.stream.poll_read_ready(cx),
            polled => polled,
        };
        let mut waited = false;
        let ready = poll_fn(|cx| {
            let polled = self.watch.guard(cx, |cx| poll(cx).map(Ok));
            waited |= polled.is_pending();
            polled
        });
        let ready = ready.await;
        self.watch.until(0);
        if !waited {
            // The socket takes more: the client's turn is over.
            tokio::task::yield_now().await;
        }
        ready
    }

    /// The end of the connection is not to be taken for the end of the body: it is reset.
    pub(crate) fn reset(&self) {
        self.stream.reset_on_close();
    }

    /// Ends the sending side, so that the peer reads what was sent before the end.
    pub(crate) fn finish(&self) {
        let _ = self.stream.finish();
    }
}

/// Reads once, with room for a step at least.
pub(crate) fn poll_read_vec(
    stream: &Stream,
    cx: &mut Context<'_>,
    buf: &mut Vec<u8>,
) -> Poll<io::Result<usize>> {
    if buf.capacity() == buf.len() {
        buf.reserve(READ_STEP);
    }
    stream.poll_read_buf(cx, buf)
}
