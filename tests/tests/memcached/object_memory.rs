//! Memory is what was configured: whatever clients of the object faces begin, send and do not take,
//! resident memory is within `memory` and 64 MiB, and other clients are served meanwhile.

#![allow(clippy::unwrap_used)]

use larder_tests::{Larder, Origin, Resp, Talk, get, redis::command, wait_until};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// `memory` of every Larder here.
const MEMORY: u64 = 64 << 20;
/// The program itself, and what clients hold for a moment.
const MORE: u64 = 64 << 20;
/// Hostile clients.
const CROWD: usize = 1000;
/// The same while news is on its way to a crowd that takes none of it: on a busy machine clients
/// that have to leave are still there for a while. (An unoptimised build had 149 MiB.)
const DELIVERY: u64 = 128 << 20;
/// Each sends so much at a time, as far as it is taken.
const PIECE: usize = 64 * 1024;
/// Between two looks at the other clients so many hostile ones send a piece.
const LOOK: usize = 250;

/// Pages, memcached and Redis in one program, with memory that is full.
struct Site {
    larder: Larder,
    redis: Resp<TcpStream>,
    memcached: Talk<TcpStream>,
    turn: usize,
    _origin: Origin,
}

impl Site {
    fn start() -> Site {
        // Two ends of every connection in one process or the other: more than some systems let a
        // process have at first.
        let most = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let raised = rustix::process::Rlimit { current: most.maximum, maximum: most.maximum };
        let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised);
        let origin = Origin::serving(&["Cache-Control: max-age=3600"], "a page");
        let larder = Larder::with_config(&format!(
            "[http]\nlisten = \"127.0.0.1:0\"\n[[site]]\norigin = \"{}\"\n[memcached]\nlisten = \
             \"127.0.0.1:0\"\nconnections = 2000\n[redis]\nlisten = \"127.0.0.1:0\"\n",
            origin.url()
        ));
        let (redis, memcached) =
            (Resp::tcp(larder.face("redis")), Talk::tcp(larder.face("memcached")));
        let mut site = Site { larder, redis, memcached, turn: 0, _origin: origin };
        let value = "v".repeat(50_000);
        for number in 0..2 * MEMORY / 50_000 {
            assert_eq!(site.redis.ask(&["SET", &format!("fill:{number}"), &value]).text(), "OK");
        }
        site.look();
        site
    }

    /// The other clients are served, with what they have stored just now.
    #[track_caller]
    fn look(&mut self) {
        self.turn += 1;
        let value = format!("value {}", self.turn);
        assert_eq!(self.redis.ask(&["SET", "own", &value]).text(), "OK");
        assert_eq!(self.redis.ask(&["GET", "own"]).text(), value);
        let (len, turn) = (value.len(), self.turn);
        self.memcached.expect(format!("set own {turn} 0 {len}\r\n{value}\r\n"), "STORED\r\n");
        self.memcached
            .expect("get own\r\n", &format!("VALUE own {turn} {len}\r\n{value}\r\nEND\r\n"));
        get(self.larder.addr(), "/page").assert_status(200);
    }

    /// Clients that send `opening` each and then pieces of `rest` over and over (as it is, if it is
    /// longer than 4,000 bytes), in `rounds` rounds, and read nothing.
    #[track_caller]
    fn crowd(&mut self, what: &str, face: SocketAddr, opening: &[u8], rest: &[u8], rounds: usize) {
        let times = if rest.len() > 4000 { 1 } else { PIECE.div_ceil(rest.len().max(1)) };
        let piece = rest.repeat(times);
        let mut crowd: Vec<Option<(TcpStream, usize)>> = (0..CROWD)
            .map(|_| {
                let mut stream = TcpStream::connect(face).unwrap();
                stream.write_all(opening).unwrap();
                stream.set_nonblocking(true).unwrap();
                Some((stream, 0))
            })
            .collect();
        for _ in 0..rounds {
            for (number, client) in crowd.iter_mut().enumerate() {
                if client.as_mut().is_some_and(|(stream, at)| !goes_on(stream, at, &piece)) {
                    *client = None;
                }
                if number % LOOK == 0 {
                    self.look();
                }
            }
        }
        self.look();
        self.assert_small(what);
    }

    #[track_caller]
    fn assert_small(&self, what: &str) {
        self.assert_within(what, MORE);
    }

    /// `more`: bytes on top of the memory that was configured.
    #[track_caller]
    fn assert_within(&self, what: &str, more: u64) {
        let peak = self.larder.usage().peak_rss;
        println!("{what}: {} MiB at the most", peak >> 20);
        assert!(peak <= MEMORY + more, "{what}: {} MiB resident", peak >> 20);
    }
}

