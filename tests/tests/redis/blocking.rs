//! Clients in blocking commands, and those who serve them: nobody is forgotten or served twice.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::Redis;
use larder_tests::redis::command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

fn one_worker() -> Redis {
    Redis::larder(&["--threads", "1", "--memory", "256MiB"])
}

#[test]
fn many_waiting_clients_are_served_in_their_order() {
    let larder = one_worker();
    let mut waiting: Vec<_> = (0..400).map(|_| larder.connect()).collect();
    let mut client = larder.connect();
    for (number, waiter) in waiting.iter_mut().enumerate() {
        waiter.send(command(&["BLPOP", "first", "queue", "0"]));
        larder.wait_for_blocked(number + 1);
    }
    let values: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    client.ask(&[&["RPUSH", "queue"][..], &values].concat());
    for (number, waiter) in waiting.iter_mut().enumerate() {
        assert_eq!(waiter.reply().text(), format!("[queue {number}]"));
    }
    assert_eq!(client.say("LLEN queue"), "100");
    assert_eq!(client.say("LINDEX queue 0"), "400");
}

/// A transaction that adds to many lists for which clients wait serves them once each.
#[test]
fn a_transaction_serves_those_who_wait_for_many_keys() {
    let larder = one_worker();
    let (mut waiter, mut client) = (larder.connect(), larder.connect());
    let keys: Vec<String> = (0..2000).map(|n| format!("k{n}")).collect();
    let words: Vec<&str> = keys.iter().map(String::as_str).collect();
    waiter.send(command(&[&["BLPOP"][..], &words, &["0"]].concat()));
    larder.wait_for_blocked(1);
    client.say("MULTI");
    for key in &words {
        client.ask(&["RPUSH", key, "a", "b"]);
    }
    client.send(command(&["EXEC"]));
    assert_eq!(client.reply().items().len(), 2000);
    assert_eq!(waiter.reply().text(), "[k0 a]");
    assert_eq!(client.say("LLEN k0"), "1");
    assert_eq!(client.say("LLEN k1999"), "2");
}

/// The second is called, since the first one's destination is held: it gets its element too.
#[test]
fn clients_that_move_to_the_same_list_are_all_served() {
    for threads in ["1", "2"] {
        let larder = Redis::larder(&["--threads", threads]);
        let mut waiting: Vec<_> = (0..20).map(|_| larder.connect()).collect();
        for (number, waiter) in waiting.iter_mut().enumerate() {
            waiter.send(command(&["BLMOVE", "from", "to", "LEFT", "RIGHT", "0"]));
            larder.wait_for_blocked(number + 1);
        }
        let mut client = larder.connect();
        let values: Vec<String> = (0..25).map(|n| n.to_string()).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        client.ask(&[&["RPUSH", "from"][..], &values].concat());
        let mut moved: Vec<u32> =
            waiting.iter_mut().map(|waiter| waiter.reply().text().parse().unwrap()).collect();
        assert!(moved.is_sorted(), "{moved:?}");
        moved.dedup();
        assert_eq!(moved.len(), 20);
        assert_eq!(client.say("LLEN to"), "20");
        assert_eq!(client.say("LRANGE from 0 -1"), "[20 21 22 23 24]");
    }
}

/// The items of a command in steps are there for others when it has ended, not before.
#[test]
fn nobody_takes_items_of_a_transaction_before_its_end() {
    let larder = one_worker();
    let (mut waiter, mut client) = (larder.connect(), larder.connect());
    let values = vec!["value"; 50_000];
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = larder.connect();
            while !over.load(Ordering::Relaxed) {
                assert_eq!(other.say("PING"), "PONG");
            }
        });
        for _ in 0..5 {
            waiter.send(command(&["BLPOP", "queue", "0"]));
            larder.wait_for_blocked(1);
            client.say("MULTI");
            client.ask(&[&["RPUSH", "queue"][..], &values].concat());
            client.say("LLEN queue");
            client.say("DEL other");
            assert_eq!(client.say("EXEC"), "[50000 50000 0]");
            assert_eq!(waiter.reply().text(), "[queue value]");
            assert_eq!(client.say("LLEN queue"), "49999");
            client.say("DEL queue");
        }
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_killed_client_takes_nothing() {
    let larder = one_worker();
    let (mut waiter, mut client) = (larder.connect(), larder.connect());
    let id = waiter.say("CLIENT ID");
    waiter.send(command(&["BLPOP", "queue", "0"]));
    larder.wait_for_blocked(1);
    client.send(
        [command(&["CLIENT", "KILL", "ID", &id]), command(&["RPUSH", "queue", "x"])].concat(),
    );
    assert_eq!((client.reply().text(), client.reply().text()), ("1".to_owned(), "1".to_owned()));
    assert_eq!(client.say("LRANGE queue 0 -1"), "[x]");
}

/// A write that goes on in steps comes to its end, whatever becomes of its client.
#[test]
fn a_write_of_a_killed_client_is_whole() {
    let larder = one_worker();
    let mut client = larder.connect();
    for from in (0..30_000).step_by(1000) {
        let members: Vec<String> = (from..from + 1000).map(|n| n.to_string()).collect();
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        client.ask(&[&["SADD", "s"][..], &members].concat());
    }
    for _ in 0..5 {
        let mut writer = larder.connect();
        let id = writer.say("CLIENT ID");
        writer.send(command(&["SUNIONSTORE", "d", "s", "s"]));
        client.say(&format!("CLIENT KILL ID {id}"));
        // It waits for the end of the command, if that has begun.
        let stored = client.say("SCARD d");
        assert!(stored == "0" || stored == "30000", "{stored}");
        client.say("DEL d");
    }
}

/// Two workers, clients of each, elements that travel over several lists: none is lost or doubled.
#[test]
fn elements_that_are_moved_by_many_are_neither_lost_nor_doubled() {
    let larder = Redis::larder(&["--threads", "2"]);
    const ELEMENTS: usize = 2000;
    thread::scope(|scope| {
        for (from, to) in [("a", "b"), ("b", "c"), ("c", "d")] {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut mover = larder.connect();
                    for _ in 0..ELEMENTS / 4 {
                        let moved = mover.ask(&["BLMOVE", from, to, "LEFT", "RIGHT", "0"]);
                        assert!(!moved.is_error(), "{moved:?}");
                    }
                });
            }
        }
        scope.spawn(|| {
            let mut pusher = larder.connect();
            for number in 0..ELEMENTS {
                pusher.ask(&["RPUSH", "a", &number.to_string()]);
            }
        });
    });
    let mut client = larder.connect();
    let moved = client.ask(&["LRANGE", "d", "0", "-1"]);
    let mut moved: Vec<usize> =
        moved.items().iter().map(|item| item.text().parse().unwrap()).collect();
    moved.sort_unstable();
    assert_eq!(moved, (0..ELEMENTS).collect::<Vec<_>>());
    assert_eq!(client.say("EXISTS a b c"), "0");
}
