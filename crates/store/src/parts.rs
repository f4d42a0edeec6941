//! Parts: entries of one namespace ([`crate::Options::parts`]) that belong to another entry, their
//! owner. A part's key names its owner by the hash of the owner's key and by the version that the
//! owner's writer chose, so an owner that is gone or replaced has no parts any more, whoever
//! removed it. Parts are evicted with their owner: one that is to be dropped stays while its owner
//! would stay.

use crate::entry::Entry;
use crate::hash::Hash;
use crate::held::Held;
use crate::index::Seen;
use crate::item::Record;
use crate::segment::Kind;
use crate::store::Store;
use crate::types::{Cursor, Keep, Ms, Namespace};

/// Length of a part's key: hash of the owner's key, the owner's version, number.
pub(crate) const KEY: usize = 24;
/// Parts that have been stored for less than this (ms) may have an owner that is not stored yet.
const YOUNG: Ms = 3000;
/// An owner counts as used if it was written this part (1/n) of the segments later than its part.
const LATER: u64 = 8;

/// An owner counts as used for so long (ms) after it was read or written, however often that was:
/// an eviction that moves it forgets how often, and goes on with its parts. Times are of seconds,
/// so that it is the least that means something.
const LATELY: Ms = 2000;

/// In the version of an owner: its writer chose it.
const CHOSEN: u64 = 1 << 63;

/// Names the owner of parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    hash: u64,
    version: u64,
}

impl Owner {
    /// The key of its part with this number.
    pub(crate) fn part(&self, number: u64) -> [u8; KEY] {
        let mut key = [0; KEY];
        key[..8].copy_from_slice(&self.hash.to_le_bytes());
        key[8..16].copy_from_slice(&self.version.to_le_bytes());
        key[16..].copy_from_slice(&number.to_le_bytes());
        key
    }

    fn of(part: &[u8]) -> Option<Owner> {
        let word = |at: usize| part.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        Some(Owner { hash: word(0)?, version: word(8)? }).filter(|_| part.len() == KEY)
    }
}

impl Store {
    /// The owner that has or will have this key and version. The version must differ from those
    /// that the store gives to writes without one: its top bit is set. `None`: the key is too long.
    pub fn owner(&self, ns: Namespace, key: &[u8], version: u64) -> Option<Owner> {
        let hash = self.hash(ns, key).ok()?.0;
        Some(Owner { hash, version: version | CHOSEN })
    }

    /// Removes parts without an owner: a slice of a walk, as [`Store::scan`]. Returns the cursor to
    /// continue with and the number of removed parts.
    pub fn reap(&self, cursor: Cursor, limit: usize, now: Ms) -> (Option<Cursor>, usize) {
        let Some(parts) = self.options.parts else { return (None, 0) };
        let mut removed = 0;
        let next = self.scan(parts, cursor, limit, &mut |key, info| {
            let old = info.last_access + YOUNG < now;
            if old && Owner::of(key).is_none_or(|owner| self.find_owner(owner, now).is_none()) {
                removed += 1;
                return Keep::Delete;
            }
            Keep::Keep
        });
        (next, removed)
    }

    /// May it have parts?
    pub(crate) fn may_own(&self, record: &Record<'_>) -> bool {
        self.options.parts.is_some() && record.version() & CHOSEN != 0
    }

    fn find_owner(&self, owner: Owner, now: Ms) -> Option<Entry<'_>> {
        let hash = Hash(owner.hash);
        let held = self.index.find(&self.segments, hash, |slot, value, loc| {
            let Some(held) = Held::by_slot(&self.segments, slot, value, loc) else {
                return Seen::Changed;
            };
            if held.record().version() == owner.version { Seen::Yes(held) } else { Seen::No }
        })?;
        self.entry(held, hash, now)
    }

    /// Of a part that is about to be dropped: whether its owner stays. `None`: it is no part.
    pub(crate) fn owner_stays(
        &self,
        record: &Record<'_>,
        kind: Kind,
        pressure: u32,
        now: Ms,
    ) -> Option<bool> {
        if self.options.parts != Some(record.ns()) {
            return None;
        }
        let Some(owner) = Owner::of(record.key()).and_then(|owner| self.find_owner(owner, now))
        else {
            return Some(false);
        };
        let owner = owner.record();
        let segments = self.segments.count() as u64;
        let written = match kind {
            // It has outlived its first turn: its owner must have been written in the second half.
            Kind::Main => owner.serial() + segments / 2 > self.segments.next_serial(),
            _ => owner.serial() > record.serial() + segments / LATER,
        };
        // A change writes parts where they lie, and marks the owner as read.
        let last = owner.word().last_access(owner.base());
        let began = record.word().last_access(record.base());
        let turn = match kind {
            Kind::Main => began,
            // Both were stored at the same time: only later uses count.
            _ => began.midpoint(now),
        };
        let used = last > turn || last + LATELY > now;
        Some((written || used) && pressure == 0 || owner.word().frequency() > pressure)
    }
}
