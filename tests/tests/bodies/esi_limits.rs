//! Pages that are put together of parts (ESI): what they may take of origins, memory and time, and
//! what ends with a client that leaves.

// A helper that fails ends its test.
#![allow(clippy::unwrap_used)]

use std::{
    io::{Read as _, Write as _},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

use larder_tests::{Admin, Gate, Larder, Origin, Reply, Wire, get, wait_until};

const ESI: &str = "Surrogate-Control: content=\"ESI/1.0\"";
const FRESH: &str = "Cache-Control: max-age=60";
const PRIVATE: &str = "Cache-Control: private";

fn page(reply: &mut Reply, body: impl AsRef<[u8]>) {
    reply.ok(&[ESI, FRESH], body);
}

fn include(src: &str) -> String {
    format!("<esi:include src=\"{src}\"/>")
}

fn gzip(text: &str) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(text.as_bytes()).unwrap();
    out.finish().unwrap()
}

/// Sends the begin of an answer, and waits until the cache closes the connection.
fn drip(reply: &mut Reply, fields: &[&str], begin: &str, closed: &AtomicBool) {
    reply.chunked(200, fields).chunk(begin);
    let mut stream = reply.take_stream();
    let _nothing = stream.read(&mut [0]);
    closed.store(true, Relaxed);
}

#[test]
fn a_coded_part_is_decoded_once() {
    let text = "some text of a part, ".repeat(10_000);
    let origin = Origin::start({
        let text = text.clone();
        move |seen, reply| match seen.path() {
            "/" => page(reply, format!("a{}b", include("/part"))),
            _ => drop(reply.ok(&[FRESH, "Content-Encoding: gzip"], gzip(&text))),
        }
    });
    let larder = Larder::site(&origin.url(), "purge = { from = [\"127.0.0.1\"] }");
    let expected = format!("a{text}b");
    assert!(get(larder.addr(), "/").text() == expected);
    // A part that had to be decoded would be no hit.
    for _ in 0..2 {
        assert!(get(larder.addr(), "/").assert_hit().text() == expected);
    }
    assert_eq!(origin.count(), 2);
    larder.connect().ask("PURGE", "/part", &["Host: site.test"]).assert_status(200);
    assert!(get(larder.addr(), "/").text() == expected);
    assert_eq!(origin.count_of("/part"), 2);
}

