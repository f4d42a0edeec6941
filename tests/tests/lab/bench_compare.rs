//! `larder bench compare`: the real binary with real servers, in very few and very short rounds.
//! That figures are right is not asked here (two rounds on a busy machine have none), but that the
//! report is whole and consistent, that nothing is left behind, and that who serves something else
//! is told apart.

#![allow(clippy::unwrap_used)]

use larder_lab::peers::{PEERS, Role};
use larder_tests::{
    Origin, Scratch, Started, get, helper::free_port, larder::binary, wait_for, wait_until,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A directory for the servers' own directories, which servers that are somebody else's user must
/// pass through.
fn place() -> Scratch {
    let scratch = Scratch::new("compare");
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    scratch
}

fn compare(scratch: &Scratch, args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    // TMPDIR: where it makes directories for the servers.
    command.args(["bench", "compare"]).args(args).env("TMPDIR", scratch.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs to the end; gives exit code, standard output, and the JSON report.
#[track_caller]
fn report(scratch: &Scratch, args: &[&str]) -> (i32, String, Value) {
    let json = scratch.file("report.json");
    let output = compare(scratch, args).arg("--json").arg(&json).output().unwrap();
    assert_nothing_left(scratch);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let read =
        fs::read(&json).unwrap_or_else(|error| panic!("no report: {error}\n{}", shown(&output)));
    (output.status.code().unwrap(), text, serde_json::from_slice(&read).unwrap())
}

fn shown(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Processes that work in a directory below this one: every server was started in its own.
fn working_below(path: &Path) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .filter(|pid| {
            // A zombie has no directory any more.
            fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(path))
        })
        .collect()
}

#[track_caller]
fn assert_nothing_left(scratch: &Scratch) {
    assert_eq!(working_below(scratch.path()), [0u32; 0], "processes that still run");
    let left: Vec<_> = fs::read_dir(scratch.path())
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .collect();
    assert!(left.is_empty(), "directories that are still there: {left:?}");
}

fn rows(table: &Value) -> &Vec<Value> {
    table["rows"].as_array().unwrap()
}

fn row<'a>(table: &'a Value, name: &str) -> &'a Value {
    rows(table)
        .iter()
        .find(|row| row["name"] == name)
        .unwrap_or_else(|| panic!("no {name} in {table}"))
}

/// Every figure is what its rounds say, in bounds that its definition gives.
#[track_caller]
fn assert_consistent(table: &Value, rounds: usize) {
    for row in rows(table) {
        assert_eq!(row["rounds"].as_array().unwrap().len(), rounds, "{row}");
        let figures = &row["figures"];
        for figure in ["cpu", "total", "per_second", "p50", "p99"] {
            let spread = &figures[figure];
            let number =
                |key: &str| spread[key].as_f64().unwrap_or_else(|| panic!("{figure} of {row}"));
            assert!(
                number("q1") <= number("median") && number("median") <= number("q3"),
                "{figure}: {spread}"
            );
            assert_eq!(spread["n"], rounds, "{figure}");
            assert!(number("q1") >= 0.0, "{figure}: {spread}");
        }
        let median = |figure: &str| figures[figure]["median"].as_f64().unwrap();
        assert!(median("per_second") > 0.0);
        assert!(median("p50") <= median("p99"));
    }
}

fn installed(program: &str) -> bool {
    ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"]
        .iter()
        .any(|dir| Path::new(dir).join(program).is_file())
}

