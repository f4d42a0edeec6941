//! The tables of the remote tier: its servers, the pages in it.

use serde::{Deserialize, Serialize};

use crate::{
    Counts, Histogram, Snapshot,
    snapshot::{Row, figures},
    table::{Kind, Metric},
};

/// The remote tier.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(default)]
pub struct Remote {
    /// Its servers.
    pub servers: Vec<RemoteServer>,
    /// Lookups and stores of pages.
    pub pages: RemotePages,
    /// Events between Larders, and reasons why records were not used.
    pub events: Counts,
}

figures! {
    /// One server of the remote tier.
    pub struct RemoteServer {
        figures {
            /// Keys requested.
            lookups: Counter "larder_remote_lookups", "More misses in memory.";
            /// Keys requested and found.
            hits: Counter "larder_remote_hits",
                "Good: each of these is a request the origin did not get.";
            /// Keys requested and not found.
            misses: Counter "larder_remote_misses",
                "New pages, or the server evicts: give it more memory.";
            /// Requests to the server that took too long.
            timeouts: Counter "larder_remote_timeouts",
                "The server or the network is overloaded, or the timeout is too short.";
            /// Requests to the server that failed otherwise.
            errors: Counter "larder_remote_errors",
                "It is down, refuses, or does not speak memcached's protocol.";
            /// Times the server was ejected because it failed.
            ejections: Counter "larder_remote_ejections",
                "It comes and goes: network, restarts, memory.";
            /// Values written: pages and their parts, leases, the journal of purges.
            writes: Counter "larder_remote_writes", "More pages are fetched and shared, or purged.";
            /// Values not written because too many waited.
            writes_dropped: Counter "larder_remote_writes_dropped",
                "The server is too slow for the pages: check it and the network, or share fewer pages.";
        }
        with {
            /// Its address.
            name: String;
            /// `up`, `down`, `probing` or `ejected`, now.
            state: String;
            /// The time of its answers.
            latency: Histogram;
        }
    }
}

impl Row for RemoteServer {
    const LABELS: &'static [&'static str] = &["server"];

    fn each(snapshot: &Snapshot, f: &mut dyn FnMut(&[&str], &Self)) {
        let servers = snapshot.remote.iter().flat_map(|remote| &remote.servers);
        servers.for_each(|server| f(&[&server.name], server));
    }
}

figures! {
    /// Pages in the remote tier.
    pub struct RemotePages {
        figures {
            /// Pages looked up.
            lookups;
            /// Found and used.
            hits;
            /// Not found.
            misses;
            /// The server did not answer.
            failed;
            /// Found after the origin's answer.
            late;
            /// Found and damaged.
            damaged;
            /// Sent to be stored.
            stores;
            /// Not sent, because too many waited.
            dropped;
        }
    }
}

impl Row for RemotePages {
    const LABELS: &'static [&'static str] = &[];

    fn each(snapshot: &Snapshot, f: &mut dyn FnMut(&[&str], &Self)) {
        snapshot.remote.iter().for_each(|remote| f(&[], &remote.pages));
    }
}

/// Metrics of the remote tier with labels of their own.
pub(crate) const REMOTE: &[Metric] = &[
    Metric {
        name: "larder_remote_up",
        kind: Kind::Gauge,
        labels: &["server"],
        help: "1: the server answers; 0: it does not, or is being probed.",
        rises: "It is back. At 0: it is not running, or unreachable.",
        read: |s, to| {
            RemoteServer::each(s, &mut |labels, server| {
                to.count(labels, u64::from(server.state == "up"))
            });
        },
    },
    Metric {
        name: "larder_remote_lookup_seconds",
        kind: Kind::Histogram,
        labels: &["server"],
        help: "Response time of the server, for lookups, writes and leases.",
        rises: "The server or the network; above the budget the origin is asked as well.",
        read: |s, to| {
            RemoteServer::each(s, &mut |labels, server| to.histogram(labels, &server.latency))
        },
    },
    Metric {
        name: "larder_remote_pages",
        kind: Kind::Counter,
        labels: &["outcome"],
        help: "Pages looked up (`hit`, `miss`, `failed`: the server did not answer, `late`: after \
               the origin's answer, `damaged`) and sent (`store`, `dropped`: too many waited).",
        rises: "`late`: see `larder_remote_lookup_seconds`; `damaged`: a server or the network \
                changes bytes; `dropped`: see `larder_remote_writes_dropped_total`.",
        read: |s, to| {
            RemotePages::each(s, &mut |_, pages| {
                to.count(&["hit"], pages.hits);
                to.count(&["miss"], pages.misses);
                to.count(&["failed"], pages.failed);
                to.count(&["late"], pages.late);
                to.count(&["damaged"], pages.damaged);
                to.count(&["store"], pages.stores);
                to.count(&["dropped"], pages.dropped);
            });
        },
    },
    Metric {
        name: "larder_remote_events",
        kind: Kind::Counter,
        labels: &["event"],
        help: "Events between Larders. Leases: `leases` taken, `waits` for another's rendering, \
               `waits_over` in vain, `waits_left` by the client. Purges: `purges_learned` from \
               others, `purges_missed` (all copies were dropped then), `purges_told` to peers, \
               `purges_untold`, `purges_lost` (not written to the fleet), `parcels_heard` from \
               peers; `rounds_failed`: times the journal could not be read. Records not used: \
               `foreign` (of another program, version or page), `stale`, `purged` here since they \
               were received, `skewed` (a clock too far ahead). `prolonged`: copies used longer, \
               as the fleet did not answer. Writes: `store_failed`, `deletes`, `delete_failed`.",
        rises: "`waits_over`: renderings take longer than `lease`. `purges_missed`, \
                `rounds_failed`: the fleet was not reached. `purges_untold`: a peer was not \
                reached. `foreign`: another version or another program writes there.",
        read: |s, to| s.remote.iter().for_each(|remote| to.words(&[], &remote.events)),
    },
];
