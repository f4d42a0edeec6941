//! HPACK, the compression of header fields in HTTP/2 (RFC 7541).
//!
//! [`Decoder`] reads header blocks, [`Encoder`] writes those of responses. Both keep a dynamic
//! table for the connection, so each block of a connection must pass through in order, blocks of
//! refused streams included. A fault of the peer is a [`HpackError`] and ends the connection with
//! `COMPRESSION_ERROR`.

mod decode;
mod encode;
pub(crate) mod huffman;
pub(crate) mod integer;
mod memo;
pub(crate) mod names;
pub(crate) mod static_table;
mod table;
pub(crate) mod text;

pub use decode::{Decoded, Decoder, Line};
pub use encode::{Block, Encoder, prepare};
pub use integer::encode as write_integer;
pub use text::string as write_string;

/// Size of the dynamic table before a setting changes it, in bytes (RFC 9113 section 6.5.2).
pub const DEFAULT_TABLE_SIZE: u32 = 4096;

/// Bytes that an entry costs beside its name and value, in a table and in the size of a header list
/// (RFC 7541 section 4.1, RFC 9113 section 6.5.2).
pub const ENTRY_OVERHEAD: usize = 32;

/// Largest dynamic table that this code keeps, in bytes. Larger settings count as this size.
pub const MAX_TABLE_SIZE: u32 = 65_536;

/// A header block that cannot be decoded. The peer is at fault, and the connection has to end
/// with `COMPRESSION_ERROR`: the dynamic tables differ from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpackError {
    /// The block ends within a field.
    Truncated,
    /// An integer is longer than any that this code needs (section 5.1).
    Integer,
    /// An index is 0 or beyond the tables (section 2.3.3).
    Index,
    /// Padding of a Huffman code is longer than 7 bits, not all ones, or the code has EOS (section
    /// 5.2).
    Huffman,
    /// A size update is above the setting, not at the start of a block, the third of a block, or is
    /// missing after the setting was lowered (sections 4.2 and 6.3).
    TableSize,
    /// The list is many times as large as the limit.
    TooLarge,
}

impl HpackError {
    /// The fault in words, for logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Truncated => "header block ends within a field",
            Self::Integer => "integer in a header block is too long",
            Self::Index => "index in a header block is beyond the tables",
            Self::Huffman => "Huffman code in a header block is malformed",
            Self::TableSize => "table size update is not allowed",
            Self::TooLarge => "header list is many times as large as the limit",
        }
    }
}

impl std::fmt::Display for HpackError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for HpackError {}

#[cfg(test)]
mod tests;
