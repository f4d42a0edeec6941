//! Members taken from the ends of sorted sets, and random ones.

use larder_proto::resp::{Args, Reply, Version, collection::Kind, number::parse_i64};

use super::super::super::{
    ctx::{Class, Ctx},
    waiter::Waiter,
};
use super::super::collection::BYTES;
use super::super::errors::{Outcome, Refused, SYNTAX, few_keys};
use super::super::list_moves::{Wish, count_option, numbered};
use super::super::{Run, timeout};
use super::{answer, answer_head};

/// A member and its score.
type Member = (Vec<u8>, f64);

/// ZPOPMIN key [count]
pub(in super::super) fn zpopmin(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    pop(ctx, args, zpopmin, false);
}

/// ZPOPMAX key [count]
pub(in super::super) fn zpopmax(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    pop(ctx, args, zpopmax, true);
}

fn pop(ctx: &mut Ctx<'_>, args: &Args<'_>, again: Run, max: bool) {
    const NOT_POSITIVE: &str = "ERR value is out of range, must be positive";
    let outcome = (|| {
        if args.len() > 3 {
            return Err(SYNTAX.into());
        }
        let count = match args.len() {
            3 => parse_i64(args.get(2)).and_then(|count| u64::try_from(count).ok()),
            _ => Some(1),
        };
        let count = count.ok_or(NOT_POSITIVE)?;
        let len = ctx.open(args.get(1), Kind::SortedSet)?.map_or(0, |set| set.len());
        let most = count.min(len);
        if most == 0 {
            ctx.reply().array(0);
            return Ok(());
        }
        let from = ctx.out.scratch().len();
        let nested = ctx.version == Version::V3 && args.len() == 3;
        ctx.reply().array(most as usize * if nested { 1 } else { 2 });
        let popping = Popping { key: 1, max, left: most, nested, popped: 0, head: from };
        ctx.pop_members(args, again, from, popping);
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// Members being taken.
struct Popping {
    /// The sorted set, among the arguments.
    key: usize,
    max: bool,
    left: u64,
    /// Each with its score is an array.
    nested: bool,
    popped: u64,
    /// Start of the array of members in the answer.
    head: usize,
}

impl Ctx<'_> {
    /// Takes members and answers them, in steps; the head of the answer is composed.
    fn pop_members(&mut self, args: &Args<'_>, again: Run, from: usize, popping: Popping) {
        self.steps_from(args, again, from, popping, |ctx, args, popping| {
            let key = args.get(popping.key);
            let taken = ctx.take_members(key, popping.max, popping.left);
            let (members, left) = match taken.and_then(|taken| taken.ok_or(Refused::Lost)) {
                Ok(taken) => taken,
                // Members that were taken are the answer, fewer than there should be.
                Err(_) if popping.popped > 0 => {
                    let each = if popping.nested { 1 } else { 2 };
                    ctx.shorten(popping.head, popping.popped * each);
                    ctx.popped_members(key, popping.max, false);
                    return Ok(true);
                }
                Err(error) => return Err(error),
            };
            for (member, score) in &members {
                if popping.nested {
                    ctx.reply().array(2);
                }
                ctx.reply().bulk(member);
                ctx.reply().double(*score);
            }
            popping.left -= members.len() as u64;
            popping.popped += members.len() as u64;
            if popping.left > 0 && left > 0 {
                return Ok(false);
            }
            ctx.popped_members(key, popping.max, left == 0);
            Ok(true)
        });
    }

    /// Takes members, as many as one step changes; returns the number of those that stay. None:
    /// there is no sorted set.
    fn take_members(
        &mut self,
        key: &[u8],
        max: bool,
        most: u64,
    ) -> Outcome<Option<(Vec<Member>, u64)>> {
        self.retry(|ctx| {
            let Some(mut set) = ctx.open(key, Kind::SortedSet)? else { return Ok(Some(None)) };
            let most = most.min(set.changes_in_a_step() as u64);
            let mut members: Vec<Member> = Vec::new();
            let mut bytes = 0;
            while (members.len() as u64) < most && bytes < BYTES && set.len() > 0 {
                let most = most - members.len() as u64;
                let at = members.len();
                if max {
                    // Those of the last run.
                    let last = set.last_run()?.min(most);
                    set.remove_ranked(set.len() - last, last, &mut |member, score| {
                        members.push((member.to_vec(), score));
                    })?;
                    members[at..].reverse();
                } else {
                    set.remove_ranked(0, most, &mut |member, score| {
                        members.push((member.to_vec(), score));
                    })?;
                }
                if members.len() == at {
                    break;
                }
                bytes += members[at..].iter().map(|(member, _)| member.len()).sum::<usize>();
            }
            let left = set.len();
            Ok(set.commit(ctx)?.map(|()| Some((members, left))))
        })
    }

    fn popped_members(&mut self, key: &[u8], max: bool, is_gone: bool) {
        let event = if max { "zpopmax" } else { "zpopmin" };
        self.modified(Class::SortedSet, event, key);
        if is_gone {
            self.event(Class::Generic, "del", key);
        }
    }
}

/// BZPOPMIN key [key ...] timeout
pub(in super::super) fn bzpopmin(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = pop_or_wait(ctx, args, false);
    ctx.settle(outcome, args);
}

/// BZPOPMAX key [key ...] timeout
pub(in super::super) fn bzpopmax(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = pop_or_wait(ctx, args, true);
    ctx.settle(outcome, args);
}

fn pop_or_wait(ctx: &mut Ctx<'_>, args: &Args<'_>, max: bool) -> Outcome {
    let deadline = timeout::deadline(args.get(args.len() - 1), ctx.now)?;
    few_keys(args.len() - 2)?;
    for at in 1..args.len() - 1 {
        let key = args.get(at);
        let Some((members, left)) = ctx.take_members(key, max, 1)? else { continue };
        one(&mut ctx.reply(), key, &members);
        ctx.popped_members(key, max, left == 0);
        return Ok(());
    }
    let keys = (1..args.len() - 1).map(|at| args.get(at).into()).collect();
    ctx.wait(keys, Wish::Member { max }, deadline);
    Ok(())
}

/// The answer of BZPOPMIN.
fn one(reply: &mut Reply<'_>, key: &[u8], members: &[Member]) {
    reply.array(3);
    reply.bulk(key);
    for (member, score) in members {
        reply.bulk(member);
        reply.double(*score);
    }
}

/// ZMPOP numkeys key [key ...] MIN | MAX [COUNT count]
pub(in super::super) fn zmpop(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let (keys, max, most) = many(args, 1)?;
        if !pop_first(ctx, args, zmpop, keys, max, most)? {
            ctx.reply().null_array();
        }
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// BZMPOP timeout numkeys key [key ...] MIN | MAX [COUNT count]
pub(in super::super) fn bzmpop(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let deadline = timeout::deadline(args.get(1), ctx.now)?;
        let (keys, max, most) = many(args, 2)?;
        if !pop_first(ctx, args, bzmpop, keys.clone(), max, most)? {
            let keys = keys.map(|at| args.get(at).into()).collect();
            ctx.wait(keys, Wish::Members { max, most }, deadline);
        }
        Ok(())
    })();
    ctx.settle(outcome, args);
}

fn many(args: &Args<'_>, at: usize) -> Outcome<(std::ops::Range<usize>, bool, u64)> {
    let keys = numbered(args, at)?;
    let max = match () {
        () if args.is(keys.end, "MIN") => false,
        () if args.is(keys.end, "MAX") => true,
        () => return Err(SYNTAX.into()),
    };
    Ok((keys.clone(), max, count_option(args, keys.end + 1)?))
}

fn pop_first(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    again: Run,
    keys: std::ops::Range<usize>,
    max: bool,
    most: u64,
) -> Outcome<bool> {
    for key in keys {
        let Some(set) = ctx.open(args.get(key), Kind::SortedSet)? else { continue };
        let most = most.min(set.len());
        drop(set);
        let from = ctx.out.scratch().len();
        let mut reply = ctx.reply();
        reply.array(2);
        reply.bulk(args.get(key));
        let head = ctx.out.scratch().len();
        ctx.reply().array(most as usize);
        let popping = Popping { key, max, left: most, nested: true, popped: 0, head };
        ctx.pop_members(args, again, from, popping);
        return Ok(true);
    }
    Ok(false)
}

/// Members that a waiting client gets at once; it asks for the rest.
const SERVED: u64 = 1024;

/// Serves a client that waits for a sorted set. False: nobody behind it can be served now.
pub(in super::super) fn serve(ctx: &mut Ctx<'_>, key: &[u8], waiter: &Waiter) -> bool {
    match ctx.open(key, Kind::SortedSet) {
        Ok(Some(_)) => {}
        Ok(None) => return false,
        // Another type, for which others may wait.
        Err(_) => return true,
    }
    let (max, most) = match waiter.wish {
        Wish::Member { max } => (max, 1),
        Wish::Members { max, most } => (max, most.min(SERVED)),
        Wish::Element(_)
        | Wish::Elements(..)
        | Wish::Move(..)
        | Wish::Entries(_)
        | Wish::Nothing => return true,
    };
    waiter.answer(|reply| {
        let Ok(Some((members, left))) = ctx.take_members(key, max, most) else { return false };
        if matches!(waiter.wish, Wish::Member { .. }) {
            one(reply, key, &members);
        } else {
            reply.array(2);
            reply.bulk(key);
            reply.array(members.len());
            for (member, score) in &members {
                reply.array(2);
                reply.bulk(member);
                reply.double(*score);
            }
        }
        ctx.popped_members(key, max, left == 0);
        !members.is_empty()
    });
    true
}

/// ZRANDMEMBER key [count [WITHSCORES]]
pub(in super::super) fn zrandmember(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        if args.len() == 2 {
            let member = ctx.retry(|ctx| {
                let set = ctx.open_to_read(args.get(1), Kind::SortedSet)?;
                Ok(Some(set.map(|set| set.any()).transpose()?.flatten()))
            })?;
            match member {
                Some((member, _)) => ctx.reply().bulk(&member),
                None => ctx.reply().null(),
            }
            return Ok(());
        }
        let (count, with_scores) = super::super::draws(args, "WITHSCORES")?;
        let head = |ctx: &mut Ctx<'_>, members| answer_head(ctx, members, with_scores);
        let one: fn(&mut Ctx<'_>, &[u8], f64, bool) = answer;
        ctx.draw(args, zrandmember, Kind::SortedSet, (count, with_scores), head, one)
    })();
    ctx.settle(outcome, args);
}
