//! Options of `[[site]]`, of its rules, and of presets.

use super::https::{CLIENT_CA, CLIENT_CERTIFICATE, CLIENT_CRL};
use super::{HOUR, KIB, Kind, MIB, Opt, SECOND, Section, TIB, YEAR, list, opt, required};

/// Pages for errors of Larder's own.
pub(super) const ERROR_PAGES: Opt = list(
    "error_pages",
    Kind::ErrorPage,
    "",
    "Pages for errors and refusals that Larder answers with itself, by status: `{ 404 = \"404.html\", \
     502 = \"502.html\", 5xx = \"error.html\" }`; the narrowest counts. Those of a site are before \
     those of `[http]`, which are for every site. `{{status}}`, `{{reason}}` and `{{reference}}` in a \
     page are filled in; the reference finds the request again (`larder why`). Errors of the origin \
     stay as they are. Read at the start and by a reload. Default: a plain page.",
);

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
               `files:/directory`, `app:NAME` (an application of `[[app]]`); or a list of servers that \
               have the same pages.",
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
    ERROR_PAGES,
    opt(
        "dictionary",
        Kind::Table(Section::Dictionary, Some("on")),
        "",
        "Compress pages of HTTPS with dictionaries that browsers keep (RFC 9842), in the codings \
         `dcz` and `dcb` beside `zstd` and `br` of `compress`: one that is made of what the site's \
         documents have in common, and those that the origin names by `Use-As-Dictionary`. `true`, \
         or a table. Default: off.",
    ),
    opt("rule", Kind::Tables(Section::Rule), "", "Settings for some of the requests; see Rules."),
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

