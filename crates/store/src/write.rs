//! Storing: one way in for every verb. Space first, bytes next, then the link under the stripe's lock, where conditions are
//! judged; what fails them leaves a gap in its segment and nothing else.

use crate::entry::Entry;
use crate::hash::Hash;
use crate::index::{Locked, Place};
use crate::item::{Draft, Record, fresh_word};
use crate::log::Space;
use crate::segment::{Kind, Loc};
use crate::stats::Count;
use crate::store::{Gone, Store};
use crate::types::{Counter, FillOptions, MAX_TAGS, Ms, Namespace, Policy, Put, PutError};

/// What must hold for a write to happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum If {
    Always,
    Absent,
    Present,
    Version(u64),
    /// The entry is still the one at this place.
    At(Loc),
}

/// A write, its bytes apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) ns: Namespace,
    pub(crate) key: &'a [u8],
    pub(crate) hash: Hash,
    pub(crate) flags: u32,
    pub(crate) expires: Option<Ms>,
    /// 8 bytes each, see `Hasher::tag`.
    pub(crate) tags: &'a [u8],
    pub(crate) condition: If,
    pub(crate) now: Ms,
}

/// What is known of the entry before the write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prior {
    pub(crate) queue: Kind,
    frequency: u32,
}

impl<'a> Request<'a> {
    pub(crate) fn draft(&self, prior: Prior, total: u64) -> Draft<'a> {
        Draft {
            ns: self.ns,
            key: self.key,
            flags: self.flags,
            expires: self.expires,
            version: None,
            tags: self.tags,
            pieces: &[],
            head: total as usize,
            local: total as usize,
            total,
            word: fresh_word(self.now) | prior.frequency,
        }
    }
}

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

    /// Tags as records keep them.
    pub(crate) fn tag_bytes(&self, ns: Namespace, tags: &[&[u8]]) -> Result<Vec<u8>, PutError> {
        if tags.len() > MAX_TAGS {
            return Err(PutError::TooLarge);
        }
        let mut hashes: Vec<u64> = tags.iter().map(|t| self.hasher.tag(ns, t)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        Ok(hashes.into_iter().flat_map(u64::to_ne_bytes).collect())
    }

    pub(crate) fn store_parts(&self, request: &Request<'_>, parts: &[&[u8]]) -> Result<u64, PutError> {
        let total: u64 = parts.iter().map(|p| p.len() as u64).sum();
        if total > self.max_value() {
            return Err(PutError::TooLarge);
        }
        let prior = self.prior(request)?;
        let draft = request.draft(prior, total);
        let size = draft.size(request.now);
        if size > self.segments.size() {
            return self.store_large(request, parts, total);
        }
        let mut space = self.space(prior.queue, size, draft.bytes(), request.now)?;
        draft.write(&self.segments, &mut space, request.now, parts);
        self.link(request, &draft, space)
    }

    /// A value of several segments goes in as a fill does.
    fn store_large(&self, request: &Request<'_>, parts: &[&[u8]], total: u64) -> Result<u64, PutError> {
        let options = FillOptions {
            flags: request.flags,
            expires: request.expires,
            size_hint: Some(total),
            contiguous: 0,
        };
        let mut fill = self.fill(request.ns, request.key, options, request.now)?;
        parts.iter().try_for_each(|p| fill.write(p))?;
        fill.commit_request(request)
    }

    /// The queue a record is in (small, if its segment has just left the queues).
    fn queue_of(&self, record: &Record<'_>) -> Kind {
        let kind = self.segments.kind(record.loc().segment());
        if kind == Kind::Main { Kind::Main } else { Kind::Small }
    }

    /// Where the entry goes: an entry of the main queue stays in it, and who was dropped lately starts in it. Refuses
    /// early what the condition forbids.
    pub(crate) fn prior(&self, request: &Request<'_>) -> Result<Prior, PutError> {
        let old = self.peek(request.ns, request.key, request.now);
        match (&old, request.condition) {
            (Some(_), If::Absent) => return Err(PutError::Exists),
            (None, If::Present | If::Version(_)) => return Err(PutError::NotFound),
            (Some(e), If::Version(v)) if v != e.version() => return Err(PutError::Exists),
            _ => {}
        }
        if let Some(e) = old {
            let queue = self.queue_of(&e.record());
            return Ok(Prior { queue, frequency: e.word().frequency() });
        }
        let memory = self.ghost.take(request.hash);
        if let Some(m) = memory.filter(|m| m.near) {
            self.learnt.near_hit(m.queue, self.segments.count() * self.segments.size());
        }
        let again = memory.is_some_and(|m| m.queue == Kind::Small) && self.options.policy == Policy::S3Fifo;
        Ok(Prior { queue: if again { Kind::Main } else { Kind::Small }, frequency: 0 })
    }

    /// Makes a written record findable, if the condition holds.
    pub(crate) fn link(
        &self,
        request: &Request<'_>,
        draft: &Draft<'_>,
        space: Space<'_>,
    ) -> Result<u64, PutError> {
        let result = loop {
            self.tags.prepare(self, draft.tags, request.now)?;
            if let Some(result) = self.try_link(request, draft, &space) {
                break result;
            }
        };
        match result {
            Ok((_, Some(page))) => {
                drop(space);
                self.grow_index(page, request.now);
            }
            Ok(_) => drop(space),
            Err(_) => space.discard(),
        }
        Ok(result?.0)
    }

    /// The version, and the index page that is missing. `None`: others took the memory prepared for the tags.
    #[allow(clippy::type_complexity)]
    fn try_link(
        &self,
        request: &Request<'_>,
        draft: &Draft<'_>,
        space: &Space<'_>,
    ) -> Option<Result<(u64, Option<usize>), PutError>> {
        let mut locked = self.index.lock(&self.segments, request.hash);
        let old = self.find_locked(&locked, request.ns, request.key);
        if let Err(e) = self.judge(&locked, old, request) {
            return Some(Err(e));
        }
        let old_loc = old.map(|place| locked.loc(place));
        if old.is_none() {
            self.make_room(&mut locked, request);
        }
        // Listed and linked in one step for whoever tidies or purges.
        let mut listing = (!draft.tags.is_empty()).then(|| self.tags.lock(&self.segments));
        if listing.as_mut().is_some_and(|l| !l.list(draft.tags, request.hash)) {
            return None;
        }
        match old {
            Some(place) => locked.replace(place, space.loc()),
            None => locked.insert(space.loc()),
        }
        drop(listing);
        if let Some(loc) = old_loc {
            let record = self.record(&locked, loc);
            let outdated = self.outdated(&record, request.now);
            self.retire(&record, if outdated { Gone::Outdated } else { Gone::Replaced }, request.now);
        }
        self.segments.heat(space.segment()).live.fetch_add(draft.size(request.now) as u32, Relaxed);
        self.learnt.stored(request.hash, draft.bytes());
        self.stats.add(request.ns, Count::Stored, 1);
        self.stats.add(request.ns, Count::Items, 1);
        self.stats.add(request.ns, Count::Bytes, draft.key.len() as u64 + draft.total);
        let version = self.record(&locked, space.loc()).version();
        Some(Ok((version, locked.grow())))
    }

    fn judge(&self, locked: &Locked<'_>, old: Option<Place>, request: &Request<'_>) -> Result<(), PutError> {
        let live = old.map(|p| self.record(locked, locked.loc(p))).filter(|r| !self.outdated(r, request.now));
        match (live, request.condition) {
            (_, If::Always) | (None, If::Absent) | (Some(_), If::Present) => Ok(()),
            (Some(_), If::Absent) => Err(PutError::Exists),
            (None, _) => Err(PutError::NotFound),
            (Some(r), If::Version(v)) => {
                if r.version() == v {
                    Ok(())
                } else {
                    Err(PutError::Exists)
                }
            }
            (Some(r), If::At(loc)) => {
                if r.loc() == loc {
                    Ok(())
                } else {
                    Err(PutError::Exists)
                }
            }
        }
    }

    /// When the index could not grow for lack of memory, an entry nearby makes room.
    fn make_room(&self, locked: &mut Locked<'_>, request: &Request<'_>) {
        while !locked.has_room() {
            let Some((victim, hash)) = locked.any() else { return };
            locked.aim(hash);
            if let Some(place) = locked.find_loc(victim) {
                locked.remove(place);
                self.retire(&self.record(locked, victim), Gone::Evicted, request.now);
            }
            locked.aim(request.hash);
        }
    }

    pub(crate) fn find_locked(&self, locked: &Locked<'_>, ns: Namespace, key: &[u8]) -> Option<Place> {
        locked.find(|loc| self.record(locked, loc).is(ns, key))
    }

    fn grow_index(&self, page: usize, now: Ms) {
        // Without memory for it the index stays as it is: the next insertion asks again.
        if let Ok(segment) = self.take_segment(Kind::Index, now)
            && !self.index.install(&self.segments, page, segment)
        {
            self.segments.release(segment, segment);
        }
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

use std::sync::atomic::Ordering::Relaxed;

/// The value as memcached reads a counter: up to 20 digits, trailing spaces allowed.
fn number(entry: &Entry<'_>) -> Option<u64> {
    let text =
        std::str::from_utf8(entry.head()).ok().filter(|t| t.len() as u64 == entry.len() && t.len() <= 20)?;
    let digits = text.trim_end_matches(' ');
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}
