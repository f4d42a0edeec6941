//! Retrievals: `get`, `gat`.

use larder_store::{Entry, Hint};

use super::{
    super::{Face, OBJECTS, away::Lies, watch::GetResult},
    NoMemory, change_expiry,
};
use crate::clock::Ms;

/// Why a retrieval has no answer.
#[derive(Debug)]
pub(crate) enum Stop {
    /// There is no memory for a change; the item is unchanged.
    NoMemory,
    /// The value has to be read from the disk first. Nothing was counted.
    Away(Entry<'static>),
}

/// `get`: counts a hit or a miss. `hint`: the hint of `key`.
#[inline]
pub(crate) fn get(
    face: &Face,
    key: &[u8],
    hint: Hint,
    now: Ms,
) -> Result<Option<Entry<'static>>, Stop> {
    let mut found = face.store.get_hinted(hint, OBJECTS, key, now);
    if let Some(entry) = &found
        && entry.elsewhere().is_some()
    {
        found = away(face, found.take())?;
    }
    face.counters.cmd_get.one();
    match &found {
        Some(entry) => {
            face.counters.get_hits.one();
            face.stats.saw_get(key, GetResult::Hit(entry.len()), now);
        }
        None => missed(face, key, now),
    }
    Ok(found)
}

/// A read has found an item whose value is on the disk. None: it is a miss.
#[cold]
fn away(face: &Face, found: Option<Entry<'static>>) -> Result<Option<Entry<'static>>, Stop> {
    face.store.reads_again(OBJECTS);
    match found {
        Some(stub) if face.lies(&stub) == Lies::Away => Err(Stop::Away(stub)),
        _ => {
            face.store.count_miss(OBJECTS);
            Ok(None)
        }
    }
}

/// Counts a miss of a get. The store has counted it already.
pub(crate) fn missed(face: &Face, key: &[u8], now: Ms) {
    face.counters.get_misses.one();
    face.stats.saw_get(key, face.missing(key, now), now);
}

/// `gat`: like `get`, and sets the expiry. It counts as a touch, as in memcached.
pub(crate) fn get_and_touch(
    face: &Face,
    key: &[u8],
    expires: Option<Ms>,
    now: Ms,
) -> Result<Option<Entry<'static>>, Stop> {
    let mut found = face.store.peek(OBJECTS, key, now);
    match found.as_ref().map(|entry| face.lies(entry)) {
        Some(Lies::Away) => return found.map_or(Ok(None), |stub| Err(Stop::Away(stub))),
        Some(Lies::Lost) => found = None,
        _ => {}
    }
    face.counters.cmd_touch.one();
    if let Some(entry) = &found {
        // Before the touch, which may move the entry.
        face.store.bump(entry, now);
        if !change_expiry(face, key, expires, now).map_err(|NoMemory| Stop::NoMemory)? {
            found = None;
        }
    }
    match &found {
        Some(entry) => {
            face.counters.touch_hits.one();
            face.stats.saw_get(key, GetResult::Hit(entry.len()), now);
        }
        None => {
            face.store.count_miss(OBJECTS);
            face.counters.touch_misses.one();
            face.stats.saw_get(key, face.missing(key, now), now);
        }
    }
    Ok(found)
}
