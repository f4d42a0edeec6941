//! What memcached 1.6.18 shows of its inner life, as its own test files look at it: reasons for
//! which connections end, look-ups of commands that ask for no value, yields, states of
//! connections. Larder and Debian's memcached are asked the same.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::memcache::{End, Memcached, Talk};
use larder_tests::{wait_for, wait_until};
use std::net::{TcpStream, UdpSocket};

/// Both, with the same flags.
fn both(flags: &[&str]) -> [Memcached; 2] {
    [Memcached::larder(flags), Memcached::debian(flags)]
}

/// A request of the binary protocol.
fn packet(opcode: u8, key: &[u8], extras: &[u8], value: &[u8], version: u64) -> Vec<u8> {
    let mut packet = vec![0x80, opcode];
    packet.extend((key.len() as u16).to_be_bytes());
    packet.extend([extras.len() as u8, 0, 0, 0]);
    packet.extend(((key.len() + extras.len() + value.len()) as u32).to_be_bytes());
    packet.extend([0; 4]);
    packet.extend(version.to_be_bytes());
    [&packet[..], extras, key, value].concat()
}

/// A client that watches.
struct Watcher {
    talk: Talk<TcpStream>,
    lines: String,
}

impl Watcher {
    fn new(server: &Memcached, kinds: &str) -> Watcher {
        let mut talk = server.connect();
        talk.expect(format!("watch {kinds}\r\n"), "OK\r\n");
        Watcher { talk, lines: String::new() }
    }

    /// The lines up to the one that has `last` in it, without what is each server's own.
    #[track_caller]
    fn until(&mut self, last: &str) -> Vec<String> {
        loop {
            if let Some(at) = self.lines.find(last)
                && let Some(end) = self.lines[at..].find('\n')
            {
                let seen = self.lines.drain(..at + end + 1).collect::<String>();
                return seen.lines().map(own).collect();
            }
            let (more, end) = self.talk.until(b"\n");
            self.lines.push_str(&String::from_utf8(more).unwrap());
            assert_eq!(end, End::Found, "no {last:?} in {}", self.lines);
        }
    }
}

/// Numbers of lines and clients, times and ports are each server's own. So is the class of a value
/// too large for all classes. Seconds left may be one less.
fn own(line: &str) -> String {
    let line =
        regex::Regex::new(r"^ts=\S+ gid=\d+ | cfd=-?\d+| rport=\d+").unwrap().replace_all(line, "");
    let line = regex::Regex::new(r"(too_large .*) clsid=\d+").unwrap().replace_all(&line, "$1");
    regex::Regex::new(r"ttl=2[89]\d\b").unwrap().replace_all(&line, "ttl=300").into_owned()
}

/// A connection that was closed for what its client sent is told from one that the client closed.
#[test]
fn the_end_of_a_connection_has_memcacheds_reason() {
    let long = "x".repeat(3000);
    let cases: &[(&str, Vec<u8>, &str)] = &[
        ("quit", b"get a\r\nquit\r\n".to_vec(), "normal"),
        ("the client's end", b"get a\r\n".to_vec(), "normal"),
        ("the client's end in a line", b"get a".to_vec(), "normal"),
        ("the client's end in a value", b"set a 0 0 5\r\nab".to_vec(), "normal"),
        ("the client's end in a refused value", b"set a 0 0 5000000\r\nab".to_vec(), "normal"),
        ("an error that is answered", b"bogus\r\nset a 0 0 -1\r\nget\r\n".to_vec(), "normal"),
        ("HTTP", b"GET / HTTP/1.1\r\n\r\n".to_vec(), "error"),
        ("HTTP's POST", b"POST / HTTP/1.1\r\n".to_vec(), "error"),
        ("a line too long", long.clone().into_bytes(), "error"),
        ("a long get", format!("get {long}").into_bytes(), "normal"),
        ("binary quit", packet(0x07, b"", b"", b"", 0), "normal"),
        ("binary quitq", packet(0x17, b"", b"", b"", 0), "normal"),
        ("an unknown binary command", packet(0x60, b"", b"", b"", 0), "normal"),
        ("no magic", [packet(0x0a, b"", b"", b"", 0), vec![0; 30]].concat(), "error"),
        ("wrong binary lengths", packet(0x00, b"", b"1234", b"", 0), "error"),
        ("a binary key too long", packet(0x00, &[b'k'; 251], b"", b"", 0), "error"),
    ];
    for server in both(&[]) {
        let mut watcher = Watcher::new(&server, "connevents");
        for (name, sent, reason) in cases {
            let mut talk = server.connect();
            let from = talk.stream().local_addr().unwrap().port();
            talk.send(sent);
            talk.stream().shutdown(std::net::Shutdown::Write).unwrap();
            talk.rest();
            drop(talk);
            let rest = watcher.until(&format!("conn_close rip=127.0.0.1 rport={from} "));
            let last = rest.last().expect("a line");
            assert_eq!(
                *last,
                format!("type=conn_close rip=127.0.0.1 transport=tcp reason={reason}"),
                "{name}"
            );
        }
    }
}

