//! SET and its short forms, and the options shared with GETEX.

use larder_proto::resp::{Args, number::parse_i64};
use larder_store::{If, Put, PutError};

use super::super::ctx::{Class, Ctx};
use super::Run;
use super::errors::{NOT_INTEGER, Outcome, Refused, SYNTAX, refused};
use super::hash_record::key_expiry;
use super::long::{AT_ONCE, Condition, End, Layout};
use crate::clock::Ms;

/// The expiry option of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry<'a> {
    /// No option.
    None,
    /// KEEPTTL
    Keep,
    /// PERSIST
    Never,
    /// EX, PX, EXAT, PXAT with a number.
    At(Unit, &'a [u8]),
}

/// Unit of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// EX
    Seconds,
    /// PX
    Millis,
    /// EXAT
    UnixSeconds,
    /// PXAT
    UnixMillis,
}

/// The options of SET and GETEX.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options<'a> {
    pub(super) expiry: Expiry<'a>,
    absent: bool,
    present: bool,
    get: bool,
}

impl<'a> Options<'a> {
    const NONE: Options<'static> =
        Options { expiry: Expiry::None, absent: false, present: false, get: false };

    fn parse_set(args: &Args<'a>) -> Outcome<Options<'a>> {
        let mut options = Options::NONE;
        let mut at = 3;
        while at < args.len() {
            if args.is(at, "NX") && !options.present {
                options.absent = true;
            } else if args.is(at, "XX") && !options.absent {
                options.present = true;
            } else if args.is(at, "GET") {
                options.get = true;
            } else if args.is(at, "KEEPTTL")
                && matches!(options.expiry, Expiry::None | Expiry::Keep)
            {
                options.expiry = Expiry::Keep;
            } else {
                at = options.time(args, at)?;
            }
            at += 1;
        }
        Ok(options)
    }

    pub(super) fn parse_getex(args: &Args<'a>) -> Outcome<Options<'a>> {
        let mut options = Options::NONE;
        let mut at = 2;
        while at < args.len() {
            if args.is(at, "PERSIST") && matches!(options.expiry, Expiry::None | Expiry::Never) {
                options.expiry = Expiry::Never;
            } else {
                at = options.time(args, at)?;
            }
            at += 1;
        }
        Ok(options)
    }

    /// Parses a unit and its number; if the same unit occurs twice, the last one counts. Returns
    /// the number's position.
    fn time(&mut self, args: &Args<'a>, at: usize) -> Outcome<usize> {
        let units = [
            ("EX", Unit::Seconds),
            ("PX", Unit::Millis),
            ("EXAT", Unit::UnixSeconds),
            ("PXAT", Unit::UnixMillis),
        ];
        let (_, unit) = units.into_iter().find(|(word, _)| args.is(at, word)).ok_or(SYNTAX)?;
        let alone = match self.expiry {
            Expiry::None => true,
            Expiry::At(before, _) => before == unit,
            Expiry::Keep | Expiry::Never => false,
        };
        if !alone || at + 1 >= args.len() {
            return Err(SYNTAX.into());
        }
        self.expiry = Expiry::At(unit, args.get(at + 1));
        Ok(at + 1)
    }
}

/// The time that an option gives; it must lie after 1970. `None`: it gives none.
pub(super) fn expires(expiry: Expiry<'_>, now: Ms) -> Outcome<Option<Ms>> {
    let Expiry::At(unit, text) = expiry else { return Ok(None) };
    let given = parse_i64(text).ok_or(NOT_INTEGER)?;
    if given <= 0 {
        return Err(Refused::Expiry);
    }
    let millis = match unit {
        Unit::Seconds | Unit::UnixSeconds => given.checked_mul(1000),
        Unit::Millis | Unit::UnixMillis => Some(given),
    };
    let at = match unit {
        Unit::Seconds | Unit::Millis => millis.and_then(|millis| millis.checked_add(now as i64)),
        Unit::UnixSeconds | Unit::UnixMillis => millis,
    };
    at.map(|at| Some(at as Ms)).ok_or(Refused::Expiry)
}

/// SET key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT seconds | PXAT milliseconds |
/// KEEPTTL]
#[inline]
pub(super) fn set(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = if args.len() == 3 { set_plain(ctx, args) } else { set_with(ctx, args) };
    ctx.settle(outcome, args);
}

#[inline]
fn set_plain(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome {
    let (key, value) = (args.get(1), args.get(2));
    if value.len() as u64 > AT_ONCE {
        return ctx.store_arg(args, (1, 2), None, set, Box::new(set_succeeded));
    }
    ctx.store_string(key, &[value], None)?;
    set_succeeded(ctx, args, true);
    Ok(())
}

#[inline]
fn set_succeeded(ctx: &mut Ctx<'_>, args: &Args<'_>, _: bool) {
    ctx.reply().ok();
    ctx.modified(Class::String, "set", args.get(1));
}

fn set_with(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome {
    let (key, value) = (args.get(1), args.get(2));
    let options = Options::parse_set(args)?;
    let given = expires(options.expiry, ctx.now)?;
    if options.get {
        super::strings::answer_value(ctx, key)?;
    }
    if value.len() as u64 > AT_ONCE {
        set_long(ctx, args);
        return Ok(());
    }
    let stored = if options.expiry == Expiry::Keep {
        ctx.retry(|ctx| keep(ctx, key, value, options))?
    } else {
        let condition = match options {
            Options { absent: true, .. } => If::Absent,
            Options { present: true, .. } => If::Present,
            _ => If::Always,
        };
        let put = Put { value: &[value], expires: given, ..Put::default() };
        match ctx.store.put(ctx.ns, key, put, condition, ctx.now) {
            Ok(_) => true,
            Err(PutError::Exists | PutError::NotFound) => false,
            Err(error) => return Err(refused(error, key)),
        }
    };
    set_done(ctx, args, options.get, given, stored);
    Ok(())
}

fn set_done(ctx: &mut Ctx<'_>, args: &Args<'_>, answered: bool, given: Option<Ms>, stored: bool) {
    let key = args.get(1);
    if !answered {
        if stored {
            ctx.reply().ok();
        } else {
            ctx.reply().null();
        }
    }
    if stored {
        if given.is_some_and(|at| at <= ctx.now) {
            // Already expired: free its memory without waiting for the sweep.
            ctx.store.delete(ctx.ns, key, ctx.now);
        }
        ctx.modified(Class::String, "set", key);
        if given.is_some() {
            ctx.event(Class::Generic, "expire", key);
        }
    }
}

/// SET with options and a long value; the old value is answered already.
fn set_long(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = ctx.retry(|ctx| {
        let options = Options::parse_set(args)?;
        let given = expires(options.expiry, ctx.now)?;
        let (mut layout, mut until) = (Layout::arg(args, 2), given);
        let condition = if options.expiry == Expiry::Keep {
            let old = ctx.look(args.get(1));
            if (options.absent && old.is_some()) || (options.present && old.is_none()) {
                set_done(ctx, args, options.get, given, false);
                return Ok(Some(()));
            }
            until = old.as_ref().and_then(key_expiry);
            layout.old = old;
            Condition::Same
        } else if options.absent {
            Condition::Absent
        } else if options.present {
            Condition::Present
        } else {
            Condition::Any
        };
        let target = ctx.target(1, until, condition);
        let end: End =
            Box::new(move |ctx, args, stored| set_done(ctx, args, options.get, given, stored));
        ctx.write(args, layout, target, set_long, end)
    });
    ctx.settle(outcome, args);
}

/// Stores with the present expiry. Returns whether it was stored; `None`: another write came first.
fn keep(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    value: &[u8],
    options: Options<'_>,
) -> Outcome<Option<bool>> {
    let old = ctx.look(key);
    if (options.absent && old.is_some()) || (options.present && old.is_none()) {
        return Ok(Some(false));
    }
    let expires = old.as_ref().and_then(key_expiry);
    let put = Put { value: &[value], expires, ..Put::default() };
    Ok(ctx.replace(key, old.as_ref(), put)?.map(|_| true))
}

/// SETNX key value
pub(super) fn setnx(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let target = ctx.target(1, None, Condition::Absent);
    let end: End = Box::new(|ctx, args, stored| {
        ctx.reply().integer(stored.into());
        if stored {
            ctx.modified(Class::String, "set", args.get(1));
        }
    });
    let outcome = ctx.write(args, Layout::arg(args, 2), target, setnx, end);
    ctx.settle(outcome.map(drop), args);
}

/// SETEX key seconds value
pub(super) fn setex(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = set_expiring(ctx, args, [1, 2, 3], Unit::Seconds, setex);
    ctx.settle(outcome, args);
}

/// PSETEX key milliseconds value
pub(super) fn psetex(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = set_expiring(ctx, args, [1, 2, 3], Unit::Millis, psetex);
    ctx.settle(outcome, args);
}

/// Stores a value with an expiry. Key, time and value are the arguments at these positions.
pub(super) fn set_expiring(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    [key, time, value]: [usize; 3],
    unit: Unit,
    again: Run,
) -> Outcome {
    let expires = expires(Expiry::At(unit, args.get(time)), ctx.now)?;
    let end: End = Box::new(move |ctx, args, _| {
        ctx.reply().ok();
        ctx.modified(Class::String, "set", args.get(key));
        ctx.event(Class::Generic, "expire", args.get(key));
    });
    ctx.store_arg(args, (key, value), expires, again, end)
}
