//! DUMP and RESTORE: what Debian's redis-server dumps Larder restores, and the other way round.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::{Redis, Resp, Value, redis::command};
use std::net::TcpStream;

type Client = Resp<TcpStream>;

fn fill(client: &mut Client, line: &str) {
    let said = client.say(line);
    assert!(!said.starts_with("ERR"), "{line}: {said}");
}

/// Values of every type, small and large.
fn values(client: &mut Client) {
    for line in ["SET s text", "SET i 12345", "SET j -70000", "SET e x", "SETRANGE zeros 400000 x"]
    {
        fill(client, line);
    }
    fill(client, &format!("SET long {}", "abcdef".repeat(20_000)));
    fill(client, "RPUSH l 1 two 3 -4 500000 99999999999");
    fill(client, "SADD ints 1 2 3 -70000 5000000000");
    fill(client, "SADD words a b c 4");
    fill(client, "ZADD z 1 a 2.5 b -inf c +inf d 1e100 e");
    fill(client, "HSET h f v n 12 empty value");
    for nth in 0..700 {
        fill(client, &format!("RPUSH ll element{nth} {nth} {}", "y".repeat(nth % 90)));
        fill(client, &format!("SADD ss member{nth}"));
        fill(client, &format!("SADD is {}", nth * 1000));
        fill(client, &format!("ZADD zz {} member{nth}", f64::from(nth as u32) / 7.0));
        fill(client, &format!("HSET hh field{nth} {}", "z".repeat(nth % 70)));
        fill(client, &format!("XADD x {}-1 name value{nth} other {}", nth + 1, nth * 3));
    }
    fill(client, &format!("RPUSH ll {}", "big".repeat(5000)));
    fill(client, "XADD x 900-5 different fields here now");
    fill(client, "XDEL x 5-1 700-1");
    fill(client, "XGROUP CREATE x g 0");
    fill(client, "XGROUP CREATE x h 300 ENTRIESREAD 300");
    fill(client, "XGROUP CREATE x empty $");
    fill(client, "XREADGROUP GROUP g al COUNT 300 STREAMS x >");
    fill(client, "XREADGROUP GROUP g bo COUNT 20 STREAMS x >");
    fill(client, "XREADGROUP GROUP h bo COUNT 20 STREAMS x >");
    fill(client, "XGROUP CREATECONSUMER x g idle");
    fill(client, "XACK x g 7-1 8-1");
    fill(client, "XGROUP CREATE y g $ MKSTREAM");
}

const KEYS: [&str; 19] = [
    "s", "i", "j", "e", "zeros", "long", "l", "ints", "words", "z", "h", "ll", "ss", "is", "zz",
    "hh", "x", "y", "x",
];

/// All that is to be seen of a key, without times.
fn seen(client: &mut Client, key: &str) -> Vec<Value> {
    let kind = client.say(&format!("TYPE {key}"));
    let mut answers = match kind.as_str() {
        "string" => vec![client.ask(&["GET", key])],
        "list" => vec![client.ask(&["LRANGE", key, "0", "-1"])],
        "set" => vec![client.ask(&["SORT", key, "ALPHA"])],
        "zset" => vec![client.ask(&["ZRANGE", key, "0", "-1", "WITHSCORES"])],
        "hash" => {
            let all = client.ask(&["HGETALL", key]);
            let mut pairs: Vec<Vec<Value>> = all.items().chunks(2).map(<[Value]>::to_vec).collect();
            pairs.sort();
            vec![Value::Many(b'*', Some(pairs.concat()))]
        }
        "stream" => {
            let mut all = vec![client.ask(&["XRANGE", key, "-", "+"])];
            all.push(client.ask(&["XINFO", "GROUPS", key]));
            for group in ["g", "h"] {
                all.push(client.ask(&["XPENDING", key, group]));
            }
            all.push(client.ask(&["XREADGROUP", "GROUP", "g", "al", "STREAMS", key, "0"]));
            all
        }
        other => panic!("{key}: {other}"),
    };
    answers.push(client.ask(&["TYPE", key]));
    answers
}

fn carry(from: &Redis, to: &Redis) {
    let (mut one, mut other) = (from.connect(), to.connect());
    values(&mut one);
    for key in KEYS {
        let Value::Bulk(_, Some(payload)) = one.ask(&["DUMP", key]) else { panic!("{key}") };
        let parts: [&[u8]; 5] = [b"RESTORE", key.as_bytes(), b"0", &payload, b"REPLACE"];
        other.send(command(&parts));
        let said = other.reply().text();
        assert_eq!(said, "OK", "RESTORE of {key}");
        assert!(seen(&mut one, key) == seen(&mut other, key), "{key} is another");
    }
}

