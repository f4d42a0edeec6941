//! Options of `[[site]]`, of its rules, and of presets.

use super::https::{CLIENT_CA, CLIENT_CERTIFICATE, CLIENT_CRL};
use super::{DAY, Kind, Opt, Section, TIB, YEAR, list, opt, required};

pub(super) const SITE: &[Opt] = &[
    list(
        "hosts",
        Kind::Host,
        "",
        "Hosts of this site, `*.example.org` for all below a domain. None: every host that no \
         other site has.",
    ),
    Opt {
        name: "origin",
        kind: Kind::Table(Section::Origin, Some("url")),
        list: false,
        default: "",
        required: true,
        help: "Source of the pages: `http://host:port`, `fcgi://host:port`, `fcgi+unix:/socket`, \
               `files:/directory`, `app:NAME` (an application of `[[app]]`).",
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
        "Share its pages through the servers of `[remote]`, if configured.",
    ),
    CLIENT_CA,
    CLIENT_CERTIFICATE,
    CLIENT_CRL,
    opt("purge", Kind::Table(Section::Purge, None), "", "Clients that may purge. Default: none."),
    opt(
        "debug",
        Kind::Table(Section::Debug, None),
        "",
        "Clients whose requests with `Larder-Debug` get an explanation of the answer. Default: \
         none.",
    ),
    opt("rule", Kind::Tables(Section::Rule), "", "Settings for some of the requests; see Rules."),
];

