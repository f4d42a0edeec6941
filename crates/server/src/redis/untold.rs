//! Messages to other clients that a command leaves to be delivered: keyspace events and
//! invalidations.
//!
//! A command begins to deliver them while it runs. The part that takes longer than its step is left
//! here, and delivered in the steps after it ([`super::job`]), before its answer is sent: the
//! writer waits, not the worker. Messages about entries that the store removed by itself while
//! somebody wrote have no command to wait for them: each worker delivers its own beside its other
//! work. Of those beyond [`MOST`], events are dropped, and invalidations become one of all keys.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::{Rc, Weak},
};

use larder_proto::resp::Args;
use tokio::sync::Notify;

use super::{
    ctx::Ctx,
    hub::{Delivery, Kind},
    job::{Job, Progress, STEP},
    shared::{Face, Shared},
    tracking::{Forget, Invalidation},
};

/// Maximum of messages about evicted and expired entries that wait on a worker, and of their bytes.
/// Further events are dropped: a subscriber cannot tell them from those before it came. A client
/// that keeps a key has to hear that it is gone.
const MOST: usize = 4096;
const MOST_BYTES: usize = 4 << 20;

/// A message in delivery.
pub(crate) enum Untold {
    /// A keyspace event.
    Event(Box<Event>),
    /// A changed key.
    Invalidation(Invalidation),
    /// All keys have changed.
    Forget(Forget),
}

/// A keyspace event: a message to a channel.
pub(crate) struct Event {
    channel: Vec<u8>,
    payload: Vec<u8>,
    delivery: Option<Delivery>,
}

impl Untold {
    pub(super) fn event(channel: Vec<u8>, payload: Vec<u8>) -> Untold {
        Untold::Event(Box::new(Event { channel, payload, delivery: None }))
    }

    /// Performs a step of less than a millisecond. False: the message is delivered.
    fn step(&mut self, shared: &Shared) -> bool {
        match self {
            Untold::Event(event) => event.step(shared),
            Untold::Invalidation(invalidation) => invalidation.step(shared),
            Untold::Forget(forget) => forget.step(shared),
        }
    }

    /// Delivers it at once, on a thread that serves nobody.
    pub(super) fn deliver(mut self, shared: &Shared) {
        while self.step(shared) {}
    }

    fn bytes(&self) -> usize {
        size_of::<Untold>()
            + match self {
                // Its payload may wait in the queue of its channel as well.
                Untold::Event(event) => event.channel.len() + 2 * event.payload.len(),
                Untold::Invalidation(invalidation) => invalidation.bytes(),
                Untold::Forget(_) => 0,
            }
    }
}

impl Event {
    fn step(&mut self, shared: &Shared) -> bool {
        let limit = shared.config.mail_limit();
        let Event { channel, payload, delivery } = self;
        match delivery {
            None => {
                *delivery = Some(shared.hub.begin(Kind::Channel, channel, payload, limit));
                true
            }
            Some(delivery) => shared.hub.go_on(delivery, channel, payload, limit),
        }
    }
}

/// Messages in the order of their delivery.
#[derive(Default)]
pub(crate) struct UntoldQueue(VecDeque<Untold>);

impl UntoldQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn append(&mut self, mut others: UntoldQueue) {
        self.0.append(&mut others.0);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().map(Untold::bytes).sum::<usize>() as u64
    }

    /// Delivers them until the step is over. True: some remain.
    pub(super) fn deliver(&mut self, face: &Face) -> bool {
        while let Some(first) = self.0.front_mut() {
            if !first.step(&face.shared) {
                self.0.pop_front();
            }
            if face.is_step_over() {
                break;
            }
        }
        !self.is_empty()
    }
}

/// The part of a command after its own end: the delivery of its messages.
pub(super) struct Rest;

impl Job for Rest {
    fn is_apart(&self) -> bool {
        true
    }

    fn step(&mut self, _ctx: &mut Ctx<'_>, _args: &Args<'_>) -> Progress {
        Progress::Done
    }
}

/// Messages about entries that the store removed on this worker.
#[derive(Default)]
pub(crate) struct Removed {
    queue: RefCell<VecDeque<Untold>>,
    bytes: Cell<usize>,
    /// Invalidations were dropped: clients have to forget all keys.
    lost: Cell<bool>,
    more: Notify,
}

thread_local! {
    /// Those of this thread, if it is a worker.
    static REMOVED: RefCell<Weak<Removed>> = const { RefCell::new(Weak::new()) };
}

impl Removed {
    fn add(&self, untold: Untold) {
        let bytes = self.bytes.get() + untold.bytes();
        let mut queue = self.queue.borrow_mut();
        if queue.len() < MOST && bytes <= MOST_BYTES {
            self.bytes.set(bytes);
            queue.push_back(untold);
            self.more.notify_one();
        } else if matches!(untold, Untold::Invalidation(_)) {
            self.lost.set(true);
        }
    }

    fn next(&self) -> Option<Untold> {
        let Some(next) = self.queue.borrow_mut().pop_front() else {
            return self.lost.take().then(|| Untold::Forget(Forget::default()));
        };
        self.bytes.set(self.bytes.get().saturating_sub(next.bytes()));
        Some(next)
    }
}

impl Shared {
    /// Delivers a message about an entry that the store has removed by itself: later, if this
    /// thread is a worker.
    pub(super) fn tell_removed(&self, untold: Untold) {
        match REMOVED.with_borrow(Weak::upgrade) {
            Some(removed) => removed.add(untold),
            None => untold.deliver(self),
        }
    }
}

impl Face {
    /// Begins to deliver a message. The rest is delivered in the steps after this one.
    pub(super) fn tell(&self, mut untold: Untold) {
        let mut waiting = self.untold.borrow_mut();
        while waiting.is_empty() && !self.is_step_over() {
            if !untold.step(&self.shared) {
                return;
            }
        }
        waiting.0.push_back(untold);
    }

    /// Tells clients that track prefixes of the keys that a client's command has changed.
    #[inline]
    pub(super) fn tell_gathered(&self, writer: u64) {
        if self.gathered.is_used() {
            self.tell_prefixes(writer);
        }
    }

    #[cold]
    fn tell_prefixes(&self, writer: u64) {
        for (prefix, keys) in self.gathered.take() {
            if let Some(untold) = self.shared.tracking.of_prefix(&prefix, keys, writer) {
                self.tell(untold);
            }
        }
    }

    /// Returns whether messages remain to be delivered.
    pub(super) fn has_untold(&self) -> bool {
        !self.untold.borrow().is_empty()
    }

    /// Delivers what is told about removed entries on this worker, for ever.
    pub(crate) async fn tell_removed(self: Rc<Face>) {
        let removed = Rc::<Removed>::default();
        REMOVED.set(Rc::downgrade(&removed));
        loop {
            removed.more.notified().await;
            let mut until = self.clock.micros() + STEP;
            while let Some(mut next) = removed.next() {
                loop {
                    let more = next.step(&self.shared);
                    if self.clock.micros() >= until {
                        tokio::task::yield_now().await;
                        until = self.clock.micros() + STEP;
                    }
                    if !more {
                        break;
                    }
                }
            }
        }
    }
}
