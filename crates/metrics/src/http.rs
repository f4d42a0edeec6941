//! The tables of the HTTP face: its figures, its sites, its origins.

use serde::{Deserialize, Serialize};

use crate::{
    Counts, Histogram, Results, Snapshot,
    snapshot::{Row, figures},
    table::{Kind, Metric},
};

figures! {
    /// Connections of clients.
    pub struct Connections from ConnectionCounters {
        counts {
            /// Accepted, the refused ones included.
            accepted;
            /// Refused because there were too many.
            refused;
        }
        figures {
            /// Open now.
            open;
        }
    }
}

figures! {
    /// Connections closed because the client took too long.
    pub struct Timeouts from TimeoutCounters {
        counts {
            /// To send a request head.
            header;
            /// To send a request body.
            body;
            /// To take its answer.
            send;
        }
    }
}

figures! {
    /// The HTTP face.
    pub struct Http from HttpCounters {
        counts {
            /// Bytes received from clients.
            bytes_in: "larder_http_received_bytes", "Uploads, or clients with large cookies.";
            /// Bytes that the system accepted for clients.
            bytes_out: "larder_http_sent_bytes",
                "As `larder_http_response_bytes_total`; compare with the line's capacity.";
            /// Requests that waited for an open fetch instead of asking the origin.
            coalesced_waits: "larder_http_coalesced_waits",
                "Popular pages expire or are purged: each of these would have been a request to the \
                 origin. `grace` avoids the wait.";
            /// Requests refused because their client had sent too many (`limit`).
            limited: "larder_http_limited",
                "A client asks more often than `limit` allows: the access log names it (429). If it is \
                 a visitor, the limit is too low.";
            /// Connections refused because their client had too many (`connections_per_client`).
            crowded: "larder_http_client_connections_refused",
                "One address opens many connections: a crawler, an attack, or many people behind one \
                 address.";
            /// Requests sent to the origin past the cache: misses, tunnels and failures among them.
            passes;
            /// Fetches that failed before a response head.
            origin_failures;
            /// Pages stored, including those updated by a 304.
            stored: "larder_http_stored", "Much is fetched, or confirmed: compare with the hits.";
            /// Pages not stored because the store was full or the page too large.
            store_refused;
            /// Responses that the origin cut off in the middle.
            truncated: "larder_http_truncated",
                "The origin or the way to it: its error log, its timeouts, memory limits of its workers.";
            /// Responses of origins with neither length nor chunks: their end is the end of the
            /// connection.
            unframed: "larder_http_unframed",
                "The origin speaks HTTP/1.0, or a script of it leaves out `Content-Length`: `unframed` \
                 says what is kept of them.";
            /// Parts of pages that were put in (ESI).
            parts: "larder_http_parts", "Pages are put together of parts: compare with the requests.";
            /// Parts of pages that failed.
            parts_failed: "larder_http_parts_failed",
                "The comment in the page, if `esi_error` has it, names the part and its status; its \
                 own line in the origin's log says more.";
            /// Files of this machine that were opened to be kept, anew after a change.
            files_opened: "larder_http_files_opened",
                "More different files are in demand than are kept: `http.open_files`, and \
                 `http.sendfile_cache` for small ones.";
            /// TLS handshakes that succeeded.
            tls_handshakes: "larder_http_tls_handshakes",
                "More clients, or clients that keep no connection.";
            /// TLS handshakes of clients that had a ticket.
            tls_resumed: "larder_http_tls_resumed", "Clients come back: resumption is cheaper.";
            /// Connections of HTTP/2.
            http2_connections: "larder_http_http2_connections", "Clients that speak HTTP/2.";
            /// Requests of HTTP/2.
            http2_requests: "larder_http_http2_requests",
                "Compare with all requests: the share of clients that speak HTTP/2.";
            /// Streams of HTTP/2 that clients reset.
            http2_resets: "larder_http_http2_resets",
                "Visitors who leave a page before it is loaded; many more are an attack, which ends \
                 as a flood.";
            /// Malformed requests of HTTP/2, whose streams were reset.
            http2_malformed: "larder_http_http2_malformed",
                "Broken clients, or attempts to smuggle requests.";
            /// Connections of HTTP/2 that ended because of an error of the client.
            http2_errors: "larder_http_http2_errors", "Broken clients, or scanners.";
            /// Connections of HTTP/3.
            http3_connections: "larder_http_http3_connections", "Clients that speak HTTP/3.";
            /// Requests of HTTP/3.
            http3_requests: "larder_http_http3_requests",
                "Compare with all requests: the share of clients that speak HTTP/3.";
            /// Requests of HTTP/3 that clients gave up.
            http3_resets: "larder_http_http3_resets",
                "Visitors who leave a page before it is loaded; many more are an attack, which ends \
                 as a flood.";
            /// Malformed requests of HTTP/3, whose streams were reset.
            http3_malformed: "larder_http_http3_malformed",
                "Broken clients, or attempts to smuggle requests.";
            /// Connections of HTTP/3 that ended because of an error of the client.
            http3_errors: "larder_http_http3_errors", "Broken clients, or scanners.";
            /// Connections of HTTP/3 that ended because the client did too much in vain.
            http3_floods: "larder_http_http3_floods",
                "An attack, or a broken client; it costs no more than the connection.";
            /// Connections of trusted proxies without a header of the PROXY protocol, where one has
            /// to be.
            proxy_failures: "larder_http_proxy_header_failures",
                "A proxy does not send it, or something else speaks from its address.";
        }
        figures {
            /// Requests, refused and aborted ones included.
            requests;
            /// Second copies of frequently requested large pages, in files in memory, from which
            /// they are sent without copying.
            sendfile_cache: Gauge "larder_http_sendfile_cache_bytes",
                "Large pages are in demand; `http.sendfile_cache` is the limit.";
            /// Files of this machine that are kept open.
            open_files: Gauge "larder_http_open_files",
                "Many files are in demand; `http.open_files` is the limit.";
            /// Content of small files of this machine, kept in memory.
            file_memory: Gauge "larder_http_file_memory_bytes",
                "Many small files are in demand; half of `http.sendfile_cache` is the limit.";
        }
        nested {
            /// Connections of clients.
            connections: Connections from ConnectionCounters;
            /// Clients that took too long.
            timeouts: Timeouts from TimeoutCounters;
        }
        with {
            /// Requests by outcome.
            results: Results;
            /// Requests by the status of their answer.
            status: Statuses;
            /// Over all sites.
            latency: Latencies;
            /// By protocol: HTTP/1, HTTP/2, HTTP/3.
            protocols: Vec<Protocol>;
            /// Requests that memory alone could not answer, by the reason in the words of RFC 9211
            /// section 2.2.
            why_missed: Counts;
            /// Responses not stored, by reason.
            not_stored: Counts;
            /// Requests that could not be read, by reason.
            rejected: Counts;
            /// Connections to a port of HTTPS that failed for TLS, or spoke none, by reason.
            tls_failures: Counts;
            /// Connections of HTTP/2 that ended because the client sent too many frames that cost
            /// more than they are worth, by kind.
            http2_floods: Counts;
            /// By site, in the order of the configuration.
            sites: Vec<Site>;
            /// By origin.
            origins: Vec<Origin>;
        }
    }
}

