//! Hints: memory of many keys fetched at once. A read of a key that is not in the processor's
//! caches waits for memory twice: for the index's bucket, then for the record. A caller that knows
//! several keys (a pipeline, a multi-key get) requests all buckets first, then all records, and the
//! waits overlap. A hint also keeps the hash and the slot found, so that neither is searched twice.

use crate::entry::Entry;
use crate::hash::Hash;
use crate::held::Held;
use crate::store::Store;
use crate::types::{MAX_KEY, Ms, Namespace};

/// Position of a key, from [`Store::prefetch`]. Valid for that key and namespace only; with others
/// nothing is found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hint {
    hash: Option<Hash>,
    /// The index line where the key would be found; after the line was read, the slot with its tag.
    slot: usize,
}

impl Store {
    /// First step for a batch of keys: prefetches the index line of this key. Does not wait.
    #[inline]
    pub fn prefetch(&self, ns: Namespace, key: &[u8]) -> Hint {
        let mut hint = self.hint(ns, key);
        if let Some(hash) = hint.hash {
            hint.slot = self.index.prefetch(&self.segments, hash);
        }
        hint
    }

    /// Second step, when all keys of the batch are through the first: prefetches the record's first
    /// lines. Does not wait for them.
    #[inline]
    pub fn prefetch_record(&self, hint: &mut Hint) {
        if let Some(hash) = hint.hash
            && let Some(slot) = self.index.prefetch_record(&self.segments, hash, hint.slot)
        {
            hint.slot = slot;
        }
    }

    /// [`Store::get`] with a hint for this key.
    #[inline]
    pub fn get_hinted<'s>(
        &'s self,
        hint: Hint,
        ns: Namespace,
        key: &[u8],
        now: Ms,
    ) -> Option<Entry<'s>> {
        let hash = hint.hash?;
        let Some(held) = self.held_at(hint, hash, ns, key) else {
            return self.get_hashed(hash, ns, key, now);
        };
        let entry = self.entry(held, hash, now);
        match &entry {
            Some(e) => self.bump(e, now),
            None => self.count_miss(ns),
        }
        entry
    }

    /// [`Store::peek`] with a hint for this key.
    #[inline]
    pub fn peek_hinted<'s>(
        &'s self,
        hint: Hint,
        ns: Namespace,
        key: &[u8],
        now: Ms,
    ) -> Option<Entry<'s>> {
        let hash = hint.hash?;
        match self.held_at(hint, hash, ns, key) {
            Some(held) => self.entry(held, hash, now),
            None => self.peek_hashed(hash, ns, key, now),
        }
    }

    /// The key's record, if the hinted slot points to it.
    #[inline(always)]
    fn held_at<'s>(
        &'s self,
        hint: Hint,
        hash: Hash,
        ns: Namespace,
        key: &[u8],
    ) -> Option<Held<'s>> {
        self.index.find_at(&self.segments, hash, hint.slot, |slot, value, loc| {
            Held::by_slot(&self.segments, slot, value, loc).filter(|held| held.record().is(ns, key))
        })
    }

    /// A hint without a prefetch.
    #[inline]
    pub fn hint(&self, ns: Namespace, key: &[u8]) -> Hint {
        let valid = self.takes(ns) && key.len() <= MAX_KEY;
        Hint { hash: valid.then(|| self.hasher.key(ns, key)), slot: 0 }
    }
}
