//! RFC 9113 sections 4 and 6: sizes, flags and streams of each type of frame.

use crate::peer::*;
use crate::states::{fails, resets};
use larder_proto::http2::frame::{flag, kind};
use larder_proto::http2::{ErrorCode, Limits};

#[test]
fn faults_of_the_connection() {
    let priority = |length: usize| vec![0; length];
    let unknown = |kind: u8| frame(kind, 0, 0, b"");
    let protocol = ErrorCode::PROTOCOL_ERROR;
    let size = ErrorCode::FRAME_SIZE_ERROR;
    let flow = ErrorCode::FLOW_CONTROL_ERROR;
    for (what, bytes, code) in [
        ("DATA on stream 0", data(0, false, b"test"), protocol),
        ("HEADERS on stream 0", request(0, true), protocol),
        ("PRIORITY on stream 0", frame(kind::PRIORITY, 0, 0, &priority(5)), protocol),
        ("RST_STREAM on stream 0", reset(0), protocol),
        ("CONTINUATION on stream 0", unknown(kind::CONTINUATION), protocol),
        ("SETTINGS on a stream", frame(kind::SETTINGS, 0, 1, b""), protocol),
        ("PING on a stream", frame(kind::PING, 0, 1, &[0; 8]), protocol),
        ("GOAWAY on a stream", frame(kind::GOAWAY, 0, 1, &[0; 8]), protocol),
        ("PUSH_PROMISE", frame(kind::PUSH_PROMISE, flag::END_HEADERS, 1, &[0; 4]), protocol),
        ("large frame", data(1, false, &[0; 16_385]), size),
        ("large HEADERS", frame(kind::HEADERS, flag::END_HEADERS, 1, &[0; 16_385]), size),
        ("RST_STREAM of 3", frame(kind::RST_STREAM, 0, 1, &[0; 3]), size),
        ("PRIORITY of 4", frame(kind::PRIORITY, 0, 1, &priority(4)), size),
        ("SETTINGS of 3", frame(kind::SETTINGS, 0, 0, &[0; 3]), size),
        ("acknowledgement of 6", frame(kind::SETTINGS, flag::ACK, 0, &[0; 6]), size),
        ("PING of 6", frame(kind::PING, 0, 0, &[0; 6]), size),
        ("GOAWAY of 7", frame(kind::GOAWAY, 0, 0, &[0; 7]), size),
        ("WINDOW_UPDATE of 3", frame(kind::WINDOW_UPDATE, 0, 0, &[0; 3]), size),
        ("padding of HEADERS", frame(kind::HEADERS, flag::PADDED | 5, 1, &[9, 0x82]), protocol),
        ("padded HEADERS of 0", frame(kind::HEADERS, flag::PADDED | 5, 1, b""), size),
        ("priority in HEADERS", frame(kind::HEADERS, flag::PRIORITY | 5, 1, &[0; 4]), size),
        ("ENABLE_PUSH", settings(&[(2, 2)]), protocol),
        ("INITIAL_WINDOW_SIZE", settings(&[(4, 1 << 31)]), flow),
        ("MAX_FRAME_SIZE below", settings(&[(5, 16_383)]), protocol),
        ("MAX_FRAME_SIZE above", settings(&[(5, 1 << 24)]), protocol),
        ("ENABLE_CONNECT_PROTOCOL", settings(&[(8, 2)]), protocol),
        ("WINDOW_UPDATE of nothing", window_update(0, 0), protocol),
        ("window", [window_update(0, 1), window_update(0, (1 << 31) - 1)].concat(), flow),
        ("index 0", frame(kind::HEADERS, 5, 1, &[0x80]), ErrorCode::COMPRESSION_ERROR),
        ("cut block", frame(kind::HEADERS, 5, 1, &[0]), ErrorCode::COMPRESSION_ERROR),
        ("PRIORITY_UPDATE on a stream", frame(kind::PRIORITY_UPDATE, 0, 1, &[0; 4]), protocol),
        ("PRIORITY_UPDATE of 3", frame(kind::PRIORITY_UPDATE, 0, 0, &[0; 3]), size),
        ("PRIORITY_UPDATE of stream 0", frame(kind::PRIORITY_UPDATE, 0, 0, &[0; 4]), protocol),
    ] {
        fails(&mut Peer::plain(), &bytes, code, what);
    }
}

#[test]
fn faults_of_an_open_stream() {
    let padded = |payload: &[u8]| frame(kind::DATA, flag::PADDED, 1, payload);
    for (what, bytes) in
        [("padding of DATA", padded(&[5, 0, 0, 0, 0])), ("padding alone", padded(&[1]))]
    {
        let mut peer = Peer::plain();
        peer.post(1);
        fails(&mut peer, &bytes, ErrorCode::PROTOCOL_ERROR, what);
    }
    let mut peer = Peer::plain();
    peer.post(1);
    fails(&mut peer, &padded(b""), ErrorCode::FRAME_SIZE_ERROR, "padded without a length");
    for (what, bytes, code) in [
        ("PRIORITY of 4", frame(kind::PRIORITY, 0, 1, &[0; 4]), ErrorCode::FRAME_SIZE_ERROR),
        ("WINDOW_UPDATE of nothing", window_update(1, 0), ErrorCode::PROTOCOL_ERROR),
        ("window", window_update(1, (1 << 31) - 1), ErrorCode::FLOW_CONTROL_ERROR),
        ("HEADERS without an end", headers(1, false, &[("x", "y")]), ErrorCode::PROTOCOL_ERROR),
        (
            "pseudo field in trailers",
            headers(1, true, &[(":path", "/")]),
            ErrorCode::PROTOCOL_ERROR,
        ),
    ] {
        let mut peer = Peer::plain();
        peer.post(1);
        resets(&mut peer, &bytes, 1, code, what);
    }
}

