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
        let (subject, config) = (format!("/CN={name}"), self.path("config"));
        let (key, out) = (self.path(&format!("{name}.key")), self.path(&format!("{name}.pem")));
        let made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
        let valid = ["-nodes", "-days", "2", "-subj", &subject, "-extensions", "extensions"];
        let files = ["-config", &config, "-keyout", &key, "-out", &out];
        openssl(&[&made[..], &valid, &files, by].concat());
    }

    /// Lists of the authority about its certificates: `revoked.pem` (CRL) of those of these names,
    /// and `NAME.ocsp`, a response that says that `good` is good.
    #[track_caller]
    pub fn judge(&self, revoked: &[&str], good: &str) {
        let serial = |name: &str| {
            let cert = self.path(&format!("{name}.pem"));
            let told = openssl(&["x509", "-noout", "-serial", "-in", &cert]);
            told.trim().strip_prefix("serial=").unwrap().to_owned()
        };
        let line = |kind: &str, when: &str, name: &str| {
            format!("{kind}\t480101000000Z\t{when}\t{}\tunknown\t/CN={name}\n", serial(name))
        };
        let gone = revoked.iter().map(|name| line("R", "250101000000Z", name));
        let index: String = gone.chain([line("V", "", good)]).collect();
        self.scratch.write("index", &index);
        let (index, by, key) =
            (self.path("index"), self.path("authority.pem"), self.path("authority.key"));
        let text = format!(
            "[ca]\ndefault_ca = own\n[own]\ndatabase = {index}\ncrlnumber = {}\n",
            self.path("number")
        );
        self.scratch.write("number", "01\n");
        self.scratch.write("config", &text);
        let (config, out) = (self.path("config"), self.path("revoked.pem"));
        let ca = ["ca", "-config", &config, "-gencrl", "-crldays", "2", "-md", "sha256"];
        openssl(&[&ca[..], &["-keyfile", &key, "-cert", &by, "-out", &out]].concat());
        let (cert, out) = (self.path(&format!("{good}.pem")), self.path(&format!("{good}.ocsp")));
        let ocsp = ["ocsp", "-index", &index, "-rsigner", &by, "-rkey", &key, "-CA", &by];
        let asked = ["-issuer", &by, "-cert", &cert, "-ndays", "2", "-respout", &out];
        openssl(&[&ocsp[..], &asked].concat());
    }

    /// A configuration: HTTP and HTTPS with a certificate of this directory, the admin interface,
    /// further lines of `[https]`, and sites.
    pub fn config(&self, certificate: &str, lines: &str, sites: &str) -> String {
        let (cert, key) =
            (self.path(&format!("{certificate}.pem")), self.path(&format!("{certificate}.key")));
        format!(
            "[http]\nlisten = \"127.0.0.1:0\"\n[http.limits]\nheader_timeout = \"1s\"\n[admin]\n\
             listen = \"127.0.0.1:0\"\n[https]\nlisten = \"127.0.0.1:0\"\ncertificates = [{{ \
             cert = \"{cert}\", key = \"{key}\" }}]\n{lines}\n{sites}\n"
        )
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

    /// The same with the certificate `name` of these papers, for servers of `server`'s authority
    /// and some versions of TLS.
    pub fn client_with(
        &self,
        name: &str,
        server: &Papers,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let file = |ending: &str| self.file(&format!("{name}.{ending}"));
        let certificate = CertificateDer::from_pem_file(file("pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(file("key")).unwrap();
        let config = ClientConfig::builder_with_protocol_versions(versions);
        let config = config.with_root_certificates(server.roots());
        Arc::new(config.with_client_auth_cert(vec![certificate], key).unwrap())
    }

    /// The same for some versions of TLS only.
    pub fn client_of(&self, versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
        let config = ClientConfig::builder_with_protocol_versions(versions);
        Arc::new(config.with_root_certificates(self.roots()).with_no_client_auth())
    }
}

/// Runs openssl, and returns what it says.
#[track_caller]
fn openssl(args: &[&str]) -> String {
    let ran = Command::new("openssl").args(args).output();
    let ran = ran
        .unwrap_or_else(|e| panic!("openssl: {e}; scripts/test-deps.sh installs what tests need"));
    assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).into_owned()
}
