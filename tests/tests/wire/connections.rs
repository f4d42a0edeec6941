//! Connections and messages: keep-alive, pipelining, chunks, trailers, HEAD, Expect, interim
//! answers, upgrades, forms of targets.

use larder_tests::{Gate, Larder, Origin};
use std::io::{Read, Write};

const FRESH: &[&str] = &["Cache-Control: max-age=60"];

#[test]
fn a_connection_of_http_1_1_is_kept() {
    let origin = Origin::serving(FRESH, "page");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    for _ in 0..5 {
        let answer = wire.get("/", &[]);
        assert_eq!((answer.status, answer.text()), (200, "page"));
    }
    assert!(wire.is_idle());
}

/// A kilobyte each (docs/decisions/0010-connections-at-rest.md), also after a request that waited.
#[test]
fn idle_connections_hold_little_memory() {
    const NUMBER: u64 = 4000;
    let origin = Origin::start(|seen, reply| {
        reply.answer(200, if seen.target == "/" { FRESH } else { &[] }, "x".repeat(3000));
    });
    let larder =
        Larder::serve(&["--http", "127.0.0.1:0", "--threads", "1", "--origin", &origin.url()]);
    let opened = |number: u64| {
        let mut wire = larder.connect();
        let targets: &[&str] =
            if number.is_multiple_of(20) { &["/", "/passed", "/"] } else { &["/"] };
        for target in targets {
            assert_eq!(wire.get(target, &[]).text().len(), 3000);
        }
        wire
    };
    let warm: Vec<_> = (0..500).map(opened).collect();
    let before = larder.usage().rss;
    let idle: Vec<_> = (0..NUMBER).map(opened).collect();
    let more = larder.usage().rss.saturating_sub(before) / NUMBER;
    println!("{more} bytes for each of {} connections besides {}", idle.len(), warm.len());
    assert!(more <= 1024, "{more} bytes for each connection");
}

#[test]
fn connection_close_closes_after_the_answer() {
    let origin = Origin::serving(FRESH, "page");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    let answer = wire.get("/", &["Connection: close"]);
    assert_eq!((answer.text(), answer.get("connection")), ("page", Some("close")));
    wire.expect_closed();
}

#[test]
fn http_1_0_closes_unless_it_asks_to_stay() {
    let origin = Origin::serving(FRESH, "page");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.send("GET / HTTP/1.0\r\nHost: site.test\r\nConnection: keep-alive\r\n\r\n");
    let answer = wire.read();
    assert_eq!((answer.text(), answer.get("connection")), ("page", Some("keep-alive")));
    wire.send("GET / HTTP/1.0\r\nHost: site.test\r\n\r\n");
    assert_eq!(wire.read().text(), "page");
    wire.expect_closed();
}

#[test]
fn http_1_0_may_leave_out_host() {
    let origin = Origin::serving(FRESH, "page");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(wire.read().text(), "page");
}

#[test]
fn http_1_0_never_gets_chunks() {
    let origin = Origin::start(|_, reply| {
        reply.chunked(200, FRESH).chunk("chunked ").chunk("page").end();
    });
    let larder = Larder::before(&origin.url());
    for _ in 0..2 {
        let mut wire = larder.connect();
        wire.send("GET / HTTP/1.0\r\nHost: site.test\r\n\r\n");
        let answer = wire.read();
        assert_eq!((answer.text(), answer.chunked), ("chunked page", false));
    }
}

#[test]
fn the_origin_is_spoken_to_in_http_1_1() {
    let origin = Origin::serving(&[], "ok");
    let larder = Larder::before(&origin.url());
    larder.connect().send("GET / HTTP/1.0\r\nHost: site.test\r\n\r\n").read();
    assert_eq!(origin.last().version, "HTTP/1.1");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let origin = Origin::start(|seen, reply| {
        reply.ok(FRESH, &seen.target);
    });
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.get("/warm", &[]);
    let targets: Vec<String> =
        (0..20).map(|n| if n % 3 == 0 { "/warm".into() } else { format!("/{n}") }).collect();
    let all: String =
        targets.iter().map(|t| format!("GET {t} HTTP/1.1\r\nHost: site.test\r\n\r\n")).collect();
    wire.send(all);
    for target in &targets {
        assert_eq!(wire.read().text(), target);
    }
    assert!(wire.is_idle());
}

