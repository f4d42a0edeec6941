//! HTTPS: its listeners, and the certificates they show.

use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc};

use memchr::memmem;
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::{
    crypto::aws_lc_rs::sign::any_supported_type,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use x509_parser::{
    asn1_rs::{Enumerated, Sequence},
    certificate::X509Certificate,
    extensions::GeneralName,
    prelude::FromDer,
};

use super::{AcmeSettings, HostPattern, Secret};

/// HTTPS: the same pages over TLS.
#[derive(Clone, Debug)]
pub struct HttpsSettings {
    /// Addresses to listen on; port 0 lets the system choose.
    pub listen: Vec<SocketAddr>,
    /// Those of the configuration. A client gets the first that has the name it asks for and a key
    /// it can verify, here or in `ordered`; else the first of all. In both together there is at
    /// least one.
    pub certificates: Vec<Arc<Certificate>>,
    /// Those that were ordered, and a self-signed one for names that have none yet.
    pub ordered: Vec<Arc<Certificate>>,
    /// Certificates are ordered; None: there are those of the configuration only.
    pub acme: Option<Arc<AcmeSettings>>,
    /// The oldest version of TLS that is spoken.
    pub min_version: TlsVersion,
    /// Keys of session tickets, each [`TICKET_KEY_BYTES`] long: the first one seals, all of them
    /// open. Empty: the program makes its own.
    pub ticket_keys: Vec<Secret>,
    /// HTTP/2 is spoken with clients that know it.
    pub http2: bool,
    /// HTTP/3 is spoken, over UDP at the same addresses.
    pub http3: bool,
    /// Requests that come by plain HTTP are sent to HTTPS (308), purges apart.
    pub redirect: bool,
    /// The value of `Strict-Transport-Security` (RFC 6797) in every answer over TLS; None: no such
    /// field is added.
    pub hsts: Option<String>,
}

impl HttpsSettings {
    /// All certificates, in the order in which they are looked at.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Certificate>> {
        self.certificates.iter().chain(&self.ordered)
    }
}

/// Lengths of a key of session tickets, in bytes, as nginx's `ssl_session_ticket_key` has them.
pub const TICKET_KEY_BYTES: [usize; 2] = [48, 80];

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
    /// Its origin.
    pub source: CertificateSource,
    /// Seconds since 1970 of the first moment at which it is valid.
    pub not_before: i64,
    /// Seconds since 1970 of the last moment at which it is valid.
    pub not_after: i64,
}

/// The origin of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateSource {
    /// This file.
    File(PathBuf),
    /// It was ordered from a directory of ACME.
    Acme,
    /// It was made at the start and is signed by nobody else.
    SelfSigned,
}

impl CertificateSource {
    /// One word for figures.
    pub fn as_str(&self) -> &'static str {
        match self {
            CertificateSource::File(_) => "file",
            CertificateSource::Acme => "acme",
            CertificateSource::SelfSigned => "self-signed",
        }
    }
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
    /// The OCSP response is none, or says that there is none.
    #[error("there is no OCSP response in DER")]
    NoResponse,
    /// The OCSP response is for another certificate.
    #[error("the OCSP response is another certificate's")]
    OtherResponse,
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
        Self::self_signed_for(["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec())
    }

    /// A new one for these names, signed by nobody else.
    pub fn self_signed_for(names: Vec<String>) -> Result<Self, CertificateError> {
        let (own, key) = make(CertificateParams::new(names).map_err(not_made)?)?;
        Self::new(vec![own], &key)
    }

    /// The answer to tls-alpn-01 (RFC 8737 section 3). `digest`: SHA-256 of the key authorization.
    pub(crate) fn for_challenge(
        name: &str,
        digest: &[u8],
    ) -> Result<CertifiedKey, CertificateError> {
        let mut params = CertificateParams::new([name.to_owned()]).map_err(not_made)?;
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
        let (own, key) = make(params)?;
        // rustls cannot read it: it has a critical extension of its own kind.
        let key = any_supported_type(&key).map_err(CertificateError::Unsupported)?;
        Ok(CertifiedKey::new(vec![own], key))
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
        let (names, not_before, not_after) = facts(own)?;
        let key = any_supported_type(key).map_err(CertificateError::Unsupported)?;
        let key = CertifiedKey::new(chain, key);
        match key.keys_match() {
            // The kind of key does not tell its public half: it is tried in the first handshake.
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
            Err(rustls::Error::InconsistentKeys(_)) => return Err(CertificateError::Mismatch),
            Err(error) => return Err(CertificateError::Damaged(error.to_string())),
        }
        let source = CertificateSource::SelfSigned;
        Ok(Self { key: Arc::new(key), names, source, not_before, not_after })
    }

    /// Shows this OCSP response (RFC 6960, in DER) to clients that ask for it.
    pub fn staple(&mut self, response: Vec<u8>) -> Result<(), CertificateError> {
        let status = Sequence::from_der(&response)
            .ok()
            .filter(|(behind, _)| behind.is_empty())
            .and_then(|(_, sequence)| Some(Enumerated::from_der(&sequence.content).ok()?.1.0));
        if status != Some(0) {
            return Err(CertificateError::NoResponse);
        }
        let own = self.key.end_entity_cert().map_err(CertificateError::Unsupported)?;
        let (_, own) = X509Certificate::from_der(own)
            .map_err(|error| CertificateError::Damaged(error.to_string()))?;
        // The response names the certificate by the serial number, an INTEGER in DER.
        let serial = own.raw_serial();
        let serial = [&[2, u8::try_from(serial.len()).unwrap_or(0)], serial].concat();
        if memmem::find(&response, &serial).is_none() {
            return Err(CertificateError::OtherResponse);
        }
        let key = CertifiedKey { ocsp: Some(response), ..CertifiedKey::clone(&self.key) };
        self.key = Arc::new(key);
        Ok(())
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

/// A certificate that its own key signs, and that key.
fn make(
    params: CertificateParams,
) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), CertificateError> {
    let key = KeyPair::generate().map_err(not_made)?;
    let made = params.self_signed(&key).map_err(not_made)?;
    Ok((made.der().clone(), PrivateKeyDer::Pkcs8(key.serialize_der().into())))
}

fn not_made(error: rcgen::Error) -> CertificateError {
    CertificateError::Damaged(error.to_string())
}

/// The names of a certificate, and the first and the last moment of its validity.
fn facts(own: &CertificateDer<'_>) -> Result<(Vec<HostPattern>, i64, i64), CertificateError> {
    let damaged = |error: &dyn fmt::Display| CertificateError::Damaged(error.to_string());
    let (_, certificate) = X509Certificate::from_der(own).map_err(|error| damaged(&error))?;
    let alternatives = certificate.subject_alternative_name().map_err(|error| damaged(&error))?;
    let names = alternatives.iter().flat_map(|extension| &extension.value.general_names);
    let names = names.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(pattern(name)),
        _ => None,
    });
    let validity = certificate.validity();
    Ok((names.collect(), validity.not_before.timestamp(), validity.not_after.timestamp()))
}

fn pattern(name: &str) -> HostPattern {
    let name = name.to_ascii_lowercase();
    match name.strip_prefix('*') {
        Some(suffix) => HostPattern::Suffix(suffix.to_owned()),
        None => HostPattern::Exact(name),
    }
}
