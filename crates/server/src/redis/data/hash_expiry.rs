//! Expiry of fields: HEXPIRE and its like, HPERSIST, HTTL and its like (Redis 7.4).

use std::collections::HashMap;

use larder_proto::resp::{
    Args,
    collection::Kind,
    hash::{Change, Expiry},
    number::parse_i64,
};
use larder_store::Entry;

use super::super::{
    ctx::{Class, Ctx},
    job::{Job, Progress},
};
use super::collection::{BYTES, ITEMS};
use super::errors::{NOT_INTEGER, Outcome, Refused};
use super::hash_record::{Changed, Found, View, change, read, some_of};
use super::hashes::FIELDS;
use super::joined::Whole;
use super::parts::PART;
use crate::clock::Ms;

/// The latest time at which a field may expire (Redis: `HFE_MAX_ABS_TIME_MSEC`).
const LATEST: i64 = (1 << 46) - 1;
const NO_FIELDS: &str = "ERR Mandatory argument FIELDS is missing or not at the right position";
const OTHER_NUMBER: &str = "ERR The `numfields` parameter must match the number of arguments";
pub(super) const NOT_POSITIVE: &str = "ERR Number of fields must be a positive integer";

/// Results for a field, as Redis answers them.
const MISSING: i64 = -2;
const WITHOUT: i64 = -1;
const UNMET: i64 = 0;
const DONE: i64 = 1;
const DELETED: i64 = 2;

/// Parses a time to expire at: `unit` in ms, `base` the time from which it counts.
pub(super) fn time(text: &[u8], unit: i64, base: Ms) -> Outcome<Ms> {
    let time = parse_i64(text).ok_or(NOT_INTEGER)?;
    if time < 0 {
        return Err("ERR invalid expire time, must be >= 0".into());
    }
    let base = i64::try_from(base).unwrap_or(i64::MAX);
    let time = time.checked_mul(unit).and_then(|time| time.checked_add(base));
    let time = time.filter(|time| *time <= LATEST).ok_or(Refused::Expiry)?;
    Ok(time as Ms)
}

/// The position of the first field, after `FIELDS numfields` at `at`.
pub(super) fn fields(args: &Args<'_>, at: usize, not_positive: &'static str) -> Outcome<usize> {
    if !args.is(at, "FIELDS") {
        return Err(NO_FIELDS.into());
    }
    let number = parse_i64(args.get(at + 1)).filter(|number| *number > 0).ok_or(not_positive)?;
    if usize::try_from(number) != Ok(args.len().saturating_sub(at + 2)) {
        return Err(OTHER_NUMBER.into());
    }
    Ok(at + 2)
}

/// Condition for a new expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Only {
    Always,
    Absent,
    Present,
    Greater,
    Less,
}

impl Only {
    fn allows(self, old: Option<Ms>, new: Ms) -> bool {
        match self {
            Only::Always => true,
            Only::Absent => old.is_none(),
            Only::Present => old.is_some(),
            Only::Greater => old.is_some_and(|old| new > old),
            Only::Less => old.is_none_or(|old| new < old),
        }
    }
}

/// The effect on fields.
#[derive(Clone, Copy, Debug)]
enum Effect {
    ExpireAt(Ms, Only),
    Persist,
}

/// HEXPIRE key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]
pub(super) fn hexpire(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    expire(ctx, args, 1000, ctx.now);
}

/// HPEXPIRE key milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]
pub(super) fn hpexpire(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    expire(ctx, args, 1, ctx.now);
}

/// HEXPIREAT key unix-time-seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]
pub(super) fn hexpireat(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    expire(ctx, args, 1000, 0);
}

/// HPEXPIREAT key unix-time-milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]
pub(super) fn hpexpireat(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    expire(ctx, args, 1, 0);
}