pub(super) const DICTIONARY: &[Opt] = &[
    opt("on", Kind::Bool, "true", "Compress with dictionaries."),
    opt(
        "size",
        Kind::Size(4 * KIB, MIB),
        "128KiB",
        "Most bytes of the dictionary that is made of the site's documents, before it is compressed \
         itself.",
    ),
    opt(
        "pages",
        Kind::Count(8, 256),
        "64",
        "Most documents that it is made of: the latest that were asked for more than once.",
    ),
    opt(
        "refresh",
        Kind::Time(SECOND, YEAR),
        "1d",
        "Browsers use it for this long, and it is made anew then. Pages are compressed with the one \
         before for as long again.",
    ),
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
    Opt {
        name: "origin",
        kind: Kind::Table(Section::Origin, Some("url")),
        list: false,
        default: "",
        required: false,
        help: "Source of these pages, as `origin` of a site.",
    },
    opt(
        "redirect",
        Kind::Redirect,
        "",
        "The answer is another place: `301 https://example.org$uri`; 302 unless a status is given. \
         `$uri` is path and query of the request, `$host` its host.",
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
        "vary_fields",
        Kind::Choice(&["x-vary-options", "key"]),
        "",
        "Response fields by which a page may say that it varies by parts of request fields, the \
         preferred one first: `X-Vary-Options` of MediaWiki up to 1.34, and `Key`. They count \
         instead of `Vary`; a malformed one leaves it to `Vary`.",
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
        "mend_redirects",
        Kind::Bool,
        "true",
        "`Location`, `Content-Location` and `Refresh` of answers that name exactly the origin's \
         own address and port name the path alone, so that visitors stay with Larder.",
    ),
    opt(
        "forward_client",
        Kind::Bool,
        "true",
        "Tell the origin the client's address (`X-Forwarded-For`, `Forwarded`, `REMOTE_ADDR`) also \
         with requests whose answer may be stored. `false`: with requests past the cache alone, \
         for applications that print it into pages.",
    ),
    opt(
        "limit",
        Kind::Rate,
        "",
        "Requests that one client may send: `20/s`, `600/m burst 50` (`burst`: at once, after a \
         rest; as many as in a second unless given). More get 429 with `Retry-After`. A client is \
         an address, or a network by `http.limits.client_prefix_v4` and `_v6`. Each rate has a \
         count of its own.",
    ),
    opt(
        "max_object",
        Kind::Size(1, TIB),
        "1GiB",
        "Larger bodies are delivered and not stored. Never more than a quarter of `memory`.",
    ),
    opt(
        "slice",
        Kind::SizeOrAuto(64 << 20),
        "0",
        "Fetch and keep these pages in slices of this size, 64 KiB at least: a range costs the origin \
         the slices that it touches, once. For large files of origins that know ranges and strong \
         entity tags; others are fetched as without it. `auto`: pages of 4 MiB and more that are \
         asked for by ranges, in slices of 1 MiB. 0: whole.",
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
    opt(
        "strip_prefix",
        Kind::Prefix,
        "",
        "Removed from the front of the path for the origin: `/api`. Visitors, keys and purges have \
         the whole path. Paths with `.` or `..` as a segment get 400.",
    ),
    opt(
        "add_prefix",
        Kind::Prefix,
        "",
        "Put before the path for the origin, after `strip_prefix`.",
    ),
    list(
        "request_fields",
        Kind::FieldEdit,
        "",
        "Changes of the fields for the origin: `X-Env: prod` sets a field, `+Name: value` adds a \
         line, `-Name` removes it.",
    ),
    list(
        "response_fields",
        Kind::FieldEdit,
        "",
        "Changes of the fields of the origin's answer, before it is judged and stored, and of \
         interim answers (103). Pages that are stored keep theirs.",
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
        "disk",
        Kind::Choice(&["auto", "always", "never"]),
        "auto",
        "Use of the disk, if there is one. `auto`: pages that were asked for more than once, when \
         they leave memory; `always`: as soon as they are stored; `never`: not at all. Pages that \
         are stored despite `private` or `no-store` are never on it.",
    ),
    list(
        "compress",
        Kind::Choice(&["zstd", "br", "gzip"]),
        "",
        "Keep pages of text types compressed too, from 1 KiB on, in these codings, and send each \
         client the first that it takes. The origin is asked for uncompressed pages. `[]`: send \
         pages as the origin does.",
    ),
    opt(
        "store_forms",
        Kind::Choice(&["all", "one"]),
        "all",
        "Forms of a page with `compress` that are kept: `all`: the page itself and each coding that \
         clients ask for; `one`: one coding alone, which is found to be the smallest, so that more \
         pages fit. Clients that do not take it, and ranges, cost a decompression on each hit.",
    ),
    opt(
        "esi",
        Kind::Choice(&["never", "surrogate", "always"]),
        "surrogate",
        "Pages that are put together of parts, by the markup of Edge Side Includes: `surrogate`: \
         those whose `Surrogate-Control` says `content=\"ESI/1.0\"`; `always`: all of HTML and XML; \
         `never`: none, and markup is sent as it is. Pages that are stored stay as they are.",
    ),
    opt(
        "esi_credentials",
        Kind::Bool,
        "false",
        "As parts of other pages, these pages are requested with the visitor's `Cookie` and \
         `Authorization`. `false`: without them, whoever asks.",
    ),
    opt(
        "esi_error",
        Kind::Choice(&["comment", "nothing"]),
        "comment",
        "In place of a part that failed and has neither `alt`, `onerror=\"continue\"` nor \
         `esi:except`: a comment of HTML with its status, or nothing.",
    ),
    opt("esi_depth", Kind::Count(1, 32), "5", "Parts of parts, this deep; deeper ones fail."),
    opt(
        "esi_parts",
        Kind::Count(1, 4096),
        "256",
        "Parts of one answer, parts of parts included; more fail.",
    ),
    opt(
        "esi_size",
        Kind::Size(1024, 64 << 20),
        "4MiB",
        "Longest page that is searched for markup: a longer one is sent as it is. Of an answer that \
         is collected before it is sent (HEAD, conditions, ranges), so much is held besides what is \
         stored.",
    ),
    opt(
        "esi_timeout",
        Kind::Time(SECOND, HOUR),
        "30s",
        "A part that has not begun to come by then has failed; of an answer that is collected, one \
         that is not whole.",
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
