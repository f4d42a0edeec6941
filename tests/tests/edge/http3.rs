//! HTTP/3 to clients: the same pages and rules as over HTTP/1 and 2, on streams of QUIC.

#![allow(clippy::unwrap_used)]

use larder_tests::h3_client::{Ask, Raw, head};
use larder_tests::sized::{KEPT, content, origin};
use larder_tests::{
    Admin, Answer, Gate, H2, H3, Larder, Origin, Papers, Scratch, Wire, get_with, wait_until,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

fn config(papers: &Papers, certificate: &str, origin: &str, http: &str) -> String {
    let (cert, key) =
        (papers.path(&format!("{certificate}.pem")), papers.path(&format!("{certificate}.key")));
    format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n{http}\n[admin]\nlisten = \"127.0.0.1:0\"\n[https]\nlisten \
         = \"127.0.0.1:0\"\nhttp3 = true\ncertificates = [{{ cert = \"{cert}\", key = \"{key}\" \
         }}]\n[[site]]\norigin = \"{origin}\"\n"
    )
}

/// HTTP/3 before an origin, with further lines of `[http]`.
fn larder(papers: &Papers, origin: &Origin, http: &str) -> Larder {
    Larder::with_config(&config(papers, "server", &origin.url(), http))
}

fn figure(larder: &Larder, name: &str) -> u64 {
    Admin::of(larder).json("/api/v1/stats")["http"][name].as_u64().unwrap()
}

/// Failed handshakes, whatever the reason.
fn tls_failures(larder: &Larder) -> u64 {
    let reasons = Admin::of(larder).counts("/api/v1/stats", &["http", "tls_failures"]);
    reasons.iter().map(|(_, count)| count).sum()
}

#[test]
fn pages_of_every_size_come_as_they_are() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = larder(&papers, &origin, "");
    let mut client = H3::connect(larder.face("http3+udp"), &papers);
    for len in [0, 1, 4_000, 4_097, 16_384, 26_510, 70_000, 3_000_000] {
        for hit in [false, true] {
            let answer = client.get(&format!("/{len}"));
            assert!(answer.body == content(len), "{len} bytes, {} came", answer.body.len());
            assert_eq!(answer.get("content-length"), Some(len.to_string().as_str()));
            assert_eq!(answer.is_hit(), hit, "{answer:?}");
            assert_eq!((answer.get("connection"), answer.get("alt-svc")), (None, None));
        }
    }
    assert_eq!(origin.count(), 8);
    assert_eq!(figure(&larder, "http3_connections"), 1);
    assert_eq!(figure(&larder, "http3_requests"), 16);
    assert_eq!(larder.face("http3+udp"), larder.face("https"));
}

#[test]
fn requests_are_answered_as_over_http1() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = larder(&papers, &origin, "");
    let mut client = H3::connect(larder.face("http3+udp"), &papers);
    type Asked<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);
    let cases: &[Asked<'_>] = &[
        ("GET", "/5000", &[]),
        ("HEAD", "/5000", &[]),
        ("GET", "/5000", &[("if-none-match", "\"one\"")]),
        ("GET", "/5000", &[("if-none-match", "\"two\"")]),
        ("GET", "/5000", &[("range", "bytes=10-20")]),
        ("GET", "/5000", &[("range", "bytes=10-20,4000-4999")]),
        ("GET", "/5000", &[("range", "bytes=9000-")]),
        ("GET", "/70000", &[("range", "bytes=1-60000")]),
        ("GET", "/5000", &[("cache-control", "only-if-cached")]),
        ("GET", "/absent", &[("cache-control", "only-if-cached")]),
        ("OPTIONS", "/5000", &[]),
    ];
    // The scheme is part of the key.
    let mut wire = Wire::connect_tls(larder.face("https"), &papers.client(), "127.0.0.1");
    let host = format!("Host: 127.0.0.1:{}", larder.face("https").port());
    for path in ["/5000", "/70000"] {
        client.get(path);
    }
    // An error has a reference of its own.
    let plain = |answer: &Answer| match answer.get("larder-reference") {
        Some(reference) => answer.text().replace(reference, "").into_bytes(),
        None => answer.body.clone(),
    };
    // Times and separators of parts differ from one answer to the next.
    let steady = |answer: &Answer| -> BTreeMap<String, String> {
        let fields = answer.fields.0.iter().map(|(n, v)| (n.to_ascii_lowercase(), v.clone()));
        fields
            .filter(|(n, v)| {
                let changes =
                    ["date", "age", "cache-status", "connection", "alt-svc", "larder-reference"];
                !changes.contains(&n.as_str()) && !v.starts_with("multipart/")
            })
            .collect()
    };
    for &(method, path, fields) in cases {
        let answer = client.ask(Ask { method, path, fields, body: None });
        let lines: Vec<String> = fields.iter().map(|(n, v)| format!("{n}: {v}")).collect();
        let mut lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        lines.push(&host);
        let other = wire.ask(method, path, &lines);
        assert_eq!(answer.status, other.status, "{method} {path} {fields:?}");
        assert_eq!(steady(&answer), steady(&other), "{method} {path} {fields:?}");
        if !answer.get("content-type").is_some_and(|kind| kind.starts_with("multipart/")) {
            assert!(plain(&answer) == plain(&other), "{method} {path} {fields:?}");
        }
    }
}

