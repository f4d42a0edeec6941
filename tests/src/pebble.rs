//! Pebble, the authority of Let's Encrypt for tests of ACME, with a name server that leads every
//! name to this machine.

use crate::helper::{free_port, source_root};
use crate::papers::Papers;
use crate::started::Started;
use crate::wire::Wire;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The name that it refuses.
pub const BLOCKED: &str = "blocked.test";

/// The key of external accounts that it knows, `kid`: base64url of 32 bytes.
pub const EXTERNAL_KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";

/// The addresses and demands of an authority; it may be started several times.
#[derive(Clone, Debug)]
pub struct Authority {
    port: u16,
    /// The port at which it asks for http-01.
    pub http: u16,
    /// The port at which it asks for tls-alpn-01.
    pub tls: u16,
    /// Seconds for which certificates are valid.
    pub validity: u64,
    /// Accounts need an external one.
    pub external: bool,
}

impl Authority {
    /// Free ports for all, certificates for 90 days.
    pub fn new() -> Authority {
        Authority {
            port: free_port(),
            http: free_port(),
            tls: free_port(),
            validity: 90 * 86_400,
            external: false,
        }
    }

    /// The URL of its directory, whether it runs or not.
    pub fn directory(&self) -> String {
        format!("https://127.0.0.1:{}/dir", self.port)
    }
}

impl Default for Authority {
    fn default() -> Authority {
        Authority::new()
    }
}

/// A running authority. Its roots are made anew at every start.
pub struct Pebble {
    server: Started,
    management: SocketAddr,
    client: Arc<ClientConfig>,
    _names: Started,
}

impl Pebble {
    /// Starts it with the certificate `server` of the papers.
    #[track_caller]
    pub fn start(authority: &Authority, papers: &Papers) -> Pebble {
        let dns = free_port();
        let names = Started::start(|_, port| {
            let mut command = Command::new(program("pebble-challtestsrv"));
            command.args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""]);
            command.args(["-defaultIPv6", "", "-dnsserver", &format!("127.0.0.1:{dns}")]);
            command.args(["-management", &format!("127.0.0.1:{port}")]);
            (command, None)
        });
        let management = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let server = Started::start_at(authority.port, |dir, port| {
            let config = serde_json::json!({ "pebble": {
                "listenAddress": format!("127.0.0.1:{port}"),
                "managementListenAddress": management.to_string(),
                "certificate": papers.path("server.pem"),
                "privateKey": papers.path("server.key"),
                "httpPort": authority.http,
                "tlsPort": authority.tls,
                "domainBlocklist": [BLOCKED],
                "retryAfter": { "authz": 0, "order": 0 },
                "keyAlgorithm": "ecdsa",
                "externalAccountBindingRequired": authority.external,
                "externalAccountMACKeys": { "kid": EXTERNAL_KEY },
                "profiles": { "default": {
                    "description": "", "validityPeriod": authority.validity,
                } },
            } });
            let file = dir.join("pebble.json");
            std::fs::write(&file, config.to_string()).unwrap();
            let mut command = Command::new(program("pebble"));
            command.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_AUTHZREUSE", "0");
            command.args(["-dnsserver", &format!("127.0.0.1:{dns}")]);
            command.args(["-config".as_ref(), file.as_os_str()]);
            (command, None)
        });
        crate::wait_until("the management of pebble", || crate::listening::port(management.port()));
        Pebble { server, management, client: papers.client(), _names: names }
    }

    /// A client that believes what this authority issues, and nothing else.
    #[track_caller]
    pub fn client(&self) -> Arc<ClientConfig> {
        let answer = self.manage().get("/roots/0", &[]);
        let root = answer.assert_status(200).text();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(root.as_bytes()).unwrap()).unwrap();
        Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
    }

    /// Has it advise to renew the certificate of a PEM file at once (RFC 9773).
    #[track_caller]
    pub fn advise_renewal(&self, pem: &str) {
        let window =
            r#"{"suggestedWindow":{"start":"2020-01-01T00:00:00Z","end":"2020-01-02T00:00:00Z"}}"#;
        let body = serde_json::json!({ "Certificate": pem, "ARIResponse": window }).to_string();
        let mut wire = self.manage();
        wire.send(format!(
            "POST /set-renewal-info/ HTTP/1.1\r\nHost: a\r\nUser-Agent: a\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        wire.read_for("POST").assert_status(200);
    }

    /// How often a line that contains this was printed.
    pub fn count(&self, words: &str) -> usize {
        self.server.printed().lines().filter(|line| line.contains(words)).count()
    }

    /// Certificates issued so far.
    pub fn issued(&self) -> usize {
        self.count("Issued certificate")
    }

    fn manage(&self) -> Wire {
        Wire::connect_tls(self.management, &self.client, "127.0.0.1")
    }
}

fn program(name: &str) -> PathBuf {
    source_root().join("tests/.cache/go/bin").join(name)
}
