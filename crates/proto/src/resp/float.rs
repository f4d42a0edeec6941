//! The arithmetic of INCRBYFLOAT and HINCRBYFLOAT. Redis computes in x86's `long double` (64 bits
//! of mantissa) and prints with `%.17Lf`, which no type of Rust supports: so this module has the
//! three operations of that type, exactly.

use super::big::Big;

/// Longest text read (Redis: MAX_LONG_DOUBLE_CHARS, with its end).
const MAX_TEXT: usize = 5 * 1024;
/// Largest and least exponent of ten: greater values are infinite, smaller ones zero.
const MAX_TEN: i64 = 20_000;
/// Values from 2 to this power on are infinite.
const TOP: i64 = 16_384;
/// Values below 2 to this power are zero.
const BOTTOM: i64 = -16_446;
const FRACTION: u32 = 17;

/// A `long double`: ± mantissa × 2^exponent. The mantissa's top bit is set, unless the value is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Float {
    negative: bool,
    mantissa: u64,
    exponent: i64,
    infinite: bool,
}

impl Float {
    /// Zero.
    pub const ZERO: Float = Float { negative: false, mantissa: 0, exponent: 0, infinite: false };

    /// Parses texts that `strtold` reads completely: decimal or hexadecimal, `inf`. `None`: any
    /// other text, and values that are too large or too small.
    pub fn parse(text: &[u8]) -> Option<Float> {
        if text.len() >= MAX_TEXT {
            return None;
        }
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        if text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity") {
            return Some(Float { negative, infinite: true, ..Float::ZERO });
        }
        let unsigned = match text {
            [b'0', b'x' | b'X', digits @ ..] => hexadecimal(digits)?,
            _ => decimal(text)?,
        };
        Some(Float { negative, ..unsigned })
    }

    /// It is a finite number.
    pub fn is_finite(&self) -> bool {
        !self.infinite
    }

    /// The sum, rounded as the processor rounds it; `None`: it is not finite.
    pub fn plus(self, other: Float) -> Option<Float> {
        if self.infinite || other.infinite {
            return None;
        }
        if self.mantissa == 0 || other.mantissa == 0 {
            return Some(if self.mantissa == 0 { other } else { self });
        }
        let exponent = self.exponent.min(other.exponent);
        let aligned =
            |f: &Float| Big::from(u128::from(f.mantissa)).shifted((f.exponent - exponent) as usize);
        let (a, b) = (aligned(&self), aligned(&other));
        let (negative, sum) = if self.negative == other.negative {
            (self.negative, a.plus(&b))
        } else if a.at_least(&b) {
            (self.negative, a.minus(&b))
        } else {
            (other.negative, b.minus(&a))
        };
        let sum = round(&sum, exponent, false)?;
        Some(Float { negative: negative && sum.mantissa != 0, ..sum })
    }

    /// As `%.17Lf` prints it, without zeros at the end.
    pub fn text(&self) -> String {
        let mut digits = if self.exponent >= 0 {
            Big::from(u128::from(self.mantissa)).shifted(self.exponent as usize).decimal()
        } else {
            fraction(self.mantissa, self.exponent.unsigned_abs())
        };
        if self.negative && digits != "0" {
            digits.insert(0, '-');
        }
        digits
    }
}

/// `mantissa` / 2^`shift`, rounded to 17 places, half to even.
fn fraction(mantissa: u64, shift: u64) -> String {
    let unit = 10u128.pow(FRACTION);
    // Below 2^121.
    let scaled = u128::from(mantissa) * unit;
    let rounded = match shift {
        0 => scaled,
        1..=121 => {
            let (whole, rest, half) =
                (scaled >> shift, scaled & ((1 << shift) - 1), 1 << (shift - 1));
            whole + u128::from(rest > half || (rest == half && whole & 1 == 1))
        }
        _ => 0,
    };
    let text = format!("{}.{:017}", rounded / unit, rounded % unit);
    text.trim_end_matches('0').trim_end_matches('.').into()
}

/// `value` × 2^`exponent` in 64 bits, half to even; `more`: a little above that. `None`: infinite.
fn round(value: &Big, exponent: i64, more: bool) -> Option<Float> {
    let bits = value.bits();
    if bits == 0 {
        return Some(Float::ZERO);
    }
    let (mut mantissa, rest) = value.top();
    let mut exponent = exponent + bits as i64 - 64;
    let up = match rest {
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Equal => more || mantissa & 1 == 1,
        std::cmp::Ordering::Less => false,
    };
    if up {
        let (next, carried) = mantissa.overflowing_add(1);
        mantissa = if carried { 1 << 63 } else { next };
        exponent += i64::from(carried);
    }
    (exponent + 64 <= TOP).then_some(Float { mantissa, exponent, ..Float::ZERO })
}

