//! Time that a client's commands have taken in this turn.
//!
//! A turn ends after a number of commands or bytes; commands that take long end it earlier, so that
//! no client holds its worker for milliseconds. Reading the clock for every command would cost more
//! than half a get. So commands report what is known to take long: the time of those that are timed
//! anyway, and an estimate of one nanosecond for each byte that a command copies.

use std::cell::Cell;

/// Length of a turn, in nanoseconds. A turn exceeds it by its last command at most.
const TURN: u64 = 1_000_000;
/// A command in a round's measure of work, in nanoseconds.
const COMMAND: u64 = 4000;

/// Time spent in the current turn of a worker, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct TurnTime(Cell<u64>);

impl TurnTime {
    /// Begins a turn.
    #[inline]
    pub(crate) fn begin(&self) {
        self.0.set(0);
    }

    /// Adds the time of a command, in microseconds.
    #[inline]
    pub(crate) fn took(&self, micros: u64) {
        self.0.set(self.0.get().saturating_add(micros.saturating_mul(1000)));
    }

    /// Adds the bytes that a command copied.
    #[inline]
    pub(crate) fn copied(&self, bytes: u64) {
        self.0.set(self.0.get().saturating_add(bytes));
    }

    /// Returns whether other clients get their turn now.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.0.get() >= TURN
    }

    /// The time of this turn as a number of ordinary commands.
    #[inline]
    pub(crate) fn commands(&self) -> usize {
        (self.0.get() / COMMAND) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_over_after_a_millisecond_timed_or_copied() {
        let time = TurnTime::default();
        time.took(600);
        assert!(!time.is_over());
        time.copied(400_000);
        assert!(time.is_over());
        assert_eq!(time.commands(), 250);
        time.begin();
        assert!(!time.is_over());
        time.copied(u64::MAX);
        time.took(u64::MAX);
        assert!(time.is_over());
    }
}
