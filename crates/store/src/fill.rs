//! Streaming fills: an entry that is written while others already read it.
//!
//! The bytes go to staging first: some runs (the head), whole segments once there are many bytes,
//! and runs again for a short rest. `commit` copies the runs into one record and hands whole
//! segments over to it; a value that fits one segment becomes one piece. Followers keep reading the
//! staged bytes: staging is freed when the writer and the last follower are gone.

use crate::pin::Pin;
use crate::progress::Progress;
use crate::segment::Kind;
use crate::staging::{self, Run};
use crate::store::Store;
use crate::types::{FillOptions, FillState, Ms, Namespace, Put, PutError};
use crate::write::{If, Request, Written};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::task::{Context, Poll};

/// Largest first piece of a fill, in bytes.
pub const MAX_CONTIGUOUS: usize = 128 * 1024;

#[derive(Debug)]
enum Home {
    Run(Run),
    /// A whole segment; `true` once it belongs to the committed entry.
    Segment(u32, bool),
}

#[derive(Debug)]
struct Piece {
    /// Offset of its first byte in the value.
    start: u64,
    /// Its offset in the mapping.
    at: usize,
    capacity: usize,
    home: Home,
}

/// State shared by the writer and its followers.
#[derive(Debug)]
struct Shared<'s> {
    store: &'s Store,
    pieces: RwLock<Vec<Piece>>,
    progress: Progress,
    /// Runs whose bytes were moved, but which followers may still read.
    left: Mutex<Vec<Run>>,
    /// Holds the segments handed over to the entry for the followers.
    anchor: Mutex<Option<Pin<'s>>>,
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        self.left
            .get_mut()
            .iter()
            .for_each(|run| self.store.staging.give_back(&self.store.segments, run));
        for piece in self.pieces.get_mut() {
            match &piece.home {
                Home::Run(run) => self.store.staging.give_back(&self.store.segments, run),
                Home::Segment(_, true) => {}
                Home::Segment(segment, false) => self.store.segments.release(*segment, *segment),
            }
        }
    }
}

impl Shared<'_> {
    fn chunk_at(&self, offset: u64) -> &[u8] {
        let written = self.progress.written();
        if offset >= written {
            return &[];
        }
        let pieces = self.pieces.read();
        let at = pieces.partition_point(|p| p.start <= offset);
        let Some(piece) = at.checked_sub(1).and_then(|i| pieces.get(i)) else { return &[] };
        let skip = offset - piece.start;
        let len = (piece.capacity as u64 - skip).min(written - offset);
        // SAFETY: below `written` the writer never writes again, and the piece is not freed before
        // `self` is dropped (or, if handed over, before the anchor's pin is).
        unsafe { self.store.segments.map.bytes(piece.at + skip as usize, len as usize) }
    }
}

/// The only writer of an unfinished entry. If it is dropped without `commit` nothing is stored, and
/// followers see `Aborted`.
#[derive(Debug)]
pub struct Fill<'s> {
    shared: Arc<Shared<'s>>,
    ns: Namespace,
    key: Box<[u8]>,
    options: FillOptions,
    tags: Vec<u8>,
    too_many_tags: bool,
    failed: Option<PutError>,
    finished: bool,
    now: Ms,
}

impl Store {
    /// Starts an entry whose bytes arrive piece by piece. `get` finds it once it is committed;
    /// followers read it at once.
    ///
    /// # Errors
    /// `TooLarge`: the key, or the hinted length; `Full`.
    pub fn fill<'s>(
        &'s self,
        ns: Namespace,
        key: &[u8],
        o: FillOptions,
        now: Ms,
    ) -> Result<Fill<'s>, PutError> {
        self.hash(ns, key)?;
        if o.size_hint.is_some_and(|n| n > self.max_value()) {
            return Err(PutError::TooLarge);
        }
        let shared = Shared {
            store: self,
            pieces: RwLock::default(),
            progress: Progress::default(),
            left: Mutex::default(),
            anchor: Mutex::new(None),
        };
        let mut fill = Fill {
            shared: Arc::new(shared),
            ns,
            key: key.into(),
            options: o,
            tags: Vec::new(),
            too_many_tags: false,
            failed: None,
            finished: false,
            now,
        };
        // Memory for the head at once, so that a full store refuses before anything is fetched.
        fill.extend()?;
        Ok(fill)
    }
}

