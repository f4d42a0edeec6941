//! Hashes: commands that set fields.

use larder_proto::resp::{
    Args,
    float::Float,
    hash::Change,
    number::{self, parse_i64},
};
use larder_store::PutError;

use super::super::{
    ctx::{Class, Ctx},
    job::{Job, Progress},
};
use super::errors::{NOT_FINITE, NOT_FLOAT, NOT_INTEGER, OVERFLOW, Outcome, refused};
use super::hashes::{MOST_BYTES, MOST_FIELDS, TOO_LARGE, change, read};
use super::joined::Whole;
use super::parts::PART;

/// Attempts of an HSET of many fields that other writes interrupt.
const ATTEMPTS: usize = 16;

/// HSET key field value [field value ...]
pub(super) fn hset(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let arity = "ERR wrong number of arguments for 'hset' command";
    set_all(ctx, args, arity, |ctx, added| ctx.reply().count(added));
}

/// HMSET key field value [field value ...]
pub(super) fn hmset(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let arity = "ERR wrong number of arguments for 'hmset' command";
    set_all(ctx, args, arity, |ctx, _| ctx.reply().ok());
}

fn set_all(ctx: &mut Ctx<'_>, args: &Args<'_>, arity: &'static str, end: fn(&mut Ctx<'_>, usize)) {
    if args.len() % 2 == 1 {
        return ctx.reply().error(arity);
    }
    ctx.go(SetAll { at: 2, added: 0, written: None, overtaken: 0, checks: None, end }, args);
}

/// An HSET in progress. It holds its key, so that no client of this face sees a part of it.
struct SetAll {
    /// The next field.
    at: usize,
    /// Number of new fields.
    added: usize,
    /// Version written by the last step.
    written: Option<u64>,
    /// Number of restarts.
    overtaken: usize,
    /// If the hash may exceed the limit of fields: the next field to look up, and the number of
    /// missing ones so far.
    checks: Option<(usize, usize)>,
    /// Composes the answer; its argument is the number of new fields.
    end: fn(&mut Ctx<'_>, usize),
}

impl SetAll {
    fn continue_step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<Progress> {
        let key = args.get(1);
        // The first part of a large hash may take all of the step's time.
        ctx.is_over();
        if self.at == 2 && args.len() > PART {
            self.may_fit(ctx, args)?;
        }
        if self.checks.is_some() && !self.count_new(ctx, args)? {
            return Ok(Progress::Again);
        }
        while self.at < args.len() {
            let to = args.len().min(self.at + PART);
            let changes: Vec<Change<'_>> =
                (self.at..to).step_by(2).map(|at| (args.get(at), Some(args.get(at + 1)))).collect();
            let changed = ctx.retry(|ctx| {
                let old = ctx.look_hash(key)?;
                let version = old.as_ref().map(|entry| entry.version());
                if self.written.is_some() && version != self.written {
                    return Ok(Some(None));
                }
                Ok(change(ctx, key, old.as_ref(), &changes)?.map(Some))
            })?;
            let Some(changed) = changed else {
                // The hash was evicted or replaced meanwhile: a part of the fields must not pass
                // for all.
                self.overtaken += 1;
                if self.overtaken > ATTEMPTS {
                    return Err(refused(PutError::Full, key));
                }
                (self.at, self.added, self.written) = (2, 0, None);
                continue;
            };
            (self.at, self.written) = (to, Some(changed.version));
            self.added += changed.added;
            if self.at < args.len() && ctx.is_over() {
                return Ok(Progress::Again);
            }
        }
        (self.end)(ctx, self.added);
        ctx.modified(Class::Hash, "hset", key);
        Ok(Progress::Done)
    }

    /// Refuses a hash that would become too large: a part of the fields must not be stored.
    fn may_fit(&mut self, ctx: &Ctx<'_>, args: &Args<'_>) -> Outcome {
        if self.checks.is_some() {
            return Ok(());
        }
        let old = ctx.look_hash(args.get(1))?;
        let record = old.as_ref().map(Whole::of);
        let there = record.as_deref().map(read).transpose()?.map_or(0, |hash| hash.len());
        let size = old.as_ref().map_or(0, |entry| entry.len());
        let words: usize = args.from(2).map(|word| word.len() + 4).sum();
        let fields = args.len() / 2 - 1;
        if size + words as u64 > MOST_BYTES || fields > MOST_FIELDS {
            return Err(TOO_LARGE.into());
        }
        self.checks = (there + fields > MOST_FIELDS).then_some((2, 0));
        Ok(())
    }

