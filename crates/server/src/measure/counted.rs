//! What a worker counts of HTTP: by result and status of each site, by reason, by origin.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicU32, atomic::Ordering::Relaxed},
};

use larder_proto::rules::Forward;
use parking_lot::Mutex;

use super::{
    Histogram, Merged, Results, Statuses,
    hot::{EVERY, Hot},
};
use crate::counters::Counter;

/// Sites and origins counted by name, per worker, over the life of the process; those a reload brings beyond that are
/// counted together, as [`OTHER`].
const NAMES: usize = 256;
/// The name of what is beyond [`NAMES`].
const OTHER: &str = "other";
/// The name of requests that reached no site; its place is 0.
const NOWHERE: &str = "-";

/// What is counted by name. Names are only ever added, so that a place stays whose it is, whatever a reload brings. Looked
/// at when settings are taken and when figures are read, not for a request.
#[derive(Debug)]
pub(crate) struct Named<T>(Mutex<Vec<(Box<str>, Arc<T>)>>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Default> Named<T> {
    /// The place of a name, which is made when it is new.
    fn place(&self, name: &str) -> usize {
        let mut all = self.0.lock();
        let find =
            |all: &[(Box<str>, Arc<T>)], name: &str| all.iter().position(|(known, _)| **known == *name);
        if let Some(at) = find(&all, name) {
            return at;
        }
        let name = if all.len() < NAMES { name } else { OTHER };
        find(&all, name).unwrap_or_else(|| {
            all.push((name.into(), Arc::default()));
            all.len() - 1
        })
    }

    /// The counters of a name.
    pub(crate) fn of(&self, name: &str) -> Arc<T> {
        let at = self.place(name);
        self.0.lock()[at].1.clone()
    }

    /// All there are, in the order of their places.
    pub(super) fn all(&self) -> Vec<(Box<str>, Arc<T>)> {
        self.0.lock().clone()
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Outcome {
    Hit,
    Stale,
    Refresh,
    Coalesced,
    Miss,
    Pass,
    HitForMiss,
    Error,
    Purge,
    Denied,
    Refused,
    /// Could not be read; among [`Results::refused`].
    Rejected,
    Tunnel,
    Aborted,
}

const OUTCOMES: usize = Outcome::Aborted as usize + 1;

impl Outcome {
    /// Every one of them.
    pub(crate) const ALL: [Outcome; OUTCOMES] = [
        Outcome::Hit,
        Outcome::Stale,
        Outcome::Refresh,
        Outcome::Coalesced,
        Outcome::Miss,
        Outcome::Pass,
        Outcome::HitForMiss,
        Outcome::Error,
        Outcome::Purge,
        Outcome::Denied,
        Outcome::Refused,
        Outcome::Rejected,
        Outcome::Tunnel,
        Outcome::Aborted,
    ];

    /// Answers of these are timed.
    fn timed(self) -> bool {
        (self as u8) <= Outcome::Error as u8
    }
}

/// What one worker counts of one site.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct SiteCounters {
    results: [Counter; OUTCOMES],
    /// By class; 0: there was none.
    status: [Counter; 6],
    bytes_out: Counter,
    /// How long answers from memory took, and those that were waited for.
    times: [Histogram; 2],
}

impl Default for SiteCounters {
    fn default() -> Self {
        Self {
            results: std::array::from_fn(|_| Counter::default()),
            status: std::array::from_fn(|_| Counter::default()),
            bytes_out: Counter::default(),
            times: Default::default(),
        }
    }
}

impl SiteCounters {
    /// Counts a request. `status` 0: it was not answered.
    #[inline]
    pub(crate) fn count(&self, outcome: Outcome, status: u16, bytes: u64) {
        self.results[outcome as usize].one();
        self.status[usize::from(status / 100).min(5)].one();
        self.bytes_out.add(bytes);
    }
}

/// The sites as a worker's settings have them, beside those counted before.
#[derive(Debug, Default)]
pub(crate) struct Sites {
    /// The place of each site of the settings.
    places: Vec<u16>,
    /// By place.
    counters: Vec<Arc<SiteCounters>>,
    nowhere: Arc<SiteCounters>,
}

impl Sites {
    /// For settings with sites of these names.
    pub(crate) fn new<'a>(known: &Named<SiteCounters>, names: impl Iterator<Item = &'a str>) -> Self {
        let nowhere = known.of(NOWHERE);
        let places = names.map(|name| known.place(name) as u16).collect();
        let counters = known.all().into_iter().map(|(_, counters)| counters).collect();
        Self { places, counters, nowhere }
    }

    /// The place of a site, given as its number in the settings.
    #[inline]
    pub(crate) fn place(&self, number: usize) -> u16 {
        self.places.get(number).copied().unwrap_or(0)
    }

    /// The counters of a place; 0: requests that reached no site.
    #[inline]
    pub(crate) fn at(&self, place: u16) -> &SiteCounters {
        self.counters.get(usize::from(place)).unwrap_or(&self.nowhere)
    }
}

/// Requests that memory could not answer, by reason (RFC 9211 section 2.2).
#[derive(Debug, Default)]
pub(crate) struct Forwards([Counter; FORWARDS.len()]);

const FORWARDS: [Forward; 8] = [
    Forward::Bypass,
    Forward::Method,
    Forward::UriMiss,
    Forward::VaryMiss,
    Forward::Miss,
    Forward::Request,
    Forward::Stale,
    Forward::Partial,
];

impl Forwards {
    pub(crate) fn one(&self, why: Forward) {
        if let Some(at) = FORWARDS.iter().position(|one| *one == why) {
            self.0[at].one();
        }
    }

    pub(super) fn add_to(&self, sums: &mut BTreeMap<&'static str, u64>) {
        for (why, count) in FORWARDS.iter().zip(&self.0) {
            *sums.entry(why.as_str()).or_default() += count.get();
        }
    }
}

/// Responses that were not stored, by reason: words of the code, so there are few. Off the hit path.
#[derive(Debug, Default)]
pub(crate) struct NotStored(Mutex<BTreeMap<&'static str, u64>>);

impl NotStored {
    pub(crate) fn one(&self, why: &'static str) {
        *self.0.lock().entry(why).or_default() += 1;
    }

    pub(super) fn add_to(&self, sums: &mut BTreeMap<&'static str, u64>) {
        for (why, count) in self.0.lock().iter() {
            *sums.entry(why).or_default() += count;
        }
    }
}

/// Whether and which requests of a worker are looked at for the hottest URLs.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    hot: Option<Box<Hot>>,
    /// Answers from memory until the next one that is looked at.
    left: AtomicU32,
}

impl Watched {
    /// Watches.
    pub(crate) fn on() -> Self {
        Self { hot: Some(Box::default()), left: AtomicU32::new(0) }
    }

    /// Whether this request is to be looked at, and for how many it counts. Only the owning worker may ask.
    #[inline]
    pub(crate) fn due(&self, hit: bool) -> Option<(&Hot, u64)> {
        let hot = self.hot.as_deref()?;
        if !hit {
            return Some((hot, 1));
        }
        let left = self.left.load(Relaxed);
        if left > 0 {
            self.left.store(left - 1, Relaxed);
            return None;
        }
        self.left.store(EVERY - 1, Relaxed);
        Some((hot, u64::from(EVERY)))
    }

    pub(super) fn hot(&self) -> Option<&Hot> {
        self.hot.as_deref()
    }
}

/// Answers of a batch beyond the first for which a connection keeps room while it is idle.
const KEPT: usize = 16;

/// Answers on their way out whose time is still to be taken: one reading of the clock serves a batch.
#[derive(Debug, Default)]
pub(crate) struct Timing {
    first: Option<Timed>,
    more: Vec<Timed>,
}

/// One answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    /// When its request was taken up, in microseconds of the worker's clock.
    since: u64,
    place: u16,
    waited: bool,
}

