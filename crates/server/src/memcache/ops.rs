//! What commands do to the store, for all of memcached's protocols: they decode, call these, and encode what came of it.
//! Everything is counted here by memcached's names (protocol.txt, "General-purpose statistics").

use larder_store::Entry;

use super::Face;
use crate::clock::Ms;

/// How a value is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Set,
    Add,
    Replace,
    Append,
    Prepend,
}

/// What is to be stored, and when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Write<'a> {
    pub(crate) mode: Mode,
    pub(crate) key: &'a [u8],
    pub(crate) flags: u32,
    pub(crate) expires: Option<Ms>,
    /// The version that must be there (`cas`).
    pub(crate) compare: Option<u64>,
    /// The version it gets, instead of a new one.
    pub(crate) version: Option<u64>,
    /// An older version in `compare` stores too, marked stale (meta's `I`).
    pub(crate) invalidate: bool,
    /// `Append`, `Prepend`: a missing item is made, with this expiry (meta's `N`).
    pub(crate) vivify: Option<Option<Ms>>,
}

/// What came of storing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// Its version.
    Stored(u64),
    /// The condition of the mode did not hold.
    NotStored,
    /// Another version is there.
    Exists,
    /// `compare`, and nothing is there.
    NotFound,
    /// Larger than an item may be; what was there is gone.
    TooLarge,
    /// No memory; what was there is gone.
    NoMemory,
}

/// What is to be counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) delta: u64,
    pub(crate) down: bool,
    /// The version that must be there.
    pub(crate) compare: Option<u64>,
    /// The version it gets, instead of a new one.
    pub(crate) version: Option<u64>,
    /// A missing counter is made: its value and expiry.
    pub(crate) initial: Option<(u64, Option<Ms>)>,
    /// The new expiry.
    pub(crate) touch: Option<Option<Ms>>,
}

/// What came of counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// The new value, its version and expiry.
    Number { value: u64, version: u64, expires: Option<Ms> },
    NotFound,
    /// What is there is no number.
    NotNumber,
    /// Another version is there.
    Exists,
    NoMemory,
}

/// What came of deleting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deleted {
    Deleted,
    NotFound,
    /// Another version is there.
    Exists,
}

/// When an item with this `exptime` stops being there; None: never. Negative: it never was (protocol.txt, "Expiration
/// times"). Above 30 days it is a UNIX time.
pub(crate) fn expires(exptime: i64, now: Ms) -> Option<Ms> {
    const MONTH: i64 = 60 * 60 * 24 * 30;
    match exptime {
        0 => None,
        ..0 => Some(1),
        1..=MONTH => Some(now + exptime as Ms * 1000),
        _ => Some(exptime as Ms * 1000),
    }
}

/// `get`: counts a hit or a miss.
pub(crate) fn get(face: &Face, key: &[u8], now: Ms) -> Option<Entry<'static>> {
    let _ = (face, key, now);
    None
}

/// `gat`: as `get`, and the item expires at `expires`.
pub(crate) fn get_and_touch(
    face: &Face,
    key: &[u8],
    expires: Option<Ms>,
    now: Ms,
) -> Option<Entry<'static>> {
    let _ = (face, key, expires, now);
    None
}

/// `touch`: false if it is not there.
pub(crate) fn touch(face: &Face, key: &[u8], expires: Option<Ms>, now: Ms) -> bool {
    let _ = (face, key, expires, now);
    false
}

/// Stores `value`, in parts that nobody has to join.
pub(crate) fn store(face: &Face, write: &Write<'_>, value: &[&[u8]], now: Ms) -> Stored {
    let _ = (face, write, value, now);
    Stored::NotStored
}

/// `incr`, `decr`.
pub(crate) fn count(face: &Face, count: &Count<'_>, now: Ms) -> Counted {
    let _ = (face, count, now);
    Counted::NotFound
}

/// `delete`, if `compare` is the version there.
pub(crate) fn delete(face: &Face, key: &[u8], compare: Option<u64>, now: Ms) -> Deleted {
    let _ = (face, key, compare, now);
    Deleted::NotFound
}

/// `flush_all`, `exptime` as sent: 0 now.
pub(crate) fn flush(face: &Face, exptime: i64, now: Ms) {
    let _ = (face, exptime, now);
}
