//! RFC 9113 section 8.1: responses on the wire.

use crate::peer::*;
use larder_proto::hpack::{Decoder, prepare};
use larder_proto::http2::frame::{flag, kind};
use larder_proto::http2::{ErrorCode, Fields, Sent};

fn lines(decoder: &mut Decoder, block: &[u8]) -> String {
    let mut text = String::new();
    let sink = &mut |line: larder_proto::hpack::Line<'_>| {
        text.push_str(std::str::from_utf8(line.name).unwrap());
        text.push('=');
        text.push_str(std::str::from_utf8(line.value).unwrap());
        text.push(';');
    };
    decoder.decode(block, usize::MAX, &mut Vec::new(), sink).unwrap();
    text
}

#[test]
fn stored_heads_become_fields() {
    let mut peer = Peer::plain();
    peer.get(1);
    let stored = b"Content-Type: text/css\r\nConnection: close\r\nETag:  \"x\" \r\n";
    let mut prepared = Vec::new();
    prepare(b"Age: 7\r\nTransfer-Encoding: chunked\r\n\r\n", &mut prepared);
    let sent = peer.conn.respond(
        1,
        103,
        &[Fields::Lines(b"Link: </a>\r\n")],
        true,
        &peer.limits,
        &mut peer.out,
    );
    assert_eq!(sent, Sent::Open);
    let sent = peer.conn.respond(
        1,
        200,
        &[Fields::Lines(stored), Fields::Prepared(&prepared)],
        false,
        &peer.limits,
        &mut peer.out,
    );
    assert_eq!(sent, Sent::Open);
    assert_eq!(peer.conn.data_frame(1, 4, false, &peer.limits, &mut peer.out), Sent::Open);
    peer.out.extend_from_slice(b"body");
    let sent = peer.conn.trailers(1, b"X-Sum: 1\r\n", &peer.limits, &mut peer.out);
    assert_eq!(sent, Sent::Done);
    let frames = peer.frames();
    let mut decoder = Decoder::default();
    let mut seen = Vec::new();
    for (kind, flags, stream, payload) in &frames {
        assert_eq!(*stream, 1);
        let text = match *kind {
            kind::HEADERS => lines(&mut decoder, payload),
            _ => String::from_utf8(payload.clone()).unwrap(),
        };
        seen.push((*kind, *flags, text));
    }
    let head = ":status=200;content-type=text/css;etag=\"x\";age=7;".to_owned();
    let expected = [
        (kind::HEADERS, flag::END_HEADERS, ":status=103;link=</a>;".to_owned()),
        (kind::HEADERS, flag::END_HEADERS, head),
        (kind::DATA, 0, "body".to_owned()),
        (kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, "x-sum=1;".to_owned()),
    ];
    assert_eq!(seen, expected);
    assert_eq!(peer.conn.open_streams(), 0);
}

#[test]
fn large_heads_are_continued() {
    let mut peer = Peer::plain();
    peer.get(1);
    let mut head = Vec::new();
    for n in 0..100 {
        head.extend_from_slice(format!("x-{n}: {}\r\n", "\\".repeat(500)).as_bytes());
    }
    let _ = peer.conn.respond(1, 200, &[Fields::Lines(&head)], true, &peer.limits, &mut peer.out);
    let frames = peer.frames();
    assert_eq!(frames.len(), 4);
    let flags: Vec<_> = frames.iter().map(|frame| (frame.0, frame.1)).collect();
    let more = (kind::CONTINUATION, 0);
    let expected =
        [(kind::HEADERS, flag::END_STREAM), more, more, (kind::CONTINUATION, flag::END_HEADERS)];
    assert_eq!(flags, expected);
    let block: Vec<u8> = frames.into_iter().flat_map(|frame| frame.3).collect();
    assert_eq!(lines(&mut Decoder::default(), &block).matches("x-").count(), 100);
}

#[test]
fn an_early_answer_leaves_the_body_to_the_caller() {
    let mut peer = Peer::plain();
    peer.post(1);
    let sent = peer.conn.respond(1, 403, &[], true, &peer.limits, &mut peer.out);
    assert_eq!(sent, Sent::Unread);
    assert_eq!(peer.conn.sendable(1, &peer.limits), 0);
    assert_eq!(peer.conn.respond(1, 403, &[], true, &peer.limits, &mut peer.out), Sent::Gone);
    assert_eq!(peer.conn.data_frame(1, 0, true, &peer.limits, &mut peer.out), Sent::Gone);
    let seen = peer.one(&data(1, true, b"read"));
    assert_eq!(seen, Seen::Data { stream: 1, bytes: b"read".to_vec(), end: true });
    assert_eq!(peer.conn.open_streams(), 0);
    peer.post(3);
    let sent = peer.conn.respond(3, 403, &[], true, &peer.limits, &mut peer.out);
    assert_eq!(sent, Sent::Unread);
    peer.frames();
    peer.conn.reset(3, ErrorCode::NO_ERROR, &peer.limits, &mut peer.out);
    peer.conn.reset(3, ErrorCode::NO_ERROR, &peer.limits, &mut peer.out);
    assert_eq!(peer.frames(), [rst(3, ErrorCode::NO_ERROR)]);
    assert_eq!(peer.conn.respond(99, 200, &[], true, &peer.limits, &mut peer.out), Sent::Gone);
}

#[test]
fn a_client_without_a_table_gets_literals() {
    let mut peer = Peer::plain();
    peer.send(&settings(&[(1, 0)]));
    let mut decoder = Decoder::default();
    decoder.set_table_size(0);
    peer.frames();
    for n in 0..3 {
        peer.get(2 * n + 1);
        let lines_sent = &[Fields::Lines(b"Server: larder\r\n")];
        let _ = peer.conn.respond(2 * n + 1, 200, lines_sent, true, &peer.limits, &mut peer.out);
        let block = peer.frames().remove(0).3;
        assert_eq!(lines(&mut decoder, &block), ":status=200;server=larder;");
    }
}
