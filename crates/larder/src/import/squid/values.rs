//! Words of Squid's configuration, as values of Larder's.

use crate::import::times;

pub(super) fn plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "-_".contains(c))
}

/// Expressions of an ACL, `-i` among them, that rules can have.
pub(super) fn regexes(values: &[String]) -> Vec<(String, bool)> {
    let mut ignore_case = false;
    let mut out = Vec::new();
    for value in values {
        match value.as_str() {
            "-i" => ignore_case = true,
            "+i" => ignore_case = false,
            value => out.extend(times::regex(value, ignore_case).map(|regex| (regex, ignore_case))),
        }
    }
    out
}

pub(super) fn host_of(host: &str) -> String {
    host.strip_prefix('.').map_or(host.to_owned(), |rest| format!("*.{rest}"))
}

/// `5 minutes`, `30 seconds`.
pub(super) fn squid_time(words: &[&str]) -> Option<String> {
    let [number, unit @ ..] = words else { return None };
    let number: f64 = number.parse().ok()?;
    let seconds = match unit.first().map_or("second", |unit| unit.trim_end_matches('s')) {
        "second" => 1.0,
        "minute" => 60.0,
        "hour" => 3600.0,
        "day" => 86_400.0,
        "week" => 7.0 * 86_400.0,
        _ => return None,
    };
    Some(times::shown(number * seconds))
}
