//! A conversation of any bytes is the same whole and in pieces, answers included; the answers are
//! whole frames within the client's windows; memory is bounded; and a head that was accepted is one
//! request to the parser of HTTP/1.1, or none.
#![no_main]

use larder_proto::http::{HeadLimits, Parsed, parse_request, slots};
use larder_proto::http2::frame::{FrameHead, HEAD, kind};
use larder_proto::http2::{Connection, ErrorCode, Event, Fields, Limits, PREFACE, Sent, Workspace};
use libfuzzer_sys::fuzz_target;

// The first byte is the size of the pieces; the preface and empty settings go before the others.
fuzz_target!(|input: &[u8]| {
    let Some((&step, bytes)) = input.split_first() else { return };
    let bytes = [&PREFACE[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0], bytes].concat();
    let whole = converse(&bytes, bytes.len());
    assert_eq!(converse(&bytes, usize::from(step).max(1)), whole);
});

/// Events as text, and everything sent.
fn converse(bytes: &[u8], step: usize) -> (Vec<String>, Vec<u8>) {
    let limits = Limits {
        concurrent_streams: 4,
        stream_window: 200,
        connect_protocol: true,
        ..Limits::default()
    };
    let mut server = Server {
        conn: Connection::new(&limits, &mut Vec::new()),
        limits,
        out: Vec::new(),
        events: Vec::new(),
        data: Vec::new(),
    };
    let mut work = Workspace::default();
    let (mut start, mut end) = (0, 0);
    loop {
        let input = &bytes[start..end];
        let got = server.conn.receive(input, &server.limits, &mut work, &mut server.out);
        assert!(got.used <= input.len());
        if let Event::More { need } = got.event {
            start += got.used;
            assert!(need > end - start, "asks for what it has");
            if end == bytes.len() {
                break;
            }
            end = end.saturating_add(step).min(bytes.len());
            continue;
        }
        server.react(got.event, input, &work);
        start += got.used;
        assert!(server.conn.memory() < 200_000);
        assert!(server.conn.open_streams() <= 4);
    }
    check_frames(&server.out);
    (server.events, server.out)
}

struct Server {
    conn: Connection,
    limits: Limits,
    out: Vec<u8>,
    events: Vec<String>,
    /// The stream of the last data: pieces of it are joined, since cuts differ.
    data: Vec<u8>,
}

impl Server {
    fn react(&mut self, event: Event, input: &[u8], work: &Workspace) {
        if let Event::Data { stream, range, end } = event {
            self.data.extend_from_slice(&input[range]);
            if end {
                self.events.push(format!("{stream} has {:?}", std::mem::take(&mut self.data)));
                self.answer(stream);
            }
            return;
        }
        self.data.clear();
        match event {
            Event::Request(request) => {
                check_head(&work.head);
                if request.end {
                    self.answer(request.stream);
                }
            }
            Event::TooLarge { stream, .. } => {
                let sent = self.conn.respond(stream, 431, &[], true, &self.limits, &mut self.out);
                if sent == Sent::Unread {
                    self.conn.reset(stream, ErrorCode::NO_ERROR, &self.limits, &mut self.out);
                }
            }
            Event::Trailers { stream } => self.answer(stream),
            Event::Writable => assert!(self.conn.next().is_some()),
            _ => {}
        }
        self.events.push(format!("{event:?}"));
        self.send();
    }

    fn answer(&mut self, stream: u32) {
        let head = &[Fields::Lines(b"Server: larder\r\nContent-Type: text/plain\r\n")];
        let _ = self.conn.respond(stream, 200, head, false, &self.limits, &mut self.out);
        self.conn.wants_to_send(stream, true);
        self.send();
    }

    /// Endless bodies, a frame of at most 50 bytes at a time; one of 13 streams ends.
    fn send(&mut self) {
        for _ in 0..3 {
            let Some(stream) = self.conn.next() else { return };
            let length = self.conn.sendable(stream, &self.limits).min(50);
            assert!(length > 0, "chosen with a closed window");
            let end = stream % 13 == 1;
            let _ = self.conn.data_frame(stream, length, end, &self.limits, &mut self.out);
            self.out.extend(std::iter::repeat_n(b'x', length));
        }
    }
}

/// Whole frames, none larger than the client allows at least.
fn check_frames(mut rest: &[u8]) {
    while let Some(bytes) = rest.first_chunk::<HEAD>() {
        let head = FrameHead::parse(bytes);
        assert!(head.length <= 16_384 && head.kind <= kind::CONTINUATION);
        rest = &rest[HEAD + head.length as usize..];
    }
    assert!(rest.is_empty());
}

/// The parser finds one head that ends where ours ends, or refuses it.
fn check_head(head: &[u8]) {
    assert!(head.ends_with(b"\r\n\r\n"));
    assert_eq!(head.windows(4).filter(|four| four == b"\r\n\r\n").count(), 1);
    match parse_request(head, &mut slots::<64>(), &HeadLimits::default()) {
        Ok(Parsed::Complete(parsed)) => {
            assert_eq!(parsed.len, head.len());
            assert!(parsed.keep_alive);
        }
        Ok(Parsed::Partial) => panic!("a head without an end"),
        Err(_) => {}
    }
}
