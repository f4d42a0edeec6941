//! Lists, sets and sorted sets: random commands to Larder and to Debian's redis-server get the same
//! answers, and clients in blocking commands are served alike.
//!
//! Not compared, and why:
//!
//! | what | why |
//! |---|---|
//! | the order of members of sets, and of ZSCAN | Redis's is that of its table |
//! | members that are drawn (SRANDMEMBER, ZRANDMEMBER, SPOP of some) | drawn; their number is compared |
//! | the encoding of sets and sorted sets | Redis's tells their history |
//! | the sign of a score of -0 | Redis keeps it in large sorted sets alone |
//! | ranges by member over different scores | Redis documents no result |
//! | SORT ALPHA BY of members with equal weights | Redis's order of these is not stable |

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use std::time::{SystemTime, UNIX_EPOCH};

use larder_tests::memcache_stream::Dice;
use larder_tests::redis_stream::{Comparison, Stream, Words};
use larder_tests::{Redis, Value, redis::command};

/// Commands per seed.
const COMMANDS: usize = 3000;

/// The items of an answer in groups of `size`, sorted.
fn sorted(value: &Value, size: usize) -> Option<Vec<Vec<Value>>> {
    let Value::Many(_, Some(items)) = value else { return None };
    let mut groups: Vec<Vec<Value>> = items.chunks(size).map(<[Value]>::to_vec).collect();
    groups.sort();
    Some(groups)
}

/// Whether two answers are the same, as far as both servers must agree.
fn same(words: &Words, left: &Value, right: &Value) -> bool {
    if left == right {
        return true;
    }
    let has = |word: &[u8]| words.iter().any(|own| own.eq_ignore_ascii_case(word));
    match &words[0].to_ascii_uppercase()[..] {
        b"SMEMBERS" | b"SUNION" | b"SINTER" | b"SDIFF" | b"SPOP" => {
            sorted(left, 1).is_some() && sorted(left, 1) == sorted(right, 1)
        }
        b"SRANDMEMBER" | b"ZRANDMEMBER" => match (left, right) {
            (Value::Many(_, Some(left)), Value::Many(_, Some(right))) => left.len() == right.len(),
            _ => !left.is_error() && !right.is_error() && left.text() != "(nil)",
        },
        b"SCAN" => match (left.items(), right.items()) {
            // A step ends by time, too: on a busy machine it may show a part.
            ([cursor, ours], [_, theirs]) if cursor.text() != "0" => {
                ours.items().iter().all(|key| theirs.items().contains(key))
            }
            ([_, ours], [_, theirs]) => {
                sorted(ours, 1).is_some() && sorted(ours, 1) == sorted(theirs, 1)
            }
            _ => false,
        },
        b"SSCAN" | b"ZSCAN" => match (left.items(), right.items()) {
            ([_, left], [_, right]) => {
                let size = if words[0].eq_ignore_ascii_case(b"ZSCAN") { 2 } else { 1 };
                sorted(left, size).is_some() && sorted(left, size) == sorted(right, size)
            }
            _ => false,
        },
        // Redis has more commands.
        b"COMMAND" if words.len() == 1 => true,
        b"OBJECT" => !left.is_error() && !right.is_error(),
        b"TTL" => left.text().parse::<u64>().is_ok() && right.text().parse::<u64>().is_ok(),
        // Members without an order of their own.
        b"SORT" | b"SORT_RO" if has(b"BY") => sorted(left, 1) == sorted(right, 1),
        _ => false,
    }
}

fn compare(seed: u64, version: &str, small: bool) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let stream = Stream::of_collections(seed, now, small);
    // The members that SPOP takes are drawn.
    let skips = |words: &Words| words[0].eq_ignore_ascii_case(b"SPOP") && words.len() == 2;
    Comparison { same, skips, commands: COMMANDS }.run(stream, version, seed);
}

#[test]
fn small_ones_in_resp2() {
    (1..=3).for_each(|seed| compare(seed, "2", true));
}

#[test]
fn small_ones_in_resp3() {
    (11..=13).for_each(|seed| compare(seed, "3", true));
}

#[test]
fn large_ones_in_resp2() {
    (21..=22).for_each(|seed| compare(seed, "2", false));
}

#[test]
fn large_ones_in_resp3() {
    (31..=32).for_each(|seed| compare(seed, "3", false));
}

