//! Sets: SINTER, SUNION, SDIFF, in steps.

use std::ops::Range;

use larder_proto::resp::{Args, collection::Kind, number::parse_i64};
use larder_store::PutError;

use super::super::ctx::{Class, Ctx};
use super::Run;
use super::errors::{Outcome, refused};
use super::join::{How, Join, Target, limit};

/// SINTER key [key ...]
pub(super) fn sinter(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    join(ctx, args, sinter, (How::Intersect, Target::Answer), 1..args.len());
}

/// SUNION key [key ...]
pub(super) fn sunion(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    join(ctx, args, sunion, (How::Unite, Target::Answer), 1..args.len());
}

/// SDIFF key [key ...]
pub(super) fn sdiff(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    join(ctx, args, sdiff, (How::Subtract, Target::Answer), 1..args.len());
}

/// SINTERSTORE destination key [key ...]
pub(super) fn sinterstore(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let target = Target::Store("sinterstore");
    join(ctx, args, sinterstore, (How::Intersect, target), 2..args.len());
}

/// SUNIONSTORE destination key [key ...]
pub(super) fn sunionstore(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    join(ctx, args, sunionstore, (How::Unite, Target::Store("sunionstore")), 2..args.len());
}

/// SDIFFSTORE destination key [key ...]
pub(super) fn sdiffstore(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    join(ctx, args, sdiffstore, (How::Subtract, Target::Store("sdiffstore")), 2..args.len());
}

/// SINTERCARD numkeys key [key ...] [LIMIT limit]
pub(super) fn sintercard(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let number = parse_i64(args.get(1)).filter(|number| *number > 0);
        let number = number.ok_or("ERR numkeys should be greater than 0")? as u64;
        if number > args.len() as u64 - 2 {
            return Err("ERR Number of keys can't be greater than number of args".into());
        }
        let end = 2 + number as usize;
        let target = Target::Count(limit(args, end)?);
        join(ctx, args, sintercard, (How::Intersect, target), 2..end);
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// A join, and what becomes of its result.
struct SetJoin {
    join: Join,
    is_whole: bool,
    /// Number of members stored.
    stored: u64,
}

fn join(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    again: Run,
    (how, target): (How, Target),
    keys: Range<usize>,
) {
    let outcome = Join::new(ctx, args, (Kind::Set, how, target), keys).map(|mut join| {
        join.order();
        let job = SetJoin { join, is_whole: false, stored: 0 };
        ctx.steps(args, again, job, SetJoin::step);
    });
    ctx.settle(outcome, args);
}

impl SetJoin {
    fn step(ctx: &mut Ctx<'_>, args: &Args<'_>, job: &mut SetJoin) -> Outcome<bool> {
        if !job.is_whole {
            job.is_whole = job.join.collect(ctx, args)?;
            if job.is_whole && job.join.target == Target::Answer {
                ctx.reply().set(job.join.found.len());
            }
            return Ok(false);
        }
        match job.join.target {
            Target::Count(_) => {
                ctx.reply().count(job.join.count as usize);
                Ok(true)
            }
            Target::Answer => {
                for (member, _) in job.join.found.pop_some() {
                    ctx.reply().bulk(&member);
                }
                Ok(job.join.found.is_empty())
            }
            Target::Store(event) => job.store(ctx, args, event),
        }
    }

    fn store(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>, event: &'static str) -> Outcome<bool> {
        let key = args.get(1);
        let found = &mut self.join.found;
        if found.is_empty() && self.stored == 0 {
            if ctx.store.delete(ctx.ns, key, ctx.now) {
                ctx.modified(Class::Generic, "del", key);
            }
            ctx.reply().integer(0);
            return Ok(true);
        }
        let members = found.pop_some();
        let done = ctx.retry(|ctx| {
            let mut set = match self.stored {
                0 => ctx.new_coll(key, Kind::Set, ctx.look(key)),
                // The stored part was evicted: the rest must not pass for all.
                _ => ctx.open(key, Kind::Set)?.ok_or_else(|| refused(PutError::Full, key))?,
            };
            if self.stored == 0 {
                set.forget_expiry();
            }
            for (member, _) in &members {
                set.add(member)?;
            }
            set.commit(ctx)
        });
        if let Err(error) = done {
            // A part of the result must not pass for all.
            if self.stored > 0 {
                ctx.store.delete(ctx.ns, key, ctx.now);
                ctx.modified(Class::Generic, "del", key);
            }
            return Err(error);
        }
        self.stored += members.len() as u64;
        if !self.join.found.is_empty() {
            return Ok(false);
        }
        ctx.reply().integer(self.stored as i64);
        ctx.modified(Class::Set, event, key);
        Ok(true)
    }
}
