//! Short hashes: FNV, CRC-16, SuperFastHash; and the 64-bit mixing our own distributions use.

const OFFSET_64: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME_64: u64 = 0x0100_0000_01b3;
const OFFSET_32: u32 = 0x811c_9dc5;
const PRIME_32: u32 = 0x0100_0193;

/// A byte extended as in libmemcached on x86: bytes above 127 are sign-extended.
fn widened(byte: u8) -> u32 {
    i32::from(byte as i8) as u32
}

pub(super) fn fnv1_64(key: &[u8]) -> u32 {
    let hash = key
        .iter()
        .fold(OFFSET_64, |hash, byte| hash.wrapping_mul(PRIME_64) ^ i64::from(*byte as i8) as u64);
    hash as u32
}

pub(super) fn fnv1a_64(key: &[u8]) -> u32 {
    key.iter()
        .fold(OFFSET_64 as u32, |hash, byte| (hash ^ widened(*byte)).wrapping_mul(PRIME_64 as u32))
}

pub(super) fn fnv1_32(key: &[u8]) -> u32 {
    key.iter().fold(OFFSET_32, |hash, byte| hash.wrapping_mul(PRIME_32) ^ widened(*byte))
}

pub(super) fn fnv1a_32(key: &[u8]) -> u32 {
    key.iter().fold(OFFSET_32, |hash, byte| (hash ^ widened(*byte)).wrapping_mul(PRIME_32))
}

/// 64-bit FNV-1a as its authors define it; used by distributions that are not libmemcached's.
pub(crate) fn fnv1a_wide(bytes: &[u8]) -> u64 {
    bytes.iter().fold(OFFSET_64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME_64))
}

/// Spreads every bit over all 64 (the finalizer of Sebastiano Vigna's splitmix64).
pub(crate) fn mix(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// CRC-16 with polynomial 0x1021, not reflected, initial value 0. As twemproxy computes it in 32
/// bits, bits shifted out of the lower 16 stay.
pub(super) fn crc16(key: &[u8]) -> u32 {
    key.iter().fold(0, |crc, byte| crc << 8 ^ u32::from(crc16_step((crc >> 8) as u8 ^ byte)))
}

/// The table entry of a byte: eight shift steps.
fn crc16_step(byte: u8) -> u16 {
    let step = |crc: u16, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
    (0..8).fold(u16::from(byte) << 8, step)
}

/// SuperFastHash, written from its author's description; initial value 0 as in libmemcached and
/// twemproxy.
pub(super) fn hsieh(key: &[u8]) -> u32 {
    let (words, tail) = key.as_chunks::<4>();
    let mut hash = 0u32;
    for [a, b, c, d] in words {
        hash = hash.wrapping_add(u32::from(u16::from_le_bytes([*a, *b])));
        let next = u32::from(u16::from_le_bytes([*c, *d])) << 11 ^ hash;
        hash = hash << 16 ^ next;
        hash = hash.wrapping_add(hash >> 11);
    }
    match *tail {
        [a, b, c] => {
            hash = hash.wrapping_add(u32::from(u16::from_le_bytes([a, b])));
            hash ^= hash << 16;
            hash ^= widened(c) << 18;
            hash = hash.wrapping_add(hash >> 11);
        }
        [a, b] => {
            hash = hash.wrapping_add(u32::from(u16::from_le_bytes([a, b])));
            hash ^= hash << 11;
            hash = hash.wrapping_add(hash >> 17);
        }
        [a] => {
            // Not sign-extended here, unlike above.
            hash = hash.wrapping_add(u32::from(a));
            hash ^= hash << 10;
            hash = hash.wrapping_add(hash >> 1);
        }
        _ => {}
    }
    hash ^= hash << 3;
    hash = hash.wrapping_add(hash >> 5);
    hash ^= hash << 4;
    hash = hash.wrapping_add(hash >> 17);
    hash ^= hash << 25;
    hash.wrapping_add(hash >> 6)
}
