//! The value of one key in the fleet: a head of 64 bytes, and a payload or a part of one. A payload
//! is the purges known to the sender (`journal::KnownPurges`), and a page record
//! (docs/page-format.md).
//!
//! A record that fits one item is one item. A longer one is an *index* that names its parts, and
//! the parts, each under a key of its own. The index and its parts carry one random number: parts
//! of two writes never make a page. An unreadable value is a miss.

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

use crate::clock::Ms;

/// Bytes of the head.
pub(crate) const HEAD: usize = 64;
/// The most parts of a page.
pub(crate) const MAX_PARTS: usize = 4096;

const MAGIC: [u8; 4] = *b"LRDR";
const VERSION: u8 = 2;
const COMPRESSED: u16 = 1;
const SEED: u64 = 0x4C52_4452_0001;
const SUM_AT: usize = 56;

/// The kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All of a page record.
    Whole,
    /// The names of the parts: how many there are.
    Index(u32),
    /// One of the parts, by its number.
    Part(u32),
}

/// The head of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    /// The record is one zstd frame.
    pub(crate) compressed: bool,
    /// The time of sending, by the sender's clock.
    pub(crate) sent: Ms,
    /// A random number of this write: the same in an index and its parts.
    pub(crate) write: u64,
    /// Bytes of the whole page record, decompressed.
    pub(crate) record: u64,
    /// Bytes that follow this head; for an index those of all parts together.
    pub(crate) payload: u64,
}

/// The reason why an item is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// Not ours, or of another version.
    Foreign,
    /// Ours, and damaged.
    Damaged,
}

impl Head {
    /// The bytes of the head before `payload`.
    pub(crate) fn encode(&self, payload: &[u8]) -> [u8; HEAD] {
        let mut out = [0; HEAD];
        let (kind, number) = match self.kind {
            Kind::Whole => (0, 0),
            Kind::Index(parts) => (1, parts),
            Kind::Part(number) => (2, number),
        };
        out[..4].copy_from_slice(&MAGIC);
        (out[4], out[5]) = (VERSION, kind);
        out[6..8].copy_from_slice(&(if self.compressed { COMPRESSED } else { 0 }).to_le_bytes());
        for (at, value) in [(8, self.sent), (16, self.write), (24, self.record), (32, self.payload)]
        {
            out[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        out[40..44].copy_from_slice(&number.to_le_bytes());
        let sum = sum(&out[..SUM_AT], payload);
        out[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads an item: its head, and what follows it.
    pub(crate) fn decode(item: &[u8]) -> Result<(Head, &[u8]), Bad> {
        let (head, payload) = item.split_first_chunk::<HEAD>().ok_or(Bad::Foreign)?;
        if head[..4] != MAGIC || head[4] != VERSION {
            return Err(Bad::Foreign);
        }
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&head[at..at + 8]);
            u64::from_le_bytes(word)
        };
        if word(SUM_AT) != sum(&head[..SUM_AT], payload) {
            return Err(Bad::Damaged);
        }
        let number = u32::from_le_bytes([head[40], head[41], head[42], head[43]]);
        let flags = u16::from_le_bytes([head[6], head[7]]);
        let kind = match head[5] {
            0 => Kind::Whole,
            1 if (1..=MAX_PARTS as u32).contains(&number) => Kind::Index(number),
            2 => Kind::Part(number),
            _ => return Err(Bad::Foreign),
        };
        // An unknown bit may change the meaning of the rest.
        if flags & !COMPRESSED != 0 || head[44..48] != [0; 4] || word(48) != 0 {
            return Err(Bad::Foreign);
        }
        let read = Head {
            kind,
            compressed: flags & COMPRESSED != 0,
            sent: word(8),
            write: word(16),
            record: word(24),
            payload: word(32),
        };
        let follows = match kind {
            Kind::Index(_) => 0,
            Kind::Whole | Kind::Part(_) => read.payload,
        };
        if payload.len() as u64 != follows { Err(Bad::Damaged) } else { Ok((read, payload)) }
    }
}

fn sum(head: &[u8], payload: &[u8]) -> u64 {
    let hash = |bytes: &[u8], seed| rapidhash_v3_seeded(bytes, &RapidSecrets::seed_cpp(seed));
    hash(payload, hash(head, SEED))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(kind: Kind, payload: u64) -> Head {
        Head {
            kind,
            compressed: true,
            sent: 1_700_000_000_123,
            write: u64::MAX - 1,
            record: 77_777,
            payload,
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        for (kind, payload) in
            [(Kind::Whole, b"page" as &[u8]), (Kind::Part(3), b"art"), (Kind::Index(4), b"")]
        {
            let length = if payload.is_empty() { 4_000 } else { payload.len() as u64 };
            let head = head(kind, length);
            let item = [&head.encode(payload)[..], payload].concat();
            assert_eq!(Head::decode(&item), Ok((head, payload)));
        }
    }

    #[test]
    fn every_byte_counts() {
        let whole = head(Kind::Whole, 40);
        let payload = [7u8; 40];
        let item = [&whole.encode(&payload)[..], &payload].concat();
        for at in 0..item.len() {
            let mut changed = item.clone();
            changed[at] ^= 0x10;
            assert!(Head::decode(&changed).is_err(), "byte {at}");
        }
        for cut in 0..item.len() {
            assert!(Head::decode(&item[..cut]).is_err(), "cut to {cut}");
        }
        assert_eq!(Head::decode(&[&item[..], b"x"].concat()), Err(Bad::Damaged));
    }

    #[test]
    fn other_versions_and_unknown_bits_are_foreign() {
        for (at, value) in [(4, 1), (4, 3), (6, 2), (7, 1), (5, 3), (44, 1), (48, 1)] {
            let mut item = head(Kind::Whole, 0).encode(&[]);
            item[at] = value;
            let sum = sum(&item[..SUM_AT], &[]);
            item[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
            assert_eq!(Head::decode(&item), Err(Bad::Foreign), "byte {at}");
        }
        for parts in [0, MAX_PARTS as u32 + 1] {
            assert_eq!(Head::decode(&head(Kind::Index(parts), 9).encode(&[])), Err(Bad::Foreign));
        }
    }
}
