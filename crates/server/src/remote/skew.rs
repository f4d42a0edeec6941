//! Clocks of several machines.
//!
//! A page's age is counted from when its sender received it, by the sender's clock. A reader whose
//! clock is behind would think it younger than it is. Nobody can tell from one record how long it
//! lay in the fleet; but one that seems to have been sent in the time to come shows how far the
//! reader is behind at least. So the most that was seen lately is added to every record's age: ages
//! are told too old rather than too young. Where a clock is behind by more than [`MOST`], nothing
//! is taken.

use parking_lot::Mutex;

use crate::clock::Ms;

/// Behind by more than this, and records are not taken.
pub(crate) const MOST: Ms = 5 * 60_000;
/// For so long at least what was seen counts, for twice as long at the most.
const WINDOW: Ms = 10 * 60_000;

/// How far this machine's clock was seen to be behind others'. One for all workers; asked for each
/// page taken.
#[derive(Debug, Default)]
pub(crate) struct Skew(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    since: Ms,
    now: Ms,
    before: Ms,
}

impl Skew {
    /// A record was sent at `sent` and read at `now`: the milliseconds to add to its age. None: the
    /// clocks are too far apart.
    pub(crate) fn behind(&self, sent: Ms, now: Ms) -> Option<Ms> {
        let ahead = sent.saturating_sub(now);
        if ahead > MOST {
            return None;
        }
        let mut seen = self.0.lock();
        let windows = now.saturating_sub(seen.since) / WINDOW;
        if windows > 0 {
            seen.before = if windows == 1 { seen.now } else { 0 };
            (seen.now, seen.since) = (0, now);
        }
        seen.now = seen.now.max(ahead);
        Some(seen.now.max(seen.before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Ms = 1_700_000_000_000;

    #[test]
    fn a_clock_that_is_behind_is_found_out_by_the_first_new_record() {
        let skew = Skew::default();
        assert_eq!(skew.behind(NOW - 90_000, NOW), Some(0), "nothing is known yet");
        assert_eq!(skew.behind(NOW + 60_000, NOW), Some(60_000));
        assert_eq!(skew.behind(NOW - 90_000, NOW + 1), Some(60_000), "older records are read by it");
        assert_eq!(skew.behind(NOW + MOST + 2, NOW + 1), None);
    }

    #[test]
    fn what_was_seen_is_forgotten_when_the_clock_is_right_again() {
        let skew = Skew::default();
        assert_eq!(skew.behind(NOW + 60_000, NOW), Some(60_000));
        assert_eq!(skew.behind(NOW, NOW + WINDOW), Some(60_000));
        assert_eq!(skew.behind(NOW, NOW + 2 * WINDOW), Some(0));
    }
}
