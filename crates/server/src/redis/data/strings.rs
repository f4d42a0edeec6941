//! Strings: commands that read and write them whole.

use larder_proto::resp::Args;
use larder_store::{Entry, MAX_KEY, PutError};

use super::super::{
    ctx::{Class, Ctx},
    job::{Job, Progress},
};
use super::access::{is_string, string};
use super::errors::{Outcome, Refused, refused};
use super::long::{AT_ONCE, Bytes, Condition, End, Layout, PIECE, StringWriter};
use super::set::{self, Expiry, Options};
use crate::{clock::Ms, object::ahead};

/// GET key
#[inline]
pub(super) fn get(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let key = args.get(1);
    let hint = ctx.face.hint.take().unwrap_or_else(|| ctx.store.hint(ctx.ns, key));
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
                // The key was deleted meanwhile: the read came just before.
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
    let outcome = (|| {
        let old = ctx.read_string(args.get(1))?;
        let end: End = Box::new(|ctx, args, _| {
            match old {
                Some(entry) => {
                    let len = entry.len();
                    ctx.stored(entry, 0, len);
                }
                None => ctx.reply().null(),
            }
            ctx.modified(Class::String, "set", args.get(1));
        });
        ctx.store_arg(args, (1, 2), None, getset, end)
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
    ctx.go(Mget { at: 1 }, args);
}

/// Keys of MGET looked up together, between two checks of the clock.
const TOGETHER: usize = 256;

struct Mget {
    /// The next key.
    at: usize,
}

impl Job for Mget {
    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        loop {
            let mut keys = args.from(self.at).take(TOGETHER);
            ctx.remember(args.from(self.at).take(TOGETHER));
            ahead::each(ctx.store, ctx.ns, &mut keys, |key, hint| {
                match ctx.read_hinted(key, hint).filter(is_string) {
                    Some(entry) => ctx.whole(entry),
                    None => ctx.reply().null(),
                }
                true
            });
            self.at += TOGETHER;
            if self.at >= args.len() || ctx.overflows() {
                return Progress::Done;
            }
            if ctx.is_over() {
                return Progress::Again;
            }
        }
    }
}

/// MSET key value [key value ...]
pub(super) fn mset(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    set_many(ctx, args, false);
}

/// MSETNX key value [key value ...]
pub(super) fn msetnx(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    set_many(ctx, args, true);
}

const MSET_ARITY: &str = "ERR wrong number of arguments for 'mset' command";
const MSETNX_ARITY: &str = "ERR wrong number of arguments for 'msetnx' command";

fn set_many(ctx: &mut Ctx<'_>, args: &Args<'_>, absent: bool) {
    if args.len().is_multiple_of(2) {
        // The error has the table's spelling of the name, not the client's.
        return ctx.reply().error(if absent { MSETNX_ARITY } else { MSET_ARITY });
    }
    // All or none of the keys are stored.
    if args.from(1).step_by(2).any(|key| key.len() > MAX_KEY) {
        return ctx.settle(Err(Refused::Key), args);
    }
    ctx.go(SetMany { at: 1, looks: absent, absent, writing: None }, args);
}

/// An MSET or MSETNX in progress.
struct SetMany {
    /// The next key.
    at: usize,
    /// MSETNX first checks whether any key exists.
    looks: bool,
    absent: bool,
    /// A long value in transfer.
    writing: Option<StringWriter>,
}

impl SetMany {
    /// Returns whether any of the keys exists. None: keys remain to be looked up.
    fn look(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Option<bool> {
        while self.at < args.len() {
            if ctx.look(args.get(self.at)).is_some() {
                return Some(true);
            }
            self.at += 2;
            if self.at % 64 == 1 && ctx.is_over() {
                return None;
            }
        }
        (self.at, self.looks) = (1, false);
        Some(false)
    }

    /// Stores the next value. None: it is incomplete.
    fn set(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Option<Outcome> {
        let (key, value) = (args.get(self.at), args.get(self.at + 1));
        if value.len() as u64 <= AT_ONCE {
            return Some(ctx.store_string(key, &[value], None));
        }
        if self.writing.is_none() {
            let target = ctx.target(self.at, None, Condition::Any);
            match StringWriter::begin(ctx, args, Layout::arg(args, self.at + 1), target) {
                Ok(writing) => self.writing = Some(writing),
                Err(refused) => return Some(Err(refused)),
            }
        }
        let result = self.writing.as_mut().and_then(|writing| writing.step(ctx, args))?;
        self.writing = None;
        Some(result.map_err(|error| refused(error, key)))
    }
}

impl Job for SetMany {
    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        if self.looks {
            match self.look(ctx, args) {
                None => return Progress::Again,
                Some(true) => {
                    ctx.reply().integer(0);
                    return Progress::Done;
                }
                Some(false) => {}
            }
        }
        while self.at < args.len() {
            match self.set(ctx, args) {
                None => return Progress::Again,
                Some(Ok(())) => ctx.modified(Class::String, "set", args.get(self.at)),
                Some(Err(refused)) => {
                    ctx.settle(Err(refused), args);
                    return Progress::Done;
                }
            }
            self.at += 2;
            let large = args.get(self.at - 1).len() > PIECE;
            if self.at < args.len() && (large || self.at % 64 == 1) && ctx.is_over() {
                return Progress::Again;
            }
        }
        if self.absent {
            ctx.reply().integer(1);
        } else {
            ctx.reply().ok();
        }
        Progress::Done
    }
}

/// APPEND key value
pub(super) fn append(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let outcome = ctx.retry(|ctx| {
        let old = string(ctx.look(args.get(1)))?;
        let before = old.as_ref().map_or(0, |entry| entry.len());
        let len = before + args.get(2).len() as u64;
        super::range::check_len(ctx, len)?;
        let expires: Option<Ms> = old.as_ref().and_then(|entry| entry.expires());
        let target = ctx.target(1, expires, Condition::Same);
        let end: End = Box::new(move |ctx, args, _| {
            ctx.reply().count(len as usize);
            ctx.modified(Class::String, "append", args.get(1));
        });
        ctx.write(args, Layout::new(old, len).with(before, Bytes::Arg(2)), target, append, end)
    });
    ctx.settle(outcome, args);
}
