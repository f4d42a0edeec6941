//! Data commands through the face, over a small store.
//!
//! The dialogues in the `.txt` files were recorded from Redis 7.0.15: a line sent (`>`), and its
//! answer (`<`, escaped).

use std::sync::Arc;

use larder_proto::resp::hash;
use larder_store::{Namespace, Put};

use super::super::{
    Face, Shared,
    tests::{NOW, TestClient, settings, shared},
};

/// Replays a dialogue and compares every answer.
fn play(client: &mut TestClient, conversation: &str) {
    let mut lines = conversation.lines();
    let mut played = 0;
    while let (Some(sent), Some(answer)) = (lines.next(), lines.next()) {
        let sent = sent.strip_prefix("> ").expect("a line sent");
        let answer = answer.strip_prefix("< ").expect("an answer");
        let mut ask = || escaped(&client.send(format!("{sent}\r\n").as_bytes()));
        let mut got = ask();
        // A walk ends early where its time is over, on a machine that does other things meanwhile.
        for _ in 0..1000 {
            if got == answer || !sent.starts_with("scan 0 ") {
                break;
            }
            got = ask();
        }
        assert_eq!(got, answer, "{sent}");
        played += 1;
    }
    assert!(played > 10, "{played} lines played");
}

fn escaped(bytes: &[u8]) -> String {
    let one = |&byte: &u8| match byte {
        b'\r' => "\\r".into(),
        b'\n' => "\\n".into(),
        b'\\' => "\\\\".into(),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    bytes.iter().map(one).collect()
}

fn client() -> (Arc<Shared>, TestClient) {
    let shared = shared(settings());
    let client = TestClient::new(&Face::new(&shared, 0));
    (shared, client)
}

#[test]
fn strings_answer_as_redis_does() {
    play(&mut client().1, include_str!("strings.txt"));
}

#[test]
fn bits_answer_as_redis_does() {
    play(&mut client().1, include_str!("bits.txt"));
}

#[test]
fn keys_answer_as_redis_does() {
    play(&mut client().1, include_str!("keys.txt"));
}

#[test]
fn hashes_answer_as_redis_does() {
    play(&mut client().1, include_str!("hashes.txt"));
}

#[test]
fn resp3_answers_as_redis_does() {
    play(&mut client().1.resp3(), include_str!("resp3.txt"));
}

/// The last of the fields is larger than any may be.
#[test]
fn an_hset_that_fails_in_the_middle_is_a_change_for_watch() {
    let (shared, mut client) = client();
    let mut watcher = TestClient::new(&Face::new(&shared, 0));
    watcher.say("watch h\nmulti\nset a 1");
    let fields: Vec<String> = (0..2000).map(|n| format!("f{n} {}", "v".repeat(1000))).collect();
    let lines = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        let word = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
        let words_sent: String = words.iter().map(word).collect();
        format!("*{}\r\n{words_sent}", words.len()).into_bytes()
    };
    let large = "v".repeat(5 << 20);
    let words = format!("HSET h {} large {large}", fields.join(" "));
    let refused = escaped(&client.send(&lines(&words)));
    assert!(refused.starts_with("-ERR"), "{refused:.200}");
    let is_changed = client.say("hlen h") != ":0\r\n";
    assert_eq!(watcher.say("exec") == "*-1\r\n", is_changed);
}

#[test]
fn expired_keys_are_missing() {
    let (_, mut client) = client();
    assert_eq!(
        client.say("set a 1 px 500\nhset h f v\npexpire h 500\nset kept 1"),
        "+OK\r\n:1\r\n:1\r\n+OK\r\n"
    );
    client.now = NOW + 499;
    assert_eq!(client.say("pttl a\nhlen h"), ":1\r\n:1\r\n");
    client.now = NOW + 500;
    assert_eq!(client.say("get a\nhget h f\nttl a\nexists a h"), "$-1\r\n$-1\r\n:-2\r\n:0\r\n");
    assert_eq!(
        client.say("keys *\nscan 0 count 100000"),
        "*1\r\n$4\r\nkept\r\n*2\r\n$1\r\n0\r\n*1\r\n$4\r\nkept\r\n"
    );
    // A new value does not inherit a past expiry.
    assert_eq!(
        client.say("incr a\nttl a\nhset h g 1\nttl h\nhlen h"),
        ":1\r\n:-1\r\n:1\r\n:-1\r\n:1\r\n"
    );
}