impl Timed {
    /// None: this outcome is not timed. `waited`: the origin was asked, or somebody else's asking was waited for.
    #[inline]
    pub(crate) fn of(outcome: Outcome, since: u64, place: u16, waited: bool) -> Option<Timed> {
        outcome.timed().then_some(Timed { since, place, waited })
    }
}

impl Timing {
    /// An answer was composed. As many as a batch has.
    #[inline]
    pub(crate) fn push(&mut self, timed: Timed) {
        match self.first {
            None => self.first = Some(timed),
            Some(_) => self.more.push(timed),
        }
    }

    /// All of them are out.
    #[inline]
    pub(crate) fn settle(&mut self, sites: &Sites, now: u64) {
        for timed in self.first.take().into_iter().chain(self.more.drain(..)) {
            let times = &sites.at(timed.place).times;
            times[usize::from(timed.waited)].record(now.saturating_sub(timed.since));
        }
        if self.more.capacity() > KEPT {
            self.more = Vec::new();
        }
    }
}

/// Several workers' counters of one site, added up.
#[derive(Clone, Debug, Default)]
pub(super) struct SiteSums {
    results: [u64; OUTCOMES],
    status: [u64; 6],
    pub(super) bytes_out: u64,
    pub(super) hit: Merged,
    pub(super) miss: Merged,
}

