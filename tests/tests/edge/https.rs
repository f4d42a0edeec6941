//! Pages over TLS: the same pages, the right certificate, and what goes wrong.

#![allow(clippy::unwrap_used)]

use larder_tests::larder::run;
use larder_tests::{Admin, Larder, Origin, Papers, Scratch, Wire, get_with, wait_until};
use std::io::{ErrorKind, Read, Write};
use std::process::Command;
use tokio_rustls::rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, HandshakeKind, NamedGroup, ProtocolVersion};

/// The content of a page of so many bytes.
fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// An origin whose pages `/N` have N bytes; any other shows the scheme it was told.
fn origin() -> Origin {
    Origin::start(|seen, reply| {
        let fields = ["Cache-Control: max-age=600"];
        match seen.path()[1..].parse::<usize>() {
            Ok(len) => reply.ok(&fields, content(len)),
            Err(_) => reply.ok(&fields, seen.get("x-forwarded-proto").unwrap_or("none")),
        };
    })
}

/// HTTP and HTTPS before an origin, with the certificate of 127.0.0.1 and further lines of
/// `[https]`.
fn larder(papers: &Papers, origin: &Origin, lines: &str) -> Larder {
    Larder::with_config(&config(papers, origin, "server", lines))
}

fn config(papers: &Papers, origin: &Origin, certificate: &str, lines: &str) -> String {
    papers.config(certificate, lines, &format!("[[site]]\norigin = \"{}\"", origin.url()))
}

fn connect(larder: &Larder, papers: &Papers) -> Wire {
    Wire::connect_tls(larder.face("https"), &papers.client(), "127.0.0.1")
}

fn figure(larder: &Larder, name: &str) -> u64 {
    Admin::of(larder).json("/api/v1/stats")["http"][name].as_u64().unwrap()
}

/// Failures of TLS by reason, those that happened.
fn failures(larder: &Larder) -> Vec<(String, u64)> {
    Admin::of(larder).counts("/api/v1/stats", &["http", "tls_failures"])
}

fn failed(reason: &str, times: u64) -> Vec<(String, u64)> {
    vec![(reason.to_owned(), times)]
}

#[test]
fn pages_of_every_size_come_as_they_are() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = larder(&papers, &origin, "");
    for (version, told) in [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)]
    {
        let client = papers.client_of(&[version]);
        let mut wire = Wire::connect_tls(larder.face("https"), &client, "127.0.0.1");
        for len in [0, 1, 4_000, 16_000, 16_384, 16_385, 100_000, 3_000_000] {
            for _ in 0..2 {
                let answer = wire.get(&format!("/{len}"), &[]);
                assert!(answer.body == content(len), "{len} bytes, {} came", answer.body.len());
            }
            let part = wire.get(&format!("/{len}"), &["Range: bytes=1-2"]);
            if len > 2 {
                assert!(part.assert_status(206).is_hit());
                assert_eq!(part.body, content(len)[1..3]);
            }
        }
        assert_eq!(wire.tls().protocol_version(), Some(told));
    }
    assert_eq!(origin.count(), 8);
    assert_eq!((figure(&larder, "tls_handshakes"), failures(&larder)), (2, vec![]));
}

/// Browsers offer the exchange that stays secret before a quantum computer first; older clients
/// have others.
#[test]
fn keys_are_exchanged_in_the_way_that_client_and_server_prefer() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = larder(&papers, &origin, "");
    let all = default_provider().kx_groups;
    for (groups, used) in [
        (vec![kx_group::X25519MLKEM768, kx_group::X25519], NamedGroup::X25519MLKEM768),
        (vec![kx_group::X25519], NamedGroup::X25519),
        (vec![kx_group::SECP256R1], NamedGroup::secp256r1),
        (all, NamedGroup::X25519MLKEM768),
    ] {
        let mut provider = default_provider();
        provider.kx_groups = groups;
        let client = ClientConfig::builder_with_provider(provider.into())
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_root_certificates(papers.roots())
            .with_no_client_auth();
        let mut wire = Wire::connect_tls(larder.face("https"), &client.into(), "127.0.0.1");
        assert_eq!(wire.get("/100", &[]).body, content(100));
        let group = wire.tls().negotiated_key_exchange_group().unwrap();
        assert_eq!(group.name(), used);
    }
    assert_eq!(failures(&larder), []);
}

