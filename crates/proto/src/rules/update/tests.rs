use super::*;
use crate::http::Header;
use crate::page::{Parts, TRAILER_LEN, Verify, encode_head, view};
use crate::rules::test_support::{NOW, fields, http_date, response, with_request};
use crate::rules::{Storable, storable};

/// A received response, stored as a page with a body of five bytes.
struct Stored {
    record: Vec<u8>,
}

impl Stored {
    fn new(list: &[(&str, &str)], policy: &Policy) -> Self {
        let held = fields(list);
        let facts = response(200, &held);
        let accepts = [("Accept-Encoding", "gzip")];
        let Storable::Yes(life) = with_request("GET", &accepts, |r| storable(r, &facts, policy))
        else {
            panic!("not storable: {list:?}")
        };
        let head = stored_head(&facts, "OK", policy);
        let etag = facts.fields.get("etag").unwrap_or_default();
        let names = match vary::names(facts.fields) {
            vary::Vary::Names(names) => names,
            _ => Vec::new(),
        };
        let vary: Vec<_> = names.iter().map(|n| (n.as_str(), None)).collect();
        let parts = Parts {
            etag,
            vary: &vary,
            head: &head.head,
            withheld: &head.withheld,
            ..Parts::default()
        };
        let mut record = encode_head(&life.meta(&facts), &parts).expect("small");
        record.resize(record.len() + 5 + TRAILER_LEN, b'x');
        Self { record }
    }

    fn page(&self) -> PageView<'_> {
        view(&self.record, self.record.len() as u64, Verify::Layout).expect("just written")
    }
}

