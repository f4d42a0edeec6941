//! Strings of header blocks (RFC 7541 section 5.2).

use super::{HpackError, huffman, integer};

/// Strings below this length are not coded: that saves a byte at the most.
const WORTH_CODING: usize = 5;

/// A string of a block.
pub(crate) enum Text<'b> {
    /// As it stands in the block.
    Raw(&'b [u8]),
    /// Decoded: a range of the scratch memory.
    Decoded(usize, usize),
}

impl<'b> Text<'b> {
    /// Takes a string from `input`, whose length has a prefix of `bits` bits behind the mark of the
    /// Huffman code. `used`: bytes of `scratch` that earlier strings hold.
    #[inline]
    pub(crate) fn decode(
        input: &mut &'b [u8],
        bits: u32,
        scratch: &mut Vec<u8>,
        used: &mut usize,
    ) -> Result<Self, HpackError> {
        let huffman = input.first().ok_or(HpackError::Truncated)? & 1 << bits != 0;
        let length = integer::decode(input, bits)?;
        let (text, rest) = input.split_at_checked(length).ok_or(HpackError::Truncated)?;
        *input = rest;
        if !huffman {
            return Ok(Self::Raw(text));
        }
        let start = *used;
        let end = start + huffman::room_for(text.len());
        if scratch.len() < end {
            scratch.resize(end.next_power_of_two(), 0);
        }
        *used = start + huffman::decode(text, &mut scratch[start..end])?;
        Ok(Self::Decoded(start, *used))
    }

    #[inline]
    pub(crate) fn of<'s>(&self, scratch: &'s [u8]) -> &'s [u8]
    where
        'b: 's,
    {
        match *self {
            Self::Raw(text) => text,
            Self::Decoded(start, end) => &scratch[start..end],
        }
    }
}

/// Appends a string, Huffman coded if that is shorter.
#[inline]
pub fn string(text: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    if text.len() < WORTH_CODING {
        out.push(text.len() as u8);
        return out.extend_from_slice(text);
    }
    if text.len() < 127 {
        // The length has one byte in either form: code first, then fill the length in.
        out.resize(start + text.len().max(1), 0);
        if let Some(length) = huffman::encode(text, &mut out[start + 1..]) {
            out[start] = 0x80 | length as u8;
            return out.truncate(start + 1 + length);
        }
        out[start] = text.len() as u8;
        out.truncate(start + 1);
        return out.extend_from_slice(text);
    }
    let length = huffman::encoded_len(text);
    if length < text.len() {
        integer::encode(length, 7, 0x80, out);
        let start = out.len();
        out.resize(start + length, 0);
        huffman::encode(text, &mut out[start..]);
    } else {
        integer::encode(text.len(), 7, 0, out);
        out.extend_from_slice(text);
    }
}
