//! What is asked of a server, and what it may answer: the same for every protocol.

use bytes::Bytes;

use crate::{Error, Item, Stored};

/// A key as it goes to the server, prefix included.
pub(crate) type Key = Box<[u8]>;

/// Which way a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
}

/// Several keys, one behind the other: their bytes are in one piece of memory.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Keys {
    /// The only one.
    pub(crate) fn one(key: Key) -> Keys {
        Keys { ends: vec![key.len()], bytes: key.into_vec() }
    }

    /// None, with room for so many of so many bytes in all.
    pub(crate) fn with_room(keys: usize, bytes: usize) -> Keys {
        Keys { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(keys) }
    }

    /// Adds one, of two parts.
    pub(crate) fn push(&mut self, prefix: &[u8], key: &[u8]) {
        self.bytes.extend_from_slice(prefix);
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// All their bytes.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// One of them; empty, which no key is, behind the last.
    pub(crate) fn get(&self, at: usize) -> &[u8] {
        let from = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.ends.get(at).and_then(|to| self.bytes.get(from..*to)).unwrap_or_default()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|at| self.get(at))
    }
}

/// An operation on one server.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Retrieval; with the version of each item where `cas`.
    Get { keys: Keys, cas: bool },
    /// Retrieval of one key, with a new expiry.
    GetTouch { key: Key, expiry: u32 },
    /// A value; with `cas`, only over that version.
    Store { mode: Mode, key: Key, value: Bytes, flags: u32, expiry: u32, cas: Option<u64> },
    /// Deletion.
    Delete { key: Key },
    /// `incr` or `decr`.
    Count { key: Key, up: bool, by: u64 },
    /// A new expiry.
    Touch { key: Key, expiry: u32 },
    /// Figures.
    Stats { of: Option<Box<[u8]>> },
    /// Everything expires, at once or in so many seconds.
    Flush { delay: u32 },
    /// What the server says it is.
    Version,
}

impl Op {
    /// Bytes it brings with it.
    pub(crate) fn size(&self) -> usize {
        match self {
            Op::Get { keys, .. } => keys.size() + 8 * keys.len(),
            Op::Store { value, key, .. } => value.len() + key.len(),
            _ => 0,
        }
    }
}

/// What a server answered.
#[derive(Debug)]
pub(crate) enum Answer {
    /// To retrievals: one for each key, in the order asked.
    Items(Vec<Option<Item>>),
    /// To stores.
    Stored(Stored),
    /// To deletions, touches and flushes: whether there was something.
    Found(bool),
    /// To counts: the new number, `None` where there is none.
    Number(Option<u64>),
    /// To stats.
    Pairs(Vec<(String, String)>),
    /// To version.
    Version(String),
    /// To quiet writes, all together: how many failed.
    Run { failed: u64 },
}

impl Answer {
    /// The only item.
    pub(crate) fn item(self) -> Result<Option<Item>, Error> {
        match self {
            Answer::Items(mut items) if items.len() == 1 => Ok(items.remove(0)),
            other => other.unexpected(),
        }
    }

    pub(crate) fn stored(self) -> Result<Stored, Error> {
        match self {
            Answer::Stored(stored) => Ok(stored),
            other => other.unexpected(),
        }
    }

    pub(crate) fn found(self) -> Result<bool, Error> {
        match self {
            Answer::Found(found) => Ok(found),
            other => other.unexpected(),
        }
    }

    pub(crate) fn number(self) -> Result<Option<u64>, Error> {
        match self {
            Answer::Number(number) => Ok(number),
            other => other.unexpected(),
        }
    }

    pub(crate) fn unexpected<T>(self) -> Result<T, Error> {
        Err(Error::Protocol(format!("an answer to something else: {self:?}").chars().take(200).collect()))
    }
}
