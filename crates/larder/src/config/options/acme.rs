//! Options of `[acme]`.

use super::{Kind, Opt, list, opt};

pub(super) const ACME: &[Opt] = &[
    opt(
        "email",
        Kind::Text,
        "",
        "Your address, for notices of the authority. With it on the command line certificates are \
         ordered.",
    ),
    list(
        "names",
        Kind::Host,
        "",
        "Names to have certificates for, each one of its own. Default: the `hosts` of all sites \
         that no file of `https.certificates` has; wildcards are left out.",
    ),
    opt(
        "directory",
        Kind::Text,
        "https://acme-v02.api.letsencrypt.org/directory",
        "The URL of the authority's directory.",
    ),
    opt(
        "staging",
        Kind::Bool,
        "false",
        "Order from Let's Encrypt's staging directory: certificates that no browser believes, and \
         high limits, for trying.",
    ),
    opt(
        "challenge",
        Kind::Choice(&["http-01", "tls-alpn-01"]),
        "",
        "How to prove that a name is yours: by a page at port 80, or in a TLS handshake at port \
         443. Default: `http-01` where plain HTTP is served; `tls-alpn-01` where it is not, or \
         where HTTPS can be reached from other machines and plain HTTP cannot.",
    ),
    opt(
        "state_dir",
        Kind::File,
        "",
        "The directory that keeps the account, certificates and keys. Default: \
         `$STATE_DIRECTORY/acme` under systemd, `/var/lib/larder/acme` for root, else \
         `~/.local/state/larder/acme`.",
    ),
    opt(
        "ca",
        Kind::File,
        "",
        "The authorities (PEM) that may sign the directory's own certificate. Default: those of \
         the system.",
    ),
    opt(
        "eab_kid",
        Kind::Text,
        "",
        "The name of the key of your account at the authority, where it \
         wants one (external account binding).",
    ),
    opt(
        "eab_key_file",
        Kind::File,
        "",
        "A file with that key as the authority gives it (base64url).",
    ),
];
