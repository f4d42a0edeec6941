//! Counters: a row per thread, so that counting writes no line that others write; summed on
//! reading.

use crate::succession::{Image, Saved};
use crate::sync::count;
use crate::types::{Ms, NAMESPACES, Namespace, NamespaceStats};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counted events. Items and bytes go up and down, possibly in different rows, so only sums mean
/// something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(crate) enum Count {
    Items,
    Bytes,
    Hits,
    Misses,
    Stored,
    Deleted,
    Evictions,
    EvictedUnfetched,
    EvictedRecent,
    Expired,
    ExpiredUnfetched,
    Flushed,
    Reclaimed,
}

const COUNTS: usize = 13;

/// Padded to pairs of cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Row([[AtomicU64; COUNTS]; NAMESPACES]);

#[derive(Debug)]
pub(crate) struct Stats {
    rows: Box<[Row]>,
    /// Per namespace: last access, relative to the eviction, of the most recently evicted entry.
    evicted_age: [AtomicU64; NAMESPACES],
}

fn rows(threads: usize) -> usize {
    (threads + 2).next_power_of_two().min(256)
}

impl Stats {
    pub(crate) fn new(threads: usize) -> Stats {
        let row = |_| Row(std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))));
        Stats { rows: (0..rows(threads)).map(row).collect(), evicted_age: Default::default() }
    }

    pub(crate) fn size(threads: usize) -> usize {
        rows(threads) * size_of::<Row>()
    }

    #[inline]
    pub(crate) fn add(&self, ns: Namespace, what: Count, n: u64) {
        count(&self.rows, |row| &row.0[usize::from(ns.0)][what as usize], n);
    }

    /// Several at once.
    #[inline]
    pub(crate) fn add_each<const N: usize>(&self, ns: Namespace, changes: [(Count, u64); N]) {
        changes.into_iter().for_each(|(what, n)| self.add(ns, what, n));
    }

    pub(crate) fn sub(&self, ns: Namespace, what: Count, n: u64) {
        self.add(ns, what, n.wrapping_neg());
    }

    pub(crate) fn evicted(&self, ns: Namespace, age: Ms) {
        self.evicted_age[usize::from(ns.0)].store(age, Ordering::Relaxed);
    }

    fn sums(&self) -> impl Iterator<Item = u64> {
        (0..NAMESPACES * COUNTS).map(|n| {
            let of = |row: &Row| row.0[n / COUNTS][n % COUNTS].load(Ordering::Relaxed);
            self.rows.iter().map(of).fold(0, u64::wrapping_add)
        })
    }

    pub(crate) fn save(&self, out: &mut Image) {
        out.list(self.sums());
        out.list(self.evicted_age.iter().map(|age| age.load(Ordering::Relaxed)));
    }

    pub(crate) fn load(&self, from: &mut Saved<'_>) -> Option<()> {
        // Of the row that many threads may change at once.
        let row = self.rows.last()?;
        for (to, sum) in row.0.iter().flatten().zip(from.list()?) {
            to.fetch_add(sum, Ordering::Relaxed);
        }
        for (to, age) in self.evicted_age.iter().zip(from.list()?) {
            to.store(age, Ordering::Relaxed);
        }
        Some(())
    }

    /// No entry is left.
    pub(crate) fn clear_items(&self) {
        for number in 0..NAMESPACES as u8 {
            let (ns, now) = (Namespace(number), self.read(Namespace(number)));
            self.sub(ns, Count::Items, now.items);
            self.sub(ns, Count::Bytes, now.bytes);
        }
    }

    pub(crate) fn read(&self, ns: Namespace) -> NamespaceStats {
        let Some(age) = self.evicted_age.get(usize::from(ns.0)) else {
            return NamespaceStats::default();
        };
        let sum = |what: Count| {
            let counts = self
                .rows
                .iter()
                .map(|r| r.0[usize::from(ns.0)][what as usize].load(Ordering::Relaxed));
            counts.fold(0, u64::wrapping_add)
        };
        NamespaceStats {
            items: sum(Count::Items),
            bytes: sum(Count::Bytes),
            hits: sum(Count::Hits),
            misses: sum(Count::Misses),
            stored: sum(Count::Stored),
            deleted: sum(Count::Deleted),
            evictions: sum(Count::Evictions),
            evicted_unfetched: sum(Count::EvictedUnfetched),
            evicted_recent: sum(Count::EvictedRecent),
            evicted_age: age.load(Ordering::Relaxed),
            expired: sum(Count::Expired),
            expired_unfetched: sum(Count::ExpiredUnfetched),
            flushed: sum(Count::Flushed),
            reclaimed: sum(Count::Reclaimed),
        }
    }
}