#[test]
fn many_streams_of_one_connection_are_answered_and_fetched_once() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = larder(&papers, &origin, "");
    let mut client = H3::connect(larder.face("http3+udp"), &papers);
    let paths: Vec<String> = (0..100).map(|n| format!("/{}", n % 5 * 9_000)).collect();
    let asks: Vec<Ask<'_>> = paths.iter().map(|path| Ask::get(path)).collect();
    for _ in 0..3 {
        for (ask, answer) in asks.iter().zip(client.all(&asks)) {
            let answer = answer.unwrap();
            assert!(answer.body == content(ask.path[1..].parse().unwrap()), "{}", ask.path);
        }
    }
    assert_eq!(origin.count(), 5);
}

#[test]
fn a_fast_stream_does_not_wait_for_a_slow_one() {
    let gate = Arc::new(Gate::closed());
    let held = gate.clone();
    let papers = Papers::issue();
    let origin = Origin::start(move |seen, reply| {
        if seen.path() == "/slow" {
            held.wait();
        }
        reply.ok(&[KEPT], seen.path());
    });
    let larder = larder(&papers, &origin, "");
    let mut client = H3::connect(larder.face("http3+udp"), &papers);
    let slow = client.begin(Ask::get("/slow"), false);
    assert_eq!(client.get("/fast").text(), "/fast");
    gate.open();
    assert_eq!(client.end(slow).unwrap().text(), "/slow");
}

#[test]
fn bodies_go_up_whole_with_and_without_a_length() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = larder(&papers, &origin, "");
    let mut client = H3::connect(larder.face("http3+udp"), &papers);
    for len in [0, 1, 100, 65_536, 400_000, 2_000_000] {
        let body = content(len);
        let length = len.to_string();
        for fields in [&[("content-length", length.as_str())][..], &[]] {
            let ask = Ask { method: "POST", path: "/up", fields, body: Some(&body) };
            assert!(client.ask(ask).body == body, "{len} bytes with {fields:?}");
        }
    }
    let last = origin.last();
    assert_eq!(
        (last.get("via"), last.get("x-forwarded-proto")),
        (Some("3.0 larder"), Some("https"))
    );
}

#[test]
fn a_body_that_comes_slowly_goes_up_as_it_comes() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = larder(&papers, &origin, "");
    let mut client = H3::connect(larder.face("http3+udp"), &papers);
    let ask = Ask { method: "POST", path: "/up", fields: &[], body: Some(b"one ") };
    let stream = client.begin(ask, true);
    client.send(stream, b"two ", false);
    client.send(stream, b"three", true);
    assert_eq!(client.end(stream).unwrap().text(), "one two three");
}

#[test]
fn trailers_of_an_origin_come_down() {
    let papers = Papers::issue();
    let origin = Origin::start(|_, reply| {
        reply.raw(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n3\r\nabc\r\n0\r\nx-sum: \
             7\r\n\r\n",
        );
    });
    let larder = larder(&papers, &origin, "");
    let answer = H3::connect(larder.face("http3+udp"), &papers).get("/t");
    assert_eq!((answer.text(), answer.trailers.get("x-sum")), ("abc", Some("7")));
}

#[test]
fn a_request_that_is_given_up_ends_and_no_other() {
    let gate = Arc::new(Gate::closed());
    let held = gate.clone();
    let papers = Papers::issue();
    let origin = Origin::start(move |seen, reply| {
        if seen.path() == "/slow" {
            held.wait();
        }
        reply.ok(&[], seen.path());
    });
    let larder = larder(&papers, &origin, "");
    let mut client = H3::connect(larder.face("http3+udp"), &papers);
    let slow = client.begin(Ask::get("/slow"), false);
    origin.wait_for(1);
    client.tell(&json!({ "do": "cancel", "stream": slow }));
    wait_until("the reset counts", || figure(&larder, "http3_resets") == 1);
    assert_eq!(client.get("/other").text(), "/other");
    gate.open();
}

