//! Every byte in the files of a disk. Integers are little endian. docs/page-format.md is the
//! definition of the parts that hold records.
//!
//! ```text
//! segment   head (64) | frame | frame | ... | summary | footer (64)
//! frame     head (64) | key | record | zeros to a multiple of 64
//! summary   32 bytes an entry; written with the footer when the segment is sealed
//! ```

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

use crate::types::Ms;

/// Bytes of a head or footer, and the unit of places.
pub(crate) const UNIT: usize = 64;
/// Bytes of an entry of a summary.
pub(crate) const LISTED: usize = 32;
/// Bytes of content that are hashed at once.
const BLOCK: usize = 64 << 10;
/// Longest key: the store's.
const MAX_KEY: u32 = 16 << 10;
/// An expiry of never.
const NEVER: u64 = u64::MAX;

const VERSION: u8 = 1;
const SEGMENT: [u8; 4] = *b"LRDG";
const FRAME: [u8; 4] = *b"LRDS";
const FOOTER: [u8; 4] = *b"LRDE";
const SEED: u64 = 0x4C52_4453_0001;

pub(crate) fn hash(bytes: &[u8], seed: u64) -> u64 {
    rapidhash_v3_seeded(bytes, &RapidSecrets::seed_cpp(seed))
}

/// The hash of a key, by which the index knows it.
pub fn key_hash(key: &[u8]) -> u64 {
    hash(key, SEED)
}

/// Bytes rounded up to whole units.
pub(crate) fn whole(bytes: u64) -> u64 {
    bytes.next_multiple_of(UNIT as u64)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
    word.map_or(0, u64::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    word.map_or(0, u32::from_le_bytes)
}

pub(crate) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// The checksum of content in any pieces: a chain over blocks.
pub(crate) struct Chain {
    sum: u64,
    block: Vec<u8>,
}

impl Chain {
    pub(crate) fn new(seed: u64) -> Self {
        Self { sum: seed, block: Vec::new() }
    }

    pub(crate) fn add(&mut self, mut bytes: &[u8]) {
        if !self.block.is_empty() {
            let take = bytes.len().min(BLOCK - self.block.len());
            self.block.extend_from_slice(&bytes[..take]);
            bytes = &bytes[take..];
            if self.block.len() < BLOCK {
                return;
            }
            self.sum = hash(&self.block, self.sum);
            self.block.clear();
        }
        let mut blocks = bytes.chunks_exact(BLOCK);
        for block in &mut blocks {
            self.sum = hash(block, self.sum);
        }
        self.block.extend_from_slice(blocks.remainder());
    }

    pub(crate) fn sum(self) -> u64 {
        if self.block.is_empty() { self.sum } else { hash(&self.block, self.sum) }
    }
}

/// Where bytes belong: checksums are bound to it, so that bytes of another disk, another segment or
/// another place are damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    /// The disk's random number.
    pub(crate) disk: u64,
    /// The segment's number.
    pub(crate) serial: u64,
}

impl Home {
    fn seed(self, at: u64) -> u64 {
        let mut bytes = [0; 24];
        put_u64(&mut bytes, 0, self.disk);
        put_u64(&mut bytes, 8, self.serial);
        put_u64(&mut bytes, 16, at);
        hash(&bytes, SEED)
    }

    /// The head of a segment.
    pub(crate) fn head(self) -> [u8; UNIT] {
        let mut out = [0; UNIT];
        out[..4].copy_from_slice(&SEGMENT);
        out[4] = VERSION;
        put_u64(&mut out, 8, self.serial);
        put_u64(&mut out, 16, self.disk);
        let sum = hash(&out[..56], self.seed(0));
        put_u64(&mut out, 56, sum);
        out
    }

    /// Whether a segment begins so.
    pub(crate) fn begins(self, bytes: &[u8]) -> bool {
        bytes.len() >= UNIT && bytes[..UNIT] == self.head()
    }
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHead {
    pub(crate) ticket: u64,
    pub(crate) expires: Option<Ms>,
    pub(crate) hash: u64,
    pub(crate) key: u32,
    pub(crate) record: u32,
    /// Checksum of key and record.
    pub(crate) sum: u64,
}

impl FrameHead {
    /// Bytes of the whole frame.
    pub(crate) fn frame(&self) -> u64 {
        whole(UNIT as u64 + self.content())
    }

    /// Bytes of key and record.
    pub(crate) fn content(&self) -> u64 {
        u64::from(self.key) + u64::from(self.record)
    }

