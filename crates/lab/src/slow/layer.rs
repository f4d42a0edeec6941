//! Effect of a rule on the bytes of one direction: rate, stall, reset, truncation, corruption.
//! Knows positions and times, no socket.

use std::{
    cell::Cell,
    rc::Rc,
    time::{Duration, Instant},
};

use rand::{Rng, rngs::SmallRng};

use super::rule::{Rule, Stall};

/// Length of a piece at a limited rate, in seconds of that rate: so the rate is steady and others
/// get their turn.
const SLICE: f64 = 0.01;
/// Most time's worth of bytes that may pass at once after an idle period or a late wakeup; without
/// it each late wakeup would lower the rate.
const CATCH_UP: Duration = Duration::from_millis(100);

/// A rate limit of one connection, or shared by several.
#[derive(Debug)]
pub(super) struct RateLimit {
    bytes_a_second: u64,
    /// Time at which all bytes let through have passed.
    free: Cell<Option<Instant>>,
}

impl RateLimit {
    pub(super) fn new(bytes_a_second: u64) -> Rc<RateLimit> {
        Rc::new(RateLimit { bytes_a_second, free: Cell::new(None) })
    }

    fn slice(&self) -> usize {
        ((self.bytes_a_second as f64 * SLICE) as usize).max(1)
    }

    /// Time at which these bytes have passed if they start now.
    fn passes(&self, bytes: usize, now: Instant) -> Instant {
        let begin =
            self.free.get().map_or(now, |free| free.max(now.checked_sub(CATCH_UP).unwrap_or(now)));
        let end = begin + Duration::from_secs_f64(bytes as f64 / self.bytes_a_second as f64);
        self.free.set(Some(end));
        end
    }
}

/// How a connection is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Break {
    Reset,
    Truncate,
}

/// Action before the next byte.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This many bytes may pass unchanged.
    Pass(usize),
    /// The next byte is changed by these bits.
    Flip(u8),
    /// Nothing passes until this time; `None`: until a side leaves.
    Hold(Option<Instant>),
    Break(Break),
}

/// A rule applied to one direction of a connection or request.
#[derive(Debug)]
pub(super) struct Layer {
    /// Time window in which it applies, for a rule that checks the time when bytes pass.
    from: Option<Instant>,
    to: Option<Instant>,
    passed: u64,
    stall: Option<(u64, Stall)>,
    /// End of a stall without a length.
    stall_end: Option<Instant>,
    broken: Option<(u64, Break)>,
    corrupt_at: Option<u64>,
    corrupt: Option<(f64, u64)>,
    rng: SmallRng,
    paces: Vec<Rc<RateLimit>>,
}

impl Layer {
    /// `start` is the proxy's; a `live` rule checks the time when bytes pass.
    pub(super) fn new(
        rule: &Rule,
        live: bool,
        start: Instant,
        shared: Option<Rc<RateLimit>>,
        rng: SmallRng,
    ) -> Layer {
        let (when, what) = (&rule.when, &rule.what);
        let to = when.until.map(|until| start + until);
        let broken = match (what.reset, what.truncate) {
            (Some(reset), Some(truncate)) if truncate < reset => Some((truncate, Break::Truncate)),
            (Some(reset), _) => Some((reset, Break::Reset)),
            (None, truncate) => truncate.map(|at| (at, Break::Truncate)),
        };
        let mut layer = Layer {
            from: when.after.map(|after| start + after).filter(|_| live),
            to: to.filter(|_| live),
            passed: 0,
            stall: what.stall.map(|stall| (what.stall_after, stall)),
            stall_end: to,
            broken,
            corrupt_at: what.corrupt_at,
            corrupt: None,
            rng,
            paces: what.rate.map(RateLimit::new).into_iter().chain(shared).collect(),
        };
        layer.corrupt =
            what.corrupt.filter(|share| *share > 0.0).map(|share| (share, layer.gap(share)));
        layer
    }

    /// Number of bytes until the next one to change, where each is changed with probability
    /// `share`.
    fn gap(&mut self, share: f64) -> u64 {
        if share >= 1.0 {
            return 0;
        }
        // The inverse of the geometric distribution; at least the smallest number above 0.
        let u = 1.0 - self.rng.random::<f64>();
        (u.ln() / (1.0 - share).ln()) as u64
    }

    fn idle(&self, now: Instant) -> bool {
        self.from.is_some_and(|from| now < from) || self.to.is_some_and(|to| now >= to)
    }

    /// The action at this position.
    pub(super) fn next(&mut self, now: Instant) -> Next {
        if self.idle(now) {
            return Next::Pass(usize::MAX);
        }
        let mut most = u64::MAX;
        let mut at = |place: u64, passed: u64| {
            let left = place.saturating_sub(passed);
            if left > 0 {
                most = most.min(left);
            }
            left == 0
        };
        if let Some((place, stall)) = self.stall
            && at(place, self.passed)
        {
            self.stall = None;
            return Next::Hold(match stall {
                Stall::For(time) => Some(now + time),
                Stall::ToEnd => self.stall_end,
            });
        }
        if let Some((place, how)) = self.broken
            && at(place, self.passed)
        {
            return Next::Break(how);
        }
        let scripted = self
            .corrupt_at
            .filter(|place| *place >= self.passed)
            .is_some_and(|place| at(place, self.passed));
        let by_chance = self.corrupt.is_some_and(|(_, place)| at(place, self.passed));
        if scripted || by_chance {
            return Next::Flip(1 << self.rng.random_range(0..8));
        }
        let slice = self.paces.iter().map(|pace| pace.slice()).min().unwrap_or(usize::MAX);
        Next::Pass(usize::try_from(most).unwrap_or(usize::MAX).min(slice))
    }

