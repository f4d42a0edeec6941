//! Expiry of the fields of hashes (Redis 7.4 and 8.0). Debian's server has not these commands: the
//! answers are those of Redis's documents and sources.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::redis::{Value, command};
use larder_tests::{Larder, Redis, Resp, Scratch, wait_until};
use std::net::TcpStream;

/// In the year 2100, in seconds.
const LATE: i64 = 4_102_444_800;

#[track_caller]
fn all(client: &mut Resp<TcpStream>, lines: &[(&str, &str)]) {
    for (line, answer) in lines {
        assert_eq!(client.say(line), *answer, "{line}");
    }
}

#[test]
fn fields_get_and_lose_expiries_as_in_redis() {
    let larder = Redis::larder(&[]);
    let mut client = larder.connect();
    all(
        &mut client,
        &[
            ("HEXPIRE none 10 FIELDS 2 a b", "[-2 -2]"),
            ("HTTL none FIELDS 1 a", "[-2]"),
            ("HPERSIST none FIELDS 1 a", "[-2]"),
            ("HSET h a 1 b 2 c 3 d 4", "4"),
            ("HEXPIREAT h 4102444800 FIELDS 3 a b x", "[1 1 -2]"),
            ("HEXPIRETIME h FIELDS 4 a b c x", "[4102444800 4102444800 -1 -2]"),
            ("HPEXPIRETIME h FIELDS 1 a", "[4102444800000]"),
            ("HPEXPIREAT h 4102444800001 NX FIELDS 2 a c", "[0 1]"),
            ("HPEXPIREAT h 4102444800002 XX FIELDS 2 a d", "[1 0]"),
            ("HPEXPIREAT h 4102444800001 GT FIELDS 4 a b c d", "[0 1 0 0]"),
            ("HPEXPIREAT h 4102444800000 LT FIELDS 2 a d", "[1 1]"),
            ("HEXPIRETIME h FIELDS 1 c", "[4102444801]"),
            (
                "HPEXPIRETIME h FIELDS 4 a b c d",
                "[4102444800000 4102444800001 4102444800001 4102444800000]",
            ),
            ("TTL h", "-1"),
            ("HPERSIST h FIELDS 3 a x d", "[1 -2 1]"),
            ("HPERSIST h FIELDS 1 a", "[-1]"),
            // Commands that keep an expiry, and such as do not.
            ("HINCRBY h b 5", "7"),
            ("HINCRBYFLOAT h c 0.5", "3.5"),
            ("HPEXPIRETIME h FIELDS 2 b c", "[4102444800001 4102444800001]"),
            ("HSET h b 9", "0"),
            ("HDEL h c", "1"),
            ("HSET h c 1", "1"),
            ("HTTL h FIELDS 2 b c", "[-1 -1]"),
            ("HSETNX h e 1", "1"),
            ("HGETALL h", "[a 1 b 9 d 4 c 1 e 1]"),
            // A time that has passed removes the field.
            ("HEXPIRE h 0 FIELDS 2 a a", "[2 -2]"),
            ("HEXPIREAT h 1 FIELDS 1 b", "[2]"),
            ("HLEN h", "3"),
            ("HPEXPIREAT h 1 FIELDS 3 c d e", "[2 2 2]"),
            ("EXISTS h", "0"),
            ("OBJECT ENCODING h", "(nil)"),
            ("HSET h a 1", "1"),
            ("OBJECT ENCODING h", "listpack"),
            ("HEXPIRE h 100 FIELDS 1 a", "[1]"),
            ("OBJECT ENCODING h", "listpackex"),
        ],
    );
    for line in ["HTTL h FIELDS 1 a", "HPTTL h FIELDS 1 a"] {
        let left: i64 = client.say(line).trim_matches(['[', ']']).parse().unwrap();
        let unit = if line.starts_with("HTTL") { 1 } else { 1000 };
        assert!((1..=100 * unit).contains(&left), "{line}: {left}");
    }
}

