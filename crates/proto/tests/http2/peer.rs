//! A client made of bytes.

use larder_proto::http2::frame::{FrameHead, HEAD, flag, kind};
use larder_proto::http2::request::{Malformed, Request};
use larder_proto::http2::{Connection, ErrorCode, Event, Flood, Limits, PREFACE, Workspace};

/// An event with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Request { request: Request, head: String },
    TooLarge { stream: u32, end: bool },
    Malformed { stream: u32, why: Malformed },
    Data { stream: u32, bytes: Vec<u8>, end: bool },
    Trailers { stream: u32, lines: String },
    Reset { stream: u32, code: ErrorCode, by_peer: bool },
    Writable,
    Pong([u8; 8]),
    GoAway(ErrorCode),
    Failed { code: ErrorCode, last: u32, flood: Option<Flood> },
}

pub(crate) type Frame = (u8, u8, u32, Vec<u8>);

/// A connection, what was not used of its input, and what was not read of its output.
pub(crate) struct Peer {
    pub(crate) conn: Connection,
    pub(crate) limits: Limits,
    pub(crate) work: Workspace,
    pub(crate) out: Vec<u8>,
    input: Vec<u8>,
}

impl Peer {
    pub(crate) fn new(limits: Limits) -> Peer {
        let mut out = Vec::new();
        let conn = Connection::new(&limits, &mut out);
        Peer { conn, limits, work: Workspace::default(), out, input: Vec::new() }
    }

    /// After the preface and settings of both sides.
    pub(crate) fn ready(limits: Limits) -> Peer {
        let mut peer = Peer::new(limits);
        let hello = [&PREFACE[..], &settings(&[]), &settings_ack()].concat();
        assert_eq!(peer.send(&hello), []);
        peer.frames();
        peer
    }

    pub(crate) fn plain() -> Peer {
        Peer::ready(Limits::default())
    }

    /// Feeds bytes and returns the events.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Vec<Seen> {
        self.input.extend_from_slice(bytes);
        let mut seen = Vec::new();
        let mut at = 0;
        loop {
            let rest = &self.input[at..];
            let step = self.conn.receive(rest, &self.limits, &mut self.work, &mut self.out);
            assert!(step.used <= rest.len());
            match step.event {
                Event::More { need } => {
                    assert!(need > rest.len() - step.used, "asks for what it has");
                    at += step.used;
                    break;
                }
                event => seen.push(owned(event, rest, &self.work)),
            }
            at += step.used;
        }
        self.input.drain(..at);
        seen
    }

    /// The one event that these bytes bring.
    #[track_caller]
    pub(crate) fn one(&mut self, bytes: &[u8]) -> Seen {
        let mut seen = self.send(bytes);
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen.remove(0)
    }

    /// The frames written since the last call.
    pub(crate) fn frames(&mut self) -> Vec<Frame> {
        parse_frames(&std::mem::take(&mut self.out))
    }

    /// Opens a stream with a GET.
    #[track_caller]
    pub(crate) fn get(&mut self, stream: u32) {
        let seen = self.one(&request(stream, true));
        assert!(matches!(seen, Seen::Request { .. }), "{seen:?}");
    }

    /// Opens a stream with a POST whose body follows.
    #[track_caller]
    pub(crate) fn post(&mut self, stream: u32) {
        let seen = self.one(&request(stream, false));
        assert!(matches!(seen, Seen::Request { .. }), "{seen:?}");
    }
}

pub(crate) fn parse_frames(mut rest: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some(bytes) = rest.first_chunk::<HEAD>() {
        let head = FrameHead::parse(bytes);
        let end = HEAD + head.length as usize;
        frames.push((head.kind, head.flags, head.stream, rest[HEAD..end].to_vec()));
        rest = &rest[end..];
    }
    assert!(rest.is_empty());
    frames
}

pub(crate) fn owned(event: Event, input: &[u8], work: &Workspace) -> Seen {
    // RFC 9110 section 5.5 allows bytes from 0x80 in values, so a head need not be UTF-8.
    let text = || String::from_utf8_lossy(&work.head).into_owned();
    match event {
        Event::Request(request) => Seen::Request { request, head: text() },
        Event::TooLarge { stream, end } => Seen::TooLarge { stream, end },
        Event::Malformed { stream, why } => Seen::Malformed { stream, why },
        Event::Data { stream, range, end } => {
            Seen::Data { stream, bytes: input[range].to_vec(), end }
        }
        Event::Trailers { stream } => Seen::Trailers { stream, lines: text() },
        Event::Reset { stream, code, by_peer } => Seen::Reset { stream, code, by_peer },
        Event::Writable => Seen::Writable,
        Event::Pong(payload) => Seen::Pong(payload),
        Event::GoAway { code } => Seen::GoAway(code),
        Event::Failed(error) => {
            Seen::Failed { code: error.code, last: error.last_stream, flood: error.flood }
        }
        Event::More { .. } => unreachable!("no event"),
    }
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let head = FrameHead { length: payload.len() as u32, kind, flags, stream };
    [&head.bytes()[..], payload].concat()
}

/// A header block without compression.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0);
        for text in [name, value] {
            match text.len() {
                length @ 0..127 => out.push(length as u8),
                length => {
                    let rest = length - 127;
                    out.extend([127, 0x80 | (rest & 0x7f) as u8, 0x80 | (rest >> 7 & 0x7f) as u8]);
                    out.push((rest >> 14) as u8);
                }
            }
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

pub(crate) const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":authority", "a.example"), (":path", "/")];
pub(crate) const POST: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "http"), (":authority", "a.example"), (":path", "/")];

pub(crate) fn headers(stream: u32, end: bool, fields: &[(&str, &str)]) -> Vec<u8> {
    let end = if end { flag::END_STREAM } else { 0 };
    frame(kind::HEADERS, flag::END_HEADERS | end, stream, &block(fields))
}

pub(crate) fn request(stream: u32, end: bool) -> Vec<u8> {
    headers(stream, end, if end { &GET } else { &POST })
}

pub(crate) fn data(stream: u32, end: bool, bytes: &[u8]) -> Vec<u8> {
    frame(kind::DATA, if end { flag::END_STREAM } else { 0 }, stream, bytes)
}

pub(crate) fn reset(stream: u32) -> Vec<u8> {
    frame(kind::RST_STREAM, 0, stream, &8_u32.to_be_bytes())
}

pub(crate) fn window_update(stream: u32, by: u32) -> Vec<u8> {
    frame(kind::WINDOW_UPDATE, 0, stream, &by.to_be_bytes())
}

pub(crate) fn settings(of: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> = of
        .iter()
        .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
        .collect();
    frame(kind::SETTINGS, 0, 0, &payload)
}

pub(crate) fn settings_ack() -> Vec<u8> {
    frame(kind::SETTINGS, flag::ACK, 0, b"")
}

pub(crate) fn rst(stream: u32, code: ErrorCode) -> Frame {
    (kind::RST_STREAM, 0, stream, code.0.to_be_bytes().to_vec())
}

pub(crate) fn goaway(last: u32, code: ErrorCode) -> Frame {
    (kind::GOAWAY, 0, 0, [last.to_be_bytes(), code.0.to_be_bytes()].concat())
}
