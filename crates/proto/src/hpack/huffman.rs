//! The Huffman code of header strings (RFC 7541 section 5.2 and appendix B).
//!
//! The code is canonical: codes of one length are consecutive in the order of their symbols, and
//! shorter codes come first. So the lengths of appendix B define it, and all tables are computed
//! from them at compile time.
//!
//! The decoder looks at 12 bits at a time, which are one or two symbols: all frequent symbols have
//! 5 to 8 bits. That table has 16 KiB; with 11 bits decoding took a tenth longer. Longer codes are
//! rare and found by their length.

use super::HpackError;

/// Lengths of the codes of all bytes and of EOS, in bits.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

/// Longest code, in bits.
const LONGEST: usize = 30;
/// The symbol that ends a string and must not be in it.
const EOS: u16 = 256;

/// The code, ordered by length and symbol.
struct Canonical {
    /// Symbols in the order of their codes.
    symbols: [u16; 257],
    /// For each length: index in `symbols` of its first code.
    offset: [u16; LONGEST + 1],
    /// For each length: its first code.
    first: [u32; LONGEST + 1],
    /// For each length: one more than its last code.
    end: [u32; LONGEST + 1],
}

static CANONICAL: Canonical = canonical();

const fn canonical() -> Canonical {
    let mut made = Canonical {
        symbols: [0; 257],
        offset: [0; LONGEST + 1],
        first: [0; LONGEST + 1],
        end: [0; LONGEST + 1],
    };
    let (mut length, mut code, mut found) = (1, 0_u32, 0);
    while length <= LONGEST {
        code <<= 1;
        made.offset[length] = found as u16;
        made.first[length] = code;
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == length {
                made.symbols[found] = symbol as u16;
                found += 1;
                code += 1;
            }
            symbol += 1;
        }
        made.end[length] = code;
        length += 1;
    }
    made
}

/// For each byte its code, and the code's length in the low 8 bits.
static CODES: [u64; 256] = codes();

const fn codes() -> [u64; 256] {
    let code = canonical();
    let mut made = [0; 256];
    let mut length = 1;
    while length <= LONGEST {
        let mut n = 0;
        while n < code.end[length] - code.first[length] {
            let symbol = code.symbols[code.offset[length] as usize + n as usize];
            if symbol < EOS {
                made[symbol as usize] = ((code.first[length] + n) as u64) << 8 | length as u64;
            }
            n += 1;
        }
        length += 1;
    }
    made
}

/// Bits that index [`PAIRS`].
const INDEX_BITS: u32 = 12;

/// One or two symbols for the next [`INDEX_BITS`] bits: bits 0..6 bits of all, 8..16 first symbol,
/// 16..24 second, 24..26 number of symbols, 26..32 bits of the first. 0: a longer code. A shift by
/// the low 6 bits of a register is one instruction: the time of decoding is the way from one entry
/// to the next.
static PAIRS: [u32; 1 << INDEX_BITS] = pairs();

const fn pairs() -> [u32; 1 << INDEX_BITS] {
    let single = singles();
    let mut made = [0; 1 << INDEX_BITS];
    let mut index = 0;
    while index < made.len() {
        let (symbol, length) = single[index];
        if length > 0 {
            let (next, more) = single[(index << length) & ((1 << INDEX_BITS) - 1)];
            made[index] = if more > 0 && (length + more) as u32 <= INDEX_BITS {
                entry(symbol, next, length + more, length, 2)
            } else {
                entry(symbol, 0, length, length, 1)
            };
        }
        index += 1;
    }
    made
}

const fn entry(first: u8, second: u8, bits: u8, first_bits: u8, count: u32) -> u32 {
    bits as u32
        | (first as u32) << 8
        | (second as u32) << 16
        | count << 24
        | (first_bits as u32) << 26
}

/// For all values of the next bits: the first symbol and its length; length 0 for longer codes.
const fn singles() -> [(u8, u8); 1 << INDEX_BITS] {
    let codes = codes();
    let mut made = [(0, 0); 1 << INDEX_BITS];
    let mut symbol = 0;
    while symbol < 256 {
        let length = (codes[symbol] & 0xff) as u32;
        if length <= INDEX_BITS {
            let start = (codes[symbol] >> 8) << (INDEX_BITS - length);
            let mut n = 0;
            while n < 1 << (INDEX_BITS - length) {
                made[start as usize + n] = (symbol as u8, length as u8);
                n += 1;
            }
        }
        symbol += 1;
    }
    made
}

