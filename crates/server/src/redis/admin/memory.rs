//! MEMORY.

use larder_proto::resp::{Args, number};

use crate::redis::ctx::Ctx;

/// Average overhead per entry in bytes: the record's head and its index slot.
const OVERHEAD: u64 = 40;

pub(crate) fn usage(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let mut at = 3;
    while at < args.len() {
        if !args.is(at, "samples") || at + 1 >= args.len() {
            return ctx.reply().error("ERR syntax error");
        }
        match number::parse_i64(args.get(at + 1)) {
            Some(samples) if samples >= 0 => at += 2,
            Some(_) => return ctx.reply().error("ERR syntax error"),
            None => return ctx.reply().error("ERR value is not an integer or out of range"),
        }
    }
    let key = args.get(2);
    match ctx.store.peek(ctx.ns, key, ctx.now).map(|entry| entry.len()) {
        Some(len) => ctx.reply().integer((len + key.len() as u64 + OVERHEAD) as i64),
        None => ctx.reply().null(),
    }
}

pub(crate) fn purge(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    ctx.reply().ok();
}

pub(crate) fn doctor(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    ctx.reply().verbatim(
        "txt",
        b"Larder's memory is one fixed budget taken at the start: it does not fragment, and nothing needs to be done.\n",
    );
}

pub(crate) fn allocator(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    ctx.reply()
        .verbatim("txt", b"Entries do not come from the system's allocator: see MEMORY STATS.\n");
}

pub(crate) fn stats(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let (used, overhead) = super::info::memory(ctx.shared);
    let (mut keys, mut bytes) = (0, 0);
    for db in 0..ctx.shared.databases() {
        let stats = ctx.store.stats(ctx.shared.namespace(db));
        keys += stats.items;
        bytes += stats.bytes;
    }
    let budget = ctx.store.totals().budget;
    let whole = [
        ("peak.allocated", used),
        ("total.allocated", used),
        ("startup.allocated", overhead),
        ("replication.backlog", 0),
        ("clients.slaves", 0),
        ("clients.normal", 0),
        ("cluster.links", 0),
        ("aof.buffer", 0),
        ("lua.caches", 0),
        ("functions.caches", 0),
        ("overhead.total", overhead),
        ("keys.count", keys),
        ("keys.bytes-per-key", (used - overhead).checked_div(keys).unwrap_or(0)),
        ("dataset.bytes", bytes),
    ];
    let percent = |part: u64, of: u64| if of == 0 { 0.0 } else { part as f64 * 100.0 / of as f64 };
    let mut reply = ctx.reply();
    reply.map(whole.len() + 3);
    for (name, value) in whole {
        reply.bulk(name.as_bytes());
        reply.integer(value as i64);
    }
    reply.bulk(b"dataset.percentage");
    reply.double(percent(bytes, used));
    reply.bulk(b"peak.percentage");
    reply.double(percent(used, budget));
    reply.bulk(b"fragmentation");
    reply.double(1.0);
}
