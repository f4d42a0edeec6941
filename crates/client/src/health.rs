//! Health of the servers, shared by all clients that are given the same [`Health`].
//!
//! | state | begins | ends |
//! |---|---|---|
//! |up | initially; a probe succeeded | [`Failure::limit`] consecutive failures |
//! |down | failures; a failed probe | its pause has passed and a key of it is requested |
//! |probing | one request takes the ticket | the probe ends; a dropped ticket is a failed probe |
//!
//! While a server is up, checking it costs one load of a byte that is not written. Pauses double
//! from [`Failure::retry_min`] to [`Failure::retry_max`], each shortened by up to a quarter at
//! random. A server that comes back keeps its pause until it has been up for [`Failure::calm`], so
//! a flapping server is probed less and less often.
//!
//! A spare replaces the lowest server that needs one; it replaces one server at a time.

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

/// Health of servers as known to the clients of one process. Cheap to clone; clones share their
/// state.
///
/// Clients with the same servers and spares in the same order share their knowledge; others are
/// separate.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Mutex<Vec<Weak<Fleet>>>>);

impl Health {
    /// All servers are up.
    pub fn new() -> Health {
        Health::default()
    }

    /// The servers and spares of one configuration. The first client's `failure` applies to all.
    pub(crate) fn fleet(
        &self,
        servers: &[Address],
        spares: &[Address],
        failure: &Failure,
    ) -> Arc<Fleet> {
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

/// The servers and spares of one configuration, with their health.
#[derive(Debug)]
pub(crate) struct Fleet {
    addresses: Vec<Address>,
    /// Number of servers, without the spares.
    count: usize,
    failure: Failure,
    health: Vec<ServerHealth>,
    /// For each server, the index of the server that serves its keys: itself or a spare.
    holders: Vec<AtomicUsize>,
    /// Locked while states change ([`ServerHealth::until`] and the rest), never across an await.
    changes: Mutex<Random>,
    /// Number of state changes so far: users who cache something derived from the states compare
    /// it.
    epoch: AtomicU64,
    /// Number of servers whose keys are not served, neither by themselves nor by a spare.
    unserved: AtomicUsize,
    began: Instant,
}

/// Health of one server. The fields that requests read are written only when the state changes.
#[derive(Debug, Default)]
struct ServerHealth {
    state: AtomicU8,
    /// Consecutive failures.
    failures: AtomicU32,
    /// Earliest time of the next probe, in microseconds since `began`.
    until: AtomicU64,
    /// Current pause between probes, in microseconds.
    pause: AtomicU64,
    /// Last time it came up after being down, in microseconds since `began`.
    up_since: AtomicU64,
    ejections: AtomicU64,
    probes: AtomicU64,
}

/// Where the keys of one slot go.
#[derive(Debug, Default)]
pub(crate) struct Route {
    /// The server that serves them, if one is up.
    pub(crate) server: Option<usize>,
    /// Probes that are due: the holder of a ticket probes that server, independent of the request.
    pub(crate) probes: Vec<ProbeTicket>,
}

impl Fleet {
    fn new(servers: &[Address], spares: &[Address], failure: Failure) -> Fleet {
        let addresses: Vec<Address> = servers.iter().chain(spares).cloned().collect();
        Fleet {
            count: servers.len(),
            failure,
            health: addresses.iter().map(|_| ServerHealth::default()).collect(),
            holders: (0..servers.len()).map(AtomicUsize::new).collect(),
            changes: Mutex::new(Random(RandomState::new().hash_one(&addresses))),
            addresses,
            epoch: AtomicU64::new(0),
            unserved: AtomicUsize::new(0),
            began: Instant::now(),
        }
    }

    /// Whether the server serves its own keys; nearly always true.
    pub(crate) fn is_up(&self, server: usize) -> bool {
        self.health[server].state.load(Relaxed) == UP
    }

    /// The server that serves the keys of `slot` now, and the probes that are due.
    pub(crate) fn route(self: &Arc<Self>, slot: usize, now: Instant) -> Route {
        if self.is_up(slot) {
            return Route { server: Some(slot), probes: Vec::new() };
        }
        let mut route = Route { server: None, probes: self.probe(slot, now).into_iter().collect() };
        let holder = self.holders[slot].load(Relaxed);
        if holder != slot && self.is_up(holder) {
            route.server = Some(holder);
        } else {
            let spares = self.count..self.health.len();
            route.probes.extend(spares.filter_map(|spare| self.probe(spare, now)));
        }
        route
    }

    /// A ticket to probe a down server, if a probe is due and not already taken.
    fn probe(self: &Arc<Self>, server: usize, now: Instant) -> Option<ProbeTicket> {
        let health = &self.health[server];
        if health.state.load(Relaxed) != DOWN || self.micros(now) < health.until.load(Relaxed) {
            return None;
        }
        let _changes = self.lock();
        if health.state.load(Relaxed) != DOWN || self.micros(now) < health.until.load(Relaxed) {
            return None;
        }
        health.state.store(PROBING, Relaxed);
        health.probes.fetch_add(1, Relaxed);
        Some(ProbeTicket { fleet: self.clone(), server, open: true })
    }

    /// Counts a failed connection or a timeout. Ignored unless the server is up.
    pub(crate) fn failed(&self, server: usize, now: Instant) {
        let health = &self.health[server];
        let mut random = self.lock();
        if health.state.load(Relaxed) != UP {
            return;
        }
        let failures = health.failures.load(Relaxed).saturating_add(1);
        health.failures.store(failures, Relaxed);
        if failures < self.failure.limit {
            return;
        }
        let was = Duration::from_micros(health.pause.load(Relaxed));
        let up_since = health.up_since.load(Relaxed);
        let calm =
            was.is_zero() || self.micros(now).saturating_sub(up_since) >= micros(self.failure.calm);
        let pause = if calm { self.failure.retry_min } else { self.longer(was) };
        health.ejections.fetch_add(1, Relaxed);
        self.pause(server, pause, now, &mut random);
        self.assign();
    }

    /// Counts an answer. Writes only if failures were counted before.
    pub(crate) fn succeeded(&self, server: usize) {
        let failures = &self.health[server].failures;
        if failures.load(Relaxed) != 0 {
            failures.store(0, Relaxed);
        }
    }

    fn probed(&self, server: usize, well: bool, now: Instant) {
        let health = &self.health[server];
        let mut random = self.lock();
        if well {
            health.failures.store(0, Relaxed);
            health.up_since.store(self.micros(now), Relaxed);
            health.state.store(UP, Relaxed);
        } else {
            let pause = self.longer(Duration::from_micros(health.pause.load(Relaxed)));
            self.pause(server, pause, now, &mut random);
        }
        self.assign();
    }

    fn longer(&self, pause: Duration) -> Duration {
        pause.saturating_mul(2).clamp(self.failure.retry_min, self.failure.retry_max)
    }

    fn pause(&self, server: usize, pause: Duration, now: Instant, random: &mut Random) {
        let health = &self.health[server];
        let whole = micros(pause);
        let until = self.micros(now).saturating_add(whole - random.below(whole / 4 + 1));
        health.pause.store(whole, Relaxed);
        health.until.store(until, Relaxed);
        health.state.store(DOWN, Relaxed);
    }

    /// Assigns spares to servers that need one. Called with the lock held.
    fn assign(&self) {
        let holder = |slot: usize| self.holders[slot].load(Relaxed);
        (0..self.count)
            .filter(|slot| self.is_up(*slot))
            .for_each(|slot| self.holders[slot].store(slot, Relaxed));
        let taken: HashSet<usize> = (0..self.count).map(holder).collect();
        let mut free =
            (self.count..self.health.len()).filter(|at| self.is_up(*at) && !taken.contains(at));
        for slot in (0..self.count).filter(|slot| !self.serves(*slot)) {
            self.holders[slot].store(free.next().unwrap_or(slot), Relaxed);
        }
        let unserved = (0..self.count).filter(|slot| !self.serves(*slot)).count();
        self.unserved.store(unserved, Relaxed);
        // Written after the states, so that readers of the new epoch see them.
        self.epoch.fetch_add(1, Release);
    }

    /// Whether the server or its spare is up.
    pub(crate) fn serves(&self, slot: usize) -> bool {
        self.is_up(slot) || self.is_up(self.holders[slot].load(Relaxed))
    }

    /// Number of servers whose keys are not served.
    pub(crate) fn unserved(&self) -> usize {
        self.unserved.load(Relaxed)
    }

    /// Number of state changes so far.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Acquire)
    }

    /// The figures behind [`State`](crate::State): up, probing, replaced by a spare.
    pub(crate) fn snapshot(&self, server: usize) -> HealthSnapshot {
        let health = &self.health[server];
        let state = health.state.load(Relaxed);
        HealthSnapshot {
            up: state == UP,
            probing: state == PROBING,
            replaced: server < self.count && self.holders[server].load(Relaxed) != server,
            ejections: health.ejections.load(Relaxed),
            probes: health.probes.load(Relaxed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Random> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn micros(&self, now: Instant) -> u64 {
        micros(now.saturating_duration_since(self.began))
    }
}

/// State and counters of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HealthSnapshot {
    pub(crate) up: bool,
    pub(crate) probing: bool,
    pub(crate) replaced: bool,
    pub(crate) ejections: u64,
    pub(crate) probes: u64,
}

/// The right and the duty to probe one server. Dropping it without [`ProbeTicket::end`] counts as a
/// failed probe.
#[derive(Debug)]
pub(crate) struct ProbeTicket {
    fleet: Arc<Fleet>,
    server: usize,
    open: bool,
}

impl ProbeTicket {
    /// Index of the server to probe.
    pub(crate) fn server(&self) -> usize {
        self.server
    }

    /// Ends the probe with its result.
    pub(crate) fn end(mut self, well: bool, now: Instant) {
        self.open = false;
        self.fleet.probed(self.server, well, now);
    }
}

impl Drop for ProbeTicket {
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
