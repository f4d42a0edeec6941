//! From the hash of a key to the place of its record: 16 bytes an entry.
//!
//! Tables of a shard are ordered by hash and probed linearly: an entry lies at or after the place
//! that its hash gives it, and no entry with a greater hash lies before it. So an unsuccessful
//! search ends soon although the tables are nearly full, and a table may have any size: it grows by
//! 18 %.
//!
//! ```text
//! word 0   hash 44 | place in the segment 20 (in units)
//! word 1   expiry 32 | segment 16 | size class 8 | asked for 2 | in use 1
//! ```
//! Two keys of the same 52 bits of hash (8 choose the shard) take each other's place: the reader
//! compares the key, so the loser is a miss.

use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};

/// Shards: a power of two.
const SHARDS: usize = 256;
const HASH_BITS: u32 = 44;
const PLACE_BITS: u32 = 20;
/// First places of a shard.
const FIRST: usize = 16;
/// Records of one shard on their way to the disk, at most: further ones are not taken.
const PENDING: usize = 256;

const USED: u64 = 1;
const ASKED_SHIFT: u32 = 1;
const CLASS_SHIFT: u32 = 3;
const SEGMENT_SHIFT: u32 = 11;
const EXPIRY_SHIFT: u32 = 32;

/// How often an entry was asked for, at most.
pub(crate) const MOST_ASKED: u8 = 3;

/// The place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) segment: u16,
    /// In units, below 2^20.
    pub(crate) at: u32,
}

/// An entry as the index knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) place: Place,
    /// Upper bound of its frame's length, in units.
    pub(crate) units: u32,
    /// Seconds; `u32::MAX`: never.
    pub(crate) expires: u32,
    pub(crate) asked: u8,
}

type Slot = [u64; 2];

/// The class of a length: three bits of it and an exponent, rounded up.
fn class(units: u32) -> u64 {
    let units = units.max(8);
    let exponent = units.ilog2() - 3;
    let mantissa = units.div_ceil(1 << exponent) - 8;
    u64::from(exponent * 8 + mantissa)
}

/// The greatest length of a class.
fn bound(class: u64) -> u32 {
    (8 + (class & 7) as u32) << (class >> 3)
}

fn pack(hash: u64, entry: &Entry) -> Slot {
    let place = u64::from(entry.place.at) & ((1 << PLACE_BITS) - 1);
    let word = u64::from(entry.expires) << EXPIRY_SHIFT
        | u64::from(entry.place.segment) << SEGMENT_SHIFT
        | class(entry.units) << CLASS_SHIFT
        | u64::from(entry.asked.min(MOST_ASKED)) << ASKED_SHIFT
        | USED;
    [print(hash) << PLACE_BITS | place, word]
}

fn unpack(slot: Slot) -> Entry {
    Entry {
        place: Place {
            segment: (slot[1] >> SEGMENT_SHIFT) as u16,
            at: (slot[0] & ((1 << PLACE_BITS) - 1)) as u32,
        },
        units: bound(slot[1] >> CLASS_SHIFT & 0xff),
        expires: (slot[1] >> EXPIRY_SHIFT) as u32,
        asked: (slot[1] >> ASKED_SHIFT) as u8 & MOST_ASKED,
    }
}

/// The bits of a hash that a slot has.
fn print(hash: u64) -> u64 {
    hash & ((1 << HASH_BITS) - 1)
}

fn used(slot: &Slot) -> bool {
    slot[1] & USED != 0
}

/// Slots in order; see the module. The table ends with slots for entries that were pushed beyond
/// the last place.
#[derive(Default)]
struct Table {
    slots: Vec<Slot>,
    /// Places that a hash can give.
    places: usize,
    len: usize,
}

impl Table {
    fn home(&self, print: u64) -> usize {
        ((u128::from(print) * self.places as u128) >> HASH_BITS) as usize
    }

    /// Where this hash is, or else where it belongs.
    fn find(&self, print: u64) -> Result<usize, usize> {
        let mut at = self.home(print);
        while let Some(slot) = self.slots.get(at).filter(|slot| used(slot)) {
            match (slot[0] >> PLACE_BITS).cmp(&print) {
                std::cmp::Ordering::Less => at += 1,
                std::cmp::Ordering::Equal => return Ok(at),
                std::cmp::Ordering::Greater => break,
            }
        }
        Err(at)
    }

