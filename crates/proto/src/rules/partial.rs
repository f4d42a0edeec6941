//! Partial pages: stored 206 responses, what they can answer, how they are completed (RFC 9111 3.3, 3.4; RFC 9110 15.3.7.3).

use crate::http::Fields;
use crate::page::{Meta, Partial};

/// Bytes `first..=last` of a representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Position of the first byte.
    pub first: u64,
    /// Position of the last byte.
    pub last: u64,
}

/// Whether the stored part has all of `wanted`.
pub fn covers(stored: &Partial, wanted: Span) -> bool {
    stored.first <= wanted.first && wanted.last <= stored.last
}

/// The Range to ask for so that the stored part and the answer together have `wanted` (`None`: the whole representation);
/// open-ended where it reaches the end (`bytes=5-`). `None` when nothing is missing or the gap is not one range.
pub fn missing(stored: &Partial, wanted: Option<Span>) -> Option<String> {
    let _ = (stored, wanted);
    todo!()
}

/// What a 206 together with the stored part comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combined {
    /// The parts make one range: keep `stored` up to before `keep_until`, then the new bytes, then the rest of stored.
    Part(Partial),
    /// The parts make the whole representation, a 200.
    Whole {
        /// Its length.
        total: u64,
    },
    /// They must not be combined, or do not touch.
    No,
}

/// Whether a 206 answer may be combined with the stored part (RFC 9111 3.4, RFC 9110 15.3.7.3): both have the same strong
/// validator, agree on the total length, and touch or overlap.
pub fn combine(meta: &Meta, etag: Option<&[u8]>, answer: Fields<'_>) -> Combined {
    let _ = (meta, etag, answer);
    todo!()
}
