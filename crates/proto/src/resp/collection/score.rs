//! Scores of sorted sets: 64-bit floating-point numbers but NaN, with infinities.

use std::cmp::Ordering;

/// A score.
pub type Score = f64;

/// The order of a sorted set: by score, then by member. 0 and -0 are equal.
#[inline]
pub fn compare(left: (Score, &[u8]), right: (Score, &[u8])) -> Ordering {
    left.0.partial_cmp(&right.0).unwrap_or(Ordering::Equal).then_with(|| left.1.cmp(right.1))
}

/// Bytes whose order is that of score and member.
pub fn rank_key(score: Score, member: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(8 + member.len());
    key.extend_from_slice(&sortable(score));
    key.extend_from_slice(member);
    key
}

/// Bytes that are above the keys of all members with this score.
pub fn rank_above(score: Score) -> Vec<u8> {
    // Above infinity there is no score, but there are bytes.
    (u64::from_be_bytes(sortable(score)) + 1).to_be_bytes().to_vec()
}

/// Big-endian bytes whose order is that of the scores.
fn sortable(score: Score) -> [u8; 8] {
    let bits = if score == 0.0 { 0 } else { score.to_bits() };
    let bits = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    bits.to_be_bytes()
}

/// The shortest key that is above `before` and not above `first`.
pub fn separator(before: &[u8], first: &[u8]) -> Vec<u8> {
    let same = before.iter().zip(first).take_while(|(left, right)| left == right).count();
    first[..first.len().min(same + 1)].to_vec()
}

/// A score as a client sends it (Redis: `string2d`): what C's `strtod` reads as a whole, in range.
pub fn parse_score(text: &[u8]) -> Option<Score> {
    if text.first().is_none_or(|byte| is_space(*byte)) {
        return None;
    }
    let score = parse(text)?;
    let is_named = text.iter().any(|byte| byte.eq_ignore_ascii_case(&b'i'));
    let is_zero = text.split(|byte| matches!(byte, b'e' | b'E' | b'p' | b'P')).next();
    let is_zero = is_zero.is_none_or(|digits| {
        digits
            .iter()
            .all(|byte| !matches!(byte, b'1'..=b'9' | b'a'..=b'd' | b'f' | b'A'..=b'D' | b'F'))
    });
    let fits = (score.is_finite() || is_named) && (score != 0.0 || is_zero);
    fits.then_some(score)
}

/// The bound of a range of scores without its mark: nothing is 0, and beyond the range is infinite.
pub fn parse_bound(text: &[u8]) -> Option<Score> {
    let start = text.iter().position(|byte| !is_space(*byte)).unwrap_or(text.len());
    if text.is_empty() { Some(0.0) } else { parse(&text[start..]) }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The number that C's `strtod` reads if it reads the whole text; not NaN.
fn parse(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => hexadecimal(digits)?,
        None if digits.starts_with(['+', '-']) => return None,
        None => digits.parse::<f64>().ok()?,
    };
    if value.is_nan() {
        return None;
    }
    Some(if negative { -value } else { value })
}

/// Hexadecimal digits with a point and a binary exponent.
fn hexadecimal(digits: &str) -> Option<f64> {
    let (digits, exponent) = match digits.find(['p', 'P']) {
        Some(at) => (&digits[..at], digits[at + 1..].parse::<i32>().ok()?),
        None => (digits, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (mut value, mut scale) = (0.0, 0i32);
    for digit in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    scale -= 4 * i32::try_from(fraction.len()).ok()?;
    Some(value * 2f64.powi(scale.saturating_add(exponent).clamp(-2000, 2000)))
}
