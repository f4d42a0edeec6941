//! HTTP/3 with clients that begin and do not end: heads, bodies, answers that are not taken.

#![allow(clippy::unwrap_used)]

use larder_tests::h3_client::{Ask, Raw, head};
use larder_tests::sized::origin as sized;
use larder_tests::{Admin, Gate, H3, Larder, Origin, Papers, wait_until};
use serde_json::json;
use std::sync::Arc;

/// HTTP/3 before an origin, with these limits.
fn larder(papers: &Papers, origin: &Origin, limits: &str, more: &str) -> Larder {
    let (cert, key) = (papers.path("server.pem"), papers.path("server.key"));
    Larder::with_config(&format!(
        "threads = 1\n[http]\nlisten = \"127.0.0.1:0\"\n[http.limits]\n{limits}\n[admin]\nlisten = \"127.0.0.1:0\"\n[https]\nlisten = \
         \"127.0.0.1:0\"\nhttp3 = true\ncertificates = [{{ cert = \"{cert}\", key = \"{key}\" \
         }}]\n[[site]]\norigin = {{ url = \"{}\"{more} }}\n",
        origin.url()
    ))
}

fn figure(larder: &Larder, what: &str, name: &str) -> u64 {
    Admin::of(larder).json("/api/v1/stats")["http"][what][name].as_u64().unwrap()
}

fn get(path: &str) -> Vec<u8> {
    head(&[(":method", "GET"), (":scheme", "https"), (":path", path), (":authority", "a")])
}

fn cut() -> Raw {
    Raw { bytes: get("/head")[..20].to_vec(), ..Raw::default() }
}

#[test]
fn heads_that_do_not_end_in_time_end_their_streams_alone() {
    let gate = Arc::new(Gate::closed());
    let wait = gate.clone();
    let papers = Papers::issue();
    let origin = Origin::start(move |seen, reply| {
        if seen.path() == "/waits" {
            wait.wait();
        }
        reply.ok(&["Cache-Control: max-age=600"], "x".repeat(100_000));
    });
    let limits = "header_timeout = \"1s\"\nidle_timeout = \"1h\"\nsend_timeout = \"1h\"";
    let larder = larder(&papers, &origin, limits, "");
    let port = larder.face("http3+udp");
    let mut client = H3::bare(port, &papers);
    let alone = client.raw(&[cut()])[0];
    assert_eq!(client.end(alone).unwrap_err(), 0x10c);
    let waits = client.raw(&[Raw::request(get("/waits"))])[0];
    origin.wait_for(1);
    let beside = client.raw(&[cut(), Raw::default()]);
    assert_eq!(client.end(beside[0]).unwrap_err(), 0x10c);
    assert_eq!(figure(&larder, "timeouts", "header"), 2);
    gate.open();
    assert_eq!(client.end(waits).unwrap().body.len(), 100_000, "the connection goes on");
    // The client opens no window: an answer waits for it.
    let mut slow = H3::connect_with(port, &papers, &["bare", "max_data=20000"]);
    slow.tell(&json!({ "do": "stop_windows" }));
    let answers = slow.raw(&[Raw::request(get("/page"))])[0];
    slow.tell(&json!({ "do": "bytes", "stream": answers, "bytes": 0 }));
    let beside = slow.raw(&[cut()])[0];
    assert_eq!(slow.end(beside).unwrap_err(), 0x10c);
    assert_eq!(figure(&larder, "timeouts", "header"), 3);
}

/// The window of one stream stays shut while others go on: its pages are not held for ever.
#[test]
fn a_stream_that_stands_still_is_reset_and_the_others_go_on() {
    let (papers, origin) = (Papers::issue(), sized());
    let larder = larder(&papers, &origin, "send_timeout = \"2s\"", "");
    let options = ["bare", "max_data=20000"];
    let mut client = H3::connect_with(larder.face("http3+udp"), &papers, &options);
    client.tell(&json!({ "do": "stop_windows", "streams": true }));
    let stands = client.raw(&[Raw::request(get("/3000000"))])[0];
    wait_until("it is reset", || {
        let next = client.raw(&[Raw::request(get("/16000"))])[0];
        assert_eq!(client.end(next).unwrap().body.len(), 16_000);
        let told = client.tell(&json!({ "do": "bytes", "stream": stands, "bytes": 0 }));
        told["reset"] == json!(0x10c)
    });
    assert_eq!(figure(&larder, "timeouts", "send"), 1);
    let next = client.raw(&[Raw::request(get("/100"))])[0];
    assert_eq!(client.end(next).unwrap().body.len(), 100);
}

/// An upload that is given up when all of it has come, but not gone to the origin, does not reach
/// it as a shorter one.
#[test]
fn an_upload_that_is_cut_is_not_taken_for_a_whole_one() {
    let gate = Arc::new(Gate::closed());
    let wait = gate.clone();
    let papers = Papers::issue();
    let origin = Origin::start(move |seen, reply| {
        if seen.path() == "/waits" {
            wait.wait();
        }
        reply.ok(&[], "page");
    });
    // Uploads wait for the only connection to the origin.
    let mut larder = larder(&papers, &origin, "", ", max_connections = 1");
    let mut client = H3::connect(larder.face("http3+udp"), &papers);
    let waits = client.begin(Ask::get("/waits"), false);
    origin.wait_for(1);
    let body = [7; 5000];
    let post = Ask { method: "POST", path: "/up", fields: &[], body: Some(&body) };
    let cut: Vec<_> = (0..20).map(|_| client.begin(post, false)).collect();
    for stream in cut {
        client.tell(&json!({ "do": "cancel", "stream": stream }));
    }
    let whole = client.begin(post, false);
    wait_until("they are cut", || {
        let stats = Admin::of(&larder).json("/api/v1/stats");
        stats["http"]["http3_resets"] == json!(20)
    });
    gate.open();
    assert_eq!(client.end(waits).unwrap().text(), "page");
    assert_eq!(client.end(whole).unwrap().text(), "page");
    larder.term();
    assert_eq!(client.closed(), 0x100);
    assert!(larder.wait_exit().success());
    let up = origin.requests().into_iter().filter(|seen| seen.method == "POST");
    let bodies: Vec<_> = up.map(|seen| seen.body.len()).collect();
    assert!(bodies.iter().all(|length| *length == 5000), "{bodies:?}");
}

#[test]
fn a_request_may_wait_for_longer_than_a_connection_may_be_idle() {
    let gate = Arc::new(Gate::closed());
    let wait = gate.clone();
    let papers = Papers::issue();
    let origin = Origin::start(move |_, reply| {
        wait.wait();
        reply.ok(&[], "late");
    });
    let larder = larder(&papers, &origin, "idle_timeout = \"3s\"", "");
    let mut client = H3::connect(larder.face("http3+udp"), &papers);
    let waits = client.begin(Ask::get("/"), false);
    origin.wait_for(1);
    for _ in 0..2 {
        // So long takes a connection that is idle.
        larder.connect().expect_closed();
    }
    gate.open();
    assert_eq!(client.end(waits).unwrap().text(), "late");
}

#[test]
fn connections_of_one_client_are_counted() {
    let (papers, origin) = (Papers::issue(), sized());
    let larder = larder(&papers, &origin, "connections_per_client = 1", "");
    let mut first = H3::connect(larder.face("http3+udp"), &papers);
    let mut second = H3::connect(larder.face("http3+udp"), &papers);
    assert_eq!(second.closed(), 0x107);
    assert_eq!(first.get("/100").body.len(), 100);
}
