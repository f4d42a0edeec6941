//! The verbs that change entries, as protocols know them. Their common parts are in `write.rs`.

use crate::entry::Entry;
use crate::hash::Hash;
use crate::item::{CLAIMED, Draft, Record, STALE, fresh_word};
use crate::store::{Gone, Store};
use crate::types::{Counter, Ms, Namespace, Put, PutError};
use crate::write::{If, Request};

impl Store {
    /// Stores an entry, replacing an older one. Returns its version.
    ///
    /// # Errors
    /// `TooLarge`, `Full`.
    pub fn set(&self, ns: Namespace, key: &[u8], put: Put<'_>, now: Ms) -> Result<u64, PutError> {
        self.put(ns, key, put, If::Always, now)
    }

    /// Stores an entry if there is none with this key.
    ///
    /// # Errors
    /// `Exists`, `TooLarge`, `Full`.
    pub fn add(&self, ns: Namespace, key: &[u8], put: Put<'_>, now: Ms) -> Result<u64, PutError> {
        self.put(ns, key, put, If::Absent, now)
    }

    /// Stores an entry if there is one with this key.
    ///
    /// # Errors
    /// `NotFound`, `TooLarge`, `Full`.
    pub fn replace(
        &self,
        ns: Namespace,
        key: &[u8],
        put: Put<'_>,
        now: Ms,
    ) -> Result<u64, PutError> {
        self.put(ns, key, put, If::Present, now)
    }

    /// Stores an entry if the existing one has the version `expected`.
    ///
    /// # Errors
    /// `NotFound`; `Exists`: the version differs; `TooLarge`, `Full`.
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
    pub fn append(
        &self,
        ns: Namespace,
        key: &[u8],
        parts: &[&[u8]],
        now: Ms,
    ) -> Result<u64, PutError> {
        self.modify(ns, key, now, |e| Ok(e.chunks().chain(parts.iter().copied()).collect()))
    }

    /// Adds bytes at the start of an entry's value; flags, expiry and tags stay.
    ///
    /// # Errors
    /// `NotFound`, `TooLarge`, `Full`.
    pub fn prepend(
        &self,
        ns: Namespace,
        key: &[u8],
        parts: &[&[u8]],
        now: Ms,
    ) -> Result<u64, PutError> {
        self.modify(ns, key, now, |e| Ok(parts.iter().copied().chain(e.chunks()).collect()))
    }

    /// Adds to a decimal number of 64 bits, wrapping. If the new number is shorter, the text keeps
    /// its length with trailing spaces, as memcached's does.
    ///
    /// # Errors
    /// `NotFound`, `NotNumber`, `Full`.
    pub fn incr(
        &self,
        ns: Namespace,
        key: &[u8],
        delta: u64,
        now: Ms,
    ) -> Result<Counter, PutError> {
        self.count(ns, key, now, |n| n.wrapping_add(delta))
    }

    /// Subtracts from a decimal number of 64 bits, stopping at 0. The text keeps its length, as for
    /// [`Store::incr`].
    ///
    /// # Errors
    /// `NotFound`, `NotNumber`, `Full`.
    pub fn decr(
        &self,
        ns: Namespace,
        key: &[u8],
        delta: u64,
        now: Ms,
    ) -> Result<Counter, PutError> {
        self.count(ns, key, now, |n| n.saturating_sub(delta))
    }

    /// Stores an entry if `condition` holds: the common form of all verbs that store. Returns its
    /// version.
    ///
    /// # Errors
    /// `Exists`, `NotFound`: the condition does not hold; `TooLarge`, `Full`.
    pub fn put(
        &self,
        ns: Namespace,
        key: &[u8],
        put: Put<'_>,
        condition: If<'_, '_>,
        now: Ms,
    ) -> Result<u64, PutError> {
        let hash = self.hash(ns, key)?;
        let owned;
        let word = put.word(now);
        let Put { value, flags, expires, version, tags, .. } = put;
        let tags: &[u8] = if tags.is_empty() {
            &[]
        } else {
            owned = self.tag_bytes(ns, tags)?;
            &owned
        };
        let request =
            Request { ns, key, hash, flags, expires, tags, version, word, condition, now };
        self.store_parts(&request, value)
    }

    /// Replaces `entry`, if it is still the one there, by one that counts as the same: whether it
    /// was ever read stays, and when it was last accessed unless it is `used` now. Returns the
    /// version.
    ///
    /// # Errors
    /// `Exists`, `NotFound`: another one is there, or none; `TooLarge`, `Full`.
    pub fn put_same(
        &self,
        entry: &Entry<'_>,
        put: Put<'_>,
        used: bool,
        now: Ms,
    ) -> Result<u64, PutError> {
        let tags = self.tag_bytes(entry.record().ns(), put.tags)?;
        let Put { value, flags, expires, version, .. } = put;
        let word = entry.record().word().history(used.then_some(now)) | put.marks();
        let like = self.rewrite(entry, now);
        self.store_parts(&Request { flags, expires, version, tags: &tags, word, ..like }, value)
    }

