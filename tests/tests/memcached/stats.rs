//! Statistics for operators: Larder's have the names of Debian's memcached, and the tools that read
//! them work.

use larder_tests::memcache::{End, Memcached, client};
use larder_tests::wait_for;
use std::process::Command;

/// Both, with the same flags.
fn both(flags: &[&str]) -> [Memcached; 2] {
    [Memcached::larder(flags), Memcached::debian(flags)]
}

/// The names of an answer's `STAT` lines, in order.
#[track_caller]
fn names(server: &Memcached, command: &str) -> Vec<String> {
    let answer = server.connect().ask(format!("{command}\r\n"), "END\r\n");
    let lines = answer.lines().filter_map(|line| line.strip_prefix("STAT "));
    lines.map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
}

/// Runs a Python program that is given the server's port and prints `fine` at its end.
#[track_caller]
fn python(server: &Memcached, program: &str) {
    let port = server.port().to_string();
    let output = client(Command::new("/usr/bin/python3").args(["-c", program, &port]));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), "fine");
}

fn fill(server: &Memcached) {
    let mut talk = server.connect();
    for n in 0..20 {
        talk.expect(format!("set group:key{n} 0 0 100\r\n{}\r\n", "x".repeat(100)), "STORED\r\n");
    }
    talk.expect("get group:none\r\n", "END\r\n");
    talk.ask("get group:key1\r\n", "END\r\n");
}

#[test]
fn every_name_is_there_in_the_same_order() {
    let [larder, debian] = both(&["-o", "idle_timeout=600"]);
    for server in [&larder, &debian] {
        fill(server);
    }
    for command in ["stats", "stats settings"] {
        assert_eq!(names(&larder, command), names(&debian, command), "{command}");
    }
    // memcached numbers classes by size.
    let class = regex::Regex::new(r"^(items:)?\d+:").unwrap();
    let plain = |server, command| {
        let names = names(server, command).into_iter();
        names.map(|name| class.replace(&name, "").into_owned()).collect::<Vec<_>>()
    };
    for command in ["stats items", "stats slabs"] {
        assert_eq!(plain(&larder, command), plain(&debian, command), "{command}");
    }
}

#[test]
fn settings_tell_the_flags() {
    let servers =
        both(&["-c", "321", "-I", "2m", "-M", "-b", "77", "-R", "33", "-C", "-D", "/", "-X", "-F"]);
    let told = [
        "maxconns 321",
        "item_size_max 2097152",
        "evictions off",
        "tcp_backlog 77",
        "reqs_per_event 33",
        "cas_enabled no",
        "stat_key_prefix /",
        "detail_enabled yes",
        "dump_enabled no",
        "flush_enabled no",
        "inter 127.0.0.1",
    ];
    for server in &servers {
        let settings = server.connect().ask("stats settings\r\n", "END\r\n");
        for line in told {
            assert!(settings.contains(&format!("STAT {line}\r\n")), "{line} is not in\n{settings}");
        }
    }
}

#[test]
fn figures_count_what_was_done() {
    let server = Memcached::larder(&[]);
    fill(&server);
    let mut talk = server.connect();
    for (name, value) in [
        ("cmd_set", "20"),
        ("cmd_get", "2"),
        ("get_hits", "1"),
        ("get_misses", "1"),
        ("curr_items", "20"),
        ("total_items", "20"),
        ("pid", &server.pid().to_string()),
    ] {
        assert_eq!(talk.stat(name), value, "{name}");
    }
    talk.expect("stats reset\r\n", "RESET\r\n");
    assert_eq!((talk.stat("cmd_set"), talk.stat("curr_items")), ("0".to_owned(), "20".to_owned()));
}

#[test]
fn detail_is_counted_by_prefix() {
    for server in both(&[]) {
        let mut talk = server.connect();
        talk.expect("stats detail on\r\n", "OK\r\n");
        fill(&server);
        talk.expect("delete group:key2\r\n", "DELETED\r\n");
        talk.expect("stats detail dump\r\n", "PREFIX group get 2 hit 1 set 20 del 1\r\nEND\r\n");
    }
}

