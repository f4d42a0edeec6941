//! Certificates that the clients of a site show.

use std::{fmt, sync::Arc};

use aws_lc_rs::digest::{Context, SHA256};
use rustls::{
    RootCertStore,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, CertificateRevocationListDer, pem::PemObject},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};

/// The certificates that the clients of a site are asked for.
pub struct ClientAuth {
    /// A client without one is refused in the handshake.
    pub required: bool,
    /// Of all of this: the same under the same rules, also after a reload.
    pub id: [u8; 32],
    roots: Arc<RootCertStore>,
    revoked: Vec<CertificateRevocationListDer<'static>>,
}

/// Reasons why certificates of clients could not be verified.
#[derive(Debug, thiserror::Error)]
pub enum ClientAuthError {
    /// The file of authorities has no certificate in PEM.
    #[error("there is no certificate of an authority in PEM: {0}")]
    NoAuthority(String),
    /// The file of revoked certificates has no list in PEM, or one that cannot be read.
    #[error("there is no list of revoked certificates in PEM: {0}")]
    NoList(String),
}

impl ClientAuth {
    /// `authorities`: certificates in PEM; `revoked`: lists of revoked certificates (CRL) in PEM,
    /// one of each authority, or nothing.
    pub fn new(
        required: bool,
        authorities: &[u8],
        revoked: Option<&[u8]>,
    ) -> Result<Self, ClientAuthError> {
        let certificates =
            CertificateDer::pem_slice_iter(authorities).collect::<Result<Vec<_>, _>>();
        let certificates = certificates.map_err(|e| ClientAuthError::NoAuthority(e.to_string()))?;
        let lists = CertificateRevocationListDer::pem_slice_iter(revoked.unwrap_or_default())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| ClientAuthError::NoList(error.to_string()))?;
        if revoked.is_some() && lists.is_empty() {
            return Err(ClientAuthError::NoList("the file has none".to_owned()));
        }
        let mut digest = Context::new(&SHA256);
        digest.update(&[u8::from(required)]);
        let all = certificates.iter().map(|one| &**one).chain(lists.iter().map(|one| &**one));
        for one in all {
            digest.update(&(one.len() as u64).to_be_bytes());
            digest.update(one);
        }
        let mut id = [0; 32];
        id.copy_from_slice(digest.finish().as_ref());
        let mut roots = RootCertStore::empty();
        for certificate in certificates {
            roots.add(certificate).map_err(|e| ClientAuthError::NoAuthority(e.to_string()))?;
        }
        if roots.is_empty() {
            return Err(ClientAuthError::NoAuthority("the file has none".to_owned()));
        }
        let made = Self { required, id, roots: Arc::new(roots), revoked: lists };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        made.verifier(&provider).map_err(|error| ClientAuthError::NoList(error.to_string()))?;
        Ok(made)
    }

    /// Verifies certificates of clients.
    pub(crate) fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ClientCertVerifier>, rustls::Error> {
        let builder =
            WebPkiClientVerifier::builder_with_provider(self.roots.clone(), provider.clone())
                .with_crls(self.revoked.iter().cloned());
        let builder = if self.required { builder } else { builder.allow_unauthenticated() };
        builder.build().map_err(|error| rustls::Error::General(error.to_string()))
    }
}

impl fmt::Debug for ClientAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientAuth").field("required", &self.required).finish_non_exhaustive()
    }
}
