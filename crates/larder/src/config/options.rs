//! THE table of options. The parser, the defaults, docs/configuration.md and the help of the flags all come from it.
//!
//! To add an option: a line here, a field in `larder_server::settings`, a line in `build.rs`. Then
//! `LARDER_BLESS=1 cargo test -p larder` writes the new docs/configuration.md.

/// A table of the configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    /// Before the first header.
    Root,
    /// `[http]`
    Http,
    /// `[http.limits]`
    Limits,
    /// `[http.access_log]`
    AccessLog,
    /// `[[site]]`
    Site,
    /// `[site.origin]`
    Origin,
    /// `[site.purge]`
    Purge,
    /// `[[site.rule]]`
    Rule,
    /// `refresh = { .. }` of a site or rule.
    Refresh,
    /// A table of presets.toml; never in a user's file.
    Preset,
}

impl Section {
    /// Those a user writes, in the order of the documentation.
    pub(crate) const DOCUMENTED: [Section; 9] = [
        Section::Root,
        Section::Http,
        Section::AccessLog,
        Section::Limits,
        Section::Site,
        Section::Origin,
        Section::Purge,
        Section::Rule,
        Section::Refresh,
    ];

    /// As its user writes it.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Section::Root => "the top level",
            Section::Http => "[http]",
            Section::Limits => "[http.limits]",
            Section::AccessLog => "[http] access_log",
            Section::Site => "[[site]]",
            Section::Origin => "[[site]] origin",
            Section::Purge => "[[site]] purge",
            Section::Rule => "[[site.rule]]",
            Section::Refresh => "refresh",
            Section::Preset => "a preset",
        }
    }

    /// What may stand in it: its own options, and what becomes of requests where that may be said.
    pub(crate) fn options(self) -> impl Iterator<Item = &'static Opt> {
        let (own, shared): (&[Opt], &[Opt]) = match self {
            Section::Root => (ROOT, &[]),
            Section::Http => (HTTP, &[]),
            Section::Limits => (LIMITS, &[]),
            Section::AccessLog => (ACCESS_LOG, &[]),
            Section::Site => (SITE, POLICY),
            Section::Origin => (ORIGIN, &[]),
            Section::Purge => (PURGE, &[]),
            Section::Rule => (RULE, POLICY),
            Section::Refresh => (REFRESH, &[]),
            Section::Preset => (PRESET, POLICY),
        };
        own.iter().chain(shared)
    }

    /// The option of this name.
    pub(crate) fn option(self, name: &str) -> Option<&'static Opt> {
        self.options().find(|opt| opt.name == name)
    }
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `true` or `false`.
    Bool,
    /// A number from `min` to `max`.
    Count(u64, u64),
    /// Bytes from `min` to `max`.
    Size(u64, u64),
    /// Milliseconds from `min` to `max`.
    Time(u64, u64),
    /// Any text.
    Text,
    /// A file; in a configuration file relative to its directory.
    File,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// An address and port.
    Address,
    /// An address or network.
    Net,
    /// A host name, or `*.` and a domain.
    Host,
    /// A pattern with `*` and `?`.
    Glob,
    /// The name of a query parameter, or how it begins: `utm_*`.
    Parameter,
    /// A glob over a cookie's name, or `name=value`.
    Cookie,
    /// A name as RFC 9110 has it (a token): a method, a field, a cookie.
    Token,
    /// Seconds by status: `404 10s`, `5xx 1s`, `500-504 1s`, `10s`.
    StatusTtl,
    /// A regular expression.
    Regex,
    /// `Name: glob`.
    HeaderMatch,
    /// `Name: value`.
    HeaderLine,
    /// `http://host:port`.
    Origin,
    /// A table; a plain value stands for a table with only this key set.
    Table(Section, Option<&'static str>),
    /// Any number of tables.
    Tables(Section),
}

/// One option.
#[derive(Debug)]
pub(crate) struct Opt {
    /// The key.
    pub(crate) name: &'static str,
    /// What its value is.
    pub(crate) kind: Kind,
    /// Whether several values may be given, as a list.
    pub(crate) list: bool,
    /// As written in a file, values of a list divided by blanks; empty: not set.
    pub(crate) default: &'static str,
    /// Whether it must be given.
    pub(crate) required: bool,
    /// What it does, for the documentation and for `--help`.
    pub(crate) help: &'static str,
}

