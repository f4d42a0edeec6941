//! HTTP/2 from hostile clients: floods end their connection alone, and nothing malformed reaches an
//! origin.

#![allow(clippy::unwrap_used)]

use larder_tests::{Admin, Gate, H2, Larder, Origin, PATIENCE, wait_until};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

const KEPT: &str = "Cache-Control: max-age=600";

/// HTTP/2 without TLS before an origin.
fn larder(origin: &Origin) -> Larder {
    Larder::with_config(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\nh2c = true\n[admin]\nlisten = \
         \"127.0.0.1:0\"\n[[site]]\norigin = \"{}\"\n",
        origin.url()
    ))
}

fn figure(larder: &Larder, name: &str) -> u64 {
    Admin::of(larder).json("/api/v1/stats")["http"][name].as_u64().unwrap()
}

/// A client that sends frames as it likes.
struct Raw(TcpStream);

impl Raw {
    fn connect(addr: SocketAddr) -> Raw {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let mut raw = Raw(stream);
        raw.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        raw.send(&[frame(4, 0, 0, &[])]);
        raw
    }

    /// Sends; an end of the connection is no error.
    fn send(&mut self, frames: &[Vec<u8>]) -> bool {
        self.0.write_all(&frames.concat()).is_ok()
    }

    /// Receives until these bytes come, or the end of the connection.
    fn read_to(&mut self, bytes: &[u8]) {
        let (mut all, mut piece) = (Vec::new(), [0; 16 * 1024]);
        while !all.windows(bytes.len()).any(|part| part == bytes) {
            match self.0.read(&mut piece) {
                Ok(read @ 1..) => all.extend_from_slice(&piece[..read]),
                _ => return,
            }
        }
    }

