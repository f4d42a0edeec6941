//! Hashes: commands that read them, and their form in the store. A hash is one value (see
//! [`larder_proto::resp::hash`]), so a write of one field rewrites all of it; docs/redis.md gives
//! the cost. So the size of a hash is limited: writing it, or joining one that lies in several
//! pieces, takes two milliseconds at most.

use larder_proto::resp::{
    Args,
    hash::{self, Change, Damaged, Hash, Pair},
};
use larder_store::{Entry, Put};

use super::super::{
    ctx::{Class, Ctx},
    job::{Job, Progress},
};
use super::access::is_hash;
use super::errors::{Outcome, Refused, WRONG_TYPE};
use super::joined::Whole;
use super::parts::PART;

/// Maximum of a hash in bytes and in fields.
pub(super) const MOST_BYTES: u64 = 4 * 1024 * 1024;
pub(super) const MOST_FIELDS: usize = 128 * 1024;
pub(super) const TOO_LARGE: &str = "ERR a hash has at most 4 MiB and 131072 fields";

/// Fields of a hash answered at once.
const AT_ONCE: usize = 4096;
/// Fields processed between two checks of the clock.
pub(super) const FIELDS: usize = 256;

impl From<Damaged> for Refused {
    /// A value that does not parse is no hash (a memcached client may store any flags).
    fn from(_: Damaged) -> Self {
        WRONG_TYPE.into()
    }
}

/// Parses a record.
pub(super) fn read(record: &[u8]) -> Outcome<Hash<'_>> {
    let found = Hash::read(record)?;
    if found.len() > MOST_FIELDS { Err(TOO_LARGE.into()) } else { Ok(found) }
}

impl Ctx<'_> {
    /// Looks a hash up for reading.
    pub(super) fn read_hash(&mut self, key: &[u8]) -> Outcome<Option<Entry<'static>>> {
        let entry = self.read(key);
        self.only_hash(entry)
    }

    /// Looks a hash up for writing.
    pub(super) fn look_hash(&self, key: &[u8]) -> Outcome<Option<Entry<'static>>> {
        self.only_hash(self.look(key))
    }

    /// The entry, if it is a hash.
    fn only_hash(&self, entry: Option<Entry<'static>>) -> Outcome<Option<Entry<'static>>> {
        let Some(entry) = entry else { return Ok(None) };
        if !is_hash(&entry) {
            return Err(WRONG_TYPE.into());
        }
        // The memcached face may have written it.
        if entry.len() > MOST_BYTES {
            return Err(TOO_LARGE.into());
        }
        if entry.head().len() as u64 != entry.len() {
            // The command joins the pieces.
            self.face.turn_time.copied(entry.len());
        }
        Ok(Some(entry))
    }
}

/// Result of a change of fields.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changed {
    pub(super) added: usize,
    pub(super) removed: usize,
    /// No field is left; the key is deleted.
    pub(super) is_gone: bool,
    /// Version of the present entry.
    pub(super) version: u64,
}

