//! Expected contents of pages: known beforehand, or recorded at the first answer.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rapidhash::{RapidHashMap, v3::rapidhash_v3};

/// Most pages recorded, in all shards; further pages are checked for framing only, and counted.
const MOST_PAGES: usize = 1 << 20;
/// Enough that threads rarely contend for a shard.
const SHARDS: usize = 64;

/// Pages known beforehand, by target.
#[derive(Clone, Debug, Default)]
pub struct KnownPages(RapidHashMap<Vec<u8>, Vec<u8>>);

impl KnownPages {
    /// Targets and bodies; all are held in memory.
    pub fn of(pages: impl IntoIterator<Item = (String, Vec<u8>)>) -> KnownPages {
        KnownPages(pages.into_iter().map(|(target, body)| (target.into_bytes(), body)).collect())
    }

    #[inline]
    pub(super) fn find(&self, target: &[u8]) -> Option<&[u8]> {
        self.0.get(target).map(Vec::as_slice)
    }
}

/// Length and CRC-32 of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BodySum {
    pub(super) length: u64,
    pub(super) crc: u32,
}

/// Recorded bodies by target.
pub(super) struct SeenPages {
    /// `None`: the page was written in this run, so a different body is not an error.
    shards: Vec<Mutex<HashMap<u64, Option<BodySum>>>>,
    unchecked: AtomicU64,
}

impl SeenPages {
    pub(super) fn new() -> SeenPages {
        SeenPages {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            unchecked: AtomicU64::new(0),
        }
    }

    /// Whether the body equals the first one of this target. The first is recorded.
    pub(super) fn same(&self, target: &[u8], sum: BodySum) -> bool {
        self.with(target, |pages, key| {
            match (pages.len() < MOST_PAGES / SHARDS, pages.entry(key)) {
                (_, Entry::Occupied(before)) => before.get().is_none_or(|before| before == sum),
                (true, Entry::Vacant(place)) => {
                    place.insert(Some(sum));
                    true
                }
                (false, Entry::Vacant(_)) => {
                    self.unchecked.fetch_add(1, Ordering::Relaxed);
                    true
                }
            }
        })
    }

    /// Marks a page as written: its body may change from now on.
    pub(super) fn written(&self, target: &[u8]) {
        self.with(target, |pages, key| {
            if pages.len() < MOST_PAGES / SHARDS || pages.contains_key(&key) {
                pages.insert(key, None);
            }
        });
    }

    /// Number of answers not compared because the table was full.
    pub(super) fn unchecked(&self) -> u64 {
        self.unchecked.load(Ordering::Relaxed)
    }

    fn with<T>(
        &self,
        target: &[u8],
        work: impl FnOnce(&mut HashMap<u64, Option<BodySum>>, u64) -> T,
    ) -> T {
        let key = rapidhash_v3(target);
        let shard = &self.shards[key as usize % SHARDS];
        work(&mut shard.lock().unwrap_or_else(PoisonError::into_inner), key)
    }
}
