//! Commands that move or copy a value to another key or database.

use larder_proto::resp::{Args, number::parse_i64};
use larder_store::{Entry, Namespace};

use super::super::ctx::{Class, Ctx};
use super::errors::{NO_KEY, NOT_INTEGER, Outcome, SYNTAX};
use super::long::{Condition, End, Layout, Target};
use super::trees::has_parts;

const SAME: &str = "ERR source and destination objects are the same";
const NO_DATABASE: &str = "ERR DB index is out of range";
const NO_INT: &str = "ERR value is out of range, value must between -2147483648 and 2147483647";

/// Parses a database's number.
fn database(ctx: &Ctx<'_>, text: &[u8]) -> Outcome<u8> {
    let number = parse_i64(text).ok_or(NOT_INTEGER)?;
    let number = i32::try_from(number).map_err(|_| NO_INT)?;
    let known = u8::try_from(number).ok().filter(|db| *db < ctx.shared.databases());
    Ok(known.ok_or(NO_DATABASE)?)
}

/// Stores the value, flags and expiry of `entry` at `key`.
fn put_copy(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    entry: Entry<'static>,
    (ns, key): (Namespace, usize),
    condition: Condition,
    end: End,
) -> Outcome {
    if condition == Condition::Absent && ctx.store.peek(ns, args.get(key), ctx.now).is_some() {
        end(ctx, args, false);
        return Ok(());
    }
    let target = Target { ns, key, flags: entry.flags(), expires: entry.expires(), condition };
    // Where the value was before: all three commands name it first.
    if has_parts(&entry) {
        return ctx.copy_tree(args, 1, entry, target, end);
    }
    let len = entry.len();
    // The condition never depends on the old value, so the write does not restart.
    ctx.write(args, Layout::new(Some(entry), len), target, |_, _| {}, end).map(drop)
}

/// RENAME key newkey
pub(super) fn rename(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = rename_to(ctx, args, Condition::Any);
    ctx.settle(outcome, args);
}

/// RENAMENX key newkey
pub(super) fn renamenx(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = rename_to(ctx, args, Condition::Absent);
    ctx.settle(outcome, args);
}

fn rename_to(ctx: &mut Ctx<'_>, args: &Args<'_>, condition: Condition) -> Outcome {
    let only_absent = condition == Condition::Absent;
    let entry = ctx.look(args.get(1)).ok_or(NO_KEY)?;
    if args.get(1) == args.get(2) {
        // Source and destination are equal: the key exists.
        if only_absent {
            ctx.reply().integer(0);
        } else {
            ctx.reply().ok();
        }
        return Ok(());
    }
    let end: End = Box::new(move |ctx, args, moved| {
        if moved {
            ctx.store.delete(ctx.ns, args.get(1), ctx.now);
        }
        if only_absent {
            ctx.reply().integer(moved.into());
        } else {
            ctx.reply().ok();
        }
        if moved {
            ctx.modified(Class::Generic, "rename_from", args.get(1));
            ctx.modified(Class::Generic, "rename_to", args.get(2));
            ctx.face.signal(ctx.ns, args.get(2));
        }
    });
    put_copy(ctx, args, entry, (ctx.ns, 2), condition, end)
}

/// COPY source destination [DB destination-db] [REPLACE]
pub(super) fn copy(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = copy_step(ctx, args);
    ctx.settle(outcome, args);
}

fn copy_step(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome {
    let (from, to) = (args.get(1), args.get(2));
    let (mut db, mut condition) = (ctx.db, Condition::Absent);
    let mut at = 3;
    while at < args.len() {
        if args.is(at, "REPLACE") {
            condition = Condition::Any;
        } else if args.is(at, "DB") && at + 1 < args.len() {
            db = database(ctx, args.get(at + 1))?;
            at += 1;
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    if db == ctx.db && from == to {
        return Err(SAME.into());
    }
    let Some(entry) = ctx.read(from) else {
        ctx.reply().integer(0);
        return Ok(());
    };
    let end: End = Box::new(move |ctx, args, copied| {
        ctx.reply().integer(copied.into());
        if copied {
            ctx.modified_in(db, Class::Generic, "copy_to", args.get(2));
            ctx.face.signal(ctx.shared.namespace(db), args.get(2));
        }
    });
    put_copy(ctx, args, entry, (ctx.shared.namespace(db), 2), condition, end)
}

/// MOVE key db
pub(super) fn move_to(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = move_step(ctx, args);
    ctx.settle(outcome, args);
}

fn move_step(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome {
    let key = args.get(1);
    let db = database(ctx, args.get(2))?;
    if db == ctx.db {
        return Err(SAME.into());
    }
    let Some(entry) = ctx.look(key) else {
        ctx.reply().integer(0);
        return Ok(());
    };
    let end: End = Box::new(move |ctx, args, moved| {
        let key = args.get(1);
        if moved {
            ctx.store.delete(ctx.ns, key, ctx.now);
            ctx.modified(Class::Generic, "move_from", key);
            ctx.modified_in(db, Class::Generic, "move_to", key);
            ctx.face.signal(ctx.shared.namespace(db), key);
        }
        ctx.reply().integer(moved.into());
    });
    put_copy(ctx, args, entry, (ctx.shared.namespace(db), 1), Condition::Absent, end)
}

/// Error for a database that is memcached's too.
const SHARED: &str = "ERR database 0 is shared with memcached, and cannot be swapped";

/// SWAPDB index1 index2: the databases change their places in the store. Its caller holds all
/// stripes.
pub(super) fn swapdb(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let number =
            |at: usize| parse_i64(args.get(at)).and_then(|number| i32::try_from(number).ok());
        let first = number(1).ok_or("ERR invalid first DB index")?;
        let second = number(2).ok_or("ERR invalid second DB index")?;
        let databases = 0..i32::from(ctx.shared.databases());
        if !databases.contains(&first) || !databases.contains(&second) {
            return Err(NO_DATABASE.into());
        }
        let [first, second] = [first, second].map(|db| u8::try_from(db).unwrap_or_default());
        if first != second {
            if ctx.shared.settings.share_memcached && (first == 0 || second == 0) {
                return Err(SHARED.into());
            }
            let namespaces = [first, second].map(|db| ctx.shared.namespace(db));
            ctx.shared.swap(first, second);
            ctx.conn.select(ctx.conn.db, ctx.shared);
            ctx.ns = ctx.conn.ns;
            ctx.shared.watched.wrote_all(namespaces);
            ctx.shared.waiting.call_all([first, second]);
            ctx.flushed();
        }
        ctx.reply().ok();
        Ok(())
    })();
    ctx.settle(outcome, args);
}
