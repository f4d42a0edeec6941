//! Options of `[memcached]` and `[redis]`. The defaults are those of memcached 1.6 and Redis 7, but
//! for the addresses: no default of ours opens a port to other machines.

use super::{DAY, GIB, KIB, Kind, MIB, Opt, Section, ceiling, floor, list, opt, required};

pub(super) const UNIX_MODE: Opt = opt(
    "unix_mode",
    Kind::Mode,
    "700",
    "Permissions of the unix sockets. Connecting requires write permission.",
);

pub(super) const TLS: Opt = opt(
    "tls",
    Kind::Table(Section::FaceTls, None),
    "",
    "Serve over TLS too, at addresses of its own. Without `listen` beside it, over TLS alone.",
);

pub(super) const FACE_TLS: &[Opt] = &[
    list("listen", Kind::Listen, "", "Addresses to listen on. Port 0 takes a free one."),
    required("cert", Kind::File, "The certificate in PEM, and those behind it."),
    required("key", Kind::File, "Its private key in PEM."),
    opt("min_version", Kind::Choice(&["1.2", "1.3"]), "1.2", "The oldest version of TLS."),
    opt("client_ca", Kind::File, "", "Authorities, in PEM, whose certificates clients show."),
    opt(
        "client_certificate",
        Kind::Choice(&["off", "optional", "required"]),
        "",
        "`required`: a client without a certificate of `client_ca` is refused. `optional`: it is \
         served, but not with one that is wrong. Not set: `required` with a `client_ca`, else \
         `off`.",
    ),
    opt("client_crl", Kind::File, "", "Lists of revoked certificates, in PEM."),
];

const PROXIES: Opt = list(
    "proxies",
    Kind::Net,
    "",
    "Connections from these addresses begin with a header of the PROXY protocol, version 1 or 2, \
     before TLS where that is spoken, which names the client. One without it is closed.",
);

pub(super) const IDLE_TIMEOUT: Opt = opt(
    "idle_timeout",
    Kind::Time(0, DAY),
    "0s",
    "A connection without a command for this long is closed; `\"0s\"`: never.",
);

pub(super) const RECEIVE_TIMEOUT: Opt = opt(
    "receive_timeout",
    Kind::Time(100, DAY),
    "60s",
    "A client that has begun a command and for so long sends less than 16 KiB more of it is \
     closed, also where idle ones may stay.",
);

pub(super) const SEND_TIMEOUT: Opt = opt(
    "send_timeout",
    Kind::Time(100, DAY),
    "60s",
    "A client that reads nothing of its answers for this long is closed.",
);

const EVICT: Opt = opt(
    "evict",
    Kind::Bool,
    "true",
    "Evict the least used entries to make room for new ones. `false`: a full memory refuses new \
     entries, for all faces.",
);

pub(super) const MEMCACHED: &[Opt] = &[
    list(
        "listen",
        Kind::Listen,
        "127.0.0.1:11211",
        "Addresses to listen on, or `unix:` with a path. Port 0 takes a free one.",
    ),
    UNIX_MODE,
    TLS,
    PROXIES,
    list(
        "udp",
        Kind::Address,
        "",
        "UDP addresses. Anyone who can send to one can direct answers to others: for trusted \
         networks only.",
    ),
    floor("Part of `memory` reserved for these objects."),
    ceiling("Greatest part of `memory` for these objects."),
    opt(
        "item_size",
        Kind::Size(KIB, GIB),
        "1MiB",
        "Largest object, including its key; larger ones are refused.",
    ),
    opt("connections", Kind::Count(1, 1_000_000), "1024", "Client connections at once."),
    opt(
        "connections_fast",
        Kind::Bool,
        "true",
        "Beyond the limit a connection gets an error and is closed; `false`: it waits until \
         another ends.",
    ),
    IDLE_TIMEOUT,
    RECEIVE_TIMEOUT,
    SEND_TIMEOUT,
    opt(
        "protocol",
        Kind::Choice(&["auto", "ascii", "binary"]),
        "auto",
        "Protocols: `auto` decides by the first byte; meta commands belong to `ascii`.",
    ),
    opt(
        "auth_file",
        Kind::File,
        "",
        "A file with lines `user:password`. A client of the text protocol must then first `set` a \
         key of its choice to `user password`. Not with `udp`; no binary protocol then.",
    ),
    opt(
        "sasl_file",
        Kind::File,
        "",
        "A file with lines `user:password` for SASL PLAIN in the binary protocol. Not with `udp`; \
         no text protocol then.",
    ),
    opt("cas", Kind::Bool, "true", "Send `cas unique` values, and compare them."),
    opt("flush_all", Kind::Bool, "true", "Allow `flush_all`."),
    opt(
        "dump",
        Kind::Bool,
        "true",
        "Allow `stats cachedump` and `lru_crawler metadump` and `mgdump`, which list keys.",
    ),
    opt("watch", Kind::Bool, "true", "Allow `watch`, which shows other clients' commands."),
    opt("shutdown", Kind::Bool, "false", "Allow `shutdown`, which ends the program."),
    EVICT,
    opt(
        "disk",
        Kind::Bool,
        "false",
        "Values of 1 KB and more of evicted objects go to the `[disk]`; keys stay in memory. A \
         command that needs such a value has it read first. Not with `evict = false`, with \
         `redis.share_memcached`, or where these objects are pages (`[publish]`).",
    ),
    opt(
        "prefix_delimiter",
        Kind::Char,
        ":",
        "Delimiter between the prefix of a key and its rest, for `stats detail`.",
    ),
    opt(
        "detail",
        Kind::Bool,
        "false",
        "Count by prefix from the start; else from `stats detail on`.",
    ),
    opt(
        "watcher_buffer",
        Kind::Size(4 * KIB, 64 * MIB),
        "256KiB",
        "Buffer of a watching client in bytes; if it is full, its lines are dropped and counted.",
    ),
    opt(
        "requests_per_event",
        Kind::Count(1, 1_000_000),
        "20",
        "Commands of one connection executed before the others get their turn; 20, memcached's \
         own default, means 256.",
    ),
    opt(
        "backlog",
        Kind::Count(1, 65_535),
        "1024",
        "Connections the kernel keeps waiting per listener.",
    ),
    opt(
        "verbosity",
        Kind::Count(0, 3),
        "0",
        "Value that `stats settings` shows until a client sends `verbosity`. It does not change \
         the output; `watch` shows clients' commands.",
    ),
];

