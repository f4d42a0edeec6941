//! SUBSCRIBE, PUBLISH and related commands (Redis documentation, "Redis Pub/Sub").

use std::collections::BTreeSet;

use larder_proto::resp::{
    Args, Reply,
    glob::{self, Pattern},
};
use larder_store::MAX_KEY;

use crate::{
    redis::{
        ctx::Ctx,
        hub::{Delivery, Kind},
        job::{Job, Progress},
        names::Names,
        shared::Shared,
        state::{Conn, ENTRY, gate},
    },
    room::{Held, Place},
};

/// Maximum of channels and patterns per connection.
const SUBSCRIPTIONS: usize = 1 << 16;
/// Maximum of patterns per connection: every message is compared with every pattern.
const PATTERNS: usize = 1 << 10;
/// Subscriptions ended in one step.
const LEAVES: usize = 256;

/// Steps of comparisons between two checks of the clock ([`Pattern::matches_counted`]).
const COMPARED: usize = 256 * 1024;
/// Names answered between two checks of the clock.
const AT_ONCE: usize = 256;

/// The connection's names of a kind.
fn names(conn: &mut Conn, kind: Kind) -> &mut BTreeSet<Box<[u8]>> {
    match kind {
        Kind::Channel => &mut conn.subscriptions.channels,
        Kind::Pattern => &mut conn.subscriptions.patterns,
        Kind::Shard => &mut conn.subscriptions.shards,
    }
}

/// Number of subscriptions that answers report; shard channels count separately.
fn count(conn: &Conn, kind: Kind) -> usize {
    if kind == Kind::Shard { conn.subscriptions.shards.len() } else { conn.subscriptions.count() }
}

/// Bytes of a subscription, here and in the hub, which stores a pattern twice.
fn bytes(kind: Kind, name: &[u8]) -> usize {
    (if kind == Kind::Pattern { 3 } else { 2 }) * (name.len() + ENTRY)
}

/// A SUBSCRIBE or UNSUBSCRIBE of many names in progress.
struct Change {
    kind: Kind,
    /// Name of the command in the answers.
    word: &'static str,
    joins: bool,
    /// The next argument.
    at: usize,
    /// UNSUBSCRIBE without names: all subscriptions of the kind.
    all: bool,
}

impl Change {
    fn join(&self, ctx: &mut Ctx<'_>, name: &[u8]) {
        if !names(ctx.conn, self.kind).contains(name) {
            if self.kind == Kind::Pattern && name.len() > glob::LONGEST {
                return ctx.reply().error(glob::TOO_LONG);
            }
            if name.len() > MAX_KEY {
                return ctx.reply().error(LONG_CHANNEL);
            }
            let has = ctx.conn.subscriptions.count() + ctx.conn.subscriptions.shards.len();
            let is_full =
                self.kind == Kind::Pattern && ctx.conn.subscriptions.patterns.len() >= PATTERNS;
            if has >= SUBSCRIPTIONS || is_full {
                return ctx.reply().error("ERR too many subscriptions");
            }
            ctx.conn.subscriptions.bytes += bytes(self.kind, name);
            if !ctx.conn.hold() {
                ctx.conn.subscriptions.bytes -= bytes(self.kind, name);
                return ctx.reply().error("OOM no room for more subscriptions");
            }
            if !ctx.shared.hub.add(self.kind, name, &ctx.conn.known) {
                ctx.conn.subscriptions.bytes -= bytes(self.kind, name);
                return ctx.reply().error("ERR too many patterns");
            }
            names(ctx.conn, self.kind).insert(name.into());
        }
        let count = count(ctx.conn, self.kind);
        report_count(ctx, self.word, Some(name), count);
    }

    fn leave(&self, ctx: &mut Ctx<'_>, name: &[u8]) {
        if names(ctx.conn, self.kind).remove(name) {
            ctx.conn.subscriptions.bytes -= bytes(self.kind, name);
            ctx.conn.hold();
            ctx.shared.hub.remove(self.kind, name, &ctx.conn.known);
        }
        // Earlier messages precede the confirmation that the subscription has ended.
        ctx.take_messages();
        let count = count(ctx.conn, self.kind);
        report_count(ctx, self.word, Some(name), count);
    }
}

impl Job for Change {
    fn is_apart(&self) -> bool {
        true
    }

    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        loop {
            let own = if self.all { names(ctx.conn, self.kind).first().cloned() } else { None };
            let name = match &own {
                Some(name) => &name[..],
                None if !self.all && self.at < args.len() => args.get(self.at),
                None => break,
            };
            self.at += 1;
            if self.joins {
                self.join(ctx, name);
            } else {
                self.leave(ctx, name);
            }
            if self.at.is_multiple_of(16) {
                if ctx.overflows() {
                    break;
                }
                if ctx.is_over() {
                    return Progress::Again;
                }
            }
        }
        ctx.conn.settle();
        Progress::Done
    }
}

fn add(ctx: &mut Ctx<'_>, args: &Args<'_>, kind: Kind, word: &'static str) {
    ctx.go(Change { kind, word, joins: true, at: 1, all: false }, args);
}