    /// The error codes of the GOAWAY and RST_STREAM frames until the end of the connection.
    fn ends(&mut self) -> (Vec<u32>, Vec<u32>) {
        let mut all = Vec::new();
        let _ = self.0.read_to_end(&mut all);
        let (mut goaways, mut resets, mut rest) = (Vec::new(), Vec::new(), &all[..]);
        while rest.len() >= 9 {
            let len = u32::from_be_bytes([0, rest[0], rest[1], rest[2]]) as usize;
            let Some(payload) = rest.get(9..9 + len) else { break };
            let code = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
            match rest[3] {
                3 => resets.push(code(0)),
                7 => goaways.push(code(4)),
                _ => {}
            }
            rest = &rest[9 + len..];
        }
        (goaways, resets)
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    let mut frame = vec![len[1], len[2], len[3], kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A request, fields as literals without a table.
fn request(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    frame(1, 5, stream, &block)
}

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/page")];

#[test]
fn floods_end_their_connection_and_no_other() {
    let gate = Arc::new(Gate::closed());
    let wait = gate.clone();
    let origin = Origin::start(move |_, reply| {
        wait.wait();
        reply.ok(&[KEPT], "page");
    });
    let larder = larder(&origin);
    let other = H2::connect(larder.addr());
    let waits = other.begin("GET", "/page", &[], true);
    origin.wait_for(1);
    let cancel = |stream| frame(3, 0, stream, &8u32.to_be_bytes());
    let rapid = |n: u32| [request(2 * n + 1, &GET), cancel(2 * n + 1)].concat();
    let ping = |_| frame(6, 0, 0, b"12345678");
    let settings = |_| frame(4, 0, 0, &[]);
    let priority = |n: u32| frame(2, 0, 2 * n + 1, &[0, 0, 0, 0, 1]);
    let empty = |n: u32| {
        let data = frame(0, 0, 1, &[]);
        if n == 0 { [post(), data].concat() } else { data }
    };
    let counted =
        |kind| Admin::of(&larder).json("/api/v1/stats")["http"]["http2_floods"][kind] == 1;
    type Flood<'a> = (&'a str, &'a dyn Fn(u32) -> Vec<u8>);
    let floods: [Flood<'_>; 5] = [
        ("rapid_reset", &rapid),
        ("pings", &ping),
        ("settings", &settings),
        ("priorities", &priority),
        ("empty_frames", &empty),
    ];
    for (name, flood) in floods {
        let mut raw = Raw::connect(larder.addr());
        for from in (0..20_000).step_by(100) {
            let frames: Vec<_> = (from..from + 100).map(flood).collect();
            if !raw.send(&frames) {
                break;
            }
        }
        // The end may be a reset, which takes the frames before it along.
        let (goaways, _) = raw.ends();
        assert!(goaways.iter().all(|code| *code == 11), "{name}: {goaways:?}");
        wait_until("the flood is counted", || counted(name));
    }
    gate.open();
    assert_eq!(other.end(waits).unwrap().text(), "page");
    assert!(larder.usage().rss < 200 << 20, "{:?}", larder.usage());
}

/// A request whose body is still to come.
fn post() -> Vec<u8> {
    let fields = [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/up")];
    let mut head = request(1, &fields);
    head[4] = 4;
    head
}

#[test]
fn nothing_is_smuggled_to_the_origin() {
    let origin = Origin::serving(&[KEPT], "page");
    let larder = larder(&origin);
    let with = |more: &[(&'static str, &'static str)]| [&GET[..], more].concat();
    let path = |path| [GET[0], GET[1], GET[2], (":path", path)].to_vec();
    let cases = [
        with(&[("x-a", "b\r\nx-c: d")]),
        with(&[("x-a", "b\nx-c: d")]),
        with(&[("x-a", "b\0")]),
        with(&[("x-a\r\nb", "c")]),
        with(&[("x a", "b")]),
        with(&[("X-Upper", "b")]),
        with(&[("transfer-encoding", "chunked")]),
        with(&[("connection", "x-a")]),
        with(&[("upgrade", "h2c")]),
        with(&[("host", "a"), ("host", "a")]),
        with(&[("host", "b")]),
        with(&[("content-length", "5")]),
        with(&[("content-length", "0"), ("content-length", "0")]),
        with(&[(":path", "/other")]),
        path("/a HTTP/1.1\r\nx-b: c"),
        path("/a b"),
        path("a"),
        path(""),
        path("http://other/"),
    ];
    let mut raw = Raw::connect(larder.addr());
    for (number, fields) in cases.iter().enumerate() {
        assert!(raw.send(&[request(2 * number as u32 + 1, fields)]), "{fields:?}");
    }
    raw.send(&[frame(7, 0, 0, &[0; 8])]);
    let (goaways, resets) = raw.ends();
    assert_eq!(resets, vec![1; cases.len()], "each is reset as malformed");
    assert!(goaways.iter().all(|code| *code == 0), "{goaways:?}");
    assert_eq!(origin.count(), 0);
    assert_eq!(figure(&larder, "http2_malformed"), cases.len() as u64);
}

/// RFC 9113 section 8.1.1: the sum of all DATA is what Content-Length says.
#[test]
fn a_body_of_another_length_than_announced_ends_its_stream_alone() {
    let origin = Origin::start(|seen, reply| {
        reply.ok(&[], seen.body.len().to_string());
    });
    let larder = larder(&origin);
    let head = |stream, length| {
        let pseudo = [(":method", "POST"), (":scheme", "http"), (":authority", "a")];
        let mut head = request(
            stream,
            &[&pseudo[..], &[(":path", "/up"), ("content-length", length)]].concat(),
        );
        head[4] = 4;
        head
    };
    let (data, end) = (|stream| frame(0, 0, stream, b"four"), |stream| frame(0, 1, stream, b""));
    let mut raw = Raw::connect(larder.addr());
    raw.send(&[head(1, "5"), data(1), end(1)]);
    raw.send(&[head(3, "3"), data(3), end(3)]);
    raw.send(&[head(5, "4"), data(5), data(5), end(5)]);
    // Trailers end a body too.
    let mut trailers = request(7, &[("x-a", "b")]);
    trailers[4] = 5;
    raw.send(&[head(7, "5"), data(7), trailers]);
    raw.send(&[frame(7, 0, 0, &[0; 8])]);
    let (goaways, resets) = raw.ends();
    assert_eq!(resets, vec![1; 4], "each is reset as malformed");
    assert!(goaways.iter().all(|code| *code == 0), "{goaways:?}");
    assert_eq!(figure(&larder, "http2_malformed"), 4);
    // An origin that began to get one of these got no whole request.
    assert!(origin.requests().iter().all(|seen| seen.body.is_empty()), "{:?}", origin.requests());
}

#[test]
fn small_uploads_side_by_side_do_not_wait_for_each_other() {
    let origin = Origin::start(|seen, reply| {
        reply.ok(&[], seen.body.len().to_string());
    });
    let larder = larder(&origin);
    let client = H2::connect(larder.addr());
    for _ in 0..3 {
        let length = [("content-length", "60000")];
        let mut open: Vec<_> = (0..8).map(|_| client.begin("POST", "/", &length, false)).collect();
        for part in 0..6 {
            for open in &mut open {
                client.send_part(&mut open.body, &[7; 10_000], part == 5);
            }
        }
        for open in open {
            assert_eq!(client.end(open).unwrap().text(), "60000");
        }
    }
}

#[test]
fn a_long_answer_to_a_slow_stream_is_not_kept_in_memory() {
    const PIECES: usize = 2_000;
    let origin = Origin::start(|_, reply| {
        reply.chunked(200, &["Cache-Control: no-store"]);
        for _ in 0..PIECES {
            reply.chunk([7; 50_000]);
        }
        reply.end();
    });
    let larder = larder(&origin);
    let client = H2::connect(larder.addr());
    let before = larder.usage().rss;
    let (head, mut content) = client.head(client.begin("GET", "/", &[], true));
    assert_eq!(head.status, 200);
    let mut all = 0;
    while let Some(piece) = client.piece(&mut content) {
        all += piece.len();
    }
    assert_eq!(all, PIECES * 50_000);
    let grown = larder.usage().peak_rss.saturating_sub(before);
    assert!(grown < 32 << 20, "{} MiB for an answer of 100 MB", grown >> 20);
}

#[test]
fn requests_that_wait_are_as_many_as_connections_may_be() {
    let gate = Arc::new(Gate::closed());
    let wait = gate.clone();
    let origin = Origin::start(move |_, reply| {
        wait.wait();
        reply.ok(&[KEPT], "page");
    });
    let larder = Larder::with_config(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\nh2c = true\n[http.limits]\nconnections = \
         20\n[[site]]\norigin = \"{}\"\n",
        origin.url()
    ));
    let client = H2::connect(larder.addr());
    let begin = |at: usize| client.begin("GET", &format!("/{}", at % 2), &[], true);
    let mut open: Vec<_> = (0..50).map(begin).collect();
    let refused = open.split_off(20);
    for open in refused {
        assert_eq!(client.end(open).unwrap().status, 503);
    }
    gate.open();
    for open in open {
        assert_eq!(client.end(open).unwrap().text(), "page");
    }
    assert_eq!(client.get("/0").text(), "page");
}

/// Answers that clients do not take, short ones that were copied: they count as their memory.
#[test]
fn answers_that_nobody_takes_stay_within_the_memory() {
    const MEMORY: u64 = 64 << 20;
    let body = "x".repeat(3000);
    let origin = Origin::start(move |_, reply| {
        reply.ok(&[KEPT], &body);
    });
    let larder = Larder::with_config(&format!(
        "memory = \"64MiB\"\nthreads = 1\n[http]\nlisten = \"127.0.0.1:0\"\nh2c = \
         true\n[[site]]\norigin = \"{}\"\n",
        origin.url()
    ));
    let fields = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/page")];
    let mut clients: Vec<Raw> = (0..500).map(|_| Raw::connect(larder.addr())).collect();
    for client in &mut clients {
        // SETTINGS_INITIAL_WINDOW_SIZE: 0.
        client.send(&[frame(4, 0, 0, &[0, 4, 0, 0, 0, 0])]);
        client.send(&(0..100).map(|n| request(2 * n + 1, &fields)).collect::<Vec<_>>());
        client.send(&[frame(6, 0, 0, b"all came")]);
    }
    clients.iter_mut().for_each(|client| client.read_to(b"all came"));
    let mut other = larder.connect();
    other.ask("GET", "/page", &["Host: a"]).assert_status(200);
    let peak = larder.usage().peak_rss;
    assert!(peak < MEMORY + (64 << 20), "{peak}");
}

/// Requests that wait on one connection count as memory of its client: they are refused, or their
/// client leaves, before they hold more than is configured.
#[test]
fn waiting_requests_of_many_streams_stay_within_the_memory() {
    const MEMORY: u64 = 64 << 20;
    let origin = Origin::start(|_, reply| {
        reply.ok(&[KEPT], "page");
    });
    let larder = Larder::with_config(&format!(
        "memory = \"64MiB\"\nthreads = 1\n[http]\nlisten = \"127.0.0.1:0\"\nh2c = \
         true\n[[site]]\norigin = \"{}\"\n",
        origin.url()
    ));
    let half = |stream| {
        let fields = [(":method", "POST"), (":scheme", "http"), (":authority", "a")];
        let more = [(":path", "/page"), ("content-length", "60000")];
        let mut open = request(stream, &[&fields[..], &more].concat());
        // Headers without the end of the stream.
        open[4] = 4;
        [open, frame(0, 0, stream, b"z")].concat()
    };
    let mut clients: Vec<Raw> = (0..80).map(|_| Raw::connect(larder.addr())).collect();
    for client in &mut clients {
        client.send(&(0..100).map(|n| half(2 * n + 1)).collect::<Vec<_>>());
        client.send(&[frame(6, 0, 0, b"all came")]);
    }
    clients.iter_mut().for_each(|client| client.read_to(b"all came"));
    let mut other = larder.connect();
    other.ask("GET", "/page", &["Host: a"]).assert_status(200);
    let peak = larder.usage().peak_rss;
    assert!(peak < MEMORY + (64 << 20), "{peak}");
}
