//! Values that go to another key or another database.

use larder_proto::resp::{Args, number::parse_i64};
use larder_store::{Entry, If, Namespace, Put, PutError};

use super::super::ctx::{Class, Ctx};
use super::errors::{NO_KEY, NOT_INTEGER, Outcome, SYNTAX, refused};

const SAME: &str = "ERR source and destination objects are the same";
const NO_DATABASE: &str = "ERR DB index is out of range";
const NO_INT: &str = "ERR value is out of range, value must between -2147483648 and 2147483647";

/// A database's number.
fn database(ctx: &Ctx<'_>, text: &[u8]) -> Outcome<u8> {
    let number = parse_i64(text).ok_or(NOT_INTEGER)?;
    let number = i32::try_from(number).map_err(|_| NO_INT)?;
    let known = u8::try_from(number).ok().filter(|db| *db < ctx.shared.databases());
    Ok(known.ok_or(NO_DATABASE)?)
}

/// Stores what `entry` holds, its flags and expiry too, under another name. False: the condition does not hold.
fn put_copy(
    ctx: &Ctx<'_>,
    entry: &Entry<'_>,
    ns: Namespace,
    key: &[u8],
    condition: If<'_, '_>,
) -> Outcome<bool> {
    let parts: Vec<&[u8]> = entry.chunks().collect();
    let put = Put { value: &parts, flags: entry.flags(), expires: entry.expires(), ..Put::default() };
    match ctx.store.put(ns, key, put, condition, ctx.now) {
        Ok(_) => Ok(true),
        Err(PutError::Exists | PutError::NotFound) => Ok(false),
        Err(error) => Err(refused(error, key)),
    }
}

/// RENAME key newkey
pub(super) fn rename(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let moved = rename_to(ctx, args, If::Always)?;
        debug_assert!(moved, "nothing can be in its way");
        ctx.reply().ok();
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// RENAMENX key newkey
pub(super) fn renamenx(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        // Onto itself: it is there already.
        let moved = rename_to(ctx, args, If::Absent)? && args.get(1) != args.get(2);
        ctx.reply().integer(moved.into());
        Ok(())
    })();
    ctx.settle(outcome, args);
}

fn rename_to(ctx: &mut Ctx<'_>, args: &Args<'_>, condition: If<'_, '_>) -> Outcome<bool> {
    let (from, to) = (args.get(1), args.get(2));
    let entry = ctx.look(from).ok_or(NO_KEY)?;
    if from == to {
        return Ok(true);
    }
    if !put_copy(ctx, &entry, ctx.ns, to, condition)? {
        return Ok(false);
    }
    ctx.store.delete(ctx.ns, from, ctx.now);
    ctx.modified(Class::Generic, "rename_from", from);
    ctx.modified(Class::Generic, "rename_to", to);
    Ok(true)
}

/// COPY source destination [DB destination-db] [REPLACE]
pub(super) fn copy(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = copy_step(ctx, args);
    ctx.settle(outcome, args);
}

fn copy_step(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome {
    let (from, to) = (args.get(1), args.get(2));
    let (mut db, mut condition) = (ctx.db, If::Absent);
    let mut at = 3;
    while at < args.len() {
        if args.is(at, "REPLACE") {
            condition = If::Always;
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
    let copied = match ctx.read(from) {
        Some(entry) => put_copy(ctx, &entry, ctx.shared.namespace(db), to, condition)?,
        None => false,
    };
    ctx.reply().integer(copied.into());
    if copied {
        ctx.modified_in(db, Class::Generic, "copy_to", to);
    }
    Ok(())
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
    let moved = match ctx.look(key) {
        Some(entry) => put_copy(ctx, &entry, ctx.shared.namespace(db), key, If::Absent)?,
        None => false,
    };
    if moved {
        ctx.store.delete(ctx.ns, key, ctx.now);
        ctx.modified(Class::Generic, "move_from", key);
        ctx.modified_in(db, Class::Generic, "move_to", key);
    }
    ctx.reply().integer(moved.into());
    Ok(())
}

/// SWAPDB index1 index2: a database is a part of the store and keeps its number.
pub(super) fn swapdb(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = (|| {
        let number = |at: usize| parse_i64(args.get(at)).and_then(|number| i32::try_from(number).ok());
        let first = number(1).ok_or("ERR invalid first DB index")?;
        let second = number(2).ok_or("ERR invalid second DB index")?;
        let databases = 0..i32::from(ctx.shared.databases());
        if !databases.contains(&first) || !databases.contains(&second) {
            return Err(NO_DATABASE.into());
        }
        if first != second {
            return Err("ERR Larder does not swap databases".into());
        }
        ctx.reply().ok();
        Ok(())
    })();
    ctx.settle(outcome, args);
}