    fn insert(&mut self, slot: Slot) -> Option<Slot> {
        if self.len * 100 >= self.places * 90 {
            self.grow();
        }
        match self.find(slot[0] >> PLACE_BITS) {
            Ok(at) => Some(std::mem::replace(&mut self.slots[at], slot)),
            Err(at) => {
                self.shift_in(at, slot);
                self.len += 1;
                None
            }
        }
    }

    /// Puts a slot at a place, and moves what follows up to the next free one.
    fn shift_in(&mut self, at: usize, slot: Slot) {
        let (mut at, mut carried) = (at, slot);
        loop {
            if at == self.slots.len() {
                self.slots.reserve_exact(8);
                self.slots.push([0; 2]);
            }
            let before = std::mem::replace(&mut self.slots[at], carried);
            if !used(&before) {
                return;
            }
            (at, carried) = (at + 1, before);
        }
    }

    /// Takes a slot out, and moves back those that were pushed on by it.
    fn take(&mut self, at: usize) {
        let mut at = at;
        while let Some(next) = self.slots.get(at + 1).copied() {
            if !used(&next) || self.home(next[0] >> PLACE_BITS) > at {
                break;
            }
            self.slots[at] = next;
            at += 1;
        }
        self.slots[at] = [0; 2];
        self.len -= 1;
    }

    /// Takes out all slots of which `gone` says so: a look at every entry. How many.
    fn take_all(&mut self, mut gone: impl FnMut(&Entry) -> bool) -> u64 {
        let (mut at, mut taken) = (0, 0);
        while let Some(slot) = self.slots.get(at).copied() {
            if used(&slot) && gone(&unpack(slot)) {
                self.take(at);
                taken += 1;
            } else {
                at += 1;
            }
        }
        taken
    }

    fn grow(&mut self) {
        let places = (self.places + self.places * 18 / 100).max(FIRST);
        let slots = std::mem::take(&mut self.slots);
        // A few more than places, for those that are pushed beyond the end.
        self.slots = Vec::with_capacity(places + places / 64 + 8);
        self.slots.resize(places, [0; 2]);
        self.places = places;
        let mut next = 0;
        for slot in slots.into_iter().filter(used) {
            // In order, so each goes to its home or right after the one before.
            let at = self.home(slot[0] >> PLACE_BITS).max(next);
            if at >= self.slots.len() {
                self.slots.resize(at + 1, [0; 2]);
            }
            self.slots[at] = slot;
            next = at + 1;
        }
    }

    fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }
}

#[derive(Default)]
struct Shard {
    table: Table,
    /// Records on their way to the disk: hash, ticket.
    pending: Vec<(u64, u64)>,
    /// Records with a smaller ticket that are not pending yet are not taken: one of them may have
    /// been forgotten while it was on its way.
    floor: u64,
    /// While the index is being filled: hashes that were forgotten.
    gone: HashSet<u64>,
}

/// See the module.
pub(crate) struct Index {
    shards: Box<[Mutex<Shard>]>,
}

