//! Reads a record off the worker's thread, with all checks: the frame's, the page record's own, its
//! key, and that it was not purged.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use larder_disk::{ReadError, Reading, Record};
use larder_proto::page::{PageView, Verify, view};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
    time::timeout,
};

use super::{Tier, Trouble, purged::Candidate};

/// Reads at once; others wait, within the patience of their requests.
pub(super) const READS: usize = 64;
/// Reads of large records among them: each holds the whole record.
pub(super) const LARGE: usize = 4;
/// Records from here on are large, in bytes.
const LARGE_FROM: u64 = 1 << 20;

/// Reads that fail one after the other, after which the disk is not used for a while.
const FAILED: u32 = 8;

/// Places for reads.
pub(super) struct Reads {
    /// Reads that failed since one succeeded.
    failed: AtomicU32,
    all: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

impl Default for Reads {
    fn default() -> Self {
        Self {
            failed: AtomicU32::new(0),
            all: Arc::new(Semaphore::new(READS)),
            large: Arc::new(Semaphore::new(LARGE)),
        }
    }
}

/// The disk's answer.
pub(crate) enum Answer {
    Record(Box<DiskRecord>),
    /// No usable record.
    Nothing,
}

/// A record that was found good.
pub(crate) struct DiskRecord {
    record: Record,
    reading: Reading<larder_disk::Directory>,
    /// Held until nobody needs the bytes any more.
    _place: OwnedSemaphorePermit,
}

impl DiskRecord {
    /// The record as it left memory.
    pub(super) fn bytes(&self) -> &[u8] {
        self.record.bytes()
    }

    /// The page.
    pub(crate) fn page(&self) -> Option<PageView<'_>> {
        let bytes = self.record.bytes();
        view(bytes, bytes.len() as u64, Verify::Layout).ok()
    }

    /// The page's body.
    pub(crate) fn body(&self, page: &PageView<'_>) -> &[u8] {
        let end = page.body_at + page.body_len as usize;
        self.record.bytes().get(page.body_at..end).unwrap_or_default()
    }

    /// Time of its expiry.
    pub(crate) fn expires(&self) -> Option<u64> {
        self.record.expires
    }
}

impl Tier {
    /// Whether the disk may have a key: no wait.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        self.working().is_some_and(|disk| disk.has(key))
    }

    /// How long a request waits for the disk, and for all that a read of it needs.
    pub(crate) fn patience(&self) -> Duration {
        self.settings.patience
    }

    /// Reads the record of a key; waits for it as long as the settings say.
    pub(crate) async fn get(self: &Arc<Self>, key: &[u8]) -> Answer {
        match timeout(self.settings.patience, self.read(key, Self::checked)).await {
            Ok(answer) => answer.unwrap_or(Answer::Nothing),
            Err(_) => {
                self.counters.slow.one();
                Answer::Nothing
            }
        }
    }

    /// Reads the record of a key, and has the thread that read it use it.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        key: &[u8],
        use_it: impl FnOnce(&Tier, DiskRecord) -> T + Send + 'static,
    ) -> Option<T> {
        let disk = self.working()?;
        let reading = disk.find(key, self.clock.now())?;
        let places =
            if reading.length() >= LARGE_FROM { &self.reads.large } else { &self.reads.all };
        let place = places.clone().acquire_owned().await.ok()?;
        let (owned, tier) = (Box::<[u8]>::from(key), self.clone());
        // A read that nobody waits for any more ends by itself, and keeps its place until then.
        let read = spawn_blocking(move || {
            let begun = tier.clock.micros();
            let record = disk.read(&reading, &owned);
            tier.counters.reads.record(tier.clock.micros() - begun);
            tier.purged.compile();
            // Here, too: a checksum of a large page takes longer than a worker has.
            record.map(|record| use_it(&tier, DiskRecord { record, reading, _place: place }))
        });
        match read.await.ok()? {
            Ok(used) => {
                self.reads.failed.store(0, Ordering::Relaxed);
                self.well(Trouble::Read);
                Some(used)
            }
            Err(ReadError::Damaged) => {
                self.counters.damaged.one();
                None
            }
            // A bad place costs its page. A bad device is left alone for a while.
            Err(ReadError::Io(error)) => {
                if self.reads.failed.fetch_add(1, Ordering::Relaxed) + 1 >= FAILED {
                    self.reads.failed.store(0, Ordering::Relaxed);
                    self.failed(Trouble::Read, &error);
                } else {
                    self.counters.failures.one();
                }
                None
            }
        }
    }

    fn checked(&self, found: DiskRecord) -> Answer {
        let bytes = found.record.bytes();
        let whole = view(bytes, bytes.len() as u64, Verify::All)
            .is_ok_and(|page| page.key == found.record.key() && page.meta.partial.is_none());
        if whole {
            return Answer::Record(Box::new(found));
        }
        self.lose(&found);
        Answer::Nothing
    }

    /// Forgets a record that is not what it should be.
    pub(super) fn lose(&self, found: &DiskRecord) {
        self.counters.damaged.one();
        if let Some(disk) = self.disk() {
            disk.lose(&found.reading);
        }
    }

    /// Whether what was read may go to memory: nothing has purged or replaced it since. To be
    /// asked while purges of its flight are held. Purges that began before the flight are known
    /// here: as under way, and then by what they took out of the index.
    pub(crate) fn is_still(&self, found: &DiskRecord, primary: &[u8]) -> bool {
        !self.purged.is_open(primary) && self.disk().is_some_and(|disk| disk.still(&found.reading))
    }

    /// Whether a page was purged since it left memory: then the disk forgets it. `tags`: those of
    /// its site.
    pub(crate) fn is_purged(
        &self,
        found: &DiskRecord,
        primary: &[u8],
        page: &PageView<'_>,
        tags: &[Vec<u8>],
    ) -> bool {
        let candidate = Candidate { ticket: found.record.ticket, primary, page, tags };
        let purged = self.purged.covers(&candidate);
        if purged {
            self.counters.purged.one();
            if let Some(disk) = self.disk() {
                disk.discard(&found.reading);
            }
        }
        purged
    }

    /// Counts the result of a lookup.
    pub(crate) fn count(&self, hit: bool) {
        let counters = &self.counters;
        counters.lookups.fetch_add(1, Ordering::Relaxed);
        if hit {
            counters.hits.one();
        }
    }
}
