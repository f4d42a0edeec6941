//! Bodies of type multipart/byteranges (RFC 9110 14.6).
//!
//! The parts' heads are composed here; the driver puts the pieces of the stored body between them:
//! for each range [`Multipart::write_part_head`] and its bytes, at the end
//! [`Multipart::write_end`].

use super::range::{ByteRange, ContentRange, RangeList, write_number};

/// Length of a boundary.
pub const BOUNDARY: usize = 24;

/// The common data of the parts of one response.
#[derive(Clone, Copy, Debug)]
pub struct Multipart<'a> {
    boundary: [u8; BOUNDARY],
    content_type: Option<&'a [u8]>,
    total: u64,
}

impl<'a> Multipart<'a> {
    /// Parts of a representation of `total` bytes. `random` makes the boundary; the author of the
    /// representation must not be able to predict it, so that its bytes cannot contain the
    /// boundary. `content_type` is the representation's.
    pub fn new(random: u64, content_type: Option<&'a [u8]>, total: u64) -> Self {
        let mut boundary = *b"larder--0000000000000000";
        for (at, slot) in boundary[8..].iter_mut().enumerate() {
            *slot = b"0123456789abcdef"[(random >> (60 - 4 * at)) as usize & 15];
        }
        Self { boundary, content_type, total }
    }

    /// Writes the value of the response's Content-Type.
    pub fn write_content_type(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"multipart/byteranges; boundary=");
        out.extend_from_slice(&self.boundary);
    }

    /// Writes the bytes before those of `range`.
    pub fn write_part_head(&self, range: ByteRange, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n--");
        out.extend_from_slice(&self.boundary);
        if let Some(content_type) = self.content_type {
            out.extend_from_slice(b"\r\nContent-Type: ");
            out.extend_from_slice(content_type);
        }
        out.extend_from_slice(b"\r\nContent-Range: ");
        ContentRange::Bytes { range, total: Some(self.total) }.write(out);
        out.extend_from_slice(b"\r\n\r\n");
    }

    /// Writes the bytes after those of the last range.
    pub fn write_end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n--");
        out.extend_from_slice(&self.boundary);
        out.extend_from_slice(b"--\r\n");
    }

    /// Length of the whole body: the Content-Length.
    pub fn body_length(&self, ranges: &RangeList) -> u64 {
        let end = "\r\n--".len() + BOUNDARY + "--\r\n".len();
        ranges.as_slice().iter().fold(end as u64, |sum, &range| {
            sum.saturating_add(self.head_length(range)).saturating_add(range.len())
        })
    }

    fn head_length(&self, range: ByteRange) -> u64 {
        let fixed = "\r\n--".len() + BOUNDARY + "\r\nContent-Range: bytes -/\r\n\r\n".len();
        let content_type = self.content_type.map_or(0, |t| "\r\nContent-Type: ".len() + t.len());
        let digits: usize = [range.first, range.last, self.total].map(decimal_length).iter().sum();
        (fixed + content_type + digits) as u64
    }
}

fn decimal_length(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Appends a whole `Content-Length: n` line.
pub fn write_content_length(length: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Content-Length: ");
    write_number(length, out);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::super::range::{Satisfied, satisfy};
    use super::*;
    use proptest::prelude::*;

    fn list(value: &str, total: u64) -> RangeList {
        match satisfy(value.as_bytes(), total) {
            Satisfied::Many(list) => list,
            other => panic!("{value} of {total}: {other:?}"),
        }
    }

    fn body(multipart: &Multipart<'_>, ranges: &RangeList, representation: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for range in ranges.as_slice() {
            multipart.write_part_head(*range, &mut out);
            out.extend_from_slice(&representation[range.first as usize..=range.last as usize]);
        }
        multipart.write_end(&mut out);
        out
    }

    #[test]
    fn a_body_to_the_byte() {
        let multipart = Multipart::new(0x0123_4567_89ab_cdef, Some(b"text/plain"), 10);
        let got = body(&multipart, &list("bytes=0-1,-2", 10), b"0123456789");
        let expected = "\r\n--larder--0123456789abcdef\r\nContent-Type: \
                        text/plain\r\nContent-Range: bytes \
                        0-1/10\r\n\r\n01\r\n--larder--0123456789abcdef\r\nContent-Type: \
                        text/plain\r\nContent-Range: bytes \
                        8-9/10\r\n\r\n89\r\n--larder--0123456789abcdef--\r\n";
        assert_eq!(String::from_utf8_lossy(&got), expected);
        let mut out = Vec::new();
        multipart.write_content_type(&mut out);
        assert_eq!(out, b"multipart/byteranges; boundary=larder--0123456789abcdef");
        write_content_length(0, &mut out);
        assert!(out.ends_with(b"Content-Length: 0\r\n"));
    }

    proptest! {
        #[test]
        fn the_length_is_known_before(
            random: u64, first in 0..900_u64, gap in 2..1000_u64, typed: bool,
        ) {
            let representation = vec![b'x'; 2000];
            let multipart = Multipart::new(random, typed.then_some(&b"a/b"[..]), 2000);
            let ranges = list(&format!("bytes=0-{first},{}-", first + gap), 2000);
            let written = body(&multipart, &ranges, &representation).len() as u64;
            prop_assert_eq!(written, multipart.body_length(&ranges));
        }
    }
}