#[test]
fn dumps_have_one_form() {
    let form = regex::Regex::new(
        r"^key=group%3Akey\d+ exp=-1 la=\d{10} cas=\d+ fetch=(yes|no) cls=\d+ size=\d+$",
    )
    .unwrap();
    // memcached misses items that it moves between its queues meanwhile.
    for (server, least) in both(&[]).iter().zip([20, 1]) {
        fill(server);
        let dump = server.connect().ask_crawler("lru_crawler metadump all");
        let lines: Vec<_> = dump.strip_suffix("END\r\n").unwrap().split_terminator('\n').collect();
        assert!((least..=20).contains(&lines.len()), "{dump}");
        assert!(lines.iter().all(|line| form.is_match(line)), "{dump}");
    }
}

#[test]
fn many_keys_are_dumped_while_others_are_served() {
    let server = Memcached::larder(&["-m", "256"]);
    // The answer is far larger than what a worker and the system need for any long answer.
    let count = 500_000;
    let mut talk = server.connect();
    let sets: String = (0..count).map(|n| format!("set key{n} 0 0 1 noreply\r\nx\r\n")).collect();
    talk.send(sets).expect("mn\r\n", "MN\r\n");
    // Asked for and not read: it waits for its reader, and nobody waits for it.
    let mut dump = server.connect();
    dump.send("lru_crawler metadump all\r\n");
    talk.ask("get key7\r\n", "END\r\n");
    let before = server.usage().rss;
    let (all, _) = dump.until(b"\nEND\r\n");
    assert_eq!(all.iter().filter(|byte| **byte == b'\n').count(), count + 1);
    let (after, kept) = (server.usage().rss, all.len() as u64 / 2);
    assert!(after < before + kept, "a dump is not kept in memory: {before} bytes, then {after}");
}

#[test]
fn watchers_see_the_same_lines() {
    let seen = both(&[]).map(|server| {
        let mut watcher = server.connect();
        watcher.expect("watch mutations fetchers\r\n", "OK\r\n");
        let mut talk = server.connect();
        talk.expect("set a:b 5 100 3\r\nabc\r\n", "STORED\r\n");
        talk.ask("get a:b\r\n", "END\r\n");
        talk.expect("get last\r\n", "END\r\n");
        let mut lines = String::new();
        wait_for("the last line", || {
            lines.push_str(&String::from_utf8(watcher.take(1)).unwrap());
            lines.contains("key=last").then_some(())
        });
        lines.push_str(&String::from_utf8(watcher.until(b"size=0\n").0).unwrap());
        // Numbers of lines and clients, classes and times are each server's own; look-ups of stores
        // memcached's.
        let own = regex::Regex::new(r"(ts|gid|clsid|cfd)=[0-9.]+").unwrap();
        let lines = own.replace_all(&lines, "$1=").into_owned();
        let stored = lines.find("ts= gid= type=item_store").expect("the store is seen");
        lines[stored..].to_owned()
    });
    assert_eq!(seen[0], seen[1]);
}

