//! Stale pages: validation, stale-while-revalidate, stale-if-error, and where serving stale is
//! forbidden.
//!
//! Pages are stale from the start by an `Age` beyond their lifetime, so that no test waits for time
//! to pass.

use larder_tests::{Answer, Gate, Larder, Origin, Seen, get, get_with, wait_for, wait_until};

/// A first answer with these fields and body "old"; later requests are answered by `then`.
fn first_stale(
    fields: &'static [&'static str],
    then: impl Fn(&Seen, &mut larder_tests::Reply) + Send + Sync + 'static,
) -> (Origin, Larder) {
    let origin = Origin::start(move |seen, reply| {
        if seen.number == 0 {
            reply.ok(fields, "old");
        } else {
            then(seen, reply);
        }
    });
    let larder = Larder::before(&origin.url());
    assert_eq!(get(larder.addr(), "/").text(), "old");
    (origin, larder)
}

const SWR: &[&str] = &["Cache-Control: max-age=10, stale-while-revalidate=1000", "Age: 20"];
const SIE: &[&str] = &["Cache-Control: max-age=10, stale-if-error=1000", "Age: 20"];
const NEW: &[&str] = &["Cache-Control: max-age=1000"];

#[test]
fn a_stale_page_with_an_etag_is_validated() {
    let (origin, larder) = first_stale(
        &["Cache-Control: max-age=10", "Age: 20", "ETag: \"v1\"", "X-A: 1"],
        |seen, reply| {
            assert_eq!(seen.get("if-none-match"), Some("\"v1\""));
            reply.head(304, &["Cache-Control: max-age=1000", "ETag: \"v1\"", "X-A: 2"]);
        },
    );
    let validated = get(larder.addr(), "/");
    assert_eq!((validated.status, validated.text(), validated.get("x-a")), (200, "old", Some("2")));
    assert!(
        validated.cache_status_has("fwd=stale") && validated.cache_status_has("fwd-status=304"),
        "{validated:?}"
    );
    // The 304 made it fresh, with its new fields.
    let hit = get(larder.addr(), "/");
    assert_eq!((hit.assert_hit().text(), hit.get("x-a")), ("old", Some("2")));
    assert_eq!(origin.count(), 2);
    assert_eq!(origin.faults(), Vec::<String>::new());
}

