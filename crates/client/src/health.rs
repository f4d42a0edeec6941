//! Which servers are well, for all clients that share it.
//!
//! | state | begins | ends |
//! |---|---|---|
//! | up | at first; a probe succeeded | [`Failure::limit`] failures in a row |
//! | down | failures; a probe that failed | its pause is over and somebody asks for a key of it |
//! | probing | exactly one asker's ticket | the probe's end, whichever way; a ticket that is dropped is a failed probe |
//!
//! While a server is up, asking costs one load of a byte nobody writes. Pauses double from [`Failure::retry_min`] to
//! [`Failure::retry_max`], each shortened by up to a quarter at random. A server that comes back keeps its pause until it has
//! been up for [`Failure::calm`]: one that flaps is asked ever more seldom.
//!
//! A spare is given to the lowest server that needs one; each serves one server at a time.

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{
            AtomicU8, AtomicU32, AtomicU64, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::{Duration, Instant},
};

use crate::{Address, Failure};

/// What clients of one process know together of their servers' health. Cheap to clone; all clones are the same.
///
/// Clients with the same servers and spares, in the same order, learn from each other; others are kept apart.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Mutex<Vec<Weak<Fleet>>>>);

impl Health {
    /// Everyone is well.
    pub fn new() -> Health {
        Health::default()
    }

    /// The servers, and behind them the spares, of one configuration. The first client's `failure` holds for all.
    pub(crate) fn fleet(&self, servers: &[Address], spares: &[Address], failure: &Failure) -> Arc<Fleet> {
        let mut fleets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        fleets.retain(|fleet| fleet.strong_count() > 0);
        let same = |fleet: &Arc<Fleet>| {
            fleet.count == servers.len() && fleet.addresses.iter().eq(servers.iter().chain(spares))
        };
        if let Some(fleet) = fleets.iter().filter_map(Weak::upgrade).find(same) {
            return fleet;
        }
        let fleet = Arc::new(Fleet::new(servers, spares, *failure));
        fleets.push(Arc::downgrade(&fleet));
        fleet
    }
}

const UP: u8 = 0;
const DOWN: u8 = 1;
const PROBING: u8 = 2;

/// One list of servers.
#[derive(Debug)]
pub(crate) struct Fleet {
    addresses: Vec<Address>,
    /// Servers that are no spares.
    count: usize,
    failure: Failure,
    guards: Vec<Guard>,
    /// Who serves the keys of each server: itself or a spare.
    holders: Vec<AtomicUsize>,
    /// Of [`Guard::until`] and the like: held while states change, never across an await.
    changes: Mutex<Random>,
    /// How many changes there were: who keeps something made of the states compares.
    epoch: AtomicU64,
    /// Servers whose keys nobody serves, neither they nor a spare.
    unserved: AtomicUsize,
    began: Instant,
}

/// One server. What everyone reads is written when states change, and no sooner.
#[derive(Debug, Default)]
struct Guard {
    state: AtomicU8,
    /// In a row.
    failures: AtomicU32,
    /// Microseconds since `began`: when the next probe may be.
    until: AtomicU64,
    /// Microseconds.
    pause: AtomicU64,
    /// Microseconds since `began`: when it was last found well after it was down.
    up_since: AtomicU64,
    ejections: AtomicU64,
    probes: AtomicU64,
}

/// Where a key goes.
#[derive(Debug, Default)]
pub(crate) struct Route {
    /// The server, if one is up.
    pub(crate) server: Option<usize>,
    /// Servers whose pause is over: the holder of a ticket probes, whatever becomes of the key.
    pub(crate) probes: Vec<Ticket>,
}

impl Fleet {
    fn new(servers: &[Address], spares: &[Address], failure: Failure) -> Fleet {
        let addresses: Vec<Address> = servers.iter().chain(spares).cloned().collect();
        Fleet {
            count: servers.len(),
            failure,
            guards: addresses.iter().map(|_| Guard::default()).collect(),
            holders: (0..servers.len()).map(AtomicUsize::new).collect(),
            changes: Mutex::new(Random(RandomState::new().hash_one(&addresses))),
            addresses,
            epoch: AtomicU64::new(0),
            unserved: AtomicUsize::new(0),
            began: Instant::now(),
        }
    }

    /// Whether the server's keys go to itself, as nearly always.
    pub(crate) fn is_up(&self, server: usize) -> bool {
        self.guards[server].state.load(Relaxed) == UP
    }

    /// Who serves the keys of `slot` now, and who is to be probed.
    pub(crate) fn route(self: &Arc<Self>, slot: usize, now: Instant) -> Route {
        if self.is_up(slot) {
            return Route { server: Some(slot), probes: Vec::new() };
        }
        let mut route = Route { server: None, probes: self.probe(slot, now).into_iter().collect() };
        let holder = self.holders[slot].load(Relaxed);
        if holder != slot && self.is_up(holder) {
            route.server = Some(holder);
        } else {
            let spares = self.count..self.guards.len();
            route.probes.extend(spares.filter_map(|spare| self.probe(spare, now)));
        }
        route
    }

