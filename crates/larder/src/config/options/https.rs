//! Options of `[https]`.

use super::{Kind, Opt, Section, list, opt, required};

pub(super) const HTTPS: &[Opt] = &[
    list("listen", Kind::Address, "", "Addresses to serve HTTPS on. Port 0 takes a free one."),
    opt(
        "certificates",
        Kind::Tables(Section::Certificate),
        "",
        "Certificates with their keys. A client gets the first that has the name it asks for and \
         a key that it can verify, or else the first of all. Read again on SIGHUP. Absent: on \
         loopback addresses a self-signed one that is made at the start, for trying.",
    ),
    opt("min_version", Kind::Choice(&["1.2", "1.3"]), "1.2", "The oldest version of TLS."),
    opt("http2", Kind::Bool, "true", "Speak HTTP/2 with clients that know it."),
    opt(
        "redirect",
        Kind::Bool,
        "false",
        "Send every request that comes by plain HTTP to HTTPS (308), but for purges.",
    ),
    opt(
        "hsts",
        Kind::Text,
        "",
        "The value of `Strict-Transport-Security` (RFC 6797) in answers over TLS, such as \
         `max-age=31536000; includeSubDomains`. Where the origin sends the field, its own stands.",
    ),
];

pub(super) const CERTIFICATE: &[Opt] = &[
    required(
        "cert",
        Kind::File,
        "The certificate in PEM, and behind it those between it and a known authority.",
    ),
    required("key", Kind::File, "Its private key in PEM."),
];