    /// Time at which these bytes may pass.
    pub(super) fn paced(&self, bytes: usize, now: Instant) -> Option<Instant> {
        if self.idle(now) {
            return None;
        }
        self.paces.iter().map(|pace| pace.passes(bytes, now)).max()
    }

    /// Records that this many bytes have passed.
    pub(super) fn passed(&mut self, bytes: usize, now: Instant) {
        if self.idle(now) {
            return;
        }
        self.passed += bytes as u64;
        if let Some((share, place)) = self.corrupt
            && place < self.passed
        {
            let next = self.passed + self.gap(share);
            self.corrupt = Some((share, next));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slow::rule::{Conditions, Faults, Way, rng};

    fn layer(when: Conditions, what: Faults, start: Instant) -> Layer {
        let rule = Rule { per: None, direction: None, when, what };
        Layer::new(&rule, true, start, None, rng(1, 0, 1, 0, Way::Down))
    }

    /// Passes bytes until something happens.
    fn run(layer: &mut Layer, now: Instant, bytes: usize) -> Vec<(u64, Next)> {
        let mut happened = Vec::new();
        let mut left = bytes;
        while left > 0 {
            let place = layer.passed;
            let pass = match layer.next(now) {
                Next::Pass(most) => most.min(left),
                other => {
                    let ends = matches!(other, Next::Break(_));
                    let pass = usize::from(matches!(other, Next::Flip(_)));
                    happened.push((place, other));
                    if ends {
                        break;
                    }
                    pass
                }
            };
            layer.passed(pass, now);
            left -= pass;
        }
        happened
    }

    #[test]
    fn things_happen_at_their_places() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let what = Faults {
            stall: Some(Stall::For(second)),
            stall_after: 10,
            reset: Some(100),
            corrupt_at: Some(50),
            ..Faults::default()
        };
        let happened = run(&mut layer(Conditions::default(), what, now), now, 1000);
        assert!(matches!(
            happened[..],
            [(10, Next::Hold(Some(end))), (50, Next::Flip(mask)), (100, Next::Break(Break::Reset))]
                if end == now + second && mask != 0
        ));
    }

    #[test]
    fn what_is_nearer_breaks_first() {
        let now = Instant::now();
        for (reset, truncate, how) in [(5, 9, Break::Reset), (9, 5, Break::Truncate)] {
            let what = Faults { reset: Some(reset), truncate: Some(truncate), ..Faults::default() };
            let happened = run(&mut layer(Conditions::default(), what, now), now, 1000);
            assert_eq!(happened, [(5, Next::Break(how))]);
        }
    }

    #[test]
    fn the_share_of_corrupted_bytes_is_the_stated_one_and_the_seed_repeats_it() {
        let now = Instant::now();
        let flips = || {
            let what = Faults { corrupt: Some(0.01), ..Faults::default() };
            run(&mut layer(Conditions::default(), what, now), now, 100_000)
        };
        assert_eq!(flips(), flips());
        // The standard deviation is 31.
        assert!((850..1150).contains(&flips().len()), "{}", flips().len());
        let all = Faults { corrupt: Some(1.0), ..Faults::default() };
        assert_eq!(run(&mut layer(Conditions::default(), all, now), now, 50).len(), 50);
    }

    #[test]
    fn nothing_happens_outside_its_time() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let when = Conditions {
            after: Some(Duration::from_secs(5)),
            until: Some(Duration::from_secs(7)),
            ..Conditions::default()
        };
        let what = Faults { stall: Some(Stall::ToEnd), ..Faults::default() };
        let mut layer = layer(when, what, start);
        assert_eq!(run(&mut layer, at(4), 1000), []);
        assert_eq!(run(&mut layer, at(6), 1000), [(0, Next::Hold(Some(at(7))))]);
        assert_eq!(run(&mut layer, at(8), 1000), []);
    }

    #[test]
    fn a_rate_spreads_bytes_over_time() {
        let now = Instant::now();
        let what = Faults { rate: Some(1000), ..Faults::default() };
        let mut layer = layer(Conditions::default(), what, now);
        assert_eq!(layer.next(now), Next::Pass(10));
        assert_eq!(layer.paced(10, now), Some(now + Duration::from_millis(10)));
        assert_eq!(layer.paced(10, now), Some(now + Duration::from_millis(20)));
        let later = now + Duration::from_secs(1);
        assert_eq!(layer.paced(10, later), Some(later - CATCH_UP + Duration::from_millis(10)));
    }
}
