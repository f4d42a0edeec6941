//! KEYS: a walk over the whole store in steps, between which the worker serves other clients.
//!
//! The number of keys precedes them in the answer, and a walk may show a key twice if the index
//! grows. So all keys are collected first, divided by hash into parts that can each be sorted in
//! one step, and then answered as fast as the client reads.

use larder_proto::resp::{
    Args,
    glob::{self, Pattern},
};
use larder_store::{Cursor, Keep};
use rapidhash::v3::rapidhash_v3;

use super::super::{
    ctx::Ctx,
    job::{Job, Progress},
    names::Names,
    state::gate,
};
use super::walk::slice;
use crate::object::HIGH_WATER;
use crate::room::{Held, Place};

/// Number of parts: 4000 names in each if a million keys match.
const PARTS: usize = 256;
/// Names answered between two checks of the clock.
const AT_ONCE: usize = 1024;

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The walk's position.
    Looking(Cursor),
    /// The next part to sort.
    Ordering(usize),
    /// The next part and name to answer.
    Answering(usize, usize),
}

/// A KEYS in progress.
#[derive(Debug)]
struct Listing {
    parts: Box<[Names]>,
    /// Memory of the names, charged to the clients' memory.
    held: Held,
    stage: Stage,
}

/// KEYS pattern
pub(super) fn keys(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if ctx.conn.gates & gate::MUTED != 0 {
        return; // CLIENT REPLY: the answer would be dropped
    }
    if args.get(1).len() > glob::LONGEST {
        return ctx.reply().error(glob::TOO_LONG);
    }
    let parts = (0..PARTS).map(|_| Names::default()).collect();
    let held = Held::new(&ctx.conn.known.client.holder, Place::Heap);
    ctx.go(Listing { parts, held, stage: Stage::Looking(Cursor::START) }, args);
}

impl Job for Listing {
    fn is_apart(&self) -> bool {
        true
    }

    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        // In a transaction, nothing may run between the commands, and nothing is sent.
        let in_exec = ctx.conn.in_exec;
        let most = if in_exec { u64::MAX } else { HIGH_WATER };
        loop {
            match self.stage {
                Stage::Looking(at) => {
                    let next = self.look(ctx, args.get(1), at);
                    let bytes: usize = self.parts.iter().map(Names::memory).sum();
                    if !self.held.resize(bytes as u64) {
                        ctx.reply().error("OOM no room for the names of so many keys");
                        return Progress::Done;
                    }
                    self.stage = next.map_or(Stage::Ordering(0), Stage::Looking);
                }
                Stage::Ordering(PARTS) => {
                    let found = self.parts.iter().map(Names::len).sum();
                    ctx.reply().array(found);
                    self.stage = Stage::Answering(0, 0);
                }
                Stage::Ordering(part) => {
                    self.order(part);
                    self.stage = Stage::Ordering(part + 1);
                }
                Stage::Answering(PARTS, _) => return Progress::Done,
                Stage::Answering(part, from) => self.stage = self.answer(ctx, part, from, most),
            }
            if ctx.is_over() || ctx.out.pending() > most {
                return if in_exec { Progress::Again } else { Progress::Send };
            }
        }
    }
}

impl Listing {
    fn look(&mut self, ctx: &Ctx<'_>, pattern: &[u8], at: Cursor) -> Option<Cursor> {
        let (parts, all, now) = (&mut self.parts, pattern == b"*", ctx.now);
        let pattern = Pattern::new(pattern);
        ctx.store.scan(ctx.ns, at, slice(pattern.len()), &mut |key, info| {
            if info.expires.is_none_or(|at| at > now) && (all || pattern.matches(key)) {
                parts[rapidhash_v3(key) as usize % PARTS].push(key);
            }
            Keep::Keep
        })
    }

    /// Sorts a part and removes duplicates.
    fn order(&mut self, part: usize) {
        let mut names: Vec<&[u8]> = self.parts[part].iter().collect();
        names.sort_unstable();
        names.dedup();
        let mut once = Names::default();
        names.into_iter().for_each(|name| once.push(name));
        self.parts[part] = once;
    }

    /// Answers names of a part, up to the limit of one send.
    fn answer(&mut self, ctx: &mut Ctx<'_>, part: usize, from: usize, most: u64) -> Stage {
        let names = &self.parts[part];
        let to = names.len().min(from + AT_ONCE);
        for at in from..to {
            if ctx.out.pending() > most {
                return Stage::Answering(part, at);
            }
            ctx.reply().bulk(names.get(at));
        }
        if to < names.len() {
            return Stage::Answering(part, to);
        }
        self.parts[part] = Names::default();
        Stage::Answering(part + 1, 0)
    }
}
