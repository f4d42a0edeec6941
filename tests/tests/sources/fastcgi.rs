//! A scripted FastCGI application: what it is told, what becomes of its answers, and of none.

#![allow(clippy::unwrap_used)]

use larder_tests::fastcgi::{Application, END, STDERR, STDOUT, read_record, record};
use larder_tests::{Gate, Larder, Wire, get, get_with, wait_until};
use std::sync::Mutex;

const PAGE: &str = "Content-Type: text/html\r\nCache-Control: max-age=600\r\n\r\npage";

fn before(application: &Application, lines: &str) -> Larder {
    let url = application.url();
    Larder::with_config(&format!("threads = 1\n[[site]]\n[site.origin]\nurl = \"{url}\"\n{lines}"))
}

#[test]
fn a_page_is_fetched_once_and_the_application_is_told_all_of_it() {
    let application = Application::start(|called, output| {
        output.answer(&format!(
            "Status: 200 Mine\nContent-Type: text/plain\nCache-Control: max-age=600\nX-A: \
             b\nConnection: close\nTransfer-Encoding: chunked\n\n{} {}",
            called.get("REQUEST_URI"),
            called.get("HTTP_X_ASKED"),
        ));
        true
    });
    let larder = before(&application, "params = [\"APP=one\", \"-SERVER_SOFTWARE\"]\n");
    let answer = get_with(larder.addr(), "/a%20b/c?d=e", &["X-Asked: yes", "X_Asked: no"]);
    assert_eq!(
        (answer.status_line.as_str(), answer.text()),
        ("HTTP/1.1 200 Mine", "/a%20b/c?d=e yes")
    );
    assert_eq!(answer.get("x-a"), Some("b"));
    get(larder.addr(), "/a%20b/c?d=e").assert_hit();
    let calls = application.calls();
    assert_eq!(calls.len(), 1);
    for (name, value) in [
        ("REQUEST_METHOD", "GET"),
        ("SCRIPT_NAME", ""),
        ("PATH_INFO", "/a b/c"),
        ("QUERY_STRING", "d=e"),
        ("SERVER_NAME", "site.test"),
        ("SERVER_PORT", "80"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("APP", "one"),
        ("SERVER_SOFTWARE", ""),
        ("HTTPS", ""),
        ("CONTENT_LENGTH", ""),
        ("HTTP_X_ASKED", "yes"),
    ] {
        assert_eq!(calls[0].get(name), value, "{name}");
    }
    assert!(calls[0].keep);
}

#[test]
fn fields_past_the_cache_become_no_others_variables() {
    let application = Application::start(|_, output| {
        output.answer("Content-Type: text/plain\n\nok");
        true
    });
    let larder = before(&application, "");
    let mut wire = larder.connect();
    wire.send(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Type: text/plain\r\nX-User: \
         real\r\nX_User: forged\r\nProxy: http://evil.test\r\nCookie: a=b\r\nCookie: \
         c=d\r\n\r\nbody",
    );
    wire.read().assert_status(200);
    let called = &application.calls()[0];
    assert_eq!(called.body, b"body");
    for (name, value) in [
        ("HTTP_X_USER", "real"),
        ("HTTP_PROXY", ""),
        ("HTTP_COOKIE", "a=b; c=d"),
        ("CONTENT_LENGTH", "4"),
        ("CONTENT_TYPE", "text/plain"),
        ("HTTP_CONTENT_TYPE", ""),
        ("HTTP_CONTENT_LENGTH", ""),
    ] {
        assert_eq!(called.get(name), value, "{name}");
    }
}

#[test]
fn https_is_told_where_the_client_came_by_it() {
    let application = Application::start(|called, output| {
        output.answer(&format!(
            "Content-Type: a/b\n\n{} {} {}",
            called.get("HTTPS"),
            called.get("REQUEST_SCHEME"),
            called.get("SERVER_PORT")
        ));
        true
    });
    let url = application.url();
    let larder = Larder::with_config(&format!(
        "[http]\nlisten = [\"127.0.0.1:0\"]\ntrusted_proxies = [\"127.0.0.1\"]\n[[site]]\norigin = \
         \"{url}\"\n"
    ));
    assert_eq!(get(larder.addr(), "/").text(), " http 80");
    let secure = get_with(larder.addr(), "/", &["X-Forwarded-Proto: https"]);
    assert_eq!(secure.text(), "on https 443");
}

#[test]
fn bodies_of_any_length_reach_it_whole() {
    let application = Application::start(|called, output| {
        let length = called.get("CONTENT_LENGTH");
        output.answer(&format!("Content-Type: a/b\n\n{length} {}", called.body.len()));
        true
    });
    let larder = before(&application, "");
    let body: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let mut wire = larder.connect();
    wire.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()));
    wire.send(&body);
    assert_eq!(wire.read().text(), "1000000 1000000");
    // The application is told the length of a body that comes in chunks, too.
    for size in [100_000, 1_000_000] {
        wire.send("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        for piece in body[..size].chunks(70_000) {
            wire.send(format!("{:x}\r\n", piece.len())).send(piece).send("\r\n");
        }
        wire.send("0\r\n\r\n");
        assert_eq!(wire.read().text(), format!("{size} {size}"));
    }
    wire.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(wire.read().text(), "0 0");
    let calls = application.calls();
    assert!(calls.iter().take(3).all(|called| called.body == body[..called.body.len()]));
}

