//! `increment`, `decrement` and their quiet forms.

use super::{
    Header, Invalid, Parts, Status,
    header::{self, Lengths},
};

/// An expiry that means: do not create a missing counter.
const NOT_MADE: u32 = u32::MAX;

/// An increment or decrement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count<'a> {
    /// Key of the item.
    pub key: &'a [u8],
    /// Amount of the change.
    pub delta: u64,
    /// `decrement`.
    pub down: bool,
    /// A missing counter is created: its value, and its expiry as sent.
    pub initial: Option<(u64, u32)>,
    /// Only errors are answered.
    pub quiet: bool,
}

pub(super) fn decode<'a>(parts: &Parts<'a>, down: bool, quiet: bool) -> Result<Count<'a>, Invalid> {
    let Some((&delta, rest)) = parts.extras.split_first_chunk::<8>() else { return Err(Invalid) };
    let Some((&initial, &[e0, e1, e2, e3])) = rest.split_first_chunk::<8>() else {
        return Err(Invalid);
    };
    if parts.key.is_empty() || parts.value != 0 {
        return Err(Invalid);
    }
    let exptime = u32::from_be_bytes([e0, e1, e2, e3]);
    let initial = (exptime != NOT_MADE).then_some((u64::from_be_bytes(initial), exptime));
    Ok(Count { key: parts.key, delta: u64::from_be_bytes(delta), down, initial, quiet })
}

/// The response with the new value.
pub fn counted(into: &mut Vec<u8>, request: &Header, value: u64, cas: u64) {
    header::respond(into, request, Status::Ok, Lengths { value: 8, ..Lengths::default() }, cas);
    into.extend_from_slice(&value.to_be_bytes());
}