#[test]
fn what_redis_dumps_is_restored() {
    carry(&Redis::debian(&[]), &Redis::larder(&[]));
}

#[test]
fn what_larder_dumps_redis_restores() {
    carry(&Redis::larder(&[]), &Redis::debian(&[]));
}

#[test]
fn what_larder_dumps_larder_restores() {
    carry(&Redis::larder(&[]), &Redis::larder(&[]));
}

/// Options and errors.
#[test]
fn options_and_errors_are_those_of_redis() {
    let said = [Redis::larder(&[]), Redis::debian(&[])].map(|server| {
        let mut client = server.connect();
        client.say("SET s text");
        client.say("RPUSH l a b");
        let Value::Bulk(_, Some(payload)) = client.ask(&["DUMP", "s"]) else { panic!() };
        let Value::Bulk(_, Some(list)) = client.ask(&["DUMP", "l"]) else { panic!() };
        let mut heard = Vec::new();
        let mut restore = |key: &str, ttl: &str, payload: &[u8], more: &str| {
            let mut words: Vec<&[u8]> = vec![b"RESTORE", key.as_bytes(), ttl.as_bytes(), payload];
            words.extend(more.split(' ').filter(|word| !word.is_empty()).map(str::as_bytes));
            // The time that is left differs between two servers that are asked one after the other.
            let until = if more.contains("ABSTTL") { "PEXPIRETIME" } else { "TTL" };
            let after = ["TYPE", until, "EXISTS"].map(|name| command(&[name, key]));
            // All at once: it is not asked a second later.
            client.send([command(&words), after.concat()].concat());
            heard.push([(); 4].map(|()| client.reply().text()));
        };
        restore("s", "0", &payload, "");
        restore("s", "0", &list, "REPLACE");
        restore("t", "5000400", &payload, "");
        restore("t", "1", &payload, "ABSTTL REPLACE");
        restore("u", "99999999999999", &list, "ABSTTL IDLETIME 5");
        restore("v", "0", &list, "FREQ 5");
        restore("w", "-1", &list, "");
        restore("w", "x", &list, "");
        restore("w", "0", &list, "FREQ 300");
        restore("w", "0", &list, "IDLETIME -1");
        restore("w", "0", &list, "IDLETIME 1 FREQ 1");
        restore("w", "0", &list, "FOO");
        restore("w", "0", b"short", "");
        let mut broken = payload.clone();
        broken[2] ^= 1;
        restore("w", "0", &broken, "");
        heard.push([client.ask(&["DUMP", "missing"]).text(), "".into(), "".into(), "".into()]);
        heard
    });
    assert_eq!(said[0], said[1]);
}

/// Others are served while a large value is dumped and restored.
#[test]
fn long_values_let_others_through() {
    let larder = Redis::larder(&["--threads", "1", "--memory", "512MiB"]);
    let mut client = larder.connect();
    for from in (0..50_000).step_by(1000) {
        let words: Vec<String> = (from..from + 1000).map(|n: u32| n.to_string()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        client.ask(&[&["SADD", "s"][..], &words].concat());
    }
    larder.serves_others_during(&[], "DUMP s");
}

/// A value for which there is no room does not cost the old one.
#[test]
fn the_old_value_stays_where_there_is_no_room_for_the_new_one() {
    let source = Redis::larder(&["--memory", "256MiB"]);
    let mut client = source.connect();
    for from in (0..200_000).step_by(1000) {
        let words: Vec<String> = (from..from + 1000).map(|n: u32| format!("member{n}")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        client.ask(&[&["SADD", "s"][..], &words].concat());
    }
    let Value::Bulk(_, Some(payload)) = client.ask(&["DUMP", "s"]) else { panic!() };
    let larder = Redis::larder(&["--memory", "32MiB", "--maxmemory-policy", "noeviction"]);
    let mut client = larder.connect();
    client.say("SADD s a b c");
    let filler = "x".repeat(100_000);
    let full = (0..400).any(|n| client.ask(&["SET", &format!("k{n}"), &filler]).is_error());
    assert!(full, "the memory is not full");
    let parts: [&[u8]; 5] = [b"RESTORE", b"s", b"0", &payload, b"REPLACE"];
    let said = client.send(command(&parts)).reply().text();
    assert!(said.starts_with("OOM"), "{said}");
    assert_eq!(client.say("SORT s ALPHA"), "[a b c]");
}
