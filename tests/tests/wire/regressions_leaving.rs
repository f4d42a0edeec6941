//! Clients that leave, and a server that is told to: nothing stays open for those who are gone,
//! nobody is left waiting.

#![allow(clippy::unwrap_used)]

use larder_tests::wire::WireError;
use larder_tests::{Gate, Larder, Origin, Wire, get, wait_until};

const FRESH: &[&str] = &["Cache-Control: max-age=60"];

/// An origin that answers `/hang...` only when the gate opens, `/page...` at once; one worker
/// before it that has two connections to it.
fn narrow() -> (Origin, Gate, Larder) {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        let known_private = seen.target == "/hang/private" && seen.number == 0;
        if seen.target.starts_with("/hang") && !known_private {
            door.wait();
        }
        let fields: &[&str] =
            if seen.target == "/hang/private" { &["Cache-Control: private"] } else { FRESH };
        reply.ok(fields, "page");
    });
    let text = format!(
        "threads = 1\n[[site]]\norigin = {{ url = \"{}\", max_connections = 2 }}",
        origin.url()
    );
    let larder = Larder::with_config(&text);
    (origin, gate, larder)
}

#[test]
fn who_leaves_while_waiting_for_a_page_frees_the_connection() {
    let (origin, gate, larder) = narrow();
    let before = larder.usage().sockets;
    let mut wires: Vec<Wire> = (0..20).map(|_| larder.connect()).collect();
    for wire in &mut wires {
        wire.send_get("/hang", &["Host: site.test"]);
    }
    origin.wait_for(1);
    wait_until("all to be accepted", || larder.usage().sockets >= before + 20);
    drop(wires);
    // The fetch itself may go on: what it brings is for the store.
    wait_until("their connections to be closed", || larder.usage().sockets <= before + 2);
    gate.open();
}

/// Leaving clients that sent `request` do not keep the origin's connections from others.
fn leaving_frees_the_origin(larder: &Larder, origin: &Origin, request: &str) {
    for _ in 0..10 {
        let reached = origin.count();
        let mut wires: Vec<Wire> = (0..4).map(|_| larder.connect()).collect();
        for wire in &mut wires {
            wire.send(request);
        }
        wait_until("one of them to reach the origin", || origin.count() > reached);
    }
    get(larder.addr(), "/page/after").assert_status(200);
}

#[test]
fn who_leaves_while_a_post_waits_frees_the_origin_too() {
    let (origin, gate, larder) = narrow();
    let post = "POST /hang HTTP/1.1\r\nHost: site.test\r\nContent-Length: 1\r\n\r\nx";
    leaving_frees_the_origin(&larder, &origin, post);
    gate.open();
}

#[test]
fn who_leaves_while_waiting_for_what_is_not_kept_frees_the_origin_too() {
    let (origin, gate, larder) = narrow();
    get(larder.addr(), "/hang/private").assert_status(200);
    leaving_frees_the_origin(
        &larder,
        &origin,
        "GET /hang/private HTTP/1.1\r\nHost: site.test\r\n\r\n",
    );
    gate.open();
}

#[test]
fn who_leaves_while_a_no_store_request_waits_frees_the_origin_too() {
    let (origin, gate, larder) = narrow();
    let request = "GET /hang HTTP/1.1\r\nHost: site.test\r\nCache-Control: no-store\r\n\r\n";
    leaving_frees_the_origin(&larder, &origin, request);
    gate.open();
}

/// An origin whose body is "first ", then "second" and "third!", each when its gate opens.
fn streaming() -> (Origin, [Gate; 2]) {
    let gates = [Gate::closed(), Gate::closed()];
    let doors = gates.clone();
    let origin = Origin::start(move |_, reply| {
        reply.chunked(200, FRESH).chunk("first ");
        doors[0].wait();
        reply.chunk("second");
        doors[1].wait();
        reply.chunk("third!").end();
    });
    (origin, gates)
}

