use larder_proto::{
    http::key,
    page::{Meta, Parts, Verify, encode_head, view},
};

use crate::page::ban::*;

const NOW: Ms = 10_000_000;

/// A page of 1,000 bytes, an hour and a minute old, status 404, at http://a.org/x/y?z.
fn with_page<T>(see: impl FnOnce(&KeyParts<'_>, &PageView<'_>) -> T) -> T {
    let mut bytes = Vec::new();
    key::write_key(&mut bytes, key::Scheme::Http, "A.org", 8080, b"/x/y?z");
    let meta =
        Meta { status: 404, response_time: NOW - 60_000, initial_age: 3600, ..Meta::default() };
    let parts = Parts {
        tags: &[b"news", b"sport-7"],
        key: &bytes,
        head: b"HTTP/1.1 404 Not Found\r\nContent-Type: Text/HTML; charset=utf-8\r\n",
        ..Parts::default()
    };
    let record = encode_head(&meta, &parts).expect("a record");
    let total = (record.len() + 1000 + larder_proto::page::TRAILER_LEN) as u64;
    let page = view(&record, total, Verify::Layout).expect("a page");
    see(&key::parse_key(&bytes).expect("a key"), &page)
}

fn means(text: &str) -> bool {
    let ban = Ban::parse(text).unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
    with_page(|key, page| ban.means(key, page, NOW))
}

#[test]
fn every_field_is_compared() {
    for meant in [
        "req.url ~ \"^/x/\"",
        "url == /x/y?z",
        "url !~ ^/z",
        "host == a.org",
        "req.http.host != \"b.org\"",
        "tag == news",
        "tag ~ \"sport-\\d\"",
        "tag != politics",
        "content_type == text/html",
        "content_type ~ \"utf-8$\"",
        "status == 404",
        "status == 4xx",
        "status != 5xx",
        "status > 3xx",
        "status >= 400 && status <= 499",
        "age > 1h",
        "age >= 1h1m",
        "age <= 61m",
        "age < 2d",
        "size == 1000",
        "size > 999B && size < 1KiB && size <= 1kB",
        "  url ~ x&&host==a.org  ",
    ] {
        assert!(means(meant), "{meant}");
    }
    for other in [
        "url ~ \"^/z\"",
        "url == /x",
        "host == b.org",
        "tag == sport",
        "tag != news",
        "tag !~ news",
        "content_type == text",
        "status == 200",
        "status < 4xx",
        "age > 61m",
        "size > 1000",
        "url ~ x && host == b.org",
    ] {
        assert!(!means(other), "{other}");
    }
}

#[test]
fn what_is_not_known_yet_may_be_meant() {
    let may = |text: &str| with_page(|key, _| Ban::parse(text).expect(text).may(key));
    assert!(may("status == 200"));
    assert!(may("url ~ ^/x && tag == nobody"));
    assert!(!may("url ~ ^/z && status == 404"));
    assert!(!may("host == b.org && status == 404"));
}

#[test]
fn a_quote_and_a_backslash_can_be_written() {
    let same = |text: &str, wanted: &str| {
        let Ok(Ban(terms)) = Ban::parse(text) else { panic!("{text}") };
        let [Term::Url(Text { with: Wanted::Same(same), .. })] = terms.as_slice() else {
            panic!("{terms:?}")
        };
        assert_eq!(same, wanted.as_bytes(), "{text}");
    };
    same(r#"url == "/a \"b\" && c""#, r#"/a "b" && c"#);
    same(r#"url == "a\\b\d""#, r"a\b\d");
}

#[test]
fn mistakes_are_told_with_their_place() {
    for (text, column, part) in [
        ("", 1, "expected url"),
        ("path ~ x", 1, "found \"path\""),
        ("url", 4, "found the end"),
        ("url = x", 5, "expected =="),
        ("url > x", 5, "expected =="),
        ("url == ", 8, "expected a text"),
        ("url == \"x", 8, "no closing quote"),
        ("url ~ \"(\"", 7, "regular expression"),
        ("status ~ 404", 8, "expected =="),
        ("status == 6xx", 11, "404 or 5xx"),
        ("age > 1 h", 7, "90s"),
        ("age > 1", 7, "90s"),
        ("size > big", 8, "64KiB"),
        ("size > 99999999999GiB", 8, "64KiB"),
        ("url ~ ü && url ~ x || host == a", 20, "expected &&"),
        ("url ~ x &&", 11, "found the end"),
    ] {
        let wrong = Ban::parse(text).expect_err(text);
        assert!(wrong.column == column && wrong.message.contains(part), "{text}: {wrong}");
    }
}

#[test]
fn expressions_have_limits() {
    let terms = |n: usize| vec!["url ~ x"; n].join(" && ");
    assert!(Ban::parse(&terms(16)).is_ok());
    assert!(Ban::parse(&terms(17)).is_err());
    assert!(Ban::parse(&format!("url == {}", "x".repeat(5000))).is_err());
    assert!(
        Ban::parse(r#"url ~ "(((\w{100}){100}){100}){100}""#).is_err(),
        "a regular expression that takes too much"
    );
}
