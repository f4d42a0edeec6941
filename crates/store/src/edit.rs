//! Parts that change where they lie. A part of up to [`MOST_ROOM`] bytes has room to grow: its
//! value is the number of its bytes (4 bytes), these, and bytes that do not count. Such a value is
//! read and written under the lock of its stripe alone, and therefore copied, never lent: nobody
//! has a reference to its bytes while another thread changes them. A longer part never changes, and
//! is lent as any entry ([`Part::Fixed`]); so is one of a store of before. The flags of the record
//! tell which it is.
//!
//! | who | touches the value of a part with room |
//! |---|---|
//! | `read_part`, `rewrite_part` | under the lock of the part's stripe |
//! | evictors, compaction | copy it under that lock; before, they read header and key alone |
//! | walks, sweeps, searches for owners | read headers and keys alone |
//! | `give`, `snapshot` | hold all stripes; the giver finds no part to change afterwards |
//!
//! Readers of several parts see them at different times. Callers that need all of one moment keep
//! writers out, or look afterwards whether there was one. A writer of several holds
//! [`Store::together`], so that the memory is not given away in the middle.

use crate::brief::BRIEF;
use crate::entry::Entry;
use crate::hash::Hash;
use crate::held::{self, Held};
use crate::index::Seen;
use crate::item::{Record, fresh_word};
use crate::parts::{KEY, Owner};
use crate::store::Store;
use crate::types::{Ms, Namespace, PutError};
use crate::write::{If, Request};
use parking_lot::RwLockReadGuard;

/// Bytes of the number in front of a value with room.
const LENGTH: usize = 4;
/// The flags of a part with room.
const ROOMY: u32 = 1;
/// Most bytes of a part that can change where it lies: its record is a brief one, so that it is
/// copied under a lock. (8, 4 and 4 bytes of header.)
pub const MOST_ROOM: usize = BRIEF - 16 - KEY - LENGTH;
/// Fills the room behind the bytes of a part.
static FILLING: [u8; MOST_ROOM] = [0; MOST_ROOM];

/// A part that was found.
#[derive(Debug)]
pub enum Part<'s> {
    /// Its bytes were copied. It can be rewritten with at most so many.
    Copied(usize),
    /// It never changes.
    Fixed(Entry<'s>),
}

/// See [`Store::together`].
#[derive(Debug)]
pub struct Together<'s>(#[allow(dead_code)] RwLockReadGuard<'s, ()>);

/// Where a part is.
struct Spot {
    ns: Namespace,
    key: [u8; KEY],
    hash: Hash,
}

impl Record<'_> {
    /// Is it a part with room?
    fn is_roomy(&self) -> bool {
        !self.is_wide() && self.flags() == ROOMY && self.total() >= LENGTH as u64
    }
}

impl Store {
    fn spot(&self, owner: &Owner, number: u64) -> Option<Spot> {
        let (ns, key) = (self.options.parts?, owner.part(number));
        Some(Spot { ns, key, hash: self.hasher.key(ns, &key) })
    }

    /// While it is held, the memory is given to nobody: what changes meanwhile changes as a whole
    /// for a process that takes over, or for a snapshot. Hold it for some microseconds.
    pub fn together(&self) -> Together<'_> {
        Together(self.leaving.hold())
    }

    /// Looks a part up. Appends its bytes to `out`, unless they never change.
    pub fn read_part(
        &self,
        owner: &Owner,
        number: u64,
        out: &mut Vec<u8>,
        now: Ms,
    ) -> Option<Part<'_>> {
        let Spot { ns, key, hash } = self.spot(owner, number)?;
        // Nothing is allocated under the lock.
        out.reserve(MOST_ROOM);
        let locked = self.index.lock(&self.segments, hash);
        let place = self.find_locked(&locked, ns, &key)?;
        let record = self.record(&locked, locked.loc(place));
        if self.outdated(&record, now) {
            return None;
        }
        if !record.is_roomy() {
            let held = Held::by_lock(&self.segments, &locked, record.loc());
            return Some(Part::Fixed(Entry::of(self, held, hash)));
        }
        let (length, bytes) = record.local().split_first_chunk::<LENGTH>()?;
        let length = (u32::from_ne_bytes(*length) as usize).min(bytes.len());
        out.extend_from_slice(&bytes[..length]);
        Some(Part::Copied(bytes.len()))
    }

    /// Stores a part, new or in place of another, with room for `room` bytes if there are not too
    /// many for that. Returns its room; 0: it never changes.
    ///
    /// # Errors
    /// `TooLarge`, `Full`: the part that was there stays.
    pub fn put_part(
        &self,
        owner: &Owner,
        number: u64,
        value: &[u8],
        room: usize,
        now: Ms,
    ) -> Result<usize, PutError> {
        let Spot { ns, key, hash } = self.spot(owner, number).ok_or(PutError::TooLarge)?;
        let word = fresh_word(now);
        let request = |flags| Request {
            ns,
            key: &key,
            hash,
            flags,
            expires: None,
            tags: &[],
            version: None,
            word,
            condition: If::Always,
            now,
        };
        if value.len() > MOST_ROOM {
            return self.store_parts(&request(0), &[value]).map(|_| 0);
        }
        let room = room.clamp(value.len(), MOST_ROOM).next_multiple_of(4).min(MOST_ROOM);
        let length = (value.len() as u32).to_ne_bytes();
        let filling = &FILLING[..room - value.len()];
        self.store_parts(&request(ROOMY), &[&length, value, filling]).map(|_| room)
    }

    /// Changes the bytes of a part where it lies. False: there is none, or it has not so much room.
    pub fn rewrite_part(&self, owner: &Owner, number: u64, value: &[u8], now: Ms) -> bool {
        let Some(Spot { ns, key, hash }) = self.spot(owner, number) else { return false };
        let locked = self.index.lock(&self.segments, hash);
        let Some(place) = self.find_locked(&locked, ns, &key) else { return false };
        let record = self.record(&locked, locked.loc(place));
        let has_room = record.is_roomy() && record.total() - LENGTH as u64 >= value.len() as u64;
        if !has_room || self.outdated(&record, now) {
            return false;
        }
        let length = (value.len() as u32).to_ne_bytes();
        held::rewrite(&locked, &record, &[&length, value]);
        true
    }

    /// Removes a part; false if there was none.
    pub fn delete_part(&self, owner: &Owner, number: u64, now: Ms) -> bool {
        let Some(Spot { ns, key, hash }) = self.spot(owner, number) else { return false };
        self.remove_hashed(hash, ns, &key, now, |_| true)
    }

    /// Marks a part as used, so that it counts as young; false if there is none.
    pub fn use_part(&self, owner: &Owner, number: u64, now: Ms) -> bool {
        let Some(Spot { ns, key, hash }) = self.spot(owner, number) else { return false };
        let used = self.index.find(&self.segments, hash, |slot, value, loc| {
            let Some(held) = Held::by_slot(&self.segments, slot, value, loc) else {
                return Seen::Changed;
            };
            let record = held.record();
            if !record.is(ns, &key) {
                return Seen::No;
            }
            record.note_read(record.word(), now);
            Seen::Yes(!self.outdated(&record, now))
        });
        used.unwrap_or(false)
    }

    /// Marks an entry as used, as a read does, without counting one: its parts were changed.
    pub fn note_use(&self, entry: &Entry<'_>, now: Ms) {
        entry.record().note_read(entry.record().word(), now);
    }
}
