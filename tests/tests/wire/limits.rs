//! Limits: what one client may take, and what it is told at the limit.

#![allow(clippy::unwrap_used)]

use larder_tests::{Admin, Gate, Larder, Origin, Wire, get, wait_until};
use std::io::Write;

fn with_limits(origin: &Origin, limits: &str) -> Larder {
    Larder::with_config(&format!(
        "[http]\nlimits = {{ {limits} }}\n[[site]]\norigin = \"{}\"",
        origin.url()
    ))
}

#[test]
fn a_head_that_is_too_large_is_431() {
    let origin = Origin::serving(&[], "");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    let line = format!("X-Large: {}\r\n", "a".repeat(1000));
    wire.send(format!("GET / HTTP/1.1\r\nHost: site.test\r\n{}\r\n", line.repeat(70)));
    wire.read().assert_status(431);
    wire.expect_closed();
    assert_eq!(origin.count(), 0);
}

#[test]
fn too_many_fields_are_431() {
    let origin = Origin::serving(&[], "");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.send(format!("GET / HTTP/1.1\r\nHost: site.test\r\n{}\r\n", "X: y\r\n".repeat(101)));
    wire.read().assert_status(431);
    wire.expect_closed();
    assert_eq!(origin.count(), 0);
    let mut wire = larder.connect();
    wire.send(format!("GET / HTTP/1.1\r\nHost: site.test\r\n{}\r\n", "X: y\r\n".repeat(90)));
    wire.read().assert_status(200);
}