impl<'s> Fill<'s> {
    fn store(&self) -> &'s Store {
        self.shared.store
    }

    /// Adds bytes; followers may read them when this returns.
    ///
    /// # Errors
    /// `TooLarge`, `Full`: nothing more can be written or committed; followers can still read the
    /// bytes written before.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), PutError> {
        let mut rest = bytes;
        while !rest.is_empty() && self.failed.is_none() {
            match self.write_some(rest) {
                Ok(n) => rest = &rest[n..],
                Err(e) => self.failed = Some(e),
            }
        }
        self.failed.map_or(Ok(()), Err)
    }

    fn write_some(&mut self, bytes: &[u8]) -> Result<usize, PutError> {
        let written = self.shared.progress.written();
        if bytes.len() as u64 > self.store().max_value() - written {
            return Err(PutError::TooLarge);
        }
        let room = |p: &Piece| (p.at, p.capacity, (written - p.start) as usize);
        let (at, capacity, used) = self.shared.pieces.read().last().map(room).unwrap_or_default();
        if used == capacity {
            self.extend()?;
            return Ok(0);
        }
        let n = bytes.len().min(capacity - used);
        // SAFETY: the range is this fill's own and beyond `written`, where no follower reads.
        unsafe { self.store().segments.map.write(at + used, &bytes[..n]) };
        self.shared.progress.advance(n as u64);
        Ok(n)
    }

    /// Bytes of the store's memory that it takes once `more` bytes are written, at most: pieces are
    /// taken before they are full. `0`: what it takes now.
    pub fn memory(&self, more: u64) -> u64 {
        let pieces = self.shared.pieces.read();
        let taken: u64 = pieces.iter().map(|piece| piece.capacity as u64).sum();
        let end = pieces.last().map_or(0, |piece| piece.start + piece.capacity as u64);
        let beyond = (self.shared.progress.written() + more).saturating_sub(end);
        taken + beyond.next_multiple_of(self.store().segments.size() as u64)
    }

    /// Adds a piece.
    fn extend(&mut self) -> Result<(), PutError> {
        let written = self.shared.progress.written();
        let segments = &self.store().segments;
        let home = match self.run_wanted(written) {
            Some(bytes) => Home::Run(self.run(staging::units_for(segments, bytes))?),
            None => Home::Segment(
                self.store().take_segment(
                    staging::KIND,
                    self.store().shares.of(self.ns),
                    self.now,
                )?,
                false,
            ),
        };
        let (at, capacity) = match &home {
            Home::Run(r) => {
                let unit = staging::unit(segments);
                (segments.start(r.segment) + r.first * unit, r.units * unit)
            }
            Home::Segment(s, _) => (segments.start(*s), segments.size()),
        };
        let mut pieces = self.shared.pieces.write();
        let whole_before = pieces.iter().any(|p| matches!(p.home, Home::Segment(..)));
        match pieces.pop() {
            // The value is longer than hinted: its supposed end becomes part of the middle.
            Some(Piece { start, at: old, capacity: _, home: Home::Run(run) }) if whole_before => {
                // SAFETY: both ranges are this fill's own; below `written` nobody writes any more,
                // and nobody reads the new place yet.
                unsafe {
                    segments.map.write(at, segments.map.bytes(old, (written - start) as usize))
                };
                self.shared.left.lock().push(run);
                pieces.push(Piece { start, at, capacity, home });
            }
            last => pieces.extend(last.into_iter().chain([Piece {
                start: written,
                at,
                capacity,
                home,
            }])),
        }
        Ok(())
    }

    /// Length of the next piece as a run, in bytes; `None`: a whole segment.
    fn run_wanted(&self, written: u64) -> Option<usize> {
        let size = self.store().segments.size();
        let hint = self.options.size_hint.filter(|n| *n > written);
        let contiguous = self.options.contiguous.min(MAX_CONTIGUOUS).min(size / 2);
        if written == 0 {
            // A value that will fit one record is written in one piece.
            let whole = hint.filter(|n| *n <= self.one_record());
            return Some(whole.map_or(contiguous, |n| n as usize).max(1));
        }
        let whole_segments =
            self.shared.pieces.read().iter().any(|p| matches!(p.home, Home::Segment(..)));
        let rest = hint.map(|n| n - written);
        match rest {
            // A short end goes into the record on commit.
            Some(rest) if whole_segments && rest <= size as u64 / 4 => Some(rest as usize),
            Some(_) => None,
            // Doubles, up to half a segment in all.
            None if !whole_segments && written <= size as u64 / 4 => Some(written as usize),
            None => None,
        }
    }

    /// The largest value that fits one record with this key and any tags.
    fn one_record(&self) -> u64 {
        let overhead = crate::item::MAX_HEADER + self.key.len() + 8 * crate::MAX_TAGS + 4;
        (self.store().segments.size() - overhead) as u64
    }

    fn run(&self, units: usize) -> Result<Run, PutError> {
        let store = self.store();
        if let Some(run) = store.staging.take(units, None) {
            return Ok(run);
        }
        loop {
            let fresh = store.take_segment(staging::KIND, store.shares.of(self.ns), self.now)?;
            if let Some(run) = store.staging.take(units, Some(fresh)) {
                return Ok(run);
            }
        }
    }

    /// Follows this fill from its first byte.
    pub fn reader(&self) -> FillReader<'s> {
        FillReader { shared: self.shared.clone() }
    }

    /// Sets the entry's tags, replacing those set before.
    pub fn set_tags(&mut self, tags: &[&[u8]]) {
        let bytes = self.store().tag_bytes(self.ns, tags);
        self.too_many_tags = bytes.is_err();
        self.tags = bytes.unwrap_or_default();
    }

    /// Makes the entry visible, replacing the old one. `expires` overrides the expiry in
    /// [`FillOptions`].
    ///
    /// # Errors
    /// `TooLarge`, `Full`: nothing is stored (followers still get every byte written).
    pub fn commit(self, expires: Option<Ms>, now: Ms) -> Result<u64, PutError> {
        let put = Put {
            flags: self.options.flags,
            expires: expires.or(self.options.expires),
            ..Put::default()
        };
        self.commit_put(put, If::Always, now)
    }

    /// [`Fill::commit`] with all attributes of a write: `put` gives flags, expiry, version, stale
    /// and, if it has any, the tags; its value is ignored, as are the flags and the expiry of
    /// [`FillOptions`].
    ///
    /// # Errors
    /// As [`Store::put`]: nothing is stored (followers still get every byte written).
    pub fn commit_put(
        mut self,
        put: Put<'_>,
        condition: If<'_, '_>,
        now: Ms,
    ) -> Result<u64, PutError> {
        let hash = self.store().hash(self.ns, &self.key)?;
        if !put.tags.is_empty() {
            self.set_tags(put.tags);
        }
        if self.too_many_tags {
            return Err(PutError::TooLarge);
        }
        let (key, tags) = (std::mem::take(&mut self.key), std::mem::take(&mut self.tags));
        let word = put.word(now);
        let Put { flags, expires, version, .. } = put;
        let ns = self.ns;
        let request = Request {
            ns,
            key: &key,
            hash,
            flags,
            expires,
            tags: &tags,
            version,
            word,
            condition,
            now,
        };
        self.commit_request(&request)
    }

    pub(crate) fn commit_request(mut self, request: &Request<'_>) -> Result<u64, PutError> {
        if let Some(e) = self.failed {
            return Err(e);
        }
        let result = self.store_entry(request);
        self.finished = true;
        // The bytes are complete, whether or not the entry could be stored.
        self.shared.progress.finish(true);
        result
    }

    fn store_entry(&self, request: &Request<'_>) -> Result<u64, PutError> {
        let store = self.store();
        let total = self.shared.progress.written();
        let prior = store.prior(request)?;
        let mut plan = Plan::new(&self.shared, total);
        let mut draft = request.draft(prior, total, store.roomy());
        let joined = draft.size(request.now) <= store.segments.size();
        if joined {
            plan.join();
        }
        let ids: Vec<u8> = plan.middle.iter().flat_map(|s| s.to_ne_bytes()).collect();
        draft.head = plan.head.iter().map(|p| p.len()).sum();
        draft.local = draft.head + plan.tail.iter().map(|p| p.len()).sum::<usize>();
        draft.pieces = &ids;
        let size = draft.size(request.now);
        if size > store.segments.size() {
            return Err(PutError::TooLarge);
        }
        let group = store.shares.of(request.ns);
        let bytes = (size + plan.middle.len() * store.segments.size()) as u64;
        store.admit(group, bytes)?;
        // A large value makes room below its group's ceiling before it is linked: older entries go
        // first.
        store.enforce(group, if plan.middle.is_empty() { 0 } else { bytes }, request.now)?;
        // Until they are linked or taken back, nobody else knows whose whole segments they are.
        let here = store.leaving.hold();
        let mut space = store.space(prior.queue, group, size, draft.bytes(), request.now)?;
        plan.head.extend(&plan.tail);
        let version = draft.write(&store.segments, &mut space, request.now, &plan.head);
        self.hand_over(&plan.middle, prior.queue, true);
        let result = store.link(request, &Written { draft: &draft, size, version }, space);
        if result.is_err() {
            self.hand_over(&plan.middle, prior.queue, false);
        }
        drop(here);
        if result.is_ok() && !plan.middle.is_empty() {
            // Other threads may have done the same at once. Memory that cannot be freed now is
            // freed later.
            let _ = store.enforce(group, 0, request.now);
        }
        result
    }

    /// Gives whole segments to the entry (before it can be found), or takes them back when it was
    /// not stored.
    fn hand_over(&self, middle: &[u32], queue: Kind, given: bool) {
        let Some(first) = middle.first() else { return };
        *self.shared.anchor.lock() = given.then(|| self.store().segments.pins.pin(*first));
        for piece in self.shared.pieces.write().iter_mut() {
            if let Home::Segment(segment, belongs) = &mut piece.home {
                *belongs = given && middle.contains(segment);
                if middle.contains(segment) {
                    let kind = if given { Kind::Chain } else { staging::KIND };
                    self.store().segments.set_kind(*segment, kind);
                }
            }
        }
        let change = middle.len() as isize;
        let group = self.store().shares.of(self.ns);
        self.store().queues.lock().chained(queue, group, if given { change } else { -change });
    }
}

