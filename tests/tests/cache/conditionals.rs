//! Conditions of clients, answered from stored pages (RFC 9110 13).

use larder_tests::{Larder, Origin, get, get_with};

const FIELDS: &[&str] = &[
    "Cache-Control: max-age=60",
    "ETag: \"v1\"",
    "Last-Modified: Sat, 01 Jan 2000 00:00:00 GMT",
    "Content-Location: /here",
    "X-Other: field",
];

fn stored() -> (Origin, Larder) {
    let origin = Origin::serving(FIELDS, "page");
    let larder = Larder::before(&origin.url());
    get(larder.addr(), "/");
    (origin, larder)
}

#[track_caller]
fn status_of(fields: &[&str]) -> u16 {
    let (origin, larder) = stored();
    let answer = get_with(larder.addr(), "/", fields);
    assert_eq!(origin.count(), 1, "it could be answered from the store: {fields:?}");
    assert_eq!(answer.body.is_empty(), answer.status == 304);
    answer.status
}

#[test]
fn if_none_match_compares_weakly() {
    for (field, status) in [
        ("If-None-Match: \"v1\"", 304),
        ("If-None-Match: W/\"v1\"", 304),
        ("If-None-Match: \"v0\", \"v1\"", 304),
        ("If-None-Match: *", 304),
        ("If-None-Match: \"v0\"", 200),
        ("If-None-Match: v1", 200),
    ] {
        assert_eq!(status_of(&[field]), status, "{field}");
    }
}

#[test]
fn if_modified_since_compares_dates() {
    for (field, status) in [
        ("If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT", 304),
        ("If-Modified-Since: Sun, 02 Jan 2000 00:00:00 GMT", 304),
        ("If-Modified-Since: Saturday, 01-Jan-00 00:00:00 GMT", 304),
        ("If-Modified-Since: Sat Jan  1 00:00:00 2000", 304),
        ("If-Modified-Since: Fri, 31 Dec 1999 23:59:59 GMT", 200),
        ("If-Modified-Since: yesterday", 200),
    ] {
        assert_eq!(status_of(&[field]), status, "{field}");
    }
}

#[test]
fn if_none_match_wins_over_if_modified_since() {
    let modified = "If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT";
    assert_eq!(status_of(&["If-None-Match: \"v0\"", modified]), 200);
    assert_eq!(
        status_of(&["If-None-Match: \"v1\"", "If-Modified-Since: Fri, 31 Dec 1999 23:59:59 GMT"]),
        304
    );
}

#[test]
fn a_304_carries_what_a_200_would_but_not_the_body() {
    let (_origin, larder) = stored();
    let answer = get_with(larder.addr(), "/", &["If-None-Match: \"v1\""]);
    assert_eq!(
        (answer.status, answer.get("etag"), answer.get("cache-control")),
        (304, Some("\"v1\""), Some("max-age=60"))
    );
    assert!(answer.get("date").is_some() || answer.get("age").is_some(), "{answer:?}");
    assert_eq!(answer.get("content-location"), Some("/here"));
    assert!(answer.is_hit(), "{answer:?}");
}

#[test]
fn the_connection_goes_on_after_a_304() {
    let (_origin, larder) = stored();
    let mut wire = larder.connect();
    for _ in 0..3 {
        assert_eq!(wire.get("/", &["If-None-Match: \"v1\""]).status, 304);
        assert_eq!(wire.get("/", &[]).text(), "page");
    }
}

#[test]
fn head_with_a_condition_is_answered_too() {
    let (origin, larder) = stored();
    let answer = larder.connect().ask("HEAD", "/", &["Host: site.test", "If-None-Match: \"v1\""]);
    assert_eq!((answer.status, origin.count()), (304, 1));
}

#[test]
fn a_condition_on_a_cold_page_is_answered_and_the_page_is_kept() {
    let origin = Origin::start(|seen, reply| {
        match seen.get("if-none-match") {
            Some("\"v1\"") => reply.head(304, FIELDS),
            _ => reply.ok(FIELDS, "page"),
        };
    });
    let larder = Larder::before(&origin.url());
    let answer = get_with(larder.addr(), "/", &["If-None-Match: \"v1\""]);
    assert_eq!((answer.status, answer.body.len()), (304, 0));
    // Whichever way the origin was asked, a client without a condition gets the page and never a
    // 304.
    assert_eq!(get(larder.addr(), "/").text(), "page");
    assert_eq!(get(larder.addr(), "/").assert_hit().text(), "page");
}

#[test]
fn a_condition_never_turns_an_error_into_304() {
    let origin = Origin::start(|_, reply| {
        reply.answer(404, &["Cache-Control: max-age=60", "ETag: \"v1\""], "not here");
    });
    let larder = Larder::before(&origin.url());
    get(larder.addr(), "/");
    let answer = get_with(larder.addr(), "/", &["If-None-Match: \"v1\""]);
    assert_eq!((answer.status, answer.text()), (404, "not here"));
}
