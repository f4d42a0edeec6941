//! Memory is what was configured: whatever clients of HTTP begin and do not end, or ask for and do
//! not read, resident memory is within `memory` and the program's own, and others are served
//! meanwhile.

#![allow(clippy::unwrap_used)]

use larder_tests::h3_client::Ask;
use larder_tests::{Gate, H2, H3, Larder, Origin, PATIENCE, Papers, Wire, get, wait_until};
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
    // Those who stand still are as few of their address as leave connections to the origin, once
    // each of them has had its two seconds.
    let mut other = larder.connect();
    other.set_patience(4 * PATIENCE);
    other.get("/other", &[]).assert_status(200);
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

/// A client that waits for the origin is not one that stands still, however long that takes: those
/// that owe the rest of a request leave instead.
#[test]
fn clients_that_wait_for_the_origin_stay_while_others_leave() {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        if seen.target.starts_with("/slow") {
            door.wait();
        }
        reply.ok(&["Cache-Control: no-store"], "late");
    });
    let papers = Papers::issue();
    let larder = Larder::with_config(&format!(
        "memory = \"64MiB\"\nthreads = 1\n[http]\nlisten = \"127.0.0.1:0\"\nh2c = true\n\
         limits = {{ header_timeout = \"1h\" }}\n[https]\nlisten = \"127.0.0.1:0\"\n\
         http3 = true\ncertificates = [{{ cert = \"{}\", key = \"{}\" }}]\n[[site]]\n\
         origin = \"{}\"",
        papers.path("server.pem"),
        papers.path("server.key"),
        origin.url()
    ));
    // Heads of this length are counted while they wait.
    let long = "a".repeat(8000);
    let fields = [("x-long", long.as_str())];
    let h2 = H2::connect(larder.addr());
    let over_h2: Vec<_> =
        ["/slow/1", "/slow/2"].map(|path| h2.begin("GET", path, &fields, true)).into();
    let mut h1 = larder.connect();
    h1.send_get("/slow/3", &["Host: site.test", &format!("X-Long: {long}")]);
    let mut h3 = H3::connect(larder.face("http3+udp"), &papers);
    // Its client takes no field line of more than 4 KiB.
    let shorter = [("x-long", &long[..3000])];
    let over_h3 = h3.begin(Ask { fields: &shorter, ..Ask::get("/slow/4") }, false);
    origin.wait_for(4);
    // They hold less than any of the crowd, and have waited longer. Where none stands still yet,
    // the one who asks is refused, and another comes.
    let half = [b"GET / HTTP/1.1\r\nHost: a\r\nX: ".to_vec(), vec![b'a'; 60_000]].concat();
    let mut crowd = Vec::new();
    let mut answer = [0; 100];
    let mut left = 0;
    wait_until("those who owe the rest of a request to leave", || {
        let mut client = TcpStream::connect(larder.addr()).unwrap();
        client.write_all(&half).unwrap_or_default();
        client.set_nonblocking(true).unwrap();
        crowd.push(client);
        crowd.retain_mut(|client| match client.read(&mut answer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => true,
            Err(error) => {
                left += usize::from(error.kind() == ErrorKind::ConnectionReset);
                false
            }
            Ok(_) => false,
        });
        left > 100
    });
    gate.open();
    for open in over_h2 {
        assert_eq!(h2.end(open).expect("an answer").text(), "late");
    }
    assert_eq!(h1.read().text(), "late");
    assert_eq!(h3.end(over_h3).expect("an answer").text(), "late");
}

/// What a client sends of a request that it does not end.
fn halves() -> [(&'static str, Vec<u8>); 5] {
    let post = |framing: &str| {
        format!("POST / HTTP/1.1\r\nHost: site.test\r\n{framing}\r\n\r\n").into_bytes()
    };
    let chunk = [b"8000\r\n".to_vec(), vec![b'a'; 0x8000], b"\r\n".to_vec()].concat();
    [
        ("heads", [b"GET / HTTP/1.1\r\nHost: a\r\nX: ".to_vec(), vec![b'a'; 60_000]].concat()),
        ("bodies", [post("Content-Length: 65536"), vec![b'a'; 65_535]].concat()),
        ("long bodies", [post("Content-Length: 9000000"), vec![b'a'; 100_000]].concat()),
        ("chunked bodies", [post("Transfer-Encoding: chunked"), chunk.repeat(3)].concat()),
        ("short bodies", [post("Content-Length: 10"), b"a".to_vec()].concat()),
    ]
}

/// A thousand clients with half a request each: resident memory has the bound that it has for the
/// object faces, and others are served meanwhile.
#[test]
fn a_thousand_half_requests() {
    let origin = origin("Cache-Control: max-age=100");
    let larder = larder(&origin, "");
    get(larder.addr(), "/other").assert_status(200);
    for (what, request) in halves() {
        let mut crowd: Vec<TcpStream> = Vec::new();
        for _ in 0..4 {
            for _ in 0..250 {
                let client = TcpStream::connect(larder.addr()).unwrap();
                client.set_nonblocking(true).unwrap();
                crowd.push(client);
            }
            begin(&mut crowd, &request);
            get(larder.addr(), "/other").assert_hit();
        }
        println!("{what}: {} MiB at the most", larder.usage().peak_rss >> 20);
        assert_below(&larder, MEMORY + (64 << 20));
    }
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
