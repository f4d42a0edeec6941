//! Hashes: commands that read and remove fields.

use larder_proto::resp::{
    Args,
    collection::{Items, Kind, Shape},
    hash::{Change, Pair},
};
use larder_store::Entry;

use super::super::{
    ctx::{Class, Ctx},
    job::{Job, Progress},
};
use super::collection::{At, BYTES, ITEMS, Tree};
use super::errors::{Outcome, Refused};
use super::hash_record::{Changed, Found, View, change_some, read, some_of};
use super::joined::Whole;
use super::parts::PART;
use crate::clock::Ms;

/// Fields of a hash answered at once.
const AT_ONCE: usize = 4096;
/// Fields processed between two checks of the clock.
pub(super) const FIELDS: usize = 256;

/// Passes a hash (`None`: missing) to `answer`, which only composes the answer.
pub(super) fn show(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    answer: impl Fn(&mut Ctx<'_>, Option<View<'_, '_>>) -> Outcome,
) {
    let outcome = ctx.retry(|ctx| {
        let Some(found) = ctx.read_hash(args.get(1))? else {
            return answer(ctx, None).map(Some);
        };
        let record = found.whole();
        answer(ctx, Some(found.view(record.as_deref())?)).map(Some)
    });
    ctx.settle(outcome, args);
}

/// Passes the value of the field that a command names to `answer`.
fn show_value(ctx: &mut Ctx<'_>, args: &Args<'_>, answer: fn(&mut Ctx<'_>, Option<&[u8]>)) {
    show(ctx, args, |ctx, found| match found {
        Some(hash) => hash.get(args.get(2), |value| answer(ctx, value)),
        None => {
            answer(ctx, None);
            Ok(())
        }
    });
}

/// HGET key field
pub(super) fn hget(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    show_value(ctx, args, answer_or_null);
}

pub(super) fn answer_or_null(ctx: &mut Ctx<'_>, value: Option<&[u8]>) {
    match value {
        Some(value) => ctx.reply().bulk(value),
        None => ctx.reply().null(),
    }
}

/// HMGET key field [field ...]
pub(super) fn hmget(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let entry = match ctx.read_hash(args.get(1))? {
            Some(Found::Tree(_)) => {
                ctx.need_stripe()?;
                let from = ctx.out.scratch().len();
                ctx.reply().array(args.len() - 2);
                ctx.steps_from(args, hmget, from, 2, hmget_step);
                return Ok(());
            }
            Some(Found::Record(entry)) => Some(entry),
            None => None,
        };
        let from = ctx.out.scratch().len();
        ctx.reply().array(args.len() - 2);
        ctx.go(Hmget { entry, from, at: 2 }, args);
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// Answers some of the fields of an HMGET of a tree.
fn hmget_step(ctx: &mut Ctx<'_>, args: &Args<'_>, at: &mut usize) -> Outcome<bool> {
    let tree = ctx.open(args.get(1), Kind::Hash)?.ok_or(Refused::Lost)?;
    for field in args.from(*at).take(ITEMS) {
        tree.field(field, |item| answer_or_null(ctx, item.map(|item| item.value)))?;
        *at += 1;
        // Of a field that is not there, too, a run was read.
        if tree.long_bytes() > BYTES {
            break;
        }
    }
    Ok(*at >= args.len())
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

    fn handler(self) -> super::Run {
        match self {
            FieldParts::Pairs => hgetall,
            FieldParts::Names => hkeys,
            FieldParts::Values => hvals,
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
        let entry = match ctx.read_hash(args.get(1))? {
            None => {
                parts.head(ctx, 0);
                return Ok(());
            }
            Some(Found::Tree(tree)) => {
                ctx.need_stripe()?;
                let from = ctx.out.scratch().len();
                parts.head(ctx, tree.len() as usize);
                ctx.steps_from(args, parts.handler(), from, (parts, 0), list_step);
                return Ok(());
            }
            Some(Found::Record(entry)) => entry,
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

/// Answers some of the fields of a tree.
fn list_step(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    (parts, at): &mut (FieldParts, u64),
) -> Outcome<bool> {
    // It was there when the number of its fields was answered.
    let tree = ctx.open(args.get(1), Kind::Hash)?.ok_or(Refused::Lost)?;
    let found = tree.locate(Tree::Main, At::Position(*at))?;
    for item in Items::new(Shape::Field, &found.run.whole()) {
        let item = item?;
        parts.answer(ctx, (item.bytes, item.value));
    }
    *at = found.before + found.count;
    Ok(*at >= tree.len())
}

/// An HGETALL, HKEYS or HVALS in progress over a pinned record, which does not change.
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
        ctx.reply().count(found.map_or(0, |hash| hash.len() as usize));
        Ok(())
    });
}

/// HSTRLEN key field
pub(super) fn hstrlen(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    show_value(ctx, args, |ctx, value| ctx.reply().count(value.map_or(0, <[u8]>::len)));
}

/// HEXISTS key field
pub(super) fn hexists(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    show_value(ctx, args, |ctx, value| ctx.reply().integer(value.is_some().into()));
}

/// HDEL key field [field ...]
pub(super) fn hdel(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    ctx.go(Hdel { now: ctx.now, at: 2, removed: 0, is_gone: false }, args);
}

/// An HDEL in progress.
struct Hdel {
    now: Ms,
    /// The next field.
    at: usize,
    removed: usize,
    is_gone: bool,
}

impl Hdel {
    fn continue_step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome<Progress> {
        let key = args.get(1);
        ctx.now = self.now;
        // The first part of a large hash may take all of the step's time.
        ctx.is_over();
        while self.at < args.len() && !self.is_gone {
            let mut some = PART;
            let changed = ctx.retry(|ctx| match ctx.look_hash(key)? {
                None => Ok(Some(Changed::default())),
                Some(old) => {
                    some = some_of(args, self.at, Some(&old), 1, PART);
                    let changes: Vec<Change<'_>> =
                        args.from(self.at).take(some).map(Change::remove).collect();
                    let changed = change_some(ctx, key, Some(old), &changes)?;
                    some = changed.map_or(some, |changed| changed.done);
                    Ok(changed)
                }
            })?;
            self.removed += changed.removed;
            self.is_gone = changed.is_gone;
            self.at += some;
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
