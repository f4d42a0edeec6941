//! One case for each way in which two servers can read a request differently (RFC 9112 11.2), and
//! for each limit.

use super::*;
use proptest::prelude::*;

const LIMITS: HeadLimits = HeadLimits { head_bytes: 400, request_line: 64, fields: 8 };

/// Parses and passes the head to `look`; `None` when it is incomplete.
fn parse<T>(bytes: &[u8], look: impl Fn(&RequestHead<'_>) -> T) -> Result<Option<T>, RejectReason> {
    let mut slots = slots::<16>();
    match parse_request(bytes, &mut slots, &LIMITS) {
        Ok(Parsed::Complete(head)) => Ok(Some(look(&head))),
        Ok(Parsed::Partial) => Ok(None),
        Err(reject) => {
            assert_eq!(reject.status, reject.reason.status());
            Err(reject.reason)
        }
    }
}

/// A POST with these lines after Host; returns the result of `look`.
fn with<T>(lines: &str, look: impl Fn(&RequestHead<'_>) -> T) -> Result<T, RejectReason> {
    let bytes = format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
    parse(bytes.as_bytes(), look).map(|head| head.expect("a whole head"))
}

fn framing_of(lines: &str) -> Result<BodyFraming, RejectReason> {
    with(lines, |head| head.framing)
}

#[test]
fn a_head_taken_apart() {
    let bytes =
        b"\r\nGET /a?b=c HTTP/1.1\r\nHost: A.example:8080\r\nCookie: x=1\r\nX-Other:\t \r\n\r\nGET";
    let checked = parse(bytes, |head| {
        assert_eq!(
            (head.method, head.version, head.raw_target),
            (Method::Get, Version::Http11, "/a?b=c")
        );
        assert_eq!(head.target.path_and_query, "/a?b=c");
        assert_eq!(head.host, Some(Authority { host: "A.example", port: Some(8080) }));
        assert_eq!(head.known.cookie(), Some(&b"x=1"[..]));
        assert_eq!(head.fields.get("x-other"), Some(&b""[..]));
        assert_eq!(
            (head.framing, head.keep_alive, head.expect_continue),
            (BodyFraming::None, true, false)
        );
        assert_eq!((head.upgrade, head.len), (None, bytes.len() - 3));
    });
    assert_eq!(checked, Ok(Some(())));
}

#[test]
fn body_length() {
    use RejectReason as R;
    for (lines, expected) in [
        ("", Ok(BodyFraming::None)),
        ("Content-Length: 0\r\n", Ok(BodyFraming::None)),
        ("content-length:005 \r\n", Ok(BodyFraming::Length(5))),
        ("Content-Length: 18446744073709551615\r\n", Ok(BodyFraming::Length(u64::MAX))),
        ("Transfer-Encoding: Chunked\r\n", Ok(BodyFraming::Chunked)),
        ("Content-Length: 18446744073709551616\r\n", Err(R::ContentLength)),
        ("Content-Length: 99999999999999999999999999\r\n", Err(R::ContentLength)),
        ("Content-Length: +5\r\n", Err(R::ContentLength)),
        ("Content-Length: -5\r\n", Err(R::ContentLength)),
        ("Content-Length: 5,5\r\n", Err(R::ContentLength)),
        ("Content-Length: 5, 6\r\n", Err(R::ContentLength)),
        ("Content-Length: 1 5\r\n", Err(R::ContentLength)),
        ("Content-Length: 0x5\r\n", Err(R::ContentLength)),
        ("Content-Length: 5.0\r\n", Err(R::ContentLength)),
        ("Content-Length: \"5\"\r\n", Err(R::ContentLength)),
        ("Content-Length: \u{664}\r\n", Err(R::ContentLength)),
        ("Content-Length:\r\n", Err(R::ContentLength)),
        ("Content-Length: 5\r\nContent-Length: 5\r\n", Err(R::ContentLength)),
        ("Content-Length: 5\r\ncontent-length: 6\r\n", Err(R::ContentLength)),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", Err(R::LengthAndEncoding)),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", Err(R::LengthAndEncoding)),
        ("Transfer-Encoding: x\r\nContent-Length: 0\r\n", Err(R::LengthAndEncoding)),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Err(R::TransferEncoding)),
        ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", Err(R::TransferEncoding)),
        ("Transfer-Encoding: chunked, chunked\r\n", Err(R::TransferEncoding)),
        ("Transfer-Encoding: chunked, identity\r\n", Err(R::TransferEncoding)),
        ("Transfer-Encoding: chunked, gzip\r\n", Err(R::TransferEncoding)),
        ("Transfer-Encoding: chunked,\r\n", Err(R::TransferCoding)),
        ("Transfer-Encoding: identity\r\n", Err(R::TransferEncoding)),
        ("Transfer-Encoding: identity, chunked\r\n", Err(R::TransferEncoding)),
        ("Transfer-Encoding: xchunked\r\n", Err(R::TransferEncoding)),
        ("Transfer-Encoding: chunked;x\r\n", Err(R::TransferEncoding)),
        ("Transfer-Encoding: \"chunked\"\r\n", Err(R::TransferEncoding)),
        ("Transfer-Encoding: \u{b}chunked\r\n", Err(R::FieldValue)),
        ("Transfer-Encoding:\r\n", Err(R::TransferEncoding)),
        ("Transfer-Encoding: gzip\r\n", Err(R::TransferEncoding)),
        ("Transfer-Encoding: gzip, chunked\r\n", Err(R::TransferCoding)),
        ("Transfer-Encoding : chunked\r\n", Err(R::FieldName)),
        ("Transfer-Encoding\r\n", Err(R::FieldName)),
        (" Transfer-Encoding: chunked\r\n", Err(R::FieldName)),
        ("Transfer\u{b}Encoding: chunked\r\n", Err(R::FieldName)),
        ("X: y\r\n Transfer-Encoding: chunked\r\n", Err(R::FieldName)),
        ("Transfer-Encoding:\r\n chunked\r\n", Err(R::FieldName)),
        ("X: y\nTransfer-Encoding: chunked\r\n", Err(R::LineEnd)),
        ("X: y\rTransfer-Encoding: chunked\r\n", Err(R::LineEnd)),
        ("X:\nTransfer-Encoding: chunked\r\n", Err(R::LineEnd)),
        ("X: \0\r\n", Err(R::FieldValue)),
        ("X: a\u{7f}\r\n", Err(R::FieldValue)),
        (": x\r\n", Err(R::FieldName)),
        ("(x): y\r\n", Err(R::FieldName)),
    ] {
        assert_eq!(framing_of(lines), expected, "{lines:?}");
    }
    let old = b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(parse(old, |_| ()), Err(R::TransferEncoding));
}

