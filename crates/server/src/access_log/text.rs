//! Numbers, dates and foreign bytes, appended to a buffer without allocating.
//!
//! Fields that a client chose (target, Referer, User-Agent, user) may contain any byte. They must
//! never end a line, leave their field, or control the terminal of a reader. Each format has its
//! own way of writing such bytes.

use std::{io::Write, net::IpAddr};

/// Appends `number` in decimal, on the left filled with `fill` to at least `width` bytes.
pub(super) fn number(out: &mut Vec<u8>, number: u64, width: usize, fill: u8) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    let mut left = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    let written = digits.len() - at;
    out.extend(std::iter::repeat_n(fill, width.saturating_sub(written)));
    out.extend_from_slice(&digits[at..]);
}

/// Appends an address; an IPv4-mapped IPv6 address is written as IPv4.
pub(super) fn address(out: &mut Vec<u8>, address: IpAddr) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{}", address.to_canonical());
}

const HEX_UPPER: &[u8; 16] = b"0123456789ABCDEF";
const HEX_LOWER: &[u8; 16] = b"0123456789abcdef";

fn hex(out: &mut Vec<u8>, prefix: &[u8], byte: u8, digits: &[u8; 16]) {
    out.extend_from_slice(prefix);
    out.push(digits[usize::from(byte >> 4)]);
    out.push(digits[usize::from(byte & 15)]);
}

/// Appends a field that ends at the next space: blanks, quotes, backslashes, control characters and
/// everything beyond ASCII become `%XX`, as Squid writes them. An empty field becomes `-`.
pub(super) fn percent(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.is_empty() {
        return out.push(b'-');
    }
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => hex(out, b"%", byte, HEX_UPPER),
            b'!'..=b'~' => out.push(byte),
            _ => hex(out, b"%", byte, HEX_UPPER),
        }
    }
}

/// Appends the inside of a quoted field as Apache writes it: `\"`, `\\`, `\n` and the like, `\xhh`.
pub(super) fn backslash(out: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => out.push(byte),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0b => out.extend_from_slice(b"\\v"),
            _ => hex(out, b"\\x", byte, HEX_LOWER),
        }
    }
}

/// Appends a JSON string (RFC 8259 section 7) with its quotes. Invalid UTF-8 becomes U+FFFD; all
/// control characters are escaped, including those that JSON allows (DEL and U+0080 to U+009F).
pub(super) fn json_string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for part in bytes.utf8_chunks() {
        for character in part.valid().chars() {
            json_character(out, character);
        }
        if !part.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    out.push(b'"');
}

fn json_character(out: &mut Vec<u8>, character: char) {
    match character {
        '"' | '\\' => out.extend_from_slice(&[b'\\', character as u8]),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        // All of Unicode's control characters are below U+0100.
        _ if character.is_control() => hex(out, b"\\u00", character as u8, HEX_LOWER),
        _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// A moment in UTC by its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) year: u64,
    /// 1 to 12.
    pub(super) month: u64,
    pub(super) day: u64,
    pub(super) hour: u64,
    pub(super) minute: u64,
    pub(super) second: u64,
    pub(super) millisecond: u64,
}

impl Moment {
    /// From milliseconds since the UNIX epoch (Howard Hinnant's `civil_from_days`, for days after
    /// 1970).
    pub(super) fn new(ms: u64) -> Moment {
        let (seconds, millisecond) = (ms / 1000, ms % 1000);
        let (days, of_day) = (seconds / 86_400, seconds % 86_400);
        let shifted = days + 719_468;
        let (era, of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        Moment {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: of_year - (153 * from_march + 2) / 5 + 1,
            hour: of_day / 3600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
            millisecond,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn numbers_are_filled_but_never_cut() {
        for (value, width, expected) in
            [(0, 3, "000"), (7, 3, "007"), (123, 3, "123"), (1234, 3, "1234"), (0, 0, "0")]
        {
            assert_eq!(text(|out| number(out, value, width, b'0')), expected);
        }
        assert_eq!(text(|out| number(out, u64::MAX, 6, b' ')), "18446744073709551615");
        assert_eq!(text(|out| number(out, 42, 6, b' ')), "    42");
    }

    #[test]
    fn addresses_are_written_the_usual_way() {
        for (given, expected) in [
            ("10.0.0.1", "10.0.0.1"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("2001:db8::1", "2001:db8::1"),
        ] {
            assert_eq!(text(|out| address(out, given.parse().expect("address"))), expected);
        }
    }

    #[test]
    fn moments_are_taken_apart_correctly() {
        let moment = |ms| {
            let m = Moment::new(ms);
            (m.year, m.month, m.day, m.hour, m.minute, m.second, m.millisecond)
        };
        assert_eq!(moment(0), (1970, 1, 1, 0, 0, 0, 0));
        assert_eq!(moment(951_782_399_999), (2000, 2, 28, 23, 59, 59, 999));
        assert_eq!(moment(951_782_400_000), (2000, 2, 29, 0, 0, 0, 0));
        assert_eq!(moment(971_211_336_007), (2000, 10, 10, 20, 55, 36, 7));
        assert_eq!(moment(1_735_689_599_000), (2024, 12, 31, 23, 59, 59, 0));
        assert_eq!(moment(4_107_542_400_000), (2100, 3, 1, 0, 0, 0, 0));
    }

    #[test]
    fn foreign_bytes_are_written_so_that_they_can_be_read_back() {
        let foreign = b"a \"\\\n\r\t\x08\x0b\x1b\x7f\xe9%";
        assert_eq!(text(|out| percent(out, foreign)), "a%20%22%5C%0A%0D%09%08%0B%1B%7F%E9%");
        assert_eq!(text(|out| backslash(out, foreign)), r#"a \"\\\n\r\t\b\v\x1b\x7f\xe9%"#);
        assert_eq!(
            text(|out| json_string(out, foreign)),
            "\"a \\\"\\\\\\n\\r\\t\\u0008\\u000b\\u001b\\u007f\u{fffd}%\""
        );
        assert_eq!(
            text(|out| json_string(out, "\u{85}\u{e9}\u{1f980}".as_bytes())),
            "\"\\u0085\u{e9}\u{1f980}\""
        );
        assert_eq!(text(|out| percent(out, b"")), "-");
    }
}
