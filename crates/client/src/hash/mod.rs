//! The hashes that place keys, bit for bit as libmemcached and twemproxy compute them.
//!
//! libmemcached's hashes differ from their names: its `fnv1a_64` works in 32 bits, its `crc` keeps
//! 15 bits, its murmur hashes are seeded with the key's length, and some sign-extend bytes above
//! 127. All of that decides where a key is, so all of it is reproduced; `tests/libmemcached.rs`
//! compares every hash with the real library.

mod jenkins;
mod murmur;
mod simple;

use md5::{Digest, Md5};

/// A hash of keys.
#[allow(non_camel_case_types)] // as libmemcached and twemproxy write them
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Hash {
    /// Bob Jenkins's one-at-a-time: libmemcached's default.
    #[default]
    OneAtATime,
    /// The first four bytes of MD5, little-endian: the usual hash for ketama.
    Md5,
    /// Bits 16 to 30 of CRC-32.
    Crc,
    /// CRC-32 in full (twemproxy's `crc32a`; libmemcached has none).
    Crc32,
    /// CRC-16 with polynomial 0x1021, including its overflow bits (twemproxy's `crc16`;
    /// libmemcached has none).
    Crc16,
    /// The lower half of 64-bit FNV-1.
    Fnv1_64,
    /// FNV-1a with the lower halves of the 64-bit constants: twemproxy's default.
    Fnv1a_64,
    /// 32-bit FNV-1.
    Fnv1_32,
    /// 32-bit FNV-1a.
    Fnv1a_32,
    /// Paul Hsieh's SuperFastHash. Many builds of libmemcached omit it, including Debian's.
    Hsieh,
    /// MurmurHash2.
    Murmur,
    /// MurmurHash3, x86, 32-bit.
    Murmur3,
    /// Bob Jenkins's lookup3.
    Jenkins,
}

