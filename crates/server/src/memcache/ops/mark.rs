//! `md` with `I` or `x`: marks an item stale, or empties it, instead of deleting it.

use larder_store::{Entry, Put, PutError};

use super::{
    super::{Face, OBJECTS},
    Deleted, NoMemory, matches,
};
use crate::clock::Ms;

/// A mark in place of a deletion: stale (meta's `md` with `I`) or empty (with `x`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    /// The version that must be present.
    pub(crate) compare: Option<u64>,
    /// The version to assign instead of a new one.
    pub(crate) version: Option<u64>,
    /// The new expiry.
    pub(crate) expires: Option<Option<Ms>>,
    pub(crate) stale: bool,
    /// Drops the value and the client's flags.
    pub(crate) empty: bool,
}

/// Writes the marked item under a new version. A client can win it again.
///
/// # Errors
/// There is no memory. The item is stale, if that was asked for, and keeps its expiry.
pub(crate) fn mark(face: &Face, key: &[u8], mark: &Mark, now: Ms) -> Result<Deleted, NoMemory> {
    face.saw_lookup(key, now);
    loop {
        let Some(entry) = face.store.peek(OBJECTS, key, now) else {
            face.counters.delete_misses.one();
            return Ok(Deleted::NotFound);
        };
        if mark.compare.is_some_and(|expected| !matches(face, &entry, expected)) {
            return Ok(Deleted::Exists);
        }
        // Without its value, the item cannot be written anew: it goes.
        if !mark.empty && entry.elsewhere().is_some() {
            if face.store.delete_same(&entry, now) {
                face.counters.delete_misses.one();
                return Ok(Deleted::NotFound);
            }
            continue;
        }
        let parts: Vec<&[u8]> = if mark.empty { Vec::new() } else { entry.chunks().collect() };
        let flags = if mark.empty { 0 } else { entry.flags() };
        let expires = mark.expires.unwrap_or_else(|| entry.expires());
        let stale = mark.stale || entry.stale();
        let put =
            Put { value: &parts, flags, expires, stale, version: mark.version, ..Put::default() };
        // A mark is no use of the item.
        match face.store.put_same(&entry, put, false, now) {
            Ok(_) => return Ok(Deleted::Deleted),
            Err(PutError::Exists | PutError::NotFound) => {}
            // No memory for a marked copy: mark the item in place.
            Err(_) if !mark.empty => match mark_in_place(face, &entry, mark, now) {
                Err(PutError::Exists | PutError::NotFound) => {}
                Err(_) => return Err(NoMemory),
                Ok(()) => return Ok(Deleted::Deleted),
            },
            // No memory even for an empty item: delete it, so that no client reads the old value.
            Err(_) if face.store.delete_same(&entry, now) => return Ok(Deleted::Deleted),
            Err(_) => {}
        }
    }
}

/// Marks the item stale without memory for a copy: it keeps its version.
fn mark_in_place(face: &Face, entry: &Entry<'_>, mark: &Mark, now: Ms) -> Result<(), PutError> {
    if !face.store.mark_stale_same(entry, now) {
        return Err(PutError::Exists);
    }
    match mark.expires.map(|expires| face.store.touch_same(entry, expires, now)) {
        // Another write or touch came later and counts.
        None | Some(Ok(()) | Err(PutError::Exists | PutError::NotFound)) => Ok(()),
        Some(full) => full,
    }
}
