//! Runs against small servers of this module, over real sockets.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use super::*;
use crate::load::{Arrivals, Operation, Verb, value};

/// Source of one target, endless or with a limit.
struct Same(&'static str, u64);

impl Source for Same {
    fn next(&mut self, operation: &mut Operation) -> bool {
        operation.key.clear();
        operation.key.extend_from_slice(self.0.as_bytes());
        operation.verb = Verb::Get;
        self.1 = self.1.saturating_sub(1);
        self.1 > 0
    }
}

/// A trace: requests at equal gaps, limited in number.
struct Timed {
    gap: Duration,
    lines: u32,
    read: u32,
}

impl Source for Timed {
    fn next(&mut self, operation: &mut Operation) -> bool {
        operation.at = Some(self.gap * self.read);
        self.read += 1;
        self.read <= self.lines && Same("/page", u64::MAX).next(operation)
    }
}

fn for_ever(target: &'static str) -> impl Fn(usize) -> Box<dyn Source> {
    move |_| Box::new(Same(target, u64::MAX))
}

/// A server with one thread per connection; `answer` makes the bytes for the n-th request, `None`
/// closes.
fn server(
    answer: impl Fn(usize) -> Option<Vec<u8>> + Send + Sync + 'static,
) -> (Address, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = Address::Tcp(listener.local_addr().expect("its address"));
    let connections = Arc::new(AtomicUsize::new(0));
    let (answer, count) = (Arc::new(answer), Arc::clone(&connections));
    let requests = Arc::new(AtomicUsize::new(0));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            count.fetch_add(1, Ordering::SeqCst);
            let (answer, requests) = (Arc::clone(&answer), Arc::clone(&requests));
            thread::spawn(move || serve(&stream, &*answer, &requests));
        }
    });
    (address, connections)
}

fn serve(stream: &TcpStream, answer: &dyn Fn(usize) -> Option<Vec<u8>>, requests: &AtomicUsize) {
    stream.set_nodelay(true).expect("nodelay");
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|length| length > 0) {
        if line == "\r\n" {
            let Some(bytes) = answer(requests.fetch_add(1, Ordering::SeqCst)) else { return };
            let mut to = stream;
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
        line.clear();
    }
}

/// A server of one connection, which ends after some answers.
fn mortal(answers: usize) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = Address::Tcp(listener.local_addr().expect("its address"));
    thread::spawn(move || {
        let (stream, _) = listener.accept().expect("the client");
        drop(listener);
        serve(&stream, &|n| ok(b"hello").filter(|_| n < answers), &AtomicUsize::new(0));
    });
    address
}

fn ok(body: &[u8]) -> Option<Vec<u8>> {
    Some(
        [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), body]
            .concat(),
    )
}

fn http(address: Address) -> Plan {
    Plan::new(address, Protocol::Http { host: "test".to_owned(), fields: Vec::new() })
}

fn requests(count: u64) -> Until {
    Until { requests: Some(count), time: None }
}

#[track_caller]
fn sums_agree(run: &Run) {
    let lost: u64 = run
        .errors
        .iter()
        .filter(|(kind, _)| !kind.starts_with("connect: ") && *kind != "unasked bytes")
        .map(|(_, count)| count)
        .sum();
    assert_eq!(run.requests, run.answers + run.wrong + lost, "{:?}", run.errors);
    assert_eq!(run.latency.len(), run.answers);
    assert_eq!(run.seconds.iter().map(|second| second.answers).sum::<u64>(), run.answers);
    assert_eq!(run.seconds.iter().map(|second| second.received).sum::<u64>(), run.received);
}

fn run_plan(plan: &Plan) -> Run {
    let run = run(plan, &for_ever("/page"), &mut |_, _| {}).expect("a run");
    sums_agree(&run);
    run
}

#[test]
fn a_closed_loop_asks_as_often_as_it_is_told() {
    for (connections, threads, depth) in [(1, 1, 1), (5, 2, 1), (3, 3, 8), (2, 1, 100)] {
        let (address, made) = server(|_| ok(b"hello"));
        let plan = Plan { connections, threads, depth, until: requests(1001), ..http(address) };
        let run = run_plan(&plan);
        assert_eq!((run.requests, run.answers, run.errors.len()), (1001, 1001, 0));
        assert_eq!(run.received, 1001 * 43);
        assert_eq!(made.load(Ordering::SeqCst), connections);
    }
}

#[test]
fn virtual_users_ask_so_many_times_each_and_leave() {
    let (address, made) = server(|_| ok(b"hello"));
    let plan = Plan {
        connections: 7,
        threads: 2,
        per_connection: Some(11),
        ramp_up: Duration::from_millis(20),
        ..http(address)
    };
    assert_eq!(run_plan(&plan).answers, 77);
    assert_eq!(made.load(Ordering::SeqCst), 7);
}

