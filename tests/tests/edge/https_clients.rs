//! Certificates that clients show: asked for by site, passed on, and believed from nobody else.

#![allow(clippy::unwrap_used)]

use larder_tests::{Admin, H2, Larder, Origin, Papers, Wire, wait_until};
use std::sync::Arc;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, HandshakeKind};

/// An origin that shows what it was told of certificates; `/stored/...` may be stored.
fn origin() -> Origin {
    Origin::start(|seen, reply| {
        let fields = ["Cache-Control: max-age=600"];
        let fields = if seen.path().starts_with("/stored") { &fields[..] } else { &[] };
        let told = |name| seen.get(name).unwrap_or("none").to_owned();
        reply.ok(fields, format!("{} {}", told("x-ssl-client-s-dn"), told("client-cert")));
    })
}

struct Setting {
    /// Of the server, and of its clients.
    papers: Papers,
    clients: Papers,
    origin: Origin,
    larder: Larder,
}

/// Sites `off.test`, `optional.test` and `required.test`, and any other.
fn config(papers: &Papers, clients: &Papers, origin: &Origin, lines: &str) -> String {
    let ca = clients.path("authority.pem");
    let site = |host: &str, lines: &str| {
        format!("[[site]]\nhosts = [\"{host}\"]\norigin = \"{}\"\n{lines}\n", origin.url())
    };
    let asks = |mode: &str| format!("client_ca = \"{ca}\"\nclient_certificate = \"{mode}\"\n");
    let keyed = "[[site.rule]]\npath = \"/stored/own\"\nkey_fields = [\"Client-Cert\"]\n";
    let passes = "[[site.rule]]\npath = \"/pass\"\npass = true\n";
    let sites = [
        site("off.test", passes),
        site("optional.test", &format!("{}{passes}{keyed}", asks("optional"))),
        site("required.test", &format!("{}{lines}\n{passes}{keyed}", asks("required"))),
    ];
    papers.config("edge", "", &sites.concat())
}

fn setting() -> Setting {
    let (papers, clients, origin) = (Papers::issue(), Papers::issue(), origin());
    papers.sign("edge", "DNS:off.test,DNS:optional.test,DNS:required.test");
    clients.sign("alice", "DNS:alice");
    clients.sign("bob", "DNS:bob");
    let larder = Larder::with_config(&config(&papers, &clients, &origin, ""));
    Setting { papers, clients, origin, larder }
}

impl Setting {
    fn client(&self, name: &str) -> Arc<ClientConfig> {
        self.clients.client_with(name, &self.papers, &[&TLS13, &TLS12])
    }

    fn connect(&self, client: &Arc<ClientConfig>, name: &str) -> Wire {
        Wire::connect_tls(self.larder.face("https"), client, name)
    }
}

fn get(wire: &mut Wire, host: &str, path: &str, fields: &[&str]) -> (u16, String) {
    let host = format!("Host: {host}");
    let answer = wire.ask("GET", path, &[&[&*host], fields].concat());
    (answer.status, answer.text().to_owned())
}

/// The part of an origin's answer that names the client.
fn named(answer: &(u16, String)) -> &str {
    answer.1.split(' ').next().unwrap()
}

/// Whether a request is answered: a refusal may come before it is sent, or behind it.
fn is_heard(mut wire: Wire) -> bool {
    let ask = || {
        wire.send_get("/pass", &["Host: required.test"]);
        wire.try_read_for("GET").is_ok()
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(ask)).unwrap_or(false)
}

#[test]
fn a_certificate_is_asked_for_where_the_site_wants_one() {
    let s = setting();
    let (alice, none) = (s.client("alice"), s.papers.client());
    let mut wire = s.connect(&alice, "required.test");
    let told = get(&mut wire, "required.test", "/pass", &[]);
    assert_eq!((told.0, named(&told)), (200, "CN=alice"));
    let field = told.1.split(' ').nth(1).unwrap();
    assert!(field.starts_with(":MII") && field.ends_with(':'), "{field}");
    let told = get(&mut s.connect(&alice, "optional.test"), "optional.test", "/pass", &[]);
    assert_eq!(named(&told), "CN=alice");
    let told = get(&mut s.connect(&none, "optional.test"), "optional.test", "/pass", &[]);
    assert_eq!(told.1, "none none");
    let told = get(&mut s.connect(&alice, "off.test"), "off.test", "/pass", &[]);
    assert_eq!(told.1, "none none", "it was not asked");
    // Without one, and with that of another authority.
    let strange = Papers::issue();
    strange.sign("eve", "DNS:eve");
    let eve = strange.client_with("eve", &s.papers, &[&TLS13]);
    for (client, site) in
        [(&none, "required.test"), (&eve, "required.test"), (&eve, "optional.test")]
    {
        assert!(!is_heard(s.connect(client, site)), "{site}");
    }
    let counts = || Admin::of(&s.larder).counts("/api/v1/stats", &["http", "tls_failures"]);
    wait_until("the refusals", || counts() == [("client-certificate".to_owned(), 3)]);
}

