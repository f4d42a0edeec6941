//! Options of `[[app]]`.

use super::{DAY, GIB, Kind, Opt, SECOND, Section, TIB, YEAR, list, opt, required};

pub(super) const APP: &[Opt] = &[
    required("name", Kind::Token, "Its name: `origin = \"app:NAME\"` of a site."),
    Opt {
        name: "command",
        kind: Kind::Text,
        list: true,
        default: "",
        required: true,
        help: "The program and its arguments: `[\"php-cgi\", \"-d\", \"memory_limit=256M\"]`. A \
               text with blanks is a line for `/bin/sh`. It stays in the foreground.",
    },
    opt(
        "listen",
        Kind::AppListen,
        "auto",
        "Its socket, which Larder opens and hands over: the path of a unix socket, a port of \
         127.0.0.1, or an address and port. `auto`: a unix socket that Larder chooses.",
    ),
    opt(
        "protocol",
        Kind::Choice(&["fcgi", "http"]),
        "fcgi",
        "Its protocol. The socket is descriptor 0 of each process; for `http` also descriptor 3, \
         with `LISTEN_FDS` as systemd sets it.",
    ),
    opt(
        "processes",
        Kind::Count(1, 1024),
        "1",
        "Processes at once. All take their requests from the one socket.",
    ),
    opt(
        "user",
        Kind::Text,
        "",
        "User of the processes, by name or number, with its group and groups. Larder has to be \
         root for that. Default: Larder's own.",
    ),
    opt("group", Kind::Text, "", "Group of the processes. Default: the user's."),
    list(
        "env",
        Kind::Param,
        "",
        "Variables beside those of Larder's own environment: `APP_ENV=production`; `-HOME` is \
         taken out.",
    ),
    opt("cwd", Kind::File, "", "Working directory. Default: Larder's own."),
    opt("limits", Kind::Table(Section::AppLimits, None), "", "Resource limits of each process."),
    opt(
        "max_age",
        Kind::Time(SECOND, YEAR),
        "",
        "Age at which a process is replaced. Default: it stays.",
    ),
    opt(
        "max_requests",
        Kind::Count(1, 1 << 32),
        "",
        "Requests after which a process is replaced, on the average: each time that the \
         application has had so many, its oldest process is. Default: it stays.",
    ),
    opt(
        "ready",
        Kind::Text,
        "",
        "Path that an `http` application has to answer with a status below 500 before new \
         processes count. Default: it accepts a connection.",
    ),
    opt(
        "start_timeout",
        Kind::Time(SECOND, DAY),
        "30s",
        "Time for a new process until it is ready; then it is ended and started again.",
    ),
    opt(
        "stop_timeout",
        Kind::Time(0, DAY),
        "10s",
        "Time for a process to end after SIGTERM; then it is killed, with all that it started.",
    ),
];

pub(super) const APP_LIMITS: &[Opt] = &[
    opt("nofile", Kind::Count(8, 1 << 30), "", "Open files (`ulimit -n`)."),
    opt("memory", Kind::Size(1 << 20, 64 * TIB), "", "Address space (`ulimit -v`)."),
    opt(
        "processes",
        Kind::Count(1, 1 << 22),
        "",
        "Processes and threads of its user, all applications together (`ulimit -u`).",
    ),
    opt("cpu", Kind::Time(SECOND, YEAR), "", "Processor time, in whole seconds (`ulimit -t`)."),
    opt("core", Kind::Size(0, 64 * GIB), "", "A core file (`ulimit -c`)."),
    opt("file_size", Kind::Size(0, 64 * TIB), "", "A file that it writes (`ulimit -f`)."),
];
