//! A packed hash with some fields changed: entries that stay are not copied, and the index is
//! merged, not sorted anew. A write of one field costs a walk over the index.

use std::ops::Range;

use super::{Damaged, HEAD, Hash, INDEX_FROM, INDEXED, PLAIN, entry, push_length};

/// A field, and its new value; `None`: the field is removed.
pub type Change<'c> = (&'c [u8], Option<&'c [u8]>);

/// A hash to be stored.
#[derive(Debug)]
pub struct Merged<'a> {
    /// Form, count and index.
    head: Vec<u8>,
    /// Entries that are new or changed.
    own: Vec<u8>,
    pieces: Vec<Piece<'a>>,
    count: usize,
    added: usize,
    removed: usize,
}

#[derive(Debug)]
enum Piece<'a> {
    Old(&'a [u8]),
    Own(Range<usize>),
}

/// A change, and where its field stands in the hash there is.
struct Placed<'c> {
    field: &'c [u8],
    value: Option<&'c [u8]>,
    /// The order of new fields.
    nth: usize,
    /// The field's entry, or the rank it would have in the index.
    place: Result<Range<usize>, usize>,
    rank: usize,
    /// Where the new entry starts, counted from the first entry.
    start: usize,
}

/// Changes fields of `old` (`None`: there is no hash). Of several changes of one field the last
/// counts.
///
/// # Errors
/// The hash is damaged, as far as it was looked at.
pub fn merge<'a>(old: Option<&Hash<'a>>, changes: &[Change<'_>]) -> Result<Merged<'a>, Damaged> {
    let mut placed = unique(changes);
    if let Some(old) = old {
        placed.iter_mut().try_for_each(|change| change.find(old))?;
    }
    let there = old.map_or(0, Hash::len);
    let removed =
        placed.iter().filter(|change| change.place.is_ok() && change.value.is_none()).count();
    let added =
        placed.iter().filter(|change| change.place.is_err() && change.value.is_some()).count();
    let count = there.saturating_sub(removed) + added;
    let mut merged =
        Merged { head: Vec::new(), own: Vec::new(), pieces: Vec::new(), count, added, removed };
    let moved = merged.entries(old, &mut placed)?;
    merged.index(old, &placed, &moved)?;
    Ok(merged)
}

/// Each field once, sorted.
fn unique<'c>(changes: &[Change<'c>]) -> Vec<Placed<'c>> {
    let mut order: Vec<usize> = (0..changes.len()).collect();
    order.sort_by_key(|&nth| changes[nth].0);
    let mut placed: Vec<Placed<'c>> = Vec::with_capacity(changes.len());
    for nth in order {
        let (field, value) = changes[nth];
        match placed.last_mut().filter(|last| last.field == field) {
            Some(last) => last.value = value,
            None => placed.push(Placed { field, value, nth, place: Err(0), rank: 0, start: 0 }),
        }
    }
    placed
}

