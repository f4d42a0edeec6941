//! HTTP/2 with clients that begin and do not end: heads, bodies, answers that are not taken.

#![allow(clippy::unwrap_used)]

use larder_tests::h2_raw::{Raw, frame, request};
use larder_tests::sized::origin as sized;
use larder_tests::{Admin, Gate, H2, Larder, Origin, wait_until};
use std::sync::Arc;

/// HTTP/2 without TLS before an origin, with these limits. No connection ends because it is idle.
fn larder(origin: &Origin, limits: &str, more: &str) -> Larder {
    Larder::with_config(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\nh2c = true\n[http.limits]\nidle_timeout = \
         \"1h\"\n{limits}\n[admin]\nlisten = \"127.0.0.1:0\"\n[[site]]\norigin = {{ url = \
         \"{}\"{more} }}\n",
        origin.url()
    ))
}

fn timeouts(larder: &Larder, phase: &str) -> u64 {
    Admin::of(larder).json("/api/v1/stats")["http"]["timeouts"][phase].as_u64().unwrap()
}

fn get(path: &str) -> [(&str, &str); 4] {
    [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", path)]
}

/// HEADERS of a request without END_HEADERS.
fn begun(stream: u32) -> Vec<u8> {
    let mut head = request(stream, &get("/head"));
    head[4] = 1;
    head
}

#[test]
fn heads_that_do_not_end_in_time_end_their_connection() {
    let gate = Arc::new(Gate::closed());
    let wait = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        if seen.path() == "/waits" {
            wait.wait();
        }
        reply.ok(&["Cache-Control: max-age=600"], "x".repeat(100_000));
    });
    let larder = larder(&origin, "header_timeout = \"1s\"\nsend_timeout = \"1h\"", "");
    let whole = H2::connect(larder.addr());
    let waits = whole.begin("GET", "/waits", &[], true);
    origin.wait_for(1);
    let cut = &request(5, &get("/head"))[..20];
    let waiting = request(1, &get("/waits"));
    // The client opens no window: the answer waits for it.
    let untaken = [frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]), request(1, &get("/page"))].concat();
    let cases: [(&str, Vec<u8>); 6] = [
        ("a block, alone", begun(5)),
        ("a frame, alone", cut.to_vec()),
        ("a block beside a request that waits", [&waiting[..], &begun(5)].concat()),
        ("a frame beside a request that waits", [&waiting[..], cut].concat()),
        ("a block beside an answer that waits", [&untaken[..], &begun(5)].concat()),
        ("a block of several frames", [begun(5), frame(9, 0, 5, b"\x82")].concat()),
    ];
    for (number, (what, bytes)) in cases.iter().enumerate() {
        let mut raw = Raw::connect(larder.addr());
        raw.send(std::slice::from_ref(bytes));
        let (goaways, _) = raw.ends();
        assert!(goaways.contains(&0), "{what}: {goaways:?}");
        assert_eq!(timeouts(&larder, "header"), number as u64 + 1, "{what}");
    }
    // A byte now and then does not buy more time, and neither do other frames before it.
    let mut raw = Raw::connect(larder.addr());
    let long = frame(1, 5, 5, &[0; 16_000]);
    raw.send(&[waiting, frame(6, 0, 0, b"12345678"), long[..9].to_vec()]);
    wait_until("the connection to be ended", || {
        raw.send(&[vec![0]]);
        timeouts(&larder, "header") == cases.len() as u64 + 1
    });
    gate.open();
    assert_eq!(whole.end(waits).unwrap().body.len(), 100_000, "a request that is whole may wait");
}

/// The windows of one stream stay shut while others go on: its pages are not held for ever.
#[test]
fn a_stream_that_stands_still_is_reset_and_the_others_go_on() {
    let origin = sized();
    let larder = larder(&origin, "send_timeout = \"2s\"", "");
    let mut raw = Raw::connect(larder.addr());
    raw.send(&[request(1, &get("/3000000"))]);
    let mut next = 3;
    let reset = loop {
        // The window of the connection opens by no more than a page: it may not reach 2 GiB.
        raw.send(&[frame(8, 0, 0, &26_510_u32.to_be_bytes()), request(next, &get("/26510"))]);
        // DATA with END_STREAM, or the reset.
        let is_end = |kind, flags, stream| kind == 0 && flags & 1 == 1 && stream == next;
        let seen = raw.find(|seen| seen.kind == 3 || is_end(seen.kind, seen.flags, seen.stream));
        let seen = seen.expect("the connection goes on");
        if seen.kind == 3 {
            break seen;
        }
        next += 2;
    };
    assert_eq!((reset.stream, reset.code()), (1, 8), "CANCEL");
    assert_eq!(timeouts(&larder, "send"), 1);
    let last = next + 2;
    raw.send(&[frame(8, 0, 0, &60_000_u32.to_be_bytes()), request(last, &get("/100"))]);
    assert!(raw.find(|seen| seen.kind == 0 && seen.stream == last).is_some());
}

/// An upload that is reset when all of it has come, but not gone to the origin, reaches it as one
/// that is cut, not as a shorter one.
#[test]
fn an_upload_that_is_cut_is_not_taken_for_a_whole_one() {
    let gate = Arc::new(Gate::closed());
    let wait = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        if seen.path() == "/waits" {
            wait.wait();
        }
        reply.ok(&[], "page");
    });
    let mut larder = larder(&origin, "", "");
    let post = |stream| {
        let pseudo = [(":method", "POST"), (":scheme", "http"), (":authority", "a")];
        let mut head = request(stream, &[&pseudo[..], &[(":path", "/up")]].concat());
        head[4] = 4;
        [head, frame(0, 1, stream, &[7; 5000])].concat()
    };
    let cancel = |stream| frame(3, 0, stream, &8_u32.to_be_bytes());
    let mut raw = Raw::connect(larder.addr());
    for n in 0..20 {
        raw.send(&[post(2 * n + 1), cancel(2 * n + 1)]);
    }
    // Those that are left alone come whole.
    raw.send(&[post(101)]);
    assert!(raw.find(|seen| seen.kind == 0 && seen.stream == 101).is_some());
    gate.open();
    drop(raw);
    larder.term();
    assert!(larder.wait_exit().success());
    let bodies: Vec<_> = origin.requests().iter().map(|seen| seen.body.len()).collect();
    assert!(bodies.iter().all(|length| *length == 5000), "{bodies:?}");
}