/// A part that is kept in one coding is decoded once, and its content kept for the page.
#[test]
fn a_packed_part_is_decoded_once() {
    let text = "some text of a part, ".repeat(10_000);
    let origin = Origin::start({
        let text = text.clone();
        move |seen, reply| match seen.path() {
            "/" => page(reply, format!("a{}b", include("/part"))),
            _ => drop(reply.ok(&[FRESH, "Content-Type: text/html"], &text)),
        }
    });
    let larder = Larder::with_config(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[[site]]\n\
         origin = \"{}\"\ncompress = [\"gzip\"]\nstore_forms = \"one\"\n",
        origin.url()
    ));
    let admin = Admin::of(&larder);
    let expected = format!("a{text}b");
    assert!(get(larder.addr(), "/").text() == expected);
    wait_until("the part is packed", || {
        let object = admin.json("/api/v1/object?url=http://site.test/part");
        object["variants"][0]["encoding"] == "gzip"
    });
    assert!(get(larder.addr(), "/").text() == expected);
    assert!(get(larder.addr(), "/").assert_hit().text() == expected);
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_client_that_leaves_ends_the_fetch_of_a_page_with_markup() {
    let closed = Arc::new(AtomicBool::new(false));
    let origin = Origin::start({
        let closed = closed.clone();
        move |_, reply| drip(reply, &[ESI, FRESH], "begin", &closed)
    });
    let larder = Larder::before(&origin.url());
    let mut client = larder.connect();
    client.send_get("/", &["Host: site.test"]);
    origin.wait_for(1);
    drop(client);
    wait_until("the origin's connection is closed", || closed.load(Relaxed));
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_client_that_leaves_ends_nothing_that_others_wait_for() {
    let gate = Gate::closed();
    let origin = Origin::start({
        let gate = gate.clone();
        move |_, reply| {
            reply.chunked(200, &[ESI, FRESH]).chunk("begin");
            gate.wait();
            reply.chunk("<esi:comment/>end").end();
        }
    });
    let larder = Larder::with_config(&format!(
        "threads = 1\n[http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [[site]]\norigin = \"{}\"\n",
        origin.url()
    ));
    let mut clients: Vec<Wire> = (0..2).map(|_| larder.connect()).collect();
    clients[0].send_get("/", &["Host: site.test"]);
    origin.wait_for(1);
    clients[1].send_get("/", &["Host: site.test"]);
    let admin = Admin::of(&larder);
    let waits = || admin.metric("larder_http_coalesced_waits_total") >= 1;
    wait_until("the second waits", waits);
    drop(clients.remove(0));
    let connections = || admin.metric("larder_http_connections") <= 1;
    wait_until("the first has left", connections);
    gate.open();
    assert_eq!(clients[0].read().text(), "beginend");
    assert_eq!(origin.count(), 1);
}

/// Parts of 64 KiB for one client each, of which half comes before the gate is open; and the most
/// that were under way at the same time.
fn long_parts(page_body: String, gate: &Gate) -> (Origin, Arc<AtomicUsize>) {
    let (now, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let origin = Origin::start({
        let (gate, most) = (gate.clone(), most.clone());
        move |seen, reply| match seen.path() {
            "/" => page(reply, &page_body),
            "/inner" => page(reply, format!("({})", include("/leaf"))),
            "/leaf" => drop(reply.ok(&[PRIVATE], "leaf")),
            path => {
                most.fetch_max(now.fetch_add(1, Relaxed) + 1, Relaxed);
                let half = part(path);
                reply.chunked(200, &[PRIVATE]).chunk(&half);
                gate.wait();
                now.fetch_sub(1, Relaxed);
                reply.chunk(&half).end();
            }
        }
    });
    (origin, most)
}

fn part(path: &str) -> String {
    format!("{path:16}").repeat(2048)
}

fn parts(count: usize) -> (String, String) {
    let src = |n: usize| format!("/part{n}");
    let includes = (0..count).map(|n| include(&src(n))).collect();
    (includes, (0..count).map(|n| part(&src(n)).repeat(2)).collect())
}

#[test]
fn long_private_parts_keep_few_connections() {
    let gate = Gate::closed();
    let (includes, expected) = parts(40);
    let (origin, most) = long_parts(format!("<{includes}>"), &gate);
    let larder = Larder::site(&origin.url(), "[[site.rule]]\npath = \"/part*\"\npass = true");
    let mut client = larder.connect();
    client.send_get("/", &["Host: site.test"]);
    // The page, and all parts but one of 32: that one is for a part that the client waits for.
    origin.wait_for(32);
    // Time for more of them, should they be asked for.
    for _ in 0..50 {
        assert_eq!(get(larder.addr(), "/leaf").text(), "leaf");
    }
    assert!((31..=32).contains(&most.load(Relaxed)), "{}", most.load(Relaxed));
    gate.open();
    assert!(client.read().text() == format!("<{expected}>"));
    assert!(most.load(Relaxed) <= 32, "{}", most.load(Relaxed));
}

/// Parts that keep connections never keep those from them that are sent before.
#[test]
fn parts_do_not_wait_for_each_other() {
    let (includes, expected) = parts(40);
    let attempt = format!(
        "<esi:try><esi:attempt>{includes}</esi:attempt><esi:except>failed</esi:except></esi:try>"
    );
    let nested = format!("{}{includes}", include("/inner"));
    for (body, expected) in [(attempt, expected.clone()), (nested, format!("(leaf){expected}"))] {
        let gate = Gate::closed();
        gate.open();
        let (origin, most) = long_parts(body, &gate);
        let larder = Larder::site(&origin.url(), "[[site.rule]]\npath = \"/part*\"\npass = true");
        for _ in 0..2 {
            assert!(get(larder.addr(), "/").text() == expected);
        }
        assert!(most.load(Relaxed) <= 32, "{}", most.load(Relaxed));
    }
}

#[test]
fn a_head_does_not_wait_for_ever() {
    let closed = Arc::new(AtomicBool::new(false));
    let begin = "b".repeat(32 << 10);
    let origin = Origin::start({
        let closed = closed.clone();
        move |seen, reply| match seen.path() {
            "/" => page(reply, format!("a{}b", include("/drips"))),
            _ => drip(reply, &[PRIVATE], &begin, &closed),
        }
    });
    let larder = Larder::site(&origin.url(), "esi_timeout = \"1s\"");
    let head = larder.connect().ask("HEAD", "/", &["Host: site.test"]);
    assert_eq!(head.status, 504);
    wait_until("the origin's connection is closed", || closed.load(Relaxed));
}

#[test]
fn a_client_that_leaves_ends_its_head() {
    let closed = Arc::new(AtomicBool::new(false));
    let begin = "b".repeat(32 << 10);
    let origin = Origin::start({
        let closed = closed.clone();
        move |seen, reply| match seen.path() {
            "/" => page(reply, format!("a{}b", include("/drips"))),
            _ => drip(reply, &[PRIVATE], &begin, &closed),
        }
    });
    let larder = Larder::site(&origin.url(), "esi_timeout = \"1h\"");
    let mut client = larder.connect();
    client.send("HEAD / HTTP/1.1\r\nHost: site.test\r\n\r\n");
    origin.wait_for(2);
    drop(client);
    wait_until("the origin's connection is closed", || closed.load(Relaxed));
}

/// Seven parts of 4,096 nodes are within the limit of 32,768; the others fail as parts do.
#[test]
fn too_much_markup_is_a_part_that_fails() {
    let origin = Origin::start(|seen, reply| match seen.path() {
        "/" => page(reply, format!("<{}>", include("/big").repeat(10))),
        "/instead" => {
            let instead = "<esi:include src=\"/big\" alt=\"/small\"/>".repeat(8);
            page(reply, format!("<{instead}>"));
        }
        "/big" => page(reply, "x<esi:comment text=\"\"/>".repeat(4096)),
        _ => drop(reply.ok(&[FRESH], "small")),
    });
    let larder = Larder::with_config(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[[site]]\n\
         origin = \"{}\"\n",
        origin.url()
    ));
    // Which of the parts are the last depends on the order in which they come.
    for _ in 0..2 {
        for (target, instead, count) in
            [("/", "<!-- no part /big (508) -->", 3), ("/instead", "small", 1)]
        {
            let answer = get(larder.addr(), target);
            let text = answer.text();
            let known = (text.matches('x').count(), text.matches(instead).count());
            assert_eq!(known, (7 * 4096, count), "{target}");
            assert_eq!(text.len(), 2 + 7 * 4096 + count * instead.len(), "{target}");
        }
    }
    assert_eq!(Admin::of(&larder).metric("larder_http_parts_failed_total"), 6);
}