fn expire(ctx: &mut Ctx<'_>, args: &Args<'_>, unit: i64, base: Ms) {
    let outcome = (|| {
        // Redis looks at the type before it parses.
        ctx.look_hash(args.get(1))?;
        let when = time(args.get(2), unit, base)?;
        let words = [
            ("NX", Only::Absent),
            ("XX", Only::Present),
            ("GT", Only::Greater),
            ("LT", Only::Less),
        ];
        let only = words.into_iter().find(|(word, _)| args.is(3, word)).map(|(_, only)| only);
        let not_positive = "ERR Parameter `numFields` should be greater than 0";
        let at = fields(args, 3 + usize::from(only.is_some()), not_positive)?;
        let effect = Effect::ExpireAt(when, only.unwrap_or(Only::Always));
        ctx.go(Expiring::new(ctx.now, at, effect), args);
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// HPERSIST key FIELDS numfields field [field ...]
pub(super) fn hpersist(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        ctx.look_hash(args.get(1))?;
        let at = fields(args, 2, NOT_POSITIVE)?;
        ctx.go(Expiring::new(ctx.now, at, Effect::Persist), args);
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// A change of expiries in progress.
struct Expiring {
    now: Ms,
    /// The next field.
    at: usize,
    effect: Effect,
    /// The answer.
    results: Vec<i8>,
    is_gone: bool,
}

impl Expiring {
    fn new(now: Ms, at: usize, effect: Effect) -> Self {
        Self { now, at, effect, results: Vec::new(), is_gone: false }
    }

    fn continue_step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<Progress> {
        let key = args.get(1);
        ctx.now = self.now;
        // The first part of a large hash may take all of the step's time.
        ctx.is_over();
        while self.at < args.len() {
            let (results, changed) = ctx.retry(|ctx| {
                let found = ctx.look_hash(key)?;
                let some = some_of(args, self.at, found.as_ref(), 1, PART);
                let fields: Vec<&[u8]> = args.from(self.at).take(some).collect();
                let Some(old) = found else {
                    return Ok(Some((vec![MISSING as i8; fields.len()], Changed::default())));
                };
                let record = old.whole();
                let (results, changes) = self.judge(ctx, &old.view(record.as_deref())?, &fields)?;
                drop(record);
                if changes.is_empty() {
                    return Ok(Some((results, Changed::default())));
                }
                Ok(change(ctx, key, Some(old), &changes)?.map(|changed| (results, changed)))
            })?;
            self.at += results.len();
            self.results.extend(results);
            self.is_gone |= changed.is_gone;
            if self.at < args.len() && ctx.is_over() {
                return Ok(Progress::Again);
            }
        }
        let mut reply = ctx.reply();
        reply.array(self.results.len());
        self.results.iter().for_each(|result| reply.integer((*result).into()));
        self.report(ctx, key);
        Ok(Progress::Done)
    }

    /// The result for each of the first fields, and the changes: no more than one step makes.
    fn judge<'f>(
        &self,
        ctx: &Ctx<'_>,
        hash: &View<'_, '_>,
        fields: &[&'f [u8]],
    ) -> Outcome<(Vec<i8>, Vec<Change<'f>>)> {
        // A field may be named more than once: its expiry (None: it was deleted).
        let mut changed: HashMap<&[u8], Option<Option<Ms>>> = HashMap::new();
        let (mut results, mut changes) = (Vec::with_capacity(fields.len()), Vec::new());
        for field in fields {
            if hash.ends_step(ctx)? {
                break;
            }
            let known = match changed.get(field) {
                Some(known) => *known,
                None => hash.expiry(field)?,
            };
            let result = match (known, self.effect) {
                (None, _) => MISSING,
                (Some(None), Effect::Persist) => WITHOUT,
                (Some(Some(_)), Effect::Persist) => {
                    changed.insert(field, Some(None));
                    changes.push(Change::expire(field, Expiry::Never));
                    DONE
                }
                (Some(old), Effect::ExpireAt(when, only)) if !only.allows(old, when) => UNMET,
                (_, Effect::ExpireAt(when, _)) if when <= ctx.now => {
                    changed.insert(field, None);
                    changes.push(Change::remove(field));
                    DELETED
                }
                (_, Effect::ExpireAt(when, _)) => {
                    changed.insert(field, Some(Some(when)));
                    changes.push(Change::expire(field, Expiry::At(when)));
                    DONE
                }
            };
            results.push(result as i8);
        }
        Ok((results, changes))
    }

    fn report(&self, ctx: &mut Ctx<'_>, key: &[u8]) {
        let has = |result: i64| self.results.contains(&(result as i8));
        let event = match self.effect {
            Effect::ExpireAt(..) if has(DELETED) => "hdel",
            Effect::ExpireAt(..) if has(DONE) => "hexpire",
            Effect::Persist if has(DONE) => "hpersist",
            _ => return,
        };
        ctx.modified(Class::Hash, event, key);
        if self.is_gone {
            ctx.event(Class::Generic, "del", key);
        }
    }
}

impl Job for Expiring {
    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        self.continue_step(ctx, args).unwrap_or_else(|refused| {
            self.report(ctx, args.get(1));
            ctx.settle(Err(refused), args);
            Progress::Done
        })
    }
}

/// HTTL key FIELDS numfields field [field ...]
pub(super) fn httl(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    answer(ctx, args, httl, 1000, ctx.now);
}

/// HPTTL key FIELDS numfields field [field ...]
pub(super) fn hpttl(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    answer(ctx, args, hpttl, 1, ctx.now);
}

/// HEXPIRETIME key FIELDS numfields field [field ...]
pub(super) fn hexpiretime(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    answer(ctx, args, hexpiretime, 1000, 0);
}

/// HPEXPIRETIME key FIELDS numfields field [field ...]
pub(super) fn hpexpiretime(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    answer(ctx, args, hpexpiretime, 1, 0);
}

fn answer(ctx: &mut Ctx<'_>, args: &Args<'_>, again: super::Run, unit: Ms, base: Ms) {
    let outcome = (|| {
        let found = ctx.read_hash(args.get(1))?;
        let at = fields(args, 2, NOT_POSITIVE)?;
        let from = ctx.out.scratch().len();
        let entry = match found {
            Some(Found::Tree(_)) => {
                ctx.need_stripe()?;
                ctx.reply().array(args.len() - at);
                ctx.steps_from(args, again, from, (at, unit, base), tree_times);
                return Ok(());
            }
            Some(Found::Record(entry)) => Some(entry),
            None => None,
        };
        ctx.reply().array(args.len() - at);
        ctx.go(Times { entry, from, at, unit, base }, args);
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// The answer for a field with this expiry; None: it is not there.
fn time_of(known: Option<Option<Ms>>, unit: Ms, base: Ms) -> i64 {
    match known {
        None => MISSING,
        Some(None) => WITHOUT,
        // Seconds are rounded up.
        Some(Some(time)) => time.saturating_sub(base).div_ceil(unit) as i64,
    }
}

/// Answers some of the fields of a tree.
fn tree_times(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    (at, unit, base): &mut (usize, Ms, Ms),
) -> Outcome<bool> {
    let tree = ctx.open(args.get(1), Kind::Hash)?.ok_or(Refused::Lost)?;
    for field in args.from(*at).take(ITEMS) {
        let known = tree.field(field, |item| item.map(|item| item.expires))?;
        ctx.reply().integer(time_of(known, *unit, *base));
        *at += 1;
        if tree.long_bytes() > BYTES {
            break;
        }
    }
    Ok(*at >= args.len())
}

/// An HTTL in progress over a pinned record, which does not change.
struct Times {
    entry: Option<Entry<'static>>,
    /// Start of the answer, to remove it if the hash turns out damaged.
    from: usize,
    /// The next field.
    at: usize,
    unit: Ms,
    base: Ms,
}

impl Times {
    fn continue_step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<Progress> {
        let record = self.entry.as_ref().map(Whole::of);
        let found = record.as_deref().map(read).transpose()?;
        while self.at < args.len() {
            for field in args.from(self.at).take(FIELDS) {
                let known = found.map(|hash| hash.get_expiring(field)).transpose()?.flatten();
                let known = known.map(|(_, time)| time);
                ctx.reply().integer(time_of(known, self.unit, self.base));
            }
            self.at += FIELDS;
            if ctx.overflows() {
                return Ok(Progress::Done);
            }
            if self.at < args.len() && ctx.is_over() {
                return Ok(Progress::Again);
            }
        }
        Ok(Progress::Done)
    }
}

impl Job for Times {
    fn is_apart(&self) -> bool {
        true
    }

    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        self.continue_step(ctx, args).unwrap_or_else(|refused| {
            // Nothing is sent before the answer is complete.
            ctx.out.scratch().truncate(self.from);
            ctx.settle(Err(refused), args);
            Progress::Done
        })
    }
}
