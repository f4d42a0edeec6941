//! One fetch however many wait; everybody follows it as it streams; nothing private is shared.

#![allow(clippy::unwrap_used)]

use larder_tests::{Gate, Larder, Origin, Reply, Seen, Wire, wait_until};
use std::collections::BTreeSet;

const FRESH: &[&str] = &["Cache-Control: max-age=60"];

/// An origin whose `/warm` is a page at once; all else is up to `script`, which has a gate to wait
/// at.
fn gated(script: impl Fn(&Seen, &mut Reply, &Gate) + Send + Sync + 'static) -> (Origin, Gate) {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        if seen.target == "/warm" {
            reply.ok(FRESH, "warm");
        } else {
            script(seen, reply, &door);
        }
    });
    (origin, gate)
}

/// Connects `count` clients that all wait for `/cold`. Each asks for `/warm`, a hit, in the same
/// packet: its answer tells that Larder has read the request for `/cold` too.
fn waiting(larder: &Larder, count: usize) -> Vec<Wire> {
    larder.connect().get("/warm", &[]);
    let ask = "GET /warm HTTP/1.1\r\nHost: site.test\r\n\r\nGET /cold HTTP/1.1\r\nHost: \
               site.test\r\n\r\n";
    let mut wires: Vec<Wire> = (0..count).map(|_| larder.connect()).collect();
    for wire in &mut wires {
        wire.send(ask);
    }
    for wire in &mut wires {
        wire.read().assert_hit();
    }
    wires
}

fn threads(threads: usize, origin: &Origin) -> Larder {
    Larder::serve(&[
        "--http",
        "127.0.0.1:0",
        "--threads",
        &threads.to_string(),
        "--origin",
        &origin.url(),
    ])
}

/// Fifty clients on a cold page make one request, whatever the number of worker threads.
fn one_request_for_fifty(workers: usize) {
    let (origin, gate) = gated(|seen, reply, door| {
        door.wait();
        reply.ok(FRESH, format!("{} {}", seen.target, seen.number));
    });
    let larder = threads(workers, &origin);
    let mut wires = waiting(&larder, 50);
    gate.open();
    let answers: Vec<_> = wires.iter_mut().map(Wire::read).collect();
    assert!(answers.iter().all(|a| a.status == 200 && a.text() == "/cold 1"), "{answers:?}");
    assert_eq!(origin.count_of("/cold"), 1);
    let collapsed = answers.iter().filter(|a| a.cache_status_has("collapsed")).count();
    assert!(collapsed >= 40, "only {collapsed} of 50 waited for the fetch of another");
}

#[test]
fn fifty_clients_make_one_request_on_one_thread() {
    one_request_for_fifty(1);
}

#[test]
fn fifty_clients_make_one_request_across_threads() {
    one_request_for_fifty(4);
}

#[test]
fn followers_get_bytes_before_the_origin_has_finished() {
    let (origin, gate) = gated(|_, reply, door| {
        reply.chunked(200, FRESH).chunk("first ");
        door.wait();
        reply.chunk("second").end();
    });
    let larder = threads(2, &origin);
    let mut wires = waiting(&larder, 8);
    for wire in &mut wires {
        assert_eq!(wire.read_head().status, 200);
        assert_eq!(wire.read_chunked_bytes(6), b"first ");
    }
    // One who comes in the middle of it gets what was there, at once.
    let mut late = larder.connect();
    late.send_get("/cold", &["Host: site.test"]);
    assert_eq!(late.read_head().status, 200);
    assert_eq!(late.read_chunked_bytes(6), b"first ");
    gate.open();
    for wire in wires.iter_mut().chain([&mut late]) {
        assert_eq!(wire.read_chunked_bytes(6), b"second");
        assert_eq!(wire.read_chunk().unwrap(), None);
    }
    assert_eq!(origin.count_of("/cold"), 1);
    larder.connect().get("/cold", &[]).assert_hit();
}

