//! MULTI, EXEC, DISCARD, WATCH, UNWATCH (Redis documentation, "Transactions").
//!
//! EXEC holds the stripes of all keys that its commands name, and of all watched keys, from the
//! comparison of the watched versions to its last command ([`super::locks`]): no client sees a part
//! of it. It runs in steps ([`super::job`]).

use std::{collections::BTreeMap, sync::atomic::Ordering::Relaxed};

use larder_proto::resp::{Args, Owned, Reply, table::Command};
use larder_store::{Ms, Namespace, Store};

use crate::net::out::Mark;

use super::{
    acl, attention,
    ctx::Ctx,
    dispatch::{self, Found},
    freed::free,
    job::{Begun, Job, Progress},
    known::flag,
    locks::{Locks, WantedStripes},
    on_demand::{OnDemand, static_default},
    script,
    state::{Conn, ENTRY, gate},
    watched::Watch,
};

/// Answer to a transaction longer than [`QUEUE`], or than memory permits.
const TOO_LARGE: &str = "OOM the transaction is too large";
/// Maximum of a transaction's commands in bytes; a longer one is refused as a whole.
const QUEUE: usize = 256 << 20;
/// Maximum of one command of a transaction in bytes: it is copied at once.
const COMMAND: usize = 4 << 20;
/// Maximum of commands in a transaction: dropping them all at once (DISCARD) takes a few
/// milliseconds.
const COMMANDS: usize = 1 << 16;
/// Maximum of watched keys per connection: EXEC compares them all at once.
const WATCHES: usize = 1 << 12;
/// The same in bytes: keys of 16 KiB that begin alike would be compared for tens of milliseconds.
const WATCHED_BYTES: usize = 2 << 20;

/// Keys that WATCH adds between two looks at the clock.
const WATCHED_AT_ONCE: usize = 64;

/// A connection's transaction.
#[derive(Default)]
pub(crate) struct Multi {
    open: bool,
    queue: Vec<(Found, Owned)>,
    bytes: usize,
    /// A command was refused while queuing: EXEC will refuse the rest.
    failed: bool,
    /// By namespace and key.
    watched: BTreeMap<(u8, Box<[u8]>), Watching>,
    watched_bytes: usize,
}

impl Multi {
    /// Returns whether a queued command meets a condition.
    pub(crate) fn any(&self, mut is: impl FnMut(&Command, &Args<'_>) -> bool) -> bool {
        self.queue.iter().any(|(found, owned)| is(found.command, &owned.args()))
    }

    /// Its memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.watched_bytes
    }
}

static_default!(Multi);

impl Drop for Multi {
    fn drop(&mut self) {
        if !self.queue.is_empty() {
            free(std::mem::take(&mut self.queue), self.bytes);
        }
    }
}

/// Marks the open transaction as failed after a refused command.
pub(crate) fn fail(conn: &mut Conn) {
    if conn.multi.open {
        conn.multi.failed = true;
    }
}

/// Version and expiry of an existing key under WATCH. The expiry is compared too, because EXPIRE
/// and PERSIST change a key.
type Seen = (u64, Option<Ms>);

/// The state of a watched key at WATCH, and the watch that counts its writes since.
type Watching = (Option<Seen>, Watch);

fn look(store: &Store, ns: Namespace, key: &[u8], now: Ms) -> Option<Seen> {
    store.peek(ns, key, now).map(|entry| (entry.version(), entry.expires()))
}

/// Queues a command.
pub(crate) fn queue(conn: &mut Conn, found: Found, args: &Args<'_>, reply: &mut Reply<'_>) {
    let bytes = args.owned_size() + size_of::<(Found, Owned)>();
    conn.multi.bytes += bytes;
    let is_large = bytes > COMMAND || conn.multi.bytes > QUEUE;
    if is_large || conn.multi.queue.len() >= COMMANDS || !conn.hold() {
        fail(conn);
        free(std::mem::take(&mut conn.multi.queue), conn.multi.bytes);
        conn.multi.bytes = 0;
        conn.hold();
        return reply.error(TOO_LARGE);
    }
    conn.multi.queue.push((found, args.to_owned()));
    conn.known.queued.store(conn.multi.queue.len() as i32, Relaxed);
    reply.raw(b"+QUEUED\r\n");
}

/// Ends the transaction and the watches.
pub(crate) fn end(conn: &mut Conn) {
    leave(conn, 0);
}

/// As `end`, while this many bytes of commands are still held.
fn leave(conn: &mut Conn, bytes: usize) {
    conn.multi = OnDemand::default();
    if bytes > 0 {
        conn.multi.bytes = bytes;
    }
    // The memory does not grow, so this does not fail.
    conn.hold();
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
    if args.len() - 1 > WATCHES {
        return ctx.reply().error("ERR too many watched keys");
    }
    ctx.go(WatchKeys { next: 1 }, args);
}

/// A WATCH in progress. It holds no keys.
struct WatchKeys {
    /// The argument that is watched next.
    next: usize,
}

impl Job for WatchKeys {
    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        while self.next < args.len() {
            if let Err(text) = watch_key(ctx, args.get(self.next)) {
                ctx.reply().error(text);
                return Progress::Done;
            }
            self.next += 1;
            if self.next.is_multiple_of(WATCHED_AT_ONCE) && ctx.is_over() {
                return Progress::Again;
            }
        }
        ctx.reply().ok();
        Progress::Done
    }

    fn is_apart(&self) -> bool {
        true
    }
}

