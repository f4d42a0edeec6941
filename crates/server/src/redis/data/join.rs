//! Unions, intersections and differences of sets and sorted sets, in steps.

use std::ops::Range;

use larder_proto::resp::{
    Args,
    collection::{Items, Kind, Shape},
    number::parse_i64,
};
use larder_store::PutError;

use super::super::ctx::Ctx;
use super::access::type_name;
use super::collection::{At, Coll, SlowMap, Tree};
use super::errors::{Outcome, Refused, SYNTAX, WRONG_TYPE, few_keys, refused};
use crate::room::{Held, Place};

/// Comparisons between two checks of the clock.
const COMPARED: usize = 32;
/// Bytes of a member of a result beside its own.
pub(super) const ENTRY: u64 = 96;

/// How the sources are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Unite,
    Intersect,
    Subtract,
}

/// How the scores of a member are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, left: f64, right: f64) -> f64 {
        match self {
            Aggregate::Sum if (left + right).is_nan() => 0.0,
            Aggregate::Sum => left + right,
            Aggregate::Min if right < left => right,
            Aggregate::Max if right > left => right,
            Aggregate::Min | Aggregate::Max => left,
        }
    }
}

/// Use of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Answer,
    /// Its size, at most so much; 0: without a limit. Of an intersection alone.
    Count(u64),
    /// It is stored at the first key.
    Store(&'static str),
}

/// The members of a result, with their scores.
pub(super) type Members = SlowMap<Box<[u8]>, f64>;

/// A set or sorted set that is joined.
pub(super) struct Source {
    /// Its key, among the arguments.
    key: usize,
    pub(super) weight: f64,
    /// Its size at the beginning.
    len: u64,
}

/// A join in progress.
pub(super) struct Join {
    /// Type of the result. Sources of a sorted set may be sets, whose members have the score 1.
    kind: Kind,
    how: How,
    pub(super) aggregate: Aggregate,
    pub(super) target: Target,
    pub(super) sources: Vec<Source>,
    /// The current source, and the position in it.
    nth: usize,
    at: u64,
    /// Other sources that the current member was compared with, and its score after them.
    compared: usize,
    score: f64,
    /// Comparisons since the clock was looked at.
    work: usize,
    pub(super) found: Members,
    /// Number of members in the result.
    pub(super) count: u64,
    bytes: u64,
    /// Memory of the result.
    pub(super) held: Held,
}

impl Join {
    /// Looks at the sources, whose keys are these arguments.
    pub(super) fn new(
        ctx: &mut Ctx<'_>,
        args: &Args<'_>,
        (kind, how, target): (Kind, How, Target),
        keys: Range<usize>,
    ) -> Outcome<Join> {
        few_keys(keys.len())?;
        ctx.remember(keys.clone().map(|at| args.get(at)));
        let mut sources = Vec::with_capacity(keys.len());
        for key in keys {
            let entry = ctx.read(args.get(key));
            let found = source(ctx, args.get(key), entry, kind)?;
            let len = found.map_or(0, |found| found.len());
            sources.push(Source { key, weight: 1.0, len });
        }
        Ok(Join {
            kind,
            how,
            aggregate: Aggregate::Sum,
            target,
            sources,
            nth: 0,
            at: 0,
            compared: 0,
            score: 1.0,
            work: 0,
            found: Members::default(),
            count: 0,
            bytes: 0,
            held: Held::new(&ctx.conn.known.client.holder, Place::Heap),
        })
    }

    /// Orders the sources by their sizes, where their order does not matter: of an intersection
    /// only the first is walked over.
    pub(super) fn order(&mut self) {
        if self.how != How::Subtract {
            self.sources.sort_by_key(|source| source.len);
        }
    }

