//! ZUNION, ZINTER, ZDIFF, in steps.

use std::collections::BTreeMap;

use larder_proto::resp::{
    Args,
    collection::{Items, Kind, Shape, parse_score, rank_key},
    number::parse_i64,
};
use larder_store::PutError;

use super::super::super::ctx::{Class, Ctx};
use super::super::Run;
use super::super::access::type_name;
use super::super::collection::{At, Coll, Tree};
use super::super::errors::{NOT_INTEGER, Outcome, SYNTAX, WRONG_TYPE, refused};
use super::{PAIRS, answer, answer_head};
use crate::room::{Held, Place};

/// Bytes of a member of a result beside its own.
const ENTRY: u64 = 96;

/// How sorted sets are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Unite,
    Intersect,
    Subtract,
}

/// How the scores of a member are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, left: f64, right: f64) -> f64 {
        match self {
            Aggregate::Sum if (left + right).is_nan() => 0.0,
            Aggregate::Sum => left + right,
            Aggregate::Min => {
                if right < left {
                    right
                } else {
                    left
                }
            }
            Aggregate::Max => {
                if right > left {
                    right
                } else {
                    left
                }
            }
        }
    }
}

/// Use of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Answer,
    /// Its size, at most so much; 0: without a limit.
    Count(u64),
    /// It is stored at the first key.
    Store(&'static str),
}

/// A join in progress.
struct Join {
    how: How,
    target: Target,
    aggregate: Aggregate,
    with_scores: bool,
    /// The keys, among the arguments, and their weights.
    keys: Vec<(usize, f64)>,
    nth: usize,
    at: u64,
    found: BTreeMap<Box<[u8]>, f64>,
    held: Held,
    bytes: u64,
    is_collected: bool,
}

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
        ctx.remember((first..end).map(|at| args.get(at)));
        let mut lens = Vec::new();
        for key in first..end {
            lens.push(source(ctx, args.get(key), true)?.map_or(0, |set| set.len()));
        }
        let held = Held::new(&ctx.conn.known.client.holder, Place::Heap);
        let keys = (first..end).map(|key| (key, 1.0)).collect();
        let mut job = Join {
            how,
            target,
            aggregate: Aggregate::Sum,
            with_scores: false,
            keys,
            nth: 0,
            at: 0,
            found: BTreeMap::new(),
            held,
            bytes: 0,
            is_collected: false,
        };
        job.options(args, end)?;
        if how == How::Intersect {
            // The smallest first: only it is walked over.
            let mut order: Vec<usize> = (0..job.keys.len()).collect();
            order.sort_by_key(|nth| lens[*nth]);
            job.keys = order.into_iter().map(|nth| job.keys[nth]).collect();
        }
        ctx.steps(args, again, job, |ctx, args, job| {
            if !job.is_collected {
                job.collect(ctx, args)?;
                if !job.held.resize(job.bytes) {
                    return Err(refused(PutError::Full, b""));
                }
                return Ok(false);
            }
            job.begin_answer(ctx, args);
            Ok(true)
        });
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// Opens a source: a sorted set, or a set, whose members have the score 1.
fn source<'a: 'k, 'k>(ctx: &mut Ctx<'a>, key: &'k [u8], counts: bool) -> Outcome<Option<Coll<'k>>> {
    let entry = if counts { ctx.read(key) } else { ctx.look(key) };
    let kind = entry.as_ref().map(|entry| type_name(entry.flags()));
    match kind {
        None => Ok(None),
        Some("set") => ctx.coll(key, entry, Kind::Set),
        Some("zset") => ctx.coll(key, entry, Kind::SortedSet),
        Some(_) => Err(WRONG_TYPE.into()),
    }
}

fn score_in(coll: &Coll<'_>, member: &[u8]) -> Outcome<Option<f64>> {
    match coll.kind {
        Kind::Set => Ok(coll.has(member)?.then_some(1.0)),
        _ => coll.score(member),
    }
}

impl Join {
    fn options(&mut self, args: &Args<'_>, from: usize) -> Outcome {
        let mut at = from;
        while at < args.len() {
            let left = args.len() - at;
            let weighs = self.how != How::Subtract && !matches!(self.target, Target::Count(_));
            if weighs && left > self.keys.len() && args.is(at, "WEIGHTS") {
                for (nth, (_, weight)) in self.keys.iter_mut().enumerate() {
                    *weight = parse_score(args.get(at + 1 + nth))
                        .ok_or("ERR weight value is not a float")?;
                }
                at += 1 + self.keys.len();
            } else if weighs && left >= 2 && args.is(at, "AGGREGATE") {
                self.aggregate = match () {
                    () if args.is(at + 1, "SUM") => Aggregate::Sum,
                    () if args.is(at + 1, "MIN") => Aggregate::Min,
                    () if args.is(at + 1, "MAX") => Aggregate::Max,
                    () => return Err(SYNTAX.into()),
                };
                at += 2;
            } else if self.target == Target::Answer && args.is(at, "WITHSCORES") {
                self.with_scores = true;
                at += 1;
            } else if let Target::Count(limit) = &mut self.target
                && left >= 2
                && args.is(at, "LIMIT")
            {
                let given = parse_i64(args.get(at + 1)).and_then(|limit| u64::try_from(limit).ok());
                *limit = given.ok_or("ERR LIMIT can't be negative")?;
                at += 2;
            } else {
                return Err(SYNTAX.into());
            }
        }
        Ok(())
    }

