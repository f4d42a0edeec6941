//! How many requests may be sent again, so that an outage is never multiplied.

use std::cell::Cell;

/// Cost of one retry, in shares; each request earns one, so retries are 10 % of the requests.
const RETRY: u64 = 10;
/// The most that is saved: 10 retries at once.
const SAVED: u64 = 10 * RETRY;
/// Earned each second whatever the traffic: one retry, for sites with few requests.
const PER_SECOND: u64 = RETRY;

/// The retries that one worker may make for one origin: 10 % of its requests and one each second,
/// of which ten are saved. Beyond it the first answer stands.
#[derive(Debug)]
pub(super) struct Budget {
    shares: Cell<u64>,
    /// The second in which shares were earned last.
    second: Cell<u64>,
}

impl Budget {
    pub(super) fn new() -> Budget {
        Budget { shares: Cell::new(SAVED), second: Cell::new(0) }
    }

    /// A request is sent for the first time; `now`: milliseconds.
    pub(super) fn earn(&self, now: u64) {
        let second = now / 1000;
        let since = second.saturating_sub(self.second.replace(second));
        let earned = 1 + since.saturating_mul(PER_SECOND);
        self.shares.set(self.shares.get().saturating_add(earned).min(SAVED));
    }

    /// Whether a request might be sent again.
    pub(super) fn has_left(&self) -> bool {
        self.shares.get() >= RETRY
    }

    /// Whether a request may be sent again; it is counted.
    pub(super) fn spend(&self) -> bool {
        let left = self.shares.get().checked_sub(RETRY);
        left.inspect(|left| self.shares.set(*left)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_a_tenth_of_the_requests_beyond_the_saved_ones() {
        let budget = Budget::new();
        let mut retries = 0;
        for _ in 0..1000 {
            budget.earn(0);
            retries += u32::from(budget.spend());
        }
        assert!((100..=110).contains(&retries), "{retries}");
    }

    #[test]
    fn a_second_earns_one_and_a_long_pause_no_more_than_what_is_saved() {
        let budget = Budget::new();
        while budget.spend() {}
        budget.earn(1_000);
        assert!(budget.spend());
        assert!(!budget.spend());
        budget.earn(1_000_000);
        assert_eq!((0..100).filter(|_| budget.spend()).count(), 10);
    }
}
