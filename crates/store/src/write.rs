//! Storing: the common path of every verb of `verbs.rs` and of fills. Space first, bytes next, then
//! the link under the stripe's lock, where conditions are checked; a write that fails its condition
//! leaves a gap in its segment and nothing else.

use crate::brief::BRIEF;
use crate::entry::Entry;
use crate::hash::Hash;
use crate::held::Held;
use crate::index::{Free, Locked, Place, Seen};
use crate::item::{Draft, Record};
use crate::log::Space;
use crate::segment::Kind;
use crate::stats::Count;
use crate::store::{Gone, Store};
use crate::types::{Cause, FillOptions, MAX_TAGS, Ms, Namespace, Policy, PutError};

/// Condition of a write.
#[derive(Clone, Copy, Debug)]
pub enum If<'e, 's> {
    /// Nothing.
    Always,
    /// There is no entry; otherwise `Exists`.
    Absent,
    /// There is one; otherwise `NotFound`.
    Present,
    /// There is one of this version; otherwise `NotFound` or `Exists`.
    Version(u64),
    /// The stored entry is still this one, not written or touched since it was found; otherwise
    /// `NotFound` or `Exists`.
    Same(&'e Entry<'s>),
}

/// A write without its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) ns: Namespace,
    pub(crate) key: &'a [u8],
    pub(crate) hash: Hash,
    pub(crate) flags: u32,
    pub(crate) expires: Option<Ms>,
    /// 8 bytes each, see `Hasher::tag`.
    pub(crate) tags: &'a [u8],
    pub(crate) version: Option<u64>,
    /// The changing word, but for how often it was read.
    pub(crate) word: u32,
    pub(crate) condition: If<'a, 'a>,
    pub(crate) now: Ms,
}

/// A record that is written and not yet linked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written<'a> {
    pub(crate) draft: &'a Draft<'a>,
    /// Bytes of the record.
    pub(crate) size: usize,
    pub(crate) version: u64,
}

/// The history of the entry before the write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prior {
    pub(crate) queue: Kind,
    pub(crate) frequency: u32,
}

impl Prior {
    /// An entry without history.
    pub(crate) const NONE: Prior = Prior { queue: Kind::Small, frequency: 0 };
}

impl If<'_, '_> {
    /// Does the condition hold with this live entry, or with none?
    #[inline]
    pub(crate) fn judge(&self, live: Option<&Record<'_>>) -> Result<(), PutError> {
        let holds = match (live, self) {
            (_, If::Always) | (None, If::Absent) | (Some(_), If::Present) => true,
            (Some(_), If::Absent) => false,
            (None, _) => return Err(PutError::NotFound),
            (Some(record), If::Version(v)) => record.version() == *v,
            (Some(record), If::Same(entry)) => entry.is_still(record),
        };
        if holds { Ok(()) } else { Err(PutError::Exists) }
    }
}

impl<'a> Request<'a> {
    pub(crate) fn draft(&self, prior: Prior, total: u64, roomy: bool) -> Draft<'a> {
        Draft {
            ns: self.ns,
            key: self.key,
            flags: self.flags,
            expires: self.expires,
            origin: None,
            version: self.version,
            tags: self.tags,
            pieces: &[],
            head: total as usize,
            local: total as usize,
            total,
            word: self.word | prior.frequency,
            roomy,
        }
    }
}

