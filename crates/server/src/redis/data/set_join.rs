//! Sets: SINTER, SUNION, SDIFF, in steps.

use std::collections::BTreeSet;

use larder_proto::resp::{
    Args,
    collection::{Items, Kind, Shape},
    number::parse_i64,
};

use super::super::ctx::{Class, Ctx};
use super::Run;
use super::collection::{At, Tree};
use super::errors::{Outcome, SYNTAX, refused};
use crate::room::{Held, Place};
use larder_store::PutError;

/// Members stored in a step.
const MEMBERS: usize = 64;
/// Bytes of a member of a result beside its own.
const ENTRY: u64 = 48;

/// How sets are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Intersect,
    Unite,
    Subtract,
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
    /// The keys, among the arguments, in the order in which they are joined.
    keys: Vec<usize>,
    /// The current key, and the position in its set.
    nth: usize,
    at: u64,
    found: BTreeSet<Box<[u8]>>,
    /// Memory of the result.
    held: Held,
    bytes: u64,
    /// The result is complete.
    is_whole: bool,
    /// Number of members stored.
    stored: u64,
}

/// SINTER key [key ...]
pub(super) fn sinter(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    join(ctx, args, sinter, How::Intersect, Target::Answer, 1..args.len());
}

/// SUNION key [key ...]
pub(super) fn sunion(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    join(ctx, args, sunion, How::Unite, Target::Answer, 1..args.len());
}

/// SDIFF key [key ...]
pub(super) fn sdiff(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    join(ctx, args, sdiff, How::Subtract, Target::Answer, 1..args.len());
}

/// SINTERSTORE destination key [key ...]
pub(super) fn sinterstore(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let target = Target::Store("sinterstore");
    join(ctx, args, sinterstore, How::Intersect, target, 2..args.len());
}

/// SUNIONSTORE destination key [key ...]
pub(super) fn sunionstore(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    join(ctx, args, sunionstore, How::Unite, Target::Store("sunionstore"), 2..args.len());
}

/// SDIFFSTORE destination key [key ...]
pub(super) fn sdiffstore(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    join(ctx, args, sdiffstore, How::Subtract, Target::Store("sdiffstore"), 2..args.len());
}

/// SINTERCARD numkeys key [key ...] [LIMIT limit]
pub(super) fn sintercard(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let number = parse_i64(args.get(1)).filter(|number| *number > 0);
        let number = number.ok_or("ERR numkeys should be greater than 0")? as u64;
        if number > args.len() as u64 - 2 {
            return Err("ERR Number of keys can't be greater than number of args".into());
        }
        let end = 2 + number as usize;
        let (mut limit, mut at) = (0, end);
        while at < args.len() {
            if !args.is(at, "LIMIT") || at + 1 >= args.len() {
                return Err(SYNTAX.into());
            }
            let given = parse_i64(args.get(at + 1)).and_then(|limit| u64::try_from(limit).ok());
            limit = given.ok_or("ERR LIMIT can't be negative")?;
            at += 2;
        }
        join(ctx, args, sintercard, How::Intersect, Target::Count(limit), 2..end);
        Ok(())
    })();
    ctx.settle(outcome, args);
}

fn join(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    again: Run,
    how: How,
    target: Target,
    keys: std::ops::Range<usize>,
) {
    let outcome = (|| {
        let mut lens = Vec::with_capacity(keys.len());
        ctx.remember(keys.clone().map(|at| args.get(at)));
        for key in keys.clone() {
            let set = ctx.open_to_read(args.get(key), Kind::Set)?;
            lens.push((set.map_or(0, |set| set.len()), key));
        }
        let is_empty = match how {
            How::Intersect => lens.iter().any(|(len, _)| *len == 0),
            How::Unite | How::Subtract => false,
        };
        if how == How::Intersect {
            lens.sort_unstable();
        }
        let keys =
            if is_empty { Vec::new() } else { lens.into_iter().map(|(_, key)| key).collect() };
        let held = Held::new(&ctx.conn.known.client.holder, Place::Heap);
        let found = BTreeSet::new();
        let (nth, at, bytes, stored, is_whole) = (0, 0, 0, 0, false);
        let job = Join { how, target, keys, nth, at, found, held, bytes, is_whole, stored };
        ctx.steps(args, again, job, |ctx, args, job| {
            if job.is_whole {
                return job.finish(ctx, args);
            }
            job.collect(ctx, args)?;
            if !job.held.resize(job.bytes) {
                return Err(refused(PutError::Full, b""));
            }
            if job.is_whole && job.target == Target::Answer {
                ctx.reply().set(job.found.len());
            }
            Ok(false)
        });
        Ok(())
    })();
    ctx.settle(outcome, args);
}