/// A client that is idle for too long, and one that asks for the end of the server.
#[test]
fn an_idle_connection_ends_for_that_reason() {
    for server in both(&["-o", "idle_timeout=1"]) {
        let mut watcher = Watcher::new(&server, "connevents");
        let mut idle = server.connect();
        idle.rest();
        assert!(watcher.until("type=conn_close")[1].ends_with("reason=idle_timeout"));
    }
}

/// Every command looks its key up once, a counter that is made twice, and a value too large for a
/// `set` where it was.
#[test]
fn watchers_of_fetchers_see_every_look_up() {
    let large = format!("{}\r\n", "x".repeat(2 << 20));
    let text: Vec<String> = [
        "set a 0 0 3\r\nabc",
        "set a 0 300 4\r\nabcd",
        "add a 0 0 1\r\nx",
        "add n 0 0 1\r\nx",
        "replace a 0 300 1\r\nx",
        "replace z 0 0 1\r\nx",
        "append a 0 0 2\r\nyy",
        "append z 0 0 2\r\nyy",
        "prepend a 0 0 2\r\nyy",
        "cas a 0 0 1 1\r\nx",
        "cas z 0 0 1 1\r\nx",
        "get a z",
        "gets a",
        "gat 0 a z",
        "touch a 0",
        "touch z 0",
        "set i 0 0 1\r\n5",
        "incr i 1",
        "incr i 100",
        "decr i 1",
        "incr z 1",
        "incr a 1",
        "set a 0 0 3 noreply\r\nabc",
        "mg a",
        "mg a v t",
        "mg z",
        "mg y v N30",
        "mg y v N30",
        "mg a T300",
        "ms a 1 T300\r\nx",
        "ms b 1 ME\r\nx",
        "ms b 1 ME\r\nx",
        "ms b 1 C1\r\nx",
        "ms b 1 MA\r\nx",
        "ms q 1 MA\r\nx",
        "md a I T300",
        "ms a 1 C1 I T9\r\nq",
        "ms a 1 MR C1\r\nq",
        "mg a t",
        "ma i",
        "ma a",
        "ma new N0 J5",
        "ma i MD",
        "ma YWJj b N0",
        "me a",
        "me z",
        "md b",
        "md b",
        "mn",
        "delete a",
        "delete a",
    ]
    .map(|command| format!("{command}\r\n"))
    .into_iter()
    .chain(
        ["set i 0 0 2097152\r\n", "add i 0 0 2097152\r\n", "ms i 2097152\r\n"]
            .map(|line| line.to_owned() + &large),
    )
    .collect();
    let count = |delta: u64, at_first: u64, exptime: u32| {
        [&delta.to_be_bytes()[..], &at_first.to_be_bytes(), &exptime.to_be_bytes()].concat()
    };
    let binary = [
        packet(0x01, b"a", &[0; 8], b"abc", 0),
        packet(0x02, b"a", &[0; 8], b"abc", 0),
        packet(0x03, b"z", &[0; 8], b"abc", 0),
        packet(0x00, b"a", b"", b"", 0),
        packet(0x0c, b"z", b"", b"", 0),
        packet(0x01, b"a", &[0; 8], b"abc", 1),
        packet(0x04, b"a", b"", b"", 1),
        packet(0x04, b"a", b"", b"", 0),
        packet(0x04, b"a", b"", b"", 0),
        packet(0x01, b"i", &[0; 8], b"1", 0),
        packet(0x05, b"i", &count(1, 0, 0), b"", 0),
        packet(0x05, b"new", &count(1, 7, 0), b"", 0),
        packet(0x05, b"z", &count(1, 7, u32::MAX), b"", 0),
        packet(0x0e, b"i", b"", b"0", 0),
        packet(0x0e, b"z", b"", b"0", 0),
        packet(0x1c, b"i", &[0; 4], b"", 0),
        packet(0x1d, b"i", &[0; 4], b"", 0),
        packet(0x1d, b"z", &[0; 4], b"", 0),
        packet(0x01, b"z", &[0; 8], b"abc", 1),
    ];
    // One worker: lines of several come in any order.
    let servers = both(&["-t", "1", "-o", "no_lru_maintainer,no_lru_crawler"]);
    let mut sides = servers.each_ref().map(|server| {
        let mut watcher = Watcher::new(server, "fetchers mutations");
        let mut talk = server.connect();
        // A worker of memcached hears of a watcher a little later.
        talk.patience(std::time::Duration::from_millis(100));
        watcher.talk.patience(std::time::Duration::from_millis(100));
        wait_until("the watcher to be known", || {
            talk.ask("get first\r\n", "END\r\n");
            let (more, _) = watcher.talk.until(b"\n");
            watcher.lines.push_str(&String::from_utf8(more).unwrap());
            !watcher.lines.is_empty()
        });
        talk.patience(larder_tests::PATIENCE);
        watcher.talk.patience(larder_tests::PATIENCE);
        (watcher, talk, server.connect())
    });
    let commands = text.into_iter().map(String::into_bytes).map(|command| (command, false));
    let commands = commands.chain(binary.into_iter().map(|command| (command, true)));
    // At the end: memcached sweeps what is flushed when it needs memory of the class.
    let flushed = ["set e 0 0 1\r\nx\r\n", "flush_all\r\n", "get e\r\n"];
    let commands = commands.chain(flushed.map(|command| (command.as_bytes().to_vec(), false)));
    for (at, (command, binary)) in commands.enumerate() {
        let [larder, debian] = sides.each_mut().map(|(watcher, text, packets)| {
            let shown = if binary { packets } else { &mut *text };
            shown.send(&command);
            if binary {
                shown
                    .send(packet(0x0a, b"", b"", b"", 0))
                    .until(&[&[0x81, 0x0a][..], &[0; 22]].concat());
            }
            let last = format!("last{at}");
            text.send(format!("get {last}\r\n"));
            let seen = watcher.until(&format!("key={last} "));
            seen.into_iter().filter(|line| !line.contains("key=first ")).collect::<Vec<_>>()
        });
        assert!(!larder.is_empty(), "the last one is seen");
        // Larder may have swept what was flushed.
        let is_swept = larder[0].contains("key=e status=not_found");
        let swept = |line: String| line.replace("key=e status=flushed", "key=e status=not_found");
        let debian: Vec<_> =
            if is_swept { debian.into_iter().map(swept).collect() } else { debian };
        assert_eq!(larder, debian, "{}", command[..command.len().min(60)].escape_ascii());
    }
}

