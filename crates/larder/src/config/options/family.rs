//! Options of `[[peer]]`, `[icp]` and `[htcp]`.

use super::{Kind, Opt, SECOND, list, opt, required};

pub(super) const PEER: &[Opt] = &[
    required(
        "url",
        Kind::Origin,
        "The cache, as `http://10.0.0.2:3128`. One that is queried or told of purges is named by \
         its address, since its answers are known by it.",
    ),
    opt(
        "name",
        Kind::Token,
        "",
        "Its name in figures and for `select = \"hash\"`, where all caches before the same parents \
         must use the same names (Squid's `name=`). Default: the host of `url`.",
    ),
    opt(
        "role",
        Kind::Choice(&["parent", "sibling"]),
        "parent",
        "A `parent` fetches what it does not have. A `sibling` is asked only for what it has \
         (`only-if-cached`).",
    ),
    opt(
        "select",
        Kind::Choice(&["first", "icp", "htcp", "hash"]),
        "first",
        "How it is chosen on a miss: `icp` and `htcp` by a query whether it has the page, `hash` \
         by the URL (CARP, for parents), `first` in the order of the file after those.",
    ),
    opt(
        "weight",
        Kind::Count(1, 1000),
        "1",
        "Its share beside those of the other peers: with `hash` of the URLs; with queries its \
         time to answer is divided by it.",
    ),
    list(
        "sites",
        Kind::Text,
        "",
        "The first host of each site it is asked for. Default: all sites.",
    ),
    opt(
        "query_port",
        Kind::Count(1, 65_535),
        "",
        "UDP port for queries. Default: 3130 with `icp`, 4827 with `htcp`.",
    ),
    opt(
        "query_timeout",
        Kind::Time(1, 10 * SECOND),
        "100ms",
        "How long a miss waits for an answer to its query.",
    ),
    opt(
        "dead_after",
        Kind::Count(1, 10_000),
        "10",
        "Queries in a row without an answer after which it is not waited for. It gets queries all \
         the same, and any answer brings it back.",
    ),
    opt(
        "clear",
        Kind::Bool,
        "",
        "Whether it is told of purges of pages, by HTCP CLR. Default: with `select = \"htcp\"`.",
    ),
    opt(
        "clear_port",
        Kind::Count(1, 65_535),
        "",
        "UDP port for that. Default: `query_port`, or 4827.",
    ),
    opt(
        "secret_file",
        Kind::File,
        "",
        "A file with a secret that signs what it is sent by HTCP, and that its answers have to be \
         signed with. Squid does not know signatures.",
    ),
    opt("key_name", Kind::Token, "larder", "The name of this secret in HTCP."),
    opt("connect_timeout", Kind::Time(1, 60 * SECOND), "1s", "Limit for connecting by HTTP."),
    opt(
        "first_byte_timeout",
        Kind::Time(1, 3600 * SECOND),
        "5s",
        "Limit from the request to the head of its answer, and of all peers of a request together \
         the longest of these; then the origin is asked. Longer for a parent before slow pages.",
    ),
];

pub(super) const ICP: &[Opt] = &[
    list("listen", Kind::Address, "", "UDP addresses, as `10.0.0.1:3130`. Empty: none."),
    list(
        "from",
        Kind::Net,
        "",
        "Caches that may ask. Others get no answer: it would tell what is stored.",
    ),
];

pub(super) const HTCP: &[Opt] = &[
    list("listen", Kind::Address, "", "UDP addresses, as `10.0.0.1:4827`. Empty: none."),
    list(
        "from",
        Kind::Net,
        "",
        "Those who may ask, be it for a purge. Others get no answer. A purge (CLR) needs \
         `site.purge` too, or a signature.",
    ),
    list(
        "multicast",
        Kind::Text,
        "",
        "Multicast groups whose datagrams are taken, as `239.128.0.112`. `listen` has to have an \
         address that gets them: `0.0.0.0:4827`.",
    ),
    opt(
        "interface",
        Kind::Text,
        "",
        "Address of the network interface for groups of IPv4. Default: the system chooses.",
    ),
    opt(
        "secret_file",
        Kind::File,
        "",
        "A file with a secret. Requests have to be signed with it (RFC 2756 section 3), others \
         are refused. MediaWiki and Squid do not sign.",
    ),
    opt("key_name", Kind::Token, "larder", "The name of this secret."),
];
