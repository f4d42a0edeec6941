//! Lists, sets, sorted sets, streams and large hashes as records of a store. Pure: bytes in, bytes
//! out.
//!
//! A collection is an entry under its key, the *head*, and if it is large, further records, its
//! *parts*. A small collection is one run of items in its head. A large one is a tree: leaves are
//! runs of items of a few KB, inner nodes name their children with the number of items below each,
//! and the head has the root. So one change rewrites a leaf and the nodes above it.
//!
//! | file | contents |
//! |---|---|
//! | `items.rs` | a run of items: of a list, a set, a sorted set, a hash |
//! | `node.rs` | an inner node |
//! | `head.rs` | the head |
//! | `score.rs` | scores, and their order |
//! | `times.rs` | times at which fields of a hash expire |
//!
//! A sorted set that is a tree has two: by score and member, and by member alone. A stream has two:
//! its entries ([`super::stream`]) and the records of its consumer groups. A small hash is a record
//! of its own form ([`super::hash`]).

mod head;
mod items;
mod node;
mod score;
mod times;

pub use head::{HASH_EXPIRING, HASH_FADING, Head, KeyTimes, Kind, Root, facts_apart, key_times};
pub use items::{Fill, Item, Items, Shape, divide, find, push_field, push_item, push_valued};
pub use node::{Node, Place, push_child};
pub use score::{Score, compare, parse_bound, parse_score, rank_above, rank_key, separator};
pub use times::{MARK, Times, mark_key};

/// The bytes are no collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

/// Bytes of a number in steps of seven bits.
pub(super) fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The number at `at`, and where it ends.
#[inline(always)]
pub(super) fn number(bytes: &[u8], at: usize) -> Result<(u64, usize), Damaged> {
    let first = *bytes.get(at).ok_or(Damaged)?;
    if first < 0x80 { Ok((first.into(), at + 1)) } else { long_number(bytes, at) }
}

/// A number of more than one byte.
fn long_number(bytes: &[u8], at: usize) -> Result<(u64, usize), Damaged> {
    let mut number = 0u64;
    for place in 0..10 {
        let byte = *bytes.get(at + place).ok_or(Damaged)?;
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            return Ok((number, at + place + 1));
        }
    }
    Err(Damaged)
}

/// The `len` bytes at `at`, and where they end.
#[inline(always)]
pub(super) fn slice(bytes: &[u8], at: usize, len: u64) -> Result<(&[u8], usize), Damaged> {
    let end = usize::try_from(len).ok().and_then(|len| at.checked_add(len)).ok_or(Damaged)?;
    Ok((bytes.get(at..end).ok_or(Damaged)?, end))
}

#[cfg(test)]
mod tests;
