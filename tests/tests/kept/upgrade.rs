//! A new process takes over: no request fails, what memory has stays, connections go on. A program
//! that cannot take over leaves everything as it was.

#![allow(clippy::unwrap_used)]

use larder_tests::wait::wait_for;
use larder_tests::{Gate, H2, Larder, Origin, Wire, wait_until};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// A server, and the processes that have taken over from it: they end with the test.
pub(super) struct Line {
    pub(super) larder: Larder,
    successors: Vec<u32>,
}

impl Drop for Line {
    fn drop(&mut self) {
        for pid in &self.successors {
            let _ = kill_process(process(*pid), Signal::KILL);
        }
    }
}

fn process(pid: u32) -> Pid {
    Pid::from_raw(pid as i32).unwrap()
}

/// Whether a process is there, and no zombie.
fn lives(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    test_kill_process(process(pid)).is_ok() && !status.contains(") Z ")
}

impl Line {
    pub(super) fn start(top: &str, rest: &str, origin: &Origin) -> Line {
        let larder = Larder::with_config(&format!(
            "{top}\n[http]\nlisten = [\"127.0.0.1:0\"]\nh2c = true\n[memcached]\nlisten = \
             [\"127.0.0.1:0\", \"unix:@DIR@/memcached\"]\nudp = [\"127.0.0.1:0\"]\n[redis]\nlisten \
             = [\"127.0.0.1:0\"]\n{rest}\n[[site]]\norigin = \"{}\"\npurge = {{ from = \
             [\"127.0.0.1\"] }}\n",
            origin.url()
        ));
        Line::of(larder)
    }

    pub(super) fn of(larder: Larder) -> Line {
        Line { larder, successors: Vec::new() }
    }

    /// The serving process.
    pub(super) fn pid(&self) -> u32 {
        self.successors.last().copied().unwrap_or_else(|| self.larder.pid())
    }

    /// Upgrades; what was said.
    pub(super) fn upgrade(&mut self, args: &[&str]) -> Result<String, String> {
        let (status, said, wrong) = self.larder.command(&[&["upgrade"], args].concat());
        if !status.success() {
            return Err(wrong);
        }
        let pid = said.strip_prefix("process ").unwrap().split(' ').next().unwrap();
        self.successors.push(pid.parse().unwrap());
        Ok(said)
    }

    /// Upgrades, and waits for the end of the process before.
    pub(super) fn upgrade_whole(&mut self) {
        let before = self.pid();
        let said = self.upgrade(&[]).unwrap_or_else(|e| panic!("{e}\n{}", self.larder.stderr()));
        assert!(said.contains("with the memory"), "{said}");
        wait_until("the old process to end", || !lives(before));
    }

    pub(super) fn script(&self, text: &str) -> PathBuf {
        let path = self.larder.dir().join("program");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    }
}

/// A plain conversation: sends, reads up to an end.
fn talk(stream: &mut (impl Read + Write), ask: &[u8], end: &[u8]) -> Vec<u8> {
    stream.write_all(ask).unwrap();
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while !answer.ends_with(end) {
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "closed after {:?}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&piece[..read]);
    }
    answer
}

fn connect(at: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(larder_tests::wait::PATIENCE)).unwrap();
    stream
}

const FRESH: &[&str] = &["Cache-Control: max-age=6000"];

pub(super) fn fresh() -> Origin {
    Origin::start(|seen, reply| {
        let body = seen.target.repeat(20);
        reply.ok(FRESH, body);
    })
}