/// Result of [`Index::register`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registered {
    /// It may be written.
    Yes,
    /// The disk has it.
    There,
    /// It was forgotten meanwhile, or too many are on their way.
    No,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[(hash >> (64 - SHARDS.ilog2())) as usize]
    }

    /// The entry of a key, without counting.
    pub(crate) fn get(&self, hash: u64) -> Option<Entry> {
        let shard = self.shard(hash).lock();
        let at = shard.table.find(print(hash)).ok()?;
        Some(unpack(shard.table.slots[at]))
    }

    /// Counts a request for a key.
    pub(crate) fn ask(&self, hash: u64) {
        let mut shard = self.shard(hash).lock();
        if let Ok(at) = shard.table.find(print(hash)) {
            let entry = unpack(shard.table.slots[at]);
            if entry.asked < MOST_ASKED {
                shard.table.slots[at][1] += 1 << ASKED_SHIFT;
            }
        }
    }

    /// Announces a record that was taken from memory under this ticket.
    pub(crate) fn register(&self, hash: u64, ticket: u64) -> Registered {
        let mut shard = self.shard(hash).lock();
        if let Ok(at) = shard.table.find(print(hash)) {
            if unpack(shard.table.slots[at]).asked < MOST_ASKED {
                shard.table.slots[at][1] += 1 << ASKED_SHIFT;
            }
            return Registered::There;
        }
        if ticket < shard.floor || shard.pending.len() >= PENDING {
            return Registered::No;
        }
        if shard.pending.iter().any(|(pending, _)| *pending == hash) {
            return Registered::There;
        }
        shard.pending.push((hash, ticket));
        Registered::Yes
    }

    /// Whether an announced record is still wanted.
    pub(crate) fn is_pending(&self, hash: u64, ticket: u64) -> bool {
        self.shard(hash).lock().pending.contains(&(hash, ticket))
    }

    /// Whether a record of this hash is on its way.
    pub(crate) fn awaits(&self, hash: u64) -> bool {
        self.shard(hash).lock().pending.iter().any(|(pending, _)| *pending == hash)
    }

    /// Ends the announcement of a record. Whether it was still wanted.
    pub(crate) fn withdraw(&self, hash: u64, ticket: u64) -> bool {
        let mut shard = self.shard(hash).lock();
        let at = shard.pending.iter().position(|pending| *pending == (hash, ticket));
        at.map(|at| shard.pending.swap_remove(at)).is_some()
    }

    /// Enters a record that is written, if it is still wanted; the place of the one before.
    pub(crate) fn enter(&self, hash: u64, ticket: u64, entry: &Entry) -> Entered {
        let mut shard = self.shard(hash).lock();
        let at = shard.pending.iter().position(|pending| *pending == (hash, ticket));
        let Some(at) = at else { return Entered::Unwanted };
        shard.pending.swap_remove(at);
        Entered::Yes(shard.table.insert(pack(hash, entry)).map(unpack))
    }

    /// Enters a record found at the start, unless there is one or it was forgotten meanwhile.
    pub(crate) fn load(&self, hash: u64, entry: &Entry) -> bool {
        let mut shard = self.shard(hash).lock();
        let absent = shard.table.find(print(hash)).is_err() && !shard.gone.contains(&hash);
        if absent {
            shard.table.insert(pack(hash, entry));
        }
        absent
    }

    /// Ends the filling of the index: takes out what has expired by this second. How many entries
    /// of which segments.
    pub(crate) fn loaded(&self, now: u32) -> HashMap<u16, u64> {
        let mut expired: HashMap<u16, u64> = HashMap::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.gone = HashSet::new();
            shard.table.take_all(|entry| {
                let over = entry.expires <= now;
                if over {
                    *expired.entry(entry.place.segment).or_default() += 1;
                }
                over
            });
        }
        expired
    }

    /// Takes a key out, with what is on its way. Records of it with a smaller ticket than `floor`
    /// are not taken from now on. `loading`: the index is being filled.
    pub(crate) fn forget(&self, hash: u64, floor: u64, loading: bool) -> (Option<Entry>, bool) {
        let mut shard = self.shard(hash).lock();
        shard.floor = shard.floor.max(floor);
        if loading {
            shard.gone.insert(hash);
        }
        let pending = shard.pending.len();
        shard.pending.retain(|(pending, _)| *pending != hash);
        let on_its_way = shard.pending.len() < pending;
        let found = shard.table.find(print(hash)).ok();
        let entry = found.map(|at| unpack(shard.table.slots[at]));
        if let Some(at) = found {
            shard.table.take(at);
        }
        (entry, on_its_way)
    }

    /// Takes an entry out, if it is still at this place.
    pub(crate) fn remove_at(&self, hash: u64, place: Place) -> Option<Entry> {
        let mut shard = self.shard(hash).lock();
        let at = shard.table.find(print(hash)).ok()?;
        let entry = unpack(shard.table.slots[at]);
        (entry.place == place).then(|| {
            shard.table.take(at);
            entry
        })
    }

    /// Changes the place of an entry, if it is still at the old one.
    pub(crate) fn moved(&self, hash: u64, from: Place, entry: &Entry) -> bool {
        let mut shard = self.shard(hash).lock();
        match shard.table.find(print(hash)) {
            Ok(at) if unpack(shard.table.slots[at]).place == from => {
                shard.table.slots[at] = pack(hash, entry);
                true
            }
            _ => false,
        }
    }

    /// Takes out all entries of a segment: a look at every entry.
    pub(crate) fn remove_segment(&self, segment: u16) -> u64 {
        let of = |entry: &Entry| entry.place.segment == segment;
        self.shards.iter().map(|shard| shard.lock().table.take_all(of)).sum()
    }

    /// Smallest ticket of the records on their way.
    pub(crate) fn oldest_pending(&self) -> Option<u64> {
        let of = |shard: &Mutex<Shard>| shard.lock().pending.iter().map(|(_, t)| *t).min();
        self.shards.iter().filter_map(of).min()
    }

    /// Number of entries, and bytes of memory.
    pub(crate) fn figures(&self) -> (u64, u64) {
        self.shards.iter().fold((0, 0), |(entries, memory), shard| {
            let shard = shard.lock();
            (entries + shard.table.len as u64, memory + shard.table.memory() as u64)
        })
    }
}