#[test]
fn a_new_connection_for_each_request_where_it_is_wanted() {
    let (address, made) = server(|_| ok(b"hello"));
    let plan =
        Plan { connections: 4, reconnect: true, until: requests(100), ..http(address.clone()) };
    assert_eq!(run_plan(&plan).answers, 100);
    assert_eq!(made.load(Ordering::SeqCst), 100);
    let pace = Pace::Open { rate: 2000.0, arrivals: Arrivals::Even };
    let plan =
        Plan { connections: 4, reconnect: true, pace, until: requests(100), ..http(address) };
    assert_eq!(run_plan(&plan).answers, 100);
    assert_eq!(made.load(Ordering::SeqCst), 200);
}

#[test]
fn what_became_due_during_a_stall_is_asked_on_new_connections_too() {
    let (address, made) = server(|n| {
        if n == 0 {
            thread::sleep(Duration::from_millis(100));
        }
        ok(b"hello")
    });
    let pace = Pace::Open { rate: 2000.0, arrivals: Arrivals::Even };
    let plan = Plan { connections: 1, reconnect: true, pace, until: requests(50), ..http(address) };
    let run = run_plan(&plan);
    assert_eq!((run.answers, run.errors.len()), (50, 0), "{:?}", run.errors);
    assert_eq!(made.load(Ordering::SeqCst), 50);
}

#[test]
fn an_open_loop_asks_exactly_at_its_rate() {
    let (address, _) = server(|_| ok(b"hello"));
    for arrivals in [Arrivals::Even, Arrivals::Poisson] {
        let plan = Plan {
            connections: 3,
            threads: 2,
            pace: Pace::Open { rate: 2000.0, arrivals },
            warm_up: Duration::from_millis(100),
            until: Until { time: Some(Duration::from_millis(500)), requests: None },
            ..http(address.clone())
        };
        let run = run_plan(&plan);
        match arrivals {
            Arrivals::Even => assert_eq!(run.requests, 1000),
            Arrivals::Poisson => assert!((800..1200).contains(&run.requests), "{}", run.requests),
        }
        assert_eq!(run.service.as_ref().map(|service| service.len()), Some(run.answers));
    }
}

#[test]
fn a_source_that_ends_ends_the_run() {
    let (address, _) = server(|_| ok(b"hello"));
    let plan = Plan { connections: 3, depth: 4, ..http(address) };
    let run = run(&plan, &|_| Box::new(Same("/page", 51)), &mut |_, _| {}).expect("a run");
    assert_eq!((run.requests, run.answers), (50, 50));
}

#[test]
fn what_goes_wrong_is_counted_by_what_it_was() {
    let (address, _) = server(|n| match n % 10 {
        0 => Some(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec()),
        1 => None,
        2 => Some(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHELLO".to_vec()),
        3 => Some(b"not HTTP at all\r\n\r\n".to_vec()),
        4 => Some(
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: \
            close\r\n\r\nhello"
                .to_vec(),
        ),
        5 => Some(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: \
             chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
                .to_vec(),
        ),
        6 => Some(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: \
            5\r\n\r\nhello"
                .to_vec(),
        ),
        _ => ok(b"hello"),
    });
    // The first page counts as the right one: this one precedes the others.
    let first = Plan { until: requests(100), check: Check::Bytes, ..http(address) };
    let run = run_plan(&first);
    let count = |kind: &str| run.errors.get(kind).copied().unwrap_or(0);
    assert_eq!(run.requests, 100);
    assert_eq!(count("status 503"), 10, "{:?}", run.errors);
    assert_eq!(count("closed"), 10, "{:?}", run.errors);
    assert_eq!(count("malformed: not an HTTP/1 response"), 10, "{:?}", run.errors);
    // The first page was HELLO.
    assert_eq!((run.answers, run.wrong), (10, 60));
}

#[test]
fn an_answer_that_does_not_come_is_a_timeout_and_others_go_on() {
    let (address, _) = server(|n| if n % 5 == 4 { Some(Vec::new()) } else { ok(b"hello") });
    let plan = Plan { until: requests(20), timeout: Duration::from_millis(60), ..http(address) };
    let run = run_plan(&plan);
    assert_eq!(
        (run.requests, run.answers, run.errors.get("timeout")),
        (20, 16, Some(&4)),
        "{:?}",
        run.errors
    );
}

#[test]
fn a_stall_is_in_the_latency_of_all_that_were_due_meanwhile() {
    let stalled = Duration::from_millis(300);
    let (address, _) = server(move |n| {
        if n == 100 {
            thread::sleep(stalled);
        }
        ok(b"hello")
    });
    let pace = Pace::Open { rate: 1000.0, arrivals: Arrivals::Even };
    let plan = Plan { pace, until: requests(1000), ..http(address) };
    let run = run_plan(&plan);
    // 300 requests were due during the stall, and 200 of them waited more than 100 ms; more if the
    // machine stalls too, never fewer.
    let slow = |of: &hdrhistogram::Histogram<u64>| of.len() - of.count_between(0, 100_000_000);
    let (late, itself) = (slow(&run.latency), slow(&run.service.expect("an open loop's")));
    assert!(late >= 150, "{late}");
    assert!(
        (1..=late / 5).contains(&itself),
        "{itself} of {late}: only the one that stalled was slow itself"
    );
}

#[test]
fn values_are_checked_and_large_ones_arrive_in_pieces() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = Address::Tcp(listener.local_addr().expect("its address"));
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the client");
        // `*2 $3 GET $5 /page`, with line ends.
        let mut received = [0; 24];
        for n in 0.. {
            if stream.read_exact(&mut received).is_err() {
                return;
            }
            let mut body = Vec::new();
            value::fill(b"/page", 1_000_000, &mut body);
            body[999_999] ^= u8::from(n % 4 == 3);
            stream.write_all(b"$1000000\r\n").expect("head");
            stream.write_all(&body).expect("value");
            stream.write_all(b"\r\n").expect("end");
        }
    });
    let plan =
        Plan { until: requests(12), check: Check::Bytes, ..Plan::new(address, Protocol::Redis) };
    let run = run_plan(&plan);
    assert_eq!((run.answers, run.wrong, run.hits), (9, 3, 9));
}