#[test]
fn request_lines() {
    use RejectReason as R;
    let fields = "Host: a\r\n\r\n";
    for (line, expected) in [
        ("GET / HTTP/1.1\r\n", Ok(())),
        ("\r\nGET / HTTP/1.1\r\n", Ok(())),
        ("BREW /a HTTP/1.0\r\n", Ok(())),
        ("OPTIONS * HTTP/1.1\r\n", Ok(())),
        ("\r\n\r\nGET / HTTP/1.1\r\n", Err(R::LeadingBytes)),
        ("\nGET / HTTP/1.1\r\n", Err(R::LeadingBytes)),
        (" GET / HTTP/1.1\r\n", Err(R::LeadingBytes)),
        ("\r\n GET / HTTP/1.1\r\n", Err(R::LeadingBytes)),
        ("GET / HTTP/1.1\n", Err(R::LineEnd)),
        ("GET /\r\n", Err(R::RequestLine)),
        ("GET\r\n", Err(R::RequestLine)),
        ("GET  / HTTP/1.1\r\n", Err(R::RequestLine)),
        ("GET /  HTTP/1.1\r\n", Err(R::RequestLine)),
        ("GET\t/ HTTP/1.1\r\n", Err(R::RequestLine)),
        ("GET / HTTP/1.1 \r\n", Err(R::LineEnd)),
        ("GET / HTTP/1.1\r\r\n", Err(R::LineEnd)),
        ("GET /a b HTTP/1.1\r\n", Err(R::RequestLine)),
        ("GET / http/1.1\r\n", Err(R::RequestLine)),
        ("GET / HTTP/1.1x\r\n", Err(R::LineEnd)),
        ("G(T / HTTP/1.1\r\n", Err(R::RequestLine)),
        ("GET / HTTP/0.9\r\n", Err(R::Version)),
        ("GET / HTTP/1.2\r\n", Err(R::Version)),
        ("GET / HTTP/2.0\r\n", Err(R::Version)),
        ("GET / HTTP/2\r\n", Err(R::Version)),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Err(R::Version)),
        ("GET * HTTP/1.1\r\n", Err(R::Target)),
        ("GET /#a HTTP/1.1\r\n", Err(R::Target)),
        ("GET /\u{e9} HTTP/1.1\r\n", Err(R::Target)),
        ("GET /\0 HTTP/1.1\r\n", Err(R::RequestLine)),
        ("GET a HTTP/1.1\r\n", Err(R::Target)),
        ("GET a:443 HTTP/1.1\r\n", Err(R::Target)),
        ("CONNECT / HTTP/1.1\r\n", Err(R::Target)),
        ("GET http://u@a/ HTTP/1.1\r\n", Err(R::HostInvalid)),
        ("GET ftp://a/ HTTP/1.1\r\n", Err(R::Target)),
    ] {
        let bytes = format!("{line}{fields}");
        assert_eq!(parse(bytes.as_bytes(), |_| ()).map(|_| ()), expected, "{line:?}");
    }
    assert_eq!(parse(b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n", |_| ()), Err(R::RequestLine));
    assert_eq!(parse(b"\x16\x03\x01\x02\0\x01\0", |_| ()), Err(R::RequestLine));
}

#[test]
fn hosts() {
    use RejectReason as R;
    for (line, fields, expected) in [
        ("GET / HTTP/1.1", "Host: a", Ok(Some("a"))),
        ("GET / HTTP/1.0", "X: a", Ok(None)),
        ("GET / HTTP/1.0", "Host: a", Ok(Some("a"))),
        ("GET http://A/ HTTP/1.1", "Host: a:80", Ok(Some("A"))),
        ("GET http://b/ HTTP/1.0", "X: a", Ok(Some("b"))),
        ("GET https://a/ HTTP/1.1", "Host: a:443", Ok(Some("a"))),
        ("CONNECT a:443 HTTP/1.1", "Host: a", Ok(Some("a"))),
        ("GET / HTTP/1.1", "X: a", Err(R::HostMissing)),
        ("GET http://a/ HTTP/1.1", "X: a", Err(R::HostMissing)),
        ("GET / HTTP/1.1", "Host: a\r\nhost: a", Err(R::HostRepeated)),
        ("GET / HTTP/1.0", "Host: a\r\nHost: b", Err(R::HostRepeated)),
        ("GET / HTTP/1.1", "Host:", Err(R::HostInvalid)),
        ("GET / HTTP/1.1", "Host: u@a", Err(R::HostInvalid)),
        ("GET / HTTP/1.1", "Host: a/b", Err(R::HostInvalid)),
        ("GET / HTTP/1.1", "Host: a b", Err(R::HostInvalid)),
        ("GET / HTTP/1.1", "Host: a,b", Err(R::HostInvalid)),
        ("GET / HTTP/1.1", "Host: a:b", Err(R::HostInvalid)),
        ("GET / HTTP/1.1", "Host: http://a", Err(R::HostInvalid)),
        ("GET http://b/ HTTP/1.1", "Host: a", Err(R::HostMismatch)),
        ("GET http://a:81/ HTTP/1.1", "Host: a", Err(R::HostMismatch)),
    ] {
        let bytes = format!("{line}\r\n{fields}\r\n\r\n");
        let host = parse(bytes.as_bytes(), |head| head.host.map(|h| h.host.to_owned()));
        let host = host.map(|head| head.expect("a whole head"));
        assert_eq!(
            host.as_ref().map(Option::as_deref),
            expected.as_ref().map(|h| *h),
            "{line} {fields}"
        );
    }
}

#[test]
fn connections() {
    for (version, connection, keep_alive, upgrade) in [
        ("1.1", None, true, false),
        ("1.1", Some("keep-alive"), true, false),
        ("1.1", Some("close"), false, false),
        ("1.1", Some("keep-alive, Close"), false, false),
        ("1.1", Some("Upgrade"), true, true),
        ("1.1", Some("keep-alive, upgrade"), true, true),
        ("1.1", Some("keep-alive\r\nConnection: close"), false, false),
        ("1.0", None, false, false),
        ("1.0", Some("Keep-Alive"), true, false),
        ("1.0", Some("keep-alive, close"), false, false),
        ("1.0", Some("upgrade"), false, false),
    ] {
        let connection = connection.map(|c| format!("Connection: {c}\r\n")).unwrap_or_default();
        let bytes =
            format!("GET / HTTP/{version}\r\nHost: a\r\n{connection}Upgrade: websocket\r\n\r\n");
        let got = parse(bytes.as_bytes(), |head| (head.keep_alive, head.upgrade.is_some()));
        assert_eq!(got, Ok(Some((keep_alive, upgrade))), "{version} {connection}");
    }
}

#[test]
fn expectations() {
    for (lines, expected) in [
        ("Expect: 100-Continue\r\nContent-Length: 1\r\n", Ok(true)),
        ("Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n", Ok(true)),
        ("Expect: 100-continue\r\n", Ok(false)),
        ("Expect: 200-ok\r\n", Err(RejectReason::Expectation)),
        ("Expect: 100-continue, x\r\n", Err(RejectReason::Expectation)),
        ("Expect:\r\n", Err(RejectReason::Expectation)),
        ("Expect: 100-continue\r\nExpect: 100-continue\r\n", Err(RejectReason::Expectation)),
    ] {
        assert_eq!(with(lines, |head| head.expect_continue), expected, "{lines:?}");
    }
    let old = b"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n";
    assert_eq!(parse(old, |head| head.expect_continue), Ok(Some(false)));
}

#[test]
fn limits() {
    use RejectReason as R;
    let line =
        |length: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(length - 14));
    let fields =
        |count: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "x:y\r\n".repeat(count - 1));
    let head = |length: usize| {
        format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(length - 32))
    };
    for (bytes, expected) in [
        (line(64), Ok(Some(()))),
        (line(65), Err(R::TargetTooLong)),
        (line(300), Err(R::TargetTooLong)),
        (line(64)[..60].to_owned(), Ok(None)),
        (line(65)[..67].to_owned(), Err(R::TargetTooLong)),
        (line(2000)[..1000].to_owned(), Err(R::TargetTooLong)),
        ("G".repeat(100), Err(R::TargetTooLong)),
        (fields(8), Ok(Some(()))),
        (fields(9), Err(R::TooManyFields)),
        (fields(16), Err(R::TooManyFields)),
        (head(400), Ok(Some(()))),
        (head(401), Err(R::HeadTooLarge)),
        (head(500)[..400].to_owned(), Err(R::HeadTooLarge)),
        (head(500)[..399].to_owned(), Ok(None)),
    ] {
        assert_eq!(parse(bytes.as_bytes(), |_| ()), expected, "{bytes:?}");
    }
    let unlimited = HeadLimits::default();
    let reject = parse_request(fields(9).as_bytes(), &mut slots::<8>(), &unlimited)
        .map(|_| ())
        .map_err(|r| r.status);
    assert_eq!(reject, Err(431));
}

