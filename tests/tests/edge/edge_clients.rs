//! Clients of others over HTTP/1, 2 and 3 with TLS: Go's `net/http` and quic-go, Python's httpx, and
//! Chromium. (`http2.rs` has curl and nghttp2, `http3.rs` ngtcp2 and aioquic.) testssl.sh looks for
//! weaknesses.

#![allow(clippy::unwrap_used)]

use larder_tests::helper::source_root;
use larder_tests::sized::{content, origin};
use larder_tests::{Admin, Larder, Papers, wait_until};
use serde_json::{Value, json};
use std::process::Command;

const LENGTHS: [usize; 4] = [0, 1_000, 26_510, 3_000_000];

fn larder(papers: &Papers, origin: &str) -> Larder {
    let site = format!("[[site]]\norigin = \"{origin}\"");
    Larder::with_config(&papers.config("server", "http3 = true", &site))
}

fn figure(larder: &Larder, name: &str) -> u64 {
    Admin::of(larder).json("/api/v1/stats")["http"][name].as_u64().unwrap()
}

#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}; scripts/test-deps.sh installs it"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// The client fetches a page of each length, twice; all come whole by `protocol`.
#[track_caller]
fn fetches(larder: &Larder, client: &mut Command, protocol: &str) {
    let addr = larder.face("https");
    client.args(LENGTHS.map(|length| format!("https://{addr}/{length}")));
    let told = run(client);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 2 * LENGTHS.len(), "{told}");
    for (at, line) in lines.iter().enumerate() {
        let length = LENGTHS[at % LENGTHS.len()];
        let sum = crc32fast::hash(&content(length));
        let begins = format!("{protocol} 200 {length} {sum:08x} ");
        assert!(line.starts_with(&begins), "{line}, expected {begins}");
        assert!(at < LENGTHS.len() || line.ends_with(" hit"), "{line}");
    }
}

#[test]
fn go_programs_are_served_over_all_protocols() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = larder(&papers, &origin.url());
    for (number, protocol) in [("1", "HTTP/1.1"), ("2", "HTTP/2.0"), ("3", "HTTP/3.0")] {
        let mut client = Command::new(source_root().join("tests/.cache/go/bin/clients"));
        client.args([number, &papers.path("authority.pem")]);
        fetches(&larder, &mut client, protocol);
    }
    // `net/http` begins a connection for each request before it knows that one is enough.
    assert_eq!(figure(&larder, "http2_requests"), 8);
    assert_eq!(figure(&larder, "http3_connections"), 1);
    assert_eq!(figure(&larder, "http3_requests"), 8);
    assert_eq!(origin.count(), LENGTHS.len());
    wait_until("all are timed", || {
        let stats = Admin::of(&larder).json("/api/v1/stats");
        let of = |protocol: &Value, from: &str| protocol["latency"][from]["count"].as_u64();
        let protocols = stats["http"]["protocols"].as_array().unwrap();
        let timed: Vec<_> = protocols.iter().map(|one| (of(one, "hit"), of(one, "miss"))).collect();
        timed == [(Some(4), Some(4)), (Some(8), Some(0)), (Some(8), Some(0))]
    });
}

#[test]
fn httpx_is_served_over_http2() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = larder(&papers, &origin.url());
    let mut client = Command::new("/usr/bin/python3");
    client.env("PYTHONPATH", source_root().join("tests/.cache/http2"));
    client.arg(source_root().join("tests/clients/httpx_all.py"));
    client.arg(papers.path("authority.pem"));
    fetches(&larder, &mut client, "HTTP/2");
    assert_eq!(figure(&larder, "http2_connections"), 1);
}

#[test]
fn chromium_is_served_over_http2_and_http3() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = larder(&papers, &origin.url());
    let addr = larder.face("https");
    let script = "openssl x509 -noout -pubkey -in \"$1\" | openssl pkey -pubin -outform DER | \
                  openssl dgst -sha256 -binary | openssl base64";
    let spki = run(Command::new("sh").args(["-c", script, "sh", &papers.path("server.pem")]));
    for (quic, protocol) in [(None, "h2"), (Some(addr.to_string()), "h3")] {
        let mut client = Command::new("node");
        client.arg(source_root().join("tests/dashboard/protocol.mjs"));
        client.args([&format!("https://{addr}/told"), spki.trim()]).args(quic);
        let seen: Value = serde_json::from_str(&run(&mut client)).unwrap();
        // The page, what its script fetches, and an icon.
        let protocols = seen["protocols"].as_array().unwrap();
        assert!(protocols.len() >= 2 && protocols.iter().all(|it| it == protocol), "{seen}");
        assert!(seen["text"].as_str().unwrap().contains("Chrome"), "{seen}");
        assert_eq!(seen["length"], json!(70_000), "{seen}");
    }
    assert!(figure(&larder, "http3_requests") >= 2);
}

#[test]
fn testssl_finds_no_weakness() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = larder(&papers, &origin.url());
    let report = papers.file("testssl.json");
    let addr = larder.face("https");
    let looks = ["--protocols", "--std", "--pfs", "--server-preference", "--vulnerable"];
    run(Command::new("testssl")
        .args(["--quiet", "--color", "0", "--warnings", "off", "--ip", "one", "--jsonfile"])
        .arg(&report)
        .args(looks)
        .arg(format!("https://{addr}")));
    let found: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    let found = found.as_array().unwrap();
    let of = |finding: &Value, name: &str| finding[name].as_str().unwrap().to_owned();
    // It complains of an openssl without GOST of its own.
    let weak = |finding: &&Value| {
        !["OK", "INFO"].contains(&&*of(finding, "severity"))
            && of(finding, "id") != "engine_problem"
    };
    assert_eq!(found.iter().filter(weak).collect::<Vec<_>>(), Vec::<&Value>::new());
    let is_there = |id: &str, text: &str| {
        found.iter().any(|finding| of(finding, "id") == id && of(finding, "finding").contains(text))
    };
    assert!(is_there("TLS1_3", "offered") && is_there("TLS1_2", "offered"), "{found:?}");
    assert!(is_there("heartbleed", "not vulnerable") && is_there("SSLv3", "not offered"));
}