#[test]
fn what_was_due_when_the_server_went_is_counted_at_the_end_of_the_run() {
    let even = Pace::Open { rate: 100_000.0, arrivals: Arrivals::Even };
    let recorded = Pace::Recorded { speed: 1.0 };
    let (second, millisecond) = (Duration::from_secs(1), Duration::from_millis(1));
    let patient = |pace| Plan { pace, connections: 2, timeout: 60 * second, ..http(mortal(5)) };
    let end = Until { time: Some(50 * millisecond), requests: None };
    for (what, plan, gap, due) in [
        // To its end, with connections that keep retrying.
        (
            "trace to its end",
            Plan { until: end, timeout: 20 * millisecond, ..patient(recorded) },
            millisecond,
            50,
        ),
        // Until connections are given up.
        ("trace", patient(recorded), Duration::ZERO, 100),
        ("rate", Plan { until: requests(80), ..patient(even) }, Duration::ZERO, 80),
        ("users", Plan { per_connection: Some(25), ..patient(even) }, Duration::ZERO, 50),
        (
            "users with a trace",
            Plan { per_connection: Some(20), ..patient(recorded) },
            Duration::ZERO,
            40,
        ),
    ] {
        let lines = if plan.pace == recorded { 100 } else { u32::MAX };
        let source = |_| Box::new(Timed { gap, lines, read: 0 }) as Box<dyn Source>;
        let run = run(&plan, &source, &mut |_, _| {}).expect("a run");
        sums_agree(&run);
        assert_eq!((run.requests, run.answers), (due, 5), "{what}: {:?}", run.errors);
        assert!(run.errors["not sent in time"] > 0, "{what}: {:?}", run.errors);
    }
}

#[test]
fn nobody_there_is_said_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = Address::Tcp(listener.local_addr().expect("its address"));
    drop(listener);
    let plan = Plan { connections: 3, threads: 2, ..http(address) };
    let error = run(&plan, &for_ever("/"), &mut |_, _| {}).expect_err("no server");
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
}

#[test]
fn a_run_that_is_stopped_reports_what_it_measured() {
    let (address, _) = server(|_| ok(b"hello"));
    let plan = Plan { connections: 2, ..http(address) };
    let mut told = 0;
    let stop = plan.stop.clone();
    let run = run(&plan, &for_ever("/"), &mut |_, second| {
        told += second.answers;
        stop.set();
    });
    let run = run.expect("a run");
    sums_agree(&run);
    assert!(told > 0 && told <= run.answers);
}

#[test]
fn a_run_that_is_stopped_does_not_wait_for_a_server_that_does_not_answer() {
    let stop = Stop::default();
    let operation = stop.clone();
    let (address, _) = server(move |_| {
        operation.set();
        loop {
            thread::park();
        }
    });
    let plan = Plan { stop, timeout: Duration::from_secs(60), ..http(address) };
    let run = run(&plan, &for_ever("/"), &mut |_, _| {}).expect("a run");
    assert_eq!(run.answers, 0);
    // Waiting to the end would have caused a timeout.
    assert!(run.errors.is_empty(), "{:?}", run.errors);
}
