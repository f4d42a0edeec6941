//! Purges and invalidations that meet something under way, a proxy, or another spelling of the same
//! page.

use larder_tests::{Answer, Gate, Larder, Origin, Reply, Seen, Wire, get, get_with};

const FRESH: &[&str] = &["Cache-Control: max-age=600", "Surrogate-Key: t1"];

/// Every way to purge `/`.
const PURGES: [&[&str]; 6] = [
    &[],
    &["Larder-Soft-Purge: 1"],
    &["Larder-Purge: prefix"],
    &["Larder-Purge: prefix", "Larder-Soft-Purge: 1"],
    &["Larder-Purge: tag", "Surrogate-Key: t1"],
    &["Larder-Purge: tag", "Surrogate-Key: t1", "Larder-Soft-Purge: 1"],
];

/// A Larder that lets this machine purge.
fn allowed(origin: &Origin) -> Larder {
    Larder::site(&origin.url(), "purge = { from = [\"127.0.0.1\"] }")
}

fn purge(larder: &Larder, target: &str, fields: &[&str]) -> Answer {
    larder.connect().ask("PURGE", target, &[&["Host: site.test"], fields].concat())
}

/// An origin whose answer to request number `held` waits at the gate.
fn held(held: usize, script: impl Fn(&Seen, &mut Reply) + Send + Sync + 'static) -> (Origin, Gate) {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        if seen.number == held {
            door.wait();
        }
        script(seen, reply);
    });
    (origin, gate)
}

/// A client that waits for `/`, its request at the origin as the `count`th.
fn waiting(larder: &Larder, origin: &Origin, count: usize) -> Wire {
    let mut wire = larder.connect();
    wire.send_get("/", &["Host: site.test"]);
    origin.wait_for(count);
    wire
}

#[test]
fn every_purge_counts_for_what_is_being_fetched() {
    for fields in PURGES {
        let (origin, gate) = held(0, |seen, reply| {
            reply.ok(FRESH, if seen.number == 0 { "old" } else { "new" });
        });
        let larder = allowed(&origin);
        let mut wire = waiting(&larder, &origin, 1);
        purge(&larder, "/", fields);
        gate.open();
        wire.read();
        assert_eq!(get(larder.addr(), "/").text(), "new", "after {fields:?}");
    }
}

#[test]
fn every_purge_counts_for_what_is_being_validated() {
    const STALE: &[&str] =
        &["Cache-Control: max-age=10", "Age: 20", "ETag: \"1\"", "Surrogate-Key: t1"];
    for fields in PURGES {
        let (origin, gate) = held(1, |seen, reply| {
            match seen.number {
                0 => reply.ok(STALE, "old"),
                1 => reply.head(304, &[FRESH, &["ETag: \"1\""]].concat()),
                _ => reply.ok(FRESH, "new"),
            };
        });
        let larder = allowed(&origin);
        get(larder.addr(), "/");
        let mut wire = waiting(&larder, &origin, 2);
        purge(&larder, "/", fields);
        gate.open();
        wire.read();
        assert_eq!(get(larder.addr(), "/").text(), "new", "after {fields:?}");
    }
}

#[test]
fn a_slow_head_does_not_bring_an_older_body_back() {
    let (origin, gate) = held(1, |seen, reply| {
        let fields = |tag: &'static str| [FRESH, &[tag]].concat();
        match seen.number {
            0 => reply.ok(&fields("ETag: \"1\""), "old"),
            1 => reply.head(200, &[FRESH, &["ETag: \"1\"", "Content-Length: 3"]].concat()),
            _ => reply.ok(&fields("ETag: \"2\""), "new"),
        };
    });
    // Else the page would be fetched instead, and the other request would wait for it.
    let larder =
        Larder::site(&origin.url(), "convert_head = false\npurge = { from = [\"127.0.0.1\"] }");
    get(larder.addr(), "/");
    let mut head = larder.connect();
    head.send("HEAD / HTTP/1.1\r\nHost: site.test\r\nCache-Control: no-cache\r\n\r\n");
    origin.wait_for(2);
    assert_eq!(get_with(larder.addr(), "/", &["Cache-Control: no-cache"]).text(), "new");
    gate.open();
    head.read_for("HEAD");
    let after = get(larder.addr(), "/");
    assert_eq!((after.text(), after.get("etag")), ("new", Some("\"2\"")));
}

