//! HTTP/3 without sockets: whatever the pieces in which bytes come, the events are the same.

use larder_proto::http3::frame::{FrameHead, kind, write_integer};
use larder_proto::http3::{self, Connection, ErrorCode, Event, Incoming, Limits};
use larder_proto::pseudo::{Malformed, Workspace};
use larder_proto::qpack::Section;
use proptest::prelude::*;

/// An event with what it speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Request { head: String, end: bool },
    TooLarge,
    Data(Vec<u8>),
    Trailers(String),
    End,
    Malformed(Malformed),
    Incomplete,
    Failed(ErrorCode),
}

/// The events of a stream whose bytes come in pieces of these lengths, over and over. Pieces of a
/// body are joined. `late`: the end comes alone.
fn received(bytes: &[u8], pieces: &[usize], end: bool, late: bool) -> Vec<Seen> {
    let limits = Limits { connect_protocol: true, ..Limits::default() };
    let (mut incoming, mut work) = (Incoming::default(), Workspace::default());
    let (mut seen, mut at, mut sizes) = (Vec::new(), 0, pieces.iter().cycle());
    loop {
        let next = (at + sizes.next().copied().unwrap_or(bytes.len()).max(1)).min(bytes.len());
        let piece = &bytes[at..next];
        let ends = end && next == bytes.len() && (!late || piece.is_empty());
        let mut used = 0;
        loop {
            let step = incoming.receive(&piece[used..], ends, &limits, &mut work);
            let data = piece[used..used + step.used].to_vec();
            let head = || String::from_utf8_lossy(&work.head).into_owned();
            match step.event {
                Event::More => break,
                Event::Request { end, .. } => seen.push(Seen::Request { head: head(), end }),
                Event::TooLarge => seen.push(Seen::TooLarge),
                Event::Data(range) => match seen.last_mut() {
                    Some(Seen::Data(before)) => before.extend_from_slice(&data[range]),
                    _ => seen.push(Seen::Data(data[range].to_vec())),
                },
                Event::Trailers => seen.push(Seen::Trailers(head())),
                Event::End => seen.push(Seen::End),
                Event::Malformed(why) => seen.push(Seen::Malformed(why)),
                Event::Incomplete => seen.push(Seen::Incomplete),
                Event::Failed(error) => seen.push(Seen::Failed(error.code)),
            }
            used += step.used;
        }
        if at == next {
            return seen;
        }
        at = next;
    }
}

fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    FrameHead { kind, length: payload.len() as u64 }.write(&mut out);
    out.extend_from_slice(payload);
    out
}

/// A HEADERS frame of literals.
fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = Vec::new();
    let lines: String = fields.iter().map(|(name, value)| format!("{name}\0{value}\n")).collect();
    section.extend_from_slice(&[0, 0]);
    for line in lines.lines() {
        let (name, value) = line.split_once('\0').expect("two parts");
        // Names up to 6 bytes, or of up to 262 with one more byte.
        match name.len() {
            length @ ..7 => section.push(0x20 | length as u8),
            length => section.extend_from_slice(&[0x27, (length - 7) as u8]),
        }
        section.extend_from_slice(name.as_bytes());
        section.push(value.len() as u8);
        section.extend_from_slice(value.as_bytes());
    }
    frame(kind::HEADERS, &section)
}

fn get(more: &[(&str, &str)]) -> Vec<u8> {
    let all = [(":method", "GET"), (":scheme", "https"), (":path", "/p"), (":authority", "a")];
    fields(&[&all[..], more].concat())
}

fn post(more: &[(&str, &str)]) -> Vec<u8> {
    let all = [(":method", "POST"), (":scheme", "https"), (":path", "/p"), (":authority", "a")];
    fields(&[&all[..], more].concat())
}

fn request(head: &str, end: bool) -> Seen {
    Seen::Request { head: head.to_owned(), end }
}

const GET: &str = "GET /p HTTP/1.1\r\nhost: a\r\n\r\n";
const POST: &str = "POST /p HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";