pub(super) const ORIGIN: &[Opt] = &[
    required(
        "url",
        Kind::Origin,
        "`http://host:port` or `https://host:port`; an application that speaks FastCGI: \
         `fcgi://host:port` or `fcgi+unix:/run/php/php-fpm.sock`; files: `files:/srv/www`; an \
         application of `[[app]]`: `app:NAME`.",
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
    opt(
        "check",
        Kind::Time(0, DAY),
        "1s",
        "Time for which a stored file is served without another look at it. Files of more than \
         1 MiB are not stored.",
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
        "For a whole answer; then it counts as cut off.",
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
    opt("idle_connections", Kind::Count(0, 100_000), "32", "Idle connections kept, per thread."),
    opt(
        "idle_timeout",
        Kind::Time(0, DAY),
        "30s",
        "Time for which an idle connection is kept. For FastCGI 1s unless it is set: a process of \
         php-fpm serves nobody else while its connection is kept.",
    ),
];

pub(super) const PURGE: &[Opt] = &[
    list("from", Kind::Net, "", "Addresses and networks that may purge without a token."),
    opt(
        "token_file",
        Kind::File,
        "",
        "A file with a token; clients that send `Authorization: Bearer TOKEN` may purge.",
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
        "Applies to paths that contain a match; `^` and `$` anchor it.",
    ),
    list("method", Kind::Token, "", "Applies to these methods."),
    opt(
        "cookie",
        Kind::Cookie,
        "",
        "Applies when a cookie of this name (or `name=value`) is sent.",
    ),
    opt(
        "header",
        Kind::HeaderMatch,
        "",
        "Applies when such a header is sent: `Name: value`, the value a glob.",
    ),
];

/// Actions on requests: in a site for all of them, in a rule for those that match.
pub(super) const POLICY: &[Opt] = &[
    opt(
        "pass",
        Kind::Bool,
        "false",
        "Straight to the origin: no lookup, and the answer is not stored.",
    ),
    opt(
        "cache",
        Kind::Bool,
        "false",
        "Store the answer despite `no-store`, `private` or `no-cache`. Only for content that is \
         the same for everyone.",
    ),
    opt(
        "ttl",
        Kind::Time(0, YEAR),
        "",
        "Fresh for this long, overriding the answer's own lifetime.",
    ),
    list(
        "error_ttl",
        Kind::StatusTtl,
        "",
        "Lifetime of errors without their own: `\"10s\"` for all from 400 on, or by status: \
         `[\"404 1m\", \"5xx 2s\"]`. The first that matches counts. Never for 400, 406, 411 to \
         417, 421, 428, 429 and 431, which one client's fields may cause.",
    ),
    opt(
        "grace",
        Kind::Time(0, YEAR),
        "",
        "A page expired for at most this long is still served at once, while it is fetched again \
         (stale-while-revalidate), unless the page sets its own window.",
    ),
    opt(
        "keep",
        Kind::Time(0, YEAR),
        "",
        "A page expired for at most this long is served when the origin answers with an error \
         (stale-if-error), unless the page sets its own window.",
    ),
    opt(
        "disconnected",
        Kind::Time(0, YEAR),
        "1d",
        "A page expired for at most this long is served when the origin cannot be reached at all, \
         unless the page forbids it.",
    ),
    opt(
        "stale_against_origin",
        Kind::Bool,
        "false",
        "The three above apply even if the page has `must-revalidate`, `proxy-revalidate` or \
         `s-maxage` (never against `no-cache`).",
    ),
    opt("refresh", Kind::Table(Section::Refresh, None), "", "Lifetime of pages without their own."),
    list(
        "bypass_cookies",
        Kind::Cookie,
        "",
        "A request with one of these cookies is not anonymous: it is passed.",
    ),
    list(
        "ignore_cookies",
        Kind::Glob,
        "",
        "Cookies that are ignored, and removed for the origin; requests that are passed keep \
         them. `*`: all that `bypass_cookies` and `vary_cookies` do not name.",
    ),
    list(
        "vary_cookies",
        Kind::Token,
        "",
        "If a page varies on `Cookie`: the names of the cookies that select a variant, and that \
         the origin is sent with a request whose answer may be stored. Not set: all do; `[]`: \
         none does.",
    ),
    list(
        "key_fields",
        Kind::KeyField,
        "",
        "Request fields that go to the origin and are part of the key: each value has pages of \
         its own. Fields in which proxies describe their clients (`X-Forwarded-Prefix`) count \
         from `http.trusted_proxies` only, others from everybody.",
    ),
    list("drop_query", Kind::Parameter, "", "Query parameters removed from the request: `utm_*`."),
    opt(
        "sort_query",
        Kind::Bool,
        "false",
        "Sort the query parameters, so that their order makes no second copy.",
    ),
    opt(
        "early_hints",
        Kind::Bool,
        "false",
        "While the origin is asked again for a page, tell clients of HTTP/2 the links of the \
         stored one that they should load (103 Early Hints): its `Link` fields with `preload`, \
         `modulepreload` or `preconnect`.",
    ),
    opt(
        "convert_head",
        Kind::Bool,
        "true",
        "A HEAD of a page that is not stored is sent to the origin as GET, so that the page is \
         kept. `false`: as HEAD, whose answer is not stored.",
    ),
    opt(
        "max_object",
        Kind::Size(1, TIB),
        "1GiB",
        "Larger bodies are delivered and not stored. Never more than a quarter of `memory`.",
    ),
    opt(
        "strip_s_maxage",
        Kind::Bool,
        "false",
        "Remove `s-maxage` from answers: it is for this cache, not for those behind it.",
    ),
    opt(
        "allow_set_cookie",
        Kind::Bool,
        "false",
        "Store answers with `Set-Cookie`, and the cookie with them. Only for cookies that are the \
         same for everyone.",
    ),
    opt(
        "allow_authorization",
        Kind::Bool,
        "false",
        "Store answers to requests with `Authorization` even if they do not allow it. Only for \
         content that is the same for all authorised users.",
    ),
    opt(
        "client_cache_control",
        Kind::Bool,
        "true",
        "Obey `Cache-Control` and `Pragma` of requests (RFC 9111). `false`: a visitor's reload \
         does not reach the origin.",
    ),
    list(
        "targets",
        Kind::Token,
        "CDN-Cache-Control",
        "Header fields with directives for this cache only; they override `Cache-Control`, and \
         the first that is present counts (RFC 9213).",
    ),
    opt(
        "unframed",
        Kind::Choice(&["keep", "brief", "pass"]),
        "brief",
        "Answers with neither length nor chunks, which end with the connection: an origin that \
         dies in the middle of one ends it in the same way. `keep`: store them as any other; \
         `brief`: for 10 s at most, then fetch them whole; `pass`: do not store them. An answer \
         that ends in a reset is never stored.",
    ),
    opt(
        "surrogate_control",
        Kind::Bool,
        "true",
        "Obey `Surrogate-Control`, and remove it for the client.",
    ),
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
