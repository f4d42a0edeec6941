//! Certificates by ACME, from the real pebble.

#![allow(clippy::unwrap_used)]

use larder_tests::larder::run;
use larder_tests::pebble::{Authority, BLOCKED, EXTERNAL_KEY};
use larder_tests::{Admin, Larder, Origin, Papers, Pebble, Wire, wait_for, wait_until};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::client::Resumption;

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
    // A resumed session has the certificate of its beginning.
    let mut client = ClientConfig::clone(client);
    client.resumption = Resumption::disabled();
    let mut wire = Wire::connect_tls(larder.face("https"), &Arc::new(client), name);
    wire.shake_hands().ok()?;
    Some(wire.tls().peer_certificates().unwrap()[0].to_vec())
}

/// Waits for a certificate that the client believes.
#[track_caller]
fn certified(larder: &Larder, client: &Arc<ClientConfig>, name: &str) -> Vec<u8> {
    wait_for("a certificate", || shown(larder, client, name))
}

/// The row of a name in the figures.
fn row(larder: &Larder, name: &str) -> Value {
    let stats = Admin::of(larder).json("/api/v1/stats");
    let rows = stats["certificates"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).cloned().unwrap_or_default()
}

/// The state of a name is a file with its chain and key.
fn pem(world: &World, name: &str) -> PathBuf {
    let directory = std::fs::read_dir(world.state()).unwrap().next().unwrap().unwrap().path();
    directory.join(format!("{name}.pem"))
}

#[test]
fn first_certificates_come_by_http_one_for_each_name() {
    let world = World::new();
    let pebble = world.pebble();
    let larder = world.larder(&["a.test", "b.test", "*.c.test"], "");
    let client = pebble.client();
    let (a, b) = (certified(&larder, &client, "a.test"), certified(&larder, &client, "b.test"));
    assert_ne!(a, b);
    assert!(shown(&larder, &client, "x.c.test").is_none());
    assert!(larder.stderr().contains("note: no certificate is ordered for *.c.test"));
    let mut wire = Wire::connect_tls(larder.face("https"), &client, "a.test");
    assert_eq!(wire.ask("GET", "/", &["Host: a.test"]).text(), "page");
    wait_until("the orders to be counted", || row(&larder, "b.test")["orders"] == 1);
    let row = row(&larder, "a.test");
    assert_eq!(
        (&row["source"], &row["orders"], &row["failures"]),
        (&"acme".into(), &1.into(), &0.into())
    );
    let days =
        (row["expires_ms"].as_u64().unwrap() - row["starts_ms"].as_u64().unwrap()) / 86_400_000;
    assert!((89..=90).contains(&days), "{days}");
    assert_eq!(pebble.issued(), 2);
    // Only open challenges are answered here: others are the origin's, or another program's.
    let path = "/.well-known/acme-challenge/unknown";
    let answer = larder.connect().ask("GET", path, &["Host: a.test"]);
    assert_eq!(answer.assert_status(200).text(), "page");
}

#[test]
fn first_certificates_come_by_tls() {
    let world = World::new();
    let pebble = world.pebble();
    let larder = world.larder(&["a.test"], "challenge = \"tls-alpn-01\"");
    let client = pebble.client();
    certified(&larder, &client, "a.test");
    assert_eq!(pebble.count("set VALID by completed challenge"), 1);
    assert_eq!(pebble.count("Attempting to validate w/ HTTP"), 0);
    // Without an open challenge there is no such handshake.
    let mut asking = ClientConfig::clone(&client);
    asking.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    assert!(shown(&larder, &Arc::new(asking), "a.test").is_none());
    // A client that knows other protocols too gets pages.
    let mut knowing = ClientConfig::clone(&client);
    knowing.alpn_protocols = vec![b"acme-tls/1".to_vec(), b"http/1.1".to_vec()];
    let mut wire = Wire::connect_tls(larder.face("https"), &Arc::new(knowing), "a.test");
    assert_eq!(wire.ask("GET", "/", &["Host: a.test"]).text(), "page");
}

