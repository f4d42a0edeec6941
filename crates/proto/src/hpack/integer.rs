//! Integers with a prefix (RFC 7541 section 5.1).

use super::HpackError;

/// Most bytes after the prefix. Four bytes carry 28 bits: more than any length or index needs.
const MAX_CONTINUATION: usize = 4;

/// Reads the integer whose prefix are the low `bits` (at most 7) of the first byte of `input`, and
/// moves `input` past it.
#[inline]
pub(crate) fn decode(input: &mut &[u8], bits: u32) -> Result<usize, HpackError> {
    let (&first, rest) = input.split_first().ok_or(HpackError::Truncated)?;
    let mask = (1_u8 << bits) - 1;
    let value = first & mask;
    *input = rest;
    if value < mask { Ok(usize::from(value)) } else { decode_long(input, usize::from(mask)) }
}

fn decode_long(input: &mut &[u8], mut value: usize) -> Result<usize, HpackError> {
    for step in 0..MAX_CONTINUATION {
        let (&byte, rest) = input.split_first().ok_or(HpackError::Truncated)?;
        *input = rest;
        value += usize::from(byte & 0x7f) << (7 * step);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(HpackError::Integer)
}

/// Appends `value` with a prefix of `bits` bits. `flags` are the bits of the first byte above it.
#[inline]
pub fn encode(value: usize, bits: u32, flags: u8, out: &mut Vec<u8>) {
    let mask = (1_usize << bits) - 1;
    if value < mask {
        out.push(flags | value as u8);
        return;
    }
    out.push(flags | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_appendix_c_1() {
        for (value, bits, bytes) in
            [(10, 5, &[0b01010][..]), (1337, 5, &[0b11111, 0b1001_1010, 0b1010]), (42, 7, &[42])]
        {
            let mut out = Vec::new();
            encode(value, bits, 0, &mut out);
            assert_eq!(out, bytes);
            let mut input = bytes;
            assert_eq!(decode(&mut input, bits), Ok(value));
            assert!(input.is_empty());
        }
    }

    #[test]
    fn every_size_comes_back() {
        for bits in 4..=7 {
            for value in
                (0..1 << 20).step_by(97).chain([(1 << bits) - 2, (1 << bits) - 1, 1 << bits])
            {
                let mut out = Vec::new();
                encode(value, bits, 0, &mut out);
                assert_eq!(decode(&mut &out[..], bits), Ok(value));
            }
        }
    }

    #[test]
    fn length_is_bounded() {
        assert_eq!(decode(&mut &[0x7f, 0x80, 0x80][..], 7), Err(HpackError::Truncated));
        assert_eq!(decode(&mut &[][..], 7), Err(HpackError::Truncated));
        assert_eq!(
            decode(&mut &[0x7f, 0x80, 0x80, 0x80, 0x80, 0][..], 7),
            Err(HpackError::Integer)
        );
        assert_eq!(decode(&mut &[0x7f, 0x80, 0x80, 0x80, 0][..], 7), Ok(127));
    }
}
