//! `larder slow` by bytes, and every fault it makes.
//!
//! Delays are what is tested here, so times are asserted: that nothing is shorter than it must be,
//! and where something must not take several times as long, with seconds to spare.

#![allow(clippy::unwrap_used)]

use larder_tests::helper::{free_port, source_root};
use larder_tests::slow_proxy::Logged;
use larder_tests::{Memcached, Origin, PATIENCE, SlowProxy, Started, Wire, larder, wait_until};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Bytes of which none is like its neighbour.
fn body() -> Vec<u8> {
    (0..20_000u32).map(|n| (n * 7 % 251) as u8).collect()
}

/// Sends [`body`] to whoever connects, and closes once the other side has.
fn talker() -> Origin {
    Origin::raw(|mut stream, _| {
        let _ = stream.write_all(&body());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        while stream.read(&mut [0; 512]).is_ok_and(|n| n > 0) {}
    })
}

fn named() -> Origin {
    Origin::start(|seen, reply| {
        reply.ok(&[], format!("body of {}", seen.target));
    })
}

/// What comes until the end, and how it ends.
fn all(addr: SocketAddr) -> (Vec<u8>, Option<ErrorKind>) {
    let mut bytes = Vec::new();
    let mut stream = match TcpStream::connect(addr) {
        Ok(stream) => stream,
        Err(error) => return (bytes, Some(error.kind())),
    };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let end = stream.read_to_end(&mut bytes).err().map(|error| error.kind());
    (bytes, end)
}

#[track_caller]
fn took_at_least(ms: u64, work: impl FnOnce()) {
    let begin = Instant::now();
    work();
    let took = begin.elapsed();
    assert!(took >= Duration::from_millis(ms), "{took:?} is less than {ms} ms");
}

#[track_caller]
fn wait_none_open(slow: &SlowProxy) {
    wait_until("connections to end", || {
        slow.usr1();
        slow.stderr()
            .lines()
            .rev()
            .find(|line| line.starts_with("connections"))
            .is_some_and(|line| line.contains(", open 0,"))
    });
}

#[test]
fn nothing_is_changed_without_options() {
    let origin = talker();
    let slow = SlowProxy::before(origin.addr(), &[]);
    assert_eq!(all(slow.addr()), (body(), None));
    assert!(slow.finish().contains("bytes to the server 0, to clients 20000\ndelays 0,"));
}

