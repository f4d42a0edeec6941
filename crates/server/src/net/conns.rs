//! The open connections of one worker: their deadlines, the buffers they share, and their end.

use std::{
    cell::{Cell, RefCell},
    io,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Waker,
    time::Duration,
};

use super::{
    out::Out,
    passing::Passing,
    reactor::Reactor,
    remote_wake::{RemoteWakes, Watches},
    socket::{Stalled, Watch},
};
use crate::clock::Clock;

/// How often deadlines are looked at and logs handed over: the precision of every client timeout.
const SWEEP: Duration = Duration::from_millis(250);
/// How often a worker that is to stop looks whether the last client is served.
pub(crate) const DRAIN_LOOK: Duration = Duration::from_millis(20);
/// Size of a new receive buffer, in bytes: most batches fit, and 64 buffers fit in the second-level
/// cache.
pub(crate) const BUFFER: usize = 16 * 1024;
/// The largest receive buffer worth keeping for reuse.
const LARGEST_KEPT: usize = 64 * 1024;
/// Buffers kept for reuse per worker: so many connections have a batch under way at the same time.
const KEPT: usize = 64;
/// Maximum of buffers among them that have grown beyond [`BUFFER`]: they are in no client's
/// account.
const GROWN_KEPT: usize = 16;

/// The connections that end together: those of pages end first, because a request under way may
/// need objects that its origin keeps in the same program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Group {
    /// HTTP.
    #[default]
    Pages,
    /// memcached and Redis.
    Objects,
}

/// The shared state of all workers' connections.
pub(crate) struct WorkerShared {
    pub(crate) clock: Clock,
    /// Bytes of the store that stalled clients hold.
    pub(crate) stalled: Stalled,
    /// Connections open now, over all workers, by group.
    open: [AtomicUsize; 2],
}

impl WorkerShared {
    /// `memory`: bytes of the store.
    pub(crate) fn new(clock: Clock, memory: u64) -> Arc<Self> {
        Arc::new(Self { clock, stalled: Stalled::new(memory / 2), open: Default::default() })
    }

    /// Connections of a group that are open now.
    pub(crate) fn open(&self, group: Group) -> usize {
        self.open[group as usize].load(Ordering::Relaxed)
    }
}

/// Buffers of a connection while a batch is under way. An idle connection has none.
#[derive(Default)]
pub(crate) struct IoBuffers {
    /// Received bytes; those before `at` are used up.
    pub(crate) buf: Vec<u8>,
    pub(crate) at: usize,
    pub(crate) out: Out,
}

impl IoBuffers {
    /// Resident memory that they may take, in bytes: half as much again as their capacity, because
    /// the allocator keeps the memory of smaller buffers that have grown. (Measured with a thousand
    /// clients: 26 MiB beside 39 MiB of capacity.)
    pub(crate) fn memory(&self) -> u64 {
        let capacity = self.buf.capacity() as u64 + self.out.capacity();
        capacity + capacity / 2
    }

    /// Returns whether they have grown beyond [`BUFFER`].
    fn have_grown(&mut self) -> bool {
        self.buf.capacity() > BUFFER || self.out.scratch().capacity() > BUFFER
    }
}

/// One worker's connections.
pub(crate) struct Conns {
    pub(crate) shared: Arc<WorkerShared>,
    pub(crate) clock: Clock,
    draining: [Cell<bool>; 2],
    /// Tells their sockets' readiness.
    pub(crate) reactor: Rc<Reactor>,
    watches: Watches,
    wakes: Rc<RemoteWakes>,
    next_watch: Cell<u64>,
    /// Where connections at rest go when another process takes over.
    pub(crate) passing: Passing,
    /// Called by every sweep.
    at_sweep: RefCell<Vec<Box<dyn Fn()>>>,
    #[allow(clippy::vec_box)]
    // buffers move for every batch: as one pointer, not as 200 bytes
    kept_buffers: RefCell<Vec<Box<IoBuffers>>>,
    /// Number of grown ones among the kept buffers.
    grown_kept: Cell<usize>,
}

impl Conns {
    /// On the runtime that runs [`Conns::reactor`].
    pub(crate) fn new(shared: Arc<WorkerShared>) -> io::Result<Rc<Self>> {
        let (reactor, watches) = (Reactor::new(shared.clock)?, Watches::default());
        Ok(Rc::new(Self {
            clock: shared.clock,
            wakes: RemoteWakes::new(&reactor, &watches)?,
            reactor,
            shared,
            draining: Default::default(),
            watches,
            next_watch: Cell::new(0),
            passing: Passing::default(),
            at_sweep: RefCell::default(),
            kept_buffers: RefCell::default(),
            grown_kept: Cell::default(),
        }))
    }

