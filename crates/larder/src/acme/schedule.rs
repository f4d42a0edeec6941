//! When a name is due: by the directory's advice (ARI, RFC 9773), else when a third of the
//! certificate's lifetime is left. All times are seconds since 1970.

/// The first wait after a failure, and the longest, in seconds.
const FIRST_WAIT: i64 = 60;
const LONGEST_WAIT: i64 = 86_400;

/// The shortest wait where the directory says that there were too many orders.
const LIMIT_WAIT: i64 = 3_600;

/// The wait for the next question where the directory has no advice, in seconds.
const NO_ADVICE: i64 = 6 * 3_600;

/// The shortest and longest wait between two questions for advice, in seconds.
const ADVICE: (i64, i64) = (60, 86_400);

/// The facts of a certificate from which its renewal follows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Renewal {
    /// The first moment at which it is valid.
    pub(super) not_before: i64,
    /// The last one.
    pub(super) not_after: i64,
    /// A number that differs between certificates: the end of its signature. It spreads renewals.
    pub(super) seed: u64,
}

impl Renewal {
    /// The moment at which a third of the lifetime is left, up to a thirtieth earlier.
    fn due(&self) -> i64 {
        let lifetime = (self.not_after - self.not_before).max(0);
        self.not_after - lifetime / 3 - self.spread(lifetime / 30)
    }

    /// A number below `width`, always the same for this certificate.
    fn spread(&self, width: i64) -> i64 {
        let width = u64::try_from(width).unwrap_or(0).max(1);
        i64::try_from(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % width).unwrap_or(0)
    }
}

/// The directory's advice for a certificate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Advice {
    /// The span in which to renew.
    pub(super) start: i64,
    /// Its end.
    pub(super) end: i64,
    /// The seconds after which to ask again.
    pub(super) again: i64,
}

/// The next dates of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// A new certificate is to be ordered.
    pub(super) renew_at: i64,
    /// The directory is to be asked for advice.
    pub(super) look_at: i64,
    /// No order before this, since orders failed.
    retry_at: i64,
    /// Orders that failed since the last that did not.
    failures: u32,
}

impl Plan {
    /// There is no certificate.
    pub(super) fn at_once() -> Plan {
        Plan { renew_at: i64::MIN, look_at: i64::MAX, retry_at: i64::MIN, failures: 0 }
    }

    /// For a certificate whose directory was not asked for advice yet.
    pub(super) fn of(renewal: &Renewal, now: i64) -> Plan {
        Plan { renew_at: renewal.due(), look_at: now, retry_at: i64::MIN, failures: 0 }
    }

    /// For a certificate that was ordered now: the next order waits, whatever the directory
    /// advises.
    pub(super) fn fresh(renewal: &Renewal, now: i64) -> Plan {
        let lifetime = (renewal.not_after - renewal.not_before).max(0);
        let retry_at = now + (lifetime / 10).clamp(FIRST_WAIT, LIMIT_WAIT);
        Plan { retry_at, ..Plan::of(renewal, now) }
    }

    /// The same after the failures of the plan before it.
    pub(super) fn after(self, before: &Plan) -> Plan {
        Plan { failures: before.failures, ..self }
    }

    /// Shortens waits that began while the clock was ahead: none is longer than the longest one.
    pub(super) fn shorten(&mut self, now: i64) {
        self.retry_at = self.retry_at.min(now + LONGEST_WAIT + LONGEST_WAIT / 10);
        if self.look_at != i64::MAX {
            self.look_at = self.look_at.min(now + ADVICE.1);
        }
    }

    /// The moment of the next order.
    pub(super) fn order_at(&self) -> i64 {
        self.renew_at.max(self.retry_at)
    }

    /// The next moment at which something is due.
    pub(super) fn next(&self) -> i64 {
        self.order_at().min(self.look_at.max(self.retry_at))
    }

    /// Takes the directory's advice; None: it gave none.
    pub(super) fn advise(&mut self, renewal: &Renewal, advice: Option<&Advice>, now: i64) {
        self.renew_at = match advice {
            Some(advice) => advice.start + renewal.spread(advice.end - advice.start),
            None => renewal.due(),
        };
        let again = advice.map_or(NO_ADVICE, |advice| advice.again.clamp(ADVICE.0, ADVICE.1));
        self.look_at = now + again;
    }

    /// The directory could not be asked for advice.
    pub(super) fn look_later(&mut self, now: i64) {
        self.look_at = now + LIMIT_WAIT;
    }

