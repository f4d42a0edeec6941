//! `larder top`, `larder log` and `larder hist` against real servers under load, in a real
//! terminal.

#![allow(clippy::unwrap_used)]

#[path = "top/pty.rs"]
pub(super) mod pty;

use larder_tests::helper::free_port;
use larder_tests::larder::{binary, run};
use larder_tests::{Larder, Memcached, Origin, Wire, get, listening, wait_for, wait_until};
use pty::Pty;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Pages below `/page` are kept for a minute, `/gone` is not found, all else is private.
fn origin() -> Origin {
    Origin::start(|seen, reply| {
        match seen.target.as_str() {
            path if path.starts_with("/page") => reply.ok(&["Cache-Control: max-age=60"], "a page"),
            path if path.starts_with("/gone") => {
                reply.answer(404, &["Cache-Control: no-store"], "gone")
            }
            _ => reply.ok(&["Cache-Control: private"], "yours"),
        };
    })
}

/// A Larder with its admin API.
fn larder(origin: &Origin) -> Larder {
    let flags =
        ["--http", "127.0.0.1:0", "--threads", "2", "--memory", "64MiB", "--admin", "127.0.0.1:0"];
    Larder::serve(
        &[&flags[..], &["--origin", &origin.url(), "--memcached", "127.0.0.1:0"]].concat(),
    )
}

/// Where its admin API is.
#[track_caller]
pub(super) fn admin(larder: &Larder) -> SocketAddr {
    wait_for("the admin address", || {
        let printed = larder.stderr();
        let line =
            printed.lines().find_map(|line| line.strip_prefix("larder: admin at http://"))?;
        line.split('/').next()?.parse().ok()
    })
}

/// Debian's memcached on a port that it can be started on again.
fn memcached(port: u16) -> Ended {
    let child = Command::new("/usr/bin/memcached")
        .args(["-u", "root", "-l", "127.0.0.1", "-p", &port.to_string(), "-m", "8"])
        .spawn()
        .unwrap();
    let child = Ended(child);
    wait_until("memcached to listen", || listening::port(port));
    child
}

/// A child that ends with its test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Load that goes on until it is dropped, and how many rounds it was.
struct Load {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Load {
    fn of(mut round: impl FnMut() + Send + 'static) -> Load {
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (stop.clone(), rounds.clone());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                counted.fetch_add(1, Ordering::Relaxed);
                round();
            }
        });
        Load { stop, rounds, thread: Some(thread) }
    }

    fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A page that was never asked for.
fn new_page() -> String {
    static PAGES: AtomicU64 = AtomicU64::new(0);
    format!("/page/{}", PAGES.fetch_add(1, Ordering::Relaxed))
}

/// A round is one hit and one request that is new each time.
fn page_load(addr: SocketAddr) -> Load {
    get(addr, "/page/same");
    Load::of(move || {
        get(addr, "/page/same");
        get(addr, &new_page());
    })
}

/// A row of the table by the names of its columns; numbers without their units.
#[track_caller]
fn row(lines: &[String], instance: &str) -> Option<BTreeMap<String, f64>> {
    let head = lines.iter().find(|line| line.starts_with("INSTANCE"))?.replace("HIT %", "HIT");
    let line = lines.iter().find(|line| line.split_whitespace().next() == Some(instance))?;
    if line.contains("DOWN") || line.contains("...") {
        return None;
    }
    let cells = head.split_whitespace().zip(line.split_whitespace()).skip(1);
    Some(cells.filter_map(|(head, cell)| Some((head.to_owned(), number(cell)?))).collect())
}

fn number(cell: &str) -> Option<f64> {
    let digits = cell.trim_end_matches(|c: char| !c.is_ascii_digit());
    let factor = match &cell[digits.len()..] {
        "K" => 1e3,
        "M" => 1e6,
        _ => 1.0,
    };
    Some(digits.parse::<f64>().ok()? * factor)
}

