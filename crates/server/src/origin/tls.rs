//! TLS to an origin, over a socket that does not block.

use std::{
    io::{self, IoSlice, Read, Write},
    sync::Arc,
};

use super::channel::Channel;
use crate::settings::OriginTls;
use parking_lot::Mutex;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

/// How connections to one origin are secured. Their tickets are kept in it.
#[derive(Clone, Debug)]
pub(super) struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    pub(super) fn new(settings: &OriginTls) -> io::Result<Self> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let builder = if settings.verify {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(settings.roots.iter().cloned());
            builder.with_root_certificates(roots)
        } else {
            let any = Arc::new(AnyCertificate(provider));
            builder.dangerous().with_custom_certificate_verifier(any)
        };
        let config = match &settings.client {
            Some(certificate) => builder.with_client_cert_resolver(Arc::new(
                rustls::sign::SingleCertAndKey::from(certificate.key.clone()),
            )),
            None => builder.with_no_client_auth(),
        };
        let name = ServerName::try_from(settings.name.clone()).map_err(io::Error::other)?;
        Ok(Self { config: Arc::new(config), name })
    }

    /// The state of a new connection.
    pub(super) fn session(&self) -> io::Result<Session> {
        let tls = ClientConnection::new(self.config.clone(), self.name.clone());
        Ok(Session(Mutex::new(tls.map_err(io::Error::other)?)))
    }
}

/// The TLS state of one connection. One task uses it and the pool looks at it, both on one thread:
/// the lock is never waited for.
#[derive(Debug)]
pub(super) struct Session(Mutex<ClientConnection>);

/// The step that a handshake waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    Read,
    Write,
}

impl Session {
    /// Goes on with the handshake as far as the socket lets it.
    pub(super) fn shake_hands(&self, channel: &Channel) -> io::Result<Needs> {
        let mut tls = self.0.lock();
        loop {
            match flush(&mut tls, channel) {
                Err(error) if is_later(&error) => return Ok(Needs::Write),
                flushed => flushed?,
            }
            if !tls.is_handshaking() {
                return Ok(Needs::Nothing);
            }
            match receive(&mut tls, channel) {
                Err(error) if is_later(&error) => return Ok(Needs::Read),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                received => received?,
            };
        }
    }

    /// Reads decrypted bytes; 0 is the end that the origin announced. An end without announcement
    /// is an error: the answer before it is not whole.
    pub(super) fn read(&self, channel: &Channel, buf: &mut [u8]) -> io::Result<usize> {
        let mut tls = self.0.lock();
        loop {
            match tls.reader().read(buf) {
                Err(error) if is_later(&error) => {}
                read => return read,
            }
            receive(&mut tls, channel)?;
        }
    }

    /// Takes bytes to be sent, as many as there is room for.
    pub(super) fn write(&self, channel: &Channel, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut tls = self.0.lock();
        // First, so that nothing is taken only where the socket takes nothing: 0 would be the end.
        let flushed = match flush(&mut tls, channel) {
            Err(error) if !is_later(&error) => return Err(error),
            flushed => flushed,
        };
        let taken = tls.writer().write_vectored(bufs)?;
        if taken == 0 {
            return flushed.map(|()| 0);
        }
        match flush(&mut tls, channel) {
            Err(error) if !is_later(&error) => Err(error),
            _ => Ok(taken),
        }
    }

    /// Sends what was taken. [`io::ErrorKind::WouldBlock`]: not all of it now.
    pub(super) fn has_unsent(&self) -> bool {
        self.0.lock().wants_write()
    }

    pub(super) fn flush(&self, channel: &Channel) -> io::Result<()> {
        flush(&mut self.0.lock(), channel)
    }

    /// Announces the end of what is sent, as far as the socket takes it.
    pub(super) fn close(&self, channel: &Channel) {
        let mut tls = self.0.lock();
        tls.send_close_notify();
        let _ = flush(&mut tls, channel);
    }

    /// Whether an answer's bytes are there that nobody has read. Tickets and other messages of TLS
    /// itself are taken. An error: the connection is over.
    pub(super) fn has_spoken(&self, channel: &Channel) -> io::Result<bool> {
        let mut tls = self.0.lock();
        loop {
            match receive(&mut tls, channel) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if is_later(&error) => break,
                Err(error) => return Err(error),
            }
        }
        let state = tls.process_new_packets().map_err(invalid)?;
        if state.peer_has_closed() && state.plaintext_bytes_to_read() == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(state.plaintext_bytes_to_read() > 0)
    }
}

/// Receives once; 0 is the end of the connection. Its alerts and answers are sent where the socket
/// takes them.
fn receive(tls: &mut ClientConnection, channel: &Channel) -> io::Result<usize> {
    let received = tls.read_tls(&mut Raw(channel))?;
    let processed = tls.process_new_packets().map_err(invalid);
    match flush(tls, channel) {
        Err(error) if processed.is_ok() && !is_later(&error) => return Err(error),
        _ => {}
    }
    processed.map(|_| received)
}

fn flush(tls: &mut ClientConnection, channel: &Channel) -> io::Result<()> {
    while tls.wants_write() {
        tls.write_tls(&mut Raw(channel))?;
    }
    Ok(())
}

fn is_later(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// The socket as rustls reads and writes it.
struct Raw<'t>(&'t Channel);

impl Read for Raw<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buf)
    }
}

impl Write for Raw<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.try_write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes any certificate, as `verify = false` says. The handshake's signature is checked all the
/// same: the origin has the key of the certificate it shows.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
