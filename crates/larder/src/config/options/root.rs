//! Options outside of all tables.

use super::{GIB, Kind, MIB, Opt, SECOND, Section, YEAR, opt};

pub(super) const ROOT: &[Opt] = &[
    opt(
        "memory",
        // As much as the store takes.
        Kind::Size(16 * MIB, 512 * GIB),
        "256MiB",
        "Memory for all data, including the index.",
    ),
    opt("threads", Kind::Count(1, 1024), "", "Worker threads. Default: one per processor."),
    opt(
        "user",
        Kind::Text,
        "",
        "The user to run as, by name or number, after the addresses are bound. For a server that \
         root starts: files that a reload reads again, such as certificates, and the access log \
         must be readable and writable for this user.",
    ),
    opt("group", Kind::Text, "", "The group to run as. Default: that of `user`."),
    opt(
        "control",
        Kind::File,
        "",
        "Directory of the socket for `larder purge`, `log`, `hist`, `top`, `reload` and `stop`, \
         which only the same user and root can open; `none`: no such socket. Default: \
         `$RUNTIME_DIRECTORY`, else `/run/larder` for root, `$XDG_RUNTIME_DIR/larder` for others, \
         `larder-UID` among the temporary files where that is not set.",
    ),
    opt(
        "upgrade_timeout",
        Kind::Time(SECOND, 10 * 60 * SECOND),
        "30s",
        "Time for the new process of `larder upgrade` to be ready; else it is ended, and the old \
         one goes on.",
    ),
    opt(
        "upgrade_memory",
        Kind::Bool,
        "true",
        "Whether the new process of `larder upgrade` gets the memory with all that is in it. It \
         takes effect at the start.",
    ),
    opt(
        "snapshot",
        Kind::File,
        "",
        "A file that gets all that memory has at a stop, and gives it back at the next start \
         (pages, memcached's items, Redis's data). Absent: memory begins empty.",
    ),
    opt(
        "snapshot_max_age",
        Kind::Time(SECOND, YEAR),
        "1d",
        "A snapshot that was written longer ago is not used.",
    ),
    opt("http", Kind::Table(Section::Http, None), "", "Listeners, and settings for all sites."),
    opt(
        "https",
        Kind::Table(Section::Https, None),
        "",
        "The same pages over TLS. Absent: no such listener.",
    ),
    opt(
        "acme",
        Kind::Table(Section::Acme, None),
        "",
        "Certificates that Larder orders and renews. Absent: those of `https.certificates` only.",
    ),
    opt(
        "memcached",
        Kind::Table(Section::Memcached, None),
        "",
        "Objects for memcached clients, in the same memory. Absent: no such listener.",
    ),
    opt(
        "redis",
        Kind::Table(Section::Redis, None),
        "",
        "Objects for Redis clients, in the same memory. Absent: no such listener.",
    ),
    opt(
        "queue",
        Kind::Table(Section::Queue, None),
        "",
        "Durable queues for clients of Kestrel. Absent: no such listener.",
    ),
    opt(
        "disk",
        Kind::Table(Section::Disk, None),
        "",
        "Pages that leave memory, kept on disk and found again after a restart. Absent: they are \
         in memory only.",
    ),
    opt(
        "remote",
        Kind::Table(Section::Remote, None),
        "",
        "Servers that share the pages of several Larders. Absent: pages are in this Larder's \
         memory only.",
    ),
    opt(
        "peer",
        Kind::Tables(Section::Peer),
        "",
        "One cache that is asked before the origin, a parent or a sibling; any number of them.",
    ),
    opt(
        "icp",
        Kind::Table(Section::Icp, None),
        "",
        "Other caches may ask by ICP whether a page is here. Absent: no such listener.",
    ),
    opt(
        "htcp",
        Kind::Table(Section::Htcp, None),
        "",
        "Others may ask by HTCP whether a page is here, and purge. Absent: no such listener.",
    ),
    opt(
        "publish",
        Kind::Table(Section::Publish, None),
        "",
        "Objects that memcached or Redis clients set and that are served as pages. Absent: no \
         object is a page.",
    ),
    opt(
        "admin",
        Kind::Table(Section::Admin, None),
        "",
        "The admin interface: dashboard, metrics, API. Absent: no such listener.",
    ),
    opt(
        "tracing",
        Kind::Table(Section::Tracing, None),
        "",
        "A collector of traces (OpenTelemetry). Absent: `traceparent` passes through, and nothing \
         is recorded.",
    ),
    opt(
        "app",
        Kind::Tables(Section::App),
        "",
        "One application that Larder runs, for origins `app:NAME`; any number of them.",
    ),
    opt("site", Kind::Tables(Section::Site), "", "One site behind this cache; any number of them."),
];
