//! Integers of variable length (RFC 9000 section 16) and heads of frames (RFC 9114 section 7.1).

/// Types of frames.
pub mod kind {
    #![expect(missing_docs, reason = "the names are those of RFC 9114 section 7.2")]
    pub const DATA: u64 = 0;
    pub const HEADERS: u64 = 1;
    pub const CANCEL_PUSH: u64 = 3;
    pub const SETTINGS: u64 = 4;
    pub const PUSH_PROMISE: u64 = 5;
    pub const GOAWAY: u64 = 7;
    pub const MAX_PUSH_ID: u64 = 13;
    /// RFC 9218 section 7.2
    pub const PRIORITY_UPDATE: u64 = 0xf0700;
    /// The same for a push.
    pub const PRIORITY_UPDATE_PUSH: u64 = 0xf0701;

    /// Types of HTTP/2 that HTTP/3 must not have (RFC 9114 section 7.2.8).
    pub const fn is_of_http2(kind: u64) -> bool {
        matches!(kind, 2 | 6 | 8 | 9)
    }
}

/// Most bytes of the head of a frame: two integers.
pub(super) const HEAD: usize = 16;

/// Largest integer.
pub const MAX: u64 = (1 << 62) - 1;

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// The type, see [`kind`].
    pub kind: u64,
    /// Bytes of the payload behind the head.
    pub length: u64,
}

impl FrameHead {
    /// Reads the head at the start of `input`, with its own length in bytes; None: it is not whole.
    #[inline]
    pub fn parse(input: &[u8]) -> Option<(Self, usize)> {
        let (kind, first) = integer(input)?;
        let (length, second) = integer(&input[first..])?;
        Some((Self { kind, length }, first + second))
    }

    /// Appends the head.
    #[inline]
    pub fn write(self, out: &mut Vec<u8>) {
        write_integer(self.kind, out);
        write_integer(self.length, out);
    }
}

/// Reads the integer at the start of `input`, with its length in bytes; None: it is not whole.
#[inline]
pub fn integer(input: &[u8]) -> Option<(u64, usize)> {
    let first = *input.first()?;
    let length = 1 << (first >> 6);
    let bytes = input.get(..length)?;
    let rest = bytes[1..].iter().fold(u64::from(first & 0x3f), |n, &b| n << 8 | u64::from(b));
    Some((rest, length))
}

/// Appends an integer of at most [`MAX`] in as few bytes as it takes.
#[inline]
pub fn write_integer(value: u64, out: &mut Vec<u8>) {
    match value {
        ..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value.min(MAX) | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_rfc_9000_appendix_a_1() {
        for (bytes, value) in [
            (&b"\xc2\x19\x7c\x5e\xff\x14\xe8\x8c"[..], 151_288_809_941_952_652),
            (b"\x9d\x7f\x3e\x7d", 494_878_333),
            (b"\x7b\xbd", 15_293),
            (b"\x25", 37),
        ] {
            assert_eq!(integer(bytes), Some((value, bytes.len())));
            assert_eq!(integer(&bytes[..bytes.len() - 1]), None);
            let mut out = Vec::new();
            write_integer(value, &mut out);
            assert_eq!(out, bytes);
        }
        assert_eq!(integer(b"\x40\x25"), Some((37, 2)));
    }

    #[test]
    fn every_length_comes_back() {
        for value in (0..62).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit]).chain([MAX]) {
            let mut out = Vec::new();
            write_integer(value, &mut out);
            assert_eq!(integer(&out), Some((value, out.len())));
        }
    }
}
