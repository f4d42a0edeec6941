//! A client that waits for keys: what has become of its wait.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst, fence},
};

use larder_proto::resp::{Reply, Version};
use parking_lot::Mutex;

use super::{data::Wish, shared::Shared, slowlog::Slow};
use crate::object::Client;

/// State of a waiting client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    /// Its command may run again.
    Called,
    /// Its answer.
    Served(Vec<u8>),
    /// CLIENT UNBLOCK: whether with an error, and whether it had been called.
    Unblocked {
        with_error: bool,
        called: bool,
    },
    /// Its command has ended.
    Ended,
}

/// A client in the queues of its keys.
pub(super) struct Waiter {
    pub(super) client: Arc<Client>,
    /// Its database, whatever place that has.
    pub(super) db: u8,
    version: Version,
    pub(super) wish: Wish,
    state: Mutex<State>,
    /// A key that its command needs is gone: the command is to run again.
    missed: AtomicBool,
    slow: Mutex<SlowEntry>,
}

/// A waiting client's entry of the slow log, if it took long until it waited. Another worker may
/// serve it before its own has the entry.
#[derive(Default)]
enum SlowEntry {
    #[default]
    None,
    Kept(Slow),
    /// It was served.
    Due,
}

impl Waiter {
    pub(super) fn new(client: Arc<Client>, db: u8, version: Version, wish: Wish) -> Self {
        let state = Mutex::new(State::Waiting);
        let (missed, slow) = Default::default();
        Self { client, db, version, wish, state, missed, slow }
    }

    /// A key that its command needs is gone. The store may say so in the middle of
    /// [`Waiter::answer`], on the same thread: nothing is waited for here.
    pub(super) fn misses(&self) {
        self.missed.store(true, SeqCst);
        self.heed();
    }

    /// Notes its entry of the slow log.
    pub(super) fn was_slow(&self, shared: &Shared, entry: Slow) {
        let mut slow = self.slow.lock();
        match *slow {
            SlowEntry::Due => shared.slowlog.note(&shared.config, entry),
            _ => *slow = SlowEntry::Kept(entry),
        }
    }

    /// Does something with the state, and then what [`Waiter::misses`] found it locked for.
    pub(super) fn change<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        let result = work(&mut self.state.lock());
        self.heed();
        result
    }

    /// Has the command run again if a key is gone. The holder of the lock does so when it lets go.
    fn heed(&self) {
        fence(SeqCst);
        while self.missed.load(SeqCst) {
            let Some(mut state) = self.state.try_lock() else { return };
            self.missed.store(false, SeqCst);
            self.call_by(&mut state);
            drop(state);
            fence(SeqCst);
        }
    }

    /// Answers the waiting client with what `take` composes; false if that is nothing, or the
    /// client waits no more.
    pub(crate) fn answer(&self, take: impl FnOnce(&mut Reply<'_>) -> bool) -> bool {
        self.change(|state| {
            if *state != State::Waiting || self.client.is_killed() {
                return false;
            }
            let mut bytes = Vec::new();
            if !take(&mut Reply::new(&mut bytes, self.version)) {
                return false;
            }
            *state = State::Served(bytes);
            self.client.call();
            true
        })
    }

    /// Adds its entry to the slow log, if it was served.
    pub(super) fn log(&self, shared: &Shared) {
        if self.change(|state| matches!(*state, State::Served(_)))
            && let SlowEntry::Kept(entry) =
                std::mem::replace(&mut *self.slow.lock(), SlowEntry::Due)
        {
            shared.slowlog.note(&shared.config, entry);
        }
    }

    /// Has the client's command run again. False: it waits no more.
    pub(crate) fn call(&self) -> bool {
        self.change(|state| self.call_by(state))
    }

    fn call_by(&self, state: &mut State) -> bool {
        if !matches!(*state, State::Waiting | State::Called) || self.client.is_killed() {
            return false;
        }
        *state = State::Called;
        self.client.call();
        true
    }

    pub(super) fn is_called(&self) -> bool {
        self.change(|state| *state == State::Called)
    }
}