/// A page of policy `policy`, freshened by a 304 that arrives `later` seconds on.
fn freshened(
    stored: &Stored,
    new: &[Header<'_>],
    later: u64,
    policy: &Policy,
) -> Result<Freshened, NotFreshened> {
    let time = (NOW + later) * 1000;
    let facts = ResponseFacts {
        status: 304,
        fields: Fields::new(new),
        request_time: time,
        response_time: time,
    };
    with_request("GET", &[], |req| freshen(&stored.page(), req, &facts, policy))
}

fn lines(head: &[u8]) -> Vec<String> {
    let text = String::from_utf8(head.to_vec()).expect("ASCII");
    text.lines().map(str::to_owned).collect()
}

fn value_of(name: &str, fresh: &Freshened) -> Option<String> {
    let (_, lines) = split_head(&fresh.head.head)?;
    with_fields(lines, |f| f.get(name).map(|v| String::from_utf8_lossy(v).into_owned()))
        .expect("well-formed")
}

const TAG: (&str, &str) = ("ETag", "\"a\"");

#[test]
fn section_3_2_which_fields_a_304_updates() {
    for (name, old, new, updated) in [
        ("Test-Header", "a", "b", true),
        ("Content-Foo", "a", "b", true),
        ("X-Content-Foo", "a", "b", true),
        ("Cache-Control", "max-age=1", "max-age=3600", true),
        ("Content-Encoding", "gzip", "br", false),
        ("Content-Length", "5", "10", false),
        ("Content-Location", "/foo", "/bar", true),
        ("Content-MD5", "rL0Y20zC+Fzt72VPzMSk2A==", "N7UdGUp1E+RbVvZSTy1R8g==", false),
        ("Content-Range", "a", "b", false),
        ("Content-Security-Policy", "default-src 'self'", "default-src *", true),
        ("Content-Type", "text/plain", "text/plain;charset=utf-8", true),
        ("ETag", "\"a\"", "\"b\"", false),
        ("Expires", "Fri, 01 Jan 2038 01:01:01 GMT", "Mon, 11 Jan 2038 11:11:11 GMT", true),
        ("Repr-Digest", "sha-256=:YQ==:", "sha-256=:Yg==:", false),
        ("X-Frame-Options", "deny", "sameorigin", true),
    ] {
        let mut list = vec![TAG, ("Last-Modified", "Wed, 01 Jan 2020 00:00:00 GMT"), (name, old)];
        if name == "ETag" {
            list.remove(0);
        }
        let stored = Stored::new(&list, &Policy::default());
        let held = fields(&[(name, new)]);
        let fresh = freshened(&stored, &held, 3, &Policy::default()).expect("validated");
        assert_eq!(
            value_of(name, &fresh).as_deref(),
            Some(if updated { new } else { old }),
            "{name}"
        );
        assert_eq!(fresh.meta.response_time, (NOW + 3) * 1000);
    }
}

#[test]
fn fields_the_304_omits_stay() {
    let stored = Stored::new(
        &[TAG, ("Test-Header", "a"), ("Cache-Control", "max-age=2")],
        &Policy::default(),
    );
    let fresh = freshened(&stored, &[], 3, &Policy::default()).expect("validated");
    let date = format!("Date: {}", http_date(3));
    assert_eq!(
        lines(&fresh.head.head),
        ["HTTP/1.1 200 OK", "ETag: \"a\"", "Test-Header: a", "Cache-Control: max-age=2", &date]
    );
    assert_eq!((fresh.meta.freshness, fresh.meta.initial_age, fresh.meta.status), (2, 0, 200));
    assert_eq!(fresh.etag, b"\"a\"");
}

#[test]
fn several_lines_are_replaced_as_a_whole() {
    let stored = Stored::new(&[TAG, ("X", "1"), ("Y", "y"), ("x", "2")], &Policy::default());
    let new = fields(&[("X", "3"), ("x", "4")]);
    let fresh = freshened(&stored, &new, 0, &Policy::default()).expect("validated");
    let kept: Vec<_> =
        lines(&fresh.head.head).into_iter().filter(|l| l.starts_with(['x', 'X'])).collect();
    assert_eq!(kept, ["X: 3", "x: 4"]);
}

#[test]
fn what_is_never_stored_is_not_updated_either() {
    let stored = Stored::new(&[TAG], &Policy::default());
    let new = fields(&[
        ("Connection", "a"),
        ("A", "1"),
        ("Set-Cookie", "a=b"),
        ("Transfer-Encoding", "chunked"),
        ("Age", "9"),
    ]);
    let fresh = freshened(&stored, &new, 0, &Policy::default()).expect("validated");
    for name in ["Connection", "A", "Set-Cookie", "Transfer-Encoding", "Age"] {
        assert_eq!(value_of(name, &fresh), None, "{name}");
    }
    assert_eq!(fresh.meta.initial_age, 9, "the 304's Age is the page's");
    let allowed = Policy { allow_set_cookie: true, ..Policy::default() };
    let fresh = freshened(&stored, &new, 0, &allowed).expect("validated");
    assert_eq!(value_of("Set-Cookie", &fresh).as_deref(), Some("a=b"));
}

#[test]
fn withheld_directives_still_govern_after_a_304() {
    let policy = Policy { strip_s_maxage: true, ..Policy::default() };
    let list = [TAG, ("Cache-Control", "s-maxage=18000, max-age=0")];
    let stored = Stored::new(&list, &policy);
    let fresh = freshened(&stored, &[], 5, &policy).expect("validated");
    assert_eq!(fresh.meta.freshness, 18_000);
    assert_eq!(value_of("cache-control", &fresh).as_deref(), Some("max-age=0"));
    let new = fields(&[("Cache-Control", "s-maxage=7")]);
    let fresh = freshened(&stored, &new, 5, &policy).expect("validated");
    assert_eq!((fresh.meta.freshness, value_of("cache-control", &fresh)), (7, None));
    assert_eq!(fresh.head.withheld, b"Cache-Control: s-maxage=7\r\n");

    let stored = Stored::new(
        &[TAG, ("Surrogate-Control", "max-age=60"), ("Cache-Control", "no-store")],
        &policy,
    );
    let fresh = freshened(&stored, &[], 5, &policy).expect("validated");
    assert_eq!((fresh.meta.freshness, value_of("surrogate-control", &fresh)), (60, None));
}

#[test]
fn a_304_may_end_the_pages_life() {
    let stored = Stored::new(
        &[TAG, ("Vary", "accept"), ("Last-Modified", "Wed, 01 Jan 2020 00:00:00 GMT")],
        &Policy::default(),
    );
    for (list, expected) in [
        (&[("Cache-Control", "no-store")][..], NotFreshened::NotStorable(NoStore::NoStore)),
        (&[("Cache-Control", "private")], NotFreshened::NotStorable(NoStore::Private)),
        (&[("Vary", "*")], NotFreshened::OtherPage),
        (&[("Vary", "accept, cookie")], NotFreshened::OtherPage),
    ] {
        let new = fields(list);
        assert_eq!(freshened(&stored, &new, 0, &Policy::default()), Err(expected), "{list:?}");
    }
    let new = fields(&[("Vary", "Accept")]);
    assert!(freshened(&stored, &new, 0, &Policy::default()).is_ok());
    let untagged =
        Stored::new(&[("Last-Modified", "Wed, 01 Jan 2020 00:00:00 GMT")], &Policy::default());
    let new = fields(&[("Last-Modified", "Thu, 02 Jan 2020 00:00:00 GMT")]);
    assert_eq!(freshened(&untagged, &new, 0, &Policy::default()), Err(NotFreshened::OtherPage));
}

#[test]
fn section_4_3_5_head() {
    let modified = "Wed, 01 Jan 2020 00:00:00 GMT";
    let old =
        [TAG, ("Last-Modified", modified), ("Template-A", "1"), ("Cache-Control", "max-age=2")];
    let stored = Stored::new(&old, &Policy::default());
    let head = |status, list: &[(&str, &str)]| {
        let held = fields(list);
        let facts = response(status, &held);
        with_request("HEAD", &[], |req| {
            head_update(&stored.page(), req, &facts, &Policy::default())
        })
    };
    let same = [TAG, ("Last-Modified", modified)];
    let with = |more: &[(&'static str, &'static str)]| [&same[..], more].concat();
    let new =
        with(&[("Content-Length", "5"), ("Template-A", "2"), ("Cache-Control", "max-age=1000")]);
    let HeadUpdate::Update(fresh) = head(200, &new) else { panic!("same representation") };
    assert_eq!(
        (fresh.meta.freshness, value_of("Template-A", &fresh).as_deref()),
        (1000, Some("2"))
    );
    assert!(matches!(head(200, &same), HeadUpdate::Update(_)));
    assert_eq!(head(200, &with(&[("Content-Length", "6")])), HeadUpdate::Invalidate);
    assert_eq!(
        head(200, &[("ETag", "\"b\""), ("Last-Modified", modified)]),
        HeadUpdate::Invalidate
    );
    assert_eq!(head(200, &[("ETag", "\"a\"")]), HeadUpdate::Invalidate);
    assert_eq!(head(200, &with(&[("Cache-Control", "no-store")])), HeadUpdate::Invalidate);
    assert_eq!(head(200, &with(&[("Cache-Control", "private")])), HeadUpdate::Invalidate);
    for status in [204, 304, 404, 410, 500] {
        assert_eq!(head(status, &same), HeadUpdate::Ignore, "{status}");
    }
}

#[test]
fn a_head_that_cannot_be_read_is_a_miss() {
    for head in [&b""[..], b"HTTP/1.1 200 OK", b"HTTP/1.1 200 OK\r\nbroken\r\n"] {
        let record = encode_head(
            &Meta { status: 200, ..Meta::default() },
            &Parts { head, ..Parts::default() },
        )
        .expect("small");
        let page =
            view(&record, (record.len() + TRAILER_LEN) as u64, Verify::Layout).expect("layout");
        let got = with_request("GET", &[], |req| {
            freshen(&page, req, &response(304, &[]), &Policy::default())
        });
        assert_eq!(got, Err(NotFreshened::Malformed), "{}", head.escape_ascii());
    }
}