#[test]
fn pipelined_requests_are_answered_in_order_and_bodies_are_received() {
    let (papers, origin) = (
        Papers::issue(),
        Origin::start(|seen, reply| {
            reply.ok(
                &["Cache-Control: max-age=600"],
                format!("{} {}", seen.path(), seen.body.len()),
            );
        }),
    );
    let larder = larder(&papers, &origin, "");
    let mut wire = connect(&larder, &papers);
    let many: String =
        (0..200).map(|n| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", n % 7)).collect();
    wire.send(many);
    for n in 0..200 {
        assert_eq!(wire.read().text(), format!("/{} 0", n % 7));
    }
    let body = content(700_000);
    wire.send(format!("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()));
    wire.send(&body);
    assert_eq!(wire.read().text(), "/p 700000");
    assert_eq!(origin.last().body, body);
}

#[test]
fn a_client_that_reads_slowly_gets_every_byte() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = larder(&papers, &origin, "");
    connect(&larder, &papers).get("/2000000", &[]);
    // Of a copy that grows while it is sent, and of the store.
    for path in ["/2000000", "/1999999"] {
        let wire = Wire::connect_narrow(larder.face("https"));
        let mut wire = wire.secured(&papers.client(), "127.0.0.1");
        wire.send_get(path, &["Host: a"]);
        let len = path[1..].parse().unwrap();
        wire.read_head();
        let mut got = Vec::new();
        while got.len() < len {
            got.extend(wire.read_bytes((len - got.len()).min(777)));
        }
        assert!(got == content(len), "{path}");
        assert_eq!(wire.get("/5", &[]).body, content(5), "the connection goes on");
    }
}

#[test]
fn a_handshake_that_the_socket_does_not_take_at_once_goes_on() {
    let (papers, origin) = (Papers::issue(), origin());
    let read = |name: &str| std::fs::read_to_string(papers.file(name)).unwrap();
    let chain = read("server.pem") + &read("authority.pem").repeat(40);
    std::fs::write(papers.file("chain.pem"), chain).unwrap();
    std::fs::copy(papers.file("server.key"), papers.file("chain.key")).unwrap();
    let text = config(&papers, &origin, "chain", "");
    let larder =
        Larder::with_config(&text.replace("[http.limits]", "sndbuf = \"1KiB\"\n[http.limits]"));
    let wire = Wire::connect_narrow(larder.face("https"));
    let mut wire = wire.secured(&papers.client(), "127.0.0.1");
    for _ in 0..2 {
        assert_eq!(wire.get("/30000", &[]).body, content(30_000));
    }
}

#[test]
fn the_certificate_is_that_of_the_name() {
    let (papers, origin) = (Papers::issue(), origin());
    papers.sign("exact", "DNS:www.example.org");
    papers.sign("wild", "DNS:*.example.org,DNS:example.org");
    let more: String = ["wild", "exact"]
        .map(|name| {
            let (cert, key) =
                (papers.path(&format!("{name}.pem")), papers.path(&format!("{name}.key")));
            format!("[[https.certificates]]\ncert = \"{cert}\"\nkey = \"{key}\"\n")
        })
        .concat();
    let text = config(&papers, &origin, "server", "");
    let own = text.lines().find(|line| line.starts_with("certificates")).unwrap().to_owned();
    let first = format!(
        "[[https.certificates]]\ncert = \"{}\"\nkey = \"{}\"\n",
        papers.path("server.pem"),
        papers.path("server.key")
    );
    let larder = Larder::with_config(&format!("{}{first}{more}", text.replace(&own, "")));
    let shown = |name: &str| -> Result<Vec<u8>, std::io::Error> {
        let mut wire = Wire::connect_tls(larder.face("https"), &papers.client(), name);
        wire.shake_hands()?;
        Ok(wire.tls().peer_certificates().unwrap()[0].to_vec())
    };
    let file = |name: &str| CertificateDer::from_pem_file(papers.file(name)).unwrap().to_vec();
    for (name, certificate) in [
        ("127.0.0.1", "server.pem"),
        ("www.example.org", "exact.pem"),
        ("WWW.example.ORG", "exact.pem"),
        ("other.example.org", "wild.pem"),
        ("example.org", "wild.pem"),
    ] {
        assert!(shown(name).unwrap() == file(certificate), "{name}");
    }
    // A wildcard stands for one label: the first certificate is shown, and is another's.
    assert_eq!(shown("a.b.example.org").unwrap_err().kind(), ErrorKind::InvalidData);
    assert_eq!(shown("example.com").unwrap_err().kind(), ErrorKind::InvalidData);
    let refused = failed("refused-by-client", 2);
    wait_until("the refusals to be counted", || failures(&larder) == refused);
}

#[test]
fn a_ticket_is_good_for_every_thread() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = larder(&papers, &origin, "");
    for versions in [[&TLS12], [&TLS13]] {
        let client = papers.client_of(&versions);
        let kinds: Vec<_> = (0..12)
            .map(|_| {
                let mut wire = Wire::connect_tls(larder.face("https"), &client, "127.0.0.1");
                wire.get("/10", &[]);
                wire.tls().handshake_kind().unwrap()
            })
            .collect();
        assert_eq!(kinds[0], HandshakeKind::Full);
        assert!(kinds[1..].iter().all(|kind| *kind == HandshakeKind::Resumed), "{kinds:?}");
    }
    assert_eq!((figure(&larder, "tls_handshakes"), figure(&larder, "tls_resumed")), (24, 22));
}

#[test]
fn certificates_are_read_again_and_connections_stay() {
    let (papers, origin) = (Papers::issue(), origin());
    papers.sign("next", "IP:127.0.0.1");
    let larder = larder(&papers, &origin, "");
    let mut old = connect(&larder, &papers);
    old.get("/10", &[]);
    larder.rewrite_config(&config(&papers, &origin, "next", ""));
    larder.hup();
    wait_until("the new certificate", || {
        let mut wire = connect(&larder, &papers);
        wire.shake_hands().unwrap();
        let next = CertificateDer::from_pem_file(papers.file("next.pem")).unwrap();
        wire.tls().peer_certificates().unwrap()[0] == next
    });
    old.get("/10", &[]).assert_hit();
    // A file that cannot be used changes nothing.
    larder.rewrite_config(&config(&papers, &origin, "missing", ""));
    larder.hup();
    wait_until("the fault to be told", || larder.stderr().contains("missing.pem"));
    assert!(larder.stderr().contains("the configuration in use stays as it was"));
    connect(&larder, &papers).get("/10", &[]).assert_hit();
}

#[test]
fn plain_requests_are_sent_to_https_but_for_purges() {
    let (papers, origin) = (Papers::issue(), origin());
    let lines = "redirect = true\nhsts = \"max-age=300\"";
    let larder = larder(&papers, &origin, lines);
    let port = larder.face("https").port();
    let mut plain = larder.connect();
    for (method, target) in [("GET", "/a?b=c%20d"), ("HEAD", "/a?b=c%20d"), ("POST", "/a?b=c%20d")]
    {
        let answer = plain.ask(method, target, &["Host: site.test:8080"]);
        answer.assert_status(308);
        let place = format!("https://site.test:{port}/a?b=c%20d");
        assert_eq!(answer.get("location"), Some(&*place), "{method}");
        assert_eq!(answer.get("strict-transport-security"), None);
    }
    assert_eq!(origin.count(), 0);
    // Targets that are no places are not made into one.
    let answer = larder.connect().ask("OPTIONS", "*", &["Host: site.test"]);
    assert_eq!(answer.get("location"), None);
    let purge = plain.ask("PURGE", "/a", &["Host: site.test"]);
    assert_ne!(purge.status, 308);
    assert_eq!(purge.get("strict-transport-security"), None);
    let mut wire = connect(&larder, &papers);
    for _ in 0..2 {
        let answer = wire.get("/10", &[]);
        assert_eq!(answer.get("strict-transport-security"), Some("max-age=300"));
    }
    // Answers of Larder's own have it too: what the purge did, and the refusal of a bad request.
    for (method, fields) in [("PURGE", &["Host: site.test"][..]), ("TRACE", &["Host: site.test"])] {
        let answer = wire.ask(method, "/10", fields);
        assert_eq!(answer.get("strict-transport-security"), Some("max-age=300"), "{method}");
    }
    // The body of a request that is sent elsewhere is not read as the next request.
    plain.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n");
    plain.read_for("POST").assert_status(308);
    plain.expect_closed();
}

#[test]
fn hosts_of_no_site_are_not_sent_to_https() {
    let (papers, origin) = (Papers::issue(), origin());
    let site = "[[site]]\nhosts = [\"site.test\"]\n";
    let config = config(&papers, &origin, "server", "redirect = true").replace("[[site]]\n", site);
    let larder = Larder::with_config(&config);
    let mut plain = larder.connect();
    plain.ask("GET", "/", &["Host: site.test"]).assert_status(308);
    plain.ask("GET", "/", &["Host: evil.test"]).assert_status(421);
}

#[test]
fn hsts_of_the_origin_stands() {
    let papers = Papers::issue();
    let origin = Origin::serving(
        &["Cache-Control: max-age=600", "Strict-Transport-Security: max-age=5"],
        "page",
    );
    let larder = larder(&papers, &origin, "hsts = \"max-age=300\"");
    let mut wire = connect(&larder, &papers);
    for _ in 0..2 {
        let answer = wire.get("/", &[]);
        let all: Vec<_> = answer.fields.all("strict-transport-security").collect();
        assert_eq!(all, ["max-age=5"]);
    }
}

#[test]
fn the_origin_is_told_the_scheme_and_the_schemes_have_pages_of_their_own() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = larder(&papers, &origin, "");
    for _ in 0..2 {
        assert_eq!(connect(&larder, &papers).get("/scheme", &[]).text(), "https");
        let forged = ["X-Forwarded-Proto: https"];
        assert_eq!(get_with(larder.addr(), "/scheme", &forged).text(), "http");
    }
    assert_eq!(origin.count(), 2);
}

