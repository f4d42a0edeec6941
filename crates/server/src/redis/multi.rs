//! MULTI, EXEC, DISCARD, WATCH, UNWATCH (Redis documentation, "Transactions").
//!
//! EXEC holds the stripes of all keys its commands name, and of all watched keys, from the comparison of the watched
//! versions to its last command ([`super::locks`]): nobody sees a part of it.

use std::{collections::BTreeMap, sync::atomic::Ordering::Relaxed};

use larder_proto::resp::{Args, Owned, Reply, table::Command};
use larder_store::{Ms, Namespace, Store};

use super::{
    ctx::Ctx,
    dispatch::{self, Found},
    known::flag,
    locks::Wanted,
    state::{Conn, gate},
    watched::Watch,
};

/// Bytes a transaction's commands may have; beyond, it is refused as a whole.
const QUEUE: usize = 256 << 20;
/// Keys one connection may watch.
const WATCHES: usize = 1 << 16;

/// The transaction of a connection.
#[derive(Default)]
pub(crate) struct Multi {
    open: bool,
    queue: Vec<(Found, Owned)>,
    bytes: usize,
    /// A command was refused while queuing: EXEC will refuse the rest.
    failed: bool,
    /// By namespace and key.
    watched: BTreeMap<(u8, Box<[u8]>), Watching>,
}

impl Multi {
    /// Is one of its commands of a kind?
    pub(crate) fn any(&self, is: impl Fn(&Command) -> bool) -> bool {
        self.queue.iter().any(|(found, _)| is(found.command))
    }

    /// A command was refused; in a transaction, that is remembered.
    pub(crate) fn fail(&mut self) {
        self.failed |= self.open;
    }
}

/// What WATCH sees of a key that is there: its version, and when it expires, since EXPIRE and PERSIST change a key, too.
type Seen = (u64, Option<Ms>);

/// What was seen of a watched key, and the watch that tells whether it was written since.
type Watching = (Option<Seen>, Watch);

fn look(store: &Store, ns: Namespace, key: &[u8], now: Ms) -> Option<Seen> {
    store.peek(ns, key, now).map(|entry| (entry.version(), entry.expires()))
}

/// Puts a command in the queue.
pub(crate) fn queue(conn: &mut Conn, found: Found, args: &Args<'_>, reply: &mut Reply<'_>) {
    let owned = args.to_owned();
    conn.multi.bytes += owned.size();
    if conn.multi.bytes > QUEUE {
        conn.multi.fail();
        conn.multi.queue.clear();
        return reply.error("ERR the transaction is too large");
    }
    conn.multi.queue.push((found, owned));
    conn.known.queued.store(conn.multi.queue.len() as i64, Relaxed);
    reply.raw(b"+QUEUED\r\n");
}

/// Leaves the transaction and forgets the watched keys.
pub(crate) fn end(conn: &mut Conn) {
    conn.multi = Multi::default();
    conn.known.queued.store(-1, Relaxed);
    conn.known.lower(flag::MULTI);
    conn.set_gate(gate::MULTI, false);
}

pub(crate) fn multi(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    if ctx.conn.multi.open {
        return ctx.reply().error("ERR MULTI calls can not be nested");
    }
    ctx.conn.multi.open = true;
    ctx.conn.known.queued.store(0, Relaxed);
    ctx.conn.known.raise(flag::MULTI);
    ctx.conn.set_gate(gate::MULTI, true);
    ctx.reply().ok();
}

pub(crate) fn discard(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    if !ctx.conn.multi.open {
        return ctx.reply().error("ERR DISCARD without MULTI");
    }
    end(ctx.conn);
    ctx.reply().ok();
}

pub(crate) fn watch(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if ctx.conn.multi.open {
        return ctx.reply().error("ERR WATCH inside MULTI is not allowed");
    }
    for key in args.from(1) {
        let watched = &mut ctx.conn.multi.watched;
        if watched.len() >= WATCHES {
            return ctx.reply().error("ERR too many watched keys");
        }
        watched.entry((ctx.ns.0, key.into())).or_insert_with(|| {
            let _held = ctx.shared.locks.write(key);
            let watch = Watch::new(&ctx.face.shared, ctx.ns, key);
            (look(ctx.store, ctx.ns, key, ctx.now), watch)
        });
    }
    ctx.reply().ok();
}

pub(crate) fn unwatch(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    ctx.conn.multi.watched.clear();
    ctx.reply().ok();
}

pub(crate) fn exec(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    if !ctx.conn.multi.open {
        return ctx.reply().error("ERR EXEC without MULTI");
    }
    run(ctx);
    // CLIENT CACHING before MULTI was for all of it.
    ctx.conn.tracks.caching = None;
}

fn run(ctx: &mut Ctx<'_>) {
    let mut multi = std::mem::take(&mut ctx.conn.multi);
    end(ctx.conn);
    if multi.failed {
        return ctx.reply().error("EXECABORT Transaction discarded because of previous errors.");
    }
    let mut wanted = Wanted::default();
    multi.watched.keys().for_each(|(_, key)| wanted.key(key));
    for (found, owned) in &multi.queue {
        dispatch::want(&mut wanted, found.command, &owned.args());
    }
    let held = ctx.shared.locks.take(&mut wanted);
    let changed = multi.watched.iter().any(|((ns, key), (seen, watch))| {
        look(ctx.store, Namespace(*ns), key, ctx.now) != *seen || watch.is_written()
    });
    // The transaction's own writes are no news to it.
    multi.watched.clear();
    if changed {
        return ctx.reply().null_array();
    }
    ctx.reply().array(multi.queue.len());
    ctx.conn.in_exec = true;
    for (found, owned) in &multi.queue {
        dispatch::call(ctx.face, ctx.conn, *found, &owned.args(), ctx.now, ctx.out);
        ctx.version = ctx.conn.version;
    }
    ctx.conn.in_exec = false;
    drop(held);
}
