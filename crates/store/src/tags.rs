//! Tag lists: the entries of each tag, so that the cost of a purge depends on the tagged entries
//! only.
//!
//! A list holds the short hash of every entry listed under the tag; the index finds the entry,
//! whose record says whether it (still) has the tag. Lists consist of blocks of a cache line, in
//! segments of the budget. A removed entry leaves its line in the list, which counts dead lines: a
//! list with only dead lines is freed at once, one that is half dead is tidied by the sweep. An
//! entry is listed and linked in one step with the lock held, so that tidying never takes it for
//! dead.

use crate::hash::Hash;
use crate::held::Held;
use crate::index::Seen;
use crate::segment::{Kind, Segments};
use crate::store::{Gone, Store};
use crate::succession::{Image, Saved};
use crate::types::{Ms, Namespace, PutError};
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::Ordering::Relaxed;

const BLOCK: usize = 64;
const WORDS: u32 = 16;
/// Directory slots examined by each sweep.
const TIDY: usize = 256;

// Words of a list's first block: hash 0 1, next list of the slot 2, more blocks 3, listed 4, dead
// 5, used here 6, entries.
const NEXT: u32 = 2;
const MORE: u32 = 3;
const LISTED: u32 = 4;
const DEAD: u32 = 5;
const USED: u32 = 6;
const FIRST: u32 = 7;
// Words of further blocks: more 0, used 1, entries.
const FURTHER: u32 = 2;

#[derive(Debug)]
struct Lists {
    /// First list of each slot; 0: none. A block's number is its place in `pages`, from 1.
    slots: Box<[u32]>,
    pages: Vec<u32>,
    /// Free blocks, linked by their word 0.
    free: u32,
    free_blocks: usize,
    tidied: usize,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Tags {
    lists: Mutex<Lists>,
}

/// The locked lists, with their memory.
pub(crate) struct Listing<'a> {
    lists: MutexGuard<'a, Lists>,
    segments: &'a Segments,
}

fn slots(budget: usize) -> usize {
    (budget / 8192).next_power_of_two()
}

fn hashes(tags: &[u8]) -> impl Iterator<Item = u64> {
    tags.chunks_exact(8).map(|t| u64::from_ne_bytes(std::array::from_fn(|i| t[i])))
}

impl Tags {
    pub(crate) fn new(budget: usize) -> Tags {
        let slots = vec![0; slots(budget)].into();
        Tags {
            lists: Mutex::new(Lists {
                slots,
                pages: Vec::new(),
                free: 0,
                free_blocks: 0,
                tidied: 0,
            }),
        }
    }

    pub(crate) fn size(budget: usize) -> usize {
        slots(budget) * 4
    }

    pub(crate) fn lock<'a>(&'a self, segments: &'a Segments) -> Listing<'a> {
        Listing { lists: self.lists.lock(), segments }
    }

    /// Makes sure that an entry of `group` with these tags can be listed, for now.
    pub(crate) fn prepare(
        &self,
        store: &Store,
        group: usize,
        tags: &[u8],
        now: Ms,
    ) -> Result<(), PutError> {
        // At worst a new list and a further block for each tag.
        while self.lists.lock().free_blocks < tags.len() / 8 {
            let segment = store.take_segment(Kind::Tags, group, now)?;
            self.lock(&store.segments).add_page(segment);
        }
        Ok(())
    }

    /// Counts removed entries of some tags.
    pub(crate) fn died(&self, segments: &Segments, tags: &[u8]) {
        if tags.is_empty() {
            return;
        }
        let mut listing = self.lock(segments);
        hashes(tags).for_each(|tag| listing.died(tag));
    }

    /// Cleans the half-dead lists of some slots.
    pub(crate) fn tidy(&self, store: &Store) {
        let mut listing = self.lock(&store.segments);
        let number = listing.lists.slots.len();
        for _ in 0..TIDY.min(number) {
            let slot = listing.lists.tidied % number;
            listing.lists.tidied = slot + 1;
            let mut at = listing.lists.slots[slot];
            while at != 0 {
                let next = listing.get(at, NEXT);
                if listing.get(at, DEAD) > 8 && listing.get(at, DEAD) >= listing.get(at, LISTED) / 2
                {
                    listing.clean(store, at);
                }
                at = next;
            }
        }
    }
}

