//! The store itself: its parts, opening, and the removal of entries.
//!
//! Locks, in the order in which they may be taken: a stripe's, then a log's or the tag lists', then
//! the leaves (queues, pool, staging). Nothing evicts while it holds any of them, and no stripe is
//! looked up while a log or the tag lists are locked. A change of the budget is before all of them.

use crate::away::{AwayReceiver, HIDES};
use crate::ghost::Ghost;
use crate::handover::Receiver;
use crate::hash::{Hash, Hasher};
use crate::held;
use crate::index::{Index, Locked};
use crate::item::Record;
use crate::loan::Lent;
use crate::log::Log;
use crate::map::Map;
use crate::observe::Observer;
use crate::pin::PinTable;
use crate::queues::{CLASSES, Learnt, Queues};
use crate::segment::{Kind, Loc, PER_SEGMENT, Segments, segment_shift};
use crate::shares::Shares;
use crate::staging::Staging;
use crate::stats::{Count, Stats};
use crate::succession::Succession;
use crate::tags::Tags;
use crate::types::{
    MAX_KEY, Ms, NAMESPACES, Namespace, NamespaceStats, OpenError, Options, PutError, Totals,
};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const LEAST: usize = 8 << 20;
const MOST: usize = 512 << 30;
/// Milliseconds for which a read entry counts as read recently, when it is evicted.
const RECENT: Ms = 60_000;

/// See the crate.
#[derive(Debug)]
pub struct Store {
    pub(crate) options: Options,
    pub(crate) segments: Segments,
    pub(crate) index: Index,
    pub(crate) hasher: Hasher,
    pub(crate) ghost: Ghost,
    pub(crate) queues: Mutex<Queues>,
    pub(crate) learnt: Learnt,
    pub(crate) shares: Shares,
    /// Sets of logs in each queue: threads take turns.
    pub(crate) sets: usize,
    /// Size classes by which entries are sorted.
    pub(crate) classes: usize,
    /// `sets` times a log for each group and class.
    pub(crate) small: Box<[Log]>,
    pub(crate) main: Box<[Log]>,
    pub(crate) stats: Stats,
    pub(crate) tags: Tags,
    pub(crate) staging: Staging,
    /// Per namespace: entries with a lower serial are flushed. See also [`HIDES`].
    pub(crate) flushed: [AtomicU64; NAMESPACES],
    /// The value of [`NamespaceStats::flushed`] when all entries of the last flush are swept.
    pub(crate) flushing: [AtomicU64; NAMESPACES],
    /// Position where the next sweep continues.
    pub(crate) swept: AtomicU64,
    /// Serial of the next segment at the last sweep.
    pub(crate) swept_serial: AtomicU64,
    pub(crate) observer: Observer,
    /// Segments by which the budget is smaller than that of the options.
    pub(crate) withheld: Mutex<Lent>,
    /// Their number.
    pub(crate) withheld_segments: AtomicUsize,
    pub(crate) receiver: Receiver,
    pub(crate) away: AwayReceiver,
    /// Held for reading while a segment is in no list that says whose it is, and while parts change
    /// together.
    pub(crate) leaving: Leaving,
    pub(crate) succession: Succession,
    bookkeeping: usize,
}

/// See [`Store::leaving`]. On a cache line of its own: each commit of a collection takes it, by
/// any thread.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Leaving(RwLock<()>);

impl Leaving {
    pub(crate) fn hold(&self) -> RwLockReadGuard<'_, ()> {
        self.0.read_recursive()
    }

    /// Nobody holds it from here on. `None`: somebody does.
    pub(crate) fn nobody(&self) -> Option<RwLockWriteGuard<'_, ()>> {
        self.0.try_write()
    }
}

/// Why an entry was removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gone {
    Replaced,
    Deleted,
    Evicted,
    /// It had expired, or a flush had hidden it.
    Outdated,
}

