//! Lists: commands on several lists, and those that wait for elements.

use larder_proto::resp::{Args, Reply, collection::Kind, number::parse_i64};

use super::super::{
    ctx::{Class, Ctx},
    locks::StripeGuard,
    shared::Shared,
    waiter::Waiter,
};
use super::collection::{BYTES, Side, shift};
use super::errors::{Outcome, SYNTAX, WRONG_TYPE, few_keys};
use super::lists::Popping;
use super::streams::Reading;
use super::timeout;
use crate::clock::Ms;

/// The items that a client waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Wish {
    /// BLPOP, BRPOP: the key and an element.
    Element(Side),
    /// BLMPOP: the key and at most so many elements.
    Elements(Side, u64),
    /// BLMOVE: an element from this side, and at which end of which list it is put.
    Move(Side, Side, Box<[u8]>),
    /// BZPOPMIN, BZPOPMAX: the key, a member and its score.
    Member { max: bool },
    /// BZMPOP: the key and at most so many members.
    Members { max: bool, most: u64 },
    /// XREAD, XREADGROUP: entries of streams.
    Entries(Box<Reading>),
    /// DEBUG SLEEP: nothing; it waits until its time is over.
    Nothing,
}

impl Wish {
    /// Whether the client is told if a key is deleted or gets another type.
    pub(in super::super) fn needs_key(&self) -> bool {
        matches!(self, Wish::Entries(reading) if reading.is_grouped())
    }
}

/// RPOPLPUSH source destination
pub(super) fn rpoplpush(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = move_now(ctx, args, Side::Right, Side::Left).map(|moved| {
        if !moved {
            ctx.reply().null();
        }
    });
    ctx.settle(outcome, args);
}

/// LMOVE source destination LEFT | RIGHT LEFT | RIGHT
pub(super) fn lmove(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let (take, put) = sides(args)?;
        if !move_now(ctx, args, take, put)? {
            ctx.reply().null();
        }
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// BRPOPLPUSH source destination timeout
pub(super) fn brpoplpush(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let deadline = timeout::deadline(args.get(3), ctx.now)?;
        move_or_wait(ctx, args, (Side::Right, Side::Left), deadline)
    })();
    ctx.settle(outcome, args);
}

/// BLMOVE source destination LEFT | RIGHT LEFT | RIGHT timeout
pub(super) fn blmove(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let sides = sides(args)?;
        let deadline = timeout::deadline(args.get(5), ctx.now)?;
        move_or_wait(ctx, args, sides, deadline)
    })();
    ctx.settle(outcome, args);
}

fn sides(args: &Args<'_>) -> Outcome<(Side, Side)> {
    let side = |at| Side::parse(args.get(at)).ok_or(SYNTAX);
    Ok((side(3)?, side(4)?))
}

fn move_or_wait(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    (take, put): (Side, Side),
    deadline: Option<Ms>,
) -> Outcome {
    let moved = move_now(ctx, args, take, put);
    match moved {
        Ok(false) if ctx.conn.in_exec => ctx.reply().null(),
        Ok(false) => {
            let wish = Wish::Move(take, put, args.get(2).into());
            ctx.wait(vec![args.get(1).into()], wish, deadline);
        }
        Ok(true) | Err(_) => {}
    }
    moved.map(drop)
}

/// Moves an element and answers it. False: there is none.
fn move_now(ctx: &mut Ctx<'_>, args: &Args<'_>, take: Side, put: Side) -> Outcome<bool> {
    let moved = ctx.move_element((args.get(1), take), (args.get(2), put))?;
    if let Some(element) = &moved {
        ctx.reply().bulk(element);
    }
    Ok(moved.is_some())
}

/// BLPOP key [key ...] timeout
pub(super) fn blpop(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = pop_or_wait(ctx, args, Side::Left);
    ctx.settle(outcome, args);
}

/// BRPOP key [key ...] timeout
pub(super) fn brpop(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = pop_or_wait(ctx, args, Side::Right);
    ctx.settle(outcome, args);
}