    /// Counts the missing fields. False: fields remain to be looked up.
    fn count_new(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<bool> {
        let old = ctx.look_hash(args.get(1))?;
        let record = old.as_ref().map(Whole::of);
        let there = record.as_deref().map(read).transpose()?;
        while let Some((at, fresh)) = self.checks.filter(|(at, _)| *at < args.len()) {
            let is_new = there.map(|hash| hash.get(args.get(at))).transpose()?.flatten().is_none();
            self.checks = Some((at + 2, fresh + usize::from(is_new)));
            if at % 64 == 0 && ctx.is_over() {
                return Ok(false);
            }
        }
        let fresh = self.checks.take().map_or(0, |(_, fresh)| fresh);
        if there.map_or(0, |hash| hash.len()) + fresh > MOST_FIELDS {
            return Err(TOO_LARGE.into());
        }
        Ok(true)
    }
}

impl Job for SetAll {
    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        self.continue_step(ctx, args).unwrap_or_else(|refused| {
            if self.written.is_some() {
                ctx.modified(Class::Hash, "hset", args.get(1));
            }
            ctx.settle(Err(refused), args);
            Progress::Done
        })
    }
}

/// HSETNX key field value
pub(super) fn hsetnx(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let (key, field) = (args.get(1), args.get(2));
    let outcome = ctx.retry(|ctx| {
        let old = ctx.look_hash(key)?;
        let record = old.as_ref().map(Whole::of);
        if let Some(record) = &record
            && read(record)?.get(field)?.is_some()
        {
            return Ok(Some(false));
        }
        drop(record);
        Ok(change(ctx, key, old.as_ref(), &[(field, Some(args.get(3)))])?.map(|_| true))
    });
    match outcome {
        Ok(set) => {
            ctx.reply().integer(set.into());
            if set {
                ctx.modified(Class::Hash, "hset", key);
            }
        }
        Err(refused) => ctx.settle(Err(refused), args),
    }
}

/// Sets a field to the result of `compute` on its value; returns the result.
fn compute<T>(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    mut compute: impl FnMut(Option<&[u8]>) -> Outcome<(Vec<u8>, T)>,
) -> Outcome<T> {
    let (key, field) = (args.get(1), args.get(2));
    ctx.retry(|ctx| {
        let old = ctx.look_hash(key)?;
        let record = old.as_ref().map(Whole::of);
        let value = match &record {
            Some(record) => read(record)?.get(field)?,
            None => None,
        };
        let (text, result) = compute(value)?;
        drop(record);
        Ok(change(ctx, key, old.as_ref(), &[(field, Some(&text))])?.map(|_| result))
    })
}

/// HINCRBY key field increment
pub(super) fn hincrby(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let delta = parse_i64(args.get(3)).ok_or(NOT_INTEGER)?;
        let sum = compute(ctx, args, |value| {
            let value = match value {
                Some(text) => parse_i64(text).ok_or("ERR hash value is not an integer")?,
                None => 0,
            };
            let sum = value.checked_add(delta).ok_or(OVERFLOW)?;
            Ok((number::Text::default().i64(sum).to_vec(), sum))
        })?;
        ctx.reply().integer(sum);
        ctx.modified(Class::Hash, "hincrby", args.get(1));
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// HINCRBYFLOAT key field increment
pub(super) fn hincrbyfloat(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let delta = Float::parse(args.get(3)).ok_or(NOT_FLOAT)?;
        if !delta.is_finite() {
            return Err("ERR value is NaN or Infinity".into());
        }
        let text = compute(ctx, args, |value| {
            let value = match value {
                Some(text) => Float::parse(text).ok_or("ERR hash value is not a float")?,
                None => Float::ZERO,
            };
            let text = value.plus(delta).ok_or(NOT_FINITE)?.text();
            Ok((text.clone().into_bytes(), text))
        })?;
        ctx.reply().bulk(text.as_bytes());
        ctx.modified(Class::Hash, "hincrbyfloat", args.get(1));
        Ok(())
    })();
    ctx.settle(outcome, args);
}
