//! Clients behind a proxy that names them by the PROXY protocol.

#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};

use larder_tests::{Admin, Larder, Origin, Papers, Wire, get_with, wait_until};

/// An origin that shows the client and the scheme it was told.
fn origin() -> Origin {
    Origin::start(|seen, reply| {
        let told = |name| seen.get(name).unwrap_or("none").to_owned();
        reply.ok(&[], format!("{} {}", told("x-forwarded-for"), told("x-forwarded-proto")));
    })
}

fn larder(origin: &Origin, proxies: &str, lines: &str) -> Larder {
    Larder::with_config(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\nproxy_protocol = true\ntrusted_proxies = [\"{proxies}\"]\n\
         limits = {{ header_timeout = \"1s\" }}\n[admin]\nlisten = \"127.0.0.1:0\"\n{lines}\n[[site]]\n\
         origin = \"{}\"\npurge = {{ from = [\"192.0.2.7\"] }}\n",
        origin.url()
    ))
}

const ONE: &[u8] = b"PROXY TCP4 192.0.2.7 192.0.2.1 4000 80\r\n";

/// Version 2 of the same client, with or without TLS at the proxy.
fn two(secure: bool) -> Vec<u8> {
    let addresses = [192, 0, 2, 7, 192, 0, 2, 1, 0x0f, 0xa0, 0, 80];
    let fields = [0x20, 0, 5, u8::from(secure), 0, 0, 0, 0];
    [b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x14", &addresses[..], &fields].concat()
}

#[test]
fn the_client_is_the_one_that_the_proxy_names() {
    let origin = origin();
    let larder = larder(&origin, "127.0.0.1", "");
    for (header, told) in [
        (ONE.to_vec(), "192.0.2.7 http"),
        (two(false), "192.0.2.7 http"),
        (two(true), "192.0.2.7 https"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1 http"),
    ] {
        let mut wire = larder.connect();
        wire.send(header);
        for _ in 0..2 {
            assert_eq!(wire.get("/", &[]).text(), told);
        }
    }
    // The client is not a trusted proxy: its own fields count for nothing.
    let mut wire = larder.connect();
    wire.send(ONE);
    assert_eq!(wire.get("/", &["X-Forwarded-For: 198.51.100.1"]).text(), "192.0.2.7 http");
}

#[test]
fn a_header_in_pieces_is_waited_for() {
    let origin = origin();
    let larder = larder(&origin, "127.0.0.1", "");
    let whole = [&two(true)[..], b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
    for cut in [1, 12, 15, 16, 30, 37, 50] {
        let mut wire = larder.connect();
        wire.send(&whole[..cut]);
        // The server has seen the first piece when it answers another connection.
        let mut other = larder.connect();
        other.send(ONE);
        other.get("/", &[]);
        wire.send(&whole[cut..]);
        assert_eq!(wire.read().text(), "192.0.2.7 https", "cut at {cut}");
    }
}

#[test]
fn without_a_header_a_proxy_is_not_heard() {
    let origin = origin();
    let larder = larder(&origin, "127.0.0.1", "");
    for begin in ["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "PROXY TCP4 1.2.3.4\r\n", "PROXY TCP"] {
        let mut wire = larder.connect();
        wire.send(begin);
        wire.expect_closed();
    }
    let mut wire = larder.connect();
    wire.send("PROXY TCP4 192.0.2.7");
    wire.finish_sending();
    wire.expect_closed();
    assert_eq!(origin.count(), 0);
    let failures =
        || Admin::of(&larder).json("/api/v1/stats")["http"]["proxy_failures"].as_u64().unwrap();
    wait_until("the failures to be counted", || failures() == 3);
}

#[test]
fn others_are_not_believed() {
    let origin = origin();
    let larder = larder(&origin, "192.0.2.99", "");
    assert_eq!(get_with(larder.addr(), "/", &[]).text(), "127.0.0.1 http");
    let mut wire = larder.connect();
    wire.send(ONE).send_get("/", &["Host: a"]);
    wire.read().assert_status(400);
}

#[test]
fn permissions_are_the_clients() {
    let origin = origin();
    let larder = larder(&origin, "127.0.0.1", "");
    let purge = |header: &[u8]| {
        let mut wire = larder.connect();
        wire.send(header);
        wire.ask("PURGE", "/", &["Host: a"]).status
    };
    assert_eq!(purge(ONE), 404);
    assert_eq!(purge(b"PROXY TCP4 192.0.2.8 192.0.2.1 4000 80\r\n"), 403);
}

#[test]
fn it_comes_before_tls() {
    let (papers, origin) = (Papers::issue(), origin());
    let (cert, key) = (papers.path("server.pem"), papers.path("server.key"));
    let https = format!(
        "[https]\nlisten = \"127.0.0.1:0\"\n[[https.certificates]]\ncert = \"{cert}\"\nkey = \"{key}\""
    );
    let larder = larder(&origin, "127.0.0.1", &https);
    let mut wire = Wire::connect(larder.face("https"));
    wire.send(ONE);
    let mut wire = wire.secured(&papers.client(), "127.0.0.1");
    assert_eq!(wire.get("/", &[]).text(), "192.0.2.7 https");
}

#[test]
fn object_faces_hear_of_clients_too() {
    let larder = Larder::with_config(
        "[memcached]\nlisten = \"127.0.0.1:0\"\nproxies = [\"127.0.0.1\"]\n[redis]\n\
         listen = \"127.0.0.1:0\"\nproxies = [\"127.0.0.1\"]\nprotected = false\n[[site]]\n\
         origin = \"http://127.0.0.1:1\"\n",
    );
    for header in [ONE.to_vec(), two(false)] {
        let mut redis = Wire::connect(larder.face("redis"));
        for piece in header.chunks(9) {
            redis.send(piece);
        }
        redis.send("CLIENT INFO\r\n");
        let line = String::from_utf8(redis.read_bytes(60)).unwrap();
        assert!(line.contains("addr=192.0.2.7:4000 "), "{line}");
        let mut memcached = Wire::connect(larder.face("memcached"));
        memcached.send([&header[..], b"mn\r\n"].concat());
        assert_eq!(memcached.read_bytes(4), b"MN\r\n");
    }
    for face in ["memcached", "redis"] {
        let mut wire = Wire::connect(larder.face(face));
        wire.send("version\r\nPING\r\n");
        wire.expect_closed();
    }
}

#[test]
fn origins_that_demand_a_header_get_one_without_a_client() {
    for (version, header) in
        [("v1", &b"PROXY UNKNOWN\r\n"[..]), ("v2", b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0")]
    {
        let (told, heard) = std::sync::mpsc::channel();
        let told = std::sync::Mutex::new(told);
        let origin = Origin::raw(move |mut stream, _| {
            let mut begin = vec![0; header.len() + 4];
            stream.read_exact(&mut begin).unwrap();
            told.lock().unwrap().send(begin).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage").unwrap();
        });
        let lines = format!("url = \"{}\"\nproxy_protocol = \"{version}\"", origin.url());
        let larder = Larder::site_with_origin(&lines);
        assert_eq!(larder.connect().get("/", &[]).text(), "page");
        assert_eq!(heard.recv().unwrap(), [header, b"GET "].concat());
    }
}
