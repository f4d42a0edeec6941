//! ZUNION, ZINTER, ZDIFF, in steps.

use larder_proto::resp::{
    Args,
    collection::{Kind, parse_score, rank_key},
    number::parse_i64,
};
use larder_store::PutError;

use super::super::super::ctx::{Class, Ctx};
use super::super::Run;
use super::super::collection::{ITEMS, SlowMap};
use super::super::errors::{NOT_INTEGER, Outcome, SYNTAX, refused};
use super::super::join::{Aggregate, How, Join, Members, Target, limit};
use super::{answer, answer_head};
use crate::room::{Held, Place};

/// ZUNION numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]
pub(in super::super) fn zunion(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    join(ctx, args, zunion, How::Unite, Target::Answer);
}

/// ZINTER numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]
pub(in super::super) fn zinter(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    join(ctx, args, zinter, How::Intersect, Target::Answer);
}

/// ZDIFF numkeys key [key ...] [WITHSCORES]
pub(in super::super) fn zdiff(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    join(ctx, args, zdiff, How::Subtract, Target::Answer);
}

/// ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE ...]
pub(in super::super) fn zunionstore(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    join(ctx, args, zunionstore, How::Unite, Target::Store("zunionstore"));
}

/// ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE ...]
pub(in super::super) fn zinterstore(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    join(ctx, args, zinterstore, How::Intersect, Target::Store("zinterstore"));
}

/// ZDIFFSTORE destination numkeys key [key ...]
pub(in super::super) fn zdiffstore(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    join(ctx, args, zdiffstore, How::Subtract, Target::Store("zdiffstore"));
}

/// ZINTERCARD numkeys key [key ...] [LIMIT limit]
pub(in super::super) fn zintercard(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    join(ctx, args, zintercard, How::Intersect, Target::Count(0));
}

