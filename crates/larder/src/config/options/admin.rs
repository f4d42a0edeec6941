//! `[admin]`.

use super::{GIB, Kind, Opt, list, opt};

pub(super) const ADMIN: &[Opt] = &[
    list(
        "listen",
        Kind::Address,
        "",
        "Addresses of the admin interface: dashboard, metrics, API. Without an address there is \
         none.",
    ),
    super::objects::TLS,
    opt(
        "token_file",
        Kind::File,
        "",
        "A file with the token that permits changes (`Authorization: Bearer`); read again on \
         reload. Default: a token made for the run, printed once at start.",
    ),
    list(
        "hosts",
        Kind::Host,
        "",
        "Names under which browsers may reach it, besides its addresses and `localhost`. Others \
         are refused (DNS rebinding).",
    ),
    opt(
        "read",
        Kind::Choice(&["open", "token"]),
        "",
        "Clients that may read: all that can connect, or only those with the token. Default: \
         `open` if only this machine can connect, else `token`.",
    ),
    opt(
        "name",
        Kind::Text,
        "",
        "Name of this server in the dashboard and in `larder top`. Default: the machine's name.",
    ),
    opt(
        "monkey_api",
        Kind::Bool,
        "false",
        "Also answer the routes of Monkey's cache plugin: `/cache/stats`, `/cache/add/URI`, \
         `/cache/reset/URI` (by POST, with the token).",
    ),
    opt(
        "connections",
        Kind::Count(4, 4096),
        "128",
        "Connections at once; further ones are closed.",
    ),
    opt(
        "page_size",
        Kind::Size(0, GIB),
        "16MiB",
        "The largest page that may be published over the API. While it is received it is held in \
         memory outside the store, at most four at once.",
    ),
];
