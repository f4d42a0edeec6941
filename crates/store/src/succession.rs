//! The memory given to another process, with every entry in it: a program that is replaced loses
//! nothing.
//!
//! The segments lie in memory with a descriptor, which both processes map; so do the counters of
//! pins, a half for each of the two. Everything else (tables, queues, layouts of the index) is
//! written into an image, from which the successor makes its own.
//!
//! | a segment | belongs, once given, to |
//! |---|---|
//! | free, of the index, of tag lists, of a queue, a middle piece of an entry | the successor |
//! | some that were kept free; those of fills and loans under way, and in limbo | the giver, until its end |
//!
//! The giver goes on with what it keeps, as a small store that was just emptied: lookups miss,
//! fills under way are completed there. It writes to no segment that it has given. Entries that it
//! has pinned stay where they are: the successor sees the pins, as those of its own readers. When
//! the giver has ended, however, the successor takes the rest ([`Store::predecessor_ended`]).
//!
//! A segment is given while every lock is held and no record is being written, so that it lies in
//! exactly one of the lists above. Work that holds a segment in no list (evicting, compacting,
//! committing whole segments) holds `leaving` meanwhile. A reader without a lock that has found a
//! slot before finds it unchanged after its pin, or misses.

use crate::away::HIDES;
use crate::index::LockedIndex;
#[cfg(not(miri))]
use crate::map::Map;
#[cfg(not(miri))]
use crate::pin::PinTable;
use crate::segment::{Kind, LOC_BITS, OFFSET_BITS};
use crate::staging;
use crate::store::{Plan, Store};
use crate::types::{Ms, NAMESPACES, OpenError, Options};
#[cfg(not(miri))]
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The layout of records, index and image. A change of any of them is a new number: memory of
/// another is not taken over.
const LAYOUT: u64 = FIRST_LAYOUT + (1 << 32);
/// The layout of a memory that has stubs (`away.rs`): others do not understand it.
const AWAY_LAYOUT: u64 = LAYOUT + (1 << 32);
/// The layout without parts that have room (`edit.rs`), which is understood, too.
const FIRST_LAYOUT: u64 =
    1 << 32 | (OFFSET_BITS as u64) << 16 | (LOC_BITS as u64) << 8 | NAMESPACES as u64;
/// Tries before a busy store is reported.
const TRIES: usize = 64;
/// Segments that the giver keeps: this part (1/n), and bounds.
const KEPT: (usize, usize, usize) = (64, 12, 64);

/// Why memory was not given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GiveError {
    /// The store was opened without [`Options::shared`].
    #[error("the memory is private")]
    Private,
    /// It was given already.
    #[error("the memory was given already")]
    Given,
    /// The process that gave it here has not ended.
    #[error("the process before this one has not ended")]
    Predecessor,
    /// There is no memory to go on with.
    #[error("too much of the memory is in use")]
    Full,
    /// Writes are under way: try again.
    #[error("writes are under way")]
    Busy,
}

/// The place of a process among those that have had the memory.
#[derive(Debug, Default)]
pub(crate) struct Succession {
    /// The half of the pins.
    second: bool,
    given: AtomicBool,
    /// The one before has not ended.
    predecessor: AtomicBool,
}

impl Succession {
    pub(crate) fn new(second: bool) -> Succession {
        Succession { second, ..Succession::default() }
    }
}

/// Numbers for the successor.
#[derive(Debug, Default)]
pub(crate) struct Image(Vec<u8>);

impl Image {
    pub(crate) fn put(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Numbers behind their number.
    pub(crate) fn list(&mut self, numbers: impl IntoIterator<Item = u64>) {
        let at = self.0.len();
        self.put(0);
        numbers.into_iter().for_each(|number| self.put(number));
        let count = (self.0.len() - at) as u64 / 8 - 1;
        self.0[at..at + 8].copy_from_slice(&count.to_le_bytes());
    }

    /// The same for small ones.
    pub(crate) fn words(&mut self, numbers: impl IntoIterator<Item = u32>) {
        let at = self.0.len();
        self.put(0);
        numbers.into_iter().for_each(|number| self.0.extend_from_slice(&number.to_le_bytes()));
        let count = (self.0.len() - at) as u64 / 4 - 2;
        self.0[at..at + 8].copy_from_slice(&count.to_le_bytes());
    }
}

/// The numbers as the successor reads them, in the same order. `None`: it is no image.
pub(crate) struct Saved<'a>(&'a [u8]);

