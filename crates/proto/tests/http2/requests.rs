//! RFC 9113 sections 8.1 to 8.5: requests as heads of HTTP/1.1.

use crate::peer::*;
use larder_proto::http::{BodyFraming, HeadLimits, Parsed, parse_request, slots};
use larder_proto::http2::request::{Connect, Malformed};
use larder_proto::http2::{ErrorCode, Limits, Priority};

#[track_caller]
fn head(fields: &[(&str, &str)], end: bool) -> Result<String, Malformed> {
    let limits = Limits { connect_protocol: true, ..Limits::default() };
    match Peer::ready(limits).send(&headers(1, end, fields)).remove(0) {
        Seen::Request { head, .. } => Ok(head),
        Seen::Malformed { why, stream: 1 } => Err(why),
        seen => panic!("{seen:?}"),
    }
}

fn with<'f>(more: &[(&'f str, &'f str)]) -> Vec<(&'f str, &'f str)> {
    [&GET[..], more].concat()
}

#[test]
fn heads_are_those_of_http_1() {
    let fields = with(&[
        ("cookie", "a=1"),
        ("user-agent", "x"),
        ("te", "trailers"),
        ("cookie", "b=2"),
        ("accept", ""),
        ("host", "A.example:80"),
        ("priority", "u=1, i"),
    ]);
    let expected = "GET / HTTP/1.1\r\nhost: a.example\r\nuser-agent: x\r\naccept: \r\npriority: u=1, i\r\n\
                    cookie: a=1; b=2\r\n\r\n";
    assert_eq!(head(&fields, true).as_deref(), Ok(expected));
    let mut slots = slots::<16>();
    match parse_request(expected.as_bytes(), &mut slots, &HeadLimits::default()) {
        Ok(Parsed::Complete(parsed)) => assert_eq!(parsed.host.unwrap().host, "a.example"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn bodies_are_announced() {
    for (more, end, framing) in [
        (&[][..], true, BodyFraming::None),
        (&[("content-length", "0")], true, BodyFraming::None),
        (&[("content-length", "5")], false, BodyFraming::Length(5)),
        (&[], false, BodyFraming::Chunked),
    ] {
        let head = head(&with(more), end).unwrap();
        match parse_request(head.as_bytes(), &mut slots::<16>(), &HeadLimits::default()) {
            Ok(Parsed::Complete(parsed)) => assert_eq!(parsed.framing, framing),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_order_of_pseudo_fields_is_free() {
    for turn in 0..4 {
        let mut fields = GET;
        fields.rotate_left(turn);
        assert_eq!(head(&fields, true).as_deref(), Ok("GET / HTTP/1.1\r\nhost: a.example\r\n\r\n"));
    }
    let without = [(":method", "GET"), (":scheme", "https"), (":path", "/x"), ("host", "b")];
    assert_eq!(head(&without, true).as_deref(), Ok("GET /x HTTP/1.1\r\nhost: b\r\n\r\n"));
    let options =
        [(":method", "OPTIONS"), (":scheme", "http"), (":path", "*"), (":authority", "b")];
    assert_eq!(head(&options, true).as_deref(), Ok("OPTIONS * HTTP/1.1\r\nhost: b\r\n\r\n"));
}

#[test]
fn malformed_fields_are_refused() {
    use Malformed as M;
    for (more, why) in [
        (&[("X-Upper", "a")][..], M::FieldName),
        (&[("", "a")], M::FieldName),
        (&[("a b", "a")], M::FieldName),
        (&[("a:b", "a")], M::FieldName),
        (&[("a\r\nb", "a")], M::FieldName),
        (&[("a\0", "a")], M::FieldName),
        (&[("a\u{e9}", "a")], M::FieldName),
        (&[("a", "b\r\nc: d")], M::FieldValue),
        (&[("a", "b\nc")], M::FieldValue),
        (&[("a", "b\rc")], M::FieldValue),
        (&[("a", "b\0c")], M::FieldValue),
        (&[("a", " b")], M::FieldValue),
        (&[("a", "b ")], M::FieldValue),
        (&[("a", "\tb")], M::FieldValue),
        (&[("a", "b\t")], M::FieldValue),
        (&[(":status", "200")], M::PseudoUnknown),
        (&[(":unknown", "x")], M::PseudoUnknown),
        (&[(":method", "GET")], M::PseudoRepeated),
        (&[(":path", "/")], M::PseudoRepeated),
        (&[("a", "b"), (":late", "x")], M::PseudoLate),
        (&[(":protocol", "websocket")], M::PseudoMissing),
        (&[("connection", "close")], M::ConnectionField),
        (&[("keep-alive", "x")], M::ConnectionField),
        (&[("proxy-connection", "x")], M::ConnectionField),
        (&[("transfer-encoding", "chunked")], M::ConnectionField),
        (&[("upgrade", "h2c")], M::ConnectionField),
        (&[("te", "trailers, deflate")], M::ConnectionField),
        (&[("content-length", "1")], M::ContentLength),
        (&[("content-length", "a")], M::ContentLength),
        (&[("content-length", "0"), ("content-length", "0")], M::ContentLength),
        (&[("host", "b.example")], M::Host),
        (&[("host", "a.example"), ("host", "a.example")], M::Host),
    ] {
        assert_eq!(head(&with(more), true), Err(why), "{more:?}");
    }
}

#[test]
fn malformed_pseudo_fields_are_refused() {
    use Malformed as M;
    let change = |name: &'static str, value: Option<&'static str>| {
        let mut fields = GET.to_vec();
        fields.retain(|field| field.0 != name);
        fields.extend(value.map(|value| (name, value)));
        fields
    };
    for (name, value, why) in [
        (":method", None, M::PseudoMissing),
        (":scheme", None, M::PseudoMissing),
        (":path", None, M::PseudoMissing),
        (":path", Some(""), M::Path),
        (":path", Some("x"), M::Path),
        (":path", Some("*"), M::Path),
        (":path", Some("/a b"), M::Path),
        (":path", Some("/a#b"), M::Path),
        (":path", Some("/a\u{7f}"), M::Path),
        (":path", Some("/a\tb"), M::Path),
        (":path", Some("/a HTTP/1.1\r\nx: y"), M::FieldValue),
        (":path", Some("http://b/"), M::Path),
        (":method", Some(""), M::Method),
        (":method", Some("GET /"), M::Method),
        (":method", Some("CONNECT"), M::PseudoMissing),
        (":scheme", Some("ftp"), M::Scheme),
        (":scheme", Some(""), M::Scheme),
        (":authority", Some(""), M::Authority),
        (":authority", Some("u@a.example"), M::Authority),
        (":authority", Some("a b"), M::Authority),
        (":authority", Some("a/b"), M::Authority),
    ] {
        assert_eq!(head(&change(name, value), true), Err(why), "{name} {value:?}");
    }
}

#[test]
fn connect_has_its_own_rules() {
    let tunnel = [(":method", "CONNECT"), (":authority", "a:443")];
    assert_eq!(
        head(&tunnel, false).as_deref(),
        Ok("CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n\r\n")
    );
    assert_eq!(head(&[(":method", "CONNECT")], false), Err(Malformed::PseudoMissing));
    let extended = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":path", "/chat"),
        (":authority", "a"),
        ("sec-websocket-version", "13"),
    ];
    let mut peer = Peer::ready(Limits { connect_protocol: true, ..Limits::default() });
    match peer.one(&headers(1, false, &extended)) {
        Seen::Request { request, head } => {
            assert_eq!((request.connect, request.secure), (Connect::Protocol, true));
            let expected = "GET /chat HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                            sec-websocket-version: 13\r\n\r\n";
            assert_eq!(head, expected);
        }
        seen => panic!("{seen:?}"),
    }
    let seen = Peer::plain().send(&headers(1, false, &extended));
    assert_eq!(seen, [Seen::Malformed { stream: 1, why: Malformed::PseudoUnknown }]);
}

#[test]
fn large_header_lists_are_told_and_the_tables_stay_in_step() {
    let mut peer = Peer::ready(Limits { header_list_bytes: 200, ..Limits::default() });
    let mut fields = block(&with(&[("a", &"b".repeat(100))]));
    fields.extend(b"\x40\x01x\x01y");
    let seen = peer.one(&frame(1, 5, 1, &fields));
    assert_eq!(seen, Seen::TooLarge { stream: 1, end: true });
    peer.limits.header_list_bytes = 1000;
    let mut fields = block(&GET);
    fields.push(0xbe);
    match peer.one(&frame(1, 5, 3, &fields)) {
        Seen::Request { head, .. } => assert!(head.ends_with("x: y\r\n\r\n"), "{head}"),
        seen => panic!("{seen:?}"),
    }
}

#[test]
fn lengths_are_checked_against_the_data() {
    let sized = with(&[("content-length", "4")]);
    for (frames, good) in [
        (data(1, true, b"four"), true),
        ([data(1, false, b"fo"), data(1, false, b"ur"), data(1, true, b"")].concat(), true),
        ([data(1, false, b"four"), headers(1, true, &[("x", "y")])].concat(), true),
        (data(1, true, b"six..."), false),
        (data(1, true, b"tri"), false),
        ([data(1, false, b"four"), data(1, false, b"x")].concat(), false),
        (headers(1, true, &[("x", "y")]), false),
    ] {
        let mut peer = Peer::plain();
        peer.send(&headers(1, false, &sized));
        let seen = peer.send(&frames);
        let error = Seen::Reset { stream: 1, code: ErrorCode::PROTOCOL_ERROR, by_peer: false };
        assert_eq!(!seen.contains(&error), good, "{seen:?}");
        assert_eq!(peer.conn.open_streams(), usize::from(good));
    }
}

#[test]
fn trailers_end_the_body() {
    let mut peer = Peer::plain();
    peer.post(1);
    peer.send(&data(1, false, b"body"));
    let trailers = headers(1, true, &[("x-sum", "1"), ("host", "x"), ("content-length", "9")]);
    assert_eq!(peer.one(&trailers), Seen::Trailers { stream: 1, lines: "x-sum: 1\r\n".to_owned() });
    for bad in [("X", "y"), ("x", "y\r\nz"), ("connection", "x")] {
        let mut peer = Peer::plain();
        peer.post(1);
        let seen = peer.one(&headers(1, true, &[bad]));
        assert!(matches!(seen, Seen::Reset { .. }), "{seen:?}");
    }
}

#[test]
fn lines_once_checked_are_checked_again_when_they_were_bad() {
    let mut peer = Peer::plain();
    // Adds a line with a bad value to the table, then refers to it.
    for (stream, field) in [(1, &b"\x40\x01x\x02y\n"[..]), (3, b"\xbe"), (5, b"\xbe")] {
        let block = [&block(&GET)[..], field].concat();
        let seen = peer.one(&frame(1, 5, stream, &block));
        assert_eq!(seen, Seen::Malformed { stream, why: Malformed::FieldValue });
    }
}

#[test]
fn priorities_are_read() {
    let fields = with(&[("priority", "u=5, i")]);
    match Peer::plain().one(&headers(1, true, &fields)) {
        Seen::Request { request, .. } => {
            assert_eq!(request.priority, Priority { urgency: 5, incremental: true });
        }
        seen => panic!("{seen:?}"),
    }
}
