//! State and counters of servers, for monitoring.

use crate::{
    Address, Eject,
    counters::{BUCKETS, Count, Counters, bound_of},
    health::HealthSnapshot,
};

/// Current state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// In use.
    Up,
    /// Failed and waiting for its next probe; operations on its keys fail at once.
    Down,
    /// Like [`State::Down`], but its keys are served by others: with
    /// [`Eject::Rehash`](crate::Eject) or by a spare.
    Ejected,
    /// A probe is running.
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

/// One server. Counters are of this client and its clones since it was made; state and ejections
/// are of all clients that share the [`Health`](crate::Health).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerView {
    /// Its address.
    pub address: Address,
    /// Its address as text.
    pub name: String,
    /// Whether it is a spare.
    pub spare: bool,
    /// Its current state.
    pub state: State,
    /// Keys requested.
    pub lookups: u64,
    /// Keys found.
    pub hits: u64,
    /// Keys not found.
    pub misses: u64,
    /// Writes of every kind: set, delete, incr, touch, ...
    pub writes: u64,
    /// Timeouts, counted once per connection that was closed for one.
    pub timeouts: u64,
    /// Connections that failed or broke, except for timeouts, and answers that were errors.
    pub errors: u64,
    /// Connection attempts, without probes.
    pub connects: u64,
    /// Probes started.
    pub probes: u64,
    /// Times it went down.
    pub ejections: u64,
    /// Operations not sent because the server was down.
    pub skipped: u64,
    /// Operations not sent because the queue was full.
    pub busy: u64,
    /// Latency histogram, from submission to answer: an upper bound in microseconds and the number
    /// of answers between it and the bound before. Bounds grow by the square root of two; empty
    /// buckets are left out.
    pub latency: Vec<(u64, u64)>,
    /// Sum of the latencies in microseconds.
    pub latency_sum_us: u64,
}

/// Leaves the counts of operations that were not sent at 0.
pub(crate) fn of<'c>(
    address: &Address,
    counted: impl Iterator<Item = &'c Counters> + Clone,
    snapshot: HealthSnapshot,
    spare: bool,
    eject: Eject,
) -> ServerView {
    let sum = |count: fn(&Counters) -> &Count| {
        counted.clone().map(|counters| count(counters).get()).sum()
    };
    let at = |bucket: usize| -> u64 {
        counted.clone().map(|counters| counters.latency[bucket].get()).sum()
    };
    let state = match snapshot {
        HealthSnapshot { up: true, .. } => State::Up,
        HealthSnapshot { probing: true, .. } => State::Probing,
        HealthSnapshot { replaced: true, .. } => State::Ejected,
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
        probes: snapshot.probes,
        ejections: snapshot.ejections,
        skipped: 0,
        busy: 0,
        latency: (0..BUCKETS)
            .map(|bucket| (bound_of(bucket), at(bucket)))
            .filter(|(_, n)| *n > 0)
            .collect(),
        latency_sum_us: sum(|c| &c.latency_sum_us),
    }
}
