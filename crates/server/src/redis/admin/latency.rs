//! LATENCY: histograms of commands. Events are not recorded (`latency-monitor-threshold` is 0).

use std::collections::BTreeMap;

use larder_proto::resp::{Args, table};

use crate::redis::{counters::BUCKETS, ctx::Ctx, dispatch::text, shared::Shared};

pub(crate) fn nothing(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    ctx.reply().array(0);
}

pub(crate) fn reset(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    ctx.reply().integer(0);
}

pub(crate) fn graph(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let error = format!("ERR No samples available for event '{}'", text(args.get(2)));
    ctx.reply().error(error);
}

pub(crate) fn doctor(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    ctx.reply().verbatim(
        "txt",
        b"Larder does not watch single latency events. LATENCY HISTOGRAM and INFO latencystats tell how long commands \
          take, SLOWLOG GET which were slow.\n",
    );
}

/// Histograms of the timed commands by name: calls per bucket of microseconds.
pub(crate) fn times(shared: &Shared) -> Vec<(&'static str, [u64; BUCKETS])> {
    let mut sums = BTreeMap::new();
    shared.counters.iter().for_each(|counters| counters.add_latencies(&mut sums));
    table::all()
        .flat_map(|command| std::iter::once(command).chain(command.subcommands))
        .filter_map(|command| sums.get(&(command.id as u16)).map(|sum| (command.name, *sum)))
        .collect()
}

pub(crate) fn histogram(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let wanted: Vec<String> = args.from(2).map(|name| text(name).to_ascii_lowercase()).collect();
    let chosen = |name: &str| {
        wanted.is_empty()
            || wanted.iter().any(|w| name == w || name.split('|').next() == Some(w.as_str()))
    };
    let times: Vec<_> = times(ctx.shared).into_iter().filter(|(name, _)| chosen(name)).collect();
    let mut reply = ctx.reply();
    reply.map(times.len());
    for (name, classes) in times {
        reply.bulk(name.as_bytes());
        reply.map(2);
        reply.bulk(b"calls");
        reply.integer(classes.iter().sum::<u64>() as i64);
        reply.bulk(b"histogram_usec");
        let used: Vec<usize> = (0..BUCKETS).filter(|&class| classes[class] > 0).collect();
        reply.map(used.len());
        let mut sum = 0;
        for class in used {
            sum += classes[class];
            reply.integer(1 << class);
            reply.integer(sum as i64);
        }
    }
}
