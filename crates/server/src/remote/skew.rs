//! Differences between the clocks of machines.
//!
//! A page's age is counted from its reception by the sender, by the sender's clock. A reader whose
//! clock is behind would compute a lower age. A single record does not show how long it was in the
//! fleet; but one that seems to be sent in the future shows the least difference of the clocks. So
//! the largest recent difference is added to every record's age: ages are rather too high than too
//! low. If a clock is behind by more than [`MOST`], no record is used.

use parking_lot::Mutex;

use crate::clock::Ms;

/// The largest difference at which records are used.
pub(crate) const MOST: Ms = 5 * 60_000;
/// The least time for which a difference counts; the most is twice that.
const WINDOW: Ms = 10 * 60_000;

/// The largest recent difference to the clocks of other machines. Shared by all workers.
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
        assert_eq!(
            skew.behind(NOW - 90_000, NOW + 1),
            Some(60_000),
            "older records are read by it"
        );
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
