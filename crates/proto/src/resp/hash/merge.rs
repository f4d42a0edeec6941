//! A packed hash with some fields changed: entries that stay are not copied, and the index is
//! merged, not sorted anew. A write of one field costs a walk over the index.

use std::ops::Range;

use super::{
    Damaged, EXPIRY, Hash, INDEX_FROM, entry,
    expiries::{self, At},
    push_length,
};

/// A change of a field.
#[derive(Clone, Copy, Debug)]
pub struct Change<'c> {
    /// The field.
    pub field: &'c [u8],
    /// The effect on its value.
    pub value: Value<'c>,
    /// The effect on its expiry.
    pub expiry: Expiry,
}

/// Effect of a change on the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'c> {
    /// This is the new value.
    Set(&'c [u8]),
    /// The field is removed.
    Remove,
    /// It stays; a missing field stays missing.
    Keep,
}

/// Effect of a change on the expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// It stays.
    Keep,
    /// There is none.
    Never,
    /// This is the new one, in ms since the epoch.
    At(u64),
}

impl<'c> Change<'c> {
    /// Sets a field; its expiry goes.
    pub fn set(field: &'c [u8], value: &'c [u8]) -> Self {
        Self { field, value: Value::Set(value), expiry: Expiry::Never }
    }

    /// Sets a field; its expiry stays.
    pub fn update(field: &'c [u8], value: &'c [u8]) -> Self {
        Self { field, value: Value::Set(value), expiry: Expiry::Keep }
    }

    /// Removes a field.
    pub fn remove(field: &'c [u8]) -> Self {
        Self { field, value: Value::Remove, expiry: Expiry::Never }
    }

    /// Changes the expiry alone.
    pub fn expire(field: &'c [u8], expiry: Expiry) -> Self {
        Self { field, value: Value::Keep, expiry }
    }
}

/// A hash to be stored.
#[derive(Debug, Default)]
pub struct Merged<'a> {
    /// Form, count, index and expiries.
    pub(super) head: Vec<u8>,
    /// Entries that are new or changed.
    pub(super) own: Vec<u8>,
    pub(super) pieces: Vec<Piece<'a>>,
    pub(super) count: usize,
    pub(super) added: usize,
    pub(super) removed: usize,
    pub(super) expiries: Vec<At>,
}

#[derive(Debug)]
pub(super) enum Piece<'a> {
    Old(&'a [u8]),
    Own(Range<usize>),
}

/// A change, and where its field stands in the hash there is.
struct Placed<'c> {
    field: &'c [u8],
    value: Value<'c>,
    expiry: Expiry,
    /// The order of new fields.
    nth: usize,
    /// The field's entry, or the rank it would have in the index.
    place: Result<Range<usize>, usize>,
    rank: usize,
    /// Where the new entry starts, counted from the first entry.
    start: usize,
}

/// Changes fields of `old` (`None`: there is no hash). Of several changes of one field the last
/// counts. `key`: the key's own expiry.
///
/// # Errors
/// The hash is damaged, as far as it was looked at.
pub fn merge<'a>(
    old: Option<&Hash<'a>>,
    changes: &[Change<'_>],
    key: Option<u64>,
) -> Result<Merged<'a>, Damaged> {
    let mut placed = unique(changes);
    if let Some(old) = old {
        placed.iter_mut().try_for_each(|change| change.find(old))?;
    }
    placed.retain(|change| change.place.is_ok() || change.value != Value::Keep);
    let there = old.map_or(0, Hash::len);
    let removes = |change: &&Placed<'_>| change.place.is_ok() && change.value == Value::Remove;
    let removed = placed.iter().filter(removes).count();
    let added = placed.iter().filter(|change| change.place.is_err() && change.is_set()).count();
    let count = there.saturating_sub(removed) + added;
    let mut merged = Merged { count, added, removed, ..Merged::default() };
    let moved = merged.entries(old, &mut placed)?;
    merged.expiries = new_expiries(old, &placed, &moved);
    placed.retain(|change| change.value != Value::Keep);
    merged.index(old, &placed, &moved, key)?;
    Ok(merged)
}

/// Each field once, sorted.
fn unique<'c>(changes: &[Change<'c>]) -> Vec<Placed<'c>> {
    let mut order: Vec<usize> = (0..changes.len()).collect();
    order.sort_by_key(|&nth| changes[nth].field);
    let mut placed: Vec<Placed<'c>> = Vec::with_capacity(changes.len());
    for nth in order {
        let Change { field, value, expiry } = changes[nth];
        match placed.last_mut().filter(|last| last.field == field) {
            Some(last) => (last.value, last.expiry) = (value, expiry),
            None => {
                placed.push(Placed { field, value, expiry, nth, place: Err(0), rank: 0, start: 0 });
            }
        }
    }
    placed
}

