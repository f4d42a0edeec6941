//! Sets: commands on single members, walks and random members.

use std::sync::atomic::Ordering::Relaxed;

use larder_proto::resp::{
    Args,
    collection::{Items, Kind, Shape},
    number::{self, Text, parse_cursor, parse_i64},
};

use super::super::ctx::{Class, Ctx};
use super::collection::{At, BYTES, ITEMS, Tree, portion};
use super::drawing::drawn;
use super::errors::{Outcome, Refused, SYNTAX};
use super::walk::{BAD_CURSOR, Options};

/// Most members that a step of SSCAN or ZSCAN shows, whatever COUNT says.
const MOST: usize = 4 * 1024;
/// Their bytes.
const MOST_BYTES: usize = 1024 * 1024;
/// Steps of comparisons with a pattern after which a walk shows no more members.
const COMPARED: usize = 1_000_000;

/// SADD key member [member ...]
pub(super) fn sadd(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    change(ctx, args, sadd, true);
}

/// SREM key member [member ...]
pub(super) fn srem(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    change(ctx, args, srem, false);
}

fn change(ctx: &mut Ctx<'_>, args: &Args<'_>, again: super::Run, adds: bool) {
    ctx.steps(args, again, (2, 0, adds), |ctx, args, (at, changed, adds)| {
        let key = args.get(1);
        let mut some = args.len() - *at;
        let done = ctx.retry(|ctx| {
            let mut set = match ctx.open(key, Kind::Set)? {
                Some(set) => set,
                None if *adds => ctx.new_coll(key, Kind::Set, None),
                None => return Ok(Some((0, false))),
            };
            some = portion(args, *at, set.changes_in_a_step());
            let mut more = 0;
            for member in args.from(*at).take(some) {
                let done = if *adds { set.add(member)? } else { set.remove(member)? };
                more += i64::from(done);
            }
            let is_gone = set.len() == 0;
            if more == 0 {
                return Ok(Some((0, false)));
            }
            Ok(set.commit(ctx)?.map(|()| (more, is_gone)))
        });
        let event = if *adds { "sadd" } else { "srem" };
        let (more, is_gone) = match done {
            Ok(done) => done,
            Err(error) => {
                // Earlier changes stay.
                if *changed > 0 {
                    ctx.modified(Class::Set, event, key);
                }
                return Err(error);
            }
        };
        (*at, *changed) = (*at + some, *changed + more);
        if *at < args.len() && !is_gone {
            return Ok(false);
        }
        ctx.reply().integer(*changed);
        if *changed > 0 {
            ctx.modified(Class::Set, event, key);
        }
        if is_gone {
            ctx.event(Class::Generic, "del", key);
        }
        Ok(true)
    });
}

