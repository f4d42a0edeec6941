//! Streams: random commands to Larder and to Debian's redis-server get the same answers, and
//! clients in blocking reads are served alike.
//!
//! Not compared: times (idle, delivered, seen), and the shape of Redis's tree.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use std::time::{SystemTime, UNIX_EPOCH};

use larder_tests::redis_stream::{Comparison, Stream, Words};
use larder_tests::{Redis, Value, redis::command, wait_until};

/// Commands per seed.
const COMMANDS: usize = 4000;
/// Fields of XINFO with times, or with the shape of the tree.
const UNLIKE: [&str; 4] = ["radix-tree-keys", "radix-tree-nodes", "idle", "seen-time"];

/// An answer without times: fields of XINFO, and the third of the facts of a pending entry.
fn timeless(value: &Value, rows: bool) -> Value {
    let Value::Many(kind, Some(items)) = value else { return value.clone() };
    let mut kept = Vec::new();
    let mut nth = 0;
    while nth < items.len() {
        let name = items[nth].text();
        if UNLIKE.contains(&&name[..]) {
            nth += 2;
            continue;
        }
        if name == "pending" && nth + 1 < items.len() {
            kept.push(items[nth].clone());
            kept.push(timeless(&items[nth + 1], true));
            nth += 2;
            continue;
        }
        if rows {
            let mut row = items[nth].items().to_vec();
            let last = row.len().saturating_sub(1);
            if last > 0 {
                row.remove(last - 1);
            }
            kept.push(Value::Many(b'*', Some(row)));
        } else {
            kept.push(timeless(&items[nth], false));
        }
        nth += 1;
    }
    Value::Many(*kind, Some(kept))
}

fn same(words: &Words, left: &Value, right: &Value) -> bool {
    if left == right {
        return true;
    }
    match &words[0].to_ascii_uppercase()[..] {
        b"XPENDING" if words.len() > 3 => timeless(left, true) == timeless(right, true),
        b"XINFO" => timeless(left, false) == timeless(right, false),
        // A step ends by time, too: on a busy machine it may show a part.
        b"SCAN" => match (left.items(), right.items()) {
            ([cursor, ours], [_, theirs]) => {
                let keys = |value: &Value| value.items().to_vec();
                let (ours, theirs) = (keys(ours), keys(theirs));
                let is_whole = cursor.text() != "0" || ours.len() == theirs.len();
                is_whole && ours.iter().all(|key| theirs.contains(key))
            }
            _ => false,
        },
        b"COMMAND" if words.len() == 1 => true,
        _ => false,
    }
}

fn compare(seed: u64, version: &str, small: bool) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let stream = Stream::of_streams(seed, now, small);
    Comparison { same, skips: |_| false, commands: COMMANDS }.run(stream, version, seed);
}

#[test]
fn short_entries() {
    (1..=3).for_each(|seed| compare(seed, "2", true));
    (11..=12).for_each(|seed| compare(seed, "3", true));
}

#[test]
fn long_entries() {
    (21..=22).for_each(|seed| compare(seed, "2", false));
    (31..=32).for_each(|seed| compare(seed, "3", false));
}

