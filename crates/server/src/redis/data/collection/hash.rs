//! Operations on hashes that are trees, or become ones. A small hash is a record of its own form
//! ([`larder_proto::resp::hash`]); here it is one run until it is committed.

use larder_proto::resp::{
    collection::{
        Fill, HASH_EXPIRING, HASH_FADING, Item, Items, KeyTimes, Kind, Shape, Times, find,
        push_field,
    },
    hash::{self, Change, Expiry, Hash, Value},
};
use larder_store::Entry;

use super::super::errors::Outcome;
use super::super::hash_record::put;
use super::{At, BYTES, Coll, Tree, tree::is_small};
use crate::clock::Ms;

/// Most bytes of a field and its value: they are copied in one go.
const MOST_BYTES: usize = 4 * 1024 * 1024;
const TOO_LARGE: &str = "ERR a field and its value have at most 4 MiB";

/// The effect of a change: fields added and removed, and whether anything changed.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Effect {
    pub(in super::super) added: usize,
    pub(in super::super) removed: usize,
    pub(in super::super) changed: bool,
}

impl Coll<'_> {
    /// Passes a field, if it is there, to `f`.
    pub(in super::super) fn field<T>(
        &self,
        field: &[u8],
        f: impl FnOnce(Option<&Item<'_>>) -> T,
    ) -> Outcome<T> {
        if self.len() == 0 {
            return Ok(f(None));
        }
        let found = self.locate(Tree::Main, At::Key(&self.key_of(field)))?;
        Ok(f(find(Shape::Field, &found.run.whole(), field)?.as_ref()))
    }

    /// Changes a field.
    pub(in super::super) fn change_field(&mut self, change: &Change<'_>) -> Outcome<Effect> {
        let found = self.locate(Tree::Main, At::Key(&self.key_of(change.field)))?;
        let run = found.run.whole();
        let old = find(Shape::Field, &run, change.field)?;
        let expires = match change.expiry {
            Expiry::Keep => old.and_then(|old| old.expires),
            Expiry::Never => None,
            Expiry::At(time) => Some(time),
        };
        let value = match (change.value, old) {
            (Value::Set(value), _) => Some(value),
            (Value::Keep | Value::Remove, None) => return Ok(Effect::default()),
            (Value::Keep, Some(old)) if old.expires == expires => return Ok(Effect::default()),
            (Value::Keep, Some(old)) => Some(old.value),
            (Value::Remove, Some(_)) => None,
        };
        let size = change.field.len() + value.map_or(0, <[u8]>::len);
        if size > MOST_BYTES {
            return Err(TOO_LARGE.into());
        }
        let mut bytes = Vec::with_capacity(run.len() + size + 24);
        let (start, end) = old.map_or((run.len(), run.len()), |old| (old.start, old.end));
        bytes.extend_from_slice(&run[..start]);
        // In its place: a small hash keeps the order in which its fields came.
        if let Some(value) = value {
            push_field(&mut bytes, change.field, value, expires);
        }
        bytes.extend_from_slice(&run[end..]);
        let (added, removed) = (old.is_none(), value.is_none());
        let there = if self.len() == 0 { 0 } else { found.count };
        let count = there + u64::from(added) - u64::from(removed);
        drop(run);
        self.has_times |= expires.is_some();
        self.head.count = self.head.count + u64::from(added) - u64::from(removed);
        self.replace(Tree::Main, found, bytes, count, Fill::Even)?;
        Ok(Effect { added: added.into(), removed: removed.into(), changed: true })
    }

    /// Takes the fields of a record over, in their order. It was empty.
    pub(in super::super) fn take_record(&mut self, record: &Hash<'_>) -> Outcome {
        let mut run = Vec::new();
        let (mut fields, mut count) = (record.iter(), 0);
        loop {
            let at = fields.place().0;
            let Some(pair) = fields.next() else { break };
            let (field, value) = pair?;
            if field.len() + value.len() > MOST_BYTES {
                return Err(TOO_LARGE.into());
            }
            let expires = record.expiry_at(at);
            self.has_times |= expires.is_some();
            push_field(&mut run, field, value, expires);
            count += 1;
        }
        self.head.count = count;
        let found = self.locate(Tree::Main, At::Position(0))?;
        self.replace(Tree::Main, found, run, count, Fill::Even)
    }

    /// The first and last times of its fields.
    fn times(&self) -> Outcome<Times> {
        Ok(match self.is_packed() {
            true => Times::of_run(&self.head.main.bytes)?,
            false if !self.has_times => Times::NEVER,
            false => Times::of_node(&self.head.main.bytes)?,
        })
    }

    /// Has a field expired?
    pub(in super::super) fn is_due(&self, now: Ms) -> Outcome<bool> {
        Ok(self.len() > 0 && self.times()?.soonest <= now)
    }

    /// Removes fields that have expired, of as many runs, or of fewer long ones; returns their
    /// number.
    pub(in super::super) fn purge(&mut self, now: Ms, runs: usize) -> Outcome<usize> {
        let mut all = 0;
        for _ in 0..runs {
            if self.long_bytes() > BYTES || !self.is_due(now)? {
                break;
            }
            let found = self.locate(Tree::Main, At::Due(now))?;
            let run = found.run.whole();
            let (mut bytes, mut removed) = (Vec::with_capacity(run.len()), 0);
            for item in Items::new(Shape::Field, &run) {
                let item = item?;
                if item.expires.is_some_and(|time| time <= now) {
                    removed += 1;
                } else {
                    bytes.extend_from_slice(&run[item.start..item.end]);
                }
            }
            let there = if self.is_packed() { self.len() } else { found.count };
            drop(run);
            self.head.count = self.head.count.saturating_sub(removed);
            let left = there.saturating_sub(removed);
            self.replace(Tree::Main, found, bytes, left, Fill::Even)?;
            all += removed as usize;
        }
        Ok(all)
    }

    /// The times of its head, and the flags and expiry of its entry.
    pub(super) fn settle_times(&mut self) -> Outcome<(u32, Option<Ms>)> {
        let times = self.times()?;
        let soonest = Some(times.soonest).filter(|time| *time < u64::MAX);
        self.head.times = Some(KeyTimes {
            key: soonest.and(self.expires).unwrap_or(0),
            soonest: soonest.unwrap_or(0),
        });
        Ok(match (times.soonest, self.expires) {
            (u64::MAX, expires) => (Kind::Hash.flags(), expires),
            // The entry goes with its last field, if that is before the key's time.
            (_, expires) if expires.is_none_or(|at| times.last < at) && times.last < u64::MAX => {
                (HASH_FADING, Some(times.last))
            }
            (_, expires) => (HASH_EXPIRING, expires),
        })
    }

    /// Writes a small hash in place of the one that was read. False: another write came first.
    pub(super) fn put_record(&self) -> Outcome<bool> {
        let mut changes = Vec::with_capacity(self.len() as usize);
        for item in Items::new(Shape::Field, &self.head.main.bytes) {
            let item = item?;
            let expiry = item.expires.map_or(Expiry::Never, Expiry::At);
            changes.push(Change { expiry, ..Change::set(item.bytes, item.value) });
        }
        let merged = hash::merge(None, &changes, self.expires)?;
        let place = (self.ns, self.key);
        Ok(put(self.shared, place, self.old.as_ref(), &merged, self.expires, self.now)?.is_some())
    }
}

/// Is the record of a hash, of an earlier version, so large that it becomes a tree in steps?
pub(in super::super) fn is_outgrown(record: &Entry<'_>, fields: usize) -> bool {
    const FIELDS: usize = 2048;
    const BYTES: u64 = 64 * 1024;
    let (fields, bytes) = (fields as u64, record.len());
    !is_small(fields, bytes) && (fields > FIELDS as u64 || bytes > BYTES)
}