#[test]
fn a_large_body_reaches_all_followers_whole() {
    let body: String = (0..300_000).map(|n| format!("{n:09}\n")).collect();
    let sent = body.clone();
    let (origin, gate) = gated(move |_, reply, door| {
        let (first, second) = sent.split_at(1_000_000);
        reply
            .head(200, &["Cache-Control: max-age=60", &format!("Content-Length: {}", sent.len())])
            .raw(first);
        door.wait();
        reply.raw(second);
    });
    let larder = threads(2, &origin);
    let mut wires = waiting(&larder, 10);
    gate.open();
    for wire in &mut wires {
        assert!(wire.read().body == body.as_bytes(), "a follower got other bytes");
    }
    assert_eq!(origin.count_of("/cold"), 1);
}

/// An answer for one person must never reach another who waited for the same URL.
fn not_shared(fields: &'static [&'static str]) {
    let (origin, gate) = gated(move |seen, reply, door| {
        door.wait();
        reply.ok(fields, format!("for request {}", seen.number));
    });
    let larder = threads(2, &origin);
    let mut wires = waiting(&larder, 10);
    gate.open();
    let bodies: BTreeSet<String> =
        wires.iter_mut().map(|wire| wire.read().text().to_owned()).collect();
    assert_eq!(bodies.len(), 10, "an answer was shared: {bodies:?}");
    assert_eq!(origin.count_of("/cold"), 10);
}

#[test]
fn a_private_answer_is_given_to_nobody_who_waited() {
    not_shared(&["Cache-Control: private"]);
}

#[test]
fn an_answer_with_a_cookie_is_given_to_nobody_who_waited() {
    not_shared(&["Cache-Control: max-age=60", "Set-Cookie: session=secret"]);
}

#[test]
fn an_answer_that_says_no_store_is_given_to_nobody_who_waited() {
    not_shared(&["Cache-Control: no-store"]);
}

/// Hit-for-miss: once a URL is known to be uncacheable, its requests do not wait for each other.
#[test]
fn requests_for_what_is_uncacheable_do_not_queue() {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        if seen.number > 0 {
            door.wait();
        }
        reply.ok(&["Cache-Control: private"], "mine");
    });
    let larder = threads(2, &origin);
    larder.connect().get("/", &[]).assert_status(200);
    let mut wires: Vec<Wire> = (0..8).map(|_| larder.connect()).collect();
    for wire in &mut wires {
        wire.send_get("/", &["Host: site.test"]);
    }
    // All eight are at the origin while none is answered: they were not serialised.
    origin.wait_for(9);
    gate.open();
    for wire in &mut wires {
        assert_eq!(wire.read().text(), "mine");
    }
}

#[test]
fn a_page_that_becomes_cacheable_is_kept_again() {
    let origin = Origin::start(|seen, reply| {
        let fields =
            if seen.number == 0 { "Cache-Control: private" } else { "Cache-Control: max-age=60" };
        reply.ok(&[fields], "page");
    });
    let larder = threads(1, &origin);
    let mut wire = larder.connect();
    wire.get("/", &[]);
    wire.get("/", &[]).assert_forwarded();
    wire.get("/", &[]).assert_hit();
}

#[test]
fn a_leader_that_leaves_does_not_abort_what_others_wait_for() {
    let (origin, gate) = gated(|_, reply, door| {
        door.wait();
        reply.ok(FRESH, "page");
    });
    let larder = threads(2, &origin);
    let mut leader = larder.connect();
    leader.send_get("/cold", &["Host: site.test"]);
    origin.wait_for(1);
    let mut wires = waiting(&larder, 5);
    drop(leader);
    larder.connect().get("/warm", &[]).assert_hit();
    gate.open();
    for wire in &mut wires {
        assert_eq!(wire.read().text(), "page");
    }
    assert_eq!(origin.count_of("/cold"), 1);
}