/// Sends what is taken of `piece`, from where it came last, and a next time from its start when it
/// is done. False: it was closed.
fn goes_on(stream: &mut TcpStream, at: &mut usize, piece: &[u8]) -> bool {
    match stream.write(&piece[*at..(*at + PIECE).min(piece.len())]) {
        Ok(sent) => *at = (*at + sent) % piece.len().max(1),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        Err(_) => return false,
    }
    true
}

/// The head of a command whose last argument has so many bytes.
fn announced(words: &[&str], len: usize) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len() + 1).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
    }
    bytes.extend(format!("${len}\r\n").into_bytes());
    bytes
}

#[test]
fn a_thousand_that_announce_500_megabytes_and_send_a_part() {
    let mut site = Site::start();
    let redis = site.larder.face("redis");
    site.crowd("500 MB", redis, &announced(&["SET", "k"], 500_000_000), b"v", 50);
    // So much the store would take of one.
    site.crowd("30 MB", redis, &announced(&["SET", "k"], 30_000_000), b"v", 50);
    site.crowd("30 kB", redis, &announced(&["SET", "k"], 30_000), b"v", 0);
}

#[test]
fn commands_of_many_arguments_and_transactions() {
    let mut site = Site::start();
    let redis = site.larder.face("redis");
    let argument = [b"$1048576\r\n".to_vec(), vec![b'v'; 1 << 20], b"\r\n".to_vec()].concat();
    site.crowd("a million of 1 MB", redis, b"*1000000\r\n$3\r\nDEL\r\n", &argument, 20);
    site.crowd("a million of 1 B", redis, b"*1000000\r\n$3\r\nDEL\r\n", b"$1\r\nk\r\n", 8);
    let queued = command(&["SET", "k", &"v".repeat(1000)]);
    site.crowd("transactions", redis, b"MULTI\r\n", &queued, 20);
}

#[test]
fn what_is_no_command() {
    let mut site = Site::start();
    let redis = site.larder.face("redis");
    site.crowd("lines without end", redis, b"SET k ", b"v", 3);
    site.crowd("arrays in arrays", redis, b"", b"*2\r\n", 3);
    site.crowd("heads without end", redis, b"*", b"1", 3);
}

#[test]
fn answers_that_nobody_takes() {
    let mut site = Site::start();
    let redis = site.larder.face("redis");
    let large = "v".repeat(500_000);
    assert_eq!(site.redis.ask(&["SET", "large", &large]).text(), "OK");
    site.crowd("short answers", redis, b"", &command(&["ECHO", &"v".repeat(1000)]), 40);
    site.crowd("stored values", redis, b"", &command(&["GET", "large"]), 40);
    // 300 of these are 1.5 MB of answers.
    site.crowd("composed answers", redis, b"", &command(&["INFO"]).repeat(300), 10);
}

/// A command whose last word comes so many times.
fn many(words: &[&str], word: &str, times: usize) -> Vec<u8> {
    command(&[words, &vec![word; times][..]].concat())
}

#[test]
fn answers_that_many_have_composed_at_once() {
    let mut site = Site::start();
    let (redis, memcached) = (site.larder.face("redis"), site.larder.face("memcached"));
    let field = "v".repeat(33_000);
    assert_eq!(site.redis.ask(&["HSET", "h", "f", &field]).text(), "1");
    let fields = many(&["HMGET", "h"], "f", 250);
    site.crowd("fields", redis, b"", &fields, 2);
    let (multi, exec) = (command(&["MULTI"]), command(&["EXEC"]));
    let transaction = [&multi[..], &fields, &command(&["HGETALL", "h"]), &exec].concat();
    site.crowd("answers to transactions", redis, b"", &transaction, 2);
    assert_eq!(site.redis.ask(&["SET", "small", &field[..4000]]).text(), "OK");
    site.crowd("values", redis, b"", &many(&["MGET"], "small", 2000), 2);
    site.memcached.expect(format!("set m 0 0 4000\r\n{}\r\n", &field[..4000]), "STORED\r\n");
    site.crowd("values", memcached, b"", format!("get{}\r\n", " m".repeat(1000)).as_bytes(), 2);
}