    /// Looks at one run of the current source.
    fn collect(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome {
        let Some(&(key, weight)) = self.keys.get(self.nth) else {
            self.is_collected = true;
            return Ok(());
        };
        let set = source(ctx, args.get(key), false)?.filter(|set| self.at < set.len());
        let Some(set) = set else {
            self.nth = if self.how == How::Unite { self.nth + 1 } else { self.keys.len() };
            self.at = 0;
            return Ok(());
        };
        let mut others = Vec::new();
        if self.how != How::Unite {
            for &(key, weight) in &self.keys[1..] {
                others.push((source(ctx, args.get(key), false)?, weight));
            }
        }
        let found = set.locate(Tree::Main, At::Position(self.at))?;
        let shape = if set.kind == Kind::Set { Shape::Bare } else { Shape::Scored };
        let run = found.run.whole();
        for item in Items::new(shape, &run).skip((self.at - found.before) as usize) {
            let item = item?;
            self.at += 1;
            let score = if set.kind == Kind::Set { 1.0 } else { item.score };
            let score = if self.how == How::Subtract { score } else { weighed(score, weight) };
            let Some(score) = self.joined(item.bytes, score, &others)? else { continue };
            if self.found.insert(item.bytes.into(), score).is_none() {
                self.bytes += ENTRY + 2 * item.bytes.len() as u64;
            }
            if let Target::Count(limit) = self.target
                && limit > 0
                && self.found.len() as u64 >= limit
            {
                self.nth = self.keys.len();
                return Ok(());
            }
        }
        Ok(())
    }

    /// The score of a member in the result; None: it is not in it.
    fn joined(
        &self,
        member: &[u8],
        score: f64,
        others: &[(Option<Coll<'_>>, f64)],
    ) -> Outcome<Option<f64>> {
        match self.how {
            How::Unite => Ok(Some(match self.found.get(member) {
                Some(before) => self.aggregate.of(*before, score),
                None => score,
            })),
            How::Intersect => {
                let mut score = score;
                for (other, weight) in others {
                    let found = other.as_ref().map(|other| score_in(other, member));
                    let Some(more) = found.transpose()?.flatten() else { return Ok(None) };
                    score = self.aggregate.of(score, weighed(more, *weight));
                }
                Ok(Some(score))
            }
            How::Subtract => {
                for (other, _) in others {
                    if let Some(other) = other
                        && score_in(other, member)?.is_some()
                    {
                        return Ok(None);
                    }
                }
                Ok(Some(score))
            }
        }
    }

    /// Orders the result, and answers or stores it.
    fn begin_answer(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) {
        let found = std::mem::take(&mut self.found);
        if matches!(self.target, Target::Count(_)) {
            ctx.reply().count(found.len());
            return ctx.steps(
                args,
                |_, _| {},
                found,
                |_, _, found| {
                    (0..PAIRS).for_each(|_| drop(found.pop_first()));
                    Ok(found.is_empty())
                },
            );
        }
        let held = std::mem::replace(
            &mut self.held,
            Held::new(&ctx.conn.known.client.holder, Place::Heap),
        );
        let sorting = Sorting {
            found,
            ranked: BTreeMap::new(),
            target: self.target,
            with_scores: self.with_scores,
            is_begun: false,
            stored: 0,
            held,
        };
        ctx.steps(args, |_, _| {}, sorting, Sorting::step);
    }
}

fn weighed(score: f64, weight: f64) -> f64 {
    let product = score * weight;
    if product.is_nan() { 0.0 } else { product }
}

/// A result being ordered by score and member.
struct Sorting {
    found: BTreeMap<Box<[u8]>, f64>,
    ranked: BTreeMap<Vec<u8>, (f64, Box<[u8]>)>,
    target: Target,
    with_scores: bool,
    is_begun: bool,
    stored: u64,
    #[allow(dead_code)] // held only for its drop
    held: Held,
}

impl Sorting {
    fn step(ctx: &mut Ctx<'_>, args: &Args<'_>, job: &mut Sorting) -> Outcome<bool> {
        for _ in 0..PAIRS {
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
        for _ in 0..PAIRS {
            let Some((_, (score, member))) = job.ranked.pop_first() else { break };
            answer(ctx, &member, score, job.with_scores);
        }
        Ok(job.ranked.is_empty())
    }
}

/// Stores members as a sorted set at a key among the arguments, and answers their number.
pub(super) fn store(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    key: usize,
    event: &'static str,
    ranked: BTreeMap<Vec<u8>, (f64, Box<[u8]>)>,
) {
    ctx.steps(
        args,
        |_, _| {},
        (ranked, 0, key, event),
        |ctx, args, (ranked, stored, key, event)| {
            store_some(ctx, args, *key, event, ranked, stored)
        },
    );
}

fn store_some(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    key: usize,
    event: &'static str,
    ranked: &mut BTreeMap<Vec<u8>, (f64, Box<[u8]>)>,
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
    let members: Vec<_> = std::iter::from_fn(|| ranked.pop_first()).take(PAIRS).collect();
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
        ctx.store.delete(ctx.ns, key, ctx.now);
        ctx.modified(Class::Generic, "del", key);
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
