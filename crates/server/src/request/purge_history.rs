//! The latest purges, for whoever wonders where a page has gone.

use std::collections::VecDeque;

use larder_metrics::Purge;
use parking_lot::Mutex;

use crate::clock::Ms;

/// Purges remembered; the oldest goes first.
const KEPT: usize = 100;
/// Characters of what was purged that are remembered.
const WHAT: usize = 1024;

/// The latest purges, newest first. Locked for moments, by purges and by who looks at them only.
#[derive(Default)]
pub(crate) struct History(Mutex<VecDeque<Purge>>);

impl History {
    /// Remembers a purge; a long `what` is cut.
    pub(crate) fn note(
        &self,
        time_ms: Ms,
        kind: &'static str,
        what: &str,
        soft: bool,
        purged: u64,
        by: String,
    ) {
        let what = what.chars().take(WHAT).collect();
        let mut kept = self.0.lock();
        kept.truncate(KEPT - 1);
        kept.push_front(Purge { time_ms, kind: kind.into(), what, soft, purged, by });
    }

    /// All that are remembered.
    pub(crate) fn latest(&self) -> Vec<Purge> {
        self.0.lock().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_and_long_ones_are_cut() {
        let history = History::default();
        for number in 0..150 {
            let what = "é".repeat(2000);
            history.note(number, "url", &what, false, 1, String::new());
        }
        let latest = history.latest();
        assert_eq!(latest.len(), KEPT);
        assert_eq!((latest[0].time_ms, latest[99].time_ms), (149, 50));
        assert_eq!(latest[0].what.chars().count(), WHAT);
    }
}
