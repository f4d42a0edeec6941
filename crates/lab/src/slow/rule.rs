//! Rules: conditions and faults.
//!
//! Every choice has its own random generator, seeded by the proxy's seed, the rule's index, the
//! connection's number and the request's number. So the faults of the third request of the tenth
//! connection do not depend on other connections or timing: the same seed gives the same faults.

use std::time::Duration;

use rand::{Rng, SeedableRng, rngs::SmallRng};
use regex::Regex;

use crate::random::Random;

/// Largest deviation of a normal jitter in standard deviations.
const JITTER_SIGMAS: f64 = 4.0;

/// Scope of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Per {
    /// The whole direction: every byte is delayed, as on a long line; the rest as for a connection.
    /// `after` and `until` are checked when bytes pass.
    Bytes,
    /// A connection when it is opened: one delay, before the server is connected.
    Connection,
    /// Each request and its answer; offsets count from its first byte.
    Request,
}

/// Direction of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
    /// Both, independently.
    Both,
}

impl Direction {
    fn covers(self, way: Way) -> bool {
        matches!(
            (self, way),
            (Direction::Both, _)
                | (Direction::ToServer, Way::Up)
                | (Direction::ToClient, Way::Down)
        )
    }
}

/// Direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Up,
    Down,
}

/// Conditions of a rule: all must hold.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// Only this connection; the first is 1.
    pub connection: Option<u64>,
    /// Only this request of a connection; the first is 1.
    pub request: Option<u64>,
    /// Only every n-th connection or request of its connection, by the rule's scope.
    pub every: Option<u64>,
    /// Only this share of them.
    pub probability: Option<f64>,
    /// Only from this time after the start.
    pub after: Option<Duration>,
    /// Only until this time after the start.
    pub until: Option<Duration>,
    /// Only statements that match.
    pub statement: Option<Regex>,
}

/// Length of a stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// A fixed time.
    For(Duration),
    /// Until the end of the rule's time; without one, until a side leaves.
    ToEnd,
}

/// Distribution of the jitter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Uniform, from delay minus jitter to delay plus jitter.
    #[default]
    Uniform,
    /// Normal: the jitter is the standard deviation, limited to four of them.
    Normal,
}

/// Faults of a rule, independent of each other.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Delay.
    pub delay: Duration,
    /// Random variation of the delay.
    pub jitter: Duration,
    /// Distribution of the jitter.
    pub spread: Spread,
    /// Bytes per second of each connection (or request).
    pub rate: Option<u64>,
    /// Bytes per second of everything the rule applies to.
    pub shared_rate: Option<u64>,
    /// A time in which nothing passes.
    pub stall: Option<Stall>,
    /// Offset of the stall.
    pub stall_after: u64,
    /// Number of bytes after which the connection is reset.
    pub reset: Option<u64>,
    /// Number of bytes after which the direction ends cleanly.
    pub truncate: Option<u64>,
    /// Probability that a byte is changed.
    pub corrupt: Option<f64>,
    /// Offset of a byte to change.
    pub corrupt_at: Option<u64>,
    /// Reset connections as soon as they are accepted.
    pub refuse: bool,
}

/// A rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Scope. Default: each request if the protocol is known, else bytes.
    pub per: Option<Per>,
    /// Direction. Default: delays of requests towards the server, everything else towards the
    /// client.
    pub direction: Option<Direction>,
    /// Conditions.
    pub when: Conditions,
    /// Faults.
    pub what: Faults,
}

impl Rule {
    /// A rule that delays each request (statement) by `delay`.
    pub fn delay(delay: Duration) -> Rule {
        Rule {
            per: Some(Per::Request),
            direction: None,
            when: Conditions::default(),
            what: Faults { delay, ..Faults::default() },
        }
    }

    pub(super) fn delays(&self, way: Way) -> bool {
        let by_default = match self.per {
            Some(Per::Request) => Direction::ToServer,
            _ => Direction::ToClient,
        };
        self.what.delay + self.what.jitter > Duration::ZERO
            && self.direction.unwrap_or(by_default).covers(way)
    }

    /// Whether it does more to the bytes of this direction than delay them.
    pub(super) fn shapes(&self, way: Way) -> bool {
        let what = &self.what;
        let any = what.rate.is_some()
            || what.shared_rate.is_some()
            || what.stall.is_some()
            || what.reset.is_some()
            || what.truncate.is_some()
            || what.corrupt.is_some()
            || what.corrupt_at.is_some();
        any && self.direction.unwrap_or(Direction::ToClient).covers(way)
    }

    /// Whether its time window includes `elapsed`.
    pub(super) fn now(&self, elapsed: Duration) -> bool {
        self.when.after.is_none_or(|after| elapsed >= after)
            && self.when.until.is_none_or(|until| elapsed < until)
    }

    /// Whether it applies to this connection, apart from the time.
    pub(super) fn of_connection(&self, connection: u64, rng: &mut SmallRng) -> bool {
        let when = &self.when;
        when.connection.is_none_or(|number| number == connection)
            && when.every.is_none_or(|every| connection.is_multiple_of(every))
            && when
                .probability
                .is_none_or(|probability| rng.random_bool(probability.clamp(0.0, 1.0)))
    }