#[test]
fn pages_are_compared_by_ratios_to_the_floor() {
    let scratch = place();
    let (html, markdown) = (scratch.file("report.html"), scratch.file("report.md"));
    let args = ["--plan", "http", "--rounds", "2", "--slice", "40ms", "--sizes", "1000,100000"];
    let files = ["--html", html.to_str().unwrap(), "--markdown", markdown.to_str().unwrap()];
    let (code, text, report) = report(&scratch, &[&args[..], &files[..]].concat());
    assert_eq!(code, 0, "{text}");

    let tables = report["tables"].as_array().unwrap();
    assert_eq!(tables.len(), 2);
    let servers = [
        ("floor", None),
        ("larder", None),
        ("nginx-static", Some(("nginx", "nginx-light"))),
        ("nginx-cache", Some(("nginx", "nginx-light"))),
        ("lighttpd", Some(("lighttpd", "lighttpd"))),
        ("haproxy", Some(("haproxy", "haproxy"))),
        ("varnish", Some(("varnishd", "varnish"))),
        ("trafficserver", Some(("traffic_server", "trafficserver"))),
        ("squid", Some(("squid", "squid"))),
    ];
    for (table, measure) in tables.iter().zip(["cpu", "total"]) {
        assert_eq!(table["measure"], measure);
        assert_consistent(table, 2);
        for (name, needs) in servers {
            if needs.is_none_or(|(program, _)| installed(program)) {
                let ratio = row(table, name)["figures"]["ratio"]["median"].as_f64().unwrap();
                assert!(ratio > 0.0, "{name}");
            }
        }
        assert_eq!(row(table, "floor")["figures"]["ratio"]["median"], 1.0);
        assert_eq!(row(table, "larder")["ours"], true);
    }
    let left_out: Vec<&str> =
        report["left_out"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    for (_, needs) in servers {
        let Some((program, package)) = needs else { continue };
        let sentence = format!("{program} is not installed: `apt-get install {package}` brings it");
        assert_eq!(
            left_out.iter().any(|line| line.ends_with(&sentence)),
            !installed(program),
            "{left_out:?}"
        );
    }
    // What a reader needs to repeat it.
    assert!(report["machine"]["processors"].as_u64().unwrap() >= 1);
    let versions = report["versions"].as_array().unwrap();
    assert!(
        versions
            .iter()
            .any(|version| version[0] == "nginx, files"
                && version[1].as_str().unwrap().contains('.'))
    );
    for file in [&html, &markdown] {
        let written = fs::read_to_string(file).unwrap();
        assert!(
            written.contains("1,000 B") && written.contains("nginx, files"),
            "{}",
            file.display()
        );
    }
    let page = fs::read_to_string(&html).unwrap();
    assert!(
        !page.contains("src=\"http") && !page.contains("href=\"http"),
        "the page fetches from elsewhere"
    );
}

#[test]
fn objects_are_compared_with_the_same_language() {
    let scratch = place();
    let args = ["--plan", "objects", "--rounds", "2", "--slice", "60ms", "--items", "500"];
    let (code, text, report) = report(&scratch, &args);
    assert_eq!(code, 0, "{text}");
    let tables = report["tables"].as_array().unwrap();
    assert_eq!(tables.len(), 10);
    for table in tables {
        assert_consistent(table, 2);
        for (name, base) in [
            ("larder:text", "memcached:text"),
            ("larder:meta", "memcached:meta"),
            ("larder:redis", "redis:redis"),
        ] {
            assert_eq!(row(table, name)["base"], base);
            assert!(row(table, name)["figures"]["ratio"]["median"].as_f64().unwrap() > 0.0);
            assert_eq!(row(table, base)["figures"]["ratio"]["median"], 1.0);
            // Marked exactly where it took more.
            let behind = !row(table, name)["behind"].as_array().unwrap().is_empty();
            assert_eq!(
                behind,
                row(table, name)["figures"]["ratio"]["median"].as_f64().unwrap() > 1.0
            );
        }
    }
    assert_eq!(tables[6]["unit"], "key");
}

#[test]
fn memory_and_hit_ratios_are_grids() {
    let scratch = place();
    let args =
        ["--plan", "memory", "--items", "100000", "--sizes", "100", "--only", "memcached,larder"];
    let (code, text, memory) = report(&scratch, &args);
    assert_eq!(code, 0, "{text}");
    let grid = &memory["grids"][0];
    assert_eq!(rows(grid).len(), 3, "memcached, and Larder in two languages: {grid}");
    for row in rows(grid) {
        let value = |at: usize| row["values"][at].as_f64().unwrap_or_else(|| panic!("{text}"));
        let (beside, all) = (value(0), value(1));
        // A server returns some megabytes of its buffers meanwhile: here tens of bytes an item.
        assert!((-80.0..400.0).contains(&beside) && all > beside, "{row}");
    }

    let plan = scratch.write(
        "plan.toml",
        "kind = 'hits'\ntitle = 'Small'\nservers = ['memcached', 'redis', 'larder']\nmemory = \
         '16MiB'\nkeys = 50000\nrequests = 50000\ntraces = ['zipf:1.0']\n",
    );
    let (code, text, hits) = report(&scratch, &["--plan", plan.to_str().unwrap()]);
    assert_eq!(code, 0, "{text}");
    let shares: Vec<(&str, f64)> = rows(&hits["grids"][0])
        .iter()
        .map(|row| (row["title"].as_str().unwrap(), row["values"][0].as_f64().unwrap()))
        .collect();
    assert_eq!(shares.len(), 4, "three servers and what an exact LRU would do: {shares:?}");
    // The trace is made from a seed: caches that are large enough for much of it find about the
    // same.
    let least = shares.iter().map(|(_, share)| *share).fold(1.0, f64::min);
    let most = shares.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    assert!(least > 0.3 && most < 1.0 && most - least < 0.2, "{shares:?}");
}

#[test]
fn who_is_not_installed_is_left_out_with_the_package_that_brings_it() {
    let scratch = place();
    let json = scratch.file("report.json");
    let args = [
        "--plan",
        "objects",
        "--only",
        "memcached,larder",
        "--rounds",
        "1",
        "--slice",
        "20ms",
        "--items",
        "100",
    ];
    let output = compare(&scratch, &args)
        .env("PATH", "/nonexistent")
        .arg("--json")
        .arg(&json)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    let sentence = "memcached: memcached is not installed: `apt-get install memcached` brings it";
    assert!(shown(&output).contains(sentence), "{}", shown(&output));
    let report: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["left_out"], Value::from(vec![sentence]));
    assert_eq!(rows(&report["tables"][0]).len(), 3, "Larder alone, in three languages");
    assert!(row(&report["tables"][0], "larder:text")["figures"]["ratio"].is_null());
}