/// Changes fields of the hash at `key`; the expiry stays. None: another write came first.
pub(super) fn change(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    old: Option<&Entry<'static>>,
    changes: &[Change<'_>],
) -> Outcome<Option<Changed>> {
    let record = old.map(Whole::of);
    let there = record.as_deref().map(read).transpose()?;
    let merged = hash::merge(there.as_ref(), changes)?;
    let (added, removed) = (merged.added(), merged.removed());
    let mut changed = Changed { added, removed, is_gone: merged.count() == 0, version: 0 };
    if changed.is_gone {
        return Ok(old.is_none_or(|old| ctx.store.delete_same(old, ctx.now)).then_some(changed));
    }
    if added + removed == 0 && changes.iter().all(|(_, value)| value.is_none()) {
        return Ok(Some(changed)); // Unchanged: no write to report.
    }
    let parts = merged.parts();
    let size: u64 = parts.iter().map(|part| part.len() as u64).sum();
    if size > MOST_BYTES || merged.count() > MOST_FIELDS {
        return Err(TOO_LARGE.into());
    }
    ctx.face.turn_time.copied(size);
    let expires = old.and_then(|entry| entry.expires());
    let put = Put { value: &parts, flags: hash::FLAGS, expires, ..Put::default() };
    let version = ctx.replace(key, old, put)?;
    changed.version = version.unwrap_or_default();
    Ok(version.map(|_| changed))
}

/// Passes a hash (`None`: missing) to `answer`, which only composes the answer.
pub(super) fn show(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    answer: impl FnOnce(&mut Ctx<'_>, Option<Hash<'_>>) -> Outcome,
) {
    let outcome = (|| {
        let entry = ctx.read_hash(args.get(1))?;
        let record = entry.as_ref().map(Whole::of);
        let found = record.as_deref().map(read).transpose()?;
        answer(ctx, found)
    })();
    ctx.settle(outcome, args);
}

/// HGET key field
pub(super) fn hget(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    show(ctx, args, |ctx, found| {
        let value = found.map(|hash| hash.get(args.get(2))).transpose()?.flatten();
        answer_or_null(ctx, value);
        Ok(())
    });
}

fn answer_or_null(ctx: &mut Ctx<'_>, value: Option<&[u8]>) {
    match value {
        Some(value) => ctx.reply().bulk(value),
        None => ctx.reply().null(),
    }
}

/// HMGET key field [field ...]
pub(super) fn hmget(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = ctx.read_hash(args.get(1)).map(|entry| {
        let from = ctx.out.scratch().len();
        ctx.reply().array(args.len() - 2);
        ctx.go(Hmget { entry, from, at: 2 }, args);
    });
    ctx.settle(outcome, args);
}

/// An HMGET in progress.
struct Hmget {
    entry: Option<Entry<'static>>,
    /// Start of the answer, to remove it if the hash turns out damaged.
    from: usize,
    /// The next field.
    at: usize,
}

impl Hmget {
    fn continue_step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<Progress> {
        let record = self.entry.as_ref().map(Whole::of);
        let found = record.as_deref().map(read).transpose()?;
        while self.at < args.len() {
            for field in args.from(self.at).take(FIELDS) {
                let value = found.map(|hash| hash.get(field)).transpose()?.flatten();
                answer_or_null(ctx, value);
                if ctx.overflows() {
                    return Ok(Progress::Done);
                }
            }
            self.at += FIELDS;
            if self.at < args.len() && ctx.is_over() {
                return Ok(Progress::Again);
            }
        }
        Ok(Progress::Done)
    }
}

impl Job for Hmget {
    fn is_apart(&self) -> bool {
        true
    }

    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        match self.continue_step(ctx, args) {
            Ok(progress) => progress,
            Err(refused) => {
                // Nothing is sent before the answer is complete.
                ctx.out.scratch().truncate(self.from);
                ctx.settle(Err(refused), args);
                Progress::Done
            }
        }
    }
}

/// The parts of each field to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldParts {
    Pairs,
    Names,
    Values,
}

impl FieldParts {
    fn answer(self, ctx: &mut Ctx<'_>, (field, value): Pair<'_>) {
        let mut reply = ctx.reply();
        if self != FieldParts::Values {
            reply.bulk(field);
        }
        if self != FieldParts::Names {
            reply.bulk(value);
        }
    }

    fn head(self, ctx: &mut Ctx<'_>, fields: usize) {
        if self == FieldParts::Pairs { ctx.reply().map(fields) } else { ctx.reply().array(fields) }
    }
}

/// HGETALL key
pub(super) fn hgetall(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    list(ctx, args, FieldParts::Pairs);
}

/// HKEYS key
pub(super) fn hkeys(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    list(ctx, args, FieldParts::Names);
}

/// HVALS key
pub(super) fn hvals(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    list(ctx, args, FieldParts::Values);
}

