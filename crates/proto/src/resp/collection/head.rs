//! The head of a collection: the value of the entry under its key.

use super::{Damaged, number, push_number, slice};

/// Version of the form, its first byte.
const FORM: u8 = 0xc1;
/// The same of a stream, whose head has further facts.
const STREAM: u8 = 0xc2;
/// The same of a hash that is a tree: with times in front.
const HASH: u8 = 0xc3;
/// The first byte of a head whose facts lie in a part of their own.
const APART: u8 = 0xc4;
/// The same of a hash: with times in front.
const HASH_APART: u8 = 0xc5;
/// Where the times of a hash stand: behind form and level.
const TIMES: usize = 2;

/// The flags of a hash that is a tree and has fields that expire.
pub const HASH_EXPIRING: u32 = 0x9d41_7e60;
/// The flags of one whose entry expires with its last field.
pub const HASH_FADING: u32 = 0x9d41_7e61;

/// The type of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A list.
    List,
    /// A set.
    Set,
    /// A sorted set.
    SortedSet,
    /// A stream.
    Stream,
    /// A hash that is a tree.
    Hash,
}

impl Kind {
    /// The flags of its head in the store.
    pub fn flags(self) -> u32 {
        match self {
            Kind::List => 0x9d41_7e5b,
            Kind::Set => 0x9d41_7e5c,
            Kind::SortedSet => 0x9d41_7e5d,
            Kind::Stream => 0x9d41_7e5e,
            // Those with fields that expire: `HASH_EXPIRING`, `HASH_FADING`.
            Kind::Hash => 0x9d41_7e5f,
        }
    }

    /// The kind with these flags.
    pub fn of(flags: u32) -> Option<Kind> {
        if matches!(flags, HASH_EXPIRING | HASH_FADING) {
            return Some(Kind::Hash);
        }
        let all = [Kind::List, Kind::Set, Kind::SortedSet, Kind::Stream, Kind::Hash];
        all.into_iter().find(|kind| kind.flags() == flags)
    }

    /// Redis's name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Kind::List => "list",
            Kind::Set => "set",
            Kind::SortedSet => "zset",
            Kind::Stream => "stream",
            Kind::Hash => "hash",
        }
    }
}

/// Times of a hash that is a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyTimes {
    /// The key's own expiry, if a field expires; 0: none.
    pub key: u64,
    /// The first expiry of a field; 0: none expires.
    pub soonest: u64,
}

/// The times of a hash that is a tree, from the first bytes of its head. None: it is none.
#[inline]
pub fn key_times(bytes: &[u8]) -> Option<KeyTimes> {
    let word =
        |at: usize| bytes.get(at..)?.first_chunk().map(|raw: &[u8; 8]| u64::from_le_bytes(*raw));
    if !matches!(bytes.first(), Some(&(HASH | HASH_APART))) {
        return None;
    }
    Some(KeyTimes { key: word(TIMES)?, soonest: word(TIMES + 8)? })
}

/// The number that names the parts of a collection whose facts lie in a part of their own: the
/// bytes of [`Head::write`]. None: they lie in these bytes, or this is no head.
pub fn facts_apart(bytes: &[u8]) -> Option<u64> {
    let at = match *bytes.first()? {
        APART => TIMES,
        HASH_APART => TIMES + 16,
        _ => return None,
    };
    let id = bytes.get(at..)?.first_chunk().map(|raw: &[u8; 8]| u64::from_le_bytes(*raw))?;
    (id != 0 && bytes.len() == at + 8).then_some(id)
}

/// The root of a tree: a run of items (level 0) or a node whose children are `level - 1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Root {
    /// Levels of nodes above the runs of items.
    pub level: u8,
    /// The run or the node.
    pub bytes: Vec<u8>,
}

/// A head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Number of items; at least one, but in a stream.
    pub count: u64,
    /// Names its parts; 0: it has none.
    pub id: u64,
    /// Parts are numbered below this.
    pub next: u64,
    /// Bytes of all parts.
    pub bytes: u64,
    /// The tree: of a list by position, of a set by member, of a sorted set by score and member, of
    /// a stream by ID.
    pub main: Root,
    /// Of a sorted set that is a tree: its members. Of a stream: its groups, if it has any.
    pub members: Option<Root>,
    /// Of a stream: its facts ([`crate::resp::stream::State`]); of others empty.
    pub extra: Vec<u8>,
    /// Of a hash: its times; of others none.
    pub times: Option<KeyTimes>,
}

impl Head {
    /// Reads a head.
    ///
    /// # Errors
    /// The bytes are none. (Runs and nodes may still turn out damaged.)
    pub fn read(bytes: &[u8]) -> Result<Head, Damaged> {
        match bytes.first() {
            Some(&FORM) => {}
            Some(&STREAM) => return Head::read_stream(bytes),
            Some(&HASH) => return Head::read_hash(bytes),
            _ => return Err(Damaged),
        }
        let level = *bytes.get(1).ok_or(Damaged)?;
        let (count, at) = number(bytes, 2)?;
        if count == 0 || count >> 48 != 0 {
            return Err(Damaged);
        }
        if level == 0 {
            let main = Root { level, bytes: bytes[at..].to_vec() };
            return Ok(Head { count, main, ..Head::default() });
        }
        let (id, at) = slice(bytes, at, 8)?;
        let id = u64::from_le_bytes(id.try_into().map_err(|_| Damaged)?);
        let (next, at) = number(bytes, at)?;
        let (size, at) = number(bytes, at)?;
        let (len, at) = number(bytes, at)?;
        let (main, at) = slice(bytes, at, len)?;
        let root = |level: &u8| Root { level: *level, bytes: bytes[at + 1..].to_vec() };
        let members = bytes.get(at).map(root);

        let main = Root { level, bytes: main.to_vec() };
        Ok(Head { count, id, next, bytes: size, main, members, ..Head::default() })
    }