    /// Empty buffers with room for a read.
    pub(crate) fn take_buffers(&self) -> Box<IoBuffers> {
        let Some(mut buffers) = self.kept_buffers.borrow_mut().pop() else {
            let buf = Vec::with_capacity(BUFFER);
            return Box::new(IoBuffers { buf, at: 0, out: Out::default() });
        };
        if buffers.have_grown() {
            self.grown_kept.set(self.grown_kept.get() - 1);
        }
        buffers
    }

    /// Takes buffers back; bytes that are left in them are dropped.
    pub(crate) fn give_buffers(&self, mut buffers: Box<IoBuffers>) {
        let mut kept = self.kept_buffers.borrow_mut();
        if kept.len() < KEPT && buffers.buf.capacity() <= LARGEST_KEPT {
            buffers.buf.clear();
            buffers.at = 0;
            buffers.out.clear();
            if buffers.have_grown() {
                let grown = self.grown_kept.get();
                if grown == GROWN_KEPT {
                    return;
                }
                self.grown_kept.set(grown + 1);
            }
            kept.push(buffers);
        }
    }

    #[cfg(test)]
    pub(crate) fn free_buffers(&self) -> usize {
        self.kept_buffers.borrow().len()
    }

    /// A place among the open connections, with what the sweep sees of it.
    pub(crate) fn track(self: &Rc<Self>, group: Group) -> TrackedConnection {
        let id = self.next_watch.get();
        let watch = Watch::new(id, group, &self.wakes);
        self.next_watch.set(id + 1);
        if self.draining(group) {
            watch.start_drain();
        }
        self.watches.borrow_mut().insert(id, watch.clone());
        self.shared.open[group as usize].fetch_add(1, Ordering::Relaxed);
        TrackedConnection { conns: self.clone(), watch }
    }

    /// Has every sweep call `f` before it looks at the deadlines. For as long as the worker runs.
    pub(crate) fn at_sweep(&self, f: impl Fn() + 'static) {
        self.at_sweep.borrow_mut().push(Box::new(f));
    }

    /// Wakes connections whose time has come, until the task is ended.
    pub(crate) async fn sweep(&self) {
        let mut timer = tokio::time::interval(SWEEP);
        loop {
            timer.tick().await;
            self.at_sweep.borrow().iter().for_each(|f| f());
            let now = self.clock.now();
            // A connection may end when its deadline passes, and leave the list.
            let due = |watch: &&Rc<Watch>| watch.is_due(now);
            let due: Vec<_> = self.watches.borrow().values().filter(due).cloned().collect();
            due.iter().for_each(|watch| watch.sweep(now));
        }
    }

    /// Whether the connections of a group end when they are idle.
    #[inline]
    pub(crate) fn draining(&self, group: Group) -> bool {
        self.draining[group as usize].get()
    }

    /// Connections of a group end when they are idle, from now on.
    pub(crate) fn start_drain(&self, group: Group) {
        self.draining[group as usize].set(true);
        self.of_all(|watch| {
            if watch.group == group {
                watch.start_drain();
            }
        });
    }

    /// New connections of a group do not end when they are idle, from now on. Those that are open
    /// do.
    pub(crate) fn stop_drain(&self, group: Group) {
        self.draining[group as usize].set(false);
    }

    /// Closes the connections that no task has.
    pub(crate) fn close_resting(&self) {
        self.of_all(Watch::unsettle);
    }

    /// Has every connection look at the settings again: its task, or its slot.
    pub(crate) fn wake_all(&self) {
        self.of_all(Watch::wake);
    }

    fn of_all(&self, f: impl Fn(&Watch)) {
        // A connection may end meanwhile, and leave the list.
        let all: Vec<_> = self.watches.borrow().values().cloned().collect();
        all.iter().for_each(|watch| f(watch));
    }

    /// Returns when no connection is open. A worker without connections of its own may still fetch
    /// what another's clients follow: all workers' are counted.
    pub(crate) async fn drained(&self) {
        while self.shared.open(Group::Pages) + self.shared.open(Group::Objects) > 0 {
            tokio::time::sleep(DRAIN_LOOK).await;
        }
    }
}

/// An open connection's place; given back when dropped.
pub(crate) struct TrackedConnection {
    pub(crate) conns: Rc<Conns>,
    pub(crate) watch: Rc<Watch>,
}

impl TrackedConnection {
    /// Wakes the connection from any thread: its task, or its slot.
    pub(crate) fn waker(&self) -> Waker {
        self.conns.wakes.waker(self.watch.id())
    }
}

impl Drop for TrackedConnection {
    fn drop(&mut self) {
        self.conns.watches.borrow_mut().remove(&self.watch.id());
        self.conns.shared.open[self.watch.group as usize].fetch_sub(1, Ordering::Relaxed);
    }
}