#[test]
fn a_slow_304_does_not_bring_an_older_body_back() {
    let (origin, gate) = held(1, |seen, reply| {
        let fields = |tag: &'static str| [FRESH, &[tag]].concat();
        match seen.number {
            0 => reply.ok(&["Cache-Control: max-age=10", "Age: 20", "ETag: \"1\""], "old"),
            1 => reply.head(304, &fields("ETag: \"1\"")),
            _ => reply.ok(&fields("ETag: \"2\""), "new"),
        };
    });
    let larder = allowed(&origin);
    get(larder.addr(), "/");
    let mut slow = waiting(&larder, &origin, 2);
    purge(&larder, "/", &[]);
    assert_eq!(get(larder.addr(), "/").text(), "new");
    gate.open();
    slow.read();
    let after = get(larder.addr(), "/");
    assert_eq!((after.text(), after.get("etag")), ("new", Some("\"2\"")));
}

/// A proxy of our own on 127.0.0.1 stands before this one.
fn behind_proxy(origin: &Origin, site: &str) -> Larder {
    Larder::with_config(&format!(
        "[http]\ntrusted_proxies = [\"127.0.0.1\"]\n[[site]]\norigin = \"{}\"\n{site}\n",
        origin.url()
    ))
}

#[test]
fn a_purge_through_a_proxy_is_judged_by_who_sent_it() {
    let origin = Origin::serving(FRESH, "page");
    let from = |address: &str| format!("X-Forwarded-For: {address}");
    let larder = behind_proxy(&origin, "purge = { from = [\"192.0.2.1\"] }");
    get(larder.addr(), "/");
    purge(&larder, "/", &[&from("203.0.113.9")]).assert_status(403);
    // Whom the proxy names counts, not whom its client named before.
    purge(&larder, "/", &[&from("192.0.2.1, 203.0.113.9")]).assert_status(403);
    get(larder.addr(), "/").assert_hit();
    purge(&larder, "/", &[&from("192.0.2.1")]).assert_status(200);
}

#[test]
fn leave_to_purge_for_a_proxy_is_no_leave_for_its_clients() {
    let origin = Origin::serving(FRESH, "page");
    let larder = behind_proxy(&origin, "purge = { from = [\"127.0.0.1\"] }");
    get(larder.addr(), "/");
    purge(&larder, "/", &["X-Forwarded-For: 203.0.113.9"]).assert_status(403);
    get(larder.addr(), "/").assert_hit();
    purge(&larder, "/", &[]).assert_status(200);
}

/// Pages, and posts that say in `X-Says` what changed.
fn posts() -> Origin {
    Origin::start(|seen, reply| {
        if seen.method == "POST" {
            let says = seen.get("x-says").unwrap_or("X: y").to_owned();
            reply.answer(201, &[&says], "");
        } else {
            reply.ok(FRESH, "page");
        }
    })
}

fn post(larder: &Larder, says: &str, fields: &[&str]) {
    let says = format!("X-Says: {says}");
    let own = ["Host: site.test", "Content-Length: 0", &says];
    larder.connect().ask("POST", "/post", &[&own, fields].concat()).assert_status(201);
}

#[test]
fn an_absolute_location_invalidates_behind_https() {
    const HTTPS: &[&str] = &["X-Forwarded-Proto: https"];
    for field in ["Location", "Content-Location"] {
        let origin = posts();
        let larder = behind_proxy(&origin, "");
        get_with(larder.addr(), "/a", HTTPS);
        get_with(larder.addr(), "/a", HTTPS).assert_hit();
        post(&larder, &format!("{field}: https://other.test/a"), HTTPS);
        get_with(larder.addr(), "/a", HTTPS).assert_hit();
        post(&larder, &format!("{field}: https://site.test/a"), HTTPS);
        get_with(larder.addr(), "/a", HTTPS).assert_forwarded();
        post(&larder, &format!("{field}: /a"), HTTPS);
        get_with(larder.addr(), "/a", HTTPS).assert_forwarded();
    }
}

