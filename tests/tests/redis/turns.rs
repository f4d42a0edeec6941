//! Turns: clients that have much sent to them and read nothing hold up nobody.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use larder_tests::{Larder, Origin, Resp, Wire, client::signal, wire::request};
use rustix::process::Signal;

/// Clients that read nothing.
const CLIENTS: usize = 120;
/// Bytes of an answer.
const LARGE: usize = 1_000_000;
/// Bytes that these clients may have been sent before somebody else is answered. A turn is 1 MiB:
/// where each client has its turn first, these are 120 MB at the least.
const MOST: u64 = 100_000_000;

/// The clients, which the server knows: each has had a small answer.
fn greedy(addr: SocketAddr, small: &[u8]) -> Vec<TcpStream> {
    let known = |_| {
        let mut client = TcpStream::connect(addr).unwrap();
        client.write_all(small).unwrap();
        assert!(client.read(&mut [0; 4096]).unwrap() > 0);
        client
    };
    (0..CLIENTS).map(known).collect()
}

/// Bytes that wait for clients in the sockets of both sides, by the system's table of them.
fn waiting(server: SocketAddr) -> u64 {
    let port = format!(":{:04X}", server.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let queued = table.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, remote, queues) = (words.next()?, words.next()?, words.nth(1)?);
        let (unsent, unread) = queues.split_once(':')?;
        let queue = match (local.ends_with(&port), remote.ends_with(&port)) {
            (true, _) => unsent,
            (_, true) => unread,
            _ => return None,
        };
        u64::from_str_radix(queue, 16).ok()
    });
    queued.sum()
}

/// Asks for something small, after others have for `large`, while the server does not run, and lets
/// it go on. The server is stopped again when it has answered. Returns how many bytes the others
/// were sent by then.
fn others_got(
    larder: &Larder,
    addr: SocketAddr,
    (small, large): (&str, &str),
    ask: &mut impl FnMut(bool),
) -> u64 {
    let clients = greedy(addr, small.as_bytes());
    signal(larder.pid(), Signal::STOP);
    for mut client in &clients {
        client.write_all(large.repeat(6).as_bytes()).unwrap();
    }
    ask(false);
    signal(larder.pid(), Signal::CONT);
    ask(true);
    signal(larder.pid(), Signal::STOP);
    let bytes = waiting(addr);
    drop(clients);
    signal(larder.pid(), Signal::CONT);
    bytes
}

/// This process may itself have to wait for a processor when the answer is there, while the server
/// goes on: the best of some attempts counts.
fn others_have_little(
    larder: &Larder,
    addr: SocketAddr,
    requests: (&str, &str),
    mut ask: impl FnMut(bool),
) {
    let mut found = Vec::new();
    for _ in 0..8 {
        found.push(others_got(larder, addr, requests, &mut ask));
        if found.last().is_some_and(|bytes| *bytes < MOST) {
            return;
        }
    }
    panic!("bytes for others before `{}`: {found:?}", requests.0);
}

fn start(origin: &Origin) -> Larder {
    Larder::with_config(&format!(
        "memory = \"64MiB\"\nthreads = 1\n[[site]]\norigin = \"{}\"\n[redis]\nlisten = \
         \"127.0.0.1:0\"\n[memcached]\nlisten = \"127.0.0.1:0\"\n",
        origin.url()
    ))
}

#[test]
fn a_small_request_is_answered_while_many_take_large_answers_and_read_nothing() {
    let origin = Origin::start(|seen, reply| {
        let length = if seen.target == "/large" { LARGE } else { 10 };
        reply.ok(&["Cache-Control: max-age=600"], "x".repeat(length));
    });
    let larder = start(&origin);
    let mut wire = larder.connect();
    wire.get("/large", &[]).assert_status(200);
    wire.get("/small", &[]).assert_status(200);
    let mut redis = Resp::tcp(larder.face("redis"));
    assert_eq!(redis.ask(&["SET", "large", &"x".repeat(LARGE)]).text(), "OK");
    let mut memcached = Wire::connect(larder.face("memcached"));
    memcached.send(format!("set large 0 0 {LARGE}\r\n{}\r\n", "x".repeat(LARGE)));
    assert_eq!(memcached.read_bytes(8), b"STORED\r\n");

    let redis_addr = larder.face("redis");
    others_have_little(
        &larder,
        redis_addr,
        ("PING\r\n", "GET large\r\n"),
        |answers| match answers {
            false => drop(redis.send("PING\r\n")),
            true => assert_eq!(redis.reply().text(), "PONG"),
        },
    );
    let memcached_addr = larder.face("memcached");
    others_have_little(
        &larder,
        memcached_addr,
        ("mn\r\n", "get large\r\n"),
        |answers| match answers {
            false => drop(memcached.send("mn\r\n")),
            true => assert_eq!(memcached.read_bytes(4), b"MN\r\n"),
        },
    );
    let page = |target: &str| request("GET", target, &["Host: site.test"]);
    let pages = (&*page("/small"), &*page("/large"));
    others_have_little(&larder, larder.addr(), pages, |answers| match answers {
        false => drop(wire.send(page("/small"))),
        true => drop(wire.read().assert_hit()),
    });
}
