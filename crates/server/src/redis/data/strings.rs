//! Strings: what reads and writes them whole.

use larder_proto::resp::Args;
use larder_store::{Entry, Put, PutError};

use super::super::ctx::{Class, Ctx};
use super::access::{is_hash, string};
use super::errors::{Outcome, refused};
use super::set::{self, Expiry, Options};
use crate::{clock::Ms, object::ahead};

/// GET key
#[inline]
pub(super) fn get(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let key = args.get(1);
    let hint = ctx.conn.hint.take().unwrap_or_else(|| ctx.store.hint(ctx.ns, key));
    let entry = ctx.read_hinted(key, hint);
    let outcome = answer_string(ctx, entry);
    ctx.settle(outcome, args);
}

/// Answers a string or null.
#[inline]
pub(super) fn answer_value(ctx: &mut Ctx<'_>, key: &[u8]) -> Outcome {
    let entry = ctx.read(key);
    answer_string(ctx, entry)
}

#[inline]
fn answer_string(ctx: &mut Ctx<'_>, entry: Option<Entry<'static>>) -> Outcome {
    match string(entry)? {
        Some(entry) => ctx.whole(entry),
        None => ctx.reply().null(),
    }
    Ok(())
}

/// GETEX key [EX seconds | PX milliseconds | EXAT seconds | PXAT milliseconds | PERSIST]
pub(super) fn getex(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = getex_step(ctx, args);
    ctx.settle(outcome, args);
}

fn getex_step(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome {
    let key = args.get(1);
    let options = Options::parse_getex(args)?;
    let Some(entry) = ctx.read_string(key)? else {
        ctx.reply().null();
        return Ok(());
    };
    let now = ctx.now;
    let expires = match options.expiry {
        Expiry::None | Expiry::Keep => None,
        Expiry::Never => entry.expires().map(|_| None),
        given => Some(set::expires(given, now)?),
    };
    let len = entry.len();
    if let Some(expires) = expires {
        if expires.is_some_and(|t| t <= now) {
            ctx.store.delete(ctx.ns, key, now);
            ctx.modified(Class::Generic, "del", key);
        } else {
            match ctx.store.touch(ctx.ns, key, expires, now) {
                // Gone meanwhile: then it was read just before.
                Ok(()) | Err(PutError::NotFound) => {}
                Err(error) => return Err(refused(error, key)),
            }
            let event = if expires.is_some() { "expire" } else { "persist" };
            ctx.modified(Class::Generic, event, key);
        }
    }
    ctx.stored(entry, 0, len);
    Ok(())
}

/// GETDEL key
pub(super) fn getdel(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let key = args.get(1);
    let outcome = answer_value(ctx, key);
    if outcome.is_ok() && ctx.store.delete(ctx.ns, key, ctx.now) {
        ctx.modified(Class::Generic, "del", key);
    }
    ctx.settle(outcome, args);
}

/// GETSET key value
pub(super) fn getset(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let (key, value) = (args.get(1), args.get(2));
    let outcome = (|| {
        let old = ctx.read_string(key)?;
        ctx.store_string(key, &[value], None)?;
        match old {
            Some(entry) => {
                let len = entry.len();
                ctx.stored(entry, 0, len);
            }
            None => ctx.reply().null(),
        }
        ctx.modified(Class::String, "set", key);
        Ok(())
    })();
    ctx.settle(outcome, args);
}

/// STRLEN key
pub(super) fn strlen(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    match ctx.read_string(args.get(1)) {
        Ok(entry) => ctx.reply().count(entry.map_or(0, |entry| entry.len() as usize)),
        Err(refused) => ctx.settle(Err(refused), args),
    }
}

/// MGET key [key ...]
pub(super) fn mget(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    ctx.reply().array(args.len() - 1);
    ahead::each(ctx.store, ctx.ns, &mut args.from(1), |key, hint| {
        match ctx.read_hinted(key, hint).filter(|entry| !is_hash(entry)) {
            Some(entry) => ctx.whole(entry),
            None => ctx.reply().null(),
        }
        true
    });
}

/// MSET key value [key value ...]
pub(super) fn mset(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = mset_step(ctx, args);
    if outcome.is_ok() {
        ctx.reply().ok();
    }
    ctx.settle(outcome, args);
}

/// MSETNX key value [key value ...]
pub(super) fn msetnx(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let even = args.len() % 2 == 1;
    if even && (1..args.len()).step_by(2).any(|at| ctx.look(args.get(at)).is_some()) {
        return ctx.reply().integer(0);
    }
    let outcome = mset_step(ctx, args);
    if outcome.is_ok() {
        ctx.reply().integer(1);
    }
    ctx.settle(outcome, args);
}

fn mset_step(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Outcome {
    if args.len().is_multiple_of(2) {
        // The name is as the table has it, whatever the client's case.
        let error = if args.is(0, "mset") { MSET_ARITY } else { MSETNX_ARITY };
        return Err(error.into());
    }
    for at in (1..args.len()).step_by(2) {
        ctx.store_string(args.get(at), &[args.get(at + 1)], None)?;
        ctx.modified(Class::String, "set", args.get(at));
    }
    Ok(())
}

const MSET_ARITY: &str = "ERR wrong number of arguments for 'mset' command";
const MSETNX_ARITY: &str = "ERR wrong number of arguments for 'msetnx' command";

/// APPEND key value
pub(super) fn append(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let (key, more) = (args.get(1), args.get(2));
    let outcome = ctx.retry(|ctx| {
        let old = string(ctx.look(key))?;
        let expires: Option<Ms> = old.as_ref().and_then(|entry| entry.expires());
        let mut parts: Vec<&[u8]> = old.iter().flat_map(|entry| entry.chunks()).collect();
        parts.push(more);
        let len: usize = parts.iter().map(|part| part.len()).sum();
        super::range::check_len(ctx, len as u64)?;
        let put = Put { value: &parts, expires, ..Put::default() };
        Ok(ctx.replace(key, old.as_ref(), put)?.then_some(len))
    });
    match outcome {
        Ok(len) => {
            ctx.reply().count(len);
            ctx.modified(Class::String, "append", key);
        }
        Err(refused) => ctx.settle(Err(refused), args),
    }
}
