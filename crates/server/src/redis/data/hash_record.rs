//! Hashes in the store. A small hash is one value (see [`larder_proto::resp::hash`]), which a write
//! of one field rewrites; a large one is a tree (`collection/hash.rs`). docs/redis.md gives the
//! cost.
//!
//! Fields that have expired are removed by whoever looks the hash up next, so that no command sees
//! one. (`due_fields.rs` looks up those that nobody asks for.) The entry of a hash whose fields all
//! expire has the expiry of the last of them, so that no command sees an empty hash.
//!
//! A tree is changed by a command that holds the key's stripe alone. Commands that only read hold
//! none: its parts may change while they read, so they compare the numbers of commits before and
//! after (`collection/pages.rs`), and start again with the stripe if a writer came between. One
//! that needs more than a look asks for the stripe at once ([`Refused::Unlocked`]).

use larder_proto::resp::{
    Args,
    collection::{HASH_EXPIRING, HASH_FADING, Kind},
    hash::{self, Change, Damaged, Hash, Merged},
};
use larder_store::{Entry, If, Namespace, Put, PutError};

use super::super::{
    ctx::{Class, Ctx},
    shared::Shared,
};
use super::access::{is_hash, is_record};
use super::collection::{Coll, is_outgrown, is_small, portion};
use super::errors::{Outcome, Refused, WRONG_TYPE, refused};
use super::hash_purge::purge;
use super::joined::Whole;
use super::parts::{TOGETHER, is_one_step};
use crate::clock::Ms;

/// Most bytes and fields of a record. Records of earlier versions may be as large, and the
/// memcached face may write any.
pub(super) const MOST_BYTES: u64 = 4 * 1024 * 1024;
const MOST_FIELDS: usize = 128 * 1024;
const TOO_LARGE: &str = "ERR a hash in one record has at most 4 MiB and 131072 fields";

/// Runs of a tree from which expired fields are removed between two checks of the clock.
pub(super) const RUNS: usize = 8;
/// Bytes of fields longer than a run that a write of several steps reads and writes between two
/// checks of the clock: a third of a millisecond, and one field of 4 MiB.
const LONG_STEP: usize = 256 * 1024;

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
    if !has_field_expiry(entry) {
        return entry.expires();
    }
    hash::key_expiry(entry.head()).unwrap_or(entry.expires())
}

/// Is it a hash with a field that expires?
pub(super) fn has_field_expiry(entry: &Entry<'_>) -> bool {
    matches!(entry.flags(), hash::EXPIRING | hash::FADING | HASH_EXPIRING | HASH_FADING)
}

/// A hash that was found.
pub(super) enum Found<'k> {
    /// A small one.
    Record(Entry<'static>),
    Tree(Box<Coll<'k>>),
}

/// A hash to read.
pub(super) enum View<'v, 'k> {
    Record(Hash<'v>),
    Tree(&'v Coll<'k>),
}

impl<'k> Found<'k> {
    /// The record, if it is one.
    pub(super) fn whole(&self) -> Option<Whole<'_>> {
        match self {
            Found::Record(entry) => Some(Whole::of(entry)),
            Found::Tree(_) => None,
        }
    }

    /// The hash to read, with its record if it is one.
    pub(super) fn view<'v>(&'v self, record: Option<&'v [u8]>) -> Outcome<View<'v, 'k>> {
        match (self, record) {
            (Found::Tree(coll), _) => Ok(View::Tree(coll)),
            (Found::Record(_), Some(record)) => Ok(View::Record(read(record)?)),
            (Found::Record(_), None) => Err(WRONG_TYPE.into()),
        }
    }

    /// Version of its entry.
    pub(super) fn version(&self) -> u64 {
        match self {
            Found::Record(entry) => entry.version(),
            Found::Tree(coll) => coll.version(),
        }
    }
}

/// Number of arguments from a position on that one step processes, `each` for a field; of a record
/// at most as many fields.
pub(super) fn some_of(
    args: &Args<'_>,
    from: usize,
    found: Option<&Found<'_>>,
    each: usize,
    most: usize,
) -> usize {
    if is_one_step(args) {
        return args.len() - from;
    }
    let most = match found {
        Some(Found::Tree(coll)) => coll.changes_in_a_step(),
        _ => most,
    };
    portion(args, from, each * most).next_multiple_of(each)
}

impl View<'_, '_> {
    /// Number of fields.
    pub(super) fn len(&self) -> u64 {
        match self {
            View::Record(hash) => hash.len() as u64,
            View::Tree(coll) => coll.len(),
        }
    }