#[test]
fn connections_and_memory_stay_through_upgrades() {
    let origin = fresh();
    let mut line = Line::start("", "", &origin);
    let mut http = line.larder.connect();
    let mut memcached = connect(line.larder.face("memcached"));
    let mut local = UnixStream::connect(line.larder.dir().join("memcached")).unwrap();
    let mut redis = connect(line.larder.face("redis"));
    assert_eq!(http.get("/page", &[]).status, 200);
    talk(&mut memcached, b"set a 5 0 3\r\none\r\n", b"STORED\r\n");
    talk(&mut redis, b"*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$3\r\ntwo\r\n", b"+OK\r\n");
    talk(&mut redis, b"HELLO 3\r\n", b"*0\r\n");
    talk(&mut redis, b"SELECT 3\r\n", b"+OK\r\n");
    talk(&mut redis, b"CLIENT SETNAME me\r\n", b"+OK\r\n");
    talk(&mut redis, b"RPUSH list x y z\r\n", b":3\r\n");
    for round in 0..3 {
        line.upgrade_whole();
        let answer = http.get("/page", &[]);
        assert!(answer.fields.get("cache-status").unwrap().contains("hit"), "{answer:?}");
        let mut new = line.larder.connect();
        assert!(new.get("/page", &[]).fields.get("cache-status").unwrap().contains("hit"));
        let item = b"VALUE a 5 3\r\none\r\nEND\r\n";
        assert_eq!(talk(&mut memcached, b"get a\r\n", b"END\r\n"), item);
        assert_eq!(talk(&mut local, b"get a\r\n", b"END\r\n"), item);
        assert_eq!(talk(&mut redis, b"CLIENT GETNAME\r\n", b"\r\nme\r\n"), b"$2\r\nme\r\n");
        let list = b"*3\r\n$1\r\nx\r\n$1\r\ny\r\n$1\r\nz\r\n";
        assert_eq!(talk(&mut redis, b"LRANGE list 0 -1\r\n", b"z\r\n"), list);
        let count = format!(":{}\r\n", round + 1);
        assert_eq!(talk(&mut redis, b"INCR n\r\n", b"\r\n"), count.as_bytes());
    }
    assert_eq!(origin.count(), 1);
    // A purge holds, and tags are known.
    let purged = http.ask("PURGE", "/page", &["Host: site.test"]);
    assert_eq!(purged.status, 200);
    http.get("/page", &[]);
    assert_eq!(origin.count(), 2);
}

/// Libraries of functions, longer than a message between the processes, and the places of Redis's
/// databases; users are those of the new process's configuration.
#[test]
fn functions_and_databases_stay_through_upgrades() {
    let origin = fresh();
    let mut line = Line::start("", "", &origin);
    let mut redis = larder_tests::Resp::tcp(line.larder.face("redis"));
    let padding = "x".repeat(100_000);
    let code = format!(
        "#!lua name=long\n-- {padding}\nredis.register_function{{function_name='f', \
         description='of f', flags={{'no-writes'}}, callback=function() return 'here' end}}"
    );
    assert_eq!(redis.ask(&["FUNCTION", "LOAD", &code]).text(), "long");
    for words in ["SET a zero", "SWAPDB 0 5", "SWAPDB 5 2", "ACL SETUSER ann on nopass +@all ~*"] {
        assert_eq!(redis.say(words), "OK");
    }
    let mut ann = larder_tests::Resp::tcp(line.larder.face("redis"));
    assert_eq!(ann.say("AUTH ann x"), "OK");
    for _ in 0..2 {
        line.upgrade_whole();
        assert_eq!(redis.say("FCALL_RO f 0"), "here");
        let mut other = larder_tests::Resp::tcp(line.larder.face("redis"));
        assert_eq!(other.say("FCALL f 0"), "here");
        assert_eq!(other.say("SELECT 2"), "OK");
        assert_eq!(other.say("GET a"), "zero");
    }
    wait_until("the connection of a user that is gone to end", || {
        ann.send(larder_tests::redis::command(&["PING"])).maybe().is_none()
    });
}

#[test]
fn requests_under_way_come_to_their_end() {
    let gate = Gate::closed();
    let waits = gate.clone();
    let origin = Origin::start(move |_, reply| {
        reply.head(200, &["Content-Length: 6", "Cache-Control: max-age=600"]).raw("abc");
        waits.wait();
        reply.raw("def");
    });
    let mut line = Line::start("", "", &origin);
    let mut http = line.larder.connect();
    http.send_get("/slow", &["Host: site.test"]);
    origin.wait_for(1);
    let old = line.pid();
    line.upgrade(&[]).unwrap();
    // The old process still has a client: it is not to be asked again by then.
    let again = line.upgrade(&[]).unwrap_err();
    assert!(again.contains("has not ended"), "{again}");
    assert!(lives(old));
    gate.open();
    assert_eq!(http.read().text(), "abcdef");
    wait_until("the old process to end", || !lives(old));
    // The connection goes on with the new one.
    assert_eq!(http.get("/slow", &[]).text(), "abcdef");
    line.upgrade_whole();
    assert_eq!(http.get("/slow", &[]).text(), "abcdef");
    assert_eq!(origin.count(), 2);
}

