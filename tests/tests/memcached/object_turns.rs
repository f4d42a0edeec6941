//! No client of the object faces holds its worker for long: commands that take a part of a
//! millisecond each, sent in one write, are executed in turns between which the worker serves
//! others.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::helper::free_port;
use larder_tests::{Larder, Memcached, Resp, Talk, redis::command, wait_until};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Pairs of a slow command and one that counts it: fewer commands than a turn has without slow
/// ones.
const PAIRS: usize = 120;
/// Looks of another client that must find the batch in progress. A look waits for one turn, and a
/// batch has at least [`PAIRS`] / 4 turns.
const LOOKS: usize = 5;

/// Both faces on one worker: a client that holds it holds all.
struct Site {
    larder: Larder,
    redis: Resp<TcpStream>,
    memcached: Talk<TcpStream>,
}

impl Site {
    fn start() -> Site {
        let larder = Larder::with_config(
            "threads = 1\n[http]\nlisten = \"127.0.0.1:0\"\n[[site]]\norigin = \
             \"http://127.0.0.1:1\"\n[memcached]\nlisten = \"127.0.0.1:0\"\n[redis]\nlisten = \
             \"127.0.0.1:0\"\n",
        );
        let (redis, memcached) =
            (Resp::tcp(larder.face("redis")), Talk::tcp(larder.face("memcached")));
        Site { larder, redis, memcached }
    }

    /// Sends the batch until another client has found it in progress often enough. `send` starts
    /// it, on a connection of its own; `count` tells how many of its commands are done.
    fn serves_others<C>(
        &mut self,
        what: &str,
        send: impl Fn(&Larder) -> C,
        count: impl Fn(&mut Site) -> usize,
        reset: impl Fn(&mut Site),
    ) {
        wait_until(&format!("others to be served during {what}"), || {
            reset(self);
            let _client = send(&self.larder);
            let mut looks = 0;
            loop {
                match count(self) {
                    0 => {}
                    done if done < PAIRS => looks += 1,
                    _ => break looks >= LOOKS,
                }
            }
        });
    }
}

#[test]
fn slow_redis_commands_in_one_write_are_done_in_turns() {
    let mut site = Site::start();
    let half = "v".repeat(500_000);
    assert_eq!(site.redis.ask(&["HSET", "hash", "large", &half]).text(), "1");
    assert_eq!(site.redis.ask(&["SET", "string", &half[..250_000]]).text(), "OK");
    for slow in [
        vec!["HINCRBY", "hash", "n", "1"],
        vec!["HSET", "hash", "f", "v"],
        vec!["SETRANGE", "string", "1000", "x"],
        vec!["BITFIELD", "string", "SET", "u8", "1000", "7"],
    ] {
        let batch = [command(&slow), command(&["INCR", "done"])].concat().repeat(PAIRS);
        let send = |larder: &Larder| {
            let mut client = Resp::tcp(larder.face("redis"));
            client.send(&batch);
            client
        };
        let count = |site: &mut Site| site.redis.say("GET done").parse().unwrap();
        let reset = |site: &mut Site| assert_eq!(site.redis.say("SET done 0"), "OK");
        site.serves_others(&slow.join(" "), send, count, reset);
    }
}

#[test]
fn slow_memcached_commands_in_one_write_are_done_in_turns() {
    let mut site = Site::start();
    let reset = |site: &mut Site| {
        let value = "v".repeat(900_000);
        site.memcached.expect(format!("set large 0 0 900000\r\n{value}\r\n"), "STORED\r\n");
        site.memcached.expect("set done 0 0 1\r\n0\r\n", "STORED\r\n");
    };
    let count = |site: &mut Site| {
        let answer = site.memcached.ask("get done\r\n", "END\r\n");
        answer.lines().nth(1).unwrap().trim().parse().unwrap()
    };
    for slow in [
        "append large 0 0 1\r\nx\r\n",
        "prepend large 0 0 1\r\nx\r\n",
        "ms large 1 MA\r\nx\r\n",
        "stats\r\n",
        "stats conns\r\n",
    ] {
        let batch = format!("{slow}incr done 1\r\n").repeat(PAIRS);
        let send = |larder: &Larder| {
            let mut client = Talk::tcp(larder.face("memcached"));
            client.send(&batch);
            client
        };
        site.serves_others(slow.trim_end(), send, count, reset);
    }
}

