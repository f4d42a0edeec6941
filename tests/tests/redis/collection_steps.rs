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

/// The separators of such a set are as long as its members.
#[test]
fn sorted_sets_of_long_similar_members_stay_usable() {
    let larder = one_worker();
    let mut client = larder.connect();
    for len in [1100, 2100, 5000] {
        let members: Vec<String> = (0..600).map(|n| format!("{}{n:05}", "a".repeat(len))).collect();
        for member in &members {
            assert_eq!(client.ask(&["ZADD", "z", "0", member]).text(), "1");
        }
        let ranged = client.ask(&["ZRANGE", "z", "0", "-1"]);
        let ranged: Vec<String> = ranged.items().iter().map(|item| item.text()).collect();
        assert_eq!(ranged, members, "{len}");
        for member in members.iter().step_by(2) {
            assert_eq!(client.ask(&["ZREM", "z", member]).text(), "1");
        }
        assert_eq!(client.ask(&["ZRANK", "z", &members[599]]).text(), "299");
        client.say("DEL z");
    }
}

/// Redis adds the scores of the smallest set first.
#[test]
fn scores_are_added_in_the_order_of_redis() {
    let answers: Vec<String> = [one_worker(), Redis::debian(&[])]
        .iter()
        .map(|server| {
            let mut client = server.connect();
            client.say("ZADD a 0.1 x 1 p 1 q");
            client.say("ZADD b 0.2 x 1 p");
            client.say("ZADD c 0.3 x");
            ["ZUNION 3 a b c WITHSCORES", "ZINTER 3 a b c WITHSCORES", "ZDIFF 2 a c WITHSCORES"]
                .map(|asked| client.say(asked))
                .join(" ")
        })
        .collect();
    assert_eq!(answers[0], answers[1]);
}