#[test]
fn plain_http_at_the_port_of_https_is_told_so() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = larder(&papers, &origin, "");
    let mut plain = Wire::connect(larder.face("https"));
    let answer = plain.get("/10", &[]);
    assert!(answer.assert_status(400).text().contains("TLS"), "{}", answer.text());
    plain.expect_closed();
    assert_eq!(failures(&larder), failed("no-tls", 1));
    assert_eq!(origin.count(), 0);
}

#[test]
fn bytes_that_are_no_tls_and_handshakes_that_stop_end_the_connection() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = larder(&papers, &origin, "");
    let hello = [&[22, 3, 1, 0, 60, 1, 0, 0, 56, 3, 3][..], &[7; 20]].concat();
    for begin in [&b""[..], b"\x16", &hello, &[0x16, 3, 1, 0xff, 0xff], &[0; 300], &[0xff; 40_000]]
    {
        let mut stream = std::net::TcpStream::connect(larder.face("https")).unwrap();
        stream.set_read_timeout(Some(larder_tests::PATIENCE)).unwrap();
        let _ = stream.write_all(begin);
        let mut rest = Vec::new();
        match stream.read_to_end(&mut rest) {
            // At the most an alert (RFC 8446 section 6).
            Ok(_) => assert!(rest.len() <= 7 && rest.first().is_none_or(|kind| *kind == 21)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{begin:?}"),
        }
    }
    // A client that leaves in the middle.
    std::net::TcpStream::connect(larder.face("https")).unwrap().write_all(&hello).unwrap();
    let counted = ["closed", "malformed", "timeout"];
    wait_until("each to be counted", || failures(&larder).len() == counted.len());
    let words: Vec<_> = failures(&larder).into_iter().map(|(word, _)| word).collect();
    assert_eq!(words, counted);
    connect(&larder, &papers).get("/10", &[]);
}

