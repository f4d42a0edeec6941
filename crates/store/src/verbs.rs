//! The verbs that change entries, as protocols know them. What they have in common is in `write.rs`.

use crate::entry::Entry;
use crate::item::{Draft, Record};
use crate::store::{Gone, Store};
use crate::types::{Counter, Ms, Namespace, Put, PutError};
use crate::write::{If, Request};

impl Store {
    /// Stores an entry, replacing what was there. Returns its version.
    ///
    /// # Errors
    /// `TooLarge`, `Full`.
    pub fn set(&self, ns: Namespace, key: &[u8], put: Put<'_>, now: Ms) -> Result<u64, PutError> {
        self.put(ns, key, put, If::Always, now)
    }

    /// Stores an entry if there is none.
    ///
    /// # Errors
    /// `Exists`, `TooLarge`, `Full`.
    pub fn add(&self, ns: Namespace, key: &[u8], put: Put<'_>, now: Ms) -> Result<u64, PutError> {
        self.put(ns, key, put, If::Absent, now)
    }

    /// Stores an entry if there is one.
    ///
    /// # Errors
    /// `NotFound`, `TooLarge`, `Full`.
    pub fn replace(&self, ns: Namespace, key: &[u8], put: Put<'_>, now: Ms) -> Result<u64, PutError> {
        self.put(ns, key, put, If::Present, now)
    }

    /// Stores an entry if the one there has the version `expected`.
    ///
    /// # Errors
    /// `NotFound`; `Exists`: another version is there; `TooLarge`, `Full`.
    pub fn cas(
        &self,
        ns: Namespace,
        key: &[u8],
        put: Put<'_>,
        expected: u64,
        now: Ms,
    ) -> Result<u64, PutError> {
        self.put(ns, key, put, If::Version(expected), now)
    }

    /// Adds bytes at the end of an entry's value; flags, expiry and tags stay.
    ///
    /// # Errors
    /// `NotFound`, `TooLarge`, `Full`.
    pub fn append(&self, ns: Namespace, key: &[u8], parts: &[&[u8]], now: Ms) -> Result<u64, PutError> {
        self.modify(ns, key, now, |e| Ok(e.chunks().chain(parts.iter().copied()).collect()))
    }

    /// Adds bytes at the start of an entry's value; flags, expiry and tags stay.
    ///
    /// # Errors
    /// `NotFound`, `TooLarge`, `Full`.
    pub fn prepend(&self, ns: Namespace, key: &[u8], parts: &[&[u8]], now: Ms) -> Result<u64, PutError> {
        self.modify(ns, key, now, |e| Ok(parts.iter().copied().chain(e.chunks()).collect()))
    }

    /// Adds to a decimal number of 64 bits, wrapping.
    ///
    /// # Errors
    /// `NotFound`, `NotNumber`, `Full`.
    pub fn incr(&self, ns: Namespace, key: &[u8], delta: u64, now: Ms) -> Result<Counter, PutError> {
        self.count(ns, key, now, |n| n.wrapping_add(delta))
    }

    /// Subtracts from a decimal number of 64 bits, stopping at 0.
    ///
    /// # Errors
    /// `NotFound`, `NotNumber`, `Full`.
    pub fn decr(&self, ns: Namespace, key: &[u8], delta: u64, now: Ms) -> Result<Counter, PutError> {
        self.count(ns, key, now, |n| n.saturating_sub(delta))
    }

    fn put(&self, ns: Namespace, key: &[u8], put: Put<'_>, condition: If, now: Ms) -> Result<u64, PutError> {
        let hash = self.hash(ns, key)?;
        let tags = self.tag_bytes(ns, put.tags)?;
        let request =
            Request { ns, key, hash, flags: put.flags, expires: put.expires, tags: &tags, condition, now };
        self.store_parts(&request, put.value)
    }