#[test]
fn several_servers_are_watched_under_load_and_one_dies_meanwhile() {
    let origin = origin();
    let (one, two) = (larder(&origin), larder(&origin));
    let port = free_port();
    let third = memcached(port);
    let (a, b, m) = (admin(&one).to_string(), admin(&two).to_string(), format!("127.0.0.1:{port}"));
    let load = page_load(one.addr());
    let pty = Pty::larder(&["top", "--interval", "300ms", &a, &b, &m], 80, 24);

    // Half of the lookups are hits, and for two lookups one page is stored: so it is in an interval
    // of many rounds, whatever the clock says. One in which hardly a round fitted tells nothing.
    let seen = pty.wait_for("all three with figures, and those of the load", |lines| {
        let rows = [&a, &b, &m].map(|name| row(lines, name));
        let [Some(one), Some(two), Some(third)] = rows else { return None };
        let (gets, sets, hits) = (*one.get("GETS/s")?, *one.get("SETS/s")?, *one.get("HIT")?);
        let of_the_load =
            gets >= 10.0 && (30.0..70.0).contains(&hits) && (1.2..3.5).contains(&(gets / sets));
        (of_the_load && two.contains_key("GETS/s") && third.contains_key("GETS/s"))
            .then(|| lines.to_vec())
    });
    let shown = row(&seen, &a).unwrap();
    // No rate is of more than was ever asked, in an interval much shorter than a machine that
    // stalls makes of the stated one.
    assert!(shown["GETS/s"] * 0.02 <= (load.rounds() + 1) as f64 * 2.0, "{seen:#?}");
    let (idle, cache) = (row(&seen, &b).unwrap(), row(&seen, &m).unwrap());
    assert_eq!(
        (idle["GETS/s"], idle.contains_key("HIT"), cache["GETS/s"]),
        (0.0, false, 0.0),
        "{seen:#?}"
    );
    let total = row(&seen, "TOTAL").unwrap();
    assert!((total["GETS/s"] - shown["GETS/s"]).abs() <= shown["GETS/s"] * 0.01 + 0.1, "{seen:#?}");
    assert!(seen[0].starts_with("larder top  3 up"), "{seen:#?}");

    drop(third);
    pty.wait_line(&[&m, "DOWN: connection refused"]);
    pty.wait_line(&["larder top  2 up, 1 DOWN"]);
    pty.wait_for("the others as before", |lines| {
        row(lines, &a).filter(|row| row.contains_key("HIT"))
    });

    let _third = memcached(port);
    let came_back = pty.wait_for("memcached to come back", |lines| row(lines, &m));
    assert!(came_back.get("GETS/s").is_none_or(|rate| *rate == 0.0), "{came_back:?}");
    pty.wait_line(&["larder top  3 up"]);
}

#[test]
fn keys_do_what_the_help_says_and_the_terminal_is_given_back() {
    let origin = origin();
    let larder = larder(&origin);
    let address = admin(&larder).to_string();
    let memcached = Memcached::debian(&[]);
    let cache = memcached.server();
    let _load = page_load(larder.addr());
    let mut pty = Pty::larder(&["top", "-i", "200ms", &cache, &address], 80, 24);
    pty.wait_for("both", |lines| row(lines, &cache).and(row(lines, &address)));
    wait_until("the terminal to be taken", || pty.is_taken());

    let first = |lines: &[String]| lines[2].split_whitespace().next().map(str::to_owned);
    assert_eq!(first(&pty.lines()), Some(cache.clone()));
    // From no column to GETS/s: INSTANCE, USAGE, HIT, CONN, TIME, EVICT, GETS.
    pty.keys(">>>>>>>");
    pty.wait_line(&["by GETS/s"]);
    pty.wait_for("the busy one first", |lines| (first(lines)? == address).then_some(()));
    pty.keys("r");
    pty.wait_for("the busy one last", |lines| (first(lines)? == cache).then_some(()));

    pty.keys("?");
    pty.wait_line(&["q", "quit"]);
    pty.wait_line(&["HIT %", "lookups answered from memory"]);
    pty.keys("x");
    pty.wait_line(&["TOTAL"]);

    pty.keys(" ");
    pty.wait_line(&["FROZEN"]);
    pty.keys(" l");
    pty.wait_line(&["since start"]);

    // The selected row is the first one given; down to the other and into it.
    pty.keys("r");
    pty.wait_for("the busy one first", |lines| (first(lines)? == address).then_some(()));
    pty.keys("k\r");
    pty.wait_line(&["FACE", "GETS/s"]);
    pty.wait_line(&["HTTP LATENCY"]);
    pty.resize(100, 70);
    pty.wait_line(&["WHY MISSED"]);
    pty.wait_line(&["uri-miss"]);
    pty.wait_line(&[&origin.url()]);
    pty.keys("\x1b");
    pty.wait_line(&["TOTAL"]);
    pty.resize(40, 8);
    pty.wait_for("a narrow table", |lines| {
        let head = lines.iter().find(|line| line.starts_with("INSTANCE"))?;
        (!head.contains("WRITE/s") && head.contains("GETS/s")).then_some(())
    });
    pty.keys("q");
    assert_eq!(pty.ended(), 0);
}

