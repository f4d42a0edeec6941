//! Effects of commands on the store, for all protocols of memcached. The protocols decode a
//! command, call these functions and encode the result. These functions also count, under
//! memcached's names (protocol.txt, "General-purpose statistics").
//!
//! A change that depends on the present value reads it, computes, and stores on the condition that
//! the entry is unchanged ([`If::Same`]). It repeats until that holds. No lock is held meanwhile.

mod count;
mod mark;
mod read;

use larder_store::{Entry, Fill, If, Put, PutError};

pub(crate) use count::{Count, Counted, count};
pub(crate) use larder_proto::memcache::text::Mode;
pub(crate) use mark::{Mark, mark};
pub(crate) use read::{Stop, get, get_and_touch, missed};

use super::{Face, OBJECTS, watch::Store as Seen};
use crate::clock::Ms;

/// Bytes of memcached's overhead per item: header, version, a NUL behind the key, the line end
/// behind the value. Its limit on item sizes includes them, and so does this one.
const HEADER: u64 = 48;
const VERSION: u64 = 8;
const ENDS: u64 = 1 + 2;
/// Bytes of the client's flags, if they are not 0.
const FLAGS: u64 = 4;

/// A store operation and its conditions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Write<'a> {
    pub(crate) mode: Mode,
    pub(crate) key: &'a [u8],
    pub(crate) flags: u32,
    pub(crate) expires: Option<Ms>,
    /// The version that must be present (`cas`).
    pub(crate) compare: Option<u64>,
    /// The version to assign instead of a new one.
    pub(crate) version: Option<u64>,
    /// An older version in `compare` also stores; the item is then marked stale (meta's `I`).
    pub(crate) invalidate: bool,
    /// For `Append` and `Prepend`: creates a missing item with this expiry (meta's `N`).
    pub(crate) vivify: Option<Option<Ms>>,
}

/// Result of a store operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::enum_variant_names)] // names of the protocol
pub(crate) enum Stored {
    /// The item's version.
    Stored(u64),
    /// The condition of the mode does not hold.
    NotStored,
    /// The item has another version.
    Exists,
    /// `compare` is given and the item is missing.
    NotFound,
    /// The item would be too large. A `Set` deletes the old item.
    TooLarge,
    /// There is no memory. A `Set` deletes the old item.
    NoMemory,
}

/// Result of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::enum_variant_names)] // names of the protocol
pub(crate) enum Deleted {
    Deleted,
    NotFound,
    /// The item has another version.
    Exists,
}

/// Time at which an item with this `exptime` expires; None: never. A negative `exptime` expires at
/// once (protocol.txt, "Expiration times"). Above 30 days it is a UNIX time.
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

/// Size of an item in memcached, in bytes.
pub(crate) fn item_size(face: &Face, key: &[u8], flags: u32, len: u64) -> u64 {
    let version = if face.cas.get() { VERSION } else { 0 };
    let flags = if flags != 0 { FLAGS } else { 0 };
    HEADER + version + key.len() as u64 + flags + len + ENDS
}

/// Returns whether an item of this size is allowed.
#[inline]
pub(crate) fn fits(face: &Face, key: &[u8], flags: u32, len: u64) -> bool {
    item_size(face, key, flags, len) <= face.item_size.get()
}

/// There is no memory for a change; the item is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoMemory;

/// `touch`. Returns false if the item is missing.
pub(crate) fn touch(
    face: &Face,
    key: &[u8],
    expires: Option<Ms>,
    now: Ms,
) -> Result<bool, NoMemory> {
    face.counters.cmd_touch.one();
    face.saw_lookup(key, now);
    // A touch is a use of the item, as in memcached. It comes first, because a change of expiry may
    // move the entry.
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

/// Returns false if the item is missing. Counts only a lack of memory, which occurs for expiries
/// too far away where nothing is evicted.
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

/// Stores `value`, given in parts.
#[inline]
pub(crate) fn store(face: &Face, write: &Write<'_>, value: &[&[u8]], now: Ms) -> Stored {
    let len = value.iter().map(|part| part.len() as u64).sum();
    if !fits(face, write.key, write.flags, len) {
        return refuse(face, write, Stored::TooLarge, len, now);
    }
    if face.stats.is_watched() {
        return store_and_report(face, write, len, now, || {
            store_value(face, write, value, len, now)
        });
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
    count_store(face, write, stored, len, now)
}

/// Stores the `len` bytes written into `fill`.
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
                return count_store(face, write, Stored::NotStored, len, now);
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
        count_store(face, write, stored, len, now)
    };
    if face.stats.is_watched() { store_and_report(face, write, len, now, commit) } else { commit() }
}

