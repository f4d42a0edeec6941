//! Values that lie elsewhere. Of one namespace, an entry whose value is long leaves a *stub* when
//! it is evicted: its key, client's bits, expiry, version and marks stay, and its value goes to a
//! receiver, which keeps it on a disk. Everything that needs no value works on a stub as on any
//! entry; whoever needs it has it brought back first.
//!
//! A stub is a record whose local bytes are a number of the receiver's, [`Away::run`], instead of
//! the value; its whole length is the value's. Readers get no byte of it ([`Entry::chunks`]), and
//! ask [`Entry::elsewhere`]. Evictions keep stubs whose values the receiver has, while all of them
//! take less than half of the memory that their namespace may have. Beyond that, the main queue, in
//! which they are, gives the next victim, and they go as any entry there. A stub without a value
//! goes at the next look at it: by a reader, an eviction, or the sweep, which looks at as many as
//! are made.
//!
//! Stubs that came with the memory of another process are hidden, as if they were flushed, until
//! there is a receiver that can have their values ([`Store::put_away`]); from a process without
//! one they stay hidden for good, since it did not know what it left in place.

use crate::entry::Entry;
use crate::hash::Hash;
use crate::held::{self, Held, Hold};
use crate::index::{Locked, Place, Seen};
use crate::item::{CLAIMED, Draft, Record, STALE};
use crate::log::Space;
use crate::segment::Kind;
use crate::stats::Count;
use crate::store::{Gone, Store};
use crate::succession::{Image, Saved};
use crate::types::{Cause, Ms, NAMESPACES, Namespace, PutError};
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// In [`Store::flushed`]: stubs of the namespace are hidden. Above all serials, so that where there
/// are none, a read has nothing more to compare.
pub(crate) const HIDES: u64 = 1 << 63;
/// Part of the memory (1/n) that stubs may take.
const STUBS: u64 = 2;
/// Most bytes of stubs that one sweep looks at, of records that it walks over for that, and of
/// stubs that are left for later sweeps.
const SWEEP: usize = 1 << 20;
const WALK: usize = 8 << 20;
const MOST_DUE: usize = 64 << 20;
/// Part of the segments that may wait for the receiver.
const WAITING: usize = 16;

type Announce = Box<dyn Fn(&[u8], u64, u64) -> Option<u64> + Send + Sync>;
type Withdraw = Box<dyn Fn(&[u8], u64, u64) + Send + Sync>;
type Has = Box<dyn Fn(&[u8], Elsewhere) -> bool + Send + Sync>;

/// The receiver of values.
pub struct Away {
    /// Entries of this namespace.
    pub ns: Namespace,
    /// The shortest value that goes, in bytes.
    pub least: u64,
    /// A number that no other process has: with [`Elsewhere::number`] it names a value.
    pub run: u64,
    /// Announces the value of a key and a write ([`Entry::written`]) of this length before its
    /// stub is there. Returns a ticket; `None`: it is not taken. Called by the thread that evicts,
    /// without a lock, as are the others: all that they may do to the store is
    /// [`Store::drop_stub`].
    pub announce: Announce,
    /// Takes the value of an entry whose stub is there now, by the ticket of its announcement. A
    /// value that is not kept after all is to take its stub with it.
    pub take: Box<dyn Fn(Entry<'static>, u64) + Send + Sync>,
    /// Ends an announcement: there is no stub.
    pub withdraw: Withdraw,
    /// Whether the value of a key's stub is there, or on its way: else the stub goes.
    pub has: Has,
}

/// The name of a value that lies elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elsewhere {
    /// The [`Away::run`] of the process that gave it away.
    pub run: u64,
    /// The write that made it ([`Entry::written`]).
    pub number: u64,
}

/// An entry whose value lies elsewhere, by its names: it pins nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stub {
    /// Its namespace.
    pub ns: Namespace,
    /// Its key.
    pub key: Box<[u8]>,
    /// Its value.
    pub place: Elsewhere,
}

/// The place of the receiver.
#[derive(Default)]
pub(crate) struct AwayReceiver {
    to: OnceLock<(&'static Store, Away)>,
    /// The namespace of stubs.
    ns: AtomicU8,
    /// Bytes of stubs.
    stubs: AtomicUsize,
    /// Stubs of before this serial are hidden ([`HIDES`]).
    hidden: AtomicU64,
    /// The same in the process that the memory came from.
    hidden_before: AtomicU64,
    /// The sweep does not know of hidden ones yet.
    unswept: AtomicBool,
    /// Bytes of stubs that the sweep is to look at.
    due: AtomicUsize,
    /// The segment at which it goes on.
    looked: AtomicU32,
}

impl AwayReceiver {
    /// A stub of so many bytes is there.
    fn came(&self, size: usize) {
        self.stubs.fetch_add(size, Ordering::Relaxed);
        self.due.fetch_add(2 * size, Ordering::Relaxed);
    }