    /// Looks at some members. True: the result is complete.
    pub(super) fn collect<'a: 'k, 'k>(
        &mut self,
        ctx: &mut Ctx<'a>,
        args: &Args<'k>,
    ) -> Outcome<bool> {
        let Some(source) = self.sources.get(self.nth) else { return Ok(true) };
        let weight = source.weight;
        let set = source.open(ctx, args, self.kind)?.filter(|set| self.at < set.len());
        let Some(set) = set else {
            // Of an intersection and a difference only the first source is walked over.
            self.nth = if self.how == How::Unite { self.nth + 1 } else { self.sources.len() };
            self.at = 0;
            return Ok(false);
        };
        let mut others = Others::of(self);
        let located = set.locate(Tree::Main, At::Position(self.at))?;
        let shape = if set.kind == Kind::Set { Shape::Bare } else { Shape::Scored };
        let run = located.run.whole();
        for item in Items::new(shape, &run).skip((self.at - located.before) as usize) {
            let item = item?;
            if self.compared == 0 {
                let score = if set.kind == Kind::Set { 1.0 } else { item.score };
                let is_weighed = self.how != How::Subtract;
                self.score = if is_weighed { weighed(score, weight) } else { score };
            }
            let Some(takes) = self.compare(ctx, args, item.bytes, &mut others)? else {
                break;
            };
            (self.at, self.compared) = (self.at + 1, 0);
            if takes {
                self.add(item.bytes);
            }
            if let Target::Count(limit) = self.target
                && limit > 0
                && self.count >= limit
            {
                return Ok(true);
            }
        }
        if self.held.resize(self.bytes) { Ok(false) } else { Err(refused(PutError::Full, b"")) }
    }

    /// Compares a member with the other sources: is it in the result? None: the clock says that
    /// others come first.
    fn compare<'a: 'k, 'k>(
        &mut self,
        ctx: &mut Ctx<'a>,
        args: &Args<'k>,
        member: &[u8],
        others: &mut Others<'k>,
    ) -> Outcome<Option<bool>> {
        if self.how == How::Unite {
            return Ok(Some(true));
        }
        while self.compared + 1 < self.sources.len() {
            let source = &self.sources[self.compared + 1];
            let weight = source.weight;
            let other = others.get(self.compared, || source.open(ctx, args, self.kind))?;
            let score = other.map(|other| score_in(other, member)).transpose()?.flatten();
            (self.compared, self.work) = (self.compared + 1, self.work + 1);
            match (self.how, score) {
                (How::Intersect, Some(score)) => {
                    self.score = self.aggregate.of(self.score, weighed(score, weight));
                }
                (How::Subtract, None) => {}
                _ => return Ok(Some(false)),
            }
            if self.work >= COMPARED {
                self.work = 0;
                if ctx.is_over() {
                    return Ok(None);
                }
            }
        }
        Ok(Some(true))
    }

    fn add(&mut self, member: &[u8]) {
        if matches!(self.target, Target::Count(_)) {
            self.count += 1;
        } else if let Some(score) = self.found.get_mut(member) {
            *score = self.aggregate.of(*score, self.score);
        } else {
            self.found.insert(member.into(), self.score);
            self.count += 1;
            // A sorted set is ordered by score when it is complete, with a second copy.
            let copies = if self.kind == Kind::Set { 1 } else { 2 };
            self.bytes += ENTRY + copies * member.len() as u64;
        }
    }
}

/// The sources beside the first, opened when they are needed.
struct Others<'k>(Vec<Option<Option<Coll<'k>>>>);

impl<'k> Others<'k> {
    fn of(join: &Join) -> Others<'k> {
        let count = if join.how == How::Unite { 0 } else { join.sources.len() - 1 };
        Others((0..count).map(|_| None).collect())
    }

    fn get(
        &mut self,
        nth: usize,
        open: impl FnOnce() -> Outcome<Option<Coll<'k>>>,
    ) -> Outcome<Option<&Coll<'k>>> {
        if self.0[nth].is_none() {
            self.0[nth] = Some(open()?);
        }
        Ok(self.0[nth].as_ref().and_then(Option::as_ref))
    }
}

impl Source {
    /// Opens it. None: there is none.
    fn open<'a: 'k, 'k>(
        &self,
        ctx: &Ctx<'a>,
        args: &Args<'k>,
        kind: Kind,
    ) -> Outcome<Option<Coll<'k>>> {
        let key = args.get(self.key);
        let found = source(ctx, key, ctx.look(key), kind)?;
        // One that was evicted in the middle must not pass for an empty one.
        if found.is_none() && self.len > 0 { Err(Refused::Lost) } else { Ok(found) }
    }
}

fn source<'a: 'k, 'k>(
    ctx: &Ctx<'a>,
    key: &'k [u8],
    entry: Option<larder_store::Entry<'static>>,
    kind: Kind,
) -> Outcome<Option<Coll<'k>>> {
    match entry.as_ref().map(|entry| type_name(entry.flags())) {
        None => Ok(None),
        Some("set") => ctx.coll(key, entry, Kind::Set),
        Some("zset") if kind == Kind::SortedSet => ctx.coll(key, entry, Kind::SortedSet),
        Some(_) => Err(WRONG_TYPE.into()),
    }
}

fn score_in(coll: &Coll<'_>, member: &[u8]) -> Outcome<Option<f64>> {
    match coll.kind {
        Kind::Set => Ok(coll.has(member)?.then_some(1.0)),
        _ => coll.score(member),
    }
}

fn weighed(score: f64, weight: f64) -> f64 {
    let product = score * weight;
    if product.is_nan() { 0.0 } else { product }
}

/// Parses `LIMIT limit` of SINTERCARD and ZINTERCARD from an argument on; 0 without it.
pub(super) fn limit(args: &Args<'_>, from: usize) -> Outcome<u64> {
    let (mut limit, mut at) = (0, from);
    while at < args.len() {
        if !args.is(at, "LIMIT") || at + 1 >= args.len() {
            return Err(SYNTAX.into());
        }
        let given = parse_i64(args.get(at + 1)).and_then(|limit| u64::try_from(limit).ok());
        limit = given.ok_or("ERR LIMIT can't be negative")?;
        at += 2;
    }
    Ok(limit)
}
