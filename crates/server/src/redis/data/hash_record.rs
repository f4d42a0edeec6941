//! Hashes in the store. A hash is one value (see [`larder_proto::resp::hash`]), so a write of one
//! field rewrites all of it; docs/redis.md gives the cost. So the size of a hash is limited:
//! writing it, or joining one that lies in several pieces, takes two milliseconds at most.
//!
//! Fields that have expired are removed by whoever looks the hash up next, so that no command sees
//! one. (`due_fields.rs` looks up those that nobody asks for.) The entry of a hash whose fields all
//! expire has the expiry of the last of them, so that no command sees an empty hash.

use larder_proto::resp::hash::{self, Change, Damaged, Hash, Merged};
use larder_store::{Entry, If, Namespace, Put, PutError};

use super::super::{
    ctx::{Class, Ctx},
    shared::Shared,
};
use super::access::is_hash;
use super::errors::{Outcome, Refused, WRONG_TYPE, refused};
use super::joined::Whole;
use crate::clock::Ms;

/// Maximum of a hash in bytes and in fields.
pub(super) const MOST_BYTES: u64 = 4 * 1024 * 1024;
pub(super) const MOST_FIELDS: usize = 128 * 1024;
pub(super) const TOO_LARGE: &str = "ERR a hash has at most 4 MiB and 131072 fields";

impl From<Damaged> for Refused {
    /// A value that does not parse is no hash (a memcached client may store any flags).
    fn from(_: Damaged) -> Self {
        WRONG_TYPE.into()
    }
}

/// Parses a record.
pub(super) fn read(record: &[u8]) -> Outcome<Hash<'_>> {
    let found = Hash::read(record)?;
    if found.len() > MOST_FIELDS { Err(TOO_LARGE.into()) } else { Ok(found) }
}

/// The expiry of a key: the entry's, but of a hash that may go with its last field.
pub(super) fn key_expiry(entry: &Entry<'_>) -> Option<Ms> {
    if entry.flags() == hash::FLAGS || !is_hash(entry) {
        return entry.expires();
    }
    hash::key_expiry(entry.head()).unwrap_or(entry.expires())
}

impl Ctx<'_> {
    /// Looks a hash up for reading.
    pub(super) fn read_hash(&mut self, key: &[u8]) -> Outcome<Option<Entry<'static>>> {
        let entry = self.read(key);
        self.only_hash(key, entry)
    }

    /// Looks a hash up for writing.
    pub(super) fn look_hash(&mut self, key: &[u8]) -> Outcome<Option<Entry<'static>>> {
        let entry = self.look(key);
        self.only_hash(key, entry)
    }

    /// The entry, if it is a hash, without expired fields.
    pub(super) fn only_hash(
        &mut self,
        key: &[u8],
        entry: Option<Entry<'static>>,
    ) -> Outcome<Option<Entry<'static>>> {
        let Some(entry) = entry else { return Ok(None) };
        if !is_hash(&entry) {
            return Err(WRONG_TYPE.into());
        }
        // The memcached face may have written it.
        if entry.len() > MOST_BYTES {
            return Err(TOO_LARGE.into());
        }
        let entry = match hash::is_due(entry.head(), self.now) {
            true => self.purge_fields(key, entry)?,
            false => Some(entry),
        };
        if let Some(entry) = &entry
            && entry.head().len() as u64 != entry.len()
        {
            // The command joins the pieces.
            self.face.turn_time.copied(entry.len());
        }
        Ok(entry)
    }

    /// Removes the expired fields of a hash and reports them; returns what is stored now.
    #[cold]
    fn purge_fields(
        &mut self,
        key: &[u8],
        entry: Entry<'static>,
    ) -> Outcome<Option<Entry<'static>>> {
        let mut found = Some(entry);
        self.retry(|ctx| {
            // Another write came first: its entry is looked at.
            let Some(entry) = found.take().or_else(|| ctx.look(key)) else {
                return Ok(Some(None));
            };
            if !is_hash(&entry) || entry.len() > MOST_BYTES {
                return Err(WRONG_TYPE.into());
            }
            if !hash::is_due(entry.head(), ctx.now) {
                return Ok(Some(Some(entry)));
            }
            ctx.face.turn_time.copied(entry.len());
            let Some(is_gone) = purge(ctx.shared, ctx.ns, key, &entry, ctx.now)? else {
                return Ok(None);
            };
            ctx.modified(Class::Hash, "hexpired", key);
            if is_gone {
                ctx.event(Class::Generic, "del", key);
                return Ok(Some(None));
            }
            Ok(ctx.look(key).map(Some))
        })
    }
}