/// Tens of thousands of items, changed one by one at random places.
#[test]
fn changes_of_very_large_ones_are_those_of_redis() {
    let (larder, redis) = (Redis::larder(&[]), Redis::debian(&[]));
    let mut both = [larder.connect(), redis.connect()];
    let mut dice = Dice::new(7);
    let mut members: Vec<String> = (0..20_000).map(|n| format!("{}:{n}", dice.number())).collect();
    let mut ask = |words: &[&str]| {
        let [ours, theirs] = both.each_mut().map(|talk| talk.ask(words));
        let [left, right] = [&ours, &theirs].map(|value| sorted(value, 1));
        let unordered = words[0] == "SMEMBERS" && left == right;
        assert!(ours == theirs || unordered, "{:?}", &words[..words.len().min(6)]);
    };
    for some in members.chunks(500) {
        let scores: Vec<String> = some.iter().map(|m| m[..3].to_owned()).collect();
        let some: Vec<&str> = some.iter().map(String::as_str).collect();
        ask(&[&["RPUSH", "l"][..], &some].concat());
        ask(&[&["LPUSH", "l"][..], &some[..50]].concat());
        ask(&[&["SADD", "s"][..], &some].concat());
        let pairs = scores.iter().zip(&some).flat_map(|(score, member)| [&score[..], member]);
        ask(&["ZADD", "z"].into_iter().chain(pairs).collect::<Vec<_>>());
    }
    for nth in 0..3000 {
        let at = dice.below(members.len());
        let member = members[at].clone();
        let (here, there) = (at.to_string(), (at + 9).to_string());
        match nth % 12 {
            0 => ask(&["LINDEX", "l", &here]),
            1 => ask(&["LSET", "l", &here, "set"]),
            2 => ask(&["LREM", "l", "1", &member]),
            3 => ask(&["LINSERT", "l", "AFTER", &member, "inserted"]),
            4 => ask(&["LPOP", "l", "7"]),
            5 => ask(&["RPOP", "l", "7"]),
            6 => ask(&["SREM", "s", &member]),
            7 => ask(&["ZINCRBY", "z", "5", &member]),
            8 => ask(&["ZREM", "z", &member]),
            9 => ask(&["ZRANK", "z", &member]),
            10 => ask(&["ZRANGE", "z", &here, &there, "WITHSCORES"]),
            _ => ask(&["SISMEMBER", "s", &member]),
        }
    }
    members.clear();
    for words in [
        "LRANGE l 0 -1",
        "SMEMBERS s",
        "ZRANGE z 0 -1 WITHSCORES",
        "ZREVRANGE z 0 -1",
        "COPY z y",
        "RENAME l k",
        "LTRIM k 3000 -3000",
        "LRANGE k 0 -1",
        "ZREMRANGEBYRANK y 100 -100",
        "ZRANGE y 0 -1 WITHSCORES",
        "ZUNIONSTORE u 2 y z",
        "ZRANGE u 0 -1 WITHSCORES",
        "SDIFFSTORE d s y",
        "SUNIONSTORE d s",
        "SMEMBERS d",
        "SORT s ALPHA",
        "MOVE z 1",
        "EXISTS z",
        "DEL k s u d y",
        "DBSIZE",
    ] {
        ask(&words.split(' ').collect::<Vec<_>>());
    }
}

/// A walk shows every member once, however large the set.
#[test]
fn walks_show_every_member_once() {
    let larder = Redis::larder(&[]);
    let mut client = larder.connect();
    for from in (0..9000).step_by(500) {
        let members: Vec<String> = (from..from + 500).map(|n| n.to_string()).collect();
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        client.ask(&[&["SADD", "s"][..], &members].concat());
        client.ask(
            &["ZADD", "z"]
                .into_iter()
                .chain(members.iter().flat_map(|m| [*m, *m]))
                .collect::<Vec<_>>(),
        );
    }
    for (scan, key, size) in [("SSCAN", "s", 1), ("ZSCAN", "z", 2)] {
        let (mut cursor, mut seen, mut steps) = ("0".to_owned(), Vec::new(), 0);
        loop {
            let step = client.ask(&[scan, key, &cursor, "COUNT", "50"]);
            let [next, items] = step.items() else { panic!("{step:?}") };
            assert!(items.items().len() <= 120 * size, "{}", items.items().len());
            seen.extend(items.items().iter().step_by(size).map(Value::text));
            (cursor, steps) = (next.text(), steps + 1);
            if cursor == "0" {
                break;
            }
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 9000);
        assert!(steps > 50, "{steps}");
    }
}

/// Clients that wait, by number, with their commands.
type Waiting = &'static [(usize, &'static str)];

