//! A payload as a sequence of parts, so that values of any size are read in steps.

use super::packed::{Packed, Packing};
use super::stream::StreamLoader;
use super::{Bad, FOOTER, Reader, Text, kind};
use crate::resp::stream::StreamId;

/// The latest expiry of a field (Redis: `EB_EXPIRE_TIME_MAX`).
const LATEST: u64 = (1 << 48) - 1;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A string.
    String,
    /// A list: [`Part::Element`]s.
    List,
    /// A set: [`Part::Element`]s.
    Set,
    /// A sorted set: [`Part::Scored`].
    SortedSet,
    /// A hash: [`Part::Pair`]s and [`Part::Expiring`].
    Hash,
    /// A stream: entries, facts, and groups with what is theirs.
    Stream,
}

/// A part of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// An element or member.
    Element(Vec<u8>),
    /// A field and its value.
    Pair(Vec<u8>, Vec<u8>),
    /// The same of a field that expires at this time, in ms since the epoch.
    Expiring(Vec<u8>, Vec<u8>, u64),
    /// A member and its score.
    Scored(Vec<u8>, f64),
    /// An entry of a stream: names and values in turn.
    Entry(StreamId, Vec<Vec<u8>>),
    /// The facts of a stream: number of entries, last ID, greatest deleted ID, entries ever added.
    Facts(u64, StreamId, StreamId, u64),
    /// A group: name, last ID, entries read.
    Group(Vec<u8>, StreamId, Option<u64>),
    /// A pending entry of the last group: ID, time, deliveries. It gets its consumer later.
    Pending(StreamId, u64, u64),
    /// A consumer of the last group: name, when it was seen.
    Consumer(Vec<u8>, u64),
    /// A pending entry of the last consumer.
    Owned(StreamId),
    /// Nothing; so many bytes or elements were read for it. A payload may have any number of them.
    Skipped(usize),
}

/// Reads a payload.
#[derive(Clone, Debug)]
pub struct Loader {
    kind: u8,
    at: usize,
    /// Elements, or packed strings of them, that are still to come.
    left: u64,
    packed: Option<Packed>,
    stream: Option<StreamLoader>,
    /// The first expiry of a field of a hash, from which the others are counted.
    soonest: u64,
}

impl Loader {
    /// Begins to read a payload, whose checksum was checked.
    ///
    /// # Errors
    /// It is of no known type.
    pub fn new(payload: &[u8]) -> Result<Loader, Bad> {
        let mut reader = Reader { bytes: value(payload), at: 0 };
        let kind = reader.byte()?;
        let (mut left, mut packed, mut stream, mut soonest) = (0, None, None, 0);
        match kind {
            kind::STRING => {}
            kind::LIST | kind::SET | kind::ZSET | kind::ZSET_2 | kind::HASH => {
                left = reader.len()?;
            }
            kind::LIST_QUICKLIST | kind::LIST_QUICKLIST_2 => left = reader.len()?,
            kind::SET_INTSET => packed = Some(Packed::new(Packing::Integers, reader.string()?)?),
            kind::LIST_ZIPLIST | kind::ZSET_ZIPLIST | kind::HASH_ZIPLIST => {
                packed = Some(Packed::new(Packing::Ziplist, reader.string()?)?);
            }
            kind::HASH_LISTPACK | kind::ZSET_LISTPACK | kind::SET_LISTPACK => {
                packed = Some(Packed::new(Packing::Listpack, reader.string()?)?);
            }
            kind::HASH_METADATA => (soonest, left) = (reader.fixed()?, reader.len()?),
            kind::HASH_LISTPACK_EX => {
                reader.fixed()?;
                packed = Some(Packed::new(Packing::Listpack, reader.string()?)?);
            }
            kind::STREAM | kind::STREAM_2 | kind::STREAM_3 => {
                stream = Some(StreamLoader::new(kind, &mut reader)?);
            }
            _ => return Err(Bad),
        }
        Ok(Loader { kind, at: reader.at, left, packed, stream, soonest })
    }

    /// The type of the value.
    pub fn form(&self) -> Form {
        match self.kind {
            kind::STRING => Form::String,
            kind::SET | kind::SET_INTSET | kind::SET_LISTPACK => Form::Set,
            kind::ZSET | kind::ZSET_2 | kind::ZSET_ZIPLIST | kind::ZSET_LISTPACK => Form::SortedSet,
            kind::HASH | kind::HASH_ZIPLIST | kind::HASH_LISTPACK => Form::Hash,
            kind::HASH_METADATA | kind::HASH_LISTPACK_EX => Form::Hash,
            kind::STREAM | kind::STREAM_2 | kind::STREAM_3 => Form::Stream,
            _ => Form::List,
        }
    }

