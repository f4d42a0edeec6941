//! IDs of entries: milliseconds and a sequence number (Redis documentation, "Redis Streams").

use crate::resp::number::push_u64;

/// The ID of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId {
    /// Milliseconds since 1970, unless the client chose another number.
    pub ms: u64,
    /// Number among the entries of the same millisecond.
    pub seq: u64,
}

/// Longest text of an ID that Redis reads, in bytes.
const LONGEST: usize = 127;

impl StreamId {
    /// The least ID.
    pub const MIN: StreamId = StreamId { ms: 0, seq: 0 };
    /// The greatest ID.
    pub const MAX: StreamId = StreamId { ms: u64::MAX, seq: u64::MAX };

    /// The next ID; None: this is the greatest.
    pub fn next(self) -> Option<StreamId> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => Some(StreamId { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// The ID before; None: this is the least.
    pub fn before(self) -> Option<StreamId> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => Some(StreamId { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }

    /// Bytes whose order is that of the IDs.
    pub fn to_key(self) -> [u8; 16] {
        (u128::from(self.ms) << 64 | u128::from(self.seq)).to_be_bytes()
    }

    /// The ID of these bytes; None: they are not 16.
    pub fn of_key(key: &[u8]) -> Option<StreamId> {
        let number = u128::from_be_bytes(key.try_into().ok()?);
        Some(StreamId { ms: (number >> 64) as u64, seq: number as u64 })
    }

    /// Its text, `ms-seq`.
    pub fn text(self) -> Vec<u8> {
        let mut text = Vec::with_capacity(41);
        push_u64(&mut text, self.ms);
        text.push(b'-');
        push_u64(&mut text, self.seq);
        text
    }

    /// Reads `ms-seq` or `ms`, whose sequence number is `missing`.
    pub fn parse(text: &[u8], missing: u64) -> Option<StreamId> {
        match StreamId::parse_given(text, missing)? {
            (id, true) => Some(id),
            _ => None,
        }
    }

    /// The same, or `-` and `+`, the least and the greatest.
    pub fn parse_bound(text: &[u8], missing: u64) -> Option<StreamId> {
        match text {
            b"-" => Some(StreamId::MIN),
            b"+" => Some(StreamId::MAX),
            _ => StreamId::parse(text, missing),
        }
    }

    /// Reads an ID of XADD: `ms-seq`, `ms`, or `ms-*` (false), whose sequence number is not given.
    pub fn parse_given(text: &[u8], missing: u64) -> Option<(StreamId, bool)> {
        if text.len() > LONGEST {
            return None;
        }
        match text.iter().position(|byte| *byte == b'-') {
            None => Some((StreamId { ms: digits(text)?, seq: missing }, true)),
            Some(at) => {
                let ms = digits(&text[..at])?;
                match &text[at + 1..] {
                    b"*" => Some((StreamId { ms, seq: 0 }, false)),
                    seq => Some((StreamId { ms, seq: digits(seq)? }, true)),
                }
            }
        }
    }
}

/// A number as Redis's `string2ull` reads it, with what C's `strtoull` takes beside digits: blanks
/// and a plus before them.
fn digits(text: &[u8]) -> Option<u64> {
    let start = text.iter().position(|byte| !matches!(byte, b' ' | b'\t'..=b'\r'))?;
    let text = &text[start..];
    let text = text.strip_prefix(b"+").unwrap_or(text);
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |value, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        value.checked_mul(10)?.checked_add(digit.into())
    })
}
