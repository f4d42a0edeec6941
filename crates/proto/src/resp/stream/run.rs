//! Runs of entries. A run begins with its *base*: an ID that is not above those of its entries, and
//! names of fields. An entry is the distance of its milliseconds from the base's, its sequence
//! number, and its fields: 0 and values, if the names are those of the base; otherwise their number
//! and names with values. All numbers are in steps of seven bits, bytes begin with their length.

use super::{StreamId, id_at, push_id};
use crate::resp::collection::{Damaged, number, push_number, slice};

/// Most fields of an entry.
const FIELDS: u64 = 1 << 20;

/// A run to read.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    bytes: &'a [u8],
    base: StreamId,
    /// The names of the base, and where the entries begin.
    names: &'a [u8],
    count: u64,
    start: usize,
}

/// An entry of a run.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Its ID.
    pub id: StreamId,
    /// Number of its fields.
    pub count: u64,
    /// Its fields.
    pub pairs: Pairs<'a>,
    /// Where it starts in the run.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

/// The fields of an entry with their values.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a> {
    /// None: names and values alternate.
    names: Option<&'a [u8]>,
    values: &'a [u8],
}

impl<'a> Run<'a> {
    /// A run; one without bytes has no entries.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn read(bytes: &'a [u8]) -> Result<Run<'a>, Damaged> {
        if bytes.is_empty() {
            return Ok(Run { bytes, base: StreamId::MIN, names: bytes, count: 0, start: 0 });
        }
        let (base, at) = id_at(bytes, 0)?;
        let (count, at) = number(bytes, at)?;
        if count > FIELDS {
            return Err(Damaged);
        }
        let start = skip(bytes, at, count)?;
        Ok(Run { bytes, base, names: &bytes[at..start], count, start })
    }

    /// Where the entries begin.
    pub fn start(&self) -> usize {
        self.start
    }

    /// The entries in the order of their IDs. Ends after the first error.
    pub fn entries(self) -> impl Iterator<Item = Result<Entry<'a>, Damaged>> + use<'a> {
        let mut at = self.start;
        std::iter::from_fn(move || {
            if at >= self.bytes.len() {
                return None;
            }
            let entry = self.entry(at);
            at = entry.map_or(self.bytes.len(), |entry| entry.end);
            Some(entry)
        })
    }

    fn entry(&self, start: usize) -> Result<Entry<'a>, Damaged> {
        let (ms, at) = number(self.bytes, start)?;
        let (seq, at) = number(self.bytes, at)?;
        let id = StreamId { ms: self.base.ms.checked_add(ms).ok_or(Damaged)?, seq };
        let (own, at) = number(self.bytes, at)?;
        if own > FIELDS {
            return Err(Damaged);
        }
        let (names, count) = if own == 0 { (Some(self.names), self.count) } else { (None, own) };
        let end = skip(self.bytes, at, if own == 0 { count } else { 2 * own })?;
        let pairs = Pairs { names, values: &self.bytes[at..end] };
        Ok(Entry { id, count, pairs, start, end })
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let name = first(self.names.as_mut().unwrap_or(&mut self.values))?;
        Some((name, first(&mut self.values)?))
    }
}

/// Takes the first of some byte strings.
fn first<'a>(strings: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, at) = number(strings, 0).ok()?;
    let (bytes, end) = slice(strings, at, len).ok()?;
    *strings = &strings[end..];
    Some(bytes)
}

/// Where `count` byte strings from `at` on end.
fn skip(bytes: &[u8], at: usize, count: u64) -> Result<usize, Damaged> {
    let mut at = at;
    for _ in 0..count {
        let (len, next) = number(bytes, at)?;
        (_, at) = slice(bytes, next, len)?;
    }
    Ok(at)
}

fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends an entry to a run, which begins with it if it is empty. Its ID is above those of the
/// run.
///
/// # Errors
/// The run is damaged.
pub fn push_entry<'p>(
    run: &mut Vec<u8>,
    id: StreamId,
    pairs: impl Iterator<Item = (&'p [u8], &'p [u8])> + Clone,
) -> Result<(), Damaged> {
    let mut names = Vec::new();
    let mut count = 0u64;
    for (name, _) in pairs.clone() {
        push_bytes(&mut names, name);
        count += 1;
    }
    if run.is_empty() {
        push_id(run, id);
        push_number(run, count);
        run.extend_from_slice(&names);
    }
    let (base, is_same) = {
        let own = Run::read(run)?;
        (own.base, own.count == count && own.names == names)
    };
    push_number(run, id.ms.checked_sub(base.ms).ok_or(Damaged)?);
    push_number(run, id.seq);
    push_number(run, if is_same { 0 } else { count });
    for (name, value) in pairs {
        if !is_same {
            push_bytes(run, name);
        }
        push_bytes(run, value);
    }
    Ok(())
}

impl Pairs<'_> {
    /// Its bytes, about.
    pub fn size(&self) -> usize {
        self.names.map_or(0, <[u8]>::len) + self.values.len()
    }
}