fn pop_or_wait(ctx: &mut Ctx<'_>, args: &Args<'_>, side: Side) -> Outcome {
    let deadline = timeout::deadline(args.get(args.len() - 1), ctx.now)?;
    few_keys(args.len() - 2)?;
    for at in 1..args.len() - 1 {
        if let Some(element) = ctx.pop_one(args.get(at), side)? {
            let mut reply = ctx.reply();
            reply.array(2);
            reply.bulk(args.get(at));
            reply.bulk(&element);
            return Ok(());
        }
    }
    let keys = (1..args.len() - 1).map(|at| args.get(at).into()).collect();
    ctx.wait(keys, Wish::Element(side), deadline);
    Ok(())
}

impl Ctx<'_> {
    /// Takes an element. None: there is no list.
    fn pop_one(&mut self, key: &[u8], side: Side) -> Outcome<Option<Vec<u8>>> {
        let popped = self.retry(|ctx| {
            let Some(mut list) = ctx.open(key, Kind::List)? else { return Ok(Some(None)) };
            let Some(element) = list.pop(side)? else { return Ok(Some(None)) };
            let left = list.len();
            Ok(list.commit(ctx)?.map(|()| Some((element, left))))
        })?;
        let Some((element, left)) = popped else { return Ok(None) };
        self.popped(side, key, left == 0);
        Ok(Some(element))
    }
}