impl Row for Http {
    const LABELS: &'static [&'static str] = &[];

    fn each(snapshot: &Snapshot, f: &mut dyn FnMut(&[&str], &Self)) {
        snapshot.http.iter().for_each(|http| f(&[], http));
    }
}

/// Answers by the class of their status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(default)]
pub struct Statuses {
    /// 101 only: interim answers are not counted.
    #[serde(rename = "1xx")]
    pub informational: u64,
    /// 200 to 299.
    #[serde(rename = "2xx")]
    pub successful: u64,
    /// 300 to 399.
    #[serde(rename = "3xx")]
    pub redirection: u64,
    /// 400 to 499.
    #[serde(rename = "4xx")]
    pub client_error: u64,
    /// 500 and above.
    #[serde(rename = "5xx")]
    pub server_error: u64,
    /// No answer: the client left before.
    pub none: u64,
}

impl Statuses {
    fn classes(&self) -> [(&'static str, u64); 6] {
        [
            ("1xx", self.informational),
            ("2xx", self.successful),
            ("3xx", self.redirection),
            ("4xx", self.client_error),
            ("5xx", self.server_error),
            ("none", self.none),
        ]
    }
}

/// The time of answers, until the system had taken them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(default)]
pub struct Latencies {
    /// From memory: the origin was neither asked nor waited for.
    pub hit: Histogram,
    /// The others that were delivered.
    pub miss: Histogram,
}

/// The time of answers in one protocol.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(default)]
pub struct Protocol {
    /// `HTTP/1` (1.0 and 1.1), `HTTP/2` or `HTTP/3`.
    pub name: String,
    /// The longest time of HTTP/1 is that of all protocols.
    pub latency: Latencies,
}

figures! {
    /// One site.
    pub struct Site {
        figures {
            /// Requests, refused and aborted ones included.
            requests;
            /// Bytes of answers, heads included.
            bytes_out: Counter "larder_http_response_bytes",
                "Large files, see the URLs with most bytes in the dashboard.";
        }
        with {
            /// Its name; `-` for requests that reached no site, `other` for sites beyond those
            /// counted.
            name: String;
            /// Requests by outcome.
            results: Results;
            /// Requests by the status of their answer.
            status: Statuses;
            /// The time of its answers.
            latency: Latencies;
        }
    }
}

impl Row for Site {
    const LABELS: &'static [&'static str] = &["site"];

