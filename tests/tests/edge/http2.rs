//! HTTP/2 to clients: the same pages and rules as over HTTP/1, on streams of one connection.

#![allow(clippy::unwrap_used)]

use h2::client::Builder;
use larder_tests::h2_client::Open;
use larder_tests::helper::source_root;
use larder_tests::sized::{KEPT, content, origin};
use larder_tests::{
    Admin, Answer, Gate, H2, Larder, Origin, Papers, Wire, get, get_with, wait_until,
};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

fn config(origin: &str, limits: &str, site: &str) -> String {
    format!(
        "[http]\nlisten = \"127.0.0.1:0\"\nh2c = true\n[http.limits]\n{limits}\n[admin]\nlisten = \
         \"127.0.0.1:0\"\n[[site]]\norigin = \"{origin}\"\n{site}\n"
    )
}

/// HTTP/2 without TLS before an origin.
fn larder(origin: &Origin, limits: &str) -> Larder {
    Larder::with_config(&config(&origin.url(), limits, ""))
}

/// HTTP/2 with and without TLS before an origin.
fn both(papers: &Papers, origin: &Origin) -> Larder {
    let (cert, key) = (papers.path("server.pem"), papers.path("server.key"));
    Larder::with_config(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\nh2c = true\n[https]\nlisten = \
         \"127.0.0.1:0\"\ncertificates = [{{ cert = \"{cert}\", key = \"{key}\" \
         }}]\n[[site]]\norigin = \"{}\"\n",
        origin.url()
    ))
}

fn figure(larder: &Larder, name: &str) -> u64 {
    Admin::of(larder).json("/api/v1/stats")["http"][name].as_u64().unwrap()
}

#[test]
fn pages_of_every_size_come_as_they_are_with_and_without_tls() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = both(&papers, &origin);
    let tls = H2::connect_tls(larder.face("https"), &papers.client(), "127.0.0.1");
    for client in [&tls, &H2::connect(larder.addr())] {
        for len in [0, 1, 4_000, 4_097, 16_383, 16_384, 16_385, 26_510, 65_535, 70_000, 3_000_000] {
            for hit in [false, true] {
                let answer = client.get(&format!("/{len}"));
                assert!(answer.body == content(len), "{len} bytes, {} came", answer.body.len());
                assert_eq!(answer.get("content-length"), Some(len.to_string().as_str()));
                assert_eq!(answer.is_hit(), hit, "{answer:?}");
                assert_eq!(answer.get("connection"), None);
            }
        }
    }
}

#[test]
fn requests_are_answered_as_over_http1() {
    let origin = origin();
    let larder = larder(&origin, "");
    let client = H2::connect(larder.addr());
    type Asked<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);
    let cases: &[Asked<'_>] = &[
        ("GET", "/5000", &[]),
        ("HEAD", "/5000", &[]),
        ("GET", "/5000", &[("if-none-match", "\"one\"")]),
        ("GET", "/5000", &[("if-none-match", "\"two\"")]),
        ("GET", "/5000", &[("range", "bytes=10-20")]),
        ("GET", "/5000", &[("range", "bytes=10-20,4000-4999")]),
        ("GET", "/5000", &[("range", "bytes=9000-")]),
        ("GET", "/70000", &[("range", "bytes=1-60000")]),
        ("GET", "/5000", &[("cache-control", "only-if-cached")]),
        ("GET", "/absent", &[("cache-control", "only-if-cached")]),
        ("PURGE", "/5000", &[]),
        ("OPTIONS", "/5000", &[]),
    ];
    for path in ["/5000", "/70000"] {
        client.get(path);
    }
    // An error has a reference of its own.
    let plain = |answer: &Answer| match answer.get("larder-reference") {
        Some(reference) => answer.text().replace(reference, "").into_bytes(),
        None => answer.body.clone(),
    };
    // Times and separators of parts differ from one answer to the next.
    let steady = |answer: &Answer| -> BTreeMap<String, String> {
        let fields = answer.fields.0.iter().map(|(n, v)| (n.to_ascii_lowercase(), v.clone()));
        fields
            .filter(|(n, v)| {
                let changes = ["date", "age", "cache-status", "connection", "larder-reference"]
                    .contains(&n.as_str());
                !changes && !v.starts_with("multipart/")
            })
            .collect()
    };
    for &(method, path, fields) in cases {
        let host = ("Host", &*larder.addr().to_string());
        let lines = [host].into_iter().chain(fields.iter().copied());
        let lines: Vec<String> = lines.map(|(n, v)| format!("{n}: {v}")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let expected = larder.connect().ask(method, path, &lines);
        let answer = client.ask(method, path, fields);
        assert_eq!(answer.status, expected.status, "{method} {path} {fields:?}");
        assert_eq!(steady(&answer), steady(&expected), "{method} {path} {fields:?}");
        let parts = answer.get("content-type").is_some_and(|t| t.starts_with("multipart/"));
        let same = plain(&answer) == plain(&expected);
        assert!(same || parts && answer.body.len() == expected.body.len(), "{method} {path}");
    }
}