#[test]
fn a_location_invalidates_the_page_without_its_dropped_parameters() {
    let origin = posts();
    let larder = Larder::site(&origin.url(), "drop_query = [\"utm_*\"]");
    for says in ["Location: /a?utm_source=mail", "Location: http://site.test/a?utm_source=mail"] {
        get(larder.addr(), "/a?utm_source=feed");
        get(larder.addr(), "/a").assert_hit();
        post(&larder, says, &[]);
        get(larder.addr(), "/a").assert_forwarded();
    }
}

#[test]
fn an_unsafe_request_invalidates_the_page_as_get_names_it() {
    let origin = posts();
    let rule = "[[site.rule]]\nmethod = [\"GET\"]\ndrop_query = [\"utm_*\"]\nsort_query = true";
    let larder = Larder::site(&origin.url(), rule);
    get(larder.addr(), "/a?y=2&x=1");
    let fields = ["Host: site.test", "Content-Length: 0"];
    larder.connect().ask("POST", "/a?y=2&utm_source=mail&x=1", &fields).assert_status(201);
    get(larder.addr(), "/a?x=1&y=2").assert_forwarded();
}

#[test]
fn a_purge_names_the_page_as_get_does() {
    let origin = Origin::serving(FRESH, "page");
    let larder = Larder::site(
        &origin.url(),
        "purge = { from = [\"127.0.0.1\"] }\n[[site.rule]]\nmethod = [\"GET\"]\ndrop_query = \
         [\"utm_*\"]\nsort_query = true",
    );
    get(larder.addr(), "/a?y=2&x=1&utm_source=feed");
    get(larder.addr(), "/a?x=1&y=2").assert_hit();
    purge(&larder, "/a?y=2&utm_source=mail&x=1", &[]).assert_status(200);
    get(larder.addr(), "/a?x=1&y=2").assert_forwarded();
}

#[test]
fn a_purge_reaches_a_page_asked_for_with_a_port() {
    let origin = Origin::serving(FRESH, "page");
    let larder = allowed(&origin);
    let ask =
        |method: &str, host: &str| larder.connect().ask(method, "/", &[&format!("Host: {host}")]);
    for host in ["site.test:443", "site.test:80", "site.test"] {
        ask("GET", host);
        ask("GET", host).assert_hit();
        ask("PURGE", host).assert_status(200);
        ask("GET", host).assert_forwarded();
    }
    // The default port of http may be left out.
    ask("GET", "site.test:80");
    ask("PURGE", "site.test").assert_status(200);
    ask("GET", "site.test:80").assert_forwarded();
}

#[test]
fn a_new_kind_of_variant_leaves_the_others_softly_purged() {
    // The second variant differs by the coding of its body, or by the fields that its Vary names.
    for (first, second) in
        [("Accept-Encoding: gzip", "Accept-Encoding: identity"), ("X-A: 1", "X-B: 1")]
    {
        let origin = Origin::start(|seen, reply| {
            let coded = seen.fields.joined("accept-encoding").contains("gzip");
            let vary = match () {
                () if seen.get("x-a").is_some() => "Vary: X-A",
                () if seen.get("x-b").is_some() => "Vary: X-B, X-A",
                () => "Vary: Accept-Encoding",
            };
            let coding: &[&str] = if coded { &["Content-Encoding: gzip"] } else { &[] };
            let fields = [FRESH, &[vary], coding].concat();
            reply.ok(&fields, seen.number.to_string());
        });
        let larder = allowed(&origin);
        get_with(larder.addr(), "/", &[first]);
        get_with(larder.addr(), "/", &[first]).assert_hit();
        purge(&larder, "/", &["Larder-Soft-Purge: 1"]).assert_status(200);
        assert_eq!(get_with(larder.addr(), "/", &[second]).text(), "1");
        let after = get_with(larder.addr(), "/", &[first]);
        assert_eq!(after.text(), "2", "{first}, then {second}: {after:?}");
    }
}
