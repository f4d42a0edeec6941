//! Hashes of keys, seeded by the operator so that clients cannot aim at a bucket.

use crate::types::{NAMESPACES, Namespace};
use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

/// Hash of a key: its stripe and 24-bit tag (both from the top 32 bits); the rest is for the ghost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hash(pub(crate) u64);

/// One secret per namespace, and one for tags.
#[derive(Debug)]
pub(crate) struct Hasher {
    secrets: [RapidSecrets; NAMESPACES],
    tags: [RapidSecrets; NAMESPACES],
}

impl Hasher {
    pub(crate) fn new(seed: u64) -> Hasher {
        let secret = |n: usize| {
            RapidSecrets::seed(seed ^ (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        };
        Hasher {
            secrets: std::array::from_fn(secret),
            tags: std::array::from_fn(|n| secret(n + NAMESPACES)),
        }
    }

    /// Requires a valid `ns`.
    #[inline]
    pub(crate) fn key(&self, ns: Namespace, key: &[u8]) -> Hash {
        Hash(rapidhash_v3_seeded(key, &self.secrets[usize::from(ns.0)]))
    }

    /// Internal name of a tag: 64 keyed bits, so that nobody can make two tags collide on purpose.
    pub(crate) fn tag(&self, ns: Namespace, tag: &[u8]) -> u64 {
        rapidhash_v3_seeded(tag, &self.tags[usize::from(ns.0)])
    }
}

impl Hash {
    /// The 32 bits that find an entry in the index.
    #[inline]
    pub(crate) fn short(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    pub(crate) fn low(self) -> u32 {
        self.0 as u32
    }
}