#[test]
fn signals_give_the_terminal_back() {
    let memcached = Memcached::debian(&[]);
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let mut pty = Pty::larder(&["top", "-i", "200ms", &memcached.server()], 80, 24);
        pty.wait_line(&["larder top  1 up"]);
        wait_until("the terminal to be taken", || pty.is_taken());
        pty.signal(signal);
        assert_eq!(pty.ended(), code, "{signal:?}");
    }
    let mut pty = Pty::larder(&["top", "-i", "200ms", &memcached.server()], 80, 24);
    pty.wait_line(&["larder top  1 up"]);
    pty.keys("\x03");
    assert_eq!(pty.ended(), 0, "Ctrl-C");
}

#[test]
fn a_slow_server_holds_up_no_other() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().map(|addr| (silent, addr.to_string())).unwrap();
    let memcached = Memcached::debian(&[]);
    let pty = Pty::larder(
        &[
            "top",
            "-i",
            "200ms",
            "--timeout",
            "1h",
            &format!("memcached://{}", silent.1),
            &memcached.server(),
        ],
        80,
        24,
    );
    pty.wait_for("two looks at the other", |lines| {
        row(lines, &memcached.server())?.get("GETS/s").copied()
    });
    pty.wait_line(&[&silent.1, "..."]);
    drop(pty);
    let (status, out, _) =
        run(&["top", "--once", "-l", "--timeout", "200ms", &format!("memcached://{}", silent.1)]);
    assert_eq!(status.code(), Some(4));
    assert!(out.contains("DOWN: no answer within 200ms"), "{out}");
}

fn json_of(addr: SocketAddr, path: &str) -> Value {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {addr}\r\n\r\n");
    let answer = Wire::connect(addr).send(request).read();
    assert_eq!(answer.status, 200);
    serde_json::from_slice(&answer.body).unwrap()
}

