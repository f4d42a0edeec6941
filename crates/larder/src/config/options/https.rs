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
    list(
        "ticket_key_file",
        Kind::File,
        "",
        "Keys of session tickets: files of 48 or 80 random bytes each, as nginx's \
         `ssl_session_ticket_key`. The first one seals, all of them open, and SIGHUP reads them \
         again: clients resume after a restart, and with other servers that have the same files. \
         Put a new one before the others every day; a ticket is good for 12 hours. Absent: the \
         program makes its own, a new one every six hours.",
    ),
    CLIENT_CA,
    CLIENT_CERTIFICATE,
    CLIENT_CRL,
    opt("http2", Kind::Bool, "true", "Speak HTTP/2 with clients that know it."),
    opt(
        "http3",
        Kind::Bool,
        "false",
        "Speak HTTP/3 as well: over UDP, at the same addresses and ports. Answers over TLS announce \
         it (`Alt-Svc`). A firewall has to let UDP through.",
    ),
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
    opt(
        "ocsp",
        Kind::File,
        "",
        "The OCSP response for it in DER, as `openssl ocsp -respout` writes it, for clients that \
         ask. Read again on SIGHUP; fetching a new one is another program's work.",
    ),
];

/// Of `[https]` for all sites, and of a site.
pub(super) const CLIENT_CA: Opt = opt(
    "client_ca",
    Kind::File,
    "",
    "Authorities, in PEM, whose certificates clients show. In `[https]` for all sites, in a site \
     for that one.",
);
pub(super) const CLIENT_CERTIFICATE: Opt = opt(
    "client_certificate",
    Kind::Choice(&["off", "optional", "required"]),
    "",
    "`required`: a client without a certificate of `client_ca` is refused. `optional`: it is \
     served, but not with one that is wrong. Origins are told of the certificate by `Client-Cert` \
     (RFC 9440) and `X-SSL-Client-S-DN`, on requests past the cache or with these names in \
     `key_fields`. Not set: `required` with a `client_ca`, else `off`.",
);
pub(super) const CLIENT_CRL: Opt = opt(
    "client_crl",
    Kind::File,
    "",
    "Lists of revoked certificates, in PEM, one of each authority in `client_ca`. Read again on \
     SIGHUP, as those are.",
);
