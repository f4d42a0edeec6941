//! `[publish]`.

use super::{Kind, Opt, list, opt, required};

pub(super) const PUBLISH: &[Opt] = &[
    required(
        "prefix",
        Kind::Text,
        "Beginning of the keys: the object `PREFIXHOST/PATH` is the page `http://HOST/PATH`. 1 to \
         64 visible ASCII characters.",
    ),
    list("hosts", Kind::Host, "", "Hosts whose pages may be objects. Default: those of all sites."),
    opt(
        "namespace",
        Kind::Choice(&["memcached", "redis"]),
        "memcached",
        "The face whose objects are pages. Every client that may write there may publish.",
    ),
    opt("database", Kind::Count(0, 15), "0", "The database, for `namespace = \"redis\"`."),
];