/// SCARD key
pub(super) fn scard(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let len = ctx.open_to_read(args.get(1), Kind::Set)?.map_or(0, |set| set.len());
        ctx.reply().integer(len as i64);
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// SISMEMBER key member
pub(super) fn sismember(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = ctx.retry(|ctx| {
        let set = ctx.open_to_read(args.get(1), Kind::Set)?;
        Ok(Some(set.map_or(Ok(false), |set| set.has(args.get(2)))?))
    });
    match outcome {
        Ok(has) => ctx.reply().integer(has.into()),
        Err(error) => ctx.settle(Err(error), args),
    }
}

/// SMISMEMBER key member [member ...]
pub(super) fn smismember(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    ctx.steps(args, smismember, 2, |ctx, args, at| {
        let set = match *at {
            2 => ctx.open_to_read(args.get(1), Kind::Set)?,
            _ => ctx.open(args.get(1), Kind::Set)?,
        };
        if *at == 2 {
            ctx.reply().array(args.len() - 2);
        }
        for member in args.from(*at).take(ITEMS) {
            let has = set.as_ref().map_or(Ok(false), |set| set.has(member))?;
            ctx.reply().integer(has.into());
        }
        *at += ITEMS;
        Ok(*at >= args.len())
    });
}

/// SMEMBERS key
pub(super) fn smembers(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let len = ctx.open_to_read(args.get(1), Kind::Set)?.map_or(0, |set| set.len());
        let from = ctx.out.scratch().len();
        ctx.reply().set(len as usize);
        ctx.steps_from(args, smembers, from, (0, len == 0), |ctx, args, (at, is_empty)| {
            let Some(set) = ctx.open(args.get(1), Kind::Set)? else {
                // It was there when the number of its members was answered.
                return if *is_empty { Ok(true) } else { Err(Refused::Lost) };
            };
            let found = set.locate(Tree::Main, At::Position(*at))?;
            for item in Items::new(Shape::Bare, &found.run.whole()) {
                ctx.reply().bulk(item?.bytes);
            }
            *at = found.before + found.count;
            Ok(*at >= set.len())
        });
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// SMOVE source destination member
pub(super) fn smove(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let (from, to, member) = (args.get(1), args.get(2), args.get(3));
    let outcome = ctx.retry(|ctx| {
        let Some(mut source) = ctx.open(from, Kind::Set)? else { return Ok(Some(None)) };
        if from == to {
            return Ok(Some(source.has(member)?.then_some((false, false, true))));
        }
        let mut target = ctx.open_or_new(to, Kind::Set)?;
        if !source.remove(member)? {
            return Ok(Some(None));
        }
        let is_gone = source.len() == 0;
        let is_new = target.add(member)?;
        if is_new && target.commit(ctx)?.is_none() {
            return Ok(None);
        }
        let done = source.commit(ctx);
        // The source may be evicted when the destination has the member: it has moved.
        let is_evicted = is_new && done == Err(Refused::Lost);
        if !is_evicted && done?.is_none() {
            return Ok(None);
        }
        Ok(Some(Some((is_gone, is_new, false))))
    });
    match outcome {
        Ok(None) => ctx.reply().integer(0),
        Ok(Some((is_gone, is_new, same))) => {
            ctx.reply().integer(1);
            if same {
                return;
            }
            ctx.modified(Class::Set, "srem", from);
            if is_gone {
                ctx.event(Class::Generic, "del", from);
            }
            if is_new {
                ctx.modified(Class::Set, "sadd", to);
            }
        }
        Err(error) => ctx.settle(Err(error), args),
    }
}

/// SPOP key [count]
pub(super) fn spop(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    const NOT_POSITIVE: &str = "ERR value is out of range, must be positive";
    let outcome = (|| {
        if args.len() > 3 {
            return Err(SYNTAX.into());
        }
        if args.len() == 2 {
            let (popped, is_gone) = take(ctx, args.get(1), 1)?;
            if !popped.is_empty() {
                popped_members(ctx, args.get(1), is_gone);
            }
            match popped.first() {
                Some(member) => ctx.reply().bulk(member),
                None => ctx.reply().null(),
            }
            return Ok(());
        }
        let count = parse_i64(args.get(2)).and_then(|count| u64::try_from(count).ok());
        let count = count.ok_or(NOT_POSITIVE)?;
        let len = ctx.open(args.get(1), Kind::Set)?.map_or(0, |set| set.len());
        let from = ctx.out.scratch().len();
        let most = count.min(len);
        ctx.reply().set(most as usize);
        ctx.steps_from(args, spop, from, (most, most, from), |ctx, args, (left, all, head)| {
            if *left == 0 {
                return Ok(true);
            }
            let (popped, is_gone) = match take(ctx, args.get(1), *left) {
                Ok((popped, is_gone)) if !popped.is_empty() => (popped, is_gone),
                // Members that were taken are the answer, fewer than there should be.
                _ if *left < *all => {
                    ctx.shorten(*head, *all - *left);
                    popped_members(ctx, args.get(1), false);
                    return Ok(true);
                }
                Ok(_) => return Err(Refused::Lost),
                Err(error) => return Err(error),
            };
            popped.iter().for_each(|member| ctx.reply().bulk(member));
            *left -= popped.len() as u64;
            if *left == 0 {
                popped_members(ctx, args.get(1), is_gone);
            }
            Ok(*left == 0)
        });
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// Takes random members, as many as one step changes and not more than `most`. True: it has
/// no others.
fn take(ctx: &mut Ctx<'_>, key: &[u8], most: u64) -> Outcome<(Vec<Vec<u8>>, bool)> {
    ctx.retry(|ctx| {
        let (mut popped, mut bytes) = (Vec::new(), 0);
        let Some(mut set) = ctx.open(key, Kind::Set)? else { return Ok(Some((popped, false))) };
        let most = most.min(set.changes_in_a_step() as u64);
        while (popped.len() as u64) < most
            && bytes < BYTES
            && set.len() > 0
            && let Some((member, _)) = set.any()?
        {
            set.remove(&member)?;
            bytes += member.len();
            popped.push(member);
        }
        let is_gone = set.len() == 0;
        Ok(set.commit(ctx)?.map(|()| (popped, is_gone)))
    })
}

fn popped_members(ctx: &mut Ctx<'_>, key: &[u8], is_gone: bool) {
    ctx.modified(Class::Set, "spop", key);
    if is_gone {
        ctx.event(Class::Generic, "del", key);
    }
}

/// SRANDMEMBER key [count]
pub(super) fn srandmember(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        if args.len() > 3 {
            return Err(SYNTAX.into());
        }
        if args.len() == 2 {
            let member = ctx.retry(|ctx| {
                let set = ctx.open_to_read(args.get(1), Kind::Set)?;
                Ok(Some(set.map(|set| set.any()).transpose()?.flatten()))
            })?;
            match member {
                Some((member, _)) => ctx.reply().bulk(&member),
                None => ctx.reply().null(),
            }
            return Ok(());
        }
        let count = drawn(args.get(2))?;
        let head = |ctx: &mut Ctx<'_>, members: u64| ctx.reply().array(members as usize);
        ctx.draw(args, srandmember, Kind::Set, (count, false), head, |ctx, member, _, _| {
            ctx.reply().bulk(member);
        })
    })();
    ctx.settle(outcome, args);
}

/// SSCAN key cursor [MATCH pattern] [COUNT count]
pub(super) fn sscan(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = scan(ctx, args, Kind::Set);
    ctx.settle(outcome, args);
}

/// ZSCAN key cursor [MATCH pattern] [COUNT count]
pub(super) fn zscan(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = scan(ctx, args, Kind::SortedSet);
    ctx.settle(outcome, args);
}

/// A score as an integer, if it is one.
fn integral(score: f64) -> Option<i64> {
    let fits = score.abs() <= (i64::MAX / 2) as f64 && score.trunc() == score;
    fits.then_some(score as i64)
}

fn scan(ctx: &mut Ctx<'_>, args: &Args<'_>, kind: Kind) -> Outcome {
    let cursor = parse_cursor(args.get(2)).ok_or(BAD_CURSOR)?;
    let found = ctx.retry(|ctx| {
        let Some(coll) = ctx.open_to_read(args.get(1), kind)? else { return Ok(Some(None)) };
        let options = Options::parse(args, 3, false)?;
        let (mut steps, mut members, mut wanted) = (0, Vec::new(), options.count.min(MOST));
        let mut bytes = 0;
        if coll.is_packed() {
            wanted = MOST;
        }
        let next = coll.walk(cursor, wanted, &mut |item| {
            // A pattern that takes long ends the walk early; its members are shown unseen.
            if steps > COMPARED || options.matches_counted(item.bytes, &mut steps) {
                members.push((item.bytes.to_vec(), item.score));
                bytes += item.bytes.len();
            }
            bytes < MOST_BYTES
        })?;
        Ok(Some(Some((next, members))))
    })?;
    let (next, members) = found.unwrap_or_default();
    let is_sorted = kind == Kind::SortedSet;
    // Redis's small sorted sets keep integers as such.
    let config = &ctx.shared.config;
    let (entries, bytes) = (&config.listpack_entries, config.listpack_value.load(Relaxed));
    let is_small = next == 0
        && members.len() as u64 <= entries.load(Relaxed)
        && members.iter().all(|(member, _)| member.len() as u64 <= bytes);
    let mut reply = ctx.reply();
    reply.array(2);
    reply.bulk(Text::default().u64(next));
    reply.array(members.len() * if is_sorted { 2 } else { 1 });
    for (member, score) in members {
        reply.bulk(&member);
        if is_sorted {
            match integral(score).filter(|_| is_small) {
                Some(score) => reply.bulk_integer(score),
                None => reply.bulk(number::double(score).as_bytes()),
            }
        }
    }
    Ok(())
}
