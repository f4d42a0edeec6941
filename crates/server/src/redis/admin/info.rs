//! INFO: selection of sections, and the figures that INFO and CONFIG RESETSTAT share.
//! [`super::sections`] writes the lines.

use larder_proto::resp::{
    Args,
    table::{self, Command, flag},
};

use crate::redis::{counters::Counters, ctx::Ctx, dispatch::text, shared::Shared};

use super::sections;

/// Writes one section.
type Section = fn(&mut String, &Ctx<'_>);

/// Sections in Redis's order; the flag includes a section in INFO without arguments.
static SECTIONS: &[(&str, bool, Section)] = &[
    ("server", true, sections::server),
    ("clients", true, sections::clients),
    ("memory", true, sections::memory),
    ("persistence", true, sections::persistence),
    ("stats", true, sections::stats),
    ("replication", true, sections::replication),
    ("cpu", true, sections::cpu),
    ("modules", true, sections::modules),
    ("commandstats", false, sections::commands),
    ("errorstats", true, sections::errors),
    ("latencystats", false, sections::latencies),
    ("cluster", true, sections::cluster),
    ("keyspace", true, sections::keyspace),
];

pub(crate) fn info(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let wanted: Vec<String> = args.from(1).map(|name| text(name).to_ascii_lowercase()).collect();
    let has = |word: &str| wanted.iter().any(|name| name == word);
    let everything = has("everything") || has("all");
    let mut lines = String::new();
    for (name, usual, write) in SECTIONS {
        let shown = has(name) || everything || (*usual && (wanted.is_empty() || has("default")));
        if shown {
            if !lines.is_empty() {
                lines.push_str("\r\n");
            }
            write(&mut lines, ctx);
        }
    }
    ctx.reply().verbatim("txt", lines.as_bytes());
}

/// All commands and subcommands with a handler.
pub(crate) fn commands() -> impl Iterator<Item = &'static Command> {
    table::all().flat_map(|command| std::iter::once(command).chain(command.subcommands))
}

/// Number of writes since the start. Nothing is ever saved.
pub(crate) fn changes(shared: &Shared) -> u64 {
    let writes = commands().filter(|command| command.has(flag::WRITE));
    writes
        .map(|command| {
            let [calls, _, _, failed] = raw_per_command(shared, command);
            calls.saturating_sub(failed)
        })
        .sum()
}

/// A counter's sum over the workers since the last reset.
pub(crate) fn count(shared: &Shared, name: &str) -> u64 {
    let Some(place) = Counters::NAMES.iter().position(|known| *known == name) else { return 0 };
    let sum = shared.counters.iter().map(|counters| counters.values()[place]).sum();
    shared.baseline.since(name, sum)
}

/// Number of executed commands.
pub(crate) fn processed(shared: &Shared) -> u64 {
    shared.counters.iter().map(|counters| counters.calls()).sum()
}

/// Sums over the databases: hits, misses, expired, evicted.
pub(crate) fn lookups(shared: &Shared) -> [(&'static str, u64); 5] {
    let mut sums = [
        ("keyspace_hits", 0),
        ("keyspace_misses", 0),
        ("expired_keys", 0),
        ("evicted_keys", 0),
        ("expired_subkeys", shared.due_fields.expired()),
    ];
    for db in 0..shared.databases() {
        let stats = shared.store.stats(shared.namespace(db));
        for (sum, value) in
            sums.iter_mut().zip([stats.hits, stats.misses, stats.expired, stats.evictions])
        {
            sum.1 += value;
        }
    }
    sums
}

/// Used bytes of the budget, and those of them without entries.
pub(crate) fn memory(shared: &Shared) -> (u64, u64) {
    let totals = shared.store.totals();
    let overhead = totals.bookkeeping + (totals.index + totals.tags) * totals.segment;
    let used = totals.budget.saturating_sub(totals.free * totals.segment);
    (used, overhead.min(used))
}

/// Figures of a command over all workers since the last reset: calls, microseconds, rejected,
/// failed.
pub(crate) fn per_command(shared: &Shared, command: &Command) -> [u64; 4] {
    let mut sums = raw_per_command(shared, command);
    for (nth, sum) in sums.iter_mut().enumerate() {
        *sum = shared.baseline.since(&command_figure(command, nth), *sum);
    }
    sums
}

fn raw_per_command(shared: &Shared, command: &Command) -> [u64; 4] {
    let mut sums = [0; 4];
    for counters in &shared.counters {
        let own = &counters.commands[command.id as usize];
        let values = [own.calls.get(), own.micros.get(), own.rejected.get(), own.failed.get()];
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    }
    sums
}

fn command_figure(command: &Command, nth: usize) -> String {
    format!("command {} {nth}", command.name)
}

/// Figures that CONFIG RESETSTAT sets back to zero, by name.
pub(crate) fn figures(shared: &Shared) -> impl Iterator<Item = (String, u64)> {
    let mut all: Vec<(String, u64)> = Vec::new();
    for (place, name) in Counters::NAMES.iter().enumerate() {
        let sum = shared.counters.iter().map(|counters| counters.values()[place]).sum();
        all.push(((*name).to_owned(), sum));
    }
    all.push(("total_commands_processed".to_owned(), processed(shared)));
    all.extend(lookups(shared).map(|(name, value)| (name.to_owned(), value)));
    for command in commands() {
        for (nth, value) in raw_per_command(shared, command).into_iter().enumerate() {
            all.push((command_figure(command, nth), value));
        }
    }
    all.extend(errors(shared).into_iter().map(|(code, count)| (format!("error {code}"), count)));
    all.into_iter().filter(|(_, value)| *value > 0)
}

/// Number of errors by code, since the start.
pub(crate) fn errors(shared: &Shared) -> Vec<(String, u64)> {
    let mut sums = std::collections::BTreeMap::new();
    shared.counters.iter().for_each(|counters| counters.add_errors(&mut sums));
    sums.into_iter().map(|(code, count)| (text(&code).into_owned(), count)).collect()
}
