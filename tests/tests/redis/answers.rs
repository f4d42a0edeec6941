//! Answers to commands that take several steps, are part of a transaction, or are not to be
//! answered at all; and the messages to other clients about them.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::{Redis, Resp, redis::command, wait_until};
use std::net::TcpStream;

/// Laravel's `Cache::add`.
const ADD: &str =
    "return redis.call('exists',KEYS[1])<1 and redis.call('setex',KEYS[1],ARGV[2],ARGV[1])";

/// One worker: several clients' commands come between the steps of one.
fn one_worker() -> Redis {
    Redis::larder(&["--threads", "1"])
}

/// Several commands, to be sent in one write.
fn all(commands: &[&[&str]]) -> Vec<u8> {
    commands.iter().flat_map(|words| command(words)).collect()
}

/// Whether the value of a key is this one.
#[track_caller]
fn assert_value(client: &mut Resp<TcpStream>, key: &str, value: &str) {
    let (_, bytes) = client.send(command(&["GET", key])).maybe().unwrap();
    let expected = format!("${}\r\n{value}\r\n", value.len());
    assert!(bytes == expected.as_bytes(), "{key}: {} bytes", bytes.len());
}

#[test]
fn a_long_value_that_a_script_adds_is_what_was_given() {
    let larder = one_worker();
    let mut client = larder.connect();
    client.say("CONFIG SET notify-keyspace-events KEA");
    let mut hearer = larder.connect();
    hearer.say("PSUBSCRIBE __keyspace@0__:*");
    // As long as a script's argument may be.
    let value = "0123456789abcdef".repeat(1 << 18);
    assert_eq!(client.ask(&["EVAL", ADD, "1", "one", &value, "100"]).text(), "OK");
    assert_value(&mut client, "one", &value);
    let ttl: i64 = client.say("TTL one").parse().unwrap();
    assert!((1..=100).contains(&ttl), "{ttl}");
    assert_eq!(client.ask(&["EVAL", ADD, "1", "one", "other", "100"]).text(), "(nil)");
    for event in ["set", "expire"] {
        let told = hearer.reply();
        let words: Vec<String> = told.items()[2..].iter().map(|item| item.text()).collect();
        assert_eq!(words, ["__keyspace@0__:one", event]);
    }
    // In a transaction, whose commands have words of their own.
    client.say("DEL one");
    let value = &value[..3 << 20];
    let answers = client.send(all(&[
        &["MULTI"],
        &["EVAL", ADD, "1", "two", value, "100"],
        &["STRLEN", "two"],
        &["EXEC"],
    ]));
    (0..3).for_each(|_| drop(answers.reply()));
    assert_eq!(answers.reply().text(), format!("[OK {}]", value.len()));
    assert_value(&mut client, "two", value);
    let refused = client.ask(&["EVAL", ADD, "1", "new", value, "0"]).text();
    assert!(
        refused.starts_with("ERR invalid expire time in 'setex' command script: "),
        "{refused}"
    );
}

/// Answers are all there and in order up to the transaction whose own are too long: then the
/// connection ends.
#[test]
fn a_transaction_whose_answers_are_too_long_leaves_those_before_it_whole() {
    let larder = one_worker();
    let mut client = larder.connect();
    assert_eq!(client.ask(&["HSET", "h", "f", &"v".repeat(3 << 20)]).text(), "1");
    assert_eq!(client.say("SET a before"), "OK");
    let mut transaction: Vec<&[&str]> = vec![&["GET", "a"], &["MULTI"]];
    transaction.extend([&["HGETALL", "h"][..]; 6]);
    transaction.extend([&["SET", "b", "x"][..], &["GET", "a"], &["EXEC"], &["PING"]]);
    let mut greedy = larder.connect();
    greedy.send(all(&transaction));
    let expected = format!("$6\r\nbefore\r\n+OK\r\n{}", "+QUEUED\r\n".repeat(8));
    assert_eq!(String::from_utf8_lossy(&greedy.rest()), expected);
    assert_eq!(client.say("GET b"), "x", "all of it is carried out");
}

#[test]
fn messages_sent_before_a_reset_come_before_its_answer() {
    let larder = one_worker();
    let names: Vec<String> = (0..60_000).map(|n| format!("channel{n:05}")).collect();
    let first = names[0].clone();
    let (mut subscriber, mut publisher) = (larder.connect(), larder.connect());
    for hides in [false, true] {
        // The publisher may come too late for one of them.
        wait_until("a message between the steps of a RESET", || {
            subscriber.say("HELLO 3");
            let mut words = vec!["SUBSCRIBE"];
            words.extend(names.iter().map(String::as_str));
            subscriber.send(command(&words));
            names.iter().for_each(|_| drop(subscriber.reply()));
            if hides {
                subscriber.send(command(&["CLIENT", "REPLY", "OFF"]));
            }
            subscriber.send(all(&[&["RESET"], &["PING"]]));
            // The first of the names is left last: this one is heard in the middle.
            let mut heard = 0;
            while publisher.ask(&["PUBLISH", &first, "news"]).text() == "1" {
                heard += 1;
            }
            for _ in 0..heard {
                assert_eq!(subscriber.reply().items()[2].text(), "news");
            }
            assert_eq!(subscriber.reply().text(), "RESET");
            assert_eq!(subscriber.reply().text(), "PONG");
            heard > 0
        });
    }
}

#[test]
fn a_client_that_wants_no_answers_gets_its_own_messages() {
    let larder = one_worker();
    let mut client = larder.connect();
    client.say("HELLO 3");
    client.say("SUBSCRIBE a");
    client.send(all(&[
        &["CLIENT", "REPLY", "SKIP"],
        &["PUBLISH", "a", "one"],
        &["CLIENT", "REPLY", "OFF"],
        &["PUBLISH", "a", "two"],
        &["CLIENT", "REPLY", "ON"],
        &["PING"],
    ]));
    assert_eq!(client.reply().items()[2].text(), "one");
    assert_eq!(client.reply().items()[2].text(), "two");
    assert_eq!(client.reply().text(), "OK");
    assert_eq!(client.reply().text(), "PONG");
}

#[test]
fn a_transaction_that_unsubscribes_has_no_message_among_its_answers() {
    let larder = one_worker();
    let mut client = larder.connect();
    client.say("HELLO 3");
    client.say("SUBSCRIBE a");
    client.send(all(&[
        &["MULTI"],
        &["PUBLISH", "a", "x"],
        &["UNSUBSCRIBE", "a"],
        &["PING"],
        &["EXEC"],
        &["QUIT"],
    ]));
    let answers = String::from_utf8(client.rest()).unwrap();
    let left = ">3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n";
    let message = ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n";
    let queued = "+QUEUED\r\n".repeat(3);
    assert_eq!(answers, format!("+OK\r\n{queued}*3\r\n:1\r\n{left}+PONG\r\n{message}+OK\r\n"));
}