#[test]
fn many_streams_of_one_connection_are_answered_and_fetched_once() {
    let gate = Arc::new(Gate::closed());
    let wait = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        wait.wait();
        reply.ok(&[KEPT], content(seen.path()[1..].parse().unwrap()));
    });
    let larder = larder(&origin, "");
    // Answers lie there until they are looked at.
    let client =
        H2::connect_by(larder.addr(), Builder::new().initial_connection_window_size(16 << 20));
    let begin = |at: usize| client.begin("GET", &format!("/{}", 30_000 + at % 3), &[], true);
    let open: Vec<_> = (0..100).map(begin).collect();
    origin.wait_for(3);
    gate.open();
    for (at, open) in open.into_iter().enumerate() {
        let answer = client.end(open).unwrap();
        assert!(answer.body == content(30_000 + at % 3), "stream {at}");
    }
    assert_eq!(origin.count(), 3);
    assert_eq!(figure(&larder, "http2_requests"), 100);
    assert_eq!(figure(&larder, "http2_connections"), 1);
    wait_until("all are counted", || figure(&larder, "requests") == 100);
}

#[test]
fn a_fast_stream_does_not_wait_for_a_slow_one() {
    let gate = Arc::new(Gate::closed());
    let wait = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        if seen.path() == "/slow" {
            reply.chunked(200, &[KEPT]).chunk("first");
            wait.wait();
            reply.chunk("second").end();
        } else {
            reply.ok(&[KEPT], "fast");
        }
    });
    let larder = larder(&origin, "");
    let client = H2::connect(larder.addr());
    let slow = client.begin("GET", "/slow", &[], true);
    let (head, mut body) = client.head(slow);
    assert_eq!(head.status, 200);
    assert_eq!(client.piece(&mut body).as_deref(), Some(&b"first"[..]), "it streams by");
    assert_eq!(client.get("/fast").text(), "fast");
    assert!(client.get("/fast").is_hit());
    gate.open();
    assert_eq!(client.piece(&mut body).as_deref(), Some(&b"second"[..]));
    while let Some(piece) = client.piece(&mut body) {
        assert_eq!(&piece[..], b"");
    }
    assert_eq!(client.get("/slow").assert_hit().text(), "firstsecond");
}

#[test]
fn bodies_go_up_whole_with_and_without_a_length() {
    let origin = origin();
    let larder = larder(&origin, "request_body = \"4MiB\"");
    let client = H2::connect(larder.addr());
    for len in [0, 1, 70_000, 1_000_000, 3_000_000] {
        let body = content(len);
        for fields in [&[][..], &[("content-length", &*len.to_string())]] {
            let answer = client.post("/up", fields, &body);
            assert!(answer.status == 200 && answer.body == body, "{len}: {answer:?}");
        }
    }
    let seen = origin.last();
    assert_eq!(seen.get("content-length"), Some("3000000"));
    let expects = [("expect", "100-continue"), ("content-length", "5")];
    assert_eq!(client.post("/up", &expects, b"hello").body, b"hello");
    // Too long: refused before and in the middle, and the connection goes on.
    let announced = client.begin("POST", "/up", &[("content-length", "5000000")], false);
    assert_eq!(client.end(announced).unwrap().status, 413);
    let mut open = client.begin("POST", "/up", &[], false);
    let piece = content(100_000);
    let mut sent = 0;
    while sent < 8 << 20 {
        open.body.reserve_capacity(piece.len());
        let room = client.wait(std::future::poll_fn(|cx| open.body.poll_capacity(cx)));
        let Some(Ok(room)) = room else { break };
        sent += room;
        if open.body.send_data(piece[..room].to_vec().into(), false).is_err() {
            break;
        }
    }
    assert_eq!(client.end(open).map(|answer| answer.status).unwrap_or(413), 413);
    assert_eq!(client.get("/10").body, content(10));
}

