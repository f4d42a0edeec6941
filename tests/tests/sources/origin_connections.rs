//! Connections to origins: nothing that comes between two answers is read as an answer, and an
//! answer that ends with its connection is kept as the site says.

#![allow(clippy::unwrap_used)]

use larder_tests::{
    Admin, Answer, Gate, Larder, Origin, Reply, Seen, Wire, get, get_with, wait_until,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// What the late content of an answer may look like.
const POISON: &str =
    "HTTP/1.1 200 OK\r\nCache-Control: max-age=1000\r\nContent-Length: 6\r\n\r\npoison";
const STALE: &[&str] = &["Cache-Control: max-age=1", "Age: 5", "ETag: \"v1\""];

fn before(origin: &Origin, lines: &str) -> (Larder, Admin) {
    let url = origin.url();
    let larder = Larder::with_config(&format!(
        "[http]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n[[site]]\norigin \
         = \"{url}\"\n{lines}\n"
    ));
    let admin = Admin::of(&larder);
    (larder, admin)
}

/// The sum of the samples of a family.
fn counted(admin: &Admin, family: &str) -> u64 {
    let answer = admin.get("/metrics");
    let own = |line: &&str| line.split(['{', ' ']).next() == Some(family);
    let values = answer.text().lines().filter(own).filter_map(|line| line.rsplit(' ').next());
    values.map(|value| value.parse::<f64>().unwrap() as u64).sum()
}

/// Answers `/first` by `odd`. What is asked next on the same connection gets the content that `odd`
/// announced and had none of: an origin that sends it a moment late. Others get what is right.
fn late_content(odd: impl Fn(&Seen, &mut Reply) + Send + Sync + 'static) -> Origin {
    let odd_ones = std::sync::Mutex::new(std::collections::HashSet::new());
    Origin::start(move |seen, reply| {
        let mut odd_ones = odd_ones.lock().unwrap();
        if odd_ones.contains(&seen.connection) {
            reply.raw(POISON);
        } else if seen.target == "/first" && (seen.number > 0 || seen.method == "HEAD") {
            odd_ones.insert(seen.connection);
            odd(seen, reply);
        } else if seen.target == "/first" {
            reply.ok(STALE, "first");
        } else {
            reply.ok(&["Cache-Control: max-age=1000"], "good");
        }
    })
}

/// After `odd`, three pages are asked for by the same client, and one by another.
#[track_caller]
fn reaches_nobody(method: &str, odd: &'static str) {
    let origin = late_content(move |_, reply| {
        reply.raw(odd);
    });
    let larder = Larder::with_config(&format!(
        "threads = 1\n[[site]]\norigin = \"{}\"\nconvert_head = false\n",
        origin.url()
    ));
    let mut wire = larder.connect();
    if method == "GET" {
        assert_eq!(wire.get("/first", &[]).text(), "first");
    }
    let status = wire.ask(method, "/first", &["Host: site.test"]).status;
    assert!([200, 204].contains(&status), "{odd:?}: {status}");
    for target in ["/second", "/third", "/second"] {
        assert_eq!(wire.get(target, &[]).text(), "good", "{odd:?}");
    }
    assert_eq!(get(larder.addr(), "/fourth").text(), "good", "{odd:?}");
}

#[test]
fn late_content_of_a_204_reaches_nobody() {
    reaches_nobody("GET", "HTTP/1.1 204 No Content\r\nContent-Length: 81\r\n\r\n");
}

#[test]
fn late_chunks_of_a_204_reach_nobody() {
    reaches_nobody("GET", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n");
}

#[test]
fn late_content_of_a_204_after_an_interim_response_reaches_nobody() {
    reaches_nobody(
        "GET",
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 204 No Content\r\nContent-Length: \
         81\r\n\r\n",
    );
}

#[test]
fn late_content_of_an_interim_response_reaches_nobody() {
    reaches_nobody(
        "GET",
        "HTTP/1.1 103 Early Hints\r\nContent-Length: 81\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    );
}

/// The second answer is the 304 to the validation of the first.
#[test]
fn late_content_of_a_304_reaches_nobody() {
    reaches_nobody(
        "GET",
        "HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\nContent-Length: 81\r\n\r\n",
    );
}

#[test]
fn late_content_of_the_answer_to_a_head_reaches_nobody() {
    reaches_nobody("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 81\r\n\r\n");
    reaches_nobody("HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    reaches_nobody("HEAD", "HTTP/1.1 200 OK\r\n\r\n");
}

#[test]
fn an_answer_without_content_that_announces_none_keeps_its_connection() {
    for odd in [
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\n\r\n",
    ] {
        let origin = Origin::start(move |seen, reply| {
            if seen.number == 1 {
                reply.raw(odd);
            } else {
                reply.ok(&["Cache-Control: no-cache", "ETag: \"v1\""], "page");
            }
        });
        let larder =
            Larder::serve(&["--http", "127.0.0.1:0", "--threads", "1", "--origin", &origin.url()]);
        let mut wire = larder.connect();
        for _ in 0..4 {
            wire.get("/", &[]);
        }
        assert_eq!((origin.count(), origin.connections()), (4, 1), "{odd:?}");
    }
}

/// A 304 to a request without a condition answers something else: a client that waits for the page
/// gets an error, and the connection is closed. Past the cache it is passed on, and closed too.
#[test]
fn a_connection_is_not_used_again_after_a_304_nobody_asked_for() {
    let origin = Origin::start(|seen, reply| {
        if seen.target == "/odd" {
            reply.raw("HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\n\r\n");
        } else {
            reply.ok(&[], "page");
        }
    });
    let larder =
        Larder::serve(&["--http", "127.0.0.1:0", "--threads", "1", "--origin", &origin.url()]);
    let mut wire = larder.connect();
    for (asked, (method, status)) in
        [("GET", 502), ("POST", 304), ("GET", 502)].into_iter().enumerate()
    {
        let fields = ["Host: site.test", "Content-Length: 0"];
        let fields = if method == "POST" { &fields[..] } else { &fields[..1] };
        wire.ask(method, "/odd", fields).assert_status(status);
        assert_eq!(wire.get("/", &[]).text(), "page");
        assert_eq!(origin.connections(), asked + 2, "{method}");
    }
}

/// What comes with the last byte of an answer and is none of it.
#[test]
fn what_follows_an_answer_reaches_nobody_and_is_counted() {
    for more in [POISON, "\r\n", "more than its Content-Length says", "0\r\n\r\n"] {
        let origin = Origin::start(move |seen, reply| {
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood";
            let chunks =
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ngood\r\n0\r\n\r\n";
            let answer = if seen.target == "/chunks" { chunks } else { answer };
            reply.raw(format!("{answer}{more}"));
        });
        let (larder, admin) = before(&origin, "");
        let mut wire = larder.connect();
        for (asked, target) in ["/1", "/chunks", "/3", "/chunks"].into_iter().enumerate() {
            assert_eq!(wire.get(target, &[]).text(), "good", "{more:?}");
            wait_until("the connection to be closed and counted", || {
                counted(&admin, "larder_origin_unasked_total") == asked as u64 + 1
            });
        }
        assert_eq!(origin.connections(), 4, "{more:?}");
    }
}

/// Bytes that come while a connection is idle, some time after the answer.
#[test]
fn what_an_origin_says_on_an_idle_connection_reaches_nobody_and_is_counted() {
    let (gate, said) = (Gate::closed(), Gate::closed());
    let (door, told) = (gate.clone(), said.clone());
    let origin = Origin::start(move |seen, reply| {
        reply.ok(&[], "good");
        if seen.number == 0 {
            door.wait();
            reply.raw(POISON);
            told.open();
        }
    });
    let (larder, admin) = before(&origin, "");
    let mut wire = larder.connect();
    assert_eq!(wire.get("/1", &[]).text(), "good");
    gate.open();
    said.wait();
    wait_until("the bytes to be counted", || {
        assert_eq!(wire.get("/2", &[]).text(), "good");
        counted(&admin, "larder_origin_unasked_total") == 1
    });
    assert!(origin.connections() >= 2);
}

/// An answer with neither length nor chunks.
fn unframed(seen: &Seen, reply: &mut Reply) {
    let fields = [
        "Cache-Control: max-age=1000",
        "ETag: \"v1\"",
        "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT",
    ];
    if seen.method == "HEAD" {
        reply.head(200, &fields).close();
    } else {
        reply.head(200, &fields).raw("all of it").close();
    }
}

/// Seconds of freshness left, by Cache-Status.
fn ttl(answer: &Answer) -> i64 {
    let status = answer.get("cache-status").unwrap();
    status.split("ttl=").nth(1).unwrap().split([';', ',']).next().unwrap().trim().parse().unwrap()
}

/// A hit on the page; it may be a moment before the end of the connection has been seen.
fn hit(larder: &Larder) -> Answer {
    let mut found = None;
    wait_until("the page to be stored", || {
        let answer = get(larder.addr(), "/");
        assert_eq!(answer.text(), "all of it");
        found = answer.is_hit().then_some(answer);
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn an_answer_that_ends_with_its_connection_is_kept_briefly_and_counted() {
    for lines in ["", "unframed = \"brief\""] {
        let origin = Origin::start(unframed);
        let (larder, admin) = before(&origin, lines);
        let left = ttl(&hit(&larder));
        assert!((1..=10).contains(&left), "{left}");
        assert!(counted(&admin, "larder_http_unframed_total") >= 1);
        // Nothing confirms what may be half a page: neither a 304 nor the answer to a HEAD.
        let asked = origin.count();
        get_with(larder.addr(), "/", &["Cache-Control: no-cache"]).assert_status(200);
        assert!(origin.requests()[asked..].iter().all(|seen| seen.get("if-none-match").is_none()));
        larder.connect().ask("HEAD", "/", &["Host: site.test", "Cache-Control: no-cache"]);
        let left = ttl(&hit(&larder));
        assert!((1..=10).contains(&left), "{left}");
    }
}

#[test]
fn a_site_keeps_or_passes_what_ends_with_its_connection() {
    let origin = Origin::start(unframed);
    let (larder, _) = before(&origin, "unframed = \"keep\"");
    assert!(ttl(&hit(&larder)) > 900);
    let (larder, _) =
        before(&origin, "unframed = \"brief\"\n[[site.rule]]\npath = \"/\"\nunframed = \"pass\"");
    for _ in 0..2 {
        let asked = origin.count();
        let answer = get(larder.addr(), "/");
        assert_eq!((answer.text(), answer.is_hit()), ("all of it", false));
        assert!(answer.get("cache-status").unwrap().contains("unframed"), "{answer:?}");
        assert_eq!(origin.count(), asked + 1);
    }
}

#[test]
fn a_framed_answer_on_a_connection_that_closes_is_kept_as_long_as_it_says() {
    let origin = Origin::start(|_, reply| {
        reply.ok(&["Cache-Control: max-age=1000", "Connection: close"], "all of it").close();
    });
    let (larder, admin) = before(&origin, "");
    assert!(ttl(&hit(&larder)) > 900);
    assert_eq!(counted(&admin, "larder_http_unframed_total"), 0);
}

/// Listens; each connection's request is answered with half a page and, once the gate is open, a
/// reset.
fn resetting(gates: [Gate; 2]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for (mut stream, gate) in listener.incoming().flatten().zip(gates) {
            thread::spawn(move || {
                read_head(&mut stream);
                let half = "HTTP/1.1 200 OK\r\nCache-Control: max-age=1000\r\n\r\nhalf";
                stream.write_all(half.as_bytes()).unwrap();
                gate.wait();
                rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
            });
        }
    });
    addr
}

fn read_head(stream: &mut TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
}

#[test]
fn a_reset_completes_nothing() {
    for choice in ["keep", "brief", "pass"] {
        let gates = [Gate::closed(), Gate::closed()];
        let addr = resetting(gates.clone());
        let larder = Larder::site(&format!("http://{addr}"), &format!("unframed = \"{choice}\""));
        let cut = |wire: &mut Wire, gate: &Gate| {
            assert_eq!(wire.read_head().status, 200);
            assert_eq!(wire.read_chunked_bytes(4), b"half");
            gate.open();
            wire.read_chunk().expect_err("a reset looked like the end");
        };
        for gate in &gates {
            let mut wire = larder.connect();
            wire.send_get("/", &["Host: site.test"]);
            cut(&mut wire, gate);
        }
    }
}

/// A server on a unix socket: requests, kept connections, and one that has died.
#[test]
fn an_origin_may_listen_on_a_unix_socket() {
    let scratch = larder_tests::Scratch::new("unix");
    let path = scratch.file("http.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let connections = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = connections.clone();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let number = counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            // Two requests for each connection.
            for request in 0..2 {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    head.push(byte[0]);
                }
                let head = String::from_utf8(head).unwrap();
                let host = head.lines().find(|line| line.starts_with("host:")).unwrap();
                let body = format!("{number}.{request} {host}");
                let length = body.len();
                let field = "Cache-Control: no-store";
                let answer =
                    format!("HTTP/1.1 200 OK\r\n{field}\r\nContent-Length: {length}\r\n\r\n{body}");
                stream.write_all(answer.as_bytes()).unwrap();
            }
        }
    });
    let url = format!("http+unix:{}", path.display());
    let larder = Larder::with_config(&format!("threads = 1\n[[site]]\norigin = \"{url}\"\n"));
    for expected in ["0.0", "0.1", "1.0", "1.1", "2.0"] {
        let answer = get(larder.addr(), "/");
        assert_eq!(answer.text(), format!("{expected} host: site.test"));
    }
    larder.usr1();
    wait_until("the figures", || larder.stderr().contains(&url));
    drop(scratch);
}