    /// A ticket to probe a server that is down, when it is time and nobody else has it.
    fn probe(self: &Arc<Self>, server: usize, now: Instant) -> Option<Ticket> {
        let guard = &self.guards[server];
        if guard.state.load(Relaxed) != DOWN || self.micros(now) < guard.until.load(Relaxed) {
            return None;
        }
        let _changes = self.lock();
        if guard.state.load(Relaxed) != DOWN || self.micros(now) < guard.until.load(Relaxed) {
            return None;
        }
        guard.state.store(PROBING, Relaxed);
        guard.probes.fetch_add(1, Relaxed);
        Some(Ticket { fleet: self.clone(), server, open: true })
    }

    /// A connection failed, or no answer came in time. Of a server that is not up it says nothing new.
    pub(crate) fn failed(&self, server: usize, now: Instant) {
        let guard = &self.guards[server];
        let mut random = self.lock();
        if guard.state.load(Relaxed) != UP {
            return;
        }
        let failures = guard.failures.load(Relaxed).saturating_add(1);
        guard.failures.store(failures, Relaxed);
        if failures < self.failure.limit {
            return;
        }
        let was = Duration::from_micros(guard.pause.load(Relaxed));
        let up_since = guard.up_since.load(Relaxed);
        let calm = was.is_zero() || self.micros(now).saturating_sub(up_since) >= micros(self.failure.calm);
        let pause = if calm { self.failure.retry_min } else { self.longer(was) };
        guard.ejections.fetch_add(1, Relaxed);
        self.pause(server, pause, now, &mut random);
        self.assign();
    }

    /// An answer came. Nothing is written unless a failure was counted before.
    pub(crate) fn succeeded(&self, server: usize) {
        let failures = &self.guards[server].failures;
        if failures.load(Relaxed) != 0 {
            failures.store(0, Relaxed);
        }
    }

    fn probed(&self, server: usize, well: bool, now: Instant) {
        let guard = &self.guards[server];
        let mut random = self.lock();
        if well {
            guard.failures.store(0, Relaxed);
            guard.up_since.store(self.micros(now), Relaxed);
            guard.state.store(UP, Relaxed);
        } else {
            let pause = self.longer(Duration::from_micros(guard.pause.load(Relaxed)));
            self.pause(server, pause, now, &mut random);
        }
        self.assign();
    }

    fn longer(&self, pause: Duration) -> Duration {
        pause.saturating_mul(2).clamp(self.failure.retry_min, self.failure.retry_max)
    }

    fn pause(&self, server: usize, pause: Duration, now: Instant, random: &mut Random) {
        let guard = &self.guards[server];
        let whole = micros(pause);
        let until = self.micros(now).saturating_add(whole - random.below(whole / 4 + 1));
        guard.pause.store(whole, Relaxed);
        guard.until.store(until, Relaxed);
        guard.state.store(DOWN, Relaxed);
    }

    /// Gives spares to those that need one, under the lock.
    fn assign(&self) {
        let holder = |slot: usize| self.holders[slot].load(Relaxed);
        (0..self.count)
            .filter(|slot| self.is_up(*slot))
            .for_each(|slot| self.holders[slot].store(slot, Relaxed));
        let taken: HashSet<usize> = (0..self.count).map(holder).collect();
        let mut free = (self.count..self.guards.len()).filter(|at| self.is_up(*at) && !taken.contains(at));
        for slot in (0..self.count).filter(|slot| !self.serves(*slot)) {
            self.holders[slot].store(free.next().unwrap_or(slot), Relaxed);
        }
        let unserved = (0..self.count).filter(|slot| !self.serves(*slot)).count();
        self.unserved.store(unserved, Relaxed);
        // Behind the states: who sees the number sees them.
        self.epoch.fetch_add(1, Release);
    }

    /// Whether the server or a spare in its place is up.
    pub(crate) fn serves(&self, slot: usize) -> bool {
        self.is_up(slot) || self.is_up(self.holders[slot].load(Relaxed))
    }

    /// Servers whose keys nobody serves.
    pub(crate) fn unserved(&self) -> usize {
        self.unserved.load(Relaxed)
    }

    /// The number of changes so far.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Acquire)
    }

    /// For [`State`](crate::State): whether it is up, whether it is being probed, and whether a spare has its keys.
    pub(crate) fn look(&self, server: usize) -> Look {
        let guard = &self.guards[server];
        let state = guard.state.load(Relaxed);
        Look {
            up: state == UP,
            probing: state == PROBING,
            replaced: server < self.count && self.holders[server].load(Relaxed) != server,
            ejections: guard.ejections.load(Relaxed),
            probes: guard.probes.load(Relaxed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Random> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn micros(&self, now: Instant) -> u64 {
        micros(now.saturating_duration_since(self.began))
    }
}

/// What is shown of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) up: bool,
    pub(crate) probing: bool,
    pub(crate) replaced: bool,
    pub(crate) ejections: u64,
    pub(crate) probes: u64,
}

/// The right, and the duty, to probe one server. Dropped without an end, it is a probe that failed.
#[derive(Debug)]
pub(crate) struct Ticket {
    fleet: Arc<Fleet>,
    server: usize,
    open: bool,
}

impl Ticket {
    /// Whom to probe.
    pub(crate) fn server(&self) -> usize {
        self.server
    }

    /// What came of it.
    pub(crate) fn end(mut self, well: bool, now: Instant) {
        self.open = false;
        self.fleet.probed(self.server, well, now);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.open {
            self.fleet.probed(self.server, false, Instant::now());
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// splitmix64: pauses need to differ, not to be secret.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound.max(1)
    }
}

#[cfg(test)]
mod tests;
