//! Expiry of keys.

use larder_proto::resp::{Args, number::parse_i64};
use larder_store::{Entry, PutError};

use super::super::ctx::{Class, Ctx};
use super::errors::{NOT_INTEGER, Outcome, Refused, refused};
use super::hash_record::{expire_key, has_field_expiry, key_expiry};
use crate::clock::Ms;

/// Condition for setting an expiry.
#[derive(Clone, Copy, Debug, Default)]
struct Condition {
    absent: bool,
    present: bool,
    greater: bool,
    less: bool,
}

impl Condition {
    fn parse(args: &Args<'_>) -> Result<Condition, Vec<u8>> {
        let mut condition = Condition::default();
        for at in 3..args.len() {
            match args.get(at).to_ascii_lowercase().as_slice() {
                b"nx" => condition.absent = true,
                b"xx" => condition.present = true,
                b"gt" => condition.greater = true,
                b"lt" => condition.less = true,
                _ => {
                    let shown = args.get(at).split(|&b| b == 0).next().unwrap_or_default();
                    return Err([b"ERR Unsupported option ", shown].concat());
                }
            }
        }
        if condition.absent && (condition.present || condition.greater || condition.less) {
            let text = "ERR NX and XX, GT or LT options at the same time are not compatible";
            return Err(text.into());
        }
        if condition.greater && condition.less {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        Ok(condition)
    }

    /// Returns whether `new` may replace `old`.
    fn allows(self, old: Option<Ms>, new: i64) -> bool {
        let old = old.map(|old| i64::try_from(old).unwrap_or(i64::MAX));
        !(self.absent && old.is_some()
            || self.present && old.is_none()
            || self.greater && old.is_none_or(|old| new <= old)
            || self.less && old.is_some_and(|old| new >= old))
    }
}

/// EXPIRE key seconds [NX | XX | GT | LT]
pub(super) fn expire(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    apply(ctx, args, 1000, ctx.now);
}

/// PEXPIRE key milliseconds [NX | XX | GT | LT]
pub(super) fn pexpire(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    apply(ctx, args, 1, ctx.now);
}

/// EXPIREAT key unix-time-seconds [NX | XX | GT | LT]
pub(super) fn expireat(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    apply(ctx, args, 1000, 0);
}

/// PEXPIREAT key unix-time-milliseconds [NX | XX | GT | LT]
pub(super) fn pexpireat(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    apply(ctx, args, 1, 0);
}

fn apply(ctx: &mut Ctx<'_>, args: &Args<'_>, unit: i64, base: Ms) {
    match Condition::parse(args) {
        Ok(condition) => {
            let outcome = expire_at(ctx, args, unit, base, condition);
            ctx.settle(outcome, args);
        }
        Err(text) => ctx.reply().error(text),
    }
}

fn expire_at(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    unit: i64,
    base: Ms,
    condition: Condition,
) -> Outcome {
    let key = args.get(1);
    let when = parse_i64(args.get(2)).ok_or(NOT_INTEGER)?;
    let when = when
        .checked_mul(unit)
        .and_then(|when| when.checked_add(base as i64))
        .ok_or(Refused::Expiry)?;
    let done = ctx.retry(|ctx| {
        let Some(entry) = ctx.look(key).filter(|entry| condition.allows(key_expiry(entry), when))
        else {
            return Ok(Some(None));
        };
        Ok(if when <= ctx.now as i64 {
            ctx.store.delete_same(&entry, ctx.now).then_some(Some("del"))
        } else {
            touch(ctx, key, &entry, Some(when as Ms))?.then_some(Some("expire"))
        })
    })?;
    ctx.reply().integer(done.is_some().into());
    if let Some(event) = done {
        ctx.modified(Class::Generic, event, key);
    }
    Ok(())
}

/// Changes an entry's expiry; false if the entry was replaced.
pub(super) fn touch(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    entry: &Entry<'static>,
    expires: Option<Ms>,
) -> Outcome<bool> {
    if has_field_expiry(entry) {
        return expire_key(ctx, key, entry, expires);
    }
    match ctx.store.touch_same(entry, expires, ctx.now) {
        Ok(()) => Ok(true),
        Err(PutError::Exists | PutError::NotFound) => Ok(false),
        Err(error) => Err(refused(error, entry.key())),
    }
}

/// PERSIST key
pub(super) fn persist(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let key = args.get(1);
    let outcome = ctx.retry(|ctx| {
        let Some(entry) = ctx.look(key).filter(|entry| key_expiry(entry).is_some()) else {
            return Ok(Some(false));
        };
        Ok(touch(ctx, key, &entry, None)?.then_some(true))
    });
    match outcome {
        Ok(done) => {
            ctx.reply().integer(done.into());
            if done {
                ctx.modified(Class::Generic, "persist", key);
            }
        }
        Err(refused) => ctx.settle(Err(refused), args),
    }
}

/// TTL key
pub(super) fn ttl(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let now = ctx.now;
    answer_expiry(ctx, args, |at| (at.saturating_sub(now) + 500) / 1000);
}

/// PTTL key
pub(super) fn pttl(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let now = ctx.now;
    answer_expiry(ctx, args, |at| at.saturating_sub(now));
}

/// EXPIRETIME key
pub(super) fn expiretime(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    answer_expiry(ctx, args, |at| (at.saturating_add(500)) / 1000);
}

/// PEXPIRETIME key
pub(super) fn pexpiretime(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    answer_expiry(ctx, args, |at| at);
}

/// Answers an expiry; -2: no such key, -1: it does not expire.
fn answer_expiry(ctx: &mut Ctx<'_>, args: &Args<'_>, figure: impl Fn(Ms) -> Ms) {
    let key = args.get(1);
    let answer = match ctx.look(key) {
        Some(entry) => key_expiry(&entry).map_or(-1, |at| figure(at) as i64),
        None => {
            ctx.store.count_miss(ctx.ns);
            ctx.missed(key);
            -2
        }
    };
    ctx.reply().integer(answer);
}