/// LMPOP numkeys key [key ...] LEFT | RIGHT [COUNT count]
pub(super) fn lmpop(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let (keys, side, most) = many(args, 1)?;
        if !pop_first(ctx, args, lmpop, keys, side, most)? {
            ctx.reply().null_array();
        }
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// BLMPOP timeout numkeys key [key ...] LEFT | RIGHT [COUNT count]
pub(super) fn blmpop(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let deadline = timeout::deadline(args.get(1), ctx.now)?;
        let (keys, side, most) = many(args, 2)?;
        if !pop_first(ctx, args, blmpop, keys.clone(), side, most)? {
            let keys = keys.map(|at| args.get(at).into()).collect();
            ctx.wait(keys, Wish::Elements(side, most), deadline);
        }
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// Parses the keys after their number at `at`, the side, and the number of elements.
fn many(args: &Args<'_>, at: usize) -> Outcome<(std::ops::Range<usize>, Side, u64)> {
    let keys = numbered(args, at)?;
    let side = Side::parse(args.get(keys.end)).filter(|_| keys.end < args.len()).ok_or(SYNTAX)?;
    Ok((keys.clone(), side, count_option(args, keys.end + 1)?))
}

/// Parses keys after their number at `at`; arguments follow them.
pub(super) fn numbered(args: &Args<'_>, at: usize) -> Outcome<std::ops::Range<usize>> {
    const NOT_POSITIVE: &str = "ERR numkeys should be greater than 0";
    let number = parse_i64(args.get(at)).filter(|number| *number > 0).ok_or(NOT_POSITIVE)?;
    let end = usize::try_from(number).ok().and_then(|number| number.checked_add(at + 1));
    let end = end.filter(|end| *end < args.len()).ok_or(SYNTAX)?;
    few_keys(end - at - 1)?;
    Ok(at + 1..end)
}

/// Parses `[COUNT count]` at the end of the arguments.
pub(super) fn count_option(args: &Args<'_>, at: usize) -> Outcome<u64> {
    let mut count = None;
    let mut at = at;
    while at < args.len() {
        if count.is_some() || !args.is(at, "COUNT") || at + 1 >= args.len() {
            return Err(SYNTAX.into());
        }
        let number = parse_i64(args.get(at + 1)).filter(|number| *number > 0);
        count = Some(number.ok_or("ERR count should be greater than 0")? as u64);
        at += 2;
    }
    Ok(count.unwrap_or(1))
}

fn pop_first(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    again: super::Run,
    keys: std::ops::Range<usize>,
    side: Side,
    most: u64,
) -> Outcome<bool> {
    for key in keys {
        let Some(list) = ctx.open(args.get(key), Kind::List)? else { continue };
        let most = most.min(list.len());
        drop(list);
        let from = ctx.out.scratch().len();
        let mut reply = ctx.reply();
        reply.array(2);
        reply.bulk(args.get(key));
        let head = ctx.out.scratch().len();
        ctx.reply().array(most as usize);
        ctx.pop_many(args, again, from, Popping { key, side, left: most, popped: 0, head });
        return Ok(true);
    }
    Ok(false)
}

/// Elements that a waiting client gets at once, if they are short; it asks for the rest.
const SERVED: u64 = 1024;

/// Serves a client that waits for a list. False: nobody behind it can be served now. `held`: keys
/// that are held until all clients are served.
pub(super) fn serve<'s>(
    ctx: &mut Ctx<'_>,
    shared: &'s Shared,
    key: &[u8],
    waiter: &Waiter,
    held: &mut Vec<StripeGuard<'s>>,
) -> bool {
    let len = match ctx.open(key, Kind::List) {
        Ok(Some(list)) => list.len(),
        Ok(None) => return false,
        // Another type, for which others may wait.
        Err(_) => return true,
    };
    let (side, most) = match &waiter.wish {
        Wish::Move(take, put, to) => {
            if **to != *key {
                match shared.locks.try_write(to) {
                    Some(guard) => held.push(guard),
                    // Its own command takes both keys in order.
                    None => return !waiter.call(),
                }
            }
            waiter.answer(|reply| {
                match ctx.move_element((key, *take), (to, *put)) {
                    Ok(Some(element)) => reply.bulk(&element),
                    Ok(None) => return false,
                    Err(_) => reply.error(WRONG_TYPE),
                }
                true
            });
            return true;
        }
        Wish::Element(side) => (*side, 1),
        Wish::Elements(side, most) => (*side, (*most).min(len).min(SERVED)),
        Wish::Member { .. } | Wish::Members { .. } | Wish::Entries(_) | Wish::Nothing => {
            return true;
        }
    };
    waiter.answer(|reply| {
        let Ok(elements) = ctx.take_elements(key, side, most) else { return false };
        answer(reply, key, &elements, matches!(waiter.wish, Wish::Elements(..)));
        !elements.is_empty()
    });
    true
}

fn answer(reply: &mut Reply<'_>, key: &[u8], elements: &[Vec<u8>], many: bool) {
    reply.array(2);
    reply.bulk(key);
    if many {
        reply.array(elements.len());
    }
    elements.iter().for_each(|element| reply.bulk(element));
}

impl Ctx<'_> {
    /// Moves an element from an end of a list to an end of another. None: there is none.
    fn move_element(
        &mut self,
        (from, take): (&[u8], Side),
        (to, put): (&[u8], Side),
    ) -> Outcome<Option<Vec<u8>>> {
        let moved = self.retry(|ctx| {
            let Some(source) = ctx.open(from, Kind::List)? else { return Ok(Some(None)) };
            let is_last = source.len() == 1 && from != to;
            drop(source);
            Ok(shift(ctx, (from, take), (to, put))?.map(|element| Some((element, is_last))))
        })?;
        let Some((element, is_last)) = moved else { return Ok(None) };
        let event = if put == Side::Left { "lpush" } else { "rpush" };
        self.modified(Class::List, event, to);
        self.popped(take, from, is_last);
        Ok(Some(element))
    }

    fn take_elements(&mut self, key: &[u8], side: Side, most: u64) -> Outcome<Vec<Vec<u8>>> {
        let (elements, left) = self.retry(|ctx| {
            let (mut elements, mut bytes) = (Vec::new(), 0);
            let Some(mut list) = ctx.open(key, Kind::List)? else {
                return Ok(Some((elements, 1)));
            };
            while (elements.len() as u64) < most
                && bytes < BYTES
                && let Some(element) = list.pop(side)?
            {
                bytes += element.len();
                elements.push(element);
            }
            let left = list.len();
            Ok(list.commit(ctx)?.map(|()| (elements, left)))
        })?;
        if !elements.is_empty() {
            self.popped(side, key, left == 0);
        }
        Ok(elements)
    }
}
