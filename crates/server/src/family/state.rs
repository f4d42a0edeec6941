//! The state of a peer: whether it answers, and its figures.

use std::{
    net::UdpSocket,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};

use larder_metrics::{FamilyAsked, FamilyPeer, Histogram, Recorder};
use parking_lot::Mutex;

use crate::{
    clock::{Clock, Ms},
    settings::PeerSettings,
};

/// Failed requests in a row after which a peer is not asked by HTTP for [`PAUSE`].
const FAILURES: u32 = 3;
/// Milliseconds without requests after these failures; one request then shows whether it is back.
const PAUSE: u64 = 10_000;

/// A counter of all threads: queries and their answers are rare beside hits.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn one(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// One peer, as all workers see it.
pub(crate) struct PeerState {
    pub(crate) settings: Arc<PeerSettings>,
    pub(crate) clock: Clock,
    /// Queries in a row that nobody answered.
    silent: AtomicU32,
    /// Failed requests in a row.
    failures: AtomicU32,
    /// Milliseconds until which it gets no requests.
    out_until: AtomicU64,
    /// The socket for purges, once there was one.
    pub(super) clears: Mutex<Option<UdpSocket>>,
    pub(crate) counts: Counts,
    latency: Mutex<Recorder>,
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) queries: Count,
    pub(crate) hits: Count,
    pub(crate) misses: Count,
    pub(crate) unanswered: Count,
    pub(crate) refusals: Count,
    pub(crate) fetches: Count,
    pub(crate) false_hits: Count,
    pub(crate) failures: Count,
    pub(crate) clears: Count,
}

impl PeerState {
    pub(super) fn new(settings: Arc<PeerSettings>, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            settings,
            clock,
            silent: AtomicU32::new(0),
            failures: AtomicU32::new(0),
            out_until: AtomicU64::new(0),
            clears: Mutex::new(None),
            counts: Counts::default(),
            latency: Mutex::default(),
        })
    }

    /// Whether answers to queries are worth waiting for.
    pub(crate) fn is_alive(&self) -> bool {
        self.silent.load(Relaxed) < self.settings.dead_after
    }

    /// Something came from the peer. `micros`: after its query.
    pub(super) fn answered(&self, micros: Option<u64>) {
        let silent = self.silent.swap(0, Relaxed);
        if silent >= self.settings.dead_after {
            eprintln!("larder: the peer {} answers again", self.settings.name);
        }
        if let Some(micros) = micros {
            self.latency.lock().record(micros);
        }
    }

    /// Nothing came within the time.
    pub(crate) fn silent(&self) {
        self.counts.unanswered.one();
        // Once it is dead it stays so until it answers, however many queries there are.
        let most = self.settings.dead_after;
        let before = self.silent.fetch_update(Relaxed, Relaxed, |n| (n < most).then_some(n + 1));
        if before == Ok(most - 1) {
            let name = &self.settings.name;
            eprintln!(
                "larder: the peer {name} did not answer {most} queries: it is not waited for"
            );
        }
    }

    /// Whether it may be sent a request now. After a pause, one.
    pub(crate) fn may_fetch(&self, now: Ms) -> bool {
        if self.failures.load(Relaxed) < FAILURES {
            return true;
        }
        let until = self.out_until.load(Relaxed);
        let next = || self.out_until.compare_exchange(until, now + PAUSE, Relaxed, Relaxed);
        now >= until && next().is_ok()
    }

    /// It answered a request.
    pub(crate) fn fetched(&self) {
        self.failures.store(0, Relaxed);
    }

    /// It did not.
    pub(crate) fn failed(&self, now: Ms) {
        self.counts.failures.one();
        if self.failures.fetch_add(1, Relaxed) + 1 >= FAILURES {
            self.failures.store(FAILURES, Relaxed);
            self.out_until.store(now + PAUSE, Relaxed);
        }
    }

    pub(super) fn figures(&self) -> FamilyPeer {
        let counts = &self.counts;
        let latency = self.latency.lock();
        FamilyPeer {
            name: self.settings.name.clone(),
            role: self.settings.role.as_str().to_owned(),
            latency: Histogram::of([&*latency].into_iter()),
            up: u64::from(self.is_alive() && self.failures.load(Relaxed) < FAILURES),
            queries: counts.queries.get(),
            hits: counts.hits.get(),
            misses: counts.misses.get(),
            unanswered: counts.unanswered.get(),
            refusals: counts.refusals.get(),
            fetches: counts.fetches.get(),
            false_hits: counts.false_hits.get(),
            failures: counts.failures.get(),
            clears: counts.clears.get(),
        }
    }
}

/// Counts of a protocol by which others ask.
#[derive(Default)]
pub(crate) struct AskedCounts {
    pub(crate) queries: Count,
    pub(crate) hits: Count,
    pub(crate) clears: Count,
    pub(crate) denied: Count,
    pub(crate) invalid: Count,
}

impl AskedCounts {
    pub(super) fn figures(&self, name: &str) -> FamilyAsked {
        FamilyAsked {
            name: name.to_owned(),
            queries: self.queries.get(),
            hits: self.hits.get(),
            clears: self.clears.get(),
            denied: self.denied.get(),
            invalid: self.invalid.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::settings::{OriginGroup, OriginSettings, PeerRole, PeerSelect};

    fn peer() -> Arc<PeerState> {
        let settings = PeerSettings {
            name: "one".to_owned(),
            group: Arc::new(OriginGroup::single(Arc::new(OriginSettings::default()))),
            role: PeerRole::Parent,
            select: PeerSelect::Htcp,
            weight: 1,
            sites: Vec::new(),
            queries: None,
            query_timeout: Duration::from_millis(100),
            dead_after: 2,
            clears: None,
            key: None,
        };
        PeerState::new(Arc::new(settings), Clock::start())
    }

    #[test]
    fn a_peer_that_is_silent_is_dead_until_it_answers() {
        let peer = peer();
        peer.silent();
        assert!(peer.is_alive());
        peer.answered(Some(3));
        peer.silent();
        assert!(peer.is_alive(), "silences are counted in a row");
        peer.silent();
        peer.silent();
        assert!(!peer.is_alive());
        assert_eq!(peer.figures().up, 0);
        // An answer without a query under way: a late one.
        peer.answered(None);
        assert!(peer.is_alive());
        assert_eq!((peer.figures().up, peer.figures().unanswered), (1, 4));
    }

    #[test]
    fn a_peer_that_fails_has_a_pause_and_then_one_request() {
        let peer = peer();
        (1..FAILURES).for_each(|_| peer.failed(1000));
        assert!(peer.may_fetch(1000));
        peer.failed(1000);
        assert!(!peer.may_fetch(1000));
        // Requests meanwhile do not make it longer.
        assert!(!peer.may_fetch(999 + PAUSE));
        assert!(peer.may_fetch(1000 + PAUSE));
        assert!(!peer.may_fetch(1000 + PAUSE), "one shows whether it is back");
        peer.failed(1500 + PAUSE);
        assert!(!peer.may_fetch(1499 + 2 * PAUSE));
        assert!(peer.may_fetch(1500 + 2 * PAUSE));
        peer.fetched();
        assert!(peer.may_fetch(1501 + 2 * PAUSE));
        assert_eq!(peer.figures().failures, u64::from(FAILURES) + 1);
    }
}
