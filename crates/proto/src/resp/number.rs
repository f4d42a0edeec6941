//! Numbers as Redis reads and writes them.

/// Longest text of a 64-bit integer: `-9223372036854775808`.
pub const I64_TEXT: usize = 20;

const PAIRS: &[u8; 200] = b"00010203040506070809101112131415161718192021222324252627282930313233343536373839\
4041424344454647484950515253545556575859606162636465666768697071727374757677787980818283848586878889\
90919293949596979899";

/// Space for the text of one integer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Text {
    bytes: [u8; I64_TEXT],
}

impl Text {
    /// `value` in decimal.
    pub fn i64(&mut self, value: i64) -> &[u8] {
        let mut at = self.digits(value.unsigned_abs());
        if value < 0 {
            at -= 1;
            self.bytes[at] = b'-';
        }
        &self.bytes[at..]
    }

    /// `value` in decimal.
    pub fn u64(&mut self, value: u64) -> &[u8] {
        let at = self.digits(value);
        &self.bytes[at..]
    }

    fn digits(&mut self, mut value: u64) -> usize {
        let mut at = I64_TEXT;
        while value >= 100 {
            let pair = (value % 100) as usize * 2;
            value /= 100;
            at -= 2;
            self.bytes[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
        }
        if value >= 10 {
            let pair = value as usize * 2;
            at -= 2;
            self.bytes[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
        } else {
            at -= 1;
            self.bytes[at] = b'0' + value as u8;
        }
        at
    }
}

/// Appends `value` in decimal.
#[inline]
pub fn push_i64(out: &mut Vec<u8>, value: i64) {
    if (0..10).contains(&value) {
        return out.push(b'0' + value as u8);
    }
    out.extend_from_slice(Text::default().i64(value));
}

/// Appends `value` in decimal.
#[inline]
pub fn push_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(Text::default().u64(value));
}

/// A 64-bit integer in the only form that Redis accepts (string2ll): no `+`, no leading zeros, no
/// spaces, no `-0`.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let magnitude = match digits {
        [b'0'] if !negative => 0,
        [b'1'..=b'9', ..] if digits.len() < I64_TEXT => {
            // 19 digits fit 64 bits.
            let mut value: u64 = 0;
            for &digit in digits {
                if !digit.is_ascii_digit() {
                    return None;
                }
                value = value * 10 + u64::from(digit - b'0');
            }
            value
        }
        _ => return None,
    };
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// The value of C's `strtoull` for a text that it reads completely, for cursors: leading spaces and
/// one sign are allowed; `None` beyond 64 bits.
pub fn parse_cursor(text: &[u8]) -> Option<u64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() {
        // strtoull reads an empty text as 0.
        return (text.is_empty()).then_some(0);
    }
    let value = digits.iter().try_fold(0u64, |value, &digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })?;
    Some(if negative { value.wrapping_neg() } else { value })
}

/// A number of bytes with a unit, as in Redis's configuration (memtoull): `k`, `m`, `g` count in
/// steps of 1000, `kb`, `mb`, `gb` in steps of 1024, in letters of either case. `None`: another
/// unit, not a number, or above `i64::MAX`.
pub fn parse_bytes(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.to_ascii_lowercase();
    let (digits, unit) =
        text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit = match unit {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    digits.parse::<i64>().ok()?.checked_mul(unit)?.try_into().ok()
}

/// A double as C's `%.17g` prints it.
pub fn double(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.into();
    }
    let text = format!("{value:.16e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..17).contains(&exponent) {
        let text = format!("{value:.*}", (16 - exponent) as usize);
        return trim_zeros(&text).into();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim_zeros(digits), exponent.abs())
}

/// A double in decimal with up to 17 digits behind the point, as Redis prints for people.
pub fn fixed(value: f64) -> String {
    let text = trim_zeros(&format!("{value:.17}")).to_owned();
    if text == "-0" { "0".into() } else { text }
}

fn trim_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units_like_redis() {
        for (text, bytes) in [
            ("1kb", Some(1024)),
            ("1k", Some(1000)),
            ("2GB", Some(2 << 30)),
            ("12", Some(12)),
            ("0b", Some(0)),
            ("1.5mb", None),
            ("mb", None),
            ("-1mb", None),
            ("99999999999999gb", None),
        ] {
            assert_eq!(parse_bytes(text.as_bytes()), bytes, "{text}");
        }
    }

    #[test]
    fn integers_are_read_as_redis_reads_them() {
        for (text, value) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("99999999999999999999", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("01", None),
            ("+1", None),
            (" 1", None),
            ("1 ", None),
            ("1a", None),
        ] {
            assert_eq!(parse_i64(text.as_bytes()), value, "{text}");
        }
    }

    #[test]
    fn integers_are_written_in_decimal() {
        for value in [0, 1, 9, 10, 99, 100, 101, 12345, i64::MAX, i64::MIN, -1, -10, -123] {
            let mut out = Vec::new();
            push_i64(&mut out, value);
            assert_eq!(out, value.to_string().as_bytes());
        }
        let mut out = Vec::new();
        push_u64(&mut out, u64::MAX);
        assert_eq!(out, u64::MAX.to_string().as_bytes());
    }

    #[test]
    fn doubles_are_written_as_c_does() {
        for (value, text) in [
            (3.0, "3"),
            (0.1, "0.10000000000000001"),
            (1e17, "1e+17"),
            (1.5e300, "1.5000000000000001e+300"),
            (-1e-5, "-1.0000000000000001e-05"),
            (1e-4, "0.0001"),
            (12345678.5, "12345678.5"),
        ] {
            assert_eq!(double(value), text);
        }
    }
}
