//! Text from servers made safe for a terminal, and numbers in short form.

use std::{borrow::Cow, fmt::Write as _, time::Duration};

use larder_metrics::{Histogram, Snapshot};
use serde::de::DeserializeOwned;
use serde_json::Value;
use unicode_width::UnicodeWidthChar;

/// Longest text kept from a server, in characters; the rest is cut off.
const TEXT_CHARS: usize = 2048;

/// Text from a server without anything a terminal interprets.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Text(String);

impl std::borrow::Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Text {
    /// Cleans and truncates.
    pub(crate) fn new(text: &str) -> Text {
        let cut = text.char_indices().nth(TEXT_CHARS).map_or(text, |(at, _)| &text[..at]);
        Text(clean(cut).into_owned())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Reads JSON from a server. All its strings are cleaned as [`Text`] is.
///
/// # Errors
///
/// The fault of the JSON, safe to display.
pub(crate) fn from_json<T: DeserializeOwned>(json: &[u8]) -> Result<T, String> {
    let read = serde_json::from_slice::<Value>(json);
    let read = read.and_then(|value| serde_json::from_value(cleaned(value)));
    read.map_err(|error| brief(&error.to_string()))
}

fn cleaned(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(Text::new(&text).0),
        Value::Array(values) => values.into_iter().map(cleaned).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (Text::new(&name).0, cleaned(value))).collect()
        }
        other => other,
    }
}

/// Whether a terminal could interpret the character: controls (C0, DEL, C1: an escape sequence can
/// begin with U+009B as well as with ESC), and characters that are invisible or change the
/// direction of text.
fn is_dangerous(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Replaces characters a terminal could interpret by escapes: `\x1b`, `\u202e`.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if !text.contains(is_dangerous) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // Writing to a String cannot fail.
        let _ = match u32::from(c) {
            code if !is_dangerous(c) => {
                out.push(c);
                debug_assert!(code > 0);
                Ok(())
            }
            code @ 0..=0xff => write!(out, "\\x{code:02x}"),
            code => write!(out, "\\u{code:04x}"),
        };
    }
    Cow::Owned(out)
}

/// Longest message of a server that is shown, in characters.
const BRIEF_CHARS: usize = 200;

/// A message of a server, cleaned and truncated to a few lines.
pub(crate) fn brief(message: &str) -> String {
    clean(&fit(message, BRIEF_CHARS)).into_owned()
}

/// Cleans JSON text, using JSON's own escapes. Controls below U+0020 cannot occur in strings of
/// valid JSON; line ends and tabs between tokens become blanks.
pub(crate) fn clean_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii_control() && c != '\u{7f}' {
            out.push(' ');
        } else if is_dangerous(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Truncates to `width` columns and marks the cut.
pub(crate) fn fit(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide > width {
            while used + 1 > width
                && let Some(last) = out.pop()
            {
                used -= last.width().unwrap_or(0);
            }
            if width > 0 {
                out.push('…');
            }
            return out;
        }
        used += wide;
        out.push(c);
    }
    out
}

/// A number in at most five characters: `0`, `0.42`, `17.3`, `998`, `1.23K`, `12.3M`.
pub(crate) fn count(number: f64) -> String {
    scaled(number, 1000.0, &["", "K", "M", "G", "T", "P"])
}

/// A count with its noun.
pub(crate) fn counted(number: u64, one: &str, several: &str) -> String {
    format!("{} {}", count(number as f64), if number == 1 { one } else { several })
}

/// Bytes in at most five characters, in steps of 1024: `812`, `1.50K`, `64.0M`.
pub(crate) fn bytes(number: f64) -> String {
    scaled(number, 1024.0, &["", "K", "M", "G", "T", "P"])
}

fn scaled(number: f64, step: f64, units: &[&str]) -> String {
    if !number.is_finite() || number <= 0.0 {
        return "0".to_owned();
    }
    let mut number = number;
    let mut unit = 0;
    // 999.5 would be shown with four digits.
    while number >= 999.5 && unit + 1 < units.len() {
        number /= step;
        unit += 1;
    }
    let digits = match number {
        n if unit == 0 && (n.fract() == 0.0 || n >= 99.95) => 0,
        n if n < 9.995 => 2,
        n if n < 99.95 => 1,
        _ => 0,
    };
    format!("{number:.digits$}{}", units[unit])
}

/// A duration in at most six characters: `80µs`, `0.25ms`, `12.3ms`, `1.50s`.
pub(crate) fn time(time: Duration) -> String {
    let us = time.as_secs_f64() * 1e6;
    match us {
        us if us < 99.5 => format!("{us:.0}µs"),
        us if us < 9_995.0 => format!("{:.2}ms", us / 1e3),
        us if us < 99_950.0 => format!("{:.1}ms", us / 1e3),
        us if us < 999_500.0 => format!("{:.0}ms", us / 1e3),
        us if us < 9_995_000.0 => format!("{:.2}s", us / 1e6),
        us if us < 99_950_000.0 => format!("{:.1}s", us / 1e6),
        us => format!("{:.0}s", us / 1e6),
    }
}