    /// A stub of so many bytes is gone.
    pub(crate) fn left(&self, size: usize) {
        let less = |stubs: usize| Some(stubs.saturating_sub(size));
        let _ = self.stubs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// A record has moved, to one of so many bytes.
    pub(crate) fn moved(&self, record: &Record<'_>, size: usize) {
        if record.is_away() && record.size() != size {
            self.came(size);
            self.left(record.size());
        }
    }

    /// Stubs take so many bytes.
    pub(crate) fn recount(&self, bytes: usize) {
        self.stubs.store(bytes, Ordering::Relaxed);
    }

    /// Whether memory that is given has stubs.
    pub(crate) fn has_stubs(&self) -> bool {
        self.stubs.load(Ordering::Relaxed) > 0
    }

    /// Writes the numbers that a successor needs, if there are stubs.
    pub(crate) fn save(&self, out: &mut Image) {
        out.put(u64::from(self.ns.load(Ordering::Relaxed)));
        out.put(self.stubs.load(Ordering::Relaxed) as u64);
        out.put(self.hidden.load(Ordering::Relaxed));
    }
}

impl fmt::Debug for AwayReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AwayReceiver({})", self.to.get().is_some())
    }
}

impl fmt::Debug for Away {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Away({}, {})", self.ns, self.least)
    }
}

/// An announced value.
struct Announced<'s, 'r> {
    away: &'s Away,
    key: &'r [u8],
    number: u64,
    ticket: u64,
    /// Its stub is there.
    left: bool,
}

impl Drop for Announced<'_, '_> {
    fn drop(&mut self) {
        if !self.left {
            (self.away.withdraw)(self.key, self.number, self.ticket);
        }
    }
}

/// A stub that is about to take the place of its entry.
pub(crate) struct Coming<'s, 'r> {
    to: &'static Store,
    space: Space<'s>,
    draft: Draft<'r>,
    announced: Announced<'s, 'r>,
}

/// A value that is given away once no lock is held.
pub(crate) struct Leaving<'s>(&'s Away, Entry<'static>, u64);

impl Leaving<'_> {
    pub(crate) fn give(self) {
        (self.0.take)(self.1, self.2);
    }
}

impl Store {
    /// Has values taken away from now on, and stubs that came with the memory found. To be called
    /// before the store is used. False, and nothing changed, if there is a receiver.
    pub fn put_away(&'static self, away: Away) -> bool {
        let ns = away.ns;
        if usize::from(ns.0) >= NAMESPACES || self.away.to.set((self, away)).is_err() {
            return false;
        }
        if self.away.ns.swap(ns.0, Ordering::Relaxed) == ns.0 {
            let hidden = self.away.hidden_before.load(Ordering::Relaxed);
            self.away.hidden.store(hidden, Ordering::Relaxed);
            if hidden == 0 {
                self.flushed[usize::from(ns.0)].fetch_and(!HIDES, Ordering::SeqCst);
            }
        }
        true
    }

    /// Takes stubs over with the memory they are in: they are hidden at first.
    pub(crate) fn load_stubs(&self, from: &mut Saved<'_>) -> Option<()> {
        let ns = u8::try_from(from.take()?).ok().filter(|ns| usize::from(*ns) < NAMESPACES)?;
        self.away.ns.store(ns, Ordering::Relaxed);
        self.away.recount(usize::try_from(from.take()?).ok()?);
        self.away.hidden_before.store(from.take()?, Ordering::Relaxed);
        self.away.hidden.store(self.segments.next_serial(), Ordering::Relaxed);
        self.away.unswept.store(true, Ordering::Relaxed);
        self.flushed[usize::from(ns)].fetch_or(HIDES, Ordering::SeqCst);
        Some(())
    }

    /// [`Store::is_flushed`] for a namespace that has hidden stubs.
    #[cold]
    pub(crate) fn is_hidden(&self, record: &Record<'_>, flushed: u64) -> bool {
        let serial = record.serial();
        let hidden = || serial < self.away.hidden.load(Ordering::Relaxed);
        serial < flushed & !HIDES || (record.is_away() && hidden())
    }

    /// Has the next sweep look for hidden stubs everywhere, once.
    pub(crate) fn sweep_hidden(&self) {
        if !self.away.unswept.load(Ordering::Relaxed) {
            return;
        }
        self.away.unswept.store(false, Ordering::Relaxed);
        if self.away.hidden.load(Ordering::Relaxed) != 0 {
            self.look_at_all();
        }
    }