#[test]
fn who_serves_other_bytes_is_reported_and_not_ranked() {
    let scratch = place();
    let pages = Started::start_at(free_port(), |_, port| {
        let mut command = Command::new(binary());
        command.args(["bench", "origin", "--listen", &format!("127.0.0.1:{port}")]);
        (command, None)
    });
    let page = get(pages.addr(), "/1000/0").body;
    // Right when it is looked at before the rounds, and mostly right under load.
    let served = AtomicUsize::new(0);
    let sometimes = Origin::start(move |_, reply| {
        let mut body = page.clone();
        let served = served.fetch_add(1, Ordering::Relaxed);
        if served > 20 && served.is_multiple_of(10) {
            body[500] ^= 1;
        }
        reply.ok(&[], body);
    });
    let always = Origin::start(|_, reply| {
        reply.ok(&[], vec![b'x'; 1000]);
    });
    // Under load always another, and always the same: only who knows the page sees it.
    let page = get(pages.addr(), "/1000/0").body;
    let loaded = Origin::start(move |seen, reply| {
        let mut body = page.clone();
        body[999] ^= u8::from(seen.get("connection") != Some("close"));
        reply.ok(&[], body);
    });
    let servers = [("sometimes", &sometimes), ("always", &always), ("loaded", &loaded)]
        .map(|(name, server)| format!("{name}={}", server.addr()));
    let own = format!("right={},pid={}", pages.addr(), pages.pid());
    let args = ["--only", "floor", "--rounds", "2", "--slice", "60ms", "--sizes", "1000"];
    let given: Vec<&str> =
        servers.iter().chain([&own]).flat_map(|server| ["--server", server]).collect();
    let (code, text, report) = report(&scratch, &[&args[..], &given[..]].concat());
    assert_eq!(code, 1, "{text}");
    let table = &report["tables"][0];
    for (name, reason) in [
        ("sometimes", "other bytes than they should have"),
        ("loaded", "other bytes than they should have"),
        ("always", "other bytes than the origin's page"),
    ] {
        let row = row(table, name);
        assert!(row["wrong"].as_str().unwrap().contains(reason), "{row}");
        assert!(row["figures"].is_null(), "{row}");
        assert!(text.contains(&format!("Not ranked: {name} at 1,000 B: ")), "{text}");
    }
    assert!(row(table, "right")["wrong"].is_null());
    assert!(row(table, "right")["figures"]["ratio"]["median"].as_f64().unwrap() > 0.0);
    assert!(row(table, "floor")["figures"].is_object());
}

