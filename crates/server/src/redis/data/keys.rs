//! Keys of any type: existence, type, deletion.

use larder_proto::resp::{Args, number::parse_i64};
use larder_store::Cursor;

use super::super::{
    ctx::{Class, Ctx},
    job::{Job, Progress},
};
use super::access::type_name;
use super::errors::{NOT_INTEGER, SYNTAX};
use super::parts;
use super::random::random;
use super::walk::LOOK;

/// DEL key [key ...]; UNLINK key [key ...]
pub(super) fn del(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    parts::count(ctx, args, |ctx, key| {
        let removed = ctx.store.delete(ctx.ns, key, ctx.now);
        if removed {
            ctx.modified(Class::Generic, "del", key);
        }
        removed
    });
}

/// EXISTS key [key ...]
pub(super) fn exists(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    // This is no read: the time of the last use stays.
    parts::count(ctx, args, |ctx, key| {
        let there = ctx.look(key).is_some();
        if !there {
            ctx.store.count_miss(ctx.ns);
            ctx.missed(key);
        }
        there
    });
}

/// TOUCH key [key ...]
pub(super) fn touch(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    parts::count(ctx, args, |ctx, key| ctx.read(key).is_some());
}

/// TYPE key
pub(super) fn kind(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let name = match ctx.look(args.get(1)) {
        None => "none",
        Some(entry) => type_name(entry.flags()),
    };
    ctx.reply().simple(name);
}

/// RANDOMKEY
pub(super) fn randomkey(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    ctx.go(RandomKey { pick: random(), at: Cursor::START }, args);
}

/// A RANDOMKEY in progress: it takes long if few of all keys belong to this database.
struct RandomKey {
    pick: u64,
    at: Cursor,
}

impl Job for RandomKey {
    fn is_apart(&self) -> bool {
        true
    }

    fn step(&mut self, ctx: &mut Ctx<'_>, _args: &Args<'_>) -> Progress {
        loop {
            match ctx.store.random_key(ctx.ns, self.pick, self.at, LOOK, ctx.now) {
                Ok(key) => ctx.reply().bulk(&key),
                Err(None) => ctx.reply().null(),
                Err(Some(at)) => {
                    self.at = at;
                    if ctx.is_over() {
                        return Progress::Again;
                    }
                    continue;
                }
            }
            return Progress::Done;
        }
    }
}

/// FLUSHDB [ASYNC | SYNC]
pub(super) fn flushdb(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    flush(ctx, args, ctx.db..ctx.db + 1);
}

/// FLUSHALL [ASYNC | SYNC]
pub(super) fn flushall(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    flush(ctx, args, 0..ctx.shared.databases());
}

fn flush(ctx: &mut Ctx<'_>, args: &Args<'_>, databases: std::ops::Range<u8>) {
    let known = args.is(1, "ASYNC") || args.is(1, "SYNC");
    if args.len() > 2 || (args.len() == 2 && !known) {
        return ctx.reply().error(SYNTAX);
    }
    for db in databases.clone() {
        ctx.store.flush(ctx.shared.namespace(db), ctx.now);
    }
    ctx.flushed();
    ctx.face.signal_flushed(&databases);
    ctx.reply().ok();
}

/// WAIT numreplicas timeout: there are no replicas.
pub(super) fn wait(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if parse_i64(args.get(1)).is_none() {
        return ctx.reply().error(NOT_INTEGER);
    }
    match parse_i64(args.get(2)) {
        None => ctx.reply().error("ERR timeout is not an integer or out of range"),
        Some(..0) => ctx.reply().error("ERR timeout is negative"),
        Some(_) => ctx.reply().integer(0),
    }
}
