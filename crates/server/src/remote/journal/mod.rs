//! What was purged, as all who share a fleet tell each other (docs/decisions/0005-fleet.md).
//!
//! The journal is a set of the latest purges ([`Log`]). A copy of it lies on every server of the
//! fleet; each Larder reads all of them in turn, adds to its own what they have, and to theirs what
//! they lack. What it has not carried out yet it carries out then, in the order of each author.
//! Only after that it counts as known, and is told with pages that are sent ([`Knows`]).

mod entry;
mod knows;
mod log;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

pub(crate) use self::entry::{Entry, MOST as LONGEST, What};
pub(crate) use self::knows::{Knows, MOST as KNOWS_MOST};
pub(crate) use self::log::{Cut, Log, Name};
use crate::clock::Ms;

/// Purges of others that may wait to be carried out; beyond it the oldest are given up, and
/// everything counts as purged.
const WAITING: usize = 65_536;
/// Authors whose purges are remembered as carried out.
const AUTHORS: usize = 1024;

/// What is to be done because of what others told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// This purge.
    Purge(Name, Entry),
    /// Purges up to here were missed: what was received before may be any of them.
    Missed(u64, Cut),
}

/// A process's copy of the journal. Locked for moments: by purges, by the exchange, and by whoever
/// sends a page.
pub(crate) struct Journal {
    author: u64,
    /// Bytes of the log at most.
    most: usize,
    /// Milliseconds after which a purge is of no use any more.
    lasting: Ms,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    log: Log,
    /// The last number given out.
    last: u64,
    /// Own purges under way.
    open: BTreeSet<u64>,
    /// Own purges that ended before they were carried out.
    given_up: Vec<u64>,
    /// Of each author: all up to here were carried out.
    done: BTreeMap<u64, u64>,
    /// Carried out before their turn: peers told of them before the fleet did.
    early: BTreeSet<Name>,
    knows: Knows,
    /// Own purges that peers were not told of yet.
    untold: Vec<(Name, Entry)>,
}

impl Journal {
    /// `author`: a random number.
    pub(crate) fn new(author: u64, most: usize, lasting: Ms) -> Journal {
        let state = State { knows: Knows::new([(author, 0)].into_iter()), ..State::default() };
        Journal { author, most, lasting, state: Mutex::new(state) }
    }

    /// A purge begins here. Its number is to be given to [`Journal::done`] or
    /// [`Journal::given_up`].
    pub(crate) fn begin(&self, entry: Entry, tell: bool) -> Name {
        let mut state = self.state.lock();
        state.last += 1;
        let name = (self.author, state.last);
        state.open.insert(name.1);
        // Told to peers in one piece each; more than a log's worth they learn from the fleet.
        if tell && state.untold.len() < WAITING {
            state.untold.push((name, entry.clone()));
        }
        let oldest = entry.at.saturating_sub(self.lasting);
        state.log.insert(name, entry);
        state.log.trim(self.most, oldest);
        name
    }

    /// It was carried out here.
    pub(crate) fn done(&self, (author, number): Name) {
        let mut state = self.state.lock();
        if author == self.author {
            state.open.remove(&number);
        } else {
            state.early.insert((author, number));
            state.absorb(author);
        }
        state.tell(self.author);
    }

    /// What was missed is made up for.
    pub(crate) fn made_up(&self, author: u64, number: u64) {
        let mut state = self.state.lock();
        let done = state.done.entry(author).or_default();
        *done = number.max(*done);
        state.absorb(author);
        state.tell(self.author);
    }

    /// It ended before it was carried out: somebody else has to.
    pub(crate) fn given_up(&self, name: Name) {
        self.state.lock().given_up.push(name.1);
    }

    /// What a page that is looked up in the store from now on was not purged by.
    pub(crate) fn knows(&self) -> Knows {
        self.state.lock().knows.clone()
    }