#[test]
fn what_is_kept_is_used_and_nobody_else_can_read_it() {
    let world = World::new();
    let pebble = world.pebble();
    let client = pebble.client();
    let larder = world.larder(&["a.test"], "");
    let first = certified(&larder, &client, "a.test");
    assert!(row(&larder, "a.test")["renews_ms"].is_u64());
    drop(larder);
    let mut open = vec![world.state()];
    let mut files = 0;
    while let Some(path) = open.pop() {
        let facts = std::fs::metadata(&path).unwrap();
        let mode = facts.permissions().mode() & 0o777;
        assert_eq!(mode, if facts.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
        if facts.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            files += 1;
        }
    }
    assert_eq!(files, 3, "account, certificate, dates");
    let larder = world.larder(&["a.test"], "");
    assert!(shown(&larder, &client, "a.test").unwrap() == first, "from the first moment on");
    wait_until("the question for advice", || pebble.count("renewalInfo") == 1);
    assert_eq!((pebble.issued(), pebble.count("Added order")), (1, 1));
    let config = larder.dir().join("larder.toml");
    let (status, out, _) = run(&["certificates", "--config", config.to_str().unwrap()]);
    assert!(status.success());
    let line = out.lines().find(|line| line.starts_with("a.test")).unwrap().to_owned();
    assert!(line.contains(&world.authority.directory()) && line.contains("in 89 days"), "{out}");
}

#[test]
fn an_authority_that_is_down_is_asked_again() {
    let world = World::new();
    let larder = world.larder(&["a.test"], "");
    wait_until("the failure to be told", || larder.stderr().contains("cannot reach 127.0.0.1"));
    let told = larder.stderr();
    assert!(told.contains("larder: no certificates: "), "{told}");
    // A self-signed one serves meanwhile.
    let row_now = row(&larder, "a.test");
    assert_eq!((&row_now["source"], &row_now["failures"]), (&"self-signed".into(), &1.into()));
    assert!(row_now["reason"].as_str().unwrap().contains("cannot reach"), "{row_now}");
    let metrics = Admin::of(&larder).get("/metrics").text().to_owned();
    let line = "larder_certificate_failures_total{certificate=\"a.test\"} 1";
    assert!(metrics.contains(line), "{metrics}");
    let mut curl = Command::new("curl");
    let url = format!("https://a.test:{}/", world.authority.tls);
    curl.args(["-ks", "--resolve", &format!("a.test:{}:127.0.0.1", world.authority.tls), &url]);
    assert_eq!(curl.output().unwrap().stdout, b"page");
    // SIGHUP asks at once.
    let pebble = world.pebble();
    larder.hup();
    let client = pebble.client();
    let first = certified(&larder, &client, "a.test");
    // Down again: nothing changes for clients, and nothing is told while nothing is due.
    drop(pebble);
    let before = larder.stderr().matches("no certificates:").count();
    larder.hup();
    wait_until("the reload", || larder.stderr().matches("configuration reloaded").count() == 2);
    assert!(shown(&larder, &client, "a.test").unwrap() == first);
    assert_eq!(larder.stderr().matches("no certificates:").count(), before);
}

#[test]
fn a_reload_keeps_a_certificate_whose_file_is_damaged() {
    let world = World::new();
    let pebble = world.pebble();
    let larder = world.larder(&["a.test"], "");
    let client = pebble.client();
    let first = certified(&larder, &client, "a.test");
    drop(pebble);
    let file = pem(&world, "a.test");
    std::fs::write(&file, "damaged").unwrap();
    larder.hup();
    wait_until("the reload", || larder.stderr().contains("configuration reloaded"));
    assert!(larder.stderr().contains(file.to_str().unwrap()), "{}", larder.stderr());
    assert!(shown(&larder, &client, "a.test") == Some(first));
    assert_eq!(row(&larder, "a.test")["source"], "acme");
}

#[test]
fn an_account_that_the_authority_forgot_is_made_anew() {
    let world = World::new();
    let pebble = world.pebble();
    let larder = world.larder(&["a.test"], "");
    certified(&larder, &pebble.client(), "a.test");
    drop(pebble);
    let pebble = world.pebble();
    larder.rewrite_config(&world.config(&["a.test", "b.test"], ""));
    larder.hup();
    certified(&larder, &pebble.client(), "b.test");
    assert_eq!(row(&larder, "b.test")["failures"], 0);
}