#[test]
fn bytes_are_later_and_bandwidth_stays() {
    let origin = named();
    let slow = SlowProxy::before(origin.addr(), &["--delay", "200ms", "--direction", "both"]);
    let mut wire = Wire::connect(slow.addr());
    took_at_least(400, || assert_eq!(wire.get("/a", &[]).text(), "body of /a"));
    took_at_least(400, || assert_eq!(wire.get("/b", &[]).text(), "body of /b"));
    drop(wire);
    // A long body is later as a whole, not piece by piece.
    let large = Origin::raw(|mut stream, _| {
        for _ in 0..100 {
            let _ = stream.write_all(&body());
        }
    });
    let slow = SlowProxy::before(large.addr(), &["--delay", "1s"]);
    let begin = Instant::now();
    assert_eq!(all(slow.addr()).0.len(), 2_000_000);
    let took = begin.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn a_connection_is_held_once_and_requests_each() {
    let origin = named();
    let slow = SlowProxy::before(origin.addr(), &["--per", "connection", "--delay", "300ms"]);
    let mut wire = Wire::connect(slow.addr());
    took_at_least(300, || drop(wire.get("/a", &[])));
    wire.get("/b", &[]);
    drop(wire);
    assert!(slow.wait_logged(2).iter().all(|request| request.held == 0.0));
    let said = slow.finish();
    let mean = said
        .split("\ndelays 1, mean ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
    assert!(mean.is_some_and(|mean| mean >= 300.0), "{said}");

    let slow = SlowProxy::before(
        origin.addr(),
        &["--per", "request", "--delay", "100ms", "--jitter", "20ms"],
    );
    let mut wire = Wire::connect(slow.addr());
    for n in 0..5 {
        took_at_least(80, || drop(wire.get(&format!("/{n}"), &[])));
    }
    drop(wire);
    let held: Vec<_> = slow.wait_logged(5).iter().map(|request| request.held).collect();
    assert!(
        held.iter().all(|held| *held >= 80.0)
            && held.iter().any(|other| (other - held[0]).abs() > 0.01),
        "{held:?}"
    );
}

#[test]
fn pipelined_requests_are_held_one_after_the_other() {
    let origin = named();
    let slow = SlowProxy::before(origin.addr(), &["--protocol", "http", "--delay", "150ms"]);
    let mut wire = Wire::connect(slow.addr());
    took_at_least(450, || {
        wire.send_get("/1", &["Host: x"]).send_get("/2", &["Host: x"]).send_get("/3", &["Host: x"]);
        for n in 1..=3 {
            assert_eq!(wire.read().text(), format!("body of /{n}"));
        }
    });
    drop(wire);
    let logged = slow.wait_logged(3);
    assert_eq!(
        logged.iter().map(|request| request.text.as_str()).collect::<Vec<_>>(),
        ["GET /1", "GET /2", "GET /3"]
    );
    assert!(logged[0].held >= 150.0 && logged[2].held >= 400.0, "{logged:?}");
}

/// Requests of [`three_at_once`].
const THREE: [&str; 3] = ["/1", "/2", "/3"];

fn answer_to(target: &str) -> String {
    let body = format!("body of {target}");
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Answers only when three requests are there, all in one piece: nothing but their lengths tells
/// the answers apart.
fn three_at_once() -> Origin {
    Origin::raw(|mut stream, _| {
        let mut asked = Vec::new();
        while asked.windows(4).filter(|end| end == b"\r\n\r\n").count() < THREE.len() {
            let mut piece = [0; 512];
            match stream.read(&mut piece) {
                Ok(read @ 1..) => asked.extend_from_slice(&piece[..read]),
                _ => return,
            }
        }
        let _ = stream.write_all(THREE.map(answer_to).concat().as_bytes());
        while stream.read(&mut [0; 512]).is_ok_and(|n| n > 0) {}
    })
}

/// A proxy with this rule for the second of three requests that were sent together, and their
/// connection.
fn second_of_three(origin: &Origin, what: &str) -> (SlowProxy, Wire) {
    let script = format!("[[rule]]\nstatement = \"/2\"\n{what}\n");
    let slow = SlowProxy::scripted(origin.addr(), &script, &["--protocol", "http"]);
    let mut wire = Wire::connect(slow.addr());
    wire.send(THREE.map(|target| format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n")).concat());
    (slow, wire)
}

fn is_whole(request: &Logged) -> bool {
    request.took.is_some()
}

#[test]
fn of_pipelined_requests_only_the_one_that_was_meant_is_corrupted() {
    let origin = three_at_once();
    let at = answer_to("/1").len() - 1;
    for rule in [format!("corrupt-at = {at}"), "corrupt = 1.0".to_owned()] {
        let (slow, mut wire) = second_of_three(&origin, &rule);
        let [first, second, third] = THREE.map(answer_to);
        assert_eq!(wire.read_bytes(first.len()), first.as_bytes());
        let got = wire.read_bytes(second.len());
        let changed =
            got.iter().zip(second.as_bytes()).map(|(got, sent)| (got ^ sent).count_ones());
        let changed: Vec<u32> = changed.collect();
        let every = rule.contains("1.0");
        assert!(
            (0..at).all(|n| changed[n] == u32::from(every)) && changed[at] == 1,
            "{rule}: {changed:?}"
        );
        assert_eq!(wire.read_bytes(third.len()), third.as_bytes());
        drop(wire);
        assert!(slow.wait_logged(3).iter().all(is_whole));
    }
}

#[test]
fn of_pipelined_requests_only_the_one_that_was_meant_is_cut() {
    let origin = three_at_once();
    for (rule, end) in [("truncate = 10", None), ("reset = 10", Some(ErrorKind::ConnectionReset))] {
        let (slow, wire) = second_of_three(&origin, rule);
        let mut bytes = Vec::new();
        let ended = wire.stream().read_to_end(&mut bytes).err().map(|error| error.kind());
        let expected = answer_to("/1") + &answer_to("/2")[..10];
        assert_eq!((String::from_utf8(bytes).unwrap(), ended), (expected, end));
        drop(wire);
        assert_eq!(
            slow.wait_logged(3).iter().map(is_whole).collect::<Vec<_>>(),
            [true, false, false]
        );
    }
}

#[test]
fn of_pipelined_requests_only_the_one_that_was_meant_stalls_or_is_late() {
    let origin = three_at_once();
    let (slow, mut wire) = second_of_three(&origin, "stall = \"forever\"\nstall-after = 10");
    let come = answer_to("/1").len() + 10;
    assert_eq!(wire.read_bytes(come), (answer_to("/1") + &answer_to("/2")[..10]).as_bytes());
    wait_until("the stall to be counted", || {
        slow.usr1();
        slow.stderr().contains("stalls 1,")
    });
    assert!(wire.is_idle());
    drop(wire);
    assert_eq!(slow.wait_logged(3).iter().map(is_whole).collect::<Vec<_>>(), [true, false, false]);

    let (slow, mut wire) = second_of_three(&origin, "delay = \"150ms\"\ndirection = \"to-client\"");
    let all = THREE.map(answer_to).concat();
    assert_eq!(wire.read_bytes(all.len()), all.as_bytes());
    drop(wire);
    let logged = slow.wait_logged(3);
    assert!(
        logged[1].held >= 150.0 && logged[0].held == 0.0 && logged[2].held == 0.0,
        "{logged:?}"
    );
}

/// A client that sends thousands of requests ahead is not read any more: what is under way is
/// bounded.
#[test]
fn pipelined_requests_beyond_the_limit_wait() {
    /// As docs/slow.md says.
    const LIMIT: usize = 1024;
    const ALL: usize = 5000;
    let most = Arc::new(AtomicUsize::new(0));
    let seen = most.clone();
    let origin = Origin::raw(move |mut stream, _| {
        let (mut tail, mut waiting, mut answered) = (Vec::new(), 0, 0);
        // Whoever sends nothing for this long has sent all that it will; a slow machine may make it
        // answer earlier.
        stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        while answered < ALL {
            let mut piece = [0; 65_536];
            match stream.read(&mut piece) {
                Ok(0) => return,
                Ok(read) => {
                    tail.extend_from_slice(&piece[..read]);
                    let ends = tail.windows(4).filter(|end| end == b"\r\n\r\n").count();
                    waiting += ends;
                    tail = tail.split_off(tail.len().saturating_sub(3));
                    seen.fetch_max(waiting, Ordering::SeqCst);
                }
                Err(_) => {
                    let answers = answer_to("/").repeat(waiting);
                    answered += std::mem::take(&mut waiting);
                    if stream.write_all(answers.as_bytes()).is_err() {
                        return;
                    }
                }
            }
        }
    });
    let slow = SlowProxy::before(origin.addr(), &["--protocol", "http"]);
    let mut wire = Wire::connect(slow.addr());
    wire.send("GET / HTTP/1.1\r\n\r\n".repeat(ALL));
    let all = answer_to("/").repeat(ALL);
    assert!(wire.read_bytes(all.len()) == all.as_bytes());
    drop(wire);
    assert!(slow.wait_logged(ALL).iter().all(is_whole));
    let most = most.load(Ordering::SeqCst);
    assert!((2..=LIMIT).contains(&most), "{most} requests at a time");
}

/// Its client's bytes are not read any more, as too much is under way: even so it is seen to leave.
#[test]
fn who_leaves_a_stall_behind_many_requests_ends_it() {
    let origin = named();
    let script = "[[rule]]\nrequest = 1\nstall = \"forever\"\n";
    let slow = SlowProxy::scripted(origin.addr(), script, &["--protocol", "http"]);
    let mut wire = Wire::connect(slow.addr());
    wire.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(2000));
    wait_until("the stall to be counted", || {
        slow.usr1();
        slow.stderr().contains("stalls 1,")
    });
    drop(wire);
    wait_none_open(&slow);
}

#[test]
fn memcached_behind_a_delay() {
    let server = Memcached::debian(&[]);
    let slow = SlowProxy::before(server.addr(), &["--protocol", "memcached", "--delay", "150ms"]);
    let mut talk = larder_tests::Talk::tcp(slow.addr());
    took_at_least(150, || _ = talk.expect("set a 0 0 3\r\nabc\r\n", "STORED\r\n"));
    took_at_least(150, || _ = talk.expect("get a\r\n", "VALUE a 0 3\r\nabc\r\nEND\r\n"));
    drop(talk);
    assert!(slow.wait_logged(2).iter().all(|request| request.held >= 150.0));
}

#[test]
fn a_rate_is_kept_of_one_and_of_all() {
    let origin = talker();
    let slow = SlowProxy::before(origin.addr(), &["--rate", "40kB/s"]);
    took_at_least(480, || assert_eq!(all(slow.addr()), (body(), None)));
    let slow = SlowProxy::before(origin.addr(), &["--shared-rate", "80kB/s"]);
    took_at_least(980, || {
        let clients: Vec<_> =
            [0; 4].map(|_| slow.addr()).map(|addr| std::thread::spawn(move || all(addr))).into();
        assert!(clients.into_iter().all(|client| client.join().unwrap() == (body(), None)));
    });
}

#[test]
fn stalled_for_a_time_and_for_ever() {
    let origin = talker();
    let slow = SlowProxy::before(origin.addr(), &["--stall", "400ms", "--stall-after", "5000"]);
    took_at_least(400, || assert_eq!(all(slow.addr()), (body(), None)));
    let slow = SlowProxy::before(origin.addr(), &["--stall", "forever", "--stall-after", "5000"]);
    let mut wire = Wire::connect(slow.addr());
    assert_eq!(wire.read_bytes(5000), body()[..5000]);
    wait_until("the stall to be counted", || {
        slow.usr1();
        slow.stderr().contains("stalls 1,")
    });
    assert!(wire.is_idle());
    // Who leaves ends it.
    drop(wire);
    wait_none_open(&slow);
}

#[test]
fn all_connections_are_stalled_at_a_time() {
    let origin = named();
    let slow = SlowProxy::before(origin.addr(), &["--stall", "1s", "--stall-at", "2s"]);
    let mut wire = Wire::connect(slow.addr());
    let (begin, mut asked) = (Instant::now(), 0);
    while begin.elapsed() < Duration::from_millis(3100) {
        wire.get("/a", &[]);
        asked += 1;
    }
    drop(wire);
    let logged = slow.wait_logged(asked);
    let end = |request: &Logged| request.at + request.took.unwrap() / 1e3;
    // From when it came to the end of the stall.
    assert!(logged.iter().any(|request| request.at < 3.0 && end(request) >= 3.0), "{logged:?}");
    let in_it = |request: &&Logged| (2.0..3.0).contains(&request.at);
    assert!(logged.iter().filter(in_it).all(|request| end(request) >= 3.0), "{logged:?}");
}

#[test]
fn reset_and_truncated_after_so_many_bytes() {
    let origin = talker();
    let slow = SlowProxy::before(origin.addr(), &["--reset", "7000"]);
    assert_eq!(all(slow.addr()), (body()[..7000].to_vec(), Some(ErrorKind::ConnectionReset)));
    assert!(slow.finish().contains("resets 1,"));
    let slow = SlowProxy::before(origin.addr(), &["--truncate", "7000"]);
    assert_eq!(all(slow.addr()), (body()[..7000].to_vec(), None));
    assert!(slow.finish().contains("truncated 1,"));
    let slow = SlowProxy::before(origin.addr(), &["--reset"]);
    assert_eq!(all(slow.addr()), (vec![], Some(ErrorKind::ConnectionReset)));
    wait_until("the origin to be left alone", || origin.open_connections() == 0);
}

#[test]
fn one_bit_of_one_byte_is_changed() {
    let origin = talker();
    let slow = SlowProxy::before(origin.addr(), &["--corrupt-at", "1234"]);
    let (bytes, _) = all(slow.addr());
    let changed: Vec<_> = (0..20_000).filter(|n| bytes[*n] != body()[*n]).collect();
    assert_eq!((changed, (bytes[1234] ^ body()[1234]).count_ones()), (vec![1234], 1));
    assert!(slow.finish().contains("bytes corrupted 1"));
}

#[test]
fn the_same_seed_changes_the_same_bytes() {
    let origin = talker();
    let corrupted = |seed: &str| {
        let slow = SlowProxy::before(origin.addr(), &["--corrupt", "0.001", "--seed", seed]);
        [all(slow.addr()).0, all(slow.addr()).0]
    };
    let first = corrupted("1");
    assert_eq!(corrupted("1"), first);
    assert_ne!(corrupted("2"), first);
    assert_ne!(first[0], first[1]);
    let changed = (0..20_000).filter(|n| first[0][*n] != body()[*n]).count();
    // Twenty, and less than five standard deviations off.
    assert!((1..=42).contains(&changed), "{changed}");
}

#[test]
fn refused_connections_never_reach_the_server() {
    let origin = talker();
    let slow = SlowProxy::before(origin.addr(), &["--refuse"]);
    assert_eq!(all(slow.addr()), (vec![], Some(ErrorKind::ConnectionReset)));
    assert!(slow.finish().contains("refused 1,"));
    assert_eq!(origin.connections(), 0);
}

#[test]
fn a_server_that_is_away_is_named() {
    let nobody = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let slow = SlowProxy::before(nobody, &[]);
    assert_eq!(all(slow.addr()), (vec![], Some(ErrorKind::ConnectionReset)));
    slow.wait_said(&format!("the server at {nobody} cannot be reached: Connection refused"));
    assert!(slow.finish().contains("server unreachable 1"));
}

#[test]
fn clients_that_leave_in_the_middle() {
    let origin = named();
    let slow = SlowProxy::before(origin.addr(), &["--protocol", "http", "--delay", "300ms"]);
    for bytes in ["GET /a HTTP/1.1\r\nHost: x\r\n\r\n", "GET /a HT", ""] {
        let mut stream = TcpStream::connect(slow.addr()).unwrap();
        stream.write_all(bytes.as_bytes()).unwrap();
    }
    let mut garbage = Wire::connect(slow.addr());
    garbage.send([22, 3, 1, 0, 200]);
    slow.wait_said("the client speaks no HTTP/1");
    drop(garbage);
    wait_none_open(&slow);
}

#[test]
fn unix_sockets_on_both_sides() {
    let server = Started::start(|dir, _| {
        let listener = UnixListener::bind(dir.join("server")).unwrap();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let mut read = [0; 4];
                if stream.read_exact(&mut read).is_ok() {
                    let _ = stream.write_all(&read.map(|byte| byte.to_ascii_uppercase()));
                }
            }
        });
        let mut slow = Command::new(larder::binary());
        let at = |name: &str| format!("unix:{}", dir.join(name).display());
        slow.args([
            "slow",
            "--listen",
            &at("slow"),
            "--to",
            &at("server"),
            "--per",
            "request",
            "--delay",
            "100ms",
        ]);
        (slow, Some(dir.join("slow")))
    });
    let mut stream = UnixStream::connect(server.dir().join("slow")).unwrap();
    took_at_least(100, || {
        stream.write_all(b"abcd").unwrap();
        let mut read = Vec::new();
        stream.read_to_end(&mut read).unwrap();
        assert_eq!(read, b"ABCD");
    });
}

#[test]
fn hundreds_of_connections_do_not_wait_for_each_other() {
    let origin = named();
    let slow = SlowProxy::before(origin.addr(), &["--protocol", "http", "--delay", "1s"]);
    let begin = Instant::now();
    let mut wires: Vec<_> = (0..200).map(|_| Wire::connect(slow.addr())).collect();
    for (n, wire) in wires.iter_mut().enumerate() {
        wire.send_get(&format!("/{n}"), &["Host: x"]);
    }
    for (n, wire) in wires.iter_mut().enumerate() {
        assert_eq!(wire.read().text(), format!("body of /{n}"));
    }
    let took = begin.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(15), "{took:?}");
}

