//! Ranges of sorted sets. Each is found as a range of positions.

use std::ops::Range;

use larder_proto::resp::{
    Args,
    collection::{Item, Items, Kind, Shape, parse_bound, rank_above, rank_key},
    number::parse_i64,
};
use larder_store::PutError;

use super::super::super::ctx::{Class, Ctx};
use super::super::collection::{At, BYTES, Coll, ITEMS, Tree};
use super::super::errors::{NOT_INTEGER, Outcome, Refused, SYNTAX, refused};
use super::super::{Run, join::ENTRY, range::clamped};
use super::{Ranked, answer, answer_head};
use crate::room::{Held, Place};

/// How a range is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Member,
}

/// An end of a range of members.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound<'a> {
    Least,
    Greatest,
    At(&'a [u8]),
    Beyond(&'a [u8]),
}

/// A parsed range.
#[derive(Clone, Copy, Debug)]
enum Ends<'a> {
    Ranks(i64, i64),
    /// Each with whether it is excluded.
    Scores((f64, bool), (f64, bool)),
    Members(Bound<'a>, Bound<'a>),
}

fn score_bound(text: &[u8]) -> Outcome<(f64, bool)> {
    const NOT_FLOAT: &str = "ERR min or max is not a float";
    match text.strip_prefix(b"(") {
        Some(rest) => Ok((parse_bound(rest).ok_or(NOT_FLOAT)?, true)),
        None => Ok((parse_bound(text).ok_or(NOT_FLOAT)?, false)),
    }
}

fn member_bound(text: &[u8]) -> Outcome<Bound<'_>> {
    match text {
        b"-" => Ok(Bound::Least),
        b"+" => Ok(Bound::Greatest),
        [b'[', member @ ..] => Ok(Bound::At(member)),
        [b'(', member @ ..] => Ok(Bound::Beyond(member)),
        _ => Err("ERR min or max not valid string range item".into()),
    }
}

impl<'a> Ends<'a> {
    fn parse(by: By, least: &'a [u8], greatest: &'a [u8]) -> Outcome<Ends<'a>> {
        Ok(match by {
            By::Rank => Ends::Ranks(
                parse_i64(least).ok_or(NOT_INTEGER)?,
                parse_i64(greatest).ok_or(NOT_INTEGER)?,
            ),
            By::Score => Ends::Scores(score_bound(least)?, score_bound(greatest)?),
            By::Member => Ends::Members(member_bound(least)?, member_bound(greatest)?),
        })
    }

    /// The positions of its members. Ranks count from the end if `reverse`.
    fn positions(self, set: &Coll<'_>, reverse: bool) -> Outcome<Range<u64>> {
        let len = set.len();
        let range = match self {
            Ends::Ranks(start, stop) => {
                let (from, to) = clamped(start, stop, len);
                let before = stop < 0 && stop.unsigned_abs() > len;
                let (from, to) = if before { (0, 0) } else { (from, to) };
                if reverse { len - to..len - from } else { from..to }
            }
            Ends::Scores((least, no_least), (greatest, no_greatest)) => {
                let from = below_score(set, least, no_least)?;
                from..below_score(set, greatest, !no_greatest)?
            }
            Ends::Members(least, greatest) => {
                let from = below_member(set, least, false)?;
                from..below_member(set, greatest, true)?
            }
        };
        Ok(if range.start < range.end { range } else { 0..0 })
    }
}

/// Number of members below a score, or `with` those that have it.
fn below_score(set: &Coll<'_>, score: f64, with: bool) -> Outcome<u64> {
    if with {
        set.count_before(&rank_above(score), &|item| item.score <= score)
    } else {
        set.count_before(&rank_key(score, b""), &|item| item.score < score)
    }
}

/// Number of members below a bound; of an upper one (`is_end`), those in the range included. The
/// members have one score.
fn below_member(set: &Coll<'_>, bound: Bound<'_>, is_end: bool) -> Outcome<u64> {
    let (member, with) = match bound {
        Bound::Least => return Ok(0),
        Bound::Greatest => return Ok(set.len()),
        Bound::At(member) => (member, is_end),
        Bound::Beyond(member) => (member, !is_end),
    };
    let Some(score) = set.nth(0, |item| item.score)? else { return Ok(0) };
    let mut key = rank_key(score, member);
    if with {
        key.push(0);
    }
    set.count_before(&key, &|item: &Item<'_>| {
        if with { item.bytes <= member } else { item.bytes < member }
    })
}

/// Options of a range.
struct Asked<'a> {
    ends: Ends<'a>,
    reverse: bool,
    with_scores: bool,
    offset: i64,
    limit: i64,
}