fn remove(ctx: &mut Ctx<'_>, args: &Args<'_>, kind: Kind, word: &'static str) {
    let all = args.len() == 1;
    if all && names(ctx.conn, kind).is_empty() {
        let count = count(ctx.conn, kind);
        report_count(ctx, word, None, count);
    }
    ctx.go(Change { kind, word, joins: false, at: 1, all }, args);
}

/// Reports the current number of subscriptions. This is a message, not an answer: CLIENT REPLY does
/// not suppress it.
fn report_count(ctx: &mut Ctx<'_>, word: &str, name: Option<&[u8]>, count: usize) {
    if ctx.conn.gates & gate::MUTED == 0 {
        return message(&mut ctx.reply(), word, name, count);
    }
    let mut bytes = Vec::new();
    message(&mut Reply::new(&mut bytes, ctx.version), word, name, count);
    ctx.conn.known.push(&bytes, ctx.shared.config.mail_limit());
}

fn message(reply: &mut Reply<'_>, word: &str, name: Option<&[u8]>, count: usize) {
    reply.push(3);
    reply.bulk(word.as_bytes());
    match name {
        Some(name) => reply.bulk(name),
        None => reply.null(),
    }
    reply.count(count);
}

/// Ends some subscriptions without a message. True: more remain.
pub(crate) fn leave_some(shared: &Shared, conn: &mut Conn) -> bool {
    if !conn.subscribed() {
        return false;
    }
    for kind in [Kind::Channel, Kind::Pattern, Kind::Shard] {
        for _ in 0..LEAVES {
            let Some(name) = names(conn, kind).pop_last() else { break };
            shared.hub.remove(kind, &name, &conn.known);
            conn.subscriptions.bytes -= bytes(kind, &name);
        }
    }
    conn.hold();
    conn.subscribed()
}

/// Ends all subscriptions without a message.
pub(crate) fn leave_all(shared: &Shared, conn: &mut Conn) {
    if !conn.subscribed() {
        return;
    }
    for kind in [Kind::Channel, Kind::Pattern, Kind::Shard] {
        for name in std::mem::take(names(conn, kind)) {
            shared.hub.remove(kind, &name, &conn.known);
        }
    }
    conn.subscriptions.bytes = 0;
    conn.hold();
    conn.settle();
}

pub(crate) fn subscribe(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    add(ctx, args, Kind::Channel, "subscribe");
}

pub(crate) fn psubscribe(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    add(ctx, args, Kind::Pattern, "psubscribe");
}

pub(crate) fn ssubscribe(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    add(ctx, args, Kind::Shard, "ssubscribe");
}

pub(crate) fn unsubscribe(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    remove(ctx, args, Kind::Channel, "unsubscribe");
}

pub(crate) fn punsubscribe(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    remove(ctx, args, Kind::Pattern, "punsubscribe");
}

pub(crate) fn sunsubscribe(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    remove(ctx, args, Kind::Shard, "sunsubscribe");
}

/// A channel's name is limited, because every pattern may be compared with all of it.
const LONG_CHANNEL: &str = "ERR the name of a channel is longer than 16384 bytes";

/// PUBLISH and SPUBLISH.
fn start_publish(ctx: &mut Ctx<'_>, args: &Args<'_>, kind: Kind) {
    if args.get(1).len() > MAX_KEY {
        return ctx.reply().error(LONG_CHANNEL);
    }
    let (shared, limit) = (ctx.shared, ctx.shared.config.mail_limit());
    let mut held = None;
    if shared.hub.is_queued(kind, args.get(1)) {
        // A copy of the payload waits in the channel's queue.
        let held = held.insert(Held::new(&ctx.conn.known.client.holder, Place::Heap));
        if !held.resize(args.get(2).len() as u64) {
            return ctx.reply().error("OOM no room for a message to so many subscribers");
        }
    }
    let delivery = shared.hub.begin(kind, args.get(1), args.get(2), limit);
    ctx.go(Publish { delivery, held }, args);
}

pub(crate) fn publish(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    start_publish(ctx, args, Kind::Channel);
}

pub(crate) fn spublish(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    start_publish(ctx, args, Kind::Shard);
}

/// A PUBLISH in progress.
struct Publish {
    delivery: Delivery,
    #[allow(dead_code)] // held only for its drop
    held: Option<Held>,
}

impl Job for Publish {
    fn is_apart(&self) -> bool {
        true
    }

    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        let (shared, limit) = (ctx.shared, ctx.shared.config.mail_limit());
        while shared.hub.go_on(&mut self.delivery, args.get(1), args.get(2), limit) {
            if ctx.is_over() {
                return Progress::Again;
            }
        }
        published(ctx, self.delivery.receivers());
        Progress::Done
    }
}

fn published(ctx: &mut Ctx<'_>, receivers: usize) {
    // If the publisher has subscribed to the channel, its own message precedes the answer. In a
    // transaction it follows the whole transaction. If answers are dropped, the message is not.
    ctx.take_messages();
    ctx.reply().count(receivers);
}