#[test]
fn an_answer_that_the_origin_cuts_is_reset_and_not_kept() {
    let papers = Papers::issue();
    let origin = Origin::start(|_, reply| {
        reply.head(200, &[KEPT, "Content-Length: 100000"]).raw(content(50_000)).close();
    });
    let larder = larder(&papers, &origin, "");
    let mut client = H3::connect(larder.face("http3+udp"), &papers);
    for _ in 0..2 {
        assert_eq!(client.all(&[Ask::get("/cut")]).remove(0).unwrap_err(), 0x102);
    }
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_client_that_takes_little_is_sent_little_and_dropped_in_the_end() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = larder(&papers, &origin, "[http.limits]\nsend_timeout = \"1s\"");
    let mut client =
        H3::connect_with(larder.face("http3+udp"), &papers, &["bare", "max_data=20000"]);
    assert!(client.refused.is_none());
    // It opens no window beyond what it said at first.
    client.tell(&json!({ "do": "stop_windows" }));
    let fields = [(":method", "GET"), (":scheme", "https"), (":path", "/3000000"), ("host", "a")];
    client.raw(&[Raw::request(head(&fields))]);
    wait_until("it is dropped", || figure_of_timeouts(&larder) == 1);
}

fn figure_of_timeouts(larder: &Larder) -> u64 {
    Admin::of(larder).json("/api/v1/stats")["http"]["timeouts"]["send"].as_u64().unwrap()
}

#[test]
fn alternatives_are_announced_over_tls_alone() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = larder(&papers, &origin, "");
    let expected = format!("h3=\":{}\"; ma=86400", larder.face("http3+udp").port());
    let https = larder.face("https");
    let h2 = H2::connect_tls(https, &papers.client(), "127.0.0.1");
    let mut h1 = Wire::connect_tls(https, &papers.client(), "127.0.0.1");
    for _ in 0..2 {
        assert_eq!(h2.get("/100").get("alt-svc"), Some(expected.as_str()));
        assert_eq!(h1.get("/100", &[]).get("alt-svc"), Some(expected.as_str()));
    }
    assert_eq!(get_with(larder.addr(), "/100", &[]).get("alt-svc"), None);
}

#[test]
fn a_websocket_takes_a_stream_of_its_own() {
    let papers = Papers::issue();
    let origin = Origin::start(|seen, reply| {
        assert_eq!(seen.get("upgrade"), Some("websocket"));
        reply.raw(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        );
        let mut stream = reply.take_stream();
        let mut copy = stream.try_clone().unwrap();
        let _ = std::io::copy(&mut stream, &mut copy);
    });
    let larder = larder(&papers, &origin, "");
    let mut client = H3::connect(larder.face("http3+udp"), &papers);
    let stream = client.open("websocket", "/chat");
    client.send(stream, b"hello", false);
    let told = client.tell(&json!({ "do": "bytes", "stream": stream, "bytes": 5 }));
    assert_eq!((told["status"].as_u64(), told["body"].as_str()), (Some(200), Some("aGVsbG8=")));
    client.send(stream, b"", true);
    assert_eq!(client.end(stream).unwrap().text(), "hello");
}

#[test]
fn a_stop_finishes_open_requests_and_tells_the_client() {
    let gate = Arc::new(Gate::closed());
    let held = gate.clone();
    let papers = Papers::issue();
    let origin = Origin::start(move |_, reply| {
        held.wait();
        reply.ok(&[KEPT], "late");
    });
    let mut larder = larder(&papers, &origin, "");
    let mut client = H3::connect(larder.face("http3+udp"), &papers);
    let stream = client.begin(Ask::get("/late"), false);
    origin.wait_for(1);
    larder.term();
    let told = client.tell(&json!({ "do": "goaway", "count": 2 }));
    assert_eq!(told["goaways"], json!([(1_u64 << 62) - 4, stream + 4]));
    assert_eq!(client.all(&[Ask::get("/later")]).remove(0).unwrap_err(), 0x10b);
    gate.open();
    assert_eq!(client.end(stream).unwrap().text(), "late");
    assert_eq!(client.closed(), 0x100);
    assert!(larder.wait_exit().success());
}