    /// Takes out stubs without a value, in turn: looks at twice the bytes that were made.
    pub(crate) fn sweep_stubs(&self, now: Ms) {
        let Some((_, away)) = self.away.to.get() else { return };
        let due = self.away.due.swap(0, Ordering::Relaxed).min(MOST_DUE);
        let (mut looked, mut walked, mut turn) = (0, 0, true);
        let count = self.segments.count() as u32;
        for _ in 0..count {
            if looked >= due.min(SWEEP) || walked >= WALK {
                turn = false;
                break;
            }
            let next = |at| Some((at + 1) % count);
            let at = self.away.looked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
            walked += self.sweep_sealed(at.unwrap_or_default(), &mut |record| {
                let Some(place) = elsewhere(record) else { return };
                looked += record.size();
                if !(away.has)(record.key(), place) && self.unlink(record, Gone::Evicted, now) {
                    self.tell(record, Cause::Evicted, now);
                }
            });
        }
        // After a whole turn none is left.
        if !turn {
            self.away.due.fetch_add(due.saturating_sub(looked), Ordering::Relaxed);
        }
    }

    /// Calls `f` with the records of a sealed segment of the main queue. Returns their bytes.
    fn sweep_sealed(&self, segment: u32, f: &mut dyn FnMut(&Record<'_>)) -> usize {
        let Some(phase) = self.segments.sealed(segment) else { return 0 };
        let heat = self.segments.heat(segment);
        if self.segments.kind(segment) != Kind::Main || heat.busy() {
            return 0;
        }
        let filled = heat.filled.load(Ordering::Relaxed) as usize;
        // As for readers of a slot: pinned while sealed, the segment is not reused before the pin
        // is dropped.
        let Some(pin) = self.segments.pins.pin_if(segment, &heat.phase, phase) else { return 0 };
        held::walk(&self.segments, Hold::pinned(&pin), segment, filled, |record| f(record));
        filled
    }

    /// Whether a stub stays when its segment is emptied; `None`: as any entry.
    pub(crate) fn stub_stays(&self, record: &Record<'_>, pressure: u32) -> Option<bool> {
        if !record.is_away() {
            return None;
        }
        let (_, away) = self.away.to.get()?;
        if !elsewhere(record).is_some_and(|place| (away.has)(record.key(), place)) {
            return Some(false);
        }
        (pressure == 0 && self.full_of_stubs().is_none()).then_some(true)
    }

    /// The group of stubs, if they take all that they may.
    pub(crate) fn full_of_stubs(&self) -> Option<usize> {
        let (_, away) = self.away.to.get()?;
        let there = self.segments.count() - self.withheld_segments.load(Ordering::Relaxed);
        let group = self.shares.of(away.ns);
        let may_have = self.shares.ceiling(group).min((there * self.segments.size()) as u64);
        let stubs = self.away.stubs.load(Ordering::Relaxed) as u64;
        (stubs >= may_have / STUBS).then_some(group)
    }

    /// A stub for a record that is about to be dropped, with its space: no lock may be held.
    pub(crate) fn coming_stub<'s, 'r>(
        &'s self,
        record: &Record<'r>,
        hash: Hash,
        now: Ms,
    ) -> Option<Coming<'s, 'r>> {
        let (to, away) = self.away.to.get()?;
        let whole = record.piece(0).is_none() && !record.is_away();
        if record.ns() != away.ns || record.total() < away.least.max(16) || !whole {
            return None;
        }
        if self.outdated(record, now)
            || self.segments.number(Kind::Limbo) * WAITING > self.segments.count()
        {
            return None;
        }
        // Most records of a segment may be dead: nothing is announced for those, and no space used.
        let linked = |_: &_, _, loc| if loc == record.loc() { Seen::Yes(()) } else { Seen::No };
        self.index.find(&self.segments, hash, linked)?;
        let (key, number) = (record.key(), record.origin());
        let ticket = (away.announce)(key, number, record.total())?;
        let announced = Announced { away, key, number, ticket, left: false };
        let word = record.word().with_frequency(0);
        let local = size_of::<u64>();
        let draft = Draft { head: 0, local, ..record.draft(word, self.roomy()) };
        let group = self.shares.of(record.ns());
        let space = self.survivor_space(Kind::Main, group, draft.size(now), draft.bytes(), now)?;
        Some(Coming { to, space, draft, announced })
    }

    /// Puts a stub in the place of its record, under the lock of that. `None`: the record was
    /// touched meanwhile. Drop the rest of `coming` without the lock.
    pub(crate) fn leave_stub<'s>(
        &'s self,
        locked: &mut Locked<'_>,
        record: &Record<'_>,
        kind: Kind,
        coming: &mut Coming<'s, '_>,
        now: Ms,
    ) -> Option<Leaving<'s>> {
        let Coming { to, space, draft, announced } = coming;
        let away = announced.away;
        let place = locked.find_loc(record.loc())?;
        if record.expires() != draft.expires {
            return None;
        }
        let held = Held::by_lock(&to.segments, locked, record.loc());
        draft.word = draft.word & !(STALE | CLAIMED) | record.word().0 & (STALE | CLAIMED);
        draft.write(&self.segments, space, now, &[&away.run.to_ne_bytes()]);
        locked.replace(place, space.loc());
        let size = draft.size(now);
        self.moved(record, kind, Kind::Main, size, space.segment());
        self.away.came(size);
        let hash = self.hasher.key(record.ns(), record.key());
        announced.left = true;
        Some(Leaving(away, Entry::of(to, held, hash), announced.ticket))
    }

    /// Puts the value of a stub back: nothing else of its entry changes.
    ///
    /// # Errors
    /// `NotFound`: the entry was written or removed meanwhile, or has its value; `TooLarge`: the
    /// value has another length than the entry's; `Full`: there is no memory.
    pub fn bring_back(&self, stub: &Stub, value: &[u8], now: Ms) -> Result<(), PutError> {
        let hash = self.hash(stub.ns, &stub.key)?;
        loop {
            let entry = self.peek_hashed(hash, stub.ns, &stub.key, now);
            let entry = entry.filter(|entry| entry.elsewhere() == Some(stub.place));
            let entry = entry.ok_or(PutError::NotFound)?;
            let record = entry.record();
            if value.len() as u64 != record.total() {
                return Err(PutError::TooLarge);
            }
            let whole = record.draft(record.word().with_frequency(0), self.roomy());
            let mut draft = Draft { head: value.len(), local: value.len(), ..whole };
            let size = draft.size(now);
            if size > self.segments.size() {
                return Err(PutError::TooLarge);
            }
            let group = self.shares.of(stub.ns);
            let mut space = self.space(Kind::Main, group, size, draft.bytes(), now)?;
            let mut locked = self.index.lock(&self.segments, hash);
            let place = self.find_stub(&locked, stub).ok_or(PutError::NotFound)?;
            let loc = locked.loc(place);
            let there = self.record(&locked, loc);
            if self.outdated(&there, now) {
                return Err(PutError::NotFound);
            }
            if there.expires() != draft.expires {
                continue;
            }
            draft.word = there.word().with_frequency(0);
            let (from, before) = (self.queue_of(&there), there.size());
            draft.write(&self.segments, &mut space, now, &[value]);
            locked.replace(place, space.loc());
            let there = self.record(&locked, loc);
            self.moved(&there, from, Kind::Main, size, space.segment());
            self.away.left(before);
            return Ok(());
        }
    }

    /// Removes a stub whose value cannot be had: its entry is evicted. False: it is gone, or has
    /// its value. Never evicts others.
    pub fn drop_stub(&self, stub: &Stub, now: Ms) -> bool {
        let Ok(hash) = self.hash(stub.ns, &stub.key) else { return false };
        let mut locked = self.index.lock(&self.segments, hash);
        let Some(place) = self.find_stub(&locked, stub) else { return false };
        let loc = locked.loc(place);
        let held = Held::by_lock(&self.segments, &locked, loc);
        let outdated = self.outdated(&held.record(), now);
        locked.remove(place);
        let why = if outdated { Gone::Outdated } else { Gone::Evicted };
        self.retire(&held.record(), why, now);
        drop(locked);
        if !outdated {
            self.tell(&held.record(), Cause::Evicted, now);
        }
        true
    }

    fn find_stub(&self, locked: &Locked<'_>, stub: &Stub) -> Option<Place> {
        locked.find(|loc| {
            let there = self.record(locked, loc);
            there.origin() == stub.place.number && elsewhere(&there) == Some(stub.place)
        })
    }

    /// A read that was counted found a stub, and is made again: it counts once.
    pub fn reads_again(&self, ns: Namespace) {
        self.stats.sub(ns, Count::Hits, 1);
    }
}

impl Entry<'_> {
    /// Where its value is, if that is not here.
    #[inline]
    pub fn elsewhere(&self) -> Option<Elsewhere> {
        elsewhere(&self.record())
    }

    /// Its names, if its value is not here.
    pub fn stub(&self) -> Option<Stub> {
        let (record, place) = (self.record(), self.elsewhere()?);
        Some(Stub { ns: record.ns(), key: record.key().into(), place })
    }
}

#[inline]
fn elsewhere(record: &Record<'_>) -> Option<Elsewhere> {
    if !record.is_away() {
        return None;
    }
    let run = record.local().first_chunk().map_or(0, |run| u64::from_ne_bytes(*run));
    Some(Elsewhere { run, number: record.origin() })
}
