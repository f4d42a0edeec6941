//! Names in the fleet.
//!
//! A page's key may be as long as a URL and have any byte; memcached takes 250 visible ones. So a
//! name is a namespace and a hash of 128 bits. The record has the whole key and is used for no
//! other: two keys with one hash replace each other, and that is all.

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

const SEEDS: [u64; 2] = [0x6C61_7264_6572_0001, 0x6C61_7264_6572_0002];

/// The name of a page's record (or of its index).
pub(crate) fn name(namespace: &str, key: &[u8]) -> Vec<u8> {
    let [first, second] = SEEDS.map(|seed| rapidhash_v3_seeded(key, &RapidSecrets::seed_cpp(seed)));
    format!("{namespace}:p:{first:016x}{second:016x}").into_bytes()
}

/// The name of a page's lease.
pub(crate) fn lease(namespace: &str, key: &[u8]) -> Vec<u8> {
    let [first, second] = SEEDS.map(|seed| rapidhash_v3_seeded(key, &RapidSecrets::seed_cpp(seed)));
    format!("{namespace}:l:{first:016x}{second:016x}").into_bytes()
}

/// The name of a part of a record.
pub(crate) fn part(name: &[u8], write: u64, number: u32) -> Vec<u8> {
    let mut out = name.to_vec();
    out.extend_from_slice(format!(":{write:016x}:{number}").as_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_memcached_takes() {
        let longest = name(&"n".repeat(64), &[0xff; 60_000]);
        let part = part(&longest, u64::MAX, 4095);
        assert!(part.len() <= 250, "{}", part.len());
        assert!(part.iter().all(u8::is_ascii_graphic));
        assert_ne!(name("a", b"x"), name("a", b"y"));
        assert_ne!(name("a", b"x"), name("b", b"x"));
    }
}