#[test]
fn trailers_end_bodies_both_ways() {
    let origin = Origin::start(|seen, reply| {
        reply.chunked(200, &["Trailer: X-Told"]).chunk(&seen.body);
        // Two that have no place there, and would set a cookie for all or contradict the body.
        let others = "Set-Cookie: s=1\r\nContent-Length: 99\r\n";
        reply.raw(format!("0\r\n{others}X-Told: 42\r\n\r\n")).close();
    });
    let larder = larder(&origin, "");
    let client = H2::connect(larder.addr());
    let mut open = client.begin("POST", "/", &[("te", "trailers"), ("trailer", "x-sum")], false);
    open.body.send_data("some".into(), false).unwrap();
    let trailers = [("x-sum", "42")].map(|(n, v)| (n.parse().unwrap(), v.parse().unwrap()));
    open.body.send_trailers(trailers.into_iter().collect()).unwrap();
    let answer = client.end(open).unwrap();
    assert_eq!((answer.text(), answer.trailers.get("x-told")), ("some", Some("42")));
    assert_eq!(answer.trailers.0.len(), 1);
}

#[test]
fn a_client_that_takes_little_is_sent_little_and_dropped_in_the_end() {
    let origin = origin();
    let larder = larder(&origin, "send_timeout = \"2s\"");
    let mut builder = Builder::new();
    builder.initial_window_size(1_000);
    let client = H2::connect_by(larder.addr(), &builder);
    let whole = client.get("/70000");
    assert!(whole.body == content(70_000), "a window of 1,000 bytes, opened again and again");
    let stalls = client.begin("GET", "/70000", &[], true);
    let (head, mut body) = client.head(stalls);
    assert_eq!(head.status, 200);
    let first = client.wait(body.data()).unwrap().unwrap();
    assert_eq!(first.len(), 1_000);
    // Nothing is credited: the window stays closed.
    assert!(client.wait(body.data()).is_none_or(|piece| piece.is_err()), "cut off");
    wait_until("it is counted", || {
        Admin::of(&larder).json("/api/v1/stats")["http"]["timeouts"]["send"] == 1
    });
    assert_eq!(get(larder.addr(), "/70000").body.len(), 70_000);
}

#[test]
fn a_reset_stream_ends_its_request_and_not_that_of_others() {
    let gate = Arc::new(Gate::closed());
    let wait = gate.clone();
    let origin = Origin::start(move |_, reply| {
        wait.wait();
        reply.ok(&[KEPT], "page");
    });
    let larder = larder(&origin, "");
    let client = H2::connect(larder.addr());
    let left = client.begin("GET", "/page", &[], true);
    origin.wait_for(1);
    let stays = client.begin("GET", "/page", &[], true);
    drop(left);
    wait_until("the reset is seen", || figure(&larder, "http2_resets") == 1);
    gate.open();
    assert_eq!(client.end(stays).unwrap().text(), "page");
    assert_eq!(origin.count(), 1);
    let results = || Admin::of(&larder).json("/api/v1/stats")["http"]["results"].clone();
    wait_until("it is counted", || results()["aborted"] == 1);
}