#[test]
fn once_as_json_says_what_the_servers_say() {
    let origin = origin();
    let larder = larder(&origin);
    let address = admin(&larder);
    for path in ["/page/a", "/page/a", "/page/a", "/page/b", "/private", "/gone"] {
        get(larder.addr(), path);
    }
    let memcached = Memcached::debian(&["-m", "8"]);
    let mut talk = memcached.connect();
    talk.expect("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    talk.expect("get k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
    talk.expect("get none\r\n", "END\r\n");
    talk.expect("get none\r\n", "END\r\n");

    let (status, out, err) = run(&[
        "top",
        "--once",
        "--json",
        "-i",
        "200ms",
        &address.to_string(),
        &memcached.server(),
        &format!("127.0.0.1:{}", free_port()),
    ]);
    assert_eq!(status.code(), Some(1), "one of three is down: {err}");
    let said: Value = serde_json::from_str(&out).unwrap();
    let stats = json_of(address, "/api/v1/stats");
    let (first, second, third) = (&said["servers"][0], &said["servers"][1], &said["servers"][2]);
    let results = &stats["http"]["results"];
    let sum =
        |names: &[&str]| names.iter().map(|name| results[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!(first["kind"], "larder");
    assert_eq!(first["version"], stats["larder"]);
    assert_eq!(first["budget_bytes"], stats["memory"]["budget"]);
    assert_eq!(first["counters"]["hits"], 2, "{results}");
    let gets = sum(&["hit", "stale", "miss", "refresh", "hit_for_miss", "coalesced"]);
    assert_eq!(first["counters"]["gets"], gets);
    assert_eq!(first["counters"]["sets"], stats["http"]["stored"]);
    assert_eq!(first["counters"]["written_bytes"], stats["http"]["bytes_out"]);
    assert_eq!(first["faces"][0]["counters"]["gets"], gets);
    // Nobody asked between the two looks.
    assert_eq!((&first["interval"]["gets"], &first["hit_percent"]), (&0.into(), &Value::Null));
    assert_eq!(first["rates"]["gets"], 0.0);

    assert_eq!((&second["kind"], &second["state"]), (&"memcached".into(), &"up".into()));
    let counters = &second["counters"];
    assert_eq!(
        (&counters["gets"], &counters["hits"], &counters["sets"]),
        (&3.into(), &1.into(), &1.into())
    );
    assert_eq!(second["budget_bytes"], 8 << 20);
    assert_eq!((&third["state"], &third["why"]), (&"down".into(), &"connection refused".into()));

    let (_, text, _) = run(&["top", "--once", "--lifetime", &memcached.server()]);
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(row(&lines, &memcached.server()).unwrap()["HIT"], 33.3, "{text}");
}

#[test]
fn redis_is_told_from_the_others() {
    let origin = origin();
    let redis = larder_tests::Redis::debian(&[]);
    let larder = larder(&origin);
    // A Larder's memcached face answers as memcached does, and its visitors' face is not its admin
    // API.
    let faces =
        [redis.addr().to_string(), larder.face("memcached").to_string(), larder.addr().to_string()];
    let (status, out, _) = run(&["top", "--once", "-l", "--json", &faces[0], &faces[1], &faces[2]]);
    let said: Value = serde_json::from_str(&out).unwrap();
    let of = |n: usize, what: &str| said["servers"][n][what].as_str().unwrap_or("-").to_owned();
    assert_eq!((of(0, "kind"), of(0, "state")), ("redis".to_owned(), "up".to_owned()), "{out}");
    assert_eq!((of(1, "kind"), of(1, "state")), ("memcached".to_owned(), "up".to_owned()), "{out}");
    assert_eq!(of(2, "state"), "down", "{out}");
    assert_eq!(status.code(), Some(1));
}

#[test]
fn wrong_usage_is_said() {
    for args in [
        &["top", "--json", "127.0.0.1:1"][..],
        &["top", "ftp://x"],
        &["top", "--alarm", "speed=1"],
        &["top", "--sort", "colour"],
        &["top", "127.0.0.1:1"],
        &["log", "memcached://y"],
        &["hist", "memcached://x"],
    ] {
        let (status, out, err) = run(args);
        assert_eq!((status.code(), out.as_str()), (Some(2), ""), "{args:?}: {err}");
        assert!(!err.is_empty(), "{args:?}");
    }
}

/// `larder log` with these filters, its output line by line.
fn log(address: SocketAddr, args: &[&str]) -> (Ended, BufReader<std::process::ChildStdout>) {
    let mut command = Command::new(binary());
    command
        .arg("log")
        .arg(address.to_string())
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = Ended(command.spawn().unwrap());
    let stdout = BufReader::new(child.0.stdout.take().unwrap());
    (child, stdout)
}

#[test]
fn the_log_shows_what_the_filters_let_through() {
    let origin = origin();
    let larder = larder(&origin);
    let (address, front) = (admin(&larder), larder.addr());
    for (args, expected) in [
        (&["--status", "404"][..], &["404", "/gone"][..]),
        (&["--url", "private"], &["200", "/private"]),
        (&["--regex", "/page/[0-9]+$"], &["TCP_MISS", "/page/"]),
        (&["--result", "hit", "--method", "GET"], &["HIT", "/page/same"]),
    ] {
        let (mut child, stdout) = log(address, &[args, &["-n", "3"]].concat());
        let load = Load::of(move || {
            for path in ["/page/same", &new_page(), "/private", "/gone"] {
                get(front, path);
            }
        });
        let status = wait_for("three requests", || child.0.try_wait().unwrap());
        drop(load);
        let lines: Vec<String> = stdout.lines().map(Result::unwrap).collect();
        assert_eq!((status.code(), lines.len()), (Some(0), 3), "{args:?}: {lines:#?}");
        for line in &lines {
            assert!(expected.iter().all(|word| line.contains(word)), "{args:?}: {line}");
            assert!(!line.contains('\x1b'), "no colours in a pipe: {line}");
        }
    }
}

#[test]
fn the_log_as_json_is_the_servers_own() {
    let origin = origin();
    let larder = larder(&origin);
    let front = larder.addr();
    let (mut child, mut stdout) =
        log(admin(&larder), &["--json", "-n", "1", "--slower-than", "0ms"]);
    let _load = page_load(front);
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let request: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&request["method"], &request["status"]), (&"GET".into(), &200.into()), "{line}");
    assert!(request["url"].as_str().unwrap().contains("/page/"), "{line}");
    wait_for("its end", || child.0.try_wait().unwrap());
}

#[test]
fn the_log_comes_again_after_a_restart_and_says_what_is_wrong() {
    let origin = origin();
    let larder = larder(&origin);
    let address = admin(&larder);
    let (status, _, err) = run(&["log", &address.to_string(), "--regex", "("]);
    assert_eq!(status.code(), Some(2), "{err}");
    assert!(err.contains("regex"), "{err}");
    let (status, _, err) = run(&["log", &format!("127.0.0.1:{}", free_port())]);
    assert_eq!(status.code(), Some(4), "{err}");
    assert!(err.contains("connection refused"), "{err}");

    let (mut child, mut stdout) = log(address, &[]);
    let load = page_load(larder.addr());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    drop(load);
    drop(larder);
    let mut said = BufReader::new(child.0.stderr.take().unwrap());
    line.clear();
    while !line.contains("again in") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it ended");
    }
    assert!(child.0.try_wait().unwrap().is_none(), "it goes on trying");
}

