//! Options of `[queue]` and `[[queue.named]]`.

use super::{
    GIB, KIB, Kind, Opt, Section, TIB, YEAR, list,
    objects::{IDLE_TIMEOUT, RECEIVE_TIMEOUT, SEND_TIMEOUT, UNIX_MODE},
    opt, required,
};

pub(super) const QUEUE: &[Opt] = &[
    list(
        "listen",
        Kind::Listen,
        "127.0.0.1:22133",
        "Addresses to listen on, or `unix:` with a path. Port 0 takes a free one.",
    ),
    UNIX_MODE,
    required(
        "path",
        Kind::File,
        "The directory of the journals. It is made where there is none; one Larder uses it.",
    ),
    opt(
        "sync",
        Kind::Text,
        "100ms",
        "When changes are on the device: `always`, before they are answered; a time, at most so \
         long after; `never`, when the system writes them. Without a crash of the machine all \
         three keep everything that was answered.",
    ),
    opt(
        "memory",
        Kind::Size(0, TIB),
        "32MiB",
        "Memory for items of all queues, beside the top level's `memory`. Further items are on \
         disk only.",
    ),
    opt(
        "segment",
        Kind::Size(64 * KIB, GIB),
        "16MiB",
        "Size of a journal's files. A file is removed when no item in it is needed.",
    ),
    opt("max_queues", Kind::Count(1, 100_000), "1000", "Queues at once, children included."),
    opt("connections", Kind::Count(1, 1_000_000), "1024", "Client connections at once."),
    IDLE_TIMEOUT,
    RECEIVE_TIMEOUT,
    SEND_TIMEOUT,
    opt("shutdown", Kind::Bool, "false", "Allow `shutdown`."),
    opt("backlog", Kind::Count(1, 65_535), "1024", "Connections the system keeps waiting."),
    opt(
        "named",
        Kind::Tables(Section::QueueNamed),
        "",
        "Rules of one queue; any number of them. Rules it does not name are those of `[queue]`.",
    ),
];

pub(super) const QUEUE_NAMED: &[Opt] = &[required(
    "name",
    Kind::Text,
    "The queue. Its rules are also those of its children, unless they are named.",
)];

/// Rules of queues: in `[queue]` those of all without a name of their own.
pub(super) const QUEUE_RULES: &[Opt] = &[
    opt("max_items", Kind::Count(0, 1 << 40), "0", "Items that wait; 0: no limit."),
    opt("max_bytes", Kind::Size(0, 64 * TIB), "0", "Bytes of items that wait; 0: no limit."),
    opt(
        "item_size",
        Kind::Size(1, larder_queue::MOST_ITEM as u64),
        "1MiB",
        "Largest item; larger ones are refused.",
    ),
    opt(
        "discard_oldest",
        Kind::Bool,
        "false",
        "A full queue discards its oldest items for new ones, instead of refusing these.",
    ),
    opt("max_age", Kind::Time(0, 100 * YEAR), "0s", "Longest time an item waits; 0: no limit."),
    opt(
        "default_expiry",
        Kind::Time(0, 100 * YEAR),
        "0s",
        "Time after which an item expires that came without an expiry; 0: never.",
    ),
    opt(
        "max_aborts",
        Kind::Count(0, 1_000_000),
        "0",
        "Aborted reads (by `/abort`, or by a client that leaves) after which an item goes to \
         `error_queue`, or is discarded where there is none; 0: no limit.",
    ),
    opt("error_queue", Kind::Text, "", "The queue for items that were aborted too often."),
    opt(
        "memory_only",
        Kind::Bool,
        "false",
        "Items have no journal, and are lost with the process. They are refused where \
         `memory` is used up.",
    ),
    opt(
        "fanout_only",
        Kind::Bool,
        "false",
        "Items go to the queue's children (`name+child`) only.",
    ),
];