#[test]
fn an_answer_that_the_origin_cuts_is_reset_and_not_kept() {
    let origin = Origin::start(|_, reply| {
        reply.raw("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 10\r\n\r\nabc");
        reply.close();
    });
    let larder = larder(&origin, "");
    let client = H2::connect(larder.addr());
    for _ in 0..2 {
        let open = client.begin("GET", "/", &[], true);
        let error = client.end(open).expect_err("a cut answer");
        assert_eq!(error.reason(), Some(h2::Reason::INTERNAL_ERROR));
    }
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_websocket_takes_a_stream_of_its_own() {
    let origin = Origin::start(|seen, reply| {
        if seen.get("upgrade") != Some("websocket") {
            reply.ok(&[KEPT], "page");
            return;
        }
        let key = seen.get("sec-websocket-key").unwrap_or_default();
        assert!(key.len() == 24 && key.ends_with("=="), "{key}");
        assert_eq!((&*seen.method, seen.get("connection")), ("GET", Some("upgrade")));
        let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: \
                    websocket\r\nSec-WebSocket-Accept: x\r\nSec-WebSocket-Protocol: chat\r\n\r\nearly ";
        reply.raw(head);
        let mut stream = reply.take_stream();
        let mut piece = [0; 5];
        while stream.read_exact(&mut piece).is_ok() {
            stream.write_all(&piece).unwrap();
        }
        stream.write_all(b" bye").unwrap();
    });
    let larder = larder(&origin, "");
    let client = H2::connect(larder.addr());
    let mut open = client.open("websocket", "/chat");
    open.body.send_data("hello".into(), false).unwrap();
    let Open { response, mut body } = open;
    let (head, mut content) = client.wait(response).unwrap().into_parts();
    assert_eq!(head.status, 200);
    assert_eq!(head.headers.get("sec-websocket-protocol").unwrap(), "chat");
    assert!(head.headers.get("sec-websocket-accept").is_none());
    let mut all = Vec::new();
    while all.len() < b"early hello".len() {
        all.extend_from_slice(&client.piece(&mut content).unwrap());
    }
    assert_eq!(client.get("/page").text(), "page", "other streams go on");
    body.send_data("again".into(), true).unwrap();
    while let Some(piece) = client.piece(&mut content) {
        all.extend_from_slice(&piece);
    }
    assert_eq!(String::from_utf8_lossy(&all), "early helloagain bye");
    let other = client.open("connect-udp", "/chat");
    assert_eq!(client.end(other).unwrap().status, 501);
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_websocket_ends_with_its_origin() {
    let origin = Origin::start(|_, reply| {
        reply.raw(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: \
             websocket\r\n\r\nbye",
        );
        drop(reply.take_stream());
    });
    let larder = larder(&origin, "");
    let client = H2::connect(larder.addr());
    let Open { response, body } = client.open("websocket", "/chat");
    let (head, mut content) = client.wait(response).unwrap().into_parts();
    assert_eq!(head.status, 200);
    let mut all = Vec::new();
    // The client has not ended its side.
    while let Some(piece) = client.piece(&mut content) {
        all.extend_from_slice(&piece);
    }
    assert_eq!(String::from_utf8_lossy(&all), "bye");
    drop(body);
}

#[test]
fn a_page_is_no_websocket() {
    let origin = Origin::start(|seen, reply| {
        match seen.path() {
            "/page" => reply.ok(&[], "page"),
            "/empty" => reply.raw("HTTP/1.1 204 No Content\r\n\r\n"),
            _ => reply.raw("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"),
        };
    });
    let larder = larder(&origin, "");
    let client = H2::connect(larder.addr());
    for (path, status) in [("/page", 502), ("/empty", 502), ("/no", 403)] {
        let open = client.open("websocket", path);
        assert_eq!(client.end(open).unwrap().status, status, "{path}");
    }
    assert_eq!(client.get("/page").text(), "page");
}

#[test]
fn early_hints_come_while_a_page_is_asked_for_again() {
    let gate = Arc::new(Gate::closed());
    let wait = gate.clone();
    let shown_first = Arc::new(AtomicBool::new(false));
    let is_shown = shown_first.clone();
    let origin = Origin::start(move |seen, reply| {
        if seen.get("if-none-match").is_some() {
            wait.wait();
            assert!(is_shown.load(Relaxed), "the gate was opened by the hints");
        }
        let link = "Link: </style.css>; rel=preload; as=style";
        reply.ok(
            &["Cache-Control: no-cache", "ETag: \"one\"", link, "Link: </next>; rel=next"],
            "page",
        );
    });
    let larder = Larder::with_config(&config(&origin.url(), "", "early_hints = true"));
    let url = format!("http://{}/", larder.addr());
    assert_eq!(H2::connect(larder.addr()).get("/").text(), "page");
    // A client that shows interim responses as they come (curl keeps them until the answer).
    let mut nghttp = std::process::Command::new("nghttp")
        .args(["-v", "--no-dep", &url])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut shown = String::new();
    let mut lines = std::io::BufReader::new(nghttp.stdout.take().unwrap());
    while !shown.contains(":status: 103") {
        assert!(std::io::BufRead::read_line(&mut lines, &mut shown).unwrap() > 0, "{shown}");
    }
    shown_first.store(true, Relaxed);
    gate.open();
    lines.read_to_string(&mut shown).unwrap();
    let (interim, last) = shown.split_once(":status: 200").unwrap();
    assert!(interim.contains("link: </style.css>; rel=preload; as=style"), "{shown}");
    assert!(!interim.contains("</next>") && last.contains("</next>"), "{shown}");
    assert!(nghttp.wait().unwrap().success());
    assert_eq!(get(larder.addr(), "/").interim, [], "HTTP/1 gets none");
}

#[test]
fn a_stop_finishes_open_streams_and_tells_the_client() {
    let gate = Arc::new(Gate::closed());
    let wait = gate.clone();
    let origin = Origin::start(move |_, reply| {
        wait.wait();
        reply.ok(&[KEPT], "late");
    });
    let mut larder = larder(&origin, "");
    let (busy, idle) = (H2::connect(larder.addr()), H2::connect(larder.addr()));
    let open = busy.begin("GET", "/", &[], true);
    origin.wait_for(1);
    larder.term();
    assert!(idle.closed().is_ok(), "GOAWAY without an error");
    gate.open();
    assert_eq!(busy.end(open).unwrap().text(), "late");
    assert!(busy.closed().is_ok());
    assert!(larder.wait_exit().success());
}

#[test]
fn hits_are_logged_and_the_origin_is_told_the_version() {
    let origin = origin();
    let text = config(&origin.url(), "", "").replace("h2c", "access_log = \"-\"\nh2c");
    let larder = Larder::with_config(&text);
    let client = H2::connect(larder.addr());
    // A page that may be stored is for everyone: its request tells nothing of one client.
    let shown = client.get("/shown").text().to_ascii_lowercase();
    assert!(shown.contains("(\"via\", \"1.1 larder\")") && !shown.contains("http2"), "{shown}");
    assert_eq!(client.post("/up", &[], b"up").text(), "up");
    assert_eq!(origin.last().get("via"), Some("2.0 larder"));
}

#[test]
fn http2_is_spoken_where_it_is_on() {
    let (papers, origin) = (Papers::issue(), origin());
    let (cert, key) = (papers.path("server.pem"), papers.path("server.key"));
    let larder = Larder::with_config(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n[https]\nlisten = \"127.0.0.1:0\"\nhttp2 = \
         false\ncertificates = [{{ cert = \"{cert}\", key = \"{key}\" }}]\n[[site]]\norigin = \
         \"{}\"\n",
        origin.url()
    ));
    let mut client = (*papers.client()).clone();
    client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let mut wire = Wire::connect_tls(larder.face("https"), &Arc::new(client), "127.0.0.1");
    assert_eq!(wire.get("/10", &[]).body, content(10));
    assert_eq!(wire.tls().alpn_protocol(), Some(&b"http/1.1"[..]));
    // Without h2c the preface is a request that is not understood.
    let mut plain = larder.connect();
    assert_eq!(plain.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").read().status, 505);
    plain.expect_closed();
}

#[test]
fn a_port_of_h2c_speaks_http1_too() {
    let origin = origin();
    let larder = larder(&origin, "");
    for request in ["GET /10 HTTP/1.1\r\nHost: a\r\n\r\n", "PRI\r\n\r\n"] {
        let mut wire = larder.connect();
        for byte in request.as_bytes().chunks(1) {
            wire.send(byte);
        }
        assert!([200, 400].contains(&wire.read().status));
    }
    assert_eq!(get_with(larder.addr(), "/10", &[]).body, content(10));
    assert_eq!(figure(&larder, "http2_connections"), 0);
}

#[test]
fn clients_of_others_are_served() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = both(&papers, &origin);
    let (plain, tls) = (larder.addr(), larder.face("https"));
    let authority = papers.path("authority.pem");
    let run = |program: &str, args: &[&str]| {
        let output = std::process::Command::new(program).args(args).output();
        let output = output.unwrap_or_else(|e| panic!("{program}: {e}"));
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let format = "%{http_version} %{http_code} %{size_download}";
    let url = format!("https://{tls}/26510");
    let curl = ["-s", "--cacert", &authority, "-o", "/dev/null", "-w", format, &url];
    assert_eq!(run("curl", &curl), "2 200 26510");
    let url = format!("http://{plain}/26510");
    let curl = ["-s", "--http2-prior-knowledge", "-o", "/dev/null", "-w", format, &url];
    assert_eq!(run("curl", &curl), "2 200 26510");
    let report = run("h2load", &["-n", "3000", "-c", "3", "-m", "50", &url]);
    assert!(report.contains("3000 succeeded, 0 failed, 0 errored"), "{report}");
    let url = format!("https://{tls}/100000");
    let report = run("h2load", &["-n", "300", "-c", "3", "-m", "50", &url]);
    assert!(report.contains("300 succeeded, 0 failed, 0 errored"), "{report}");
}

#[test]
fn h2spec_finds_no_fault() {
    let (papers, origin) = (Papers::issue(), origin());
    let larder = both(&papers, &origin);
    let program = source_root().join("tests/.cache/go/bin/h2spec");
    let port = larder.face("https").port().to_string();
    let args = ["-h", "127.0.0.1", "-p", &port, "-t", "-k", "--strict", "-o", "20", "-P", "/10"];
    let output = std::process::Command::new(&program).args(args).output();
    let output = output.unwrap_or_else(|e| {
        panic!("{}: {e}; scripts/test-deps.sh installs what tests need", program.display())
    });
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(report.contains("146 tests, 146 passed, 0 skipped, 0 failed"), "{report}");
}
