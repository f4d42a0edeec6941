//! Facts of a connection's TLS, for the log and the counters.

use std::io;

use rustls::{CipherSuite, ProtocolVersion};

use super::Client;

/// The version and the suite of a connection, and whether a ticket was used. Small: each connection
/// keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Negotiated {
    /// Its number (RFC 8446 section B.4).
    suite: u16,
    is_tls13: bool,
    pub(crate) resumed: bool,
}

impl Negotiated {
    pub(super) fn new(version: ProtocolVersion, suite: CipherSuite, resumed: bool) -> Self {
        Self { suite: suite.into(), is_tls13: version == ProtocolVersion::TLSv1_3, resumed }
    }

    /// As OpenSSL names it.
    pub(crate) fn version(self) -> &'static str {
        if self.is_tls13 { "TLSv1.3" } else { "TLSv1.2" }
    }

    /// As IANA names it.
    pub(crate) fn cipher(self) -> &'static str {
        match CipherSuite::from(self.suite) {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
            CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
            other => other.as_str().unwrap_or("unknown"),
        }
    }
}

/// The outcome of a handshake.
pub(crate) struct Handshake {
    /// Version, suite, and whether a ticket was used; None: the session does not tell.
    pub(crate) negotiated: Option<Negotiated>,
    /// HTTP/2 was agreed upon (ALPN).
    pub(crate) h2: bool,
    /// It proved a name to a directory of ACME, and nothing follows (RFC 8737 section 3).
    pub(crate) challenge: bool,
    /// None: the client was not asked for a certificate.
    pub(crate) client: Option<Client>,
}

macro_rules! failures {
    ($($(#[$doc:meta])* $variant:ident $text:literal,)*) => {
        /// The reason for which a connection to a port of HTTPS failed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum TlsFailure {
            $($(#[$doc])* $variant,)*
        }

        impl TlsFailure {
            /// Every reason, in the order of their numbers.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its word in the figures.
            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

failures! {
    /// The client spoke another protocol, such as HTTP.
    NoTls "no-tls",
    /// The client has no version, suite, group or protocol that is spoken here.
    Incompatible "incompatible",
    /// The client's certificate is missing, or cannot be verified.
    ClientCertificate "client-certificate",
    /// The client sent an alert: it does not accept the server's certificate, most likely.
    RefusedByClient "refused-by-client",
    /// The client's bytes are no TLS, or a record is damaged.
    Malformed "malformed",
    /// The handshake took too long.
    Timeout "timeout",
    /// The client left in the middle of the handshake.
    Closed "closed",
}

impl TlsFailure {
    /// The reason of an error of a session.
    pub(crate) fn of(error: &io::Error) -> Self {
        let error = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match error {
            Some(rustls::Error::PeerIncompatible(_) | rustls::Error::NoApplicationProtocol) => {
                Self::Incompatible
            }
            Some(
                rustls::Error::InvalidCertificate(_)
                | rustls::Error::NoCertificatesPresented
                | rustls::Error::InvalidCertRevocationList(_),
            ) => Self::ClientCertificate,
            Some(rustls::Error::AlertReceived(_)) => Self::RefusedByClient,
            _ => Self::Malformed,
        }
    }
}
