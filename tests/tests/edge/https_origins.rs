//! Origins that are reached over TLS.

#![allow(clippy::unwrap_used)]

use larder_tests::{Larder, Origin, Papers, get};
use std::io::{Read, Write};
use std::net::SocketAddr;

/// An origin whose pages say what it was asked, and its content's length.
fn origin() -> Origin {
    Origin::start(|seen, reply| {
        let told = format!("{} {} {}", seen.path(), seen.get("host").unwrap(), seen.body.len());
        match seen.path() {
            "/large" => reply.ok(&[], vec![b'x'; 3_000_000]),
            _ => reply.ok(&["Cache-Control: max-age=600"], told),
        };
    })
}

fn before(address: SocketAddr, lines: &str) -> Larder {
    Larder::site_with_origin(&format!("url = \"https://{address}\"\n{lines}\n"))
}

fn trusted(papers: &Papers) -> String {
    format!("ca = \"{}\"", papers.path("authority.pem"))
}

#[test]
fn pages_come_over_one_connection_that_is_kept() {
    let (papers, origin) = (Papers::issue(), origin());
    let address = papers.terminator("server", origin.addr(), false);
    let larder = before(address, &trusted(&papers));
    for n in 0..5 {
        let path = format!("/{n}");
        assert_eq!(get(larder.addr(), &path).text(), format!("{path} site.test 0"));
        get(larder.addr(), &path).assert_hit();
    }
    assert_eq!(get(larder.addr(), "/large").body.len(), 3_000_000);
    let body = vec![b'y'; 2_000_000];
    let mut wire = larder.connect();
    wire.send(format!("POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()));
    wire.send(&body);
    assert_eq!(wire.read().text(), "/up a 2000000");
    assert_eq!(origin.last().body, body);
    // Each worker has a pool of its own.
    assert!(origin.connections() <= 2, "{} connections", origin.connections());
}

#[test]
fn a_certificate_has_to_be_right() {
    let (papers, others, origin) = (Papers::issue(), Papers::issue(), origin());
    papers.sign("named", "DNS:wiki.internal");
    let address = papers.terminator("named", origin.addr(), false);
    let named = format!("{}\ntls_name = \"wiki.internal\"", trusted(&papers));
    for (lines, status) in [
        (trusted(&papers), 502),
        (trusted(&others), 502),
        ("verify = true".to_owned(), 502),
        (named, 200),
        ("verify = false".to_owned(), 200),
    ] {
        let larder = before(address, &lines);
        assert_eq!(get(larder.addr(), "/").status, status, "{lines}");
    }
    assert_eq!(origin.count(), 2);
}

#[test]
fn an_origin_that_speaks_plainly_is_an_error() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = before(origin.addr(), &trusted(&papers));
    get(larder.addr(), "/").assert_status(502);
}

#[test]
fn an_origin_may_want_a_certificate() {
    let (papers, origin) = (Papers::issue(), origin());
    papers.sign("larder", "DNS:larder.internal");
    let address = papers.terminator("server", origin.addr(), true);
    let without = before(address, &trusted(&papers));
    get(without.addr(), "/").assert_status(502);
    let (cert, key) = (papers.path("larder.pem"), papers.path("larder.key"));
    let with =
        before(address, &format!("{}\ncert = \"{cert}\"\nkey = \"{key}\"", trusted(&papers)));
    assert_eq!(get(with.addr(), "/").assert_status(200).text(), "/ site.test 0");
}

#[test]
fn websockets_reach_it() {
    let papers = Papers::issue();
    let origin = Origin::start(|_, reply| {
        reply.head(101, &["Connection: Upgrade", "Upgrade: websocket"]);
        let mut stream = reply.take_stream();
        let mut got = [0; 50_000];
        stream.read_exact(&mut got).unwrap();
        stream.write_all(&got).unwrap();
    });
    let address = papers.terminator("server", origin.addr(), false);
    let larder = before(address, &trusted(&papers));
    let mut wire = larder.connect();
    wire.send_get("/", &["Host: a", "Connection: Upgrade", "Upgrade: websocket"]);
    assert_eq!(wire.read_head().status, 101);
    let sent: Vec<u8> = (0..50_000).map(|n| (n % 251) as u8).collect();
    wire.send(&sent);
    assert!(wire.read_bytes(50_000) == sent);
}
