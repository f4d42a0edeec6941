//! Hashes: what reads them, and how they lie in the store. A hash is one value (see [`larder_proto::resp::hash`]), so a
//! write of one field writes all of it anew: what that costs is in docs/redis.md.

use std::{borrow::Cow, collections::HashMap};

use larder_proto::resp::{
    Args,
    hash::{self, Damaged, Hash, Pair},
};
use larder_store::{Entry, Put};

use super::super::ctx::{Class, Ctx};
use super::access::{bytes, is_hash};
use super::errors::{Outcome, Refused, WRONG_TYPE};

/// From so many comparisons on (fields there times fields changed) a table of the fields is made first.
const TABLE_FROM: usize = 4096;

impl From<Damaged> for Refused {
    /// What does not read as a hash is none (a memcached client may store any flags).
    fn from(_: Damaged) -> Self {
        WRONG_TYPE.into()
    }
}

/// What was found, if it is a hash.
fn only_hash(entry: Option<Entry<'static>>) -> Outcome<Option<Entry<'static>>> {
    match entry {
        Some(entry) if !is_hash(&entry) => Err(WRONG_TYPE.into()),
        other => Ok(other),
    }
}

impl Ctx<'_> {
    /// The hash, for a command that reads it.
    pub(super) fn read_hash(&mut self, key: &[u8]) -> Outcome<Option<Entry<'static>>> {
        only_hash(self.read(key))
    }

    /// The hash, for a command that will write it.
    pub(super) fn look_hash(&self, key: &[u8]) -> Outcome<Option<Entry<'static>>> {
        only_hash(self.look(key))
    }
}

/// A hash about to be written: its fields in order, borrowed from what is there and from the command.
pub(super) struct Fields<'a> {
    /// None: removed.
    pairs: Vec<Option<Pair<'a>>>,
    places: Option<HashMap<&'a [u8], usize>>,
    left: usize,
}

impl<'a> Fields<'a> {
    /// Of the record there, if any; about to be changed so many times.
    pub(super) fn read(record: Option<&'a [u8]>, changes: usize) -> Outcome<Fields<'a>> {
        let pairs: Vec<Option<Pair<'a>>> = match record {
            Some(record) => {
                Hash::read(record)?.iter().map(|pair| pair.map(Some)).collect::<Result<_, _>>()?
            }
            None => Vec::with_capacity(changes),
        };
        let many = (pairs.len() + changes) * changes > TABLE_FROM;
        let places = many.then(|| {
            let named = pairs.iter().enumerate();
            named.filter_map(|(at, pair)| Some(((*pair)?.0, at))).collect()
        });
        Ok(Fields { left: pairs.len(), pairs, places })
    }

    fn find(&self, field: &[u8]) -> Option<usize> {
        match &self.places {
            Some(places) => places.get(field).copied(),
            None => self.pairs.iter().position(|pair| pair.is_some_and(|(known, _)| known == field)),
        }
    }

    /// True: the field is new.
    pub(super) fn set(&mut self, field: &'a [u8], value: &'a [u8]) -> bool {
        if let Some(at) = self.find(field) {
            self.pairs[at] = Some((field, value));
            return false;
        }
        if let Some(places) = &mut self.places {
            places.insert(field, self.pairs.len());
        }
        self.pairs.push(Some((field, value)));
        self.left += 1;
        true
    }

    /// True: it was there.
    pub(super) fn remove(&mut self, field: &[u8]) -> bool {
        let Some(at) = self.find(field) else { return false };
        self.pairs[at] = None;
        if let Some(places) = &mut self.places {
            places.remove(field);
        }
        self.left -= 1;
        true
    }

    /// Are there none left?
    pub(super) fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Puts it in place of `old`, expiry kept; without fields the key goes. False: overtaken.
    pub(super) fn store(self, ctx: &mut Ctx<'_>, key: &[u8], old: Option<&Entry<'static>>) -> Outcome<bool> {
        if self.is_empty() {
            return Ok(old.is_none_or(|old| ctx.store.delete_same(old, ctx.now)));
        }
        let pairs: Vec<Pair<'_>> = self.pairs.into_iter().flatten().collect();
        let record = hash::pack(&pairs).ok_or("ERR hash is larger than 4 GiB")?;
        let expires = old.and_then(|entry| entry.expires());
        ctx.replace(key, old, Put { value: &[&record], flags: hash::FLAGS, expires, ..Put::default() })
    }
}