    /// Adds what another has; returns the whole log, if the other lacks something of it.
    pub(crate) fn merge(&self, theirs: Option<Log>, now: Ms) -> Option<Vec<u8>> {
        let mut state = self.state.lock();
        let before = theirs.unwrap_or_default();
        state.log.merge(before.clone());
        state.log.trim(self.most, now.saturating_sub(self.lasting));
        (state.log != before).then(|| state.log.encode())
    }

    /// What tells this log from another; None: it is empty.
    pub(crate) fn digest(&self) -> Option<[u8; 8]> {
        let state = self.state.lock();
        let empty = state.log == Log::default();
        (!empty).then(|| log::sum(&state.log.encode()).to_le_bytes())
    }

    /// What others ordered and is not carried out yet, in the order in which it is to be.
    pub(crate) fn tasks(&self) -> Vec<Task> {
        let mut state = self.state.lock();
        let given_up = std::mem::take(&mut state.given_up);
        let done = |author: u64| state.done.get(&author).copied().unwrap_or(0);
        let missed = state
            .log
            .cut
            .iter()
            .filter(|(author, cut)| **author != self.author && cut.number > done(**author));
        let mut tasks: Vec<Task> = missed.map(|(author, cut)| Task::Missed(*author, *cut)).collect();
        let own =
            given_up.into_iter().filter_map(|number| state.log.entries.get_key_value(&(self.author, number)));
        tasks.extend(own.map(|(name, entry)| Task::Purge(*name, entry.clone())));
        let others = state.log.entries.iter();
        let others = others.filter(|(name, _)| {
            name.0 != self.author && name.1 > done(name.0) && !state.early.contains(name)
        });
        tasks.extend(others.map(|(name, entry)| Task::Purge(*name, entry.clone())));
        tasks.truncate(WAITING);
        tasks
    }

    /// Own purges that peers are to be told of.
    pub(crate) fn untold(&self) -> Vec<(Name, Entry)> {
        std::mem::take(&mut self.state.lock().untold)
    }

    /// A peer told us of purges.
    pub(crate) fn hear(&self, told: Log, now: Ms) {
        let mut state = self.state.lock();
        state.log.merge(told);
        state.log.trim(self.most, now.saturating_sub(self.lasting));
    }
}

impl State {
    /// What was carried out early counts once everything before it was.
    fn absorb(&mut self, author: u64) {
        let mut done = self.done.get(&author).copied().unwrap_or(0);
        self.early.retain(|(other, number)| *other != author || *number > done);
        while self.early.remove(&(author, done + 1)) {
            done += 1;
        }
        self.done.insert(author, done);
        // What waits for a purge that never comes is forgotten with it.
        if self.early.len() > WAITING {
            self.early.pop_first();
        }
        if self.done.len() > AUTHORS
            && let Some(unheard) = self.forgettable()
        {
            self.done.remove(&unheard);
        }
    }

    fn tell(&mut self, own: u64) {
        let carried_out = self.open.first().map_or(self.last, |open| open - 1);
        self.done.insert(own, carried_out);
        // Those that purged last matter: names without entries are at the end of their use.
        let heard = |author: &u64| {
            *author == own || self.log.entries.range((*author, 0)..=(*author, u64::MAX)).next().is_some()
        };
        self.knows = Knows::new(self.done.iter().filter(|(author, _)| heard(author)).map(|(a, n)| (*a, *n)));
    }

    /// An author without an entry in the log.
    fn forgettable(&self) -> Option<u64> {
        let silent =
            |author: &&u64| self.log.entries.range((**author, 0)..=(**author, u64::MAX)).next().is_none();
        self.done.keys().find(silent).copied()
    }
}

/// A few purges as they are told to a peer.
pub(crate) fn parcel(purges: impl Iterator<Item = (Name, Entry)>) -> Log {
    let mut log = Log::default();
    purges.for_each(|(name, entry)| log.insert(name, entry));
    log
}
