//! Commands about files, replicas and the process. Larder keeps its data in memory only and has no
//! replicas, so most of them answer a constant.

use std::sync::atomic::Ordering::Relaxed;

use larder_proto::resp::{Args, collection::parse_bound, number};

use crate::{
    clock::Ms,
    redis::{conn::REDIS_VERSION, ctx::Ctx, data::Wish},
};

/// Seconds that DEBUG SLEEP lasts at the most: a day.
const LONGEST_SLEEP: f64 = 86400.0;

/// SAVE and BGSAVE: an error, because their callers rely on a file.
pub(crate) fn save(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    ctx.reply().error("ERR Larder is a cache: it keeps its data in memory only");
}

/// LASTSAVE: the data is never saved; tools that monitor the age get the start time.
pub(crate) fn last_save(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let started = ctx.shared.started / 1000;
    ctx.reply().integer(started as i64);
}

/// DEBUG ERROR text, DEBUG SLEEP seconds: with these, suites of clients test what their library
/// does about an error and a slow server. Only the client that asks for it sleeps.
pub(crate) fn debug(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    if args.is(1, "error") && args.len() == 3 {
        ctx.reply().error(args.get(2));
    } else if args.is(1, "sleep") && args.len() == 3 {
        sleep(ctx, args.get(2));
    } else {
        ctx.reply()
            .error("ERR DEBUG is available for ERROR and SLEEP only: see INFO, MEMORY and SLOWLOG");
    }
}

/// Has the client's next answer wait. (Redis takes a text that is no number for 0, and sleeps in a
/// transaction, too: here that would keep its keys.)
fn sleep(ctx: &mut Ctx<'_>, seconds: &[u8]) {
    if ctx.conn.in_exec {
        return ctx.reply().error("ERR DEBUG SLEEP is not allowed in transactions");
    }
    let seconds = parse_bound(seconds).unwrap_or(0.0).clamp(0.0, LONGEST_SLEEP);
    let millis = (seconds * 1000.0).ceil() as Ms;
    if millis == 0 {
        return ctx.reply().ok();
    }
    let deadline = ctx.now.saturating_add(millis);
    ctx.wait(Vec::new(), Wish::Nothing, Some(deadline));
}

pub(crate) fn lolwut(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let line =
        format!("Larder {} speaks as Redis ver. {REDIS_VERSION}\n", env!("CARGO_PKG_VERSION"));
    ctx.reply().verbatim("txt", line.as_bytes());
}

pub(crate) fn role(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let mut reply = ctx.reply();
    reply.array(3);
    reply.bulk(b"master");
    reply.integer(0);
    reply.array(0);
}

pub(crate) fn time(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let micros = ctx.shared.wall_micros();
    let mut reply = ctx.reply();
    reply.array(2);
    reply.bulk_integer((micros / 1_000_000) as i64);
    reply.bulk_integer((micros % 1_000_000) as i64);
}

/// WAIT: there are no replicas.
pub(crate) fn wait(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    match (number::parse_i64(args.get(1)), number::parse_i64(args.get(2))) {
        (None, _) => ctx.reply().error("ERR value is not an integer or out of range"),
        (_, None) => ctx.reply().error("ERR timeout is not an integer or out of range"),
        (_, Some(timeout)) if timeout < 0 => ctx.reply().error("ERR timeout is negative"),
        _ => ctx.reply().integer(0),
    }
}

/// Answer to SHUTDOWN if it is not allowed: the process may also serve pages and other objects.
const NO_SHUTDOWN: &str = "ERR SHUTDOWN ends the whole program, pages included; it is allowed by \
                           `shutdown = true` in [redis]";

/// SHUTDOWN: stops the process if allowed. Received commands are answered, then connections end.
/// Nothing is saved, whatever the options.
pub(crate) fn shutdown(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let words = ["save", "nosave", "now", "force", "abort"];
    let known = |at: usize| words.iter().any(|word| args.is(at, word));
    let abort = (1..args.len()).any(|at| args.is(at, "abort"));
    let both = |a: &str, b: &str| {
        let has = |word: &str| (1..args.len()).any(|at| args.is(at, word));
        has(a) && has(b)
    };
    if !(1..args.len()).all(known) || (abort && args.len() > 2) || both("save", "nosave") {
        return ctx.reply().error("ERR syntax error");
    }
    if abort {
        return ctx.reply().error("ERR No shutdown in progress.");
    }
    if (1..args.len()).any(|at| args.is(at, "save")) {
        return ctx.reply().error("ERR Larder is a cache: it keeps its data in memory only");
    }
    if !ctx.shared.config.shutdown.load(Relaxed) {
        return ctx.reply().error(NO_SHUTDOWN);
    }
    ctx.conn.closing = true;
    ctx.shared.stop.ask();
}
