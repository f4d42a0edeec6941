//! `stat`: one response per figure, and an empty one at the end.

use super::{
    Header, Invalid, Parts, Status,
    header::{self, Lengths},
};

/// Which figures; empty: the general ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat<'a> {
    /// `settings`, `items`, ..., as behind `stats ` in the text protocol.
    pub what: &'a [u8],
}

pub(super) fn decode<'a>(parts: &Parts<'a>) -> Result<Stat<'a>, Invalid> {
    // As with `touch`: memcached 1.6.18 reads a value here as the next command.
    if !parts.extras.is_empty() || parts.value != 0 {
        return Err(Invalid);
    }
    Ok(Stat { what: parts.key })
}

/// One figure. A name and a value both empty end the list.
pub fn figure(into: &mut Vec<u8>, request: &Header, name: &[u8], value: &[u8]) {
    let name = &name[..name.len().min(usize::from(u16::MAX))];
    let lengths = Lengths { extras: 0, key: name.len() as u16, value: value.len() as u32 };
    header::respond(into, request, Status::Ok, lengths, 0);
    into.extend_from_slice(name);
    into.extend_from_slice(value);
}
