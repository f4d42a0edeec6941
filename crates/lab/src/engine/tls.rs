//! TLS of the generator's connections: rustls, its handshake and its records.

use std::{
    io::{self, Read, Write},
    path::Path,
    sync::Arc,
};

use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};

use super::{HttpVersion, socket::Stream};

/// Which servers are believed.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// Those that an authority of this system vouches for.
    System,
    /// Those that an authority of this file (PEM) vouches for.
    Authority(&'a Path),
    /// Any: nothing is verified but that the server has the key of its certificate.
    Anyone,
}

/// TLS of a run.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    trust: String,
}

impl Tls {
    /// TLS with the server of this name. `resume`: tickets of earlier connections are used.
    pub fn new(
        name: &str,
        trust: Trust<'_>,
        version: HttpVersion,
        resume: bool,
    ) -> Result<Tls, String> {
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| format!("{name:?} is no name that a certificate can have"))?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let mut config = match trust {
            Trust::Anyone => config
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
                .with_no_client_auth(),
            Trust::System => config.with_root_certificates(system()?).with_no_client_auth(),
            Trust::Authority(path) => {
                config.with_root_certificates(authority(path)?).with_no_client_auth()
            }
        };
        config.alpn_protocols = vec![alpn(version).to_vec()];
        if !resume {
            config.resumption = Resumption::disabled();
        }
        let verified = match trust {
            Trust::Anyone => "certificates not verified",
            _ => "certificates verified",
        };
        let tickets = if resume { ", sessions resumed" } else { "" };
        Ok(Tls { config: Arc::new(config), name, trust: format!("{verified}{tickets}") })
    }

    /// The trust and the use of tickets, in words.
    pub(super) fn trust(&self) -> &str {
        &self.trust
    }

    pub(super) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    /// The server's name.
    pub(super) fn name(&self) -> std::borrow::Cow<'_, str> {
        self.name.to_str()
    }

    pub(super) fn session(&self) -> io::Result<Session> {
        let config = Arc::clone(&self.config);
        let connection = ClientConnection::new(config, self.name.clone());
        Ok(Session { connection: connection.map_err(io::Error::other)?, ended: End::Open })
    }
}

/// The protocol's name in ALPN.
fn alpn(version: HttpVersion) -> &'static [u8] {
    match version {
        HttpVersion::Http1 => b"http/1.1",
        HttpVersion::Http2 => b"h2",
        HttpVersion::Http3 => b"h3",
    }
}

fn system() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err("this system knows no authority: give --cacert".to_owned());
    }
    Ok(roots)
}

fn authority(path: &Path) -> Result<RootCertStore, String> {
    let wrong = |why: String| format!("--cacert {}: {why}", path.display());
    let mut roots = RootCertStore::empty();
    let found = CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
    for certificate in found {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() { Err(wrong("no certificate in it".to_owned())) } else { Ok(roots) }
}

/// Believes any certificate.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// The TLS of one connection.
pub(super) struct Session {
    connection: ClientConnection,
    ended: End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    /// The server said that it is the end.
    Told,
    /// The connection ended without that.
    Cut,
}

impl Session {
    /// Goes on with the handshake. True: it is complete.
    pub(super) fn shake(&mut self, socket: &Stream, version: HttpVersion) -> io::Result<bool> {
        while self.connection.is_handshaking() {
            if self.connection.wants_write() {
                if !self.drain(socket)? {
                    return Ok(false);
                }
            } else if !self.receive(socket)? {
                return Ok(false);
            }
            if self.ended != End::Open {
                return Err(io::Error::other("closed in the handshake of TLS"));
            }
        }
        let spoken = self.connection.alpn_protocol();
        if spoken != Some(alpn(version)) && (version != HttpVersion::Http1 || spoken.is_some()) {
            return Err(io::Error::other(format!("the server does not offer {version}")));
        }
        self.drain(socket)?;
        Ok(true)
    }

    /// Takes what has arrived. False: nothing, for now.
    fn receive(&mut self, socket: &Stream) -> io::Result<bool> {
        match self.connection.read_tls(&mut Bytes(socket)) {
            Ok(0) => self.ended = End::Cut,
            Ok(_) => {
                let state = match self.connection.process_new_packets() {
                    Ok(state) => state,
                    Err(error) => {
                        // The alert tells the server; what became of it does not matter.
                        let _ = self.drain(socket);
                        return Err(io::Error::other(error));
                    }
                };
                if state.peer_has_closed() {
                    self.ended = End::Told;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// `Ok(None)`: nothing to read now; `Ok(Some(0))`: the end.
    pub(super) fn read(&mut self, socket: &Stream, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.connection.reader().read(buffer) {
                Ok(0) => return Ok(Some(0)),
                Ok(taken) => return Ok(Some(taken)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Some(0)),
                Err(error) => return Err(error),
            }
            if self.ended != End::Open {
                return Ok(Some(0));
            }
            if !self.receive(socket)? {
                return Ok(None);
            }
        }
    }

    /// `Ok(None)`: the socket accepts no more now.
    pub(super) fn write(&mut self, socket: &Stream, bytes: &[u8]) -> io::Result<Option<usize>> {
        if !self.drain(socket)? {
            return Ok(None);
        }
        let taken = self.connection.writer().write(bytes)?;
        self.drain(socket)?;
        Ok(Some(taken))
    }

    /// Sends the records that are ready. True: all of them.
    pub(super) fn drain(&mut self, socket: &Stream) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Bytes(socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Whether the connection ended without a word of the server.
    pub(super) fn was_cut(&self) -> bool {
        self.ended == End::Cut
    }
}

/// The bytes of a socket.
struct Bytes<'a>(&'a Stream);

impl Read for Bytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.receive(buffer)?.ok_or(io::ErrorKind::WouldBlock.into())
    }
}

impl Write for Bytes<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes)?.ok_or(io::ErrorKind::WouldBlock.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