/// A client that sends without a pause, and takes all answers, until it is dropped.
struct Streaming {
    stream: TcpStream,
    /// Bytes of answers.
    answered: Arc<AtomicU64>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Streaming {
    fn start(addr: SocketAddr, batch: Vec<u8>) -> Streaming {
        let stream = TcpStream::connect(addr).unwrap();
        let (mut sends, mut reads) = (stream.try_clone().unwrap(), stream.try_clone().unwrap());
        let answered = Arc::<AtomicU64>::default();
        let counted = answered.clone();
        let threads = vec![
            std::thread::spawn(move || while sends.write_all(&batch).is_ok() {}),
            std::thread::spawn(move || {
                let mut answers = vec![0; 256 * 1024];
                while let Ok(1..) = reads.read(&mut answers).inspect(|n| {
                    counted.fetch_add(*n as u64, Relaxed);
                }) {}
            }),
        ];
        Streaming { stream, answered, threads }
    }

    fn wait_for_more(&self) {
        let before = self.answered.load(Relaxed);
        wait_until("more answers", || self.answered.load(Relaxed) > before);
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

#[test]
fn clients_that_send_without_a_pause_keep_nobody_out() {
    let mut site = Site::start();
    let value = "v".repeat(10_000);
    assert_eq!(site.redis.ask(&["SET", "value", &value]).text(), "OK");
    site.memcached.expect(format!("set value 0 0 10000\r\n{value}\r\n"), "STORED\r\n");
    let (redis, memcached) = (site.larder.face("redis"), site.larder.face("memcached"));
    let get = [&[0x80, 0, 0, 5][..], &[0; 7], &[5], &[0; 12], b"value"].concat();
    for (addr, batch) in [
        (redis, command(&["GET", "value"]).repeat(100)),
        (redis, command(&["SET", "value", &value]).repeat(100)),
        (redis, b"PING\r\n".repeat(1000)),
        (memcached, b"get value\r\n".repeat(100)),
        (memcached, b"mn\r\n".repeat(1000)),
        (memcached, get.repeat(100)),
    ] {
        let streaming: Vec<_> = (0..3).map(|_| Streaming::start(addr, batch.clone())).collect();
        streaming.iter().for_each(Streaming::wait_for_more);
        for _ in 0..20 {
            assert_eq!(site.redis.ask(&["GET", "value"]).text(), value);
            site.memcached.expect("incr none 1\r\n", "NOT_FOUND\r\n");
        }
        streaming.iter().for_each(Streaming::wait_for_more);
    }
}

/// Sets the flag when dropped: also if the test fails, since its threads are waited for.
struct Ends<'d>(&'d AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn a_flood_of_datagrams_keeps_nobody_out() {
    let port = free_port().to_string();
    let server = Memcached::larder(&["-t", "1", "-U", &port]);
    let mut other = server.connect();
    other.expect(format!("set large 0 0 500000\r\n{}\r\n", "v".repeat(500_000)), "STORED\r\n");
    let done = AtomicBool::new(false);
    let frame = [0, 1, 0, 0, 0, 1, 0, 0];
    // Many commands, a large answer, and nothing at all.
    let datagrams = [b"mg none\r\n".repeat(5000), b"get large\r\n".to_vec(), Vec::new()]
        .map(|commands| [&frame[..], &commands].concat());
    std::thread::scope(|scope| {
        for datagram in &datagrams {
            scope.spawn(|| {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                socket.connect(format!("127.0.0.1:{port}")).unwrap();
                while !done.load(Relaxed) {
                    // The socket may be full.
                    let _ = socket.send(datagram);
                }
            });
        }
        let _ends = Ends(&done);
        wait_until("the socket to have had several turns", || other.stat("conn_yields") != "0");
        for _ in 0..20 {
            other.expect("incr none 1\r\n", "NOT_FOUND\r\n");
        }
    });
}
