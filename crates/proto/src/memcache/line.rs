//! Lines, words and numbers as memcached reads them.
//!
//! memcached splits at blanks only, and reads numbers with `strtoul` and its kin. This module does
//! the same, byte for byte: a sign and white space before the digits count, and characters after
//! white space behind them do not.

/// The first line of `input` without its end, and its length with the end. A line ends with LF; a
/// CR before it belongs to the end. `None`: the end has not arrived.
#[inline]
pub fn split(input: &[u8]) -> Option<(&[u8], usize)> {
    let end = find(b'\n', input)?;
    let line = &input[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}

/// The words of a line, separated by blanks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    /// The words of `line`.
    #[inline]
    pub fn new(line: &'a [u8]) -> Self {
        Self { rest: line }
    }

    /// The bytes of which no word was taken yet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The last word that was not taken yet.
    pub fn last_word(&self) -> &'a [u8] {
        let end = self.rest.iter().rposition(|byte| *byte != b' ').map_or(0, |at| at + 1);
        let start = self.rest[..end].iter().rposition(|byte| *byte == b' ').map_or(0, |at| at + 1);
        &self.rest[start..end]
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let mut rest = self.rest;
        while let [b' ', after @ ..] = rest {
            rest = after;
        }
        let (word, after) = rest.split_at(word_end(rest));
        self.rest = after;
        (!word.is_empty()).then_some(word)
    }
}

/// End of the first word.
#[inline]
pub(crate) fn word_end(rest: &[u8]) -> usize {
    find(b' ', rest).unwrap_or(rest.len())
}

/// This many bytes are examined eight at a time: lines and keys end sooner than the setup of a
/// vector search (a line of 22 bytes: 70 instructions).
const NEAR: usize = 64;

/// First position of `byte`.
#[inline]
pub(crate) fn find(byte: u8, input: &[u8]) -> Option<usize> {
    let near = &input[..input.len().min(NEAR)];
    let found =
        first(near, |word| below(word ^ (EACH * u64::from(byte)), 1), |other| other == byte);
    if found.is_some() || near.len() == input.len() {
        return found;
    }
    memchr::memchr(byte, &input[NEAR..]).map(|at| NEAR + at)
}

/// Position of the first blank or control character, if it is near.
#[inline]
pub(crate) fn blank(input: &[u8]) -> Option<usize> {
    let near = &input[..input.len().min(4 * NEAR)];
    first(near, |word| below(word, b' ' + 1), |byte| byte <= b' ')
}

/// One in each byte.
const EACH: u64 = u64::MAX / 255;

/// The highest bit of the first byte of `word` that is less than `least` (128 at the most); later
/// bytes may be marked wrongly.
#[inline]
fn below(word: u64, least: u8) -> u64 {
    word.wrapping_sub(EACH * u64::from(least)) & !word & (EACH << 7)
}

/// The first byte that `marks` marks, in little-endian words of eight bytes; `is` finds it in a
/// shorter rest.
#[inline]
fn first(input: &[u8], marks: impl Fn(u64) -> u64, is: impl Fn(u8) -> bool) -> Option<usize> {
    let (words, _) = input.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let marked = marks(u64::from_le_bytes(*word));
        if marked != 0 {
            return Some(at * 8 + marked.trailing_zeros() as usize / 8);
        }
    }
    let Some(last) = input.last_chunk::<8>() else {
        return input.iter().position(|byte| is(*byte));
    };
    let marked = marks(u64::from_le_bytes(*last));
    (marked != 0).then(|| input.len() - 8 + marked.trailing_zeros() as usize / 8)
}

/// Space as defined by C's `isspace`.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

/// Sign and digits of a number; `None` if there are none or they do not fit 64 bits.
#[inline]
fn magnitude(word: &[u8]) -> Option<(bool, u64)> {
    // Nearly every number consists of a few digits only.
    if let [b'0'..=b'9', ..] = word
        && word.len() <= 19
        && let Some(value) = word.iter().try_fold(0u64, |value, byte| {
            byte.is_ascii_digit().then(|| value * 10 + u64::from(byte - b'0'))
        })
    {
        return Some((false, value));
    }
    slow_magnitude(word)
}

