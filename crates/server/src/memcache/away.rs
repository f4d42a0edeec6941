//! Items whose value is on the disk (`memcached.disk`): what is in memory is a stub
//! ([`larder_store::Away`]).
//!
//! Commands that need no value work on stubs as on any item. One that needs the value leaves
//! everything unchanged and has it brought back into memory ([`Session::read_value`]): the session
//! waits, other clients go on, and the command is executed again from the start, or a retrieval
//! from that key on. Where the disk has no value in time, the command takes the item for missing,
//! and the session does not wait again for as long as it waited then: a batch of keys or commands
//! waits about once, not once for each.

use std::{cell::Cell, rc::Rc};

use larder_store::Entry;
use tokio::task::spawn_local;

use super::{
    Face, OBJECTS,
    session::{Session, State},
};
use crate::{clock::Ms, disk::Brought, net::out::Out, object::Turn};

/// The session looks again after so many milliseconds, if nobody calls it before.
const LOOK: Ms = 1000;

/// Where the value of an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lies {
    Here,
    /// On the disk, and can be read.
    Away,
    /// On the disk, and the command goes on without it.
    Lost,
}

/// A value that is being read.
pub(super) struct Reading {
    brought: Rc<Cell<Option<Brought>>>,
    /// Since when.
    since: Ms,
    /// The state of the session behind it.
    then: State,
}

#[cfg(test)]
impl Reading {
    /// One that came to its end.
    pub(super) fn ended(brought: Brought, since: Ms) -> Reading {
        Reading { brought: Rc::new(Cell::new(Some(brought))), since, then: State::Ready }
    }
}

impl Face {
    /// Where the value of an item is.
    #[inline]
    pub(super) fn lies(&self, entry: &Entry<'_>) -> Lies {
        match entry.elsewhere() {
            None => Lies::Here,
            Some(_) if self.without.get() => Lies::Lost,
            Some(_) => Lies::Away,
        }
    }

    /// The stub under a key whose value has to be read before a command that needs it; `None`: it
    /// can be executed now.
    pub(super) fn stub(&self, key: &[u8], now: Ms) -> Option<Entry<'static>> {
        self.shared.disk.as_ref()?;
        let entry = self.store.peek(OBJECTS, key, now)?;
        (self.lies(&entry) == Lies::Away).then_some(entry)
    }
}

impl Session {
    /// Reads the value of a stub, and goes on behind `used` bytes of `input` in the state `then`.
    #[cold]
    pub(super) fn read_value(
        &mut self,
        stub: Entry<'static>,
        then: State,
        (used, input): (usize, &[u8]),
        now: Ms,
        out: &mut Out,
    ) -> Turn {
        let waits = self.waits && now >= self.rests;
        let disk = self.face.shared.disk.clone().filter(|_| waits);
        let (Some(disk), Some(stub)) = (disk, stub.stub()) else {
            self.state = then;
            return self.go_on(true, (used, input), now, out);
        };
        self.face.counters.get_extstore.one();
        let brought = Rc::new(Cell::new(None));
        let (tell, client) = (brought.clone(), self.client.clone());
        spawn_local(async move {
            tell.set(Some(disk.bring_back(stub).await));
            client.call();
        });
        self.state = State::Reading(Box::new(Reading { brought, since: now, then }));
        Turn::Later(used, LOOK)
    }

    /// The value was read, or not yet.
    #[cold]
    pub(super) fn read(&mut self, input: &[u8], now: Ms, out: &mut Out) -> Turn {
        let State::Reading(reading) = &self.state else { return Turn::Used(0) };
        let Some(brought) = reading.brought.take() else { return Turn::Later(0, LOOK) };
        let counters = &self.face.counters;
        match brought {
            Brought::Back => counters.recache_from_extstore.one(),
            Brought::Lost => counters.miss_from_extstore.one(),
            Brought::Late => {
                counters.get_aborted_extstore.one();
                // The keys and commands behind it would wait as long, each.
                self.rests = now + now.saturating_sub(reading.since);
            }
        }
        if let State::Reading(reading) = std::mem::replace(&mut self.state, State::Ready) {
            self.state = reading.then;
        }
        self.go_on(brought == Brought::Late, (0, input), now, out)
    }

    /// Executes the next command behind `used` bytes of `input`; `without`: values that are not
    /// here are missing.
    fn go_on(
        &mut self,
        without: bool,
        (used, input): (usize, &[u8]),
        now: Ms,
        out: &mut Out,
    ) -> Turn {
        self.face.without.set(without);
        let turn = self.step(&input[used..], now, out);
        self.face.without.set(false);
        match turn {
            Turn::Used(n) => Turn::Used(used + n),
            Turn::Flush(n) => Turn::Flush(used + n),
            Turn::Again(n) => Turn::Again(used + n),
            Turn::Later(n, time) => Turn::Later(used + n, time),
            Turn::More(_) if used > 0 => Turn::Used(used),
            Turn::More(want) => Turn::More(want),
            Turn::Close => Turn::Close,
        }
    }
}