#[test]
fn messages_that_nobody_takes() {
    let mut site = Site::start();
    let redis = site.larder.face("redis");
    site.crowd("subscribers", redis, b"SUBSCRIBE news\r\n", b"", 0);
    let silent = |opening: &[u8]| -> Vec<TcpStream> {
        (0..CROWD)
            .map(|_| {
                let mut stream = TcpStream::connect(redis).unwrap();
                stream.write_all(opening).unwrap();
                stream
            })
            .collect()
    };
    for (what, opening, news) in [
        ("messages", "SUBSCRIBE news\r\n", command(&["PUBLISH", "news", &"v".repeat(20_000)])),
        (
            "invalidations",
            "HELLO 3\r\nCLIENT TRACKING ON BCAST\r\n",
            command(&["SET", &"k".repeat(10_000), "v"]),
        ),
        ("commands seen", "MONITOR\r\n", command(&["SET", "k", &"v".repeat(4000)])),
    ] {
        let crowd = silent(opening.as_bytes());
        let mut talk = Resp::tcp(redis);
        for round in 0..300 {
            // At the limit the one leaves that asks for more than any other holds.
            match talk.send(&news).maybe() {
                Some((reply, _)) => assert!(!reply.is_error(), "{what}"),
                None => talk = Resp::tcp(redis),
            }
            if round % 50 == 0 {
                site.look();
            }
        }
        site.assert_within(what, DELIVERY);
        drop(crowd);
    }
}

#[test]
fn values_for_memcached_that_stop_half_way() {
    let mut site = Site::start();
    let memcached = site.larder.face("memcached");
    site.crowd("short sets", memcached, b"set k 0 0 60000\r\nv", b"", 0);
    site.crowd("set", memcached, b"set k 0 0 1000000\r\n", &[b'v'; 1 << 19], 9);
    site.crowd("ms", memcached, b"ms k 1000000\r\n", &[b'v'; 1 << 19], 9);
    // A value of 2^32 - 1 bytes.
    let header = [&[0x80, 1, 0, 1, 8, 0, 0, 0][..], &[0xff; 4], &[0; 12], &[0; 8], b"k"].concat();
    site.crowd("binary set", memcached, &header, b"v", 20);
    site.crowd("lines without end", memcached, b"get ", b"k", 3);
    site.crowd("keys without end", memcached, b"get ", b"key ", 10);
    site.memcached
        .expect(format!("set large 0 0 500000\r\n{}\r\n", "v".repeat(500_000)), "STORED\r\n");
    site.crowd("values not taken", memcached, b"", b"get large\r\n", 10);
    site.crowd("answers not taken", memcached, b"", b"mn\r\n", 10);
}

#[test]
fn a_large_value_is_stored_while_a_thousand_stand_still() {
    let mut site = Site::start();
    let redis = site.larder.face("redis");
    site.crowd("30 MB", redis, &announced(&["SET", "k"], 30_000_000), b"v", 20);
    let value = "v".repeat(10_000_000);
    let mut talk = Resp::tcp(redis);
    // Those that stand still give way, once it is clear that they do; until then the client may be
    // told to come again.
    wait_until("the value to be stored", || {
        let told = talk.ask(&["SET", "large", &value]).text();
        assert!(told == "OK" || told.starts_with("OOM "), "{told}");
        told == "OK"
    });
    assert_eq!(talk.say("STRLEN large"), "10000000");
    let info = talk.ask(&["INFO", "stats"]).text();
    assert!(!info.contains("evicted_clients:0\r\n"), "{info}");
    site.assert_small("a large value");
}

