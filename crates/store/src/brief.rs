//! Brief writes: records of up to [`BRIEF`] bytes without tags, that is, nearly all entries of
//! memcached and Redis clients. Larger records take three steps (`write.rs`: look up the key to
//! choose the queue, copy the bytes, look it up again to link). A brief write takes one, under the
//! stripe's lock: one search, one copy, one link.
//!
//! The log's lock is taken within the stripe's lock, and no other. When the log needs a segment,
//! both locks are released before anything is evicted, and the write starts again with the new
//! segment.

use crate::hash::Hash;
use crate::index::{Locked, Place};
use crate::item::{Draft, Record, fresh_word};
use crate::log::Outcome;
use crate::segment::Kind;
use crate::stats::Count;
use crate::store::{Gone, Store};
use crate::types::{Counter, Ms, Namespace, PutError};
use crate::verbs::{decimal, number};
use crate::write::{Prior, Request};

/// Largest record, in bytes, that is copied under a stripe's lock: its copy takes no longer than
/// the search before it. Larger records are copied with no lock held.
pub(crate) const BRIEF: usize = 4096;

/// Longest text of a number that is incremented in one step: twenty digits, and trailing spaces.
const TEXT: usize = 40;

/// The facts about an existing entry that a write needs.
#[derive(Clone, Copy)]
struct Old {
    place: Place,
    /// Size of its record, in bytes.
    size: usize,
    /// Size of key and value, in bytes.
    bytes: u64,
    /// It is alive and has neither tags nor pieces, so replacing it changes three counters only.
    plain: bool,
}

/// A record to be written.
struct Brief<'a> {
    draft: &'a Draft<'a>,
    shape: u32,
    size: usize,
    hash: Hash,
    parts: &'a [&'a [u8]],
    now: Ms,
}

/// Result of an attempt.
enum Tried {
    /// The version, and the missing index page.
    Done(u64, Option<usize>),
    /// The log of this queue needs a segment.
    NeedsSegment(Kind),
    /// The index has no free slot near the key's home.
    Crowded(Prior),
}

impl Store {
    /// Stores a record of `size` bytes, at most [`BRIEF`], without tags. `draft` is for an entry
    /// without history.
    pub(crate) fn store_brief(
        &self,
        request: &Request<'_>,
        draft: &mut Draft<'_>,
        shape: u32,
        size: usize,
        parts: &[&[u8]],
    ) -> Result<u64, PutError> {
        self.admit(self.shares.of(request.ns), size as u64)?;
        let (mut fresh, mut known) = (None, None);
        let result = loop {
            let brief = Brief { draft, shape, size, hash: request.hash, parts, now: request.now };
            match self.try_brief(request, &brief, &mut fresh, &mut known) {
                Ok(Tried::Done(version, None)) => break Ok(version),
                Ok(Tried::Done(version, Some(page))) => {
                    self.grow_index(page, self.shares.of(request.ns), request.now);
                    break Ok(version);
                }
                Ok(Tried::NeedsSegment(kind)) => {
                    match self.take_segment(kind, self.shares.of(request.ns), request.now) {
                        Ok(segment) => fresh = Some(segment),
                        Err(full) => break Err(full),
                    }
                }
                Ok(Tried::Crowded(prior)) => {
                    break self.store_apart(request, draft, prior, size, parts);
                }
                Err(e) => break Err(e),
            }
        };
        // Another thread opened a new segment meanwhile, or the condition no longer holds.
        if let Some(unneeded) = fresh {
            self.segments.release(unneeded, unneeded);
        }
        result
    }

    #[inline(always)]
    fn try_brief(
        &self,
        request: &Request<'_>,
        brief: &Brief<'_>,
        fresh: &mut Option<u32>,
        known: &mut Option<Prior>,
    ) -> Result<Tried, PutError> {
        let mut locked = self.index.lock(&self.segments, request.hash);
        let (mut old, mut prior) = (None, None);
        match self.find_locked(&locked, request.ns, request.key) {
            None => request.condition.judge(None)?,
            Some(place) => {
                let record = self.record(&locked, locked.loc(place));
                let lives = !self.outdated(&record, request.now);
                request.condition.judge(lives.then_some(&record))?;
                prior = lives.then(|| self.prior_of(&record));
                old = Some(Old::new(place, &record, lives));
            }
        }
        // A lookup removes the fingerprint from the ghost.
        let prior = match prior {
            Some(prior) => prior,
            None => *known.get_or_insert_with(|| self.remembered(request.ns, request.hash)),
        };
        Ok(self.link_brief(&mut locked, old, prior, brief, fresh))
    }

