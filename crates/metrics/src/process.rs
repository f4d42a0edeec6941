//! The tables of the process: memory and its namespaces, the access log, traces.

use crate::{
    Snapshot,
    snapshot::{Row, figures},
    table::{Kind, Metric},
};

figures! {
    /// The store's memory.
    pub struct Memory {
        figures {
            /// Budget of the store.
            budget: Gauge "larder_memory_budget_bytes", "It is configured: `memory`, less `http.sendfile_cache`.";
            /// Used part of the store's budget, including bookkeeping.
            used: Gauge "larder_memory_used_bytes",
                "It fills: at the budget old entries are evicted, as in any cache.";
            /// Resident memory of the process.
            resident: Gauge "process_resident_memory_bytes",
                "Beyond `larder_memory_used_bytes`: connections, open requests, buffers.";
            /// Keys and values stored.
            payload;
        }
        with {
            /// The part of the budget that is used for entries and holds no live one, 0 to 1.
            fragmentation: f64;
            /// The entries of each face.
            namespaces: Vec<Namespace>;
        }
    }
}

impl Row for Memory {
    const LABELS: &'static [&'static str] = &[];

    fn each(snapshot: &Snapshot, f: &mut dyn FnMut(&[&str], &Self)) {
        f(&[], &snapshot.memory);
    }
}

figures! {
    /// The entries of one face.
    pub struct Namespace {
        figures {
            /// Entries stored now.
            items: Gauge "larder_store_items", "More, or smaller, is stored.";
            /// Keys and values stored now.
            bytes: Gauge "larder_store_bytes",
                "One face takes memory from the others: give it a ceiling, or the others a floor.";
            /// Entries evicted because memory was needed.
            evictions: Counter "larder_store_evictions",
                "Together with misses: more `memory` would give more hits.";
            /// Entries evicted although they had been read in the last minute.
            evictions_recent: Counter "larder_store_evictions_recent",
                "`memory` is too small for what is asked for.";
            /// Entries removed because they had expired.
            expired: Counter "larder_store_expired", "Short lifetimes; harmless.";
        }
        with {
            /// `pages`, `compressed` (forms of pages), `memcached` or `redis`.
            name: String;
            /// Memory reserved for them; null: none.
            floor: Option<u64>;
            /// Limit of their memory; null: the whole budget.
            ceiling: Option<u64>;
        }
    }
}

impl Row for Namespace {
    const LABELS: &'static [&'static str] = &["namespace"];

    fn each(snapshot: &Snapshot, f: &mut dyn FnMut(&[&str], &Self)) {
        snapshot.memory.namespaces.iter().for_each(|namespace| f(&[&namespace.name], namespace));
    }
}

/// Metrics of memory that are not whole numbers of every row.
pub(crate) const MEMORY: &[Metric] = &[
    Metric {
        name: "larder_memory_fragmentation_ratio",
        kind: Kind::Gauge,
        labels: &[],
        help: "The part of the budget that is used for entries and holds no live one, 0 to 1.",
        rises: "Many entries were deleted or expired; their memory is reused before anything is \
                evicted.",
        read: |s, to| to.float(&[], s.memory.fragmentation),
    },
    Metric {
        name: "larder_store_floor_bytes",
        kind: Kind::Gauge,
        labels: &["namespace"],
        help: "Memory reserved for the namespace, if configured.",
        rises: "It is configured.",
        read: |s, to| {
            Namespace::each(s, &mut |labels, ns| {
                ns.floor.iter().for_each(|floor| to.count(labels, *floor))
            });
        },
    },
    Metric {
        name: "larder_store_ceiling_bytes",
        kind: Kind::Gauge,
        labels: &["namespace"],
        help: "Limit of the namespace's memory, if configured.",
        rises: "It is configured.",
        read: |s, to| {
            Namespace::each(s, &mut |labels, ns| {
                ns.ceiling.iter().for_each(|most| to.count(labels, *most))
            });
        },
    },
];