/// Clients that wait in a fixed order, and commands of others; the answers of all of them in the
/// order in which they came.
fn script(server: &Redis, version: &str) -> Vec<String> {
    let mut clients: Vec<_> = (0..6).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| drop(client.ask(&["HELLO", version])));
    let ids: Vec<String> = clients.iter_mut().map(|client| client.say("CLIENT ID")).collect();
    let mut said = Vec::new();
    let mut pusher = server.connect();
    let steps: &[(Waiting, &[&str])] = &[
        // In the order in which they came, whatever the side.
        (
            &[(0, "BLPOP a b 0"), (1, "BRPOP a 0"), (2, "BLPOP b a 0")],
            &["RPUSH a 1 2 3 4", "LRANGE a 0 -1", "DEL a b"],
        ),
        (&[(0, "BLMPOP 0 2 a b LEFT COUNT 2"), (1, "BLPOP b 0")], &["RPUSH b 1 2 3", "DEL a b"]),
        // Moved to a list for which another client waits.
        (&[(0, "BLPOP b 0"), (1, "BLMOVE a b LEFT RIGHT 0")], &["RPUSH a x"]),
        (
            &[(0, "BRPOPLPUSH a c 0"), (1, "BLPOP a 0")],
            &["RPUSH a x y z", "LRANGE a 0 -1", "DEL a c"],
        ),
        // After the transaction, from what it leaves.
        (&[(0, "BLPOP a 0")], &["MULTI", "RPUSH a 1", "LPUSH a 2", "RPOP a", "EXEC", "EXISTS a"]),
        (
            &[(0, "BZPOPMIN z 0"), (1, "BZPOPMAX z 0"), (2, "BZMPOP 0 1 z MIN COUNT 2")],
            &["ZADD z 1 a 2 b 3 c 4 d 5 e", "ZRANGE z 0 -1 WITHSCORES", "DEL z"],
        ),
        // Another type is nothing to wait for.
        (
            &[(0, "BLPOP a 0")],
            &["ZADD a 1 x", "DEL a", "SET a x", "DEL a", "RPUSH t 1", "RENAME t a"],
        ),
        (&[(0, "BLPOP a 0")], &["RPUSH t 1", "COPY t a", "DEL t"]),
        (&[(0, "BZPOPMIN z 0")], &["ZADD t 1 m", "ZUNIONSTORE z 1 t", "DEL t"]),
        (&[(0, "BLPOP a 0")], &["SADD t 2 1", "SORT t STORE a", "DEL t a"]),
        (
            &[(0, "BLPOP a 0"), (1, "BLPOP a 0")],
            &["UNBLOCK 0 ERROR", "UNBLOCK 1 TIMEOUT", "UNBLOCK 1"],
        ),
    ];
    for (waiting, commands) in steps {
        for (nth, (client, words)) in waiting.iter().enumerate() {
            clients[*client].send(command(&words.split(' ').collect::<Vec<_>>()));
            server.wait_for_blocked(nth + 1);
        }
        for words in *commands {
            let words = match words.strip_prefix("UNBLOCK ") {
                Some(rest) => format!(
                    "CLIENT UNBLOCK {}{}",
                    ids[usize::from(rest.as_bytes()[0] - b'0')],
                    &rest[1..]
                ),
                None => (*words).to_owned(),
            };
            said.push(pusher.say(&words));
        }
        for (client, words) in *waiting {
            said.push(format!("{words}: {}", clients[*client].reply().text()));
        }
        server.wait_for_blocked(0);
    }
    said
}

#[test]
fn waiting_clients_are_served_as_by_redis() {
    for version in ["2", "3"] {
        let (larder, redis) = (Redis::larder(&[]), Redis::debian(&[]));
        assert_eq!(script(&larder, version), script(&redis, version), "RESP{version}");
    }
}

/// A client that left while it waited takes nothing.
#[test]
fn a_waiting_client_that_leaves_takes_nothing() {
    let larder = Redis::larder(&[]);
    let mut admin = larder.connect();
    let mut gone = larder.connect();
    gone.send(command(&["BLPOP", "a", "0"]));
    larder.wait_for_blocked(1);
    drop(gone);
    larder.wait_for_blocked(0);
    assert_eq!(admin.say("RPUSH a x"), "1");
    assert_eq!(admin.say("LPOP a"), "x");
}