    fn each(snapshot: &Snapshot, f: &mut dyn FnMut(&[&str], &Self)) {
        snapshot.http.iter().flat_map(|http| &http.sites).for_each(|site| f(&[&site.name], site));
    }
}

figures! {
    /// One origin.
    pub struct Origin {
        figures {
            /// Requests to the origin.
            requests: Counter "larder_origin_requests",
                "The cache helps less: see `larder_http_forwarded_total` and `larder_http_not_stored_total`.";
            /// Requests that failed there and were sent to another server of the same origin.
            sent_elsewhere: Counter "larder_origin_sent_elsewhere",
                "This server fails where others answer: its log, `larder_origin_failures_total`.";
            /// Requests to it now, until their answers are complete.
            under_way: Gauge "larder_origin_requests_under_way",
                "The origin has become slow, or is asked more; `max_requests` is the limit.";
            /// Requests that may be under way there: `max_requests`, or less with `adaptive_limit`;
            /// 0 without a limit.
            limit: Gauge "larder_origin_limit",
                "With `adaptive_limit`: the server has become faster, or is asked more.";
            /// Servers of this name: one, or an origin of several sites.
            servers: Gauge "larder_origin_servers", "More settings with this server.";
            /// Those of them that get requests: not taken out for failures in a row.
            healthy: Gauge "larder_origin_healthy",
                "A server came back; fewer than `larder_origin_servers`: it fails, see \
                 `larder_origin_failures_total`.";
            /// Connections closed because the origin sent bytes that nobody had asked for, behind
            /// an answer or before a request.
            unasked: Counter "larder_origin_unasked",
                "A wrong `Content-Length`, or content after a 204, a 304 or the answer to a HEAD: the \
                 origin has a bug that poisons caches.";
            /// Connections to it now, idle ones included, tunnels not.
            connections_open;
            /// Idle connections among them.
            connections_idle;
        }
        with {
            /// `http://host:port`.
            name: String;
            /// Requests that failed, before a response head or in the middle, by reason.
            failures: Counts;
            /// From the request to the head of its response: waiting for a connection, connecting
            /// and the origin's own time.
            ttfb: Histogram;
        }
    }
}

impl Row for Origin {
    const LABELS: &'static [&'static str] = &["origin"];

    fn each(snapshot: &Snapshot, f: &mut dyn FnMut(&[&str], &Self)) {
        snapshot
            .http
            .iter()
            .flat_map(|http| &http.origins)
            .for_each(|origin| f(&[&origin.name], origin));
    }
}