    fn read_hash(bytes: &[u8]) -> Result<Head, Damaged> {
        let times = key_times(bytes).ok_or(Damaged)?;
        let level = bytes[1];
        let (count, at) = number(bytes, TIMES + 16)?;
        let (id, at) = slice(bytes, at, 8)?;
        let id = u64::from_le_bytes(id.try_into().map_err(|_| Damaged)?);
        let (next, at) = number(bytes, at)?;
        let (size, at) = number(bytes, at)?;
        if level == 0 || count == 0 || count >> 48 != 0 {
            return Err(Damaged);
        }
        let main = Root { level, bytes: bytes[at..].to_vec() };
        Ok(Head { count, id, next, bytes: size, main, times: Some(times), ..Head::default() })
    }

    fn write_hash(&self, times: KeyTimes) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.main.bytes.len());
        out.extend_from_slice(&[HASH, self.main.level]);
        out.extend_from_slice(&times.key.to_le_bytes());
        out.extend_from_slice(&times.soonest.to_le_bytes());
        push_number(&mut out, self.count);
        out.extend_from_slice(&self.id.to_le_bytes());
        push_number(&mut out, self.next);
        push_number(&mut out, self.bytes);
        out.extend_from_slice(&self.main.bytes);
        out
    }

    fn read_stream(bytes: &[u8]) -> Result<Head, Damaged> {
        let level = *bytes.get(1).ok_or(Damaged)?;
        let (count, at) = number(bytes, 2)?;
        let (id, at) = slice(bytes, at, 8)?;
        let id = u64::from_le_bytes(id.try_into().map_err(|_| Damaged)?);
        let (next, at) = number(bytes, at)?;
        let (size, at) = number(bytes, at)?;
        let (len, at) = number(bytes, at)?;
        let (main, at) = slice(bytes, at, len)?;
        let (has_members, at) = number(bytes, at)?;
        let (mut members, mut at) = (None, at);
        if has_members > 0 {
            let below = *bytes.get(at).ok_or(Damaged)?;
            let (len, start) = number(bytes, at + 1)?;
            let (root, end) = slice(bytes, start, len)?;
            (members, at) = (Some(Root { level: below, bytes: root.to_vec() }), end);
        }
        let extra = bytes[at..].to_vec();
        if count >> 48 != 0 || has_members > 1 || extra.is_empty() {
            return Err(Damaged);
        }
        let main = Root { level, bytes: main.to_vec() };
        Ok(Head { count, id, next, bytes: size, main, members, extra, times: None })
    }

    fn write_stream(&self) -> Vec<u8> {
        let members = self.members.as_ref().map_or(0, |root| root.bytes.len());
        let len = 64 + self.main.bytes.len() + members + self.extra.len();
        let mut out = Vec::with_capacity(len);
        out.extend_from_slice(&[STREAM, self.main.level]);
        push_number(&mut out, self.count);
        out.extend_from_slice(&self.id.to_le_bytes());
        push_number(&mut out, self.next);
        push_number(&mut out, self.bytes);
        push_number(&mut out, self.main.bytes.len() as u64);
        out.extend_from_slice(&self.main.bytes);
        push_number(&mut out, self.members.is_some().into());
        if let Some(members) = &self.members {
            out.push(members.level);
            push_number(&mut out, members.bytes.len() as u64);
            out.extend_from_slice(&members.bytes);
        }
        out.extend_from_slice(&self.extra);
        out
    }

    /// The bytes that stand for it under its key, if its own lie in a part ([`facts_apart`]). They
    /// change with the times of a hash alone.
    pub fn apart(&self) -> Vec<u8> {
        // As in the other forms a level that is not 0 stands second: it has parts.
        let mut out = Vec::with_capacity(TIMES + 16 + 8);
        match self.times {
            None => out.extend_from_slice(&[APART, 1]),
            Some(times) => {
                out.extend_from_slice(&[HASH_APART, 1]);
                out.extend_from_slice(&times.key.to_le_bytes());
                out.extend_from_slice(&times.soonest.to_le_bytes());
            }
        }
        out.extend_from_slice(&self.id.to_le_bytes());
        out
    }

    /// Its bytes.
    pub fn write(&self) -> Vec<u8> {
        if let Some(times) = self.times {
            return self.write_hash(times);
        }
        if !self.extra.is_empty() {
            return self.write_stream();
        }
        let members = self.members.as_ref().map_or(0, |root| root.bytes.len());
        let mut out = Vec::with_capacity(48 + self.main.bytes.len() + members);
        out.extend_from_slice(&[FORM, self.main.level]);
        push_number(&mut out, self.count);
        if self.main.level == 0 {
            out.extend_from_slice(&self.main.bytes);
            return out;
        }
        out.extend_from_slice(&self.id.to_le_bytes());
        push_number(&mut out, self.next);
        push_number(&mut out, self.bytes);
        push_number(&mut out, self.main.bytes.len() as u64);
        out.extend_from_slice(&self.main.bytes);
        if let Some(members) = &self.members {
            out.push(members.level);
            out.extend_from_slice(&members.bytes);
        }
        out
    }
}
