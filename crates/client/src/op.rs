//! Operations and answers, independent of the protocol.

use bytes::Bytes;

use crate::{Error, Item, Stored};

/// A key as it is sent, prefix included.
pub(crate) type Key = Box<[u8]>;

/// Kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
}

/// Several keys in one allocation.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    bytes: Vec<u8>,
    /// End offset of each key.
    ends: Vec<usize>,
}

impl Keys {
    /// A single key.
    pub(crate) fn one(key: Key) -> Keys {
        Keys { ends: vec![key.len()], bytes: key.into_vec() }
    }

    /// Empty, with capacity for `keys` keys of `bytes` bytes in total.
    pub(crate) fn with_room(keys: usize, bytes: usize) -> Keys {
        Keys { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(keys) }
    }

    /// Appends a key made of two parts.
    pub(crate) fn push(&mut self, prefix: &[u8], key: &[u8]) {
        self.bytes.extend_from_slice(prefix);
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Total length in bytes.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The key at an index; empty (which no key is) after the last.
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
    /// Retrieval; with each item's version if `cas`.
    Get { keys: Keys, cas: bool },
    /// Retrieval of one key that also sets its expiry.
    GetTouch { key: Key, expiry: u32 },
    /// Store of a value; with `cas`, only if the item has that version.
    Store { mode: Mode, key: Key, value: Bytes, flags: u32, expiry: u32, cas: Option<u64> },
    /// Deletion.
    Delete { key: Key },
    /// `incr` or `decr`.
    Count { key: Key, up: bool, by: u64 },
    /// Sets the expiry.
    Touch { key: Key, expiry: u32 },
    /// Statistics.
    Stats { of: Option<Box<[u8]>> },
    /// Expires everything, now or after `delay` seconds.
    Flush { delay: u32 },
    /// The server's version string.
    Version,
}

impl Op {
    /// Size of its keys and value in bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Op::Get { keys, .. } => keys.size() + 8 * keys.len(),
            Op::Store { value, key, .. } => value.len() + key.len(),
            _ => 0,
        }
    }
}

/// An answer of a server.
#[derive(Debug)]
pub(crate) enum Answer {
    /// To retrievals: one for each key, in the order requested.
    Items(Vec<Option<Item>>),
    /// To stores.
    Stored(Stored),
    /// To deletions, touches and flushes: whether the item existed.
    Found(bool),
    /// To `incr` and `decr`: the new number, or `None` if the key does not exist.
    Number(Option<u64>),
    /// To stats.
    Pairs(Vec<(String, String)>),
    /// To version.
    Version(String),
    /// To a run of quiet writes: how many failed.
    QuietRun { failed: u64 },
}

impl Answer {
    /// The single item.
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
        Err(Error::Protocol(
            format!("an answer to something else: {self:?}").chars().take(200).collect(),
        ))
    }
}
