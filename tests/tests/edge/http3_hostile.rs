//! HTTP/3 from hostile clients: errors of RFC 9114 and RFC 9204 end what they are of, and nothing
//! malformed reaches an origin.

#![allow(clippy::unwrap_used)]

use larder_tests::h3_client::{Raw, frame, head};
use larder_tests::{Admin, H3, Larder, Origin, Papers, wait_until};
use serde_json::json;

const KEPT: &str = "Cache-Control: max-age=600";

/// The beginning of a good control stream: its type and empty SETTINGS.
const CONTROL: &[u8] = b"\0\x04\0";

fn larder(papers: &Papers, origin: &Origin) -> Larder {
    let (cert, key) = (papers.path("server.pem"), papers.path("server.key"));
    Larder::with_config(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[https]\nlisten = \
         \"127.0.0.1:0\"\nhttp3 = true\ncertificates = [{{ cert = \"{cert}\", key = \"{key}\" \
         }}]\n[[site]]\norigin = \"{}\"\n",
        origin.url()
    ))
}

fn figure(larder: &Larder, name: &str) -> u64 {
    Admin::of(larder).json("/api/v1/stats")["http"][name].as_u64().unwrap()
}

/// A good request for this path, with more fields.
fn get<'a>(path: &'a str, more: &[(&'a str, &'a str)]) -> Vec<u8> {
    let pseudo = [(":method", "GET"), (":scheme", "https"), (":path", path), (":authority", "a")];
    head(&[&pseudo[..], more].concat())
}