#[test]
fn an_end_is_announced_and_a_break_is_not() {
    let papers = Papers::issue();
    let origin = Origin::start(|seen, reply| match seen.path() {
        "/whole" => drop(reply.ok(&[], "page")),
        _ => drop(reply.raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf").close()),
    });
    let larder = larder(&papers, &origin, "");
    let mut wire = connect(&larder, &papers);
    wire.get("/whole", &["Connection: close"]);
    wire.expect_closed();
    assert!(!wire.tls().wants_read(), "the end was announced");
    let mut wire = connect(&larder, &papers);
    wire.send_get("/half", &["Host: a"]);
    assert!(wire.try_read_for("GET").is_err());
}

#[test]
fn old_versions_are_refused_where_the_configuration_says_so() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = larder(&papers, &origin, "min_version = \"1.3\"");
    let client = papers.client_of(&[&TLS12]);
    let mut old = Wire::connect_tls(larder.face("https"), &client, "127.0.0.1");
    let refused = old.shake_hands().unwrap_err().to_string();
    assert!(refused.contains("ProtocolVersion"), "{refused}");
    connect(&larder, &papers).get("/10", &[]);
    assert_eq!(
        (figure(&larder, "tls_handshakes"), failures(&larder)),
        (1, failed("incompatible", 1))
    );
}

