//! Hashes: what sets fields.

use larder_proto::resp::{
    Args,
    float::Float,
    hash::Hash,
    number::{self, parse_i64},
};

use super::super::ctx::{Class, Ctx};
use super::access::bytes;
use super::errors::{NOT_FINITE, NOT_FLOAT, NOT_INTEGER, OVERFLOW, Outcome};
use super::hashes::Fields;

/// HSET key field value [field value ...]
pub(super) fn hset(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    match set_all(ctx, args, "ERR wrong number of arguments for 'hset' command") {
        Ok(added) => ctx.reply().count(added),
        Err(refused) => ctx.settle(Err(refused), args),
    }
}

/// HMSET key field value [field value ...]
pub(super) fn hmset(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    match set_all(ctx, args, "ERR wrong number of arguments for 'hmset' command") {
        Ok(_) => ctx.reply().ok(),
        Err(refused) => ctx.settle(Err(refused), args),
    }
}

/// How many fields are new.
fn set_all(ctx: &mut Ctx<'_>, args: &Args<'_>, arity: &'static str) -> Outcome<usize> {
    let key = args.get(1);
    if args.len() % 2 == 1 {
        return Err(arity.into());
    }
    let added = ctx.retry(|ctx| {
        let old = ctx.look_hash(key)?;
        let record = old.as_ref().map(bytes);
        let mut fields = Fields::read(record.as_deref(), args.len() / 2 - 1)?;
        let mut added = 0;
        for at in (2..args.len()).step_by(2) {
            added += usize::from(fields.set(args.get(at), args.get(at + 1)));
        }
        Ok(fields.store(ctx, key, old.as_ref())?.then_some(added))
    })?;
    ctx.modified(Class::Hash, "hset", key);
    Ok(added)
}

/// HSETNX key field value
pub(super) fn hsetnx(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let (key, field) = (args.get(1), args.get(2));
    let outcome = ctx.retry(|ctx| {
        let old = ctx.look_hash(key)?;
        let record = old.as_ref().map(bytes);
        if let Some(record) = &record
            && Hash::read(record)?.get(field)?.is_some()
        {
            return Ok(Some(false));
        }
        let mut fields = Fields::read(record.as_deref(), 1)?;
        fields.set(field, args.get(3));
        Ok(fields.store(ctx, key, old.as_ref())?.then_some(true))
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

/// Sets a field to what `compute` makes of its value; returns what it made.
fn compute<T>(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    mut compute: impl FnMut(Option<&[u8]>) -> Outcome<(Vec<u8>, T)>,
) -> Outcome<T> {
    let (key, field) = (args.get(1), args.get(2));
    ctx.retry(|ctx| {
        let old = ctx.look_hash(key)?;
        let record = old.as_ref().map(bytes);
        let value = match &record {
            Some(record) => Hash::read(record)?.get(field)?,
            None => None,
        };
        let (text, result) = compute(value)?;
        let mut fields = Fields::read(record.as_deref(), 1)?;
        fields.set(field, &text);
        Ok(fields.store(ctx, key, old.as_ref())?.then_some(result))
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
