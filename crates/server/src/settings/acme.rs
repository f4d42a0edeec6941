//! `[acme]`: certificates that are ordered from a directory (RFC 8555).

use std::{fmt, path::PathBuf, sync::Arc};

use rustls::pki_types::CertificateDer;

/// Certificates that are ordered and renewed without the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeSettings {
    /// The address of the operator, for the directory; None: it is told none.
    pub email: Option<String>,
    /// The URL of the directory, https.
    pub directory: String,
    /// The proof that a name belongs to this machine.
    pub challenge: ChallengeKind,
    /// The directory for the account, certificates and keys.
    pub state_dir: PathBuf,
    /// The names, in lower case, each with a certificate of its own. At least one.
    pub names: Vec<String>,
    /// Authorities that may sign the directory's own certificate.
    pub roots: Arc<[CertificateDer<'static>]>,
    /// The customer's account at the authority; None: it needs none.
    pub external_account: Option<ExternalAccount>,
}

/// The proof that a name belongs to this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChallengeKind {
    /// A page over plain HTTP (RFC 8555 section 8.3).
    Http01,
    /// A certificate in a TLS handshake (RFC 8737).
    TlsAlpn01,
}

impl ChallengeKind {
    /// The name in RFCs and in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            ChallengeKind::Http01 => "http-01",
            ChallengeKind::TlsAlpn01 => "tls-alpn-01",
        }
    }
}

/// An account of the authority outside of ACME (RFC 8555 section 7.3.4).
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// The name of the key.
    pub kid: String,
    /// The key.
    pub key: Vec<u8>,
}

impl fmt::Debug for ExternalAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalAccount").field("kid", &self.kid).finish_non_exhaustive()
    }
}
