//! What the operator is told while the proxy runs.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

/// Most complaints in a second: a server that is away makes one for each connection.
const A_SECOND: u32 = 10;

pub(super) struct Teller {
    to: Option<fn(&str)>,
    since: Cell<Instant>,
    said: Cell<u32>,
}

impl Teller {
    pub(super) fn new(to: Option<fn(&str)>) -> Teller {
        Teller { to, since: Cell::new(Instant::now()), said: Cell::new(0) }
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