impl Drop for Fill<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.shared.progress.finish(false);
        }
    }
}

/// How the staged bytes become an entry.
struct Plan<'a> {
    head: Vec<&'a [u8]>,
    middle: Vec<u32>,
    /// The bytes of `middle`.
    whole: Vec<&'a [u8]>,
    tail: Vec<&'a [u8]>,
}

impl<'a> Plan<'a> {
    fn new(shared: &'a Shared<'_>, total: u64) -> Plan<'a> {
        let mut plan =
            Plan { head: Vec::new(), middle: Vec::new(), whole: Vec::new(), tail: Vec::new() };
        let size = shared.store.segments.size();
        // The least free space of the record beside the head.
        let mut room = size / 4;
        for piece in shared.pieces.read().iter().filter(|p| p.start < total) {
            let bytes = shared.chunk_at(piece.start);
            match piece.home {
                // The last segment may be filled in part; a short rest is better stored in the
                // record.
                Home::Segment(segment, _) if bytes.len() == size || bytes.len() > room => {
                    plan.middle.push(segment);
                    plan.whole.push(bytes);
                }
                _ if plan.middle.is_empty() => {
                    plan.head.push(bytes);
                    let head: usize = plan.head.iter().map(|p| p.len()).sum();
                    room = (size - size / 8).saturating_sub(head).min(size / 4);
                }
                _ => {
                    room = room.saturating_sub(bytes.len());
                    plan.tail.push(bytes);
                }
            }
        }
        plan
    }

    /// Puts all bytes into the record.
    fn join(&mut self) {
        self.head.append(&mut self.whole);
        self.head.append(&mut self.tail);
        self.middle.clear();
    }
}

/// Follows a fill. Keeps its bytes where they are, also after commit, abandon or eviction.
#[derive(Clone, Debug)]
pub struct FillReader<'s> {
    shared: Arc<Shared<'s>>,
}

impl FillReader<'_> {
    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.shared.progress.written()
    }

    /// The written bytes from `offset` that lie in one piece; empty when there are none yet.
    pub fn chunk_at(&self, offset: u64) -> &[u8] {
        self.shared.chunk_at(offset)
    }

    /// Ready with `Grown` when there is more than `offset`, with `Done` or `Aborted` when `offset`
    /// is the end and no more comes; otherwise wakes the context's task when that changes.
    pub fn poll(&self, offset: u64, cx: &mut Context<'_>) -> Poll<FillState> {
        self.shared.progress.poll(offset, cx)
    }
}
