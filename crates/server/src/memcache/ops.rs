//! What commands do to the store, for all of memcached's protocols: they decode, call these, and
//! encode what came of it. Everything is counted here by memcached's names (protocol.txt,
//! "General-purpose statistics").
//!
//! A change that depends on what is there is made by looking, computing and storing on the
//! condition that what was seen is still there ([`If::Same`]), again until that holds: no lock is
//! held meanwhile.

mod count;
mod mark;

use larder_store::{Entry, Fill, Hint, If, Put, PutError};

pub(crate) use count::{Count, Counted, count};
pub(crate) use larder_proto::memcache::text::Mode;
pub(crate) use mark::{Mark, mark};

use super::{
    Face, OBJECTS,
    watch::{Found, Store as Seen},
};
use crate::clock::Ms;

/// What memcached keeps beside key and value of an item, in bytes: its header, the version, a NUL
/// behind the key, the line end behind the value. Its limit on items counts them, so ours does.
const HEADER: u64 = 48;
const VERSION: u64 = 8;
const ENDS: u64 = 1 + 2;
/// Bytes of the client's bits, where they are not 0.
const FLAGS: u64 = 4;

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
#[allow(clippy::enum_variant_names)] // the protocols' words
pub(crate) enum Stored {
    /// Its version.
    Stored(u64),
    /// The condition of the mode did not hold.
    NotStored,
    /// Another version is there.
    Exists,
    /// `compare`, and nothing is there.
    NotFound,
    /// Larger than an item may be; what a `Set` was to replace is gone.
    TooLarge,
    /// No memory; what a `Set` was to replace is gone.
    NoMemory,
}

/// What came of deleting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::enum_variant_names)] // the protocols' words
pub(crate) enum Deleted {
    Deleted,
    NotFound,
    /// Another version is there.
    Exists,
}

/// When an item with this `exptime` stops being there; None: never. Negative: it never was
/// (protocol.txt, "Expiration times"). Above 30 days it is a UNIX time.
#[inline]
pub(crate) fn expires(exptime: i64, now: Ms) -> Option<Ms> {
    const MONTH: i64 = 60 * 60 * 24 * 30;
    match exptime {
        0 => None,
        ..0 => Some(1),
        1..=MONTH => Some(now + exptime as Ms * 1000),
        _ => Some(exptime as Ms * 1000),
    }
}

/// Bytes memcached would need for an item.
pub(crate) fn item_size(face: &Face, key: &[u8], flags: u32, len: u64) -> u64 {
    let version = if face.cas.get() { VERSION } else { 0 };
    let flags = if flags != 0 { FLAGS } else { 0 };
    HEADER + version + key.len() as u64 + flags + len + ENDS
}

/// May an item be so large?
#[inline]
pub(crate) fn fits(face: &Face, key: &[u8], flags: u32, len: u64) -> bool {
    item_size(face, key, flags, len) <= face.item_size.get()
}

/// `get`: counts a hit or a miss. `hint`: the key's.
#[inline]
pub(crate) fn get(face: &Face, key: &[u8], hint: Hint, now: Ms) -> Option<Entry<'static>> {
    let found = face.store.get_hinted(hint, OBJECTS, key, now);
    face.counters.cmd_get.one();
    match &found {
        Some(entry) => {
            face.counters.get_hits.one();
            face.stats.saw_get(key, Found::Hit(entry.len()), now);
        }
        None => missed(face, key, now),
    }
    found
}

/// Counts a get that found nothing; the store has counted it.
pub(crate) fn missed(face: &Face, key: &[u8], now: Ms) {
    face.counters.get_misses.one();
    face.stats.saw_get(key, face.missing(key, now), now);
}

/// There is no memory for what a command would change: the item is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoMemory;

/// `gat`: as `get`, and the item expires at `expires`. Counted as a touch, as memcached does it.
pub(crate) fn get_and_touch(
    face: &Face,
    key: &[u8],
    expires: Option<Ms>,
    now: Ms,
) -> Result<Option<Entry<'static>>, NoMemory> {
    face.counters.cmd_touch.one();
    let mut found = face.store.peek(OBJECTS, key, now);
    if let Some(entry) = &found {
        // Before the touch, which may move the entry.
        face.store.bump(entry, now);
        if !change_expiry(face, key, expires, now)? {
            found = None;
        }
    }
    match &found {
        Some(entry) => {
            face.counters.touch_hits.one();
            face.stats.saw_get(key, Found::Hit(entry.len()), now);
        }
        None => {
            face.store.count_miss(OBJECTS);
            face.counters.touch_misses.one();
            face.stats.saw_get(key, face.missing(key, now), now);
        }
    }
    Ok(found)
}

