//! Parsing of commands: split input, long commands, errors, limits.

use super::{TestClient, face, settings, shared};
use crate::redis::Face;

#[test]
fn a_session_split_anywhere_is_answered_the_same() {
    let input = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n*1\r\n$5\r\nMULTI\r\n\
        *2\r\n$4\r\nINCR\r\n$1\r\nn\r\n*1\r\n$4\r\nEXEC\r\nget 'k'\r\n";
    let answer = "+OK\r\n$5\r\nvalue\r\n+PONG\r\n+OK\r\n+QUEUED\r\n*1\r\n:1\r\n$5\r\nvalue\r\n";
    for cut in 0..=input.len() {
        let mut client = TestClient::new(&face());
        let mut sent = client.send(&input[..cut]);
        sent.extend(client.send(&input[cut..]));
        assert_eq!(String::from_utf8(sent).unwrap(), answer, "cut at {cut}");
    }
    let mut client = TestClient::new(&face());
    let sent: Vec<u8> = input.iter().flat_map(|byte| client.send(&[*byte])).collect();
    assert_eq!(String::from_utf8(sent).unwrap(), answer, "byte by byte");
}

#[test]
fn a_repeated_command_differs_from_a_similar_one() {
    let mut client = TestClient::new(&face());
    let answers = client.say(
        "get k\nget\nGET k\nset k v\nget k\nping\npint\nincrby n 1\nincrby n 1 2\ndecrby n \
         1\nconfig get port\nconfig resetstat",
    );
    let lines: Vec<&str> =
        answers.split("\r\n").map(|line| line.split(',').next().unwrap_or_default()).collect();
    assert_eq!(
        lines,
        [
            "$-1",
            "-ERR wrong number of arguments for 'get' command",
            "$-1",
            "+OK",
            "$1",
            "v",
            "+PONG",
            "-ERR unknown command 'pint'",
            ":1",
            "-ERR wrong number of arguments for 'incrby' command",
            ":0",
            "*2",
            "$4",
            "port",
            "$1",
            "0",
            "+OK",
            "",
        ]
    );
}

#[test]
fn a_command_larger_than_the_receive_buffer_is_taken_in_pieces() {
    let value = vec![b'v'; 300_000];
    let mut input = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", value.len()).into_bytes();
    input.extend_from_slice(&value);
    input.extend_from_slice(b"\r\nPING\r\nSTRLEN k\r\n");
    for piece in [1000, 16 * 1024, 65_536, 1 << 20] {
        let mut client = TestClient::new(&face());
        let sent: Vec<u8> = input.chunks(piece).flat_map(|bytes| client.send(bytes)).collect();
        assert_eq!(
            String::from_utf8(sent).unwrap(),
            "+OK\r\n+PONG\r\n:300000\r\n",
            "in pieces of {piece}"
        );
    }
}

#[test]
fn a_long_command_of_many_arguments_ends_at_its_end() {
    let count = 20_000;
    let mut input = format!("*{}\r\n$4\r\nMSET\r\n", count * 2 + 1).into_bytes();
    for n in 0..count {
        let key = format!("key{n:06}");
        input.extend_from_slice(format!("$9\r\n{key}\r\n$1\r\nx\r\n").as_bytes());
    }
    input.extend_from_slice(b"PING\r\nGET key019999\r\n");
    let mut client = TestClient::new(&face());
    let sent: Vec<u8> = input.chunks(7777).flat_map(|bytes| client.send(bytes)).collect();
    assert_eq!(String::from_utf8(sent).unwrap(), "+OK\r\n+PONG\r\n$1\r\nx\r\n");
}

#[test]
fn errors_of_the_protocol_end_the_connection() {
    for (sent, answer) in [
        (&b"*x\r\n"[..], "-ERR Protocol error: invalid multibulk length\r\n"),
        (b"*1\r\nfoo\r\n", "-ERR Protocol error: expected '$', got 'f'\r\n"),
        (b"*1\r\n$abc\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        (b"get \"a\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"),
    ] {
        let mut client = TestClient::new(&face());
        assert_eq!(client.send(sent), answer.as_bytes());
        assert!(client.closed);
        assert_eq!(client.say("ping"), "", "nothing is answered any more");
    }
}