#[test]
fn a_stale_page_with_a_date_is_validated() {
    let modified = "Last-Modified: Sat, 01 Jan 2000 00:00:00 GMT";
    let origin = Origin::start(move |seen, reply| {
        match seen.get("if-modified-since") {
            Some("Sat, 01 Jan 2000 00:00:00 GMT") => reply.head(304, NEW),
            _ => reply.ok(&["Cache-Control: max-age=10", "Age: 20", modified], "old"),
        };
    });
    let larder = Larder::before(&origin.url());
    get(larder.addr(), "/");
    assert_eq!(get(larder.addr(), "/").text(), "old");
    assert_eq!(get(larder.addr(), "/").assert_hit().text(), "old");
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_changed_page_replaces_the_stale_one() {
    let (origin, larder) =
        first_stale(&["Cache-Control: max-age=10", "Age: 20", "ETag: \"v1\""], |_, reply| {
            reply.ok(&["Cache-Control: max-age=1000", "ETag: \"v2\""], "new");
        });
    assert_eq!(get(larder.addr(), "/").text(), "new");
    let hit = get(larder.addr(), "/");
    assert_eq!(
        (hit.assert_hit().text(), hit.get("etag"), origin.count()),
        ("new", Some("\"v2\""), 2)
    );
}

#[test]
fn the_clients_own_condition_does_not_reach_the_origin_in_place_of_ours() {
    let (origin, larder) =
        first_stale(&["Cache-Control: max-age=10", "Age: 20", "ETag: \"v1\""], |seen, reply| {
            match seen.get("if-none-match") {
                Some("\"v1\"") => reply.head(304, &["Cache-Control: max-age=1000", "ETag: \"v1\""]),
                _ => reply.ok(NEW, "unasked"),
            };
        });
    let answer = get_with(larder.addr(), "/", &["If-None-Match: \"older\""]);
    assert_eq!((answer.status, answer.text()), (200, "old"));
    let answer = get_with(larder.addr(), "/", &["If-None-Match: \"v1\""]);
    assert_eq!(answer.status, 304);
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_page_is_served_stale_while_it_is_fetched_anew() {
    let gate = Gate::closed();
    let door = gate.clone();
    let (origin, larder) = first_stale(SWR, move |_, reply| {
        door.wait();
        reply.ok(NEW, "new");
    });
    // The origin does not answer, so what comes now was not waited for.
    for _ in 0..20 {
        let stale = get(larder.addr(), "/");
        assert_eq!(stale.text(), "old");
        assert!(stale.age().is_some_and(|age| age >= 20), "{stale:?}");
    }
    origin.wait_for(2);
    assert_eq!(origin.count(), 2, "one refresh is enough");
    gate.open();
    wait_until("the new page", || get(larder.addr(), "/").text() == "new");
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_refresh_that_fails_does_not_end_the_stale_time() {
    let (origin, larder) = first_stale(SWR, |_, reply| {
        reply.close();
    });
    for _ in 0..5 {
        assert_eq!(get(larder.addr(), "/").text(), "old");
    }
    origin.wait_for(2);
}

#[test]
fn beyond_the_window_a_stale_page_is_not_served() {
    let (origin, larder) = first_stale(
        &["Cache-Control: max-age=10, stale-while-revalidate=5", "Age: 20"],
        |_, reply| {
            reply.ok(NEW, "new");
        },
    );
    assert_eq!(get(larder.addr(), "/").text(), "new");
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_stale_page_is_served_when_the_origin_fails() {
    for status in [500, 502, 503, 504] {
        let (origin, larder) = first_stale(SIE, move |_, reply| {
            reply.answer(status, &[], "broken");
        });
        let stale = get(larder.addr(), "/");
        assert_eq!((stale.status, stale.text()), (200, "old"), "after a {status}");
        assert_eq!(origin.count(), 2);
    }
}

#[test]
fn a_stale_page_is_served_when_the_origin_is_gone() {
    let origin = Origin::serving(SIE, "old");
    let larder = Larder::before(&origin.url());
    get(larder.addr(), "/");
    origin.stop();
    let stale = get(larder.addr(), "/");
    assert_eq!((stale.status, stale.text()), (200, "old"));
}

#[test]
fn an_error_without_stale_if_error_is_passed_on() {
    let (_origin, larder) =
        first_stale(&["Cache-Control: max-age=10", "Age: 20", "ETag: \"v1\""], |_, reply| {
            reply.answer(500, &[], "broken");
        });
    let answer = get(larder.addr(), "/");
    assert_eq!((answer.status, answer.text()), (500, "broken"));
}

#[test]
fn a_client_may_ask_for_stale_if_error() {
    let (_origin, larder) =
        first_stale(&["Cache-Control: max-age=10", "Age: 20", "ETag: \"v1\""], |_, reply| {
            reply.answer(500, &[], "broken");
        });
    let stale = get_with(larder.addr(), "/", &["Cache-Control: stale-if-error=1000"]);
    assert_eq!((stale.status, stale.text()), (200, "old"));
}

#[test]
fn an_error_that_is_not_the_servers_fault_is_no_reason_for_stale() {
    let (_origin, larder) = first_stale(SIE, |_, reply| {
        reply.answer(404, &[], "gone");
    });
    assert_eq!(get(larder.addr(), "/").status, 404);
}

/// Directives that forbid stale answers, with an origin that has gone: 504 and not the page (RFC
/// 9111 4.2.4, 5.2.2.2).
fn never_stale(cache_control: &'static [&'static str]) {
    let origin = Origin::serving(cache_control, "old");
    let larder = Larder::before(&origin.url());
    get(larder.addr(), "/");
    origin.stop();
    let answer = get_with(larder.addr(), "/", &["Cache-Control: max-stale"]);
    assert!(answer.status == 504 || answer.status == 502, "{answer:?}");
}

#[test]
fn must_revalidate_forbids_stale() {
    never_stale(&[
        "Cache-Control: max-age=10, must-revalidate, stale-if-error=1000, \
         stale-while-revalidate=1000",
        "Age: 20",
    ]);
}

#[test]
fn proxy_revalidate_forbids_stale() {
    never_stale(&[
        "Cache-Control: max-age=10, proxy-revalidate, stale-if-error=1000, \
         stale-while-revalidate=1000",
        "Age: 20",
    ]);
}

#[test]
fn s_maxage_forbids_stale() {
    never_stale(&["Cache-Control: s-maxage=10, stale-if-error=1000", "Age: 20"]);
}

#[test]
fn no_cache_forbids_stale() {
    never_stale(&[
        "Cache-Control: no-cache, max-age=10, stale-if-error=1000",
        "ETag: \"1\"",
        "Age: 20",
    ]);
}

#[test]
fn a_client_may_accept_stale() {
    let (origin, larder) =
        first_stale(&["Cache-Control: max-age=10", "Age: 20", "ETag: \"1\""], |_, reply| {
            reply.ok(NEW, "new");
        });
    assert_eq!(get_with(larder.addr(), "/", &["Cache-Control: max-stale=1000"]).text(), "old");
    assert_eq!(origin.count(), 1);
    assert_eq!(get_with(larder.addr(), "/", &["Cache-Control: max-stale=2"]).text(), "new");
}

#[test]
fn a_client_may_insist_on_the_origin() {
    for field in [
        "Cache-Control: no-cache",
        "Cache-Control: max-age=0",
        "Pragma: no-cache",
        "Cache-Control: min-fresh=5000",
    ] {
        let (origin, larder) = first_stale(&["Cache-Control: max-age=1000"], |_, reply| {
            reply.ok(NEW, "new");
        });
        get(larder.addr(), "/").assert_hit();
        assert_eq!(get_with(larder.addr(), "/", &[field]).text(), "new", "{field}");
        assert_eq!(origin.count(), 2, "{field}");
    }
}

#[test]
fn only_if_cached_never_reaches_the_origin() {
    let origin = Origin::serving(NEW, "page");
    let larder = Larder::before(&origin.url());
    let field = "Cache-Control: only-if-cached";
    assert_eq!(get_with(larder.addr(), "/", &[field]).status, 504);
    assert_eq!(origin.count(), 0);
    get(larder.addr(), "/");
    get_with(larder.addr(), "/", &[field]).assert_hit();
}

#[test]
fn a_request_that_says_no_store_leaves_nothing() {
    let origin = Origin::serving(NEW, "page");
    let larder = Larder::before(&origin.url());
    get_with(larder.addr(), "/", &["Cache-Control: no-store"]);
    get(larder.addr(), "/").assert_forwarded();
    assert_eq!(origin.count(), 2);
}

#[test]
fn grace_serves_stale_pages_that_say_nothing_of_it() {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        if seen.number == 0 {
            reply.ok(&["Cache-Control: max-age=10", "Age: 20"], "old");
        } else {
            door.wait();
            reply.ok(NEW, "new");
        }
    });
    let larder = Larder::site(&origin.url(), "grace = \"1h\"");
    get(larder.addr(), "/");
    assert_eq!(get(larder.addr(), "/").text(), "old");
    gate.open();
    wait_until("the new page", || get(larder.addr(), "/").text() == "new");
}

#[test]
fn keep_serves_stale_pages_when_the_origin_is_gone() {
    let origin = Origin::serving(&["Cache-Control: max-age=10", "Age: 20"], "old");
    let larder = Larder::site(&origin.url(), "keep = \"1d\"");
    get(larder.addr(), "/");
    origin.stop();
    assert_eq!(get(larder.addr(), "/").text(), "old");
}

#[test]
fn an_origin_that_comes_back_is_used_again() {
    let origin = Origin::serving(SIE, "old");
    let addr = origin.addr();
    let larder = Larder::before(&origin.url());
    get(larder.addr(), "/");
    origin.stop();
    assert_eq!(get(larder.addr(), "/").text(), "old");
    let _back = wait_for("the port to be free", || {
        Origin::at(addr, |_, reply| {
            reply.ok(NEW, "new");
        })
        .ok()
    });
    wait_until("the new page", || get(larder.addr(), "/").text() == "new");
}

#[test]
fn an_origin_that_never_was_is_a_plain_502() {
    let port = larder_tests::helper::free_port();
    let larder = Larder::before(&format!("http://127.0.0.1:{port}"));
    let answer: Answer = get(larder.addr(), "/");
    assert!(
        (answer.status == 502 || answer.status == 504) && !answer.body.is_empty(),
        "{answer:?}"
    );
    assert!(answer.get("content-type").is_some_and(|v| v.starts_with("text/html")), "{answer:?}");
    assert_eq!(answer.get("cache-control"), Some("no-store"));
}

/// RFC 9111 section 5.1: of a list, or of several lines, the first member counts; what is then no
/// number is ignored.
#[test]
fn of_ages_the_first_counts_and_what_is_no_number_is_ignored() {
    for (ages, stored) in [
        (&["Age: 0, 0"][..], Some(0)),
        (&["Age: 0, 7200"], Some(0)),
        (&["Age: 0", "Age: 7200"], Some(0)),
        (&["Age: 600", "Age: 600"], Some(600)),
        (&["Age: 600, 7200"], Some(600)),
        (&["Age: abc"], Some(0)),
        (&["Age: abc", "Age: 7200"], Some(0)),
        (&["Age: -7200"], Some(0)),
        (&["Age: 7200.0"], Some(0)),
        (&["Age: 7200;foo=bar"], Some(0)),
        (&["Age:"], Some(0)),
        (&["Age: 7200"], None),
        (&["Age: 7200, 0"], None),
        (&["Age: 7200", "Age: 0"], None),
        (&["Age: 2147483649"], None),
    ] {
        let origin = Origin::start(move |_, reply| {
            reply.ok(&[&["Cache-Control: max-age=3600"], ages].concat(), "page");
        });
        let larder = Larder::before(&origin.url());
        get(larder.addr(), "/");
        let second = get(larder.addr(), "/");
        assert_eq!(second.is_hit(), stored.is_some(), "{ages:?}: {second:?}");
        if let (Some(least), Some(age)) = (stored, second.age()) {
            assert!((least..least + 600).contains(&age), "{ages:?}: {age}");
        }
    }
}