    /// The string of a payload of one.
    ///
    /// # Errors
    /// There is none.
    pub fn text(&self, payload: &[u8]) -> Result<Text, Bad> {
        let mut reader = Reader { bytes: value(payload), at: self.at };
        let text = reader.text()?;
        if reader.at == reader.bytes.len() { Ok(text) } else { Err(Bad) }
    }

    /// The next part of another value; None: it was the last.
    ///
    /// # Errors
    /// The bytes are no such value.
    pub fn next(&mut self, payload: &[u8]) -> Result<Option<Part>, Bad> {
        let mut reader = Reader { bytes: value(payload), at: self.at };
        let part = self.read(&mut reader)?;
        self.at = reader.at;
        if part.is_none() && reader.at != reader.bytes.len() {
            return Err(Bad);
        }
        Ok(part)
    }

    fn read(&mut self, reader: &mut Reader<'_>) -> Result<Option<Part>, Bad> {
        if let Some(stream) = &mut self.stream {
            return stream.next(reader);
        }
        if let Some(packed) = &mut self.packed {
            if let Some(part) = unpacked(self.kind, packed)? {
                return Ok(Some(part));
            }
            self.packed = None;
        }
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        Ok(Some(match self.kind {
            kind::LIST | kind::SET => Part::Element(reader.string()?),
            kind::HASH => Part::Pair(reader.string()?, reader.string()?),
            kind::HASH_METADATA => {
                let time = reader.len()?;
                let time = (time > 0).then(|| self.soonest.saturating_add(time - 1));
                pair(reader.string()?, reader.string()?, time)?
            }
            kind::ZSET => Part::Scored(reader.string()?, reader.old_score()?),
            kind::ZSET_2 => Part::Scored(reader.string()?, reader.score()?),
            kind::LIST_QUICKLIST => self.unpack(Packing::Ziplist, reader)?,
            kind::LIST_QUICKLIST_2 => match reader.len()? {
                1 => Part::Element(reader.string()?),
                2 => self.unpack(Packing::Listpack, reader)?,
                _ => return Err(Bad),
            },
            _ => return Err(Bad),
        }))
    }

    /// Begins a packed string of elements.
    fn unpack(&mut self, packing: Packing, reader: &mut Reader<'_>) -> Result<Part, Bad> {
        let bytes = reader.string()?;
        let part = Part::Skipped(bytes.len());
        self.packed = Some(Packed::new(packing, bytes)?);
        Ok(part)
    }
}

/// The value of a payload.
fn value(payload: &[u8]) -> &[u8] {
    &payload[..payload.len().saturating_sub(FOOTER)]
}

/// A field, its value and its expiry, which fits a record.
fn pair(field: Vec<u8>, value: Vec<u8>, time: Option<u64>) -> Result<Part, Bad> {
    match time {
        None => Ok(Part::Pair(field, value)),
        Some(time) if time <= LATEST => Ok(Part::Expiring(field, value, time)),
        Some(_) => Err(Bad),
    }
}

/// The next part of a packed string.
fn unpacked(kind: u8, packed: &mut Packed) -> Result<Option<Part>, Bad> {
    let Some(first) = packed.next()? else { return Ok(None) };
    let first = first.into_bytes();
    Ok(Some(match kind {
        kind::HASH_ZIPLIST | kind::HASH_LISTPACK => Part::Pair(first, packed.must()?.into_bytes()),
        kind::HASH_LISTPACK_EX => {
            let value = packed.must()?.into_bytes();
            let time = u64::try_from(packed.must()?.number()?).map_err(|_| Bad)?;
            pair(first, value, (time > 0).then_some(time))?
        }
        kind::ZSET_ZIPLIST | kind::ZSET_LISTPACK => {
            let text = packed.must()?.into_bytes();
            let text = std::str::from_utf8(&text).map_err(|_| Bad)?;
            let score: f64 = text.parse().map_err(|_| Bad)?;
            if score.is_nan() {
                return Err(Bad);
            }
            Part::Scored(first, score)
        }
        _ => Part::Element(first),
    }))
}