#[test]
fn an_interruption_ends_every_server_and_shows_what_was_measured() {
    for signal in [Signal::INT, Signal::TERM] {
        let scratch = place();
        let args = [
            "--only",
            "floor,larder,nginx-cache",
            "--rounds",
            "100000",
            "--slice",
            "20ms",
            "--sizes",
            "1000",
        ];
        let mut child: Child = compare(&scratch, &args).spawn().unwrap();
        // The floor, Larder, nginx's master and its worker.
        wait_until("the servers to run", || working_below(scratch.path()).len() >= 4);
        // Rounds are under way once the floor has used some processor time.
        let floor = wait_for("the floor", || {
            let pids = working_below(scratch.path());
            pids.into_iter().find(|pid| {
                fs::read_to_string(format!("/proc/{pid}/cmdline"))
                    .is_ok_and(|line| line.contains("origin\0--listen"))
            })
        });
        wait_until("load on the floor", || {
            larder_tests::Usage::of(floor).is_some_and(|usage| usage.cpu.as_millis() > 50)
        });
        kill_process(Pid::from_child(&child), signal).unwrap();
        let status = child.wait().unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(status.code(), Some(130), "{}", shown(&output));
        assert_nothing_left(&scratch);
        let text = shown(&output);
        assert!(text.contains("Interrupted: tables have the rounds that were whole"), "{text}");
    }
}

/// `larder bench peer` with every server there is; killed when dropped.
struct Peers {
    child: Child,
    /// A line for each.
    lines: Vec<String>,
}

