//! `stat`: one response per figure (its name the key, its value the value), and an empty one at the
//! end.

use super::{Invalid, Parts};

/// Requested statistics; empty: the general ones.
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