/// Runs `ask` over and over until told to stop; returns how often.
pub(super) fn load(
    stop: &Arc<AtomicBool>,
    mut ask: impl FnMut(usize) + Send + 'static,
) -> std::thread::JoinHandle<usize> {
    let stop = stop.clone();
    std::thread::spawn(move || {
        let mut asked = 0;
        while !stop.load(Ordering::SeqCst) {
            ask(asked);
            asked += 1;
        }
        asked
    })
}

#[test]
fn no_request_fails_under_load() {
    let upgrades = std::env::var("LARDER_UPGRADES").map_or(3, |n| n.parse().unwrap());
    let origin = fresh();
    let mut line = Line::start("", "", &origin);
    for n in 0..100 {
        larder_tests::get(line.larder.addr(), &format!("/{n}"));
    }
    let (stop, mut loads) = (Arc::new(AtomicBool::new(false)), Vec::new());
    let (http, memcached) = (line.larder.addr(), line.larder.face("memcached"));
    let redis = line.larder.face("redis");
    for client in 0..2 {
        let mut wire = Wire::connect(http);
        loads.push(load(&stop, move |n| {
            let path = format!("/{}", n % 100);
            let answer = wire.get(&path, &[]);
            assert_eq!((answer.status, answer.text()), (200, &*path.repeat(20)), "client {client}");
        }));
        loads.push(load(&stop, move |n| {
            let path = format!("/{}", n % 100);
            let answer = larder_tests::get(http, &path);
            assert_eq!((answer.status, answer.text()), (200, &*path.repeat(20)), "client {client}");
        }));
        let mut stream = connect(memcached);
        loads.push(load(&stop, move |n| {
            let (key, value) = (format!("{client}:{}", n % 50), format!("{n:09}"));
            let set = format!("set {key} 0 0 9\r\n{value}\r\n");
            assert_eq!(talk(&mut stream, set.as_bytes(), b"\r\n"), b"STORED\r\n");
            let got = talk(&mut stream, format!("get {key}\r\n").as_bytes(), b"END\r\n");
            assert_eq!(got, format!("VALUE {key} 0 9\r\n{value}\r\nEND\r\n").as_bytes());
        }));
        let mut stream = connect(redis);
        loads.push(load(&stop, move |n| {
            let incr = format!("INCR count:{client}\r\n");
            let count = format!(":{}\r\n", n + 1);
            assert_eq!(talk(&mut stream, incr.as_bytes(), b"\r\n"), count.as_bytes());
        }));
    }
    let reconnects = Arc::new(AtomicUsize::new(0));
    let counted = reconnects.clone();
    let mut h2 = H2::connect(http);
    loads.push(load(&stop, move |n| {
        let path = format!("/h2/{}", n % 100);
        loop {
            match h2.try_get(&path) {
                Ok(answer) => break assert_eq!(answer.text(), path.repeat(20)),
                // Told in time: a client asks again on a new connection (RFC 9113 section 6.8).
                Err(e) if e.is_go_away() && e.reason() == Some(h2_reason()) => {
                    h2 = H2::connect(http);
                    counted.fetch_add(1, Ordering::SeqCst);
                }
                Err(e) => panic!("{e:?}"),
            }
        }
    }));
    for _ in 0..upgrades {
        line.upgrade_whole();
    }
    stop.store(true, Ordering::SeqCst);
    let asked: Vec<usize> = loads.into_iter().map(|load| load.join().unwrap()).collect();
    assert!(asked.iter().all(|asked| *asked > 0), "{asked:?}");
    assert!(reconnects.load(Ordering::SeqCst) <= upgrades, "once for each");
    let pages = (0..100).map(|n| origin.count_of(&format!("/{n}")));
    assert_eq!(pages.sum::<usize>(), 100, "each page was fetched once");
}

fn h2_reason() -> larder_tests::h2_client::Reason {
    larder_tests::h2_client::Reason::NO_ERROR
}