#[test]
fn errors_of_connections_end_them_with_their_code() {
    let (papers, origin) = (Papers::issue(), Origin::serving(&[KEPT], "page"));
    let larder = larder(&papers, &origin);
    let good = get("/", &[]);
    let data =
        [&get("/", &[])[..], &frame(0, b"x"), &head(&[("a", "b")]), &frame(0, b"x")].concat();
    let (trailers, post) = (head(&[("a", "b")]), [&good[..], &head(&[("a", "b")])].concat());
    let cut = &good[..good.len() - 1];
    let cases: &[(&str, u64, &[Raw])] = &[
        ("no SETTINGS first", 0x10a, &[Raw::uni(&b"\0\x07\x01\0"[..])]),
        ("SETTINGS twice", 0x105, &[Raw::uni(&b"\0\x04\0\x04\0"[..])]),
        ("DATA on the control stream", 0x105, &[Raw::uni(&b"\0\x04\0\0\x01x"[..])]),
        ("HEADERS on the control stream", 0x105, &[Raw::uni(&b"\0\x04\0\x01\x01x"[..])]),
        ("a frame of HTTP/2", 0x105, &[Raw::uni(&b"\0\x04\0\x06\0"[..])]),
        ("a setting of HTTP/2", 0x109, &[Raw::uni(&b"\0\x04\x02\x02\0"[..])]),
        ("a setting twice", 0x109, &[Raw::uni(&b"\0\x04\x04\x06\x01\x06\x01"[..])]),
        ("a setting that is cut", 0x106, &[Raw::uni(&b"\0\x04\x01\x06"[..])]),
        ("a setting of two values", 0x109, &[Raw::uni(&b"\0\x04\x02\x08\x02"[..])]),
        ("two control streams", 0x103, &[Raw::uni(CONTROL), Raw::uni(CONTROL)]),
        ("a stream of pushes", 0x103, &[Raw::uni(&b"\x01\0"[..])]),
        ("two encoders", 0x103, &[Raw::uni(&b"\x02"[..]), Raw::uni(&b"\x02"[..])]),
        ("two decoders", 0x103, &[Raw::uni(&b"\x03"[..]), Raw::uni(&b"\x03"[..])]),
        ("the control stream ends", 0x104, &[Raw { end: true, ..Raw::uni(CONTROL) }]),
        ("the encoder's stream ends", 0x104, &[Raw { end: true, ..Raw::uni(&b"\x02"[..]) }]),
        (
            "the number of GOAWAY grows",
            0x108,
            &[Raw::uni(&b"\0\x04\0\x07\x01\x04\x07\x01\x08"[..])],
        ),
        ("MAX_PUSH_ID falls", 0x108, &[Raw::uni(&b"\0\x04\0\x0d\x01\x04\x0d\x01\x03"[..])]),
        ("a push is cancelled", 0x108, &[Raw::uni(&b"\0\x04\0\x03\x01\0"[..])]),
        ("GOAWAY with more", 0x106, &[Raw::uni(&b"\0\x04\0\x07\x02\0\0"[..])]),
        ("a priority of no request", 0x108, &[Raw::uni(&b"\0\x04\0\x80\x0f\x07\0\x01\x02"[..])]),
        ("a table in use", 0x201, &[Raw::uni(&b"\x02\x3f\xe1\x01"[..])]),
        ("an insertion", 0x201, &[Raw::uni(&b"\x02\xc0\x01a"[..])]),
        ("an acknowledgement", 0x202, &[Raw::uni(&b"\x03\x80"[..])]),
        ("an increment", 0x202, &[Raw::uni(&b"\x03\x01"[..])]),
        ("DATA before HEADERS", 0x105, &[Raw::request(&b"\0\x01x"[..])]),
        ("SETTINGS on a request", 0x105, &[Raw::request(&b"\x04\0"[..])]),
        ("a push by a client", 0x105, &[Raw::request(&b"\x05\x01\0"[..])]),
        ("DATA behind trailers", 0x105, &[Raw::request(data)]),
        ("HEADERS behind trailers", 0x105, &[Raw::request([&post[..], &trailers].concat())]),
        ("a frame that is cut", 0x106, &[Raw::request(cut)]),
        ("an entry of the dynamic table", 0x200, &[Raw::request(frame(1, b"\0\0\x80"))]),
        ("a count of insertions", 0x200, &[Raw::request(frame(1, b"\x01\0\xd1"))]),
        ("beyond the static table", 0x200, &[Raw::request(frame(1, b"\0\0\xff\x24"))]),
        ("a bad Huffman code", 0x200, &[Raw::request(frame(1, b"\0\0\x51\x81\0"))]),
        ("an empty section", 0x200, &[Raw::request(frame(1, b""))]),
    ];
    for (what, code, streams) in cases {
        let mut client = H3::bare(larder.face("http3+udp"), &papers);
        client.raw(streams);
        assert_eq!(client.closed(), *code, "{what}");
    }
    wait_until("all are counted", || figure(&larder, "http3_errors") == cases.len() as u64);
    assert!(H3::connect(larder.face("http3+udp"), &papers).get("/").status == 200);
}

