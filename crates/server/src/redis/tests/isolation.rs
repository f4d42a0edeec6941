//! EXEC and commands of several keys are atomic with workers in parallel.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use super::{TestClient, face, settings, shared};
use crate::redis::{Face, Shared, attention};

const ACCOUNTS: usize = 6;
const TOTAL: i64 = ACCOUNTS as i64 * 100;

fn on_worker<R>(shared: &Arc<Shared>, run: impl FnOnce(&mut TestClient) -> R) -> R {
    run(&mut TestClient::new(&Face::new(shared, 0)))
}

/// The sum of the numbers in an answer to MGET, or to an EXEC that contains it.
fn sum(answer: &str) -> i64 {
    let values = answer.split("\r\n").filter(|line| !line.starts_with(['*', '$', '+', ':']));
    values.filter_map(|line| line.parse::<i64>().ok()).sum()
}

/// Says it, and again where another thread has a key's lock.
fn ask(client: &mut TestClient, lines: &str) -> String {
    let mut answer = client.say(lines);
    while !client.input.is_empty() {
        std::thread::yield_now();
        answer += std::str::from_utf8(&client.send(b"")).unwrap();
    }
    answer
}

/// Moves amounts in transactions, in both orders of keys.
fn transfers(client: &mut TestClient, seed: usize, rounds: usize) {
    for round in 0..rounds {
        let (from, to) = ((seed + round) % ACCOUNTS, (seed * 5 + round * 7 + 1) % ACCOUNTS);
        if from == to {
            continue;
        }
        let answer = ask(client, &format!("multi\ndecrby acct:{from} 3\nincrby acct:{to} 3\nexec"));
        assert!(answer.contains("*2\r\n:"), "{answer}");
    }
}

#[test]
fn transfers_never_show_a_wrong_sum() {
    let shared = shared(settings());
    let keys: Vec<String> = (0..ACCOUNTS).map(|n| format!("acct:{n}")).collect();
    let all = keys.join(" ");
    on_worker(&shared, |client| {
        keys.iter().for_each(|key| assert_eq!(client.say(&format!("set {key} 100")), "+OK\r\n"));
    });
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|seed| {
                let shared = &shared;
                scope.spawn(move || on_worker(shared, |client| transfers(client, seed, 3000)))
            })
            .collect();
        for transaction in [false, true] {
            let (shared, all, done) = (&shared, &all, &done);
            scope.spawn(move || {
                on_worker(shared, |client| {
                    let mut looks = 0;
                    while !done.load(Relaxed) || looks == 0 {
                        let answer = match transaction {
                            false => ask(client, &format!("mget {all}")),
                            true => ask(client, &format!("multi\nmget {all}\nexec")),
                        };
                        assert_eq!(sum(&answer), TOTAL, "{answer}");
                        looks += 1;
                    }
                });
            });
        }
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
}

#[test]
fn consecutive_reads_never_go_back() {
    // A reader that has seen a transaction's first write also sees its last: `a` is written before
    // `b`.
    let shared = shared(settings());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (shared, done) = (&shared, &done);
        let writer = scope.spawn(move || {
            on_worker(shared, |client| {
                for n in 1..4000 {
                    let answer = ask(client, &format!("multi\nset a {n}\nset b {n}\nexec"));
                    assert!(answer.ends_with("*2\r\n+OK\r\n+OK\r\n"));
                }
            });
        });
        scope.spawn(move || {
            on_worker(shared, |client| {
                let value = |answer: String| {
                    answer.split("\r\n").nth(1).and_then(|v| v.parse::<i64>().ok()).unwrap_or(0)
                };
                while !done.load(Relaxed) {
                    let a = value(ask(client, "get a"));
                    let b = value(ask(client, "get b"));
                    assert!(b >= a, "{b} after {a}");
                }
            });
        });
        let ended = writer.join();
        done.store(true, Relaxed);
        assert!(ended.is_ok());
    });
}

#[test]
fn counters_of_many_workers_lose_nothing() {
    let shared = shared(settings());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let shared = &shared;
            scope.spawn(move || {
                on_worker(shared, |client| {
                    (0..2000).for_each(|_| assert!(ask(client, "incr n").starts_with(':')))
                });
            });
        }
    });
    assert_eq!(on_worker(&shared, |client| ask(client, "get n")), "$4\r\n8000\r\n");
}