/// Fixed bookkeeping for a budget, in bytes.
fn bookkeeping(o: &Options) -> usize {
    let segments = o.budget >> segment_shift(o.budget);
    segments * PER_SEGMENT
        + PinTable::size(segments, o.threads) * if o.shared { 2 } else { 1 }
        + Ghost::size(o.budget)
        + Stats::size(o.threads)
        + Tags::size(o.budget)
        + Shares::size(&o.shares, o.threads)
        + 256 * 128
}

/// The division of a budget.
pub(crate) struct Plan {
    pub(crate) shares: Shares,
    pub(crate) shift: u32,
    /// Segments.
    pub(crate) count: usize,
    bookkeeping: usize,
}

impl Plan {
    pub(crate) fn of(o: &Options) -> Result<Plan, OpenError> {
        if !(LEAST..=MOST).contains(&o.budget) {
            return Err(OpenError::Budget { budget: o.budget, least: LEAST, most: MOST });
        }
        let shares = Shares::new(&o.shares, o.budget, o.threads)?;
        let shift = segment_shift(o.budget);
        let bookkeeping = bookkeeping(o);
        // A budget of 8 MiB has bookkeeping of less than 1 MiB with any number of threads up to 64;
        // refuse more.
        let count = o.budget.saturating_sub(bookkeeping) >> shift;
        if count < 16 {
            return Err(OpenError::Budget {
                budget: o.budget,
                least: bookkeeping + (16 << shift),
                most: MOST,
            });
        }
        Ok(Plan { shares, shift, count, bookkeeping })
    }
}

impl Store {
    /// Maps the budget and opens an empty store.
    ///
    /// # Errors
    /// A budget outside the valid range, or memory that the system refuses.
    pub fn open(o: Options) -> Result<Store, OpenError> {
        let plan = Plan::of(&o)?;
        Store::of_plan(o, plan)
    }

    /// An empty store.
    pub(crate) fn of_plan(o: Options, plan: Plan) -> Result<Store, OpenError> {
        let bytes = plan.count << plan.shift;
        let refused = |error| OpenError::Memory { bytes, error };
        #[cfg(not(miri))]
        if o.shared {
            let pins = PinTable::size(plan.count, o.threads);
            let map = Map::open_shared(bytes, 2 * pins).map_err(refused)?;
            return Ok(Store::of_shared(o, plan, map, false));
        }
        let map = Map::open(bytes).map_err(refused)?;
        let pins = PinTable::new(plan.count, o.threads);
        Ok(Store::assemble(o, plan, map, pins, Succession::default()))
    }

    /// A store in memory that other processes can map. `second`: see [`PinTable::mapped`].
    pub(crate) fn of_shared(o: Options, plan: Plan, map: Map, second: bool) -> Store {
        // SAFETY: behind the segments there is room for two tables, which are used for nothing
        // else; it is aligned as segments are, and the map lives as long as the table.
        let pins = unsafe { PinTable::mapped(map.behind(), plan.count, o.threads, second) };
        Store::assemble(o, plan, map, pins, Succession::new(second))
    }

    fn assemble(o: Options, plan: Plan, map: Map, pins: PinTable, succession: Succession) -> Store {
        let Plan { shares, shift, count, bookkeeping } = plan;
        let bytes = count << shift;
        let segments = Segments::new(map, pins, count, shift);
        let first = segments.take(Kind::Index, 0).unwrap_or_default();
        // An open segment per queue and log: at most about one part in 128 of the memory is in open
        // segments.
        let groups = shares.groups();
        let sets = (count / 256 / groups).clamp(1, o.threads.clamp(1, 16));
        let rows = groups * CLASSES;
        let log = |kind| (0..sets * rows).map(|n| Log::new(kind, n % rows)).collect();
        Store {
            index: Index::new(&segments, first),
            hasher: Hasher::new(o.seed),
            ghost: Ghost::new(o.budget, bytes as u64 / 10 * 9),
            queues: Mutex::new(Queues::new(count, groups)),
            shares,
            sets,
            classes: Store::classes_for(count, groups, o.policy),
            learnt: Learnt::new(),
            small: log(Kind::Small),
            main: log(Kind::Main),
            stats: Stats::new(o.threads),
            tags: Tags::new(o.budget),
            staging: Staging::new(),
            flushed: Default::default(),
            flushing: Default::default(),
            swept: AtomicU64::new(0),
            swept_serial: AtomicU64::new(0),
            observer: Observer::default(),
            withheld: Mutex::default(),
            withheld_segments: AtomicUsize::new(0),
            receiver: Receiver::default(),
            away: AwayReceiver::default(),
            leaving: Leaving(RwLock::new(())),
            succession,
            bookkeeping,
            options: o,
            segments,
        }
    }

