//! The settings of a TLS server: versions, certificates by name, tickets.

use std::sync::Arc;

use larder_proto::client_hello::Hello;
use quinn_proto::crypto::rustls::QuicServerConfig;
use rustls::{
    ServerConfig, SupportedCipherSuite, SupportedProtocolVersion,
    crypto::{CryptoProvider, aws_lc_rs},
    server::{ClientHello, NoServerSessionStorage, ResolvesServerCert},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};

use super::tickets;
use crate::{
    acme::Acme,
    settings::{
        Certificate, ChallengeKind, ClientAuth, FaceTls, HttpsSettings, Secret, Settings,
        TlsVersion,
    },
};

/// The name of HTTP/2 (RFC 9113 section 3.1).
pub(super) const H2: &[u8] = b"h2";

/// The name of HTTP/3 (RFC 9114 section 3.1).
const H3: &[u8] = b"h3";

/// The name of handshakes that prove a name to a directory of ACME (RFC 8737 section 4).
pub(super) const ACME_TLS: &[u8] = b"acme-tls/1";

/// Tickets given to a client of TLS 1.3 after the handshake: each connects once more.
const TICKETS_EACH: usize = 2;

/// From the oldest version on.
const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

/// The configurations of connections from now on.
pub(crate) struct Configs {
    /// Of names whose clients are asked for no certificate.
    plain: Arc<ServerConfig>,
    /// Of the others; empty: nobody is asked for one.
    asking: Vec<(Arc<ClientAuth>, Arc<ServerConfig>)>,
    /// Sites by name; None: of an object face, which has none.
    settings: Option<Arc<Settings>>,
}

impl Configs {
    /// None: the settings have no HTTPS.
    pub(crate) fn new(
        settings: &Arc<Settings>,
        acme: &Arc<Acme>,
    ) -> Result<Option<Arc<Self>>, rustls::Error> {
        let Some(https) = &settings.https else { return Ok(None) };
        let mut asking: Vec<(Arc<ClientAuth>, Arc<ServerConfig>)> = Vec::new();
        for auth in settings.sites.iter().filter_map(|site| site.client_auth.as_ref()) {
            if asking.iter().all(|(known, _)| known.id != auth.id) {
                asking.push((auth.clone(), server_config(https, acme, Some(auth))?));
            }
        }
        let plain = server_config(https, acme, None)?;
        Ok(Some(Arc::new(Self { plain, asking, settings: Some(settings.clone()) })))
    }

    /// Of an object face.
    pub(crate) fn of_face(tls: &FaceTls) -> Result<Arc<Self>, rustls::Error> {
        let plain = face_config(tls)?;
        Ok(Arc::new(Self { plain, asking: Vec::new(), settings: None }))
    }

    /// A client that speaks HTTP without TLS is told so.
    pub(super) fn answers_plainly(&self) -> bool {
        self.settings.is_some()
    }

    /// The configuration to begin with.
    pub(crate) fn first(&self) -> &Arc<ServerConfig> {
        &self.plain
    }

    /// Another one may be right once the client has named its server.
    pub(super) fn differ(&self) -> bool {
        !self.asking.is_empty()
    }

    /// The configuration for a client that is asked for a certificate; None: it is not. A client
    /// that names no server asks for the site without `hosts`.
    pub(super) fn asking(&self, hello: &Hello) -> Option<&(Arc<ClientAuth>, Arc<ServerConfig>)> {
        let proves = matches!(&hello.protocols[..], [one] if one == ACME_TLS);
        let name = hello.server_name.as_deref().unwrap_or_default();
        let wanted =
            self.settings.as_ref()?.site_for(name)?.client_auth.as_ref().filter(|_| !proves)?;
        self.asking.iter().find(|(auth, _)| auth.id == wanted.id)
    }
}

/// The parts of a configuration.
struct Terms<'t> {
    certificates: Vec<Arc<Certificate>>,
    min_version: TlsVersion,
    ticket_keys: &'t [Secret],
    /// The protocols that are spoken, by preference; empty: clients are not asked.
    protocols: Vec<Vec<u8>>,
    clients: Option<&'t ClientAuth>,
}

/// The configuration of HTTPS whose clients are asked for certificates as `clients` says.
fn server_config(
    https: &HttpsSettings,
    acme: &Arc<Acme>,
    clients: Option<&ClientAuth>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let h2 = https.http2.then(|| H2.to_vec());
    let challenges =
        https.acme.as_ref().is_some_and(|acme| acme.challenge == ChallengeKind::TlsAlpn01);
    let acme_tls = challenges.then(|| ACME_TLS.to_vec());
    let protocols = h2.into_iter().chain([b"http/1.1".to_vec()]).chain(acme_tls).collect();
    build(
        Terms {
            certificates: https.all().cloned().collect(),
            min_version: https.min_version,
            ticket_keys: &https.ticket_keys,
            protocols,
            clients,
        },
        acme,
    )
}

/// The configuration of an object face, or of the admin interface.
pub(crate) fn face_config(tls: &FaceTls) -> Result<Arc<ServerConfig>, rustls::Error> {
    let terms = Terms {
        certificates: vec![tls.certificate.clone()],
        min_version: tls.min_version,
        ticket_keys: &[],
        protocols: Vec::new(),
        clients: tls.clients.as_deref(),
    };
    build(terms, &Arc::default())
}

fn build(terms: Terms<'_>, acme: &Arc<Acme>) -> Result<Arc<ServerConfig>, rustls::Error> {
    let versions = match terms.min_version {
        TlsVersion::Tls12 => &VERSIONS[..],
        TlsVersion::Tls13 => &VERSIONS[1..],
    };
    let resolver = Resolver { certificates: terms.certificates, acme: acme.clone() };
    let provider = Arc::new(provider());
    let builder =
        ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions)?;
    let builder = match terms.clients {
        None => builder.with_no_client_auth(),
        Some(clients) => builder.with_client_cert_verifier(clients.verifier(&provider)?),
    };
    let mut config = builder.with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = terms.protocols;
    // Tickets alone: a table of sessions would be shared by all workers.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    let id = terms.clients.map_or([0; 32], |clients| clients.id);
    if let Some(ticketer) = tickets::ticketer(terms.ticket_keys, id) {
        config.ticketer = ticketer;
        config.send_tls13_tickets = TICKETS_EACH;
    }
    config.ignore_client_order = true;
    Ok(Arc::new(config))
}

/// The same for connections of QUIC, which speak TLS 1.3 and HTTP/3 alone.
pub(crate) fn quic_config(config: &ServerConfig) -> Option<Arc<QuicServerConfig>> {
    let mut config = config.clone();
    config.alpn_protocols = vec![H3.to_vec()];
    QuicServerConfig::try_from(config).ok().map(Arc::new)
}

/// The crypto of aws-lc-rs. AES-128 before AES-256: as safe, and 10 rounds instead of 14.
fn provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
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
