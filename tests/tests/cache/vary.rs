//! Variants: selected by what the page varies on, normalised where only part of a field matters.

use larder_tests::{Larder, Origin, get, get_with};

/// An origin whose pages vary on these fields and show the request's first value of each.
fn varying(vary: &'static str, names: &'static [&'static str]) -> (Origin, Larder) {
    let origin = Origin::start(move |seen, reply| {
        let shown: Vec<_> = names.iter().map(|name| seen.fields.joined(name)).collect();
        reply.ok(&["Cache-Control: max-age=60", vary], shown.join("|"));
    });
    let larder = Larder::before(&origin.url());
    (origin, larder)
}

#[test]
fn each_value_has_its_page() {
    let (origin, larder) = varying("Vary: X-Kind", &["x-kind"]);
    for kind in ["a", "b", "a", "b"] {
        assert_eq!(get_with(larder.addr(), "/", &[&format!("X-Kind: {kind}")]).text(), kind);
    }
    assert_eq!(get(larder.addr(), "/").text(), "");
    get(larder.addr(), "/").assert_hit();
    assert_eq!(origin.count(), 3);
}

#[test]
fn a_missing_variant_is_a_vary_miss() {
    let (_origin, larder) = varying("Vary: X-Kind", &["x-kind"]);
    get_with(larder.addr(), "/", &["X-Kind: a"]);
    let answer = get_with(larder.addr(), "/", &["X-Kind: b"]);
    assert!(answer.cache_status_has("fwd=vary-miss"), "{answer:?}");
}

#[test]
fn several_fields_select_together() {
    let (origin, larder) = varying("Vary: X-A, X-B", &["x-a", "x-b"]);
    for (a, b) in [("1", "1"), ("1", "2"), ("2", "1"), ("1", "1"), ("1", "2"), ("2", "1")] {
        let answer = get_with(larder.addr(), "/", &[&format!("X-A: {a}"), &format!("X-B: {b}")]);
        assert_eq!(answer.text(), format!("{a}|{b}"));
    }
    assert_eq!(origin.count(), 3);
}

/// Values that only look alike when they are joined without care.
#[test]
fn values_cannot_be_shifted_between_fields() {
    let (origin, larder) = varying("Vary: X-A, X-B", &["x-a", "x-b"]);
    get_with(larder.addr(), "/", &["X-A: 1|2", "X-B: 3"]);
    let other = get_with(larder.addr(), "/", &["X-A: 1", "X-B: 2|3"]);
    assert!(!other.is_hit());
    get_with(larder.addr(), "/", &["X-A: 12", "X-B: "]);
    assert!(!get_with(larder.addr(), "/", &["X-A: 1", "X-B: 2"]).is_hit());
    assert_eq!(origin.count(), 4);
}

#[test]
fn accept_encoding_is_compared_by_what_it_accepts() {
    let origin = Origin::start(|seen, reply| {
        let brotli = seen.fields.joined("accept-encoding").to_ascii_lowercase().contains("br");
        let fields = ["Cache-Control: max-age=60", "Vary: Accept-Encoding", "Content-Encoding: br"];
        if brotli {
            reply.ok(&fields, "(brotli)")
        } else {
            reply.ok(&fields[..2], "plain")
        };
    });
    let larder = Larder::before(&origin.url());
    get_with(larder.addr(), "/", &["Accept-Encoding: gzip, br"]);
    for same in ["br,gzip", "gzip;q=1.0, br", "GZIP, BR"] {
        get_with(larder.addr(), "/", &[&format!("Accept-Encoding: {same}")]).assert_hit();
    }
    assert_eq!(origin.count(), 1);
    for other in ["identity", "gzip", "br;q=0", "gzip, br;q=0.0"] {
        let answer = get_with(larder.addr(), "/", &[&format!("Accept-Encoding: {other}")]);
        assert!(!answer.is_hit() || answer.text() == "plain", "{other}: {answer:?}");
    }
    assert_eq!(get(larder.addr(), "/").text(), "plain");
}

#[test]
fn an_encoded_page_never_reaches_a_client_that_cannot_read_it() {
    let origin = Origin::start(|seen, reply| {
        let gzip = seen.fields.joined("accept-encoding").contains("gzip");
        let fields =
            ["Cache-Control: max-age=60", "Vary: Accept-Encoding", "Content-Encoding: gzip"];
        if gzip {
            reply.ok(&fields, "(zipped)")
        } else {
            reply.ok(&fields[..2], "plain")
        };
    });
    let larder = Larder::before(&origin.url());
    for _ in 0..2 {
        let zipped = get_with(larder.addr(), "/", &["Accept-Encoding: gzip"]);
        assert_eq!((zipped.text(), zipped.get("content-encoding")), ("(zipped)", Some("gzip")));
        let plain = get(larder.addr(), "/");
        assert_eq!((plain.text(), plain.get("content-encoding")), ("plain", None));
    }
    assert_eq!(origin.count(), 2);
}

#[test]
fn accept_language_is_compared_by_preference() {
    let (origin, larder) = varying("Vary: Accept-Language", &["accept-language"]);
    get_with(larder.addr(), "/", &["Accept-Language: de, en;q=0.5"]);
    get_with(larder.addr(), "/", &["Accept-Language: en;q=0.5,DE"]).assert_hit();
    assert!(!get_with(larder.addr(), "/", &["Accept-Language: en, de;q=0.5"]).is_hit());
    assert_eq!(origin.count(), 2);
}

#[test]
fn cookies_that_make_no_difference_make_no_variants() {
    let origin = Origin::start(|seen, reply| {
        reply.ok(
            &["Cache-Control: max-age=60", "Vary: Cookie"],
            seen.get("cookie").unwrap_or("none"),
        );
    });
    let larder = Larder::site(&origin.url(), "vary_cookies = [\"theme\"]");
    get_with(larder.addr(), "/", &["Cookie: theme=dark; visit=1"]);
    get_with(larder.addr(), "/", &["Cookie: visit=2; theme=dark"]).assert_hit();
    assert!(!get_with(larder.addr(), "/", &["Cookie: theme=light"]).is_hit());
    assert!(!get(larder.addr(), "/").is_hit());
    assert_eq!(origin.count(), 3);
}

#[test]
fn a_page_may_change_what_it_varies_on() {
    let origin = Origin::start(|seen, reply| {
        let vary = if seen.number == 0 { "Vary: X-A" } else { "Vary: X-B" };
        reply.ok(&["Cache-Control: max-age=60", vary], seen.get("x-b").unwrap_or("none"));
    });
    let larder = Larder::before(&origin.url());
    get_with(larder.addr(), "/", &["X-A: 1", "X-B: 1"]);
    assert_eq!(get_with(larder.addr(), "/", &["X-A: 2", "X-B: 2"]).text(), "2");
    assert_eq!(get_with(larder.addr(), "/", &["X-A: 3", "X-B: 3"]).text(), "3");
    // Whether the old list still counts is left open; what is asked for again as it was is a hit.
    assert_eq!(get_with(larder.addr(), "/", &["X-A: 3", "X-B: 3"]).assert_hit().text(), "3");
    assert_eq!(get_with(larder.addr(), "/", &["X-A: 4", "X-B: 4"]).text(), "4");
}

#[test]
fn head_is_answered_from_the_right_variant() {
    let origin = Origin::start(|seen, reply| {
        let kind = seen.get("x-kind").unwrap_or_default();
        reply.ok(&["Cache-Control: max-age=60", "Vary: X-Kind", &format!("X-Is: {kind}")], kind);
    });
    let larder = Larder::before(&origin.url());
    for kind in ["X-Kind: a", "X-Kind: bb"] {
        get_with(larder.addr(), "/", &[kind]);
    }
    let head = larder.connect().ask("HEAD", "/", &["Host: site.test", "X-Kind: bb"]);
    assert_eq!(
        (head.is_hit(), head.get("x-is"), head.get("content-length")),
        (true, Some("bb"), Some("2"))
    );
}