fn list(ctx: &mut Ctx<'_>, args: &Args<'_>, parts: FieldParts) {
    let outcome = (|| {
        let Some(entry) = ctx.read_hash(args.get(1))? else {
            parts.head(ctx, 0);
            return Ok(());
        };
        let record = Whole::of(&entry);
        let found = read(&record)?;
        if found.len() <= AT_ONCE {
            let pairs = found.pairs()?;
            parts.head(ctx, pairs.len());
            pairs.into_iter().for_each(|pair| parts.answer(ctx, pair));
            return Ok(());
        }
        drop(record);
        ctx.go(List { entry, parts, checked: false, place: None }, args);
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// An HGETALL, HKEYS or HVALS in progress over a pinned hash, which does not change.
struct List {
    entry: Entry<'static>,
    parts: FieldParts,
    /// The whole hash is validated first, because the number of fields precedes them.
    checked: bool,
    place: Option<(usize, usize)>,
}

impl List {
    fn continue_step(&mut self, ctx: &mut Ctx<'_>) -> Outcome<Progress> {
        let record = Whole::of(&self.entry);
        let found = read(&record)?;
        loop {
            let mut fields =
                self.place.map_or_else(|| found.iter(), |place| found.iter_from(place));
            for pair in fields.by_ref().take(FIELDS) {
                let pair = pair?;
                if self.checked {
                    self.parts.answer(ctx, pair);
                }
            }
            self.place = Some(fields.place()).filter(|(_, left)| *left > 0);
            if self.place.is_none() {
                if self.checked {
                    return Ok(Progress::Done);
                }
                self.checked = true;
                self.parts.head(ctx, found.len());
            }
            if ctx.is_over() {
                return Ok(if ctx.conn.in_exec { Progress::Again } else { Progress::Send });
            }
        }
    }
}

impl Job for List {
    fn is_apart(&self) -> bool {
        true
    }

    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        self.continue_step(ctx).unwrap_or_else(|refused| {
            ctx.settle(Err(refused), args);
            Progress::Done
        })
    }
}

/// HLEN key
pub(super) fn hlen(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    show(ctx, args, |ctx, found| {
        ctx.reply().count(found.map_or(0, |hash| hash.len()));
        Ok(())
    });
}

/// HSTRLEN key field
pub(super) fn hstrlen(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    show(ctx, args, |ctx, found| {
        let value = found.map(|hash| hash.get(args.get(2))).transpose()?.flatten();
        ctx.reply().count(value.map_or(0, <[u8]>::len));
        Ok(())
    });
}

/// HEXISTS key field
pub(super) fn hexists(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    show(ctx, args, |ctx, found| {
        let value = found.map(|hash| hash.get(args.get(2))).transpose()?.flatten();
        ctx.reply().integer(value.is_some().into());
        Ok(())
    });
}

/// HDEL key field [field ...]
pub(super) fn hdel(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    ctx.go(Hdel { at: 2, removed: 0, is_gone: false }, args);
}

/// An HDEL in progress.
struct Hdel {
    /// The next field.
    at: usize,
    removed: usize,
    is_gone: bool,
}

impl Hdel {
    fn continue_step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<Progress> {
        let key = args.get(1);
        // The first part of a large hash may take all of the step's time.
        ctx.is_over();
        while self.at < args.len() && !self.is_gone {
            let changes: Vec<Change<'_>> =
                args.from(self.at).take(PART).map(|field| (field, None)).collect();
            let changed = ctx.retry(|ctx| match ctx.look_hash(key)? {
                None => Ok(Some(Changed::default())),
                Some(old) => change(ctx, key, Some(&old), &changes),
            })?;
            self.removed += changed.removed;
            self.is_gone = changed.is_gone;
            self.at += PART;
            if self.at < args.len() && ctx.is_over() {
                return Ok(Progress::Again);
            }
        }
        ctx.reply().count(self.removed);
        if self.removed > 0 {
            ctx.modified(Class::Hash, "hdel", key);
        }
        if self.is_gone {
            ctx.event(Class::Generic, "del", key);
        }
        Ok(Progress::Done)
    }
}

impl Job for Hdel {
    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        self.continue_step(ctx, args).unwrap_or_else(|refused| {
            if self.removed > 0 {
                ctx.modified(Class::Hash, "hdel", args.get(1));
            }
            ctx.settle(Err(refused), args);
            Progress::Done
        })
    }
}
