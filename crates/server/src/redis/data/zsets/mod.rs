//! Sorted sets: commands on single members, and those that take members from the ends.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | ZADD, ZREM, ZSCORE, ZRANK and the like |
//! | `range.rs` | ranges by rank, score and member |
//! | `pop.rs` | ZPOPMIN and the like, waiting included |
//! | `join.rs` | ZUNION, ZINTER, ZDIFF |

mod join;
mod pop;
mod range;

pub(super) use join::*;
pub(super) use pop::*;
pub(super) use range::*;

use larder_proto::resp::{
    Args, Version,
    collection::{Kind, parse_score},
};

use super::super::ctx::{Class, Ctx};
use super::collection::{ITEMS, portion};
use super::errors::{NOT_FLOAT, Outcome, SYNTAX};

const NAN: &str = "ERR resulting score is not a number (NaN)";
/// Scores checked between two checks of the clock.
const CHECKED: usize = 1024;

/// Options of ZADD.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    absent: bool,
    present: bool,
    greater: bool,
    less: bool,
    changed: bool,
    increment: bool,
}

impl Options {
    /// Parses the options of ZADD; returns the place of the first score.
    fn parse(args: &Args<'_>) -> Outcome<(Options, usize)> {
        let (mut options, mut at) = (Options::default(), 2);
        while at < args.len() {
            let flag = match () {
                () if args.is(at, "NX") => &mut options.absent,
                () if args.is(at, "XX") => &mut options.present,
                () if args.is(at, "GT") => &mut options.greater,
                () if args.is(at, "LT") => &mut options.less,
                () if args.is(at, "CH") => &mut options.changed,
                () if args.is(at, "INCR") => &mut options.increment,
                () => break,
            };
            *flag = true;
            at += 1;
        }
        let words = args.len() - at;
        if words == 0 || words % 2 == 1 {
            return Err(SYNTAX.into());
        }
        let Options { absent, present, greater, less, increment, .. } = options;
        if absent && present {
            return Err("ERR XX and NX options at the same time are not compatible".into());
        }
        if [greater, less, absent].into_iter().filter(|given| *given).count() > 1 {
            return Err("ERR GT, LT, and/or NX options at the same time are not compatible".into());
        }
        if increment && words > 2 {
            return Err("ERR INCR option supports a single increment-element pair".into());
        }
        Ok((options, at))
    }

    /// The new score of a member; None: it stays as it is.
    fn score(self, old: Option<f64>, given: f64) -> Outcome<Option<f64>> {
        let Some(old) = old else { return Ok((!self.present).then_some(given)) };
        if self.absent {
            return Ok(None);
        }
        let new = if self.increment { old + given } else { given };
        if new.is_nan() {
            return Err(NAN.into());
        }
        let stays = (self.less && new >= old) || (self.greater && new <= old);
        Ok((!stays).then_some(new))
    }
}

/// A ZADD in progress.
struct Adding {
    options: Options,
    /// The next score to check, before the first is set.
    checked: usize,
    /// The next score to set.
    at: usize,
    added: u64,
    updated: u64,
    /// The last score that was set, if it was.
    last: Option<f64>,
    /// Arguments of a member, which is the last of them, and how its score is read.
    stride: usize,
    score: ReadScore,
}

/// Reads the score at this place. None: an error is answered.
type ReadScore = fn(&mut Ctx<'_>, &Args<'_>, usize) -> Outcome<Option<f64>>;

/// ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]
pub(super) fn zadd(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = Options::parse(args).map(|(options, first)| {
        add(ctx, args, zadd, Adding::new(options, first));
    });
    ctx.settle(outcome, args);
}

/// ZINCRBY key increment member
pub(super) fn zincrby(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let options = Options { increment: true, ..Options::default() };
    add(ctx, args, zincrby, Adding::new(options, 2));
}

