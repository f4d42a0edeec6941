//! Walks over all entries, a bounded slice at a time.

use crate::held::Held;
use crate::index::{Locked, Place};
use crate::item::Record;
use crate::store::{Gone, Store};
use crate::types::{Cursor, EntryInfo, Keep, Ms, Namespace};

const TAG_BITS: u32 = 24;

impl Store {
    /// Calls `f` with about `limit` entries of `ns` (or skips as many empty places), beginning at
    /// `cursor`; returns the cursor to continue with, `None` at the end. Entries present throughout
    /// a whole walk are shown at least once. `f` runs without a lock. Expired entries that were not
    /// swept yet are shown too.
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
            let hold = &mut |locked: &Locked<'_>, loc| {
                found.push(Held::by_lock(&self.segments, locked, loc))
            };
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

    fn show(
        &self,
        ns: Namespace,
        record: &Record<'_>,
        f: &mut dyn FnMut(&[u8], &EntryInfo) -> Keep,
    ) {
        if record.ns() != ns || self.is_flushed(record) {
            return;
        }
        match f(record.key(), &record.info()) {
            Keep::Keep => {}
            Keep::Delete => self.delete_moved(record),
            Keep::Stale(now) => self.mark_stale_moved(record, now),
        }
    }

    /// Some live key of `ns`, each about equally likely for a random `pick`. Looks at about `limit`
    /// places, from `at` on: [`Cursor::START`] at first. The cost rises as the share of `ns` among
    /// all entries falls.
    ///
    /// # Errors
    /// Nothing found so far: where to go on with the same `pick`; `None`: there is no such key.
    pub fn random_key(
        &self,
        ns: Namespace,
        pick: u64,
        at: Cursor,
        limit: usize,
        now: Ms,
    ) -> Result<Vec<u8>, Option<Cursor>> {
        if self.stats(ns).items == 0 {
            return Err(None);
        }
        let stripes = self.index.stripes();
        let start = (pick as usize) % stripes;
        let first = pick.rotate_right(32) & ((1 << TAG_BITS) - 1);
        // The first stripe from the middle on, all others, and the rest of the first: the turns of
        // the walk, counted from 1.
        let (mut turn, mut tag) = (at.0 >> TAG_BITS, at.0 & ((1 << TAG_BITS) - 1));
        if turn == 0 {
            (turn, tag) = (1, first);
        }
        let (last, mut seen, mut found) = (stripes as u64 + 1, 0, Vec::new());
        while turn < last || (turn == last && tag < first) {
            if seen >= limit {
                return Err(Some(Cursor(turn << TAG_BITS | tag)));
            }
            let stripe = (start + turn as usize - 1) % stripes;
            let next = self.index.visit(&self.segments, stripe, tag, &mut |locked, loc| {
                found.push(Held::by_lock(&self.segments, locked, loc));
            });
            seen += found.len() + 1;
            found.retain(|held| held.record().ns() == ns && !self.outdated(&held.record(), now));
            if !found.is_empty() {
                let at = (pick >> 48) as usize % found.len();
                return Ok(found[at].record().key().to_vec());
            }
            (turn, tag) = next.map_or((turn + 1, 0), |tag| (turn, tag));
        }
        Err(None)
    }

    /// Marks the current copy of a pinned record that was only moved.
    fn mark_stale_moved(&self, record: &Record<'_>, now: Ms) {
        let locked = self.index.lock(&self.segments, self.hasher.key(record.ns(), record.key()));
        if let Some(place) = self.find_copy(&locked, record) {
            self.record(&locked, locked.loc(place)).mark_stale_at(now);
        }
    }

    /// Removes the current copy of a pinned record, unless its key was written since. Evictions and
    /// compaction move records while `f` looks at them: a purge that left such a copy in place
    /// would be answered, and its page served.
    fn delete_moved(&self, record: &Record<'_>) {
        let mut locked =
            self.index.lock(&self.segments, self.hasher.key(record.ns(), record.key()));
        if let Some(place) = self.find_copy(&locked, record) {
            let loc = locked.loc(place);
            locked.remove(place);
            self.retire(&self.record(&locked, loc), Gone::Deleted, 0);
        }
    }

    /// The record of the same write as a pinned one, wherever it lies now.
    fn find_copy(&self, locked: &Locked<'_>, record: &Record<'_>) -> Option<Place> {
        let origin = record.origin();
        locked.find(|loc| self.record(locked, loc).origin() == origin)
    }

    /// Removes a pinned record, if it is still linked where it was found.
    pub(crate) fn unlink(&self, record: &Record<'_>, why: Gone, now: u64) -> bool {
        let mut locked =
            self.index.lock(&self.segments, self.hasher.key(record.ns(), record.key()));
        let Some(place) = locked.find_loc(record.loc()) else { return false };
        locked.remove(place);
        self.retire(record, why, now);
        true
    }
}