impl Listing<'_> {
    /// The segments of its blocks.
    pub(crate) fn pages(&self) -> &[u32] {
        &self.lists.pages
    }

    pub(crate) fn save(&self, out: &mut Image) {
        let lists = &self.lists;
        out.words(lists.slots.iter().copied());
        out.words(lists.pages.iter().copied());
        [u64::from(lists.free), lists.free_blocks as u64].into_iter().for_each(|n| out.put(n));
    }

    pub(crate) fn load(&mut self, from: &mut Saved<'_>) -> Option<()> {
        let (slots, pages) = (from.words()?, from.words()?);
        if slots.len() != self.lists.slots.len() {
            return None;
        }
        let count = self.segments.count();
        if pages.iter().any(|segment| *segment as usize >= count) {
            return None;
        }
        (self.lists.slots, self.lists.pages) = (slots.into(), pages);
        self.lists.free = u32::try_from(from.take()?).ok()?;
        self.lists.free_blocks = usize::try_from(from.take()?).ok()?;
        Some(())
    }

    /// Empties all lists; their blocks stay.
    pub(crate) fn free_all(&mut self) {
        let pages = std::mem::take(&mut self.lists.pages);
        self.clear();
        pages.into_iter().for_each(|page| self.add_page(page));
    }

    pub(crate) fn clear(&mut self) {
        self.lists.slots.fill(0);
        self.lists.pages.clear();
        (self.lists.free, self.lists.free_blocks) = (0, 0);
    }

    fn word(&self, block: u32, word: u32) -> &crate::sync::AtomicU32 {
        let n = (block - 1) as usize;
        let per_page = self.segments.size() / BLOCK;
        let start = self.segments.start(self.lists.pages[n / per_page]);
        self.segments.map.word(start + n % per_page * BLOCK + 4 * word as usize)
    }

    fn get(&self, block: u32, word: u32) -> u32 {
        self.word(block, word).load(Relaxed)
    }

    fn set(&self, block: u32, word: u32, value: u32) {
        self.word(block, word).store(value, Relaxed);
    }

    fn add_page(&mut self, segment: u32) {
        self.lists.pages.push(segment);
        let per_page = (self.segments.size() / BLOCK) as u32;
        let first = (self.lists.pages.len() as u32 - 1) * per_page + 1;
        (first..first + per_page).for_each(|block| self.free(block));
    }

    fn free(&mut self, block: u32) {
        self.set(block, 0, self.lists.free);
        self.lists.free = block;
        self.lists.free_blocks += 1;
    }

    fn block(&mut self) -> Option<u32> {
        let block = self.lists.free;
        if block == 0 {
            return None;
        }
        self.lists.free = self.get(block, 0);
        self.lists.free_blocks -= 1;
        (0..WORDS).for_each(|w| self.set(block, w, 0));
        Some(block)
    }

    fn slot(&self, tag: u64) -> usize {
        (tag >> 32) as usize & (self.lists.slots.len() - 1)
    }

    fn is(&self, list: u32, tag: u64) -> bool {
        self.get(list, 0) == tag as u32 && self.get(list, 1) == (tag >> 32) as u32
    }

    fn find(&self, tag: u64) -> Option<u32> {
        let mut at = self.lists.slots[self.slot(tag)];
        while at != 0 && !self.is(at, tag) {
            at = self.get(at, NEXT);
        }
        (at != 0).then_some(at)
    }

    /// Lists an entry under each of its tags; false, and nothing listed, if there are too few
    /// blocks.
    pub(crate) fn list(&mut self, tags: &[u8], hash: Hash) -> bool {
        if self.lists.free_blocks < tags.len() / 8 {
            return false;
        }
        hashes(tags).for_each(|tag| self.list_one(tag, hash.short()));
        true
    }

    fn list_one(&mut self, tag: u64, short: u32) {
        let list = match self.find(tag) {
            Some(list) => list,
            None => match self.new_list(tag) {
                Some(list) => list,
                None => return,
            },
        };
        self.set(list, LISTED, self.get(list, LISTED) + 1);
        self.push(list, short);
    }

    fn new_list(&mut self, tag: u64) -> Option<u32> {
        let list = self.block()?;
        self.set(list, 0, tag as u32);
        self.set(list, 1, (tag >> 32) as u32);
        let slot = self.slot(tag);
        self.set(list, NEXT, self.lists.slots[slot]);
        self.lists.slots[slot] = list;
        Some(list)
    }

    fn push(&mut self, list: u32, short: u32) {
        let used = self.get(list, USED);
        if FIRST + used < WORDS {
            self.set(list, FIRST + used, short);
            self.set(list, USED, used + 1);
            return;
        }
        let more = self.get(list, MORE);
        if more != 0 && FURTHER + self.get(more, 1) < WORDS {
            let used = self.get(more, 1);
            self.set(more, FURTHER + used, short);
            self.set(more, 1, used + 1);
            return;
        }
        let Some(block) = self.block() else { return };
        self.set(block, 0, more);
        self.set(block, 1, 1);
        self.set(block, FURTHER, short);
        self.set(list, MORE, block);
    }

    fn died(&mut self, tag: u64) {
        let Some(list) = self.find(tag) else { return };
        let dead = self.get(list, DEAD) + 1;
        self.set(list, DEAD, dead);
        if dead >= self.get(list, LISTED) {
            self.drop_list(tag, list);
        }
    }

    fn drop_list(&mut self, tag: u64, list: u32) {
        let slot = self.slot(tag);
        let next = self.get(list, NEXT);
        if self.lists.slots[slot] == list {
            self.lists.slots[slot] = next;
        } else {
            let mut before = self.lists.slots[slot];
            while self.get(before, NEXT) != list {
                before = self.get(before, NEXT);
            }
            self.set(before, NEXT, next);
        }
        self.drop_further(list);
        self.free(list);
    }

    fn drop_further(&mut self, list: u32) {
        let mut more = self.get(list, MORE);
        while more != 0 {
            let next = self.get(more, 0);
            self.free(more);
            more = next;
        }
        self.set(list, MORE, 0);
    }

    /// The short hashes in a list, each once.
    fn entries(&self, list: u32) -> Vec<u32> {
        let mut entries: Vec<u32> =
            (0..self.get(list, USED)).map(|i| self.get(list, FIRST + i)).collect();
        let mut more = self.get(list, MORE);
        while more != 0 {
            entries.extend((0..self.get(more, 1)).map(|i| self.get(more, FURTHER + i)));
            more = self.get(more, 0);
        }
        entries.sort_unstable();
        entries.dedup();
        entries
    }

    /// Removes dead lines from a list. The listed lines are then exactly the live ones, since
    /// entries are listed, linked and declared dead with the lock held; an entry that is unlinked
    /// but not yet declared dead is kept, as dead.
    fn clean(&mut self, store: &Store, list: u32) {
        let tag = u64::from(self.get(list, 0)) | u64::from(self.get(list, 1)) << 32;
        let alive = self.get(list, LISTED) - self.get(list, DEAD);
        let mut entries = self.entries(list);
        entries.retain(|short| store.carries(*short, tag));
        self.drop_further(list);
        self.set(list, USED, 0);
        // Two keys may share a short hash: the counts remain those of entries, not of hashes.
        self.set(list, LISTED, alive);
        self.set(list, DEAD, 0);
        entries.into_iter().for_each(|short| self.push(list, short));
    }
}