/// GEOADD: members with their scores from `first` on. `options`: NX, XX, CH before them.
pub(super) fn add_positions(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    again: super::Run,
    first: usize,
    score: ReadScore,
) {
    let has = |word| (2..first).any(|at| args.is(at, word));
    let options =
        Options { absent: has("NX"), present: has("XX"), changed: has("CH"), ..Options::default() };
    let job = Adding { stride: 3, score, ..Adding::new(options, first) };
    add(ctx, args, again, job);
}

fn add(ctx: &mut Ctx<'_>, args: &Args<'_>, again: super::Run, job: Adding) {
    ctx.steps(args, again, job, |ctx, args, job| {
        let key = args.get(1);
        if job.checked < args.len() {
            let end = args.len().min(job.checked + job.stride * CHECKED);
            for at in (job.checked..end).step_by(job.stride) {
                if (job.score)(ctx, args, at)?.is_none() {
                    return Ok(true);
                }
            }
            job.checked = end;
            if end < args.len() {
                return Ok(false);
            }
        }
        let mut end = args.len();
        let done = ctx.retry(|ctx| {
            let mut set = match ctx.open(key, Kind::SortedSet)? {
                Some(set) => set,
                None if job.options.present => return Ok(Some((0, 0, None))),
                None => ctx.new_coll(key, Kind::SortedSet, None),
            };
            let some = portion(args, job.at, job.stride * set.changes_in_a_step());
            end = job.at + some.next_multiple_of(job.stride);
            let (mut added, mut updated, mut last) = (0, 0, None);
            for at in (job.at..end).step_by(job.stride) {
                let Some(given) = (job.score)(ctx, args, at)? else { continue };
                let member = args.get(at + job.stride - 1);
                let old = set.score(member)?;
                let Some(new) = job.options.score(old, given)? else { continue };
                last = Some(new);
                if old != Some(new) {
                    set.set_score(member, old, Some(new))?;
                    added += u64::from(old.is_none());
                    updated += u64::from(old.is_some());
                }
            }
            if added + updated == 0 {
                return Ok(Some((0, 0, last)));
            }
            Ok(set.commit(ctx)?.map(|()| (added, updated, last)))
        });
        let (added, updated, last) = match done {
            Ok(done) => done,
            Err(error) => {
                job.report(ctx, key);
                return Err(error);
            }
        };
        (job.at, job.added, job.updated) = (end, job.added + added, job.updated + updated);
        job.last = last;
        if end < args.len() {
            return Ok(false);
        }
        match (job.options.increment, last) {
            (true, Some(score)) => ctx.reply().double(score),
            (true, None) => ctx.reply().null(),
            (false, _) if job.options.changed => {
                ctx.reply().integer((job.added + job.updated) as i64);
            }
            (false, _) => ctx.reply().integer(job.added as i64),
        }
        job.report(ctx, key);
        Ok(true)
    });
}

impl Adding {
    fn new(options: Options, first: usize) -> Adding {
        let score: ReadScore = |_, args, at| Ok(Some(parse_score(args.get(at)).ok_or(NOT_FLOAT)?));
        let (checked, at, last) = (first, first, None);
        Adding { options, checked, at, added: 0, updated: 0, last, stride: 2, score }
    }

    fn report(&self, ctx: &mut Ctx<'_>, key: &[u8]) {
        if self.added + self.updated > 0 {
            let event = if self.options.increment { "zincr" } else { "zadd" };
            ctx.modified(Class::SortedSet, event, key);
        }
    }
}