    /// The first 52 bytes; the content's checksum is 0 there.
    fn start(&self) -> [u8; UNIT] {
        let mut out = [0; UNIT];
        out[..4].copy_from_slice(&FRAME);
        out[4] = VERSION;
        put_u64(&mut out, 8, self.ticket);
        put_u64(&mut out, 16, self.expires.unwrap_or(NEVER));
        put_u64(&mut out, 24, self.hash);
        put_u32(&mut out, 32, self.key);
        put_u32(&mut out, 36, self.record);
        out
    }

    /// The seed of the content's checksum: the content belongs to this head at this place.
    fn seed(&self, home: Home, at: u64) -> u64 {
        hash(&self.start()[..40], home.seed(at))
    }

    /// The head for these pieces of content.
    pub(crate) fn for_content<'c>(
        self,
        home: Home,
        at: u64,
        pieces: impl Iterator<Item = &'c [u8]>,
    ) -> FrameHead {
        let mut chain = Chain::new(self.seed(home, at));
        pieces.for_each(|piece| chain.add(piece));
        FrameHead { sum: chain.sum(), ..self }
    }

    pub(crate) fn encode(&self, home: Home, at: u64) -> [u8; UNIT] {
        let mut out = self.start();
        put_u64(&mut out, 48, self.sum);
        let sum = hash(&out[..56], home.seed(at));
        put_u64(&mut out, 56, sum);
        out
    }

    /// The head of the frame at this place, if it is whole. Its content may be damaged.
    pub(crate) fn decode(home: Home, at: u64, bytes: &[u8]) -> Option<FrameHead> {
        let bytes = bytes.get(..UNIT)?;
        if bytes[..4] != FRAME || bytes[4] != VERSION {
            return None;
        }
        let expires = u64_at(bytes, 16);
        let head = FrameHead {
            ticket: u64_at(bytes, 8),
            expires: (expires != NEVER).then_some(expires),
            hash: u64_at(bytes, 24),
            key: u32_at(bytes, 32),
            record: u32_at(bytes, 36),
            sum: u64_at(bytes, 48),
        };
        let whole = head.key <= MAX_KEY && head.encode(home, at)[..] == *bytes;
        whole.then_some(head)
    }

    /// Whether this is the head's content.
    pub(crate) fn fits(&self, home: Home, at: u64, content: &[u8]) -> bool {
        let mut chain = Chain::new(self.seed(home, at));
        chain.add(content);
        content.len() as u64 == self.content() && chain.sum() == self.sum
    }
}

/// An entry as the summary of its segment lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) hash: u64,
    pub(crate) ticket: u64,
    /// Place and length of its frame, in units.
    pub(crate) at: u32,
    pub(crate) units: u32,
    /// Seconds; see [`seconds`].
    pub(crate) expires: u32,
}

/// An expiry as the index has it: whole seconds, never too late.
pub(crate) fn seconds(expires: Option<Ms>) -> u32 {
    expires.map_or(u32::MAX, |at| u32::try_from(at / 1000).unwrap_or(u32::MAX - 1))
}

impl Listed {
    pub(crate) fn of(head: &FrameHead, at: u64) -> Listed {
        Listed {
            hash: head.hash,
            ticket: head.ticket,
            at: (at / UNIT as u64) as u32,
            units: (head.frame() / UNIT as u64) as u32,
            expires: seconds(head.expires),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.hash.to_le_bytes());
        out.extend_from_slice(&self.ticket.to_le_bytes());
        for value in [self.at, self.units, self.expires, 0] {
            out.extend_from_slice(&value.to_le_bytes());
        }
    }

    fn read(bytes: &[u8]) -> Listed {
        Listed {
            hash: u64_at(bytes, 0),
            ticket: u64_at(bytes, 8),
            at: u32_at(bytes, 16),
            units: u32_at(bytes, 20),
            expires: u32_at(bytes, 24),
        }
    }
}

/// The footer of a sealed segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    /// Where the summary begins.
    pub(crate) at: u64,
    pub(crate) entries: u32,
    /// Checksum of the summary.
    sum: u64,
}

impl Footer {
    /// Bytes of the summary, with the zeros after it.
    pub(crate) fn summary(&self) -> u64 {
        whole(u64::from(self.entries) * LISTED as u64)
    }