#[test]
fn a_hit_waits_for_the_miss_before_it_on_the_same_connection() {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        if seen.target == "/slow" {
            door.wait();
        }
        reply.ok(FRESH, &seen.target);
    });
    let larder = Larder::before(&origin.url());
    larder.connect().get("/fast", &[]);
    let mut wire = larder.connect();
    wire.send_get("/slow", &["Host: site.test"]).send_get("/fast", &["Host: site.test"]);
    origin.wait_for(2);
    // Others are served meanwhile.
    larder.connect().get("/fast", &[]).assert_hit();
    assert!(wire.is_idle(), "an answer came before its turn");
    gate.open();
    assert_eq!(wire.read().text(), "/slow");
    assert_eq!(wire.read().text(), "/fast");
}

#[test]
fn head_in_a_pipeline_brings_no_body() {
    let origin = Origin::serving(FRESH, "page");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.get("/", &[]);
    wire.send(
        "HEAD / HTTP/1.1\r\nHost: site.test\r\n\r\nGET / HTTP/1.1\r\nHost: site.test\r\n\r\n",
    );
    let head = wire.read_for("HEAD");
    assert_eq!((head.status, head.get("content-length")), (200, Some("4")));
    assert!(head.is_hit());
    assert_eq!(wire.read().text(), "page");
}

#[test]
fn head_of_what_is_not_stored_fetches_it() {
    let origin = Origin::start(|seen, reply| {
        assert_eq!(seen.get("range"), None);
        match (seen.method.as_str(), seen.target.as_str()) {
            ("HEAD", "/private") => reply.head(200, &["Content-Length: 4"]),
            ("GET", "/private") => reply.ok(&["Cache-Control: private"], "mine"),
            ("GET", _) => reply.ok(FRESH, "page"),
            other => panic!("{other:?}"),
        };
    });
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    let host = "Host: site.test";
    let head = wire.ask("HEAD", "/", &[host, "Range: bytes=0-1"]);
    assert_eq!((head.status, head.get("content-length")), (200, Some("4")));
    assert!(!head.is_hit());
    assert!(wire.ask("HEAD", "/", &[host]).is_hit());
    assert_eq!(wire.get("/", &[]).assert_hit().text(), "page");
    assert_eq!(origin.count(), 1);
    // The connection goes on behind an answer whose body nobody wants.
    for _ in 0..2 {
        let head = wire.ask("HEAD", "/private", &[host]);
        assert_eq!((head.status, head.get("content-length")), (200, Some("4")));
    }
}

#[test]
fn head_of_a_stale_page_refreshes_it() {
    let origin = Origin::start(|seen, reply| {
        assert_eq!(seen.method, "GET");
        match seen.get("if-none-match") {
            None => reply.ok(&["ETag: \"1\"", "Cache-Control: max-age=0"], "old"),
            Some("\"1\"") => reply.ok(&["ETag: \"2\"", "Cache-Control: max-age=0"], "a new page"),
            Some(_) => reply.head(304, &["ETag: \"2\"", "Cache-Control: max-age=1000"]),
        };
    });
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    assert_eq!(wire.get("/", &[]).text(), "old");
    // A new page, and the same one confirmed.
    for _ in 0..2 {
        let head = wire.ask("HEAD", "/", &["Host: site.test"]);
        assert_eq!((head.status, head.get("content-length")), (200, Some("10")));
        assert!(!head.is_hit(), "{head:?}");
    }
    assert_eq!(wire.get("/", &[]).assert_hit().text(), "a new page");
    assert_eq!(origin.count(), 3);
}

