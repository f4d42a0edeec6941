//! Runs of items. An item is its length in steps of seven bits, its bytes, and in a sorted set its
//! score (8 bytes), in a record of a stream its value with its length. In a hash it is a field, and
//! twice the length of its value, plus one if it expires, the value, and that expiry (8 bytes).

use std::ops::Range;

use memchr::memmem::Finder;

use super::{Damaged, Score, number, push_number, slice};

/// Bytes of a score in an item.
const SCORE: usize = 8;
/// Bytes of an expiry in an item.
const EXPIRY: u64 = 8;

/// The form of the items in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Bytes: elements of a list, members of a set.
    Bare,
    /// Bytes and a score: members of a sorted set.
    Scored,
    /// Bytes and further bytes: keys and records of a stream's groups.
    Valued,
    /// Bytes, further bytes and perhaps an expiry: fields of a hash.
    Field,
}

/// An item of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Item<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Its score; 0 if it has none.
    pub score: f64,
    /// Its value; empty if it has none.
    pub value: &'a [u8],
    /// Its expiry, in milliseconds since the epoch.
    pub expires: Option<u64>,
    /// Where it starts in the run.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

/// The items of a run in its order. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    shape: Shape,
    run: &'a [u8],
    at: usize,
}

impl<'a> Items<'a> {
    /// All items of a run.
    pub fn new(shape: Shape, run: &'a [u8]) -> Items<'a> {
        Items { shape, run, at: 0 }
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<Item<'a>, Damaged>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.run.len() {
            return None;
        }
        let item = item(self.shape, self.run, self.at);
        self.at = item.map_or(self.run.len(), |item| item.end);
        Some(item)
    }
}

#[inline]
fn item(shape: Shape, run: &[u8], start: usize) -> Result<Item<'_>, Damaged> {
    let (len, at) = number(run, start)?;
    let (bytes, end) = slice(run, at, len)?;
    let (value, expires) = (&[][..], None);
    match shape {
        Shape::Bare => return Ok(Item { bytes, score: 0.0, value, expires, start, end }),
        Shape::Valued => {
            let (len, at) = number(run, end)?;
            let (value, end) = slice(run, at, len)?;
            return Ok(Item { bytes, score: 0.0, value, expires, start, end });
        }
        Shape::Field => {
            let (word, at) = number(run, end)?;
            let (value, mut end) = slice(run, at, word >> 1)?;
            let mut expires = None;
            if word & 1 == 1 {
                let raw;
                (raw, end) = slice(run, end, EXPIRY)?;
                expires = Some(u64::from_le_bytes(raw.try_into().map_err(|_| Damaged)?));
            }
            return Ok(Item { bytes, score: 0.0, value, expires, start, end });
        }
        Shape::Scored => {}
    }
    let (score, end) = slice(run, end, SCORE as u64)?;
    let score = f64::from_le_bytes(score.try_into().map_err(|_| Damaged)?);
    if score.is_nan() {
        return Err(Damaged);
    }
    Ok(Item { bytes, score, value, expires, start, end })
}

/// Longest bytes that [`find`] searches with all that a processor compares at once.
const SHORT: usize = 0x7f;
/// Lengths of runs that it searches so: in a shorter one the preparation takes longer than a look
/// at all items, and in a longer one the items are large, and few.
const SEARCHED: std::ops::RangeInclusive<usize> = 2500..=32 * 1024;
/// Places in the middle of items that look like the item sought, after which all items are
/// compared: members can be chosen to look so.
const FALSE_PLACES: usize = 8;

/// The first item with these bytes.
///
/// # Errors
/// The run is damaged before it.
pub fn find<'a>(shape: Shape, run: &'a [u8], bytes: &[u8]) -> Result<Option<Item<'a>>, Damaged> {
    let mut at = 0;
    if bytes.len() <= SHORT && SEARCHED.contains(&run.len()) {
        let mut sought = [0; SHORT + 1];
        sought[0] = bytes.len() as u8;
        sought[1..=bytes.len()].copy_from_slice(bytes);
        let finder = Finder::new(&sought[..=bytes.len()]);
        let mut from = 0;
        for _ in 0..FALSE_PLACES {
            let Some(place) = finder.find(&run[from..]) else { return Ok(None) };
            let place = from + place;
            while at < place {
                at = item(shape, run, at)?.end;
            }
            if at == place {
                return item(shape, run, at).map(Some);
            }
            from = place + 1;
        }
    }
    match shape {
        Shape::Bare => compare_all(Shape::Bare, run, at, bytes),
        Shape::Scored => compare_all(Shape::Scored, run, at, bytes),
        Shape::Valued => compare_all(Shape::Valued, run, at, bytes),
        Shape::Field => compare_all(Shape::Field, run, at, bytes),
    }
}

