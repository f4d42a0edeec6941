//! Austin Appleby's MurmurHash2 and MurmurHash3 (x86, 32 bits), both in the public domain.

/// The seed libmemcached uses for both.
pub(super) fn seed(key: &[u8]) -> u32 {
    0xdead_beef_u32.wrapping_mul(key.len() as u32)
}

/// MurmurHash2.
pub(super) fn murmur2(key: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = seed(key) ^ key.len() as u32;
    let (words, tail) = key.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !tail.is_empty() {
        hash = (hash ^ rest(tail)).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// MurmurHash3 for x86, 32-bit, over concatenated parts.
pub(super) fn murmur3(parts: &[&[u8]], seed: u32) -> u32 {
    let scramble = |k: u32| k.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let (mut hash, mut len) = (seed, 0u32);
    let mut word = [0; 4];
    for byte in parts.iter().copied().flatten() {
        word[(len % 4) as usize] = *byte;
        len = len.wrapping_add(1);
        if len.is_multiple_of(4) {
            hash = (hash ^ scramble(u32::from_le_bytes(word))).rotate_left(13);
            hash = hash.wrapping_mul(5).wrapping_add(0xe654_6b64);
        }
    }
    if !len.is_multiple_of(4) {
        hash ^= scramble(rest(&word[..(len % 4) as usize]));
    }
    hash ^= len;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

/// Up to three bytes, little-endian.
fn rest(tail: &[u8]) -> u32 {
    tail.iter().rev().fold(0, |rest, byte| rest << 8 | u32::from(*byte))
}
