//! `get`, `getq`, `getk`, `getkq`, and with a new expiry `touch`, `gat`, `gatq`, `gatk`, `gatkq`.

use super::{
    Header, Invalid, Parts, Status,
    header::{self, Lengths},
};

/// A request of the `get` family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get<'a> {
    /// Key of the item.
    pub key: &'a [u8],
    /// The new expiry as sent: seconds from now, or a UNIX time above 30 days.
    pub touch: Option<u32>,
    /// The value is wanted (not so for `touch`).
    pub value: bool,
    /// The key is sent back.
    pub with_key: bool,
    /// A miss is not answered.
    pub quiet: bool,
}

/// The properties of an opcode of the `get` family.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub(super) touch: bool,
    pub(super) value: bool,
    pub(super) with_key: bool,
    pub(super) quiet: bool,
}

pub(super) fn decode<'a>(parts: &Parts<'a>, kind: Kind) -> Result<Get<'a>, Invalid> {
    // Bytes after the key of a `touch` or `gat` are read as the next command by memcached 1.6.18.
    // Here they are an error as for `get`: data bytes must not become a command.
    if parts.key.is_empty() || parts.value != 0 {
        return Err(Invalid);
    }
    let touch = match (kind.touch, parts.extras) {
        (false, []) => None,
        (true, &[a, b, c, d]) => Some(u32::from_be_bytes([a, b, c, d])),
        _ => return Err(Invalid),
    };
    let Kind { value, with_key, quiet, .. } = kind;
    Ok(Get { key: parts.key, touch, value, with_key, quiet })
}

/// The response of a hit up to the value, which has `len` bytes and must follow.
#[inline]
pub fn hit(into: &mut Vec<u8>, request: &Header, get: &Get<'_>, flags: u32, cas: u64, len: u32) {
    let key = if get.with_key { get.key } else { &[] };
    let value = if get.value { len } else { 0 };
    let lengths = Lengths { extras: 4, key: key.len() as u16, value };
    header::respond(into, request, Status::Ok, lengths, cas);
    into.extend_from_slice(&flags.to_be_bytes());
    into.extend_from_slice(key);
}

/// The response of a miss: nothing for the quiet forms, only the key for those that send it back.
pub fn miss(into: &mut Vec<u8>, request: &Header, get: &Get<'_>) {
    if get.quiet {
        return;
    }
    if !get.with_key {
        return header::error(into, request, Status::NotFound);
    }
    let lengths = Lengths { key: get.key.len() as u16, ..Lengths::default() };
    header::respond(into, request, Status::NotFound, lengths, 0);
    into.extend_from_slice(get.key);
}