#[test]
fn a_connection_is_kept_and_each_request_has_a_number_of_its_own() {
    let application = Application::start(|_, output| {
        output.answer(PAGE);
        true
    });
    let larder = before(&application, "idle_timeout = \"1m\"\n");
    for n in 0..80 {
        assert_eq!(get(larder.addr(), &format!("/{n}")).text(), "page");
    }
    let calls = application.calls();
    assert_eq!(
        calls.iter().map(|called| called.connection).max(),
        Some(1),
        "64 requests, then a new one"
    );
    assert!(calls.windows(2).all(|pair| pair[0].id != pair[1].id));
}

/// Records behind the end of an answer are not taken for the answer to the next request.
#[test]
fn bytes_that_nobody_asked_for_reach_nobody() {
    let application = Application::start(|called, output| {
        let poison = PAGE.replace("page", "poison");
        let poison = |id| [record(STDOUT, id, poison.as_bytes(), 0), record(END, id, &[0; 8], 0)];
        let (own, next) = (called.id, called.id % 8 + 1);
        match called.connection {
            // With the answer: as if it were that to the next request.
            0 => {
                let answer =
                    [record(STDOUT, own, PAGE.as_bytes(), 0), record(END, own, &[0; 8], 0)];
                output.raw(&[answer.concat(), poison(next).concat()].concat());
            }
            // Late, when the next request has come.
            1 if called.number == 1 => {
                output.raw(&poison(own - 1).concat()).answer(PAGE);
            }
            _ => {
                output.answer(PAGE);
            }
        }
        true
    });
    let larder = before(&application, "idle_timeout = \"1m\"\n");
    for n in 0..5 {
        assert_eq!(get(larder.addr(), &format!("/{n}")).text(), "page");
    }
    let calls = application.calls();
    let calls: Vec<_> = calls.iter().map(|called| (called.connection, called.number)).collect();
    assert_eq!(calls, [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]);
}

#[test]
fn a_connection_that_died_idle_is_replaced() {
    let application = Application::start(|called, output| {
        if called.connection == 0 && called.number == 1 {
            return false;
        }
        output.answer(PAGE);
        true
    });
    let larder = before(&application, "idle_timeout = \"1m\"\n");
    assert_eq!(get(larder.addr(), "/1").text(), "page");
    assert_eq!(get(larder.addr(), "/2").assert_status(200).text(), "page");
    let connections: Vec<_> = application.calls().iter().map(|called| called.connection).collect();
    assert_eq!(connections, [0, 0, 1]);
}

/// A request that may have had its effect is not sent again.
#[test]
fn a_post_is_not_repeated() {
    let application = Application::start(|called, output| {
        if called.get("REQUEST_METHOD") == "POST" {
            return false;
        }
        output.answer(PAGE);
        true
    });
    let larder = before(&application, "idle_timeout = \"1m\"\n");
    assert_eq!(get(larder.addr(), "/1").text(), "page");
    let mut wire = larder.connect();
    wire.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
    wire.read().assert_status(502);
    let posts = application.calls();
    assert_eq!(posts.iter().filter(|called| called.get("REQUEST_METHOD") == "POST").count(), 1);
}