#[test]
fn increments_of_many_workers_under_watch_add_up() {
    // The usual increment: WATCH, GET, MULTI, SET, EXEC, repeated after a conflict.
    let shared = shared(settings());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let shared = &shared;
            scope.spawn(move || {
                on_worker(shared, |client| {
                    for _ in 0..500 {
                        loop {
                            let seen = ask(client, "watch n\nget n");
                            let n: u64 =
                                seen.split("\r\n").nth(2).and_then(|v| v.parse().ok()).unwrap_or(0);
                            if client
                                .say(&format!("multi\nset n {}\nexec", n + 1))
                                .contains("*1\r\n+OK")
                            {
                                break;
                            }
                        }
                    }
                });
            });
        }
    });
    assert_eq!(on_worker(&shared, |client| ask(client, "get n")), "$4\r\n1500\r\n");
}

#[test]
fn a_watched_key_that_changed_stops_the_transaction() {
    let face = face();
    let (mut me, mut other) = (TestClient::new(&face), TestClient::new(&face));
    me.say("set k 1");
    assert_eq!(me.say("watch k"), "+OK\r\n");
    other.say("set k 2");
    assert_eq!(me.say("multi\nset k 3\nexec"), "+OK\r\n+QUEUED\r\n*-1\r\n");
    assert_eq!(
        me.say("multi\nget k\nexec"),
        "+OK\r\n+QUEUED\r\n*1\r\n$1\r\n2\r\n",
        "EXEC forgets what was watched"
    );
    me.say("watch absent");
    other.say("set absent now");
    assert_eq!(me.say("multi\nping\nexec"), "+OK\r\n+QUEUED\r\n*-1\r\n");
    me.say("watch k");
    other.say("del k");
    assert_eq!(me.say("multi\nping\nexec"), "+OK\r\n+QUEUED\r\n*-1\r\n");
    me.say("watch k\nunwatch");
    other.say("set k 4");
    assert_eq!(me.say("multi\nping\nexec"), "+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n");
}

#[test]
fn a_watched_key_that_expired_stops_the_transaction() {
    let mut me = TestClient::new(&face());
    me.say("set k 1 px 50\nwatch k");
    me.now += 100;
    assert_eq!(me.say("multi\nping\nexec"), "+OK\r\n+QUEUED\r\n*-1\r\n");
}

#[test]
fn a_command_refused_while_queuing_fails_the_transaction() {
    let mut me = TestClient::new(&face());
    let aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n";
    for wrong in ["get", "nosuch", "acl nosuch"] {
        let answer = me.say(&format!("multi\nset k 1\n{wrong}\nexec"));
        assert!(answer.ends_with(aborted), "{answer}");
    }
    assert_eq!(me.say("exists k"), ":0\r\n");
    let answer = me.say("set s text\nmulti\nincr s\nset k 1\nexec");
    assert!(
        answer.ends_with("*2\r\n-ERR value is not an integer or out of range\r\n+OK\r\n"),
        "{answer}"
    );
    assert_eq!(
        me.say("exists k"),
        ":1\r\n",
        "a command that fails while it runs does not stop the others"
    );
}

#[test]
fn watched_keys_leave_the_table_with_the_watch() {
    let face = face();
    let (mut client, mut other) = (TestClient::new(&face), TestClient::new(&face));
    let watches = || attention::any(&face.shared, attention::WATCHES);
    assert!(!watches());
    for end in ["unwatch", "discard", "exec", "reset"] {
        assert_eq!(client.say("watch a b"), "+OK\r\n");
        assert_eq!(other.say("watch a"), "+OK\r\n");
        assert_eq!((watches(), face.shared.watched.len()), (true, 2));
        assert_eq!(other.say("unwatch"), "+OK\r\n");
        assert_eq!((watches(), face.shared.watched.len()), (true, 2));
        if end != "unwatch" {
            client.say("multi");
        }
        client.say(end);
        assert_eq!((watches(), face.shared.watched.len()), (false, 0), "{end}");
    }
    client.say("watch a");
    drop(client);
    assert!(!watches());
}
