//! Options of `[[site]]`, of its rules, and of presets.

use super::{DAY, Kind, Opt, Section, TIB, YEAR, list, opt, required};

pub(super) const SITE: &[Opt] = &[
    list(
        "hosts",
        Kind::Host,
        "",
        "Hosts of this site, `*.example.org` for all below a domain. None: every host no other site has.",
    ),
    Opt {
        name: "origin",
        kind: Kind::Table(Section::Origin, Some("url")),
        list: false,
        default: "",
        required: true,
        help: "Where the pages come from: `http://host:port`.",
    },
    opt(
        "preset",
        Kind::Choice(crate::config::presets::NAMES),
        "",
        "Settings known to suit a kind of site; see Presets.",
    ),
    opt(
        "remote",
        Kind::Bool,
        "true",
        "Share its pages through the servers of `[remote]`, where there is one.",
    ),
    opt("purge", Kind::Table(Section::Purge, None), "", "Who may purge. Default: nobody."),
    opt(
        "debug",
        Kind::Table(Section::Debug, None),
        "",
        "Whose requests with `Larder-Debug` are told how the answer came about. Default: nobody's.",
    ),
    opt("rule", Kind::Tables(Section::Rule), "", "What holds for some of the requests; see Rules."),
];

pub(super) const ORIGIN: &[Opt] = &[
    required("url", Kind::Origin, "`http://host:port`."),
    opt("host_header", Kind::Text, "", "`Host` sent to the origin. Default: what the client sent."),
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
    opt("total_timeout", Kind::Time(1, DAY), "1h", "For a whole answer; then it counts as cut off."),
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
    opt("idle_connections", Kind::Count(0, 100_000), "32", "Idle connections kept, per thread."),
    opt("idle_timeout", Kind::Time(0, DAY), "30s", "How long an idle connection is kept."),
];

pub(super) const PURGE: &[Opt] = &[
    list("from", Kind::Net, "", "Addresses and networks that may purge without a token."),
    opt(
        "token_file",
        Kind::File,
        "",
        "A file with a token; who sends `Authorization: Bearer TOKEN` may purge.",
    ),
];

pub(super) const DEBUG: &[Opt] = &[
    list("from", Kind::Net, "", "Addresses and networks that need no token."),
    opt("token_file", Kind::File, "", "A file with a token, for `Authorization: Bearer TOKEN`."),
];

pub(super) const RULE: &[Opt] = &[
    list("path", Kind::Glob, "", "Applies to these paths (query not included): `/api/*`."),
    opt(
        "path_regex",
        Kind::Regex,
        "",
        "Applies to paths in which this is found; `^` and `$` bind it to the ends.",
    ),
    list("method", Kind::Token, "", "Applies to these methods."),
    opt("cookie", Kind::Cookie, "", "Applies when a cookie of this name (or `name=value`) is sent."),
    opt(
        "header",
        Kind::HeaderMatch,
        "",
        "Applies when such a header is sent: `Name: value`, the value a glob.",
    ),
];

/// What becomes of requests: in a site for all of them, in a rule for those it applies to.
pub(super) const POLICY: &[Opt] = &[
    opt("pass", Kind::Bool, "false", "Straight to the origin: nothing is looked up, nothing is kept."),
    opt(
        "cache",
        Kind::Bool,
        "false",
        "Keep the answer although it says `no-store`, `private` or `no-cache`. For content that is surely the same for everyone.",
    ),
    opt("ttl", Kind::Time(0, YEAR), "", "Fresh for this long, whatever the answer says of it."),
    list(
        "error_ttl",
        Kind::StatusTtl,
        "",
        "How long errors are fresh that do not say so themselves: `\"10s\"` for all from 400 on, or by status: `[\"404 1m\", \"5xx 2s\"]`. The first that fits counts.",
    ),
    opt(
        "grace",
        Kind::Time(0, YEAR),
        "",
        "A page this long past its time is still served at once, while it is fetched anew (stale-while-revalidate), unless the page says otherwise.",
    ),
    opt(
        "keep",
        Kind::Time(0, YEAR),
        "",
        "A page this long past its time is served when the origin answers with an error (stale-if-error), unless the page says otherwise.",
    ),
    opt(
        "disconnected",
        Kind::Time(0, YEAR),
        "1d",
        "A page this long past its time is served when the origin cannot be reached at all, unless the page forbids it.",
    ),
    opt(
        "stale_against_origin",
        Kind::Bool,
        "false",
        "The three above count although the page says `must-revalidate`, `proxy-revalidate` or `s-maxage` (never against `no-cache`).",
    ),
    opt(
        "refresh",
        Kind::Table(Section::Refresh, None),
        "",
        "How long a page is fresh that does not say so itself.",
    ),
    list(
        "bypass_cookies",
        Kind::Cookie,
        "",
        "A request with one of these cookies is passed: it is not anonymous.",
    ),
    list(
        "ignore_cookies",
        Kind::Glob,
        "",
        "Cookies treated as if they were not there, also for the origin; requests that are passed keep them. `*`: all that `bypass_cookies` and `vary_cookies` do not name.",
    ),
    list(
        "vary_cookies",
        Kind::Token,
        "",
        "Where a page varies on `Cookie`: the names of the only cookies that make a difference. Not set: all do; `[]`: none does.",
    ),
    list("drop_query", Kind::Parameter, "", "Query parameters taken out of the request: `utm_*`."),
    opt(
        "sort_query",
        Kind::Bool,
        "false",
        "Sort the query parameters, so that their order makes no second copy.",
    ),
    opt(
        "max_object",
        Kind::Size(1, TIB),
        "1GiB",
        "Larger bodies are delivered and not kept. Never more than a quarter of `memory`.",
    ),
    opt(
        "strip_s_maxage",
        Kind::Bool,
        "false",
        "Take `s-maxage` out of answers: it was for this cache, not for those behind it.",
    ),
    opt(
        "allow_set_cookie",
        Kind::Bool,
        "false",
        "Keep answers that carry `Set-Cookie`, and the cookie with them. For cookies that are the same for everyone.",
    ),
    opt(
        "allow_authorization",
        Kind::Bool,
        "false",
        "Keep answers to requests with `Authorization` that are not marked for it. For content that is the same for everyone who may see it.",
    ),
    opt(
        "client_cache_control",
        Kind::Bool,
        "true",
        "Obey `Cache-Control` and `Pragma` of requests (RFC 9111). `false`: a visitor's reload does not reach the origin.",
    ),
    list(
        "targets",
        Kind::Token,
        "CDN-Cache-Control",
        "Header fields in which the origin speaks to this cache only, before `Cache-Control`, the first that is there counts (RFC 9213).",
    ),
    opt("surrogate_control", Kind::Bool, "true", "Obey `Surrogate-Control`, and keep it from the client."),
];

pub(super) const REFRESH: &[Opt] = &[
    opt("min", Kind::Time(0, YEAR), "0s", "At least this long."),
    opt("percent", Kind::Count(0, 100), "10", "Of the time since `Last-Modified`."),
    opt("max", Kind::Time(0, YEAR), "1d", "At most this long."),
];

pub(super) const PRESET: &[Opt] = &[
    required("about", Kind::Text, "One line."),
    opt("rule", Kind::Tables(Section::Rule), "", "Rules, after those of the site."),
];
