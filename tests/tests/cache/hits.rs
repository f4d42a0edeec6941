//! What a hit looks like, what is stored and what never is, and bodies of every size intact.

#![allow(clippy::unwrap_used)]

use larder_tests::larder::run;
use larder_tests::{Larder, Origin, Scratch, get, get_with};

#[test]
fn the_second_request_is_a_hit() {
    let origin =
        Origin::serving(&["Cache-Control: max-age=60", "ETag: \"1\"", "X-Field: kept"], "page");
    let larder = Larder::before(&origin.url());
    let miss = get(larder.addr(), "/");
    assert_eq!((miss.status, miss.text(), miss.get("x-field")), (200, "page", Some("kept")));
    assert!(miss.cache_status_has("fwd=uri-miss") && miss.cache_status_has("stored"), "{miss:?}");
    assert_eq!(miss.get("x-cache"), Some("MISS from larder"));
    assert_eq!(miss.get("x-cache-lookup"), Some("MISS from larder"));
    let hit = get(larder.addr(), "/");
    assert_eq!(
        (hit.status, hit.text(), hit.get("x-field"), hit.get("etag")),
        (200, "page", Some("kept"), Some("\"1\""))
    );
    assert!(hit.get("cache-status").is_some_and(|v| v.starts_with("larder; hit; ttl=")), "{hit:?}");
    assert_eq!(hit.get("x-cache"), Some("HIT from larder"));
    assert_eq!(hit.get("x-cache-lookup"), Some("HIT from larder"));
    assert!(hit.age().is_some_and(|age| age < 60), "{hit:?}");
    assert_eq!(hit.get("date"), miss.get("date"));
    assert_eq!(origin.count(), 1);
}

/// RFC 9110 section 15: a status above 599 is invalid. Unknown ones below are stored as their
/// Cache-Control says.
#[test]
fn a_status_beyond_the_classes_is_never_stored() {
    let origin = Origin::start(|seen, reply| {
        let status = seen.target.trim_start_matches('/').parse().unwrap();
        reply.answer(status, &["Cache-Control: public, max-age=600, s-maxage=600"], "answer");
    });
    let larder = Larder::before(&origin.url());
    for status in [600, 700, 999, 299, 499, 599] {
        let target = format!("/{status}");
        assert_eq!(get(larder.addr(), &target).assert_status(status).text(), "answer");
        let again = get(larder.addr(), &target);
        assert_eq!(again.cache_status_has("hit"), status < 600, "{again:?}");
    }
}

#[test]
fn via_names_us_on_both_sides() {
    let origin = Origin::serving(&["Cache-Control: max-age=60", "Via: 1.1 inner"], "page");
    let larder = Larder::before(&origin.url());
    for _ in 0..2 {
        let answer = get_with(larder.addr(), "/", &["Via: 1.1 outer"]);
        assert_eq!(answer.fields.joined("via"), "1.1 inner, 1.1 larder");
    }
    // The page is for everyone: the way of its first visitor is not told.
    assert_eq!(origin.last().fields.joined("via"), "1.1 larder");
    let fields = ["Host: a", "Via: 1.0 far, 1.1 outer", "Content-Length: 0"];
    larder.connect().ask("POST", "/", &fields).assert_status(200);
    assert_eq!(origin.last().fields.joined("via"), "1.0 far, 1.1 outer, 1.1 larder");
}

