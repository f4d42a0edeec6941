//! Families whose members are silent, dead or unwilling, and messages of those who may not send
//! them.

#![allow(clippy::unwrap_used)]

use crate::family::{
    FRESH, HOST, Squid, clr, larder, larder_at, numbered, parent, text, wait_for_word,
};
use larder_tests::helper::free_port;
use larder_tests::{Admin, Gate, Larder, Origin, Wire, wait_until};
use std::net::{SocketAddr, UdpSocket};

const ADMIN: &str = "[admin]\nlisten = \"127.0.0.1:0\"\n";

/// The table of a sibling that is queried at this port, and whose HTTP nobody serves.
fn sibling(select: &str, port: u16, timeout: &str) -> String {
    format!(
        "[[peer]]\nurl = \"http://127.0.0.1:9\"\nname = \"other\"\nrole = \"sibling\"\nselect = \
         \"{select}\"\nquery_port = {port}\nquery_timeout = \"{timeout}\"\ndead_after = 2\n"
    )
}

#[test]
fn a_silent_peer_is_waited_for_until_it_counts_as_dead() {
    for select in ["icp", "htcp"] {
        let origin = numbered();
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = silent.local_addr().unwrap().port();
        let larder = larder(&origin, &sibling(select, port, "50ms"));
        for number in 0..4 {
            assert_eq!(text(larder.addr(), &format!("/{number}")), format!("/{number} {number}"));
        }
        wait_until("the peer to count as dead", || {
            larder.stderr().contains("the peer other did not answer 2 queries")
        });
        // It is queried all the same.
        let mut query = [0; 2048];
        (0..4).for_each(|_| assert!(silent.recv(&mut query).unwrap() > 12, "{select}"));
    }
}

#[test]
fn a_sibling_that_was_killed_is_left_out() {
    for protocol in ["icp", "htcp"] {
        let (origin, port) = (numbered(), free_port());
        let asked =
            format!("[{protocol}]\nlisten = [\"127.0.0.1:{port}\"]\nfrom = [\"127.0.0.1\"]\n");
        let other = larder(&origin, &asked);
        let peer = format!(
            "[[peer]]\nurl = \"http://{}\"\nrole = \"sibling\"\nselect = \"{protocol}\"\nquery_port \
             = {port}\nquery_timeout = \"10s\"\n",
            other.addr()
        );
        let larder = larder(&origin, &peer);
        let page = text(other.addr(), "/before");
        assert_eq!(text(larder.addr(), "/before"), page, "{protocol}");
        wait_for_word(&larder, "/before", "SIBLING_HIT");
        text(other.addr(), "/after");
        drop(other);
        assert_eq!(text(larder.addr(), "/after"), "/after 2", "{protocol}");
        wait_for_word(&larder, "/after", "FIRSTUP_PARENT");
    }
}

/// A sibling that has not what it was asked for says 504 to `only-if-cached`.
#[test]
fn the_504_of_a_sibling_leads_on() {
    let origin = numbered();
    let other = Origin::start(|_, reply| {
        reply.answer(504, &[], "nothing stored");
    });
    let peer = format!("{}role = \"sibling\"\n", parent(other.addr(), "first"));
    let larder = larder(&origin, &peer);
    assert_eq!(text(larder.addr(), "/page"), "/page 0");
    assert!(other.last().fields.joined("cache-control").contains("only-if-cached"));
    // A real one: it fetches nothing.
    let below =
        self::larder(&origin, &format!("{}role = \"sibling\"\n", parent(larder.addr(), "first")));
    assert_eq!(text(below.addr(), "/other"), "/other 1");
    assert_eq!(origin.count(), 2);
    assert_eq!(text(below.addr(), "/page"), "/page 0");
}

