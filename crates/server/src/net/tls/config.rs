//! The settings of a TLS server: versions, certificates by name, tickets.

use std::sync::{Arc, LazyLock};

use rustls::{
    ServerConfig, SupportedCipherSuite, SupportedProtocolVersion,
    crypto::{CryptoProvider, ring},
    server::{ClientHello, NoServerSessionStorage, ProducesTickets, ResolvesServerCert},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};

use crate::{
    acme::Acme,
    settings::{Certificate, ChallengeKind, HttpsSettings, TlsVersion},
};

/// The keys of session tickets: one set for all workers, made anew every six hours; tickets of the
/// set before are still accepted. They last as long as the program, also over reloads.
static TICKETS: LazyLock<Option<Arc<dyn ProducesTickets>>> =
    LazyLock::new(|| ring::Ticketer::new().ok());

/// The name of HTTP/2 (RFC 9113 section 3.1).
pub(super) const H2: &[u8] = b"h2";

/// The name of handshakes that prove a name to a directory of ACME (RFC 8737 section 4).
pub(super) const ACME_TLS: &[u8] = b"acme-tls/1";

/// Tickets given to a client of TLS 1.3 after the handshake: each connects once more.
const TICKETS_EACH: usize = 2;

/// From the oldest version on.
const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

/// The configuration of connections from now on.
pub(crate) fn server_config(
    https: &HttpsSettings,
    acme: &Arc<Acme>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let versions = match https.min_version {
        TlsVersion::Tls12 => &VERSIONS[..],
        TlsVersion::Tls13 => &VERSIONS[1..],
    };
    let resolver = Resolver { certificates: https.all().cloned().collect(), acme: acme.clone() };
    let mut config = ServerConfig::builder_with_provider(provider().into())
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(resolver));
    let h2 = https.http2.then(|| H2.to_vec());
    let challenges =
        https.acme.as_ref().is_some_and(|acme| acme.challenge == ChallengeKind::TlsAlpn01);
    let acme_tls = challenges.then(|| ACME_TLS.to_vec());
    config.alpn_protocols = h2.into_iter().chain([b"http/1.1".to_vec()]).chain(acme_tls).collect();
    // Tickets alone: a table of sessions would be shared by all workers.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    if let Some(tickets) = TICKETS.as_ref() {
        config.ticketer = tickets.clone();
        config.send_tls13_tickets = TICKETS_EACH;
    }
    config.ignore_client_order = true;
    Ok(Arc::new(config))
}

/// The crypto of ring. AES-128 before AES-256: as safe, and 10 rounds instead of 14.
fn provider() -> CryptoProvider {
    let mut provider = ring::default_provider();
    let is_aes_256 = |suite: &SupportedCipherSuite| {
        let name = format!("{:?}", suite.suite());
        name.contains("AES_256")
    };
    // Suites of TLS 1.3 stay before those of 1.2.
    provider.cipher_suites.sort_by_key(|suite| (suite.tls13().is_none(), is_aes_256(suite)));
    provider
}

/// Certificates by the name a client asks for (RFC 6066 section 3).
#[derive(Debug)]
struct Resolver {
    certificates: Vec<Arc<Certificate>>,
    acme: Arc<Acme>,
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().map(str::to_ascii_lowercase);
        // A client that offers this and nothing else asks for the proof (RFC 8737 section 3).
        // Without an open challenge it gets no certificate, and the handshake fails.
        let mut protocols = hello.alpn().into_iter().flatten();
        if protocols.next() == Some(ACME_TLS) && protocols.next().is_none() {
            return self.acme.certificate(&name?);
        }
        let verifies = |certificate: &&Arc<Certificate>| {
            certificate.key.key.choose_scheme(hello.signature_schemes()).is_some()
        };
        let rank = |certificate: &Arc<Certificate>| {
            name.as_deref().and_then(|name| certificate.rank(name))
        };
        let mut best: Option<(Option<u8>, &Arc<Certificate>)> = None;
        // The first of those that fit equally well.
        for certificate in self.certificates.iter().filter(verifies) {
            let rank = rank(certificate);
            if best.is_none_or(|(held, _)| rank > held) {
                best = Some((rank, certificate));
            }
        }
        best.or_else(|| self.certificates.first().map(|first| (None, first)))
            .map(|(_, certificate)| certificate.key.clone())
    }
}