#[cold]
fn slow_magnitude(word: &[u8]) -> Option<(bool, u64)> {
    let start = word.iter().position(|byte| !is_space(*byte))?;
    let (negative, digits) = match &word[start..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    let (digits, behind) = digits.split_at(end);
    // The text ends at a NUL, as in C.
    if digits.is_empty() || behind.first().is_some_and(|byte| !is_space(*byte) && *byte != 0) {
        return None;
    }
    let value = digits
        .iter()
        .try_fold(0u64, |value, byte| value.checked_mul(10)?.checked_add(u64::from(byte - b'0')))?;
    Some((negative, value))
}

/// An unsigned number of 64 bits, as memcached's `safe_strtoull` reads it: a negative one wraps,
/// and is refused if the wrapped number has its highest bit set.
#[inline]
pub fn unsigned(word: &[u8]) -> Option<u64> {
    let (negative, value) = magnitude(word)?;
    if !negative {
        return Some(value);
    }
    let wrapped = value.wrapping_neg();
    (wrapped as i64 >= 0).then_some(wrapped)
}

/// A signed number of 64 bits.
#[inline]
pub fn signed(word: &[u8]) -> Option<i64> {
    let (negative, value) = magnitude(word)?;
    if negative { 0i64.checked_sub_unsigned(value) } else { value.try_into().ok() }
}

/// A number of 32 bits, as memcached's `safe_strtoul` gives it: the lower half of [`unsigned`].
#[inline]
pub fn unsigned32(word: &[u8]) -> Option<u32> {
    unsigned(word).map(|value| value as u32)
}

/// A signed number of 32 bits, as memcached's `safe_strtol` gives it: the lower half of [`signed`].
#[inline]
pub fn signed32(word: &[u8]) -> Option<i32> {
    signed(word).map(|value| value as i32)
}

/// Two digits for every number below 100.
const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
    2021222324252627282930313233343536373839\
    4041424344454647484950515253545556575859\
    6061626364656667686970717273747576777879\
    8081828384858687888990919293949596979899";

/// Appends a number in decimal.
#[inline]
pub fn decimal(mut value: u64, into: &mut Vec<u8>) {
    if value < 10 {
        into.push(b'0' + value as u8);
        return;
    }
    let mut digits = [0; 20];
    let mut at = digits.len();
    while value >= 10 {
        let pair = (value % 100) as usize * 2;
        value /= 100;
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if value > 0 {
        at -= 1;
        digits[at] = b'0' + value as u8;
    }
    into.extend_from_slice(&digits[at..]);
}

/// The number of digits that [`decimal`] writes.
pub fn digits(value: u64) -> usize {
    value.checked_ilog10().unwrap_or(0) as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_lf_and_may_have_cr() {
        assert_eq!(split(b"get a\r\nrest"), Some((&b"get a"[..], 7)));
        assert_eq!(split(b"get a\nrest"), Some((&b"get a"[..], 6)));
        assert_eq!(split(b"get a\r\r\n"), Some((&b"get a\r"[..], 8)));
        assert_eq!(split(b"\n"), Some((&b""[..], 1)));
        assert_eq!(split(b"get a\r"), None);
    }

    #[test]
    fn words_stand_between_blanks() {
        let words = |line: &'static str| {
            Words::new(line.as_bytes()).map(|w| str::from_utf8(w).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(words("  get  a b "), ["get", "a", "b"]);
        assert_eq!(words("a\tb c"), ["a\tb", "c"]);
        assert!(words("   ").is_empty());
        assert_eq!(Words::new(b"a bc  def ").last_word(), b"def");
        assert_eq!(Words::new(b"abc").last_word(), b"abc");
        assert_eq!(Words::new(b"  ").last_word(), b"");
    }

    #[test]
    fn bytes_are_found_wherever_they_are_and_whatever_is_around_them() {
        for len in 0..300 {
            for other in [0x00, 0x21, 0x7f, 0x80, 0xff] {
                let mut text = vec![other; len];
                let (blank_at, space_at) = ((other == 0 && len > 0).then_some(0), None);
                assert_eq!(
                    (blank(&text), find(b' ', &text)),
                    (blank_at, space_at),
                    "{len} {other}"
                );
                for at in 0..len {
                    text[at] = b' ';
                    text[at + 1..].fill(b'!');
                    assert_eq!(find(b' ', &text), Some(at), "{len} {other}");
                    let near = (at < 4 * NEAR).then_some(at);
                    assert_eq!(blank(&text), blank_at.filter(|_| at > 0).or(near), "{len} {other}");
                    text[at..].fill(other);
                }
            }
        }
    }

    #[test]
    fn a_byte_is_told_from_those_most_like_it() {
        for byte in [b' ', b'\n', 0x80, 0xff, 0x00] {
            for len in 0..100 {
                for other in [byte ^ 1, byte ^ 0x80, byte.wrapping_add(1), byte.wrapping_sub(1)] {
                    let mut text = vec![other; len];
                    assert_eq!(find(byte, &text), None, "{byte} {other} {len}");
                    text.push(byte);
                    text.resize(len + 20, other);
                    assert_eq!(find(byte, &text), Some(len), "{byte} {other} {len}");
                }
            }
        }
    }

    #[test]
    fn numbers_are_read_as_by_strtoul() {
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(unsigned(b"9999999999999999999"), Some(9_999_999_999_999_999_999));
        assert_eq!(unsigned(b"18446744073709551616"), None);
        assert_eq!(unsigned(b"-1"), None);
        assert_eq!(unsigned(b"-18446744073709551615"), Some(1));
        assert_eq!(unsigned(b"-0"), Some(0));
        assert_eq!(unsigned(b"+7"), Some(7));
        assert_eq!(unsigned(b"\t7\tx"), Some(7));
        assert_eq!(unsigned(b"007"), Some(7));
        assert_eq!(unsigned(b"1\0\0"), Some(1));
        for bad in [&b""[..], b"x", b"1x", b"0x1", b"1.5", b"+", b"-", b"\t"] {
            assert_eq!(unsigned(bad), None, "{bad:?}");
            assert_eq!(signed(bad), None, "{bad:?}");
        }
        assert_eq!(unsigned32(b"4294967297"), Some(1));
        assert_eq!(signed(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(signed(b"9223372036854775808"), None);
        assert_eq!(signed(b"-9223372036854775809"), None);
        assert_eq!(signed32(b"2147483648"), Some(i32::MIN));
    }

    #[test]
    fn decimals_are_written_without_zeros_before_them() {
        for value in [
            0,
            7,
            10,
            42,
            99,
            100,
            101,
            999,
            1000,
            65_535,
            1_234_567,
            u64::from(u32::MAX),
            u64::MAX,
        ] {
            let mut text = Vec::new();
            decimal(value, &mut text);
            assert_eq!(text, value.to_string().as_bytes());
            assert_eq!(text.len(), digits(value));
        }
    }
}