    /// Writes a record and points the slot to it.
    #[inline]
    fn link_brief(
        &self,
        locked: &mut Locked<'_>,
        old: Option<Old>,
        prior: Prior,
        brief: &Brief<'_>,
        fresh: &mut Option<u32>,
    ) -> Tried {
        let Brief { draft, size, now, .. } = *brief;
        let free = if old.is_none() { locked.free() } else { None };
        if old.is_none() && free.is_none() {
            return Tried::Crowded(prior);
        }
        let (ns, group, bytes) = (draft.ns, self.shares.of(draft.ns), draft.bytes());
        let log = self.log(prior.queue, group, bytes);
        let reserved = log.reserve(&self.segments, size, now, fresh, &mut |s| self.sealed(log, s));
        let Outcome::Space(mut space) = reserved else { return Tried::NeedsSegment(prior.queue) };
        let word = draft.word | prior.frequency;
        let version = draft.write_as(brief.shape, word, &self.segments, &mut space, brief.parts);
        self.learnt.stored(group, brief.hash, bytes);
        let loc = space.loc();
        let mut page = None;
        match (old, free) {
            (Some(Old { place, size: before, bytes: held, plain: true }), _) => {
                locked.replace(place, loc);
                space.give_back_linked();
                self.segments.leave(locked.loc(place).segment(), before, 0);
                self.shares.add(ns, size.wrapping_sub(before));
                let changes = [
                    (Count::Stored, 1),
                    (Count::Bytes, bytes.wrapping_sub(held)),
                    (Count::Reclaimed, before as u64),
                ];
                self.stats.add_each(ns, changes);
            }
            (Some(Old { place, bytes: held, .. }), _) => {
                locked.replace(place, loc);
                space.give_back_linked();
                self.shares.add(ns, size);
                self.stats
                    .add_each(ns, [(Count::Stored, 1), (Count::Bytes, bytes.wrapping_sub(held))]);
                let record = self.record(locked, locked.loc(place));
                let why = if self.outdated(&record, now) { Gone::Outdated } else { Gone::Replaced };
                self.retire_replaced(&record, why, now);
            }
            (None, Some(free)) => {
                locked.insert(free, loc);
                space.give_back_linked();
                self.shares.add(ns, size);
                self.stats
                    .add_each(ns, [(Count::Stored, 1), (Count::Items, 1), (Count::Bytes, bytes)]);
                page = locked.grow();
            }
            (None, None) => return Tried::Crowded(prior),
        }
        Tried::Done(version, page)
    }

    /// Changes a number by `f` in one step. `None`: only the general path can handle this entry.
    pub(crate) fn count_brief(
        &self,
        ns: Namespace,
        key: &[u8],
        now: Ms,
        f: impl Fn(u64) -> u64,
    ) -> Result<Option<Counter>, PutError> {
        let hash = self.hash(ns, key).map_err(|_| PutError::NotFound)?;
        let mut fresh = None;
        let result = loop {
            match self.try_count(hash, ns, key, now, &f, &mut fresh) {
                Ok(Some((_, Tried::NeedsSegment(kind)))) => {
                    match self.take_segment(kind, self.shares.of(ns), now) {
                        Ok(segment) => fresh = Some(segment),
                        Err(full) => break Err(full),
                    }
                }
                Ok(Some((value, Tried::Done(version, _)))) => {
                    break Ok(Some(Counter { value, version }));
                }
                Ok(Some((_, Tried::Crowded(_))) | None) => break Ok(None),
                Err(e) => break Err(e),
            }
        };
        if let Some(unneeded) = fresh {
            self.segments.release(unneeded, unneeded);
        }
        result
    }

    #[inline]
    fn try_count(
        &self,
        hash: Hash,
        ns: Namespace,
        key: &[u8],
        now: Ms,
        f: &impl Fn(u64) -> u64,
        fresh: &mut Option<u32>,
    ) -> Result<Option<(u64, Tried)>, PutError> {
        let mut locked = self.index.lock(&self.segments, hash);
        let place = self.find_locked(&locked, ns, key).ok_or(PutError::NotFound)?;
        let record = self.record(&locked, locked.loc(place));
        if self.outdated(&record, now) {
            return Err(PutError::NotFound);
        }
        let text = record.local();
        if record.is_wide() || text.len() > TEXT {
            return Ok(None);
        }
        let value = f(number(text).ok_or(PutError::NotNumber)?);
        let mut digits = [0; 20];
        let digits = decimal(value, &mut digits);
        let mut padded = [b' '; TEXT];
        padded[..digits.len()].copy_from_slice(digits);
        let len = text.len().max(digits.len());
        let draft = Draft {
            ns,
            key,
            flags: record.flags(),
            expires: record.expires(),
            origin: None,
            version: None,
            tags: &[],
            pieces: &[],
            head: len,
            local: len,
            total: len as u64,
            word: fresh_word(now),
            roomy: self.roomy(),
        };
        let shape = draft.shape(now);
        let size = draft.size_as(shape);
        self.admit(self.shares.of(ns), size as u64)?;
        let (old, prior) = (Old::new(place, &record, true), self.prior_of(&record));
        let brief = Brief { draft: &draft, shape, size, hash, parts: &[&padded[..len]], now };
        Ok(Some((value, self.link_brief(&mut locked, Some(old), prior, &brief, fresh))))
    }
}

impl Old {
    #[inline(always)]
    fn new(place: Place, record: &Record<'_>, lives: bool) -> Old {
        match record.short_sizes() {
            Some((size, bytes)) => Old { place, size, bytes, plain: lives },
            None => {
                Old { place, size: record.size(), bytes: record.bytes_of_entry(), plain: false }
            }
        }
    }
}
