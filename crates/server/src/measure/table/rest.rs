//! Metrics of memory, of the object faces, of the remote tier and of the process.

use super::{Kind, Metric};
use crate::measure::{Namespace, Objects, Remote, RemoteServer, Snapshot};

fn each_namespace(snapshot: &Snapshot, f: impl FnMut(&Namespace)) {
    snapshot.memory.namespaces.iter().for_each(f);
}

fn each_face(snapshot: &Snapshot, mut f: impl FnMut(&'static str, &Objects)) {
    for (name, face) in [("memcached", &snapshot.memcached), ("redis", &snapshot.redis)] {
        if let Some(face) = face {
            f(name, face);
        }
    }
}

fn each_server(snapshot: &Snapshot, f: impl FnMut(&RemoteServer)) {
    snapshot.remote.iter().flat_map(|remote: &Remote| &remote.servers).for_each(f);
}

/// A metric of some rows with a name each, and one number of each row.
macro_rules! of_each {
    ($each:ident, $kind:ident, $name:literal, $unit:literal, $label:literal, $value:expr, $help:literal, $rises:literal) => {
        Metric {
            name: $name,
            kind: Kind::$kind,
            unit: $unit,
            labels: &[$label],
            help: $help,
            rises: $rises,
            read: |s, to| $each(s, |row| to.count(&[row.name.as_ref()], $value(row))),
        }
    };
}

/// The same of the object faces.
macro_rules! of_face {
    ($kind:ident, $name:literal, $unit:literal, $value:expr, $help:literal, $rises:literal) => {
        Metric {
            name: $name,
            kind: Kind::$kind,
            unit: $unit,
            labels: &["face"],
            help: $help,
            rises: $rises,
            read: |s, to| each_face(s, |name, face| to.count(&[name], $value(face))),
        }
    };
}

pub(super) const MEMORY: &[Metric] = &[
    Metric {
        name: "larder_memory_budget_bytes",
        kind: Kind::Gauge,
        unit: "bytes",
        labels: &[],
        help: "Budget of the store.",
        rises: "It is configured: `memory`, less `http.shelf`.",
        read: |s, to| to.count(&[], s.memory.budget),
    },
    Metric {
        name: "larder_memory_used_bytes",
        kind: Kind::Gauge,
        unit: "bytes",
        labels: &[],
        help: "Used part of the store's budget, including bookkeeping.",
        rises: "It fills: at the budget old entries are evicted, as in any cache.",
        read: |s, to| to.count(&[], s.memory.used),
    },
    Metric {
        name: "larder_memory_fragmentation_ratio",
        kind: Kind::Gauge,
        unit: "ratio",
        labels: &[],
        help: "The part of the budget that is used for entries and holds no live one, 0 to 1.",
        rises: "Many entries were deleted or expired; their memory is reused before anything is \
                evicted.",
        read: |s, to| to.float(&[], s.memory.fragmentation),
    },
    of_each!(
        each_namespace,
        Gauge,
        "larder_store_items",
        "",
        "namespace",
        |ns: &Namespace| ns.items,
        "Entries stored now.",
        "More, or smaller, is stored."
    ),
    of_each!(
        each_namespace,
        Gauge,
        "larder_store_bytes",
        "bytes",
        "namespace",
        |ns: &Namespace| ns.bytes,
        "Keys and values stored now.",
        "One face takes memory from the others: give it a ceiling, or the others a floor."
    ),
    of_each!(
        each_namespace,
        Counter,
        "larder_store_evictions",
        "",
        "namespace",
        |ns: &Namespace| ns.evictions,
        "Entries evicted because memory was needed.",
        "Together with misses: more `memory` would give more hits."
    ),
    of_each!(
        each_namespace,
        Counter,
        "larder_store_expired",
        "",
        "namespace",
        |ns: &Namespace| ns.expired,
        "Entries removed because they had expired.",
        "Short lifetimes; harmless."
    ),
    Metric {
        name: "larder_store_floor_bytes",
        kind: Kind::Gauge,
        unit: "bytes",
        labels: &["namespace"],
        help: "Memory reserved for the namespace, if configured.",
        rises: "It is configured.",
        read: |s, to| each_namespace(s, |ns| ns.floor.iter().for_each(|floor| to.count(&[ns.name], *floor))),
    },
    Metric {
        name: "larder_store_ceiling_bytes",
        kind: Kind::Gauge,
        unit: "bytes",
        labels: &["namespace"],
        help: "Limit of the namespace's memory, if configured.",
        rises: "It is configured.",
        read: |s, to| each_namespace(s, |ns| ns.ceiling.iter().for_each(|most| to.count(&[ns.name], *most))),
    },
];

pub(super) const OBJECTS: &[Metric] = &[
    of_face!(
        Gauge,
        "larder_object_connections",
        "",
        |face: &Objects| face.connections.open,
        "Connections of clients open now.",
        "Clients without a pool, or more application servers; at the face's `connections` further ones wait or are refused."
    ),
    of_face!(
        Counter,
        "larder_object_connections_accepted",
        "",
        |face: &Objects| face.connections.accepted,
        "Connections accepted.",
        "Clients that connect for every request: persistent connections cost a fraction."
    ),
    of_face!(
        Counter,
        "larder_object_connections_refused",
        "",
        |face: &Objects| face.connections.refused,
        "Connections refused.",
        "The face's limit is too low, or (Redis) clients from other machines and no password."
    ),
    of_face!(
        Counter,
        "larder_object_gets",
        "",
        |face: &Objects| face.gets,
        "Keys requested.",
        "More traffic."
    ),
    of_face!(
        Counter,
        "larder_object_get_hits",
        "",
        |face: &Objects| face.get_hits,
        "Keys requested and found.",
        "Good: over `larder_object_gets_total` it is the hit ratio."
    ),
    of_face!(
        Counter,
        "larder_object_get_misses",
        "",
        |face: &Objects| face.get_misses,
        "Keys requested and not found.",
        "A cold start, short expiries, or evictions (`larder_store_evictions_total`)."
    ),
    of_face!(
        Counter,
        "larder_object_sets",
        "",
        |face: &Objects| face.sets,
        "Values stored (memcached: sent to be stored).",
        "Faster than gets: values are written and never read."
    ),
    of_face!(
        Counter,
        "larder_object_deletes",
        "",
        |face: &Objects| face.deletes,
        "Keys deleted (memcached: asked to be).",
        "The application invalidates many entries."
    ),
    of_face!(
        Counter,
        "larder_object_touches",
        "",
        |face: &Objects| face.touches,
        "Times a key was given another time to live.",
        "The application refreshes many entries; harmless."
    ),
    of_face!(
        Counter,
        "larder_object_received_bytes",
        "bytes",
        |face: &Objects| face.bytes_in,
        "Bytes received from clients.",
        "Larger or more values are written."
    ),
    of_face!(
        Counter,
        "larder_object_sent_bytes",
        "bytes",
        |face: &Objects| face.bytes_out,
        "Bytes sent to clients.",
        "Larger or more values are read; compare with the line's capacity."
    ),
    Metric {
        name: "larder_object_commands",
        kind: Kind::Counter,
        unit: "",
        labels: &["face", "command"],
        help: "Commands by name.",
        rises: "`keys`, `flush_all` and the like: a client walks or empties everything.",
        read: |s, to| {
            each_face(s, |name, face| {
                face.commands.iter().for_each(|(command, n)| to.count(&[name, command], *n));
            });
        },
    },
    Metric {
        name: "larder_object_duration_seconds",
        kind: Kind::Histogram,
        unit: "seconds",
        labels: &["face"],
        help: "memcached: time from the arrival of a batch of commands until the system accepted \
               its answers. Redis: the time of each command.",
        rises: "Large values, commands that walk everything, or too little processor (`larder_loop_delay_seconds`).",
        read: |s, to| each_face(s, |name, face| to.histogram(&[name], &face.latency.0)),
    },
];

pub(super) const REMOTE: &[Metric] = &[
    of_each!(
        each_server,
        Gauge,
        "larder_remote_up",
        "",
        "server",
        |server: &RemoteServer| u64::from(server.state == "up"),
        "1: the server answers; 0: it does not, or is being probed.",
        "It is back. At 0: it is not running, or unreachable."
    ),
    of_each!(
        each_server,
        Counter,
        "larder_remote_lookups",
        "",
        "server",
        |server: &RemoteServer| server.lookups,
        "Keys requested.",
        "More misses in memory."
    ),
    of_each!(
        each_server,
        Counter,
        "larder_remote_hits",
        "",
        "server",
        |server: &RemoteServer| server.hits,
        "Keys requested and found.",
        "Good: each of these is a request the origin did not get."
    ),
    of_each!(
        each_server,
        Counter,
        "larder_remote_misses",
        "",
        "server",
        |server: &RemoteServer| server.misses,
        "Keys requested and not found.",
        "New pages, or the server evicts: give it more memory."
    ),
    of_each!(
        each_server,
        Counter,
        "larder_remote_timeouts",
        "",
        "server",
        |server: &RemoteServer| server.timeouts,
        "Requests to the server that took too long.",
        "The server or the network is overloaded, or the timeout is too short."
    ),
    of_each!(
        each_server,
        Counter,
        "larder_remote_errors",
        "",
        "server",
        |server: &RemoteServer| server.errors,
        "Requests to the server that failed otherwise.",
        "It is down, refuses, or does not speak memcached's protocol."
    ),
    of_each!(
        each_server,
        Counter,
        "larder_remote_ejections",
        "",
        "server",
        |server: &RemoteServer| server.ejections,
        "Times the server was ejected because it failed.",
        "It comes and goes: network, restarts, memory."
    ),
    of_each!(
        each_server,
        Counter,
        "larder_remote_writes",
        "",
        "server",
        |server: &RemoteServer| server.writes,
        "Values written: pages and their parts, leases, the journal of purges.",
        "More pages are fetched and shared, or purged."
    ),
    of_each!(
        each_server,
        Counter,
        "larder_remote_writes_dropped",
        "",
        "server",
        |server: &RemoteServer| server.writes_dropped,
        "Values not written because too many waited.",
        "The server is too slow for the pages: check it and the network, or share fewer pages."
    ),
    Metric {
        name: "larder_remote_lookup_seconds",
        kind: Kind::Histogram,
        unit: "seconds",
        labels: &["server"],
        help: "Response time of the server, for lookups, writes and leases.",
        rises: "The server or the network; above the budget the origin is asked as well.",
        read: |s, to| each_server(s, |server| to.histogram(&[&server.name], &server.latency.0)),
    },
    Metric {
        name: "larder_remote_pages",
        kind: Kind::Counter,
        unit: "",
        labels: &["outcome"],
        help: "Pages looked up (`hit`, `miss`, `failed`: the server did not answer, `late`: after \
               the origin's answer, `damaged`) and sent (`store`, `dropped`: too many waited).",
        rises: "`late`: see `larder_remote_lookup_seconds`; `damaged`: another version or another \
                program writes there; `dropped`: see `larder_remote_writes_dropped_total`.",
        read: |s, to| {
            let Some(pages) = s.remote.as_ref().map(|remote| remote.pages) else { return };
            to.count(&["hit"], pages.hits);
            to.count(&["miss"], pages.misses);
            to.count(&["failed"], pages.failed);
            to.count(&["late"], pages.late);
            to.count(&["damaged"], pages.damaged);
            to.count(&["store"], pages.stores);
            to.count(&["dropped"], pages.dropped);
        },
    },
    Metric {
        name: "larder_remote_events",
        kind: Kind::Counter,
        unit: "",
        labels: &["event"],
        help: "Events between Larders. Leases: `leases` taken, `waits` for another's rendering, \
               `waits_over` in vain. Purges: `purges_learned` from others, `purges_missed` (all \
               copies were dropped then), `purges_told` to peers, `purges_untold`, `purges_lost` \
               (not written to the fleet), `parcels_heard` from peers; `rounds_failed`: times the \
               journal could not be read.",
        rises: "`waits_over`: renderings take longer than `lease`. `purges_missed`, \
                `rounds_failed`: the fleet was not reached. `purges_untold`: a peer was not \
                reached.",
        read: |s, to| {
            let Some(remote) = &s.remote else { return };
            remote.events.0.iter().for_each(|(event, count)| to.count(&[event], *count));
        },
    },
];

pub(super) const PROCESS: &[Metric] = &[
    Metric {
        name: "larder_build_info",
        kind: Kind::Gauge,
        unit: "",
        labels: &["version", "name"],
        help: "Always 1; the labels are the version and the instance's name.",
        rises: "It does not.",
        read: |s, to| to.count(&[s.larder, &s.name], 1),
    },
    Metric {
        name: "larder_worker_threads",
        kind: Kind::Gauge,
        unit: "",
        labels: &[],
        help: "Worker threads.",
        rises: "It is configured: `threads`.",
        read: |s, to| to.count(&[], s.threads as u64),
    },
    Metric {
        name: "larder_loop_delay_seconds",
        kind: Kind::Histogram,
        unit: "seconds",
        labels: &[],
        help: "How late workers handle a timer, measured ten times a second each: the waiting \
               time of all ready work. Timers have steps of a millisecond: an idle worker is up \
               to that late.",
        rises: "Too little processor, or single requests that take long (Redis commands that walk everything, purges by expression).",
        read: |s, to| to.histogram(&[], &s.loop_delay.0),
    },
    Metric {
        name: "larder_log_lines",
        kind: Kind::Counter,
        unit: "",
        labels: &[],
        help: "Lines handed to the access log.",
        rises: "More traffic.",
        read: |s, to| to.count(&[], s.log.lines),
    },
    Metric {
        name: "larder_log_lines_dropped",
        kind: Kind::Counter,
        unit: "",
        labels: &[],
        help: "Lines of the access log that were lost.",
        rises: "The disk is full or too slow.",
        read: |s, to| to.count(&[], s.log.dropped),
    },
    Metric {
        name: "larder_trace_spans",
        kind: Kind::Counter,
        unit: "",
        labels: &["result"],
        help: "Spans for the collector of traces: `exported`, or `dropped` (too many waited, or \
               it did not accept them).",
        rises: "`dropped`: look at the collector; standard error has its first refusal.",
        read: |s, to| {
            if let Some(spans) = &s.tracing {
                to.count(&["exported"], spans.exported);
                to.count(&["dropped"], spans.dropped);
            }
        },
    },
    Metric {
        name: "process_start_time_seconds",
        kind: Kind::Gauge,
        unit: "seconds",
        labels: &[],
        help: "When the process started, in seconds since 1970.",
        rises: "It was restarted: counters begin at zero.",
        read: |s, to| to.float(&[], s.started_ms as f64 / 1000.0),
    },
    Metric {
        name: "process_resident_memory_bytes",
        kind: Kind::Gauge,
        unit: "bytes",
        labels: &[],
        help: "Resident memory of the process.",
        rises: "Beyond `larder_memory_used_bytes`: connections, open requests, buffers.",
        read: |s, to| to.count(&[], s.memory.resident),
    },
];
