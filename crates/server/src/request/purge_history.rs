//! The latest purges, for whoever wonders where a page has gone.

use std::collections::VecDeque;

use parking_lot::Mutex;
use serde::Serialize;

use crate::clock::Ms;

/// Purges remembered; the oldest goes first.
const KEPT: usize = 100;
/// Characters of what was purged that are remembered.
const WHAT: usize = 1024;

/// A purge that was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Done {
    /// When it was done.
    pub(crate) time_ms: Ms,
    /// `url`, `prefix`, `tags` or `ban`.
    pub(crate) kind: &'static str,
    /// The URL, the tags, the expression.
    pub(crate) what: String,
    /// Marked as stale instead of removed.
    pub(crate) soft: bool,
    /// Pages that were there.
    pub(crate) purged: u64,
    /// The client that asked, and which way.
    pub(crate) by: String,
}

impl Done {
    pub(crate) fn new(
        time_ms: Ms,
        kind: &'static str,
        what: &str,
        soft: bool,
        purged: u64,
        by: String,
    ) -> Done {
        Done { time_ms, kind, what: what.chars().take(WHAT).collect(), soft, purged, by }
    }
}

/// The latest purges, newest first. Locked for moments, by purges and by who looks at them only.
#[derive(Default)]
pub(crate) struct History(Mutex<VecDeque<Done>>);

impl History {
    /// Remembers one more.
    pub(crate) fn note(&self, done: Done) {
        let mut kept = self.0.lock();
        kept.truncate(KEPT - 1);
        kept.push_front(done);
    }

    /// All that are remembered.
    pub(crate) fn latest(&self) -> Vec<Done> {
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
            history.note(Done::new(number, "url", &what, false, 1, String::new()));
        }
        let latest = history.latest();
        assert_eq!(latest.len(), KEPT);
        assert_eq!((latest[0].time_ms, latest[99].time_ms), (149, 50));
        assert_eq!(latest[0].what.chars().count(), WHAT);
    }
}