/// Result of [`Index::enter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entered {
    /// It is there, in place of this one.
    Yes(Option<Entry>),
    /// It was forgotten meanwhile.
    Unwanted,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn entry(n: u32) -> Entry {
        let place = Place { segment: (n % 60_000) as u16, at: n % (1 << 20) };
        Entry { place, units: 8, expires: n, asked: 0 }
    }

    fn put(index: &Index, hash: u64, n: u32) {
        assert_eq!(index.register(hash, 0), Registered::Yes);
        assert!(matches!(index.enter(hash, 0, &entry(n)), Entered::Yes(_)));
    }

    #[test]
    fn lengths_are_rounded_up_by_an_eighth_at_most() {
        for units in (1..2000).chain([1 << 15, (1 << 20) - 1, 1 << 20]) {
            let bound = bound(class(units));
            assert!(bound >= units && bound <= (units + units / 8 + 1).max(8), "{units} {bound}");
            assert!(class(units) < 256);
        }
    }

    #[test]
    fn a_million_entries_take_24_bytes_each() {
        let index = Index::new();
        for n in 0..1_000_000u64 {
            put(&index, crate::format::key_hash(&n.to_le_bytes()), n as u32);
            if n >= 100_000 && n % 10_000 == 0 {
                let (entries, memory) = index.figures();
                // The filters of the segments have two more.
                assert!(memory <= entries * 22, "{memory} bytes for {entries}");
            }
        }
    }

    #[test]
    fn what_was_forgotten_on_its_way_is_not_entered() {
        let index = Index::new();
        assert_eq!(index.register(1, 5), Registered::Yes);
        assert_eq!(index.forget(1, 6, false), (None, true));
        assert_eq!(index.enter(1, 5, &entry(0)), Entered::Unwanted);
        assert_eq!(index.register(1, 5), Registered::No, "taken from memory before");
        assert_eq!(index.register(1, 6), Registered::Yes);
        assert_eq!(index.oldest_pending(), Some(6));
    }

    #[test]
    fn what_was_forgotten_is_not_loaded() {
        let index = Index::new();
        index.forget(1, 6, true);
        assert!(!index.load(1, &entry(0)) && index.load(2, &entry(0)));
        assert!(!index.load(2, &entry(1)), "the newer one is there");
        index.loaded(0);
        assert!(index.load(1, &entry(0)));
    }

    #[derive(Clone, Debug)]
    enum Op {
        Put(u64, u32),
        Forget(u64),
        RemoveAt(u64, u32),
        Segment(u16),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        // Hashes close together, so that they push each other on.
        let hash = || (0u64..4, 0u64..40).prop_map(|(high, low)| (high << 42) + low);
        let op = prop_oneof![
            6 => (hash(), 0u32..200).prop_map(|(hash, n)| Op::Put(hash, n)),
            2 => hash().prop_map(Op::Forget),
            1 => (hash(), 0u32..200).prop_map(|(hash, n)| Op::RemoveAt(hash, n)),
            1 => (0u16..200).prop_map(Op::Segment),
        ];
        prop::collection::vec(op, 0..400)
    }

    proptest! {
        #[test]
        fn it_is_a_map(ops in ops()) {
            let (index, mut model) = (Index::new(), HashMap::<u64, u32>::new());
            for op in ops {
                match op {
                    Op::Put(hash, n) => {
                        if let std::collections::hash_map::Entry::Vacant(free) = model.entry(hash) {
                            put(&index, hash, n);
                            free.insert(n);
                        }
                    }
                    Op::Forget(hash) => {
                        let found = index.forget(hash, 0, false).0;
                        prop_assert_eq!(found, model.remove(&hash).map(entry));
                    }
                    Op::RemoveAt(hash, n) => {
                        let found = index.remove_at(hash, entry(n).place);
                        let there = model.get(&hash) == Some(&n);
                        prop_assert_eq!(found.is_some(), there);
                        if there {
                            model.remove(&hash);
                        }
                    }
                    Op::Segment(segment) => {
                        let before = model.len();
                        model.retain(|_, n| entry(*n).place.segment != segment);
                        let removed = index.remove_segment(segment);
                        prop_assert_eq!(removed as usize, before - model.len());
                    }
                }
                for (hash, n) in &model {
                    prop_assert_eq!(index.get(*hash), Some(entry(*n)));
                }
                prop_assert_eq!(index.figures().0 as usize, model.len());
            }
        }
    }
}
