//! `SASL list mechanisms`, `SASL authenticate`, `SASL step`: the frame. The content of PLAIN is in
//! [`crate::memcache::sasl`].

use super::{
    Header, Invalid, Parts, Status,
    header::{self, Lengths},
};

/// Longest name of a mechanism in bytes; a longer one is answered with `Invalid`, and the
/// connection continues.
pub const MAX_MECHANISM: usize = 32;

/// A step of an authentication. Its message follows the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sasl<'a> {
    /// The mechanism's name.
    pub mechanism: &'a [u8],
    /// A further step, not the first.
    pub step: bool,
    /// Bytes of the message.
    pub len: u32,
}

pub(super) fn decode<'a>(parts: &Parts<'a>, step: bool) -> Result<Sasl<'a>, Invalid> {
    if parts.key.is_empty() || !parts.extras.is_empty() {
        return Err(Invalid);
    }
    Ok(Sasl { mechanism: parts.key, step, len: parts.value })
}

/// The server wants another step.
pub fn go_on(into: &mut Vec<u8>, request: &Header) {
    header::respond(into, request, Status::AuthContinue, Lengths::default(), 0);
}
