//! Deadline and state of a connection, for the sweep of its worker.

use std::{
    cell::{Cell, OnceCell, RefCell},
    io,
    rc::{Rc, Weak},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use super::{
    conns::{BUFFER, Group},
    remote_wake::RemoteWakes,
    slot::Resting,
    socket::Ended,
};
use crate::{
    clock::Ms,
    room::{Holder, Holding, Room},
};

/// Deadline and state of a connection, for the worker's sweep.
#[derive(Default)]
pub(crate) struct Watch {
    /// 0: none.
    deadline: Cell<Ms>,
    /// Bits of [`state`].
    state: Cell<u8>,
    /// Requests that wait for this server, and waits for the client among them.
    requests: Cell<u32>,
    owing: Cell<u32>,
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
    /// It has to send the rest of something, or to take answers.
    pub(super) const OWES: u8 = 32;
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
        // The allocator keeps the memory of smaller buffers that have grown: see
        // [`super::conns::IoBuffers::memory`].
        self.holding(room).borrow_mut().resize(more + more / 2)
    }

    /// Whether something of it was ever counted.
    #[inline]
    pub(crate) fn holds(&self) -> bool {
        self.holding.get().is_some()
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

    /// A request waits for this server, until the result is dropped.
    pub(crate) fn serves(&self) -> Counted<'_> {
        Counted::new(self, &self.requests)
    }

    /// The client has to send more of a request, or to take more of an answer, until the result is
    /// dropped.
    pub(crate) fn awaits_client(&self) -> Counted<'_> {
        Counted::new(self, &self.owing)
    }

    /// The same of the connection as a whole, until the next call.
    pub(crate) fn set_owes(&self, owes: bool) {
        if self.has(state::OWES) != owes {
            self.set(state::OWES, owes);
            self.tell_holder();
        }
    }

    /// A client that waits for this server and owes nothing does not stand still.
    fn tell_holder(&self) {
        if let Some(holding) = self.holding.get() {
            holding.borrow().holder().waits(self.waits_for_server());
        }
    }

    fn waits_for_server(&self) -> bool {
        self.requests.get() > 0 && self.owing.get() == 0 && !self.has(state::OWES)
    }

    fn holding(&self, room: &Arc<Room>) -> &RefCell<Holding> {
        self.holding.get_or_init(|| {
            let holding = Holding::new(room);
            holding.holder().waits(self.waits_for_server());
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

    /// Forgets the task that waits.
    pub(super) fn forget_waker(&self) {
        drop(self.waker.take());
    }

    /// It has to leave.
    pub(super) fn leaves(&self) -> bool {
        self.has(state::LEAVES)
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

/// A wait of a connection, counted until it is dropped.
pub(crate) struct Counted<'w> {
    watch: &'w Watch,
    count: &'w Cell<u32>,
}

impl<'w> Counted<'w> {
    fn new(watch: &'w Watch, count: &'w Cell<u32>) -> Self {
        count.set(count.get() + 1);
        watch.tell_holder();
        Self { watch, count }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.count.set(self.count.get() - 1);
        self.watch.tell_holder();
    }
}