/// `-R n`: more than n commands of a batch let others go first, and are counted. Without it a
/// pipeline is one piece.
#[test]
fn batches_longer_than_allowed_yield() {
    let sets = "set foobar 0 0 5\r\nBubba\r\n".repeat(6);
    for server in both(&["-R", "1"]) {
        let mut talk = server.connect();
        talk.expect(&sets, &"STORED\r\n".repeat(6));
        let yields: u64 = talk.stat("conn_yields").parse().unwrap();
        assert!((5..=8).contains(&yields), "{yields}");
    }
    for server in both(&["-R", "500"]) {
        let mut talk = server.connect();
        talk.expect(sets.repeat(20), &"STORED\r\n".repeat(120));
        assert_eq!(talk.stat("conn_yields"), "0");
    }
    let larder = Memcached::larder(&["-R", "7"]);
    let mut talk = larder.connect();
    // In the order of the commands, large values among them, whatever is sent between.
    let large = "y".repeat(40_000);
    talk.expect(format!("set large 0 0 40000\r\n{large}\r\n"), "STORED\r\n");
    let commands = "get large\r\nmg foobar v\r\nincr none 1\r\n".repeat(10);
    let answers =
        format!("VALUE large 0 40000\r\n{large}\r\nEND\r\nEN\r\nNOT_FOUND\r\n").repeat(10);
    talk.expect(commands, &answers);
    let yields: u64 = talk.stat("conn_yields").parse().unwrap();
    assert!(yields >= 3, "30 commands yield after 7, 14, 21 and 28: {yields}");
}

/// The lines of `stats conns` by their number, in order: names and values.
fn entries(answer: &str) -> Vec<Vec<(String, String)>> {
    let mut entries: Vec<(String, Vec<(String, String)>)> = Vec::new();
    for line in answer.lines().filter_map(|line| line.strip_prefix("STAT ")) {
        let (name, value) = line.split_once(' ').unwrap();
        let (id, name) = name.split_once(':').unwrap();
        if entries.last().is_none_or(|(last, _)| last != id) {
            assert!(entries.iter().all(|(other, _)| other != id), "{id} is one entry: {answer}");
            entries.push((id.to_owned(), Vec::new()));
        }
        entries.last_mut().unwrap().1.push((name.to_owned(), value.to_owned()));
    }
    entries.into_iter().map(|(_, entry)| entry).collect()
}