#[test]
fn the_lines_larder_adds_can_be_switched_off() {
    let origin = Origin::serving(&["Cache-Control: max-age=60"], "page");
    let site = format!(
        "[http]\nx_cache = false\ncache_status = false\nvia = \"\"\n[[site]]\norigin = \"{}\"",
        origin.url()
    );
    let larder = Larder::with_config(&site);
    for _ in 0..2 {
        let answer = get(larder.addr(), "/");
        for name in ["x-cache", "x-cache-lookup", "cache-status", "via"] {
            assert_eq!(answer.get(name), None, "{answer:?}");
        }
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn the_pseudonym_is_used_everywhere() {
    let origin = Origin::serving(&["Cache-Control: max-age=60"], "page");
    let larder = Larder::with_config(&format!(
        "[http]\nvia = \"front\"\n[[site]]\norigin = \"{}\"",
        origin.url()
    ));
    get(larder.addr(), "/");
    let hit = get(larder.addr(), "/");
    assert_eq!((hit.get("via"), hit.get("x-cache")), (Some("1.1 front"), Some("HIT from front")));
    assert!(hit.get("cache-status").is_some_and(|v| v.starts_with("front; hit")), "{hit:?}");
}

#[test]
fn hits_are_announced_when_asked_for() {
    let origin = Origin::serving(&["Cache-Control: max-age=60"], "page");
    let text = format!(
        "[http]\nannounce = \"X-Served-By: the larder\"\n[[site]]\norigin = \"{}\"",
        origin.url()
    );
    let larder = Larder::with_config(&text);
    assert_eq!(get(larder.addr(), "/").get("x-served-by"), None);
    assert_eq!(get(larder.addr(), "/").get("x-served-by"), Some("the larder"));
}

/// A line of the configuration in each answer must not end that answer somewhere else.
#[test]
fn lines_that_would_frame_an_answer_are_not_announced() {
    for line in [
        "Content-Length: 0",
        "content-length: 5",
        "Transfer-Encoding: chunked",
        "Connection: close",
        "Content-Range: bytes 0-1/2",
        "Content-Encoding: gzip",
        "X: a\\r\\nContent-Length: 0",
        "X: a\\r\\n\\r\\nHTTP/1.1 200 OK",
        "X : a",
    ] {
        let site = "[[site]]\norigin = \"http://127.0.0.1:9\"\n";
        for section in ["[http]", "[remote]\nservers = [\"127.0.0.1:9\"]"] {
            let scratch = Scratch::new("announce");
            let text = format!("{section}\nannounce = \"{line}\"\n{site}");
            let file = scratch.write("larder.toml", &text);
            let (status, _, said) = run(&["serve", "--config", file.to_str().unwrap()]);
            assert!(!status.success() && said.contains("announce"), "{text}: {said}");
        }
    }
}

#[test]
fn age_adds_to_the_age_the_page_came_with() {
    let origin = Origin::serving(&["Cache-Control: max-age=1000", "Age: 100"], "page");
    let larder = Larder::before(&origin.url());
    get(larder.addr(), "/");
    let hit = get(larder.addr(), "/");
    let age = hit.assert_hit().age().unwrap();
    assert!((100..200).contains(&age), "{hit:?}");
    let ttl = hit
        .get("cache-status")
        .and_then(|v| v.rsplit_once("ttl="))
        .unwrap()
        .1
        .parse::<u64>()
        .unwrap();
    assert_eq!(ttl + age, 1000);
}

#[test]
fn a_page_older_than_its_lifetime_is_never_a_hit() {
    let origin = Origin::serving(&["Cache-Control: max-age=100", "Age: 100"], "page");
    let larder = Larder::before(&origin.url());
    get(larder.addr(), "/");
    get(larder.addr(), "/").assert_forwarded();
    assert_eq!(origin.count(), 2);
}

/// Fields of an answer that must not be stored, each with what the second request then must be:
/// forwarded.
macro_rules! never_stored {
    ($($name:ident: $status:literal, $fields:expr;)*) => {
        $(#[test] fn $name() {
            let origin = Origin::start(|seen, reply| { reply.answer($status, $fields, format!("{}", seen.number)); });
            let larder = Larder::before(&origin.url());
            for n in 0..3 {
                let answer = get(larder.addr(), "/");
                assert_eq!((answer.status, answer.text()), ($status, n.to_string().as_str()), "{answer:?}");
                assert!(!answer.cache_status_has("stored") || n == 0, "{answer:?}");
            }
            assert_eq!(origin.count(), 3);
        })*
    };
}

never_stored! {
    no_store_is_not_stored: 200, &["Cache-Control: no-store, max-age=60"];
    private_is_not_stored: 200, &["Cache-Control: private, max-age=60"];
    an_answer_that_sets_a_cookie_is_not_stored: 200, &["Cache-Control: max-age=60", "Set-Cookie: session=1"];
    vary_on_everything_is_not_reused: 200, &["Cache-Control: max-age=60", "Vary: *"];
    vary_on_everything_among_others_is_not_reused: 200, &["Cache-Control: max-age=60", "Vary: Accept", "Vary: Cookie, *"];
    max_age_zero_is_not_reused: 200, &["Cache-Control: max-age=0"];
    s_maxage_zero_wins_over_max_age: 200, &["Cache-Control: max-age=60, s-maxage=0"];
    no_cache_is_not_reused_unasked: 200, &["Cache-Control: no-cache, max-age=60"];
    an_expires_that_is_no_date_is_in_the_past: 200, &["Expires: 0"];
    a_server_error_without_freshness_is_not_stored: 500, &[];
    a_service_that_is_unavailable_is_not_stored: 503, &["Retry-After: 1"];
    cdn_cache_control_forbids_what_cache_control_allows: 200, &["Cache-Control: max-age=60", "CDN-Cache-Control: no-store"];
}

/// Fields of an answer that may be reused, each with a hit as the second answer.
macro_rules! stored {
    ($($name:ident: $status:literal, $fields:expr;)*) => {
        $(#[test] fn $name() {
            let origin = Origin::start(|seen, reply| { reply.answer($status, $fields, format!("{}", seen.number)); });
            let larder = Larder::before(&origin.url());
            get(larder.addr(), "/");
            let again = get(larder.addr(), "/");
            assert!(again.status == $status && again.is_hit(), "{again:?}");
            assert_eq!((again.text(), origin.count()), ("0", 1));
        })*
    };
}