#[test]
fn values_are_got_and_set_with_an_expiry_as_in_redis() {
    let larder = Redis::larder(&[]);
    let mut client = larder.connect();
    all(
        &mut client,
        &[
            ("HSETEX h FXX FIELDS 1 a 1", "0"),
            ("EXISTS h", "0"),
            ("HSETEX h FNX EXAT 4102444800 FIELDS 2 a 1 b 2", "1"),
            ("HSETEX h FNX FIELDS 2 b 3 c 3", "0"),
            ("HSETEX h FXX FIELDS 2 b 3 c 3", "0"),
            ("HEXPIRETIME h FIELDS 2 a b", "[4102444800 4102444800]"),
            ("HSETEX h KEEPTTL FIELDS 2 a 5 c 3", "1"),
            ("HEXPIRETIME h FIELDS 2 a c", "[4102444800 -1]"),
            ("HSETEX h FIELDS 1 a 6", "1"),
            ("HTTL h FIELDS 1 a", "[-1]"),
            ("HGETEX h FIELDS 3 a x c", "[6 (nil) 3]"),
            ("HGETEX h PXAT 4102444800007 FIELDS 2 a x", "[6 (nil)]"),
            ("HPEXPIRETIME h FIELDS 1 a", "[4102444800007]"),
            ("HGETEX h PERSIST FIELDS 2 a c", "[6 3]"),
            ("HTTL h FIELDS 2 a c", "[-1 -1]"),
            ("HGETEX h EX 0 FIELDS 2 a a", "[6 (nil)]"),
            ("HGETDEL h FIELDS 4 b x b c", "[2 (nil) (nil) 3]"),
            ("EXISTS h", "0"),
            ("HGETDEL h FIELDS 1 b", "[(nil)]"),
            ("HGETEX h EX 10 FIELDS 1 b", "[(nil)]"),
            // Set and gone at once.
            ("HSETEX h PXAT 1 FIELDS 1 a 1", "1"),
            ("EXISTS h", "0"),
        ],
    );
}

#[test]
fn errors_are_those_of_redis() {
    let larder = Redis::larder(&[]);
    let mut client = larder.connect();
    all(&mut client, &[("HSET h a 1", "1"), ("SET s x", "OK")]);
    let misplaced = "ERR Mandatory argument FIELDS is missing or not at the right position";
    let mismatch = "ERR The `numfields` parameter must match the number of arguments";
    let number = "ERR Number of fields must be a positive integer";
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    let integer = "ERR value is not an integer or out of range";
    let one = "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
    all(
        &mut client,
        &[
            ("HEXPIRE h 10 FIELDS 1", "ERR wrong number of arguments for 'hexpire' command"),
            ("HEXPIRE h 10 FOO 1 a", misplaced),
            ("HEXPIRE h 10 NX XX FIELDS 1 a", misplaced),
            ("HEXPIRE h 10 FIELDS 0 a", "ERR Parameter `numFields` should be greater than 0"),
            ("HEXPIRE h 10 FIELDS x a", "ERR Parameter `numFields` should be greater than 0"),
            ("HEXPIRE h 10 FIELDS 2 a", mismatch),
            ("HEXPIRE h x FIELDS 1 a", integer),
            ("HEXPIRE h -1 FIELDS 1 a", "ERR invalid expire time, must be >= 0"),
            ("HEXPIRE h 70368744178 FIELDS 1 a", "ERR invalid expire time in 'hexpire' command"),
            (
                "HPEXPIREAT h 70368744177664 FIELDS 1 a",
                "ERR invalid expire time in 'hpexpireat' command",
            ),
            ("HPEXPIREAT h 70368744177663 FIELDS 1 a", "[1]"),
            ("HEXPIRE s 10 FIELDS 1 a", wrong),
            ("HTTL s FIELDS 1 a", wrong),
            ("HTTL h FOO 1 a", misplaced),
            ("HTTL h FIELDS 0 a", number),
            ("HTTL h FIELDS 2 a", mismatch),
            ("HPERSIST s FIELDS 1 a", wrong),
            ("HPERSIST h FIELDS x a", number),
            ("HGETDEL s FIELDS 1 a", wrong),
            ("HGETDEL h FIELDS -1 a", number),
            ("HGETDEL h FOO 1 a", misplaced),
            ("HGETEX h EX 10 FOO 1 a", misplaced),
            ("HGETEX h EX x FIELDS 1 a", integer),
            ("HGETEX h KEEPTTL FIELDS 1 a", misplaced),
            ("HGETEX h FIELDS 3 a b", mismatch),
            ("HSETEX s FIELDS 1 a 1", wrong),
            ("HSETEX h FOO FIELDS 1 a 1", "ERR unknown argument: FOO"),
            ("HSETEX h EX 1 PX 1 FIELDS 1 a 1", one),
            ("HSETEX h KEEPTTL EX 1 FIELDS 1 a 1", one),
            (
                "HSETEX h FNX FXX FIELDS 1 a 1",
                "ERR Only one of FXX or FNX arguments can be specified",
            ),
            ("HSETEX h FIELDS 0 a 1", "ERR invalid number of fields"),
            ("HSETEX h FIELDS 2 a 1", "ERR wrong number of arguments for 'hsetex' command"),
            ("HSETEX h EX -1 FIELDS 1 a 1", "ERR invalid expire time, must be >= 0"),
        ],
    );
    assert_eq!(client.say("HGETALL h"), "[a 1]");
    let info = client.ask(&["COMMAND", "INFO", "hexpire", "hgetex"]);
    assert_eq!(info.items()[0].items()[1].text(), "-6");
    assert!(client.ask(&["ACL", "CAT", "hash"]).text().contains("hpexpiretime"));
    assert!(client.say("COMMAND DOCS hsetex").contains("FNX"));
}

