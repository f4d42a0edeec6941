//! The life of a connection: it is made, asks as much as it may, ends or fails, and is made anew.

use std::{io, time::Duration};

use super::{
    conn::{Next, State},
    pacer::spread,
    tally::Fault,
    worker::Worker,
};

/// Pause before the second attempt to connect; it doubles with each that fails.
const PAUSE: u64 = 10_000_000;
/// Longest pause between two attempts.
const LONGEST_PAUSE: u64 = 1_000_000_000;
/// Attempts in a row that may fail where no time ends the run: ten seconds or more. Tests have no such patience.
const ATTEMPTS: u32 = if cfg!(test) { 5 } else { 16 };
/// Keys in a row that cannot be sent, before others get their turn.
const BAD_KEYS: usize = 64;
/// Pause of a connection to come whose request cannot be sent at all, in nanoseconds.
const UNSAID_PAUSE: u64 = 100_000;

impl Worker<'_> {
    /// What follows from what happened on a connection.
    pub(super) fn after(&mut self, number: usize, next: Next) {
        let conn = &mut self.conns[number];
        match next {
            Next::Stay | Next::Again => {
                if next == Next::Again {
                    self.again.push(number);
                }
                self.go_on(number);
            }
            Next::Ended => {
                conn.close();
                if self.is_spent(number) {
                    self.conns[number].state = State::Done;
                } else if !self.conns[number].served {
                    self.retry(number);
                } else if self.conns[number].thinking == 0 || !self.desk.plan.reconnect {
                    self.dial(number);
                }
            }
            Next::Failed(fault) => {
                conn.fail(&fault, &mut self.desk);
                if self.is_spent(number) {
                    self.conns[number].state = State::Done;
                } else {
                    self.retry(number);
                }
            }
        }
    }

    /// It has asked all that it was to ask, and has its answers.
    pub(super) fn is_spent(&self, number: usize) -> bool {
        let conn = &self.conns[number];
        conn.left == Some(0) && conn.under_way() == 0
    }

    /// An open connection may have room for more.
    pub(super) fn go_on(&mut self, number: usize) {
        if self.is_spent(number) {
            self.conns[number].close();
            self.conns[number].state = State::Done;
        } else if self.desk.open {
            self.offer(number);
        } else {
            self.fill(number);
        }
    }

    pub(super) fn dial(&mut self, number: usize) {
        if !matches!(self.conns[number].state, State::Rest) {
            return;
        }
        let idle = self.conns[number].under_way() == 0;
        if idle && self.desk.open && self.desk.plan.reconnect {
            // A request first: its time begins with that of its connection. There may be one in line though no more become due.
            return self.offer(number);
        }
        if idle && self.no_more() && !self.is_any_due() {
            return;
        }
        if idle && self.desk.plan.reconnect {
            let made = self.load(number, self.desk.now);
            if self.conns[number].under_way() == 0 {
                if made {
                    // It could not be said. The next one, but not at once: others want their turn.
                    self.desk.dial_at(number, self.desk.now + UNSAID_PAUSE);
                }
                return;
            }
        }
        match self.conns[number].dial(&mut self.desk) {
            Ok(true) => self.connected(number),
            Ok(false) => {}
            Err(error) => self.not_connected(number, &error),
        }
    }

    pub(super) fn connected(&mut self, number: usize) {
        match self.conns[number].connected(&mut self.desk) {
            Ok(()) => {
                self.ever_connected = true;
                self.go_on(number);
                self.flush(number);
            }
            Err(error) => self.not_connected(number, &error),
        }
    }

    pub(super) fn not_connected(&mut self, number: usize, error: &io::Error) {
        let conn = &mut self.conns[number];
        if self.thread == 0 && number == 0 && !self.ever_connected && conn.failures == 0 {
            self.fatal = Some(io::Error::new(error.kind(), error.to_string()));
            return;
        }
        let why = Fault::words(error);
        if conn.under_way() > 0 {
            conn.fail(&Fault::NoConnection(why), &mut self.desk);
        } else {
            conn.close();
            self.desk.not_connected(why);
        }
        self.retry(number);
    }

    /// Tries again after a pause, or gives up where nothing else would end the run.
    pub(super) fn retry(&mut self, number: usize) {
        let conn = &mut self.conns[number];
        conn.failures += 1;
        if conn.failures >= ATTEMPTS && self.desk.plan.until.time.is_none() {
            conn.state = State::Done;
            if conn.left != Some(0) {
                self.users -= 1;
                self.given_up = self.given_up.saturating_add(conn.left.unwrap_or(u64::MAX));
            }
            return;
        }
        let pause = (PAUSE << (conn.failures - 1).min(7)).min(LONGEST_PAUSE);
        let at = self.desk.now + pause + spread(&mut self.random, pause / 8);
        self.desk.dial_at(number, at);
    }

    pub(super) fn flush(&mut self, number: usize) {
        let next = self.conns[number].flush(&mut self.desk);
        if next != Next::Stay {
            self.after(number, next);
        }
    }

    /// Closed loop: as many requests as there is room for, in one write.
    pub(super) fn fill(&mut self, number: usize) {
        let mut bad = 0;
        while self.conns[number].has_room() && !self.no_more() {
            let before = self.conns[number].under_way();
            if !self.load(number, self.desk.now) {
                break;
            }
            bad += usize::from(self.conns[number].under_way() == before);
            if bad == BAD_KEYS {
                self.conns[number].thinking += 1;
                self.desk.wake_after(number, Duration::from_millis(1));
                break;
            }
        }
        self.flush(number);
    }

    /// One request; the budgets go down by it.
    pub(super) fn load(&mut self, number: usize, due: u64) -> bool {
        let conn = &mut self.conns[number];
        if !conn.load(due, &mut self.desk) {
            return false;
        }
        if conn.left == Some(0) {
            self.users -= 1;
        }
        if due >= self.desk.counted_from && !self.desk.open {
            self.budget = self.budget.map(|budget| budget - 1);
        }
        true
    }
}