#[test]
fn a_site_may_send_head_as_head() {
    let origin = Origin::start(|seen, reply| {
        match seen.method.as_str() {
            "HEAD" => reply.head(200, &["Content-Length: 4", "X-Method: HEAD"]),
            _ => reply.ok(FRESH, "page"),
        };
    });
    let larder = Larder::site(&origin.url(), "convert_head = false");
    let mut wire = larder.connect();
    let head = wire.ask("HEAD", "/", &["Host: site.test"]);
    assert_eq!((head.status, head.get("content-length")), (200, Some("4")));
    // Whatever the origin was asked for, a HEAD's answer never stands in for a page.
    assert_eq!(wire.get("/", &[]).text(), "page");
    assert_eq!(wire.get("/", &[]).assert_hit().text(), "page");
}

#[test]
fn a_chunked_answer_is_whole_on_a_miss_and_on_a_hit() {
    let origin = Origin::start(|_, reply| {
        reply.chunked(200, FRESH);
        for n in 0..100 {
            reply.chunk(format!("piece {n}\n"));
        }
        reply.end();
    });
    let larder = Larder::before(&origin.url());
    let whole: String = (0..100).map(|n| format!("piece {n}\n")).collect();
    let mut wire = larder.connect();
    assert_eq!(wire.get("/", &[]).text(), whole);
    assert_eq!(wire.get("/", &[]).assert_hit().text(), whole);
}

#[test]
fn a_chunked_request_reaches_the_origin_whole() {
    let origin = Origin::serving(&[], "ok");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.send("POST /form HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\n\r\n");
    wire.send("3\r\nabc\r\n").send("A\r\n0123456789\r\n").send("0\r\n\r\n");
    wire.read().assert_status(200);
    let seen = origin.last();
    assert_eq!((seen.method.as_str(), seen.body.as_slice()), ("POST", b"abc0123456789".as_slice()));
}

