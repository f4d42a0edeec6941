//! Lists: commands on one list.

use larder_proto::resp::{
    Args,
    collection::{Items, Kind, Shape},
    number::parse_i64,
};

use super::super::ctx::{Class, Ctx};
use super::collection::{At, Coll, Side, Tree, portion};
use super::errors::{NO_KEY, NOT_INTEGER, Outcome, Refused, SYNTAX};
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
        let some = portion(args, push.at, PART);
        let event = if push.side == Side::Left { "lpush" } else { "rpush" };
        let done = ctx.retry(|ctx| {
            let mut list = match ctx.open(key, Kind::List)? {
                Some(list) => list,
                None if push.makes || push.at > 2 => ctx.new_coll(key, Kind::List, None),
                None => return Ok(Some(None)),
            };
            list.push(push.side, args.from(push.at).take(some))?;
            let len = list.len();
            Ok(list.commit(ctx)?.map(|()| Some(len)))
        });
        let len = match done {
            Ok(len) => len,
            Err(error) => {
                // Elements pushed before stay.
                if push.at > 2 {
                    ctx.modified(Class::List, event, key);
                }
                return Err(error);
            }
        };
        push.at += some;
        let Some(len) = len else {
            ctx.reply().integer(0);
            return Ok(true);
        };
        if push.at < args.len() {
            return Ok(false);
        }
        ctx.reply().integer(len as i64);
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
        let head = from;
        ctx.pop_many(args, again, from, Popping { key: 1, side, left: most, popped: 0, head });
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
    /// Start of the array of elements in the answer.
    pub(super) head: usize,
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
            let at = ctx.out.scratch().len();
            match ctx.pop_some(args.get(popping.key), popping) {
                // Elements that were taken are the answer, fewer than there should be.
                Err(_) if popping.popped > 0 => {
                    ctx.out.scratch().truncate(at);
                    ctx.shorten(popping.head, popping.popped);
                    ctx.popped(popping.side, args.get(popping.key), false);
                    Ok(true)
                }
                result => result,
            }
        });
    }

    fn pop_some(&mut self, key: &[u8], popping: &mut Popping) -> Outcome<bool> {
        let (side, at) = (popping.side, self.out.scratch().len());
        let Some(mut list) = self.open(key, Kind::List)? else { return Err(Refused::Lost) };
        let removed = take(self, &mut list, side, popping.left)?;
        let left = list.len();
        if list.commit(self)?.is_none() {
            // Another write came first: what was answered was not taken.
            self.out.scratch().truncate(at);
            return Ok(false);
        }
        popping.left -= removed;
        popping.popped += removed;
        if popping.left > 0 && left > 0 {
            return Ok(false);
        }
        self.popped(side, key, left == 0);
        Ok(true)
    }

    /// Changes the length of an array or set in the answer, whose head starts there.
    pub(super) fn shorten(&mut self, head: usize, len: u64) {
        let scratch = self.out.scratch();
        let Some(end) = scratch.get(head..).and_then(|rest| rest.iter().position(|b| *b == b'\n'))
        else {
            return;
        };
        let text = format!("{}{len}\r\n", char::from(scratch[head]));
        scratch.splice(head..=head + end, text.into_bytes());
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
            if *at >= *to {
                return Ok(true);
            }
            let Some(list) = ctx.open(args.get(1), Kind::List)? else {
                return Err(Refused::Lost);
            };
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
