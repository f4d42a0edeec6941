//! What pages are to be: what is known of them beforehand, or what they were when they were first seen.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rapidhash::{RapidHashMap, v3::rapidhash_v3};

/// Pages that are remembered, in all shards; of others only the framing is checked, and they are counted.
const MOST_PAGES: usize = 1 << 20;
/// Threads rarely meet in one of so many.
const SHARDS: usize = 64;

/// Pages that are known beforehand, by what is asked for.
#[derive(Clone, Debug, Default)]
pub struct Known(RapidHashMap<Vec<u8>, Vec<u8>>);

impl Known {
    /// Targets with their pages' bytes; all are held in memory.
    pub fn of(pages: impl IntoIterator<Item = (String, Vec<u8>)>) -> Known {
        Known(pages.into_iter().map(|(target, body)| (target.into_bytes(), body)).collect())
    }

    #[inline]
    pub(super) fn find(&self, target: &[u8]) -> Option<&[u8]> {
        self.0.get(target).map(Vec::as_slice)
    }
}

/// Length and CRC-32 of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) length: u64,
    pub(super) crc: u32,
}

/// Bodies by what was asked for.
pub(super) struct Pages {
    /// None: it was written in this run, so that another body is no fault.
    shards: Vec<Mutex<HashMap<u64, Option<Sum>>>>,
    unchecked: AtomicU64,
}

impl Pages {
    pub(super) fn new() -> Pages {
        Pages { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), unchecked: AtomicU64::new(0) }
    }

    /// Whether the page is what it was the first time. The first time it is.
    pub(super) fn same(&self, target: &[u8], sum: Sum) -> bool {
        self.with(target, |pages, key| match (pages.len() < MOST_PAGES / SHARDS, pages.entry(key)) {
            (_, Entry::Occupied(before)) => before.get().is_none_or(|before| before == sum),
            (true, Entry::Vacant(place)) => {
                place.insert(Some(sum));
                true
            }
            (false, Entry::Vacant(_)) => {
                self.unchecked.fetch_add(1, Ordering::Relaxed);
                true
            }
        })
    }

    /// The page is written: it may be another from now on.
    pub(super) fn written(&self, target: &[u8]) {
        self.with(target, |pages, key| {
            if pages.len() < MOST_PAGES / SHARDS || pages.contains_key(&key) {
                pages.insert(key, None);
            }
        });
    }

    /// Answers that were not compared because the table was full.
    pub(super) fn unchecked(&self) -> u64 {
        self.unchecked.load(Ordering::Relaxed)
    }

    fn with<T>(&self, target: &[u8], work: impl FnOnce(&mut HashMap<u64, Option<Sum>>, u64) -> T) -> T {
        let key = rapidhash_v3(target);
        let shard = &self.shards[key as usize % SHARDS];
        work(&mut shard.lock().unwrap_or_else(PoisonError::into_inner), key)
    }
}
