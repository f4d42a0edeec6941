//! Hashes: commands that set fields.

use larder_proto::resp::{
    Args,
    float::Float,
    hash::{Change, Expiry},
    number::{self, parse_i64},
};
use larder_store::PutError;

use super::super::{
    ctx::{Class, Ctx},
    job::{Job, Progress},
};
use super::collection::BYTES;
use super::errors::{NOT_FINITE, NOT_FLOAT, NOT_INTEGER, OVERFLOW, Outcome, Refused, refused};
use super::hash_expiry::time;
use super::hash_record::{change, change_some, some_of};
use super::parts::PART;
use crate::clock::Ms;

/// Most fields that HSETEX may announce (C's `INT_MAX`).
const MOST_NUMBER: i64 = i32::MAX as i64;
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
    ctx.go(SetAll::new(ctx.now, 2, Expiry::Never, end), args);
}

/// HSETEX key [FNX | FXX] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT
/// unix-time-milliseconds | KEEPTTL] FIELDS numfields field value [field value ...]
pub(super) fn hsetex(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    match set_options(ctx, args) {
        Ok(set) => ctx.go(set, args),
        Err(Unfit::Refused(refused)) => ctx.settle(Err(refused), args),
        Err(Unfit::Unknown(word)) => {
            let shown = args.get(word).split(|&byte| byte == 0).next().unwrap_or_default();
            ctx.reply().error([b"ERR unknown argument: ", shown].concat());
        }
    }
}

/// Why the arguments of HSETEX are no command.
enum Unfit {
    Refused(Refused),
    /// The argument at this position is unknown.
    Unknown(usize),
}

impl<T: Into<Refused>> From<T> for Unfit {
    fn from(refused: T) -> Self {
        Unfit::Refused(refused.into())
    }
}

fn set_options(ctx: &Ctx<'_>, args: &Args<'_>) -> Result<SetAll, Unfit> {
    const ARITY: &str = "ERR wrong number of arguments for 'hsetex' command";
    let units = [("EX", 1000, ctx.now), ("PX", 1, ctx.now), ("EXAT", 1000, 0), ("PXAT", 1, 0)];
    let (mut expiry, mut condition, mut at) = (None, None, 2);
    while at < args.len() && !args.is(at, "FIELDS") {
        let unit = units.iter().find(|(word, ..)| args.is(at, word));
        if unit.is_some() || args.is(at, "KEEPTTL") {
            if expiry.is_some() {
                let text =
                    "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
                return Err(text.into());
            }
            expiry = Some(match unit {
                None => Expiry::Keep,
                Some(_) if at + 1 >= args.len() => return Err("ERR missing expire time".into()),
                Some((_, unit, base)) => {
                    at += 1;
                    Expiry::At(time(args.get(at), *unit, *base)?)
                }
            });
        } else if args.is(at, "FXX") || args.is(at, "FNX") {
            if condition.is_some() {
                return Err("ERR Only one of FXX or FNX arguments can be specified".into());
            }
            condition = Some(args.is(at, "FXX"));
        } else {
            return Err(Unfit::Unknown(at));
        }
        at += 1;
    }
    if at + 3 >= args.len() {
        return Err(ARITY.into());
    }
    let number = parse_i64(args.get(at + 1)).filter(|number| (1..=MOST_NUMBER).contains(number));
    let number = number.ok_or("ERR invalid number of fields")? as usize;
    let first = at + 2;
    if number * 2 != args.len() - first {
        return Err(ARITY.into());
    }
    let expiry = expiry.unwrap_or(Expiry::Never);
    let set = SetAll::new(ctx.now, first, expiry, |ctx, _| ctx.reply().integer(1));
    Ok(SetAll { condition, ..set })
}

