//! Lists: commands that look for elements, LREM and LPOS.

use larder_proto::resp::{
    Args,
    collection::{Items, Kind, Shape},
    number::parse_i64,
};
use larder_store::PutError;

use super::super::ctx::{Class, Ctx};
use super::collection::{At, Coll, Tree, push_element};
use super::errors::{NOT_INTEGER, Outcome, SYNTAX, refused};
use crate::room::{Held, Place};

/// An LREM in progress.
struct Lrem {
    /// Number of elements still to be removed.
    left: u64,
    backwards: bool,
    /// Elements that were looked at, from the side where it began.
    seen: u64,
    removed: u64,
}

/// LREM key count element
pub(super) fn lrem(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let Some(count) = parse_i64(args.get(2)) else { return ctx.reply().error(NOT_INTEGER) };
    let left = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    let job = Lrem { left, backwards: count < 0, seen: 0, removed: 0 };
    ctx.steps(args, lrem, job, |ctx, args, job| {
        let key = args.get(1);
        let mut is_gone = false;
        if let Some(mut list) = ctx.open(key, Kind::List)?
            && job.seen < list.len()
            && job.left > 0
        {
            let (seen, removed) = remove_equal(&mut list, job, args.get(3))?;
            is_gone = list.len() == 0;
            let more = job.seen + seen < list.len() && job.left > removed;
            if removed > 0 && list.commit(ctx)?.is_none() {
                return Ok(false);
            }
            job.seen += seen;
            job.removed += removed;
            job.left -= removed;
            if more {
                return Ok(false);
            }
        }
        ctx.reply().integer(job.removed as i64);
        if job.removed > 0 {
            ctx.modified(Class::List, "lrem", key);
            if is_gone {
                ctx.event(Class::Generic, "del", key);
            }
        }
        Ok(true)
    });
}

/// Removes equal elements of one run. Returns the number of others, and of the removed ones.
fn remove_equal(list: &mut Coll<'_>, job: &Lrem, element: &[u8]) -> Outcome<(u64, u64)> {
    let at = if job.backwards { list.len() - 1 - job.seen } else { job.seen };
    let found = list.locate(Tree::Main, At::Position(at))?;
    let run = found.run.whole();
    let items: Result<Vec<_>, _> = Items::new(Shape::Bare, &run).collect();
    let items = items?;
    let here = (at - found.before) as usize;
    let mut removes = vec![false; items.len()];
    let (mut seen, mut removed) = (0, 0);
    let mut look = |nth: usize| {
        if items[nth].bytes == element && removed < job.left {
            removes[nth] = true;
            removed += 1;
        } else {
            seen += 1;
        }
    };
    if job.backwards {
        (0..=here.min(items.len().saturating_sub(1))).rev().for_each(&mut look);
    } else {
        (here..items.len()).for_each(&mut look);
    }
    if removed > 0 {
        let mut bytes = Vec::with_capacity(run.len());
        for (item, _) in items.iter().zip(&removes).filter(|(_, removed)| !**removed) {
            push_element(&mut bytes, item.bytes);
        }
        let count = found.count - removed;
        drop(items);
        drop(run);
        list.shrink(found, bytes, count, removed)?;
    }
    Ok((seen, removed))
}

/// Options of LPOS.
struct Lpos {
    rank: i64,
    /// None: the first match alone, not as a list.
    count: Option<u64>,
    /// Elements that were compared at most.
    most: u64,
    seen: u64,
    skipped: u64,
    matches: Vec<u64>,
    held: Held,
    /// The next match to answer, once the search is over.
    answered: Option<usize>,
}

/// Matches answered between two checks of the clock.
const ANSWERED: usize = 1024;

/// LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]
pub(super) fn lpos(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = lpos_options(ctx, args).map(|job| ctx.steps(args, lpos, job, lpos_step));
    ctx.settle(outcome, args);
}

fn lpos_options(ctx: &Ctx<'_>, args: &Args<'_>) -> Outcome<Lpos> {
    let (mut rank, mut count, mut most, mut at) = (1, None, 0, 3);
    while at < args.len() {
        let Some(value) = (at + 1 < args.len()).then(|| args.get(at + 1)) else {
            return Err(SYNTAX.into());
        };
        let number = |error: &'static str| {
            parse_i64(value).and_then(|number| u64::try_from(number).ok()).ok_or(error)
        };
        if args.is(at, "RANK") {
            rank = parse_i64(value).ok_or(NOT_INTEGER)?;
            if rank == i64::MIN {
                // As Redis, which cannot negate it.
                rank = -1;
            }
            if rank == 0 {
                return Err("ERR RANK can't be zero: use 1 to start from the first match, 2 from \
                            the second ... or use negative to start from the end of the list"
                    .into());
            }
        } else if args.is(at, "COUNT") {
            count = Some(number("ERR COUNT can't be negative")?);
        } else if args.is(at, "MAXLEN") {
            most = number("ERR MAXLEN can't be negative")?;
        } else {
            return Err(SYNTAX.into());
        }
        at += 2;
    }
    let held = Held::new(&ctx.conn.known.client.holder, Place::Heap);
    let (seen, skipped, matches, answered) = (0, 0, Vec::new(), None);
    Ok(Lpos { rank, count, most, seen, skipped, matches, held, answered })
}

fn lpos_step(ctx: &mut Ctx<'_>, args: &Args<'_>, job: &mut Lpos) -> Outcome<bool> {
    if let Some(at) = job.answered {
        let end = job.matches.len().min(at + ANSWERED);
        job.matches[at..end].iter().for_each(|at| ctx.reply().integer(*at as i64));
        job.answered = Some(end);
        return Ok(end == job.matches.len());
    }
    let wanted = match job.count {
        None => 1,
        Some(0) => u64::MAX,
        Some(count) => count,
    };
    let list = ctx.open_to_read(args.get(1), Kind::List)?;
    let len = list.as_ref().map_or(0, |list| list.len());
    let most = if job.most == 0 { len } else { job.most.min(len) };
    if let Some(list) = list
        && job.seen < most
        && (job.matches.len() as u64) < wanted
    {
        let at = if job.rank < 0 { len - 1 - job.seen } else { job.seen };
        let found = list.locate(Tree::Main, At::Position(at))?;
        let run = found.run.whole();
        let items: Result<Vec<_>, _> = Items::new(Shape::Bare, &run).collect();
        let items = items?;
        let here = (at - found.before) as usize;
        let mut look = |nth: usize| {
            if job.seen >= most || job.matches.len() as u64 >= wanted {
                return;
            }
            job.seen += 1;
            if items[nth].bytes == args.get(2) {
                job.skipped += 1;
                if job.skipped >= job.rank.unsigned_abs() {
                    job.matches.push(found.before + nth as u64);
                }
            }
        };
        if job.rank < 0 {
            (0..=here.min(items.len().saturating_sub(1))).rev().for_each(&mut look);
        } else {
            (here..items.len()).for_each(&mut look);
        }
        if !job.held.resize(size_of_val(&*job.matches) as u64) {
            return Err(refused(PutError::Full, b""));
        }
        return Ok(false);
    }
    match (job.count, job.matches.first()) {
        (None, Some(first)) => ctx.reply().integer(*first as i64),
        (None, None) => ctx.reply().null(),
        (Some(_), _) => {
            ctx.reply().array(job.matches.len());
            job.answered = Some(0);
            return Ok(false);
        }
    }
    Ok(true)
}