/// `touch`: false if it is not there.
pub(crate) fn touch(
    face: &Face,
    key: &[u8],
    expires: Option<Ms>,
    now: Ms,
) -> Result<bool, NoMemory> {
    face.counters.cmd_touch.one();
    face.looks_up(key, now);
    // A touch is a use of the item, as in memcached. It may move the entry, so that comes after.
    if let Some(entry) = face.store.peek(OBJECTS, key, now) {
        face.store.bump(&entry, now);
    }
    let found = change_expiry(face, key, expires, now)?;
    if found {
        face.counters.touch_hits.one();
    } else {
        face.counters.touch_misses.one();
    }
    Ok(found)
}

/// False if it is not there. Counts only what found no memory: an expiry too far away, where
/// nothing is evicted.
pub(crate) fn change_expiry(
    face: &Face,
    key: &[u8],
    expires: Option<Ms>,
    now: Ms,
) -> Result<bool, NoMemory> {
    match face.store.touch(OBJECTS, key, expires, now) {
        Ok(()) => Ok(true),
        Err(PutError::Full | PutError::TooLarge) => {
            face.counters.store_no_memory.one();
            Err(NoMemory)
        }
        Err(_) => Ok(false),
    }
}

/// Stores `value`, in parts that nobody has to join.
#[inline]
pub(crate) fn store(face: &Face, write: &Write<'_>, value: &[&[u8]], now: Ms) -> Stored {
    let len = value.iter().map(|part| part.len() as u64).sum();
    if !fits(face, write.key, write.flags, len) {
        return refuse(face, write, Stored::TooLarge, len, now);
    }
    if face.stats.is_watched() {
        return told(face, write, len, now, || store_value(face, write, value, len, now));
    }
    store_value(face, write, value, len, now)
}

#[inline]
fn store_value(face: &Face, write: &Write<'_>, value: &[&[u8]], len: u64, now: Ms) -> Stored {
    let stored = match write.mode {
        Mode::Append | Mode::Prepend => join(face, write, value, now),
        Mode::Set | Mode::Add | Mode::Replace => {
            let mut old = None;
            match condition(face, write, &mut old, now) {
                Ok((condition, put)) => {
                    let put = Put { value, ..put };
                    outcome(write, face.store.put(OBJECTS, write.key, put, condition, now))
                }
                Err(stored) => stored,
            }
        }
    };
    settle(face, write, stored, len, now)
}

/// Stores what was written into `fill`, `len` bytes.
pub(crate) fn commit(
    face: &Face,
    write: &Write<'_>,
    fill: Fill<'static>,
    len: u64,
    now: Ms,
) -> Stored {
    if matches!(write.mode, Mode::Append | Mode::Prepend) {
        let staged = fill.reader();
        let mut parts = Vec::new();
        let mut at = 0;
        while at < len {
            let part = staged.chunk_at(at);
            if part.is_empty() {
                return settle(face, write, Stored::NotStored, len, now);
            }
            at += part.len() as u64;
            parts.push(part);
        }
        return store(face, write, &parts, now);
    }
    let commit = || {
        let mut old = None;
        let stored = match condition(face, write, &mut old, now) {
            Ok((condition, put)) => outcome(write, fill.commit_put(put, condition, now)),
            Err(stored) => stored,
        };
        settle(face, write, stored, len, now)
    };
    if face.stats.is_watched() { told(face, write, len, now, commit) } else { commit() }
}

/// The same where somebody watches: the look-up that comes first, and what became of the write, are
/// told.
#[cold]
fn told(
    face: &Face,
    write: &Write<'_>,
    len: u64,
    now: Ms,
    store: impl FnOnce() -> Stored,
) -> Stored {
    face.looks_up(write.key, now);
    let stored = store();
    // Those refused have been told of.
    if !matches!(stored, Stored::TooLarge | Stored::NoMemory) {
        see(face, write, stored, len, now);
    }
    stored
}