/// An HSET in progress. It holds its key, so that no client of this face sees a part of it.
struct SetAll {
    now: Ms,
    /// The first field.
    first: usize,
    /// The next field.
    at: usize,
    /// Expiry of the fields.
    expiry: Expiry,
    /// All fields must be there (true), or none of them (false).
    condition: Option<bool>,
    /// The next field to look up for the condition.
    looked: usize,
    /// No field is left, as the expiry has passed.
    is_gone: bool,
    /// Number of new fields.
    added: usize,
    /// Version written by the last step.
    written: Option<u64>,
    /// Number of restarts.
    overtaken: usize,
    /// Composes the answer; its argument is the number of new fields.
    end: fn(&mut Ctx<'_>, usize),
}

impl SetAll {
    fn new(now: Ms, first: usize, expiry: Expiry, end: fn(&mut Ctx<'_>, usize)) -> Self {
        SetAll {
            now,
            first,
            at: first,
            expiry,
            condition: None,
            looked: first,
            is_gone: false,
            added: 0,
            written: None,
            overtaken: 0,
            end,
        }
    }

    fn change<'c>(&self, field: &'c [u8], value: &'c [u8], now: Ms) -> Change<'c> {
        match self.expiry {
            // Set and expired at once.
            Expiry::At(when) if when <= now => Change::remove(field),
            expiry => Change { expiry, ..Change::set(field, value) },
        }
    }

    fn continue_step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<Progress> {
        let key = args.get(1);
        ctx.now = self.now;
        // The first part of a large hash may take all of the step's time.
        ctx.is_over();
        if self.condition.is_some() {
            match self.allows(ctx, args)? {
                None => return Ok(Progress::Again),
                Some(true) => self.condition = None,
                Some(false) => {
                    ctx.reply().integer(0);
                    return Ok(Progress::Done);
                }
            }
        }
        while self.at < args.len() {
            let mut to = args.len();
            let changed = ctx.retry(|ctx| {
                let old = ctx.look_hash(key)?;
                let version = old.as_ref().map(|old| old.version());
                if self.written.is_some() && version != self.written {
                    return Ok(Some(None));
                }
                to = self.at + some_of(args, self.at, old.as_ref(), 2, PART / 2);
                let changes: Vec<Change<'_>> = (self.at..to)
                    .step_by(2)
                    .map(|at| self.change(args.get(at), args.get(at + 1), ctx.now))
                    .collect();
                let changed = change_some(ctx, key, old, &changes)?;
                to = self.at + changed.map_or(0, |changed| 2 * changed.done);
                Ok(changed.map(Some))
            })?;
            let Some(changed) = changed else {
                // The hash was evicted or replaced meanwhile: a part of the fields must not pass
                // for all.
                self.overtaken += 1;
                if self.overtaken > ATTEMPTS {
                    return Err(refused(PutError::Full, key));
                }
                (self.at, self.added, self.written) = (self.first, 0, None);
                continue;
            };
            self.at = to;
            // Nothing is left, or nothing was written, if the fields expire at once.
            self.written = (changed.version != 0).then_some(changed.version);
            self.added += changed.added;
            self.is_gone = changed.is_gone;
            if self.at < args.len() && ctx.is_over() {
                return Ok(Progress::Again);
            }
        }
        (self.end)(ctx, self.added);
        ctx.modified(Class::Hash, "hset", key);
        if let Expiry::At(when) = self.expiry {
            ctx.event(Class::Hash, if when <= ctx.now { "hdel" } else { "hexpire" }, key);
        }
        if self.is_gone {
            ctx.event(Class::Generic, "del", key);
        }
        Ok(Progress::Done)
    }

    /// Does the condition hold? None: fields remain to be looked up.
    fn allows(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<Option<bool>> {
        let wanted = self.condition == Some(true);
        let Some(old) = ctx.look_hash(args.get(1))? else { return Ok(Some(!wanted)) };
        let record = old.whole();
        let hash = old.view(record.as_deref())?;
        while self.looked < args.len() {
            if hash.has(args.get(self.looked))? != wanted {
                return Ok(Some(false));
            }
            self.looked += 2;
            let is_part = self.looked % 64 < 2 || hash.long_bytes() > BYTES;
            if is_part && self.looked < args.len() && ctx.is_over() {
                return Ok(None);
            }
        }
        Ok(Some(true))
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
        if let Some(old) = &old {
            let record = old.whole();
            if old.view(record.as_deref())?.has(field)? {
                return Ok(Some(false));
            }
        }
        Ok(change(ctx, key, old, &[Change::set(field, args.get(3))])?.map(|_| true))
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
        let (text, result) = match &old {
            Some(old) => {
                let record = old.whole();
                old.view(record.as_deref())?.get(field, &mut compute)??
            }
            None => compute(None)?,
        };
        Ok(change(ctx, key, old, &[Change::update(field, &text)])?.map(|_| result))
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