/// Metrics of the HTTP face with labels of their own.
pub(crate) const HTTP: &[Metric] = &[
    Metric {
        name: "larder_http_requests",
        kind: Kind::Counter,
        labels: &["site", "result"],
        help: "Requests by result.",
        rises: "More traffic, or (`result`): `miss` see `larder_http_forwarded_total`; `error` \
                the origin, see `larder_origin_failures_total`; `pass` rules or cookies that \
                bypass the cache; `refused` and `denied` the clients in the access log; `aborted` \
                clients that do not wait for a slow origin.",
        read: |s, to| {
            Site::each(s, &mut |_, site| {
                site.results
                    .iter()
                    .for_each(|(result, n)| to.count(&[&site.name, result.as_str()], n));
            });
        },
    },
    Metric {
        name: "larder_http_responses",
        kind: Kind::Counter,
        labels: &["site", "class"],
        help: "Requests by the class of their answer's status; `none`: the client left before.",
        rises: "`5xx`: the origin's errors or Larder's report of its failure; `4xx`: broken \
                links, scanners, or refusals.",
        read: |s, to| {
            Site::each(s, &mut |_, site| {
                site.status
                    .classes()
                    .iter()
                    .for_each(|(class, n)| to.count(&[&site.name, class], *n));
            });
        },
    },
    Metric {
        name: "larder_http_request_duration_seconds",
        kind: Kind::Histogram,
        labels: &["site", "from"],
        help: "Time from a request to the last byte of its answer given to the system; `from` is \
               `memory`, or `origin` if it was asked or waited for.",
        rises: "`memory`: too little processor (`larder_loop_delay_seconds`), or clients that \
                read slowly; `origin`: see `larder_origin_first_byte_seconds`.",
        read: |s, to| {
            Site::each(s, &mut |_, site| {
                if site.name != "-" {
                    to.histogram(&[&site.name, "memory"], &site.latency.hit);
                    to.histogram(&[&site.name, "origin"], &site.latency.miss);
                }
            });
        },
    },
    Metric {
        name: "larder_http_protocol_duration_seconds",
        kind: Kind::Histogram,
        labels: &["protocol", "from"],
        help: "As `larder_http_request_duration_seconds`, by the protocol of the request: \
               `HTTP/1`, `HTTP/2` or `HTTP/3`.",
        rises: "One protocol alone: the networks of its clients, or a flood by it.",
        read: |s, to| {
            for protocol in s.http.iter().flat_map(|http| &http.protocols) {
                to.histogram(&[&protocol.name, "memory"], &protocol.latency.hit);
                to.histogram(&[&protocol.name, "origin"], &protocol.latency.miss);
            }
        },
    },
    Metric {
        name: "larder_http_forwarded",
        kind: Kind::Counter,
        labels: &["reason"],
        help: "Requests that memory alone could not answer, by the reason in the words of RFC \
               9211.",
        rises: "`uri-miss`: new or evicted pages (`larder_store_evictions_total`), or URLs with \
                needless parameters (`drop_query`); `vary-miss`: origins that vary on too much; \
                `stale`: short lifetimes, see `grace`; `bypass`: rules and cookies; `request`: \
                clients that demand a new answer; `method`: POST and the like; `partial`: ranges \
                of incomplete pages.",
        read: |s, to| Http::each(s, &mut |_, http| to.words(&[], &http.why_missed)),
    },
    Metric {
        name: "larder_http_not_stored",
        kind: Kind::Counter,
        labels: &["reason"],
        help: "Responses that were not stored, by reason.",
        rises: "`set-cookie`, `private`, `no-store`, `no-freshness`: the origin's headers, which \
                rules can override; `store-full`: memory, or readers that hold it; `too-large`: \
                `max_object`; `truncated`: the origin breaks the connection.",
        read: |s, to| Http::each(s, &mut |_, http| to.words(&[], &http.not_stored)),
    },
    Metric {
        name: "larder_http_rejected",
        kind: Kind::Counter,
        labels: &["reason"],
        help: "Requests refused because they are malformed or too large, by reason.",
        rises: "Scanners and attacks, or a client or proxy that is broken: the access log has its \
                address.",
        read: |s, to| Http::each(s, &mut |_, http| to.words(&[], &http.rejected)),
    },
    Metric {
        name: "larder_http_tls_failures",
        kind: Kind::Counter,
        labels: &["reason"],
        help: "Connections to a port of HTTPS that failed for TLS, or spoke none, by reason.",
        rises: "`no-tls`: a wrong port or scheme; `incompatible`: very old clients, scanners; \
                `client-certificate`: clients without the certificate that their site wants; \
                `refused-by-client`: the certificate is not accepted, see `larder certificates`; \
                `malformed`: scanners; `timeout`, `closed`: bad networks, health checks that only \
                connect.",
        read: |s, to| Http::each(s, &mut |_, http| to.words(&[], &http.tls_failures)),
    },
    Metric {
        name: "larder_http_http2_floods",
        kind: Kind::Counter,
        labels: &["kind"],
        help: "Connections of HTTP/2 that ended because the client sent too many frames that cost \
               more than they are worth, by kind.",
        rises: "An attack, or a broken client; it costs no more than the connection.",
        read: |s, to| Http::each(s, &mut |_, http| to.words(&[], &http.http2_floods)),
    },
    Metric {
        name: "larder_http_timeouts",
        kind: Kind::Counter,
        labels: &["phase"],
        help: "Connections closed because the client was too slow to send a request's `header` or \
               `body`, or to read its answer (`send`).",
        rises: "Bad networks; many at once from few addresses: an attack that holds connections.",
        read: |s, to| {
            Http::each(s, &mut |_, http| {
                to.count(&["header"], http.timeouts.header);
                to.count(&["body"], http.timeouts.body);
                to.count(&["send"], http.timeouts.send);
            });
        },
    },
    Metric {
        name: "larder_http_connections",
        kind: Kind::Gauge,
        labels: &[],
        help: "Connections of clients open now.",
        rises: "More clients, or slow ones; at `limits.connections` further ones are refused.",
        read: |s, to| Http::each(s, &mut |_, http| to.count(&[], http.connections.open)),
    },
    Metric {
        name: "larder_http_connections_accepted",
        kind: Kind::Counter,
        labels: &[],
        help: "Connections accepted, including those refused at once.",
        rises: "Faster than requests: clients without keep-alive, or a proxy in front that does \
                not reuse connections.",
        read: |s, to| Http::each(s, &mut |_, http| to.count(&[], http.connections.accepted)),
    },
    Metric {
        name: "larder_http_connections_refused",
        kind: Kind::Counter,
        labels: &[],
        help: "Connections refused because of the limit.",
        rises: "`limits.connections` is too low for the traffic, or connections are held \
                (`larder_http_timeouts_total`).",
        read: |s, to| Http::each(s, &mut |_, http| to.count(&[], http.connections.refused)),
    },
];
