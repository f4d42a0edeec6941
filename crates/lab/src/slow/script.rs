//! Rules in TOML; see docs/slow.md.

use std::time::Duration;

use larder_proto::units;
use regex::Regex;
use serde::Deserialize;

use super::rule::{Conditions, Direction, Faults, Per, Rule, Spread, Stall};

/// Most rules of a script: each is checked for every request.
const RULES: usize = 1000;

/// A script of rules.
#[derive(Clone, Debug)]
pub struct Script {
    /// Seed of random choices.
    pub seed: Option<u64>,
    /// Rules in order.
    pub rules: Vec<Rule>,
}

impl Script {
    /// Parses a script; errors contain the line.
    pub fn parse(text: &str) -> Result<Script, String> {
        let file: File = toml_edit::de::from_str(text)
            .map_err(|error| error.to_string().trim_end().to_owned())?;
        if file.rule.len() > RULES {
            return Err(format!("{} rules; {RULES} are the most", file.rule.len()));
        }
        let rule = |(n, typed): (usize, RuleTable)| {
            typed.rule().map_err(|why| format!("rule {}: {why}", n + 1))
        };
        let rules = file.rule.into_iter().enumerate().map(rule).collect::<Result<_, _>>()?;
        Ok(Script { seed: file.seed, rules })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    seed: Option<u64>,
    #[serde(default)]
    rule: Vec<RuleTable>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RuleTable {
    connection: Option<u64>,
    request: Option<u64>,
    every: Option<u64>,
    probability: Option<f64>,
    after: Option<Time>,
    until: Option<Time>,
    statement: Option<String>,
    per: Option<Per>,
    direction: Option<Direction>,
    delay: Option<Time>,
    jitter: Option<Time>,
    #[serde(default)]
    spread: Spread,
    rate: Option<Size>,
    shared_rate: Option<Size>,
    stall: Option<String>,
    stall_after: Option<Size>,
    reset: Option<Size>,
    truncate: Option<Size>,
    corrupt: Option<f64>,
    corrupt_at: Option<Size>,
    #[serde(default)]
    refuse: bool,
}

impl RuleTable {
    fn rule(self) -> Result<Rule, String> {
        let statement = self.statement.as_deref().map(Regex::new).transpose();
        let rule = Rule {
            per: self.per,
            direction: self.direction,
            when: Conditions {
                connection: self.connection,
                request: self.request,
                every: self.every,
                probability: self.probability,
                after: self.after.map(|time| time.0),
                until: self.until.map(|time| time.0),
                statement: statement.map_err(|error| format!("statement: {error}"))?,
            },
            what: Faults {
                delay: self.delay.map(|time| time.0).unwrap_or_default(),
                jitter: self.jitter.map(|time| time.0).unwrap_or_default(),
                spread: self.spread,
                rate: self.rate.map(|size| size.0),
                shared_rate: self.shared_rate.map(|size| size.0),
                stall: self.stall.as_deref().map(stall).transpose()?,
                stall_after: self.stall_after.map_or(0, |size| size.0),
                reset: self.reset.map(|size| size.0),
                truncate: self.truncate.map(|size| size.0),
                corrupt: self.corrupt,
                corrupt_at: self.corrupt_at.map(|size| size.0),
                refuse: self.refuse,
            },
        };
        check(&rule)?;
        Ok(rule)
    }
}

/// Rejects contradictory rules.
pub(super) fn check(rule: &Rule) -> Result<(), String> {
    let (when, what) = (&rule.when, &rule.what);
    let share = |name: &str, value: Option<f64>| match value {
        Some(value) if !(0.0..=1.0).contains(&value) => {
            Err(format!("{name} {value}: expected 0 to 1"))
        }
        _ => Ok(()),
    };
    share("probability", when.probability)?;
    share("corrupt", what.corrupt)?;
    if what.rate == Some(0) || what.shared_rate == Some(0) {
        return Err(
            "rate 0: expected bytes a second; `stall = \"forever\"` lets nothing pass".to_owned()
        );
    }
    if [when.every, when.connection, when.request].contains(&Some(0)) {
        return Err("counting begins with 1, not 0".to_owned());
    }
    if matches!((when.after, when.until), (Some(after), Some(until)) if after >= until) {
        return Err("`until` is not after `after`".to_owned());
    }
    let of_requests = when.request.is_some() || when.statement.is_some();
    if of_requests && !matches!(rule.per, None | Some(Per::Request)) {
        return Err(
            "`request` and `statement` choose requests: expected `per = \"request\"`".to_owned()
        );
    }
    Ok(())
}

/// Parses `2s`, or `forever`: until the end of the rule's time, if it has one.
pub(super) fn stall(text: &str) -> Result<Stall, String> {
    match text {
        "forever" => Ok(Stall::ToEnd),
        _ => match units::duration(text) {
            Ok(time) => Ok(Stall::For(time)),
            Err(expected) => Err(format!("stall {text:?}: expected {expected}, or \"forever\"")),
        },
    }
}

/// Parses bytes per second: `1MB/s`, `64KiB`.
pub(super) fn rate(text: &str) -> Result<u64, String> {
    match units::size(text.strip_suffix("/s").unwrap_or(text)) {
        Ok(0) | Err(_) => {
            Err("expected bytes a second such as \"1MB/s\" or \"64KiB/s\"".to_owned())
        }
        Ok(rate) => Ok(rate),
    }
}

struct Time(Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Time, D::Error> {
        let text = String::deserialize(from)?;
        let wrong = |expected| serde::de::Error::custom(format!("{text:?}: expected {expected}"));
        units::duration(&text).map(Time).map_err(wrong)
    }
}

/// A number, or a text such as `64KiB` or `1MB/s`.
struct Size(u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Size, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Text(String),
        }
        match Written::deserialize(from)? {
            Written::Number(number) => Ok(Size(number)),
            Written::Text(text) => {
                let wrong =
                    |expected| serde::de::Error::custom(format!("{text:?}: expected {expected}"));
                units::size(text.strip_suffix("/s").unwrap_or(&text)).map(Size).map_err(wrong)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_a_rule_can_say() {
        let script = Script::parse(
            r#"
            seed = 42
            [[rule]]
            connection = 3
            every = 2
            probability = 0.5
            after = "10s"
            until = "1m"
            per = "connection"
            direction = "both"
            delay = "300ms"
            jitter = "50ms"
            spread = "normal"
            rate = "1MB/s"
            shared-rate = "64KiB/s"
            stall = "2s"
            stall-after = "10KiB"
            reset = 7
            truncate = "1k"
            corrupt = 0.001
            corrupt-at = 12
            refuse = true
            [[rule]]
            statement = "^SELECT"
            request = 4
            stall = "forever"
            "#,
        )
        .unwrap();
        assert_eq!((script.seed, script.rules.len()), (Some(42), 2));
        let Rule { per, direction, when, what } = &script.rules[0];
        assert_eq!((per, direction), (&Some(Per::Connection), &Some(Direction::Both)));
        assert_eq!((when.connection, when.every, when.probability), (Some(3), Some(2), Some(0.5)));
        assert_eq!(
            (when.after, when.until),
            (Some(Duration::from_secs(10)), Some(Duration::from_secs(60)))
        );
        assert_eq!(
            (what.delay.as_millis(), what.jitter.as_millis(), what.spread),
            (300, 50, Spread::Normal)
        );
        assert_eq!((what.rate, what.shared_rate), (Some(1_000_000), Some(65_536)));
        assert_eq!(
            (what.stall, what.stall_after),
            (Some(Stall::For(Duration::from_secs(2))), 10_240)
        );
        assert_eq!(
            (what.reset, what.truncate, what.corrupt, what.corrupt_at),
            (Some(7), Some(1024), Some(0.001), Some(12))
        );
        assert!(what.refuse);
        assert_eq!(script.rules[1].what.stall, Some(Stall::ToEnd));
        assert!(script.rules[1].when.statement.as_ref().unwrap().is_match("SELECT 1"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("[[rule]]\ndelay = 300", "line 2"),
            ("[[rule]]\ndelay = \"soon\"", "expected a duration"),
            ("[[rule]]\ndelai = \"1s\"", "unknown field `delai`"),
            ("[[rule]]\nprobability = 1.5", "rule 1: probability 1.5: expected 0 to 1"),
            ("[[rule]]\nrefuse = true\n[[rule]]\nrate = 0", "rule 2: rate 0"),
            ("[[rule]]\nevery = 0", "counting begins with 1"),
            ("[[rule]]\nafter = \"5s\"\nuntil = \"5s\"", "`until` is not after `after`"),
            ("[[rule]]\nstatement = \"(\"", "statement: "),
            ("[[rule]]\nper = \"bytes\"\nrequest = 1", "expected `per = \"request\"`"),
            ("[[rule]]\nstall = \"long\"", "or \"forever\""),
        ] {
            let error = Script::parse(text).unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }
}