/// Every answer is asked for twice: what is not complete is not stored.
#[track_caller]
fn is_never_stored(
    what: &str,
    status: u16,
    answer: impl Fn(u16) -> Vec<u8> + Send + Sync + 'static,
) {
    let application = Application::start(move |called, output| {
        output.raw(&answer(called.id));
        false
    });
    let larder = before(&application, "");
    for _ in 0..2 {
        let mut wire = larder.connect();
        wire.send_get("/", &["Host: site.test"]);
        match wire.try_read_for("GET") {
            Ok(answer) => {
                assert_eq!(answer.status, status, "{what}");
            }
            Err(_) => assert_eq!(status, 0, "{what}"),
        }
    }
    assert_eq!(application.calls().len(), 2, "{what}");
}

#[test]
fn an_answer_that_is_not_complete_is_never_stored() {
    fn end(id: u16, status: u8) -> Vec<u8> {
        record(END, id, &[0, 0, 0, 0, status, 0, 0, 0], 0)
    }
    let page = |id| record(STDOUT, id, PAGE.as_bytes(), 3);
    let long = PAGE.replace("Content-Type", "Content-Length: 9\nContent-Type");
    is_never_stored("no end", 0, page);
    is_never_stored("half a record", 0, move |id| page(id)[..65].to_vec());
    is_never_stored("an end of another request", 0, move |id| [page(id), end(id + 1, 0)].concat());
    is_never_stored("an end that says no", 0, move |id| [page(id), end(id, 2)].concat());
    let short = long.clone();
    is_never_stored("less than announced", 0, move |id| {
        [record(STDOUT, id, short.as_bytes(), 0), end(id, 0)].concat()
    });
    is_never_stored("nothing", 502, |_| Vec::new());
    is_never_stored("no head", 502, |id| end(id, 0));
    is_never_stored("half a head", 502, move |id| {
        [record(STDOUT, id, b"A: b\n", 0), end(id, 0)].concat()
    });
    is_never_stored("HTTP", 502, |_| b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec());
    is_never_stored("another id", 502, move |id| page(id + 1));
    is_never_stored("no field", 502, |id| record(STDOUT, id, b"<html>\n\n", 0));
    is_never_stored("a large head", 502, |id| record(STDOUT, id, &[b'a'; 65_535], 0).repeat(2));
    is_never_stored("overloaded", 503, |id| end(id, 2));
    is_never_stored("cannot multiplex", 503, |id| end(id, 1));
    is_never_stored("no responder", 502, |id| end(id, 3));
}

#[test]
fn records_may_come_byte_by_byte() {
    let application = Application::start(|called, output| {
        let answer = [
            record(STDOUT, called.id, PAGE.as_bytes(), 255),
            record(STDERR, called.id, b"", 0),
            record(STDOUT, called.id, b"", 9),
            record(END, called.id, &[0; 8], 1),
        ];
        for byte in answer.concat() {
            output.raw(&[byte]);
        }
        true
    });
    let larder = before(&application, "");
    assert_eq!(get(larder.addr(), "/").text(), "page");
    get(larder.addr(), "/").assert_hit();
}

#[test]
fn a_page_that_is_flushed_piecewise_arrives_piecewise() {
    let gate = Gate::closed();
    let opened = gate.clone();
    let application = Application::start(move |_, output| {
        output.record(STDOUT, PAGE.as_bytes());
        opened.wait();
        output.record(STDOUT, b" and more").end(0);
        true
    });
    let larder = before(&application, "");
    let (mut first, mut second) = (larder.connect(), larder.connect());
    for wire in [&mut first, &mut second] {
        wire.send_get("/", &["Host: site.test"]);
        assert_eq!(wire.read_head().status, 200);
        assert_eq!(wire.read_chunked_bytes(4), b"page");
    }
    assert_eq!(application.calls().len(), 1, "two clients, one fetch");
    gate.open();
    for wire in [&mut first, &mut second] {
        assert_eq!(wire.read_chunked_bytes(9), b" and more");
    }
    wait_until("the page to be stored", || get(larder.addr(), "/").is_hit());
    assert_eq!(get(larder.addr(), "/").text(), "page and more");
}

