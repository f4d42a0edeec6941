//! Pages that are put together of parts (ESI): conditions, ranges, heads, private parts, and which
//! pages are searched for markup.

// A helper that fails ends its test.
#![allow(clippy::unwrap_used)]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use larder_tests::{Answer, Gate, Larder, Origin, Papers, Reply, get, get_with};

const ESI: &str = "Surrogate-Control: content=\"ESI/1.0\"";
const FRESH: &str = "Cache-Control: max-age=60";
const HTML: &str = "Content-Type: text/html";

fn page(reply: &mut Reply, body: &str) {
    reply.ok(&[ESI, FRESH, HTML, "ETag: \"page\"", "Accept-Ranges: bytes"], body);
}

/// A page of two texts around a part of so many bytes.
fn site(part: usize) -> (Origin, Larder) {
    let origin = Origin::start(move |seen, reply| match seen.path() {
        path if path.starts_with("/page") => {
            page(reply, &format!("begin<esi:include src=\"/part{}\"/>end", &path[5..]));
        }
        _ => {
            reply.ok(&[FRESH, "ETag: \"part\""], body(part));
        }
    });
    let larder = Larder::before(&origin.url());
    (origin, larder)
}

fn body(part: usize) -> String {
    "0123456789".chars().cycle().take(part).collect()
}

fn ask(larder: &Larder, method: &str, target: &str, fields: &[&str]) -> Answer {
    let mut all = vec!["Host: site.test"];
    all.extend(fields);
    larder.connect().ask(method, target, &all)
}

#[test]
fn conditions_are_about_the_whole_answer() {
    for part in [10, 20_000] {
        let (origin, larder) = site(part);
        let whole = format!("begin{}end", body(part));
        // As it comes its tag is not known, and nobody else may keep it.
        let first = get(larder.addr(), "/page");
        assert_eq!((first.get("etag"), first.get("accept-ranges")), (None, None));
        assert_eq!(first.get("cache-control"), Some("private, no-cache"));
        let hit = get(larder.addr(), "/page");
        let tag = hit.assert_hit().get("etag").unwrap().to_owned();
        assert!(tag != "\"page\"" && tag != "\"part\"" && tag.starts_with('"'), "{tag}");
        let condition = format!("If-None-Match: {tag}");
        let same = ask(&larder, "GET", "/page", &[&condition]);
        assert_eq!((same.status, same.get("etag"), same.is_hit()), (304, Some(&*tag), true));
        for other in ["If-None-Match: \"page\"", "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT"]
        {
            assert_eq!(ask(&larder, "GET", "/page", &[other]).assert_hit().text(), whole);
        }
        // A page that is not there is put together before it is judged.
        let missing = ask(&larder, "GET", "/page2", &["If-None-Match: \"x\""]);
        assert_eq!((missing.status, missing.text()), (200, &*whole));
        assert!(missing.get("etag").is_some());
        assert_eq!(origin.count(), 4);
    }
}

/// Others on the way may keep the answer: they learn by which fields a part was chosen.
#[test]
fn an_answer_varies_as_its_parts_do() {
    let origin = Origin::start(|seen, reply| match seen.path() {
        "/page" => page(reply, "<esi:include src=\"/part\"/><esi:include src=\"/plain\"/>"),
        "/part" => {
            let kind = seen.get("x-kind").unwrap_or("none");
            reply.ok(&[FRESH, "Vary: X-Kind"], kind);
        }
        _ => {
            reply.ok(&[FRESH, "Vary: Accept-Encoding"], ".");
        }
    });
    let larder = Larder::before(&origin.url());
    for kind in ["a", "b"] {
        let field = format!("X-Kind: {kind}");
        ask(&larder, "GET", "/page", &[&field]);
        let hit = ask(&larder, "GET", "/page", &[&field]);
        assert_eq!(hit.assert_hit().text(), format!("{kind}."));
        assert_eq!(
            (hit.get("vary"), hit.get("cache-control")),
            (Some("X-Kind"), Some("max-age=60"))
        );
        let condition = format!("If-None-Match: {}", hit.get("etag").unwrap());
        let same = ask(&larder, "GET", "/page", &[&field, &condition]);
        assert_eq!((same.status, same.get("vary")), (304, Some("X-Kind")));
    }
}