/// Most bytes that `encoded` bytes of code become: all of 5 bits. Two more, since the decoder
/// writes two at a time.
pub(crate) const fn room_for(encoded: usize) -> usize {
    encoded * 8 / 5 + 2
}

/// Decodes `input` into the front of `out`, which has [`room_for`] it, and returns the length.
pub(crate) fn decode(input: &[u8], out: &mut [u8]) -> Result<usize, HpackError> {
    let mut rest = input;
    // The next bits of the code, from the highest bit on; `have` of them are valid.
    let (mut bits, mut have, mut written) = (0_u64, 0_u32, 0);
    while let Some(word) = rest.first_chunk::<8>() {
        bits |= u64::from_be_bytes(*word) >> have;
        let taken = (63 - have) / 8;
        rest = &rest[taken as usize..];
        have += 8 * taken;
        // Bits behind the valid ones are of the next bytes: reading these again gives the same.
        while have >= LONGEST as u32 {
            let entry = PAIRS[(bits >> (64 - INDEX_BITS)) as usize];
            let used = if entry == 0 {
                let (symbol, length) = long(bits);
                out[written] = u8::try_from(symbol).map_err(|_| HpackError::Huffman)?;
                written += 1;
                length
            } else {
                let pair: &mut [u8; 2] =
                    (&mut out[written..written + 2]).try_into().map_err(|_| HpackError::Huffman)?;
                *pair = [(entry >> 8) as u8, (entry >> 16) as u8];
                written += (entry >> 24 & 3) as usize;
                entry & 63
            };
            bits <<= used;
            have -= used;
        }
    }
    // Bits of bytes that are not taken yet come again.
    bits &= !(u64::MAX.checked_shr(have).unwrap_or(0));
    last(rest, bits, have, out, written)
}

/// Decodes the end of a string, one symbol at a time: at most 7 bytes and what is in `bits`.
fn last(
    mut rest: &[u8],
    mut bits: u64,
    mut have: u32,
    out: &mut [u8],
    mut written: usize,
) -> Result<usize, HpackError> {
    loop {
        while have <= 56
            && let Some((&byte, behind)) = rest.split_first()
        {
            bits |= u64::from(byte) << (56 - have);
            have += 8;
            rest = behind;
        }
        // Ones behind the end: the padding is the beginning of EOS, so it is no whole code.
        let padded = bits | u64::MAX.checked_shr(have).unwrap_or(0);
        let entry = PAIRS[(padded >> (64 - INDEX_BITS)) as usize];
        let (symbol, used) =
            if entry == 0 { long(padded) } else { ((entry >> 8) as u16 & 0xff, entry >> 26) };
        if used > have {
            return if have < 8 && padded == u64::MAX {
                Ok(written)
            } else {
                Err(HpackError::Huffman)
            };
        }
        out[written] = u8::try_from(symbol).map_err(|_| HpackError::Huffman)?;
        written += 1;
        bits <<= used;
        have -= used;
    }
}

/// Symbol and length of the code at the front of `bits`, which is longer than [`INDEX_BITS`].
#[cold]
fn long(bits: u64) -> (u16, u32) {
    let mut length = INDEX_BITS as usize + 1;
    while length < LONGEST && (bits >> (64 - length)) as u32 >= CANONICAL.end[length] {
        length += 1;
    }
    let code = (bits >> (64 - length)) as u32 - CANONICAL.first[length];
    (CANONICAL.symbols[usize::from(CANONICAL.offset[length]) + code as usize], length as u32)
}

/// Length of `input` encoded, in bytes.
pub(crate) fn encoded_len(input: &[u8]) -> usize {
    let bits: u64 = input.iter().map(|&byte| CODES[usize::from(byte)] & 0xff).sum();
    bits.div_ceil(8) as usize
}

