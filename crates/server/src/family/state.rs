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

/// A request to a peer. One that ends without a result (it was not sent, or not waited for) shows
/// nothing, and leaves its turn to the next.
pub(crate) struct Turn<'s> {
    state: &'s PeerState,
    /// It shows whether the peer is back: the end of its pause before, and now.
    proves: Option<(Ms, Ms)>,
}

impl Turn<'_> {
    /// The peer answered.
    pub(crate) fn answered(mut self) {
        self.proves = None;
        self.state.failures.store(0, Relaxed);
    }

    /// It did not.
    pub(crate) fn failed(mut self, now: Ms) {
        self.proves = None;
        self.state.failed(now);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some((before, now)) = self.proves {
            // Another result may have come meanwhile: then that counts.
            let _ = self.state.out_until.compare_exchange(now, before, Relaxed, Relaxed);
        }
    }
}

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

    /// Takes the turn of a request to it, where it may have one now. After a pause, one shows
    /// whether it is back.
    pub(crate) fn turn(&self, now: Ms) -> Option<Turn<'_>> {
        let mut turn = Turn { state: self, proves: None };
        if self.failures.load(Relaxed) >= FAILURES {
            let (until, next) = (self.out_until.load(Relaxed), now + PAUSE);
            let taken = || self.out_until.compare_exchange(until, next, Relaxed, Relaxed).is_ok();
            if now < until || !taken() {
                return None;
            }
            turn.proves = Some((until, next));
        }
        Some(turn)
    }

    fn failed(&self, now: Ms) {
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
        assert!(peer.turn(1000).is_some());
        peer.failed(1000);
        assert!(peer.turn(1000).is_none());
        // Requests meanwhile do not make it longer.
        assert!(peer.turn(999 + PAUSE).is_none());
        let turn = peer.turn(1000 + PAUSE).expect("a turn");
        assert!(peer.turn(1000 + PAUSE).is_none(), "one shows whether it is back");
        turn.failed(1500 + PAUSE);
        assert!(peer.turn(1499 + 2 * PAUSE).is_none());
        let turn = peer.turn(1500 + 2 * PAUSE).expect("a turn");
        turn.answered();
        assert!(peer.turn(1501 + 2 * PAUSE).is_some());
        assert_eq!(peer.figures().failures, u64::from(FAILURES) + 1);
    }

    #[test]
    fn a_turn_without_a_result_is_left_to_the_next() {
        let peer = peer();
        (0..FAILURES).for_each(|_| peer.failed(1000));
        let turn = peer.turn(1000 + PAUSE).expect("a turn");
        assert!(peer.turn(1000 + PAUSE).is_none());
        drop(turn);
        let turn = peer.turn(1000 + PAUSE).expect("the same turn");
        // Another request, from before the pause, fails meanwhile.
        peer.failed(2000 + PAUSE);
        drop(turn);
        assert!(peer.turn(1999 + 2 * PAUSE).is_none());
    }
}
