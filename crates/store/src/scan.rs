//! Walks over everything, a bounded slice at a time.

use crate::item::Record;
use crate::pin::Pin;
use crate::segment::Loc;
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
            let pin = &mut |loc: Loc| found.push((self.segments.pins.pin(loc.segment()), loc));
            let next = self.index.visit(&self.segments, stripe, tag, pin);
            seen += found.len() + 1;
            found.drain(..).for_each(|(pin, loc)| self.show(ns, &pin, loc, f));
            match next {
                Some(t) => tag = t,
                None => (stripe, tag) = (stripe + 1, 0),
            }
        }
        None
    }

    fn show(&self, ns: Namespace, _pin: &Pin<'_>, loc: Loc, f: &mut dyn FnMut(&[u8], &EntryInfo) -> Keep) {
        // SAFETY: pinned while a slot led there, under the stripe's lock.
        let record = unsafe { Record::at(&self.segments, loc) };
        if record.ns() != ns || self.is_flushed(&record) {
            return;
        }
        match f(record.key(), &record.info()) {
            Keep::Keep => {}
            Keep::Delete => {
                self.unlink(&record, Gone::Deleted, 0);
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
