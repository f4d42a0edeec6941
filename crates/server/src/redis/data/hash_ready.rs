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
use super::collection::{BYTES, Coll, is_outgrown};
use super::errors::{FULL, Outcome, Refused};
use super::hash_record::{RUNS, read};
use super::joined::Whole;
use crate::clock::Ms;

/// Fields that are taken over between two checks of the clock.
const FIELDS: usize = 64;
/// Parts of the new tree that a step reads, so that they do not count as left behind: a step takes
/// a millisecond, and a part of nobody is removed after three seconds without a look.
const YOUNG: u64 = 64;
/// Attempts to build a tree of which parts are evicted meanwhile.
const ATTEMPTS: u32 = 3;

/// Such work in progress, before the command of its arguments.
struct Readying {
    /// The time for all steps, and for the command. (Not for ages of parts.)
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
    /// Parts that were read; the next one follows.
    read: u64,
    /// Attempts that failed.
    failed: u32,
}

impl Growing {
    /// Takes fields over until the time is over. True: these were all.
    fn step(&mut self, ctx: &mut Ctx<'_>, key: &[u8], record: &Entry<'_>) -> Outcome<bool> {
        if self.version != record.version() {
            let (version, failed) = (record.version(), self.failed);
            *self = Growing { version, failed, ..Growing::default() };
        }
        self.keep_young(ctx, key);
        let whole = Whole::of(record);
        let hash: Hash<'_> = read(&whole)?;
        let mut fields = self.place.map_or_else(|| hash.iter(), |place| hash.iter_from(place));
        loop {
            let mut coll = ctx.resume(key, Kind::Hash, std::mem::take(&mut self.head), None);
            let mut bytes = 0;
            for _ in 0..FIELDS {
                if bytes > BYTES {
                    break;
                }
                let at = fields.place().0;
                let Some(pair) = fields.next() else { break };
                let (field, value) = pair?;
                bytes += field.len() + value.len();
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

    /// Reads the next of its parts.
    fn keep_young(&mut self, ctx: &Ctx<'_>, key: &[u8]) {
        let Some(owner) = ctx.store.owner(ctx.ns, key, self.head.id) else { return };
        let now = ctx.shared.clock.now();
        for _ in 0..YOUNG.min(self.head.next) {
            let _replaced = ctx.store.use_part(&owner, self.read % self.head.next, now);
            self.read += 1;
        }
    }

    /// A step failed, and what it had of the tree is not whole. `Lost`: from the beginning, some
    /// times.
    fn start_again(&mut self, refused: Refused) -> Refused {
        *self = Growing { failed: self.failed + 1, ..Growing::default() };
        match refused {
            Refused::Lost if self.failed >= ATTEMPTS => Refused::Error(FULL),
            refused => refused,
        }
    }
}

impl Readying {
    /// True: the hash is ready.
    fn continue_step(&mut self, ctx: &mut Ctx<'_>, key: &[u8]) -> Outcome<bool> {
        // It commits.
        ctx.need_stripe()?;
        let Some(entry) = ctx.look(key).filter(is_hash) else { return Ok(true) };
        if is_record(&entry) {
            if !is_outgrown(&entry, hash::count(entry.head())) {
                return Ok(true);
            }
            let step = self.growing.step(ctx, key, &entry);
            if step.map_err(|refused| self.growing.start_again(refused))? {
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
