//! Certificates by ACME, from the real pebble.

#![allow(clippy::unwrap_used)]

use larder_tests::pebble::{Authority, BLOCKED};
use larder_tests::{Larder, Origin, Papers, Pebble, Wire, wait_for, wait_until};
use std::path::PathBuf;
use std::sync::Arc;
use tokio_rustls::rustls::ClientConfig;

/// An authority, what it takes to run it, and an origin.
struct World {
    papers: Papers,
    authority: Authority,
    origin: Origin,
}

impl World {
    fn new() -> World {
        let origin = Origin::serving(&["Cache-Control: max-age=600"], "page");
        World { papers: Papers::issue(), authority: Authority::new(), origin }
    }

    fn pebble(&self) -> Pebble {
        Pebble::start(&self.authority, &self.papers)
    }

    /// HTTP and HTTPS where the authority asks, for these hosts, with further lines of `[acme]`.
    fn config(&self, hosts: &[&str], lines: &str) -> String {
        format!(
            "[http]\nlisten = \"127.0.0.1:{}\"\n[https]\nlisten = \"127.0.0.1:{}\"\n[admin]\n\
             listen = \"127.0.0.1:0\"\n[acme]\nemail = \"you@example.org\"\ndirectory = \"{}\"\n\
             ca = \"{}\"\nstate_dir = \"{}\"\n{lines}\n[[site]]\nhosts = {hosts:?}\norigin = \
             \"{}\"\n",
            self.authority.http,
            self.authority.tls,
            self.authority.directory(),
            self.papers.path("authority.pem"),
            self.state().display(),
            self.origin.url(),
        )
    }

    fn larder(&self, hosts: &[&str], lines: &str) -> Larder {
        Larder::with_config(&self.config(hosts, lines))
    }

    fn state(&self) -> PathBuf {
        self.papers.file("state")
    }
}

/// The certificate that a client is shown under a name, if it believes it.
fn shown(larder: &Larder, client: &Arc<ClientConfig>, name: &str) -> Option<Vec<u8>> {
    let mut wire = Wire::connect_tls(larder.face("https"), client, name);
    wire.shake_hands().ok()?;
    Some(wire.tls().peer_certificates().unwrap()[0].to_vec())
}

#[test]
fn the_first_certificate_comes_by_http() {
    let world = World::new();
    let pebble = world.pebble();
    let larder = world.larder(&["a.test"], "");
    let client = pebble.client();
    wait_for("a certificate", || shown(&larder, &client, "a.test"));
    let mut wire = Wire::connect_tls(larder.face("https"), &client, "a.test");
    assert_eq!(wire.ask("GET", "/", &["Host: a.test"]).text(), "page");
    assert_eq!(pebble.issued(), 1);
    let _ = BLOCKED;
}