#[test]
fn malformed_requests_end_their_streams_alone() {
    let (papers, origin) = (Papers::issue(), Origin::serving(&[], "page"));
    let larder = larder(&papers, &origin);
    let mut client = H3::bare(larder.face("http3+udp"), &papers);
    let of = |fields: &[(&str, &str)]| head(fields);
    let post = |length: &str, data: &[u8]| {
        let pseudo =
            [(":method", "POST"), (":scheme", "https"), (":path", "/"), (":authority", "a")];
        [of(&[&pseudo[..], &[("content-length", length)]].concat()), frame(0, data)].concat()
    };
    let (m, s, p, a) =
        ((":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "a"));
    let cases: &[(&str, Vec<u8>)] = &[
        ("no method", of(&[s, p, a])),
        ("no path", of(&[m, s, a])),
        ("no scheme", of(&[m, p, a])),
        ("two paths", of(&[m, s, p, p, a])),
        ("a pseudo field behind others", of(&[m, s, p, ("x", "y"), a])),
        ("an unknown pseudo field", of(&[m, s, p, a, (":x", "y")])),
        ("a status", of(&[m, s, p, a, (":status", "200")])),
        ("an upper-case name", get("/", &[("X-Own", "y")])),
        ("an empty name", get("/", &[("", "y")])),
        ("a line in a value", get("/", &[("x", "y\r\nz: 1")])),
        ("a null in a value", get("/", &[("x", "y\0")])),
        ("a space before a value", get("/", &[("x", " y")])),
        ("transfer-encoding", get("/", &[("transfer-encoding", "chunked")])),
        ("connection", get("/", &[("connection", "close")])),
        ("te other than trailers", get("/", &[("te", "gzip")])),
        ("two hosts", get("/", &[("host", "a"), ("host", "a")])),
        ("another host", get("/", &[("host", "b")])),
        ("a path with a space", get("/a b", &[])),
        ("a path with a line", get("/a HTTP/1.1\r\nx: y", &[])),
        ("a path without its slash", get("a", &[])),
        ("two lengths", get("/", &[("content-length", "1"), ("content-length", "1")])),
        ("a length without a body", get("/", &[("content-length", "1")])),
        ("less than the length", post("5", b"four")),
        ("more than the length", post("3", b"four")),
        ("a pseudo field in trailers", [post("4", b"four"), of(&[m])].concat()),
    ];
    for (what, bytes) in cases {
        let stream = client.raw(&[Raw::request(&bytes[..])])[0];
        assert_eq!(client.end(stream).expect_err(what), 0x10e, "{what}");
    }
    let stream = client.raw(&[Raw::request(*b"")])[0];
    assert_eq!(client.end(stream).unwrap_err(), 0x10d, "a request without a head");
    assert_eq!(figure(&larder, "http3_malformed"), cases.len() as u64 + 1);
    // Only what came in good faith reached the origin: bodies whose length turned out wrong later.
    assert!(origin.requests().iter().all(|seen| seen.method == "POST"), "{:?}", origin.requests());
    let stream = client.raw(&[Raw::request(get("/", &[("te", "trailers")]))])[0];
    assert_eq!(client.end(stream).unwrap().text(), "page", "the connection goes on");
}

#[test]
fn fields_above_the_limits_are_answered_431() {
    let (papers, origin) = (Papers::issue(), Origin::serving(&[], "page"));
    let larder = larder(&papers, &origin);
    let mut client = H3::bare(larder.face("http3+udp"), &papers);
    let mut status = |fields: &[(&str, &str)]| {
        let stream = client.raw(&[Raw::request(get("/", fields))])[0];
        client.end(stream).unwrap().status
    };
    let long = "x".repeat(70_000);
    assert_eq!(status(&[("x", long.as_str())]), 431);
    let many: Vec<(String, &str)> = (0..150).map(|n| (format!("x-{n}"), "y")).collect();
    let many: Vec<(&str, &str)> =
        many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(status(&many), 431);
    assert_eq!(status(&[]), 200);
    assert_eq!(origin.count(), 1);
}

#[test]
fn frames_and_streams_without_a_meaning_are_ignored() {
    let (papers, origin) = (Papers::issue(), Origin::serving(&[KEPT], "page"));
    let larder = larder(&papers, &origin);
    let mut client = H3::bare(larder.face("http3+udp"), &papers);
    // Types 0x21 and 0x1f * N + 0x21 have no meaning for ever (RFC 9114 sections 7.2.8 and 6.2.3).
    let control = [CONTROL, b"\x21\x03abc", b"\x40\x40\x01x"].concat();
    client.raw(&[
        Raw::uni(control),
        Raw::uni(&b"\x21anything"[..]),
        Raw::uni(&b"\x02\x20\x20"[..]),
    ]);
    let request = [&b"\x21\x03abc"[..], &get("/", &[]), b"\x21\0"].concat();
    for _ in 0..2 {
        let stream = client.raw(&[Raw::request(&request[..])])[0];
        assert_eq!(client.end(stream).unwrap().text(), "page");
    }
    assert_eq!(origin.count(), 1, "a GET with such frames has no body");
}

#[test]
fn heads_in_pieces_and_ends_that_come_later_are_understood() {
    let (papers, origin) = (Papers::issue(), Origin::serving(&[KEPT], "page"));
    let larder = larder(&papers, &origin);
    let mut client = H3::bare(larder.face("http3+udp"), &papers);
    let request = get("/", &[]);
    for cut in [1, 2, 3, 4, 10, request.len() - 1, request.len()] {
        let first = Raw { bytes: request[..cut].to_vec(), ..Raw::default() };
        let stream = client.raw(&[first])[0];
        client.raw(&[Raw { number: Some(stream), ..Raw::request(&request[cut..]) }]);
        assert_eq!(client.end(stream).unwrap().text(), "page", "cut at {cut}");
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn floods_end_their_connection_alone() {
    let (papers, origin) = (Papers::issue(), Origin::serving(&[KEPT], "page"));
    let larder = larder(&papers, &origin);
    let mut other = H3::connect(larder.face("http3+udp"), &papers);
    let updates: Vec<u8> = (0..600).flat_map(|_| *b"\x80\x0f\x07\0\x04\0u=1").collect();
    let empty: Vec<u8> = [get("/", &[]), b"\x21\0".repeat(200)].concat();
    let unknown = [CONTROL.to_vec(), b"\x21\0".repeat(600)].concat();
    for (what, stream) in [
        ("priorities", Raw::uni([CONTROL, &updates].concat())),
        ("frames without use", Raw::request(empty)),
        ("unknown frames", Raw::uni(unknown)),
        ("a long frame of the control stream", Raw::uni(&b"\0\x04\x80\x10\0\0"[..])),
    ] {
        let mut client = H3::bare(larder.face("http3+udp"), &papers);
        client.raw(&[stream]);
        assert_eq!(client.closed(), 0x107, "{what}");
    }
    assert_eq!(figure(&larder, "http3_floods"), 4);
    assert_eq!(other.get("/").text(), "page");
}

#[test]
fn requests_that_are_given_up_again_and_again_end_the_connection() {
    let gate = std::sync::Arc::new(larder_tests::Gate::closed());
    let held = gate.clone();
    let papers = Papers::issue();
    let origin = Origin::start(move |_, reply| {
        held.wait();
        reply.ok(&[], "late");
    });
    let larder = larder(&papers, &origin);
    let request = get("/", &[]);
    let reset = Raw { reset: Some(0x10c), bytes: request.clone(), ..Raw::default() };
    // Both frames come in one packet: the server has not seen the stream when it is stopped.
    let stop = Raw { stop: Some(0x10c), ..Raw::request(request) };
    for given_up in [reset, stop] {
        let mut client = H3::bare(larder.face("http3+udp"), &papers);
        for _ in 0..50 {
            client.raw(&vec![given_up.clone(); 120]);
            if client.tell(&json!({ "do": "state" }))["closed"] != json!(null) {
                break;
            }
        }
        assert_eq!(client.closed(), 0x107);
    }
    gate.open();
}

#[test]
fn trailers_above_the_limits_end_their_stream_alone() {
    let gate = std::sync::Arc::new(larder_tests::Gate::closed());
    let held = gate.clone();
    let papers = Papers::issue();
    let origin = Origin::start(move |_, reply| {
        held.wait();
        reply.ok(&[], "late");
    });
    let larder = larder(&papers, &origin);
    let mut client = H3::bare(larder.face("http3+udp"), &papers);
    let pseudo = [(":method", "POST"), (":scheme", "https"), (":path", "/"), (":authority", "a")];
    let long = "x".repeat(70_000);
    let bytes = [head(&pseudo), frame(0, b"four"), head(&[("x", &long)])].concat();
    let stream = client.raw(&[Raw::request(bytes)])[0];
    assert_eq!(client.end(stream).unwrap_err(), 0x10e);
    gate.open();
    let stream = client.raw(&[Raw::request(get("/", &[]))])[0];
    assert_eq!(client.end(stream).unwrap().text(), "late", "the connection goes on");
}
