//! Encoding of response heads (RFC 7541 sections 3 and 6).
//!
//! Policy: fields whose values repeat from response to response (`server`, `content-type`,
//! `cache-control`, `vary`, `via`, security and CORS policies) go into the dynamic table; values
//! that change (`date`, `age`, `etag`, `content-length`, `last-modified` ...) are literals. A
//! `set-cookie` is a literal that no one may index. Unknown fields are literals. A string of
//! five bytes and more is Huffman coded if that is shorter.
//!
//! Lines with which the connection's last head began as well are not encoded again, as long as the
//! table is as it was.

use super::memo::Memo;
use super::names::{self, Policy};
use super::table::{Name, Table};
use super::text::string;
use super::{DEFAULT_TABLE_SIZE, ENTRY_OVERHEAD, integer, static_table};

/// Part of the table that one line may take: a larger one would evict too many others.
const LARGEST_SHARE: usize = 4;

/// The encoder of one connection.
#[derive(Debug)]
pub struct Encoder {
    table: Table,
    /// Largest table that the encoder wants, in bytes.
    own: u32,
    /// Smallest size since the last block that the peer does not know of yet.
    smallest: u32,
    /// Size that the peer knows of.
    announced: u32,
    /// The last head. Boxed: a connection at rest has none.
    memo: Option<Box<Memo>>,
}

impl Encoder {
    /// An encoder whose table has at most `own` bytes, whatever the peer allows.
    pub fn new(own: u32) -> Self {
        let max = own.min(DEFAULT_TABLE_SIZE);
        let table = Table::new(max);
        Self { table, own, smallest: max, announced: DEFAULT_TABLE_SIZE, memo: None }
    }

    /// The peer's `SETTINGS_HEADER_TABLE_SIZE` (section 4.2). The next block says how much of it is
    /// used.
    pub fn set_peer_table_size(&mut self, size: u32) {
        self.table.resize(size.min(self.own));
        self.smallest = self.smallest.min(self.table.max());
    }

    /// Number of entries in the table.
    #[cfg(test)]
    pub(super) fn table_len(&self) -> usize {
        self.table.len()
    }

    /// Bytes of memory behind the encoder.
    pub fn memory(&self) -> usize {
        self.table.memory() + self.memo.as_ref().map_or(0, |memo| memo.memory())
    }

    /// Forgets the table and frees its memory. The next block says so in two bytes or four, and
    /// sends its fields in full again.
    pub fn rest(&mut self) {
        if self.table.len() > 0 {
            self.table.clear();
            self.smallest = 0;
        }
        self.table.shrink();
        self.memo = None;
    }

    /// Begins a block, which is appended to `out`.
    pub fn block<'e>(&'e mut self, out: &'e mut Vec<u8>) -> Block<'e> {
        let max = self.table.max();
        if self.smallest < max {
            integer::encode(self.smallest as usize, 5, 0x20, out);
        }
        if self.smallest < max || self.announced != max {
            integer::encode(max as usize, 5, 0x20, out);
        }
        (self.smallest, self.announced) = (max, max);
        Block { encoder: self, out }
    }
}

/// A header block in the making.
#[derive(Debug)]
pub struct Block<'e> {
    encoder: &'e mut Encoder,
    out: &'e mut Vec<u8>,
}