    /// Bytes of long parts that were read and written.
    pub(super) fn long_bytes(&self) -> usize {
        match self {
            View::Record(_) => 0,
            View::Tree(coll) => coll.long_bytes(),
        }
    }

    /// Does the step of a write end before it looks at a further field? See [`Coll::ends_step`].
    pub(super) fn ends_step(&self, ctx: &Ctx<'_>) -> Outcome<bool> {
        match self {
            View::Record(_) => Ok(false),
            View::Tree(coll) => coll.ends_step(ctx),
        }
    }

    /// Passes the value of a field, if it is there, to `f`.
    #[inline]
    pub(super) fn get<T>(&self, field: &[u8], f: impl FnOnce(Option<&[u8]>) -> T) -> Outcome<T> {
        match self {
            View::Record(hash) => Ok(f(hash.get(field)?)),
            View::Tree(coll) => coll.field(field, |item| f(item.map(|item| item.value))),
        }
    }

    /// Does it have this field?
    pub(super) fn has(&self, field: &[u8]) -> Outcome<bool> {
        self.get(field, |value| value.is_some())
    }

    /// The same with the field's expiry.
    pub(super) fn get_expiring<T>(
        &self,
        field: &[u8],
        f: impl FnOnce(Option<(&[u8], Option<Ms>)>) -> T,
    ) -> Outcome<T> {
        match self {
            View::Record(hash) => Ok(f(hash.get_expiring(field)?)),
            View::Tree(coll) => {
                coll.field(field, |item| f(item.map(|item| (item.value, item.expires))))
            }
        }
    }

    /// The expiry of a field. None: it is not there.
    pub(super) fn expiry(&self, field: &[u8]) -> Outcome<Option<Option<Ms>>> {
        self.get_expiring(field, |found| found.map(|(_, expiry)| expiry))
    }
}

impl Coll<'_> {
    /// Does the step of a write end before its next field, because those before it were long? A
    /// write that is to be one step begins again as one of several steps, for which readers wait.
    fn ends_step(&self, ctx: &Ctx<'_>) -> Outcome<bool> {
        let most = if ctx.has_readers() { TOGETHER.1 } else { LONG_STEP };
        match self.long_bytes() > most {
            true if ctx.has_readers() => Err(Refused::Unlocked),
            is_over => Ok(is_over),
        }
    }
}

impl<'a> Ctx<'a> {
    /// May others read the keys of this write without their stripes? They see it whole only if it
    /// is one step.
    fn has_readers(&self) -> bool {
        let conn = &self.conn;
        !(conn.keeps_readers_out || conn.in_exec || conn.in_script)
    }