/// Redis's error for a subcommand of this container with too many arguments.
#[cold]
pub(crate) fn misused_subcommand(args: &Args<'_>) -> Vec<u8> {
    // The table knows the name, so it is not truncated.
    let (name, subcommand) = (args.get(0).to_ascii_uppercase(), args.get(1));
    let about = b"ERR unknown subcommand or wrong number of arguments for '";
    [about, subcommand, b"'. Try ", &name, b" HELP."].concat()
}

fn start_channels(ctx: &mut Ctx<'_>, args: &Args<'_>, kind: Kind) {
    if args.len() > 3 {
        return ctx.reply().error(misused_subcommand(args));
    }
    if args.len() > 2 && args.get(2).len() > glob::LONGEST {
        return ctx.reply().error(glob::TOO_LONG);
    }
    let held = Held::new(&ctx.conn.known.client.holder, Place::Heap);
    let (part_names, found) = Default::default();
    ctx.go(Channels { kind, part: 0, part_names, at: 0, found, held, next: None }, args);
}

/// A PUBSUB CHANNELS in progress.
struct Channels {
    kind: Kind,
    /// The next part of the table.
    part: usize,
    /// Names of the last part, and the index of the next one to compare.
    part_names: Names,
    at: usize,
    found: Names,
    /// Memory of both lists, charged to the clients' memory.
    held: Held,
    /// The walk is complete: index of the next name to answer.
    next: Option<usize>,
}

impl Channels {
    /// Compares some names, or lists those of the next part; names are not compared under the
    /// part's lock. False: none remain.
    fn find(&mut self, ctx: &Ctx<'_>, pattern: Option<&[u8]>) -> bool {
        let (mut compared, pattern) = (0, pattern.map(Pattern::new));
        while self.at < self.part_names.len() && compared < COMPARED {
            let name = self.part_names.get(self.at);
            compared += ENTRY + name.len() / 16;
            let matches = |pattern: &Pattern<'_>| pattern.matches_counted(name, &mut compared);
            if pattern.as_ref().is_none_or(matches) {
                self.found.push(name);
            }
            self.at += 1;
        }
        if compared > 0 {
            return true;
        }
        let mut names = Names::default();
        let there = ctx.shared.hub.names(self.kind, self.part, &mut |name| names.push(name));
        (self.part_names, self.at) = (names, 0);
        self.part += 1;
        there
    }

    fn memory(&self) -> u64 {
        (self.found.memory() + self.part_names.memory()) as u64
    }
}

impl Job for Channels {
    fn is_apart(&self) -> bool {
        true
    }

    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        let pattern = (args.len() > 2).then(|| args.get(2));
        loop {
            match self.next {
                None => {
                    if !self.find(ctx, pattern) {
                        ctx.reply().array(self.found.len());
                        self.next = Some(0);
                    } else if !self.held.resize(self.memory()) {
                        ctx.reply().error("OOM no room for the names of so many channels");
                        return Progress::Done;
                    }
                }
                Some(from) => {
                    let to = self.found.len().min(from + AT_ONCE);
                    (from..to).for_each(|at| ctx.reply().bulk(self.found.get(at)));
                    self.next = Some(to);
                    if to == self.found.len() || ctx.overflows() {
                        return Progress::Done;
                    }
                }
            }
            if ctx.is_over() {
                return Progress::Again;
            }
        }
    }
}

/// PUBSUB CHANNELS [pattern]
pub(crate) fn channels(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    start_channels(ctx, args, Kind::Channel);
}

pub(crate) fn shard_channels(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    start_channels(ctx, args, Kind::Shard);
}

fn count_subscribers(ctx: &mut Ctx<'_>, args: &Args<'_>, kind: Kind) {
    ctx.reply().array((args.len() - 2) * 2);
    ctx.go(NumSub { kind, at: 2 }, args);
}

/// A PUBSUB NUMSUB in progress.
struct NumSub {
    kind: Kind,
    /// The next name.
    at: usize,
}

impl Job for NumSub {
    fn is_apart(&self) -> bool {
        true
    }

    fn step(&mut self, ctx: &mut Ctx<'_>, args: &Args<'_>) -> Progress {
        while self.at < args.len() {
            let name = args.get(self.at);
            let subscribers = ctx.shared.hub.subscribers(self.kind, name);
            ctx.reply().bulk(name);
            ctx.reply().count(subscribers);
            self.at += 1;
            if self.at.is_multiple_of(64) {
                if ctx.overflows() {
                    break;
                }
                if ctx.is_over() {
                    return Progress::Again;
                }
            }
        }
        Progress::Done
    }
}

pub(crate) fn numsub(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    count_subscribers(ctx, args, Kind::Channel);
}

pub(crate) fn shard_numsub(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    count_subscribers(ctx, args, Kind::Shard);
}

pub(crate) fn numpat(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let (_, patterns, _) = ctx.shared.hub.counts();
    ctx.reply().count(patterns);
}
