//! HTTP/2 from hostile clients: floods end their connection alone, and nothing malformed reaches an
//! origin.

#![allow(clippy::unwrap_used)]

use larder_tests::h2_client::Open;
use larder_tests::h2_raw::{Raw, frame, request};
use larder_tests::{Admin, Answer, Gate, H2, Larder, Origin, wait_until};
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
fn requests_that_wait_are_as_many_as_connections_may_be_and_half_of_them_of_one_client() {
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
    let begin = |client: &H2| -> Vec<Open> {
        (0..30).map(|at| client.begin("GET", &format!("/{}", at % 2), &[], true)).collect()
    };
    let first = H2::connect(larder.addr());
    let mut of_first = begin(&first);
    for open in of_first.split_off(10) {
        assert_eq!(first.end(open).unwrap().status, 503);
    }
    // The places of others are free, however many connections the first one opens.
    let again = H2::connect(larder.addr());
    assert_eq!(again.get("/0").status, 503);
    let other = H2::connect_from([127, 0, 0, 2].into(), larder.addr());
    let mut of_other = begin(&other);
    for open in of_other.split_off(10) {
        assert_eq!(other.end(open).unwrap().status, 503);
    }
    gate.open();
    let text = |answer: Result<Answer, _>| answer.unwrap().text().to_owned();
    assert!(of_first.into_iter().all(|open| text(first.end(open)) == "page"));
    assert!(of_other.into_iter().all(|open| text(other.end(open)) == "page"));
    assert_eq!(first.get("/0").text(), "page");
}

/// Two bytes of a block insert a copy of a field of 4 KiB: the work for a list is bounded by its
/// limit, wherever the list comes.
#[test]
fn lists_that_grow_out_of_few_bytes_end_their_connection() {
    let origin = Origin::serving(&[KEPT], "page");
    let larder = larder(&origin);
    let counted = || {
        let stats = Admin::of(&larder).json("/api/v1/stats");
        stats["http"]["http2_floods"]["header_lists"].as_u64().unwrap()
    };
    let name = [&b"\x40\x7f\xa1\x1e"[..], &[b'n'; 4000], b"\0"].concat();
    let bomb = [&name[..], &b"\x7e\0".repeat(5000)].concat();
    let trailers = [post(), frame(1, 5, 1, &bomb)].concat();
    for (number, frames) in [frame(1, 5, 1, &bomb), trailers].into_iter().enumerate() {
        let mut raw = Raw::connect(larder.addr());
        raw.send(&[frames]);
        let (goaways, _) = raw.ends();
        assert_eq!(goaways, [11]);
        wait_until("it is counted", || counted() == number as u64 + 1);
    }
    // A hit pays for no list that is too large.
    assert_eq!(H2::connect(larder.addr()).get("/page").text(), "page");
    let line = [&b"\x40\x01x\x7f\x7b"[..], &[b'y'; 250]].concat();
    let large = [&request(3, &GET)[9..], &line, &[0xbe; 300]].concat();
    let mut raw = Raw::connect(larder.addr());
    for n in 0..30 {
        if !raw.send(&[request(4 * n + 1, &GET), frame(1, 5, 4 * n + 3, &large)]) {
            break;
        }
    }
    let (goaways, _) = raw.ends();
    assert!(goaways.iter().all(|code| *code == 11), "{goaways:?}");
    wait_until("the lists are counted", || counted() == 3);
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
