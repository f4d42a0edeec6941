//! The journal of purges that all Larders of a fleet share (docs/decisions/0005-fleet.md).
//!
//! The journal is a set of the latest purges ([`Log`]). Every server of the fleet has a copy. Each
//! Larder reads all of them in turn, adds their entries to its own, and its entries to theirs. It
//! executes new purges in the order of each author. Only then do they count as known, and are sent
//! with pages ([`KnownPurges`]).

mod entry;
mod knows;
mod log;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

pub(crate) use self::entry::{Entry, MOST as LONGEST, What};
pub(crate) use self::knows::{KnownPurges, MOST as KNOWS_MOST};
pub(crate) use self::log::{Cut, Log, Name};
use crate::clock::Ms;

/// Purges of others that may wait for execution; beyond that the oldest are dropped, and all pages
/// count as purged.
const WAITING: usize = 65_536;
/// Authors whose purges are remembered as executed.
const AUTHORS: usize = 1024;

/// A task from the entries of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// This purge.
    Purge(Name, Entry),
    /// Purges up to this one were missed: older pages may be purged.
    Missed(u64, Cut),
}

/// A process's copy of the journal. Locked for moments by purges, by the exchange, and by senders
/// of pages.
pub(crate) struct Journal {
    author: u64,
    /// Largest log, in bytes.
    most: usize,
    /// Milliseconds after which a purge is obsolete.
    lasting: Ms,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    log: Log,
    /// The last used number.
    last: u64,
    /// Own purges in progress.
    open: BTreeSet<u64>,
    /// Own purges that ended before they were executed.
    given_up: Vec<u64>,
    /// For each author, the number up to which all are executed.
    done: BTreeMap<u64, u64>,
    /// Purges executed early: peers sent them before the fleet had them.
    early: BTreeSet<Name>,
    knows: KnownPurges,
    /// Own purges that are not sent to peers yet.
    untold: Vec<(Name, Entry)>,
}

impl Journal {
    /// `author`: a random number.
    pub(crate) fn new(author: u64, most: usize, lasting: Ms) -> Journal {
        let state =
            State { knows: KnownPurges::new([(author, 0)].into_iter()), ..State::default() };
        Journal { author, most, lasting, state: Mutex::new(state) }
    }

    /// Begins a purge. Its name goes to [`Journal::done`] or [`Journal::given_up`] later.
    pub(crate) fn begin(&self, entry: Entry, tell: bool) -> Name {
        let mut state = self.state.lock();
        state.last += 1;
        let name = (self.author, state.last);
        state.open.insert(name.1);
        // Peers get each purge once; more than [`WAITING`] are read from the fleet.
        if tell && state.untold.len() < WAITING {
            state.untold.push((name, entry.clone()));
        }
        let oldest = entry.at.saturating_sub(self.lasting);
        state.log.insert(name, entry);
        state.log.trim(self.most, oldest);
        name
    }

    /// Reports that a purge is executed here.
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

    /// Reports that missed purges are compensated.
    pub(crate) fn made_up(&self, author: u64, number: u64) {
        let mut state = self.state.lock();
        let done = state.done.entry(author).or_default();
        *done = number.max(*done);
        state.absorb(author);
        state.tell(self.author);
    }

    /// Reports that a purge ended before it was executed: another task has to execute it.
    pub(crate) fn given_up(&self, name: Name) {
        self.state.lock().given_up.push(name.1);
    }

    /// The purges that are executed on all pages that are looked up from now on.
    pub(crate) fn knows(&self) -> KnownPurges {
        self.state.lock().knows.clone()
    }

    /// Adds the entries of another log; returns the whole log, if the other lacks an entry.
    pub(crate) fn merge(&self, theirs: Option<Log>, now: Ms) -> Option<Vec<u8>> {
        let mut state = self.state.lock();
        let before = theirs.unwrap_or_default();
        state.log.merge(before.clone());
        state.log.trim(self.most, now.saturating_sub(self.lasting));
        (state.log != before).then(|| state.log.encode())
    }

    /// The checksum of the log; None: it is empty.
    pub(crate) fn digest(&self) -> Option<[u8; 8]> {
        let state = self.state.lock();
        let empty = state.log == Log::default();
        (!empty).then(|| log::sum(&state.log.encode()).to_le_bytes())
    }

    /// Purges of others that are not executed yet, in their order.
    pub(crate) fn tasks(&self) -> Vec<Task> {
        let mut state = self.state.lock();
        let given_up = std::mem::take(&mut state.given_up);
        let done = |author: u64| state.done.get(&author).copied().unwrap_or(0);
        let missed = state
            .log
            .cut
            .iter()
            .filter(|(author, cut)| **author != self.author && cut.number > done(**author));
        let mut tasks: Vec<Task> =
            missed.map(|(author, cut)| Task::Missed(*author, *cut)).collect();
        let own = given_up
            .into_iter()
            .filter_map(|number| state.log.entries.get_key_value(&(self.author, number)));
        tasks.extend(own.map(|(name, entry)| Task::Purge(*name, entry.clone())));
        let others = state.log.entries.iter();
        let others = others.filter(|(name, _)| {
            name.0 != self.author && name.1 > done(name.0) && !state.early.contains(name)
        });
        tasks.extend(others.map(|(name, entry)| Task::Purge(*name, entry.clone())));
        tasks.truncate(WAITING);
        tasks
    }

    /// For each author of a purge in the log, or cut from it, the number up to which all its purges
    /// are executed.
    pub(crate) fn executed(&self) -> Vec<(u64, u64)> {
        let state = self.state.lock();
        let heard = |author: &u64| state.log.cut.contains_key(author) || state.has_entry(*author);
        let done = state.done.iter().filter(|(author, _)| heard(author));
        done.map(|(author, number)| (*author, *number)).collect()
    }

    /// Takes the own purges for peers.
    pub(crate) fn untold(&self) -> Vec<(Name, Entry)> {
        std::mem::take(&mut self.state.lock().untold)
    }

    /// Takes purges of a peer.
    pub(crate) fn hear(&self, told: Log, now: Ms) {
        let mut state = self.state.lock();
        state.log.merge(told);
        state.log.trim(self.most, now.saturating_sub(self.lasting));
    }
}

impl State {
    /// Early executed purges count once all before them are executed.
    fn absorb(&mut self, author: u64) {
        let mut done = self.done.get(&author).copied().unwrap_or(0);
        self.early.retain(|(other, number)| *other != author || *number > done);
        while self.early.remove(&(author, done + 1)) {
            done += 1;
        }
        self.done.insert(author, done);
        // Entries that wait for a purge that never comes are forgotten with it.
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
        // The latest authors matter: names without entries are obsolete.
        let heard = |author: &u64| *author == own || self.has_entry(*author);
        self.knows = KnownPurges::new(
            self.done.iter().filter(|(author, _)| heard(author)).map(|(a, n)| (*a, *n)),
        );
    }

    /// An author without an entry in the log.
    fn forgettable(&self) -> Option<u64> {
        self.done.keys().find(|author| !self.has_entry(**author)).copied()
    }

    /// Whether an author has an entry in the log.
    fn has_entry(&self, author: u64) -> bool {
        self.log.entries.range((author, 0)..=(author, u64::MAX)).next().is_some()
    }
}

/// Some purges as a log for a peer.
pub(crate) fn parcel(purges: impl Iterator<Item = (Name, Entry)>) -> Log {
    let mut log = Log::default();
    purges.for_each(|(name, entry)| log.insert(name, entry));
    log
}
