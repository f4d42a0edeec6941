//! Pages that are put together of parts (ESI): what is put in, in which order, and from where.

// A helper that fails ends its test.
#![allow(clippy::unwrap_used)]

use std::{
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

use larder_tests::{Gate, H2, H3, Larder, Origin, Papers, Reply, Wire, get, get_with};

const ESI: &str = "Surrogate-Control: content=\"ESI/1.0\"";
const FRESH: &str = "Cache-Control: max-age=60";
const HTML: &str = "Content-Type: text/html";

/// A page with markup, fresh for a minute.
fn page(reply: &mut Reply, body: impl AsRef<[u8]>) {
    reply.ok(
        &[ESI, FRESH, HTML, "ETag: \"page\"", "Last-Modified: Sat, 01 Jan 2000 00:00:00 GMT"],
        body,
    );
}

fn part(reply: &mut Reply, body: impl AsRef<[u8]>) {
    reply.ok(&[FRESH, HTML], body);
}

/// A part that says what was asked for.
fn include(src: &str) -> String {
    format!("<esi:include src=\"{src}\"/>")
}

#[test]
fn parts_are_put_in_and_kept_like_pages() {
    let origin = Origin::start(|seen, reply| match seen.path() {
        "/" => page(reply, format!("<a>{}<b>{}</b>", include("/one"), include("two?x=1&amp;y"))),
        _ => part(reply, format!("[{}]", seen.target)),
    });
    let larder = Larder::site(&origin.url(), "purge = { from = [\"127.0.0.1\"] }");
    let expected = "<a>[/one]<b>[/two?x=1&y]</b>";
    let first = get(larder.addr(), "/");
    assert_eq!(first.text(), expected);
    first.assert_forwarded();
    assert_eq!(first.get("surrogate-control"), None);
    assert_eq!(
        origin.requests()[0].get("surrogate-capability"),
        Some("larder=\"Surrogate/1.0 ESI/1.0\"")
    );
    // All of it is in memory: a hit, with a length.
    let second = get(larder.addr(), "/");
    assert_eq!(second.assert_hit().text(), expected);
    assert_eq!(second.get("content-length"), Some(expected.len().to_string().as_str()));
    assert_eq!(second.get("cache-control"), Some("max-age=60"));
    assert_eq!(origin.count(), 3);
    // Parts are pages of their own.
    assert_eq!(get(larder.addr(), "/one").assert_hit().text(), "[/one]");
    let purged = larder.connect().ask("PURGE", "/one", &["Host: site.test"]);
    purged.assert_status(200);
    let third = get(larder.addr(), "/");
    assert_eq!(third.text(), expected);
    assert!(third.cache_status_has("fwd=partial"), "{third:?}");
    assert_eq!((origin.count(), origin.count_of("/one"), origin.count_of("/")), (4, 2, 1));
}

#[test]
fn parts_are_fetched_at_the_same_time_and_sent_in_order() {
    let (gate, asked) = (Gate::closed(), Arc::new(AtomicUsize::new(0)));
    let origin = Origin::start({
        let gate = gate.clone();
        move |seen, reply| match seen.path() {
            "/" => {
                let parts: Vec<String> = (0..10).map(|n| include(&format!("/{n}"))).collect();
                page(reply, parts.join("-"));
            }
            path => {
                // None is answered before all were asked for.
                if asked.fetch_add(1, Relaxed) == 9 {
                    gate.open();
                }
                gate.wait();
                part(reply, &path[1..]);
            }
        }
    });
    let larder = Larder::before(&origin.url());
    assert_eq!(get(larder.addr(), "/").text(), "0-1-2-3-4-5-6-7-8-9");
}

#[test]
fn what_is_there_is_sent_before_what_is_not() {
    let gate = Gate::closed();
    let origin = Origin::start({
        let gate = gate.clone();
        move |seen, reply| match seen.path() {
            "/" => page(reply, format!("begin{}middle{}end", include("/quick"), include("/slow"))),
            "/slow" => {
                gate.wait();
                part(reply, "SLOW");
            }
            _ => part(reply, "QUICK"),
        }
    });
    let larder = Larder::before(&origin.url());
    let mut client = larder.connect();
    client.send_get("/", &["Host: site.test"]);
    client.read_head();
    assert_eq!(client.read_chunked_bytes(16), b"beginQUICKmiddle");
    gate.open();
    let mut rest = Vec::new();
    while let Some(chunk) = client.read_chunk().unwrap() {
        rest.extend_from_slice(&chunk);
    }
    assert_eq!(rest, b"SLOWend");
}

#[test]
fn many_clients_cause_one_request_a_part() {
    let gate = Gate::closed();
    let origin = Origin::start({
        let gate = gate.clone();
        move |seen, reply| match seen.path() {
            "/" => {
                gate.wait();
                page(reply, format!("a{}b", include("/p")));
            }
            _ => part(reply, "P"),
        }
    });
    let larder = Larder::before(&origin.url());
    let clients: Vec<Wire> = (0..8)
        .map(|_| {
            let mut client = larder.connect();
            client.send_get("/", &["Host: site.test"]);
            client
        })
        .collect();
    origin.wait_for(1);
    gate.open();
    for mut client in clients {
        assert_eq!(client.read().text(), "aPb");
    }
    assert_eq!((origin.count_of("/"), origin.count_of("/p")), (1, 1));
}

/// The markup of every element, however the origin cuts the page.
#[test]
fn pages_may_be_cut_anywhere() {
    const PAGE: &str = "<!--esi a--><esi:remove>x</esi:remove><esi:include src=\"/p\"/>\
        <esi:choose><esi:when test=\"1==1\">b</esi:when></esi:choose>c";
    let origin = Origin::start(|seen, reply| match seen.path().strip_prefix("/cut") {
        Some(at) => {
            let at: usize = at.parse().unwrap();
            reply.chunked(200, &[ESI, FRESH, HTML]);
            for piece in [&PAGE[..at], &PAGE[at..]] {
                if !piece.is_empty() {
                    reply.chunk(piece);
                }
            }
            reply.end();
        }
        None => part(reply, "P"),
    });
    let larder = Larder::before(&origin.url());
    let mut client = larder.connect();
    for at in 0..=PAGE.len() {
        assert_eq!(client.get(&format!("/cut{at}"), &[]).text(), " aPbc", "cut at {at}");
    }
}

#[test]
fn parts_have_parts_to_a_depth_and_a_number() {
    let origin = Origin::start(|seen, reply| match seen.path() {
        "/loop" => page(reply, format!("({})", include("/loop"))),
        "/many" => page(reply, include("/many").repeat(3)),
        "/self" => page(
            reply,
            "<esi:inline name=\"/x\">i<esi:include src=\"/x\"/></esi:inline><esi:include src=\"/x\"/>",
        ),
        "/" => page(reply, format!("a{}b", include("/inner"))),
        "/inner" => page(reply, format!("c{}d", include("/leaf"))),
        _ => part(reply, "leaf"),
    });
    let larder = Larder::site(&origin.url(), "esi_parts = 20\nesi_error = \"nothing\"");
    for _ in 0..2 {
        assert_eq!(get(larder.addr(), "/").text(), "acleafdb");
        // Five parts within each other.
        assert_eq!(get(larder.addr(), "/loop").text(), "(((((())))))");
        assert_eq!(get(larder.addr(), "/many").text(), "");
        assert_eq!(get(larder.addr(), "/self").text(), "i".repeat(5), "as deep as pages");
    }
    assert_eq!(origin.count_of("/loop"), 1);
}

#[test]
fn parts_that_fail() {
    let origin = Origin::start(|seen, reply| match seen.path() {
        "/comment" => page(reply, format!("a{}b", include("/bad?<x>--"))),
        "/continue" => page(reply, "a<esi:include src=\"/bad\" onerror=\"continue\"/>b"),
        "/alt" => page(reply, "a<esi:include src=\"/bad\" alt=\"/good\"/>b"),
        "/both" => page(reply, "a<esi:include src=\"/bad\" alt=\"/worse\"/>b"),
        "/try" => page(
            reply,
            "<esi:try><esi:attempt>a<esi:include src=\"/good\"/><esi:include src=\"/bad\"/>\
             </esi:attempt><esi:except>instead<esi:include src=\"/good?2\"/></esi:except></esi:try>",
        ),
        "/fine" => page(
            reply,
            "<esi:try><esi:attempt>a<esi:include src=\"/good\"/></esi:attempt>\
             <esi:except>instead</esi:except></esi:try>",
        ),
        "/nested" => page(
            reply,
            "<esi:try><esi:attempt><esi:try><esi:attempt><esi:include src=\"/bad\"/></esi:attempt>\
             <esi:except><esi:include src=\"/good\"/></esi:except></esi:try></esi:attempt>\
             <esi:except>outer</esi:except></esi:try>",
        ),
        "/elsewhere" => page(reply, include("http://other.test:1/x")),
        "/good" => part(reply, "good"),
        _ => {
            reply.answer(503, &["Cache-Control: no-store"], "bad");
        }
    });
    let config = format!("[[site]]\nhosts = [\"site.test\"]\norigin = \"{}\"\n", origin.url());
    let larder = Larder::with_config(&config);
    for _ in 0..2 {
        for (target, expected) in [
            ("/comment", "a<!-- no part /bad?_x___ (503) -->b"),
            ("/continue", "ab"),
            ("/alt", "agoodb"),
            ("/both", "a<!-- no part /bad (503) -->b"),
            ("/try", "insteadgood"),
            ("/fine", "agood"),
            ("/nested", "good"),
            ("/elsewhere", "<!-- no part http://other.test:1/x (421) -->"),
        ] {
            assert_eq!(get(larder.addr(), target).text(), expected, "{target}");
        }
    }
}

#[test]
fn a_part_that_fails_is_served_stale() {
    let down = Arc::new(AtomicBool::new(false));
    let origin = Origin::start({
        let down = down.clone();
        move |seen, reply| match seen.path() {
            "/" => page(reply, format!("a{}b", include("/p"))),
            _ if down.load(Relaxed) => {
                reply.answer(503, &[], "down");
            }
            _ => {
                reply.ok(&["Cache-Control: max-age=0, stale-if-error=60", "ETag: \"p\""], "P");
            }
        }
    });
    let larder = Larder::before(&origin.url());
    assert_eq!(get(larder.addr(), "/").text(), "aPb");
    down.store(true, Relaxed);
    assert_eq!(get(larder.addr(), "/").text(), "aPb");
    assert_eq!(origin.count_of("/p"), 2);
}

#[test]
fn variables_are_those_of_the_visitor() {
    let origin = Origin::start(|seen, reply| match seen.path() {
        "/" => page(
            reply,
            "<esi:choose><esi:when test=\"$(HTTP_COOKIE{lang})=='de'\">Hallo</esi:when>\
             <esi:otherwise>Hello</esi:otherwise></esi:choose>\
             <esi:vars> $(QUERY_STRING{q}|nobody)</esi:vars>\
             <esi:include src=\"/menu/$(HTTP_COOKIE{lang}|en)\"/>",
        ),
        _ => part(reply, format!("[{}]", seen.target)),
    });
    let larder = Larder::before(&origin.url());
    let german = get_with(larder.addr(), "/?q=a'b", &["Cookie: lang=de"]);
    assert_eq!(german.text(), "Hallo a&#39;b[/menu/de]");
    let english = get_with(larder.addr(), "/?q=a'b", &["Cookie: lang=../x"]);
    assert_eq!(english.text(), "Hello a&#39;b<!-- no part /menu/..%2Fx (400) -->");
    assert_eq!(get(larder.addr(), "/").text(), "Hello nobody[/menu/en]");
    // The page is one, whatever the cookies: it is stored once for each query.
    assert_eq!(origin.count_of("/?q=a'b"), 1);
    assert!(
        origin.requests().iter().all(|seen| seen.path() == "/" || seen.get("cookie").is_none())
    );
}

#[test]
fn a_coded_page_and_coded_parts_are_read() {
    let gzip = |text: &str| {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(text.as_bytes()).unwrap();
        out.finish().unwrap()
    };
    let origin = Origin::start(move |seen, reply| {
        let coded = "Content-Encoding: gzip";
        match seen.path() {
            "/" => {
                let body =
                    format!("a{}{}{}b", include("/kept"), include("/private"), include("/bomb"));
                reply.ok(&[ESI, FRESH, coded], gzip(&body));
            }
            "/kept" => {
                reply.ok(&[FRESH, coded], gzip("K"));
            }
            "/private" => {
                reply.ok(&["Cache-Control: private", coded], gzip("P"));
            }
            _ => {
                reply.ok(&["Cache-Control: private", coded], gzip(&"0".repeat(8 << 20)));
            }
        }
    });
    let larder = Larder::site(&origin.url(), "esi_error = \"nothing\"");
    for _ in 0..2 {
        let answer = get_with(larder.addr(), "/", &["Accept-Encoding: gzip"]);
        assert_eq!(answer.text(), "aKPb");
        assert_eq!(answer.get("content-encoding"), None);
    }
}

/// The same page over each protocol, first as it comes and then from memory.
#[test]
fn http_2_and_3_get_the_same() {
    let papers = Papers::issue();
    let origin = Origin::start(|seen, reply| match seen.path().strip_prefix("/page") {
        Some(n) => page(reply, format!("a{}b", include(&format!("/part{n}")))),
        None => part(reply, seen.path().repeat(20_000)),
    });
    let larder = Larder::with_config(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\nh2c = true\n[https]\nlisten = \"127.0.0.1:0\"\nhttp3 = true\n\
         certificates = [{{ cert = \"{}\", key = \"{}\" }}]\n[[site]]\norigin = \"{}\"\n",
        papers.path("server.pem"),
        papers.path("server.key"),
        origin.url(),
    ));
    let expected = |n: usize| format!("a{}b", format!("/part{n}").repeat(20_000));
    let mut h3 = H3::connect(larder.face("http3+udp"), &papers);
    let h2 = H2::connect(larder.addr());
    for _ in 0..2 {
        assert_eq!(get(larder.addr(), "/page1").text(), expected(1));
        assert_eq!(h2.get("/page2").text(), expected(2));
        assert_eq!(h3.get("/page3").text(), expected(3));
    }
    for hit in [h2.get("/page2"), h3.get("/page3")] {
        assert_eq!(
            hit.assert_hit().get("content-length"),
            Some(expected(2).len().to_string().as_str())
        );
    }
    // A client of HTTP/1.0 reads to the end of the connection.
    let mut old = larder.connect();
    old.send("GET /page4 HTTP/1.0\r\nHost: site.test\r\n\r\n");
    assert_eq!(old.read().text(), expected(4));
}
