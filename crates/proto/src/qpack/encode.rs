//! Encoding of response heads (RFC 9204 section 4.5).

use super::static_table;
use crate::hpack::names::{self, Policy};
use crate::hpack::text::string;
use crate::hpack::{huffman, integer};

/// A field section in the making.
#[derive(Debug)]
pub struct Section<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> Section<'o> {
    /// Begins a section, which is appended to `out`.
    pub fn new(out: &'o mut Vec<u8>) -> Self {
        // No entry of a dynamic table is needed.
        out.extend_from_slice(&[0, 0]);
        Self { out }
    }

    /// The status; it comes before all fields (RFC 9114 section 4.3.2). `status` has three digits.
    #[inline]
    pub fn status(&mut self, status: u16) {
        match static_table::status(status) {
            Some(index) => integer::encode(index, 6, 0xc0, self.out),
            None => {
                let digit = |divisor: u16| b'0' + (status / divisor % 10) as u8;
                integer::encode(24, 4, 0x50, self.out);
                string(&[digit(100), digit(10), digit(1)], self.out);
            }
        }
    }

    /// Field lines as HTTP/1.1 has them: `Name: value` and CRLF each, as in a stored head. Lines
    /// without a colon, the empty line and fields of the connection are left out.
    #[inline]
    pub fn lines(&mut self, lines: &[u8]) {
        let mut rest = lines;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.line(&rest[..end]);
            rest = &rest[end + 1..];
        }
        self.line(rest);
    }

    #[inline]
    fn line(&mut self, line: &[u8]) {
        let Some(length) = memchr::memchr(b':', line) else { return };
        let (name, value) = (&line[..length], line[length + 1..].trim_ascii());
        let mut lower = [0; names::LONGEST];
        let place = match lower.get_mut(..length) {
            Some(start) => {
                start.copy_from_slice(name);
                // Of all of it: a fixed length takes a few instructions.
                lower.make_ascii_lowercase();
                names::find(&lower[..length])
            }
            None => 0,
        };
        let Some(place) = usize::from(place).checked_sub(1) else {
            return self.unknown(name, value);
        };
        let known = &names::KNOWN[place];
        // A secret: no one may index it (section 4.5.4).
        let never = if known.policy == Policy::Never { 0x20 } else { 0 };
        match static_table::find(place, value) {
            _ if known.policy == Policy::Drop => {}
            Some((index, true)) => integer::encode(index, 6, 0xc0, self.out),
            Some((index, false)) => {
                integer::encode(index, 4, 0x50 | never, self.out);
                string(value, self.out);
            }
            None => self.unknown(name, value),
        }
    }

    /// A line whose name is not in the table.
    fn unknown(&mut self, name: &[u8], value: &[u8]) {
        let name = name.to_ascii_lowercase();
        let length = huffman::encoded_len(&name);
        if length < name.len() {
            integer::encode(length, 3, 0x28, self.out);
            let at = self.out.len();
            self.out.resize(at + length, 0);
            huffman::encode(&name, &mut self.out[at..]);
        } else {
            integer::encode(name.len(), 3, 0x20, self.out);
            self.out.extend_from_slice(&name);
        }
        string(value, self.out);
    }
}
