//! `incr`, `decr` and their like in all protocols.

use larder_proto::memcache::line;
use larder_store::{If, Put, PutError};

use super::{
    super::{Face, OBJECTS},
    matches,
};
use crate::clock::Ms;

/// What is to be counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) delta: u64,
    pub(crate) down: bool,
    /// The version that must be there; 0: any.
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
    /// The new value, its version, and the expiry it had before (a new one: the one it got). `made`: it was missing.
    Number {
        value: u64,
        version: u64,
        expires: Option<Ms>,
        made: bool,
    },
    NotFound,
    /// What is there is no number.
    NotNumber,
    /// Another version is there.
    Exists,
    NoMemory,
}

/// `incr`, `decr`. The text keeps its length, with blanks behind a shorter number, as memcached's does.
pub(crate) fn count(face: &Face, count: &Count<'_>, now: Ms) -> Counted {
    let counted = recount(face, count, now);
    let counters = &face.counters;
    match (counted, count.down) {
        (Counted::Number { made: false, .. }, false) => counters.incr_hits.one(),
        (Counted::Number { made: false, .. }, true) => counters.decr_hits.one(),
        (Counted::Number { .. } | Counted::NotFound, false) => counters.incr_misses.one(),
        (Counted::Number { .. } | Counted::NotFound, true) => counters.decr_misses.one(),
        (Counted::NoMemory, _) => counters.store_no_memory.one(),
        _ => {}
    }
    counted
}

fn recount(face: &Face, count: &Count<'_>, now: Ms) -> Counted {
    loop {
        let Some(entry) = face.store.peek(OBJECTS, count.key, now) else {
            let Some((value, expires)) = count.initial else { return Counted::NotFound };
            match put_number(face, count, value, 0, Put { expires, ..Put::default() }, If::Absent, now) {
                Err(PutError::Exists) => continue,
                Ok(version) => return Counted::Number { value, version, expires, made: true },
                Err(_) => return Counted::NoMemory,
            }
        };
        if entry.is_empty() {
            return Counted::NotNumber;
        }
        if count.compare.is_some_and(|expected| expected != 0 && !matches(face, &entry, expected)) {
            return Counted::Exists;
        }
        let text = entry.head();
        // A value in pieces is too long to be a number.
        let Some(number) = line::unsigned(text).filter(|_| text.len() as u64 == entry.len()) else {
            return Counted::NotNumber;
        };
        let value =
            if count.down { number.saturating_sub(count.delta) } else { number.wrapping_add(count.delta) };
        let expires = count.touch.unwrap_or_else(|| entry.expires());
        // In its place it stays as stale as it was; a longer one is a new item.
        let stale = entry.stale() && line::digits(value) <= text.len();
        let put = Put { flags: entry.flags(), expires, stale, ..Put::default() };
        match put_number(face, count, value, text.len(), put, If::Same(&entry), now) {
            Err(PutError::Exists | PutError::NotFound) => {}
            Ok(version) => {
                return Counted::Number { value, version, expires: entry.expires(), made: false };
            }
            Err(_) => return Counted::NoMemory,
        }
    }
}

/// Stores a number, with blanks behind it up to `width`.
fn put_number(
    face: &Face,
    count: &Count<'_>,
    value: u64,
    width: usize,
    put: Put<'_>,
    condition: If<'_, 'static>,
    now: Ms,
) -> Result<u64, PutError> {
    let mut text = Vec::with_capacity(width.max(20));
    line::decimal(value, &mut text);
    let width = width.max(text.len());
    text.resize(width, b' ');
    let put = Put { value: &[&text], version: count.version, ..put };
    face.store.put(OBJECTS, count.key, put, condition, now)
}