impl Store {
    /// Tags in the form stored in records.
    pub(crate) fn tag_bytes(&self, ns: Namespace, tags: &[&[u8]]) -> Result<Vec<u8>, PutError> {
        if tags.is_empty() {
            return Ok(Vec::new());
        }
        if tags.len() > MAX_TAGS {
            return Err(PutError::TooLarge);
        }
        let mut hashes: Vec<u64> = tags.iter().map(|t| self.hasher.tag(ns, t)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        Ok(hashes.into_iter().flat_map(u64::to_ne_bytes).collect())
    }

    pub(crate) fn store_parts(
        &self,
        request: &Request<'_>,
        parts: &[&[u8]],
    ) -> Result<u64, PutError> {
        let total: u64 = parts.iter().map(|p| p.len() as u64).sum();
        if total > self.max_value() {
            return Err(PutError::TooLarge);
        }
        let mut draft = request.draft(Prior::NONE, total, self.roomy());
        let shape = draft.shape(request.now);
        let size = draft.size_as(shape);
        if size <= BRIEF && request.tags.is_empty() {
            return self.store_brief(request, &mut draft, shape, size, parts);
        }
        let prior = self.prior(request)?;
        if size > self.segments.size() {
            return self.store_large(request, parts, total);
        }
        self.admit(self.shares.of(request.ns), size as u64)?;
        self.store_apart(request, &mut draft, prior, size, parts)
    }

    /// Reserves space, copies the bytes without any lock, then links.
    pub(crate) fn store_apart(
        &self,
        request: &Request<'_>,
        draft: &mut Draft<'_>,
        prior: Prior,
        size: usize,
        parts: &[&[u8]],
    ) -> Result<u64, PutError> {
        let group = self.shares.of(request.ns);
        draft.word |= prior.frequency;
        let mut space = self.space(prior.queue, group, size, draft.bytes(), request.now)?;
        let version = draft.write(&self.segments, &mut space, request.now, parts);
        self.link(request, &Written { draft, size, version }, space)
    }

    /// Stores a value of several segments as a fill does.
    fn store_large(
        &self,
        request: &Request<'_>,
        parts: &[&[u8]],
        total: u64,
    ) -> Result<u64, PutError> {
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

    /// The queue of a record (small, if its segment has just left the queues).
    #[inline]
    pub(crate) fn queue_of(&self, record: &Record<'_>) -> Kind {
        let kind = self.segments.kind(record.loc().segment());
        if kind == Kind::Main { Kind::Main } else { Kind::Small }
    }

    /// The queue for the entry: an entry of the main queue stays in it, and a recently dropped one
    /// starts in it. Refuses early if the condition forbids the write.
    pub(crate) fn prior(&self, request: &Request<'_>) -> Result<Prior, PutError> {
        let old = self.index.find(&self.segments, request.hash, |slot, value, loc| {
            let Some(held) = Held::by_slot(&self.segments, slot, value, loc) else {
                return Seen::Changed;
            };
            let record = held.record();
            if !record.is(request.ns, request.key) {
                return Seen::No;
            }
            let prior = self.prior_of(&record);
            Seen::Yes((!self.outdated(&record, request.now)).then(|| (prior, record.version())))
        });
        let old = old.flatten();
        match (&old, request.condition) {
            (Some(_), If::Absent) => return Err(PutError::Exists),
            (None, If::Present | If::Version(_) | If::Same(_)) => return Err(PutError::NotFound),
            (Some((_, there)), If::Version(v)) if v != *there => return Err(PutError::Exists),
            _ => {}
        }
        if let Some((prior, _)) = old {
            return Ok(prior);
        }
        Ok(self.remembered(request.ns, request.hash))
    }

    /// The history of a live record's entry.
    #[inline(always)]
    pub(crate) fn prior_of(&self, record: &Record<'_>) -> Prior {
        Prior { queue: self.queue_of(record), frequency: record.word().frequency() }
    }

    /// The ghost's memory of an entry that is not stored.
    pub(crate) fn remembered(&self, ns: Namespace, hash: Hash) -> Prior {
        let memory = self.ghost.take(hash);
        if let Some(m) = memory.filter(|m| m.near) {
            self.learnt.near_hit(
                self.shares.of(ns),
                m.queue,
                self.segments.count() * self.segments.size(),
            );
        }
        let again =
            memory.is_some_and(|m| m.queue == Kind::Small) && self.options.policy == Policy::S3Fifo;
        Prior { queue: if again { Kind::Main } else { Kind::Small }, frequency: 0 }
    }

    /// Makes a written record visible, if the condition holds.
    pub(crate) fn link(
        &self,
        request: &Request<'_>,
        written: &Written<'_>,
        space: Space<'_>,
    ) -> Result<u64, PutError> {
        let mut gone = Vec::new();
        let result = loop {
            if !written.draft.tags.is_empty() {
                self.tags.prepare(
                    self,
                    self.shares.of(request.ns),
                    written.draft.tags,
                    request.now,
                )?;
            }
            if let Some(result) = self.try_link(request, written, &space, &mut gone) {
                break result;
            }
        };
        gone.iter().for_each(|held| self.tell(&held.record(), Cause::Evicted, request.now));
        match result {
            Ok((_, Some(page))) => {
                drop(space);
                self.grow_index(page, self.shares.of(request.ns), request.now);
            }
            Ok(_) => drop(space),
            Err(_) => space.discard(),
        }
        Ok(result?.0)
    }

    /// The version, and the missing index page. `None`: other threads took the memory prepared for
    /// the tags.
    #[allow(clippy::type_complexity)]
    fn try_link<'s>(
        &'s self,
        request: &Request<'_>,
        Written { draft, size, version }: &Written<'_>,
        space: &Space<'_>,
        gone: &mut Vec<Held<'s>>,
    ) -> Option<Result<(u64, Option<usize>), PutError>> {
        let mut locked = self.index.lock(&self.segments, request.hash);
        let old = self.find_locked(&locked, request.ns, request.key);
        let live = old.map(|place| self.record(&locked, locked.loc(place)));
        let live = live.filter(|record| !self.outdated(record, request.now));
        if let Err(e) = request.condition.judge(live.as_ref()) {
            return Some(Err(e));
        }
        let old_loc = old.map(|place| locked.loc(place));
        let free = match old {
            Some(_) => None,
            None => match self.make_room(&mut locked, request, gone) {
                Ok(free) => Some(free),
                Err(full) => return Some(Err(full)),
            },
        };
        // Listed and linked in one step with respect to tidying and purging.
        let mut listing = (!draft.tags.is_empty()).then(|| self.tags.lock(&self.segments));
        if listing.as_mut().is_some_and(|l| !l.list(draft.tags, request.hash)) {
            return None;
        }
        if let Some(place) = old {
            locked.replace(place, space.loc());
        } else if let Some(free) = free {
            locked.insert(free, space.loc());
        }
        drop(listing);
        let (ns, group, pieces) = (request.ns, self.shares.of(request.ns), draft.pieces.len() / 4);
        self.segments.enter(space.segment(), *size, pieces);
        self.shares.add(ns, size + pieces * self.segments.size());
        self.learnt.stored(group, request.hash, draft.bytes());
        self.stats.add(ns, Count::Stored, 1);
        match old_loc {
            Some(loc) => {
                let record = self.record(&locked, loc);
                self.stats.add(
                    ns,
                    Count::Bytes,
                    draft.bytes().wrapping_sub(record.bytes_of_entry()),
                );
                let outdated = self.outdated(&record, request.now);
                let why = if outdated { Gone::Outdated } else { Gone::Replaced };
                self.retire_replaced(&record, why, request.now);
            }
            None => {
                self.stats.add(ns, Count::Items, 1);
                self.stats.add(ns, Count::Bytes, draft.bytes());
            }
        }
        let page = if old.is_none() { locked.grow() } else { None };
        Some(Ok((*version, page)))
    }

    /// When the index could not grow for lack of memory, an entry nearby makes room: one of the own
    /// group, or of a group that has more than its floor.
    fn make_room<'s>(
        &'s self,
        locked: &mut Locked<'_>,
        request: &Request<'_>,
        gone: &mut Vec<Held<'s>>,
    ) -> Result<Free, PutError> {
        let own = self.shares.of(request.ns);
        loop {
            if let Some(free) = locked.free() {
                return Ok(free);
            }
            let may_go = |loc| {
                let record = self.record(locked, loc);
                let group = self.shares.of(record.ns());
                let bytes = record.size() + record.pieces().len() / 4 * self.segments.size();
                group == own || self.shares.spare(group, 0) >= bytes
            };
            let found = if self.options.evict { locked.any(may_go) } else { None };
            let Some((victim, hash)) = found else { return Err(PutError::Full) };
            locked.aim(hash);
            if let Some(place) = locked.find_loc(victim) {
                if self.is_observing() {
                    gone.push(Held::by_lock(&self.segments, locked, victim));
                }
                locked.remove(place);
                self.retire(&self.record(locked, victim), Gone::Evicted, request.now);
            }
            locked.aim(request.hash);
        }
    }

    #[inline(always)]
    pub(crate) fn find_locked(
        &self,
        locked: &Locked<'_>,
        ns: Namespace,
        key: &[u8],
    ) -> Option<Place> {
        locked.find(|loc| self.record(locked, loc).is(ns, key))
    }

    pub(crate) fn grow_index(&self, page: usize, group: usize, now: Ms) {
        // Without memory for it the index stays as it is: the next insertion tries again.
        if let Ok(segment) = self.take_segment(Kind::Index, group, now)
            && !self.index.install(&self.segments, page, segment)
        {
            self.segments.release(segment, segment);
        }
    }
}
