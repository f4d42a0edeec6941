//! Hashes that are made ready, in steps, before a command looks at them: expired fields of a tree
//! are removed, and a large record of an earlier version becomes a tree.

use larder_proto::resp::{
    Args,
    collection::{Head, Kind},
    hash::{self, Change, Expiry, Hash},
};
use larder_store::Entry;

use super::super::{
    ctx::{Class, Ctx},
    dispatch,
    job::{Job, Progress},
};
use super::access::{is_hash, is_record};
use super::collection::{Coll, is_outgrown};
use super::errors::{Outcome, Refused};
use super::hash_record::{RUNS, read};
use super::joined::Whole;
use crate::clock::Ms;

/// Fields that are taken over between two checks of the clock.
const FIELDS: usize = 64;

/// Such work in progress, before the command of its arguments.
struct Readying {
    /// The time for all steps, and for the command.
    now: Ms,
    growing: Growing,
}

/// A tree that is built of a record.
#[derive(Default)]
struct Growing {
    head: Head,
    /// The next field; None: the first.
    place: Option<(usize, usize)>,
    /// Version of the record.
    version: u64,
}

impl Growing {
    /// Takes fields over until the time is over. True: these were all.
    fn step(&mut self, ctx: &mut Ctx<'_>, key: &[u8], record: &Entry<'_>) -> Outcome<bool> {
        if self.version != record.version() {
            *self = Growing { version: record.version(), ..Growing::default() };
        }
        let whole = Whole::of(record);
        let hash: Hash<'_> = read(&whole)?;
        let mut fields = self.place.map_or_else(|| hash.iter(), |place| hash.iter_from(place));
        loop {
            let mut coll = ctx.resume(key, Kind::Hash, std::mem::take(&mut self.head), None);
            for _ in 0..FIELDS {
                let at = fields.place().0;
                let Some(pair) = fields.next() else { break };
                let (field, value) = pair?;
                let expiry = hash.expiry_at(at).map_or(Expiry::Never, Expiry::At);
                coll.change_field(&Change { expiry, ..Change::set(field, value) })?;
            }
            self.head = coll.suspend()?;
            self.place = Some(fields.place());
            let is_complete = fields.place().1 == 0;
            if is_complete || ctx.is_over() {
                return Ok(is_complete);
            }
        }
    }
}

impl Readying {
    /// True: the hash is ready.
    fn continue_step(&mut self, ctx: &mut Ctx<'_>, key: &[u8]) -> Outcome<bool> {
        let Some(entry) = ctx.look(key).filter(is_hash) else { return Ok(true) };
        if is_record(&entry) {
            if !is_outgrown(&entry, hash::count(entry.head())) {
                return Ok(true);
            }
            if self.growing.step(ctx, key, &entry)? {
                let head = std::mem::take(&mut self.growing).head;
                ctx.resume(key, Kind::Hash, head, Some(entry)).commit(ctx)?;
            }
            return Ok(false);
        }
        if !hash::is_due(entry.head(), ctx.now) {
            return Ok(true);
        }
        let mut tree = Coll::of(ctx.shared, (ctx.ns, key), Kind::Hash, entry, ctx.now)?;
        let purged = tree.purge(ctx.now, RUNS)?;
        let is_gone = tree.len() == 0;
        if tree.commit(ctx)?.is_some() && purged > 0 {
            ctx.shared.due_fields.count(purged);
            ctx.modified(Class::Hash, "hexpired", key);
            if is_gone {
                ctx.event(Class::Generic, "del", key);
            }
        }
        Ok(false)
    }
}

impl Job for Readying {
    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        ctx.now = self.now;
        // The first part of a large hash may take all of the step's time.
        ctx.is_over();
        loop {
            match self.continue_step(ctx, args.get(1)) {
                Ok(true) => {
                    if let Ok(found) = dispatch::find(ctx.face, args) {
                        (found.handler)(ctx, args);
                    }
                    return Progress::Done;
                }
                Ok(false) | Err(Refused::Lost) => {}
                Err(refused) => {
                    ctx.settle(Err(refused), args);
                    return Progress::Done;
                }
            }
            if ctx.is_over() {
                return Progress::Again;
            }
        }
    }
}

impl Ctx<'_> {
    /// Makes the hash of a command ready, its first key, and begins the command again.
    pub(super) fn begin_ready(&mut self, args: &Args<'_>) {
        self.go(Readying { now: self.now, growing: Growing::default() }, args);
    }
}
