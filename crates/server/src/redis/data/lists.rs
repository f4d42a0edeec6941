//! Lists: commands on one list.

use larder_proto::resp::{
    Args,
    collection::{Items, Kind, Shape},
    number::parse_i64,
};

use super::super::ctx::{Class, Ctx};
use super::collection::{At, Coll, Side, Tree, push_element};
use super::errors::{NO_KEY, NOT_INTEGER, Outcome, SYNTAX};
use super::parts::PART;
use super::range::clamped;

const NOT_POSITIVE: &str = "ERR value is out of range, must be positive";

/// LPUSH key element [element ...]
pub(super) fn lpush(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    push(ctx, args, lpush, Side::Left, true);
}

/// RPUSH key element [element ...]
pub(super) fn rpush(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    push(ctx, args, rpush, Side::Right, true);
}

/// LPUSHX key element [element ...]
pub(super) fn lpushx(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    push(ctx, args, lpushx, Side::Left, false);
}

/// RPUSHX key element [element ...]
pub(super) fn rpushx(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    push(ctx, args, rpushx, Side::Right, false);
}

/// A push in progress.
struct Push {
    side: Side,
    /// A missing list is made.
    makes: bool,
    /// The next element.
    at: usize,
}

fn push(ctx: &mut Ctx<'_>, args: &Args<'_>, again: super::Run, side: Side, makes: bool) {
    ctx.steps(args, again, Push { side, makes, at: 2 }, |ctx, args, push| {
        let key = args.get(1);
        let len = ctx.retry(|ctx| {
            let mut list = match ctx.open(key, Kind::List)? {
                Some(list) => list,
                None if push.makes || push.at > 2 => ctx.new_coll(key, Kind::List, None),
                None => return Ok(Some(None)),
            };
            list.push(push.side, args.from(push.at).take(PART))?;
            let len = list.len();
            Ok(list.commit(ctx)?.map(|()| Some(len)))
        })?;
        push.at += PART;
        let Some(len) = len else {
            ctx.reply().integer(0);
            return Ok(true);
        };
        if push.at < args.len() {
            return Ok(false);
        }
        ctx.reply().integer(len as i64);
        let event = if push.side == Side::Left { "lpush" } else { "rpush" };
        ctx.modified(Class::List, event, key);
        Ok(true)
    });
}

/// LPOP key [count]
pub(super) fn lpop(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    pop(ctx, args, lpop, Side::Left);
}

/// RPOP key [count]
pub(super) fn rpop(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    pop(ctx, args, rpop, Side::Right);
}