pub(super) const REDIS: &[Opt] = &[
    list(
        "listen",
        Kind::Listen,
        "127.0.0.1:6379",
        "Addresses to listen on, or `unix:` with a path. Port 0 takes a free one.",
    ),
    UNIX_MODE,
    TLS,
    PROXIES,
    floor("Part of `memory` reserved for these objects, all databases together."),
    ceiling("Greatest part of `memory` for these objects, all databases together."),
    opt("databases", Kind::Count(1, 16), "16", "Numbered databases, for `SELECT`."),
    opt("item_size", Kind::Size(KIB, GIB), "512MiB", "Largest string or hash; more is refused."),
    opt(
        "bulk",
        Kind::Size(KIB, GIB),
        "512MiB",
        "Largest argument of a command (Redis: `proto-max-bulk-len`); more is a protocol error.",
    ),
    opt(
        "connections",
        Kind::Count(1, 1_000_000),
        "10000",
        "Client connections at once (Redis: `maxclients`); further ones get an error and are \
         closed.",
    ),
    IDLE_TIMEOUT,
    RECEIVE_TIMEOUT,
    SEND_TIMEOUT,
    opt(
        "subscriber_buffer",
        Kind::Size(4 * KIB, GIB),
        "32MiB",
        "Buffer of a subscriber in bytes; if it is full, the subscriber is disconnected (Redis: \
         `client-output-buffer-limit pubsub`).",
    ),
    opt(
        "password_file",
        Kind::File,
        "",
        "A file with the password that `AUTH` asks for (Redis: `requirepass`).",
    ),
    opt(
        "users_file",
        Kind::File,
        "",
        "A file with lines `user:password` for `AUTH user password`. Each may do everything.",
    ),
    opt(
        "acl_file",
        Kind::File,
        "",
        "A file of users with their rules (Redis: `aclfile`), which `ACL LOAD` reads again and \
         `ACL SAVE` writes. Instead of `password_file` and `users_file`.",
    ),
    opt(
        "protected",
        Kind::Bool,
        "true",
        "While no password is set, only this machine may connect (Redis: `protected-mode`).",
    ),
    opt(
        "shutdown",
        Kind::Bool,
        "false",
        "Allow `SHUTDOWN`, which ends the program, pages included.",
    ),
    opt(
        "share_memcached",
        Kind::Bool,
        "false",
        "Database 0 holds the same objects as `[memcached]`: each reads what the other wrote.",
    ),
    EVICT,
    opt("slowlog", Kind::Bool, "true", "Record slow commands for `SLOWLOG`."),
    opt(
        "slowlog_micros",
        Kind::Count(0, 1_000_000_000_000),
        "10000",
        "A command is slow from this many microseconds on (Redis: `slowlog-log-slower-than`); 0: \
         all are.",
    ),
    opt(
        "backlog",
        Kind::Count(1, 65_535),
        "511",
        "Connections the kernel keeps waiting per listener.",
    ),
];