/// [`find`] from a place on. The shape is known where it is called, so that the loop is short.
#[inline(always)]
fn compare_all<'a>(
    shape: Shape,
    run: &'a [u8],
    mut at: usize,
    bytes: &[u8],
) -> Result<Option<Item<'a>>, Damaged> {
    let first: Option<[u8; 8]> = bytes.first_chunk().copied();
    while at < run.len() {
        let (len, start) = number(run, at)?;
        let (own, mut end) = slice(run, start, len)?;
        // The first bytes tell nearly always.
        let may_be = own.len() == bytes.len() && own.first_chunk().copied() == first;
        if may_be && own == bytes {
            return item(shape, run, at).map(Some);
        }
        match shape {
            Shape::Bare => {}
            Shape::Scored => end = slice(run, end, SCORE as u64)?.1,
            Shape::Valued => {
                let (len, start) = number(run, end)?;
                end = slice(run, start, len)?.1;
            }
            Shape::Field => {
                let (word, start) = number(run, end)?;
                end = slice(run, start, word >> 1)?.1;
                if word & 1 == 1 {
                    end = slice(run, end, EXPIRY)?.1;
                }
            }
        }
        at = end;
    }
    Ok(None)
}

/// Appends an item to a run.
pub fn push_item(run: &mut Vec<u8>, shape: Shape, bytes: &[u8], score: Score) {
    push_number(run, bytes.len() as u64);
    run.extend_from_slice(bytes);
    if shape == Shape::Scored {
        run.extend_from_slice(&score.to_le_bytes());
    }
}

/// Appends an item with a value to a run.
pub fn push_valued(run: &mut Vec<u8>, bytes: &[u8], value: &[u8]) {
    push_item(run, Shape::Bare, bytes, 0.0);
    push_item(run, Shape::Bare, value, 0.0);
}

/// Appends a field of a hash to a run.
pub fn push_field(run: &mut Vec<u8>, field: &[u8], value: &[u8], expires: Option<u64>) {
    push_item(run, Shape::Bare, field, 0.0);
    push_number(run, (value.len() as u64) << 1 | u64::from(expires.is_some()));
    run.extend_from_slice(value);
    if let Some(expires) = expires {
        run.extend_from_slice(&expires.to_le_bytes());
    }
}

/// How a run is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// All parts are alike.
    Even,
    /// The first parts are filled, because the run grows at its end.
    First,
    /// The last parts are filled, because the run grows at its start.
    Last,
}

/// Divides a run into runs of at most `most` bytes, or of one item: its parts and the number of
/// items of each.
///
/// # Errors
/// The run is damaged.
pub fn divide(
    shape: Shape,
    run: &[u8],
    most: usize,
    fill: Fill,
) -> Result<Vec<(Range<usize>, u64)>, Damaged> {
    let mut items = Vec::new();
    for item in Items::new(shape, run) {
        let item = item?;
        items.push(item.start..item.end);
    }
    let runs = run.len().div_ceil(most.max(1)).max(1);
    let aim = if fill == Fill::Even { (run.len() / runs + 1).min(most) } else { most };
    let mut parts: Vec<(Range<usize>, u64)> = Vec::new();
    let mut add = |item: Range<usize>| match parts.last_mut() {
        Some((part, count)) if part.len() < aim && part.len() + item.len() <= most => {
            *part = part.start.min(item.start)..part.end.max(item.end);
            *count += 1;
        }
        _ => parts.push((item, 1)),
    };
    if fill == Fill::Last {
        items.into_iter().rev().for_each(add);
        parts.reverse();
    } else {
        items.into_iter().for_each(&mut add);
    }
    Ok(parts)
}
