//! Options of origins: how their servers are reached, divided and checked.

use super::{DAY, Kind, Opt, Section, list, opt, required};

pub(super) const ORIGIN: &[Opt] = &[
    Opt {
        name: "url",
        kind: Kind::Member,
        list: true,
        default: "",
        required: true,
        help: "`http://host:port` or `https://host:port`; an application that speaks FastCGI: \
               `fcgi://host:port` or `fcgi+unix:/run/php/php-fpm.sock`; HTTP over a unix socket: \
               `http+unix:/run/app.sock`; files: `files:/srv/www`; an application of `[[app]]`: \
               `app:NAME`. A list of servers that have the same pages: `[\"http://10.0.0.1:80 weight=3\", \
               \"http://10.0.0.2:80\", \"http://10.0.0.9:80 backup\"]`; a `backup` is asked while \
               no other can answer.",
    },
    opt(
        "balance",
        Kind::Balance,
        "least",
        "Which of several servers gets a request: `least` (the one with fewer requests under way, \
         of two picked at random), `round-robin`, `hash:url` (the same URL to the same server), \
         `hash:cookie NAME` (the same value of the cookie to the same server).",
    ),
    opt(
        "max_failures",
        Kind::Count(1, 1000),
        "3",
        "Failures in a row after which one of several servers gets no requests for \
         `failure_pause`. The last one is always asked.",
    ),
    opt(
        "failure_pause",
        Kind::Time(1, DAY),
        "10s",
        "Time without requests after these failures, then Larder tries it with a HEAD of its own. \
         It doubles while the server fails, to a minute.",
    ),
    opt(
        "slow_start",
        Kind::Time(0, DAY),
        "10s",
        "Time in which a server that has come back gets its share of the requests by and by. \
         `hash:url` does without it.",
    ),
    opt(
        "health",
        Kind::Table(Section::Health, Some("path")),
        "",
        "Checks of every server: one that fails gets no requests while another can answer. Absent: \
         servers are judged by their answers to visitors alone.",
    ),
    opt(
        "resolve",
        Kind::Time(10, DAY),
        "",
        "Interval at which names are looked up: each of their addresses is a server, and changes \
         are followed. Default: a name is looked up for each connection, and its addresses are \
         tried in their order.",
    ),
    list(
        "retry_status",
        Kind::Count(500, 599),
        "500 502 503 504",
        "Answers for which a GET or HEAD is sent to another of several servers. If that gives \
         another answer, they count as failures.",
    ),
    opt(
        "max_requests",
        Kind::Count(1, 1_000_000),
        "",
        "Requests under way at one server, over all threads. If every server has as many: a stale \
         page, or 503 at once. Default: no limit but `max_connections`.",
    ),
    opt(
        "adaptive_limit",
        Kind::Bool,
        "false",
        "A limit on requests under way at each server that follows its latency: fewer while the head \
         of an answer takes longer than it does at low load. Beyond it as with `max_requests`. For \
         servers whose pages take about equally long.",
    ),
    opt(
        "root",
        Kind::File,
        "",
        "Directory of the scripts and files beside a FastCGI application. Only what exists below \
         it is handed to the application. Not set: the application knows its paths itself, and is \
         sent every request.",
    ),
    list(
        "index",
        Kind::Text,
        "index.php index.html",
        "Names of files that answer for their directory, by preference. For `files` origins \
         `index.html` alone unless it is set.",
    ),
    list(
        "try_files",
        Kind::Candidate,
        "$uri $uri/",
        "Places to look at for a path, in order: `$uri` is the file or script of that path, \
         `$uri/` the index of that directory, `/index.php` a script for all other paths, `=404` a \
         status. `/index.php?q=$uri&$args` sets the query.",
    ),
    list(
        "split_path",
        Kind::Text,
        ".php",
        "Ends of the names of scripts. The path behind one is its PATH_INFO: \
         `/index.php/Main_Page`. Other files are served as they are. `[]`: every file is a script.",
    ),
    opt(
        "symlinks",
        Kind::Choice(&["beneath", "follow"]),
        "beneath",
        "Symbolic links below `root`: `beneath` follows relative ones that stay below it; `follow` \
         all.",
    ),
    list(
        "types",
        Kind::MediaType,
        "",
        "Media types of files by extension, before the usual ones: `md=text/markdown; \
         charset=utf-8`.",
    ),
    list(
        "expires",
        Kind::Expires,
        "",
        "Lifetime of files that clients are told (`Cache-Control: max-age`): `\"1h\"` for all, or by \
         media type: `[\"image/* 30d\", \"text/css 1y\"]`. The first that matches counts. Default: \
         they are told none.",
    ),
    opt(
        "listing",
        Kind::Bool,
        "false",
        "A directory without an index answers with a list of its files and directories. Hidden ones \
         are left out. Only for `files` origins.",
    ),
    opt(
        "check",
        Kind::Time(0, DAY),
        "1s",
        "Time for which a file is served without another look at it, where the system does not tell \
         its changes (docs/operations.md, Serve files).",
    ),
    list(
        "send_files",
        Kind::SendFiles,
        "",
        "Directories whose files the origin's answers may name: with `/files/=/srv/files` an \
         answer with `X-Accel-Redirect: /files/a.pdf` or `X-Sendfile: /srv/files/a.pdf` becomes \
         that file. Absent: such fields have no effect.",
    ),
    opt(
        "proxy_protocol",
        Kind::Choice(&["v1", "v2"]),
        "",
        "Begin each connection with a header of the PROXY protocol, for origins that demand one. \
         It names no client (`UNKNOWN`, `LOCAL`): a connection carries requests of many, and \
         `X-Forwarded-For` names theirs.",
    ),
    list(
        "params",
        Kind::Param,
        "",
        "Parameters for a FastCGI application, beside the usual ones or instead of them: \
         `APP_ENV=production`; `-HTTP_ACCEPT` is not sent.",
    ),
    opt(
        "app_root",
        Kind::Text,
        "",
        "The root as a FastCGI application names it, if it runs elsewhere (a container). Default: \
         `root`.",
    ),
    opt(
        "ca",
        Kind::File,
        "",
        "Authorities in PEM that may sign the certificate of an `https` origin. Default: those \
         that the system knows.",
    ),
    opt(
        "verify",
        Kind::Bool,
        "true",
        "Check the certificate of an `https` origin. Without this anybody between can read and \
         change pages.",
    ),
    opt(
        "tls_name",
        Kind::Text,
        "",
        "The name that an `https` origin is asked for (SNI) and that its certificate must have. \
         Default: the host of `url`.",
    ),
    opt("cert", Kind::File, "", "A certificate in PEM that is shown to an `https` origin."),
    opt("key", Kind::File, "", "The private key of `cert` in PEM."),
    opt(
        "host_header",
        Kind::Text,
        "",
        "`Host` sent to the origin. Default: that of the client's request.",
    ),
    opt("connect_timeout", Kind::Time(1, DAY), "3s", "For a connection, then 504."),
    opt(
        "first_byte_timeout",
        Kind::Time(1, DAY),
        "60s",
        "From the request to the head of its answer, then 504.",
    ),
    opt(
        "between_bytes_timeout",
        Kind::Time(1, DAY),
        "30s",
        "Between two pieces of a body; then it counts as cut off.",
    ),
    opt(
        "total_timeout",
        Kind::Time(1, DAY),
        "1h",
        "For a whole answer, all servers that are asked for it together; then it counts as cut \
         off.",
    ),
    opt(
        "max_connections",
        Kind::Count(1, 100_000),
        "128",
        "Connections at once, per thread; WebSockets do not count.",
    ),
    opt(
        "max_waiting",
        Kind::Count(0, 1_000_000),
        "1024",
        "Requests waiting for a connection, per thread; the next one gets 503.",
    ),
    opt(
        "max_wait",
        Kind::Time(0, DAY),
        "",
        "For a connection while `max_connections` are in use, then 503. Default: \
         `first_byte_timeout`.",
    ),
    opt("idle_connections", Kind::Count(0, 100_000), "32", "Idle connections kept, per thread."),
    opt(
        "idle_timeout",
        Kind::Time(0, DAY),
        "30s",
        "Time for which an idle connection is kept. For FastCGI 1s unless it is set: a process of \
         php-fpm serves nobody else while its connection is kept.",
    ),
];

pub(super) const HEALTH: &[Opt] = &[
    required("path", Kind::Text, "Path that is asked for with GET: `/ping`."),
    opt("host", Kind::Text, "", "`Host` of the check. Default: `host_header`, else the server's."),
    opt("interval", Kind::Time(10, DAY), "5s", "From one check to the next."),
    opt("timeout", Kind::Time(1, DAY), "2s", "For a whole answer; then the check has failed."),
    list(
        "status",
        Kind::Statuses,
        "200-399",
        "Statuses of a server that is well. Two checks in a row that fail take it out, one that \
         succeeds brings it back.",
    ),
    opt("body", Kind::Text, "", "A text that the first 64 KiB of the answer must have."),
];
