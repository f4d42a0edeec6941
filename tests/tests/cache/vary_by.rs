//! Variation by parts of fields: MediaWiki's X-Vary-Options and the Key field, where the site has
//! them.

use larder_tests::{Larder, Origin, get, get_with};

/// As MediaWiki up to 1.34 sends it, with the names of one wiki's cookies.
const MEDIAWIKI: &str = "X-Vary-Options: Accept-Encoding;list-contains=gzip,Cookie;\
    string-contains=wikiToken;string-contains=wikiLoggedOut;string-contains=wiki_session;\
    string-contains=VisualEditor";

/// An origin whose pages have these fields and name the request's number, before a Larder with
/// these lines.
fn site(fields: &'static [&'static str], lines: &str) -> (Origin, Larder) {
    let origin = Origin::start(move |seen, reply| {
        let all = [&["Cache-Control: s-maxage=600"], fields].concat();
        reply.ok(&all, seen.number.to_string());
    });
    let larder = Larder::site(&origin.url(), lines);
    (origin, larder)
}

fn text(larder: &Larder, fields: &[&str]) -> String {
    get_with(larder.addr(), "/", fields).assert_status(200).text().to_owned()
}

#[test]
fn visitors_without_a_session_share_a_page_of_mediawiki() {
    let fields: &[&str] = &["Vary: Accept-Encoding, Cookie", MEDIAWIKI];
    let (origin, larder) = site(fields, "vary_fields = [\"x-vary-options\"]");
    for cookies in [
        "",
        "Cookie: _ga=GA1.2.3; _gid=4",
        "Cookie: stopMobileRedirect=true",
        "Cookie: wikiUserName=A",
    ] {
        assert_eq!(
            text(&larder, &[cookies].map(|c| if c.is_empty() { "X-None: 1" } else { c })),
            "0",
            "{cookies}"
        );
    }
    assert_eq!(text(&larder, &["Cookie: _ga=1; wiki_session=abc"]), "1");
    assert_eq!(text(&larder, &["Cookie: wikiToken=1"]), "2");
    assert_eq!(text(&larder, &["Cookie: wikiToken=1; wiki_session=x"]), "3");
    assert_eq!(text(&larder, &["Cookie: _ga=2"]), "0");
    let answer = get(larder.addr(), "/");
    assert_eq!(answer.assert_hit().get("vary"), Some("Accept-Encoding, Cookie"), "as it was sent");
    assert_eq!(origin.count(), 4);
}

#[test]
fn without_the_option_the_whole_field_selects() {
    let (origin, larder) = site(&["Vary: Cookie", MEDIAWIKI, "Key: Cookie;param=a"], "");
    assert_eq!(text(&larder, &["Cookie: _ga=1"]), "0");
    assert_eq!(text(&larder, &["Cookie: _ga=2"]), "1");
    assert_eq!(origin.count(), 2);
}

#[test]
fn key_selects_by_its_parameters() {
    for (key, alike, others) in [
        (
            "Key: X-Width;div=320",
            &["X-Width: 10", "X-Width: 319"][..],
            &["X-Width: 320", "X-Width: wide", "X-None: 1"][..],
        ),
        (
            "Key: X-Width;partition=20:30.5",
            &["X-Width: 20", "X-Width: 30.49"],
            &["X-Width: 19", "X-Width: 31"],
        ),
        (
            "Key: X-Kind;match=\"a b\"",
            &["X-Kind: a b", "X-Kind: c,  a b "],
            &["X-Kind: c", "X-None: 1"],
        ),
        (
            "Key: User-Agent;substr=MSIE",
            &["User-Agent: x MSIE 6", "User-Agent: MSIE 7"],
            &["User-Agent: msie", "X-None: 1"],
        ),
        (
            "Key: Cookie;param=ID, X-Kind",
            &["Cookie: ID=1; a=2", "Cookie: b=3; ID=1"],
            &["Cookie: ID=2", "Cookie: a=1"],
        ),
    ] {
        let origin = Origin::start(move |seen, reply| {
            reply.ok(&["Cache-Control: max-age=600", "Vary: *", key], seen.number.to_string());
        });
        let larder = Larder::site(&origin.url(), "vary_fields = [\"x-vary-options\", \"key\"]");
        for field in alike {
            assert_eq!(text(&larder, &[field]), "0", "{key} {field}");
        }
        for (number, field) in (1..).zip(others) {
            assert_eq!(text(&larder, &[field]), number.to_string(), "{key} {field}");
        }
        assert_eq!(text(&larder, &[alike[1]]), "0", "{key}");
    }
}

#[test]
fn a_malformed_field_leaves_it_to_vary() {
    for field in
        ["X-Vary-Options: Cookie;starts-with=a", "Key: Cookie;param", "Key: Cookie;param=\"a"]
    {
        let origin = Origin::start(move |seen, reply| {
            reply.ok(
                &["Cache-Control: max-age=600", "Vary: X-Kind", field],
                seen.number.to_string(),
            );
        });
        let larder = Larder::site(&origin.url(), "vary_fields = [\"key\", \"x-vary-options\"]");
        assert_eq!(text(&larder, &["X-Kind: a", "Cookie: a=1"]), "0", "{field}");
        assert_eq!(text(&larder, &["X-Kind: a", "Cookie: a=2"]), "0", "{field}");
        assert_eq!(text(&larder, &["X-Kind: b", "Cookie: a=2"]), "1", "{field}");
    }
}

/// Every spelling of a query has the variants of its page.
#[test]
fn variants_go_together_with_spellings_and_purges() {
    let fields: &[&str] = &["Key: Cookie;param=lang", "No-Vary-Search: params=(\"utm\")"];
    let lines = "vary_fields = [\"key\"]\npurge = { from = [\"127.0.0.1\"] }";
    let (origin, larder) = site(fields, lines);
    let ask = |target: &str, cookie: &str| {
        let answer = get_with(larder.addr(), target, &[&format!("Cookie: {cookie}")]);
        answer.text().to_owned()
    };
    assert_eq!(ask("/?utm=1", "lang=de; x=1"), "0");
    assert_eq!(ask("/?utm=2", "lang=en; x=2"), "1");
    assert_eq!(ask("/", "x=3; lang=de"), "0");
    larder.connect().ask("PURGE", "/?utm=3", &["Host: site.test"]).assert_status(200);
    assert_eq!(ask("/?utm=4", "lang=en"), "2");
    assert_eq!(origin.count(), 3);
}
