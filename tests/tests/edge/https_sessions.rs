//! Sessions of TLS: tickets by keys of files, stapled OCSP responses, the access log.

#![allow(clippy::unwrap_used)]

use larder_tests::{Larder, Origin, Papers, Wire, wait_until};
use std::process::{Command, Stdio};
use std::sync::Arc;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, HandshakeKind};

fn origin() -> Origin {
    Origin::serving(&["Cache-Control: max-age=600"], "page")
}

fn config(papers: &Papers, origin: &Origin, lines: &str) -> String {
    papers.config("server", lines, &format!("[[site]]\norigin = \"{}\"", origin.url()))
}

/// The option for these keys of the papers.
fn keys(papers: &Papers, names: &[&str]) -> String {
    let files: Vec<_> = names.iter().map(|name| format!("{:?}", papers.path(name))).collect();
    format!("ticket_key_file = [{}]", files.join(", "))
}

fn shake_hands(larder: &Larder, client: &Arc<ClientConfig>) -> HandshakeKind {
    let mut wire = Wire::connect_tls(larder.face("https"), client, "127.0.0.1");
    wire.get("/", &[]);
    wire.tls().handshake_kind().unwrap()
}

/// Papers with three keys of tickets.
fn papers() -> Papers {
    let papers = Papers::issue();
    for (name, length) in [("one", 48), ("two", 80), ("three", 80)] {
        std::fs::write(papers.file(name), vec![name.len() as u8 + name.as_bytes()[0]; length])
            .unwrap();
    }
    papers
}

#[test]
fn tickets_are_good_after_a_restart_and_at_other_servers_of_the_same_keys() {
    let (papers, origin) = (papers(), origin());
    for version in [&TLS12, &TLS13] {
        let client = papers.client_of(&[version]);
        let first = Larder::with_config(&config(&papers, &origin, &keys(&papers, &["one"])));
        assert_eq!(shake_hands(&first, &client), HandshakeKind::Full);
        drop(first);
        let second =
            Larder::with_config(&config(&papers, &origin, &keys(&papers, &["two", "one"])));
        assert_eq!(shake_hands(&second, &client), HandshakeKind::Resumed, "{version:?}");
        // Its tickets are by the first key.
        let third = Larder::with_config(&config(&papers, &origin, &keys(&papers, &["two"])));
        assert_eq!(shake_hands(&third, &client), HandshakeKind::Resumed);
        let other = Larder::with_config(&config(&papers, &origin, &keys(&papers, &["three"])));
        assert_eq!(shake_hands(&other, &client), HandshakeKind::Full);
    }
}

#[test]
fn keys_of_tickets_are_read_again() {
    let (papers, origin) = (papers(), origin());
    let larder = Larder::with_config(&config(&papers, &origin, &keys(&papers, &["one"])));
    let client = papers.client();
    shake_hands(&larder, &client);
    std::fs::copy(papers.file("two"), papers.file("one")).unwrap();
    larder.hup_and_wait();
    // A ticket of the old key is offered by a client that keeps none of the new one.
    wait_until("the new key", || {
        let old = papers.client();
        shake_hands(&larder, &old);
        let with_old = shake_hands(&larder, &client) == HandshakeKind::Full;
        shake_hands(&larder, &old);
        with_old
    });
    assert_eq!(shake_hands(&larder, &client), HandshakeKind::Resumed);
}

#[test]
fn keys_of_another_length_are_refused() {
    let (papers, origin) = (papers(), origin());
    std::fs::write(papers.file("one"), [7; 47]).unwrap();
    let file = papers.file("larder.toml");
    std::fs::write(&file, config(&papers, &origin, &keys(&papers, &["two", "one"]))).unwrap();
    let (status, _, told) = larder_tests::larder::run(&["check", file.to_str().unwrap()]);
    assert_eq!(status.code(), Some(2), "{told}");
    assert!(told.contains("expected 48 or 80 bytes, found 47"), "{told}");
}

/// The OCSP response that a client gets, as openssl shows it.
fn status(larder: &Larder) -> String {
    let shown = Command::new("openssl")
        .args(["s_client", "-status", "-connect", &larder.face("https").to_string()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&shown.stdout).into_owned()
}

#[test]
fn a_response_of_ocsp_is_stapled_and_read_again() {
    let (papers, origin) = (Papers::issue(), origin());
    papers.sign("other", "IP:127.0.0.1");
    papers.judge(&[], "server");
    let stapled = |name: &str| {
        let ocsp = papers.path(&format!("{name}.ocsp"));
        let text = config(&papers, &origin, "");
        text.replace("certificates = [{", &format!("certificates = [{{ ocsp = {ocsp:?}, "))
    };
    let larder = Larder::with_config(&config(&papers, &origin, ""));
    assert!(status(&larder).contains("OCSP response: no response sent"));
    larder.rewrite_config(&stapled("server"));
    larder.hup_and_wait();
    wait_until("the response", || status(&larder).contains("Cert Status: good"));
    papers.judge(&[], "other");
    for (name, told) in [("other", "another certificate's"), ("../authority", "cannot read")] {
        larder.rewrite_config(&stapled(name));
        larder.hup();
        wait_until("the fault to be told", || larder.stderr().contains(told));
    }
    std::fs::copy(papers.file("server.pem"), papers.file("none.ocsp")).unwrap();
    larder.rewrite_config(&stapled("none"));
    larder.hup();
    wait_until("the fault to be told", || larder.stderr().contains("no OCSP response in DER"));
    assert!(status(&larder).contains("Cert Status: good"), "the one in use stays");
}

#[test]
fn the_access_log_tells_version_cipher_and_resumption() {
    let (papers, origin) = (Papers::issue(), origin());
    let log = papers.file("access.log");
    let lines = format!("[http.access_log]\npath = {:?}\nformat = \"json\"\n[https]", log);
    // One thread, so that lines come in the order of the requests.
    let text = config(&papers, &origin, "").replace("[https]", &lines);
    let larder = Larder::with_config(&format!("threads = 1\n{text}"));
    let client = papers.client_of(&[&TLS12]);
    shake_hands(&larder, &client);
    shake_hands(&larder, &client);
    shake_hands(&larder, &papers.client());
    larder.connect().get("/", &[]);
    let mut told = Vec::new();
    wait_until("four lines", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let json = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
        told = text.lines().map(json).collect();
        told.len() == 4
    });
    let shown: Vec<_> = told
        .iter()
        .map(|line| ["tls_version", "tls_cipher", "tls_resumed"].map(|key| line[key].to_string()))
        .collect();
    let suite = "\"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256\"";
    assert_eq!(
        shown,
        [
            ["\"TLSv1.2\"", suite, "false"],
            ["\"TLSv1.2\"", suite, "true"],
            ["\"TLSv1.3\"", "\"TLS_AES_128_GCM_SHA256\"", "false"],
            ["null", "null", "null"],
        ]
    );
}