/// The one process is free for others while a client takes its time over an answer.
#[test]
fn a_slow_client_holds_no_process() {
    let long = "x".repeat(900_000);
    let body = long.clone();
    let application = Application::start(move |called, output| {
        let large = called.get("REQUEST_URI").starts_with("/large");
        let head = "Content-Type: text/plain\r\nCache-Control: private\r\n\r\n";
        let answer = format!("{head}{}", if large { &body } else { "small" });
        for piece in answer.as_bytes().chunks(50_000) {
            output.record(STDOUT, piece);
        }
        output.end(0);
        true
    });
    let larder = before(&application, "max_connections = 1\n");
    let mut slow: Vec<Wire> = (0..3).map(|_| Wire::connect_narrow(larder.addr())).collect();
    for wire in &mut slow {
        wire.send_get("/large", &["Host: site.test"]);
    }
    assert_eq!(get(larder.addr(), "/small").text(), "small");
    for wire in &mut slow {
        assert_eq!(wire.read().text(), long);
    }
}

#[test]
fn a_stale_page_is_served_while_the_application_is_away() {
    let application = Application::start(|called, output| {
        match called.number + called.connection {
            0 => output.answer(
                "Content-Type: a/b\nCache-Control: max-age=1, stale-if-error=600\nAge: 1\n\nold",
            ),
            _ => output.end(2),
        };
        false
    });
    let larder = before(&application, "");
    assert_eq!(get(larder.addr(), "/").text(), "old");
    assert_eq!(get(larder.addr(), "/").assert_status(200).text(), "old");
    assert_eq!(application.calls().len(), 2);
}

#[test]
fn redirects_and_heads() {
    let application = Application::start(|called, output| {
        match called.get("REQUEST_URI") {
            "/local" => output.answer("Location: /there?a=b\n\n"),
            "/client" => output.answer("Location: http://other.test/\n\n"),
            "/circle" => output.answer("Location: /circle\n\n"),
            uri => output.answer(&format!(
                "Content-Type: a/b\n\n{} {uri} {}",
                called.get("REQUEST_METHOD"),
                called.get("QUERY_STRING")
            )),
        };
        true
    });
    let larder = before(&application, "");
    assert_eq!(get(larder.addr(), "/local").text(), "GET /there?a=b a=b");
    let mut wire = larder.connect();
    wire.send("POST /local HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
    assert_eq!(wire.read().text(), "GET /there?a=b a=b");
    let client = get(larder.addr(), "/client");
    assert_eq!((client.status, client.get("location")), (302, Some("http://other.test/")));
    get(larder.addr(), "/circle").assert_status(502);
    // The output to a HEAD is read, and the connection kept.
    let connections = |calls: Vec<larder_tests::fastcgi::Called>| {
        calls.iter().map(|called| called.connection).max()
    };
    let before = connections(application.calls());
    assert_eq!(wire.ask("HEAD", "/head", &["Host: a"]).status, 200);
    assert_eq!(wire.get("/after", &[]).text(), "GET /after ");
    assert_eq!(connections(application.calls()), before);
}

#[test]
fn what_it_writes_to_stderr_is_logged_with_the_request() {
    let application = Application::start(|_, output| {
        output.record(STDERR, b"PHP Notice:  first\nsec").record(STDERR, b"ond \x1b[31m\n");
        output.answer(PAGE);
        true
    });
    let larder = before(&application, "");
    let trace = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    get_with(larder.addr(), "/a?b", &[trace]);
    let about = format!(
        "larder: {}: GET site.test/a?b trace=4bf92f3577b34da6a3ce929d0e0e4736: ",
        application.url()
    );
    wait_until("both lines", || {
        let printed = larder.stderr();
        printed.contains(&format!("{about}PHP Notice:  first\n"))
            && printed.contains(&format!("{about}second [31m\n"))
    });
}

/// A client that leaves before the answer begins: the application is told.
#[test]
fn a_request_that_is_given_up_is_aborted() {
    let (told, gate) = (Gate::closed(), Gate::closed());
    let (tell, asked) = (told.clone(), gate.clone());
    let heard = std::sync::Arc::new(Mutex::new(None));
    let hears = heard.clone();
    let application = Application::start(move |_, output| {
        asked.open();
        *hears.lock().unwrap() = read_record(output.stream());
        tell.open();
        false
    });
    let larder = before(&application, "");
    let mut wire: Wire = larder.connect();
    wire.send_get("/", &["Host: site.test"]);
    gate.wait();
    drop(wire);
    told.wait();
    assert_eq!(*heard.lock().unwrap(), Some((2, 1, Vec::new())), "FCGI_ABORT_REQUEST");
}