fn watch_key(ctx: &mut Ctx<'_>, key: &[u8]) -> Result<(), &'static str> {
    if ctx.conn.multi.watched.contains_key(&(ctx.ns.0, Box::from(key))) {
        return Ok(());
    }
    if ctx.conn.multi.watched.len() >= WATCHES {
        return Err("ERR too many watched keys");
    }
    // In the list, in its watch, and in the table of watched keys.
    let bytes = 3 * (key.len() + ENTRY);
    if ctx.conn.multi.watched_bytes + bytes > WATCHED_BYTES {
        return Err("ERR the watched keys are too long");
    }
    ctx.conn.multi.watched_bytes += bytes;
    if !ctx.conn.hold() {
        ctx.conn.multi.watched_bytes -= bytes;
        return Err("OOM no room for more watched keys");
    }
    let watched = &mut ctx.conn.multi.watched;
    watched.entry((ctx.ns.0, key.into())).or_insert_with(|| {
        let _held = ctx.shared.locks.moment(key);
        let watch = Watch::new(&ctx.face.shared, ctx.ns, key);
        (look(ctx.store, ctx.ns, key, ctx.now), watch)
    });
    Ok(())
}

pub(crate) fn unwatch(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    if !ctx.conn.multi.watched.is_empty() {
        ctx.conn.multi.watched.clear();
        ctx.conn.multi.watched_bytes = 0;
        ctx.conn.hold();
    }
    ctx.reply().ok();
}

/// The stripes for the transaction's commands and its watched keys.
pub(crate) fn wanted(locks: &Locks, conn: &Conn) -> WantedStripes {
    let runs = conn.multi.open && !conn.multi.failed;
    if runs { stripes(locks, &conn.multi) } else { WantedStripes::default() }
}

fn stripes(locks: &Locks, multi: &Multi) -> WantedStripes {
    let mut wanted = WantedStripes::default();
    multi.watched.keys().for_each(|(_, key)| wanted.key(key));
    for (found, owned) in &multi.queue {
        dispatch::want(locks, &mut wanted, found.command, &owned.args());
    }
    wanted
}

/// EXEC, with its stripes held.
pub(crate) fn exec(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if !ctx.conn.multi.open {
        return ctx.reply().error("ERR EXEC without MULTI");
    }
    let mut multi = std::mem::take(&mut ctx.conn.multi).into_inner();
    let changed = !multi.failed
        && multi.watched.iter().any(|((ns, key), (seen, watch))| {
            look(ctx.store, Namespace(*ns), key, ctx.now) != *seen || watch.is_written()
        });
    if multi.any(|command, _| script::runs(command.id)) {
        ctx.conn.exec_stripes = Some(Box::new(stripes(&ctx.shared.locks, &multi)));
    }
    // The watches end before the transaction's own writes.
    multi.watched.clear();
    let runs = !multi.failed && !changed;
    // Its commands are held until all of them have run.
    leave(ctx.conn, if runs { multi.bytes } else { 0 });
    if !runs {
        ctx.conn.exec_stripes = None;
        // CLIENT CACHING before MULTI applied to the whole transaction.
        ctx.conn.end_caching();
        if changed {
            return ctx.reply().null_array();
        }
        return ctx.reply().error("EXECABORT Transaction discarded because of previous errors.");
    }
    // Earlier messages must not come between the answers.
    ctx.take_messages();
    let start = ctx.out.mark();
    ctx.reply().array(multi.queue.len());
    ctx.conn.in_exec = true;
    let left = std::mem::take(&mut multi.queue).into_iter();
    ctx.go(Exec { left, now: ctx.now, begun: None, start, overflowed: false }, args);
}

/// A running transaction. It holds its keys until it ends.
struct Exec {
    left: std::vec::IntoIter<(Found, Owned)>,
    /// The time for all its commands.
    now: Ms,
    /// Its current command, if that runs in steps.
    begun: Option<(Box<Begun>, Owned)>,
    /// Start of its answers.
    start: Mark,
    /// The answers were too long: the whole transaction is executed, and none of it is answered.
    overflowed: bool,
}

impl Exec {
    /// Executes the next command or continues the current one. False: none is left.
    fn next(&mut self, ctx: &mut Ctx<'_>) -> bool {
        if let Some((mut begun, owned)) = self.begun.take() {
            let mut progress = begun.job.step(ctx, &owned.args());
            if let Some(again) = ctx.conn.begun.take() {
                (begun, progress) = (again, Progress::Again);
            }
            if progress != Progress::Done {
                self.begun = Some((begun, owned));
            }
            return true;
        }
        let Some((found, owned)) = self.left.next() else { return false };
        if (ctx.conn.gates & gate::RESTRICTED != 0
            || attention::any(ctx.shared, attention::CHANGES))
            && let Err(text) = acl::check_queued(ctx.face, ctx.conn, found.command, &owned.args())
        {
            ctx.reply().error(text);
            return true;
        }
        dispatch::call(ctx.face, ctx.conn, found, &owned.args(), self.now, ctx.out);
        (ctx.version, ctx.ns, ctx.db) = (ctx.conn.version, ctx.conn.ns, ctx.conn.db);
        self.begun = ctx.conn.begun.take().map(|begun| (begun, owned));
        true
    }
}

impl Job for Exec {
    fn step(&mut self, ctx: &mut Ctx<'_>, _args: &Args<'_>) -> Progress {
        ctx.now = self.now;
        while self.next(ctx) {
            self.overflowed |= ctx.overflows();
            if self.overflowed {
                ctx.out.truncate(self.start);
            }
            if ctx.is_over() {
                return Progress::Again;
            }
        }
        ctx.conn.multi.bytes = 0;
        ctx.conn.hold();
        (ctx.conn.in_exec, ctx.conn.exec_stripes) = (false, None);
        ctx.conn.end_caching();
        // After an UNSUBSCRIBE nothing else sends the earlier messages.
        ctx.take_messages();
        Progress::Done
    }
}