/// Refuses a value that was not looked at: it is too large, or there is no memory. What it was to
/// replace must not be taken for it.
pub(crate) fn refuse(face: &Face, write: &Write<'_>, stored: Stored, len: u64, now: Ms) -> Stored {
    match stored {
        Stored::TooLarge => face.counters.store_too_large.one(),
        _ => face.counters.store_no_memory.one(),
    }
    if face.stats.is_watched() {
        see(face, write, stored, len, now);
    }
    // Nobody is to read what a `set` was to replace. A `cas` would have replaced one version only.
    if write.mode == Mode::Set && write.compare.is_none() {
        face.looks_up(write.key, now);
        face.store.delete(OBJECTS, write.key, now);
    }
    stored
}

fn put<'a>(write: &Write<'_>) -> Put<'a> {
    Put { flags: write.flags, expires: write.expires, version: write.version, ..Put::default() }
}

/// What must hold in the store for this write, and what is then stored, but for the value. An
/// error: it does not hold.
#[inline]
fn condition<'e>(
    face: &Face,
    write: &Write<'_>,
    old: &'e mut Option<Entry<'static>>,
    now: Ms,
) -> Result<(If<'e, 'static>, Put<'static>), Stored> {
    let condition = match (write.mode, write.compare) {
        (Mode::Add, _) => If::Absent,
        (Mode::Replace, None) => If::Present,
        (_, None) => If::Always,
        (_, Some(expected)) if face.cas.get() && !write.invalidate => If::Version(expected),
        (_, Some(expected)) => return compared(face, write, expected, old, now),
    };
    Ok((condition, put(write)))
}

/// The same for a write that an older version than the one there lets through, or where versions
/// are not kept.
fn compared<'e>(
    face: &Face,
    write: &Write<'_>,
    expected: u64,
    old: &'e mut Option<Entry<'static>>,
    now: Ms,
) -> Result<(If<'e, 'static>, Put<'static>), Stored> {
    *old = face.store.peek(OBJECTS, write.key, now);
    let Some(entry) = old else { return Err(Stored::NotFound) };
    // Without versions, none is ever the right one.
    if !face.cas.get() || expected == 0 {
        return Err(Stored::Exists);
    }
    if entry.version() == expected {
        return Ok((If::Version(expected), put(write)));
    }
    if !entry.is_newer_than(expected) {
        return Err(Stored::Exists);
    }
    // As stale as what it replaces, for no longer; and whoever was told to store it anew still is
    // the one.
    let stale =
        Put { stale: true, claimed: entry.claimed(), expires: entry.expires(), ..put(write) };
    Ok((If::Same(entry), stale))
}

#[inline]
fn outcome(write: &Write<'_>, result: Result<u64, PutError>) -> Stored {
    match result {
        Ok(version) => Stored::Stored(version),
        Err(PutError::Exists) if write.mode == Mode::Add => Stored::NotStored,
        Err(PutError::Exists) => Stored::Exists,
        Err(PutError::NotFound) if write.compare.is_some() => Stored::NotFound,
        Err(PutError::NotFound | PutError::NotNumber) => Stored::NotStored,
        Err(PutError::TooLarge) => Stored::TooLarge,
        Err(PutError::Full) => Stored::NoMemory,
    }
}

/// Bytes of the longest value that `append` and `prepend` make: all of it is copied in one go,
/// which takes some milliseconds.
const JOINED: u64 = 16 << 20;

