//! `delete` and its quiet form.

use super::{Invalid, Parts};

/// A `delete` request. The response is [`super::done`] without a version, or an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delete<'a> {
    /// Key of the item.
    pub key: &'a [u8],
    /// Only errors are answered.
    pub quiet: bool,
}

pub(super) fn decode<'a>(parts: &Parts<'a>, quiet: bool) -> Result<Delete<'a>, Invalid> {
    if parts.key.is_empty() || !parts.extras.is_empty() || parts.value != 0 {
        return Err(Invalid);
    }
    Ok(Delete { key: parts.key, quiet })
}
