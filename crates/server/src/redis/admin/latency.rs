//! LATENCY: events ([`crate::redis::events`]), and histograms of commands.

use std::{collections::BTreeMap, sync::atomic::Ordering::Relaxed};

use larder_proto::resp::{Args, table};

use super::info;
use crate::redis::{
    counters::{BUCKETS, class},
    ctx::Ctx,
    dispatch::text,
    shared::Shared,
};

/// LATENCY LATEST: of each kind of event its last second, and the longest of all.
pub(crate) fn latest(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let all = ctx.shared.events.all();
    let mut reply = ctx.reply();
    reply.array(all.len());
    for (kind, series) in all {
        let (second, millis) = series.samples.back().copied().unwrap_or_default();
        reply.array(4);
        reply.bulk(kind.as_bytes());
        [second, millis, series.longest].iter().for_each(|number| reply.integer(*number as i64));
    }
}

/// LATENCY HISTORY event
pub(crate) fn history(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let series = ctx.shared.events.of(args.get(2)).unwrap_or_default();
    let mut reply = ctx.reply();
    reply.array(series.samples.len());
    for (second, millis) in series.samples {
        reply.array(2);
        reply.integer(second as i64);
        reply.integer(millis as i64);
    }
}

/// LATENCY RESET \[event ...]
pub(crate) fn reset(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let gone = ctx.shared.events.forget(args.from(2));
    ctx.reply().count(gone);
}

/// Columns of a bar in LATENCY GRAPH.
const COLUMNS: u64 = 50;

/// LATENCY GRAPH event: a bar for each second.
pub(crate) fn graph(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let Some(series) = ctx.shared.events.of(args.get(2)) else {
        let error = format!("ERR No samples available for event '{}'", text(args.get(2)));
        return ctx.reply().error(error);
    };
    let now = ctx.face.wall_micros() / 1_000_000;
    let times = || series.samples.iter().map(|(_, millis)| *millis);
    let high = times().max().unwrap_or_default();
    let mut lines = format!(
        "{} - high {high} ms, low {} ms (all time high {} ms)\n",
        text(args.get(2)),
        times().min().unwrap_or_default(),
        series.longest
    );
    for (second, millis) in &series.samples {
        let columns = (millis * COLUMNS / high.max(1)) as usize;
        let ago = now.saturating_sub(*second);
        lines.push_str(&format!("{ago:>8}s {millis:>8} ms {}\n", "#".repeat(columns)));
    }
    ctx.reply().verbatim("txt", lines.as_bytes());
}

/// LATENCY DOCTOR
pub(crate) fn doctor(ctx: &mut Ctx<'_>, _args: &Args<'_>) {
    let mut lines = String::new();
    if ctx.shared.config.latency_threshold.load(Relaxed) == 0 {
        lines.push_str(
            "Events are not noted: CONFIG SET latency-monitor-threshold <milliseconds> has \
             commands noted that take longer.\n",
        );
    }
    for (kind, series) in ctx.shared.events.all() {
        lines.push_str(&format!(
            "{kind}: {} seconds with such commands, the longest took {} ms.\n",
            series.samples.len(),
            series.longest
        ));
    }
    lines.push_str(
        "SLOWLOG GET tells which commands were slow; LATENCY HISTOGRAM and INFO latencystats how \
         long all take. While one takes long, others are served.\n",
    );
    ctx.reply().verbatim("txt", lines.as_bytes());
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