    /// Hides every entry stored in `ns` before this call; its memory is freed step by step.
    pub fn flush(&self, ns: Namespace, _now: Ms) {
        let Some(flushed) = self.flushed.get(usize::from(ns.0)) else { return };
        // In this order: records stored after this call lie in a segment opened after the serial
        // was read.
        let serial = self.segments.next_serial();
        for log in self.small.iter().chain(&self.main) {
            log.close(&self.segments, &mut |segment| self.sealed(log, segment));
        }
        let later = |old: u64| Some((old & !HIDES).max(serial) | old & HIDES);
        let _ = flushed.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
        let stats = self.stats(ns);
        self.flushing[usize::from(ns.0)].store(stats.items + stats.flushed, Ordering::Relaxed);
        self.look_at_all();
    }

    /// Has the next sweep look at every segment.
    pub(crate) fn look_at_all(&self) {
        for segment in 0..self.segments.count() as u32 {
            self.segments.heat(segment).expiry.store(0, Ordering::Relaxed);
        }
    }

    /// The seed of its hashes: of a store that was taken over, or comes of a snapshot, that of the
    /// one before.
    pub fn seed(&self) -> u64 {
        self.options.seed
    }

    /// Figures of one namespace.
    pub fn stats(&self, ns: Namespace) -> NamespaceStats {
        self.stats.read(ns)
    }

    /// Entries of a namespace, without those that were flushed and not yet swept (expired entries
    /// not yet swept are counted). Inexact by the entries written and swept while a flush runs.
    pub fn live(&self, ns: Namespace) -> u64 {
        let stats = self.stats(ns);
        let flushing =
            self.flushing.get(usize::from(ns.0)).map_or(0, |total| total.load(Ordering::Relaxed));
        stats.items.saturating_sub(flushing.saturating_sub(stats.flushed))
    }

    /// Figures of the whole store.
    pub fn totals(&self) -> Totals {
        let number = |kind| self.segments.number(kind) as u64;
        let withheld = self.withheld_segments.load(Ordering::Relaxed) as u64;
        Totals {
            budget: self.options.budget as u64 - withheld * self.segments.size() as u64,
            bookkeeping: self.bookkeeping as u64,
            segment: self.segments.size() as u64,
            segments: self.segments.count() as u64 - withheld,
            free: number(Kind::Free),
            index: number(Kind::Index),
            tags: number(Kind::Tags),
            staging: number(Kind::Staging).saturating_sub(withheld),
            chained: number(Kind::Chain),
            small: number(Kind::Small),
            main: number(Kind::Main),
            limbo: number(Kind::Limbo),
            slots: self.index.slots() as u64,
        }
    }

    /// The smallest budget that a store of these options works with.
    pub(crate) fn least_budget(&self) -> u64 {
        (self.bookkeeping + (16 << segment_shift(self.options.budget))) as u64
    }

    /// Largest value that this store accepts, in bytes.
    pub fn max_value(&self) -> u64 {
        // Half of the memory: a value must not evict everything else, and needs space beside its
        // predecessor.
        let half = self.segments.count() / 2 * self.segments.size();
        self.options.max_value.min(half as u64)
    }

    /// By how much a group's records may exceed its ceiling, in bytes: the size of its open
    /// segments.
    pub fn share_slack(&self) -> u64 {
        (self.segments.size() * self.sets * 2 * self.classes) as u64
    }

    /// Do records keep a field for an expiry they do not have? Without eviction they do: a full
    /// store has no place to move a record that gets one.
    #[inline]
    pub(crate) fn roomy(&self) -> bool {
        !self.options.evict
    }

