//! Parameters that Redis lets be set and that have no meaning here: a value is checked as Redis
//! checks it, kept, and shown by CONFIG GET.

use std::collections::BTreeMap;

use larder_proto::resp::number::parse_bytes;
use parking_lot::Mutex;

/// Longest text that is kept, in bytes: clients choose it, and it has no account.
const TEXT: usize = 1024;
/// Bounds of Redis's `int` and `long`.
pub(super) const INT: i64 = i32::MAX as i64;
pub(super) const LONG: i64 = i64::MAX;

/// The values that Redis accepts.
#[derive(Clone, Copy)]
pub(crate) enum Check {
    /// A number within bounds (both inclusive).
    Number(i64, i64),
    /// A number of bytes from this one on; accepts units.
    Bytes(i64),
    YesNo,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Some of these words.
    Words(&'static [&'static str]),
    Text,
    /// Pairs of seconds and changes.
    Save,
    /// Numbers from 0 to 100, with a fraction.
    Percentiles,
}

/// Values that were set, by name.
#[derive(Default)]
pub(crate) struct Kept(Mutex<BTreeMap<&'static str, String>>);

impl Kept {
    /// None: the parameter has its default.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        self.0.lock().get(name).cloned()
    }

    pub(super) fn set(&self, name: &'static str, check: Check, text: &[u8]) -> Result<(), String> {
        let value = check.value(text)?;
        self.0.lock().insert(name, value);
        Ok(())
    }
}

impl Check {
    /// The value as CONFIG GET shows it. `Err`: the reason for a refusal, in Redis's words.
    fn value(self, text: &[u8]) -> Result<String, String> {
        let words = std::str::from_utf8(text).ok().filter(|text| text.len() <= TEXT);
        let text = words.ok_or_else(|| format!("argument must be text of at most {TEXT} bytes"))?;
        match self {
            Check::Number(least, most) => {
                let number: i64 =
                    text.parse().map_err(|_| "argument couldn't be parsed into an integer")?;
                within(number, least, most)
            }
            Check::Bytes(least) => {
                let bytes =
                    parse_bytes(text.as_bytes()).ok_or("argument must be a memory value")?;
                within(i64::try_from(bytes).unwrap_or(LONG), least, LONG)
            }
            Check::YesNo => match one_of(&["yes", "no"], text) {
                Some(word) => Ok(word.to_owned()),
                None => Err("argument must be 'yes' or 'no'".to_owned()),
            },
            Check::OneOf(words) => {
                one_of(words, text).map(str::to_owned).ok_or_else(|| choice(words))
            }
            Check::Words(words) => {
                let found = text.split_whitespace().map(|word| one_of(words, word));
                let found: Option<Vec<&str>> = found.collect();
                let found = found.filter(|found| !found.is_empty());
                found.map(|found| found.join(" ")).ok_or_else(|| choice(words))
            }
            Check::Text => Ok(text.to_owned()),
            Check::Save => save(text),
            Check::Percentiles => percentiles(text),
        }
    }
}

fn within(number: i64, least: i64, most: i64) -> Result<String, String> {
    if (least..=most).contains(&number) {
        return Ok(number.to_string());
    }
    Err(format!("argument must be between {least} and {most} inclusive"))
}

fn one_of(words: &[&'static str], text: &str) -> Option<&'static str> {
    words.iter().find(|word| word.eq_ignore_ascii_case(text)).copied()
}

fn choice(words: &[&str]) -> String {
    format!("argument(s) must be one of the following: {}", words.join(", "))
}

fn save(text: &str) -> Result<String, String> {
    const INVALID: &str = "Invalid save parameters";
    let numbers: Result<Vec<i64>, _> = text.split_whitespace().map(str::parse).collect();
    let numbers = numbers.map_err(|_| INVALID)?;
    let (pairs, rest) = numbers.as_chunks::<2>();
    if !rest.is_empty() || pairs.iter().any(|[seconds, changes]| *seconds < 1 || *changes < 0) {
        return Err(INVALID.to_owned());
    }
    Ok(numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(" "))
}

fn percentiles(text: &str) -> Result<String, String> {
    let mut shown = Vec::new();
    for word in text.split_whitespace() {
        let number: f64 = word.parse().map_err(|_| "Invalid latency percentile")?;
        if !(0.0..=100.0).contains(&number) {
            return Err("latency percentiles should sit between 0.0 and 100.0".to_owned());
        }
        shown.push(number.to_string());
    }
    Ok(shown.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(check: Check, text: &str) -> Result<String, String> {
        check.value(text.as_bytes())
    }

    #[test]
    fn values_are_checked_as_by_redis() {
        assert_eq!(value(Check::Bytes(0), "2kb"), Ok("2048".into()));
        assert_eq!(value(Check::Number(-5, INT), "-2"), Ok("-2".into()));
        assert_eq!(value(Check::YesNo, "YES"), Ok("yes".into()));
        assert_eq!(value(Check::Save, "900  1 300 10"), Ok("900 1 300 10".into()));
        assert_eq!(value(Check::Percentiles, "0.0 50.0 99.9"), Ok("0 50 99.9".into()));
        for (check, text) in [
            (Check::Bytes(1), "0"),
            (Check::Bytes(0), "2tb"),
            (Check::Number(0, 9), "10"),
            (Check::Number(0, 9), "1x"),
            (Check::YesNo, "1"),
            (Check::OneOf(&["a", "b"]), "c"),
            (Check::Words(&["a", "b"]), ""),
            (Check::Save, "900"),
            (Check::Save, "0 1"),
            (Check::Percentiles, "101"),
        ] {
            assert!(value(check, text).is_err(), "{text}");
        }
        assert!(Check::Text.value(&[b'x'; TEXT + 1]).is_err());
    }
}