/// The time within which `per_mille` of a thousand were done; `-` without any.
pub(crate) fn quantile(histogram: &Histogram, per_mille: u64) -> String {
    match histogram.count() {
        0 => "-".to_owned(),
        _ => time(Duration::from_micros(histogram.quantile(per_mille))),
    }
}

/// A percentage in at most five characters: `0.0%`, `98.7%`, `100%`.
pub(crate) fn percent(share: f64) -> String {
    match share {
        share if share >= 999.5 => ">999%".to_owned(),
        share if share >= 99.95 => format!("{share:.0}%"),
        share => format!("{share:.1}%"),
    }
}

/// A run time: `42s`, `3m05s`, `2h14m`, `12d3h`.
pub(crate) fn uptime(seconds: u64) -> String {
    match seconds {
        0..=59 => format!("{seconds}s"),
        60..=3599 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..=86_399 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// The time of day (UTC) of a time in milliseconds since 1970: `14:03:07.042`.
pub(crate) fn clock(ms: u64) -> String {
    let s = ms / 1000;
    format!("{:02}:{:02}:{:02}.{:03}", s / 3600 % 24, s / 60 % 60, s % 60, ms % 1000)
}

/// Troubles of the whole server now, each with its remedy.
pub(crate) fn states(snapshot: &Snapshot) -> Vec<String> {
    let (now, memory) = (&snapshot.conditions, &snapshot.memory);
    let mut lines = Vec::new();
    if now.reload_failed > 0 {
        lines.push(
            "the last reload failed, an older configuration is in use: larder check".to_owned(),
        );
    }
    if now.memory_short > 0 {
        lines.push(format!(
            "memory is too small: of its {}, entries are evicted that were read in the last minute",
            bytes(memory.budget as f64)
        ));
    }
    if now.descriptors_short > 0 {
        lines.push(
            "no descriptor is left: raise `ulimit -n`, or lower http.limits.connections".to_owned(),
        );
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_a_terminal_obeys_is_left() {
        let sent =
            "/a\x1b]0;owned\x07\x1b[2J\u{9b}31m\r\n\t\u{7f}\u{202e}gpj.exe\u{200b}\u{e0041}é漢";
        let shown = Text::new(sent);
        assert_eq!(
            shown.as_str(),
            "/a\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\x0d\\x0a\\x09\\x7f\\u202egpj.exe\\u200b\\\
             ue0041é漢"
        );
        assert!(!shown.as_str().chars().any(is_dangerous));
        assert!(matches!(clean("http://a/ü?x=1"), Cow::Borrowed(_)));
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(Text::new(&"ü".repeat(TEXT_CHARS + 5)).as_str().chars().count(), TEXT_CHARS);
    }

    #[test]
    fn text_of_json_is_cleaned_when_it_is_read() {
        let json = br#"{"a":["a\u001b[1mb"],"\u202ec":1}"#;
        let read: Value = from_json(json).expect("JSON");
        assert_eq!(read, serde_json::json!({"a": ["a\\x1b[1mb"], "\\u202ec": 1}));
        assert!(from_json::<Value>(b"{").is_err());
    }

    #[test]
    fn json_keeps_its_meaning() {
        let sent = "{\"url\":\"/\u{9b}2J\u{202e}\u{7f}\",\n\"n\":1}";
        let shown = clean_json(sent);
        assert!(!shown.chars().any(is_dangerous), "{shown}");
        let read = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        assert_eq!(read(&shown), read(sent));
    }

    #[test]
    fn text_fits_its_column() {
        assert_eq!(fit("abc", 3), "abc");
        assert_eq!(fit("abcd", 3), "ab…");
        assert_eq!(fit("漢字漢", 5), "漢字…");
        assert_eq!(fit("漢字漢", 4), "漢…");
        assert_eq!(fit("abc", 0), "");
    }

    #[test]
    fn numbers_are_short() {
        let shown =
            [0.0, 0.421, 3.0, 17.25, 998.0, 999.7, 1234.0, 12_345.0, 999_600.0, 1e7].map(count);
        assert_eq!(
            shown,
            ["0", "0.42", "3", "17.2", "998", "1.00K", "1.23K", "12.3K", "1.00M", "10.0M"]
        );
        let shown = [512.0, 1536.0, 67_108_864.0, 1023.0 * 1024.0].map(bytes);
        assert_eq!(shown, ["512", "1.50K", "64.0M", "1.00M"]);
        let shown = [80u64, 250, 12_345, 123_456, 1_500_000, 60_000_000]
            .map(|us| time(Duration::from_micros(us)));
        assert_eq!(shown, ["80µs", "0.25ms", "12.3ms", "123ms", "1.50s", "60.0s"]);
        assert_eq!([0.0, 98.74, 99.96, 999.6].map(percent), ["0.0%", "98.7%", "100%", ">999%"]);
        assert_eq!([42, 185, 8040, 1_047_600].map(uptime), ["42s", "3m05s", "2h14m", "12d3h"]);
        for number in [f64::NAN, f64::INFINITY, -3.0] {
            assert_eq!(count(number), "0");
        }
    }

    #[test]
    fn the_clock_is_utc() {
        assert_eq!(clock(1_763_647_387_042), "14:03:07.042");
    }
}