    /// The hash of a key, if the key may be stored.
    #[inline]
    pub(crate) fn hash(&self, ns: Namespace, key: &[u8]) -> Result<Hash, PutError> {
        if !self.takes(ns) || key.len() > MAX_KEY {
            return Err(PutError::TooLarge);
        }
        Ok(self.hasher.key(ns, key))
    }

    /// May entries of this namespace be lent? Those of parts may not: they change where they lie
    /// (`edit.rs`).
    #[inline]
    pub(crate) fn takes(&self, ns: Namespace) -> bool {
        usize::from(ns.0) < NAMESPACES && self.options.parts != Some(ns)
    }

    /// The record that a slot under this thread's lock points to.
    pub(crate) fn record<'a>(&'a self, locked: &'a Locked<'_>, loc: Loc) -> Record<'a> {
        held::locked(&self.segments, locked, loc)
    }

    /// Is it hidden, by its expiry or a flush?
    #[inline]
    pub(crate) fn outdated(&self, record: &Record<'_>, now: Ms) -> bool {
        record.expired(now) || self.is_flushed(record)
    }

    #[inline]
    pub(crate) fn is_flushed(&self, record: &Record<'_>) -> bool {
        let flushed = self.flushed[usize::from(record.ns().0)].load(Ordering::Acquire);
        flushed != 0
            && record.serial() < flushed
            && (flushed & HIDES == 0 || self.is_hidden(record, flushed))
    }

    /// Updates the counters for a record that was just unlinked, under the lock of its stripe.
    pub(crate) fn retire(&self, record: &Record<'_>, why: Gone, now: Ms) {
        let ns = record.ns();
        self.stats.sub(ns, Count::Items, 1);
        self.stats.sub(ns, Count::Bytes, record.bytes_of_entry());
        self.retire_replaced(record, why, now);
    }

    /// [`Store::retire`] for a record replaced by another of the same key: the number of entries
    /// stays, and the caller counts their bytes.
    pub(crate) fn retire_replaced(&self, record: &Record<'_>, why: Gone, now: Ms) {
        let ns = record.ns();
        let size = record.size();
        let pieces = record.pieces().len() / 4;
        self.segments.leave(record.loc().segment(), size, pieces);
        self.shares.sub(ns, size + pieces * self.segments.size());
        self.tags.died(&self.segments, record.tags());
        self.drop_pieces(record);
        if record.is_away() {
            self.away.left(size);
        }
        if why != Gone::Replaced {
            self.count_gone(record, why, now);
        }
        if why != Gone::Evicted {
            self.stats.add(ns, Count::Reclaimed, size as u64);
        }
    }

    fn count_gone(&self, record: &Record<'_>, why: Gone, now: Ms) {
        let ns = record.ns();
        let unfetched = u64::from(!record.word().fetched());
        match why {
            Gone::Replaced => {}
            Gone::Deleted => self.stats.add(ns, Count::Deleted, 1),
            Gone::Evicted => {
                self.stats.add(ns, Count::Evictions, 1);
                self.stats.add(ns, Count::EvictedUnfetched, unfetched);
                let age = now.saturating_sub(record.word().last_access(record.base()));
                let recent = unfetched == 0 && age < RECENT;
                self.stats.add(ns, Count::EvictedRecent, u64::from(recent));
                self.stats.evicted(ns, age);
            }
            Gone::Outdated if self.is_flushed(record) => self.stats.add(ns, Count::Flushed, 1),
            Gone::Outdated => {
                self.stats.add(ns, Count::Expired, 1);
                self.stats.add(ns, Count::ExpiredUnfetched, unfetched);
            }
        }
    }

    /// Frees the middle of a large value.
    fn drop_pieces(&self, record: &Record<'_>) {
        let Some(first) = record.piece(0) else { return };
        let number = record.pieces().len() / 4;
        let (kind, group) =
            (self.segments.kind(record.loc().segment()), self.shares.of(record.ns()));
        self.queues.lock().chained(kind, group, -(number as isize));
        for piece in record.pieces().chunks_exact(4) {
            self.segments.release(u32::from_ne_bytes(std::array::from_fn(|i| piece[i])), first);
        }
    }
}
