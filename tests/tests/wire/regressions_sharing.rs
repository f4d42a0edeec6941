//! Answers reach only the clients they are for: credentials, `only-if-cached`, and requests that
//! must not lead others.

use larder_tests::{Gate, Larder, Origin, Wire, get, get_with, wait_until};

const FRESH: &[&str] = &["Cache-Control: max-age=60"];

#[test]
fn a_stale_hit_with_credentials_leaves_the_page_for_others() {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        if seen.number == 0 {
            reply.ok(&["Cache-Control: max-age=10, stale-while-revalidate=1000", "Age: 20"], "old");
        } else if seen.get("authorization").is_some() {
            reply.ok(FRESH, "for one");
        } else {
            door.wait();
            reply.ok(FRESH, "new");
        }
    });
    let larder = Larder::before(&origin.url());
    get(larder.addr(), "/");
    let answer = get_with(larder.addr(), "/", &["Authorization: Basic eDp5"]);
    assert!(["old", "for one"].contains(&answer.text()), "{answer:?}");
    // The origin answers no one else now: what comes is the stored page.
    for _ in 0..50 {
        assert_eq!(get(larder.addr(), "/").text(), "old");
    }
    gate.open();
    wait_until("the new page", || {
        let answer = get(larder.addr(), "/");
        assert!(["old", "new"].contains(&answer.text()), "{answer:?}");
        answer.text() == "new"
    });
}

/// A field that may not be used again without asking (RFC 9111 5.2.2.4) goes to whom it was sent,
/// and no further.
fn cookie_for_the_first_only(control: &'static str) {
    let origin = Origin::start(move |_, reply| {
        reply.ok(&[control, "Set-Cookie: session=secret"], "page");
    });
    let larder = Larder::before(&origin.url());
    let first = get(larder.addr(), "/");
    assert_eq!((first.text(), first.get("set-cookie")), ("page", Some("session=secret")));
    let second = get(larder.addr(), "/");
    assert_eq!((second.assert_hit().text(), second.get("set-cookie")), ("page", None));
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_cookie_named_by_no_cache_reaches_its_client_and_is_not_stored() {
    cookie_for_the_first_only("Cache-Control: max-age=60, no-cache=\"set-cookie\"");
}

#[test]
fn a_cookie_named_by_private_reaches_its_client_and_is_not_stored() {
    cookie_for_the_first_only("Cache-Control: max-age=60, private=\"set-cookie\"");
}

#[test]
fn only_if_cached_never_reaches_the_origin() {
    let origin = Origin::serving(&["Cache-Control: private"], "mine");
    let larder = Larder::before(&origin.url());
    let ask = |method: &str, more: &str| {
        let fields = ["Host: site.test", "Cache-Control: only-if-cached", more];
        larder.connect().ask(method, "/", &fields).assert_status(504);
    };
    let all = || {
        for more in ["X: y", "Range: bytes=0-1", "Authorization: Basic eDp5", "Cookie: a=b"] {
            ask("GET", more);
            ask("HEAD", more);
        }
    };
    all();
    assert_eq!(origin.count(), 0);
    // A private answer is remembered as one that is not worth waiting for.
    get(larder.addr(), "/").assert_status(200);
    all();
    assert_eq!(origin.count(), 1);
}

/// An origin whose `/warm` is a page at once, and whose other pages wait at the gate.
fn gated() -> (Origin, Gate) {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        if seen.target != "/warm" {
            door.wait();
        }
        reply.ok(FRESH, &seen.target);
    });
    (origin, gate)
}

/// Twenty clients that wait for `/cold`. The hit they ask for in the same packet tells that Larder
/// has read both.
fn twenty_waiting(larder: &Larder) -> Vec<Wire> {
    larder.connect().get("/warm", &[]);
    let both = "GET /warm HTTP/1.1\r\nHost: site.test\r\n\r\nGET /cold HTTP/1.1\r\nHost: \
                site.test\r\n\r\n";
    let mut wires: Vec<Wire> = (0..20).map(|_| larder.connect()).collect();
    for wire in &mut wires {
        wire.send(both);
    }
    for wire in &mut wires {
        wire.read().assert_hit();
    }
    wires
}

#[test]
fn a_no_store_request_leads_nobody() {
    let (origin, gate) = gated();
    let larder = Larder::before(&origin.url());
    let mut apart = larder.connect();
    apart.send_get("/cold", &["Host: site.test", "Cache-Control: no-store"]);
    origin.wait_for(1);
    let mut wires = twenty_waiting(&larder);
    gate.open();
    assert_eq!(apart.read().text(), "/cold");
    for wire in &mut wires {
        assert_eq!(wire.read().text(), "/cold");
    }
    assert!(origin.count_of("/cold") <= 2, "{} requests", origin.count_of("/cold"));
    get(larder.addr(), "/cold").assert_hit();
}

#[test]
fn a_no_store_request_leaves_no_mark() {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        if seen.target != "/warm" && seen.get("cache-control").is_none() {
            door.wait();
        }
        reply.ok(FRESH, &seen.target);
    });
    let larder = Larder::before(&origin.url());
    get_with(larder.addr(), "/cold", &["Cache-Control: no-store"]).assert_status(200);
    let mut wires = twenty_waiting(&larder);
    gate.open();
    for wire in &mut wires {
        assert_eq!(wire.read().text(), "/cold");
    }
    assert!(origin.count_of("/cold") <= 2, "{} requests", origin.count_of("/cold"));
}

/// Interim responses wait where the client that leads a fetch reads nothing; the fetch does not.
#[test]
fn a_leader_that_reads_no_interim_responses_holds_up_nobody_else() {
    // More than all sockets take.
    const HINTS: usize = 400;
    let hint = format!("HTTP/1.1 103 Early Hints\r\nLink: </{}>\r\n\r\n", "a".repeat(60_000));
    let origin = Origin::start(move |seen, reply| {
        for _ in 0..HINTS {
            reply.raw(&hint);
        }
        reply.ok(FRESH, &seen.target);
    });
    let larder = Larder::with_config(&format!(
        "threads = 1\n[[site]]\norigin = {{ url = \"{}\", first_byte_timeout = \"1h\" }}",
        origin.url()
    ));
    let mut leader = Wire::connect_narrow(larder.addr());
    leader.send_get("/page", &["Host: site.test"]);
    origin.wait_for(1);
    assert_eq!(get(larder.addr(), "/page").text(), "/page");
    assert_eq!(origin.count(), 1);
}