#[test]
fn a_bulk_beyond_the_limit_is_refused_before_it_is_sent() {
    let face =
        Face::new(&shared(crate::settings::RedisSettings { bulk: 1 << 20, ..settings() }), 0);
    let mut client = TestClient::new(&face);
    assert_eq!(
        client.send(b"*2\r\n$3\r\nGET\r\n$1048577\r\n"),
        b"-ERR Protocol error: invalid bulk length\r\n"
    );
    assert!(client.closed);
}

/// The store of these tests accepts values of 1 MiB.
const TOO_LARGE: &[u8] = b"-ERR value is larger than the largest item this server stores\r\n";

#[test]
fn an_argument_larger_than_the_store_takes_is_refused_when_it_is_announced() {
    let mut client = TestClient::new(&face());
    client.say("set a 1");
    for piece in [1 << 20, 60_000, 7] {
        let sent = client.send(b"*5\r\n$3\r\nSET\r\n$1\r\na\r\n$1048577\r\n");
        assert_eq!(sent, TOO_LARGE, "before any of it has come");
        // The discarded rest is no command, whatever its bytes; the next command is found.
        let mut rest = b"*1\r\n$4\r\nPING\r\n".repeat(74_899);
        rest.resize((1 << 20) + 1, b'x');
        rest.extend_from_slice(b"\r\n$2\r\nPX\r\n$4\r\n1000\r\nGET a\r\n");
        let answers: Vec<u8> = rest.chunks(piece).flat_map(|piece| client.send(piece)).collect();
        assert_eq!(answers, b"$1\r\n1\r\n", "in pieces of {piece}");
    }
    assert_eq!(client.inner.held(), 0);
}

#[test]
fn a_refused_command_ends_its_transaction_and_is_muted_as_any() {
    let mut client = TestClient::new(&face());
    client.say("multi");
    let long =
        [&b"*2\r\n$3\r\nGET\r\n$1048577\r\n"[..], &vec![b'x'; (1 << 20) + 1], b"\r\n"].concat();
    assert_eq!(client.send(&long), TOO_LARGE);
    assert!(client.say("exec").starts_with("-EXECABORT"));
    client.say("client reply off");
    assert_eq!(client.send(&long), b"");
    assert_eq!(client.say("client reply on"), "+OK\r\n");
    assert_eq!(client.say("ping"), "+PONG\r\n");
}

#[test]
fn arguments_that_together_exceed_the_memory_are_refused_when_announced() {
    // 8 MiB, half of a store of 16 MiB.
    let mut client = TestClient::new(&face());
    let argument = [&b"$1048576\r\n"[..], &vec![b'x'; 1 << 20], b"\r\n"].concat();
    assert_eq!(client.send(b"*1000001\r\n$3\r\nDEL\r\n"), b"");
    let mut sent = 0;
    let answer = loop {
        let answer = client.send(&argument);
        sent += 1;
        if !answer.is_empty() || sent > 30 {
            break answer;
        }
        assert!(client.inner.held() <= 16 << 20, "{}", client.inner.held());
    };
    assert_eq!(answer, b"-OOM command not allowed when used memory > 'maxmemory'.\r\n");
    assert!((12..=16).contains(&sent), "{sent}");
    // Another thread frees it.
    let mut looks = 0;
    while client.inner.held() > 0 && looks < 10_000_000 {
        std::thread::yield_now();
        looks += 1;
    }
    assert_eq!(client.inner.held(), 0, "nothing of it is kept");
    assert_eq!(client.send(&argument), b"");
    assert!(!client.closed);
}

