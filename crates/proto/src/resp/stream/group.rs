//! The records of consumer groups, by keys in this order:
//!
//! | key | record |
//! |---|---|
//! | 0, name | a group |
//! | 1, group, consumer | a consumer |
//! | 2, group, ID | a pending entry |
//! | 3, group, consumer, ID | nothing: the pending entries of a consumer |
//! | 4, group, name | the number of a consumer |
//!
//! Groups and consumers have numbers of their stream (4 bytes, big-endian).

use super::{StreamId, id_at, push_id};
use crate::resp::collection::{Damaged, number, push_number};

/// Keys of the records.
pub mod key {
    use super::StreamId;

    /// The start of all groups.
    pub const GROUPS: &[u8] = &[0];

    fn of(kind: u8, numbers: &[u32], rest: &[u8]) -> Vec<u8> {
        let mut key = Vec::with_capacity(1 + 4 * numbers.len() + rest.len());
        key.push(kind);
        numbers.iter().for_each(|number| key.extend_from_slice(&number.to_be_bytes()));
        key.extend_from_slice(rest);
        key
    }

    /// A group.
    pub fn group(name: &[u8]) -> Vec<u8> {
        of(0, &[], name)
    }

    /// A consumer.
    pub fn consumer(group: u32, consumer: u32) -> Vec<u8> {
        of(1, &[group, consumer], &[])
    }

    /// A pending entry.
    pub fn pending(group: u32, id: StreamId) -> Vec<u8> {
        of(2, &[group], &id.to_key())
    }

    /// A pending entry of a consumer.
    pub fn owned(group: u32, consumer: u32, id: StreamId) -> Vec<u8> {
        of(3, &[group, consumer], &id.to_key())
    }

    /// A consumer's name.
    pub fn name(group: u32, name: &[u8]) -> Vec<u8> {
        of(4, &[group], name)
    }

    /// The start of a group's records of a kind (1 to 4).
    pub fn start(kind: u8, group: u32) -> Vec<u8> {
        of(kind, &[group], &[])
    }

    /// The ID at the end of the key of a pending entry.
    pub fn id(key: &[u8]) -> Option<StreamId> {
        StreamId::of_key(key.get(key.len().checked_sub(16)?..)?)
    }

    /// The name at the end of the key of a consumer's name.
    pub fn name_of(key: &[u8]) -> &[u8] {
        key.get(5..).unwrap_or_default()
    }
}

/// A consumer group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its number.
    pub number: u32,
    /// The last ID that was delivered.
    pub last: StreamId,
    /// Number of entries of the stream up to that one; None: not known.
    pub read: Option<u64>,
    /// Number of pending entries.
    pub pending: u64,
    /// Number of consumers.
    pub consumers: u64,
}

impl Group {
    /// Reads a record.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn read(bytes: &[u8]) -> Result<Group, Damaged> {
        let (own, at) = number(bytes, 0)?;
        let (last, at) = id_at(bytes, at)?;
        let (read, at) = number(bytes, at)?;
        let (pending, at) = number(bytes, at)?;
        let (consumers, _) = number(bytes, at)?;
        let own = u32::try_from(own).map_err(|_| Damaged)?;
        Ok(Group { number: own, last, read: read.checked_sub(1), pending, consumers })
    }

    /// Its bytes.
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(24);
        push_number(&mut out, self.number.into());
        push_id(&mut out, self.last);
        let read = self.read.map_or(0, |read| read.saturating_add(1));
        for number in [read, self.pending, self.consumers] {
            push_number(&mut out, number);
        }
        out
    }
}

/// A consumer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consumer {
    /// Its number.
    pub number: u32,
    /// When it was last seen, in milliseconds since 1970.
    pub seen: u64,
    /// Number of its pending entries.
    pub pending: u64,
    /// Its name.
    pub name: Vec<u8>,
}

impl Consumer {
    /// Reads a record.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn read(bytes: &[u8]) -> Result<Consumer, Damaged> {
        let (own, at) = number(bytes, 0)?;
        let (seen, at) = number(bytes, at)?;
        let (pending, at) = number(bytes, at)?;
        let own = u32::try_from(own).map_err(|_| Damaged)?;
        Ok(Consumer { number: own, seen, pending, name: bytes[at..].to_vec() })
    }

    /// Its bytes.
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + self.name.len());
        for number in [self.number.into(), self.seen, self.pending] {
            push_number(&mut out, number);
        }
        out.extend_from_slice(&self.name);
        out
    }
}

/// An entry that was delivered, and is not acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// The number of its consumer.
    pub consumer: u32,
    /// When it was delivered last, in milliseconds since 1970.
    pub time: u64,
    /// How often it was delivered.
    pub count: u64,
}

impl Pending {
    /// Reads a record.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn read(bytes: &[u8]) -> Result<Pending, Damaged> {
        let (consumer, at) = number(bytes, 0)?;
        let (time, at) = number(bytes, at)?;
        let (count, _) = number(bytes, at)?;
        Ok(Pending { consumer: u32::try_from(consumer).map_err(|_| Damaged)?, time, count })
    }

    /// Its bytes.
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(12);
        for number in [self.consumer.into(), self.time, self.count] {
            push_number(&mut out, number);
        }
        out
    }
}
