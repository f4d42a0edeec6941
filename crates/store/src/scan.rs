//! Walks over everything, a bounded slice at a time.

use crate::held::Held;
use crate::index::Locked;
use crate::item::Record;
use crate::store::{Gone, Store};
use crate::types::{Cursor, EntryInfo, Keep, Namespace};

const TAG_BITS: u32 = 24;

impl Store {
    /// Shows about `limit` entries of `ns` (or as many empty places) to `f`, beginning at `cursor`; returns where to go on,
    /// `None` at the end. Entries there throughout a whole walk are shown at least once. `f` holds no lock. Entries that have
    /// expired but were not swept yet are shown too.
    pub fn scan(
        &self,
        ns: Namespace,
        cursor: Cursor,
        limit: usize,
        f: &mut dyn FnMut(&[u8], &EntryInfo) -> Keep,
    ) -> Option<Cursor> {
        let mut stripe = (cursor.0 >> TAG_BITS) as usize;
        let mut tag = cursor.0 & ((1 << TAG_BITS) - 1);
        let mut seen = 0;
        let mut found = Vec::new();
        while stripe < self.index.stripes() {
            if seen >= limit.max(1) {
                return Some(Cursor((stripe as u64) << TAG_BITS | tag));
            }
            // Pinned under the stripe's lock, so that the records stay while `f` runs without it.
            let hold = &mut |locked: &Locked<'_>, loc| found.push(Held::by_lock(&self.segments, locked, loc));
            let next = self.index.visit(&self.segments, stripe, tag, hold);
            seen += found.len() + 1;
            found.drain(..).for_each(|held| self.show(ns, &held.record(), f));
            match next {
                Some(t) => tag = t,
                None => (stripe, tag) = (stripe + 1, 0),
            }
        }
        None
    }

    fn show(&self, ns: Namespace, record: &Record<'_>, f: &mut dyn FnMut(&[u8], &EntryInfo) -> Keep) {
        if record.ns() != ns || self.is_flushed(record) {
            return;
        }
        match f(record.key(), &record.info()) {
            Keep::Keep => {}
            Keep::Delete => {
                self.unlink(record, Gone::Deleted, 0);
            }
            // A record replaced meanwhile is nobody's: marking it does nothing.
            Keep::Stale => record.mark_stale(),
        }
    }

    /// Removes a pinned record, if it is still linked.
    pub(crate) fn unlink(&self, record: &Record<'_>, why: Gone, now: u64) -> bool {
        let mut locked = self.index.lock(&self.segments, self.hasher.key(record.ns(), record.key()));
        let Some(place) = locked.find_loc(record.loc()) else { return false };
        locked.remove(place);
        self.retire(record, why, now);
        true
    }
}
