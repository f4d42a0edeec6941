//! No client of the object faces holds its worker for long: commands that take a part of a
//! millisecond each, sent in one write, are executed in turns between which the worker serves
//! others.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::{Larder, Resp, Talk, redis::command, wait_until};
use std::net::TcpStream;

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
