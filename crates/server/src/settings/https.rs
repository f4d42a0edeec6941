//! HTTPS: its listeners, and the certificates they show.

use std::{fmt, net::SocketAddr, sync::Arc};

use rustls::{
    crypto::ring::sign::any_supported_type,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use x509_parser::{extensions::GeneralName, prelude::FromDer};

use super::HostPattern;

/// HTTPS: the same pages over TLS.
#[derive(Clone, Debug)]
pub struct HttpsSettings {
    /// Addresses to listen on; port 0 lets the system choose.
    pub listen: Vec<SocketAddr>,
    /// At least one. A client gets the first that has the name it asks for and a key it can
    /// verify; else the first of the list.
    pub certificates: Vec<Arc<Certificate>>,
    /// The oldest version of TLS that is spoken.
    pub min_version: TlsVersion,
    /// HTTP/2 is spoken with clients that know it.
    pub http2: bool,
    /// Requests that come by plain HTTP are sent to HTTPS (308), purges apart.
    pub redirect: bool,
    /// The value of `Strict-Transport-Security` (RFC 6797) in every answer over TLS; None: no such
    /// field is added.
    pub hsts: Option<String>,
}

/// TLS to an origin.
#[derive(Clone, Debug)]
pub struct OriginTls {
    /// The name it is asked for (SNI), and that its certificate must have.
    pub name: String,
    /// Authorities that may sign its certificate.
    pub roots: Arc<[CertificateDer<'static>]>,
    /// Without this any certificate is taken.
    pub verify: bool,
    /// The certificate that Larder shows to it.
    pub client: Option<Arc<Certificate>>,
}

impl PartialEq for OriginTls {
    fn eq(&self, other: &Self) -> bool {
        let chain = |tls: &Self| tls.client.as_ref().map(|client| client.key.cert.clone());
        (&self.name, &self.roots, self.verify, chain(self))
            == (&other.name, &other.roots, other.verify, chain(other))
    }
}

impl Eq for OriginTls {}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

/// A certificate with its key.
pub struct Certificate {
    /// The chain, the server's own certificate first, and the key.
    pub key: Arc<CertifiedKey>,
    /// The names it is for.
    pub names: Vec<HostPattern>,
    /// Seconds since 1970 of the last moment at which it is valid.
    pub not_after: i64,
}

/// Reasons why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The file of the chain has no certificate in PEM.
    #[error("there is no certificate in PEM: {0}")]
    NoCertificate(String),
    /// The first certificate cannot be parsed.
    #[error("the certificate cannot be read: {0}")]
    Damaged(String),
    /// The file of the key has no private key in PEM.
    #[error("there is no private key in PEM: {0}")]
    NoKey(String),
    /// The key is of a kind that TLS here does not use.
    #[error("the key cannot be used: {0} (ECDSA with P-256 or P-384, Ed25519 and RSA can)")]
    Unsupported(rustls::Error),
    /// The key is another certificate's.
    #[error("the key is not the certificate's")]
    Mismatch,
}

impl CertificateError {
    /// The fault lies in the key's file.
    pub fn is_of_key(&self) -> bool {
        matches!(self, Self::NoKey(_) | Self::Unsupported(_) | Self::Mismatch)
    }
}

impl Certificate {
    /// A new one for this machine's own names, signed by nobody else, for trying.
    pub fn self_signed() -> Result<Self, CertificateError> {
        let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
        let damaged = |error: rcgen::Error| CertificateError::Damaged(error.to_string());
        let made = rcgen::generate_simple_self_signed(names).map_err(damaged)?;
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        Self::new(vec![made.cert.der().clone()], &key)
    }

    /// From a chain and a key, both in PEM.
    pub fn parse(chain: &[u8], key: &[u8]) -> Result<Self, CertificateError> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|error| CertificateError::NoCertificate(error.to_string()))?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| CertificateError::NoKey(error.to_string()))?;
        Self::new(chain, &key)
    }

    /// From a chain, the server's own certificate first, and its key.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: &PrivateKeyDer<'static>,
    ) -> Result<Self, CertificateError> {
        let own = chain
            .first()
            .ok_or_else(|| CertificateError::NoCertificate("the file has none".to_owned()))?;
        let (names, not_after) = facts(own)?;
        let key = any_supported_type(key).map_err(CertificateError::Unsupported)?;
        let key = CertifiedKey::new(chain, key);
        match key.keys_match() {
            // The kind of key does not tell its public half: it is tried in the first handshake.
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
            Err(rustls::Error::InconsistentKeys(_)) => return Err(CertificateError::Mismatch),
            Err(error) => return Err(CertificateError::Damaged(error.to_string())),
        }
        Ok(Self { key: Arc::new(key), names, not_after })
    }

    /// How well it fits a name in lower case: exact names before wildcards. None: not at all. A
    /// wildcard stands for one label (RFC 9525 section 6.3).
    pub fn rank(&self, name: &str) -> Option<u8> {
        let rank = |pattern: &HostPattern| match pattern {
            HostPattern::Exact(exact) => (exact == name).then_some(1),
            HostPattern::Suffix(suffix) => name
                .strip_suffix(suffix.as_str())
                .is_some_and(|label| !label.is_empty() && !label.contains('.'))
                .then_some(0),
        };
        self.names.iter().filter_map(rank).max()
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("names", &self.names).finish_non_exhaustive()
    }
}

/// The names of a certificate, and when its validity ends.
fn facts(own: &CertificateDer<'_>) -> Result<(Vec<HostPattern>, i64), CertificateError> {
    let damaged = |error: &dyn fmt::Display| CertificateError::Damaged(error.to_string());
    let (_, certificate) = x509_parser::certificate::X509Certificate::from_der(own)
        .map_err(|error| damaged(&error))?;
    let alternatives = certificate.subject_alternative_name().map_err(|error| damaged(&error))?;
    let names = alternatives.iter().flat_map(|extension| &extension.value.general_names);
    let names = names.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(pattern(name)),
        _ => None,
    });
    Ok((names.collect(), certificate.validity().not_after.timestamp()))
}

fn pattern(name: &str) -> HostPattern {
    let name = name.to_ascii_lowercase();
    match name.strip_prefix('*') {
        Some(suffix) => HostPattern::Suffix(suffix.to_owned()),
        None => HostPattern::Exact(name),
    }
}