impl SiteSums {
    pub(super) fn add(&mut self, counters: &SiteCounters) {
        self.results.iter_mut().zip(&counters.results).for_each(|(sum, one)| *sum += one.get());
        self.status.iter_mut().zip(&counters.status).for_each(|(sum, one)| *sum += one.get());
        self.bytes_out += counters.bytes_out.get();
        self.hit.add(&counters.times[0]);
        self.miss.add(&counters.times[1]);
    }

    pub(super) fn add_sums(&mut self, other: &SiteSums) {
        self.results.iter_mut().zip(&other.results).for_each(|(sum, one)| *sum += one);
        self.status.iter_mut().zip(&other.status).for_each(|(sum, one)| *sum += one);
        self.bytes_out += other.bytes_out;
        self.hit.add_merged(&other.hit);
        self.miss.add_merged(&other.miss);
    }

    pub(super) fn of(&self, outcome: Outcome) -> u64 {
        self.results[outcome as usize]
    }

    pub(super) fn requests(&self) -> u64 {
        self.results.iter().sum()
    }

    pub(super) fn results(&self) -> Results {
        Results {
            hit: self.of(Outcome::Hit),
            miss: self.of(Outcome::Miss),
            stale: self.of(Outcome::Stale),
            refresh: self.of(Outcome::Refresh),
            pass: self.of(Outcome::Pass),
            hit_for_miss: self.of(Outcome::HitForMiss),
            coalesced: self.of(Outcome::Coalesced),
            error: self.of(Outcome::Error),
            purge: self.of(Outcome::Purge),
            denied: self.of(Outcome::Denied),
            refused: self.of(Outcome::Refused) + self.of(Outcome::Rejected),
            tunnel: self.of(Outcome::Tunnel),
            aborted: self.of(Outcome::Aborted),
        }
    }

    pub(super) fn status(&self) -> Statuses {
        let [none, informational, successful, redirection, client_error, server_error] = self.status;
        Statuses { informational, successful, redirection, client_error, server_error, none }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_places_and_are_bounded() {
        let known = Named::<SiteCounters>::default();
        let first = Sites::new(&known, ["a", "b"].into_iter());
        first.at(first.place(0)).count(Outcome::Hit, 200, 10);
        first.at(first.place(9)).count(Outcome::Refused, 421, 10);
        let second = Sites::new(&known, ["b", "c", "a"].into_iter());
        assert_eq!((second.place(0), second.place(2)), (first.place(1), first.place(0)));
        second.at(second.place(2)).count(Outcome::Stale, 200, 10);
        // A place of newer settings is not another's in older ones.
        first.at(second.place(1)).count(Outcome::Hit, 200, 10);
        let all = known.all();
        let sums = |at: usize| {
            let mut sums = SiteSums::default();
            sums.add(&all[at].1);
            (&*all[at].0, sums.requests(), sums.bytes_out)
        };
        assert_eq!(
            [sums(0), sums(1), sums(2), sums(3)],
            [("-", 2, 20), ("a", 2, 20), ("b", 0, 0), ("c", 0, 0)]
        );
        let many: Vec<String> = (0..1000).map(|n| format!("site{n}")).collect();
        let many = Sites::new(&known, many.iter().map(String::as_str));
        assert_eq!((known.all().len(), known.all()[NAMES].0.as_ref()), (NAMES + 1, OTHER));
        assert_eq!(many.place(999), NAMES as u16);
    }

    #[test]
    fn a_batch_is_timed_by_one_reading() {
        let known = Named::default();
        let sites = Sites::new(&known, ["a"].into_iter());
        let mut timing = Timing::default();
        for (outcome, since, waited) in
            [(Outcome::Hit, 100, false), (Outcome::Stale, 150, false), (Outcome::Coalesced, 90, true)]
        {
            timing.push(Timed::of(outcome, since, 1, waited).expect("timed"));
        }
        assert!(
            Timed::of(Outcome::Tunnel, 0, 1, true).is_none()
                && Timed::of(Outcome::Purge, 0, 1, false).is_none()
        );
        timing.settle(&sites, 200);
        assert!(timing.first.is_none());
        let mut sums = SiteSums::default();
        sums.add(&known.of("a"));
        assert_eq!((sums.hit.count(), sums.hit.sum, sums.miss.count(), sums.miss.sum), (2, 150, 1, 110));
    }

    #[test]
    fn one_hit_in_many_is_looked_at_and_every_miss() {
        assert!(Watched::default().due(false).is_none());
        let watched = Watched::on();
        let hits = (0..EVERY * 10).filter(|_| watched.due(true).is_some()).count();
        assert_eq!(hits, 10);
        assert_eq!(watched.due(false).map(|(_, weight)| weight), Some(1));
    }
}