#[test]
fn a_target_that_is_too_long_is_414() {
    let origin = Origin::serving(&[], "");
    let larder = Larder::before(&origin.url());
    let mut wire = larder.connect();
    wire.send_get(&format!("/{}", "a".repeat(17_000)), &["Host: site.test"]);
    wire.read().assert_status(414);
    wire.expect_closed();
    get(larder.addr(), &format!("/{}", "a".repeat(15_000))).assert_status(200);
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_body_that_announces_too_much_is_413() {
    let origin = Origin::serving(&[], "");
    let larder = with_limits(&origin, "request_body = \"1000\"");
    let mut wire = larder.connect();
    wire.send("POST / HTTP/1.1\r\nHost: site.test\r\nContent-Length: 1001\r\n\r\n");
    wire.read().assert_status(413);
    wire.expect_closed();
    assert_eq!(origin.count(), 0);
    let mut wire = larder.connect();
    wire.send(format!(
        "POST / HTTP/1.1\r\nHost: site.test\r\nContent-Length: 1000\r\n\r\n{}",
        "x".repeat(1000)
    ));
    wire.read().assert_status(200);
}

#[test]
fn chunks_that_grow_too_large_are_413() {
    let origin = Origin::serving(&[], "");
    let larder = with_limits(&origin, "request_body = \"1000\"");
    let mut wire = larder.connect();
    wire.send("POST / HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\n\r\n");
    for _ in 0..3 {
        wire.send(format!("190\r\n{}\r\n", "x".repeat(400)));
    }
    wire.send("0\r\n\r\n");
    wire.read().assert_status(413);
    wire.expect_closed();
    assert_eq!(origin.count(), 0, "the origin got a whole request");
}

#[test]
fn a_body_too_large_is_refused_before_100_continue() {
    let origin = Origin::serving(&[], "");
    let larder = with_limits(&origin, "request_body = \"1000\"");
    let mut wire = larder.connect();
    wire.send(
        "POST / HTTP/1.1\r\nHost: site.test\r\nContent-Length: 5000\r\nExpect: \
         100-continue\r\n\r\n",
    );
    assert_eq!(wire.read_head().status, 413);
}

#[test]
fn a_head_that_does_not_end_in_time_is_408() {
    let origin = Origin::serving(&[], "");
    let larder = with_limits(&origin, "header_timeout = \"300ms\"");
    let mut wire = larder.connect();
    wire.send("GET / HTTP/1.1\r\nHost: site.test\r\n");
    wire.read().assert_status(408);
    wire.expect_closed();
    assert_eq!(origin.count(), 0);
}

/// Slow loris: a byte now and then does not buy more time.
#[test]
fn a_head_that_drips_is_408_all_the_same() {
    let origin = Origin::serving(&[], "");
    let larder = with_limits(&origin, "header_timeout = \"500ms\"");
    let mut wire = larder.connect();
    wire.send("GET / HTTP/1.1\r\nHost: site.test\r\nX: ");
    let mut dripping = wire.stream().try_clone().unwrap();
    wait_until("the connection to be ended", || {
        dripping.write_all(b"y").is_err() || !wire.is_idle()
    });
    if let Ok(answer) = wire.try_read_for("GET") {
        answer.assert_status(408);
    }
    assert_eq!(origin.count(), 0);
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let origin = Origin::serving(&["Cache-Control: max-age=60"], "page");
    let larder = with_limits(&origin, "idle_timeout = \"2s\"");
    let mut wire = larder.connect();
    wire.get("/", &[]).assert_status(200);
    wire.expect_closed();
    let mut silent = larder.connect();
    silent.expect_closed();
}

#[test]
fn a_body_that_stops_arriving_is_408() {
    let origin = Origin::serving(&[], "");
    let larder = with_limits(&origin, "body_timeout = \"300ms\"");
    let mut wire = larder.connect();
    wire.send("POST / HTTP/1.1\r\nHost: site.test\r\nContent-Length: 100\r\n\r\nten bytes.");
    wire.read().assert_status(408);
    wire.expect_closed();
    assert_eq!(origin.count(), 0, "the origin got a whole request");
}

#[test]
fn a_client_that_stops_reading_is_dropped() {
    let body = "x".repeat(40_000_000);
    let origin = Origin::start(move |_, reply| {
        reply.ok(&["Cache-Control: no-store"], &body);
    });
    let larder = with_limits(&origin, "send_timeout = \"300ms\"");
    let before = larder.usage().sockets;
    let mut wire = larder.connect();
    wire.send_get("/", &["Host: site.test"]);
    origin.wait_for(1);
    wait_until("the connections to be dropped", || larder.usage().sockets <= before);
    assert!(wire.try_read_for("GET").is_err(), "more was buffered than any socket holds");
}

/// Before an origin whose connections are all in use, clients of one address take half of the
/// queue: others find a place in it.
#[test]
fn one_address_does_not_fill_the_queue_before_an_origin() {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        door.wait();
        reply.ok(&["Cache-Control: no-store"], &seen.target);
    });
    let larder = Larder::with_config(&format!(
        "threads = 1\n[http]\nlisten = \"127.0.0.1:0\"\ntrusted_proxies = [\"127.0.0.1\"]\n\
         [admin]\nlisten = \"127.0.0.1:0\"\n[[site]]\norigin = {{ url = \"{}\", \
         max_connections = 1, max_waiting = 4 }}",
        origin.url()
    ));
    let figure = format!("larder_origin_requests_total{{origin=\"{}\"}} ", origin.url());
    let asked = || {
        let figures = Admin::of(&larder).get("/metrics");
        let value =
            figures.text().lines().find_map(|line| line.strip_prefix(&figure)?.parse().ok());
        value.unwrap_or(0)
    };
    let mut clients: Vec<Wire> = Vec::new();
    let mut ask = |client: &str| {
        let mut wire = larder.connect();
        let number = clients.len();
        let client = format!("X-Forwarded-For: {client}");
        wire.send_get(&format!("/{number}"), &["Host: site.test", &client]);
        clients.push(wire);
        wait_until("the request to be counted", || asked() > number);
    };
    // One has the connection, two are in the queue, the fourth finds no place.
    for _ in 0..4 {
        ask("203.0.113.1");
    }
    ask("203.0.113.2");
    ask("2001:db8::1");
    // The queue is full.
    ask("203.0.113.3");
    gate.open();
    for (number, wire) in clients.iter_mut().enumerate() {
        let refused = number == 3 || number == 6;
        let answer = wire.read();
        assert_eq!(answer.status, if refused { 503 } else { 200 }, "{number}: {answer:?}");
    }
}