#[test]
fn ranges_are_of_the_whole_answer() {
    for part in [10, 20_000] {
        let (_origin, larder) = site(part);
        let whole = format!("begin{}end", body(part));
        let total = whole.len();
        for (n, (range, from, to)) in [
            ("0-0", 0, 1),
            ("3-9", 3, 10),
            ("4-", 4, total),
            ("-4", total - 4, total),
            ("7-12", 7, 13),
        ]
        .into_iter()
        .enumerate()
        {
            // First where nothing is there, then from memory.
            for hit in [false, true] {
                let target = format!("/page{n}");
                let answer = ask(&larder, "GET", &target, &[&format!("Range: bytes={range}")]);
                assert_eq!((answer.status, answer.text()), (206, &whole[from..to]), "{range}");
                let expected = format!("bytes {from}-{}/{total}", to - 1);
                assert_eq!(answer.get("content-range"), Some(&*expected));
                assert_eq!(answer.is_hit(), hit, "{answer:?}");
            }
        }
        let beyond = ask(&larder, "GET", "/page1", &[&format!("Range: bytes={total}-")]);
        assert_eq!((beyond.status, beyond.body.len()), (416, 0));
        let tag = get(larder.addr(), "/page1").get("etag").unwrap().to_owned();
        for (condition, status) in [(&*tag, 206), ("\"page\"", 200)] {
            let fields = ["Range: bytes=0-1", &format!("If-Range: {condition}")];
            assert_eq!(ask(&larder, "GET", "/page1", &fields).status, status);
        }
    }
}

#[test]
fn heads_are_those_of_the_answer() {
    let (origin, larder) = site(20_000);
    let length = (20_000 + 8).to_string();
    for _ in 0..2 {
        let head = ask(&larder, "HEAD", "/page", &[]);
        assert_eq!((head.status, head.get("content-length")), (200, Some(&*length)));
        assert!(head.get("etag").is_some_and(|tag| tag != "\"page\""));
    }
    assert_eq!(ask(&larder, "GET", "/page", &[]).assert_hit().body.len(), 20_008);
    assert!(origin.requests().iter().all(|seen| seen.method == "GET"));
}

/// A theme writes its includes into every page, those that say what is not there too.
#[test]
fn pages_with_every_status_have_parts() {
    let origin = Origin::start(|seen, reply| match seen.path() {
        "/part" => drop(reply.ok(&[FRESH], "part")),
        "/around" => page(reply, "<esi:include src=\"/404\"/>end"),
        path => {
            let status = path[1..].parse().unwrap();
            let fields = [ESI, FRESH, HTML, "ETag: \"page\""];
            reply.answer(status, &fields, "begin<esi:include src=\"/part\"/>end");
        }
    });
    let larder = Larder::before(&origin.url());
    for status in [203, 404, 410, 403, 500] {
        let target = format!("/{status}");
        for _ in 0..2 {
            let answer = get(larder.addr(), &target);
            assert_eq!((answer.status, answer.text()), (status, "beginpartend"));
        }
    }
    assert_eq!((origin.count_of("/404"), origin.count_of("/part")), (1, 1));
    // Conditions and ranges are for 200 alone.
    let hit = get(larder.addr(), "/404");
    assert!(hit.is_hit(), "{hit:?}");
    let tag = format!("If-None-Match: {}", hit.get("etag").unwrap_or("*"));
    for field in [&tag, "If-None-Match: *", "Range: bytes=0-2"] {
        let answer = ask(&larder, "GET", "/404", &[field]);
        assert_eq!((answer.status, answer.text()), (404, "beginpartend"), "{field}");
    }
    let head = ask(&larder, "HEAD", "/404", &[]);
    assert_eq!((head.status, head.get("content-length")), (404, Some("12")));
    // The markup of a redirection is not looked at; and as a part, 404 has failed.
    assert!(get(larder.addr(), "/301").text().contains("esi:include"));
    let around = get(larder.addr(), "/around");
    assert!(around.text().contains("/404 (404)") && around.text().ends_with("end"), "{around:?}");
}