/// Digits with a point somewhere, up to an exponent or the end.
struct Digits<'a> {
    value: Big,
    /// Number of digits after the point.
    behind: i64,
    rest: &'a [u8],
}

fn digits(text: &[u8], base: u32) -> Option<Digits<'_>> {
    let (mut value, mut behind, mut point, mut any) = (Big::from(0), 0, false, false);
    let mut end = text.len();
    for (at, &byte) in text.iter().enumerate() {
        match (byte as char).to_digit(base) {
            Some(digit) => {
                value.push_digit(base, digit);
                behind += i64::from(point);
                any = true;
            }
            None if byte == b'.' && !point => point = true,
            None => {
                end = at;
                break;
            }
        }
    }
    any.then_some(Digits { value, behind, rest: &text[end..] })
}

/// The number after `e` or `p`, or 0 if the text ends.
fn exponent(rest: &[u8], letter: u8) -> Option<i64> {
    let [first, rest @ ..] = rest else { return Some(0) };
    if first.to_ascii_lowercase() != letter {
        return None;
    }
    let (negative, digits) = match rest {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        _ => (false, rest),
    };
    if digits.is_empty() {
        return None;
    }
    let value = digits.iter().try_fold(0i64, |value, digit| {
        digit.is_ascii_digit().then(|| (value * 10 + i64::from(digit - b'0')).min(10 * MAX_TEN))
    })?;
    Some(if negative { -value } else { value })
}

fn hexadecimal(text: &[u8]) -> Option<Float> {
    let found = digits(text, 16)?;
    let exponent = exponent(found.rest, b'p')? - 4 * found.behind;
    in_range(round(&found.value, exponent, false)?)
}

fn decimal(text: &[u8]) -> Option<Float> {
    let found = digits(text, 10)?;
    let ten = exponent(found.rest, b'e')? - found.behind;
    if found.value.bits() == 0 {
        return Some(Float::ZERO);
    }
    if ten > MAX_TEN {
        return None;
    }
    if ten >= 0 {
        return round(&found.value.times(&Big::power_of_ten(ten as usize)), 0, false);
    }
    if ten < -(MAX_TEN + MAX_TEXT as i64) {
        return None;
    }
    // A quotient of 66 or 67 bits, and whether there is a remainder.
    let divisor = Big::power_of_ten(ten.unsigned_abs() as usize);
    let shift = divisor.bits() as i64 + 66 - found.value.bits() as i64;
    let (quotient, left) = if shift >= 0 {
        found.value.shifted(shift as usize).divided(&divisor)
    } else {
        found.value.divided(&divisor.shifted(shift.unsigned_abs() as usize))
    };
    // One more bit, set if there is a remainder, so that the rounding takes it into account.
    let quotient = Big::from(quotient << 1 | u128::from(left));
    in_range(round(&quotient, -shift - 1, false)?)
}

/// Refuses values too small to be distinguished from 0.
fn in_range(float: Float) -> Option<Float> {
    (float.mantissa == 0 || float.exponent + 63 >= BOTTOM).then_some(float)
}

#[cfg(test)]
mod tests {
    use super::Float;

    fn add(a: &str, b: &str) -> Option<String> {
        Some(Float::parse(a.as_bytes())?.plus(Float::parse(b.as_bytes())?)?.text())
    }

    #[test]
    fn sums_are_those_of_redis() {
        for (a, b, sum) in [
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3", "-3", "0"),
            ("0.1", "0.2", "0.3"),
            ("1.5", "0x10", "17.5"),
            ("-1e-20", "0", "0"),
            ("1", "1e-17", "1.00000000000000001"),
            ("17179869184", "1", "17179869185"),
            ("1e18", "0.5", "1000000000000000000.5"),
            ("0.00000000000000001", "0", "0.00000000000000001"),
            ("1e20", "0", "100000000000000000000"),
            ("1e21", "1", "1000000000000000000000"),
        ] {
            assert_eq!(add(a, b).as_deref(), Some(sum), "{a} + {b}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "", " 1", "1 ", "abc", "1e", "1e+", "e5", ".", "0x", "nan", "1e5000", "1e-5000", "1\0",
            "--1",
        ] {
            assert_eq!(Float::parse(text.as_bytes()), None, "{text:?}");
        }
        assert!(!Float::parse(b"-inf").unwrap().is_finite());
        assert_eq!(add("1e4932", "1e4932"), None, "beyond the largest");
    }
}