#[test]
fn a_request_with_a_length_reaches_the_origin_whole() {
    let origin = Origin::serving(&[], "ok");
    let larder = Larder::before(&origin.url());
    let body = "x".repeat(300_000);
    let mut wire = larder.connect();
    wire.send(format!(
        "PUT /form HTTP/1.1\r\nHost: site.test\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    wire.read().assert_status(200);
    let seen = origin.last();
    assert_eq!(seen.get("content-length"), Some("300000"));
    assert_eq!(seen.body, body.as_bytes());
}

#[test]
fn a_body_streams_to_the_origin_before_it_is_whole() {
    let origin = Origin::raw(|mut stream, _| {
        let mut got = Vec::new();
        while !got.windows(5).any(|w| w == b"first") {
            let mut piece = [0; 4096];
            match stream.read(&mut piece) {
                Ok(n) if n > 0 => got.extend_from_slice(&piece[..n]),
                _ => return,
            }
        }
        // Answering now tells the test that the first part is here while the second is not sent
        // yet.
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nearly");
    });
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.send(
        "POST / HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n",
    );
    assert_eq!(wire.read().text(), "early");
}

#[test]
fn trailers_come_through_with_their_fields() {
    let origin = Origin::start(|_, reply| {
        reply
            .chunked(200, &["Trailer: X-Sum", "Cache-Control: no-store"])
            .chunk("body")
            .raw("0\r\nX-Sum: 42\r\n\r\n");
    });
    let larder = Larder::before(&origin.url());
    let answer = larder.connect().get("/", &["TE: trailers"]);
    assert_eq!((answer.text(), answer.trailers.get("x-sum")), ("body", Some("42")));
}

#[test]
fn trailers_of_a_request_do_not_break_it() {
    let origin = Origin::serving(&[], "ok");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.send(
        "POST / HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\nTrailer: \
         X-Sum\r\n\r\n",
    );
    wire.send("3\r\nabc\r\n0\r\nX-Sum: 42\r\nHost: evil.test\r\nContent-Length: 9\r\n\r\n");
    wire.read().assert_status(200);
    let seen = origin.last();
    assert_eq!(seen.body, b"abc");
    assert_eq!((seen.trailers.get("host"), seen.trailers.get("content-length")), (None, None));
    assert_eq!(seen.get("host"), Some("site.test"));
}

#[test]
fn expect_100_continue_is_answered_before_the_body() {
    let origin = Origin::serving(&[], "ok");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.send(
        "POST / HTTP/1.1\r\nHost: site.test\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n",
    );
    assert_eq!(wire.read_head().status, 100);
    wire.send("body");
    assert_eq!(wire.read().text(), "ok");
    assert_eq!(origin.last().body, b"body");
}

#[test]
fn a_client_that_does_not_wait_for_100_is_served_too() {
    let origin = Origin::serving(&[], "ok");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.send(
        "POST / HTTP/1.1\r\nHost: site.test\r\nContent-Length: 4\r\nExpect: \
         100-continue\r\n\r\nbody",
    );
    assert_eq!(wire.read().text(), "ok");
    assert_eq!(wire.get("/next", &[]).status, 200);
    assert_eq!(origin.requests()[0].body, b"body");
}

#[test]
fn interim_answers_are_forwarded() {
    let origin = Origin::start(|_, reply| {
        reply
            .raw("HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n")
            .ok(FRESH, "page");
    });
    let larder = Larder::before(&origin.url());
    let answer = larder.connect().get("/", &[]);
    assert_eq!(answer.text(), "page");
    assert_eq!(answer.interim.len(), 1, "{answer:?}");
    let (status, fields) = &answer.interim[0];
    assert_eq!((*status, fields.get("link")), (103, Some("</style.css>; rel=preload")));
}

#[test]
fn an_early_hint_without_hints_is_not_forwarded() {
    let origin = Origin::start(|_, reply| {
        for fields in ["", "Set-Cookie: a=b\r\n", "Via: 1.1 peer\r\nDate: x\r\nServer: y\r\n"] {
            reply.raw(format!("HTTP/1.1 103 Early Hints\r\n{fields}\r\n"));
        }
        reply.raw("HTTP/1.1 102 Processing\r\n\r\n");
        reply.raw("HTTP/1.1 103 Early Hints\r\nX-Own: hint\r\n\r\n").ok(FRESH, "page");
    });
    let larder = Larder::before(&origin.url());
    let answer = larder.connect().get("/", &[]);
    assert_eq!(answer.text(), "page");
    let statuses: Vec<u16> = answer.interim.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [102, 103], "{answer:?}");
}

#[test]
fn an_early_hint_comes_before_the_final_answer_is_there() {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |_, reply| {
        reply.raw("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
        door.wait();
        reply.ok(FRESH, "page");
    });
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.send_get("/", &["Host: site.test"]);
    assert_eq!(wire.read_head().status, 103);
    gate.open();
    assert_eq!(wire.read().text(), "page");
}

#[test]
fn http_1_0_gets_no_interim_answers() {
    let origin = Origin::start(|_, reply| {
        reply.raw("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n").ok(FRESH, "page");
    });
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.send("GET / HTTP/1.0\r\nHost: site.test\r\n\r\n");
    let answer = wire.read();
    assert_eq!((answer.text(), answer.interim.len()), ("page", 0));
}

#[test]
fn an_upgrade_becomes_a_tunnel() {
    let origin = Origin::start(|seen, reply| {
        assert_eq!(seen.get("upgrade"), Some("websocket"));
        let mut stream =
            reply.head(101, &["Connection: Upgrade", "Upgrade: websocket"]).take_stream();
        let mut piece = [0; 1024];
        while let Ok(n) = stream.read(&mut piece) {
            if n == 0 || stream.write_all(&piece[..n].to_ascii_uppercase()).is_err() {
                break;
            }
        }
    });
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.send(
        "GET /chat HTTP/1.1\r\nHost: site.test\r\nConnection: Upgrade\r\nUpgrade: \
         websocket\r\n\r\n",
    );
    let head = wire.read_head();
    assert_eq!(head.status, 101);
    assert_eq!(head.fields.get("upgrade"), Some("websocket"));
    for word in ["hello", "again"] {
        wire.send(word);
        assert_eq!(wire.read_bytes(5), word.to_ascii_uppercase().as_bytes());
    }
    wire.finish_sending();
    wire.expect_closed();
}

#[test]
fn an_upgrade_the_origin_declines_is_an_ordinary_answer() {
    let origin = Origin::serving(&["Cache-Control: no-store"], "no tunnel here");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.send(
        "GET /chat HTTP/1.1\r\nHost: site.test\r\nConnection: Upgrade\r\nUpgrade: \
         websocket\r\n\r\n",
    );
    assert_eq!(wire.read().text(), "no tunnel here");
    assert_eq!(wire.get("/next", &[]).status, 200);
}

#[test]
fn an_absolute_target_is_the_same_page_as_its_path() {
    let origin = Origin::serving(FRESH, "page");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.ask("GET", "http://site.test/a?b=c", &["Host: site.test"]).assert_status(200);
    let seen = origin.last();
    assert_eq!((seen.target.as_str(), seen.get("host")), ("/a?b=c", Some("site.test")));
    wire.get("/a?b=c", &[]).assert_hit();
}

#[test]
fn an_absolute_target_without_a_path_is_the_root() {
    let origin = Origin::serving(FRESH, "root");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.ask("GET", "http://site.test", &["Host: site.test"]).assert_status(200);
    assert_eq!(origin.last().target, "/");
    wire.get("/", &[]).assert_hit();
}

#[test]
fn options_of_the_server_is_forwarded() {
    let origin = Origin::serving(&["Allow: GET"], "");
    let larder = Larder::before(&origin.url());
    let answer = larder.connect().ask("OPTIONS", "*", &["Host: site.test"]);
    assert_eq!(answer.status, 200);
    assert_eq!((origin.last().method.as_str(), origin.last().target.as_str()), ("OPTIONS", "*"));
}

#[test]
fn fields_named_by_connection_end_here() {
    let origin = Origin::serving(
        &["Cache-Control: max-age=60", "Connection: X-Hop", "X-Hop: origin", "X-End: end"],
        "page",
    );
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    let fields = [
        "Connection: X-Secret, keep-alive",
        "X-Secret: client",
        "Keep-Alive: 5",
        "TE: trailers",
        "X-End: end",
    ];
    for _ in 0..2 {
        let answer = wire.get("/", &fields);
        assert_eq!((answer.get("x-hop"), answer.get("x-end")), (None, Some("end")), "{answer:?}");
    }
    let seen = origin.last();
    assert_eq!(
        (seen.get("x-secret"), seen.get("keep-alive"), seen.get("x-end")),
        (None, None, Some("end"))
    );
}

#[test]
fn connections_to_the_origin_are_used_again() {
    let origin = Origin::serving(&["Cache-Control: no-store"], "page");
    let larder =
        Larder::serve(&["--http", "127.0.0.1:0", "--threads", "1", "--origin", &origin.url()]);
    let mut wire = larder.connect();
    for _ in 0..10 {
        wire.get("/", &[]).assert_status(200);
    }
    assert_eq!((origin.count(), origin.connections()), (10, 1));
}

#[test]
fn a_pooled_connection_that_died_is_replaced_without_an_error() {
    let origin = Origin::start(|seen, reply| {
        // Keep-alive is promised and broken: the connection closes after every answer.
        reply.ok(&["Cache-Control: no-store"], format!("{}", seen.number)).close();
    });
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    for n in 0..10 {
        assert_eq!(wire.get("/", &[]).text(), n.to_string());
    }
    assert_eq!(origin.count(), 10);
}