    /// An order failed: each wait is twice as long as the one before, up to a day. `limit`: the
    /// directory says that there were too many.
    pub(super) fn failed(&mut self, name: &str, limit: bool, now: i64) {
        let doubled = FIRST_WAIT << self.failures.min(16);
        let shortest = if limit { LIMIT_WAIT } else { FIRST_WAIT };
        let wait = doubled.clamp(shortest, LONGEST_WAIT);
        // Up to a tenth later, so that names do not all come at once.
        let seed = name.bytes().fold(u64::from(self.failures), |seed, byte| {
            (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let spread = Renewal { not_before: 0, not_after: 0, seed }.spread(wait / 10);
        self.retry_at = self.retry_at.max(now + wait + spread);
        self.failures = self.failures.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;
    const CERTIFICATE: Renewal = Renewal { not_before: 0, not_after: 90 * DAY, seed: 77 };

    #[test]
    fn a_third_of_the_lifetime_is_left_at_the_renewal() {
        for seed in 0..1_000 {
            let due = Renewal { seed, ..CERTIFICATE }.due();
            assert!((57 * DAY..=60 * DAY).contains(&due), "{due}");
        }
        let dates = (0..1_000).map(|seed| Renewal { seed, ..CERTIFICATE }.due() / 3_600);
        assert!(dates.collect::<std::collections::HashSet<_>>().len() > 60, "they are spread");
    }

    #[test]
    fn advice_moves_the_renewal_within_its_window() {
        let mut plan = Plan::of(&CERTIFICATE, 5);
        assert_eq!(plan.next(), 5, "the directory is asked first");
        let advice = Advice { start: 10 * DAY, end: 11 * DAY, again: 21_600 };
        plan.advise(&CERTIFICATE, Some(&advice), 5);
        assert!((10 * DAY..11 * DAY).contains(&plan.order_at()));
        assert_eq!(plan.next(), 5 + 21_600);
        let again = plan.order_at();
        plan.advise(&CERTIFICATE, Some(&advice), 5 + 21_600);
        assert_eq!(plan.order_at(), again, "the same advice gives the same moment");
        plan.advise(&CERTIFICATE, None, 50_000);
        assert_eq!(plan.order_at(), CERTIFICATE.due());
        let past = Advice { start: -DAY, end: -DAY, again: 0 };
        plan.advise(&CERTIFICATE, Some(&past), 60_000);
        assert!(plan.order_at() < 60_000);
        assert_eq!(plan.look_at, 60_060, "no more than a question a minute");
    }

    #[test]
    fn waits_grow_from_a_minute_to_a_day() {
        let mut plan = Plan::at_once();
        let mut waits = Vec::new();
        for _ in 0..40 {
            plan.failed("a.example", false, 1_000);
            assert_eq!(plan.next(), plan.order_at());
            waits.push(plan.order_at() - 1_000);
        }
        assert!((60..=66).contains(&waits[0]), "{waits:?}");
        assert!((120..=132).contains(&waits[1]), "{waits:?}");
        assert!(waits[20..].iter().all(|wait| (DAY..=DAY + DAY / 10).contains(wait)));
        let mut plan = Plan::at_once();
        plan.failed("a.example", true, 0);
        assert!(plan.order_at() >= 3_600);
    }

    #[test]
    fn a_directory_that_always_advises_to_renew_is_asked_once_an_hour() {
        let mut plan = Plan::fresh(&CERTIFICATE, 1_000);
        assert_eq!(plan.next(), 1_000 + 3_600);
        let past = Advice { start: 0, end: 0, again: 0 };
        plan.advise(&CERTIFICATE, Some(&past), 1_000);
        assert_eq!(plan.order_at(), 1_000 + 3_600);
    }

    #[test]
    fn waits_grow_although_each_order_gives_a_certificate_that_is_due() {
        let now = 80 * DAY;
        let mut plan = Plan::fresh(&CERTIFICATE, now);
        let mut waits = Vec::new();
        for _ in 0..20 {
            plan.failed("a.example", false, now);
            waits.push(plan.order_at() - now);
            plan = Plan::fresh(&CERTIFICATE, now).after(&plan);
        }
        assert!(waits.iter().all(|wait| *wait >= 3_600), "{waits:?}");
        assert!(*waits.last().unwrap() >= DAY, "{waits:?}");
    }

    #[test]
    fn waits_are_short_again_after_the_clock_was_a_year_ahead() {
        let now = 70 * DAY;
        let mut plan = Plan::of(&CERTIFICATE, now + 365 * DAY);
        plan.failed("a.example", false, now + 365 * DAY);
        plan.shorten(now);
        assert!(plan.next() <= now + DAY + DAY / 10);
        let mut plan = Plan::of(&CERTIFICATE, DAY);
        plan.advise(&CERTIFICATE, None, 20 * DAY);
        plan.shorten(DAY);
        assert_eq!(plan.next(), 2 * DAY, "the next question for advice");
        let mut none = Plan::at_once();
        none.shorten(now);
        assert_eq!(none, Plan::at_once());
    }

    #[test]
    fn after_a_failure_advice_waits_too() {
        let mut plan = Plan::of(&CERTIFICATE, 70 * DAY);
        plan.failed("a.example", false, 70 * DAY);
        assert!(plan.next() >= 70 * DAY + 60);
    }
}
