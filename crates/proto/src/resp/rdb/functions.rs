//! Libraries of functions as FUNCTION DUMP writes them: for each a type byte and its text, then the
//! version and the checksum of a payload.

use super::{Bad, FOOTER, crc64, footer, push_string, reader::Reader, seal};

/// Type of a library (Redis: `RDB_OPCODE_FUNCTION2`).
const LIBRARY: u8 = 245;

/// A payload of these texts.
pub fn write_functions<'t>(texts: impl Iterator<Item = &'t [u8]>) -> Vec<u8> {
    let mut payload = Vec::new();
    for text in texts {
        payload.push(LIBRARY);
        push_string(&mut payload, text);
    }
    let crc = crc64(0, &payload);
    seal(&mut payload, crc);
    payload
}

/// Reasons to refuse a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoFunctions {
    /// Its version or its checksum is wrong.
    Sum,
    /// It has something else than libraries.
    Type,
    /// A text is broken, or all are longer than the limit.
    Text,
}

/// The texts of a payload, which have `most` bytes together at the most.
///
/// # Errors
/// It is no such payload.
pub fn read_functions(payload: &[u8], most: usize) -> Result<Vec<Vec<u8>>, NoFunctions> {
    let crc = footer(payload).ok_or(NoFunctions::Sum)?;
    if crc64(0, &payload[..payload.len() - 8]) != crc {
        return Err(NoFunctions::Sum);
    }
    let mut reader = Reader { bytes: &payload[..payload.len() - FOOTER], at: 0 };
    let (mut texts, mut bytes) = (Vec::new(), 0);
    while reader.at < reader.bytes.len() {
        if reader.take(1).map_err(|_: Bad| NoFunctions::Text)?[0] != LIBRARY {
            return Err(NoFunctions::Type);
        }
        let text = reader.string().map_err(|_: Bad| NoFunctions::Text)?;
        bytes += text.len();
        if bytes > most {
            return Err(NoFunctions::Text);
        }
        texts.push(text);
    }
    Ok(texts)
}