/// A sibling that has a page put together of parts, but not all of its parts, has not what it was
/// asked for. Nor does it wait for a compressed form.
#[test]
fn a_sibling_that_lacks_a_part_says_504() {
    let origin = Origin::start(|seen, reply| match seen.path() {
        "/page" => drop(reply.ok(
            &[FRESH, "Content-Type: text/html", "Surrogate-Control: content=\"ESI/1.0\""],
            format!("<esi:include src=\"/part\"/>{}", "end ".repeat(1000)),
        )),
        _ => drop(reply.ok(&[FRESH], format!("part {} ", seen.number))),
    });
    let other = larder(&origin, "compress = [\"gzip\"]");
    let peer = format!("{}role = \"sibling\"\n", parent(other.addr(), "first"));
    let larder = larder(&origin, &peer);
    let whole = text(other.addr(), "/page");
    assert!(whole.starts_with("part 1 end"), "{whole}");
    Wire::connect(other.addr()).ask("PURGE", "/part", &[HOST]).assert_status(200);
    let fields = [HOST, "Cache-Control: only-if-cached"];
    Wire::connect(other.addr()).ask("GET", "/page", &fields).assert_status(504);
    // The page comes from the origin, and the part of the sibling is not there either.
    let answer = Wire::connect(larder.addr()).ask("GET", "/page", &[HOST]);
    assert!(answer.text().starts_with("part 3 end"), "{answer:?}");
    assert_eq!((answer.status, origin.count()), (200, 4));
    // With the part in memory it is answered, coded or not.
    text(other.addr(), "/page");
    for accept in ["gzip", "identity"] {
        let accept = format!("Accept-Encoding: {accept}");
        let fields = [HOST, "Cache-Control: only-if-cached", &accept];
        let answer = Wire::connect(other.addr()).ask("GET", "/page", &fields);
        assert_eq!(answer.assert_hit().get("content-encoding"), None);
        assert!(answer.text().starts_with("part 4 end"), "{answer:?}");
    }
}

#[test]
fn a_parent_that_never_answers_is_left_for_the_origin() {
    let origin = numbered();
    let gate = Gate::closed();
    let silent: Vec<Origin> = (0..3)
        .map(|_| {
            let door = gate.clone();
            Origin::raw(move |_stream, _| door.wait())
        })
        .collect();
    let peers = silent.iter().map(|peer| {
        let name = peer.addr().port();
        format!(
            "{}name = \"p{name}\"\nfirst_byte_timeout = \"300ms\"\n",
            parent(peer.addr(), "first")
        )
    });
    let larder = larder(&origin, &peers.collect::<String>());
    for number in 0..6 {
        assert_eq!(text(larder.addr(), &format!("/{number}")), format!("/{number} {number}"));
    }
    assert!(silent[0].connections() >= 1);
    gate.open();
}

#[test]
fn a_parent_whose_own_origin_fails_is_left_out() {
    let origin = numbered();
    let failing = Origin::start(|_, reply| {
        reply.answer(503, &[], "of the peer");
    });
    let larder = larder(&origin, &parent(failing.addr(), "first"));
    for number in 0..6 {
        assert_eq!(text(larder.addr(), &format!("/{number}")), format!("/{number} {number}"));
    }
    assert_eq!(failing.requests().len(), 3, "then it has a pause");
}

/// A refusal of the peer is not the site's answer.
#[test]
fn a_peers_own_refusal_leads_on() {
    for (status, field, leads_on) in [
        (407, "Proxy-Authenticate: Basic realm=\"parent\"", true),
        (407, "X-None: 1", true),
        (403, "X-Squid-Error: ERR_ACCESS_DENIED 0", true),
        (500, "Proxy-Status: parent; error=http_request_denied; details=\"no\"", true),
        (404, "Proxy-Status: ExampleCDN, parent;next-hop=a ;error=dns_error", true),
        (503, "X-None: 1", true),
        (403, "Proxy-Status: parent; received-status=403", false),
        (403, "X-None: 1", false),
        (500, "X-None: 1", false),
        (200, "X-Squid-Error: none", false),
    ] {
        let origin = numbered();
        let other = Origin::start(move |_, reply| {
            reply.answer(status, &[FRESH, field], "of the peer");
        });
        let larder = larder(&origin, &parent(other.addr(), "first"));
        let answer = Wire::connect(larder.addr()).ask("GET", "/page", &[HOST]);
        let expected = if leads_on { (200, "/page 0") } else { (status, "of the peer") };
        assert_eq!((answer.status, answer.text()), expected, "{status} {field}");
    }
}