    /// Looks a hash up for reading.
    pub(super) fn read_hash<'k>(&mut self, key: &'k [u8]) -> Outcome<Option<Found<'k>>>
    where
        'a: 'k,
    {
        let entry = self.read(key);
        self.only_hash(key, entry)
    }

    /// Looks a hash up for writing.
    pub(super) fn look_hash<'k>(&mut self, key: &'k [u8]) -> Outcome<Option<Found<'k>>>
    where
        'a: 'k,
    {
        let entry = self.look(key);
        let found = self.only_hash(key, entry);
        let is_ready = match &found {
            Err(Refused::Unready) => false,
            Ok(Some(Found::Record(record))) => !is_outgrown(record, hash::count(record.head())),
            _ => true,
        };
        match is_ready {
            true => found,
            // The command that begins behind these steps cannot begin again.
            false if self.has_readers() => Err(Refused::Unlocked),
            false => Err(Refused::Unready),
        }
    }

    /// The entry, if it is a hash, without expired fields.
    pub(super) fn only_hash<'k>(
        &mut self,
        key: &'k [u8],
        entry: Option<Entry<'static>>,
    ) -> Outcome<Option<Found<'k>>>
    where
        'a: 'k,
    {
        let Some(entry) = entry else { return Ok(None) };
        if !is_record(&entry) {
            let is_due = hash::is_due(entry.head(), self.now);
            let tree = self.coll(key, Some(entry), Kind::Hash)?;
            if is_due {
                self.need_stripe()?;
                return Err(Refused::Unready);
            }
            return Ok(tree.map(|coll| Found::Tree(Box::new(coll))));
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
        Ok(entry.map(Found::Record))
    }

    /// Continues only if the command holds the stripe of its key.
    pub(super) fn need_stripe(&self) -> Outcome {
        let conn = &self.conn;
        let has = conn.has_stripe || conn.in_exec || conn.in_script;
        if has { Ok(()) } else { Err(Refused::Unlocked) }
    }

    /// Removes the expired fields of a record and reports them; returns what is stored now.
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
            if !is_record(&entry) || entry.len() > MOST_BYTES {
                if !is_hash(&entry) {
                    return Err(WRONG_TYPE.into());
                }
                // Another write made it a tree.
                ctx.need_stripe()?;
                return Err(Refused::Unready);
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

/// Result of a change of fields.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changed {
    /// Changes made, the first ones.
    pub(super) done: usize,
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
    old: Option<Found<'_>>,
    changes: &[Change<'_>],
) -> Outcome<Option<Changed>> {
    change_as(ctx, key, old, changes, Extent::All)
}

/// The same, with as many of the changes as one step makes.
pub(super) fn change_some(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    old: Option<Found<'_>>,
    changes: &[Change<'_>],
) -> Outcome<Option<Changed>> {
    change_as(ctx, key, old, changes, Extent::Step)
}

/// Which changes of several are made at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    All,
    Step,
}

fn change_as(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    old: Option<Found<'_>>,
    changes: &[Change<'_>],
    extent: Extent,
) -> Outcome<Option<Changed>> {
    let old = match old {
        Some(Found::Tree(coll)) => return change_tree(ctx, *coll, changes, extent),
        Some(Found::Record(entry)) => Some(entry),
        None => None,
    };
    let record = old.as_ref().map(Whole::of);
    let there = record.as_deref().map(read).transpose()?;
    let expires = old.as_ref().and_then(key_expiry);
    let merged = hash::merge(there.as_ref(), changes, expires)?;
    let (added, removed, is_gone) = (merged.added(), merged.removed(), merged.count() == 0);
    let mut changed = Changed { done: changes.len(), added, removed, is_gone, version: 0 };
    if changed.is_gone {
        let done = old.as_ref().is_none_or(|old| ctx.store.delete_same(old, ctx.now));
        return Ok(done.then_some(changed));
    }
    let removes = |change: &Change<'_>| change.value == hash::Value::Remove;
    if added + removed == 0 && changes.iter().all(removes) {
        return Ok(Some(changed)); // Unchanged: no write to report.
    }
    ctx.face.turn_time.copied(merged.size() as u64);
    if is_small(merged.count() as u64, merged.size() as u64) {
        let version = put(ctx.shared, (ctx.ns, key), old.as_ref(), &merged, expires, ctx.now)?;
        changed.version = version.unwrap_or_default();
        return Ok(version.map(|_| changed));
    }
    // It becomes a tree, at once: as a tree of one run it would be copied for each field.
    let whole = merged.parts().concat();
    let mut coll = ctx.new_coll(key, Kind::Hash, old.clone());
    coll.take_record(&Hash::read(&whole)?)?;
    if coll.commit(ctx)?.is_none() {
        return Ok(None);
    }
    changed.version = ctx.look(key).map_or(0, |entry| entry.version());
    Ok(Some(changed))
}

fn change_tree(
    ctx: &mut Ctx<'_>,
    mut coll: Coll<'_>,
    changes: &[Change<'_>],
    extent: Extent,
) -> Outcome<Option<Changed>> {
    let (mut changed, mut is_changed) = (Changed::default(), false);
    for change in changes {
        if extent == Extent::Step && changed.done > 0 && coll.ends_step(ctx)? {
            break;
        }
        changed.done += 1;
        let effect = coll.change_field(change)?;
        changed.added += effect.added;
        changed.removed += effect.removed;
        is_changed |= effect.changed;
    }
    changed.is_gone = coll.len() == 0;
    if !is_changed {
        return Ok(Some(changed));
    }
    let key = coll.key();
    if coll.commit(ctx)?.is_none() {
        return Ok(None);
    }
    changed.version = ctx.look(key).map_or(0, |entry| entry.version());
    Ok(Some(changed))
}

/// Changes the expiry of a key with fields that expire. False: another write came first.
pub(super) fn expire_key(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    old: &Entry<'static>,
    expires: Option<Ms>,
) -> Outcome<bool> {
    if !is_record(old) {
        let Some(mut tree) = ctx.coll(key, Some(old.clone()), Kind::Hash)? else {
            return Ok(false);
        };
        tree.expire(expires);
        return Ok(tree.commit(ctx)?.is_some());
    }
    let record = Whole::of(old);
    let merged = hash::merge(Some(&read(&record)?), &[], expires)?;
    ctx.face.turn_time.copied(merged.size() as u64);
    Ok(put(ctx.shared, (ctx.ns, key), Some(old), &merged, expires, ctx.now)?.is_some())
}

/// Writes a hash in place of the one that was read; returns its version.
pub(super) fn put(
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