/// Milliseconds since the epoch, by the server's clock.
fn now(client: &mut Resp<TcpStream>) -> i64 {
    let time = client.ask(&["TIME"]);
    let part = |at: usize| time.items()[at].text().parse::<i64>().unwrap();
    part(0) * 1000 + part(1) / 1000
}

/// A hash of `count` fields, of which those with an odd number expire soon: plain, indexed, a tree.
fn half_expiring(client: &mut Resp<TcpStream>, key: &str, count: usize) {
    let mut set = vec!["HSET".to_owned(), key.to_owned()];
    (0..count).for_each(|n| set.extend([format!("f{n}"), format!("{n}")]));
    client.ask(&set);
    let soon = now(client) + 50;
    let odd: Vec<String> = (1..count).step_by(2).map(|n| format!("f{n}")).collect();
    let mut expire = vec!["HPEXPIREAT".to_owned(), key.to_owned(), soon.to_string()];
    expire.extend(["FIELDS".to_owned(), odd.len().to_string()]);
    expire.extend(odd);
    assert_eq!(client.ask(&expire).items().len(), count / 2, "{key}");
}

#[test]
fn no_command_sees_a_field_that_has_expired() {
    let larder = Redis::larder(&[]);
    let mut client = larder.connect();
    for count in [8, 300, 1500] {
        let live = count / 2;
        // Each command is the first to look at its hash, unless the sweep was faster.
        let asks: [(&str, String); 12] = [
            ("HLEN k", live.to_string()),
            ("HGET k f1", "(nil)".to_owned()),
            ("HMGET k f0 f1", "[0 (nil)]".to_owned()),
            ("HEXISTS k f3", "0".to_owned()),
            ("HSTRLEN k f3", "0".to_owned()),
            ("HINCRBY k f1 5", "5".to_owned()),
            ("HSETNX k f1 new", "1".to_owned()),
            ("HTTL k FIELDS 2 f0 f1", "[-1 -2]".to_owned()),
            ("HDEL k f1", "0".to_owned()),
            ("HSETEX k FXX FIELDS 1 f1 1", "0".to_owned()),
            ("EVAL return+redis.call('hlen','k') 0", live.to_string()),
            ("HGETDEL k FIELDS 1 f1", "[(nil)]".to_owned()),
        ];
        for (line, answer) in asks {
            half_expiring(&mut client, "k", count);
            let words: Vec<&str> = line.split(' ').collect();
            let words: Vec<String> = words.iter().map(|word| word.replace('+', " ")).collect();
            client.say("SET clock 1 PX 60");
            wait_until("the time to pass", || client.say("EXISTS clock") == "0");
            assert_eq!(client.ask(&words).text(), answer, "{line} of {count} fields");
            client.say("DEL k");
        }
        half_expiring(&mut client, "k", count);
        client.say("RPUSH l y");
        client.say("SET clock 1 PX 60");
        wait_until("the time to pass", || client.say("EXISTS clock") == "0");
        let Value::Bulk(_, Some(payload)) = client.ask(&["DUMP", "k"]) else { panic!() };
        client.say("COPY k copy");
        client.say("RENAME k renamed");
        assert_eq!(client.say("SORT l BY nosort GET cop*->f1 GET cop*->f0"), "[(nil) 0]");
        for key in ["copy", "renamed"] {
            assert_eq!(client.ask(&["HKEYS", key]).items().len(), live, "{key}");
        }
        let parts: [&[u8]; 5] = [b"RESTORE", b"k", b"0", &payload, b"REPLACE"];
        assert_eq!(client.send(command(&parts)).reply().text(), "OK");
        assert_eq!(client.say("HLEN k"), live.to_string());
        let drawn = client.say("HRANDFIELD k 2000");
        assert!(!drawn.contains("f1 ") && drawn.contains("f0"), "{drawn}");
        assert!(!client.say("HSCAN k 0 COUNT 2000").contains("f1 "));
        client.say("DEL k copy renamed l");
    }
}

