//! Life cycle of a connection: connecting, sending requests, ending or failing, reconnecting.

use std::{io, time::Duration};

use super::{
    connection::{NextStep, State},
    pacer::spread,
    tally::Fault,
    worker::Worker,
};

/// Pause before the second attempt to connect, in nanoseconds; it doubles with each failure.
const PAUSE: u64 = 10_000_000;
/// Longest pause between two attempts, in nanoseconds.
const LONGEST_PAUSE: u64 = 1_000_000_000;
/// Consecutive failed attempts allowed if no time limit ends the run: ten seconds or more. Fewer in
/// tests.
const ATTEMPTS: u32 = if cfg!(test) { 5 } else { 16 };
/// Consecutive invalid keys before others get their turn.
const BAD_KEYS: usize = 64;
/// Pause of a new connection whose request cannot be encoded, in nanoseconds.
const UNENCODABLE_PAUSE: u64 = 100_000;

impl Worker<'_> {
    /// Reacts to an event on a connection.
    pub(super) fn after(&mut self, number: usize, next: NextStep) {
        let connection = &mut self.connections[number];
        match next {
            NextStep::Stay | NextStep::Again => {
                if next == NextStep::Again {
                    self.again.push(number);
                }
                self.go_on(number);
            }
            NextStep::Ended => {
                connection.close();
                if self.is_spent(number) {
                    self.connections[number].state = State::Done;
                } else if !self.connections[number].served {
                    self.retry(number);
                } else if self.connections[number].thinking == 0 || !self.context.plan.reconnect {
                    self.dial(number);
                }
            }
            NextStep::Failed(fault) => {
                connection.fail(&fault, &mut self.context);
                if self.is_spent(number) {
                    self.connections[number].state = State::Done;
                } else {
                    self.retry(number);
                }
            }
        }
    }

    /// Whether it has made all its requests and received the answers.
    pub(super) fn is_spent(&self, number: usize) -> bool {
        let connection = &self.connections[number];
        connection.left == Some(0) && connection.under_way() == 0
    }

    /// Gives a connected connection more requests if it has room.
    pub(super) fn go_on(&mut self, number: usize) {
        if self.is_spent(number) {
            self.connections[number].close();
            self.connections[number].state = State::Done;
        } else if self.context.open {
            self.offer(number);
        } else {
            self.fill(number);
        }
    }

    pub(super) fn dial(&mut self, number: usize) {
        if !matches!(self.connections[number].state, State::Rest) {
            return;
        }
        let idle = self.connections[number].under_way() == 0;
        if idle && self.context.open && self.context.plan.reconnect {
            // A request first: its time includes connecting. One may be queued even if no more
            // become due.
            return self.offer(number);
        }
        if idle && self.no_more() && !self.is_any_due() {
            return;
        }
        if idle && self.context.plan.reconnect {
            let made = self.load(number, self.context.now);
            if self.connections[number].under_way() == 0 {
                if made {
                    // It could not be encoded. The next one is tried later, so that other
                    // connections get their turn.
                    self.context.dial_at(number, self.context.now + UNENCODABLE_PAUSE);
                }
                return;
            }
        }
        match self.connections[number].dial(&mut self.context) {
            Ok(true) => self.connected(number),
            Ok(false) => {}
            Err(error) => self.not_connected(number, &error),
        }
    }

    pub(super) fn connected(&mut self, number: usize) {
        match self.connections[number].connected(&mut self.context) {
            Ok(false) => {}
            Ok(true) => {
                self.ever_connected = true;
                // Bytes that came with the end of TLS' handshake are not reported again.
                if self.context.plan.tls.is_some() {
                    self.again.push(number);
                }
                self.go_on(number);
                self.flush(number);
            }
            Err(error) => self.not_connected(number, &error),
        }
    }

    pub(super) fn not_connected(&mut self, number: usize, error: &io::Error) {
        let connection = &mut self.connections[number];
        if self.thread == 0 && number == 0 && !self.ever_connected && connection.failures == 0 {
            self.fatal = Some(io::Error::new(error.kind(), error.to_string()));
            return;
        }
        let why = Fault::words(error);
        if connection.under_way() > 0 {
            connection.fail(&Fault::NoConnection(why), &mut self.context);
        } else {
            connection.close();
            self.context.not_connected(why);
        }
        self.retry(number);
    }

    /// Tries again after a pause, or gives up if nothing else would end the run.
    pub(super) fn retry(&mut self, number: usize) {
        let connection = &mut self.connections[number];
        connection.failures += 1;
        if connection.failures >= ATTEMPTS && self.context.plan.until.time.is_none() {
            connection.state = State::Done;
            if connection.left != Some(0) {
                self.users -= 1;
                self.given_up = self.given_up.saturating_add(connection.left.unwrap_or(u64::MAX));
            }
            return;
        }
        let pause = (PAUSE << (connection.failures - 1).min(7)).min(LONGEST_PAUSE);
        let at = self.context.now + pause + spread(&mut self.random, pause / 8);
        self.context.dial_at(number, at);
    }

    pub(super) fn flush(&mut self, number: usize) {
        let next = self.connections[number].flush(&mut self.context);
        if next != NextStep::Stay {
            self.after(number, next);
        }
    }

    /// Closed loop: as many requests as there is room for, in one write.
    pub(super) fn fill(&mut self, number: usize) {
        let mut bad = 0;
        while self.connections[number].has_room() && !self.no_more() {
            let before = self.connections[number].under_way();
            if !self.load(number, self.context.now) {
                break;
            }
            bad += usize::from(self.connections[number].under_way() == before);
            if bad == BAD_KEYS {
                self.connections[number].thinking += 1;
                self.context.wake_after(number, Duration::from_millis(1));
                break;
            }
        }
        self.flush(number);
    }

    /// Makes one request and decrements the budgets.
    pub(super) fn load(&mut self, number: usize, due: u64) -> bool {
        let connection = &mut self.connections[number];
        if !connection.load(due, &mut self.context) {
            return false;
        }
        if connection.left == Some(0) {
            self.users -= 1;
        }
        if due >= self.context.counted_from && !self.context.open {
            self.budget = self.budget.map(|budget| budget - 1);
        }
        true
    }
}