    fn encode(&self, home: Home) -> [u8; UNIT] {
        let mut out = [0; UNIT];
        out[..4].copy_from_slice(&FOOTER);
        out[4] = VERSION;
        put_u64(&mut out, 8, self.at);
        put_u32(&mut out, 16, self.entries);
        put_u64(&mut out, 24, self.sum);
        let sum = hash(&out[..56], home.seed(self.at));
        put_u64(&mut out, 56, sum);
        out
    }

    /// The footer at the end of a segment of this length.
    pub(crate) fn decode(home: Home, bytes: &[u8], length: u64) -> Option<Footer> {
        let bytes = bytes.get(..UNIT)?;
        let footer =
            Footer { at: u64_at(bytes, 8), entries: u32_at(bytes, 16), sum: u64_at(bytes, 24) };
        let end = footer.at.checked_add(footer.summary() + UNIT as u64);
        (footer.encode(home)[..] == *bytes && end == Some(length)).then_some(footer)
    }

    /// The entries of the summary, if it is whole.
    pub(crate) fn entries(&self, home: Home, summary: &[u8]) -> Option<Vec<Listed>> {
        let listed = summary.get(..self.entries as usize * LISTED)?;
        let mut chain = Chain::new(home.seed(self.at));
        chain.add(listed);
        let whole = chain.sum() == self.sum;
        whole.then(|| listed.chunks_exact(LISTED).map(Listed::read).collect())
    }
}

/// Summary and footer of a segment whose frames end at `at`.
pub(crate) fn seal(home: Home, at: u64, entries: &[Listed]) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len() * LISTED + 2 * UNIT);
    entries.iter().for_each(|entry| entry.write(&mut out));
    let mut chain = Chain::new(home.seed(at));
    chain.add(&out);
    let footer = Footer { at, entries: entries.len() as u32, sum: chain.sum() };
    out.resize(footer.summary() as usize, 0);
    out.extend_from_slice(&footer.encode(home));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: Home = Home { disk: 7, serial: 3 };

    fn head() -> FrameHead {
        let head = FrameHead {
            ticket: 9,
            expires: Some(12_345),
            hash: key_hash(b"key"),
            key: 3,
            record: 6,
            sum: 0,
        };
        head.for_content(HOME, 64, [b"key" as &[u8], b"rec", b"ord"].into_iter())
    }

    #[test]
    fn a_frame_reads_back_in_its_place_only() {
        let bytes = head().encode(HOME, 64);
        assert_eq!(FrameHead::decode(HOME, 64, &bytes), Some(head()));
        assert!(head().fits(HOME, 64, b"keyrecord"));
        assert!(!head().fits(HOME, 128, b"keyrecord"), "another place");
        assert!(!head().fits(HOME, 64, b"keyrecorD") && !head().fits(HOME, 64, b"keyrecor"));
        for other in [Home { disk: 8, ..HOME }, Home { serial: 4, ..HOME }] {
            assert_eq!(FrameHead::decode(other, 64, &bytes), None);
            assert!(!head().fits(other, 64, b"keyrecord"));
        }
        assert_eq!(FrameHead::decode(HOME, 128, &bytes), None, "another place");
        for at in 0..bytes.len() {
            let mut changed = bytes;
            changed[at] ^= 4;
            assert_eq!(FrameHead::decode(HOME, 64, &changed), None, "byte {at}");
        }
    }

    #[test]
    fn a_summary_reads_back() {
        let entries: Vec<Listed> =
            (0..100).map(|n| Listed { at: n, ..Listed::of(&head(), 0) }).collect();
        let bytes = seal(HOME, 6_400, &entries);
        let length = 6_400 + bytes.len() as u64;
        let (summary, footer) = bytes.split_at(bytes.len() - UNIT);
        let footer = Footer::decode(HOME, footer, length).expect("a footer");
        assert_eq!(footer.entries(HOME, summary), Some(entries));
        let mut changed = summary.to_vec();
        changed[77] ^= 1;
        assert_eq!(footer.entries(HOME, &changed), None);
        assert_eq!(Footer::decode(HOME, &bytes[bytes.len() - UNIT..], length + 64), None);
    }

    #[test]
    fn a_chain_does_not_depend_on_its_pieces() {
        let bytes: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
        let sum = |piece: usize| {
            let mut chain = Chain::new(5);
            bytes.chunks(piece).for_each(|piece| chain.add(piece));
            chain.sum()
        };
        assert_eq!(sum(200_000), sum(777));
        assert_eq!(sum(200_000), sum(65_536));
    }
}