/// Config of faces whose idle clients may stay for ever.
fn impatient() -> Larder {
    let origin = Origin::serving(&[], "");
    Larder::with_config(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n[[site]]\norigin = \"{}\"\n[memcached]\nlisten = \
         \"127.0.0.1:0\"\nreceive_timeout = \"1s\"\n[redis]\nlisten = \
         \"127.0.0.1:0\"\nreceive_timeout = \"1s\"\n",
        origin.url()
    ))
}

/// What is begun: face, what is sent, and what may be answered to it.
const BEGUN: &[(&str, &[u8])] = &[
    ("redis", b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$10\r\nabc"),
    ("redis", b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\nabc"),
    ("redis", b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$500000000\r\nabc"),
    ("redis", b"*3\r\n"),
    ("redis", b"PING\r\nGET k"),
    ("redis", b"SUBSCRIBE a\r\nPING"),
    ("memcached", b"set k 0 0 10\r\nabc"),
    ("memcached", b"set k 0 0 100000\r\nabc"),
    ("memcached", b"set k 0 0 500000000\r\nabc"),
    ("memcached", b"get k"),
    ("memcached", b"mn\r\nms k 10\r\nabc"),
    ("memcached", b"\x80\x01\x00\x01\x08\x00\x00\x00\x00\x00\x00"),
];

#[test]
fn a_command_that_has_begun_must_get_on_where_idle_clients_may_stay() {
    let larder = impatient();
    let (mut redis, mut memcached) =
        (Resp::tcp(larder.face("redis")), Talk::tcp(larder.face("memcached")));
    assert_eq!(redis.say("SET k v"), "OK");
    memcached.expect("mn\r\n", "MN\r\n");
    let begun: Vec<TcpStream> = BEGUN
        .iter()
        .map(|(face, bytes)| {
            let mut stream = TcpStream::connect(larder.face(face)).unwrap();
            stream.set_read_timeout(Some(larder_tests::PATIENCE)).unwrap();
            stream.write_all(bytes).unwrap();
            stream
        })
        .collect();
    for (mut stream, (face, bytes)) in begun.into_iter().zip(BEGUN) {
        let mut answers = Vec::new();
        let closed = stream.read_to_end(&mut answers);
        let reset = closed.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionReset);
        assert!(closed.is_ok() || reset, "{face} {}: {closed:?}", bytes.escape_ascii());
    }
    // Who had nothing to say meanwhile is still there.
    assert_eq!(redis.say("GET k"), "v");
    memcached.expect("mn\r\n", "MN\r\n");
    let info = redis.ask(&["INFO", "stats"]).text();
    assert!(info.contains("stalled_connections:6\r\n"), "{info}");
}

#[test]
fn a_byte_now_and_then_does_not_buy_more_time() {
    let larder = impatient();
    for (face, bytes) in BEGUN {
        // Those where more bytes are more of the same command.
        if bytes.ends_with(b"*3\r\n") || bytes[0] == 0x80 || *bytes == b"get k" {
            continue;
        }
        let mut stream = TcpStream::connect(larder.face(face)).unwrap();
        stream.write_all(bytes).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_millis(50))).unwrap();
        let mut sent = 0;
        loop {
            match stream.read(&mut [0; 1000]) {
                Ok(0) => break,
                Ok(_) => continue,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => break,
            }
            if bytes.ends_with(b"10\r\nabc") && sent >= 6 {
                continue;
            }
            sent += 1;
            assert!(sent < 5000, "{face} {}: it is not closed", bytes.escape_ascii());
            if stream.write_all(b"y").is_err() {
                break;
            }
        }
    }
}

#[test]
fn a_value_that_comes_slowly_and_gets_on_is_stored() {
    let larder = impatient();
    // Longer than `receive_timeout` in all, 16 KiB and more within it.
    let value = vec![b'v'; 1_000_000];
    let mut redis = Resp::tcp(larder.face("redis"));
    let mut memcached = Talk::tcp(larder.face("memcached"));
    redis.send(announced(&["SET", "k"], value.len()));
    memcached.send("set k 0 0 1000000\r\n");
    for piece in value.chunks(20_000) {
        redis.send(piece);
        memcached.send(piece);
        // The pace of the client under test, not a wait for the server.
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    redis.send("\r\n");
    assert_eq!(redis.reply().text(), "OK");
    memcached.expect("\r\n", "STORED\r\n");
}
