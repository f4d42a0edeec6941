//! KEYS: the whole store, in steps between which the worker serves others.
//!
//! The number of keys goes before them, and a walk may show a key twice when the index grows meanwhile: so everything is
//! collected first, by hash into parts small enough that each is put in order in one step, and then answered as fast as it
//! is taken.

use larder_proto::resp::{Args, Owned, Reply, Version, glob};
use larder_store::{Cursor, Keep, Namespace, Store};
use rapidhash::v3::rapidhash_v3;

use super::super::{ctx::Ctx, state::gate};
use super::walk::{Names, STEP};
use crate::{clock::Ms, net::out::Out, object::HIGH_WATER};

/// Parts of what was found: 4000 names in each where a million keys match.
const PARTS: usize = 256;

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The walk is here.
    Looking(Cursor),
    /// This part is next to be put in order.
    Ordering(usize),
    /// This name of this part is next to be answered.
    Answering(usize, usize),
}

/// A KEYS under way.
#[derive(Debug)]
pub(crate) struct Listing {
    /// The command, for the pattern and the slow log.
    pub(crate) command: Owned,
    /// What its steps have taken so far, the first excepted.
    pub(crate) micros: u64,
    ns: Namespace,
    version: Version,
    parts: Box<[Names]>,
    stage: Stage,
}

/// KEYS pattern
pub(super) fn keys(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if ctx.conn.gates & gate::MUTED != 0 {
        return; // CLIENT REPLY: nobody will see it
    }
    let mut listing = Box::new(Listing {
        command: args.to_owned(),
        micros: 0,
        ns: ctx.ns,
        version: ctx.version,
        parts: (0..PARTS).map(|_| Names::default()).collect(),
        stage: Stage::Looking(Cursor::START),
    });
    // Nothing may come between the commands of a transaction, and nothing is sent: there it is one step.
    let most = if ctx.conn.in_exec { u64::MAX } else { HIGH_WATER };
    let mut done = listing.step(ctx.store, ctx.now, ctx.out, most);
    while !done && ctx.conn.in_exec {
        done = listing.step(ctx.store, ctx.now, ctx.out, most);
    }
    if !done {
        ctx.conn.listing = Some(listing);
    }
}

impl Listing {
    /// Goes on for about a millisecond, or until more than `most` bytes are composed. True: it is answered.
    pub(crate) fn step(&mut self, store: &Store, now: Ms, out: &mut Out, most: u64) -> bool {
        let mut work = 0;
        while work < 2 * STEP {
            match self.stage {
                Stage::Looking(at) => {
                    work += STEP;
                    let next = self.look(store, at, now);
                    self.stage = next.map_or(Stage::Ordering(0), Stage::Looking);
                }
                Stage::Ordering(PARTS) => {
                    let found = self.parts.iter().map(Names::len).sum();
                    Reply::new(out.scratch(), self.version).array(found);
                    self.stage = Stage::Answering(0, 0);
                }
                Stage::Ordering(part) => {
                    work += self.parts[part].len();
                    self.order(part);
                    self.stage = Stage::Ordering(part + 1);
                }
                Stage::Answering(PARTS, _) => return true,
                Stage::Answering(part, from) => {
                    self.stage = self.answer(part, from, out, most);
                    if out.pending() > most {
                        break;
                    }
                }
            }
        }
        false
    }

    fn look(&mut self, store: &Store, at: Cursor, now: Ms) -> Option<Cursor> {
        let args = self.command.args();
        let (pattern, parts) = (args.get(1), &mut self.parts);
        let all = pattern == b"*";
        store.scan(self.ns, at, STEP, &mut |key, info| {
            if info.expires.is_none_or(|at| at > now) && (all || glob::matches(pattern, key)) {
                parts[rapidhash_v3(key) as usize % PARTS].push(key);
            }
            Keep::Keep
        })
    }

    /// Puts a part in order: each name once.
    fn order(&mut self, part: usize) {
        let mut names: Vec<&[u8]> = self.parts[part].iter().collect();
        names.sort_unstable();
        names.dedup();
        let mut once = Names::default();
        names.into_iter().for_each(|name| once.push(name));
        self.parts[part] = once;
    }

    /// Answers names of a part, up to what is sent at once.
    fn answer(&mut self, part: usize, from: usize, out: &mut Out, most: u64) -> Stage {
        let names = &self.parts[part];
        for at in from..names.len() {
            if out.pending() > most {
                return Stage::Answering(part, at);
            }
            Reply::new(out.scratch(), self.version).bulk(names.get(at));
        }
        self.parts[part] = Names::default();
        Stage::Answering(part + 1, 0)
    }
}