#[test]
fn a_squid_that_denies_access_is_left_for_the_origin() {
    let origin = numbered();
    let port = origin.addr().port();
    let squid = Squid::start(&format!(
        "http_access deny all\ncache_peer 127.0.0.1 parent {port} 0 no-query no-digest originserver"
    ));
    let larder = larder(&origin, &squid.as_peer("parent", "first"));
    let refused = Wire::connect(squid.server.addr()).ask("GET", "/page", &[HOST]);
    assert_eq!(refused.status, 403);
    assert_eq!(text(larder.addr(), "/page"), "/page 0");
}

/// A socket whose messages to a port are counted under a name in Larder's metrics.
fn denied(larder: &Larder, protocol: &str) -> u64 {
    Admin::of(larder).metric(&format!("larder_asked_denied_total{{protocol=\"{protocol}\"}}"))
}

fn is_silent(socket: &UdpSocket) -> bool {
    socket.set_nonblocking(true).unwrap();
    socket.recv(&mut [0; 64]).is_err()
}

/// An ICP query (RFC 2186).
fn icp_query(url: &str) -> Vec<u8> {
    let length = (20 + 4 + url.len() + 1) as u16;
    let mut packet = vec![1, 2];
    packet.extend(length.to_be_bytes());
    packet.extend([0, 0, 0, 7]);
    packet.extend([0; 16]);
    packet.extend(url.as_bytes());
    packet.push(0);
    packet
}

#[test]
fn who_is_not_named_gets_no_answer() {
    let origin = numbered();
    let (icp, htcp) = (free_port(), free_port());
    let larder = larder(
        &origin,
        &format!(
            "[icp]\nlisten = [\"127.0.0.1:{icp}\"]\nfrom = [\"127.0.0.5\"]\n[htcp]\nlisten = \
             [\"127.0.0.1:{htcp}\"]\nfrom = [\"127.0.0.5\"]\n{ADMIN}"
        ),
    );
    text(larder.addr(), "/page");
    let query = icp_query("http://site.test/page");
    let named = UdpSocket::bind("127.0.0.5:0").unwrap();
    named.send_to(&query, ("127.0.0.1", icp)).unwrap();
    let mut answer = [0; 64];
    let length = named.recv(&mut answer).unwrap();
    assert_eq!(
        (answer[0], &answer[4..8]),
        (2, &[0, 0, 0, 7][..]),
        "a hit: {:?}",
        &answer[..length]
    );
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.send_to(&query, ("127.0.0.1", icp)).unwrap();
    let mut purge = clr("http://site.test/page");
    purge[7] = 0x40;
    stranger.send_to(&purge, ("127.0.0.1", htcp)).unwrap();
    stranger.send_to(&nop(7), ("127.0.0.1", htcp)).unwrap();
    wait_until("the messages to be denied", || {
        denied(&larder, "icp") == 1 && denied(&larder, "htcp") == 2
    });
    assert!(is_silent(&stranger));
    assert_eq!(text(larder.addr(), "/page"), "/page 0");
}