/// Listeners first, one for each address, then the sockets for datagrams, then clients.
#[test]
fn sockets_are_listed_as_memcached_lists_them() {
    let free = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    for flags in [&["-l", "127.0.0.2"][..], &["-U", &port], &["-t", "2", "-U", &port]] {
        let seen = [Memcached::larder, Memcached::debian].map(|start| {
            let server = start(flags);
            let (mut talk, other) = (server.connect(), server.connect());
            let answer = talk.ask("stats conns\r\n", "END\r\n");
            let ours = [&talk, &other].map(|talk| talk.stream().local_addr().unwrap().to_string());
            let own = |value: &str| {
                let value = value.replace(&server.port().to_string(), "PORT");
                if ours.iter().any(|ours| value.ends_with(ours)) {
                    "tcp:CLIENT".to_owned()
                } else {
                    value
                }
            };
            let mut seen = entries(&answer);
            // Its time differs.
            seen.iter_mut()
                .for_each(|entry| assert_eq!(entry.pop().unwrap().0, "secs_since_last_cmd"));
            let shown = seen.into_iter().map(|entry| {
                let fields = entry.iter().map(|(name, value)| format!("{name}={}", own(value)));
                fields.collect::<Vec<_>>().join(" ")
            });
            let (mut clients, sockets): (Vec<_>, Vec<_>) =
                shown.partition(|entry| entry.contains("CLIENT"));
            // The one that only waits may not be known yet.
            clients.retain(|client| client.contains("conn_parse_cmd"));
            (sockets, clients)
        });
        assert_eq!(seen[0], seen[1], "{flags:?}");
    }
}

/// A value that is awaited is told from a command that is, and from one that is thrown away.
#[test]
fn connections_have_memcacheds_states() {
    let half = |opcode: u8, len: usize| {
        let mut whole = packet(opcode, b"k", &[0; 8], &vec![b'v'; len], 0);
        whole.truncate(24 + 8 + 1 + len / 2);
        whole
    };
    let cases: &[(&[u8], &str, &[u8])] = &[
        (b"set k 0 0 5\r\nab", "conn_nread", b"cde\r\n"),
        (b"set k 0 0 5\r\n", "conn_nread", b"abcde\r\n"),
        (b"get k\r\nset k 0 0 5\r\nab", "conn_nread", b"cde\r\n"),
        (b"ms k 5\r\nab", "conn_nread", b"cde\r\n"),
        (
            &[b"set k 0 0 200000\r\n", &[b'v'; 100_000][..]].concat(),
            "conn_nread",
            &[&[b'v'; 100_000][..], b"\r\n"].concat(),
        ),
        (&half(0x01, 10), "conn_nread", b"vvvvv"),
        (&half(0x01, 200_000), "conn_nread", &[b'v'; 100_000]),
        (b"set k 0 0 5000000\r\nab", "conn_swallow", &[&[b'v'; 4_999_998][..], b"\r\n"].concat()),
        (b"set k 0 0 5", "conn_read", b"\r\nabcde\r\n"),
        (&packet(0x01, b"k", &[0; 8], b"v", 0)[..30], "conn_read", b"\0\0kv"),
        (b"get k\r\n", "conn_read", b""),
        (b"watch\r\n", "conn_watch", b""),
    ];
    for server in both(&[]) {
        let mut asking = server.connect();
        for (sent, state, rest) in cases {
            let mut talk = server.connect();
            let from = format!("tcp:{}", talk.stream().local_addr().unwrap());
            let mut shown = |state: &str| {
                wait_for(state, || {
                    let all = entries(&asking.ask("stats conns\r\n", "END\r\n"));
                    let mine = all.iter().find(|entry| entry[0].1 == from)?;
                    mine.iter().any(|(name, value)| name == "state" && value == state).then_some(())
                });
            };
            talk.send(sent);
            shown(state);
            talk.send(rest);
            if *state != "conn_watch" {
                shown("conn_read");
            }
        }
    }
}

/// Without versions, too, `flush_all` ends what was stored before it, in the same second or not.
/// What is stored after it is there: memcached loses that as well for the rest of the second.
#[test]
fn without_versions_a_flush_ends_what_was_before_it() {
    for server in both(&["-C"]) {
        let mut talk = server.connect();
        for _ in 0..20 {
            talk.expect("set a 0 0 1\r\nx\r\nset b 0 0 1\r\nx\r\n", "STORED\r\nSTORED\r\n");
            talk.expect("flush_all\r\nget a b\r\n", "OK\r\nEND\r\n");
        }
    }
    let larder = Memcached::larder(&["-C"]);
    let mut talk = larder.connect();
    for _ in 0..20 {
        talk.expect(
            "flush_all\r\nset a 0 0 1\r\nx\r\nget a\r\n",
            "OK\r\nSTORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n",
        );
    }
}
