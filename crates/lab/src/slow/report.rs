//! Messages for the operator while the proxy runs.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

/// Most messages per second: a server that is down causes one per connection.
const A_SECOND: u32 = 10;

pub(super) struct Reporter {
    to: Option<fn(&str)>,
    since: Cell<Instant>,
    said: Cell<u32>,
}

impl Reporter {
    pub(super) fn new(to: Option<fn(&str)>) -> Reporter {
        Reporter { to, since: Cell::new(Instant::now()), said: Cell::new(0) }
    }

    pub(super) fn say(&self, what: &str) {
        let Some(to) = self.to else { return };
        if self.since.get().elapsed() > Duration::from_secs(1) {
            let unsaid = self.said.get().saturating_sub(A_SECOND);
            if unsaid > 0 {
                to(&format!("{unsaid} more of the kind"));
            }
            self.since.set(Instant::now());
            self.said.set(0);
        }
        self.said.set(self.said.get().saturating_add(1));
        if self.said.get() <= A_SECOND {
            to(what);
        }
    }
}
