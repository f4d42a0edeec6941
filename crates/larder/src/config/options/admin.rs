//! `[admin]`.

use super::{GIB, Kind, Opt, list, opt};

pub(super) const ADMIN: &[Opt] = &[
    list(
        "listen",
        Kind::Address,
        "",
        "Addresses of the admin interface: dashboard, metrics, API. Without any there is none.",
    ),
    opt(
        "token_file",
        Kind::File,
        "",
        "A file with the token that permits changes (`Authorization: Bearer`); read again on reload. Default: a token made for the run, shown once at start.",
    ),
    list(
        "hosts",
        Kind::Host,
        "",
        "Names under which browsers may reach it, besides its addresses and `localhost`. Others are refused (DNS rebinding).",
    ),
    opt(
        "read",
        Kind::Choice(&["open", "token"]),
        "",
        "Who may look: whoever reaches it, or only who has the token. Default: `open` where only this machine can reach it, else `token`.",
    ),
    opt(
        "name",
        Kind::Text,
        "",
        "How this server is called in the dashboard and in `larder top`. Default: the machine's name.",
    ),
    opt(
        "monkey_api",
        Kind::Bool,
        "false",
        "Answer the routes of Monkey's cache plugin too: `/cache/stats`, `/cache/add/URI`, `/cache/reset/URI` (by POST, with the token).",
    ),
    opt("connections", Kind::Count(4, 4096), "128", "Connections at once; further ones are closed."),
    opt(
        "page_size",
        Kind::Size(0, GIB),
        "16MiB",
        "The largest page that may be published over the API. Each is held in memory besides the store while it comes in, at most four at once.",
    ),
];