/// Bytes, whether they are all, and what they say.
fn stories() -> Vec<(Vec<u8>, Vec<Seen>)> {
    let data = |bytes: &[u8]| frame(kind::DATA, bytes);
    let unexpected = Seen::Failed(ErrorCode::FRAME_UNEXPECTED);
    let sized = "POST /p HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\n";
    let four = || Seen::Data(b"four".to_vec());
    let malformed = || Seen::Malformed(Malformed::ContentLength);
    vec![
        (get(&[]), vec![request(GET, true)]),
        (
            [get(&[]), data(b"four")].concat(),
            vec![
                request("GET /p HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n", false),
                four(),
                Seen::End,
            ],
        ),
        ([get(&[]), frame(0x21, b"grease")].concat(), vec![request(GET, true)]),
        ([frame(0x21, b""), get(&[])].concat(), vec![request(GET, true)]),
        (
            [post(&[]), data(b"fo"), frame(0x40, b"x"), data(b""), data(b"ur")].concat(),
            vec![request(POST, false), four(), Seen::End],
        ),
        (
            [post(&[]), data(b"four"), fields(&[("x-sum", "7")])].concat(),
            vec![request(POST, false), four(), Seen::Trailers("x-sum: 7\r\n".into()), Seen::End],
        ),
        (
            [post(&[("content-length", "4")]), data(b"four")].concat(),
            vec![request(sized, false), four(), Seen::End],
        ),
        (
            [post(&[("content-length", "4")]), data(b"f"), data(b"ours")].concat(),
            vec![request(sized, false), Seen::Data(b"f".to_vec()), malformed()],
        ),
        (b"".to_vec(), vec![Seen::Incomplete]),
        (frame(0x21, b"abc"), vec![Seen::Incomplete]),
        (get(&[("X", "y")]), vec![Seen::Malformed(Malformed::FieldName)]),
        (data(b"x"), vec![unexpected.clone()]),
        (frame(kind::SETTINGS, b""), vec![unexpected.clone()]),
        (frame(kind::PUSH_PROMISE, b"\0"), vec![unexpected.clone()]),
        (frame(8, b""), vec![unexpected]),
        (
            frame(kind::HEADERS, b"\0\0\x80"),
            vec![Seen::Failed(ErrorCode::QPACK_DECOMPRESSION_FAILED)],
        ),
        (frame(kind::HEADERS, b""), vec![Seen::Failed(ErrorCode::QPACK_DECOMPRESSION_FAILED)]),
    ]
}

#[test]
fn requests_are_understood_in_any_pieces() {
    for (bytes, expected) in stories() {
        for pieces in [&[usize::MAX >> 1][..], &[1], &[2, 3], &[7, 1]] {
            for late in [false, true] {
                assert_eq!(received(&bytes, pieces, true, late), expected, "{bytes:x?} {pieces:?}");
            }
        }
    }
}

#[test]
fn a_body_that_does_not_come_is_malformed_whenever_that_is_known() {
    let bytes = post(&[("content-length", "4")]);
    let last = |late| received(&bytes, &[9], true, late).pop();
    for late in [false, true] {
        assert_eq!(last(late), Some(Seen::Malformed(Malformed::ContentLength)));
    }
}

#[test]
fn a_stream_that_ends_within_a_frame_ends_the_connection() {
    let bytes = [post(&[]), frame(kind::DATA, b"four")].concat();
    let whole = post(&[]).len();
    for length in (1..bytes.len()).filter(|&length| length != whole) {
        let seen = received(&bytes[..length], &[3], true, false);
        assert_eq!(seen.last(), Some(&Seen::Failed(ErrorCode::FRAME_ERROR)), "{length} bytes");
    }
}

#[test]
fn a_get_waits_for_its_end_and_a_post_does_not() {
    assert_eq!(received(&get(&[]), &[5], false, false), []);
    assert_eq!(received(&post(&[]), &[5], false, false), [request(POST, false)]);
    let connect = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":path", "/p"),
        (":authority", "a"),
    ];
    let head = "GET /p HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    assert_eq!(received(&fields(&connect), &[5], false, false), [request(head, false)]);
}

#[test]
fn long_heads_are_too_large_by_either_measure() {
    let long = FrameHead { kind: kind::HEADERS, length: 65_537 };
    let mut bytes = Vec::new();
    long.write(&mut bytes);
    assert_eq!(received(&bytes, &[1], false, false), [Seen::TooLarge]);
    // 30,000 entries of the static table.
    let wide = frame(kind::HEADERS, &[&[0, 0][..], &[0xc0; 30_000]].concat());
    assert_eq!(received(&wide, &[9_000], true, false), [Seen::TooLarge]);
}

/// The result of the bytes of a unidirectional stream, in one piece and byte by byte.
fn uni(bytes: &[u8]) -> Result<bool, ErrorCode> {
    let limits = Limits::default();
    let whole = Connection::default().receive(2, bytes, false, &limits);
    let (mut connection, mut result) = (Connection::default(), Ok(true));
    for byte in bytes {
        if result == Ok(true) {
            result = connection.receive(2, &[*byte], false, &limits);
        }
    }
    let (whole, pieces) = (whole.map_err(|e| e.code), result.map_err(|e| e.code));
    assert_eq!(whole, pieces, "{bytes:x?}");
    whole
}

