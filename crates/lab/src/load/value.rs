//! The bytes of a value, computed from its key and length, so that values with a wrong byte,
//! truncated values and values of another key are detected without storing what was written.
//!
//! Each word takes one 64-bit multiplication (as in wyrand), so that generating and checking are
//! cheap compared to the system calls that move the bytes. A word depends only on its position: a
//! value can be checked from any offset.

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

/// Never change these: values written by one run are checked by later ones.
const SECRETS: RapidSecrets = RapidSecrets::seed(0x6c61_7264_6572);
/// Odd, with well distributed bits (wyrand's).
const STEP: u64 = 0x2d35_8dcc_aa6c_78a5;
/// See `STEP`.
const TWIST: u64 = 0x8bb8_4b93_962e_acc9;
/// Bytes in a word.
const WORD: usize = 8;
/// Words compared before the result is tested.
const STRIDE: usize = 8;

/// A hash of the key, the same in every run.
pub(crate) fn hash(key: &[u8]) -> u64 {
    rapidhash_v3_seeded(key, &SECRETS)
}

/// The seed of a value's words.
fn origin(key: &[u8], size: usize) -> u64 {
    mixed(hash(key) ^ (size as u64).wrapping_mul(TWIST))
}

fn mixed(word: u64) -> u64 {
    let product = u128::from(word) * u128::from(word ^ TWIST);
    (product >> 64) as u64 ^ product as u64
}

fn word(origin: u64, index: u64) -> u64 {
    mixed(origin.wrapping_add(index.wrapping_mul(STEP)))
}

/// Appends the value of `key` with length `size`.
pub fn fill(key: &[u8], size: usize, out: &mut Vec<u8>) {
    let (origin, start) = (origin(key, size), out.len());
    out.resize(start + size, 0);
    let mut chunks = out[start..].chunks_exact_mut(WORD);
    let mut index = 0;
    for chunk in &mut chunks {
        chunk.copy_from_slice(&word(origin, index).to_le_bytes());
        index += 1;
    }
    let rest = chunks.into_remainder();
    let last = word(origin, index).to_le_bytes();
    rest.copy_from_slice(&last[..rest.len()]);
}

/// Whether these bytes are the value of `key` with this length.
pub fn matches(key: &[u8], bytes: &[u8]) -> bool {
    let mut matcher = Matcher::new(key, bytes.len());
    matcher.push(bytes);
    matcher.finish()
}

/// Checks a value that arrives in pieces.
#[derive(Clone, Copy, Debug)]
pub struct Matcher {
    origin: u64,
    at: usize,
    size: usize,
    right: bool,
}

impl Matcher {
    /// Expects the value of `key` with length `size`.
    pub fn new(key: &[u8], size: usize) -> Matcher {
        Matcher { origin: origin(key, size), at: 0, size, right: true }
    }

    /// Checks the next piece; false from the first wrong byte on.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        if self.right {
            self.right = bytes.len() <= self.size - self.at && self.compare(bytes);
            self.at += bytes.len().min(self.size - self.at);
        }
        self.right
    }

    /// Whether the whole value arrived and was correct.
    pub fn finish(&self) -> bool {
        self.right && self.at == self.size
    }

    fn compare(&self, bytes: &[u8]) -> bool {
        // First to a word boundary, then strides, words, and the rest.
        let head = bytes.len().min((WORD - self.at % WORD) % WORD);
        let (head, body) = bytes.split_at(head);
        let mut at = self.at + head.len();
        if !self.compare_part(self.at, head) {
            return false;
        }
        let mut strides = body.chunks_exact(WORD * STRIDE);
        for stride in &mut strides {
            let first = (at / WORD) as u64;
            let mut difference = 0;
            for (n, chunk) in stride.chunks_exact(WORD).enumerate() {
                let mut found = [0; WORD];
                found.copy_from_slice(chunk);
                difference |= u64::from_le_bytes(found) ^ word(self.origin, first + n as u64);
            }
            if difference != 0 {
                return false;
            }
            at += stride.len();
        }
        let mut words = strides.remainder().chunks_exact(WORD);
        for chunk in &mut words {
            if !self.compare_part(at, chunk) {
                return false;
            }
            at += WORD;
        }
        self.compare_part(at, words.remainder())
    }

    /// Compares bytes within one word.
    fn compare_part(&self, from: usize, bytes: &[u8]) -> bool {
        let expected = word(self.origin, (from / WORD) as u64).to_le_bytes();
        expected[from % WORD..][..bytes.len()] == *bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(key: &[u8], size: usize) -> Vec<u8> {
        let mut out = Vec::new();
        fill(key, size, &mut out);
        out
    }

    #[test]
    fn is_as_long_as_asked_and_the_same_each_time() {
        for size in [0, 1, 7, 8, 9, 63, 64, 65, 1000, 100_003] {
            let bytes = value(b"key", size);
            assert_eq!(bytes.len(), size);
            assert_eq!(bytes, value(b"key", size));
            assert!(matches(b"key", &bytes), "{size}");
        }
    }

    #[test]
    fn is_appended() {
        let mut out = b"head ".to_vec();
        fill(b"key", 20, &mut out);
        assert_eq!(&out[..5], b"head ");
        assert!(matches(b"key", &out[5..]));
    }

    /// Fixed values, so that data stored by older builds stay valid.
    #[test]
    fn never_changes() {
        assert_eq!(value(b"key", 8), [212, 234, 106, 129, 211, 13, 113, 41]);
    }

    #[test]
    fn a_wrong_byte_anywhere_is_seen() {
        for size in [1, 8, 13, 64, 200] {
            let right = value(b"k", size);
            for at in 0..size {
                let mut wrong = right.clone();
                wrong[at] ^= 0x10;
                assert!(!matches(b"k", &wrong), "byte {at} of {size}");
            }
        }
    }

    #[test]
    fn a_part_another_key_and_swapped_words_are_seen() {
        let right = value(b"a", 1000);
        assert!(!matches(b"b", &right));
        for cut in [4, 8, 500, 992, 999] {
            assert!(!matches(b"a", &right[..cut]), "first {cut}");
            assert!(!matches(b"a", &right[1000 - cut..]), "last {cut}");
        }
        let mut swapped = right.clone();
        swapped[..16].rotate_left(8);
        assert!(!matches(b"a", &swapped));
        assert!(!matches(b"a", &[right.as_slice(), &right[..1]].concat()));
    }

    #[test]
    fn pieces_of_any_length_are_checked() {
        let right = value(b"piece", 777);
        for length in [1, 3, 7, 8, 9, 64, 65, 776, 777] {
            let mut matcher = Matcher::new(b"piece", 777);
            for piece in right.chunks(length) {
                assert!(!matcher.finish());
                assert!(matcher.push(piece), "pieces of {length}");
            }
            assert!(matcher.finish());
            assert!(!matcher.push(b"x"), "more than all");
            assert!(!matcher.finish());
        }
    }
}
