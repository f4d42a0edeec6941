//! SLOWLOG.

use larder_proto::resp::{Args, number};

use crate::redis::{conn, ctx::Ctx};

/// Number of entries shown without a count.
const FEW: usize = 10;

pub(crate) fn get(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let count = match args.len() {
        2 => FEW,
        3 => match number::parse_i64(args.get(2)) {
            Some(-1) => usize::MAX,
            Some(count) if count >= 0 => count as usize,
            _ => return ctx.reply().error("ERR count should be greater than or equal to -1"),
        },
        _ => return ctx.reply().error(conn::pubsub::misused_subcommand(args)),
    };
    let latest = ctx.shared.slowlog.latest(count);
    let mut reply = ctx.reply();
    reply.array(latest.len());
    for slow in latest {
        reply.array(6);
        reply.integer(slow.id as i64);
        reply.integer((slow.at / 1000) as i64);
        reply.integer(slow.micros as i64);
        reply.array(slow.args.len());
        slow.args.iter().for_each(|arg| reply.bulk(arg));
        reply.bulk(slow.address.as_bytes());
        reply.bulk(&slow.name);
    }
}

pub(crate) fn len(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let len = ctx.shared.slowlog.len();
    ctx.reply().count(len);
}

pub(crate) fn reset(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    ctx.shared.slowlog.reset();
    ctx.reply().ok();
}
