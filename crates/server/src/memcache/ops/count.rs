//! `incr`, `decr` and similar commands of all protocols.

use larder_proto::memcache::line;
use larder_store::{Entry, If, Put, PutError};

use super::{
    super::{Face, OBJECTS, watch::Store as Seen},
    matches,
};
use crate::clock::Ms;

/// Counting in place updates an item's access time only if it is at least this old, as in
/// memcached.
const UPDATE_INTERVAL: Ms = 60_000;

/// A counting operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) delta: u64,
    pub(crate) down: bool,
    /// The version that must be present; 0: any.
    pub(crate) compare: Option<u64>,
    /// The version to assign instead of a new one.
    pub(crate) version: Option<u64>,
    /// Value and expiry for creating a missing counter.
    pub(crate) initial: Option<(u64, Option<Ms>)>,
    /// The new expiry.
    pub(crate) touch: Option<Option<Ms>>,
}

/// Result of counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// The new value, its version, and the previous expiry (of a created counter: its own). `made`:
    /// the counter was created.
    Number {
        value: u64,
        version: u64,
        expires: Option<Ms>,
        made: bool,
    },
    NotFound,
    /// The value is no number.
    NotNumber,
    /// The item has another version.
    Exists,
    NoMemory,
}

/// `incr`, `decr`. The text keeps its length: a shorter number is padded with blanks, as in
/// memcached.
pub(crate) fn count(face: &Face, count: &Count<'_>, now: Ms) -> Counted {
    face.saw_lookup(count.key, now);
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
            // An `add` then stores it, with a look-up of its own.
            face.saw_lookup(count.key, now);
            match put_number(face, count, value, None, Put { expires, ..Put::default() }, now) {
                Err(PutError::Exists) => continue,
                Ok(version) => {
                    if face.stats.is_watched() {
                        report_created(face, count.key, value, expires, now);
                    }
                    return Counted::Number { value, version, expires, made: true };
                }
                Err(_) => return Counted::NoMemory,
            }
        };
        if entry.elsewhere().is_some() {
            return Counted::NotFound;
        }
        if entry.is_empty() {
            return Counted::NotNumber;
        }
        if count.compare.is_some_and(|expected| expected != 0 && !matches(face, &entry, expected)) {
            return Counted::Exists;
        }
        let text = entry.head();
        // A value in several pieces is too long for a number.
        let Some(number) = line::unsigned(text).filter(|_| text.len() as u64 == entry.len()) else {
            return Counted::NotNumber;
        };
        let value = if count.down {
            number.saturating_sub(count.delta)
        } else {
            number.wrapping_add(count.delta)
        };
        let expires = count.touch.unwrap_or_else(|| entry.expires());
        let put = Put { flags: entry.flags(), expires, ..Put::default() };
        let seen = Counter { entry: &entry, width: text.len() };
        match put_number(face, count, value, Some(seen), put, now) {
            Err(PutError::Exists | PutError::NotFound) => {}
            Ok(version) => {
                return Counted::Number { value, version, expires: entry.expires(), made: false };
            }
            Err(_) => return Counted::NoMemory,
        }
    }
}

/// Reports a created counter to watchers.
#[cold]
fn report_created(face: &Face, key: &[u8], value: u64, expires: Option<Ms>, now: Ms) {
    let size = line::digits(value) as u64;
    face.stats
        .saw_store(&Seen { key, status: "stored", command: "add", expires, size, sent: size }, now);
}

/// A counter before the change.
#[derive(Clone, Copy)]
struct Counter<'e> {
    entry: &'e Entry<'static>,
    /// Length of its text in bytes.
    width: usize,
}

/// Stores a number. It replaces the counter `before`, padded with blanks if shorter, or creates one
/// if nothing is there.
fn put_number(
    face: &Face,
    count: &Count<'_>,
    value: u64,
    before: Option<Counter<'_>>,
    put: Put<'_>,
    now: Ms,
) -> Result<u64, PutError> {
    let width = before.map_or(0, |before| before.width);
    let mut text = Vec::with_capacity(width.max(20));
    line::decimal(value, &mut text);
    let in_place = text.len() <= width;
    text.resize(width.max(text.len()), b' ');
    let put = Put { value: &[&text], version: count.version, ..put };
    match before {
        None => face.store.put(OBJECTS, count.key, put, If::Absent, now),
        // In place, the item keeps its marks; a longer number is a new item.
        Some(Counter { entry, .. }) if in_place => {
            let put = Put { stale: entry.stale(), claimed: entry.claimed(), ..put };
            let used = now.saturating_sub(entry.last_access()) > UPDATE_INTERVAL;
            face.store.put_same(entry, put, used, now)
        }
        Some(Counter { entry, .. }) => {
            face.store.put(OBJECTS, count.key, put, If::Same(entry), now)
        }
    }
}