stored! {
    max_age_is_stored: 200, &["Cache-Control: max-age=60"];
    s_maxage_wins_over_max_age: 200, &["Cache-Control: max-age=0, s-maxage=60"];
    cdn_cache_control_wins_over_cache_control: 200, &["Cache-Control: no-store", "CDN-Cache-Control: max-age=60"];
    an_expires_to_come_is_stored: 200, &["Expires: Fri, 01 Jan 2100 00:00:00 GMT"];
    an_old_page_is_fresh_by_heuristics: 200, &["Last-Modified: Sat, 01 Jan 2000 00:00:00 GMT"];
    a_permanent_redirect_is_stored: 301, &["Cache-Control: max-age=60", "Location: /elsewhere"];
    a_temporary_redirect_with_freshness_is_stored: 302, &["Cache-Control: max-age=60", "Location: /elsewhere"];
    a_page_that_is_not_there_is_stored_when_it_says_so: 404, &["Cache-Control: max-age=60"];
    a_server_error_that_asks_for_it_is_stored: 500, &["Cache-Control: max-age=60"];
    an_unknown_final_status_with_freshness_is_stored: 299, &["Cache-Control: max-age=60"];
}

#[test]
fn surrogate_control_is_for_us_and_goes_no_further() {
    let fields = &["Cache-Control: max-age=0", "Surrogate-Control: max-age=60"];
    let origin = Origin::serving(fields, "page");
    let larder = Larder::before(&origin.url());
    assert_eq!(get(larder.addr(), "/").get("surrogate-control"), None);
    let hit = get(larder.addr(), "/");
    assert_eq!(hit.assert_hit().get("surrogate-control"), None);
    assert_eq!(hit.get("cache-control"), Some("max-age=0"));
}

