//! Values as Redis's DUMP writes them: one type byte, the value as in a file of Redis (RDB), the
//! version of the format (2 bytes), a checksum (8 bytes). (`rdb.c`, `rdb.h`, `cluster.c` of Redis.)
//!
//! Read are versions up to 11, written is version 10 with the plain forms of lists, sets, sorted
//! sets and hashes, which every Redis since 4.0 reads.
//!
//! | file | contents |
//! |---|---|
//! | `crc64.rs` | the checksum |
//! | `reader.rs`, `writer.rs` | lengths, strings, numbers |
//! | `lzf.rs` | compressed strings |
//! | `packed.rs` | listpacks, ziplists and sets of integers |
//! | `functions.rs` | libraries of functions |
//! | `loader.rs`, `stream.rs` | a payload as a sequence of parts |

mod crc64;
mod functions;
mod loader;
mod lzf;
mod packed;
mod reader;
mod stream;
mod writer;

pub use crc64::crc64;
pub use functions::{NoFunctions, read_functions, write_functions};
pub use loader::{Form, Loader, Part};
pub use lzf::Lzf;
pub use packed::Listpack;
pub use reader::{Reader, Text};
pub use writer::{push_len, push_string};

/// Greatest version that is read.
const NEWEST: u16 = 11;
/// The version that is written.
const WRITTEN: u16 = 10;
/// Bytes behind the value.
pub const FOOTER: usize = 10;
/// Most bytes of a string that is packed or compressed within a value: it is unpacked at once.
pub const LONGEST: usize = 4 << 20;

/// The bytes are no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bad;

/// Types of values, as their first byte.
pub mod kind {
    #![allow(missing_docs)] // they are their names
    pub const STRING: u8 = 0;
    pub const LIST: u8 = 1;
    pub const SET: u8 = 2;
    pub const ZSET: u8 = 3;
    pub const HASH: u8 = 4;
    pub const ZSET_2: u8 = 5;
    pub const LIST_ZIPLIST: u8 = 10;
    pub const SET_INTSET: u8 = 11;
    pub const ZSET_ZIPLIST: u8 = 12;
    pub const HASH_ZIPLIST: u8 = 13;
    pub const LIST_QUICKLIST: u8 = 14;
    pub const STREAM: u8 = 15;
    pub const HASH_LISTPACK: u8 = 16;
    pub const ZSET_LISTPACK: u8 = 17;
    pub const LIST_QUICKLIST_2: u8 = 18;
    pub const STREAM_2: u8 = 19;
    pub const SET_LISTPACK: u8 = 20;
    pub const STREAM_3: u8 = 21;
}

/// The version and the checksum at the end of a payload. None: it is too short, or of a newer
/// version.
pub fn footer(payload: &[u8]) -> Option<u64> {
    let (_, footer) = payload.split_last_chunk::<FOOTER>()?;
    let version = u16::from_le_bytes([footer[0], footer[1]]);
    let (_, crc) = footer.split_last_chunk::<8>()?;
    (version <= NEWEST).then_some(u64::from_le_bytes(*crc))
}

/// Appends version and checksum to a value. `crc`: the checksum of what is there.
pub fn seal(payload: &mut Vec<u8>, crc: u64) {
    let version = WRITTEN.to_le_bytes();
    payload.extend_from_slice(&version);
    payload.extend_from_slice(&crc64(crc, &version).to_le_bytes());
}

#[cfg(test)]
mod tests;