#[test]
fn a_clr_needs_the_permission_to_purge() {
    let (origin, port) = (numbered(), free_port());
    let larder = Larder::with_config(&format!(
        "[[site]]\norigin = \"{}\"\npurge = {{ from = [\"127.0.0.5\"] }}\n[htcp]\nlisten = \
         [\"127.0.0.1:{port}\"]\nfrom = [\"127.0.0.0/8\"]\n[http]\nlisten = [\"127.0.0.1:0\"]\n{ADMIN}",
        origin.url()
    ));
    let page = text(larder.addr(), "/page");
    let mut purge = clr("http://site.test/page");
    purge[7] = 0x40;
    let (mut answer, asker) = ([0; 64], UdpSocket::bind("127.0.0.1:0").unwrap());
    asker.send_to(&purge, ("127.0.0.1", port)).unwrap();
    let length = asker.recv(&mut answer).unwrap();
    assert!(length >= 12, "{:?}", &answer[..length]);
    assert_eq!(denied(&larder, "htcp"), 1);
    assert_eq!(text(larder.addr(), "/page"), page);
    let permitted = UdpSocket::bind("127.0.0.5:0").unwrap();
    permitted.send_to(&purge, ("127.0.0.1", port)).unwrap();
    permitted.recv(&mut answer).unwrap();
    assert_ne!(text(larder.addr(), "/page"), page);
}

/// A NOP of HTCP (RFC 2756 section 6.1) of minor version 1, whose answer is wanted.
fn nop(number: u32) -> Vec<u8> {
    let mut packet = vec![0, 14, 0, 1, 0, 8, 0, 2];
    packet.extend(number.to_be_bytes());
    packet.extend([0, 2]);
    packet
}

#[test]
fn a_nop_is_answered() {
    let (origin, port) = (numbered(), free_port());
    let htcp = format!("[htcp]\nlisten = [\"127.0.0.1:{port}\"]\nfrom = [\"127.0.0.1\"]\n");
    let _larder = larder(&origin, &htcp);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(&nop(0x0102_0304), ("127.0.0.1", port)).unwrap();
    let mut answer = [0; 64];
    let length = socket.recv(&mut answer).unwrap();
    // RR, and the number of the question.
    assert_eq!((length, &answer[8..12]), (14, &[1, 2, 3, 4][..]), "{:?}", &answer[..length]);
    assert_eq!((answer[6], answer[7] & 1), (0, 1));
    assert_eq!(origin.count(), 0);
}

/// Each waits for the other's answer, whose page is under way at the other, too.
#[test]
fn parents_of_each_other_are_asked_for_a_page_at_the_same_time() {
    let (origin, gate) = (numbered(), Gate::closed());
    let ports = [free_port(), free_port()];
    let ways = ports.map(|port| {
        let opened = gate.clone();
        // The way to a parent: both requests are on it before one arrives.
        Origin::start(move |seen, reply| {
            opened.wait();
            let passed = format!("CDN-Loop: {}", seen.fields.joined("cdn-loop"));
            let mut wire = Wire::connect(SocketAddr::from(([127, 0, 0, 1], port)));
            let answer = wire.ask("GET", &seen.target, &[HOST, &passed]);
            reply.answer(answer.status, &[FRESH], answer.text());
        })
    });
    let larders = [0, 1].map(|own| {
        let way = parent(ways[1 - own].addr(), "first") + "first_byte_timeout = \"300s\"\n";
        larder_at(&origin, ports[own], &way)
    });
    std::thread::scope(|scope| {
        let visitors =
            larders.each_ref().map(|larder| scope.spawn(|| text(larder.addr(), "/page")));
        wait_until("both to ask", || ways.iter().all(|way| way.count() == 1));
        gate.open();
        for visitor in visitors {
            assert!(visitor.join().unwrap().starts_with("/page "));
        }
    });
}

#[test]
fn a_part_that_nobody_asked_for_is_no_answer_of_a_parent() {
    for status in [206, 304] {
        let origin = numbered();
        let other = Origin::start(move |_, reply| {
            let fields = [FRESH, "Content-Range: bytes 0-0/2", "ETag: \"p\""];
            match status {
                206 => reply.answer(206, &fields, "a"),
                _ => reply.head(304, &fields),
            };
        });
        let larder = larder(&origin, &parent(other.addr(), "first"));
        assert_eq!(text(larder.addr(), "/page"), "/page 0", "{status}");
        assert_eq!(other.count(), 1, "{status}");
    }
}
