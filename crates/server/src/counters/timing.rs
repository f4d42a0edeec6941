//! The time of answers.

use larder_metrics::{Outcome, Recorder};

use super::Sites;

/// Answers of a batch beyond the first for which an idle connection keeps memory.
const KEPT: usize = 16;

/// The times of answers: those from memory; those for which the origin was asked or waited for.
pub(crate) type Times = [Recorder; 2];

/// Composed answers whose time is recorded when they are sent: one reading of the clock serves a
/// batch.
#[derive(Debug, Default)]
pub(crate) struct Timing {
    first: Option<Timed>,
    more: Vec<Timed>,
}

/// One answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    /// The start of its request, in microseconds of the worker's clock.
    since: u64,
    /// The index of its site.
    site: u16,
    waited: bool,
}

impl Timed {
    /// None: this outcome is not timed. `waited`: the origin was asked, or a request to it was
    /// waited for.
    #[inline]
    pub(crate) fn of(outcome: Outcome, since: u64, site: u16, waited: bool) -> Option<Timed> {
        outcome.timed().then_some(Timed { since, site, waited })
    }
}

impl Timing {
    /// Adds a composed answer, if its time is to be taken.
    #[inline]
    pub(crate) fn push(&mut self, timed: Option<Timed>) {
        match self.first {
            None => self.first = timed,
            Some(_) => self.more.extend(timed),
        }
    }

    /// Records the time of all of them: they are sent. `protocol`: the times of theirs.
    #[inline]
    pub(crate) fn settle(&mut self, sites: &Sites, protocol: Option<&Times>, now: u64) {
        for timed in self.first.take().into_iter().chain(self.more.drain(..)) {
            let (from, time) = (usize::from(timed.waited), now.saturating_sub(timed.since));
            sites.at(timed.site).times[from].record(time);
            if let Some(times) = protocol {
                times[from].record(time);
            }
        }
        if self.more.capacity() > KEPT {
            self.more = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use larder_metrics::Histogram;

    use super::*;
    use crate::counters::{named::Named, sites::SiteSums};

    #[test]
    fn a_batch_is_timed_by_one_reading() {
        let known = Named::default();
        let sites = Sites::new(&known, ["a"].into_iter());
        let mut timing = Timing::default();
        for (outcome, since, waited) in [
            (Outcome::Hit, 100, false),
            (Outcome::Stale, 150, false),
            (Outcome::Coalesced, 90, true),
        ] {
            timing.push(Timed::of(outcome, since, 1, waited));
        }
        assert!(
            Timed::of(Outcome::Tunnel, 0, 1, true).is_none()
                && Timed::of(Outcome::Purge, 0, 1, false).is_none()
        );
        let protocol = Times::default();
        timing.settle(&sites, Some(&protocol), 200);
        assert!(timing.first.is_none());
        let mut sums = SiteSums::default();
        sums.add(&known.of("a"));
        assert_eq!(
            (
                sums.latency.hit.count(),
                sums.latency.hit.sum,
                sums.latency.miss.count(),
                sums.latency.miss.sum
            ),
            (2, 150, 1, 110)
        );
        let of = |times: &Recorder| Histogram::of([times].into_iter()).count();
        assert_eq!([of(&protocol[0]), of(&protocol[1])], [2, 1]);
    }
}