/// Shows a hash, `None` when there is none, to `answer`, which may only answer.
pub(super) fn show(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    answer: impl FnOnce(&mut Ctx<'_>, Option<Hash<'_>>) -> Outcome,
) {
    let outcome = (|| {
        let entry = ctx.read_hash(args.get(1))?;
        let record: Option<Cow<'_, [u8]>> = entry.as_ref().map(bytes);
        let found = record.as_deref().map(Hash::read).transpose()?;
        answer(ctx, found)
    })();
    ctx.settle(outcome, args);
}

/// HGET key field
pub(super) fn hget(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    show(ctx, args, |ctx, found| {
        let value = found.map(|hash| hash.get(args.get(2))).transpose()?.flatten();
        answer_or_null(ctx, value);
        Ok(())
    });
}

fn answer_or_null(ctx: &mut Ctx<'_>, value: Option<&[u8]>) {
    match value {
        Some(value) => ctx.reply().bulk(value),
        None => ctx.reply().null(),
    }
}

/// HMGET key field [field ...]
pub(super) fn hmget(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    show(ctx, args, |ctx, found| {
        let values = args.from(2).map(|field| found.map(|hash| hash.get(field)).transpose());
        let values: Vec<Option<&[u8]>> =
            values.map(|value| value.map(Option::flatten)).collect::<Result<_, _>>()?;
        ctx.reply().array(values.len());
        values.into_iter().for_each(|value| answer_or_null(ctx, value));
        Ok(())
    });
}

/// HGETALL key
pub(super) fn hgetall(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    show(ctx, args, |ctx, found| {
        let pairs = found.map(|hash| hash.pairs()).transpose()?.unwrap_or_default();
        let mut reply = ctx.reply();
        reply.map(pairs.len());
        for (field, value) in pairs {
            reply.bulk(field);
            reply.bulk(value);
        }
        Ok(())
    });
}

/// HKEYS key
pub(super) fn hkeys(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    list(ctx, args, |(field, _)| field);
}

/// HVALS key
pub(super) fn hvals(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    list(ctx, args, |(_, value)| value);
}

fn list(ctx: &mut Ctx<'_>, args: &Args<'_>, part: impl for<'p> Fn(Pair<'p>) -> &'p [u8]) {
    show(ctx, args, |ctx, found| {
        let pairs = found.map(|hash| hash.pairs()).transpose()?.unwrap_or_default();
        let mut reply = ctx.reply();
        reply.array(pairs.len());
        pairs.into_iter().for_each(|pair| reply.bulk(part(pair)));
        Ok(())
    });
}

/// HLEN key
pub(super) fn hlen(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    show(ctx, args, |ctx, found| {
        ctx.reply().count(found.map_or(0, |hash| hash.len()));
        Ok(())
    });
}

/// HSTRLEN key field
pub(super) fn hstrlen(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    show(ctx, args, |ctx, found| {
        let value = found.map(|hash| hash.get(args.get(2))).transpose()?.flatten();
        ctx.reply().count(value.map_or(0, <[u8]>::len));
        Ok(())
    });
}

/// HEXISTS key field
pub(super) fn hexists(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    show(ctx, args, |ctx, found| {
        let value = found.map(|hash| hash.get(args.get(2))).transpose()?.flatten();
        ctx.reply().integer(value.is_some().into());
        Ok(())
    });
}

/// HDEL key field [field ...]
pub(super) fn hdel(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let key = args.get(1);
    let outcome = ctx.retry(|ctx| {
        let Some(old) = ctx.look_hash(key)? else { return Ok(Some((0, false))) };
        let record = bytes(&old);
        let mut fields = Fields::read(Some(&record), args.len() - 2)?;
        let removed = args.from(2).filter(|field| fields.remove(field)).count();
        let gone = fields.is_empty();
        let stored = removed == 0 || fields.store(ctx, key, Some(&old))?;
        Ok(stored.then_some((removed, gone)))
    });
    match outcome {
        Ok((removed, gone)) => {
            ctx.reply().count(removed);
            if removed > 0 {
                ctx.modified(Class::Hash, "hdel", key);
            }
            if gone {
                ctx.event(Class::Generic, "del", key);
            }
        }
        Err(refused) => ctx.settle(Err(refused), args),
    }
}
