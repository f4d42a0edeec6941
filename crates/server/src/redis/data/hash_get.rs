//! HGETEX and HGETDEL: values of fields, whose expiry changes or which are removed (Redis 8.0).

use std::collections::HashSet;

use larder_proto::resp::{
    Args,
    hash::{Change, Expiry},
};

use super::super::{
    ctx::{Class, Ctx},
    job::{Job, Progress},
};
use super::errors::Outcome;
use super::hash_expiry::{NOT_POSITIVE, fields, time};
use super::hash_record::{View, change, some_of};
use super::hashes::answer_or_null;
use crate::clock::Ms;

/// Fields whose values are answered and changed at once: the answer is composed again if another
/// write comes first.
const AT_ONCE: usize = 256;

/// The effect on fields.
#[derive(Clone, Copy, Debug)]
enum Effect {
    Delete,
    Expire(Expiry),
}

/// HGETDEL key FIELDS numfields field [field ...]
pub(super) fn hgetdel(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        // Redis looks at the type before it parses.
        ctx.look_hash(args.get(1))?;
        let at = fields(args, 2, NOT_POSITIVE)?;
        begin(ctx, args, at, Effect::Delete);
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// HGETEX key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT
/// unix-time-milliseconds | PERSIST] FIELDS numfields field [field ...]
pub(super) fn hgetex(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        ctx.look_hash(args.get(1))?;
        let units = [("EX", 1000, ctx.now), ("PX", 1, ctx.now), ("EXAT", 1000, 0), ("PXAT", 1, 0)];
        let (at, expiry) = match units.into_iter().find(|(word, ..)| args.is(2, word)) {
            Some((_, unit, base)) => (4, Expiry::At(time(args.get(3), unit, base)?)),
            None if args.is(2, "PERSIST") => (3, Expiry::Never),
            None => (2, Expiry::Keep),
        };
        let at = fields(args, at, NOT_POSITIVE)?;
        begin(ctx, args, at, Effect::Expire(expiry));
        Ok(())
    })();
    ctx.settle(outcome, args);
}

fn begin(ctx: &mut Ctx<'_>, args: &Args<'_>, at: usize, effect: Effect) {
    let from = ctx.out.scratch().len();
    ctx.reply().array(args.len() - at);
    ctx.go(Getting { now: ctx.now, at, effect, from, ..Getting::default() }, args);
}

/// Such a command in progress.
#[derive(Default)]
struct Getting {
    now: Ms,
    /// The next field.
    at: usize,
    effect: Effect,
    /// Start of the answer, to remove it if the command fails.
    from: usize,
    deleted: bool,
    updated: bool,
    is_gone: bool,
}

impl Default for Effect {
    fn default() -> Self {
        Effect::Expire(Expiry::Keep)
    }
}

impl Getting {
    fn continue_step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<Progress> {
        let key = args.get(1);
        ctx.now = self.now;
        // The first part of a large hash may take all of the step's time.
        ctx.is_over();
        while self.at < args.len() {
            let from = ctx.out.scratch().len();
            let mut some = 0;
            let changed = ctx.retry(|ctx| {
                ctx.out.scratch().truncate(from);
                let found = ctx.look_hash(key)?;
                some = some_of(args, self.at, found.as_ref(), 1, AT_ONCE);
                let fields: Vec<&[u8]> = args.from(self.at).take(some).collect();
                let Some(old) = found else {
                    fields.iter().for_each(|_| ctx.reply().null());
                    return Ok(Some(None));
                };
                let record = old.whole();
                let hash = old.view(record.as_deref())?;
                let changes = self.take(ctx, &hash, &fields, &mut some)?;
                drop(record);
                if changes.is_empty() {
                    return Ok(Some(None));
                }
                let removes = changes[0].value == Change::remove(b"").value;
                let changed = change(ctx, key, Some(old), &changes)?;
                Ok(changed.map(|changed| Some((removes, changed.is_gone))))
            })?;
            if let Some((removes, is_gone)) = changed {
                self.deleted |= removes;
                self.updated |= !removes;
                self.is_gone |= is_gone;
            }
            self.at += some;
            if self.at < args.len() && (ctx.overflows() || ctx.is_over()) {
                return Ok(if ctx.conn.closing { Progress::Done } else { Progress::Again });
            }
        }
        self.report(ctx, key);
        Ok(Progress::Done)
    }

    /// Answers the values of the first fields, of no more than one step changes, and sets their
    /// number; returns the changes.
    fn take<'f>(
        &self,
        ctx: &mut Ctx<'_>,
        hash: &View<'_, '_>,
        fields: &[&'f [u8]],
        some: &mut usize,
    ) -> Outcome<Vec<Change<'f>>> {
        let mut changes = Vec::new();
        // A field may be named more than once.
        let mut removed: HashSet<&[u8]> = HashSet::new();
        for (nth, field) in fields.iter().enumerate() {
            if hash.ends_step(ctx)? {
                *some = nth;
                break;
            }
            let known = hash.get_expiring(field, |known| {
                let known = known.filter(|_| !removed.contains(field));
                answer_or_null(ctx, known.map(|(value, _)| value));
                known.map(|(_, expiry)| expiry)
            })?;
            let Some(expiry) = known else { continue };
            match self.effect {
                Effect::Expire(Expiry::Keep) => {}
                Effect::Expire(Expiry::Never) if expiry.is_none() => {}
                Effect::Expire(Expiry::At(when)) if when > ctx.now => {
                    changes.push(Change::expire(field, Expiry::At(when)));
                }
                Effect::Expire(Expiry::Never) => {
                    changes.push(Change::expire(field, Expiry::Never));
                }
                Effect::Delete | Effect::Expire(Expiry::At(_)) => {
                    removed.insert(field);
                    changes.push(Change::remove(field));
                }
            }
        }
        Ok(changes)
    }

    fn report(&self, ctx: &mut Ctx<'_>, key: &[u8]) {
        let event = match self.effect {
            Effect::Expire(Expiry::Never) if self.updated => "hpersist",
            Effect::Expire(_) if self.updated => "hexpire",
            _ if self.deleted => "hdel",
            _ => return,
        };
        ctx.modified(Class::Hash, event, key);
        if self.is_gone {
            ctx.event(Class::Generic, "del", key);
        }
    }
}

impl Job for Getting {
    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        self.continue_step(ctx, args).unwrap_or_else(|refused| {
            self.report(ctx, args.get(1));
            // Nothing is sent before the answer is complete.
            ctx.out.scratch().truncate(self.from);
            ctx.settle(Err(refused), args);
            Progress::Done
        })
    }
}
