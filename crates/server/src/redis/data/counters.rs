//! Numbers in strings.

use larder_proto::resp::{
    Args,
    float::Float,
    number::{Text, parse_i64},
};
use larder_store::{Entry, Put};

use super::super::ctx::{Class, Ctx};
use super::errors::{NOT_FINITE, NOT_FLOAT, NOT_INTEGER, OVERFLOW, Outcome};

/// Longest text that is parsed as a number, in bytes (Redis: MAX_LONG_DOUBLE_CHARS).
const LONGEST: u64 = 5 * 1024;

/// INCR key
#[inline]
pub(super) fn incr(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = add(ctx, args.get(1), 1, "incrby");
    ctx.settle(outcome, args);
}

/// DECR key
pub(super) fn decr(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = add(ctx, args.get(1), -1, "decrby");
    ctx.settle(outcome, args);
}

/// INCRBY key increment
pub(super) fn incrby(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = match parse_i64(args.get(2)) {
        Some(delta) => add(ctx, args.get(1), delta, "incrby"),
        None => Err(NOT_INTEGER.into()),
    };
    ctx.settle(outcome, args);
}

/// DECRBY key decrement
pub(super) fn decrby(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = match parse_i64(args.get(2)) {
        Some(i64::MIN) => Err("ERR decrement would overflow".into()),
        Some(delta) => add(ctx, args.get(1), -delta, "decrby"),
        None => Err(NOT_INTEGER.into()),
    };
    ctx.settle(outcome, args);
}

/// The text of a value that may be a number: numbers fit one piece, and longer values are not
/// searched.
fn number<'e>(entry: &'e Entry<'_>) -> &'e [u8] {
    if entry.len() > LONGEST { b"" } else { entry.head() }
}

fn add(ctx: &mut Ctx<'_>, key: &[u8], delta: i64, event: &'static str) -> Outcome {
    let sum = ctx.retry(|ctx| {
        let old = ctx.look_string(key)?;
        let value = match &old {
            Some(entry) => parse_i64(number(entry)).ok_or(NOT_INTEGER)?,
            None => 0,
        };
        let sum = value.checked_add(delta).ok_or(OVERFLOW)?;
        let mut text = Text::default();
        let expires = old.as_ref().and_then(|entry| entry.expires());
        let put = Put { value: &[text.i64(sum)], expires, ..Put::default() };
        Ok(ctx.replace(key, old.as_ref(), put)?.map(|_| sum))
    })?;
    ctx.reply().integer(sum);
    ctx.modified(Class::String, event, key);
    Ok(())
}

/// INCRBYFLOAT key increment
pub(super) fn incrbyfloat(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = add_float(ctx, args);
    ctx.settle(outcome, args);
}

fn add_float(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome {
    let key = args.get(1);
    let text = ctx.retry(|ctx| {
        let old = ctx.look_string(key)?;
        let value = match &old {
            Some(entry) => Float::parse(number(entry)).ok_or(NOT_FLOAT)?,
            None => Float::ZERO,
        };
        let delta = Float::parse(args.get(2)).ok_or(NOT_FLOAT)?;
        let text = value.plus(delta).ok_or(NOT_FINITE)?.text();
        let expires = old.as_ref().and_then(|entry| entry.expires());
        let put = Put { value: &[text.as_bytes()], expires, ..Put::default() };
        Ok(ctx.replace(key, old.as_ref(), put)?.map(|_| text))
    })?;
    ctx.reply().bulk(text.as_bytes());
    ctx.modified(Class::String, "incrbyfloat", key);
    Ok(())
}
