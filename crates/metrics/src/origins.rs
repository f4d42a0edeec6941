//! Metrics of origins that are not whole numbers of every row.

use crate::{
    Origin,
    snapshot::Row,
    table::{Kind, Metric},
};

/// Metrics of origins with labels of their own.
pub(crate) const ORIGINS: &[Metric] = &[
    Metric {
        name: "larder_origin_failures",
        kind: Kind::Counter,
        labels: &["origin", "reason"],
        help: "Requests to the origin that failed, by reason: before the head of a response, or \
               in the middle (`truncated` and timeouts).",
        rises: "`connect`, `connect-timeout`: it is down or unreachable; `first-byte-timeout`: it \
                is overloaded; `too-many-connections`: `max_connections` is reached and the queue \
                is full; `malformed`: it does not speak HTTP, or FastCGI; `overloaded`: an \
                application said so; `local`: files of this machine cannot be read (standard \
                error says why); `body-aborted`: the client broke off; `upload-timeout`: \
                it was too slow.",
        read: |s, to| Origin::each(s, &mut |labels, origin| to.words(labels, &origin.failures)),
    },
    Metric {
        name: "larder_origin_connections",
        kind: Kind::Gauge,
        labels: &["origin", "state"],
        help: "Open connections to the origin, `busy` or `idle`, without tunnels.",
        rises: "`busy`: the origin is slow or has many requests; near `max_connections` times \
                threads requests wait.",
        read: |s, to| {
            Origin::each(s, &mut |_, origin| {
                let busy = origin.connections_open.saturating_sub(origin.connections_idle);
                to.count(&[&origin.name, "busy"], busy);
                to.count(&[&origin.name, "idle"], origin.connections_idle);
            });
        },
    },
    Metric {
        name: "larder_origin_first_byte_seconds",
        kind: Kind::Histogram,
        labels: &["origin"],
        help: "Time from a request to the head of the origin's response: waiting for a \
               connection, connecting, and the origin's own time.",
        rises: "The origin is overloaded, or a page has become expensive: see the slowest URLs in \
                the dashboard.",
        read: |s, to| Origin::each(s, &mut |labels, origin| to.histogram(labels, &origin.ttfb)),
    },
];