impl<'a> Asked<'a> {
    /// Parses `min max [options]` from `at` on. `fixed`: the range and direction of the command,
    /// of which ZRANGE has none.
    fn parse(
        args: &Args<'a>,
        at: usize,
        (mut by, mut reverse): (Option<By>, Option<bool>),
        stores: bool,
    ) -> Outcome<Asked<'a>> {
        let (mut with_scores, mut offset, mut limit) = (false, 0, -1);
        let mut option = at + 2;
        while option < args.len() {
            if !stores && args.is(option, "WITHSCORES") {
                with_scores = true;
            } else if args.is(option, "LIMIT") && option + 2 < args.len() {
                offset = parse_i64(args.get(option + 1)).ok_or(NOT_INTEGER)?;
                limit = parse_i64(args.get(option + 2)).ok_or(NOT_INTEGER)?;
                option += 2;
            } else if reverse.is_none() && args.is(option, "REV") {
                reverse = Some(true);
            } else if by.is_none() && args.is(option, "BYLEX") {
                by = Some(By::Member);
            } else if by.is_none() && args.is(option, "BYSCORE") {
                by = Some(By::Score);
            } else {
                return Err(SYNTAX.into());
            }
            option += 1;
        }
        let (by, reverse) = (by.unwrap_or(By::Rank), reverse.unwrap_or(false));
        if limit != -1 && by == By::Rank {
            return Err("ERR syntax error, LIMIT is only supported in combination with either \
                        BYSCORE or BYLEX"
                .into());
        }
        if with_scores && by == By::Member {
            return Err(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX".into()
            );
        }
        let (least, greatest) = match reverse && by != By::Rank {
            true => (args.get(at + 1), args.get(at)),
            false => (args.get(at), args.get(at + 1)),
        };
        let ends = Ends::parse(by, least, greatest)?;
        Ok(Asked { ends, reverse, with_scores, offset, limit })
    }

    /// The positions of the members asked for.
    fn positions(&self, set: &Coll<'_>) -> Outcome<Range<u64>> {
        let Range { start, end } = self.ends.positions(set, self.reverse)?;
        if matches!(self.ends, Ends::Ranks(..)) {
            return Ok(start..end);
        }
        // An offset below zero is one beyond the end.
        let offset = u64::try_from(self.offset).unwrap_or(u64::MAX).min(end - start);
        let limit = u64::try_from(self.limit).unwrap_or(u64::MAX);
        Ok(if self.reverse {
            let end = end - offset;
            end - limit.min(end - start)..end
        } else {
            let start = start + offset;
            start..start + limit.min(end - start)
        })
    }
}

/// ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]
pub(in super::super) fn zrange(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    list(ctx, args, zrange, (None, None));
}

/// ZREVRANGE key start stop [WITHSCORES]
pub(in super::super) fn zrevrange(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    list(ctx, args, zrevrange, (Some(By::Rank), Some(true)));
}

/// ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]
pub(in super::super) fn zrangebyscore(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    list(ctx, args, zrangebyscore, (Some(By::Score), Some(false)));
}

/// ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]
pub(in super::super) fn zrevrangebyscore(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    list(ctx, args, zrevrangebyscore, (Some(By::Score), Some(true)));
}

/// ZRANGEBYLEX key min max [LIMIT offset count]
pub(in super::super) fn zrangebylex(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    list(ctx, args, zrangebylex, (Some(By::Member), Some(false)));
}

/// ZREVRANGEBYLEX key max min [LIMIT offset count]
pub(in super::super) fn zrevrangebylex(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    list(ctx, args, zrevrangebylex, (Some(By::Member), Some(true)));
}

/// Members being answered.
struct Listing {
    positions: Range<u64>,
    reverse: bool,
    with_scores: bool,
}