/// The answer to `/N` on a connection of its own, for N = 1 to 30: whether it came.
fn came(slow: &SlowProxy) -> Vec<bool> {
    (1..=30)
        .map(|n| {
            answered(slow.addr(), n).is_ok_and(|answer| answer.ends_with(&format!("body of /{n}")))
        })
        .collect()
}

/// A refused connection may be gone before connecting is over.
fn answered(addr: SocketAddr, n: usize) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET /{n} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn a_script_with_a_seed_gives_the_same_faults_again() {
    let origin = named();
    let script = |seed| {
        format!(
            "seed = {seed}\n[[rule]]\nprobability = 0.3\nreset = 10\n[[rule]]\nevery = 7\nrefuse \
             = true\n"
        )
    };
    let run = |seed| came(&SlowProxy::scripted(origin.addr(), &script(seed), &[]));
    let first = run(1);
    assert_eq!(run(1), first);
    assert_ne!(run(2), first);
    assert!(!first[6] && !first[13] && first.iter().any(|came| *came), "{first:?}");
}

#[test]
fn a_script_is_read_again() {
    let origin = named();
    let slow = SlowProxy::scripted(origin.addr(), "", &["--protocol", "http"]);
    let mut wire = Wire::connect(slow.addr());
    wire.get("/a", &[]);
    slow.rewrite("[[rule]]\ndelay = \"200ms\"\n");
    took_at_least(200, || drop(wire.get("/b", &[])));
    slow.rewrite("[[rule]]\nstatement = \"/c\"\ntruncate = 10\n");
    assert_eq!(wire.get("/d", &[]).text(), "body of /d");
    wire.send_get("/c", &["Host: x"]);
    assert_eq!(wire.read_bytes(10), b"HTTP/1.1 2");
    wire.expect_closed();
    // One that is wrong changes nothing, and is told.
    slow.rewrite_wrongly("[[rule]]\nstatement = \"/d\"\nrefuse = \"often\"\n");
    assert!(slow.stderr().contains("line 3"), "{}", slow.stderr());
    let mut wire = Wire::connect(slow.addr());
    assert_eq!(wire.get("/d", &[]).text(), "body of /d");
    wire.send_get("/c", &["Host: x"]);
    assert_eq!(wire.read_bytes(10), b"HTTP/1.1 2");
}