/// Of many clients on all workers, every element reaches one, and none two.
#[test]
fn no_element_is_lost_or_doubled() {
    const CLIENTS: usize = 40;
    let larder = Redis::larder(&[]);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| larder.connect()).collect();
    let mut pushers = [larder.connect(), larder.connect()];
    let mut seen = Vec::new();
    for round in 0..20 {
        for client in &mut clients {
            client.send(command(&["BLPOP", "q", "0"]));
        }
        for nth in 0..CLIENTS {
            let element = format!("{round}:{nth}");
            let side = if nth % 3 == 0 { "LPUSH" } else { "RPUSH" };
            pushers[nth % 2].send(command(&[side, "q", &element]));
        }
        pushers.iter_mut().for_each(|pusher| {
            (0..CLIENTS / 2).for_each(|_| assert!(!pusher.reply().is_error()));
        });
        seen.extend(clients.iter_mut().map(|client| client.reply().items()[1].text()));
    }
    let count = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!((seen.len(), count), (CLIENTS * 20, CLIENTS * 20));
    assert_eq!(pushers[0].say("EXISTS q"), "0");
}

/// Events and invalidations, as for other types.
#[test]
fn changes_are_told() {
    let said = [Redis::larder(&[]), Redis::debian(&[])].map(|server| {
        let mut hearer = server.connect();
        let mut client = server.connect();
        client.say("CONFIG SET notify-keyspace-events KA");
        hearer.say("PSUBSCRIBE __keyspace@0__:*");
        for words in [
            "RPUSH l a b c d e",
            "LPUSH l z",
            "LPOP l",
            "RPOP l 2",
            "LINSERT l AFTER a x",
            "LSET l 0 y",
            "LREM l 0 x",
            "LTRIM l 0 0",
            "LMOVE l m LEFT RIGHT",
            "RPOPLPUSH m m",
            "SADD s 1 2 3",
            "SREM s 1",
            "SMOVE s t 2",
            "SPOP s",
            "SUNIONSTORE u t",
            "SINTERSTORE u nothing",
            "ZADD z 1 a 2 b 3 c 4 d",
            "ZADD z 1 a",
            "ZINCRBY z 2 a",
            "ZREM z a",
            "ZREMRANGEBYRANK z 0 0",
            "ZREMRANGEBYSCORE z 3 3",
            "ZPOPMAX z",
            "ZADD z 1 a",
            "ZUNIONSTORE y 1 z",
            "ZRANGESTORE x y 0 -1",
            "ZDIFFSTORE x 2 y z",
            "SORT t STORE o",
            "RENAME o p",
            "COPY p q",
            "DEL p q",
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

/// A list that a watcher saw changes under it, and a cached one is invalidated.
#[test]
fn watches_and_caches_notice_changes() {
    let larder = Redis::larder(&[]);
    let (mut client, mut other) = (larder.connect(), larder.connect());
    client.say("HELLO 3");
    client.say("CLIENT TRACKING on");
    for (read, change) in [
        ("LRANGE l 0 -1", "RPUSH l x"),
        ("SMEMBERS s", "SADD s x"),
        ("ZUNION 2 a z", "ZADD z 1 x"),
        ("LLEN l", "LPOP l"),
    ] {
        client.say(read);
        assert!(!other.say(change).starts_with("ERR"));
        let told = client.reply();
        assert_eq!(told.items()[0].text(), "invalidate", "{read}");
    }
    client.say("WATCH s");
    other.say("SREM s x");
    client.say("MULTI");
    client.say("SADD s mine");
    client.send(command(&["EXEC"]));
    assert_eq!(client.maybe().unwrap().1, b"_\r\n");
}

/// No client waits for another's command on half a million members.
#[test]
fn long_commands_let_others_through() {
    let larder = Redis::larder(&["--threads", "1", "--memory", "256MiB"]);
    let mut client = larder.connect();
    for from in (0..200_000).step_by(1000) {
        let members: Vec<String> = (from..from + 1000).map(|n| n.to_string()).collect();
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        client.ask(&[&["SADD", "s"][..], &members].concat());
    }
    let mut other = larder.connect();
    for long in [
        "SUNIONSTORE d s s",
        "SORT s LIMIT 0 1",
        "SINTERCARD 2 s d",
        "COPY s e",
        "ZUNIONSTORE z 1 s",
    ] {
        client.send(command(&long.split(' ').collect::<Vec<_>>()));
        let mut between = 0;
        client.stream().set_nonblocking(true).unwrap();
        while client.stream().peek(&mut [0]).is_err() {
            assert_eq!(other.say("PING"), "PONG");
            between += 1;
        }
        client.stream().set_nonblocking(false).unwrap();
        assert!(!client.reply().is_error(), "{long}");
        assert!(between > 0, "{long}: no answer meanwhile");
    }
}
