//! Counters of the tier, and its figures. Many threads count: reads of the disk are rare beside
//! hits.

use std::sync::atomic::{AtomicU64, Ordering};

use larder_metrics::{Disk as DiskFigures, Histogram, Recorder};
use parking_lot::Mutex;

use super::Tier;

/// A counter of all threads.
#[derive(Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The times of reads.
#[derive(Default)]
pub(super) struct Times(Mutex<Recorder>);

impl Times {
    pub(super) fn record(&self, micros: u64) {
        self.0.lock().record(micros);
    }
}

/// Of values of objects.
#[derive(Default)]
pub(super) struct Objects {
    /// Brought back into memory.
    pub(super) hits: Count,
    /// Gone or damaged.
    pub(super) lost: Count,
    /// Not there in time.
    pub(super) late: Count,
    pub(super) stores: Count,
    /// Evicted without being written.
    pub(super) dropped: Count,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) lookups: AtomicU64,
    pub(super) hits: Count,
    /// Reads that took longer than the patience.
    pub(super) slow: Count,
    pub(super) damaged: Count,
    pub(super) purged: Count,
    pub(super) stores: Count,
    pub(super) slice_hits: Count,
    pub(super) slice_stores: Count,
    pub(super) objects: Objects,
    pub(super) dropped: Count,
    pub(super) too_large: Count,
    pub(super) failures: Count,
    pub(super) loaded: AtomicU64,
    /// Milliseconds that filling the index took; 0: it is being filled.
    pub(super) load_ms: AtomicU64,
    pub(super) reads: Times,
}

impl Tier {
    /// The figures of the tier.
    pub(crate) fn figures(&self) -> DiskFigures {
        let disk = self.disk().map(|disk| disk.figures()).unwrap_or_default();
        let counters = &self.counters;
        DiskFigures {
            up: u64::from(self.working().is_some()),
            size: self.settings.size,
            used: disk.used,
            entries: disk.entries,
            index: disk.index,
            loaded: counters.loaded.load(Ordering::Relaxed),
            load_ms: counters.load_ms.load(Ordering::Relaxed),
            accepted: disk.accepted,
            rewritten: disk.rewritten,
            written: disk.written,
            evicted: disk.evicted,
            purges: disk.purges,
            failures: counters.failures.get(),
            lookups: counters.lookups.load(Ordering::Relaxed),
            hits: counters.hits.get(),
            slow: counters.slow.get(),
            damaged: counters.damaged.get(),
            purged: counters.purged.get(),
            stores: counters.stores.get(),
            slice_hits: counters.slice_hits.get(),
            slice_stores: counters.slice_stores.get(),
            object_hits: counters.objects.hits.get(),
            object_lost: counters.objects.lost.get(),
            object_late: counters.objects.late.get(),
            object_stores: counters.objects.stores.get(),
            object_drops: counters.objects.dropped.get(),
            dropped: counters.dropped.get(),
            too_large: counters.too_large.get(),
            reads: Histogram::of(std::iter::once(&*counters.reads.0.lock())),
        }
    }
}