figures! {
    /// States of the whole process; those of now are 1 while they last, and told on the terminal.
    pub struct Conditions {
        figures {
            /// Whether the last reload failed: the configuration in use is an older one.
            reload_failed: Gauge "larder_reload_failed",
                "The terminal, or `larder check`, says what is wrong with the file.";
            /// Reloads of the configuration.
            reloads: Counter "larder_reloads", "Somebody reloads.";
            /// Reloads that failed.
            reloads_failed: Counter "larder_reloads_failed", "As `larder_reload_failed`.";
            /// Whether memory is full and entries are evicted that were read in the last minute.
            memory_short: Gauge "larder_memory_short", "More `memory` would give more hits.";
            /// Whether there is no descriptor for connections or files.
            descriptors_short: Gauge "larder_descriptors_short",
                "Raise `ulimit -n`, or lower `http.limits.connections`.";
            /// Connections and files that could not be opened for want of descriptors.
            descriptor_failures: Counter "larder_descriptor_failures",
                "As `larder_descriptors_short`.";
        }
    }
}

impl Row for Conditions {
    const LABELS: &'static [&'static str] = &[];

    fn each(snapshot: &Snapshot, f: &mut dyn FnMut(&[&str], &Self)) {
        f(&[], &snapshot.conditions);
    }
}

figures! {
    /// The access log.
    pub struct LogFigures {
        figures {
            /// Lines handed to the access log.
            lines: Counter "larder_log_lines", "More traffic.";
            /// Lines of the access log that were lost.
            dropped: Counter "larder_log_lines_dropped", "The disk is full or too slow.";
        }
    }
}

impl Row for LogFigures {
    const LABELS: &'static [&'static str] = &[];

    fn each(snapshot: &Snapshot, f: &mut dyn FnMut(&[&str], &Self)) {
        f(&[], &snapshot.log);
    }
}

figures! {
    /// Spans for the collector of traces.
    pub struct Spans {
        figures {
            /// Accepted by the collector.
            exported;
            /// Lost: too many waited, or the collector did not accept them.
            dropped;
        }
    }
}

impl Row for Spans {
    const LABELS: &'static [&'static str] = &[];

    fn each(snapshot: &Snapshot, f: &mut dyn FnMut(&[&str], &Self)) {
        snapshot.tracing.iter().for_each(|spans| f(&[], spans));
    }
}

/// Metrics of the process with labels of their own.
pub(crate) const PROCESS: &[Metric] = &[
    Metric {
        name: "larder_build_info",
        kind: Kind::Gauge,
        labels: &["version", "name"],
        help: "Always 1; the labels are the version and the instance's name.",
        rises: "It does not.",
        read: |s, to| to.count(&[&s.larder, &s.name], 1),
    },
    Metric {
        name: "larder_worker_threads",
        kind: Kind::Gauge,
        labels: &[],
        help: "Worker threads.",
        rises: "It is configured: `threads`.",
        read: |s, to| to.count(&[], s.threads as u64),
    },
    Metric {
        name: "larder_loop_delay_seconds",
        kind: Kind::Histogram,
        labels: &[],
        help: "How late workers handle a timer, measured ten times a second each: the waiting \
               time of all ready work. Timers have steps of a millisecond: an idle worker is up \
               to that late.",
        rises: "Too little processor, or single requests that take long (Redis commands that walk \
                everything, purges by expression).",
        read: |s, to| to.histogram(&[], &s.loop_delay),
    },
    Metric {
        name: "larder_trace_spans",
        kind: Kind::Counter,
        labels: &["result"],
        help: "Spans for the collector of traces: `exported`, or `dropped` (too many waited, or \
               it did not accept them).",
        rises: "`dropped`: look at the collector; standard error has its first refusal.",
        read: |s, to| {
            Spans::each(s, &mut |_, spans| {
                to.count(&["exported"], spans.exported);
                to.count(&["dropped"], spans.dropped);
            });
        },
    },
    Metric {
        name: "process_start_time_seconds",
        kind: Kind::Gauge,
        labels: &[],
        help: "When the process started, in seconds since 1970.",
        rises: "It was restarted: counters begin at zero.",
        read: |s, to| to.float(&[], s.started_ms as f64 / 1000.0),
    },
];
