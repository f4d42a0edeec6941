//! Keys that may be sent, and their form.
//!
//! A key with a blank or a line end in it would be a command of its own to the server: a request
//! with an invalid key is not sent at all.

use super::super::{MAX_KEY, meta::encode_base64};

/// Longest key that is sent as base64: 4 bytes of text for every 3, in the 250 a key may have.
pub const MAX_BASE64: usize = MAX_KEY / 4 * 3;

/// Why a key cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// It has no bytes.
    Empty,
    /// It has more bytes than this, the limit of this protocol.
    TooLong(usize),
    /// It has a blank or a control character, which the text protocol cannot send.
    BadByte(u8),
}

impl std::fmt::Display for KeyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            KeyError::Empty => f.write_str("a key has at least one byte"),
            KeyError::TooLong(most) => write!(f, "a key has at most {most} bytes here"),
            KeyError::BadByte(byte) => {
                write!(f, "a key in the text protocol may not have byte {byte:#04x}")
            }
        }
    }
}

impl std::error::Error for KeyError {}

/// Does `byte` end a word or a line, or is it not allowed in a key (protocol.txt, "Keys")?
fn is_bad(byte: u8) -> bool {
    (byte <= b' ') | (byte == 0x7f)
}

/// The length of a key, if it is allowed.
fn sized(key: &[u8], most: usize) -> Result<(), KeyError> {
    match key.len() {
        0 => Err(KeyError::Empty),
        len if len > most => Err(KeyError::TooLong(most)),
        _ => Ok(()),
    }
}

/// A key for the text protocol.
pub(super) fn text(key: &[u8]) -> Result<(), KeyError> {
    sized(key, MAX_KEY)?;
    // All bytes are examined, which takes fewer steps than an early exit.
    if !key.iter().fold(false, |bad, byte| bad | is_bad(*byte)) {
        return Ok(());
    }
    match key.iter().find(|byte| is_bad(**byte)) {
        Some(byte) => Err(KeyError::BadByte(*byte)),
        None => Ok(()),
    }
}

/// A key for the binary protocol: any bytes.
pub(super) fn binary(key: &[u8]) -> Result<(), KeyError> {
    sized(key, MAX_KEY)
}

/// Appends a key for the meta protocol: unchanged, or else as base64. True: as base64, and the flag
/// `b` must follow.
pub(super) fn meta(key: &[u8], into: &mut Vec<u8>) -> Result<bool, KeyError> {
    match text(key) {
        Ok(()) => into.extend_from_slice(key),
        Err(KeyError::BadByte(_)) => {
            sized(key, MAX_BASE64)?;
            encode_base64(key, into);
            return Ok(true);
        }
        Err(error) => return Err(error),
    }
    Ok(false)
}
