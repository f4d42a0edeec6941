//! Bytes of a journal: records in segments.
//!
//! ```text
//! segment  head | record | record | ...
//! record   length 4 | CRC-32 of the content 4 | content (length bytes)
//! content  kind 1 | fields, little-endian
//! head     a record of kind 0: "LARDERQ1" 8 | number of the segment 8 | next id 8
//! item     1: id 8 | added 8 | expires 8 | flags 4 | data
//! moved    2: id 8 | added 8 | expires 8 | flags 4 | aborts 4 | data
//! removed  3: id 8 | bytes 4
//! range    4: first id 8 | end 8 | items 8 | bytes 8
//! aborted  5: id 8 | aborts 4
//! returned 6: id 8 | added 8 | expires 8 | flags 4 | aborts 4 | segment 8 | offset 8 | bytes 4
//! ```
//! Times are UNIX milliseconds; an expiry of 0 is none. Ids of a queue ascend, and order its items.
//! An item that is *moved* is a copy of one whose segment is about to be deleted. One that is
//! *returned* was removed and waits again: its item or moved record is at the place.

/// Bytes before a record's content.
pub(crate) const FRAME: usize = 8;
/// Bytes of a segment's head.
pub(crate) const HEAD: u64 = (FRAME + 1 + 24) as u64;
/// Most bytes of a record's content: the largest item that can be configured, and its fields.
pub(crate) const LONGEST: usize = MOST_ITEM + 64;
/// Largest item that can be configured, in bytes.
pub const MOST_ITEM: usize = 64 << 20;

const MAGIC: [u8; 8] = *b"LARDERQ1";

/// A record of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// The first record of a segment.
    Head {
        /// Number of the segment.
        number: u64,
        /// Ids of new items in this segment begin here.
        next_id: u64,
    },
    /// An item was added, or moved here.
    Item {
        /// Its place in the order of the queue.
        id: u64,
        /// When it was added, UNIX milliseconds.
        added: u64,
        /// When it expires, UNIX milliseconds; 0: never.
        expires: u64,
        /// The client's flags.
        flags: u32,
        /// A copy from an older segment, with the aborted reads of the item.
        moved: Option<u32>,
        /// The content.
        data: &'a [u8],
    },
    /// An item was removed.
    Removed {
        /// Its id.
        id: u64,
        /// Length of its data.
        bytes: u32,
    },
    /// All items with these ids were removed.
    Range {
        /// First id.
        from: u64,
        /// Behind the last id.
        to: u64,
        /// Number of removed items.
        items: u64,
        /// Length of their data.
        bytes: u64,
    },
    /// A read of an item was aborted.
    Aborted {
        /// Its id.
        id: u64,
        /// Aborted reads so far.
        aborts: u32,
    },
    /// An item that was removed waits again: its reader did not get it.
    Returned {
        /// Its place in the order of the queue.
        id: u64,
        /// When it was added, UNIX milliseconds.
        added: u64,
        /// When it expires, UNIX milliseconds; 0: never.
        expires: u64,
        /// The client's flags.
        flags: u32,
        /// Aborted reads so far.
        aborts: u32,
        /// The segment with its record.
        segment: u64,
        /// Where the record begins there.
        offset: u64,
        /// Length of its data.
        bytes: u32,
    },
}

/// The start of some bytes of a journal.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A record, and its bytes.
    Record(Record<'a>, usize),
    /// A record of so many bytes, of which not all are there.
    Partial(usize),
    /// No record.
    Bad,
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

/// Reads the first record of `bytes`.
pub fn decode(bytes: &[u8]) -> Decoded<'_> {
    let mut frame = Fields(bytes);
    let (Some(len), Some(crc)) = (frame.u32(), frame.u32()) else {
        return Decoded::Partial(FRAME);
    };
    let len = len as usize;
    if len == 0 || len > LONGEST {
        return Decoded::Bad;
    }
    let Some(content) = frame.0.get(..len) else { return Decoded::Partial(FRAME + len) };
    if crc32fast::hash(content) != crc {
        return Decoded::Bad;
    }
    content_of(content).map_or(Decoded::Bad, |record| Decoded::Record(record, FRAME + len))
}