/// Encodes `input` into the front of `out` and returns the length. `None` if it is longer than
/// `out`.
pub(crate) fn encode(input: &[u8], out: &mut [u8]) -> Option<usize> {
    let (mut bits, mut have, mut written) = (0_u64, 0_u32, 0);
    for &byte in input {
        let code = CODES[usize::from(byte)];
        let length = (code & 0xff) as u32;
        bits = bits << length | code >> 8;
        have += length;
        if have >= 32 {
            have -= 32;
            *out.get_mut(written..written + 4)?.first_chunk_mut()? =
                ((bits >> have) as u32).to_be_bytes();
            written += 4;
        }
    }
    let padded = have.div_ceil(8) * 8;
    let bits = (bits << (padded - have) | ((1 << (padded - have)) - 1)) << (32 - padded);
    let tail = (padded / 8) as usize;
    out.get_mut(written..written + tail)?.copy_from_slice(&(bits as u32).to_be_bytes()[..tail]);
    Some(written + tail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(code: &[u8]) -> Result<Vec<u8>, HpackError> {
        let mut out = vec![0; room_for(code.len())];
        let length = decode(code, &mut out)?;
        out.truncate(length);
        Ok(out)
    }

    fn encoded(text: &[u8]) -> Vec<u8> {
        let mut out = vec![0; encoded_len(text)];
        assert_eq!(encode(text, &mut out), Some(out.len()));
        assert!(text.is_empty() || encode(text, &mut out.clone()[1..]).is_none());
        out
    }

    #[test]
    fn known_codes() {
        assert_eq!(
            encoded(b"www.example.com"),
            b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"
        );
        assert_eq!(CODES[0], 0x1ff8 << 8 | 13);
        assert_eq!(CODES[255], 0x3ff_ffee << 8 | 26);
        assert_eq!(CANONICAL.symbols[256], EOS);
        assert_eq!(CANONICAL.end[LONGEST], 1 << LONGEST);
    }

    #[test]
    fn padding_is_below_one_byte_and_all_ones() {
        assert_eq!(decoded(b""), Ok(Vec::new()));
        assert_eq!(decoded(b"\x07"), Ok(b"0".to_vec()));
        assert_eq!(decoded(b"\x00"), Err(HpackError::Huffman));
        assert_eq!(decoded(b"\x06"), Err(HpackError::Huffman));
        assert_eq!(decoded(b"\xff"), Err(HpackError::Huffman));
        assert_eq!(decoded(b"\x07\xff"), Err(HpackError::Huffman));
        assert_eq!(decoded(b"\xff\xff\xff\xff"), Err(HpackError::Huffman));
        assert_eq!(decoded(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), Err(HpackError::Huffman));
    }

    /// The plain way: bit by bit.
    fn plain(code: &[u8]) -> Result<Vec<u8>, HpackError> {
        let (mut out, mut word, mut length) = (Vec::new(), 0, 0);
        for bit in code.iter().flat_map(|byte| (0..8).rev().map(move |n| u32::from(byte >> n & 1)))
        {
            (word, length) = (word << 1 | bit, length + 1);
            if word < CANONICAL.end[length] && word >= CANONICAL.first[length] {
                let index = usize::from(CANONICAL.offset[length])
                    + (word - CANONICAL.first[length]) as usize;
                out.push(u8::try_from(CANONICAL.symbols[index]).map_err(|_| HpackError::Huffman)?);
                (word, length) = (0, 0);
            }
        }
        if length < 8 && word == (1 << length) - 1 { Ok(out) } else { Err(HpackError::Huffman) }
    }

    proptest! {
        #[test]
        fn strings_come_back(text in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(decoded(&encoded(&text)), Ok(text));
        }

        #[test]
        fn text_comes_back(text in "[ -~]{0,200}") {
            prop_assert_eq!(decoded(&encoded(text.as_bytes())), Ok(text.into_bytes()));
        }

        #[test]
        fn any_bytes_decode_as_bit_by_bit(code in prop::collection::vec(any::<u8>(), 0..60)) {
            prop_assert_eq!(decoded(&code), plain(&code));
        }

        #[test]
        fn long_codes_decode_as_bit_by_bit(code in prop::collection::vec(0xf0_u8.., 0..60)) {
            prop_assert_eq!(decoded(&code), plain(&code));
        }
    }
}