    /// Whether it applies to this request, apart from the time.
    pub(super) fn of_request(
        &self,
        connection: u64,
        request: u64,
        text: Option<&str>,
        rng: &mut SmallRng,
    ) -> bool {
        let when = &self.when;
        when.connection.is_none_or(|number| number == connection)
            && when.request.is_none_or(|number| number == request)
            && when.every.is_none_or(|every| request.is_multiple_of(every))
            && when
                .statement
                .as_ref()
                .is_none_or(|found| text.is_some_and(|text| found.is_match(text)))
            && when
                .probability
                .is_none_or(|probability| rng.random_bool(probability.clamp(0.0, 1.0)))
    }

    /// The delay with its jitter.
    pub(super) fn drawn(&self, rng: &mut SmallRng) -> Duration {
        let Faults { delay, jitter, spread, .. } = self.what;
        if jitter.is_zero() {
            return delay;
        }
        let off = match spread {
            Spread::Uniform => rng.random_range(-1.0..=1.0),
            Spread::Normal => {
                let off: f64 = rng.sample(rand_distr::StandardNormal);
                off.clamp(-JITTER_SIGMAS, JITTER_SIGMAS)
            }
        };
        let seconds = delay.as_secs_f64() + off * jitter.as_secs_f64();
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }
}

/// The random generator of one choice; see the head of this file.
pub(super) fn rng(seed: u64, rule: usize, connection: u64, request: u64, way: Way) -> SmallRng {
    let mut state = seed;
    for part in [rule as u64, connection, request, way as u64] {
        // Similar numbers get unrelated seeds.
        state = Random::new(state.wrapping_add(part)).number();
    }
    SmallRng::seed_from_u64(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn jittered(spread: Spread) -> Vec<Duration> {
        let mut rule = Rule::delay(ms(300));
        (rule.what.jitter, rule.what.spread) = (ms(50), spread);
        (1..=2000).map(|request| rule.drawn(&mut rng(7, 0, 1, request, Way::Up))).collect()
    }

    fn mean(times: &[Duration]) -> f64 {
        times.iter().map(Duration::as_secs_f64).sum::<f64>() / times.len() as f64
    }

    #[test]
    fn uniform_jitter_fills_its_range() {
        let drawn = jittered(Spread::Uniform);
        let (least, most) = (*drawn.iter().min().unwrap(), *drawn.iter().max().unwrap());
        assert!(least >= ms(250) && least < ms(252), "{least:?}");
        assert!(most <= ms(350) && most > ms(348), "{most:?}");
        // The standard error of the mean is 50 / sqrt(3 * 2000) = 0.65 ms.
        assert!((mean(&drawn) - 0.3).abs() < 0.003, "{}", mean(&drawn));
    }

    #[test]
    fn normal_jitter_has_its_deviation_and_its_end() {
        let drawn = jittered(Spread::Normal);
        let centre = mean(&drawn);
        let variance = drawn.iter().map(|time| (time.as_secs_f64() - centre).powi(2)).sum::<f64>()
            / drawn.len() as f64;
        assert!(
            (centre - 0.3).abs() < 0.005 && (variance.sqrt() - 0.05).abs() < 0.004,
            "{centre} {variance}"
        );
        assert!(drawn.iter().all(|time| *time >= ms(100) && *time <= ms(500)));
    }

    #[test]
    fn the_same_seed_gives_the_same_faults_and_another_does_not() {
        let mut rule = Rule::delay(ms(1));
        rule.when.probability = Some(0.3);
        let hits = |seed| -> Vec<u64> {
            (1..=1000)
                .filter(|n| rule.of_request(5, *n, None, &mut rng(seed, 0, 5, *n, Way::Up)))
                .collect()
        };
        assert_eq!(hits(1), hits(1));
        assert_ne!(hits(1), hits(2));
        assert!((230..370).contains(&hits(1).len()), "{}", hits(1).len());
    }

    #[test]
    fn numbers_and_statements_choose() {
        let mut rule = Rule::delay(ms(1));
        let mut die = rng(0, 0, 0, 0, Way::Up);
        rule.when.every = Some(3);
        assert_eq!(
            (1..10).filter(|n| rule.of_connection(*n, &mut die)).collect::<Vec<_>>(),
            [3, 6, 9]
        );
        rule.when = Conditions { statement: Regex::new("^SELECT").ok(), ..Conditions::default() };
        assert!(rule.of_request(1, 1, Some("SELECT 1"), &mut die));
        assert!(
            !rule.of_request(1, 1, Some("UPDATE a"), &mut die)
                && !rule.of_request(1, 1, None, &mut die)
        );
        rule.when =
            Conditions { after: Some(ms(10)), until: Some(ms(20)), ..Conditions::default() };
        assert_eq!([9, 10, 19, 20].map(|at| rule.now(ms(at))), [false, true, true, false]);
    }

    #[test]
    fn a_request_is_held_on_its_way_up_and_the_rest_happens_on_the_way_down() {
        let rule = Rule::delay(ms(1));
        assert!(rule.delays(Way::Up) && !rule.delays(Way::Down) && !rule.shapes(Way::Down));
        let mut line = Rule { per: Some(Per::Bytes), ..rule };
        assert!(line.delays(Way::Down) && !line.delays(Way::Up));
        line.what.reset = Some(0);
        assert!(line.shapes(Way::Down) && !line.shapes(Way::Up));
        line.direction = Some(Direction::Both);
        assert!(line.shapes(Way::Up) && line.delays(Way::Up) && line.delays(Way::Down));
    }
}
