//! Byte ranges (RFC 9110 14): Range, Content-Range, If-Range.
//!
//! A Range field can ask for more bytes than the page has: `bytes=0-,0-,0-` once made servers send
//! a file a thousand times. So at most [`MAX_RANGES`] ranges are accepted, overlapping and touching
//! ones are joined, and the result is never longer than the representation. A field that is
//! malformed, in another unit or too long is ignored: the answer is then the whole representation
//! (RFC 9110 14.2).

use super::etag::EntityTag;
use super::fields::Elements;
use crate::Secs;

/// Ranges taken from one request; a Range with more is ignored.
pub const MAX_RANGES: usize = 16;

/// Bytes `first` to `last`, both included; `first <= last`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteRange {
    /// Offset of the first byte.
    pub first: u64,
    /// Offset of the last byte.
    pub last: u64,
}

impl ByteRange {
    /// Length in bytes; saturates for the one range that has 2^64, and if the positions contradict
    /// each other.
    pub const fn len(&self) -> u64 {
        self.last.saturating_sub(self.first).saturating_add(1)
    }

    /// Always false: a range has at least one byte.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Whether it contains all of `other`.
    pub const fn contains(&self, other: &Self) -> bool {
        self.first <= other.first && other.last <= self.last
    }
}

/// One range as requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeSpec {
    /// `first-last`
    FromTo(u64, u64),
    /// `first-`
    From(u64),
    /// `-length`: the last bytes
    Suffix(u64),
}

impl RangeSpec {
    /// The bytes it selects in a representation of `total` bytes; `None` when there are none.
    pub fn within(&self, total: u64) -> Option<ByteRange> {
        let end = total.checked_sub(1)?;
        let (first, last) = match *self {
            Self::FromTo(first, last) => (first, last.min(end)),
            Self::From(first) => (first, end),
            Self::Suffix(0) => return None,
            Self::Suffix(length) => (total.saturating_sub(length), end),
        };
        (first <= end).then_some(ByteRange { first, last })
    }

    /// `first-last`, `first-` or `-length`. Numbers too large for 64 bits are the largest.
    fn parse(text: &[u8]) -> Option<Self> {
        let dash = text.iter().position(|&b| b == b'-')?;
        match (&text[..dash], &text[dash + 1..]) {
            (b"", length) => Some(Self::Suffix(offset(length)?)),
            (first, b"") => Some(Self::From(offset(first)?)),
            (first, last) => {
                let (first, last) = (offset(first)?, offset(last)?);
                (first <= last).then_some(Self::FromTo(first, last))
            }
        }
    }
}

fn offset(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0_u64, |n, d| n.saturating_mul(10).saturating_add(u64::from(d - b'0'))))
}

/// The ranges of a Range field, at least one, in the order requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeSet {
    specs: [RangeSpec; MAX_RANGES],
    len: usize,
}

impl RangeSet {
    /// Reads a Range value; `None` when the field must be ignored: another unit than `bytes`,
    /// malformed, more than [`MAX_RANGES`].
    pub fn parse(value: &[u8]) -> Option<Self> {
        let equals = value.iter().position(|&b| b == b'=')?;
        if !value[..equals].eq_ignore_ascii_case(b"bytes") {
            return None;
        }
        let mut set = Self { specs: [RangeSpec::Suffix(0); MAX_RANGES], len: 0 };
        for element in Elements::of(&value[equals + 1..]) {
            *set.specs.get_mut(set.len)? = RangeSpec::parse(element)?;
            set.len += 1;
        }
        (set.len > 0).then_some(set)
    }

    /// The ranges as requested.
    pub fn specs(&self) -> &[RangeSpec] {
        &self.specs[..self.len]
    }

    /// The bytes to send of a representation of `total` bytes. Overlapping and touching ranges are
    /// joined, and the result is then in rising order; otherwise it is in the order requested (RFC
    /// 9110 15.3.7.2).
    pub fn satisfy(&self, total: u64) -> Satisfied {
        let mut list = RangeList { ranges: [ByteRange::default(); MAX_RANGES], len: 0 };
        for range in self.specs().iter().filter_map(|s| s.within(total)) {
            list.ranges[list.len] = range;
            list.len += 1;
        }
        list.join();
        match list.as_slice() {
            [] => Satisfied::Unsatisfiable,
            [one] => Satisfied::One(*one),
            _ => Satisfied::Many(list),
        }
    }
}

/// Result of a Range field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "lives on the stack of one function; boxing would allocate"
)]
pub enum Satisfied {
    /// Send everything, as without Range.
    Ignored,
    /// 416 with `Content-Range: bytes */total`.
    Unsatisfiable,
    /// 206 with Content-Range.
    One(ByteRange),
    /// 206 as multipart/byteranges.
    Many(RangeList),
}