#[test]
fn the_histogram_has_hits_and_misses() {
    let origin = origin();
    let larder = larder(&origin);
    let address = admin(&larder).to_string();
    let _load = page_load(larder.addr());
    let (status, out, err) = run(&["hist", "--once", "--window", "3", &address]);
    assert_eq!(status.code(), Some(0), "{err}");
    let legend = out.lines().find(|line| line.contains(" hits  # ")).unwrap();
    let numbers: Vec<u64> =
        legend.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(numbers[0] > 0 && numbers[1] > 0, "{out}");
    assert!(out.contains("|\n") || out.contains("||"), "{out}");

    let mut pty = Pty::larder(&["hist", &address], 80, 24);
    pty.wait_line(&["larder hist", &address]);
    pty.wait_for("bars", |lines| lines[1..20].iter().any(|line| line.contains('|')).then_some(()));
    pty.keys(">");
    pty.wait_line(&["last 20 s"]);
    drop(larder);
    pty.wait_line(&["DOWN"]);
    pty.keys("q");
    assert_eq!(pty.ended(), 0);
}

#[test]
fn colours_are_left_out_where_they_are_not_wanted() {
    let nobody = format!("127.0.0.1:{}", free_port());
    for (no_color, coloured) in [("", true), ("1", false)] {
        let pty = Pty::larder_with(&["top", "-i", "200ms", &nobody], 80, 24, no_color);
        pty.wait_line(&[&nobody, "DOWN"]);
        assert_eq!(pty.has_colours(), coloured, "NO_COLOR={no_color:?}");
    }
}
