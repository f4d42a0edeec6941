//! Metrics of the HTTP face and of origins.

use super::{Kind, Metric};
use crate::measure::{Http, Origin, Results, Snapshot, Statuses, text::Samples};

/// Calls `f` for the HTTP face, where there is one.
fn face(snapshot: &Snapshot, f: impl FnOnce(&Http)) {
    if let Some(http) = &snapshot.http {
        f(http);
    }
}

fn each_origin(snapshot: &Snapshot, f: impl FnMut(&Origin)) {
    face(snapshot, |http| http.origins.iter().for_each(f));
}

fn results(results: &Results) -> [(&'static str, u64); 13] {
    [
        ("hit", results.hit),
        ("miss", results.miss),
        ("stale", results.stale),
        ("refresh", results.refresh),
        ("pass", results.pass),
        ("hit_for_miss", results.hit_for_miss),
        ("coalesced", results.coalesced),
        ("error", results.error),
        ("purge", results.purge),
        ("denied", results.denied),
        ("refused", results.refused),
        ("tunnel", results.tunnel),
        ("aborted", results.aborted),
    ]
}

fn classes(status: &Statuses) -> [(&'static str, u64); 6] {
    [
        ("1xx", status.informational),
        ("2xx", status.successful),
        ("3xx", status.redirection),
        ("4xx", status.client_error),
        ("5xx", status.server_error),
        ("none", status.none),
    ]
}

fn by_reason<'a>(to: &mut Samples<'_>, reasons: impl IntoIterator<Item = (&'a &'static str, &'a u64)>) {
    for (reason, count) in reasons {
        to.count(&[reason], *count);
    }
}

pub(super) const HTTP: &[Metric] = &[
    Metric {
        name: "larder_http_requests",
        kind: Kind::Counter,
        unit: "",
        labels: &["site", "result"],
        help: "Requests by result.",
        rises: "More traffic, or (`result`): `miss` see `larder_http_forwarded_total`; `error` \
                the origin, see `larder_origin_failures_total`; `pass` rules or cookies that \
                bypass the cache; `refused` and `denied` the clients in the access log; `aborted` \
                clients that do not wait for a slow origin.",
        read: |s, to| {
            face(s, |http| {
                for site in &http.sites {
                    results(&site.results).iter().for_each(|(name, n)| to.count(&[&site.name, name], *n));
                }
            });
        },
    },
    Metric {
        name: "larder_http_responses",
        kind: Kind::Counter,
        unit: "",
        labels: &["site", "class"],
        help: "Requests by the class of their answer's status; `none`: the client left before.",
        rises: "`5xx`: the origin's errors or Larder's report of its failure; `4xx`: broken \
                links, scanners, or refusals.",
        read: |s, to| {
            face(s, |http| {
                for site in &http.sites {
                    classes(&site.status).iter().for_each(|(name, n)| to.count(&[&site.name, name], *n));
                }
            });
        },
    },
    Metric {
        name: "larder_http_request_duration_seconds",
        kind: Kind::Histogram,
        unit: "seconds",
        labels: &["site", "from"],
        help: "Time from a request to the last byte of its answer given to the system; `from` is \
               `memory`, or `origin` if it was asked or waited for.",
        rises: "`memory`: too little processor (`larder_loop_delay_seconds`), or clients that \
                read slowly; `origin`: see `larder_origin_first_byte_seconds`.",
        read: |s, to| {
            face(s, |http| {
                for site in http.sites.iter().filter(|site| site.name != "-") {
                    to.histogram(&[&site.name, "memory"], &site.latency.hit.0);
                    to.histogram(&[&site.name, "origin"], &site.latency.miss.0);
                }
            });
        },
    },
    Metric {
        name: "larder_http_response_bytes",
        kind: Kind::Counter,
        unit: "bytes",
        labels: &["site"],
        help: "Bytes of answers, heads included.",
        rises: "Large files, see the URLs with most bytes in the dashboard.",
        read: |s, to| {
            face(s, |http| http.sites.iter().for_each(|site| to.count(&[&site.name], site.bytes_out)))
        },
    },
    Metric {
        name: "larder_http_received_bytes",
        kind: Kind::Counter,
        unit: "bytes",
        labels: &[],
        help: "Bytes received from clients.",
        rises: "Uploads, or clients with large cookies.",
        read: |s, to| face(s, |http| to.count(&[], http.bytes_in)),
    },
    Metric {
        name: "larder_http_sent_bytes",
        kind: Kind::Counter,
        unit: "bytes",
        labels: &[],
        help: "Bytes that the system accepted for clients.",
        rises: "As `larder_http_response_bytes_total`; compare with the line's capacity.",
        read: |s, to| face(s, |http| to.count(&[], http.bytes_out)),
    },
    Metric {
        name: "larder_http_forwarded",
        kind: Kind::Counter,
        unit: "",
        labels: &["reason"],
        help: "Requests that memory alone could not answer, by the reason in the words of RFC 9211.",
        rises: "`uri-miss`: new or evicted pages (`larder_store_evictions_total`), or URLs with \
                needless parameters (`drop_query`); `vary-miss`: origins that vary on too much; \
                `stale`: short lifetimes, see `grace`; `bypass`: rules and cookies; `request`: \
                clients that demand a new answer; `method`: POST and the like; `partial`: ranges \
                of incomplete pages.",
        read: |s, to| face(s, |http| by_reason(to, &http.why_missed)),
    },
    Metric {
        name: "larder_http_coalesced_waits",
        kind: Kind::Counter,
        unit: "",
        labels: &[],
        help: "Requests that waited for an open fetch instead of asking the origin.",
        rises: "Popular pages expire or are purged: each of these would have been a request to \
                the origin. `grace` avoids the wait.",
        read: |s, to| face(s, |http| to.count(&[], http.coalesced_waits)),
    },
    Metric {
        name: "larder_http_shelf_bytes",
        kind: Kind::Gauge,
        unit: "bytes",
        labels: &[],
        help: "Second copies of frequently requested large pages, in files in memory, from which \
               they are sent without copying.",
        rises: "Large pages are in demand; `http.shelf` is the limit.",
        read: |s, to| face(s, |http| to.count(&[], http.shelf)),
    },
    Metric {
        name: "larder_http_stored",
        kind: Kind::Counter,
        unit: "",
        labels: &[],
        help: "Pages stored, including those updated by a 304.",
        rises: "Much is fetched, or confirmed: compare with the hits.",
        read: |s, to| face(s, |http| to.count(&[], http.stored)),
    },
    Metric {
        name: "larder_http_not_stored",
        kind: Kind::Counter,
        unit: "",
        labels: &["reason"],
        help: "Responses that were not stored, by reason.",
        rises: "`set-cookie`, `private`, `no-store`, `no-freshness`: the origin's headers, which \
                rules can override; `store-full`: memory, or readers that hold it; `too-large`: \
                `max_object`; `truncated`: the origin breaks the connection.",
        read: |s, to| face(s, |http| by_reason(to, &http.not_stored)),
    },
    Metric {
        name: "larder_http_rejected",
        kind: Kind::Counter,
        unit: "",
        labels: &["reason"],
        help: "Requests refused because they are malformed or too large, by reason.",
        rises: "Scanners and attacks, or a client or proxy that is broken: the access log has its address.",
        read: |s, to| face(s, |http| by_reason(to, &http.rejected)),
    },
    Metric {
        name: "larder_http_timeouts",
        kind: Kind::Counter,
        unit: "",
        labels: &["phase"],
        help: "Connections closed because the client was too slow to send a request's `header` or \
               `body`, or to read its answer (`send`).",
        rises: "Bad networks; many at once from few addresses: an attack that holds connections.",
        read: |s, to| {
            face(s, |http| {
                to.count(&["header"], http.timeouts.header);
                to.count(&["body"], http.timeouts.body);
                to.count(&["send"], http.timeouts.send);
            });
        },
    },
    Metric {
        name: "larder_http_truncated",
        kind: Kind::Counter,
        unit: "",
        labels: &[],
        help: "Responses that the origin cut off in the middle.",
        rises: "The origin or the way to it: its error log, its timeouts, memory limits of its workers.",
        read: |s, to| face(s, |http| to.count(&[], http.truncated)),
    },
    Metric {
        name: "larder_http_unframed",
        kind: Kind::Counter,
        unit: "",
        labels: &[],
        help: "Responses of origins with neither length nor chunks: their end is the end of the connection.",
        rises: "The origin speaks HTTP/1.0, or a script of it leaves out `Content-Length`: `unframed` says what is kept of them.",
        read: |s, to| face(s, |http| to.count(&[], http.unframed)),
    },
    Metric {
        name: "larder_http_connections",
        kind: Kind::Gauge,
        unit: "",
        labels: &[],
        help: "Connections of clients open now.",
        rises: "More clients, or slow ones; at `limits.connections` further ones are refused.",
        read: |s, to| face(s, |http| to.count(&[], http.connections.open)),
    },
    Metric {
        name: "larder_http_connections_accepted",
        kind: Kind::Counter,
        unit: "",
        labels: &[],
        help: "Connections accepted, including those refused at once.",
        rises: "Faster than requests: clients without keep-alive, or a proxy in front that does not reuse connections.",
        read: |s, to| face(s, |http| to.count(&[], http.connections.accepted)),
    },
    Metric {
        name: "larder_http_connections_refused",
        kind: Kind::Counter,
        unit: "",
        labels: &[],
        help: "Connections refused because of the limit.",
        rises: "`limits.connections` is too low for the traffic, or connections are held (`larder_http_timeouts_total`).",
        read: |s, to| face(s, |http| to.count(&[], http.connections.refused)),
    },
];

pub(super) const ORIGINS: &[Metric] = &[
    Metric {
        name: "larder_origin_requests",
        kind: Kind::Counter,
        unit: "",
        labels: &["origin"],
        help: "Requests to the origin.",
        rises: "The cache helps less: see `larder_http_forwarded_total` and `larder_http_not_stored_total`.",
        read: |s, to| each_origin(s, |origin| to.count(&[&origin.name], origin.requests)),
    },
    Metric {
        name: "larder_origin_failures",
        kind: Kind::Counter,
        unit: "",
        labels: &["origin", "reason"],
        help: "Requests to the origin that failed, by reason: before the head of a response, or in the middle (`truncated` and timeouts).",
        rises: "`connect`, `connect-timeout`: it is down or unreachable; `first-byte-timeout`: it \
                is overloaded; `too-many-connections`: `max_connections` is reached and the queue \
                is full; `malformed`: it does not speak HTTP; `body-aborted`: the client broke \
                off.",
        read: |s, to| {
            each_origin(s, |origin| {
                origin.failures.iter().for_each(|(reason, n)| to.count(&[&origin.name, reason], *n));
            });
        },
    },
    Metric {
        name: "larder_origin_connections",
        kind: Kind::Gauge,
        unit: "",
        labels: &["origin", "state"],
        help: "Open connections to the origin, `busy` or `idle`, without tunnels.",
        rises: "`busy`: the origin is slow or has many requests; near `max_connections` times \
                threads requests wait.",
        read: |s, to| {
            each_origin(s, |origin| {
                let busy = origin.connections_open.saturating_sub(origin.connections_idle);
                to.count(&[&origin.name, "busy"], busy);
                to.count(&[&origin.name, "idle"], origin.connections_idle);
            });
        },
    },
    Metric {
        name: "larder_origin_unasked",
        kind: Kind::Counter,
        unit: "",
        labels: &["origin"],
        help: "Connections closed because the origin sent bytes that nobody had asked for, behind an answer or before a request.",
        rises: "A wrong `Content-Length`, or content after a 204, a 304 or the answer to a HEAD: the origin has a bug that poisons \
                caches.",
        read: |s, to| each_origin(s, |origin| to.count(&[&origin.name], origin.unasked)),
    },
    Metric {
        name: "larder_origin_first_byte_seconds",
        kind: Kind::Histogram,
        unit: "seconds",
        labels: &["origin"],
        help: "Time from a request to the head of the origin's response: waiting for a \
               connection, connecting, and the origin's own time.",
        rises: "The origin is overloaded, or a page has become expensive: see the slowest URLs in the dashboard.",
        read: |s, to| each_origin(s, |origin| to.histogram(&[&origin.name], &origin.ttfb.0)),
    },
];