/// `append`, `prepend`: flags and expiry stay. A value that would become too large is not stored;
/// what is there stays.
fn join(face: &Face, write: &Write<'_>, value: &[&[u8]], now: Ms) -> Stored {
    let added: u64 = value.iter().map(|part| part.len() as u64).sum();
    loop {
        let Some(entry) = face.store.peek(OBJECTS, write.key, now) else {
            let Some(expires) = write.vivify else { return Stored::NotStored };
            let put = Put { value, expires, ..put(write) };
            match face.store.put(OBJECTS, write.key, put, If::Absent, now) {
                Err(PutError::Exists) => continue,
                result => return outcome(write, result),
            }
        };
        if write.compare.is_some_and(|expected| expected != 0 && !matches(face, &entry, expected)) {
            return Stored::Exists;
        }
        let len = entry.len() + added;
        if len > JOINED || !fits(face, write.key, entry.flags(), len) {
            return Stored::NotStored;
        }
        let (old, new) = (entry.chunks(), value.iter().copied());
        let parts: Vec<&[u8]> = if write.mode == Mode::Append {
            old.chain(new).collect()
        } else {
            new.chain(old).collect()
        };
        let (flags, expires, version) = (entry.flags(), entry.expires(), write.version);
        let put = Put { value: &parts, flags, expires, version, ..Put::default() };
        match face.store.put(OBJECTS, write.key, put, If::Same(&entry), now) {
            Err(PutError::Exists | PutError::NotFound) => {}
            Err(PutError::TooLarge) => return Stored::NotStored,
            result => return outcome(write, result),
        }
    }
}

/// Is this the version of the entry, as clients are told it?
fn matches(face: &Face, entry: &Entry<'_>, expected: u64) -> bool {
    expected == if face.cas.get() { entry.version() } else { 0 }
}

/// Counts what came of a write.
#[inline]
fn settle(face: &Face, write: &Write<'_>, stored: Stored, len: u64, now: Ms) -> Stored {
    let counters = &face.counters;
    counters.cmd_set.one();
    if matches!(stored, Stored::TooLarge | Stored::NoMemory) {
        return refuse(face, write, stored, len, now);
    }
    if write.compare.is_some() {
        match stored {
            Stored::Stored(_) => counters.cas_hits.one(),
            Stored::NotFound => counters.cas_misses.one(),
            Stored::Exists => counters.cas_badval.one(),
            _ => {}
        }
    }
    stored
}

/// Lets those who watch know of a write of `sent` bytes.
#[cold]
fn see(face: &Face, write: &Write<'_>, stored: Stored, sent: u64, now: Ms) {
    let status = match stored {
        Stored::Stored(_) => "stored",
        Stored::NotStored => "not_stored",
        Stored::Exists => "exists",
        Stored::NotFound => "not_found",
        Stored::TooLarge => "too_large",
        Stored::NoMemory => "no_memory",
    };
    let command = match write.mode {
        Mode::Set | Mode::Replace if write.compare.is_some() => "cas",
        Mode::Set => "set",
        Mode::Add => "add",
        Mode::Replace => "replace",
        Mode::Append => "append",
        Mode::Prepend => "prepend",
    };
    // What lies there now: a value may have been joined to it, an older one has kept its expiry.
    let entry =
        matches!(stored, Stored::Stored(_)).then(|| face.store.peek(OBJECTS, write.key, now));
    let (expires, size) = match (stored, entry.flatten()) {
        (Stored::TooLarge | Stored::NoMemory, _) => (None, 0),
        (_, Some(entry)) => (entry.expires(), entry.len()),
        (_, None) => (write.expires, sent),
    };
    face.stats.saw_store(&Seen { key: write.key, status, command, expires, size, sent }, now);
}

/// `delete`, if `compare` is the version there.
pub(crate) fn delete(face: &Face, key: &[u8], compare: Option<u64>, now: Ms) -> Deleted {
    face.looks_up(key, now);
    let mut size = None;
    let deleted = loop {
        let Some(entry) = face.store.peek(OBJECTS, key, now) else { break Deleted::NotFound };
        if compare.is_some_and(|expected| !matches(face, &entry, expected)) {
            break Deleted::Exists;
        }
        size = Some(entry.len());
        if face.store.delete_same(&entry, now) {
            break Deleted::Deleted;
        }
    };
    match deleted {
        Deleted::Deleted => face.counters.delete_hits.one(),
        Deleted::NotFound => face.counters.delete_misses.one(),
        Deleted::Exists => {}
    }
    face.stats.saw_delete(key, "delete", size.filter(|_| deleted == Deleted::Deleted), now);
    deleted
}

/// `flush_all`, `exptime` as sent: 0 and less now. It replaces what was planned before.
pub(crate) fn flush(face: &Face, exptime: i64, now: Ms) {
    face.counters.cmd_flush.one();
    match expires(exptime, now) {
        Some(at) if at > now => face.shared.flush_at(at),
        _ => {
            face.shared.flush_at(0);
            face.store.flush(OBJECTS, now);
        }
    }
}
