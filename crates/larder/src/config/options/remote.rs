//! Options of `[remote]`. mod_mcpage's names for them are in docs/operations.md.

use super::{DAY, GIB, HOUR, KIB, Kind, Opt, SECOND, list, opt};

pub(super) const REMOTE: &[Opt] = &[
    list(
        "servers",
        Kind::RemoteServer,
        "",
        "The servers that share the pages, in the same order on all Larders: `10.0.0.1:11211`, \
         `unix:/run/m.sock`, followed by ` weight=2` if one is larger.",
    ),
    list("spares", Kind::RemoteServer, "", "Servers that replace those that are down."),
    opt(
        "protocol",
        Kind::Choice(&["memcached", "valkey", "valkey-cluster", "redis", "redis-cluster"]),
        "memcached",
        "Protocol of the servers. `valkey`: stand-alone servers, on which keys are placed as on \
         memcacheds; `valkey-cluster`: any servers of a cluster, which name the others. `redis` \
         and `redis-cluster` are the same.",
    ),
    opt("password_file", Kind::File, "", "A file with the password that Valkey servers ask for."),
    opt("user", Kind::Text, "", "User of that password; none: the default user."),
    opt("database", Kind::Count(0, 65_535), "0", "The database of a stand-alone Valkey."),
    opt(
        "namespace",
        Kind::Token,
        "larder",
        "Prefix of all keys, at most 64 characters. Larders with the same prefix share their \
         pages.",
    ),
    opt(
        "distribution",
        Kind::Choice(&[
            "modula",
            "modula_twemproxy",
            "ketama",
            "ketama_weighted",
            "ketama_spy",
            "ketama_spy_libmemcached",
            "ketama_twemproxy",
            "rendezvous",
            "rendezvous_pymemcache",
            "jump",
        ]),
        "ketama",
        "Placement of keys on servers, as in other clients of the same servers.",
    ),
    opt(
        "hash",
        Kind::Choice(&[
            "one_at_a_time",
            "md5",
            "crc",
            "crc32a",
            "crc16",
            "fnv1_64",
            "fnv1a_64",
            "fnv1_32",
            "fnv1a_32",
            "hsieh",
            "murmur",
            "murmur3",
            "jenkins",
        ]),
        "md5",
        "Hash of a key for the placement.",
    ),
    opt(
        "auth_file",
        Kind::File,
        "",
        "A file with a line `user:password`, if memcacheds ask for one.",
    ),
    opt(
        "auth",
        Kind::Choice(&["ascii", "sasl"]),
        "ascii",
        "How the password is sent: `ascii` as for memcached's `-Y`, `sasl` as for its `-S`.",
    ),
    opt(
        "local_copy",
        Kind::Time(100, DAY),
        "5s",
        "Time for which a page from the servers is used before they are asked again.",
    ),
    opt(
        "budget",
        Kind::Time(1, 60 * SECOND),
        "50ms",
        "If the servers have not answered by then, the origin is asked as well, and the first \
         answer counts.",
    ),
    opt(
        "max_expiry",
        Kind::Time(SECOND, 30 * DAY),
        "1d",
        "The longest a page stays on the servers.",
    ),
    opt(
        "min_freshness",
        Kind::Time(0, HOUR),
        "1s",
        "Pages that are fresh for less than this are neither sent nor accepted.",
    ),
    opt(
        "page_size",
        Kind::Size(KIB, GIB),
        "8MiB",
        "The largest page that is sent or accepted, including its head.",
    ),
    opt(
        "item_size",
        Kind::Size(4 * KIB, GIB),
        "1MiB",
        "The largest item that the servers accept (memcached's `-I`); longer pages are split.",
    ),
    opt(
        "compress",
        Kind::Size(0, GIB),
        "32KiB",
        "Bodies of at least this size are compressed for sending (zstd), if their type suits; \
         `0`: none.",
    ),
    opt(
        "announce",
        Kind::HeaderLine,
        "",
        "A header line for answers that came directly from the servers, such as \
         `X-Served-by-memcached: yes`.",
    ),
    opt(
        "read_only",
        Kind::Bool,
        "false",
        "Read pages from the servers, and never send or delete one.",
    ),
    opt(
        "queue",
        Kind::Count(1, 1_000_000),
        "1024",
        "Pages that may wait to be sent, per thread; further ones are dropped and counted.",
    ),
    opt("connections", Kind::Count(1, 16), "1", "Connections to each server, per thread."),
    opt("connect_timeout", Kind::Time(1, 60 * SECOND), "100ms", "Limit for connecting."),
    opt("read_timeout", Kind::Time(1, 60 * SECOND), "200ms", "Limit for an answer."),
    opt("write_timeout", Kind::Time(1, 60 * SECOND), "200ms", "Limit for sending a request."),
    opt(
        "failure_limit",
        Kind::Count(1, 1000),
        "3",
        "Failures in a row after which a server is ejected.",
    ),
    opt(
        "eject",
        Kind::Bool,
        "true",
        "The keys of an ejected server go to the others. `false`: they are misses.",
    ),
    opt(
        "retry_min",
        Kind::Time(1, DAY),
        "1s",
        "The first pause before an ejected server is tried again; each failure doubles it.",
    ),
    opt("retry_max", Kind::Time(1, DAY), "1m", "The longest such pause."),
    opt(
        "purge_interval",
        Kind::Time(50, HOUR),
        "1s",
        "How often the servers are asked for purges of other Larders.",
    ),
    list(
        "peers",
        Kind::Origin,
        "",
        "Other Larders that are informed of purges at once, such as `http://10.0.0.2:8080`; they \
         must have the same `peer_token_file`.",
    ),
    opt(
        "peer_token_file",
        Kind::File,
        "",
        "A file with the token by which peers authenticate, the same on all of them. Without it \
         no purge is sent, and none is accepted.",
    ),
    opt(
        "lease",
        Kind::Time(0, HOUR),
        "5s",
        "While one Larder fetches a page from the origin, others wait for it, at most this long; \
         `0s`: they ask the origin as well.",
    ),
    opt("replicas", Kind::Count(1, 8), "1", "Number of servers that store each page."),
];