/// What both answer to each line. Not among them: `cache_memlimit`, which memcached carries out.
const LINES: &[&str] = &[
    "stats foo",
    "stats noreply",
    "stats extstore",
    "stats vbucket",
    "stats detail",
    "stats detail foo",
    "stats detail on x",
    "stats detail dump",
    "stats detail off",
    "stats sizes",
    "stats sizes_enable",
    "stats sizes_disable",
    "stats reset",
    "stats reset x",
    "stats cachedump",
    "stats cachedump 1",
    "stats cachedump a b",
    "stats cachedump 1 -1",
    "stats cachedump 64 0",
    "stats cachedump 63 0",
    "lru_crawler",
    "lru_crawler foo",
    "lru_crawler metadump",
    "lru_crawler metadump all foo",
    "lru_crawler metadump all noreply",
    "lru_crawler metadump foo",
    "lru_crawler metadump 0",
    "lru_crawler metadump 99",
    "lru_crawler metadump 1,99",
    "lru_crawler metadump 1;2",
    "lru_crawler enable",
    "lru_crawler disable",
    "lru_crawler disable",
    "lru_crawler metadump all",
    "lru_crawler crawl 1",
    "lru_crawler enable",
    "lru_crawler sleep",
    "lru_crawler sleep 0",
    "lru_crawler sleep x",
    "lru_crawler sleep 2000000",
    "lru_crawler sleep 5 noreply",
    "lru_crawler tocrawl",
    "lru_crawler tocrawl 5",
    "lru_crawler tocrawl x",
    "lru_crawler crawl",
    "lru_crawler crawl 77",
    "lru_crawler crawl foo",
    "slabs",
    "slabs foo",
    "slabs reassign",
    "slabs reassign 1",
    "slabs reassign 1 2 3",
    "slabs reassign 1 2",
    "slabs reassign 0 1",
    "slabs reassign 1 1",
    "slabs reassign 1 99",
    "slabs reassign -1 1",
    "slabs reassign a b",
    "slabs reassign 1 2 noreply",
    "slabs automove",
    "slabs automove 0",
    "slabs automove 3",
    "slabs automove x",
    "slabs automove 1 noreply",
    "slabs automove noreply",
    "slabs automove freeratio 0.02",
    "slabs automove ratio 0.5",
    "lru",
    "lru foo",
    "lru mode",
    "lru mode flat",
    "lru mode segmented x",
    "lru mode foo",
    "lru tune",
    "lru tune 10 25",
    "lru tune 10 25 0.1 2.0",
    "lru tune 90 90 0.1 2.0",
    "lru tune 10 25 x 2.0",
    "lru tune 10 20 0 0",
    "lru temp_ttl",
    "lru temp_ttl 0",
    "lru temp_ttl -1",
    "lru temp_ttl x",
    "lru noreply",
    "verbosity",
    "verbosity 1",
    "verbosity x",
    "verbosity 1 2",
    "verbosity 99",
    "verbosity -1",
    "verbosity 0 noreply",
    "watch foo",
    "watch fetchers foo",
    "watch fetchers noreply",
    "extstore",
    "extstore free_memchunks 1 1",
    "extstore foo bar",
    "cache_memlimit",
    "cache_memlimit x",
    "cache_memlimit 0",
    "cache_memlimit 7",
    "cache_memlimit noreply",
];

#[test]
fn lines_are_answered_alike() {
    let servers = both(&[]);
    let mut talks = servers.each_ref().map(Memcached::connect);
    for line in LINES {
        let [larder, debian] = talks.each_mut().map(|talk| talk.ask_crawler(line));
        assert_eq!(larder, debian, "{line}");
    }
}

#[test]
fn what_is_forbidden_is_refused_alike() {
    let servers = both(&["-X", "-W"]);
    let lines = [
        "stats cachedump 1",
        "stats cachedump 1 0",
        "lru_crawler metadump all",
        "lru_crawler metadump 99",
        "watch",
    ];
    for line in lines {
        let [larder, debian] = servers.each_ref().map(|server| server.connect().ask_crawler(line));
        assert_eq!(larder, debian, "{line}");
    }
}

#[test]
fn connections_are_watched_and_listed() {
    let server = Memcached::larder(&[]);
    let mut watcher = server.connect();
    watcher.expect("watch connevents\r\n", "OK\r\n");
    let mut talk = server.connect();
    let from = talk.stream().local_addr().unwrap();
    let conns = talk.ask("stats conns\r\n", "END\r\n");
    assert!(
        conns.contains(&format!(":addr tcp:{from}\r\n")) && conns.contains("conn_parse_cmd"),
        "{conns}"
    );
    assert!(
        conns.contains(&format!(":addr tcp:{}\r\n", server.addr()))
            && conns.contains("conn_listening")
    );
    talk.expect("quit\r\n", "");
    drop(talk);
    let new = format!("type=conn_new rip=127.0.0.1 rport={} transport=tcp cfd=", from.port());
    let close = format!(
        "type=conn_close rip=127.0.0.1 rport={} transport=tcp reason=normal cfd=",
        from.port()
    );
    let mut lines = String::new();
    while !lines.contains(&close) {
        let (more, end) = watcher.until(b"\n");
        lines.push_str(&String::from_utf8(more).unwrap());
        assert_eq!(end, End::Found, "{lines}");
    }
    assert!(lines.contains(&new), "{lines}");
}

