//! Streams in payloads: listpacks of entries, facts, groups with what is pending.

use super::loader::Part;
use super::packed::{Packed, Packing};
use super::{Bad, Reader, kind};
use crate::resp::stream::StreamId;

/// The entry is removed.
const DELETED: i64 = 1;
/// The entry has the fields of the first.
const SAME_FIELDS: i64 = 2;
/// Most fields of an entry.
const FIELDS: i64 = 1 << 16;

/// A stream that is being read.
#[derive(Clone, Debug)]
pub(super) struct StreamLoader {
    kind: u8,
    at: At,
    /// Listpacks, then groups that are still to come.
    left: u64,
    first: Option<StreamId>,
    last: Option<StreamId>,
    /// Number of entries, and the last ID given.
    facts: (u64, StreamId),
}

/// The part that comes next.
#[derive(Clone, Debug)]
enum At {
    Listpacks,
    Entries(Box<Entries>),
    Groups,
    /// So many pending entries of a group.
    Pending(u64),
    Consumers(u64),
    /// So many pending entries of a consumer, and so many consumers behind it.
    Owned(u64, u64),
}

/// An entry of a listpack.
enum Entry {
    /// Its ID, and its fields and values in turn.
    There(StreamId, Vec<Vec<u8>>),
    /// Its number of elements.
    Removed(usize),
}

/// A listpack of entries.
#[derive(Clone, Debug)]
struct Entries {
    packed: Packed,
    base: StreamId,
    names: Vec<Vec<u8>>,
}

impl StreamLoader {
    pub(super) fn new(kind: u8, reader: &mut Reader<'_>) -> Result<StreamLoader, Bad> {
        Ok(StreamLoader {
            kind,
            at: At::Listpacks,
            left: reader.len()?,
            first: None,
            last: None,
            facts: (0, StreamId::MIN),
        })
    }

    /// The next part; None: it was the last.
    pub(super) fn next(&mut self, reader: &mut Reader<'_>) -> Result<Option<Part>, Bad> {
        loop {
            match &mut self.at {
                At::Listpacks if self.left == 0 => {
                    let facts = self.facts(reader)?;
                    self.left = reader.len()?;
                    self.at = At::Groups;
                    return Ok(Some(facts));
                }
                At::Listpacks => {
                    self.left -= 1;
                    let (entries, bytes) = Entries::read(reader)?;
                    self.at = At::Entries(Box::new(entries));
                    return Ok(Some(Part::Skipped(bytes)));
                }
                At::Entries(entries) => match entries.next()? {
                    Some(Entry::Removed(elements)) => return Ok(Some(Part::Skipped(elements))),
                    Some(Entry::There(id, pairs)) => {
                        if self.last.is_some_and(|last| id <= last) || id == StreamId::MIN {
                            return Err(Bad);
                        }
                        self.first = self.first.or(Some(id));
                        self.last = Some(id);
                        return Ok(Some(Part::Entry(id, pairs)));
                    }
                    None => self.at = At::Listpacks,
                },
                At::Groups if self.left == 0 => return Ok(None),
                At::Groups => {
                    self.left -= 1;
                    let (name, last) = (reader.string()?, id(reader)?);
                    let read = match self.kind {
                        kind::STREAM => self.read_up_to(last),
                        _ => Some(reader.len()?).filter(|read| *read != u64::MAX),
                    };
                    self.at = At::Pending(reader.len()?);
                    return Ok(Some(Part::Group(name, last, read)));
                }
                At::Pending(0) => self.at = At::Consumers(reader.len()?),
                At::Pending(left) => {
                    *left -= 1;
                    let (id, time, count) = (raw_id(reader)?, reader.fixed()?, reader.len()?);
                    return Ok(Some(Part::Pending(id, time, count)));
                }
                At::Consumers(0) => self.at = At::Groups,
                At::Consumers(left) => {
                    let left = *left - 1;
                    let (name, seen) = (reader.string()?, reader.fixed()?);
                    if self.kind == kind::STREAM_3 {
                        // When it was active last.
                        reader.fixed()?;
                    }
                    self.at = At::Owned(reader.len()?, left);
                    return Ok(Some(Part::Consumer(name, seen)));
                }
                At::Owned(0, consumers) => self.at = At::Consumers(*consumers),
                At::Owned(left, _) => {
                    *left -= 1;
                    return Ok(Some(Part::Owned(raw_id(reader)?)));
                }
            }
        }
    }