const fn opt(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Opt {
    Opt { name, kind, list: false, default, required: false, help }
}

const fn list(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Opt {
    Opt { name, kind, list: true, default, required: false, help }
}

const fn required(name: &'static str, kind: Kind, help: &'static str) -> Opt {
    Opt { name, kind, list: false, default: "", required: true, help }
}

const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;
const SECOND: u64 = 1_000;
const DAY: u64 = 86_400 * SECOND;
const YEAR: u64 = 366 * DAY;

const ROOT: &[Opt] = &[
    opt(
        "memory",
        Kind::Size(16 * MIB, 64 * TIB),
        "256MiB",
        "Memory for everything that is kept, its index included.",
    ),
    opt("threads", Kind::Count(1, 1024), "", "Worker threads. Default: one per processor."),
    opt("http", Kind::Table(Section::Http, None), "", "Listeners, and what holds for all sites."),
    opt("site", Kind::Tables(Section::Site), "", "One site behind this cache; any number of them."),
];

const HTTP: &[Opt] = &[
    list("listen", Kind::Address, "127.0.0.1:8080", "Addresses to serve HTTP on. Port 0 takes a free one."),
    opt(
        "access_log",
        Kind::Table(Section::AccessLog, Some("path")),
        "",
        "Where every request is logged: a path, or `-` for standard output.",
    ),
    opt("limits", Kind::Table(Section::Limits, None), "", "What protects the server from its clients."),
    opt("x_cache", Kind::Bool, "true", "Send `X-Cache` and `X-Cache-Lookup`."),
    opt("cache_status", Kind::Bool, "true", "Send `Cache-Status` (RFC 9211)."),
    opt("announce", Kind::HeaderLine, "", "A header line added to every answer that comes from memory."),
    opt("via", Kind::Text, "larder", "The name in `Via` (RFC 9110); empty: no `Via` is sent."),
    list(
        "trusted_proxies",
        Kind::Net,
        "",
        "Proxies before this one whose `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host` are believed; `Forwarded` is passed on. From everyone else these fields are dropped.",
    ),
    opt(
        "sndbuf",
        Kind::Size(0, 64 * MIB),
        "256KiB",
        "Send buffer of a client connection in the kernel; 0 leaves it to the system.",
    ),
];

const ACCESS_LOG: &[Opt] = &[
    required("path", Kind::File, "A file, or `-` for standard output. Reopened on SIGHUP."),
    opt("format", Kind::Choice(&["squid", "combined", "json"]), "squid", "How a line looks."),
];

const LIMITS: &[Opt] = &[
    opt("head_bytes", Kind::Size(1 << 10, MIB), "64KiB", "A request head; more is refused with 431."),
    opt("request_line", Kind::Size(256, MIB), "16KiB", "A request line; more is refused with 414."),
    opt("fields", Kind::Count(10, 256), "100", "Header fields in a request; more are refused with 431."),
    opt(
        "connections",
        Kind::Count(1, 1_000_000),
        "10000",
        "Client connections at once, WebSockets among them; the next one gets 503 and is closed.",
    ),
    opt("request_body", Kind::Size(0, TIB), "1GiB", "A request body; more is refused with 413."),
    opt("header_timeout", Kind::Time(100, DAY), "10s", "For a whole request head to arrive, then 408."),
    opt(
        "idle_timeout",
        Kind::Time(100, DAY),
        "60s",
        "Between two requests of a connection, then it is closed.",
    ),
    opt("body_timeout", Kind::Time(100, DAY), "30s", "Without progress in a request body, then 408."),
    opt(
        "send_timeout",
        Kind::Time(100, DAY),
        "60s",
        "In this time a client must take at least 16 KiB of its answer, or all that is left; else the connection is dropped.",
    ),
    opt(
        "pipeline",
        Kind::Count(1, 1024),
        "64",
        "Answers to pipelined requests that are collected before they are sent.",
    ),
    opt(
        "drain",
        Kind::Time(0, DAY),
        "30s",
        "For requests under way to finish when the server is told to stop.",
    ),
];

const SITE: &[Opt] = &[
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
        Kind::Choice(super::presets::NAMES),
        "",
        "Settings known to suit a kind of site; see Presets.",
    ),
    opt("purge", Kind::Table(Section::Purge, None), "", "Who may purge. Default: nobody."),
    opt("rule", Kind::Tables(Section::Rule), "", "What holds for some of the requests; see Rules."),
];

const ORIGIN: &[Opt] = &[
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

const PURGE: &[Opt] = &[
    list("from", Kind::Net, "", "Addresses and networks that may purge without a token."),
    opt(
        "token_file",
        Kind::File,
        "",
        "A file with a token; who sends `Authorization: Bearer TOKEN` may purge.",
    ),
];

const RULE: &[Opt] = &[
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
const POLICY: &[Opt] = &[
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

const REFRESH: &[Opt] = &[
    opt("min", Kind::Time(0, YEAR), "0s", "At least this long."),
    opt("percent", Kind::Count(0, 100), "10", "Of the time since `Last-Modified`."),
    opt("max", Kind::Time(0, YEAR), "1d", "At most this long."),
];

const PRESET: &[Opt] = &[
    required("about", Kind::Text, "One line."),
    opt("rule", Kind::Tables(Section::Rule), "", "Rules, after those of the site."),
];

/// The table in which `--memory` and its like are described.
pub(crate) const FLAGS: [(&str, Section, &str); 5] = [
    ("--memory", Section::Root, "memory"),
    ("--threads", Section::Root, "threads"),
    ("--http", Section::Http, "listen"),
    ("--origin", Section::Site, "origin"),
    ("--access-log", Section::Http, "access_log"),
];

/// What `--help` says of a flag: the option's own help, and its default.
pub(crate) fn flag_help(flag: &str) -> String {
    let Some((_, section, name)) = FLAGS.iter().find(|(name, ..)| *name == flag) else {
        return String::new();
    };
    let Some(opt) = section.option(name) else { return String::new() };
    match opt.default {
        "" => opt.help.to_owned(),
        default => format!("{} [default: {default}]", opt.help),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_and_every_flag_is_an_option() {
        for section in Section::DOCUMENTED {
            let mut seen = HashSet::new();
            for opt in section.options() {
                assert!(seen.insert(opt.name), "{} twice in {}", opt.name, section.title());
                assert!(opt.help.ends_with('.'), "{}: {}", opt.name, opt.help);
            }
        }
        for (flag, ..) in FLAGS {
            assert!(!flag_help(flag).is_empty(), "{flag}");
        }
    }
}
