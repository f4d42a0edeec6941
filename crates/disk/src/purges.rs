//! Forgetting and purging: at once in the index, durably by the journal.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering;

use crate::disk::Disk;
use crate::files::Files;
use crate::format::key_hash;
use crate::journal::{self, Journalled, Purge, WaitingKey};
use crate::superblock::Superblock;
use crate::types::{Ms, is_full};

/// Which purges mean nothing any more.
#[derive(Default)]
pub(crate) struct Settled {
    /// When that was found out.
    at: Ms,
    /// Purges up to this number.
    needless: u64,
    /// The latest number then.
    ticket: u64,
}

/// The purges found at the start that the index has to know.
#[derive(Default)]
pub(crate) struct FoundPurges {
    /// The latest purge of each hash.
    pub(crate) keys: HashMap<u64, u64>,
    /// Records with a smaller ticket are purged.
    pub(crate) floor: u64,
}

impl FoundPurges {
    /// These, and those that are the caller's.
    pub(crate) fn of(purges: Vec<Purge>) -> (FoundPurges, Vec<Purge>) {
        let (mut found, mut others) = (FoundPurges::default(), Vec::new());
        for purge in purges {
            match purge.kind {
                journal::EVERYTHING => found.floor = found.floor.max(purge.number),
                journal::KEY | journal::KEYS => {
                    for (hash, number) in purge.keys() {
                        let latest = found.keys.entry(hash).or_default();
                        *latest = number.max(*latest);
                    }
                }
                _ => others.push(purge),
            }
        }
        (found, others)
    }

    /// Whether one of them means a record.
    pub(crate) fn mean(&self, hash: u64, ticket: u64) -> bool {
        ticket < self.floor.max(self.keys.get(&hash).copied().unwrap_or(0))
    }
}

impl<F: Files> Disk<F> {
    /// Forgets a key: a newer record of it is in memory. Whether it was there or on its way. A
    /// start does not find it either once the next [`Disk::write_purges`] is done.
    pub fn forget(&self, key: &[u8]) -> bool {
        self.forget_hashed(key_hash(key))
    }

    /// [`Disk::forget`] of a key by its hash.
    pub fn forget_hashed(&self, hash: u64) -> bool {
        let found = self.forget_hash(hash);
        if found || self.loading.load(Ordering::SeqCst) {
            self.journal.add_key(hash, true, || self.next_ticket());
        }
        found
    }

    fn forget_hash(&self, hash: u64) -> bool {
        let floor = self.next_ticket();
        let loading = self.loading.load(Ordering::SeqCst);
        let (entry, pending) = self.index.forget(hash, floor, loading);
        if let Some(entry) = &entry {
            self.left(entry.place.segment);
        }
        entry.is_some() || pending
    }

    /// Begins the purge of a key: it is forgotten at once. Whether it was there or on its way.
    pub fn take_out(&self, key: &[u8]) -> bool {
        self.forget_hash(key_hash(key))
    }

    /// Purges a key: it is forgotten, with what came to the disk since [`Disk::take_out`]. The
    /// purge is durable once its number is ([`Disk::durable`]). `found`: the result of
    /// [`Disk::take_out`]. Costs the same however much is on the disk: [`Disk::write_purges`] finds
    /// out whether a crash could bring anything back.
    pub fn purge_key(&self, key: &[u8], found: bool) -> (bool, u64) {
        let hash = key_hash(key);
        let found = found | self.forget_hash(hash);
        (found, self.journal.add_key(hash, found, || self.next_ticket()))
    }

    /// Takes out purges of keys of which no segment has a record: a start finds none either. A
    /// record on its way was found by its purge.
    fn drop_needless(&self, keys: &mut HashMap<u64, WaitingKey>) {
        if self.loading.load(Ordering::SeqCst) || self.unsure.load(Ordering::SeqCst) {
            return;
        }
        let segments: Vec<_> = self.segments.read().iter().flatten().cloned().collect();
        for segment in segments {
            let filter = segment.filter.read();
            for (hash, waiting) in keys.iter_mut().filter(|(_, waiting)| !waiting.needed) {
                waiting.needed = filter.may_have(*hash);
            }
        }
        keys.retain(|_, waiting| waiting.needed);
    }

    /// Notes a purge of the caller's own kind, which must be 2 or greater. It is durable once its
    /// number is.
    pub fn purge(&self, kind: u8, what: &[u8]) -> u64 {
        self.journal.add(kind.max(journal::OTHERS), what, || self.next_ticket())
    }

    /// Whether purges wait for [`Disk::write_purges`].
    pub fn has_purges(&self) -> bool {
        self.journal.is_waiting()
    }

    /// Purges up to this number are durable.
    pub fn durable(&self) -> u64 {
        self.journal.durable()
    }

    /// Makes all purges so far durable. Waits for the device. If that fails, the superblock is
    /// removed, so that whoever opens the disk next finds it empty; the purges are kept for another
    /// call, which writes the superblock again. Where the file system is full, the writer's next
    /// [`crate::Writer::tick`] removes a segment.
    ///
    /// # Errors
    /// `(error, true)`: they are not durable, but the disk counts as empty after a crash;
    /// `(error, false)`: not even that.
    pub fn write_purges(&self) -> Result<Journalled, (io::Error, bool)> {
        let chosen = |keys: &mut _| self.drop_needless(keys);
        let written = self.journal.flush(&self.files, self.needless(), chosen);
        let restored = written.and_then(|journalled| {
            if self.emptied.load(Ordering::SeqCst) {
                self.superblock.write(&self.files)?;
                self.emptied.store(false, Ordering::SeqCst);
            }
            Ok(journalled)
        });
        match restored {
            Ok(journalled) => {
                self.counters.purges.fetch_add(journalled.written, Ordering::Relaxed);
                Ok(journalled)
            }
            Err(error) => {
                self.cramped.fetch_or(is_full(&error), Ordering::SeqCst);
                self.emptied.store(true, Ordering::SeqCst);
                let removed = Superblock::remove(&self.files).is_ok();
                Err((error, removed))
            }
        }
    }

    /// Purges up to this number mean nothing any more: no record has a smaller ticket. Call
    /// [`Disk::settle`] now and then.
    pub fn needless(&self) -> u64 {
        self.settled.lock().needless
    }

    /// Finds out which purges mean nothing any more, once a minute. A record that is being taken
    /// from memory may have an older ticket than all known ones, for moments: only purges that were
    /// there at the call before are dropped.
    pub fn settle(&self, now: Ms) {
        const PAUSE: Ms = 60_000;
        let mut settled = self.settled.lock();
        // Tickets of a segment that could not be read are not known.
        if self.unsure.load(Ordering::SeqCst) {
            return;
        }
        if self.loading.load(Ordering::SeqCst) || now < settled.at.saturating_add(PAUSE) {
            return;
        }
        let ticket = std::mem::replace(&mut settled.ticket, self.ticket());
        settled.at = now;
        let segments = self.segments.read();
        let oldest = segments.iter().flatten().map(|s| s.oldest.load(Ordering::Relaxed)).min();
        let pending = self.index.oldest_pending();
        let oldest = [oldest, pending].into_iter().flatten().fold(ticket, u64::min);
        settled.needless = settled.needless.max(oldest);
    }
}