#[test]
fn announced_lengths_take_no_memory() {
    let face = face();
    let others: Vec<TestClient> = (0..100)
        .map(|_| {
            let mut client = TestClient::new(&face);
            assert_eq!(client.send(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1048576\r\nsome of it"), b"");
            client
        })
        .collect();
    let held: u64 = others.iter().map(|other| other.inner.held()).sum();
    assert!(held <= 100 * 5000, "{held}");
}

#[test]
fn an_idle_client_keeps_no_places_of_many_arguments() {
    let mut client = TestClient::new(&face());
    let keys = b"$1\r\nk\r\n".repeat(4600);
    assert_eq!(client.send(&[b"*4601\r\n$3\r\nDEL\r\n", &keys[..]].concat()), b":0\r\n");
    assert!(client.rest() <= 4096);
    // The bytes of a begun command are kept, and counted.
    assert_eq!(client.send(&[b"*4601\r\n$3\r\nDEL\r\n", &keys[..20_000]].concat()), b"");
    assert!(client.rest() > 8 * 2800);
    assert_eq!(client.send(&keys[20_000..]), b":0\r\n");
}

#[test]
fn a_pattern_or_a_channel_has_a_longest_name() {
    let mut client = TestClient::new(&face()).resp3();
    client.say("hset h f v");
    let (pattern, key) = ("p".repeat(1025), "k".repeat(16 * 1024 + 1));
    for words in [
        "keys P",
        "scan 0 match P",
        "hscan h 0 match P",
        "psubscribe P",
        "pubsub channels P",
        "config get P",
        "command list filterby pattern P",
    ] {
        let answer = client.say(&words.replace('P', &pattern));
        assert_eq!(answer, "-ERR a pattern is longer than 1024 bytes\r\n", "{words}");
        let answer = client.say(&words.replace('P', &pattern[1..]));
        assert!(!answer.starts_with('-'), "{words}: {answer}");
    }
    for words in ["publish C x", "subscribe C", "ssubscribe C"] {
        let answer = client.say(&words.replace('C', &key));
        assert!(answer.starts_with("-ERR the name of a channel is longer"), "{words}: {answer}");
    }
}

#[test]
fn transactions_and_lists_of_names_are_counted() {
    let face = face();
    let long = "x".repeat(10_000);
    let mut client = TestClient::new(&face);
    let short = |n: char| n.to_string().repeat(1000);
    let patterns: Vec<String> = ('a'..='j').map(short).collect();
    let prefixes: Vec<String> = ('a'..='j').map(short).collect();
    for (command, names, copies) in [
        ("watch", &long, 3),
        ("subscribe", &long, 2),
        ("psubscribe", &patterns.join(" "), 3),
        ("ssubscribe", &long, 2),
        ("client tracking on bcast prefix", &prefixes.join(" prefix "), 2),
    ] {
        let mut client = TestClient::new(&face).resp3();
        client.say(&format!("{command} {names}"));
        let (held, least) = (client.inner.held(), copies * 9_500);
        assert!((least..least + 4_000).contains(&held), "{command}: {held}");
        client.say(if command == "watch" { "unwatch" } else { "reset" });
        assert_eq!(client.inner.held(), 0, "{command}");
    }
    client.say("multi");
    for n in 1..=100 {
        assert_eq!(client.say(&format!("set {n} {long}")), "+QUEUED\r\n");
        assert!(client.inner.held() >= n * 9_000);
    }
    client.say("exec");
    assert_eq!(client.inner.held(), 0);
    // More than memory permits.
    client.say("multi");
    let mut answer = String::new();
    for _ in 0..3000 {
        answer = client.say(&format!("set a {long}"));
        if answer != "+QUEUED\r\n" {
            break;
        }
    }
    assert_eq!(answer, "-OOM the transaction is too large\r\n");
    assert_eq!(client.inner.held(), 0);
    assert!(client.say("exec").starts_with("-EXECABORT"));
}

#[test]
fn a_long_line_does_not_use_the_hint_of_another_command() {
    let mut client = TestClient::new(&face());
    client.say("set a 1\nset b 2");
    // The key of the second command is looked up ahead and not used.
    let mut input = b"PING\r\n*2\r\n$4\r\nECHO\r\n$1\r\na\r\nGET".to_vec();
    input.extend_from_slice(&[b' '; 40_000]);
    assert_eq!(client.send(&input), b"+PONG\r\n$1\r\na\r\n");
    assert_eq!(client.send(b"b\r\n"), b"$1\r\n2\r\n");
}

/// The cost of a pipelined GET, for `valgrind --tool=callgrind --toggle-collect='*turn*'`.
#[test]
#[ignore = "counts instructions, under callgrind"]
fn pipelined_gets() {
    use crate::{
        net::out::Out,
        object::{Peer, Session, Turn},
    };
    let face = face();
    assert_eq!(
        TestClient::new(&face).say("set key:000001 0123456789012345678901234567890123456789"),
        "+OK\r\n"
    );
    let client = face.shared.clients.enter(Peer::Unix, "sock", super::NOW);
    let mut session = face.session(client);
    let mut out = Out::default();
    let input = b"*2\r\n$3\r\nGET\r\n$10\r\nkey:000001\r\n".repeat(64);
    for _ in 0..1000 {
        let mut at = 0;
        while at < input.len() {
            let Turn::Used(used) = session.turn(&input[at..], super::NOW, &mut out) else {
                panic!("used")
            };
            at += used;
        }
        assert_eq!(out.pending(), 64 * 47);
        out.clear();
    }
}

#[test]
fn keys_of_a_large_store_come_in_steps_and_each_once() {
    use crate::{
        net::out::Out,
        object::{Peer, Session, Turn},
    };
    let face = face();
    let mut client = TestClient::new(&face);
    let count = 60_000;
    let input: String = (0..count).map(|n| format!("set key:{n:05} v\n")).collect();
    client.say(input.trim_end());
    let direct = face.shared.clients.enter(Peer::Unix, "sock", super::NOW);
    let mut session = face.session(direct);
    let mut out = Out::default();
    assert_eq!(
        session.turn(b"keys *\r\nping\r\n", super::NOW, &mut out),
        Turn::Flush(8),
        "the first step"
    );
    assert_eq!(
        (session.turn(b"ping\r\n", super::NOW, &mut out), out.pending()),
        (Turn::Flush(0), 0),
        "a further one"
    );

    let answer = client.say("keys *\nkeys key:0000?\nping");
    let (listed, few) = answer.split_at(answer.find("*10\r\n").unwrap());
    assert!(listed.starts_with(&format!("*{count}\r\n$9\r\n")));
    let names: std::collections::BTreeSet<&str> =
        listed.split("\r\n").filter(|line| line.starts_with("key:")).collect();
    assert_eq!((names.len(), listed.matches("key:").count()), (count, count));
    assert!(few.ends_with("\r\n+PONG\r\n") && few.matches("key:").count() == 10);

    let answer = client.say("multi\nkeys *\nping\nexec\nping");
    assert!(answer.starts_with("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n*60000\r\n$9\r\n"));
    assert!(answer.ends_with("\r\n+PONG\r\n+PONG\r\n"), "in a transaction it is one step");
    assert_eq!(client.say("client reply off\nkeys *\nclient reply on\nping"), "+OK\r\n+PONG\r\n");
}

/// Each copies half a megabyte: less than a step's work.
#[test]
fn others_have_their_turn_between_commands_that_take_no_steps() {
    let mut client = TestClient::new(&face());
    let large = "v".repeat(500_000);
    let set = format!("*4\r\n$4\r\nHSET\r\n$1\r\nh\r\n$5\r\nlarge\r\n$500000\r\n{large}\r\n");
    assert_eq!(client.send(set.as_bytes()), b":1\r\n");
    for n in 1..=10 {
        assert_eq!(client.say("hincrby h n 1"), format!(":{n}\r\n"));
    }
    assert_eq!(client.yields, 0, "nothing follows");
    let answers = client.send("hincrby h n 1\r\n".repeat(100).as_bytes());
    let expected: String = (11..=110).map(|n| format!(":{n}\r\n")).collect();
    assert_eq!(String::from_utf8(answers).unwrap(), expected);
    assert!(client.yields >= 49, "{}", client.yields);
    // The appended string is copied, too.
    client.say(&format!("set s {}\nsetrange s 200000 x", "v".repeat(1000)));
    let before = client.yields;
    client.send("append s x\r\n".repeat(100).as_bytes());
    assert!(client.yields >= before + 15, "{}", client.yields);
}

#[test]
fn a_long_command_that_waits_runs_once_with_its_own_words() {
    let face = face();
    let (mut admin, mut client) = (TestClient::new(&face), TestClient::new(&face));
    assert_eq!(admin.say("client pause 100000 write"), "+OK\r\n");
    let value = "v".repeat(100_000);
    let set = format!("*3\r\n$6\r\nAPPEND\r\n$1\r\nk\r\n$100000\r\n{value}\r\nstrlen k\r\n");
    assert_eq!(client.send(set.as_bytes()), b"");
    assert_eq!(client.send(b"strlen k\r\n"), b"");
    assert_eq!(admin.say("client unpause"), "+OK\r\n");
    assert_eq!(client.send(b"ping\r\n"), b":100000\r\n:100000\r\n:100000\r\n+PONG\r\n");
}