#[test]
fn padding_is_taken_off() {
    let mut peer = Peer::plain();
    let mut payload = vec![3, 0x80, 0, 0, 9, 7];
    payload.extend(block(&POST));
    payload.extend([0; 3]);
    let flags = flag::PADDED | flag::PRIORITY | flag::END_HEADERS;
    let seen = peer.send(&frame(kind::HEADERS, flags, 1, &payload));
    assert!(matches!(seen[..], [Seen::Request { .. }]), "{seen:?}");
    let flags = flag::PADDED | flag::END_STREAM;
    let seen = peer.one(&frame(kind::DATA, flags, 1, b"\x02body\0\0"));
    assert_eq!(seen, Seen::Data { stream: 1, bytes: b"body".to_vec(), end: true });
}

#[test]
fn data_comes_as_it_arrives() {
    let mut peer = Peer::plain();
    peer.post(1);
    let bytes = frame(kind::DATA, flag::END_STREAM | flag::PADDED, 1, b"\x01abcd\0");
    assert_eq!(peer.send(&bytes[..9]), []);
    assert_eq!(peer.send(&bytes[9..10]), []);
    let piece = |bytes: &[u8], end| Seen::Data { stream: 1, bytes: bytes.to_vec(), end };
    assert_eq!(peer.send(&bytes[10..12]), [piece(b"ab", false)]);
    assert_eq!(peer.send(&bytes[12..14]), [piece(b"cd", true)]);
    assert_eq!(peer.send(&bytes[14..]), []);
    peer.get(3);
}

#[test]
fn blocks_in_several_frames_are_one() {
    let fields = block(&GET);
    for pieces in [1, 2, 5, 100] {
        let mut peer = Peer::ready(Limits {
            floods: larder_proto::http2::FloodLimits { continuations: 200, ..Default::default() },
            ..Limits::default()
        });
        let mut frames = Vec::new();
        let size = fields.len().div_ceil(pieces);
        for (n, piece) in fields.chunks(size).enumerate() {
            let kind = if n == 0 { kind::HEADERS } else { kind::CONTINUATION };
            let last = if (n + 1) * size >= fields.len() { flag::END_HEADERS } else { 0 };
            let end = if n == 0 { flag::END_STREAM } else { 0 };
            frames.extend(frame(kind, last | end, 1, piece));
        }
        let seen = peer.one(&frames);
        assert!(matches!(seen, Seen::Request { request, .. } if request.end), "{pieces}");
    }
    let begun = frame(kind::HEADERS, flag::END_STREAM, 1, &fields);
    for (what, other) in [
        ("DATA", data(1, true, b"x")),
        ("HEADERS", request(1, true)),
        ("PING", frame(kind::PING, 0, 0, &[0; 8])),
        ("another stream", frame(kind::CONTINUATION, flag::END_HEADERS, 3, b"")),
    ] {
        let bytes = [&begun[..], &other].concat();
        fails(&mut Peer::plain(), &bytes, ErrorCode::PROTOCOL_ERROR, what);
    }
}

#[test]
fn pings_and_settings_are_answered() {
    let mut peer = Peer::plain();
    assert_eq!(peer.send(&frame(kind::PING, 0, 0, b"12345678")), []);
    assert_eq!(peer.frames(), [(kind::PING, flag::ACK, 0, b"12345678".to_vec())]);
    let seen = peer.one(&frame(kind::PING, flag::ACK, 0, b"87654321"));
    assert_eq!(seen, Seen::Pong(*b"87654321"));
    assert_eq!(peer.frames(), []);
    assert_eq!(peer.send(&settings(&[(0xff, 7), (1, 0), (3, 5), (2, 0)])), []);
    assert_eq!(peer.frames(), [(kind::SETTINGS, flag::ACK, 0, Vec::new())]);
    let seen = peer.one(&frame(kind::GOAWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 2, b'x']));
    assert_eq!(seen, Seen::GoAway(ErrorCode::INTERNAL_ERROR));
    peer.get(1);
}

#[test]
fn our_settings_are_those_of_the_limits() {
    let limits = Limits {
        concurrent_streams: 7,
        stream_window: 99_999,
        connection_window: 65_535,
        frame_bytes: 32_768,
        table_bytes: 8192,
        header_list_bytes: 9000,
        connect_protocol: true,
        ..Limits::default()
    };
    let expected =
        settings(&[(3, 7), (4, 99_999), (6, 9000), (9, 1), (1, 8192), (5, 32_768), (8, 1)]);
    assert_eq!(Peer::new(limits).out, expected);
}