    /// Replaces an entry by what `change` makes of it, however often others write it meanwhile.
    fn modify<'s>(
        &'s self,
        ns: Namespace,
        key: &[u8],
        now: Ms,
        change: impl for<'e> Fn(&'e Entry<'s>) -> Result<Vec<&'e [u8]>, PutError>,
    ) -> Result<u64, PutError> {
        loop {
            let entry = self.peek(ns, key, now).ok_or(PutError::NotFound)?;
            let parts = change(&entry)?;
            match self.store_parts(&self.rewrite(&entry, now)?, &parts) {
                Err(PutError::Exists) => {}
                other => return other,
            }
        }
    }

    /// A write that replaces `entry`, and nothing else, by a new value.
    fn rewrite<'e>(&self, entry: &'e Entry<'_>, now: Ms) -> Result<Request<'e>, PutError> {
        let record = entry.record();
        Ok(Request {
            ns: record.ns(),
            key: record.key(),
            hash: self.hash(record.ns(), record.key())?,
            flags: record.flags(),
            expires: record.expires(),
            tags: record.tags(),
            condition: If::At(record.loc()),
            now,
        })
    }

    fn count(&self, ns: Namespace, key: &[u8], now: Ms, f: impl Fn(u64) -> u64) -> Result<Counter, PutError> {
        loop {
            let entry = self.peek(ns, key, now).ok_or(PutError::NotFound)?;
            let value = f(number(&entry).ok_or(PutError::NotNumber)?);
            let text = value.to_string();
            match self.store_parts(&self.rewrite(&entry, now)?, &[text.as_bytes()]) {
                Ok(version) => return Ok(Counter { value, version }),
                Err(PutError::Exists) => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Changes when an entry expires; it keeps its version. False if it is not there.
    pub fn touch(&self, ns: Namespace, key: &[u8], expires: Option<Ms>, now: Ms) -> bool {
        let Ok(hash) = self.hash(ns, key) else { return false };
        loop {
            let locked = self.index.lock(&self.segments, hash);
            let Some(place) = self.find_locked(&locked, ns, key) else { return false };
            let record = self.record(&locked, locked.loc(place));
            if self.outdated(&record, now) {
                return false;
            }
            if record.touch(expires) {
                return true;
            }
            drop(locked);
            match self.rewrite_expiry(ns, key, expires, now) {
                Ok(()) => return true,
                Err(PutError::Exists) => {}
                Err(_) => return false,
            }
        }
    }

    /// Moves a record to a place that has room for the expiry.
    fn rewrite_expiry(
        &self,
        ns: Namespace,
        key: &[u8],
        expires: Option<Ms>,
        now: Ms,
    ) -> Result<(), PutError> {
        let entry = self.peek(ns, key, now).ok_or(PutError::NotFound)?;
        let record = entry.record();
        let from = self.queue_of(&record);
        let mut draft = Draft { expires, ..record.draft(record.word().0) };
        let size = draft.size(now);
        if size > self.segments.size() {
            return Err(PutError::TooLarge);
        }
        let mut space = self.space(from, size, draft.bytes(), now)?;
        let mut locked = self.index.lock(&self.segments, self.hash(ns, key)?);
        let place = locked.find_loc(record.loc()).ok_or(PutError::Exists)?;
        draft.word = record.word().0;
        draft.write(&self.segments, &mut space, now, &[record.local()]);
        locked.replace(place, space.loc());
        self.moved(&record, from, from, size, space.segment());
        Ok(())
    }

    /// Removes an entry; false if it was not there.
    pub fn delete(&self, ns: Namespace, key: &[u8], now: Ms) -> bool {
        self.remove_if(ns, key, now, |_| true)
    }

    /// Removes an entry if it has this version, expired or not.
    pub fn delete_if(&self, ns: Namespace, key: &[u8], version: u64) -> bool {
        self.remove_if(ns, key, 0, |r| r.version() == version)
    }

    pub(crate) fn remove_if(
        &self,
        ns: Namespace,
        key: &[u8],
        now: Ms,
        f: impl Fn(&Record<'_>) -> bool,
    ) -> bool {
        let Ok(hash) = self.hash(ns, key) else { return false };
        let mut locked = self.index.lock(&self.segments, hash);
        let Some(place) = self.find_locked(&locked, ns, key) else { return false };
        let loc = locked.loc(place);
        let record = self.record(&locked, loc);
        let outdated = self.outdated(&record, now);
        if !outdated && !f(&record) {
            return false;
        }
        locked.remove(place);
        let record = self.record(&locked, loc);
        self.retire(&record, if outdated { Gone::Outdated } else { Gone::Deleted }, now);
        !outdated
    }

    /// Marks an entry stale; false if it is not there.
    pub fn mark_stale(&self, ns: Namespace, key: &[u8], now: Ms) -> bool {
        let Ok(hash) = self.hash(ns, key) else { return false };
        let locked = self.index.lock(&self.segments, hash);
        let Some(place) = self.find_locked(&locked, ns, key) else { return false };
        let record = self.record(&locked, locked.loc(place));
        let live = !self.outdated(&record, now);
        if live {
            record.mark_stale();
        }
        live
    }
}

/// The value as memcached reads a counter: up to 20 digits, trailing spaces allowed.
fn number(entry: &Entry<'_>) -> Option<u64> {
    let text =
        std::str::from_utf8(entry.head()).ok().filter(|t| t.len() as u64 == entry.len() && t.len() <= 20)?;
    let digits = text.trim_end_matches(' ');
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}
