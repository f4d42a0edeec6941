//! Options of `[http]` and of its tables.

use super::site::ERROR_PAGES;
use super::{DAY, Kind, MIB, Opt, Section, TIB, ceiling, floor, list, opt, required};

pub(super) const HTTP: &[Opt] = &[
    list(
        "listen",
        Kind::Address,
        "127.0.0.1:8080",
        "Addresses to serve HTTP on. Port 0 takes a free one.",
    ),
    opt(
        "access_log",
        Kind::Table(Section::AccessLog, Some("path")),
        "",
        "Log of every request: a path, or `-` for standard output.",
    ),
    opt(
        "limits",
        Kind::Table(Section::Limits, None),
        "",
        "Limits that protect the server from its clients.",
    ),
    opt("x_cache", Kind::Bool, "true", "Send `X-Cache` and `X-Cache-Lookup`."),
    opt("cache_status", Kind::Bool, "true", "Send `Cache-Status` (RFC 9211)."),
    opt("announce", Kind::HeaderLine, "", "A header line added to every answer from memory."),
    opt("via", Kind::ViaName, "larder", "The name in `Via` (RFC 9110); empty: no `Via` is sent."),
    list(
        "trusted_proxies",
        Kind::Net,
        "",
        "Proxies before this one whose `X-Forwarded-For`, `X-Forwarded-Proto` and \
         `X-Forwarded-Host` are believed. The origin is told of what is believed alone; see What \
         the origin is told in docs/operations.md.",
    ),
    opt(
        "proxy_protocol",
        Kind::Bool,
        "false",
        "Connections of `trusted_proxies` begin with a header of the PROXY protocol, version 1 or \
         2, which tells the client's address and whether it speaks TLS. Those of others begin \
         without.",
    ),
    opt(
        "h2c",
        Kind::Bool,
        "false",
        "Speak HTTP/2 without TLS with clients that begin with its preface (prior knowledge).",
    ),
    opt(
        "sndbuf",
        Kind::Size(0, 64 * MIB),
        "256KiB",
        "Send buffer of a client connection in the kernel; 0 leaves it to the system.",
    ),
    opt(
        "sendfile_cache",
        Kind::Size(0, TIB),
        "",
        "Part of `memory` for second copies of frequently requested pages from 16 KiB to 2 MiB, \
         which are sent without copying. Default: a sixteenth of it, 256MiB at most; never more \
         than half of it; 0: none. Each thread has its share: with less than 1 MiB per thread \
         there are none. Where files are served (`files:`), half of it is for the content of files \
         up to 16 KiB.",
    ),
    opt(
        "open_files",
        Kind::Count(0, 1_000_000),
        "8192",
        "Files of `files:` origins kept open, over all threads; at most a quarter of the descriptors \
         that the process may have. The least used are closed. 0: every request opens its file, and \
         stores it for `check`.",
    ),
    ERROR_PAGES,
    floor("Part of `memory` reserved for pages: objects do not evict them from it."),
    ceiling("Greatest part of `memory` for pages."),
];

pub(super) const ACCESS_LOG: &[Opt] = &[
    required("path", Kind::File, "A file, or `-` for standard output. Reopened on SIGHUP."),
    opt("format", Kind::Choice(&["squid", "combined", "json"]), "squid", "Format of a line."),
];

pub(super) const LIMITS: &[Opt] = &[
    opt(
        "head_bytes",
        Kind::Size(1 << 10, MIB),
        "64KiB",
        "A request head; more is refused with 431.",
    ),
    opt("request_line", Kind::Size(256, MIB), "16KiB", "A request line; more is refused with 414."),
    opt(
        "fields",
        Kind::Count(10, 256),
        "100",
        "Header fields in a request; more are refused with 431.",
    ),
    opt(
        "connections",
        Kind::Count(1, 1_000_000),
        "10000",
        "Client connections at once, including WebSockets; the next one gets 503 and is closed.",
    ),
    opt(
        "connections_per_client",
        Kind::Count(1, 1_000_000),
        "",
        "Connections of one client at once; the next one gets 503 and is closed. Those of HTTP/3 \
         count once their handshake is done, trusted proxies not at all. Default: no limit but \
         `connections`.",
    ),
    opt(
        "client_prefix_v4",
        Kind::Count(0, 32),
        "32",
        "Bits of an IPv4 address that are one client, for `connections_per_client` and `limit`.",
    ),
    opt("client_prefix_v6", Kind::Count(0, 128), "64", "The same of an IPv6 address."),
    opt("request_body", Kind::Size(0, TIB), "1GiB", "A request body; more is refused with 413."),
    opt(
        "header_timeout",
        Kind::Time(100, DAY),
        "10s",
        "For a whole request head to arrive, then 408.",
    ),
    opt(
        "idle_timeout",
        Kind::Time(100, DAY),
        "60s",
        "Between two requests of a connection, then it is closed.",
    ),
    opt(
        "body_timeout",
        Kind::Time(100, DAY),
        "30s",
        "Without progress in a request body, then 408.",
    ),
    opt(
        "send_timeout",
        Kind::Time(100, DAY),
        "60s",
        "In this time a client must read at least 16 KiB of its answer, or all of the rest; \
         otherwise the connection is dropped.",
    ),
    opt(
        "pipeline",
        Kind::Count(1, 1024),
        "64",
        "Answers to pipelined requests that are collected before they are sent.",
    ),
    opt(
        "streams",
        Kind::Count(1, 1000),
        "128",
        "Requests that one connection of HTTP/2 may have open at once.",
    ),
    opt(
        "drain",
        Kind::Time(0, DAY),
        "30s",
        "Time for open requests to finish when the server stops.",
    ),
];