impl Saved<'_> {
    pub(crate) fn take(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    pub(crate) fn list(&mut self) -> Option<Vec<u64>> {
        let bytes = usize::try_from(self.take()?).ok()?.checked_mul(8)?;
        let (numbers, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        let number = |n: &[u8]| u64::from_le_bytes(std::array::from_fn(|i| n[i]));
        Some(numbers.chunks_exact(8).map(number).collect())
    }

    pub(crate) fn words(&mut self) -> Option<Vec<u32>> {
        let bytes = usize::try_from(self.take()?).ok()?.checked_mul(4)?;
        let (numbers, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        let number = |n: &[u8]| u32::from_le_bytes(std::array::from_fn(|i| n[i]));
        Some(numbers.chunks_exact(4).map(number).collect())
    }
}

impl Store {
    /// The descriptor of the memory, for another process; `None`: it is private.
    #[cfg(not(miri))]
    pub fn memory(&self) -> Option<BorrowedFd<'_>> {
        self.segments.map.memory()
    }

    /// Whether it could be given now.
    ///
    /// # Errors
    /// Why not.
    pub fn may_give(&self) -> Result<(), GiveError> {
        let state = &self.succession;
        #[cfg(not(miri))]
        if self.memory().is_none() {
            return Err(GiveError::Private);
        }
        if state.given.load(Ordering::SeqCst) {
            return Err(GiveError::Given);
        }
        if state.predecessor.load(Ordering::SeqCst) {
            return Err(GiveError::Predecessor);
        }
        Ok(())
    }

    /// Gives all entries away. The result is for [`Store::take_over`] of the process that has the
    /// descriptor; this store is empty, and small, from now on. Evicts a few segments for that.
    ///
    /// # Errors
    /// Nothing has changed, but for evictions.
    pub fn give(&self, now: Ms) -> Result<Vec<u8>, GiveError> {
        self.may_give()?;
        self.give_to(now, &mut |_| {})
    }

    /// [`Store::give`], private memory too. `told` gets the segments that were given, but for free
    /// ones: those of the index and the tag lists, middle pieces, then those of the queues, the
    /// main queue's first.
    pub(crate) fn give_to(
        &self,
        now: Ms,
        told: &mut dyn FnMut(Vec<u32>),
    ) -> Result<Vec<u8>, GiveError> {
        if self.succession.given.load(Ordering::SeqCst) {
            return Err(GiveError::Given);
        }
        let number = (self.segments.count() / KEPT.0).clamp(KEPT.1, KEPT.2).max(3 * self.reserve());
        let mut kept = Vec::with_capacity(number);
        while kept.len() < number {
            match self.take_segment(staging::KIND, 0, now) {
                Ok(segment) => kept.push(segment),
                Err(_) => break,
            }
        }
        let given = match kept.split_first() {
            Some((first, rest)) if kept.len() == number => {
                self.segments.zero(*first);
                let mut tries = (0..TRIES).filter_map(|_| {
                    let given = self.try_give(*first, rest, told);
                    if given.is_none() {
                        std::thread::yield_now();
                    }
                    given
                });
                tries.next().ok_or(GiveError::Busy)
            }
            _ => Err(GiveError::Full),
        };
        if given.is_err() {
            kept.iter().for_each(|segment| self.segments.release(*segment, *segment));
        }
        given
    }

    /// `None`: a write is under way.
    fn try_give(
        &self,
        first: u32,
        kept: &[u32],
        told: &mut dyn FnMut(Vec<u32>),
    ) -> Option<Vec<u8>> {
        let _nobody = self.leaving.nobody()?;
        let mut index = self.index.lock_all();
        let logs = || self.small.iter().chain(&self.main);
        let mut open: Vec<_> = logs().map(|log| (log, log.lock())).collect();
        let busy = |segment: &u32| self.segments.heat(*segment).busy();
        if open.iter().filter_map(|(_, open)| open.segment).any(|segment| busy(&segment))
            || self.queues.lock().segments().any(|segment| busy(&segment))
        {
            return None;
        }
        for (log, open) in &mut open {
            let mut sealed = |segment| self.sealed(log, segment);
            crate::log::Log::close_locked(open, &self.segments, &mut sealed);
        }
        told(self.in_order(&index));
        let image = self.part(&mut index, first, kept);
        self.succession.given.store(true, Ordering::SeqCst);
        Some(image.0)
    }

    /// The segments that are given, see [`Store::give_to`].
    fn in_order(&self, index: &LockedIndex<'_>) -> Vec<u32> {
        let mut order = self.index.page_segments(index);
        order.extend_from_slice(self.tags.lock(&self.segments).pages());
        let all = 0..self.segments.count() as u32;
        order.extend(all.filter(|segment| self.segments.kind(*segment) == Kind::Chain));
        let mut queued: Vec<_> = self.queues.lock().with_rows().collect();
        // Entries of the main queue were asked for again; then the younger ones first.
        queued.sort_by_key(|(kind, _, segment)| {
            (*kind != Kind::Main, std::cmp::Reverse(self.segments.serial(*segment)))
        });
        order.extend(queued.into_iter().map(|(_, _, segment)| segment));
        order
    }

    /// Writes the image, and empties this store. All stripes and logs are locked, and no log has an
    /// open segment.
    fn part(&self, index: &mut LockedIndex<'_>, first: u32, kept: &[u32]) -> Image {
        let segments = &self.segments;
        let mut tags = self.tags.lock(segments);
        let mut queues = self.queues.lock();
        let mut pool = segments.lock();
        let mut given: Vec<bool> =
            (0..segments.count()).map(|n| segments.kind(n as u32) == Kind::Chain).collect();
        let pages = self.index.page_segments(index);
        let listed = pages.iter().chain(tags.pages()).chain(segments.free(&pool)).copied();
        listed.chain(queues.segments()).for_each(|segment| given[segment as usize] = true);
        let mut out = Image::default();
        let o = &self.options;
        let parts = o.parts.map_or(u64::MAX, |ns| u64::from(ns.0));
        let layout = if self.away.has_stubs() { AWAY_LAYOUT } else { LAYOUT };
        [layout, o.budget as u64, o.threads as u64, o.seed, u64::from(o.evict), parts]
            .into_iter()
            .for_each(|number| out.put(number));
        out.put(u64::from(!self.succession.second));
        self.shares.save(&mut out);
        segments.save(&mut out, &given);
        self.index.save(index, &mut out);
        queues.save(&mut out);
        self.learnt.save(&mut out);
        self.ghost.save(&mut out);
        self.stats.save(&mut out);
        tags.save(&mut out);
        for flushes in [&self.flushed, &self.flushing] {
            out.list(flushes.iter().map(|number| number.load(Ordering::SeqCst) & !HIDES));
        }
        if layout == AWAY_LAYOUT {
            self.away.save(&mut out);
        }
        self.index.reset(index, first);
        segments.set_kind(first, Kind::Index);
        segments.give(&mut pool, &given, kept);
        queues.clear();
        tags.clear();
        self.stats.clear_items();
        self.shares.clear();
        self.away.recount(0);
        out
    }

    /// A store with the entries that another process has given. Budget, threads and seed are those
    /// of the giver.
    ///
    /// # Errors
    /// The memory is of another layout, or was made for other options.
    #[cfg(not(miri))]
    pub fn take_over(o: Options, memory: OwnedFd, image: &[u8]) -> Result<Store, OpenError> {
        let o = Options { shared: true, ..o };
        let store = Store::described(o, image, |o, plan, second| {
            let (bytes, pins) = (plan.count << plan.shift, PinTable::size(plan.count, o.threads));
            let map = Map::attach(memory, bytes, 2 * pins)
                .map_err(|error| OpenError::Memory { bytes, error })?;
            Ok(Store::of_shared(o, plan, map, second))
        })?;
        store.succession.predecessor.store(true, Ordering::SeqCst);
        Ok(store)
    }

    /// A store as an image describes it, without the bytes of its segments.
    pub(crate) fn from_image(o: Options, image: &[u8]) -> Result<Store, OpenError> {
        Store::described(o, image, |o, plan, _| Store::of_plan(o, plan))
    }

    fn described(
        o: Options,
        image: &[u8],
        open: impl FnOnce(Options, Plan, bool) -> Result<Store, OpenError>,
    ) -> Result<Store, OpenError> {
        const BROKEN: OpenError = OpenError::Succession("the description of the memory is damaged");
        let mut from = Saved(image);
        let mut take = || from.take().ok_or(BROKEN);
        let layout = take()?;
        if !matches!(layout, AWAY_LAYOUT | LAYOUT | FIRST_LAYOUT) {
            return Err(OpenError::Succession("the memory has another layout"));
        }
        let (budget, threads, seed, evict, parts) = (take()?, take()?, take()?, take()?, take()?);
        let second = take()? != 0;
        let same =
            evict == u64::from(o.evict) && parts == o.parts.map_or(u64::MAX, |ns| u64::from(ns.0));
        if !same || budget < o.budget as u64 {
            return Err(OpenError::Succession(
                "the memory was made for less, or for another use of it",
            ));
        }
        let (budget, threads) = (budget as usize, threads as usize);
        let o = Options { budget, threads, seed, ..o };
        let plan = Plan::of(&o)?;
        let store = open(o, plan, second)?;
        if store.shares.load(&mut from).is_none() {
            return Err(OpenError::Succession("the shares of the memory are others"));
        }
        store.load(&mut from, layout).ok_or(BROKEN)?;
        Ok(store)
    }

    fn load(&self, from: &mut Saved<'_>, layout: u64) -> Option<()> {
        self.segments.load(from)?;
        self.index.load(from)?;
        self.queues.lock().load(from, self.segments.count())?;
        self.learnt.load(from)?;
        self.ghost.load(from)?;
        self.stats.load(from)?;
        self.tags.lock(&self.segments).load(from)?;
        for flushes in [&self.flushed, &self.flushing] {
            for (to, number) in flushes.iter().zip(from.list()?) {
                to.store(number, Ordering::SeqCst);
            }
        }
        if layout == AWAY_LAYOUT {
            self.load_stubs(from)?;
        }
        from.0.is_empty().then_some(())
    }

    /// The process that was to take the memory over has ended without having done so: it is this
    /// store's again, empty.
    pub fn take_back(&self) {
        if self.succession.given.swap(false, Ordering::SeqCst) {
            self.segments.take_back();
        }
    }

    /// The process that gave the memory has ended: what it kept is free.
    pub fn predecessor_ended(&self) {
        if self.succession.predecessor.swap(false, Ordering::SeqCst) {
            self.segments.predecessor_ended();
        }
    }
}
