//! `flush` and its quiet form.

use super::{Invalid, Parts};

/// A `flush` request: the time from which everything stored before is hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// As sent: 0 now, seconds from now, or a UNIX time above 30 days.
    pub exptime: u32,
    /// Only errors are answered.
    pub quiet: bool,
}

pub(super) fn decode(parts: &Parts<'_>, quiet: bool) -> Result<Flush, Invalid> {
    if !parts.key.is_empty() || parts.value != 0 {
        return Err(Invalid);
    }
    let exptime = match parts.extras {
        [] => 0,
        &[a, b, c, d] => u32::from_be_bytes([a, b, c, d]),
        _ => return Err(Invalid),
    };
    Ok(Flush { exptime, quiet })
}