fn join(ctx: &mut Ctx<'_>, args: &Args<'_>, again: Run, how: How, target: Target) {
    let numbered = if matches!(target, Target::Store(_)) { 2 } else { 1 };
    let number = match parse_i64(args.get(numbered)) {
        Some(number) => number,
        None => return ctx.reply().error(NOT_INTEGER),
    };
    if number < 1 {
        let name = args.get(0).to_ascii_lowercase();
        let text = [b"ERR at least 1 input key is needed for '", &name[..], b"' command"].concat();
        return ctx.reply().error(text);
    }
    let outcome = (|| {
        let first = numbered + 1;
        let end = usize::try_from(number).ok().and_then(|number| number.checked_add(first));
        let end = end.filter(|end| *end <= args.len()).ok_or(SYNTAX)?;
        let join = Join::new(ctx, args, (Kind::SortedSet, how, target), first..end)?;
        let mut job = ZsetJoin { join, with_scores: false };
        job.options(args, end, how)?;
        job.join.order();
        ctx.steps(args, again, job, |ctx, args, job| {
            if !job.join.collect(ctx, args)? {
                return Ok(false);
            }
            job.finish(ctx, args);
            Ok(true)
        });
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// A join, and how its result is answered.
struct ZsetJoin {
    join: Join,
    with_scores: bool,
}

impl ZsetJoin {
    fn options(&mut self, args: &Args<'_>, from: usize, how: How) -> Outcome {
        if let Target::Count(most) = &mut self.join.target {
            *most = limit(args, from)?;
            return Ok(());
        }
        let mut at = from;
        while at < args.len() {
            let left = args.len() - at;
            let weighs = how != How::Subtract;
            if weighs && left > self.join.sources.len() && args.is(at, "WEIGHTS") {
                for (nth, source) in self.join.sources.iter_mut().enumerate() {
                    source.weight = parse_score(args.get(at + 1 + nth))
                        .ok_or("ERR weight value is not a float")?;
                }
                at += 1 + self.join.sources.len();
            } else if weighs && left >= 2 && args.is(at, "AGGREGATE") {
                self.join.aggregate = match () {
                    () if args.is(at + 1, "SUM") => Aggregate::Sum,
                    () if args.is(at + 1, "MIN") => Aggregate::Min,
                    () if args.is(at + 1, "MAX") => Aggregate::Max,
                    () => return Err(SYNTAX.into()),
                };
                at += 2;
            } else if self.join.target == Target::Answer && args.is(at, "WITHSCORES") {
                self.with_scores = true;
                at += 1;
            } else {
                return Err(SYNTAX.into());
            }
        }
        Ok(())
    }

    /// Answers the size of the result; or orders it, and answers or stores it.
    fn finish(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) {
        if matches!(self.join.target, Target::Count(_)) {
            return ctx.reply().count(self.join.count as usize);
        }
        let none = Held::new(&ctx.conn.known.client.holder, Place::Heap);
        let sorting = Sorting {
            found: std::mem::take(&mut self.join.found),
            ranked: Ranked::default(),
            target: self.join.target,
            with_scores: self.with_scores,
            is_begun: false,
            stored: 0,
            held: std::mem::replace(&mut self.join.held, none),
        };
        ctx.steps(args, |_, _| {}, sorting, Sorting::step);
    }
}

/// Members by score and member, with both.
pub(in super::super) type Ranked = SlowMap<Vec<u8>, (f64, Box<[u8]>)>;

/// A result being ordered by score and member.
struct Sorting {
    found: Members,
    ranked: Ranked,
    target: Target,
    with_scores: bool,
    is_begun: bool,
    stored: u64,
    #[allow(dead_code)] // held only for its drop
    held: Held,
}

impl Sorting {
    fn step(ctx: &mut Ctx<'_>, args: &Args<'_>, job: &mut Sorting) -> Outcome<bool> {
        for _ in 0..ITEMS {
            let Some((member, score)) = job.found.pop_first() else { break };
            job.ranked.insert(rank_key(score, &member), (score, member));
        }
        if !job.found.is_empty() {
            return Ok(false);
        }
        if let Target::Store(event) = job.target {
            return store_some(ctx, args, 1, event, &mut job.ranked, &mut job.stored);
        }
        if !job.is_begun {
            job.is_begun = true;
            answer_head(ctx, job.ranked.len() as u64, job.with_scores);
        }
        for (_, (score, member)) in job.ranked.pop_some() {
            answer(ctx, &member, score, job.with_scores);
        }
        Ok(job.ranked.is_empty())
    }
}

/// Stores members as a sorted set at a key among the arguments, and answers their number.
pub(in super::super) fn store(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    key: usize,
    event: &'static str,
    (ranked, held): (Ranked, Held),
) {
    ctx.steps(
        args,
        |_, _| {},
        (ranked, 0, key, event, held),
        |ctx, args, (ranked, stored, key, event, _)| {
            store_some(ctx, args, *key, event, ranked, stored)
        },
    );
}

fn store_some(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    key: usize,
    event: &'static str,
    ranked: &mut Ranked,
    stored: &mut u64,
) -> Outcome<bool> {
    let key = args.get(key);
    if ranked.is_empty() && *stored == 0 {
        if ctx.store.delete(ctx.ns, key, ctx.now) {
            ctx.modified(Class::Generic, "del", key);
        }
        ctx.reply().integer(0);
        return Ok(true);
    }
    let members = ranked.pop_some();
    let done = ctx.retry(|ctx| {
        let mut set = match *stored {
            0 => ctx.new_coll(key, Kind::SortedSet, ctx.look(key)),
            // The stored part was evicted: the rest must not pass for all.
            _ => ctx.open(key, Kind::SortedSet)?.ok_or_else(|| refused(PutError::Full, key))?,
        };
        if *stored == 0 {
            set.forget_expiry();
        }
        for (_, (score, member)) in &members {
            set.set_score(member, None, Some(*score))?;
        }
        set.commit(ctx)
    });
    if let Err(error) = done {
        // A part of the result must not pass for all.
        if *stored > 0 {
            ctx.store.delete(ctx.ns, key, ctx.now);
            ctx.modified(Class::Generic, "del", key);
        }
        return Err(error);
    }
    *stored += members.len() as u64;
    if !ranked.is_empty() {
        return Ok(false);
    }
    ctx.reply().integer(*stored as i64);
    ctx.modified(Class::SortedSet, event, key);
    Ok(true)
}