#[test]
fn libmemcacheds_tools_read_them() {
    let server = Memcached::larder(&[]);
    fill(&server);
    for protocol in [None, Some("--binary")] {
        let servers = format!("--servers={}", server.server());
        let output = client(Command::new("memcstat").arg(&servers).args(protocol));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(&format!("pid: {}", server.pid())), "{text}");
        assert!(text.contains("curr_items: 20"), "{text}");
    }
    let output = client(Command::new("memcdump").arg(format!("--servers={}", server.server())));
    let mut keys: Vec<_> =
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 20, "{keys:?}");
}

#[test]
fn memcached_tool_reads_them() {
    const TOOL: &str = "/usr/share/memcached/scripts/memcached-tool";
    let server = Memcached::larder(&[]);
    fill(&server);
    let run = |what: &str| {
        let output = client(Command::new("perl").args([TOOL, &server.server(), what]));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let display = run("display");
    assert!(display.lines().any(|line| line.split_whitespace().nth(4) == Some("20")), "{display}");
    assert!(run("stats").contains("curr_items"));
    assert!(run("settings").contains("item_size_max"));
    assert_eq!(run("dump").matches("add group:key").count(), 20);
}

#[test]
fn a_plain_parser_reads_them() {
    // As munin's and Cacti's do: three words to a line, numbers where memcached has numbers.
    python(
        &Memcached::larder(&[]),
        r#"
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
f = s.makefile("rb")
for command in ("stats", "stats settings", "stats items", "stats slabs", "stats conns", "stats latency"):
    s.sendall(command.encode() + b"\r\n")
    values = {}
    for line in f:
        line = line.decode().rstrip("\r\n")
        if line == "END":
            break
        stat, name, value = line.split(" ", 2)
        assert stat == "STAT", line
        values[name] = value
    if command == "stats":
        words = {"version", "libevent", "rusage_user", "rusage_system"}
        assert all(value.isdigit() for name, value in values.items() if name not in words), values
        float(values["rusage_user"])
print("fine")
"#,
    );
}

#[test]
fn pymemcache_reads_them() {
    python(
        &Memcached::larder(&[]),
        r#"
import sys
from pymemcache.client.base import Client
client = Client(("127.0.0.1", int(sys.argv[1])))
client.set("group:key", b"value")
assert client.stats()[b"curr_items"] == 1
assert client.stats("settings")[b"item_size_max"] == 1048576
assert client.stats("items")[b"items:1:number"] == 1
assert client.stats("slabs")[b"1:used_chunks"] == 1
print("fine")
"#,
    );
}

#[test]
fn hot_keys_latency_and_the_largest() {
    let server = Memcached::larder(&["-t", "2"]);
    fill(&server);
    let mut talk = server.connect();
    let gets = "get group:key3\r\n".repeat(50) + "get cold\r\n";
    (0..100).for_each(|_| {
        talk.send(&gets).until(b"END\r\nEND\r\n");
    });
    talk.expect("mn\r\n", "MN\r\n");
    let hot = talk.ask("stats hotkeys\r\n", "END\r\n");
    assert!(hot.contains("STAT 1:key group%3Akey3\r\n"), "{hot}");
    let latency = talk.ask("stats latency\r\n", "END\r\n");
    let batches = latency.lines().find_map(|line| line.strip_prefix("STAT batches ")).unwrap();
    assert!(batches.parse::<u64>().unwrap() > 100, "{latency}");
    talk.expect("set big 0 0 5000\r\n".to_owned() + &"x".repeat(5000) + "\r\n", "STORED\r\n");
    talk.expect("stats largest 1\r\n", "STAT 1:key big\r\nSTAT 1:size 5000\r\nEND\r\n");
}