impl Block<'_> {
    /// The status; it comes before all fields (RFC 9113 section 8.3.2). `status` has three digits.
    #[inline]
    pub fn status(&mut self, status: u16) {
        let index = match status {
            200 => 8,
            204 => 9,
            206 => 10,
            304 => 11,
            400 => 12,
            404 => 13,
            500 => 14,
            _ => {
                let digit = |divisor: u16| b'0' + (status / divisor % 10) as u8;
                self.out.push(8);
                return string(&[digit(100), digit(10), digit(1)], self.out);
            }
        };
        self.out.push(0x80 | index);
    }

    /// Field lines as HTTP/1.1 has them: `Name: value` and CRLF each, as in a stored head. Lines
    /// without a colon and the empty line are left out.
    #[inline]
    pub fn lines(&mut self, lines: &[u8]) {
        if !Memo::takes(lines) {
            return self.all_lines(lines);
        }
        let mut memo = self.encoder.memo.take().unwrap_or_default();
        let (mut at, encoded) = memo.keep_common(lines, &self.encoder.table);
        let start = self.out.len();
        self.out.extend_from_slice(encoded);
        let (first, kept, changes) = (at, self.out.len(), self.encoder.table.changes());
        while let Some(length) = memchr::memchr(b'\n', &lines[at..]) {
            self.raw_line(&lines[at..at + length]);
            at += length + 1;
            memo.ends(at, self.out.len() - start);
        }
        if self.encoder.table.changes() == changes {
            memo.extend(&lines[first..at], &self.out[kept..], &self.encoder.table);
        } else {
            // An insertion is made once.
            memo.clear();
        }
        self.encoder.memo = Some(memo);
        self.raw_line(&lines[at..]);
    }

    fn all_lines(&mut self, lines: &[u8]) {
        let mut rest = lines;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.raw_line(&rest[..end]);
            rest = &rest[end + 1..];
        }
        self.raw_line(rest);
    }

    /// One line.
    #[inline]
    fn raw_line(&mut self, line: &[u8]) {
        let Some(length) = memchr::memchr(b':', line) else { return };
        let (name, value) = (&line[..length], line[length + 1..].trim_ascii());
        let mut lower = [0; names::LONGEST];
        match lower.get_mut(..length) {
            Some(start) => start.copy_from_slice(name),
            None => return self.unknown(name, value, 0),
        }
        // Of all of it: a fixed length takes a few instructions.
        lower.make_ascii_lowercase();
        self.lower_field(&lower[..length], value);
    }

    /// One field. The name may be in any case; a field of the connection (`connection`,
    /// `transfer-encoding` ...) is left out. `value` has no spaces around it.
    #[inline]
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        let mut lower = [0; names::LONGEST];
        let Some(lower) = lower.get_mut(..name.len()) else {
            return self.unknown(name, value, 0);
        };
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        self.lower_field(lower, value);
    }

    /// One field with a secret in its value: no one may index it (sections 6.2.3 and 7.1.3).
    pub fn sensitive(&mut self, name: &[u8], value: &[u8]) {
        let lower = name.to_ascii_lowercase();
        match names::find(&lower) {
            0 => self.unknown(name, value, 0x10),
            place => {
                let known = &names::KNOWN[usize::from(place) - 1];
                if known.policy != Policy::Drop {
                    self.literal(0x10, place, known, value);
                }
            }
        }
    }

    /// Fields that [`prepare`] encoded: no work but a copy.
    #[inline]
    pub fn prepared(&mut self, fields: &[u8]) {
        self.out.extend_from_slice(fields);
    }

    #[inline]
    fn lower_field(&mut self, name: &[u8], value: &[u8]) {
        let place = names::find(name);
        if place == 0 {
            return self.unknown(name, value, 0);
        }
        let known = &names::KNOWN[usize::from(place) - 1];
        match known.policy {
            Policy::Drop => {}
            Policy::Never => self.literal(0x10, place, known, value),
            Policy::Literal if known.static_index == 0 => self.named(place, known, value),
            Policy::Literal => self.literal(0, place, known, value),
            Policy::Index => self.indexed(place, known, value),
        }
    }

    /// A line that refers to the dynamic table, or goes into it.
    #[inline]
    fn indexed(&mut self, place: u8, known: &names::Known, value: &[u8]) {
        let mut named = None;
        for (at, entry) in self.encoder.table.entries().enumerate() {
            if entry.mark != place {
                continue;
            }
            if entry.value_len() == value.len()
                && self.encoder.table.get(at).is_some_and(|(_, stored)| stored == value)
            {
                return integer::encode(static_table::LEN + 1 + at, 7, 0x80, self.out);
            }
            named = named.or(Some(at));
        }
        if !self.fits(known, value) {
            return self.literal_at(0, 4, name_index(known, named), known, value);
        }
        self.literal_at(0x40, 6, name_index(known, named), known, value);
        self.encoder.table.insert(
            Name::Given(known.name.as_bytes()),
            value,
            known.static_index,
            place,
        );
    }

    /// A literal of a name that is not in the static table: the first goes into the dynamic one.
    fn named(&mut self, place: u8, known: &names::Known, value: &[u8]) {
        let found = self.encoder.table.entries().position(|entry| entry.mark == place);
        if found.is_some() || !self.fits(known, value) {
            return self.literal_at(0, 4, name_index(known, found), known, value);
        }
        self.literal_at(0x40, 6, 0, known, value);
        self.encoder.table.insert(
            Name::Given(known.name.as_bytes()),
            value,
            known.static_index,
            place,
        );
    }

    fn fits(&self, known: &names::Known, value: &[u8]) -> bool {
        let size = known.name.len() + value.len() + ENTRY_OVERHEAD;
        size <= self.encoder.table.max() as usize / LARGEST_SHARE
    }

    #[inline]
    fn literal(&mut self, flags: u8, place: u8, known: &names::Known, value: &[u8]) {
        let named = match known.static_index {
            0 => self.encoder.table.entries().position(|entry| entry.mark == place),
            _ => None,
        };
        self.literal_at(flags, 4, name_index(known, named), known, value);
    }

    /// A literal whose name is at `index`, or in full if that is 0.
    #[inline]
    fn literal_at(
        &mut self,
        flags: u8,
        bits: u32,
        index: usize,
        known: &names::Known,
        value: &[u8],
    ) {
        integer::encode(index, bits, flags, self.out);
        if index == 0 {
            string(known.name.as_bytes(), self.out);
        }
        string(value, self.out);
    }

    /// A literal of a name that the policy does not know.
    fn unknown(&mut self, name: &[u8], value: &[u8], flags: u8) {
        self.out.push(flags);
        // The name stands in the block in lower case before it is coded.
        let mut lower = [0; 64];
        match lower.get_mut(..name.len()) {
            Some(lower) => {
                lower.copy_from_slice(name);
                lower.make_ascii_lowercase();
                string(lower, self.out);
            }
            None => {
                integer::encode(name.len(), 7, 0, self.out);
                let at = self.out.len();
                self.out.extend_from_slice(name);
                self.out[at..].make_ascii_lowercase();
            }
        }
        string(value, self.out);
    }
}

/// Encodes field lines (as [`Block::lines`] takes them) without the dynamic table, so that the
/// result can be part of any block of any connection ([`Block::prepared`]): for heads that are sent
/// often. They take about twice as many bytes as those that refer to the table.
pub fn prepare(lines: &[u8], out: &mut Vec<u8>) {
    let mut encoder = Encoder { announced: 0, ..Encoder::new(0) };
    encoder.block(out).all_lines(lines);
}

/// The index of a name: of the static table, else of the dynamic entry at `named`, else 0.
fn name_index(known: &names::Known, named: Option<usize>) -> usize {
    match (known.static_index, named) {
        (0, Some(at)) => static_table::LEN + 1 + at,
        (index, _) => usize::from(index),
    }
}