impl Store {
    /// Does any entry with this short hash have the tag? Takes no lock.
    fn carries(&self, short: u32, tag: u64) -> bool {
        let hash = Hash(u64::from(short) << 32);
        let found = self.index.find(&self.segments, hash, |slot, value, loc| {
            let Some(held) = Held::by_slot(&self.segments, slot, value, loc) else {
                return Seen::Changed;
            };
            if held.record().has_tag(tag) { Seen::Yes(()) } else { Seen::No }
        });
        found.is_some()
    }

    /// Removes every entry of `ns` with this tag, or (`soft`) marks it stale. Returns how many. The
    /// cost depends on the tagged entries only.
    pub fn purge_tag(&self, ns: Namespace, tag: &[u8], soft: bool, now: Ms) -> u64 {
        self.tagged(ns, tag).purge(usize::MAX, soft, now)
    }

    /// The entries of `ns` that carry this tag now, to be purged some at a time.
    pub fn tagged(&self, ns: Namespace, tag: &[u8]) -> Tagged<'_> {
        let tag = self.hasher.tag(ns, tag);
        if self.hash(ns, b"").is_err() {
            return Tagged { store: self, ns, tag, entries: Vec::new() };
        }
        let listing = self.tags.lock(&self.segments);
        let entries = listing.find(tag).map(|list| listing.entries(list)).unwrap_or_default();
        drop(listing);
        Tagged { store: self, ns, tag, entries }
    }

    fn purge_short(&self, ns: Namespace, short: u32, tag: u64, soft: bool, now: Ms) -> u64 {
        let mut locked = self.index.lock(&self.segments, Hash(u64::from(short) << 32));
        let mut purged = 0;
        let mut done = Vec::new();
        loop {
            let wanted = |loc| {
                let record = self.record(&locked, loc);
                !done.contains(&loc) && record.ns() == ns && record.has_tag(tag)
            };
            let Some(place) = locked.find(wanted) else { return purged };
            let loc = locked.loc(place);
            done.push(loc);
            let outdated = self.outdated(&self.record(&locked, loc), now);
            purged += u64::from(!outdated);
            if soft {
                self.record(&locked, loc).mark_stale_at(now);
                continue;
            }
            locked.remove(place);
            self.retire(
                &self.record(&locked, loc),
                if outdated { Gone::Outdated } else { Gone::Deleted },
                now,
            );
        }
    }
}

/// Entries with a tag: those there when [`Store::tagged`] was called.
#[derive(Debug)]
pub struct Tagged<'s> {
    store: &'s Store,
    ns: Namespace,
    tag: u64,
    /// Their short hashes.
    entries: Vec<u32>,
}

impl Tagged<'_> {
    /// Removes about `most` of them, or (`soft`) marks them stale. Returns how many.
    pub fn purge(&mut self, most: usize, soft: bool, now: Ms) -> u64 {
        let from = self.entries.len().saturating_sub(most);
        let entries = self.entries.drain(from..);
        entries.map(|short| self.store.purge_short(self.ns, short, self.tag, soft, now)).sum()
    }

    /// All have been purged.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
