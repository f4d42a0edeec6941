//! `set`, `add`, `replace`, `append`, `prepend` and their quiet forms. The value follows the key.

use super::{Invalid, Parts};
use crate::memcache::text::Mode;

/// A store request. The response is [`super::done`] with the version, or an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    /// Mode of the store command. If the header has a version, any mode but the last two requires
    /// it of the stored item.
    pub mode: Mode,
    /// Key of the item.
    pub key: &'a [u8],
    /// The client's flags; `append` and `prepend` have none.
    pub flags: u32,
    /// Expiry as sent; `append` and `prepend` have none.
    pub exptime: u32,
    /// Bytes of the value behind the key.
    pub len: u32,
    /// Only errors are answered.
    pub quiet: bool,
}

pub(super) fn decode<'a>(parts: &Parts<'a>, mode: Mode, quiet: bool) -> Result<Store<'a>, Invalid> {
    if parts.key.is_empty() {
        return Err(Invalid);
    }
    let (flags, exptime) = match (mode, parts.extras) {
        (Mode::Append | Mode::Prepend, []) => (0, 0),
        (Mode::Set | Mode::Add | Mode::Replace, &[f0, f1, f2, f3, e0, e1, e2, e3]) => {
            (u32::from_be_bytes([f0, f1, f2, f3]), u32::from_be_bytes([e0, e1, e2, e3]))
        }
        _ => return Err(Invalid),
    };
    Ok(Store { mode, key: parts.key, flags, exptime, len: parts.value, quiet })
}