/// ZREM key member [member ...]
pub(super) fn zrem(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    ctx.steps(args, zrem, (2, 0), |ctx, args, (at, removed)| {
        let key = args.get(1);
        let mut some = args.len() - *at;
        let done = ctx.retry(|ctx| {
            let Some(mut set) = ctx.open(key, Kind::SortedSet)? else {
                return Ok(Some((0, false)));
            };
            some = portion(args, *at, set.changes_in_a_step());
            let mut more = 0;
            for member in args.from(*at).take(some) {
                if let Some(score) = set.score(member)? {
                    set.set_score(member, Some(score), None)?;
                    more += 1;
                }
            }
            let is_gone = set.len() == 0;
            if more == 0 {
                return Ok(Some((0, false)));
            }
            Ok(set.commit(ctx)?.map(|()| (more, is_gone)))
        });
        let (more, is_gone) = match done {
            Ok(done) => done,
            Err(error) => {
                // Members removed before are gone.
                if *removed > 0 {
                    ctx.modified(Class::SortedSet, "zrem", key);
                }
                return Err(error);
            }
        };
        (*at, *removed) = (*at + some, *removed + more);
        if *at < args.len() && !is_gone {
            return Ok(false);
        }
        ctx.reply().integer(*removed);
        if *removed > 0 {
            ctx.modified(Class::SortedSet, "zrem", key);
        }
        if is_gone {
            ctx.event(Class::Generic, "del", key);
        }
        Ok(true)
    });
}

/// ZCARD key
pub(super) fn zcard(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let len = ctx.open_to_read(args.get(1), Kind::SortedSet)?.map_or(0, |set| set.len());
        ctx.reply().integer(len as i64);
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// ZSCORE key member
pub(super) fn zscore(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = ctx.retry(|ctx| {
        let set = ctx.open_to_read(args.get(1), Kind::SortedSet)?;
        Ok(Some(set.map(|set| set.score(args.get(2))).transpose()?.flatten()))
    });
    match outcome {
        Ok(Some(score)) => ctx.reply().double(score),
        Ok(None) => ctx.reply().null(),
        Err(error) => ctx.settle(Err(error), args),
    }
}

/// ZMSCORE key member [member ...]
pub(super) fn zmscore(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    ctx.steps(args, zmscore, 2, |ctx, args, at| {
        let set = match *at {
            2 => ctx.open_to_read(args.get(1), Kind::SortedSet)?,
            _ => ctx.open(args.get(1), Kind::SortedSet)?,
        };
        if *at == 2 {
            ctx.reply().array(args.len() - 2);
        }
        for member in args.from(*at).take(ITEMS) {
            match set.as_ref().map(|set| set.score(member)).transpose()?.flatten() {
                Some(score) => ctx.reply().double(score),
                None => ctx.reply().null(),
            }
        }
        *at += ITEMS;
        Ok(*at >= args.len())
    });
}

/// ZRANK key member
pub(super) fn zrank(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    rank(ctx, args, false);
}

/// ZREVRANK key member
pub(super) fn zrevrank(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    rank(ctx, args, true);
}

fn rank(ctx: &mut Ctx<'_>, args: &Args<'_>, reverse: bool) {
    let outcome = ctx.retry(|ctx| {
        let Some(set) = ctx.open_to_read(args.get(1), Kind::SortedSet)? else {
            return Ok(Some(None));
        };
        let Some(score) = set.score(args.get(2))? else { return Ok(Some(None)) };
        let rank = set.rank(args.get(2), score)?;
        Ok(Some(Some(if reverse { set.len() - 1 - rank } else { rank })))
    });
    match outcome {
        Ok(Some(rank)) => ctx.reply().integer(rank as i64),
        Ok(None) => ctx.reply().null(),
        Err(error) => ctx.settle(Err(error), args),
    }
}

/// Answers a member, and its score if it is wanted: in RESP3 as a pair.
fn answer(ctx: &mut Ctx<'_>, member: &[u8], score: f64, with_score: bool) {
    let mut reply = ctx.reply();
    if with_score && reply.version() == Version::V3 {
        reply.array(2);
    }
    reply.bulk(member);
    if with_score {
        reply.double(score);
    }
}

/// The head of an answer of members, with their scores if they are wanted.
fn answer_head(ctx: &mut Ctx<'_>, members: u64, with_scores: bool) {
    let flat = with_scores && ctx.version == Version::V2;
    ctx.reply().array(members as usize * if flat { 2 } else { 1 });
}