fn content_of(content: &[u8]) -> Option<Record<'_>> {
    let (kind, fields) = content.split_first()?;
    let mut fields = Fields(fields);
    let record = match kind {
        0 => {
            let magic = fields.take()?;
            if magic != MAGIC {
                return None;
            }
            Record::Head { number: fields.u64()?, next_id: fields.u64()? }
        }
        1 | 2 => {
            let (id, added, expires, flags) =
                (fields.u64()?, fields.u64()?, fields.u64()?, fields.u32()?);
            let moved = if *kind == 2 { Some(fields.u32()?) } else { None };
            return Some(Record::Item { id, added, expires, flags, moved, data: fields.0 });
        }
        3 => Record::Removed { id: fields.u64()?, bytes: fields.u32()? },
        4 => Record::Range {
            from: fields.u64()?,
            to: fields.u64()?,
            items: fields.u64()?,
            bytes: fields.u64()?,
        },
        5 => Record::Aborted { id: fields.u64()?, aborts: fields.u32()? },
        6 => Record::Returned {
            id: fields.u64()?,
            added: fields.u64()?,
            expires: fields.u64()?,
            flags: fields.u32()?,
            aborts: fields.u32()?,
            segment: fields.u64()?,
            offset: fields.u64()?,
            bytes: fields.u32()?,
        },
        _ => return None,
    };
    fields.0.is_empty().then_some(record)
}

/// Appends a record, and returns its length.
pub fn encode(record: &Record<'_>, into: &mut Vec<u8>) -> usize {
    let start = into.len();
    into.extend_from_slice(&[0; FRAME]);
    match *record {
        Record::Head { number, next_id } => {
            into.push(0);
            into.extend_from_slice(&MAGIC);
            into.extend_from_slice(&number.to_le_bytes());
            into.extend_from_slice(&next_id.to_le_bytes());
        }
        Record::Item { id, added, expires, flags, moved, data } => {
            into.push(if moved.is_some() { 2 } else { 1 });
            for time in [id, added, expires] {
                into.extend_from_slice(&time.to_le_bytes());
            }
            into.extend_from_slice(&flags.to_le_bytes());
            if let Some(aborts) = moved {
                into.extend_from_slice(&aborts.to_le_bytes());
            }
            into.extend_from_slice(data);
        }
        Record::Removed { id, bytes } => {
            into.push(3);
            into.extend_from_slice(&id.to_le_bytes());
            into.extend_from_slice(&bytes.to_le_bytes());
        }
        Record::Range { from, to, items, bytes } => {
            into.push(4);
            for number in [from, to, items, bytes] {
                into.extend_from_slice(&number.to_le_bytes());
            }
        }
        Record::Aborted { id, aborts } => {
            into.push(5);
            into.extend_from_slice(&id.to_le_bytes());
            into.extend_from_slice(&aborts.to_le_bytes());
        }
        Record::Returned { id, added, expires, flags, aborts, segment, offset, bytes } => {
            into.push(6);
            for time in [id, added, expires] {
                into.extend_from_slice(&time.to_le_bytes());
            }
            into.extend_from_slice(&flags.to_le_bytes());
            into.extend_from_slice(&aborts.to_le_bytes());
            into.extend_from_slice(&segment.to_le_bytes());
            into.extend_from_slice(&offset.to_le_bytes());
            into.extend_from_slice(&bytes.to_le_bytes());
        }
    }
    let content = &into[start + FRAME..];
    let (len, crc) = (content.len() as u32, crc32fast::hash(content));
    into[start..start + 4].copy_from_slice(&len.to_le_bytes());
    into[start + 4..start + FRAME].copy_from_slice(&crc.to_le_bytes());
    into.len() - start
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Record<'static>> {
        let item = |moved| Record::Item {
            id: 7,
            added: 1_700_000_000_000,
            expires: 0,
            flags: 9,
            moved,
            data: b"hello",
        };
        vec![
            Record::Head { number: 3, next_id: 99 },
            item(None),
            item(Some(2)),
            Record::Removed { id: 7, bytes: 5 },
            Record::Range { from: 1, to: 9, items: 4, bytes: 77 },
            Record::Aborted { id: 7, aborts: 3 },
            Record::Returned {
                id: 7,
                added: 1_700_000_000_000,
                expires: 0,
                flags: 9,
                aborts: 2,
                segment: 3,
                offset: 33,
                bytes: 5,
            },
        ]
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        for record in all() {
            let mut bytes = Vec::new();
            let len = encode(&record, &mut bytes);
            assert_eq!(decode(&bytes), Decoded::Record(record, len));
            for cut in 0..bytes.len() {
                assert!(matches!(decode(&bytes[..cut]), Decoded::Partial(n) if n > cut), "{cut}");
            }
        }
        let mut head = Vec::new();
        assert_eq!(encode(&all()[0], &mut head) as u64, HEAD);
    }

    #[test]
    fn a_changed_bit_is_no_record() {
        for record in all() {
            let mut bytes = Vec::new();
            let len = encode(&record, &mut bytes);
            for bit in 0..bytes.len() * 8 {
                let mut wrong = bytes.clone();
                wrong[bit / 8] ^= 1 << (bit % 8);
                assert!(!matches!(decode(&wrong), Decoded::Record(_, n) if n == len), "{bit}");
            }
        }
        assert_eq!(decode(&[0; 64]), Decoded::Bad);
    }
}
