//! Counters by site.

use std::sync::Arc;

use larder_metrics::{Counter, Latencies, Outcome, PerOutcome, Results, Statuses};

use super::{Times, named::Named};

/// The name of requests that reached no site; its index is 0.
const NOWHERE: &str = "-";

/// The counters of one site of one worker.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct SiteCounters {
    results: PerOutcome,
    /// By class; 0: no status.
    status: [Counter; 6],
    bytes_out: Counter,
    /// The time of answers from memory, and of those that were waited for.
    pub(super) times: Times,
}

impl SiteCounters {
    /// Counts a request. `status` 0: it was not answered.
    #[inline]
    pub(crate) fn count(&self, outcome: Outcome, status: u16, bytes: u64) {
        self.results.one(outcome);
        self.status[usize::from(status / 100).min(5)].one();
        self.bytes_out.add(bytes);
    }
}

/// The counters of the sites in a worker's settings, and of earlier settings.
#[derive(Debug, Default)]
pub(crate) struct Sites {
    /// The index of each site of the settings.
    indexes: Vec<u16>,
    /// By index.
    counters: Vec<Arc<SiteCounters>>,
    nowhere: Arc<SiteCounters>,
}

impl Sites {
    /// For settings with sites of these names.
    pub(crate) fn new<'a>(
        known: &Named<SiteCounters>,
        names: impl Iterator<Item = &'a str>,
    ) -> Self {
        let nowhere = known.of(NOWHERE);
        let indexes = names.map(|name| known.index(name) as u16).collect();
        let counters = known.all().into_iter().map(|(_, counters)| counters).collect();
        Self { indexes, counters, nowhere }
    }

    /// The index of a site, given as its number in the settings.
    #[inline]
    pub(crate) fn index(&self, number: usize) -> u16 {
        self.indexes.get(number).copied().unwrap_or(0)
    }

    /// The counters of an index; 0: requests that reached no site.
    #[inline]
    pub(crate) fn at(&self, index: u16) -> &SiteCounters {
        self.counters.get(usize::from(index)).unwrap_or(&self.nowhere)
    }
}

/// The counters of one site, added up over workers.
#[derive(Clone, Debug, Default)]
pub(super) struct SiteSums {
    pub(super) results: Results,
    /// By class; 0: no status.
    status: [u64; 6],
    pub(super) bytes_out: u64,
    pub(super) latency: Latencies,
}

impl SiteSums {
    pub(super) fn add(&mut self, counters: &SiteCounters) {
        self.results.add(&counters.results);
        self.status.iter_mut().zip(&counters.status).for_each(|(sum, one)| *sum += one.get());
        self.bytes_out += counters.bytes_out.get();
        super::add(&mut self.latency, &counters.times);
    }

    pub(super) fn merge(&mut self, other: &SiteSums) {
        self.results.merge(&other.results);
        self.status.iter_mut().zip(&other.status).for_each(|(sum, one)| *sum += one);
        self.bytes_out += other.bytes_out;
        self.latency.hit.merge(&other.latency.hit);
        self.latency.miss.merge(&other.latency.miss);
    }

    pub(super) fn statuses(&self) -> Statuses {
        let [none, informational, successful, redirection, client_error, server_error] =
            self.status;
        Statuses { informational, successful, redirection, client_error, server_error, none }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::named::{NAMES, OTHER};

    #[test]
    fn names_keep_their_indexes_and_are_bounded() {
        let known = Named::<SiteCounters>::default();
        let first = Sites::new(&known, ["a", "b"].into_iter());
        first.at(first.index(0)).count(Outcome::Hit, 200, 10);
        first.at(first.index(9)).count(Outcome::Refused, 421, 10);
        let second = Sites::new(&known, ["b", "c", "a"].into_iter());
        assert_eq!((second.index(0), second.index(2)), (first.index(1), first.index(0)));
        second.at(second.index(2)).count(Outcome::Stale, 200, 10);
        // An index of newer settings is not another's in older ones.
        first.at(second.index(1)).count(Outcome::Hit, 200, 10);
        let all = known.all();
        let sums = |at: usize| {
            let mut sums = SiteSums::default();
            sums.add(&all[at].1);
            (&*all[at].0, sums.results.total(), sums.bytes_out)
        };
        assert_eq!(
            [sums(0), sums(1), sums(2), sums(3)],
            [("-", 2, 20), ("a", 2, 20), ("b", 0, 0), ("c", 0, 0)]
        );
        let many: Vec<String> = (0..1000).map(|n| format!("site{n}")).collect();
        let many = Sites::new(&known, many.iter().map(String::as_str));
        assert_eq!((known.all().len(), known.all()[NAMES].0.as_ref()), (NAMES + 1, OTHER));
        assert_eq!(many.index(999), NAMES as u16);
    }
}