/// As `store_value`, with watchers connected: reports the preceding look-up and the result.
#[cold]
fn store_and_report(
    face: &Face,
    write: &Write<'_>,
    len: u64,
    now: Ms,
    store: impl FnOnce() -> Stored,
) -> Stored {
    face.saw_lookup(write.key, now);
    let stored = store();
    // `refuse` has reported these.
    if !matches!(stored, Stored::TooLarge | Stored::NoMemory) {
        report_store(face, write, stored, len, now);
    }
    stored
}

/// Refuses an unread value that is too large or has no memory. Clients must not mistake the old
/// item for it.
pub(crate) fn refuse(face: &Face, write: &Write<'_>, stored: Stored, len: u64, now: Ms) -> Stored {
    match stored {
        Stored::TooLarge => face.counters.store_too_large.one(),
        _ => face.counters.store_no_memory.one(),
    }
    if face.stats.is_watched() {
        report_store(face, write, stored, len, now);
    }
    // Clients must not read the item that a `set` was to replace. A `cas` would have replaced one
    // version only.
    if write.mode == Mode::Set && write.compare.is_none() {
        face.saw_lookup(write.key, now);
        face.store.delete(OBJECTS, write.key, now);
    }
    stored
}

fn put<'a>(write: &Write<'_>) -> Put<'a> {
    Put { flags: write.flags, expires: write.expires, version: write.version, ..Put::default() }
}

/// The store's condition for this write, and the item to store without its value. An error: the
/// condition does not hold.
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
        (_, Some(expected)) => return version_condition(face, write, expected, old, now),
    };
    Ok((condition, put(write)))
}

/// As `condition`, for a write that accepts an older version, or without versions (`-C`).
fn version_condition<'e>(
    face: &Face,
    write: &Write<'_>,
    expected: u64,
    old: &'e mut Option<Entry<'static>>,
    now: Ms,
) -> Result<(If<'e, 'static>, Put<'static>), Stored> {
    *old = face.store.peek(OBJECTS, write.key, now);
    let Some(entry) = old else { return Err(Stored::NotFound) };
    // Without versions, none matches.
    if !face.cas.get() || expected == 0 {
        return Err(Stored::Exists);
    }
    if entry.version() == expected {
        return Ok((If::Version(expected), put(write)));
    }
    if !entry.is_newer_than(expected) {
        return Err(Stored::Exists);
    }
    // The copy is as stale as the old item and expires with it. An earlier claim stays valid.
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

/// Longest value that `append` and `prepend` compose, in bytes. It is copied in one go, which takes
/// some milliseconds.
const JOINED: u64 = 16 << 20;

/// `append`, `prepend`: flags and expiry stay. If the result would be too large, the old item
/// stays.
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
        // It was not there in time, or left memory again.
        if entry.elsewhere().is_some() {
            return Stored::NotStored;
        }
        let len = entry.len() + added;
        if len > JOINED || !fits(face, write.key, entry.flags(), len) {
            return Stored::NotStored;
        }
        face.turn_time.copied(len);
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

/// Returns whether clients know the entry under this version.
fn matches(face: &Face, entry: &Entry<'_>, expected: u64) -> bool {
    expected == face.version(entry.version())
}

/// Counts the result of a write.
#[inline]
fn count_store(face: &Face, write: &Write<'_>, stored: Stored, len: u64, now: Ms) -> Stored {
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

/// Reports a write of `sent` bytes to watchers.
#[cold]
fn report_store(face: &Face, write: &Write<'_>, stored: Stored, sent: u64, now: Ms) {
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
    // The present item differs from the one sent: a value may have been joined, an old expiry kept.
    let entry =
        matches!(stored, Stored::Stored(_)).then(|| face.store.peek(OBJECTS, write.key, now));
    let (expires, size) = match (stored, entry.flatten()) {
        (Stored::TooLarge | Stored::NoMemory, _) => (None, 0),
        (_, Some(entry)) => (entry.expires(), entry.len()),
        (_, None) => (write.expires, sent),
    };
    face.stats.saw_store(&Seen { key: write.key, status, command, expires, size, sent }, now);
}

/// `delete`, if the item's version is `compare`.
pub(crate) fn delete(face: &Face, key: &[u8], compare: Option<u64>, now: Ms) -> Deleted {
    face.saw_lookup(key, now);
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

/// `flush_all` with `exptime` as sent; 0 and less: now. It replaces an earlier plan.
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