fn pop(ctx: &mut Ctx<'_>, args: &Args<'_>, again: super::Run, side: Side) {
    let outcome = (|| {
        if args.len() > 3 {
            let name = args.get(0).to_ascii_lowercase();
            let text = [b"ERR wrong number of arguments for '", &name[..], b"' command"].concat();
            ctx.reply().error(text);
            return Ok(());
        }
        let count = match args.len() {
            3 => {
                let count = parse_i64(args.get(2)).ok_or(NOT_POSITIVE)?;
                Some(u64::try_from(count).map_err(|_| NOT_POSITIVE)?)
            }
            _ => None,
        };
        let Some(list) = ctx.open(args.get(1), Kind::List)? else {
            match count {
                Some(_) => ctx.reply().null_array(),
                None => ctx.reply().null(),
            }
            return Ok(());
        };
        let most = count.unwrap_or(1).min(list.len());
        drop(list);
        if count == Some(0) {
            ctx.reply().array(0);
            return Ok(());
        }
        let from = ctx.out.scratch().len();
        if count.is_some() {
            ctx.reply().array(most as usize);
        }
        ctx.pop_many(args, again, from, Popping { key: 1, side, left: most, popped: 0 });
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// Elements being taken from a list.
pub(super) struct Popping {
    /// The list, among the arguments.
    pub(super) key: usize,
    pub(super) side: Side,
    pub(super) left: u64,
    pub(super) popped: u64,
}

impl Ctx<'_> {
    /// Takes elements from an end and answers them, in steps; the head of the answer is composed.
    pub(super) fn pop_many(
        &mut self,
        args: &Args<'_>,
        again: super::Run,
        from: usize,
        popping: Popping,
    ) {
        self.steps_from(args, again, from, popping, |ctx, args, popping| {
            let key = args.get(popping.key);
            let (side, at) = (popping.side, ctx.out.scratch().len());
            let Some(mut list) = ctx.open(key, Kind::List)? else { return Ok(true) };
            let removed = take(ctx, &mut list, side, popping.left)?;
            let left = list.len();
            if list.commit(ctx)?.is_none() {
                // Another write came first: what was answered was not taken.
                ctx.out.scratch().truncate(at);
                return Ok(false);
            }
            popping.left -= removed;
            popping.popped += removed;
            if popping.left > 0 && left > 0 {
                return Ok(false);
            }
            ctx.popped(side, key, left == 0);
            Ok(true)
        });
    }

    /// Reports elements taken from a list.
    pub(super) fn popped(&mut self, side: Side, key: &[u8], is_gone: bool) {
        let event = if side == Side::Left { "lpop" } else { "rpop" };
        self.modified(Class::List, event, key);
        if is_gone {
            self.event(Class::Generic, "del", key);
        }
    }
}

/// Takes at most as many elements as lie in one run, and answers them.
fn take(ctx: &mut Ctx<'_>, list: &mut Coll<'_>, side: Side, most: u64) -> Outcome<u64> {
    if side == Side::Left {
        return list.remove_some(0, most, &mut |item| ctx.reply().bulk(item.bytes));
    }
    let last = list.len().saturating_sub(1);
    let found = list.locate(Tree::Main, At::Position(last))?;
    let most = most.min(found.count);
    drop(found);
    let mut taken = Vec::new();
    let from = list.len() - most;
    let removed = list.remove_some(from, most, &mut |item| taken.push(item.bytes.to_vec()))?;
    taken.iter().rev().for_each(|element| ctx.reply().bulk(element));
    Ok(removed)
}

/// LLEN key
pub(super) fn llen(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let len = ctx.open_to_read(args.get(1), Kind::List)?.map_or(0, |list| list.len());
        ctx.reply().integer(len as i64);
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// The position of an index, which counts from the end if it is negative.
fn position(index: i64, len: u64) -> Option<u64> {
    let position = if index < 0 { (len as i64).checked_add(index)? } else { index };
    u64::try_from(position).ok().filter(|position| *position < len)
}

/// LINDEX key index
pub(super) fn lindex(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = ctx.retry(|ctx| {
        let Some(list) = ctx.open_to_read(args.get(1), Kind::List)? else {
            ctx.reply().null();
            return Ok(Some(()));
        };
        let index = parse_i64(args.get(2)).ok_or(NOT_INTEGER)?;
        let found = match position(index, list.len()) {
            Some(at) => list.nth(at, |item| ctx.reply().bulk(item.bytes))?,
            None => None,
        };
        if found.is_none() {
            ctx.reply().null();
        }
        Ok(Some(()))
    });
    ctx.settle(outcome, args);
}

/// LSET key index element
pub(super) fn lset(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let key = args.get(1);
    let outcome = ctx.retry(|ctx| {
        let mut list = ctx.open(key, Kind::List)?.ok_or(NO_KEY)?;
        let index = parse_i64(args.get(2)).ok_or(NOT_INTEGER)?;
        let at = position(index, list.len()).ok_or("ERR index out of range")?;
        list.put_at(at, &[args.get(3)])?;
        list.commit(ctx)
    });
    if outcome.is_ok() {
        ctx.reply().ok();
        ctx.modified(Class::List, "lset", key);
    }
    ctx.settle(outcome, args);
}

/// LRANGE key start stop
pub(super) fn lrange(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let start = parse_i64(args.get(2)).ok_or(NOT_INTEGER)?;
        let stop = parse_i64(args.get(3)).ok_or(NOT_INTEGER)?;
        let len = ctx.open_to_read(args.get(1), Kind::List)?.map_or(0, |list| list.len());
        let (from, to) = clamped(start, stop, len);
        let (from, to) = if stop < 0 && stop.unsigned_abs() > len { (0, 0) } else { (from, to) };
        let begin = ctx.out.scratch().len();
        ctx.reply().array((to - from) as usize);
        ctx.steps_from(args, lrange, begin, (from, to), |ctx, args, (at, to)| {
            let Some(list) = ctx.open(args.get(1), Kind::List)? else { return Ok(true) };
            if *at >= *to {
                return Ok(true);
            }
            let found = list.locate(Tree::Main, At::Position(*at))?;
            let run = found.run.whole();
            let (skip, most) = ((*at - found.before) as usize, (*to - *at) as usize);
            for item in Items::new(Shape::Bare, &run).skip(skip).take(most) {
                ctx.reply().bulk(item?.bytes);
                *at += 1;
            }
            Ok(*at >= *to)
        });
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// LTRIM key start stop
pub(super) fn ltrim(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let start = parse_i64(args.get(2)).ok_or(NOT_INTEGER)?;
        let stop = parse_i64(args.get(3)).ok_or(NOT_INTEGER)?;
        let Some(list) = ctx.open(args.get(1), Kind::List)? else {
            ctx.reply().ok();
            return Ok(());
        };
        let len = list.len();
        let (from, to) = clamped(start, stop, len);
        let (from, to) = if stop < 0 && stop.unsigned_abs() > len { (0, 0) } else { (from, to) };
        let (before, after) = if from == to { (len, 0) } else { (from, len - to) };
        drop(list);
        ctx.steps(args, ltrim, (before, after), |ctx, args, (before, after)| {
            let key = args.get(1);
            let Some(mut list) = ctx.open(key, Kind::List)? else {
                ctx.reply().ok();
                return Ok(true);
            };
            let is_front = *before > 0;
            let removed = if *before >= list.len() {
                // All of it: the parts are freed in the background.
                let removed = list.len();
                list.head.count = 0;
                removed
            } else if is_front {
                list.remove_some(0, *before, &mut |_| {})?
            } else if *after > 0 {
                let last = list.len() - 1;
                let most = list.locate(Tree::Main, At::Position(last))?.count.min(*after);
                list.remove_some(list.len() - most, most, &mut |_| {})?
            } else {
                0
            };
            let is_gone = list.len() == 0;
            if list.commit(ctx)?.is_none() {
                return Ok(false);
            }
            if is_front {
                *before -= removed;
            } else {
                *after -= removed;
            }
            if !is_gone && *before + *after > 0 {
                return Ok(false);
            }
            ctx.modified(Class::List, "ltrim", key);
            if is_gone {
                ctx.event(Class::Generic, "del", key);
            }
            ctx.reply().ok();
            Ok(true)
        });
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// LINSERT key BEFORE | AFTER pivot element
pub(super) fn linsert(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let after = match () {
        () if args.is(2, "AFTER") => true,
        () if args.is(2, "BEFORE") => false,
        () => return ctx.reply().error(SYNTAX),
    };
    ctx.steps(args, linsert, (0, after), |ctx, args, (at, after)| {
        let (key, pivot, element) = (args.get(1), args.get(3), args.get(4));
        let Some(mut list) = ctx.open(key, Kind::List)? else {
            ctx.reply().integer(0);
            return Ok(true);
        };
        if *at >= list.len() {
            ctx.reply().integer(-1);
            return Ok(true);
        }
        let found = list.locate(Tree::Main, At::Position(*at))?;
        let mut place = None;
        for (nth, item) in Items::new(Shape::Bare, &found.run.whole()).enumerate() {
            if item?.bytes == pivot {
                place = Some(found.before + nth as u64);
                break;
            }
        }
        *at = found.before + found.count;
        drop(found);
        let Some(place) = place else { return Ok(false) };
        let both = if *after { [pivot, element] } else { [element, pivot] };
        list.put_at(place, &both)?;
        let len = list.len();
        if list.commit(ctx)?.is_none() {
            *at = 0;
            return Ok(false);
        }
        ctx.modified(Class::List, "linsert", key);
        ctx.reply().integer(len as i64);
        Ok(true)
    });
}

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
}

/// LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]
pub(super) fn lpos(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = lpos_options(args).map(|job| ctx.steps(args, lpos, job, lpos_step));
    ctx.settle(outcome, args);
}

fn lpos_options(args: &Args<'_>) -> Outcome<Lpos> {
    let (mut rank, mut count, mut most, mut at) = (1, None, 0, 3);
    while at < args.len() {
        let Some(value) = (at + 1 < args.len()).then(|| args.get(at + 1)) else {
            return Err(SYNTAX.into());
        };
        let number = |error: &'static str| {
            let number = parse_i64(value).ok_or(NOT_INTEGER)?;
            u64::try_from(number).map_err(|_| error)
        };
        if args.is(at, "RANK") {
            rank = parse_i64(value).filter(|rank| *rank != i64::MIN).ok_or(NOT_INTEGER)?;
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
    Ok(Lpos { rank, count, most, seen: 0, skipped: 0, matches: Vec::new() })
}

fn lpos_step(ctx: &mut Ctx<'_>, args: &Args<'_>, job: &mut Lpos) -> Outcome<bool> {
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
        return Ok(false);
    }
    match (job.count, job.matches.first()) {
        (None, Some(first)) => ctx.reply().integer(*first as i64),
        (None, None) => ctx.reply().null(),
        (Some(_), _) => {
            ctx.reply().array(job.matches.len());
            job.matches.iter().for_each(|at| ctx.reply().integer(*at as i64));
        }
    }
    Ok(true)
}