#[test]
fn a_leader_that_leaves_in_the_middle_of_the_body_does_not_cut_it_for_others() {
    let (origin, gate) = gated(|_, reply, door| {
        reply.chunked(200, FRESH).chunk("first ");
        door.wait();
        reply.chunk("second").end();
    });
    let larder = threads(2, &origin);
    let mut leader = larder.connect();
    leader.send_get("/cold", &["Host: site.test"]);
    leader.read_head();
    assert_eq!(leader.read_chunked_bytes(6), b"first ");
    let mut wires = waiting(&larder, 3);
    drop(leader);
    gate.open();
    for wire in &mut wires {
        assert_eq!(wire.read().text(), "first second");
    }
    assert_eq!(origin.count_of("/cold"), 1);
}

#[test]
fn a_slow_follower_holds_nobody_up() {
    let body = "x".repeat(8_000_000);
    let sent = body.clone();
    let (origin, gate) = gated(move |_, reply, door| {
        door.wait();
        reply.ok(FRESH, &sent);
    });
    let larder = threads(1, &origin);
    let mut wires = waiting(&larder, 3);
    gate.open();
    // The first one, whose fetch it is, reads nothing; the others finish all the same.
    for wire in &mut wires[1..] {
        assert!(wire.read().body == body.as_bytes());
    }
    assert!(wires[0].read().body == body.as_bytes());
    assert_eq!(origin.count_of("/cold"), 1);
}

#[test]
fn a_failed_fetch_leaves_nobody_waiting() {
    let (origin, gate) = gated(|_, reply, door| {
        door.wait();
        reply.close();
    });
    let larder = threads(2, &origin);
    let mut wires = waiting(&larder, 10);
    gate.open();
    for wire in &mut wires {
        assert_eq!(wire.read().status, 502);
    }
    larder.connect().get("/warm", &[]).assert_hit();
}

#[test]
fn a_truncated_answer_is_cut_for_all_and_kept_for_none() {
    let (origin, gate) = gated(|seen, reply, door| {
        if seen.number <= 1 {
            door.wait();
            reply
                .head(200, &["Cache-Control: max-age=60", "Content-Length: 1000"])
                .raw("too short")
                .close();
        } else {
            reply.ok(FRESH, "whole");
        }
    });
    let larder = threads(2, &origin);
    let mut wires = waiting(&larder, 5);
    gate.open();
    for wire in &mut wires {
        // Cut off, an error, or asked again and whole: anything but the short body as a complete
        // answer.
        if let Ok(answer) = wire.try_read_for("GET") {
            assert!(
                answer.status == 502 || answer.text() == "whole",
                "a truncated answer looked whole: {answer:?}"
            );
        }
    }
    assert_eq!(larder.connect().get("/cold", &[]).text(), "whole");
}

#[test]
fn followers_of_another_variant_get_their_own() {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        let language = seen.get("accept-language").unwrap_or("none").to_owned();
        if language == "de" {
            door.wait();
        }
        reply.ok(&["Cache-Control: max-age=60", "Vary: Accept-Language"], language);
    });
    let larder = threads(2, &origin);
    let mut german = larder.connect();
    german.send_get("/", &["Host: site.test", "Accept-Language: de"]);
    origin.wait_for(1);
    let mut french = larder.connect();
    french.send_get("/", &["Host: site.test", "Accept-Language: fr"]);
    gate.open();
    assert_eq!(german.read().text(), "de");
    assert_eq!(french.read().text(), "fr");
    let again = larder.connect().get("/", &["Accept-Language: fr"]);
    assert_eq!(again.assert_hit().text(), "fr");
}

#[test]
fn a_fetch_nobody_waits_for_any_more_leaves_nothing_open() {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |_, reply| {
        door.wait();
        reply.ok(FRESH, "page");
    });
    let larder = threads(1, &origin);
    let before = larder.usage().sockets;
    for n in 0..5 {
        let mut wire = larder.connect();
        wire.send_get(&format!("/{n}"), &["Host: site.test"]);
        origin.wait_for(n + 1);
    }
    gate.open();
    // What remains are idle connections to the origin, at most one per fetch.
    wait_until("the clients' connections to be closed", || larder.usage().sockets <= before + 5);
    assert_eq!(larder.connect().get("/0", &[]).text(), "page");
}