impl Placed<'_> {
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
struct Moved {
    first: usize,
    /// Where an entry was changed or removed, and by how much all behind it move.
    cuts: Vec<(usize, isize)>,
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
            let kept = bytes.get(at..place.start).ok_or(Damaged)?;
            self.pieces.push(Piece::Old(kept));
            (len, at) = (len + kept.len(), place.end);
            change.start = len;
            if let Some(value) = change.value {
                len += self.push(change.field, value);
            }
            moved.cuts.push((place.start, len as isize - (place.end - first) as isize));
        }
        let kept = bytes.get(at..).ok_or(Damaged)?;
        self.pieces.push(Piece::Old(kept));
        len += kept.len();
        for change in rest {
            change.start = len;
            if let Some(value) = change.value {
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
    ) -> Result<(), Damaged> {
        let indexed = self.count > INDEX_FROM;
        self.head.push(if indexed { INDEXED } else { PLAIN });
        self.head.extend_from_slice(&(self.count as u32).to_le_bytes());
        if !indexed {
            return Ok(());
        }
        let base = HEAD + self.count * 4;
        self.head.reserve_exact(self.count * 4);
        match old.filter(|old| old.indexed) {
            Some(old) => self.merge_index(old, placed, moved, base)?,
            None => self.new_index(old, placed, moved, base)?,
        }
        // Two index entries for one place: then a field would be lost or doubled.
        if self.head.len() == base { Ok(()) } else { Err(Damaged) }
    }

    fn list(&mut self, base: usize, start: usize) {
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
                if change.value.is_some() {
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
            .filter(|change| change.value.is_some())
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

    /// Fields that are new.
    pub fn added(&self) -> usize {
        self.added
    }

    /// Fields that are there no more.
    pub fn removed(&self) -> usize {
        self.removed
    }
}

#[cfg(test)]
mod tests {
    use super::{super::pack, *};

    type Model = Vec<(Vec<u8>, Vec<u8>)>;

    fn packed(model: &Model) -> Option<Vec<u8>> {
        let pairs: Vec<_> = model.iter().map(|(field, value)| (&field[..], &value[..])).collect();
        pack(&pairs)
    }

    /// The fields after one change after the other.
    fn change(model: &mut Model, changes: &[Change<'_>]) {
        for (field, value) in changes {
            let at = model.iter().position(|(known, _)| known == field);
            match (at, value) {
                (Some(at), Some(value)) => model[at].1 = value.to_vec(),
                (Some(at), None) => drop(model.remove(at)),
                (None, Some(value)) => model.push((field.to_vec(), value.to_vec())),
                (None, None) => {}
            }
        }
    }

    #[test]
    fn a_merged_hash_is_the_one_packed_anew() {
        // A plain generator: the same cases on every run.
        let mut seed = 7u64;
        let mut random = |below: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for size in [0, 1, 5, INDEX_FROM - 1, INDEX_FROM, INDEX_FROM + 1, 300] {
            for round in 0..60 {
                let mut model: Model = Vec::new();
                for n in 0..size {
                    let value = vec![b'v'; random(200) as usize];
                    change(
                        &mut model,
                        &[(format!("f{}", n * 7919 % 10_007).as_bytes(), Some(&value))],
                    );
                }
                let names: Vec<String> = (0..random(30) + 1)
                    .map(|_| match random(3) {
                        0 if size > 0 => format!("f{}", random(size as u64) * 7919 % 10_007),
                        1 => format!("new{}", random(10)),
                        _ => format!("f{}", random(10_007)),
                    })
                    .collect();
                // Sets alone or removals alone, as commands have them: of both for one field the
                // last would count.
                let removes = round % 3 == 0;
                let changes: Vec<Change<'_>> = names
                    .iter()
                    .map(|name| (name.as_bytes(), (!removes).then_some(name.as_bytes())))
                    .collect();
                let old = packed(&model);
                let old = old.as_deref().map(|bytes| Hash::read(bytes).unwrap());
                let merged = merge(old.as_ref(), &changes).unwrap();
                let before = model.len();
                change(&mut model, &changes);
                assert_eq!(merged.count(), model.len());
                assert_eq!(before + merged.added() - merged.removed(), model.len());
                if let Some(anew) = packed(&model) {
                    assert!(merged.parts().concat() == anew, "{size} fields, changed: {names:?}");
                    assert_eq!(merged.size(), anew.len());
                }
            }
        }
    }

    #[test]
    fn damage_is_told_or_stays_and_never_panics() {
        let model: Model =
            (0..100).map(|n| (format!("field{n}").into_bytes(), b"value".to_vec())).collect();
        let good = packed(&model).unwrap();
        for at in 0..good.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] ^= flip;
                let Ok(hash) = Hash::read(&bad) else { continue };
                for field in [&b"field1"[..], b"field50", b"field99", b"other"] {
                    let _ = merge(Some(&hash), &[(field, Some(b"x")), (b"y", None)]);
                }
            }
        }
    }
}