#[test]
fn every_start_of_a_good_head_is_partial() {
    let bytes = b"\r\nPOST http://a/b HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n";
    for end in 0..bytes.len() {
        assert_eq!(parse(&bytes[..end], |_| ()), Ok(None), "{end}");
    }
    assert_eq!(parse(bytes, |_| ()), Ok(Some(())));
}

proptest! {
    /// Every accepted head consists of complete lines that a plain reader splits the same way.
    #[test]
    fn accepted_heads_are_read_alike(
        line in "(GET|POST|OPTIONS) (/[a-c?]{0,3}|\\*|http://a/) HTTP/1\\.[01](\r\n|\n|\r)",
        lines in "((Host|X|TE|Content-Length|Transfer-Encoding)[ :]{1,2}(a|5|chunked|)[ \t]?(\r\n|\r\n|\r\n|\n|\r)){0,4}\r?\n",
    ) {
        let bytes = format!("{line}{lines}");
        let got = parse(bytes.as_bytes(), |head| {
            let fields: Vec<_> =
                head.fields.iter().map(|(n, v)| (n.to_owned(), v.to_vec())).collect();
            (head.len, fields)
        });
        if let Ok(Some((len, fields))) = got {
            let text = &bytes[..len];
            prop_assert!(text.ends_with("\r\n\r\n"));
            prop_assert_eq!(text.matches("\r\n").count(), text.matches(['\r', '\n']).count() / 2);
            let plain: Vec<_> = text.trim_end().split("\r\n").skip(1).filter_map(|l| l.split_once(':')).collect();
            let plain: Vec<_> = plain.iter().map(|(n, v)| ((*n).to_owned(),
                v.trim().as_bytes().to_vec())).collect();
            prop_assert_eq!(fields, plain);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = parse(&bytes, |head| head.len);
    }
}
