//! What a client knows of its servers, for those who watch.

use crate::{
    Address, Eject,
    counters::{BUCKETS, Count, Counters, bound_of},
    health::Look,
};

/// What a server is to its clients now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is asked.
    Up,
    /// It failed and waits for its next probe; its keys fail at once.
    Down,
    /// As [`State::Down`], and its keys are with others: with [`Eject::Rehash`](crate::Eject) or a spare.
    Ejected,
    /// A probe is under way.
    Probing,
}

impl State {
    /// `up`, `down`, `ejected`, `probing`.
    pub fn name(self) -> &'static str {
        match self {
            State::Up => "up",
            State::Down => "down",
            State::Ejected => "ejected",
            State::Probing => "probing",
        }
    }
}

/// One server: counters since the client was made, of this client and its clones; state and ejections are of all that share
/// the [`Health`](crate::Health).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerView {
    /// Where it is.
    pub address: Address,
    /// Its address as it is written.
    pub name: String,
    /// Whether it is one of the spares.
    pub spare: bool,
    /// What it is to its clients now.
    pub state: State,
    /// Keys asked for.
    pub lookups: u64,
    /// Keys found.
    pub hits: u64,
    /// Keys not found.
    pub misses: u64,
    /// Writes of every kind: set, delete, incr, touch, ...
    pub writes: u64,
    /// Times an answer did not come in time (once per connection that was given up for it).
    pub timeouts: u64,
    /// Connections that failed or broke, timeouts aside, and answers that were errors.
    pub errors: u64,
    /// Attempts to connect, probes not counted.
    pub connects: u64,
    /// Probes begun.
    pub probes: u64,
    /// Times it was found down.
    pub ejections: u64,
    /// Operations that were not sent: the server was down.
    pub skipped: u64,
    /// Operations that were not sent: too much was waiting.
    pub busy: u64,
    /// Answers by time, from the queue to the answer: an upper bound in microseconds and how many are up to it and above the
    /// bound before. Bounds grow by the root of two; those without a count are left out.
    pub latency: Vec<(u64, u64)>,
    /// Sum of the times, microseconds.
    pub latency_sum_us: u64,
}

/// What was not sent is left at 0.
pub(crate) fn of<'c>(
    address: &Address,
    counted: impl Iterator<Item = &'c Counters> + Clone,
    look: Look,
    spare: bool,
    eject: Eject,
) -> ServerView {
    let sum = |count: fn(&Counters) -> &Count| counted.clone().map(|counters| count(counters).get()).sum();
    let at = |bucket: usize| -> u64 { counted.clone().map(|counters| counters.latency[bucket].get()).sum() };
    let state = match look {
        Look { up: true, .. } => State::Up,
        Look { probing: true, .. } => State::Probing,
        Look { replaced: true, .. } => State::Ejected,
        _ if eject == Eject::Rehash && !spare => State::Ejected,
        _ => State::Down,
    };
    ServerView {
        name: address.to_string(),
        address: address.clone(),
        spare,
        state,
        lookups: sum(|c| &c.lookups),
        hits: sum(|c| &c.hits),
        misses: sum(|c| &c.misses),
        writes: sum(|c| &c.writes),
        timeouts: sum(|c| &c.timeouts),
        errors: sum(|c| &c.errors),
        connects: sum(|c| &c.connects),
        probes: look.probes,
        ejections: look.ejections,
        skipped: 0,
        busy: 0,
        latency: (0..BUCKETS).map(|bucket| (bound_of(bucket), at(bucket))).filter(|(_, n)| *n > 0).collect(),
        latency_sum_us: sum(|c| &c.latency_sum_us),
    }
}