impl Join {
    /// Looks at one run of the current set.
    fn collect(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome {
        let Some(&key) = self.keys.get(self.nth) else {
            self.is_whole = true;
            return Ok(());
        };
        let set = ctx.open(args.get(key), Kind::Set)?.filter(|set| self.at < set.len());
        let Some(set) = set else {
            // Of an intersection and a difference only one set is walked over.
            let only_one = self.how != How::Unite;
            self.nth = if only_one { self.keys.len() } else { self.nth + 1 };
            self.at = 0;
            return Ok(());
        };
        let others = self.keys[1..].iter().filter(|_| self.how != How::Unite);
        let mut sets = Vec::new();
        for key in others {
            if let Some(set) = ctx.open(args.get(*key), Kind::Set)? {
                sets.push(set);
            }
        }
        let found = set.locate(Tree::Main, At::Position(self.at))?;
        for item in
            Items::new(Shape::Bare, &found.run.whole()).skip((self.at - found.before) as usize)
        {
            let member = item?.bytes;
            self.at += 1;
            let mut takes = true;
            for other in &sets {
                if other.has(member)? != (self.how == How::Intersect) {
                    takes = false;
                    break;
                }
            }
            if takes && self.found.insert(member.into()) {
                self.bytes += ENTRY + member.len() as u64;
            }
            if let Target::Count(limit) = self.target
                && limit > 0
                && self.found.len() as u64 >= limit
            {
                self.nth = self.keys.len();
                return Ok(());
            }
            if sets.len() > MEMBERS && ctx.is_over() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Answers or stores some members of the result.
    fn finish(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<bool> {
        match self.target {
            Target::Count(_) if self.stored == 0 => {
                ctx.reply().count(self.found.len());
                self.stored = 1;
            }
            Target::Count(_) => {
                (0..MEMBERS).for_each(|_| drop(self.found.pop_first()));
            }
            Target::Answer => {
                for _ in 0..MEMBERS {
                    let Some(member) = self.found.pop_first() else { break };
                    ctx.reply().bulk(&member);
                }
            }
            Target::Store(event) => return self.store(ctx, args, event),
        }
        Ok(self.found.is_empty())
    }

    fn store(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>, event: &'static str) -> Outcome<bool> {
        let key = args.get(1);
        if self.found.is_empty() && self.stored == 0 {
            if ctx.store.delete(ctx.ns, key, ctx.now) {
                ctx.modified(Class::Generic, "del", key);
            }
            ctx.reply().integer(0);
            return Ok(true);
        }
        let members: Vec<_> = std::iter::from_fn(|| self.found.pop_first()).take(MEMBERS).collect();
        let done = ctx.retry(|ctx| {
            let mut set = match self.stored {
                0 => ctx.new_coll(key, Kind::Set, ctx.look(key)),
                // The stored part was evicted: the rest must not pass for all.
                _ => ctx.open(key, Kind::Set)?.ok_or_else(|| refused(PutError::Full, key))?,
            };
            if self.stored == 0 {
                set.forget_expiry();
            }
            for member in &members {
                set.add(member)?;
            }
            set.commit(ctx)
        });
        if let Err(error) = done {
            // A part of the result must not pass for all.
            ctx.store.delete(ctx.ns, key, ctx.now);
            ctx.modified(Class::Generic, "del", key);
            return Err(error);
        }
        self.stored += members.len() as u64;
        if !self.found.is_empty() {
            return Ok(false);
        }
        ctx.reply().integer(self.stored as i64);
        ctx.modified(Class::Set, event, key);
        Ok(true)
    }
}