/// The menu of a visitor in a page for everybody.
fn with_menu() -> Origin {
    Origin::start(|seen, reply| {
        let user = seen.get("cookie").unwrap_or("nobody").to_owned();
        match seen.path() {
            "/page" => page(
                reply,
                &format!("<h1>for all, fetched for {user}</h1><esi:include src=\"/menu\"/>"),
            ),
            "/menu" => {
                reply.ok(
                    &["Cache-Control: private, no-store", "Set-Cookie: s=1"],
                    format!("[{user}]"),
                );
            }
            _ => {
                reply.ok(&[FRESH], format!("[{user}]"));
            }
        }
    })
}

#[test]
fn cookies_go_to_parts_whose_rule_says_so() {
    let origin = with_menu();
    let lines = "ignore_cookies = [\"*\"]\n[[site.rule]]\npath = \"/menu\"\npass = true\n\
                 esi_credentials = true\n";
    let larder = Larder::site(&origin.url(), lines);
    for (cookie, user) in [("user=anna", "user=anna"), ("user=bert", "user=bert"), ("", "nobody")] {
        let fields = [format!("Cookie: {cookie}")];
        let fields: Vec<&str> =
            fields.iter().map(String::as_str).filter(|_| !cookie.is_empty()).collect();
        for _ in 0..2 {
            let answer = get_with(larder.addr(), "/page", &fields);
            let expected = format!("<h1>for all, fetched for nobody</h1>[{user}]");
            assert_eq!(answer.text(), expected);
            assert_eq!(answer.get("cache-control"), Some("private, no-cache"));
            assert_eq!(answer.get("set-cookie"), None);
        }
    }
    assert_eq!((origin.count_of("/page"), origin.count_of("/menu")), (1, 6));
}

/// An answer that depends on more than the URL is for its visitor, and no field says otherwise.
#[test]
fn an_answer_that_depends_on_the_visitor_is_private() {
    let origin = Origin::start(|seen, reply| {
        let body = match seen.path() {
            "/name" => "<esi:vars>$(HTTP_COOKIE{user})</esi:vars>",
            "/test" => {
                "<esi:choose><esi:when test=\"$(HTTP_COOKIE{user})=='anna'\">a</esi:when>\
                 <esi:otherwise>b</esi:otherwise></esi:choose>"
            }
            _ => "<esi:vars>$(QUERY_STRING{q})</esi:vars>",
        };
        let targeted = "CDN-Cache-Control: max-age=600";
        reply.ok(&[ESI, FRESH, HTML, targeted, "ETag: \"page\""], body);
    });
    let larder = Larder::site(&origin.url(), "ignore_cookies = [\"*\"]");
    let own = ["Cookie: user=anna"];
    for (path, text) in [("/name", "anna"), ("/test", "a")] {
        for _ in 0..2 {
            let answer = get_with(larder.addr(), path, &own);
            assert_eq!(answer.text(), text);
            assert_eq!(answer.get("cache-control"), Some("private, no-cache"), "{path}");
            assert_eq!(answer.get("cdn-cache-control"), None, "{path}");
        }
    }
    get(larder.addr(), "/page?q=1");
    let public = get(larder.addr(), "/page?q=1");
    assert_eq!((public.text(), public.get("cache-control")), ("1", Some("max-age=60")));
}

#[test]
fn other_parts_never_see_cookies() {
    let origin = with_menu();
    let larder = Larder::site(&origin.url(), "ignore_cookies = [\"*\"]");
    let fields = ["Cookie: user=anna", "Authorization: Basic eDp5"];
    get_with(larder.addr(), "/page", &fields);
    let menu = origin.requests().into_iter().find(|seen| seen.path() == "/menu").unwrap();
    assert_eq!((menu.get("cookie"), menu.get("authorization")), (None, None));
    // Nor does another host.
    let other = Origin::serving(&[FRESH], "other");
    let own = Origin::start({
        let host = format!("//other.test/x?{}", other.addr().port());
        move |_, reply| page(reply, &format!("<esi:include src=\"{host}\"/>"))
    });
    let config = format!(
        "[[site]]\nhosts = [\"site.test\"]\norigin = \"{}\"\n[[site]]\nhosts = [\"other.test\"]\n\
         origin = \"{}\"\nesi_credentials = true\n",
        own.url(),
        other.url()
    );
    let larder = Larder::with_config(&config);
    assert_eq!(get_with(larder.addr(), "/", &["Cookie: user=anna"]).text(), "other");
    assert_eq!((other.last().get("host"), other.last().get("cookie")), (Some("other.test"), None));
}