/// Removes the expired fields of a hash. Returns whether none are left, and the key is deleted;
/// `None`: another write came first.
fn purge(
    shared: &Shared,
    ns: Namespace,
    key: &[u8],
    entry: &Entry<'static>,
    now: Ms,
) -> Outcome<Option<bool>> {
    let record = Whole::of(entry);
    let expires = key_expiry(entry);
    let purged = hash::purge(&read(&record)?, now, expires)?;
    let is_gone = purged.count() == 0;
    let done = match is_gone {
        true => shared.store.delete_same(entry, now),
        false => put(shared, (ns, key), Some(entry), &purged, expires, now)?.is_some(),
    };
    if done {
        shared.due_fields.count(purged.removed());
    }
    Ok(done.then_some(is_gone))
}

/// Removes the expired fields of a hash that nobody looks at, and reports them.
pub(in super::super) fn sweep_fields(shared: &Shared, ns: Namespace, key: &[u8], now: Ms) {
    let Some(entry) = shared.store.peek(ns, key, now) else { return };
    if !is_hash(&entry) || entry.len() > MOST_BYTES {
        return;
    }
    if !hash::is_due(entry.head(), now) {
        return;
    }
    // If another write came first, or there is no room, whoever looks at it next does this.
    if let Ok(Some(is_gone)) = purge(shared, ns, key, &entry, now) {
        shared.watched.wrote(ns, key);
        shared.removed(ns, key, Class::Hash, "hexpired");
        if is_gone {
            shared.removed(ns, key, Class::Generic, "del");
        }
    }
}

/// Result of a change of fields.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changed {
    pub(super) added: usize,
    pub(super) removed: usize,
    /// No field is left; the key is deleted.
    pub(super) is_gone: bool,
    /// Version of the present entry.
    pub(super) version: u64,
}

/// Changes fields of the hash at `key`; the key's expiry stays. None: another write came first.
pub(super) fn change(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    old: Option<&Entry<'static>>,
    changes: &[Change<'_>],
) -> Outcome<Option<Changed>> {
    let record = old.map(Whole::of);
    let there = record.as_deref().map(read).transpose()?;
    let expires = old.and_then(key_expiry);
    let merged = hash::merge(there.as_ref(), changes, expires)?;
    let (added, removed) = (merged.added(), merged.removed());
    let mut changed = Changed { added, removed, is_gone: merged.count() == 0, version: 0 };
    if changed.is_gone {
        return Ok(old.is_none_or(|old| ctx.store.delete_same(old, ctx.now)).then_some(changed));
    }
    let removes = |change: &Change<'_>| change.value == hash::Value::Remove;
    if added + removed == 0 && changes.iter().all(removes) {
        return Ok(Some(changed)); // Unchanged: no write to report.
    }
    ctx.face.turn_time.copied(merged.size() as u64);
    let version = put(ctx.shared, (ctx.ns, key), old, &merged, expires, ctx.now)?;
    changed.version = version.unwrap_or_default();
    Ok(version.map(|_| changed))
}

/// Changes the expiry of a key with fields that expire. False: another write came first.
pub(super) fn expire_key(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    old: &Entry<'static>,
    expires: Option<Ms>,
) -> Outcome<bool> {
    let record = Whole::of(old);
    let merged = hash::merge(Some(&read(&record)?), &[], expires)?;
    ctx.face.turn_time.copied(merged.size() as u64);
    Ok(put(ctx.shared, (ctx.ns, key), Some(old), &merged, expires, ctx.now)?.is_some())
}

/// Stores a record in place of another value. None: another write came first.
pub(super) fn put_record(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    old: Option<&Entry<'static>>,
    record: &[u8],
    expires: Option<Ms>,
) -> Outcome<Option<()>> {
    let merged = hash::merge(Some(&read(record)?), &[], expires)?;
    ctx.face.turn_time.copied(merged.size() as u64);
    Ok(put(ctx.shared, (ctx.ns, key), old, &merged, expires, ctx.now)?.map(drop))
}

/// Writes a hash in place of the one that was read; returns its version.
fn put(
    shared: &Shared,
    (ns, key): (Namespace, &[u8]),
    old: Option<&Entry<'static>>,
    merged: &Merged<'_>,
    expires: Option<Ms>,
    now: Ms,
) -> Outcome<Option<u64>> {
    let parts = merged.parts();
    let size: u64 = parts.iter().map(|part| part.len() as u64).sum();
    if size > MOST_BYTES || merged.count() > MOST_FIELDS {
        return Err(TOO_LARGE.into());
    }
    let (flags, expires) = match merged.last_expiry() {
        Some(last) if expires.is_none_or(|expires| last < expires) => (hash::FADING, Some(last)),
        _ if merged.is_expiring() => (hash::EXPIRING, expires),
        _ => (hash::FLAGS, expires),
    };
    let put = Put { value: &parts, flags, expires, ..Put::default() };
    match shared.store.put(ns, key, put, old.map_or(If::Absent, If::Same), now) {
        Ok(version) => {
            if let Some(soonest) = merged.soonest() {
                shared.due_fields.add(ns, key, soonest);
            }
            Ok(Some(version))
        }
        Err(PutError::Exists | PutError::NotFound) => Ok(None),
        Err(error) => Err(refused(error, key)),
    }
}
