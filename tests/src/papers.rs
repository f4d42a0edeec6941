//! Certificates for tests: an authority of their own, and what it signs.

use crate::Scratch;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};

/// A certificate authority with a directory: `authority.pem`, `server.pem`, `server.key`.
pub struct Papers {
    scratch: Scratch,
}

impl Papers {
    /// An authority, and a certificate of 127.0.0.1 by it.
    #[track_caller]
    pub fn issue() -> Papers {
        let papers = Papers { scratch: Scratch::new("papers") };
        papers.request("authority", "basicConstraints = critical,CA:TRUE", &[]);
        papers.sign("server", "IP:127.0.0.1");
        papers
    }

    /// A certificate for these names (`DNS:a,IP:b`), in `NAME.pem` with its key in `NAME.key`.
    #[track_caller]
    pub fn sign(&self, name: &str, names: &str) {
        let (by, key) = (self.path("authority.pem"), self.path("authority.key"));
        let lines = format!("basicConstraints = critical,CA:FALSE\nsubjectAltName = {names}");
        self.request(name, &lines, &["-CA", &by, "-CAkey", &key]);
    }

    #[track_caller]
    fn request(&self, name: &str, lines: &str, by: &[&str]) {
        let text = format!("[req]\ndistinguished_name = name\n[name]\n[extensions]\n{lines}\n");
        self.scratch.write("config", &text);
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
            .args(["-nodes", "-days", "2", "-subj", &format!("/CN={name}")])
            .args(["-extensions", "extensions", "-config", &self.path("config")])
            .args(by)
            .args(["-keyout", &self.path(&format!("{name}.key"))])
            .args(["-out", &self.path(&format!("{name}.pem"))])
            .output();
        let made = made.unwrap_or_else(|e| {
            panic!("openssl: {e}; scripts/test-deps.sh installs what tests need")
        });
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    /// A file of the directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.scratch.file(name)
    }

    /// The same as text.
    pub fn path(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }

    /// Takes TLS off what comes to the returned address, and passes it on to `server`. It shows
    /// the certificate `name`, and wants one of its clients where `clients` says so.
    #[track_caller]
    pub fn terminator(&self, name: &str, server: SocketAddr, clients: bool) -> SocketAddr {
        let file = |ending: &str| self.file(&format!("{name}.{ending}"));
        let certificate = CertificateDer::from_pem_file(file("pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(file("key")).unwrap();
        let config = ServerConfig::builder();
        let config = if clients {
            let verifier = WebPkiClientVerifier::builder(Arc::new(self.roots())).build().unwrap();
            config.with_client_cert_verifier(verifier)
        } else {
            config.with_no_client_auth()
        };
        let config = config.with_single_cert(vec![certificate], key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        std::thread::spawn(move || {
            crate::client::run(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    let acceptor = acceptor.clone();
                    tokio::spawn(async move {
                        let mut client = acceptor.accept(stream).await?;
                        let mut server = TcpStream::connect(server).await?;
                        tokio::io::copy_bidirectional(&mut client, &mut server).await
                    });
                }
            });
        });
        address
    }

    /// The authority.
    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.file("authority.pem")).unwrap()).unwrap();
        roots
    }

    /// A client that believes what this authority signs. It keeps its tickets.
    pub fn client(&self) -> Arc<ClientConfig> {
        Arc::new(ClientConfig::builder().with_root_certificates(self.roots()).with_no_client_auth())
    }

    /// The same for some versions of TLS only.
    pub fn client_of(&self, versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
        let config = ClientConfig::builder_with_protocol_versions(versions);
        Arc::new(config.with_root_certificates(self.roots()).with_no_client_auth())
    }
}
