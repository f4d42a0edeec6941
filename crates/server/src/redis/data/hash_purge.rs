//! Removal of expired fields of hashes, also of those that nobody looks at.

use larder_proto::resp::{collection::Kind, hash};
use larder_store::{Entry, Namespace};

use super::super::{ctx::Class, shared::Shared};
use super::access::{is_hash, is_record};
use super::collection::Coll;
use super::errors::Outcome;
use super::hash_record::{MOST_BYTES, RUNS, key_expiry, put, read};
use super::joined::Whole;
use crate::clock::Ms;

/// Removes the expired fields of a record. Returns whether none are left, and the key is deleted;
/// `None`: another write came first.
pub(super) fn purge(
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
    if !is_hash(&entry) || !hash::is_due(entry.head(), now) {
        return;
    }
    let purged = match is_record(&entry) {
        // If another write came first, or there is no room, whoever looks at it next does this.
        true if entry.len() > MOST_BYTES => return,
        true => purge(shared, ns, key, &entry, now),
        false => sweep_tree(shared, ns, key, now),
    };
    if let Ok(Some(is_gone)) = purged {
        shared.watched.wrote(ns, key);
        shared.removed(ns, key, Class::Hash, "hexpired");
        if is_gone {
            shared.removed(ns, key, Class::Generic, "del");
        }
    }
}

/// Removes some of a tree's expired fields. The commit notes it again if others are due.
fn sweep_tree(shared: &Shared, ns: Namespace, key: &[u8], now: Ms) -> Outcome<Option<bool>> {
    let Some(_stripe) = shared.locks.try_write(key) else {
        shared.due_fields.add(ns, key, now + 1);
        return Ok(None);
    };
    let Some(entry) = shared.store.peek(ns, key, now) else { return Ok(None) };
    let mut tree = Coll::of(shared, (ns, key), Kind::Hash, entry, now)?;
    let purged = tree.purge(now, RUNS)?;
    let is_gone = tree.len() == 0;
    if tree.commit_quietly()?.is_none() || purged == 0 {
        return Ok(None);
    }
    shared.due_fields.count(purged);
    Ok(Some(is_gone))
}