#[test]
fn a_refusal_is_told_with_its_reason_and_concerns_one_name() {
    let world = World::new();
    let pebble = world.pebble();
    let larder = world.larder(&[BLOCKED, "z.test"], "");
    certified(&larder, &pebble.client(), "z.test");
    let told = format!("larder: no certificate for {BLOCKED}: the directory refuses: ");
    assert_eq!(larder.stderr().matches(&told).count(), 1, "{}", larder.stderr());
    assert!(larder.stderr().contains("(rejectedIdentifier); next try in 6"), "{}", larder.stderr());
    let reason = row(&larder, BLOCKED)["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("rejectedIdentifier"), "{reason}");
    let config = larder.dir().join("larder.toml");
    let (_, out, _) = run(&["certificates", "--config", config.to_str().unwrap()]);
    let line = out.lines().find(|line| line.starts_with(BLOCKED)).unwrap().to_owned();
    assert!(line.contains("there is none yet") && line.contains("rejectedIdentifier"), "{out}");
}

#[test]
fn a_proof_that_fails_is_told_in_the_words_of_the_authority() {
    let mut world = World::new();
    world.authority.tls = world.authority.http;
    let _pebble = world.pebble();
    world.authority.tls = larder_tests::helper::free_port();
    let larder = world.larder(&["a.test"], "challenge = \"tls-alpn-01\"");
    wait_until("the refusal", || larder.stderr().contains("no certificate for a.test: "));
    let told = larder.stderr();
    assert!(told.contains("the directory refuses: ") && told.contains("tls"), "{told}");
}

#[test]
fn a_renewal_that_the_authority_advises_fails_no_request() {
    let world = World::new();
    let pebble = world.pebble();
    let larder = world.larder(&["a.test"], "");
    let client = pebble.client();
    let first = certified(&larder, &client, "a.test");
    let (done, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for fresh in [false, true, true] {
            let (larder, client, done, asked) = (&larder, &client, &done, &asked);
            scope.spawn(move || {
                let connect = || Wire::connect_tls(larder.face("https"), client, "a.test");
                let mut wire = connect();
                while !done.load(Ordering::Relaxed) {
                    if fresh {
                        wire = connect();
                    }
                    let answer = wire.ask("GET", "/", &["Host: a.test"]);
                    assert_eq!(answer.assert_status(200).text(), "page");
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let renewed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_until("some requests", || asked.load(Ordering::Relaxed) > 50);
            let pem = std::fs::read_to_string(pem(&world, "a.test")).unwrap();
            pebble.advise_renewal(&pem);
            larder.hup();
            wait_until("the new certificate", || {
                shown(&larder, &client, "a.test").unwrap() != first
            });
            let before = asked.load(Ordering::Relaxed);
            wait_until("further requests", || asked.load(Ordering::Relaxed) > before + 50);
        }));
        done.store(true, Ordering::Relaxed);
        renewed.unwrap();
    });
    assert_eq!(pebble.issued(), 2);
    wait_until("the renewal to be counted", || row(&larder, "a.test")["orders"] == 2);
}

#[test]
fn a_certificate_that_ended_is_shown_until_the_next_one_comes() {
    let mut world = World::new();
    world.authority.validity = 1;
    let pebble = world.pebble();
    let larder = world.larder(&["a.test"], "");
    wait_until("an order", || row(&larder, "a.test")["source"] == "acme");
    wait_until("the doubt about the clock", || larder.stderr().contains("is the clock of"));
    drop(pebble);
    // The self-signed one is not back.
    let now = row(&larder, "a.test");
    assert_eq!((&now["source"], &now["orders"]), (&"acme".into(), &1.into()), "{now}");
    let metrics = Admin::of(&larder).get("/metrics").text().to_owned();
    let remaining = "larder_certificate_remaining_seconds{certificate=\"a.test\",source=\"acme\"}";
    assert!(metrics.contains(remaining), "{metrics}");
}

#[test]
fn an_external_account_is_shown_where_the_authority_wants_one() {
    let mut world = World::new();
    world.authority.external = true;
    let pebble = world.pebble();
    let larder = world.larder(&["a.test"], "");
    wait_until("the refusal", || larder.stderr().contains("(externalAccountRequired)"));
    std::fs::write(world.papers.file("eab"), EXTERNAL_KEY).unwrap();
    let key = world.papers.path("eab");
    let lines = format!("eab_kid = \"kid\"\neab_key_file = \"{key}\"");
    larder.rewrite_config(&world.config(&["a.test"], &lines));
    larder.hup();
    certified(&larder, &pebble.client(), "a.test");
}

#[test]
fn what_is_missing_is_said_before_the_start() {
    let origin = ["--origin", "http://127.0.0.1:9"];
    for (flags, expected) in [
        (&["--acme", "you@example.org", "--https", "127.0.0.1:0"][..], "--name www.example.org"),
        (&["--acme", "you@example.org", "--name", "a.test"], "--https 0.0.0.0:443"),
        (
            &["--acme", "you@example.org", "--https", "127.0.0.1:0", "--name", "*.a.test"],
            "wildcards take dns-01",
        ),
        (
            &["--acme", "you@example.org", "--https", "127.0.0.1:0", "--name", "127.0.0.1"],
            "a certificate is ordered for a host name",
        ),
    ] {
        let (status, _, told) = run(&[&["serve"], flags, &origin].concat());
        assert!(status.code() == Some(2) && told.contains(expected), "{flags:?}: {told}");
    }
}