/// Of eight connections one client uses six, whatever it asks for: another client finds one.
#[test]
fn one_address_does_not_use_all_connections_to_an_origin() {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        if seen.target.starts_with("/slow") {
            door.wait();
        }
        reply.ok(&["Cache-Control: no-store"], &seen.target);
    });
    let larder = Larder::with_config(&format!(
        "threads = 1\n[http]\nlisten = \"127.0.0.1:0\"\ntrusted_proxies = [\"127.0.0.1\"]\n\
         [[site]]\norigin = {{ url = \"{}\", max_connections = 8 }}",
        origin.url()
    ));
    let ask = |target: &str, client: &str| {
        let mut wire = larder.connect();
        wire.send_get(target, &["Host: site.test", &format!("X-Forwarded-For: {client}")]);
        wire
    };
    let mut slow: Vec<Wire> =
        (0..20).map(|number| ask(&format!("/slow{number}"), "203.0.113.1")).collect();
    origin.wait_for(6);
    for number in 0..3 {
        let target = format!("/other{number}");
        assert_eq!(ask(&target, "203.0.113.2").read().text(), target);
    }
    let slow_ones =
        origin.requests().iter().filter(|seen| seen.target.starts_with("/slow")).count();
    assert_eq!(slow_ones, 6);
    gate.open();
    for wire in &mut slow {
        wire.read().assert_status(200);
    }
}

#[test]
fn connections_beyond_the_limit_are_told_so() {
    let origin = Origin::serving(&["Cache-Control: max-age=60"], "page");
    let larder = with_limits(&origin, "connections = 4");
    let mut wires: Vec<_> = (0..4).map(|_| larder.connect()).collect();
    for wire in &mut wires {
        wire.get("/", &[]).assert_status(200);
    }
    let mut fifth = larder.connect();
    fifth.send_get("/", &["Host: site.test"]);
    fifth.read().assert_status(503);
    fifth.expect_closed();
    // Those within it are not disturbed, and a place that becomes free is given again.
    wires[0].get("/", &[]).assert_hit();
    drop(wires.pop());
    wait_until("the place to be given again", || {
        let mut wire = larder.connect();
        wire.send_get("/", &["Host: site.test"]);
        wire.try_read_for("GET").is_ok_and(|answer| answer.status == 200)
    });
}

#[test]
fn many_pipelined_requests_do_not_grow_memory() {
    let origin = Origin::serving(&["Cache-Control: max-age=60"], "page");
    let larder = with_limits(&origin, "pipeline = 8");
    get(larder.addr(), "/");
    let mut wire = larder.connect();
    let many = "GET / HTTP/1.1\r\nHost: site.test\r\n\r\n".repeat(2000);
    let mut sending = wire.stream().try_clone().unwrap();
    let sender = std::thread::spawn(move || sending.write_all(many.as_bytes()).is_ok());
    for _ in 0..2000 {
        assert_eq!(wire.read().text(), "page");
    }
    assert!(sender.join().unwrap());
}

#[test]
fn a_head_of_the_origin_that_is_too_large_is_502() {
    let origin = Origin::start(|_, reply| {
        let line = format!("X-Large: {}", "a".repeat(1000));
        reply.head(200, &vec![line.as_str(); 2000]).close();
    });
    let larder = Larder::before(&origin.url());
    get(larder.addr(), "/").assert_status(502);
}

#[test]
fn an_origin_that_does_not_answer_in_time_is_504() {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |_, _| door.wait());
    let larder = Larder::with_config(&format!(
        "[[site]]\norigin = {{ url = \"{}\", first_byte_timeout = \"300ms\" }}",
        origin.url()
    ));
    get(larder.addr(), "/").assert_status(504);
    gate.open();
}

#[test]
fn an_origin_that_stops_in_the_middle_is_cut_off() {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |_, reply| {
        reply.head(200, &["Cache-Control: max-age=60", "Content-Length: 100"]).raw("half");
        door.wait();
    });
    let larder = Larder::with_config(&format!(
        "[[site]]\norigin = {{ url = \"{}\", between_bytes_timeout = \"300ms\" }}",
        origin.url()
    ));
    let mut wire = larder.connect();
    wire.send_get("/", &["Host: site.test"]);
    assert!(wire.try_read_for("GET").is_err(), "half an answer looked whole");
    gate.open();
}