fn list(ctx: &mut Ctx<'_>, args: &Args<'_>, again: Run, fixed: (Option<By>, Option<bool>)) {
    let outcome = (|| {
        let asked = Asked::parse(args, 2, fixed, false)?;
        let positions = ctx.retry(|ctx| {
            let set = ctx.open_to_read(args.get(1), Kind::SortedSet)?;
            Ok(Some(set.map_or(Ok(0..0), |set| asked.positions(&set))?))
        })?;
        let from = ctx.out.scratch().len();
        answer_head(ctx, positions.end - positions.start, asked.with_scores);
        let Asked { reverse, with_scores, .. } = asked;
        let listing = Listing { positions, reverse, with_scores };
        ctx.steps_from(args, again, from, listing, |ctx, args, listing| {
            let Range { start, end } = listing.positions;
            if start >= end {
                return Ok(true);
            }
            let Some(set) = ctx.open(args.get(1), Kind::SortedSet)? else {
                return Err(Refused::Lost);
            };
            let at = if listing.reverse { end - 1 } else { start };
            let found = set.locate(Tree::Main, At::Position(at))?;
            let run = found.run.whole();
            let here = start.max(found.before)..end.min(found.before + found.count);
            let items = Items::new(Shape::Scored, &run)
                .skip((here.start - found.before) as usize)
                .take((here.end - here.start) as usize);
            if listing.reverse {
                let items: Result<Vec<_>, _> = items.collect();
                for item in items?.iter().rev() {
                    answer(ctx, item.bytes, item.score, listing.with_scores);
                }
                listing.positions.end = here.start;
            } else {
                for item in items {
                    let item = item?;
                    answer(ctx, item.bytes, item.score, listing.with_scores);
                }
                listing.positions.start = here.end;
            }
            Ok(listing.positions.is_empty())
        });
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// ZRANGESTORE destination source start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count]
pub(in super::super) fn zrangestore(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let asked = Asked::parse(args, 3, (None, None), true)?;
        let positions = ctx.retry(|ctx| {
            let set = ctx.open_to_read(args.get(2), Kind::SortedSet)?;
            Ok(Some(set.map_or(Ok(0..0), |set| asked.positions(&set))?))
        })?;
        // The source may be the destination: its members are kept first.
        let held = Held::new(&ctx.conn.known.client.holder, Place::Heap);
        let job = (positions, Ranked::default(), (held, 0));
        ctx.steps(args, zrangestore, job, |ctx, args, (positions, members, (held, charged))| {
            if !positions.is_empty() {
                let Some(set) = ctx.open(args.get(2), Kind::SortedSet)? else {
                    return Err(Refused::Lost);
                };
                let (mut at, mut bytes) = (positions.start, 0);
                let end = positions.end.min(at + ITEMS as u64);
                set.each(Tree::Main, at, &mut |item| {
                    let member: Box<[u8]> = item.bytes.into();
                    bytes += member.len();
                    members.insert(rank_key(item.score, &member), (item.score, member));
                    at += 1;
                    at < end && bytes < BYTES
                })?;
                *charged += (at - positions.start) * ENTRY + 2 * bytes as u64;
                positions.start = at;
                if !held.resize(*charged) {
                    return Err(refused(PutError::Full, b""));
                }
                return Ok(false);
            }
            let none = Held::new(&ctx.conn.known.client.holder, Place::Heap);
            let result = (std::mem::take(members), std::mem::replace(held, none));
            super::store(ctx, args, 1, "zrangestore", result);
            Ok(true)
        });
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// ZCOUNT key min max
pub(in super::super) fn zcount(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    count(ctx, args, By::Score);
}

/// ZLEXCOUNT key min max
pub(in super::super) fn zlexcount(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    count(ctx, args, By::Member);
}

fn count(ctx: &mut Ctx<'_>, args: &Args<'_>, by: By) {
    let outcome = (|| {
        let ends = Ends::parse(by, args.get(2), args.get(3))?;
        let positions = ctx.retry(|ctx| {
            let set = ctx.open_to_read(args.get(1), Kind::SortedSet)?;
            Ok(Some(set.map_or(Ok(0..0), |set| ends.positions(&set, false))?))
        })?;
        ctx.reply().integer((positions.end - positions.start) as i64);
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// ZREMRANGEBYRANK key start stop
pub(in super::super) fn zremrangebyrank(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    remove(ctx, args, zremrangebyrank, By::Rank, "zremrangebyrank");
}

/// ZREMRANGEBYSCORE key min max
pub(in super::super) fn zremrangebyscore(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    remove(ctx, args, zremrangebyscore, By::Score, "zremrangebyscore");
}

/// ZREMRANGEBYLEX key min max
pub(in super::super) fn zremrangebylex(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    remove(ctx, args, zremrangebylex, By::Member, "zremrangebylex");
}

fn remove(ctx: &mut Ctx<'_>, args: &Args<'_>, again: Run, by: By, event: &'static str) {
    let outcome = (|| {
        let ends = Ends::parse(by, args.get(2), args.get(3))?;
        let Range { start, end } = ctx.retry(|ctx| {
            let set = ctx.open(args.get(1), Kind::SortedSet)?;
            Ok(Some(set.map_or(Ok(0..0), |set| ends.positions(&set, false))?))
        })?;
        let job = (start, end - start, 0, event);
        ctx.steps(args, again, job, |ctx, args, (at, left, removed, event)| {
            let key = args.get(1);
            let mut is_gone = false;
            if *left > 0
                && let Some(mut set) = ctx.open(key, Kind::SortedSet)?
            {
                let more = if *left >= set.len() {
                    // All of it: the parts are freed in the background.
                    std::mem::take(&mut set.head.count)
                } else {
                    let most = (*left).min(set.changes_in_a_step() as u64);
                    set.remove_ranked(*at, most, &mut |_, _| {})?
                };
                is_gone = set.len() == 0;
                if set.commit(ctx)?.is_none() {
                    return Ok(false);
                }
                *left = left.saturating_sub(more);
                *removed += more;
                if *left > 0 && !is_gone && more > 0 {
                    return Ok(false);
                }
            }
            ctx.reply().integer(*removed as i64);
            if *removed > 0 {
                ctx.modified(Class::SortedSet, event, key);
            }
            if is_gone {
                ctx.event(Class::Generic, "del", key);
            }
            Ok(true)
        });
        Ok(())
    })();
    ctx.settle(outcome, args);
}