#[test]
fn a_connection_is_for_the_site_that_asked() {
    let s = setting();
    let (alice, none) = (s.client("alice"), s.papers.client());
    for (client, name) in [(&alice, "optional.test"), (&alice, "off.test"), (&none, "off.test")] {
        let mut wire = s.connect(client, name);
        assert_eq!(get(&mut wire, "off.test", "/", &[]).0, 200, "{name}");
        let answer = wire.ask("GET", "/", &["Host: required.test"]);
        assert_eq!(answer.assert_status(421).get("connection"), Some("close"), "{name}");
        wire.expect_closed();
    }
    // A certificate for one site is none for another, also where that asks for none.
    let told = get(&mut s.connect(&alice, "required.test"), "off.test", "/pass", &[]);
    assert_eq!(told.1, "none none");
    // Without TLS nobody is asked.
    for (host, status) in [("off.test", 200), ("optional.test", 200), ("required.test", 403)] {
        assert_eq!(get(&mut s.larder.connect(), host, "/", &[]).0, status, "{host}");
    }
    // Over HTTP/2 too, where browsers put the sites of one certificate onto one connection.
    let mut h2 = H2::connect_tls(s.larder.face("https"), &alice, "optional.test");
    for (host, status) in [("off.test", 200), ("optional.test", 200), ("required.test", 421)] {
        h2.ask_for(host);
        assert_eq!(h2.get("/").status, status, "{host}");
    }
}

/// Only HTTP/1.0 has such requests.
#[test]
fn a_request_without_a_host_is_for_the_site_without_hosts() {
    let (papers, clients, origin) = (Papers::issue(), Papers::issue(), origin());
    papers.sign("edge", "DNS:off.test,DNS:other.test");
    clients.sign("alice", "DNS:alice");
    let (url, ca) = (origin.url(), clients.path("authority.pem"));
    let sites = format!(
        "[[site]]\nhosts = [\"off.test\"]\norigin = \"{url}\"\n[[site]]\norigin = \"{url}\"\n\
         client_ca = \"{ca}\"\nclient_certificate = \"required\"\n"
    );
    let larder = Larder::with_config(&papers.config("edge", "", &sites));
    let alice = clients.client_with("alice", &papers, &[&TLS13]);
    let tls = |client, name| Wire::connect_tls(larder.face("https"), client, name);
    for (mut wire, status) in [
        (larder.connect(), 403),
        (tls(&papers.client(), "off.test"), 421),
        (tls(&alice, "off.test"), 421),
        (tls(&alice, "other.test"), 200),
    ] {
        wire.send("GET /stored HTTP/1.0\r\n\r\n");
        assert_eq!(wire.read().status, status);
    }
}

#[test]
fn no_client_sets_the_fields_itself() {
    let s = setting();
    let (alice, none) = (s.client("alice"), s.papers.client());
    let forged = [
        "Client-Cert: :evil:",
        "client_cert: :evil:",
        "Client-Cert-Chain: :evil:",
        "X-SSL-Client-S-DN: CN=root",
        "X_SSL_CLIENT_S_DN: CN=root",
        "X-SSL-Client-Verify: SUCCESS",
    ];
    for host in ["off.test", "optional.test"] {
        for path in ["/pass", "/stored"] {
            let told = get(&mut s.connect(&none, host), host, path, &forged);
            assert_eq!(told.1, "none none", "{host} {path}");
            let seen = s.origin.last();
            let fields = seen.fields.0.iter().filter(|(name, _)| {
                let name = name.to_ascii_lowercase().replace('_', "-");
                name.starts_with("client-cert") || name.starts_with("x-ssl-")
            });
            assert_eq!(fields.count(), 0, "{:?}", seen.fields);
        }
    }
    let told = get(&mut s.connect(&alice, "optional.test"), "optional.test", "/pass", &forged);
    assert_eq!(named(&told), "CN=alice");
    assert!(!told.1.contains("evil"));
}

#[test]
fn pages_for_many_are_asked_for_without_a_certificate_and_own_ones_are_kept_apart() {
    let s = setting();
    let [alice, bob] = ["alice", "bob"].map(|name| s.client(name));
    let ask = |client, path: &str| {
        get(&mut s.connect(client, "required.test"), "required.test", path, &[])
    };
    for client in [&alice, &bob] {
        assert_eq!(ask(client, "/stored").1, "none none");
    }
    assert_eq!(s.origin.count(), 1);
    let own: Vec<_> = [&alice, &bob, &alice].map(|client| ask(client, "/stored/own").1).into();
    assert!(own[0].starts_with("none :MII") && own[0] == own[2] && own[0] != own[1], "{own:?}");
    assert_eq!(s.origin.count(), 3);
}

