//! Which purges of other Larders the disk has carried out, across restarts. Without this a start
//! would carry out all of the fleet's journal again, on pages that are newer than its purges; and
//! everything would be purged, as the oldest of the journal is no longer there.

use std::collections::HashMap;

use larder_disk::Purge;
use parking_lot::Mutex;

use super::Tier;
use crate::clock::Ms;

/// Kind of the record in the disk's journal: authors, and for each the number up to which all its
/// purges are carried out.
pub(super) const FLEET: u8 = 6;
/// Time between two records, at least.
const PAUSE: Ms = 60_000;
/// Time after which one is written that says nothing new: the journal forgets old ones.
const AGAIN: Ms = 3_600_000;

#[derive(Default)]
struct State {
    /// As the start found it.
    found: HashMap<u64, u64>,
    /// As it was written last, and when.
    noted: Vec<(u64, u64)>,
    at: Ms,
}

/// See the module.
#[derive(Default)]
pub(super) struct Executed(Mutex<State>);

impl Executed {
    /// A record of an earlier run.
    pub(super) fn found(&self, purge: &Purge) {
        let found = &mut self.0.lock().found;
        for (author, number) in pairs(&purge.what) {
            let known = found.entry(author).or_default();
            *known = number.max(*known);
        }
    }

    fn has(&self, author: u64, number: u64) -> bool {
        self.0.lock().found.get(&author).is_some_and(|known| *known >= number)
    }

    /// The record to be written now, if it is time.
    fn record(&self, all: Vec<(u64, u64)>, now: Ms) -> Option<Vec<u8>> {
        let mut state = self.0.lock();
        let pause = if all == state.noted { AGAIN } else { PAUSE };
        if all.is_empty() || now < state.at.saturating_add(pause) {
            return None;
        }
        let what = all.iter().flat_map(|(author, number)| [*author, *number]);
        let what = what.flat_map(u64::to_le_bytes).collect();
        (state.noted, state.at) = (all, now);
        Some(what)
    }
}

fn pairs(what: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    let word = |bytes: &[u8]| bytes.first_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word));
    what.chunks_exact(16).map(move |pair| (word(pair), word(&pair[8..])))
}

impl Tier {
    /// Whether an earlier run carried this purge out: nothing on the disk is from before it.
    pub(crate) fn has_executed(&self, (author, number): (u64, u64)) -> bool {
        self.executed.has(author, number)
    }

    /// Notes what is carried out: for each author, the number up to which all are, here and in the
    /// disk's journal. To be called after each round.
    pub(crate) fn note_executed(&self, all: Vec<(u64, u64)>) {
        if let Some(disk) = self.disk()
            && let Some(what) = self.executed.record(all, self.clock.now())
        {
            disk.purge(FLEET, &what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_carried_out_is_known_after_a_start() {
        let (before, after) = (Executed::default(), Executed::default());
        let what = before.record(vec![(7, 3), (9, 1)], PAUSE).expect("a record");
        assert_eq!(before.record(vec![(7, 4)], PAUSE + 1), None, "too soon");
        assert_eq!(before.record(vec![(7, 3), (9, 1)], 2 * PAUSE), None, "nothing new");
        after.found(&Purge { number: 1, kind: FLEET, what });
        let older = before.record(vec![(7, 2)], 3 * PAUSE).expect("a record");
        after.found(&Purge { number: 2, kind: FLEET, what: older });
        assert!(after.has(7, 3) && after.has(7, 1) && after.has(9, 1));
        assert!(!after.has(7, 4) && !after.has(8, 1));
    }
}