#[test]
fn a_large_hash_is_found_listed_and_walked() {
    let (_, mut client) = client();
    for n in 0..2000 {
        assert_eq!(client.say(&format!("hset h field:{n} value:{n}")), ":1\r\n");
    }
    assert_eq!(client.say("hlen h\nhget h field:1234"), ":2000\r\n$10\r\nvalue:1234\r\n");
    assert_eq!(client.say("hset h field:7 x\nhdel h field:8 field:9 none"), ":0\r\n:2\r\n");
    let (mut cursor, mut seen) = ("0".to_string(), Vec::new());
    loop {
        let answer = client.say(&format!("hscan h {cursor} count 100"));
        let mut words =
            answer.split("\r\n").filter(|word| !word.starts_with(['*', '$']) && !word.is_empty());
        cursor = words.next().expect("a cursor").to_string();
        seen.extend(words.map(str::to_string));
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 2 * 1998);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 2 * 1998, "each field and value once");
}

#[test]
fn a_walk_shows_every_key_once_the_store_is_large_enough() {
    let (_, mut client) = client();
    for n in 0..500 {
        client.say(&format!("set key:{n} 1"));
    }
    let (mut cursor, mut seen, mut steps) = ("0".to_string(), 0, 0);
    loop {
        let answer = client.say(&format!("scan {cursor}"));
        seen += answer.matches("key:").count();
        cursor = answer.split("\r\n").nth(2).expect("a cursor").to_string();
        steps += 1;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen, 500);
    assert!(steps <= 500, "{steps} steps for 500 keys");
}

#[test]
fn a_damaged_hash_is_of_the_wrong_type() {
    let (shared, mut client) = client();
    let good = hash::pack(&[(b"field", b"value")]).unwrap();
    for cut in 0..good.len() {
        let put = Put { value: &[&good[..cut]], flags: hash::FLAGS, ..Put::default() };
        shared.store.set(Namespace(2), b"h", put, NOW).unwrap();
        for command in
            ["hgetall h", "hset h a b", "hdel h field", "hget h none", "hscan h 0", "get h"]
        {
            let answer = client.say(command);
            assert!(answer.starts_with("-WRONGTYPE"), "cut at {cut}: {command}: {answer}");
        }
    }
}

#[test]
fn values_and_keys_beyond_the_limits_are_refused() {
    let (_, mut client) = client();
    let large = "x".repeat((1 << 20) + 1);
    let set = format!("*3\r\n$3\r\nset\r\n$1\r\na\r\n${}\r\n{large}\r\n", large.len());
    assert!(client.send(set.as_bytes()).starts_with(b"-ERR value is larger"));
    let key = "k".repeat(20_000);
    assert!(
        client.say(&format!("set {key} 1")).starts_with("-ERR the key is longer than 16384 bytes")
    );
    assert_eq!(client.say(&format!("get {key}")), "$-1\r\n");
    assert_eq!(client.say("dbsize"), ":0\r\n");
}

#[test]
fn a_large_value_comes_back_whole() {
    let (_, mut client) = client();
    let value: Vec<u8> = (0..700_000u32).map(|n| b'a' + (n * 31 % 26) as u8).collect();
    let mut set = format!("*3\r\n$3\r\nSET\r\n$1\r\na\r\n${}\r\n", value.len()).into_bytes();
    set.extend_from_slice(&value);
    set.extend_from_slice(b"\r\n");
    assert_eq!(client.send(&set), b"+OK\r\n");
    let answer = client.send(b"get a\r\n");
    assert_eq!(&answer[9..answer.len() - 2], &value[..]);
    assert_eq!(
        client.say("append a xyz\ngetrange a 699998 700001"),
        format!(":700003\r\n$4\r\n{}xy\r\n", String::from_utf8_lossy(&value[699_998..]))
    );
}

#[test]
fn an_mset_with_a_key_that_is_too_long_stores_nothing() {
    let (_, mut client) = client();
    let long = "k".repeat(16 * 1024 + 1);
    for command in ["mset", "msetnx"] {
        let answer = client.say(&format!("{command} a 1 {long} 2"));
        assert_eq!(answer, "-ERR the key is longer than 16384 bytes\r\n", "{command}");
        assert_eq!(client.say("exists a"), ":0\r\n");
    }
}
