//! LATENCY HISTOGRAM: histograms of commands.

use std::collections::BTreeMap;

use larder_proto::resp::{Args, table};

use super::info;
use crate::redis::{
    counters::{BUCKETS, class},
    ctx::Ctx,
    dispatch::text,
    shared::Shared,
};

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

/// The same since CONFIG RESETSTAT, with as many calls as there were: fast commands are sampled.
fn exact_times(shared: &Shared) -> Vec<(&'static str, [u64; BUCKETS])> {
    let mut sums = BTreeMap::new();
    shared.counters.iter().for_each(|counters| counters.add_latencies(&mut sums));
    let mut times = Vec::new();
    for command in info::commands() {
        let [mut calls, micros, ..] = info::per_command(shared, command);
        // This call has not ended.
        calls -= u64::from(calls > 0 && command.id == table::Id::LatencyHistogram);
        if calls > 0 {
            let mut classes = sums.remove(&(command.id as u16)).unwrap_or([0; BUCKETS]);
            if classes.iter().all(|count| *count == 0) {
                // None was timed: all are in the class of their mean.
                classes[class(micros / calls)] = calls;
            }
            times.push((command.name, scaled(classes, calls)));
        }
    }
    times
}

/// The counts, in proportion, with this sum.
fn scaled(classes: [u64; BUCKETS], sum: u64) -> [u64; BUCKETS] {
    let total = u128::from(classes.iter().sum::<u64>().max(1));
    let (mut below, mut given) = (0, 0);
    classes.map(|count| {
        below += u128::from(count);
        let up_to = (below * u128::from(sum) / total) as u64;
        let own = up_to - given;
        given = up_to;
        own
    })
}

pub(crate) fn histogram(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let wanted: Vec<String> = args.from(2).map(|name| text(name).to_ascii_lowercase()).collect();
    let chosen = |name: &str| {
        wanted.is_empty()
            || wanted.iter().any(|w| name == w || name.split('|').next() == Some(w.as_str()))
    };
    let times = exact_times(ctx.shared).into_iter().filter(|(name, _)| chosen(name));
    let times: Vec<_> = times.collect();
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
