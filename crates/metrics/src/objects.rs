//! The table of the object faces (memcached, Redis).

use crate::{
    Connections, Counts, Histogram, Snapshot,
    snapshot::{Row, figures},
    table::{Kind, Metric},
};

figures! {
    /// An object face.
    pub struct Objects {
        figures {
            /// Keys requested.
            gets: Counter "larder_object_gets", "More traffic.";
            /// Keys requested and found.
            get_hits: Counter "larder_object_get_hits",
                "Good: over `larder_object_gets_total` it is the hit ratio.";
            /// Keys requested and not found.
            get_misses: Counter "larder_object_get_misses",
                "A cold start, short expiries, or evictions (`larder_store_evictions_total`).";
            /// Values stored (memcached: sent to be stored).
            sets: Counter "larder_object_sets", "Faster than gets: values are written and never read.";
            /// Keys deleted (memcached: asked to be).
            deletes: Counter "larder_object_deletes", "The application invalidates many entries.";
            /// Times a key was given another time to live.
            touches: Counter "larder_object_touches", "The application refreshes many entries; harmless.";
            /// Entries evicted because memory was needed.
            evictions;
            /// TLS handshakes that succeeded.
            tls_handshakes: Counter "larder_object_tls_handshakes",
                "Clients that connect for every request: persistent connections cost a fraction.";
            /// TLS handshakes of clients that had a ticket.
            tls_resumed: Counter "larder_object_tls_resumed",
                "Good: these handshakes cost a fraction of a full one.";
            /// Connections that ended before their TLS handshake was done.
            tls_failures: Counter "larder_object_tls_failures",
                "Clients without TLS at this port, without the authority of its certificate, or \
                 without a certificate of their own where one is required.";
            /// Bytes received from clients.
            bytes_in: Counter "larder_object_received_bytes", "Larger or more values are written.";
            /// Bytes sent to clients.
            bytes_out: Counter "larder_object_sent_bytes",
                "Larger or more values are read; compare with the line's capacity.";
        }
        with {
            /// Connections of clients.
            connections: Connections;
            /// Commands by name; those never used are left out.
            commands: Counts;
            /// memcached: of batches of commands, until the system had taken the answers. Redis: of
            /// commands, their own time.
            latency: Histogram;
        }
    }
}

impl Row for Objects {
    const LABELS: &'static [&'static str] = &["face"];

    fn each(snapshot: &Snapshot, f: &mut dyn FnMut(&[&str], &Self)) {
        let faces = [("memcached", &snapshot.memcached), ("redis", &snapshot.redis)];
        faces.into_iter().for_each(|(name, face)| face.iter().for_each(|face| f(&[name], face)));
    }
}

/// Metrics of the object faces with labels of their own.
pub(crate) const OBJECTS: &[Metric] = &[
    Metric {
        name: "larder_object_connections",
        kind: Kind::Gauge,
        labels: &["face"],
        help: "Connections of clients open now.",
        rises: "Clients without a pool, or more application servers; at the face's `connections` \
                further ones wait or are refused.",
        read: |s, to| Objects::each(s, &mut |labels, face| to.count(labels, face.connections.open)),
    },
    Metric {
        name: "larder_object_connections_accepted",
        kind: Kind::Counter,
        labels: &["face"],
        help: "Connections accepted.",
        rises: "Clients that connect for every request: persistent connections cost a fraction.",
        read: |s, to| {
            Objects::each(s, &mut |labels, face| to.count(labels, face.connections.accepted))
        },
    },
    Metric {
        name: "larder_object_connections_refused",
        kind: Kind::Counter,
        labels: &["face"],
        help: "Connections refused.",
        rises: "The face's limit is too low, or (Redis) clients from other machines and no \
                password.",
        read: |s, to| {
            Objects::each(s, &mut |labels, face| to.count(labels, face.connections.refused))
        },
    },
    Metric {
        name: "larder_object_commands",
        kind: Kind::Counter,
        labels: &["face", "command"],
        help: "Commands by name.",
        rises: "`keys`, `flush_all` and the like: a client walks or empties everything.",
        read: |s, to| Objects::each(s, &mut |labels, face| to.words(labels, &face.commands)),
    },
    Metric {
        name: "larder_object_duration_seconds",
        kind: Kind::Histogram,
        labels: &["face"],
        help: "memcached: time from the arrival of a batch of commands until the system accepted \
               its answers. Redis: the time of each command.",
        rises: "Large values, commands that walk everything, or too little processor \
                (`larder_loop_delay_seconds`).",
        read: |s, to| Objects::each(s, &mut |labels, face| to.histogram(labels, &face.latency)),
    },
];