/// Thousands of entries, all pending, claimed, acknowledged and deleted.
#[test]
fn large_streams_are_those_of_redis() {
    let (larder, redis) = (Redis::larder(&[]), Redis::debian(&[]));
    let mut both = [larder.connect(), redis.connect()];
    let mut ask = |line: &str| {
        let words: Words = line.split(' ').map(Into::into).collect();
        let [ours, theirs] = both.each_mut().map(|talk| {
            talk.send(command(&words));
            talk.reply()
        });
        assert!(same(&words, &ours, &theirs), "{line}: {} {}", ours.text(), theirs.text());
    };
    for nth in 1..=6000 {
        ask(&format!("XADD s {nth}-1 name value{nth} other {}", nth * 7));
    }
    ask("XGROUP CREATE s g 0");
    ask("XGROUP CREATE s h 100");
    for line in [
        "COMMAND GETKEYS XREAD COUNT 5 STREAMS a b 0 0",
        "COMMAND GETKEYS XREADGROUP GROUP g w STREAMS a 0",
        "XRANGE s - +",
        "XREVRANGE s 5000 200 COUNT 1500",
        "XREADGROUP GROUP g al COUNT 2500 STREAMS s >",
        "XREADGROUP GROUP g bo STREAMS s >",
        "XREADGROUP GROUP h bo NOACK STREAMS s >",
        "XREADGROUP GROUP g al COUNT 1000 STREAMS s 300",
        "XPENDING s g",
        "XPENDING s g - + 5000 al",
        "XPENDING s g (2000 3000 700",
        "XAUTOCLAIM s g ce 0 1000 COUNT 900 JUSTID",
        "XTRIM s MINID 1500",
        "XAUTOCLAIM s g ce 0 - COUNT 400",
        "XINFO STREAM s FULL COUNT 0",
        "XINFO GROUPS s",
        "COPY s t",
        "XGROUP DELCONSUMER s g ce",
        "XINFO CONSUMERS s g",
        "XGROUP DESTROY s g",
        "XREADGROUP GROUP g bo STREAMS t 0",
        "XTRIM t MAXLEN 1000",
        "XRANGE t - +",
        "XINFO STREAM t FULL",
        "RENAME t u",
        "MOVE u 1",
        "XTRIM s MAXLEN 0",
        "XINFO STREAM s",
    ] {
        ask(line);
    }
    let ids: Vec<String> = (1..=6000).step_by(3).map(|nth| format!("{nth}-1")).collect();
    ask("SELECT 1");
    ask(&format!("XACK u g {}", ids.join(" ")));
    ask(&format!("XCLAIM u g bo 0 {} JUSTID", ids.join(" ")));
    ask(&format!("XDEL u {}", ids.join(" ")));
    ask("XINFO STREAM u FULL COUNT 0");
}

/// Clients that wait for a stream get what one of Redis gets, in the order in which they came.
#[test]
fn waiting_readers_are_served() {
    let said = [Redis::larder(&[]), Redis::debian(&[])].map(|server| {
        let mut client = server.connect();
        client.say("XADD s 1-1 a b");
        client.say("XGROUP CREATE s g $");
        client.say("XGROUP CREATE s h $");
        let mut waiting = [
            "XREAD BLOCK 0 STREAMS s $",
            "XREAD BLOCK 0 COUNT 1 STREAMS none s 0 1-1",
            "XREADGROUP GROUP g al BLOCK 0 STREAMS s >",
            "XREADGROUP GROUP g bo BLOCK 0 STREAMS s >",
            "XREADGROUP GROUP h bo BLOCK 0 NOACK STREAMS s >",
        ]
        .map(|line| {
            let mut talk = server.connect();
            let before = client.say("INFO clients");
            let count = |info: &str| {
                let line = info.lines().find(|line| line.starts_with("blocked_clients:")).unwrap();
                line.trim()[16..].parse::<u32>().unwrap()
            };
            let before = count(&before);
            talk.send(command(&line.split(' ').collect::<Vec<_>>()));
            wait_until("the client to wait", || count(&client.say("INFO clients")) > before);
            talk
        });
        let mut heard = Vec::new();
        client.say("XADD s 2-1 c d");
        heard.extend([0, 1, 2, 4].map(|nth: usize| waiting[nth].reply().text()));
        client.say("XADD s 3-1 e f");
        heard.push(waiting[3].reply().text());
        heard.push(timeless(&client.ask(&["XPENDING", "s", "g", "-", "+", "10"]), true).text());
        // A group that is destroyed wakes those who wait for it.
        waiting[2].send(command(
            &"XREADGROUP GROUP g al BLOCK 0 STREAMS s >".split(' ').collect::<Vec<_>>(),
        ));
        wait_until("the client to wait", || {
            client.say("INFO clients").contains("blocked_clients:1")
        });
        client.say("XGROUP DESTROY s g");
        heard.push(waiting[2].reply().text());
        waiting[0].send(command(&["XREAD", "BLOCK", "20", "STREAMS", "s", "$"]));
        heard.push(waiting[0].reply().text());
        // All that a transaction adds.
        waiting[0].send(command(&["XREAD", "BLOCK", "0", "STREAMS", "s", "$"]));
        wait_until("the client to wait", || {
            client.say("INFO clients").contains("blocked_clients:1")
        });
        for line in ["MULTI", "XADD s 4-1 a b", "XADD s 5-1 a b", "EXEC"] {
            client.say(line);
        }
        heard.push(waiting[0].reply().text());
        // More than a client is given at once: its command runs again, in steps.
        waiting[0].send(command(&["XREAD", "BLOCK", "0", "STREAMS", "many", "$"]));
        wait_until("the client to wait", || {
            client.say("INFO clients").contains("blocked_clients:1")
        });
        client.say("MULTI");
        (1..=1500).for_each(|nth| drop(client.say(&format!("XADD many {nth}-1 a b"))));
        client.say("EXEC");
        let many = waiting[0].reply();
        heard.push(many.items()[0].items()[1].items().len().to_string());
        assert_eq!(client.say("PING"), "PONG");
        heard
    });
    assert_eq!(said[0], said[1]);
}

