//! Opens the store with the options of the settings.

use std::{collections::hash_map::RandomState, hash::BuildHasher, os::fd::OwnedFd};

use larder_store::{Namespace, Options, Policy, Store};

use super::{StartError, notes::Notes, snapshot};
use crate::{
    clock::Clock,
    settings::{PARTS, Settings, Share},
};

/// The largest page that is stored, in bytes.
const MAX_PAGE: u64 = 1 << 30;

/// An unpredictable number: the standard library's hash keys come from the system's random source.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(0u8)
}

/// The memory of the process before this one.
pub(super) struct GivenMemory {
    pub(super) memory: OwnedFd,
    pub(super) image: Vec<u8>,
}

/// The store, and the notes on its entries: those of the process before this one, if there was one
/// and its memory can be used, or of a snapshot.
pub(super) fn open_store(
    settings: &Settings,
    given: Option<GivenMemory>,
    notes: Notes,
) -> Result<(&'static Store, Notes), StartError> {
    let options = Options {
        budget: settings.store() as usize,
        max_value: max_value(settings),
        policy: Policy::S3Fifo,
        seed: random(),
        threads: settings.threads + 1,
        shares: shares(settings),
        evict: may_evict(settings),
        parts: Some(PARTS),
        shared: settings.upgrade.memory,
    };
    let after = given.is_some();
    if let Some(GivenMemory { memory, image }) = given {
        match Store::take_over(options.clone(), memory, &image) {
            Ok(store) => return Ok((resized(Box::leak(Box::new(store)), settings), notes)),
            Err(error) => {
                eprintln!("larder: warning: the memory of the old process is not used: {error}");
            }
        }
    }
    if let Some(from) = settings.snapshot.as_ref().filter(|_| !after) {
        let now = Clock::start().now();
        match snapshot::read(options.clone(), from, now) {
            Ok(None) => {}
            Ok(Some((store, notes))) => {
                let all = (0..larder_store::NAMESPACES as u8).map(Namespace);
                let items: u64 = all.map(|ns| store.stats(ns).items).sum();
                eprintln!("larder: {items} entries of the snapshot {}", from.path.display());
                return Ok((resized(Box::leak(Box::new(store)), settings), notes));
            }
            Err(why) => {
                let path = from.path.display();
                eprintln!("larder: warning: the snapshot {path} is not used: {why}");
            }
        }
    }
    let store = Store::open(options).map_err(|error| StartError::Memory {
        bytes: settings.store(),
        reason: error.to_string(),
    })?;
    // One store per process, never dropped: threads hold plain references to it, so that a hit
    // counts no references.
    Ok((Box::leak(Box::new(store)), notes))
}

/// Memory that was made for more gives up what the settings do not allow.
fn resized(store: &'static Store, settings: &Settings) -> &'static Store {
    let now = Clock::start().now();
    if settings.store() < store.totals().budget && store.set_budget(settings.store(), now).is_err()
    {
        eprintln!("larder: warning: memory cannot become smaller now: too much of it is in use");
    }
    store
}

/// The largest value any face may store.
fn max_value(settings: &Settings) -> u64 {
    let memcached = settings.memcached.as_ref().map_or(0, |face| face.item_size);
    let redis = settings.redis.as_ref().map_or(0, |face| face.item_size);
    MAX_PAGE.max(memcached).max(redis)
}

/// Whether the store evicts: not if only object faces are served and all of them refuse evictions.
pub(super) fn may_evict(settings: &Settings) -> bool {
    let memcached = settings.memcached.as_ref().map(|face| face.no_evictions);
    let redis = settings.redis.as_ref().map(|face| face.no_evictions);
    let refusing = [memcached, redis].into_iter().flatten();
    settings.serves_pages() || refusing.clone().count() == 0 || refusing.into_iter().any(|no| !no)
}

/// The faces' guaranteed and limited shares of the memory.
pub(super) fn shares(settings: &Settings) -> Vec<larder_store::Share> {
    let limited = |share: &Share| share.floor.is_some() || share.ceiling.is_some();
    let groups = settings.namespaces().into_iter().filter(|group| limited(&group.share));
    groups
        .map(|group| larder_store::Share {
            first: Namespace(*group.numbers.start()),
            last: Namespace(*group.numbers.end()),
            floor: group.share.floor.unwrap_or(0) as usize,
            ceiling: group.share.ceiling.map_or(usize::MAX, |bytes| bytes as usize),
        })
        .collect()
}