#[test]
fn a_hash_goes_with_its_last_field_and_tells() {
    let larder = Redis::larder(&[]);
    let mut client = larder.connect();
    client.say("CONFIG SET notify-keyspace-events KEA");
    let mut hearer = larder.connect();
    hearer.say("PSUBSCRIBE __keyspace@0__:h*");
    let mut told = |what: &str| {
        let event = hearer.reply();
        let words: Vec<String> = event.items()[2..].iter().map(Value::text).collect();
        assert_eq!(words.join(" ").trim_start_matches("__keyspace@0__:"), what);
    };
    client.say("HSETEX h1 EX 1000 FIELDS 2 a 1 b 2");
    told("h1 hset");
    told("h1 hexpire");
    client.say("HSET h2 a 1 stays 1");
    told("h2 hset");
    client.say("HPERSIST h1 FIELDS 1 b");
    told("h1 hpersist");
    client.say("HGETEX h1 EX 1000 FIELDS 1 b");
    told("h1 hexpire");
    client.say("HGETEX h1 PERSIST FIELDS 1 b");
    told("h1 hpersist");
    client.say("HPEXPIRE h1 50 FIELDS 2 a b");
    told("h1 hexpire");
    // Nobody looks at the hash: the sweep finds it.
    told("h1 hexpired");
    told("h1 del");
    wait_until("the hash to be gone", || client.say("DBSIZE") == "1");
    client.say("HPEXPIRE h2 50 FIELDS 1 a");
    told("h2 hexpire");
    told("h2 hexpired");
    assert_eq!(client.say("HGETALL h2"), "[stays 1]");
    assert_eq!(client.say("OBJECT ENCODING h2"), "listpack");
    client.say("HEXPIRE h2 0 FIELDS 1 stays");
    told("h2 hdel");
    told("h2 del");
    let stats = client.say("INFO stats");
    assert!(stats.contains("expired_subkeys:"), "{stats}");
}

#[test]
fn the_keys_own_expiry_is_another() {
    let larder = Redis::larder(&[]);
    let mut client = larder.connect();
    let late = LATE * 1000;
    all(
        &mut client,
        &[
            // All fields expire, so the entry does: its key has no expiry.
            ("HSETEX h PXAT 4102444800000 FIELDS 2 a 1 b 2", "1"),
            ("TTL h", "-1"),
            ("PERSIST h", "0"),
            ("PEXPIREAT h 4102444900000", "1"),
            ("PEXPIRETIME h", "4102444900000"),
            ("PEXPIREAT h 4102444000000 GT", "0"),
            ("PEXPIREAT h 4102444000000 LT", "1"),
            ("HPEXPIRETIME h FIELDS 1 a", "[4102444800000]"),
            ("COPY h i", "1"),
            ("PEXPIRETIME i", "4102444000000"),
            ("PERSIST h", "1"),
            ("PTTL h", "-1"),
            ("HPEXPIRETIME h FIELDS 2 a b", "[4102444800000 4102444800000]"),
            ("HPERSIST i FIELDS 2 a b", "[1 1]"),
            ("PEXPIRETIME i", "4102444000000"),
            ("SET i x KEEPTTL", "OK"),
            ("PEXPIRETIME i", "4102444000000"),
            ("TYPE h", "hash"),
            ("SET h x KEEPTTL", "OK"),
            ("TTL h", "-1"),
        ],
    );
    assert!(late > now(&mut client));
    // Expiries of the fields go with a payload.
    client.say("DEL h");
    for count in [3, 200] {
        let mut set = vec!["HSET".to_owned(), "h".to_owned()];
        (0..count).for_each(|n| set.extend([format!("f{n}"), format!("{n}")]));
        client.ask(&set);
        client.say("HPEXPIREAT h 4102444800005 FIELDS 2 f0 f2");
        client.say("HPEXPIREAT h 4102444800001 FIELDS 1 f1");
        let Value::Bulk(_, Some(payload)) = client.ask(&["DUMP", "h"]) else { panic!() };
        let parts: [&[u8]; 4] = [b"RESTORE", b"copy", b"0", &payload];
        assert_eq!(client.send(command(&parts)).reply().text(), "OK");
        let times = "[4102444800005 4102444800001 4102444800005]";
        assert_eq!(client.say("HPEXPIRETIME copy FIELDS 3 f0 f1 f2"), times);
        assert_eq!(client.say("HGETALL copy"), client.say("HGETALL h"));
        client.say("DEL h copy");
    }
}

