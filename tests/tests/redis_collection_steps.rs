//! Commands on many or large items of lists, sets and sorted sets: their worker serves others
//! between two steps, and their memory is that of the client.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::Redis;
use larder_tests::redis::command;

fn one_worker() -> Redis {
    Redis::larder(&["--threads", "1", "--memory", "256MiB"])
}

#[test]
fn others_are_served_during_joins_sorts_and_searches() {
    let larder = one_worker();
    let mut client = larder.connect();
    for from in (0..60_000).step_by(1000) {
        let members: Vec<String> = (from..from + 1000).map(|n| n.to_string()).collect();
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        client.ask(&[&["SADD", "s"][..], &members].concat());
        client.ask(&[&["RPUSH", "l"][..], &["x"; 1000]].concat());
    }
    client.say("ZUNIONSTORE z 1 s");
    for n in 0..64 {
        client.ask(&["SET", &format!("long:{n}"), &"v".repeat(300_000)]);
    }
    client.say("SADD few 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15");
    let sets = ["s"; 64].join(" ");
    let gets = ["GET long:*"; 8].join(" ");
    for long in [
        format!("SINTER {sets} few s"),
        format!("SINTERCARD 64 {sets}"),
        format!("SDIFF s few {}", ["none"; 64].join(" ")),
        format!("ZINTERSTORE d 64 {sets}"),
        "SORT s BY w_* LIMIT 0 1".to_owned(),
        format!("SORT few {gets} STORE d"),
        "LPOS l x COUNT 0".to_owned(),
        "ZRANGESTORE d z 0 -1".to_owned(),
    ] {
        larder.serves_others_during(&[], &long);
    }
}

/// A value that a pattern names is copied in one step.
#[test]
fn sort_reads_no_longer_values_by_patterns_than_it_copies_in_a_step() {
    let larder = one_worker();
    let mut client = larder.connect();
    client.say("RPUSH l 1 2 3");
    client.ask(&["SET", "v:2", &"v".repeat((1 << 20) + 1)]);
    client.say("SET d before");
    let refused = "ERR SORT reads no value of more than 1048576 bytes by a pattern";
    for asked in ["SORT l GET v:*", "SORT l BY v:* ALPHA", "SORT l BY nosort GET # GET v:* STORE d"]
    {
        assert_eq!(client.say(asked), refused, "{asked}");
    }
    assert_eq!(client.say("GET d"), "before");
    assert_eq!(client.say("SORT l GET #"), "[1 2 3]");
}

#[test]
fn values_that_patterns_name_are_memory_of_the_client() {
    let larder = Redis::larder(&["--threads", "1", "--memory", "64MiB"]);
    let (mut client, mut other) = (larder.connect(), larder.connect());
    client.ask(&["SET", "v:", &"v".repeat(1 << 20)]);
    client.ask(&["SET", "v", &"v".repeat(1 << 20)]);
    let elements: Vec<String> = (0..400).map(|n| n.to_string()).collect();
    for element in &elements {
        other.ask(&["RPUSH", "l", element]);
        other.ask(&["SET", &format!("w{element}"), &"w".repeat(1 << 18)]);
    }
    // Some of these are evicted: the command needs more than there is at any rate.
    let sorted = client.say("SORT l BY w* ALPHA");
    assert!(sorted.starts_with("OOM") || sorted.split(' ').count() == 400, "{sorted}");
    // More than a client's answer may have: its connection ends, and the server goes on.
    client.send(command(&[&["SORT", "l"][..], &["GET", "v*"].repeat(4)].concat()));
    assert_eq!(other.say("PING"), "PONG");
    let peak = larder.usage().peak_rss;
    assert!(peak < 192 << 20, "{peak} bytes");
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

#[test]
fn too_many_keys_are_refused() {
    let larder = one_worker();
    let mut client = larder.connect();
    let keys = vec!["k"; 4097];
    let refused = "ERR this command takes at most 4096 keys";
    for (before, after) in [
        (&["SINTER"][..], &[][..]),
        (&["SUNIONSTORE", "d"], &[]),
        (&["ZUNION", "4097"], &[]),
        (&["ZDIFFSTORE", "d", "4097"], &[]),
        (&["BLPOP"], &["0"]),
        (&["BZPOPMIN"], &["0"]),
        (&["LMPOP", "4097"], &["LEFT"]),
        (&["BZMPOP", "0", "4097"], &["MIN"]),
        (&["BITOP", "OR", "d"], &[]),
    ] {
        assert_eq!(client.ask(&[before, &keys, after].concat()).text(), refused, "{before:?}");
    }
}

/// Long members come in several calls, and each is shown.
#[test]
fn a_walk_over_long_members_ends() {
    let larder = one_worker();
    let mut client = larder.connect();
    for n in 0..40 {
        client.ask(&["SADD", "s", &"m".repeat(300_000 + n)]);
    }
    let (mut cursor, mut seen, mut calls) = ("0".to_owned(), 0, 0);
    loop {
        let answer = client.ask(&["SSCAN", "s", &cursor, "COUNT", "1000"]);
        seen += answer.items()[1].items().len();
        calls += 1;
        cursor = answer.items()[0].text().to_owned();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen, 40);
    assert!(calls > 4, "{calls}");
}
