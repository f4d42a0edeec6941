//! Checksums: rapidhash v3, chained over blocks so that a body can be checked in any pieces.

use super::{CHECKSUM_AT, HEADER_LEN, TAIL_MAGIC, TRAILER_LEN};
use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

const HEADER_SEED: u64 = 0x4C52_4450_0001;
const BLOCK: usize = 4096;

fn hash(bytes: &[u8], seed: u64) -> u64 {
    // seed_cpp: the published default secrets, only the seed changes; the format is defined by
    // them.
    rapidhash_v3_seeded(bytes, &RapidSecrets::seed_cpp(seed))
}

/// Checksum of everything before the body. `head` starts at the record's first byte.
pub(super) fn head_checksum(head: &[u8]) -> u64 {
    let fixed = hash(&head[..CHECKSUM_AT], HEADER_SEED);
    hash(&head[HEADER_LEN..], fixed)
}

/// The checksum written in a record's header; 0 when `head` is shorter than a header.
pub(super) fn stored_checksum(head: &[u8]) -> u64 {
    head.get(CHECKSUM_AT..HEADER_LEN).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Running checksum of a body that arrives in pieces of any size.
#[derive(Debug)]
pub struct BodyCheck {
    sum: u64,
    len: u64,
    held: usize,
    block: Box<[u8; BLOCK]>,
}

impl BodyCheck {
    /// Starts for the record whose bytes before the body are (or start with) `head`, as returned by
    /// [`super::encode_head`].
    pub fn new(head: &[u8]) -> Self {
        Self { sum: stored_checksum(head), len: 0, held: 0, block: Box::new([0; BLOCK]) }
    }

    /// Adds the next piece of the body.
    pub fn update(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len() as u64;
        if self.held > 0 {
            let take = bytes.len().min(BLOCK - self.held);
            self.block[self.held..self.held + take].copy_from_slice(&bytes[..take]);
            self.held += take;
            bytes = &bytes[take..];
            if self.held < BLOCK {
                return;
            }
            self.sum = hash(&self.block[..], self.sum);
            self.held = 0;
        }
        let mut blocks = bytes.chunks_exact(BLOCK);
        for block in &mut blocks {
            self.sum = hash(block, self.sum);
        }
        let rest = blocks.remainder();
        self.block[..rest.len()].copy_from_slice(rest);
        self.held = rest.len();
    }

    /// (length, checksum) of the bytes added.
    pub fn finish(&self) -> (u64, u64) {
        let sum = if self.held == 0 { self.sum } else { hash(&self.block[..self.held], self.sum) };
        (self.len, sum)
    }
}

/// Makes the last 24 bytes of a record while its body passes.
#[derive(Debug)]
pub struct Trailer {
    check: BodyCheck,
}

impl Trailer {
    /// Starts for the record that begins with `head`. The trailer is bound to it: the end of one
    /// record never fits the start of another.
    pub fn new(head: &[u8]) -> Self {
        Self { check: BodyCheck::new(head) }
    }

    /// Adds the next piece of the body.
    pub fn update(&mut self, bytes: &[u8]) {
        self.check.update(bytes);
    }

    /// The trailer to write after the body.
    pub fn finish(self) -> [u8; TRAILER_LEN] {
        let (len, sum) = self.check.finish();
        let mut out = [0; TRAILER_LEN];
        out[..8].copy_from_slice(&len.to_le_bytes());
        out[8..16].copy_from_slice(&sum.to_le_bytes());
        out[16..].copy_from_slice(&TAIL_MAGIC);
        out
    }
}
