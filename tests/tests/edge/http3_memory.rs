//! Clients of HTTP/3 that ask for much and take little: they hold what the memory allows, and keep
//! nobody else out.

#![allow(clippy::unwrap_used)]

use larder_tests::h3_client::{Ask, Raw, frame, head};
use larder_tests::{Gate, H3, Larder, Origin, Papers};
use std::sync::Arc;

const KEPT: &str = "Cache-Control: max-age=600";
/// `memory` of the configuration.
const MEMORY: u64 = 16 << 20;
/// Connections, each with as many streams as it may have.
const CROWD: usize = 40;

fn larder(papers: &Papers, origin: &Origin, lines: &str) -> Larder {
    let (cert, key) = (papers.path("server.pem"), papers.path("server.key"));
    Larder::with_config(&format!(
        "memory = \"16MiB\"\nthreads = 1\n[http]\nlisten = \"127.0.0.1:0\"\n{lines}\n[https]\n\
         listen = \"127.0.0.1:0\"\nhttp3 = true\ncertificates = [{{ cert = \"{cert}\", key = \
         \"{key}\" }}]\n[[site]]\norigin = \"{}\"\n",
        origin.url()
    ))
}

fn request(method: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let pseudo =
        [(":method", method), (":scheme", "https"), (":path", "/page"), (":authority", "a")];
    head(&[&pseudo[..], more].concat())
}

fn assert_within_memory(larder: &Larder) {
    let peak = larder.usage().peak_rss;
    assert!(peak < MEMORY + (64 << 20), "{} MiB", peak >> 20);
}

/// Answers whose streams have no window: they are not copied for their clients.
#[test]
fn answers_that_nobody_takes_stay_within_the_memory() {
    let papers = Papers::issue();
    let body = "x".repeat(60_000);
    let origin = Origin::start(move |_, reply| {
        reply.ok(&[KEPT], &body);
    });
    let larder = larder(&papers, &origin, "");
    let addr = larder.face("http3+udp");
    let mut client = H3::connect_with(addr, &papers, &["bare", "max_stream_data=0"]);
    // 40 x 90 x 60,000 bytes: 216 MB.
    let open = client.crowd(CROWD, &vec![Raw::request(request("GET", &[])); 90]);
    assert!(open > 0, "the memory is enough for some");
    let mut other = H3::connect(addr, &papers);
    assert_eq!(other.get("/page").body.len(), 60_000);
    larder.connect().ask("GET", "/page", &["Host: a"]).assert_status(200);
    assert_within_memory(&larder);
}

/// Bodies of which a half has come wait in memory: they are refused, or their client leaves, before
/// they hold more than is configured.
#[test]
fn half_bodies_of_many_streams_stay_within_the_memory() {
    let papers = Papers::issue();
    let origin = Origin::serving(&[KEPT], "page");
    let larder = larder(&papers, &origin, "");
    let addr = larder.face("http3+udp");
    let mut client = H3::connect_with(addr, &papers, &["bare"]);
    let begun = request("POST", &[("content-length", "60000")]);
    let half = [begun, frame(0, &[b'x'; 20_000])].concat();
    // 40 x 90 x 20,000 bytes: 72 MB.
    client.crowd(CROWD, &vec![Raw { end: false, ..Raw::request(half) }; 90]);
    let mut other = H3::connect(addr, &papers);
    assert_eq!(other.get("/page").text(), "page");
    larder.connect().ask("GET", "/page", &["Host: a"]).assert_status(200);
    assert_within_memory(&larder);
    assert_eq!(origin.count(), 2, "the pages of two hosts; no body has reached it");
}

/// Requests that wait take a half of the places at most, however many streams their address opens.
#[test]
fn one_address_that_waits_on_many_streams_keeps_no_other_out() {
    let gate = Arc::new(Gate::closed());
    let wait = gate.clone();
    let papers = Papers::issue();
    let origin = Origin::start(move |seen, reply| {
        if seen.path() != "/quick" {
            wait.wait();
        }
        reply.ok(&["Cache-Control: no-store"], "page");
    });
    let larder = larder(&papers, &origin, "[http.limits]\nconnections = 20\n");
    let addr = larder.face("http3+udp");
    let mut greedy = H3::connect(addr, &papers);
    let waiting: Vec<u64> =
        (0..10).map(|at| greedy.begin(Ask::get(&format!("/slow/{at}")), false)).collect();
    origin.wait_for(10);
    assert_eq!(greedy.get("/quick").status, 503, "its places are taken");
    let mut again = H3::connect(addr, &papers);
    assert_eq!(again.get("/quick").status, 503, "on another connection, too");
    let mut other = H3::connect_with(addr, &papers, &["from=127.0.0.2"]);
    assert_eq!(other.get("/quick").text(), "page");
    gate.open();
    for stream in waiting {
        assert_eq!(greedy.end(stream).unwrap().text(), "page");
    }
    assert_eq!(greedy.get("/quick").text(), "page");
}
