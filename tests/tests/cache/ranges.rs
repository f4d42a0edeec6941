//! Ranges answered from stored pages (RFC 9110 14), partial answers stored and completed (RFC 9111
//! 3.3, 3.4).

#![allow(clippy::unwrap_used)]

use larder_tests::{Answer, Larder, Origin, Seen, get, get_with};

const BODY: &str = "0123456789abcdefghijklmnopqrstuvwxyz";
const FIELDS: &[&str] = &[
    "Cache-Control: max-age=60",
    "ETag: \"v1\"",
    "Last-Modified: Sat, 01 Jan 2000 00:00:00 GMT",
    "Content-Type: text/plain",
];

/// A stored page, ready to be asked for parts.
fn stored() -> (Origin, Larder) {
    let origin = Origin::serving(FIELDS, BODY);
    let larder = Larder::before(&origin.url());
    assert_eq!(get(larder.addr(), "/").text(), BODY);
    (origin, larder)
}

fn range(larder: &Larder, range: &str) -> Answer {
    get_with(larder.addr(), "/", &[&format!("Range: {range}")])
}

#[test]
fn one_range_is_cut_out_of_the_stored_page() {
    let (origin, larder) = stored();
    let cases = [
        ("bytes=0-4", "01234", "bytes 0-4/36"),
        ("bytes=10-", "abcdefghijklmnopqrstuvwxyz", "bytes 10-35/36"),
        ("bytes=-5", "vwxyz", "bytes 31-35/36"),
        ("bytes=35-35", "z", "bytes 35-35/36"),
        ("bytes=30-1000", "uvwxyz", "bytes 30-35/36"),
        ("bytes=-1000", BODY, "bytes 0-35/36"),
    ];
    for (asked, body, content_range) in cases {
        let answer = range(&larder, asked);
        assert_eq!(
            (answer.status, answer.text(), answer.get("content-range")),
            (206, body, Some(content_range)),
            "{asked}"
        );
        assert_eq!(
            (answer.get("etag"), answer.get("content-type")),
            (Some("\"v1\""), Some("text/plain")),
            "{asked}"
        );
        assert!(answer.is_hit(), "{asked}: {answer:?}");
    }
    assert_eq!(origin.count(), 1);
}

/// Content-Digest is of the content of the message, Repr-Digest of the representation (RFC 9530
/// section 2).
#[test]
fn a_part_lacks_the_digest_of_other_bytes() {
    let origin = Origin::serving(
        &[
            "Cache-Control: max-age=60",
            "ETag: \"v1\"",
            "Content-Digest: sha-256=:whole:",
            "Content-MD5: whole",
            "Repr-Digest: sha-256=:whole:",
            "Digest: sha-256=whole",
        ],
        BODY,
    );
    let larder = Larder::before(&origin.url());
    let has = |answer: &Answer| {
        ["content-digest", "content-md5", "repr-digest", "digest"]
            .map(|name| answer.get(name).is_some())
    };
    for _ in 0..2 {
        assert_eq!(has(&get(larder.addr(), "/")), [true; 4]);
    }
    for asked in ["bytes=0-4", "bytes=0-1,30-33"] {
        let answer = range(&larder, asked);
        assert_eq!((answer.status, has(&answer)), (206, [false, false, true, true]), "{asked}");
    }
    assert_eq!(range(&larder, "bytes=100-").status, 416);
}

#[test]
fn a_range_past_the_end_cannot_be_satisfied() {
    let (_origin, larder) = stored();
    for asked in ["bytes=36-", "bytes=1000-2000", "bytes=-0"] {
        let answer = range(&larder, asked);
        assert_eq!(
            (answer.status, answer.get("content-range")),
            (416, Some("bytes */36")),
            "{asked}"
        );
    }
}

#[test]
fn a_range_that_makes_no_sense_is_ignored() {
    let (_origin, larder) = stored();
    for asked in ["bytes=5-2", "bytes=a-b", "bytes", "lines=1-2", "bytes=--5", "bytes=1", "bytes="]
    {
        let answer = range(&larder, asked);
        assert_eq!((answer.status, answer.text()), (200, BODY), "{asked}");
    }
}

#[test]
fn several_ranges_come_as_multipart() {
    let (_origin, larder) = stored();
    let answer = range(&larder, "bytes=0-4, -2, 10-12");
    assert_eq!(answer.status, 206);
    assert_eq!(answer.get("content-range"), None);
    let kind = answer.get("content-type").unwrap();
    let boundary =
        kind.strip_prefix("multipart/byteranges; boundary=").expect(kind).trim_matches('"');
    let parts: Vec<&str> = answer.text().split(&format!("--{boundary}")).collect();
    assert_eq!(parts.len(), 5, "{answer:?}"); // what precedes, three parts, the end
    let expected = [("bytes 0-4/36", "01234"), ("bytes 34-35/36", "yz"), ("bytes 10-12/36", "abc")];
    for (part, (content_range, body)) in parts[1..4].iter().zip(expected) {
        let (head, content) = part.trim_start_matches("\r\n").split_once("\r\n\r\n").expect(part);
        assert!(
            head.lines()
                .any(|line| line.eq_ignore_ascii_case(&format!("Content-Range: {content_range}"))),
            "{part}"
        );
        assert!(
            head.lines().any(|line| line.eq_ignore_ascii_case("Content-Type: text/plain")),
            "{part}"
        );
        assert_eq!(content.strip_suffix("\r\n"), Some(body), "{part}");
    }
    assert_eq!(parts[4].trim_end(), "--");
}