#[test]
fn websockets_pass_through() {
    let papers = Papers::issue();
    let origin = Origin::start(|_, reply| {
        reply.raw(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        );
        let mut stream = reply.take_stream();
        let mut got = [0; 100_000];
        stream.read_exact(&mut got).unwrap();
        got.reverse();
        stream.write_all(&got).unwrap();
    });
    let larder = larder(&papers, &origin, "");
    let mut wire = connect(&larder, &papers);
    let fields = [
        "Host: a",
        "Connection: upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==",
    ];
    wire.send_get("/ws", &fields);
    assert_eq!(wire.read_head().status, 101);
    wire.send(content(100_000));
    let mut back = wire.read_bytes(100_000);
    back.reverse();
    assert!(back == content(100_000));
}

#[test]
fn curl_and_openssl_are_clients() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = larder(&papers, &origin, "");
    let url = format!("https://127.0.0.1:{}/50000", larder.face("https").port());
    let authority = papers.path("authority.pem");
    for version in ["--tlsv1.2", "--tlsv1.3"] {
        let curl = Command::new("curl")
            .args(["--silent", "--show-error", "--cacert", &authority, version, &url, &url])
            .output()
            .unwrap();
        assert!(curl.status.success(), "{}", String::from_utf8_lossy(&curl.stderr));
        assert!(curl.stdout == [content(50_000), content(50_000)].concat());
    }
    let address = larder.face("https").to_string();
    let openssl = Command::new("openssl")
        .args(["s_client", "-connect", &address, "-CAfile", &authority, "-tls1_1"])
        .output()
        .unwrap();
    assert!(!openssl.status.success(), "TLS 1.1 is not spoken");
}

#[test]
fn mistakes_in_the_configuration_are_told() {
    let papers = Papers::issue();
    papers.sign("other", "IP:127.0.0.1");
    let scratch = Scratch::new("mistakes");
    let not = scratch.write("not.pem", "nothing");
    let not = not.display().to_string();
    let (cert, key) = (papers.path("server.pem"), papers.path("server.key"));
    let other = papers.path("other.key");
    let begin = ["serve", "--origin", "http://127.0.0.1:1", "--https"];
    for (flags, told) in [
        (&["127.0.0.1:0", "--cert", &cert, "--key", &other][..], "not the certificate's"),
        (&["127.0.0.1:0", "--cert", &cert], "--cert FILE --key FILE"),
        (&["127.0.0.1:0", "--cert", &not, "--key", &key], "no certificate"),
        (&["127.0.0.1:0", "--cert", &cert, "--key", &not], "no private key"),
        (&["127.0.0.1:0", "--cert", &cert, "--key", "nowhere.key"], "cannot read nowhere.key"),
        (&["0.0.0.0:0"], "there is no certificate"),
    ] {
        let (status, _, stderr) = run(&[&begin, flags].concat());
        assert_eq!(status.code(), Some(2), "{flags:?}: {stderr}");
        assert!(stderr.contains(told), "{flags:?}: {stderr}");
    }
}

#[test]
fn without_a_certificate_there_is_one_for_trying() {
    let origin = origin();
    let url = origin.url();
    let flags = ["--https", "127.0.0.1:0", "--http", "127.0.0.1:0", "--origin", &url];
    let larder = Larder::serve(&flags);
    assert!(larder.stderr().contains("self-signed"), "{}", larder.stderr());
    let url = format!("https://{}/20", larder.face("https"));
    let curl =
        |more: &[&str]| Command::new("curl").arg("-sS").args(more).arg(&url).output().unwrap();
    assert!(!curl(&[]).status.success());
    assert_eq!(curl(&["--insecure"]).stdout, content(20));
}
