//! Faults: when, and what.
//!
//! Every choice is made by a random generator of its own, whose seed is the proxy's seed, the rule's place, the connection's
//! number and the request's number in it. So what befalls the third request of the tenth connection depends on nothing that
//! happened elsewhere or how fast: the same seed gives the same faults.

use std::time::Duration;

use rand::{Rng, SeedableRng, rngs::SmallRng};
use regex::Regex;

/// Most that a normal jitter departs from the mean, in standard deviations; a tail without end is no limit.
const JITTER_SIGMAS: f64 = 4.0;

/// To what a rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Per {
    /// To the way as a whole: every byte is later by the delay, as on a long line; the rest as for a connection. `after` and
    /// `until` look at the time when bytes pass.
    Bytes,
    /// To a connection, when it is opened: the delay is once, before the server is reached.
    Connection,
    /// To each request, and its answer; offsets count from its first byte.
    Request,
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
    /// Both ways, each by itself.
    Both,
}

impl Direction {
    fn covers(self, way: Way) -> bool {
        matches!(
            (self, way),
            (Direction::Both, _) | (Direction::ToServer, Way::Up) | (Direction::ToClient, Way::Down)
        )
    }
}

/// One of the two ways of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Up,
    Down,
}

/// When a rule applies: all of it must hold.
#[derive(Clone, Debug, Default)]
pub struct When {
    /// To this connection alone; the first is 1.
    pub connection: Option<u64>,
    /// To this request of a connection alone; the first is 1.
    pub request: Option<u64>,
    /// To every n-th: connection, or request of its connection, as the rule is for one or the other.
    pub every: Option<u64>,
    /// To this share of them.
    pub probability: Option<f64>,
    /// From this time after the start.
    pub after: Option<Duration>,
    /// To this time after the start.
    pub until: Option<Duration>,
    /// To statements in which this is found.
    pub statement: Option<Regex>,
}

/// How long bytes are kept back in their middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// So long.
    For(Duration),
    /// To the end of the rule's time; without one, until a side leaves.
    ToEnd,
}

/// How jitter is spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Evenly, from the delay less the jitter to the delay and the jitter.
    #[default]
    Uniform,
    /// Normal: the jitter is the standard deviation, cut at four of them.
    Normal,
}

/// What a rule does; each part by itself.
#[derive(Clone, Debug, Default)]
pub struct What {
    /// Later by this.
    pub delay: Duration,
    /// And by this more or less.
    pub jitter: Duration,
    /// How the jitter is spread.
    pub spread: Spread,
    /// Bytes a second, of each connection (or request).
    pub rate: Option<u64>,
    /// Bytes a second, of all that the rule applies to.
    pub shared_rate: Option<u64>,
    /// Nothing passes for a time.
    pub stall: Option<Stall>,
    /// From this byte.
    pub stall_after: u64,
    /// After so many bytes the connection is broken by a TCP reset.
    pub reset: Option<u64>,
    /// After so many bytes the way ends as if all were said.
    pub truncate: Option<u64>,
    /// Each byte is another with this probability.
    pub corrupt: Option<f64>,
    /// The byte here is another.
    pub corrupt_at: Option<u64>,
    /// A connection is reset as soon as it is accepted.
    pub refuse: bool,
}

/// When, and what.
#[derive(Clone, Debug)]
pub struct Rule {
    /// To what it applies. Default: to each request where the protocol is known, else to bytes.
    pub per: Option<Per>,
    /// Which way. Default: a request is held on its way to the server, everything else befalls what goes to the client.
    pub direction: Option<Direction>,
    /// When it applies.
    pub when: When,
    /// What it does.
    pub what: What,
}

impl Rule {
    /// Each statement (or whatever the protocol's requests are) later by `delay`.
    pub fn delay(delay: Duration) -> Rule {
        Rule {
            per: Some(Per::Request),
            direction: None,
            when: When::default(),
            what: What { delay, ..What::default() },
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

    /// Whether it does anything to the bytes of this way but delay them.
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

    /// Whether it is time.
    pub(super) fn now(&self, elapsed: Duration) -> bool {
        self.when.after.is_none_or(|after| elapsed >= after)
            && self.when.until.is_none_or(|until| elapsed < until)
    }

    /// Whether it applies to this connection, the time apart.
    pub(super) fn of_connection(&self, connection: u64, dice: &mut SmallRng) -> bool {
        let when = &self.when;
        when.connection.is_none_or(|number| number == connection)
            && when.every.is_none_or(|every| connection.is_multiple_of(every))
            && when.probability.is_none_or(|probability| dice.random_bool(probability.clamp(0.0, 1.0)))
    }

    /// Whether it applies to this request, the time apart.
    pub(super) fn of_request(
        &self,
        connection: u64,
        request: u64,
        text: Option<&str>,
        dice: &mut SmallRng,
    ) -> bool {
        let when = &self.when;
        when.connection.is_none_or(|number| number == connection)
            && when.request.is_none_or(|number| number == request)
            && when.every.is_none_or(|every| request.is_multiple_of(every))
            && when.statement.as_ref().is_none_or(|found| text.is_some_and(|text| found.is_match(text)))
            && when.probability.is_none_or(|probability| dice.random_bool(probability.clamp(0.0, 1.0)))
    }

    /// The delay, with its jitter.
    pub(super) fn drawn(&self, dice: &mut SmallRng) -> Duration {
        let What { delay, jitter, spread, .. } = self.what;
        if jitter.is_zero() {
            return delay;
        }
        let off = match spread {
            Spread::Uniform => dice.random_range(-1.0..=1.0),
            Spread::Normal => {
                let off: f64 = dice.sample(rand_distr::StandardNormal);
                off.clamp(-JITTER_SIGMAS, JITTER_SIGMAS)
            }
        };
        let seconds = delay.as_secs_f64() + off * jitter.as_secs_f64();
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }
}

/// The dice of one choice; see the head of this file.
pub(super) fn dice(seed: u64, rule: usize, connection: u64, request: u64, way: Way) -> SmallRng {
    let mut state = seed;
    for part in [rule as u64, connection, request, way as u64] {
        // splitmix64 (Steele, Lea, Flood 2014), so that neighbouring numbers have unlike seeds.
        state = state.wrapping_add(part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^= state >> 31;
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
        (1..=2000).map(|request| rule.drawn(&mut dice(7, 0, 1, request, Way::Up))).collect()
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
        let variance =
            drawn.iter().map(|time| (time.as_secs_f64() - centre).powi(2)).sum::<f64>() / drawn.len() as f64;
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
            (1..=1000).filter(|n| rule.of_request(5, *n, None, &mut dice(seed, 0, 5, *n, Way::Up))).collect()
        };
        assert_eq!(hits(1), hits(1));
        assert_ne!(hits(1), hits(2));
        assert!((230..370).contains(&hits(1).len()), "{}", hits(1).len());
    }

    #[test]
    fn numbers_and_statements_choose() {
        let mut rule = Rule::delay(ms(1));
        let mut die = dice(0, 0, 0, 0, Way::Up);
        rule.when.every = Some(3);
        assert_eq!((1..10).filter(|n| rule.of_connection(*n, &mut die)).collect::<Vec<_>>(), [3, 6, 9]);
        rule.when = When { statement: Regex::new("^SELECT").ok(), ..When::default() };
        assert!(rule.of_request(1, 1, Some("SELECT 1"), &mut die));
        assert!(!rule.of_request(1, 1, Some("UPDATE a"), &mut die) && !rule.of_request(1, 1, None, &mut die));
        rule.when = When { after: Some(ms(10)), until: Some(ms(20)), ..When::default() };
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