#[test]
fn an_answer_to_an_authorised_request_is_not_stored() {
    let origin = Origin::start(|seen, reply| {
        reply.ok(&["Cache-Control: max-age=60"], seen.get("authorization").unwrap_or("nobody"));
    });
    let larder = Larder::before(&origin.url());
    assert_eq!(
        get_with(larder.addr(), "/", &["Authorization: Basic YWxpY2U="]).text(),
        "Basic YWxpY2U="
    );
    assert_eq!(get_with(larder.addr(), "/", &["Authorization: Basic Ym9i"]).text(), "Basic Ym9i");
    assert_eq!(get(larder.addr(), "/").text(), "nobody");
}

#[test]
fn an_answer_to_an_authorised_request_is_stored_when_it_is_public() {
    let origin = Origin::serving(&["Cache-Control: public, max-age=60"], "page");
    let larder = Larder::before(&origin.url());
    get_with(larder.addr(), "/", &["Authorization: Basic YWxpY2U="]);
    get(larder.addr(), "/").assert_hit();
}

#[test]
fn only_get_is_stored() {
    let origin = Origin::start(|seen, reply| {
        reply.ok(
            &["Cache-Control: max-age=60"],
            if seen.method == "HEAD" { "" } else { &seen.method },
        );
    });
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    for method in ["POST", "PUT", "OPTIONS", "REPORT"] {
        for _ in 0..2 {
            let answer = wire.ask(method, "/", &["Host: site.test", "Content-Length: 0"]);
            assert_eq!(answer.text(), method);
        }
    }
    assert_eq!(origin.count(), 8);
    assert_eq!(wire.get("/", &[]).text(), "GET");
}