/// The events of changes.
#[test]
fn changes_are_told() {
    let said = [Redis::larder(&[]), Redis::debian(&[])].map(|server| {
        let (mut hearer, mut client) = (server.connect(), server.connect());
        client.say("CONFIG SET notify-keyspace-events KA");
        hearer.say("PSUBSCRIBE __keyspace@0__:*");
        for words in [
            "XADD s 1-1 a b",
            "XADD s MAXLEN 1 2-1 a b",
            "XADD s 3-1 a b",
            "XTRIM s MAXLEN 1",
            "XTRIM s MAXLEN 1",
            "XGROUP CREATE s g 0",
            "XGROUP CREATE t g 0 MKSTREAM",
            "XGROUP SETID s g 0",
            "XREADGROUP GROUP g al STREAMS s >",
            "XGROUP CREATECONSUMER s g bo",
            "XCLAIM s g ce 0 3-1",
            "XACK s g 3-1",
            "XGROUP DELCONSUMER s g al",
            "XGROUP DESTROY s g",
            "XSETID s 9-9",
            "XDEL s 3-1",
            "XDEL s 3-1",
            "RENAME s u",
            "DEL u",
        ] {
            assert!(!client.say(words).starts_with("ERR"), "{words}");
        }
        client.say("PUBLISH __keyspace@0__:end end");
        let mut events = Vec::new();
        loop {
            let told = hearer.reply();
            events.push(told.items()[2..].iter().map(Value::text).collect::<Vec<_>>().join(" "));
            if events.last().is_some_and(|event| event.ends_with(" end")) {
                return events;
            }
        }
    });
    assert_eq!(said[0], said[1]);
}

/// Others are served while a long command runs.
#[test]
fn long_commands_let_others_through() {
    let larder = Redis::larder(&["--threads", "1", "--memory", "256MiB"]);
    let mut client = larder.connect();
    let lines: Vec<u8> = (1..=20_000)
        .flat_map(|nth: u32| command(&["XADD", "s", &format!("{nth}-1"), "name", "value"]))
        .collect();
    client.send(lines);
    (0..20_000).for_each(|_| drop(client.reply()));
    client.say("XGROUP CREATE s g 0");
    for (prepare, long) in [
        ("PING", "XRANGE s - +"),
        ("XGROUP SETID s g 0", "XREADGROUP GROUP g al STREAMS s >"),
        ("PING", "XREADGROUP GROUP g al STREAMS s 0"),
        ("PING", "XPENDING s g - + 20000"),
        ("PING", "XAUTOCLAIM s g bo 0 0 COUNT 20000 JUSTID"),
        ("COPY s t REPLACE", "XTRIM t MAXLEN 1"),
    ] {
        larder.serves_others_during(&[prepare], long);
    }
}
