//! The memory as a file has it: an image (`succession.rs`) and the segments one by one, so that
//! their writer may stop when its time is over. Entries of missing
//! segments are taken out at the start.
//!
//! Here are bytes alone; files are the caller's.

use crate::hash::Hash;
use crate::held::{self, Hold};
use crate::index::Seen;
use crate::item::Record;
use crate::segment::Kind;
use crate::stats::Count;
use crate::store::Store;
use crate::succession::GiveError;
use crate::types::{Ms, NAMESPACES, Namespace, OpenError, Options};
use std::sync::atomic::Ordering;

/// A store that was given up, to be written down.
#[derive(Debug)]
pub struct Snapshot<'s> {
    store: &'s Store,
    /// The description of the memory.
    pub image: Vec<u8>,
    /// Segments in the order in which they are to be written: those that the others need, then
    /// those that were asked for most.
    pub segments: Vec<u32>,
}

impl Snapshot<'_> {
    /// The bytes of a segment, into `out`. Words that a late reader changes are as they were before
    /// or after.
    pub fn copy(&self, segment: u32, out: &mut Vec<u8>) {
        let segments = &self.store.segments;
        let start = segments.start(segment);
        out.clear();
        out.reserve(segments.size());
        for at in (start..start + segments.size()).step_by(4) {
            out.extend_from_slice(&segments.map.word(at).load(Ordering::Relaxed).to_ne_bytes());
        }
    }
}

impl Store {
    /// Gives all entries up, to be written down. The store is empty, and small, from now on.
    ///
    /// # Errors
    /// As [`Store::give`].
    pub fn snapshot(&self, now: Ms) -> Result<Snapshot<'_>, GiveError> {
        let mut order = Vec::new();
        let image = self.give_to(now, &mut |lists| order = lists)?;
        Ok(Snapshot { store: self, image, segments: order })
    }

    /// A store with the entries of a snapshot. `read` fills a segment; false: it is missing, and
    /// its entries with it. Budget, threads and seed are those of the snapshot.
    ///
    /// # Errors
    /// The snapshot is of another layout, was made for other options, or lacks what all need.
    pub fn restore(
        o: Options,
        image: &[u8],
        read: &mut dyn FnMut(u32, &mut [u8]) -> bool,
    ) -> Result<Store, OpenError> {
        let store = Store::from_image(o, image)?;
        let segments = &store.segments;
        let mut bytes = vec![0; segments.size()];
        let mut missing = vec![false; segments.count()];
        for segment in 0..segments.count() as u32 {
            let kind = segments.kind(segment);
            if matches!(kind, Kind::Free | Kind::Given) {
                continue;
            }
            if read(segment, &mut bytes) {
                // SAFETY: nobody else has the store yet.
                unsafe { segments.map.write(segments.start(segment), &bytes) };
            } else if matches!(kind, Kind::Index | Kind::Tags) {
                return Err(OpenError::Succession("the snapshot lacks its index"));
            } else {
                missing[segment as usize] = true;
            }
        }
        segments.predecessor_ended();
        if missing.contains(&true) {
            store.take_out(&missing);
        }
        Ok(store)
    }

    /// Takes out what lay in missing segments, and counts the rest anew. Nobody else has the store.
    fn take_out(&self, missing: &[bool]) {
        self.index.drop_slots(&self.segments, missing);
        let mut sums = Sums::new(self.segments.count());
        self.tags.lock(&self.segments).free_all();
        let mut queued: Vec<_> = self.queues.lock().with_rows().collect();
        queued.retain(|(_, _, segment)| !missing[*segment as usize]);
        for (_, _, segment) in &queued {
            self.count_segment(*segment, missing, &mut sums);
        }
        {
            let mut queues = self.queues.lock();
            queues.clear();
            queued.iter().for_each(|(kind, row, segment)| queues.push(*kind, *row, *segment));
            for (kind, group, pieces) in &sums.chained {
                queues.chained(*kind, *group, *pieces);
            }
        }
        for (number, missing) in missing.iter().enumerate() {
            let lost = self.segments.kind(number as u32) == Kind::Chain && !sums.used[number];
            if *missing || lost {
                self.segments.release(number as u32, number as u32);
            }
        }
        self.stats.clear_items();
        self.shares.clear();
        self.away.recount(sums.stubs);
        for (number, (items, bytes, records)) in sums.namespaces.into_iter().enumerate() {
            let ns = Namespace(number as u8);
            self.stats.add_each(ns, [(Count::Items, items), (Count::Bytes, bytes)]);
            self.shares.add(ns, records);
        }
    }

    fn count_segment(&self, segment: u32, missing: &[bool], sums: &mut Sums) {
        let filled = self.segments.heat(segment).filled.load(Ordering::Relaxed) as usize;
        let (mut live, mut chained) = (0, 0);
        let kind = self.segments.kind(segment);
        held::walk(&self.segments, Hold::victim(), segment, filled, |record| {
            let hash = self.hasher.key(record.ns(), record.key());
            let pieces: Vec<u32> = record
                .pieces()
                .chunks_exact(4)
                .map(|piece| u32::from_ne_bytes(std::array::from_fn(|n| piece[n])))
                .collect();
            let whole = pieces.iter().all(|piece| !missing[*piece as usize]);
            if !self.is_linked(record, hash, whole) {
                return;
            }
            let group = self.shares.of(record.ns());
            pieces.iter().for_each(|piece| sums.used[*piece as usize] = true);
            sums.chained.push((kind, group, pieces.len() as isize));
            sums.stubs += if record.is_away() { record.size() } else { 0 };
            let size = record.size() + pieces.len() * self.segments.size();
            let (items, bytes, records) = &mut sums.namespaces[usize::from(record.ns().0)];
            (*items, *bytes) = (*items + 1, *bytes + record.bytes_of_entry());
            *records += size;
            (live, chained) = (live + record.size(), chained + pieces.len());
            self.tags.lock(&self.segments).list(record.tags(), hash);
        });
        self.segments.recount(segment, live, chained);
    }

    /// Whether a record is in the index, where it stays only if it is `whole`.
    fn is_linked(&self, record: &Record<'_>, hash: Hash, whole: bool) -> bool {
        let linked = |_: &_, _, loc| if loc == record.loc() { Seen::Yes(()) } else { Seen::No };
        if self.index.find(&self.segments, hash, linked).is_none() {
            return false;
        }
        if !whole {
            let mut locked = self.index.lock(&self.segments, hash);
            if let Some(place) = locked.find_loc(record.loc()) {
                locked.remove(place);
            }
        }
        whole
    }
}

/// Figures of the entries that are left.
struct Sums {
    /// Entries, their bytes, and bytes of their records.
    namespaces: [(u64, u64, usize); NAMESPACES],
    /// Bytes of stubs.
    stubs: usize,
    /// Middle pieces by queue and group.
    chained: Vec<(Kind, usize, isize)>,
    /// Segments that are middle pieces.
    used: Vec<bool>,
}

impl Sums {
    fn new(segments: usize) -> Sums {
        let (chained, used) = (Vec::new(), vec![false; segments]);
        Sums { namespaces: [(0, 0, 0); NAMESPACES], stubs: 0, chained, used }
    }
}