#[test]
fn streams_of_the_connection_are_understood_in_any_pieces() {
    let mut priority = Vec::new();
    write_integer(kind::PRIORITY_UPDATE, &mut priority);
    let good =
        [&b"\0\x04\x02\x06\x10\x07\x01\x08\x0d\x01\x02"[..], &priority, b"\x04\x08u=1"].concat();
    assert_eq!(uni(&good), Ok(true));
    let mut connection = Connection::default();
    assert_eq!(connection.receive(2, &good, false, &Limits::default()), Ok(true));
    assert_eq!(connection.updates(|id| id > 4), []);
    assert_eq!(connection.early_priority(8).map(|priority| priority.urgency), Some(1));
    assert_eq!(connection.early_priority(8), None);
    for (bytes, code) in [
        (&b"\0\x01\x01\0"[..], ErrorCode::MISSING_SETTINGS),
        (b"\0\x04\0\x04\0", ErrorCode::FRAME_UNEXPECTED),
        (b"\0\x04\x02\x04\0", ErrorCode::SETTINGS_ERROR),
        (b"\0\x04\0\x07\0", ErrorCode::FRAME_ERROR),
        (b"\0\x04\x44\x01", ErrorCode::EXCESSIVE_LOAD),
        (b"\x01", ErrorCode::STREAM_CREATION_ERROR),
        (b"\x02\x21", ErrorCode::QPACK_ENCODER_STREAM_ERROR),
        (b"\x03\x80", ErrorCode::QPACK_DECODER_STREAM_ERROR),
        (b"\x03\x7f\xff\xff\xff\xff\x01", ErrorCode::QPACK_DECODER_STREAM_ERROR),
    ] {
        assert_eq!(uni(bytes), Err(code), "{bytes:x?}");
    }
    assert_eq!(uni(b"\x21abc"), Ok(false));
    assert_eq!(uni(b"\x02\x20\x20"), Ok(true));
    assert_eq!(uni(b"\x03\x41\x7f\x05"), Ok(true));
}

#[test]
fn streams_that_the_connection_needs_must_not_end() {
    let limits = Limits::default();
    for kind in [0, 2, 3] {
        let end = Connection::default().receive(2, &[kind], true, &limits);
        assert_eq!(end.expect_err("an end").code, ErrorCode::CLOSED_CRITICAL_STREAM);
        let mut connection = Connection::default();
        assert_eq!(connection.receive(2, &[kind], false, &limits), Ok(true));
        let code = connection.reset(2).expect_err("a reset").code;
        assert_eq!(code, ErrorCode::CLOSED_CRITICAL_STREAM);
    }
    assert_eq!(Connection::default().receive(2, b"\x21abc", true, &limits), Ok(false));
}

#[test]
fn what_is_done_in_vain_is_forgiven_for_answers_and_time() {
    let limits = Limits { in_vain: 10, ..Limits::default() };
    let mut connection = Connection::default();
    for _ in 0..100 {
        assert_eq!(connection.in_vain(1, &limits), Ok(()));
        connection.answered();
    }
    assert_eq!(connection.in_vain(10, &limits), Ok(()));
    connection.tick();
    assert_eq!(connection.in_vain(5, &limits), Ok(()));
    let code = connection.in_vain(1, &limits).expect_err("too much").code;
    assert_eq!(code, ErrorCode::EXCESSIVE_LOAD);
}

#[test]
fn our_frames_have_their_lengths() {
    for length in [0, 10, 20_000, 80_000] {
        let mut out = Vec::new();
        http3::head(200, format!("x: {}\r\n", "~".repeat(length)).as_bytes(), &mut out);
        http3::data(70_000, &mut out);
        let (head, used) = FrameHead::parse(&out).expect("a head");
        assert_eq!(head.kind, kind::HEADERS);
        let data = FrameHead::parse(&out[used + head.length as usize..]).expect("a head").0;
        assert_eq!(data, FrameHead { kind: kind::DATA, length: 70_000 });
        let mut section = Vec::new();
        Section::new(&mut section).status(200);
        assert!(out[used..].starts_with(&section));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_the_same_in_any_pieces(
        bytes in prop::collection::vec(any::<u8>(), 1..200),
        pieces in prop::collection::vec(1_usize..20, 1..5),
        good in any::<bool>(),
    ) {
        let bytes = if good { [post(&[]), bytes].concat() } else { bytes };
        let whole = received(&bytes, &[usize::MAX >> 1], true, false);
        prop_assert_eq!(received(&bytes, &pieces, true, false), whole.clone());
        prop_assert_eq!(received(&bytes, &pieces, true, true), whole);
    }

    #[test]
    fn any_stream_of_the_connection_is_the_same_in_any_pieces(
        bytes in prop::collection::vec(any::<u8>(), 1..100),
        kind in 0_u8..4,
    ) {
        let _ = uni(&[&[kind], &bytes[..]].concat());
        let _ = uni(&[&b"\0\x04\0"[..], &bytes].concat());
    }
}