#[test]
fn a_payload_of_redis_7_4_brings_its_expiries() {
    let larder = Redis::larder(&[]);
    let mut client = larder.connect();
    // A listpack of triplets: a 1 (expires), b 2 (does not), in a value of type 25.
    let mut pack = vec![0u8; 6];
    let time = LATE * 1000;
    for word in [&b"a"[..], b"1"] {
        pack.push(0x80 | word.len() as u8);
        pack.extend_from_slice(word);
        pack.push(2);
    }
    pack.push(0xf4);
    pack.extend_from_slice(&time.to_le_bytes());
    pack.push(9);
    for word in [&b"b"[..], b"2"] {
        pack.push(0x80 | word.len() as u8);
        pack.extend_from_slice(word);
        pack.push(2);
    }
    pack.extend_from_slice(&[0, 1, 0xff]);
    let len = pack.len() as u32;
    pack[..4].copy_from_slice(&len.to_le_bytes());
    pack[4..6].copy_from_slice(&6u16.to_le_bytes());
    let mut payload = vec![25u8];
    payload.extend_from_slice(&time.to_le_bytes());
    payload.push(pack.len() as u8);
    payload.extend_from_slice(&pack);
    payload.extend_from_slice(&12u16.to_le_bytes());
    let crc = larder_proto::resp::rdb::crc64(0, &payload);
    payload.extend_from_slice(&crc.to_le_bytes());
    let parts: [&[u8]; 4] = [b"RESTORE", b"h", b"0", &payload];
    assert_eq!(client.send(command(&parts)).reply().text(), "OK");
    all(
        &mut client,
        &[
            ("HGETALL h", "[a 1 b 2]"),
            ("HEXPIRETIME h FIELDS 2 a b", "[4102444800 -1]"),
            ("TTL h", "-1"),
        ],
    );
}

/// A snapshot keeps the expiries of fields, and the key's own.
#[test]
fn expiries_are_there_after_a_restart() {
    let dir = Scratch::new("fields");
    let config = format!(
        "memory = \"32MiB\"\nsnapshot = \"{}\"\n[http]\nlisten = \"127.0.0.1:0\"\n[[site]]\n\
         origin = \"http://127.0.0.1:9\"\n[redis]\nlisten = \"127.0.0.1:0\"\n",
        dir.file("snapshot").display()
    );
    let mut larder = Larder::with_config(&config);
    let mut client = Resp::tcp(larder.face("redis"));
    let seen = [
        ("HGETALL h", "[a 1 b 2]"),
        ("HPEXPIRETIME h FIELDS 2 a b", "[4102444800000 -1]"),
        ("HPEXPIRETIME all FIELDS 1 a", "[4102444800000]"),
        ("PEXPIRETIME all", "4102444900000"),
    ];
    client.say("HSET h a 1 b 2");
    client.say("HPEXPIREAT h 4102444800000 FIELDS 1 a");
    client.say("HSETEX all PXAT 4102444800000 FIELDS 1 a 1");
    client.say("PEXPIREAT all 4102444900000");
    all(&mut client, &seen);
    drop(client);
    larder.term();
    larder.wait_exit();
    let larder = Larder::with_config(&config);
    all(&mut Resp::tcp(larder.face("redis")), &seen);
}