    /// Replaces `entry`, if it is still the one there, by other bytes that mean the same: its
    /// expiry, tags, marks and history stay.
    ///
    /// # Errors
    /// `Exists`, `NotFound`: another one is there, or none; `TooLarge`, `Full`.
    pub fn recode(&self, entry: &Entry<'_>, value: &[&[u8]], now: Ms) -> Result<(), PutError> {
        let word = entry.record().word();
        let marks = word.0 & (STALE | CLAIMED);
        let like = self.rewrite(entry, now);
        self.store_parts(&Request { word: word.history(None) | marks, ..like }, value)?;
        // A mark that the old one got meanwhile is for this one.
        if entry.stale() {
            self.mark_stale(like.ns, like.key, now);
        }
        Ok(())
    }

    /// Replaces an entry by the result of `change`, repeated while others write it.
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
            match self.store_parts(&self.rewrite(&entry, now), &parts) {
                Err(PutError::Exists) => {}
                other => return other,
            }
        }
    }

    /// A write that replaces exactly `entry` by a new value.
    fn rewrite<'e>(&self, entry: &'e Entry<'_>, now: Ms) -> Request<'e> {
        let record = entry.record();
        Request {
            ns: record.ns(),
            key: record.key(),
            hash: entry.hash(),
            flags: record.flags(),
            expires: entry.expires(),
            tags: record.tags(),
            version: None,
            word: fresh_word(now),
            condition: If::Same(entry),
            now,
        }
    }

    fn count(
        &self,
        ns: Namespace,
        key: &[u8],
        now: Ms,
        f: impl Fn(u64) -> u64,
    ) -> Result<Counter, PutError> {
        if let Some(counter) = self.count_brief(ns, key, now, &f)? {
            return Ok(counter);
        }
        loop {
            let entry = self.peek(ns, key, now).ok_or(PutError::NotFound)?;
            let text = Some(entry.head()).filter(|text| text.len() as u64 == entry.len());
            let value = f(text.and_then(number).ok_or(PutError::NotNumber)?);
            let mut digits = [0; 20];
            let text = decimal(value, &mut digits);
            let padding = vec![b' '; entry.head().len().saturating_sub(text.len())];
            match self.store_parts(&self.rewrite(&entry, now), &[text, &padding]) {
                Ok(version) => return Ok(Counter { value, version }),
                Err(PutError::Exists) => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Changes the expiry of an entry; it keeps its version.
    ///
    /// # Errors
    /// `NotFound`; `TooLarge`, `Full`: no field for an expiry so far away (more than 24 days;
    /// without evictions more than 49): the entry is unchanged.
    pub fn touch(
        &self,
        ns: Namespace,
        key: &[u8],
        expires: Option<Ms>,
        now: Ms,
    ) -> Result<(), PutError> {
        let hash = self.hash(ns, key).map_err(|_| PutError::NotFound)?;
        self.touch_if(hash, ns, key, expires, now, |_| true)
    }

    /// Changes the expiry of `entry`, if it is still stored and was not written or touched since it
    /// was found.
    ///
    /// # Errors
    /// As [`Store::touch`]; `Exists`: another entry has the key.
    pub fn touch_same(
        &self,
        entry: &Entry<'_>,
        expires: Option<Ms>,
        now: Ms,
    ) -> Result<(), PutError> {
        let record = entry.record();
        self.touch_if(entry.hash(), record.ns(), record.key(), expires, now, |r| entry.is_still(r))
    }

    fn touch_if(
        &self,
        hash: Hash,
        ns: Namespace,
        key: &[u8],
        expires: Option<Ms>,
        now: Ms,
        f: impl Fn(&Record<'_>) -> bool,
    ) -> Result<(), PutError> {
        loop {
            let locked = self.index.lock(&self.segments, hash);
            let place = self.find_locked(&locked, ns, key).ok_or(PutError::NotFound)?;
            let record = self.record(&locked, locked.loc(place));
            if self.outdated(&record, now) {
                return Err(PutError::NotFound);
            }
            if !f(&record) {
                return Err(PutError::Exists);
            }
            if record.touch(expires) {
                return Ok(());
            }
            drop(locked);
            match self.rewrite_expiry(hash, ns, key, expires, now) {
                Err(PutError::Exists) => {}
                other => return other,
            }
        }
    }

    /// Moves a record to a place that has a field for the expiry.
    fn rewrite_expiry(
        &self,
        hash: Hash,
        ns: Namespace,
        key: &[u8],
        expires: Option<Ms>,
        now: Ms,
    ) -> Result<(), PutError> {
        let entry = self.peek_hashed(hash, ns, key, now).ok_or(PutError::NotFound)?;
        let record = entry.record();
        let from = self.queue_of(&record);
        let mut draft = Draft { expires, ..record.draft(record.word().0, self.roomy()) };
        let size = draft.size(now);
        if size > self.segments.size() {
            return Err(PutError::TooLarge);
        }
        let mut space = self.space(from, self.shares.of(ns), size, draft.bytes(), now)?;
        let mut locked = self.index.lock(&self.segments, hash);
        let place = locked.find_loc(record.loc()).ok_or(PutError::Exists)?;
        draft.word = record.word().0;
        draft.write(&self.segments, &mut space, now, &[record.local()]);
        locked.replace(place, space.loc());
        self.moved(&record, from, from, size, space.segment());
        self.away.moved(&record, size);
        Ok(())
    }

    /// Removes an entry; false if there was none.
    pub fn delete(&self, ns: Namespace, key: &[u8], now: Ms) -> bool {
        self.remove_if(ns, key, now, |_| true)
    }

    /// Removes `entry`, if it is still stored and was not written or touched since it was found.
    pub fn delete_same(&self, entry: &Entry<'_>, now: Ms) -> bool {
        let record = entry.record();
        self.remove_if(record.ns(), record.key(), now, |r| entry.is_still(r))
    }

    /// See [`Entry::claim`]. Under the stripe's lock, so that no move of the record loses it.
    pub(crate) fn claim(&self, entry: &Entry<'_>) -> bool {
        let held = entry.record();
        let locked = self.index.lock(&self.segments, entry.hash());
        let same = |loc| self.record(&locked, loc).origin() == held.origin();
        // A removed entry cannot be claimed: its bit may have been set in another place than the
        // pinned one.
        locked.find(same).is_some_and(|place| self.record(&locked, locked.loc(place)).claim())
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
        self.hash(ns, key).is_ok_and(|hash| self.remove_hashed(hash, ns, key, now, f))
    }

    /// [`Store::remove_if`] of a hashed key.
    pub(crate) fn remove_hashed(
        &self,
        hash: Hash,
        ns: Namespace,
        key: &[u8],
        now: Ms,
        f: impl Fn(&Record<'_>) -> bool,
    ) -> bool {
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

    /// Marks an entry stale; false if there is none. Its last access is `now` from then on, if it
    /// was not marked before, until it is read by [`Store::get`].
    pub fn mark_stale(&self, ns: Namespace, key: &[u8], now: Ms) -> bool {
        let Ok(hash) = self.hash(ns, key) else { return false };
        let locked = self.index.lock(&self.segments, hash);
        let Some(place) = self.find_locked(&locked, ns, key) else { return false };
        let record = self.record(&locked, locked.loc(place));
        let live = !self.outdated(&record, now);
        if live {
            record.mark_stale_at(now);
        }
        live
    }

    /// Marks `entry` stale in place, if it is still stored and was not written or touched since it
    /// was found; this clears its claim. It keeps its version. False: it is not stored any more.
    pub fn mark_stale_same(&self, entry: &Entry<'_>, now: Ms) -> bool {
        let held = entry.record();
        let locked = self.index.lock(&self.segments, entry.hash());
        let Some(place) = self.find_locked(&locked, held.ns(), held.key()) else { return false };
        let record = self.record(&locked, locked.loc(place));
        let same = !self.outdated(&record, now) && entry.is_still(&record);
        if same {
            record.mark_stale();
            record.unclaim();
        }
        same
    }
}

/// The value as memcached reads a counter (`safe_strtoull`): spaces, a sign, digits; then the end
/// or a space and anything.
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    let space = |b: &u8| matches!(b, b' ' | b'\t'..=b'\r');
    let text = &text[text.iter().position(|b| !space(b))?..];
    let negative = text[0] == b'-';
    let text = if matches!(text[0], b'-' | b'+') { &text[1..] } else { text };
    let digits = text.iter().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    if digits == 0 || text.get(digits).is_some_and(|b| !space(b)) {
        return None;
    }
    let add = |n: u64, b: &u8| n.checked_mul(10)?.checked_add(u64::from(b - b'0'));
    let n = text[..digits].iter().try_fold(0, add)?;
    // strtoull wraps negative numbers; memcached refuses the result only if it looks negative.
    let n = if negative { n.wrapping_neg() } else { n };
    (!negative || n <= i64::MAX as u64).then_some(n)
}

/// A number's digits, at the end of `digits`.
pub(crate) fn decimal(mut n: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            return &digits[at..];
        }
    }
}