/// What is new is the rules: chance goes on from the seed of the start, and times count from it.
#[test]
fn a_script_that_is_read_again_keeps_seed_and_clock() {
    let origin = named();
    let rule = "[[rule]]\nprobability = 0.5\nreset = 10\n";
    let run = |first: &str, then: &str| {
        let slow = SlowProxy::scripted(origin.addr(), first, &[]);
        if !then.is_empty() {
            slow.rewrite(then);
        }
        came(&slow)
    };
    let expected = run(&format!("seed = 1\n{rule}"), "");
    assert_eq!(run("seed = 1\n", &format!("seed = 2\n{rule}")), expected);
    // A second after the start at the latest it is over, however often it is read.
    let slow = SlowProxy::scripted(origin.addr(), "", &["--protocol", "http"]);
    let mut wire = Wire::connect(slow.addr());
    wait_until("a second to pass", || {
        wire.get("/a", &[]);
        slow.logged().last().is_some_and(|request| request.at > 1.0)
    });
    slow.rewrite("[[rule]]\nuntil = \"1s\"\ntruncate = 10\n");
    assert_eq!(wire.get("/b", &[]).text(), "body of /b");
}

/// The example of docs/slow.md does what stands beside it.
#[test]
fn the_example_of_the_documents() {
    let docs = std::fs::read_to_string(source_root().join("docs/slow.md")).unwrap();
    let example = docs.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let origin = named();
    let slow = SlowProxy::scripted(origin.addr(), example, &["--protocol", "http"]);
    let mut first = Wire::connect(slow.addr());
    took_at_least(180, || drop(first.get("/any", &[])));
    took_at_least(1180, || drop(first.get("/search?q=x", &[])));
    let mut second = Wire::connect(slow.addr());
    second.send_get("/any", &["Host: x"]);
    assert_eq!(second.read_bytes(40).len(), 40);
    let mut byte = [0];
    assert_eq!(second.stream().read(&mut byte).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn what_is_wrong_is_said_before_anything_starts() {
    for (args, part) in [
        (vec!["--delay", "soon"], "a duration such as"),
        (vec!["--probability", "2"], "probability 2: expected 0 to 1"),
        (vec!["--rate", "0"], "bytes a second such as"),
        (vec!["--script", "none.toml"], "none.toml: No such file"),
        (vec!["--to", "nowhere"], "HOST:PORT"),
    ] {
        let to: &[&str] = if args[0] == "--to" { &[] } else { &["--to", "127.0.0.1:1"] };
        let all = [&["slow", "--listen", "127.0.0.1:0"], &args[..], to].concat();
        let (status, _, stderr) = larder::run(&all);
        assert_eq!((status.code(), stderr.contains(part)), (Some(2), true), "{args:?}: {stderr}");
    }
    let taken = Origin::serving(&[], "");
    let (status, _, stderr) =
        larder::run(&["slow", "--listen", &taken.addr().to_string(), "--to", "127.0.0.1:1"]);
    assert!(status.code() == Some(2) && stderr.contains("cannot listen on"), "{stderr}");
}
