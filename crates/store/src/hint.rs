//! Hints: memory of many keys fetched at once. A read of a key that the processor's caches do not have waits for memory two
//! times: for the index's bucket, then for the record. Someone who knows several keys (a pipeline, a multi-key get) asks for all
//! buckets first, then for all records, and the waits overlap. A hint also keeps the hash, so that it is made once.

use crate::entry::Entry;
use crate::hash::Hash;
use crate::store::Store;
use crate::types::{MAX_KEY, Ms, NAMESPACES, Namespace};

/// Where a key would lie, from [`Store::prefetch`]. Of use for that key and namespace only; with others nothing is found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hint(Option<Hash>);

impl Store {
    /// First step for a batch of keys: has the index's line for this one fetched. Does not wait.
    #[inline]
    pub fn prefetch(&self, ns: Namespace, key: &[u8]) -> Hint {
        let hint = self.hint(ns, key);
        if let Some(hash) = hint.0 {
            self.index.prefetch(&self.segments, hash);
        }
        hint
    }

    /// Second step, when all of the batch are through the first: has the record's first lines fetched. Does not wait for them.
    #[inline]
    pub fn prefetch_record(&self, hint: &Hint) {
        if let Some(hash) = hint.0 {
            self.index.prefetch_record(&self.segments, hash);
        }
    }

    /// [`Store::get`] with a hint for just this key.
    #[inline]
    pub fn get_hinted<'s>(&'s self, hint: Hint, ns: Namespace, key: &[u8], now: Ms) -> Option<Entry<'s>> {
        let entry = self.peek_hashed(hint.0?, ns, key, now);
        match &entry {
            Some(e) => self.bump(e, now),
            None => self.count_miss(ns),
        }
        entry
    }

    /// [`Store::peek`] with a hint for just this key.
    #[inline]
    pub fn peek_hinted<'s>(&'s self, hint: Hint, ns: Namespace, key: &[u8], now: Ms) -> Option<Entry<'s>> {
        self.peek_hashed(hint.0?, ns, key, now)
    }

    /// A hint without anything fetched.
    #[inline]
    pub fn hint(&self, ns: Namespace, key: &[u8]) -> Hint {
        let valid = usize::from(ns.0) < NAMESPACES && key.len() <= MAX_KEY;
        Hint(valid.then(|| self.hasher.key(ns, key)))
    }
}