/// A client that has read the first half of the stream.
fn joined(larder: &Larder) -> Wire {
    let mut wire = larder.connect();
    wire.send_get("/", &["Host: site.test"]);
    assert_eq!(wire.read_head().status, 200);
    assert_eq!(wire.read_chunked_bytes(6), b"first ");
    wire
}

/// A follower whose leader is gone, in the middle of the stream, when the server is told to end.
/// Two workers: now and then the follower is not with the one that fetches.
fn follower_at_sigterm(origin: &Origin, gates: &[Gate; 2], drain: &str) -> (Larder, Wire) {
    let text = format!(
        "[http]\nlimits = {{ drain = \"{drain}\" }}\n[[site]]\norigin = \"{}\"",
        origin.url()
    );
    let larder = Larder::with_config(&text);
    let leader = joined(&larder);
    let mut follower = joined(&larder);
    let with_both = larder.usage().sockets;
    drop(leader);
    gates[0].open();
    assert_eq!(follower.read_chunked_bytes(6), b"second");
    wait_until("the leader's connection to be closed", || larder.usage().sockets < with_both);
    larder.term();
    let addr = larder.addr();
    wait_until("the listener to be closed", || std::net::TcpStream::connect(addr).is_err());
    (larder, follower)
}

#[test]
fn a_follower_gets_the_rest_after_sigterm() {
    for _ in 0..10 {
        let (origin, gates) = streaming();
        let (mut larder, mut follower) = follower_at_sigterm(&origin, &gates, "15s");
        gates[1].open();
        assert_eq!(follower.read_chunked_bytes(6), b"third!");
        assert_eq!(follower.read_chunk().unwrap(), None);
        drop(follower);
        assert!(larder.wait_exit().success());
    }
}

#[test]
fn a_follower_is_cut_off_when_the_drain_ends() {
    for _ in 0..10 {
        let (origin, gates) = streaming();
        let (mut larder, mut follower) = follower_at_sigterm(&origin, &gates, "100ms");
        let rest = follower.read_chunk();
        let cut =
            matches!(&rest, Err(WireError::Closed | WireError::Truncated(_) | WireError::Io(_)));
        assert!(cut, "neither the rest nor the end of the connection: {rest:?}");
        larder.wait_exit();
        gates[1].open();
    }
}

#[test]
fn joining_and_leaving_a_long_stream_leaves_nothing_open() {
    let (origin, gates) = streaming();
    let larder = Larder::before(&origin.url());
    let mut leader = joined(&larder);
    let before = larder.usage().sockets;
    for _ in 0..500 {
        drop(joined(&larder));
    }
    wait_until("the followers' connections to be closed", || larder.usage().sockets <= before + 2);
    gates[0].open();
    assert_eq!(leader.read_chunked_bytes(6), b"second");
    assert_eq!(origin.count(), 1);
    gates[1].open();
}

/// A client that leaves in the middle of an upload without a length, of which several pieces wait
/// for the origin: the fetch that it leaves must not send the end of the upload.
#[test]
fn an_upload_that_is_cut_is_not_ended_for_the_origin() {
    const UPLOADS: usize = 100;
    let origin = Origin::start(|_, reply| {
        reply.ok(&["Cache-Control: no-store"], "page");
    });
    let larder = Larder::before(&origin.url());
    let head = "POST /cut HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\n\r\n";
    for _ in 0..UPLOADS {
        // So that there is a connection at hand.
        assert_eq!(larder.connect().get("/warm", &[]).text(), "page");
        larder.connect().send(format!("{head}{}", "1\r\na\r\n".repeat(10)));
    }
    let mut wire = larder.connect();
    wire.send(format!("{head}1\r\na\r\n0\r\n\r\n"));
    assert_eq!(wire.read_for("POST").text(), "page");
    assert_eq!(origin.count_of("/cut"), 1, "of {UPLOADS} that were cut, some were ended");
}