impl Peers {
    fn start(scratch: &Scratch) -> Peers {
        let errors = fs::File::create(scratch.file("errors")).unwrap();
        let mut command = Command::new(binary());
        command.args(["bench", "peer", "--sizes", "1000,100000", "--memory", "64"]);
        command.args(PEERS.iter().map(|peer| peer.name)).env("TMPDIR", scratch.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let mut peers = Peers { child: command.spawn().unwrap(), lines: Vec::new() };
        let printed = BufReader::new(peers.child.stdout.take().unwrap());
        for line in printed.lines().map(Result::unwrap) {
            if line.contains("Ctrl-C ends all") {
                return peers;
            }
            peers.lines.push(line);
        }
        // scripts/test-deps.sh installs them.
        let errors = fs::read_to_string(scratch.file("errors")).unwrap();
        panic!("not all are there: {errors}{:#?}", peers.lines);
    }

    /// Where a server listens, and where it speaks Redis's protocol besides.
    fn addresses(&self, name: &str) -> (SocketAddr, Option<SocketAddr>) {
        let line = self.lines.iter().find(|line| line.split(' ').next() == Some(name)).unwrap();
        let mut addresses = line.split([' ', ',']).filter_map(|word| word.parse().ok());
        (addresses.next().unwrap(), addresses.next())
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Sets and gets some keys.
#[track_caller]
fn assert_keeps_objects(protocol: &str, address: SocketAddr) {
    let address = address.to_string();
    let limits = ["--limit", "errors=0", "--limit", "hits=100%", "--quiet"];
    let load = ["bench", protocol, &address, "--fill", "--keys", "10", "--requests", "20"];
    let output = Command::new(binary()).args(load).args(limits).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{protocol} at {address}: {}", shown(&output));
}

/// Files and directories that other users can reach and write: a server run by root would execute
/// their content.
fn writable_by_others(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        // What a running server has just taken away.
        let Ok(there) = entry.metadata() else { continue };
        let mode = there.permissions().mode();
        if mode & 0o022 != 0 && !there.is_symlink() {
            found.push(entry.path());
        }
        if there.is_dir() && mode & 0o011 != 0 {
            found.extend(writable_by_others(&entry.path()));
        }
    }
    found
}

#[test]
fn every_peer_starts_in_its_own_configuration_answers_and_ends_when_we_are_killed() {
    let scratch = place();
    let peers = Peers::start(&scratch);
    let page = get(peers.addresses("floor").0, "/100000/0").body;
    assert_eq!(page.len(), 100_000);
    for peer in PEERS {
        let (address, redis) = peers.addresses(peer.name);
        match (peer.role, peer.name) {
            (Role::Pages, name) => {
                let answer = get(address, "/100000/0");
                assert!(answer.body == page, "{name}: {answer:?}");
            }
            (Role::Objects, "redis" | "redis-lfu") => assert_keeps_objects("redis", address),
            (Role::Objects, _) => {
                assert_keeps_objects("memcached", address);
                redis.into_iter().for_each(|redis| assert_keeps_objects("redis", redis));
            }
        }
    }
    assert_eq!(writable_by_others(scratch.path()), [""; 0].map(PathBuf::from));
    // SIGKILL.
    drop(peers);
    wait_until("the servers to end", || working_below(scratch.path()).is_empty());
}

/// As Larder: never listens, nor ends when it is asked to, and has two children, of which one
/// leaves its group as daemons do. Its version is asked for with one argument.
const STUCK: &str = "#!/bin/sh\n[ $# -gt 1 ] || exit 0\ntrap '' TERM\nsleep 600 &\nsetsid sleep \
                     600 &\nwhile :; do wait; done\n";

/// A comparison that waits for a server that is stuck; killed when dropped.
struct Waiting(Child);

impl Waiting {
    fn start(scratch: &Scratch) -> Waiting {
        let script = scratch.write("larder", STUCK);
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let args = ["--only", "larder", "--rounds", "1", "--larder", script.to_str().unwrap()];
        let waiting = Waiting(compare(scratch, &args).spawn().unwrap());
        wait_until("the script and its children", || working_below(scratch.path()).len() == 3);
        // The shell that is beside the script comes after it.
        let pid = waiting.0.id();
        wait_until("the shell that waits for our end", || {
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
            children.split(' ').any(|child| {
                fs::read_to_string(format!("/proc/{child}/cmdline"))
                    .is_ok_and(|line| line.contains("read ended"))
            })
        });
        waiting
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_second_interruption_does_not_wait_for_who_does_not_end() {
    let scratch = place();
    let mut waiting = Waiting::start(&scratch);
    // Two kinds: of one kind the second is lost when it comes before the first was seen.
    for signal in [Signal::INT, Signal::TERM] {
        kill_process(Pid::from_child(&waiting.0), signal).unwrap();
    }
    let status = waiting.0.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    let mut printed = String::new();
    waiting.0.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    // Who ends in order has something to say.
    assert_eq!(printed, "");
    assert_nothing_left(&scratch);
}

#[test]
fn what_is_killed_takes_its_servers_along() {
    let scratch = place();
    drop(Waiting::start(&scratch));
    wait_until("the servers to end", || working_below(scratch.path()).is_empty());
}

#[test]
fn a_server_that_does_not_start_is_quoted() {
    let scratch = place();
    let broken = scratch.write("larder", "#!/bin/sh\necho 'my memory is gone' >&2\nexit 7\n");
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).unwrap();
    let args = [
        "--only",
        "larder",
        "--rounds",
        "1",
        "--slice",
        "20ms",
        "--larder",
        broken.to_str().unwrap(),
    ];
    let output = compare(&scratch, &args).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", shown(&output));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("larder ended at its start (exit status: 7)"), "{errors}");
    assert!(errors.contains("my memory is gone"), "{errors}");
    assert_nothing_left(&scratch);
}

#[test]
fn what_cannot_be_meant_is_said_before_anything_starts() {
    let scratch = place();
    for (args, message) in [
        (&["--plan", "speed"][..], "built in are http, objects, memory, hitratio"),
        (
            &["--only", "apache"],
            "--only apache: there is no such server; there are floor, larder, nginx-static",
        ),
        (&["--server", "mine"], "expected NAME=ADDR"),
        (&["--plan", "objects", "--sizes", "5"], "--sizes is for pages"),
        (&["--markdown", "/nowhere/tables.md"], "--markdown /nowhere/tables.md: "),
    ] {
        let output = compare(&scratch, args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", shown(&output));
        assert!(shown(&output).contains(message), "{}", shown(&output));
    }
}