#[test]
fn pages_that_are_not_stored_are_put_together_too() {
    let origin = Origin::start(|seen, reply| match seen.path() {
        "/nostore" => {
            let fields = [ESI, "Cache-Control: no-store", "Set-Cookie: own=1", HTML];
            reply.ok(&fields, "a<esi:include src=\"/p\"/>b");
        }
        _ => {
            reply.ok(&[FRESH], "P");
        }
    });
    let larder = Larder::site(&origin.url(), "[[site.rule]]\nmethod = \"POST\"\npass = true");
    for count in 1..3 {
        let answer = get(larder.addr(), "/nostore");
        assert_eq!((answer.text(), answer.get("set-cookie")), ("aPb", Some("own=1")));
        assert_eq!((origin.count_of("/nostore"), origin.count_of("/p")), (count, 1));
    }
    let posted = ask(&larder, "POST", "/nostore", &["Content-Length: 0"]);
    assert_eq!(posted.text(), "aPb");
}

#[test]
fn a_page_that_is_confirmed_keeps_its_plan() {
    let origin = Origin::start(|seen, reply| match (seen.path(), seen.get("if-none-match")) {
        ("/page", Some("\"page\"")) => {
            reply.head(304, &["ETag: \"page\"", "Cache-Control: max-age=0"]);
        }
        ("/page", _) => {
            reply.ok(
                &[ESI, "Cache-Control: max-age=0", "ETag: \"page\""],
                "a<esi:include src=\"/p\"/>b",
            );
        }
        _ => {
            reply.ok(&[FRESH], "P");
        }
    });
    let larder = Larder::before(&origin.url());
    for count in 1..4 {
        assert_eq!(get(larder.addr(), "/page").text(), "aPb");
        assert_eq!((origin.count_of("/page"), origin.count_of("/p")), (count, 1));
    }
    assert_eq!(origin.last().get("if-none-match"), Some("\"page\""));
}

/// Those who waited get what was fetched, though it is not fresh.
#[test]
fn a_page_without_lifetime_is_for_those_who_waited() {
    let gate = Gate::closed();
    let origin = Origin::start({
        let gate = gate.clone();
        move |seen, reply| match seen.path() {
            "/page" => {
                gate.wait();
                reply.ok(&[ESI, "Cache-Control: no-cache", "ETag: \"page\""], "a<esi:comment/>b");
            }
            _ => {
                reply.ok(&[FRESH], "P");
            }
        }
    });
    let larder = Larder::before(&origin.url());
    let mut clients: Vec<_> = (0..4)
        .map(|_| {
            let mut client = larder.connect();
            client.send_get("/page", &["Host: site.test"]);
            client
        })
        .collect();
    origin.wait_for(1);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.read().text(), "ab");
    }
    assert!(origin.count_of("/page") <= clients.len());
}

