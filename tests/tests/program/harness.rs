//! The harness itself: it must notice what it is there to notice.

#![allow(clippy::unwrap_used)]

use larder_tests::wire::WireError;
use larder_tests::{Answer, Origin, Wire};
use std::io::{Read, Write};

/// What the client makes of these bytes, sent by a server that then closes.
fn reading(method: &str, bytes: &'static [u8]) -> Result<Answer, WireError> {
    let server = Origin::raw(move |mut stream, _| {
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(bytes);
    });
    Wire::connect(server.addr()).send_get("/", &["Host: a"]).try_read_for(method)
}

#[test]
fn ambiguous_framing_is_noticed() {
    for bytes in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nBad Name: x\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\nY: b\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\nx\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n0\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 200\r\n\r\n",
    ] {
        let result = reading("GET", bytes);
        assert!(
            matches!(result, Err(WireError::Malformed(_))),
            "{:?} for {:?}",
            result,
            String::from_utf8_lossy(bytes)
        );
    }
}

#[test]
fn truncation_is_noticed() {
    for bytes in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n0\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Le",
    ] {
        let result = reading("GET", bytes);
        assert!(matches!(result, Err(WireError::Truncated(_) | WireError::Closed)), "{result:?}");
    }
    assert!(matches!(reading("GET", b""), Err(WireError::Closed)));
}

#[test]
fn a_body_after_head_is_the_next_answer() {
    let server = Origin::raw(|mut stream, _| {
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbodyHTTP/1.1 304 Not Modified\r\n\r\n",
        );
    });
    let mut wire = Wire::connect(server.addr());
    assert!(wire.send_get("/", &["Host: a"]).try_read_for("HEAD").is_ok());
    assert!(wire.try_read_for("GET").is_err(), "a body nobody may send was not noticed");
}

#[test]
fn every_framing_is_read() {
    let text = |bytes| {
        reading("GET", bytes).map(|answer| (answer.text().to_owned(), answer.trailers.joined("x")))
    };
    assert_eq!(text(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody").unwrap().0, "body");
    assert_eq!(text(b"HTTP/1.1 200 OK\r\n\r\nto the end").unwrap().0, "to the end");
    let chunked =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;a=b\r\nbody\r\n0\r\nX: y\r\n\r\n";
    assert_eq!(text(chunked).unwrap(), ("body".to_owned(), "y".to_owned()));
    let interim = b"HTTP/1.1 103 Early\r\nLink: a\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
    let answer = reading("GET", interim).unwrap();
    assert_eq!((answer.status, answer.interim.len(), answer.body.len()), (204, 1, 0));
}

#[test]
fn cache_status_is_read_from_the_last_member() {
    let bytes = b"HTTP/1.1 200 OK\r\nCache-Status: inner; hit\r\nCache-Status: larder; fwd=stale; fwd-status=304\r\nContent-Length: 0\r\n\r\n";
    let answer = reading("GET", bytes).unwrap();
    assert!(
        !answer.is_hit()
            && answer.cache_status_has("fwd=stale")
            && !answer.cache_status_has("fwd=st")
    );
}

#[test]
fn the_origin_records_what_it_was_asked() {
    let origin = Origin::serving(&["X: y"], "page");
    let mut wire = Wire::connect(origin.addr());
    wire.send(
        "POST /a?b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: \
         u\r\n\r\n",
    );
    assert_eq!(wire.read().get("x"), Some("y"));
    let seen = origin.last();
    assert_eq!((seen.method.as_str(), seen.target.as_str(), seen.path()), ("POST", "/a?b", "/a"));
    assert_eq!((seen.body.as_slice(), seen.trailers.get("t")), (b"abc".as_slice(), Some("u")));
    assert_eq!((origin.count(), origin.count_of("/a?b"), origin.connections()), (1, 1, 1));
    wire.send("nonsense\r\n\r\n");
    wire.expect_closed();
    assert_eq!(origin.faults().len(), 1);
}

#[test]
fn a_stopped_origin_can_be_started_again_at_its_place() {
    let origin = Origin::serving(&[], "one");
    let addr = origin.addr();
    let mut wire = Wire::connect(addr);
    wire.get("/", &[]).assert_status(200);
    origin.stop();
    wire.expect_closed();
    let again = larder_tests::wait_for("the port to be free", || {
        Origin::at(addr, |_, reply| {
            reply.ok(&[], "two");
        })
        .ok()
    });
    assert_eq!(larder_tests::get(again.addr(), "/").text(), "two");
}
