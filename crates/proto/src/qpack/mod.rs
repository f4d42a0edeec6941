//! QPACK, the compression of header fields in HTTP/3 (RFC 9204), without dynamic tables.
//!
//! Larder announces a table of no bytes, so no section of a client may refer to one, and sections
//! of responses refer to the static table alone: neither side ever waits for another stream, and a
//! section needs no state. A fault of the peer is a [`QpackError`] and ends the connection with
//! `QPACK_DECOMPRESSION_FAILED`.

mod decode;
mod encode;
mod static_table;
#[cfg(test)]
mod tests;

pub use decode::decode;
pub use encode::Section;

use crate::hpack::HpackError;

/// A field section that cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpackError {
    /// A string, an integer or the section itself is malformed, or the index of a static entry is
    /// beyond the table.
    Malformed(HpackError),
    /// The section refers to a dynamic table, and there is none.
    Dynamic,
}

impl QpackError {
    /// The fault in words, for logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed(error) => error.as_str(),
            Self::Dynamic => "field section refers to a dynamic table",
        }
    }
}

impl From<HpackError> for QpackError {
    fn from(error: HpackError) -> Self {
        Self::Malformed(error)
    }
}

impl std::fmt::Display for QpackError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for QpackError {}