#[test]
fn rules_say_which_pages_have_markup() {
    let asked = Arc::new(AtomicUsize::new(0));
    let origin = Origin::start({
        let asked = asked.clone();
        move |seen, reply| {
            asked.fetch_add(1, Relaxed);
            let body = "a<esi:remove>x</esi:remove>b";
            match seen.path() {
                "/said" | "/never/said" => reply.ok(&[FRESH, HTML, ESI], body),
                path if path.ends_with(".png") => {
                    reply.ok(&[FRESH, "Content-Type: image/png"], body)
                }
                path if path.ends_with("/plain") => {
                    reply.ok(&[FRESH, HTML, "ETag: \"p\""], "plain")
                }
                path if path.ends_with("/long") => reply.ok(&[FRESH, HTML], body.repeat(1000)),
                path if path.ends_with("/longer") => {
                    reply.chunked(200, &[FRESH, HTML]).chunk(body.repeat(1000)).end()
                }
                _ => reply.ok(&[FRESH, HTML], body),
            };
        }
    });
    let lines = "[[site.rule]]\npath = \"/never/*\"\nesi = \"never\"\n[[site.rule]]\n\
                 path = \"/always/*\"\nesi = \"always\"\nesi_size = \"2KiB\"\n";
    let larder = Larder::site(&origin.url(), lines);
    let body = "a<esi:remove>x</esi:remove>b";
    for _ in 0..2 {
        for (target, expected) in [
            ("/said", "ab"),
            ("/unsaid", body),
            ("/never/said", body),
            ("/always/x", "ab"),
            ("/always/x.png", body),
            ("/always/plain", "plain"),
            ("/always/long", &*body.repeat(1000)),
        ] {
            assert_eq!(get(larder.addr(), target).text(), expected, "{target}");
        }
    }
    assert_eq!(asked.load(Relaxed), 7);
    // Without markup a page is one like others.
    let plain = get(larder.addr(), "/always/plain");
    assert_eq!((plain.get("etag"), plain.get("content-length")), (Some("\"p\""), Some("5")));
    // Nobody said how long it is: what was read of it comes once more.
    assert_eq!(get(larder.addr(), "/always/longer").text(), body.repeat(1000));
    let capable = |target: &str| {
        let seen = origin.requests().into_iter().find(|seen| seen.target == target).unwrap();
        seen.get("surrogate-capability").unwrap().contains("ESI/1.0")
    };
    assert!(capable("/said") && capable("/always/x") && !capable("/never/said"));
}

/// An origin that sends a part of a page with markup is asked for the whole.
#[test]
fn a_part_of_the_markup_is_of_no_use() {
    let origin = Origin::start(|seen, reply| match (seen.path(), seen.get("range")) {
        ("/page", Some(_)) => {
            reply.answer(206, &[ESI, FRESH, "Content-Range: bytes 0-4/30", "ETag: \"x\""], "begin");
        }
        ("/page", None) => page(reply, "begin<esi:include src=\"/p\"/>"),
        _ => {
            reply.ok(&[FRESH], "P");
        }
    });
    let larder = Larder::before(&origin.url());
    let answer = ask(&larder, "GET", "/page", &["Range: bytes=4-5"]);
    assert_eq!((answer.status, answer.text()), (206, "nP"));
    assert_eq!(answer.get("content-range"), Some("bytes 4-5/6"));
}

/// The lifetime of a part may be that of the page's markup.
#[test]
fn the_page_may_give_the_lifetime_of_its_parts() {
    let origin = Origin::start(|seen, reply| match seen.path() {
        "/page" => page(reply, "<esi:include src=\"/p\" ttl=\"1h\"/>"),
        _ => {
            reply.ok(&["Cache-Control: max-age=0"], "P");
        }
    });
    let larder = Larder::before(&origin.url());
    for _ in 0..3 {
        assert_eq!(get(larder.addr(), "/page").text(), "P");
    }
    assert_eq!(origin.count_of("/p"), 1);
}

/// A page is no way into a site that wants a certificate of its clients.
#[test]
fn a_part_of_another_site_is_under_its_rules() {
    let papers = Papers::issue();
    let origin = Origin::start(|seen, reply| match seen.get("host") {
        Some("site.test") => page(reply, "a<esi:include src=\"//closed.test/x\"/>b"),
        _ => {
            reply.ok(&[FRESH], "secret");
        }
    });
    let larder = Larder::with_config(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n[https]\nlisten = \"127.0.0.1:0\"\ncertificates = [{{ cert \
         = \"{cert}\", key = \"{key}\" }}]\n[[site]]\nhosts = [\"site.test\"]\norigin = \"{url}\"\n\
         [[site]]\nhosts = [\"closed.test\"]\norigin = \"{url}\"\nclient_ca = \"{ca}\"\n\
         client_certificate = \"required\"\n",
        cert = papers.path("server.pem"),
        key = papers.path("server.key"),
        ca = papers.path("authority.pem"),
        url = origin.url(),
    ));
    for _ in 0..2 {
        let answer = get(larder.addr(), "/");
        assert_eq!(answer.text(), "a<!-- no part //closed.test/x (403) -->b");
    }
    assert!(origin.requests().iter().all(|seen| seen.get("host") == Some("site.test")));
}