#[test]
fn datagrams_are_answered_by_the_new_process() {
    let origin = fresh();
    let mut line = Line::start("", "", &origin);
    let said = line.larder.stderr();
    let udp = said.lines().find_map(|l| l.strip_prefix("larder: listening on memcached+udp://"));
    let udp: SocketAddr = udp.unwrap().parse().unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(udp).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut memcached = connect(line.larder.face("memcached"));
    talk(&mut memcached, b"set a 0 0 1\r\nx\r\n", b"STORED\r\n");
    for _ in 0..2 {
        socket.send(b"\0\x01\0\0\0\x01\0\0get a\r\n").unwrap();
        let mut answer = [0; 100];
        let length = socket.recv(&mut answer).unwrap();
        assert_eq!(&answer[8..length], b"VALUE a 0 1\r\nx\r\nEND\r\n");
        line.upgrade_whole();
    }
}

#[test]
fn a_program_that_cannot_take_over_changes_nothing() {
    let origin = fresh();
    let mut line = Line::start("upgrade_timeout = \"10s\"", "", &origin);
    let mut http = line.larder.connect();
    let mut memcached = connect(line.larder.face("memcached"));
    assert_eq!(http.get("/page", &[]).status, 200);
    talk(&mut memcached, b"set a 0 0 1\r\nx\r\n", b"STORED\r\n");
    let speaks = "#!/usr/bin/env python3\nimport socket, time\ns = socket.socket(fileno=0)\n";
    let programs = [
        ("#!/bin/sh\nexit 7\n".to_owned(), "has ended (exit code 7)"),
        ("#!/bin/sh\nexec sleep 1000\n".to_owned(), "not ready in time"),
        (
            format!(
                "{speaks}s.send(b'{{\"kind\":\"hello\",\"protocol\":99}}')\ntime.sleep(1000)\n"
            ),
            "a version that cannot take over",
        ),
        (format!("{speaks}s.send(b'nonsense')\ntime.sleep(1000)\n"), "cannot be heard"),
        (
            format!("{speaks}s.send(b'{{\"kind\":\"ready\"}}')\ntime.sleep(1000)\n"),
            "speaks another language",
        ),
        // It takes everything, and ends before it serves.
        (
            format!(
                "{speaks}s.send(b'{{\"kind\":\"hello\",\"protocol\":1}}')\n\
             while b'\"all\"' not in s.recv(65536): pass\n\
             s.send(b'{{\"kind\":\"ready\"}}')\n"
            ),
            "has ended",
        ),
    ];
    for (text, why) in programs {
        let program = line.script(&text);
        let said = line.upgrade(&["--program", program.to_str().unwrap()]).unwrap_err();
        assert!(said.contains(why), "{why}: {said}");
        assert_eq!(http.get("/page", &[]).status, 200, "{why}");
        assert_eq!(larder_tests::get(line.larder.addr(), "/page").status, 200, "{why}");
        talk(&mut memcached, b"set b 0 0 1\r\nx\r\n", b"STORED\r\n");
    }
    let said = line.upgrade(&["--program", "/nowhere/larder"]).unwrap_err();
    assert!(said.contains("cannot start /nowhere/larder"), "{said}");
    line.larder.rewrite_config("nonsense = 1\n");
    let said = line.upgrade(&[]).unwrap_err();
    assert!(said.contains("cannot start") && said.contains("nonsense"), "{said}");
    assert_eq!(http.get("/page", &[]).status, 200);
    assert_eq!(origin.count(), 1, "memory was not given");
}

#[test]
fn a_signal_upgrades_and_a_server_that_stops_does_not() {
    let gate = Gate::closed();
    let waits = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        if seen.target == "/slow" {
            waits.wait();
        }
        reply.ok(FRESH, "page");
    });
    let mut line = Line::start("", "", &origin);
    let old = line.pid();
    kill_process(process(old), Signal::USR2).unwrap();
    wait_until("the old process to end", || !lives(old));
    let pid = wait_for("the successor's number", || {
        let said = line.larder.stderr();
        said.lines()
            .find_map(|l| l.strip_prefix("larder: process ")?.split(' ').next()?.parse().ok())
    });
    line.successors.push(pid);
    let mut http = line.larder.connect();
    http.send_get("/slow", &["Host: site.test"]);
    origin.wait_for(1);
    kill_process(process(line.pid()), Signal::TERM).unwrap();
    wait_until("the server to stop", || line.larder.stderr().contains("stopping:"));
    let refused = line.upgrade(&[]).unwrap_err();
    assert!(refused.contains("another order, or stops"), "{refused}");
    gate.open();
    assert_eq!(http.read().text(), "page");
}