impl Placed<'_> {
    fn is_set(&self) -> bool {
        matches!(self.value, Value::Set(_))
    }

    fn find(&mut self, old: &Hash<'_>) -> Result<(), Damaged> {
        if !old.indexed {
            let mut at = old.entries();
            for _ in 0..old.count {
                let ((field, _), end) = entry(old.bytes, at)?;
                if field == self.field {
                    self.place = Ok(at..end);
                    return Ok(());
                }
                at = end;
            }
            return Ok(());
        }
        let (mut low, mut high) = (0, old.count);
        while low < high {
            let middle = low + (high - low) / 2;
            let at = old.start(middle)?;
            let ((field, _), end) = entry(old.bytes, at)?;
            match field.cmp(self.field) {
                std::cmp::Ordering::Equal => {
                    (self.place, self.rank) = (Ok(at..end), middle);
                    return Ok(());
                }
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        (self.place, self.rank) = (Err(low), low);
        Ok(())
    }
}

/// By how much entries behind an old place move.
pub(super) struct Moved {
    pub(super) first: usize,
    /// Where an entry was changed or removed, and by how much all behind it move.
    pub(super) cuts: Vec<(usize, isize)>,
}

impl Moved {
    /// The new start of an old entry that stays, counted from the first entry.
    fn start(&self, old: usize) -> usize {
        let before = self.cuts.partition_point(|(start, _)| *start < old);
        let shift = before.checked_sub(1).map_or(0, |at| self.cuts[at].1);
        (old - self.first).wrapping_add_signed(shift)
    }
}

impl<'a> Merged<'a> {
    fn push(&mut self, field: &[u8], value: &[u8]) -> usize {
        let from = self.own.len();
        push_length(&mut self.own, field.len());
        push_length(&mut self.own, value.len());
        self.own.extend_from_slice(field);
        self.own.extend_from_slice(value);
        self.pieces.push(Piece::Own(from..self.own.len()));
        self.own.len() - from
    }

    /// The entries: old ones in their places, new ones behind them in the order they came.
    fn entries(
        &mut self,
        old: Option<&Hash<'a>>,
        placed: &mut [Placed<'_>],
    ) -> Result<Moved, Damaged> {
        let (bytes, first) = old.map_or((&[][..], 0), |old| (old.bytes, old.entries()));
        let mut changed: Vec<&mut Placed<'_>> = placed.iter_mut().collect();
        changed.sort_by_key(|change| match &change.place {
            Ok(place) => (false, place.start),
            Err(_) => (true, change.nth),
        });
        let (mut at, mut len) = (first, 0);
        let mut moved = Moved { first, cuts: Vec::new() };
        let mut rest = changed.into_iter().peekable();
        while let Some(change) = rest.next_if(|change| change.place.is_ok()) {
            let Ok(place) = change.place.clone() else { break };
            if change.value == Value::Keep {
                // Its entry moves with those before it.
                change.start = len + (place.start - at);
                continue;
            }
            let kept = bytes.get(at..place.start).ok_or(Damaged)?;
            self.pieces.push(Piece::Old(kept));
            (len, at) = (len + kept.len(), place.end);
            change.start = len;
            if let Value::Set(value) = change.value {
                len += self.push(change.field, value);
            }
            moved.cuts.push((place.start, len as isize - (place.end - first) as isize));
        }
        let kept = bytes.get(at..).ok_or(Damaged)?;
        self.pieces.push(Piece::Old(kept));
        len += kept.len();
        for change in rest {
            change.start = len;
            if let Value::Set(value) = change.value {
                len += self.push(change.field, value);
            }
        }
        Ok(moved)
    }

    fn index(
        &mut self,
        old: Option<&Hash<'a>>,
        placed: &[Placed<'_>],
        moved: &Moved,
        key: Option<u64>,
    ) -> Result<(), Damaged> {
        let indexed = self.count > INDEX_FROM;
        self.head = expiries::head(self.count, indexed, &self.expiries, key);
        let end = self.head.len() + if indexed { self.count * 4 } else { 0 };
        let base = end + self.expiries.len() * EXPIRY;
        if indexed {
            self.head.reserve_exact(self.count * 4);
            match old.filter(|old| old.indexed) {
                Some(old) => self.merge_index(old, placed, moved, base)?,
                None => self.new_index(old, placed, moved, base)?,
            }
        }
        // Two index entries for one place: then a field would be lost or doubled.
        if self.head.len() != end {
            return Err(Damaged);
        }
        expiries::push(&mut self.head, &self.expiries);
        Ok(())
    }

    pub(super) fn list(&mut self, base: usize, start: usize) {
        self.head.extend_from_slice(&((base + start) as u32).to_le_bytes());
    }

    fn merge_index(
        &mut self,
        old: &Hash<'a>,
        placed: &[Placed<'_>],
        moved: &Moved,
        base: usize,
    ) -> Result<(), Damaged> {
        let mut changes = placed.iter().peekable();
        for rank in 0..=old.count {
            let mut stays = rank < old.count;
            while let Some(change) = changes.next_if(|change| change.rank == rank) {
                stays &= change.place.is_err();
                if change.is_set() {
                    self.list(base, change.start);
                }
            }
            if stays {
                self.list(base, moved.start(old.start(rank)?));
            }
        }
        Ok(())
    }

    /// The index of a hash that had none: it had few fields.
    fn new_index(
        &mut self,
        old: Option<&Hash<'a>>,
        placed: &[Placed<'_>],
        moved: &Moved,
        base: usize,
    ) -> Result<(), Damaged> {
        let mut starts: Vec<(&[u8], usize)> = placed
            .iter()
            .filter(|change| change.is_set())
            .map(|change| (change.field, change.start))
            .collect();
        let mut at = old.map_or(0, Hash::entries);
        for _ in 0..old.map_or(0, Hash::len) {
            let bytes = old.map_or(&[][..], |old| old.bytes);
            let ((field, _), end) = entry(bytes, at)?;
            if placed.binary_search_by_key(&field, |change| change.field).is_err() {
                starts.push((field, moved.start(at)));
            }
            at = end;
        }
        starts.sort_unstable();
        starts.into_iter().for_each(|(_, start)| self.list(base, start));
        Ok(())
    }

    /// The record in parts, in order.
    pub fn parts(&self) -> Vec<&[u8]> {
        let pieces = self.pieces.iter().map(|piece| match piece {
            Piece::Old(bytes) => bytes,
            Piece::Own(range) => &self.own[range.clone()],
        });
        std::iter::once(&self.head[..]).chain(pieces).filter(|part| !part.is_empty()).collect()
    }

    /// Bytes of the record.
    pub fn size(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }

    /// How many fields it has. 0: there is nothing to store.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Does a field expire?
    pub fn is_expiring(&self) -> bool {
        !self.expiries.is_empty()
    }

    /// The expiry of the field that expires first.
    pub fn soonest(&self) -> Option<u64> {
        self.expiries.iter().map(|(_, time)| *time).min()
    }

    /// The expiry of the field that expires last, if all of them expire.
    pub fn last_expiry(&self) -> Option<u64> {
        let all = self.expiries.len() == self.count;
        self.expiries.iter().map(|(_, time)| *time).max().filter(|_| all)
    }

    /// Fields that are new.
    pub fn added(&self) -> usize {
        self.added
    }

    /// Fields that are there no more.
    pub fn removed(&self) -> usize {
        self.removed
    }
}

/// The expiries of the changed hash: those of old fields in their order, and of new ones.
fn new_expiries(old: Option<&Hash<'_>>, placed: &[Placed<'_>], moved: &Moved) -> Vec<At> {
    let sets = |change: &Placed<'_>| matches!(change.expiry, Expiry::At(_));
    if old.is_none_or(|old| old.expiring == 0) && !placed.iter().any(sets) {
        return Vec::new();
    }
    let mut changed: Vec<&Placed<'_>> = placed.iter().collect();
    changed.sort_by_key(|change| match &change.place {
        Ok(place) => (false, place.start),
        Err(_) => (true, change.nth),
    });
    let mut changed = changed.into_iter().peekable();
    let mut out = Vec::with_capacity(old.map_or(0, |old| old.expiring) + placed.len());
    let change = |change: &Placed<'_>, known: Option<u64>, out: &mut Vec<At>| {
        let time = match change.expiry {
            _ if change.value == Value::Remove => None,
            Expiry::Keep => known,
            Expiry::Never => None,
            Expiry::At(time) => Some(time),
        };
        out.extend(time.map(|time| (change.start as u32, time)));
    };
    for (offset, time) in old.into_iter().flat_map(Hash::expiries) {
        let at = moved.first + offset as usize;
        // Changed old fields stand before new ones, in their order.
        while let Some(before) =
            changed.next_if(|next| next.place.as_ref().is_ok_and(|place| place.start < at))
        {
            change(before, None, &mut out);
        }
        match changed.next_if(|next| next.place.as_ref().is_ok_and(|place| place.start == at)) {
            Some(same) => change(same, Some(time), &mut out),
            None => out.push((moved.start(at) as u32, time)),
        }
    }
    changed.for_each(|rest| change(rest, None, &mut out));
    out
}

#[cfg(test)]
mod tests;