#[test]
fn a_get_with_a_body_is_neither_stored_nor_answered_from_the_store() {
    let origin = Origin::start(|seen, reply| {
        reply.ok(
            &["Cache-Control: max-age=60"],
            format!("{}:{}", seen.number, String::from_utf8_lossy(&seen.body)),
        );
    });
    let larder = Larder::before(&origin.url());
    let ask = |body: &str| {
        let mut wire = larder.connect();
        wire.send(format!(
            "GET / HTTP/1.1\r\nHost: site.test\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        wire.read()
    };
    assert!(!ask("one").is_hit());
    assert!(!ask("one").is_hit());
    assert!(!get(larder.addr(), "/").is_hit(), "an answer to a body became everybody's page");
    let own = ask("two");
    assert!(!own.is_hit() && !own.text().ends_with("one"), "{own:?}");
}

#[test]
fn fields_of_one_hop_are_not_stored() {
    let fields = &[
        "Cache-Control: max-age=60",
        "Keep-Alive: timeout=5",
        "Proxy-Authenticate: Basic",
        "Connection: close",
    ];
    let origin = Origin::serving(fields, "page");
    let larder = Larder::before(&origin.url());
    for _ in 0..2 {
        let answer = get(larder.addr(), "/");
        assert_eq!(
            (answer.get("keep-alive"), answer.get("proxy-authenticate")),
            (None, None),
            "{answer:?}"
        );
        assert_ne!(answer.get("connection"), Some("close"));
    }
}

#[test]
fn fields_that_are_private_are_not_stored() {
    let origin = Origin::serving(
        &["Cache-Control: max-age=60, private=\"X-User\"", "X-User: alice", "X-All: yes"],
        "page",
    );
    let larder = Larder::before(&origin.url());
    get(larder.addr(), "/");
    let hit = get(larder.addr(), "/");
    assert_eq!((hit.get("x-user"), hit.get("x-all")), (None, Some("yes")), "{hit:?}");
}

#[test]
fn a_field_that_comes_twice_stays_two_lines_or_one_list() {
    let origin =
        Origin::serving(&["Cache-Control: max-age=60", "X-Multi: a", "X-Multi: b"], "page");
    let larder = Larder::before(&origin.url());
    for _ in 0..2 {
        assert_eq!(get(larder.addr(), "/").fields.joined("x-multi"), "a, b");
    }
}

#[test]
fn characters_outside_ascii_in_fields_survive() {
    let origin = Origin::serving(&["Cache-Control: max-age=60", "X-Name: caf\u{e9}"], "page");
    let larder = Larder::before(&origin.url());
    for _ in 0..2 {
        assert_eq!(get(larder.addr(), "/").get("x-name"), Some("caf\u{e9}"));
    }
}

/// Bytes in which any shift or hole shows.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// The sizes around which a peer's buffer ended, and 10 KB (the 8 KB cliff of libmemcached).
#[test]
fn bodies_around_8_kb_are_intact() {
    let origin = Origin::start(|seen, reply| {
        let len = seen.target.trim_start_matches('/').parse().unwrap();
        reply.ok(&["Cache-Control: max-age=60"], pattern(len));
    });
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    for len in
        (8170..=8200).chain([0, 1, 4095, 4096, 10_000, 10_240, 16_384, 65_535, 65_536, 65_537])
    {
        for _ in 0..2 {
            assert!(
                wire.get(&format!("/{len}"), &[]).body == pattern(len),
                "{len} bytes came back different"
            );
        }
        assert_eq!(origin.count_of(&format!("/{len}")), 1);
    }
}

#[test]
fn request_bodies_around_8_kb_are_intact() {
    let origin = Origin::serving(&[], "ok");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    for len in (8170..=8200).chain([10_240, 65_536]) {
        wire.send(format!("POST / HTTP/1.1\r\nHost: site.test\r\nContent-Length: {len}\r\n\r\n"))
            .send(pattern(len));
        wire.read().assert_status(200);
        assert!(origin.last().body == pattern(len), "{len} bytes arrived different");
    }
}

#[test]
fn large_bodies_are_intact() {
    let origin = Origin::start(|seen, reply| {
        let body = pattern(10_000_000);
        match seen.target.as_str() {
            "/length" => {
                reply.ok(&["Cache-Control: max-age=60"], body);
            }
            _ => {
                reply.chunked(200, &["Cache-Control: max-age=60"]);
                for piece in body.chunks(77_777) {
                    reply.chunk(piece);
                }
                reply.end();
            }
        }
    });
    // Several such pages fit beside each other.
    let larder = Larder::with_config(&format!(
        "memory = \"256MiB\"\n[[site]]\norigin = \"{}\"",
        origin.url()
    ));
    let whole = pattern(10_000_000);
    for target in ["/length", "/chunked"] {
        for n in 0..3 {
            let answer = get(larder.addr(), target);
            assert!(
                answer.body == whole,
                "{target}: {} bytes came back different",
                answer.body.len()
            );
            assert_eq!(answer.is_hit(), n > 0, "{target}: {:?}", answer.fields);
        }
        assert_eq!(origin.count_of(target), 1);
    }
}

#[test]
fn a_body_larger_than_the_limit_is_delivered_and_not_kept() {
    let origin = Origin::start(|_, reply| {
        reply.ok(&["Cache-Control: max-age=60"], pattern(100_000));
    });
    let larder = Larder::site(&origin.url(), "max_object = \"50kB\"");
    for _ in 0..2 {
        assert!(get(larder.addr(), "/").body == pattern(100_000));
    }
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_chunked_body_that_grows_past_the_limit_is_delivered_and_not_kept() {
    let origin = Origin::start(|_, reply| {
        reply.chunked(200, &["Cache-Control: max-age=60"]);
        for piece in pattern(500_000).chunks(10_000) {
            reply.chunk(piece);
        }
        reply.end();
    });
    let larder = Larder::site(&origin.url(), "max_object = \"50kB\"");
    for _ in 0..2 {
        assert!(get(larder.addr(), "/").body == pattern(500_000));
    }
    assert_eq!(origin.count(), 2);
}