#[test]
fn memory_stays_behind_where_it_is_private_or_another_is_wanted() {
    let origin = fresh();
    let mut line = Line::start("upgrade_memory = false", "", &origin);
    larder_tests::get(line.larder.addr(), "/page");
    let said = line.upgrade(&[]).unwrap();
    assert!(said.contains("without memory: the memory is private"), "{said}");
    larder_tests::get(line.larder.addr(), "/page");
    assert_eq!(origin.count(), 2);

    let mut line = Line::start("memory = \"64MiB\"", "", &origin);
    larder_tests::get(line.larder.addr(), "/other");
    let text = std::fs::read_to_string(line.larder.dir().join("larder.toml")).unwrap();
    line.larder.rewrite_config(&text.replace("64MiB", "96MiB"));
    line.upgrade(&[]).unwrap();
    wait_until("it to be said", || line.larder.stderr().contains("memory of the old process"));
    larder_tests::get(line.larder.addr(), "/other");
    assert_eq!(origin.count_of("/other"), 2);
}

/// A new process that ends when it has the memory.
pub(super) const RUNAWAY: &str = "#!/usr/bin/env python3\nimport socket\ns = socket.socket(fileno=0)\n\
     s.send(b'{\"kind\":\"hello\",\"protocol\":1}')\n\
     while b'\"all\"' not in s.recv(65536): pass\n\
     s.send(b'{\"kind\":\"ready\"}')\n\
     s.recv(65536)\n\
     s.send(b'{\"kind\":\"listening\"}')\n\
     s.recv(65536)\n";

/// A new process that ends with the memory once left the old one with a 64th of it.
#[test]
fn memory_that_a_program_took_along_is_used_again() {
    let origin = fresh();
    let mut line = Line::start("memory = \"64MiB\"", "", &origin);
    let program = line.script(RUNAWAY);
    let said = line.upgrade(&["--program", program.to_str().unwrap()]).unwrap_err();
    assert!(said.contains("has ended"), "{said}");
    let mut memcached = connect(line.larder.face("memcached"));
    let value = "x".repeat(1000);
    for number in 0..30_000 {
        let ask = format!("set key{number} 0 0 1000\r\n{value}\r\n");
        talk(&mut memcached, ask.as_bytes(), b"STORED\r\n");
    }
    let answer = talk(&mut memcached, b"get key0 key15000\r\n", b"END\r\n");
    assert_eq!(answer.split(|byte| *byte == b'\n').count(), 6, "both are there");
    line.upgrade_whole();
    let mut memcached = connect(line.larder.face("memcached"));
    let answer = talk(&mut memcached, b"get key0 key15000\r\n", b"END\r\n");
    assert_eq!(answer.split(|byte| *byte == b'\n').count(), 6, "both are there after it");
}

/// Clients of such an address once waited for ever: the new process had its socket, and nobody
/// accepted.
#[test]
fn an_address_that_is_configured_no_longer_is_closed() {
    let origin = fresh();
    let mut line = Line::start("", "", &origin);
    let redis = line.larder.face("redis");
    let socket = line.larder.dir().join("memcached");
    UnixStream::connect(&socket).unwrap();
    let text = std::fs::read_to_string(line.larder.dir().join("larder.toml")).unwrap();
    let at = text.find("[redis]").unwrap();
    let end = at + text[at..].find("[[site]]").unwrap();
    let less = [&text[..at], &text[end..]].concat();
    let unix = format!(", \"unix:{}\"", socket.display());
    assert!(less.contains(&unix), "{less}");
    line.larder.rewrite_config(&less.replace(&unix, ""));
    line.upgrade_whole();
    wait_until("the address to be refused", || TcpStream::connect(redis).is_err());
    assert!(!socket.exists() && line.larder.stderr().contains("no longer listening: "));
    assert_eq!(larder_tests::get(line.larder.addr(), "/page").status, 200);
    talk(&mut connect(line.larder.face("memcached")), b"mn\r\n", b"MN\r\n");
}
