//! A packed hash without its expired fields, in one walk over the expiries and one over the index:
//! all fields of the largest hash may expire at once.

use super::{
    Damaged, EXPIRY, Hash, INDEX_FROM, entry,
    expiries::{self, At},
    merge::{Merged, Moved, Piece},
};

/// Bytes of entries per place in [`Cuts::blocks`]: about two entries of the largest hash.
const BLOCK: usize = 64;

/// Removed entries.
struct Cuts {
    moved: Moved,
    /// For each block of entries, the number of cuts before it.
    blocks: Vec<u32>,
}

impl Cuts {
    fn new(moved: Moved, bytes: usize) -> Cuts {
        let mut blocks = Vec::with_capacity(bytes / BLOCK + 1);
        for (nth, (start, _)) in moved.cuts.iter().enumerate() {
            let block = (start - moved.first) / BLOCK;
            while blocks.len() <= block {
                blocks.push(nth as u32);
            }
        }
        blocks.resize(bytes / BLOCK + 1, moved.cuts.len() as u32);
        Cuts { moved, blocks }
    }

    /// The new start of an entry, counted from the first one. `None`: it is removed.
    fn start(&self, old: usize) -> Option<usize> {
        let offset = old.checked_sub(self.moved.first)?;
        let mut next = *self.blocks.get(offset / BLOCK)? as usize;
        while let Some((start, _)) = self.moved.cuts.get(next).filter(|(start, _)| *start <= old) {
            if *start == old {
                return None;
            }
            next += 1;
        }
        let shift = next.checked_sub(1).map_or(0, |at| self.moved.cuts[at].1);
        Some(offset.wrapping_add_signed(shift))
    }
}

/// Removes the fields that have expired. `key`: the key's own expiry.
///
/// # Errors
/// The hash is damaged, as far as it was looked at.
pub fn purge<'a>(old: &Hash<'a>, now: u64, key: Option<u64>) -> Result<Merged<'a>, Damaged> {
    let (bytes, first) = (old.bytes, old.entries());
    let mut merged = Merged::default();
    let mut moved = Moved { first, cuts: Vec::new() };
    let (mut at, mut len) = (first, 0);
    for (offset, _) in old.expiries().filter(|(_, time)| *time <= now) {
        let start = first + offset as usize;
        let kept = bytes.get(at..start).ok_or(Damaged)?;
        let (_, end) = entry(bytes, start)?;
        if !kept.is_empty() {
            merged.pieces.push(Piece::Old(kept));
        }
        (len, at) = (len + kept.len(), end);
        moved.cuts.push((start, len as isize - (end - first) as isize));
    }
    merged.pieces.push(Piece::Old(bytes.get(at..).ok_or(Damaged)?));
    merged.removed = moved.cuts.len();
    merged.count = old.count.checked_sub(merged.removed).ok_or(Damaged)?;
    let cuts = Cuts::new(moved, bytes.len() - first);
    merged.expiries = old
        .expiries()
        .filter(|(_, time)| *time > now)
        .filter_map(|(offset, time)| {
            cuts.start(first + offset as usize).map(|start| (start as u32, time))
        })
        .collect::<Vec<At>>();
    index(&mut merged, old, &cuts, key)?;
    Ok(merged)
}

fn index(
    merged: &mut Merged<'_>,
    old: &Hash<'_>,
    cuts: &Cuts,
    key: Option<u64>,
) -> Result<(), Damaged> {
    // Below this number there is none, as `merge` leaves it.
    let indexed = merged.count > INDEX_FROM;
    merged.head = expiries::head(merged.count, indexed, &merged.expiries, key);
    let end = merged.head.len() + if indexed { merged.count * 4 } else { 0 };
    let base = end + merged.expiries.len() * EXPIRY;
    if indexed {
        merged.head.reserve_exact(base - merged.head.len());
        for rank in 0..old.count {
            if let Some(start) = cuts.start(old.start(rank)?) {
                merged.list(base, start);
            }
        }
    }
    if merged.head.len() != end {
        return Err(Damaged);
    }
    expiries::push(&mut merged.head, &merged.expiries);
    Ok(())
}
