//! Memory is what was configured: whatever clients of HTTP begin and do not end, or ask for and do
//! not read, resident memory is within `memory` and the program's own, and others are served
//! meanwhile.

#![allow(clippy::unwrap_used)]

use larder_tests::{Larder, Origin, Wire, get, wait_until};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

/// `memory` of every Larder here.
const MEMORY: u64 = 64 << 20;
/// The program, its connections to origins, and some 20 KiB (in a build for tests 50) of each of
/// the the crowd.
const MORE: u64 = 112 << 20;
/// Hostile clients that read nothing.
const CROWD: usize = 600;
/// Hostile clients that begin requests.
const HALVES: usize = 3000;
/// Longer than sockets hold, short enough that the origin is soon done with it.
const LONG: usize = 900_000;

fn larder(origin: &Origin, http: &str) -> Larder {
    // Two ends of every connection in one process or the other.
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: most.maximum, maximum: most.maximum };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised);
    Larder::with_config(&format!(
        "memory = \"64MiB\"\nthreads = 2\n[http]\n{http}\n[[site]]\n\
         origin = {{ url = \"{}\", max_connections = 64 }}",
        origin.url()
    ))
}

/// An origin whose answers to `/long` are long.
fn origin(cache_control: &'static str) -> Origin {
    let body = "a".repeat(LONG);
    Origin::start(move |seen, reply| {
        let long = seen.target.starts_with("/long");
        reply.ok(&[cache_control], if long { &body } else { "short" });
    })
}

#[track_caller]
fn assert_below(larder: &Larder, most: u64) {
    let peak = larder.usage().peak_rss;
    assert!(peak <= most, "{} MiB resident", peak >> 20);
}

/// Clients with small receive buffers that send a request each and read nothing.
fn silent(larder: &Larder, request: impl Fn(usize) -> String) -> Vec<TcpStream> {
    let narrow = |number| {
        let mut wire = Wire::connect_narrow(larder.addr());
        wire.send(request(number));
        wire.stream().try_clone().unwrap()
    };
    (0..CROWD).map(narrow).collect()
}

fn nobody_reads(cache_control: &'static str) {
    let origin = origin(cache_control);
    let larder = larder(&origin, "");
    let crowd =
        silent(&larder, |number| format!("GET /long{number} HTTP/1.1\r\nHost: site.test\r\n\r\n"));
    // Those who stand still are as few of their address as leave connections to the origin.
    get(larder.addr(), "/other").assert_status(200);
    origin.wait_for(CROWD / 2);
    assert_below(&larder, MEMORY + MORE);
    drop(crowd);
}

#[test]
fn answers_past_the_store_that_nobody_reads() {
    nobody_reads("Cache-Control: no-store");
}

#[test]
fn pages_that_find_no_room_and_that_nobody_reads() {
    nobody_reads("Cache-Control: max-age=100");
}

/// A client that is slower than the origin does not keep it: a short answer is read ahead.
#[test]
fn a_slow_client_of_a_short_answer_leaves_the_origin_free() {
    let origin = origin("Cache-Control: no-store");
    let larder = Larder::with_config(&format!(
        "memory = \"64MiB\"\nthreads = 1\n[[site]]\norigin = {{ url = \"{}\", max_connections = 1 }}",
        origin.url()
    ));
    let mut slow = Wire::connect_narrow(larder.addr());
    slow.send_get("/long", &["Host: site.test"]);
    origin.wait_for(1);
    get(larder.addr(), "/other").assert_status(200);
    assert_eq!(slow.read().body.len(), LONG);
}

/// Sends what is taken, and goes on; the number of connections that were closed.
fn begin(crowd: &mut [TcpStream], request: &[u8]) -> usize {
    let mut at = vec![0; crowd.len()];
    let mut closed = 0;
    loop {
        let mut moved = false;
        for (client, at) in crowd.iter_mut().zip(&mut at).filter(|(_, at)| **at < request.len()) {
            match client.write(&request[*at..]) {
                Ok(sent) => (*at, moved) = (*at + sent, true),
                Err(error) if error.kind() == ErrorKind::WouldBlock => moved = true,
                Err(_) => (*at, closed) = (request.len(), closed + 1),
            }
        }
        if !moved {
            return closed;
        }
    }
}

fn half_requests(request: &[u8]) {
    let origin = origin("Cache-Control: max-age=100");
    let larder = larder(&origin, "");
    get(larder.addr(), "/other").assert_status(200);
    let mut crowd: Vec<_> = (0..HALVES)
        .map(|_| {
            let client = TcpStream::connect(larder.addr()).unwrap();
            client.set_nonblocking(true).unwrap();
            client
        })
        .collect();
    begin(&mut crowd, request);
    // Some are refused; all bytes of the others are received.
    let mut answer = [0; 100];
    wait_until("some to be refused", || {
        crowd.iter_mut().any(|client| match client.read(&mut answer) {
            Ok(read) => read == 0 || answer.starts_with(b"HTTP/1.1 503"),
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        })
    });
    get(larder.addr(), "/other").assert_hit();
    // The build of the tests takes more for each of 3,000 connections than a release.
    assert_below(&larder, 4 * MEMORY);
}

#[test]
fn half_heads() {
    half_requests(&[b"GET / HTTP/1.1\r\nHost: a\r\nX: ".to_vec(), vec![b'a'; 60_000]].concat());
}

#[test]
fn half_bodies() {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 65536\r\nX: ";
    let parts = [head.as_bytes(), &[b'a'; 60_000], b"\r\n\r\n", &[b'a'; 65_535]];
    half_requests(&parts.concat());
}

/// A body must make progress: 16 KiB in `body_timeout`, or all of the rest.
#[test]
fn a_body_that_drips_is_408() {
    let origin = Origin::serving(&[], "");
    let larder = larder(&origin, "limits = { body_timeout = \"300ms\" }");
    let mut wire = larder.connect();
    wire.send("POST / HTTP/1.1\r\nHost: site.test\r\nContent-Length: 60000\r\n\r\n");
    let mut dripping = wire.stream().try_clone().unwrap();
    wait_until("the connection to be ended", || {
        dripping.write_all(b"y").is_err() || !wire.is_idle()
    });
    if let Ok(answer) = wire.try_read_for("POST") {
        answer.assert_status(408);
    }
    get(larder.addr(), "/").assert_status(200);
}
