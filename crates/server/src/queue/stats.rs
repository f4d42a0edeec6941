//! Statistics and rules as text, in Kestrel's words.

use std::fmt::{Display, Write as _};

use larder_queue::{Figures, Limits, Queues};

use super::{owner::Owner, seat::Answer};
use crate::clock::Ms;

/// The figures of a queue by Kestrel's names.
fn lines(figures: &Figures, waiters: usize) -> [(&'static str, u64); 17] {
    let counters = &figures.counters;
    [
        ("items", figures.items),
        ("bytes", figures.bytes),
        ("total_items", counters.added),
        ("logsize", figures.journal),
        ("expired_items", counters.expired),
        ("mem_items", figures.memory_items),
        ("mem_bytes", figures.memory_bytes),
        ("age", counters.age),
        ("discarded", counters.discarded),
        ("waiters", waiters as u64),
        ("open_transactions", figures.open),
        ("transactions", counters.opened),
        ("canceled_transactions", counters.aborted),
        ("failed_items", counters.failed),
        ("damaged_items", counters.damaged),
        ("total_flushes", counters.flushes),
        ("create_time", counters.created),
    ]
}

fn show(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn answer(text: String) -> Answer {
    Answer::Text(text.into_bytes().into())
}

/// `stats`.
pub(super) fn stats(owner: &Owner, now: Ms) -> Answer {
    let mut text = String::new();
    let mut line = |name: &str, value: &dyn Display| {
        let _ = write!(text, "STAT {name} {value}\r\n");
    };
    let Some(queues) = owner.queues() else { return Answer::Close(b"") };
    let (shared, commands) = (&owner.shared, &owner.commands);
    let sum = |counter: fn(&super::Counters) -> &larder_metrics::Counter| -> u64 {
        shared.counters.iter().map(|one| counter(one).get()).sum()
    };
    let all: Vec<_> = queues.figures().collect();
    let total = |figure: fn(&Figures) -> u64| -> u64 { all.iter().map(|(_, f)| figure(f)).sum() };
    line("uptime", &(now.saturating_sub(shared.started) / 1000));
    line("time", &(now / 1000));
    line("version", &env!("CARGO_PKG_VERSION"));
    line("curr_items", &total(|figures| figures.items));
    line("total_items", &total(|figures| figures.counters.added));
    line("bytes", &total(|figures| figures.bytes));
    line("curr_connections", &shared.clients.open());
    line("total_connections", &sum(|counters| &counters.total_connections));
    line("cmd_get", &commands.gets);
    line("cmd_set", &commands.sets);
    line("cmd_peek", &commands.peeks);
    line("get_hits", &commands.hits);
    line("get_misses", &commands.misses);
    line("bytes_read", &sum(|counters| &counters.bytes_read));
    line("bytes_written", &sum(|counters| &counters.bytes_written));
    for (name, figures) in &all {
        for (figure, value) in lines(figures, owner.waiters.of(name)) {
            line(&format!("queue_{}_{figure}", show(name)), &value);
        }
    }
    text.push_str("END\r\n");
    answer(text)
}

/// `dump_stats`.
pub(super) fn dump_stats(owner: &Owner) -> Answer {
    let Some(queues) = owner.queues() else { return Answer::Close(b"") };
    let mut text = String::new();
    for (name, figures) in queues.figures() {
        let _ = write!(text, "queue '{}' {{\r\n", show(name));
        for (figure, value) in lines(&figures, owner.waiters.of(name)) {
            let _ = write!(text, "  {figure}={value}\r\n");
        }
        text.push_str("}\r\n");
    }
    text.push_str("END\r\n");
    answer(text)
}

/// `dump_config`.
pub(super) fn dump_config(queues: &Queues) -> Answer {
    let mut text = String::new();
    for name in queues.names() {
        let Limits {
            items,
            bytes,
            item_size,
            max_age,
            default_expiry,
            discard_oldest,
            max_aborts,
            error_queue,
            memory_only,
            fanout_only,
        } = queues.rules(&name);
        let error_queue = error_queue.as_deref().map_or_else(|| "none".to_owned(), show);
        let _ = write!(text, "queue '{}' {{\r\n", show(&name));
        let mut line = |name: &str, value: &dyn Display| {
            let _ = write!(text, "  {name}={value}\r\n");
        };
        line("max_items", items);
        line("max_bytes", bytes);
        line("item_size", item_size);
        line("max_age", max_age);
        line("default_expiry", default_expiry);
        line("discard_oldest", discard_oldest);
        line("max_aborts", max_aborts);
        line("error_queue", &error_queue);
        line("memory_only", memory_only);
        line("fanout_only", fanout_only);
        text.push_str("}\r\n");
    }
    text.push_str("END\r\n");
    answer(text)
}