/// Parses and satisfies a Range value in one step.
pub fn satisfy(value: &[u8], total: u64) -> Satisfied {
    RangeSet::parse(value).map_or(Satisfied::Ignored, |set| set.satisfy(total))
}

/// Two to [`MAX_RANGES`] ranges that do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeList {
    ranges: [ByteRange; MAX_RANGES],
    len: usize,
}

impl RangeList {
    /// The ranges, in the order to send them.
    pub fn as_slice(&self) -> &[ByteRange] {
        &self.ranges[..self.len]
    }

    fn join(&mut self) {
        let ranges = &mut self.ranges[..self.len];
        let near = |a: &ByteRange, b: &ByteRange| {
            a.first <= b.last.saturating_add(1) && b.first <= a.last.saturating_add(1)
        };
        let apart = ranges.iter().enumerate().all(|(i, a)| !ranges[..i].iter().any(|b| near(a, b)));
        if apart {
            return;
        }
        ranges.sort_unstable_by_key(|r| r.first);
        let mut kept = 0;
        for at in 1..ranges.len() {
            let next = ranges[at];
            if near(&ranges[kept], &next) {
                ranges[kept].last = ranges[kept].last.max(next.last);
            } else {
                kept += 1;
                ranges[kept] = next;
            }
        }
        self.ranges[kept + 1..].fill(ByteRange::default());
        self.len = kept + 1;
    }
}

/// A Content-Range value (RFC 9110 14.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentRange {
    /// `bytes first-last/total`, or `/*` when the total is not known.
    Bytes {
        /// The sent bytes.
        range: ByteRange,
        /// Length of the whole representation; greater than `range.last`.
        total: Option<u64>,
    },
    /// `bytes */total`, of a 416.
    Unsatisfied {
        /// Length of the whole representation.
        total: u64,
    },
}

impl ContentRange {
    /// Reads a value; `None` for another unit, contradicting numbers, or numbers past 64 bits.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (unit, rest) = value.split_at_checked(6)?;
        let slash = rest.iter().position(|&b| b == b'/')?;
        let (range, total) = (&rest[..slash], &rest[slash + 1..]);
        if !unit.eq_ignore_ascii_case(b"bytes ") {
            return None;
        }
        let exact = super::framing::content_length;
        if range == b"*" {
            return Some(Self::Unsatisfied { total: exact(total)? });
        }
        let dash = range.iter().position(|&b| b == b'-')?;
        let range = ByteRange { first: exact(&range[..dash])?, last: exact(&range[dash + 1..])? };
        let total = if total == b"*" { None } else { Some(exact(total)?) };
        let fits = range.first <= range.last && range.last < total.unwrap_or(u64::MAX);
        fits.then_some(Self::Bytes { range, total })
    }

    /// Writes the value.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"bytes ");
        match *self {
            Self::Bytes { range, total } => {
                write_number(range.first, out);
                out.push(b'-');
                write_number(range.last, out);
                out.push(b'/');
                match total {
                    Some(total) => write_number(total, out),
                    None => out.push(b'*'),
                }
            }
            Self::Unsatisfied { total } => {
                out.extend_from_slice(b"*/");
                write_number(total, out);
            }
        }
    }
}

/// Appends `number` in decimal, without allocation of its own.
pub fn write_number(number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// An If-Range value (RFC 9110 13.1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfRange<'a> {
    /// An entity tag.
    Tag(EntityTag<'a>),
    /// A date.
    Date(Secs),
}

impl<'a> IfRange<'a> {
    /// Reads a value; a value that is not a date is read as a tag. `now` as in
    /// [`super::date::parse`].
    pub fn parse(value: &'a [u8], now: Secs) -> Option<Self> {
        match super::date::parse(value, now) {
            Some(date) => Some(Self::Date(date)),
            None => EntityTag::parse(value).map(Self::Tag),
        }
    }

    /// Whether the ranges may be sent. Only strong validators hold: a tag without `W/`, or exactly
    /// the stored Last-Modified that is a second or more before the stored Date (RFC 9110 8.8.2.2).
    /// Otherwise Range is ignored.
    pub fn holds(
        &self,
        tag: Option<&EntityTag<'_>>,
        last_modified: Option<Secs>,
        date: Option<Secs>,
    ) -> bool {
        match self {
            Self::Tag(wanted) => tag.is_some_and(|stored| wanted.strong_eq(stored)),
            Self::Date(wanted) => match (last_modified, date) {
                (Some(modified), Some(date)) => modified == *wanted && modified < date,
                _ => false,
            },
        }
    }
}

#[cfg(test)]
mod tests;