impl Hash {
    /// Every hash with its name in libmemcached (`--HASH=`) or twemproxy (`hash:`), in lower case.
    pub const ALL: [(Hash, &str); 13] = [
        (Hash::OneAtATime, "one_at_a_time"),
        (Hash::Md5, "md5"),
        (Hash::Crc, "crc"),
        (Hash::Crc32, "crc32a"),
        (Hash::Crc16, "crc16"),
        (Hash::Fnv1_64, "fnv1_64"),
        (Hash::Fnv1a_64, "fnv1a_64"),
        (Hash::Fnv1_32, "fnv1_32"),
        (Hash::Fnv1a_32, "fnv1a_32"),
        (Hash::Hsieh, "hsieh"),
        (Hash::Murmur, "murmur"),
        (Hash::Murmur3, "murmur3"),
        (Hash::Jenkins, "jenkins"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Hash::ALL.iter().find(|(hash, _)| *hash == self).map_or("", |(_, name)| name)
    }

    /// The hash of this name; `default` and `crc32` also name [`Hash::OneAtATime`] and
    /// [`Hash::Crc`].
    pub fn named(name: &str) -> Option<Hash> {
        match name {
            "default" => Some(Hash::OneAtATime),
            "crc32" => Some(Hash::Crc),
            _ => Hash::ALL.iter().find(|(_, known)| *known == name).map(|(hash, _)| *hash),
        }
    }

    /// The hash of a key. Does not allocate.
    pub fn of(self, key: &[u8]) -> u32 {
        match self {
            Hash::OneAtATime => jenkins::one_at_a_time(key),
            Hash::Md5 => md5_part(&md5(key), 0),
            Hash::Crc => (crc32fast::hash(key) >> 16) & 0x7fff,
            Hash::Crc32 => crc32fast::hash(key),
            Hash::Crc16 => simple::crc16(key),
            Hash::Fnv1_64 => simple::fnv1_64(key),
            Hash::Fnv1a_64 => simple::fnv1a_64(key),
            Hash::Fnv1_32 => simple::fnv1_32(key),
            Hash::Fnv1a_32 => simple::fnv1a_32(key),
            Hash::Hsieh => simple::hsieh(key),
            Hash::Murmur => murmur::murmur2(key),
            Hash::Murmur3 => murmur::murmur3(&[key], murmur::seed(key)),
            Hash::Jenkins => jenkins::lookup3(key),
        }
    }
}

/// MD5 of a key or of the name of a point.
pub(crate) fn md5(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

/// One of the four 32-bit numbers in an MD5 sum (`part` 0 to 3), little-endian.
pub(crate) fn md5_part(sum: &[u8; 16], part: usize) -> u32 {
    let (numbers, _) = sum.as_chunks::<4>();
    numbers.get(part).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// MurmurHash3 with seed 0 over concatenated parts, as pymemcache computes it.
pub(crate) fn murmur3(parts: &[&[u8]]) -> u32 {
    murmur::murmur3(parts, 0)
}

pub(crate) use simple::{fnv1a_wide, mix};

#[cfg(test)]
mod tests {
    use super::*;

    /// Values computed by libmemcached 1.1.4 (Debian 12); Hsieh's from its author's description.
    #[test]
    fn values_of_libmemcached() {
        let keys = [
            &b"a"[..],
            b"abc",
            b"hello world 12345",
            b"\xc3\xa9t\xc3\xa9-key",
            b"0123456789abcdef",
        ];
        for (hash, values) in [
            (Hash::OneAtATime, [0xca2e_9442, 0xed13_1f5b, 0x9809_be05, 0x1a73_c8c6, 0xf022_02c7]),
            (Hash::Md5, [0xb975_c10c, 0x9850_0190, 0x64ad_1746, 0x7083_0c18, 0x8daf_3240]),
            (Hash::Crc, [0x68b7, 0x3524, 0x5435, 0x07a4, 0x68c4]),
            (Hash::Fnv1_64, [0x8601_b7be, 0x6baf_adcb, 0xab7f_2302, 0x72db_940d, 0x3b82_ecc1]),
            (Hash::Fnv1a_64, [0x8601_ec8c, 0x0541_574b, 0x49cb_78f8, 0x7fc8_4d35, 0xe5ad_677d]),
            (Hash::Fnv1_32, [0x050c_5d7e, 0x439c_2f4b, 0x039d_5842, 0x2c93_0a4d, 0x9e1b_6f41]),
            (Hash::Fnv1a_32, [0xe40c_292c, 0x1a47_e90b, 0x3c40_fc18, 0x468f_5c75, 0x87bc_333d]),
            (Hash::Murmur, [0x4b41_757c, 0x7b0c_c428, 0xafc8_a87a, 0xe5f1_5247, 0x0292_3d2d]),
            (Hash::Jenkins, [0xe0a3_8690, 0x8f41_5600, 0xb6d2_20df, 0xcdf4_bef4, 0xe022_e949]),
            (Hash::Murmur3, [0x8872_dbc8, 0x25d3_a89a, 0x672f_6afa, 0x9036_9ac4, 0x62b4_d995]),
        ] {
            assert_eq!(keys.map(|key| hash.of(key)), values, "{}", hash.name());
        }
    }

    #[test]
    fn checks_of_the_hashes_that_libmemcached_has_not() {
        assert_eq!(Hash::Crc32.of(b"123456789"), 0xcbf4_3926);
        assert_eq!(Hash::Crc16.of(b"123456789") & 0xffff, 0x31c3, "CRC-16/XMODEM");
    }

    #[test]
    fn names_lead_to_hashes_and_back() {
        for (hash, name) in Hash::ALL {
            assert_eq!((Hash::named(name), hash.name()), (Some(hash), name));
        }
        assert_eq!(Hash::named("default"), Some(Hash::default()));
        assert_eq!(Hash::named("sha1"), None);
    }
}