#[test]
fn a_client_may_move_to_another_address_and_worker() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = Larder::with_config(&format!(
        "threads = 4\n{}",
        config(&papers, "server", &origin.url(), "")
    ));
    let mut client = H3::connect(larder.face("http3+udp"), &papers);
    client.get("/1000");
    // The system chooses a worker by the address: with several, some are another.
    for step in 0..8 {
        client.tell(&json!({ "do": "migrate", "ids": step % 2 == 0 }));
        assert!(client.get("/26510").body == content(26_510));
    }
    assert_eq!(figure(&larder, "http3_connections"), 1);
}

#[test]
fn a_client_comes_back_with_a_ticket_and_certificates_are_read_again() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = larder(&papers, &origin, "");
    let mut client = H3::connect(larder.face("http3+udp"), &papers);
    client.get("/1000");
    let told = client.tell(&json!({ "do": "reconnect" }));
    assert_eq!((told["closed"].as_u64(), told["resumed"].as_bool()), (None, Some(true)));
    assert!(client.get("/1000").is_hit());
    // One that this client does not accept: the name is another.
    papers.sign("other", "IP:127.0.0.2");
    larder.rewrite_config(&config(&papers, "other", &origin.url(), ""));
    larder.hup();
    wait_until("the new certificate is shown", || {
        H3::connect(larder.face("http3+udp"), &papers).refused.is_some()
    });
    assert!(client.get("/1000").is_hit(), "connections stay");
}

#[test]
fn hits_are_logged_with_their_protocol() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder =
        larder(&papers, &origin, "access_log = { path = \"@DIR@/log\", format = \"combined\" }");
    let mut client = H3::connect(larder.face("http3+udp"), &papers);
    client.get("/1000");
    client.get("/1000");
    let log = larder.dir().join("log");
    let lines = || std::fs::read_to_string(&log).unwrap_or_default();
    wait_until("both are logged", || lines().lines().count() == 2);
    assert!(lines().lines().all(|line| line.contains("HTTP/3.0")), "{}", lines());
}

#[test]
fn http3_is_spoken_where_it_is_on_and_by_its_name() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = larder(&papers, &origin, "");
    let client = H3::connect_with(larder.face("http3+udp"), &papers, &["alpn=hq-interop"]);
    // No protocol in common: alert 120.
    assert_eq!(client.refused, Some(0x178));
    wait_until("it counts as failed", || tls_failures(&larder) == 1);
}

#[test]
fn clients_prove_their_address_while_many_handshakes_are_under_way() {
    let (papers, origin) = (Papers::issue(), origin());
    let text = format!("threads = 1\n{}", config(&papers, "server", &origin.url(), ""));
    let larder = Larder::with_config(&text);
    let mut client = H3::connect(larder.face("http3+udp"), &papers);
    assert_eq!(client.tell(&json!({ "do": "state" }))["retried"], json!(false));
    client.tell(&json!({ "do": "half", "count": 100 }));
    let mut late = H3::connect(larder.face("http3+udp"), &papers);
    assert_eq!(late.tell(&json!({ "do": "state" }))["retried"], json!(true));
    assert_eq!(late.get("/100").body, content(100));
    assert_eq!(client.get("/100").body, content(100));
}

/// ngtcp2's client: another implementation of all layers, which loses packets and takes little at a
/// time.
#[test]
fn clients_of_others_are_served() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = larder(&papers, &origin, "");
    let port = larder.face("http3+udp").port().to_string();
    for options in [
        &[][..],
        &["--tx-loss=0.05", "--rx-loss=0.05"],
        &["--max-data=16384", "--max-stream-data-bidi-local=16384", "--max-window=65536"],
    ] {
        let scratch = Scratch::new("gtlsclient");
        let download = format!("--download={}", scratch.path().display());
        let mut command = Command::new("gtlsclient");
        command.args(["--exit-on-all-streams-close", "--quiet", &download]).args(options);
        command.args(["127.0.0.1", &port]);
        for len in [100, 26_510, 3_000_000] {
            command.arg(format!("https://127.0.0.1:{port}/{len}"));
        }
        let done = command.output().expect("gtlsclient: scripts/test-deps.sh installs it");
        for len in [100, 26_510, 3_000_000] {
            let got = std::fs::read(scratch.file(&len.to_string())).unwrap_or_default();
            let said = String::from_utf8_lossy(&done.stderr);
            assert!(
                got == content(len),
                "{len} bytes with {options:?}: {} came; {said}",
                got.len()
            );
        }
    }
}