/// Many small or overlapping ranges cost far more than they are worth: the page is sent whole
/// instead, or refused.
#[test]
fn ranges_cannot_amplify() {
    let body = "x".repeat(100_000);
    let sent = body.clone();
    let origin = Origin::start(move |_, reply| {
        reply.ok(FIELDS, &sent);
    });
    let larder = Larder::before(&origin.url());
    get(larder.addr(), "/");
    let many = (0..1000).map(|n| format!("{n}-")).collect::<Vec<_>>().join(",");
    for asked in [format!("bytes={many}"), format!("bytes={}", ["0-"; 500].join(","))] {
        let answer = range(&larder, &asked);
        assert!(
            answer.body.len() <= 2 * body.len(),
            "{} bytes for {}",
            answer.body.len(),
            body.len()
        );
    }
}

#[test]
fn if_range_with_the_same_validator_gives_the_range() {
    let (_origin, larder) = stored();
    for validator in ["\"v1\"", "Sat, 01 Jan 2000 00:00:00 GMT"] {
        let answer =
            get_with(larder.addr(), "/", &["Range: bytes=0-4", &format!("If-Range: {validator}")]);
        assert_eq!((answer.status, answer.text()), (206, "01234"), "{validator}");
    }
}

#[test]
fn if_range_with_another_validator_gives_the_whole() {
    let (_origin, larder) = stored();
    for validator in ["\"v0\"", "W/\"v1\"", "Sat, 01 Jan 2001 00:00:00 GMT", "nonsense"] {
        let answer =
            get_with(larder.addr(), "/", &["Range: bytes=0-4", &format!("If-Range: {validator}")]);
        assert_eq!((answer.status, answer.text()), (200, BODY), "{validator}");
    }
}

#[test]
fn a_condition_that_holds_comes_before_the_range() {
    let (_origin, larder) = stored();
    let answer = get_with(larder.addr(), "/", &["Range: bytes=0-4", "If-None-Match: \"v1\""]);
    assert_eq!(answer.status, 304);
}

#[test]
fn ranges_of_a_large_page_are_exact() {
    let body: String = (0..200_000).map(|n| format!("{n:09}\n")).collect();
    let sent = body.clone();
    let origin = Origin::start(move |_, reply| {
        reply.ok(FIELDS, &sent);
    });
    let larder = Larder::before(&origin.url());
    get(larder.addr(), "/");
    for (first, last) in [
        (0, 0),
        (999_999, 1_000_000),
        (65_535, 65_536),
        (1_048_570, 1_048_590),
        (1_999_990, 1_999_999),
    ] {
        let answer = range(&larder, &format!("bytes={first}-{last}"));
        assert_eq!((answer.status, answer.text()), (206, &body[first..=last]));
    }
    assert_eq!(origin.count(), 1);
}

/// Answers ranges itself, as a file server does.
fn file_server(seen: &Seen, reply: &mut larder_tests::Reply) {
    let asked = seen.get("range").and_then(|v| {
        v.strip_prefix("bytes=")?.split_once('-').map(|(a, b)| (a.to_owned(), b.to_owned()))
    });
    match asked {
        Some((first, last)) if !first.is_empty() => {
            let first: usize = first.parse().unwrap();
            let last = last.parse().unwrap_or(BODY.len() - 1).min(BODY.len() - 1);
            let content_range = format!("Content-Range: bytes {first}-{last}/{}", BODY.len());
            let fields = [FIELDS, &[content_range.as_str()]].concat();
            reply.answer(206, &fields, &BODY[first..=last]);
        }
        _ => {
            reply.ok(FIELDS, BODY);
        }
    }
}

#[test]
fn a_range_of_what_is_not_stored_is_right_and_the_page_is_not_confused_by_it() {
    let origin = Origin::start(file_server);
    let larder = Larder::before(&origin.url());
    let part = range(&larder, "bytes=5-9");
    assert_eq!(
        (part.status, part.text(), part.get("content-range")),
        (206, "56789", Some("bytes 5-9/36"))
    );
    let whole = get(larder.addr(), "/");
    assert_eq!((whole.status, whole.text()), (200, BODY));
    assert_eq!(range(&larder, "bytes=0-1").text(), "01");
}

#[test]
fn a_stored_part_answers_the_ranges_within_it() {
    let origin = Origin::start(file_server);
    let larder = Larder::before(&origin.url());
    range(&larder, "bytes=5-20");
    let count = origin.count();
    let inner = range(&larder, "bytes=6-9");
    assert_eq!(
        (inner.status, inner.text(), inner.get("content-range")),
        (206, "6789", Some("bytes 6-9/36"))
    );
    assert_eq!(origin.count(), count);
}

#[test]
fn an_origin_that_ignores_ranges_costs_one_request() {
    let origin = Origin::serving(FIELDS, BODY);
    let larder = Larder::before(&origin.url());
    let first = range(&larder, "bytes=5-9");
    assert!(first.text() == "56789" || first.text() == BODY, "{first:?}");
    assert_eq!(range(&larder, "bytes=5-9").assert_partial(), "56789");
    assert_eq!(origin.count(), 1);
}

trait Partial {
    fn assert_partial(&self) -> &str;
}

impl Partial for Answer {
    fn assert_partial(&self) -> &str {
        assert_eq!(self.status, 206, "{self:?}");
        self.text()
    }
}