#[test]
fn a_session_is_not_resumed_under_other_rules() {
    let s = setting();
    for version in [&TLS13, &TLS12] {
        let with = |name: &str| s.clients.client_with(name, &s.papers, &[version]);
        s.larder.rewrite_config(&config(&s.papers, &s.clients, &s.origin, ""));
        s.larder.hup_and_wait();
        let alice = with("alice");
        let kind = |wire: &mut Wire| {
            get(wire, "required.test", "/pass", &[]);
            wire.tls().handshake_kind().unwrap()
        };
        wait_until("the first rules", || {
            let mut wire = s.connect(&with("alice"), "required.test");
            wire.shake_hands().is_ok() && get(&mut wire, "required.test", "/", &[]).0 == 200
        });
        assert_eq!(kind(&mut s.connect(&alice, "required.test")), HandshakeKind::Full);
        let mut held = s.connect(&alice, "required.test");
        assert_eq!(kind(&mut held), HandshakeKind::Resumed, "{version:?}");
        let told = get(&mut held, "required.test", "/pass", &[]);
        assert_eq!(named(&told), "CN=alice", "a resumed session has its certificate");
        // Alice's certificate is revoked.
        s.clients.judge(&["alice"], "bob");
        let lines = format!("client_crl = \"{}\"", s.clients.path("revoked.pem"));
        s.larder.rewrite_config(&config(&s.papers, &s.clients, &s.origin, &lines));
        s.larder.hup_and_wait();
        wait_until("the list to count", || !is_heard(s.connect(&alice, "required.test")));
        assert_eq!(get(&mut held, "required.test", "/pass", &[]).0, 421, "an open connection");
        let told =
            get(&mut s.connect(&with("bob"), "required.test"), "required.test", "/pass", &[]);
        assert_eq!(named(&told), "CN=bob");
    }
}

#[test]
fn a_hello_in_pieces_is_waited_for() {
    use std::io::{Read, Write};
    use tokio_rustls::rustls::ClientConnection;
    let s = setting();
    let name = "required.test".try_into().unwrap();
    let mut tls = ClientConnection::new(s.client("alice"), name).unwrap();
    let mut hello = Vec::new();
    tls.write_tls(&mut hello).unwrap();
    let mut stream = std::net::TcpStream::connect(s.larder.face("https")).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(larder_tests::PATIENCE)).unwrap();
    for piece in hello.chunks(20) {
        stream.write_all(piece).unwrap();
        // The server has seen the piece when it answers another connection.
        s.larder.connect().ask("GET", "/", &["Host: off.test"]);
    }
    while tls.is_handshaking() {
        if tls.wants_write() {
            tls.write_tls(&mut stream).unwrap();
        } else {
            assert_ne!(tls.read_tls(&mut stream).unwrap(), 0, "closed in the handshake");
            tls.process_new_packets().unwrap();
        }
    }
    tls.writer().write_all(b"GET /pass HTTP/1.1\r\nHost: required.test\r\n\r\n").unwrap();
    let mut text = String::new();
    while !text.contains("CN=alice") {
        while tls.wants_write() {
            tls.write_tls(&mut stream).unwrap();
        }
        assert_ne!(tls.read_tls(&mut stream).unwrap(), 0, "{text}");
        tls.process_new_packets().unwrap();
        let mut got = [0; 4096];
        while let Ok(read @ 1..) = tls.reader().read(&mut got) {
            text.push_str(&String::from_utf8_lossy(&got[..read]));
        }
    }
}

#[test]
fn mistakes_are_told() {
    let (papers, clients, origin) = (Papers::issue(), Papers::issue(), origin());
    papers.sign("edge", "DNS:a");
    let good = config(&papers, &clients, &origin, "");
    let ca = clients.path("authority.pem");
    for (text, told) in [
        (good.replace(&format!("client_ca = \"{ca}\"\n"), ""), "no authority is named"),
        (good.replace("authority.pem", "alice.key"), "cannot read"),
        (good.replace("authority.pem", "authority.key"), "no certificate of an authority"),
        (good.replace("client_ca", &format!("client_crl = \"{ca}\"\nclient_ca")), "no list"),
    ] {
        let file = papers.file("larder.toml");
        std::fs::write(&file, &text).unwrap();
        let (status, _, errors) = larder_tests::larder::run(&["check", file.to_str().unwrap()]);
        assert_eq!(status.code(), Some(2), "{errors}");
        assert!(errors.contains(told), "{told}: {errors}");
    }
}