    /// Number of entries that a group of an old payload has read: it counts from the first entry
    /// there is. None: not known. (Redis: `streamEstimateDistanceFromFirstEverEntry`.)
    fn read_up_to(&self, id: StreamId) -> Option<u64> {
        let (count, last) = self.facts;
        match self.first {
            _ if count == 0 => Some(0),
            _ if id == last => Some(count),
            Some(first) if id < first => Some(0),
            Some(first) if id == first => Some(1),
            _ => None,
        }
    }

    fn facts(&mut self, reader: &mut Reader<'_>) -> Result<Part, Bad> {
        let (count, last) = (reader.len()?, id(reader)?);
        if self.last.is_some_and(|own| own > last) {
            return Err(Bad);
        }
        self.facts = (count, last);
        if self.kind == kind::STREAM {
            return Ok(Part::Facts(count, last, StreamId::MIN, count));
        }
        // The first ID is that of the first entry.
        id(reader)?;
        Ok(Part::Facts(count, last, id(reader)?, reader.len()?))
    }
}

fn id(reader: &mut Reader<'_>) -> Result<StreamId, Bad> {
    Ok(StreamId { ms: reader.len()?, seq: reader.len()? })
}

fn raw_id(reader: &mut Reader<'_>) -> Result<StreamId, Bad> {
    StreamId::of_key(reader.take(16)?).ok_or(Bad)
}

impl Entries {
    /// With the length of the listpack.
    fn read(reader: &mut Reader<'_>) -> Result<(Entries, usize), Bad> {
        let base = StreamId::of_key(&reader.string()?).ok_or(Bad)?;
        let bytes = reader.string()?;
        let len = bytes.len();
        let mut packed = Packed::new(Packing::Listpack, bytes)?;
        // Numbers of entries and of removed ones.
        packed.must()?;
        packed.must()?;
        let count = fields(packed.must()?.number()?)?;
        let mut names = Vec::new();
        for _ in 0..count {
            names.push(packed.must()?.into_bytes());
        }
        packed.must()?;
        Ok((Entries { packed, base, names }, len))
    }

    fn next(&mut self) -> Result<Option<Entry>, Bad> {
        let Some(flags) = self.packed.next()? else { return Ok(None) };
        let flags = flags.number()?;
        let (ms, seq) = (self.packed.must()?.number()?, self.packed.must()?.number()?);
        let ms = self.base.ms.wrapping_add_signed(ms);
        let id = StreamId { ms, seq: self.base.seq.wrapping_add_signed(seq) };
        let (is_removed, has_same) = (flags & DELETED != 0, flags & SAME_FIELDS != 0);
        let count = match has_same {
            true => self.names.len() as i64,
            false => fields(self.packed.must()?.number()?)?,
        };
        let elements = if has_same { count } else { 2 * count };
        let mut pairs = Vec::new();
        if is_removed {
            for _ in 0..elements {
                self.packed.must()?;
            }
        } else if has_same {
            for name in &self.names {
                pairs.extend([name.clone(), self.packed.must()?.into_bytes()]);
            }
        } else {
            for _ in 0..2 * count {
                pairs.push(self.packed.must()?.into_bytes());
            }
        }
        // The number of elements, to go backwards.
        self.packed.must()?;
        match pairs.is_empty() {
            _ if is_removed => Ok(Some(Entry::Removed(elements as usize))),
            true => Err(Bad),
            false => Ok(Some(Entry::There(id, pairs))),
        }
    }
}

fn fields(number: i64) -> Result<i64, Bad> {
    if (0..=FIELDS).contains(&number) { Ok(number) } else { Err(Bad) }
}
