//! Commands whose time grows with what they are asked for, or with what is stored: they go on in
//! steps between which their worker serves others, or are refused by a limit, and are one step to
//! all clients all the same.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::redis::{command, keys, words};
use larder_tests::{Redis, Resp, wait_until};
use std::net::TcpStream;

const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
/// Bytes of a string that takes several steps, and not a multiple of anything.
const LONG: usize = 9_000_001;

/// One worker: what holds it holds everybody.
fn one_worker() -> Redis {
    Redis::larder(&["--threads", "1"])
}

/// Bytes without a pattern, so that none is in the wrong place unseen.
fn noise(len: usize) -> Vec<u8> {
    (0..len as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[test]
fn what_the_store_would_not_take_is_refused_before_anything_is_built() {
    let larder = one_worker();
    let mut client = larder.connect();
    let part = "p".repeat(20 << 20);
    assert_eq!(client.ask(&["SET", "half", &part]).text(), "OK");
    // A store of 64 MiB takes values of 32 MiB at the most.
    for refused in [
        "SETRANGE new 500000000 x",
        "SETRANGE new 33554432 x",
        "SETBIT new 4000000000 1",
        "SETBIT new 268435456 1",
        "BITFIELD new SET u8 4000000000 1",
        "SETRANGE half 500000000 x",
        "SETBIT half 4000000000 1",
    ] {
        assert_eq!(client.say(refused), TOO_LONG, "{refused}");
    }
    assert_eq!(client.ask(&["APPEND", "half", &part]).text(), TOO_LONG);
    assert_eq!(client.say("EXISTS new"), "0");
    assert_eq!(client.say("STRLEN half"), part.len().to_string(), "what was there stays");
    // The budget, the argument of 20 MiB as it came, and the program: nothing of 500 MB.
    let peak = larder.usage().peak_rss;
    assert!(peak < 192 << 20, "{peak} bytes");
}

#[test]
fn others_are_served_while_long_strings_are_written_and_read() {
    let larder = Redis::larder(&["--threads", "1", "--memory", "256MiB"]);
    let mut client = larder.connect();
    assert_eq!(client.ask(&["SETRANGE", "long", "39999999", "x"]).text(), "40000000");
    for (prepare, long) in [
        (&["DEL new"][..], "SETRANGE new 40000000 x"),
        (&[], "SETRANGE long 5 y"),
        (&[], "APPEND long y"),
        (&["DEL new"], "SETBIT new 320000000 1"),
        (&[], "BITFIELD long INCRBY u8 9 1"),
        (&[], "BITCOUNT long"),
        (&["DEL new"], "COPY long new"),
        (&["COPY long from REPLACE"], "RENAME from new"),
        (&[], "BITOP NOT new long"),
    ] {
        larder.serves_others_during(prepare, long);
    }
}

#[test]
fn others_are_served_while_many_keys_are_written_and_removed() {
    let larder = one_worker();
    let (mut busy, mut other) = (larder.connect(), larder.connect());
    let names = keys("many", 60_000);
    let (count, value) = (names.len().to_string(), "value".to_owned());
    let mset = words(&["MSET"], names.iter().flat_map(|name| [name, &value]));
    let del = words(&["DEL"], &names);
    // How many keys there are is told without regard to isolation: a number between all and none
    // was seen in the middle.
    for (long, before) in [(&mset, "FLUSHALL"), (&del, "PING")] {
        wait_until("somebody to be served in the middle", || {
            if long == &del {
                busy.ask(&mset);
            }
            other.say(before);
            let start = other.say("DBSIZE");
            busy.send(command(long));
            let seen = loop {
                let now = other.say("DBSIZE");
                if now != start {
                    break now;
                }
            };
            busy.reply();
            seen != "0" && seen != count
        });
    }
}

/// Asks `look` until `busy` has answered; every look must be one of these two.
fn all_or_nothing(
    busy: &mut Resp<TcpStream>,
    other: &mut Resp<TcpStream>,
    look: &str,
    states: [&str; 2],
) {
    loop {
        let now = other.say(look);
        assert!(states.contains(&now.as_str()), "{look}: {now}");
        if now == states[1] {
            break;
        }
    }
    assert!(!busy.reply().is_error());
}

#[test]
fn what_goes_on_in_steps_is_one_step_to_everybody() {
    // With two workers, too: there others run at the very same time.
    for threads in ["1", "2"] {
        let larder = Redis::larder(&["--threads", threads]);
        let (mut busy, mut other) = (larder.connect(), larder.connect());
        let (names, value) = (keys("many", 40_000), "value".to_owned());
        let (first, last) = (&names[0], &names[names.len() - 1]);
        let pairs = || names.iter().flat_map(|name| [name, &value]);
        let mget = format!("MGET {first} {last}");
        let (none, all) = ("[(nil) (nil)]", "[value value]");
        busy.send(command(&words(&["MSET"], pairs())));
        all_or_nothing(&mut busy, &mut other, &mget, [none, all]);
        busy.send(command(&words(&["DEL"], &names)));
        all_or_nothing(&mut busy, &mut other, &mget, [all, none]);
        // A hash: a single key, whose readers take no lock.
        busy.send(command(&words(&["HSET", "hash"], pairs())));
        all_or_nothing(&mut busy, &mut other, "HLEN hash", ["0", "40000"]);
        busy.send(command(&words(&["HDEL", "hash"], &names[..39_999])));
        all_or_nothing(&mut busy, &mut other, "HLEN hash", ["40000", "1"]);
        // A transaction, with a long command in the middle.
        let sets: Vec<u8> = names.iter().flat_map(|name| command(&["SET", name, "x"])).collect();
        let long =
            [command(&["SETRANGE", "long", "3000000", "x"]), command(&["STRLEN", "long"])].concat();
        busy.send(
            [command(&["MULTI"]), sets, long, command(&["SET", last, "y"]), command(&["EXEC"])]
                .concat(),
        );
        for _ in 0..names.len() + 4 {
            assert!(!busy.reply().is_error(), "queued");
        }
        let exists = format!("EXISTS {first} long {last}");
        all_or_nothing(&mut busy, &mut other, &exists, ["0", "3"]);
        assert_eq!(other.say(&format!("GET {last}")), "y");
    }
}

#[test]
fn a_command_whose_client_leaves_in_the_middle_comes_to_its_end() {
    let larder = one_worker();
    let (names, value) = (keys("many", 60_000), "value".to_owned());
    let mset = words(&["MSET"], names.iter().flat_map(|name| [name, &value]));
    let mut client = larder.connect();
    client.send(command(&mset));
    drop(client);
    let mut other = larder.connect();
    wait_until("all keys to be there", || other.say("DBSIZE") == "60000");
    // And its keys are anybody's again.
    assert_eq!(other.ask(&words(&["DEL"], &names)).text(), "60000");
}

#[test]
fn long_strings_become_what_they_should() {
    let larder = Redis::larder(&["--threads", "1", "--memory", "256MiB"]);
    let mut client = larder.connect();
    let mut model = noise(LONG);
    assert_eq!(client.ask(&[&b"SET"[..], b"long", &model, b"EX", b"1000"]).text(), "OK");
    let patch = noise(300_000);
    let at = 4_000_003;
    let set = client.ask(&[&b"SETRANGE"[..], b"long", at.to_string().as_bytes(), &patch]);
    assert_eq!(set.text(), LONG.to_string());
    model[at..at + patch.len()].copy_from_slice(&patch);
    assert_eq!(client.say("SETBIT long 7 1"), (model[0] & 1).to_string());
    model[0] |= 1;
    assert_eq!(client.say("BITFIELD long SET u16 12345672 4660"), {
        let old = u16::from_be_bytes([model[1_543_209], model[1_543_210]]);
        format!("[{old}]")
    });
    model[1_543_209..1_543_211].copy_from_slice(&4660_u16.to_be_bytes());
    assert_eq!(
        client.ask(&[&b"APPEND"[..], b"long", &patch]).text(),
        (LONG + patch.len()).to_string()
    );
    model.extend_from_slice(&patch);
    assert_eq!(client.say("SETRANGE long 10000000 end"), "10000003");
    model.resize(10_000_000, 0);
    model.extend_from_slice(b"end");
    let is = |client: &mut Resp<TcpStream>, key: &str, model: &[u8], after: &str| {
        let (_, bytes) = client.send(command(&["GET", key])).maybe().unwrap();
        let head = format!("${}\r\n", model.len());
        assert!(
            bytes.starts_with(head.as_bytes()) && &bytes[head.len()..bytes.len() - 2] == model,
            "{after}"
        );
    };
    is(&mut client, "long", &model, "changes");
    let expires: i64 = client.say("TTL long").parse().unwrap();
    assert!((900..=1000).contains(&expires), "its expiry stays: {expires}");
    let ones: u32 = model.iter().map(|byte| byte.count_ones()).sum();
    assert_eq!(client.say("BITCOUNT long"), ones.to_string());
    assert_eq!(client.say("COPY long copy"), "1");
    is(&mut client, "copy", &model, "COPY");
    assert_eq!(client.say("RENAME copy other"), "OK");
    is(&mut client, "other", &model, "RENAME");
    assert_eq!(client.say("BITOP NOT not long"), model.len().to_string());
    is(&mut client, "not", &model.iter().map(|byte| !byte).collect::<Vec<_>>(), "BITOP NOT");
    assert_eq!(client.say("BITOP XOR zero long other"), model.len().to_string());
    assert_eq!(client.say("BITPOS zero 1"), "-1", "BITOP XOR");
    assert_eq!(client.say("SETNX long x"), "0");
    let long = noise(LONG);
    assert_eq!(client.ask(&[&b"SETNX"[..], b"long", &long]).text(), "0");
    is(&mut client, "long", &model, "a SETNX that did not set");
    assert_eq!(client.ask(&[&b"MSET"[..], b"a", &long, b"b", b"short", b"c", &long]).text(), "OK");
    is(&mut client, "c", &long, "MSET");
    assert_eq!(client.say("STRLEN b"), "5");
}

#[test]
fn a_field_has_a_largest_size_and_a_hash_has_none() {
    let larder = one_worker();
    let mut client = larder.connect();
    let (names, value) = (keys("field", 150_000), "value".to_owned());
    let hset = words(&["HSET", "hash"], names.iter().flat_map(|name| [name, &value]));
    assert_eq!(client.ask(&hset).text(), "150000");
    let mut all: Vec<String> =
        client.ask(&["HKEYS", "hash"]).items().iter().map(|name| name.text()).collect();
    let mut wanted = names.clone();
    all.sort_unstable();
    wanted.sort_unstable();
    assert!(all == wanted, "{} fields", all.len());
    let refused = "ERR a field and its value have at most 4 MiB";
    let large = "x".repeat(4 << 20);
    assert_eq!(client.ask(&["HSET", "hash", "large", &large]).text(), refused);
    assert_eq!(client.ask(&["HSET", "other", "large", &large]).text(), refused);
    assert_eq!(client.say("EXISTS other"), "0");
    assert_eq!(client.say("HLEN hash"), "150000");
    assert_eq!(client.ask(&words(&["HDEL", "hash"], &names[1..])).text(), "149999");
    assert_eq!(client.say("HGET hash field0"), "value");
    assert_eq!(client.say("HDEL hash field0"), "1");
    assert_eq!(client.say("EXISTS hash"), "0");
}

#[test]
fn a_transaction_and_a_connection_have_limits() {
    let larder = one_worker();
    let mut client = larder.connect();
    assert_eq!(client.say("MULTI"), "OK");
    let sets: Vec<u8> = (0..=65_536).flat_map(|_| command(&["PING"])).collect();
    client.send(sets);
    for _ in 0..65_536 {
        assert_eq!(client.reply().text(), "QUEUED");
    }
    assert_eq!(client.reply().text(), "OOM the transaction is too large");
    assert!(client.say("EXEC").starts_with("EXECABORT"));
    let names = keys("key", 4097);
    assert_eq!(client.ask(&words(&["WATCH"], &names[..4096])).text(), "OK");
    assert_eq!(client.ask(&["WATCH", &names[4096]]).text(), "ERR too many watched keys");
}

/// Redis closes a client whose answers exceed its output buffer limit; so does Larder, whatever the
/// command repeats.
#[test]
fn answers_have_a_limit_however_often_a_value_is_asked_for() {
    let larder = one_worker();
    let mut client = larder.connect();
    let large = "v".repeat(3 << 20);
    assert_eq!(client.ask(&["SET", "k", &"v".repeat(4000)]).text(), "OK");
    assert_eq!(client.ask(&["HSET", "h", "f", &large]).text(), "1");
    assert_eq!(client.say("HRANDFIELD h -16384 WITHVALUES"), "ERR value is out of range");
    let fields = vec!["f"; 50_000];
    let names = vec!["k"; 200_000];
    let mut transaction = command(&["MULTI"]);
    transaction.extend(command(&["INCR", "runs"]));
    (0..200).for_each(|_| transaction.extend(command(&["HGETALL", "h"])));
    transaction.extend(command(&["INCR", "runs"]));
    transaction.extend(command(&["EXEC"]));
    for asked in [
        command(&[&["MGET"][..], &names].concat()),
        command(&[&["HMGET", "h"][..], &fields].concat()),
        transaction,
    ] {
        let mut greedy = larder.connect();
        greedy.send(asked);
        let answers = greedy.rest();
        assert!(answers.len() < 40 << 20, "{} bytes", answers.len());
    }
    assert_eq!(
        client.say("GET runs"),
        "2",
        "a transaction is carried out, whatever becomes of its answers"
    );
    let peak = larder.usage().peak_rss;
    assert!(peak < 192 << 20, "{peak} bytes");
}

#[test]
fn commands_without_keys_take_a_thousand_words() {
    let larder = one_worker();
    let mut client = larder.connect();
    let many = vec!["*a*a*b"; 2000];
    for first in [
        &["CONFIG", "GET"][..],
        &["COMMAND", "DOCS"],
        &["CLIENT", "LIST", "ID"],
        &["LATENCY", "HISTOGRAM"],
    ] {
        let answer = client.ask(&[first, &many].concat());
        assert!(
            answer.text().starts_with("ERR too many arguments"),
            "{first:?}: {}",
            answer.text()
        );
    }
    let prefixes: Vec<String> = (0..100_000).map(|n| format!("{n:06}")).collect();
    let tracked = words(&["CLIENT", "TRACKING", "ON", "BCAST"], &[]);
    let prefixed = prefixes.iter().take(500).flat_map(|prefix| ["PREFIX", prefix.as_str()]);
    let answer = client.ask(&tracked.into_iter().chain(prefixed.clone()).collect::<Vec<_>>());
    assert_eq!(answer.text(), "OK", "500 prefixes are 1,004 words");
    let (long, longer) = ("p".repeat(40_000), "q".repeat(40_000));
    let mut other = larder.connect();
    let two = ["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", &long, "PREFIX", &longer];
    let refused = other.ask(&two);
    assert_eq!(refused.text(), "ERR the prefixes are too long");
}

/// A key that is watched already takes nothing more.
#[test]
fn a_key_is_watched_once() {
    let larder = one_worker();
    let mut client = larder.connect();
    let same = vec!["k"; 4000];
    for _ in 0..100 {
        assert_eq!(client.ask(&[&["WATCH"][..], &same].concat()).text(), "OK");
    }
    assert_eq!(
        client.ask(&[&["WATCH"][..], &vec!["k"; 5000]].concat()).text(),
        "ERR too many watched keys"
    );
    let mut writer = larder.connect();
    assert_eq!(writer.say("SET k 1"), "OK");
    assert_eq!(client.say("MULTI"), "OK");
    assert_eq!(client.say("SET a 1"), "QUEUED");
    client.say("EXEC");
    assert_eq!(client.say("EXISTS a"), "0", "the watched key was written");
}

/// A client that closes itself in a transaction that goes on in steps has all of it carried out.
#[test]
fn a_transaction_that_closes_its_client_is_whole() {
    let larder = one_worker();
    let mut client = larder.connect();
    assert_eq!(client.say("SETRANGE long 30000000 x"), "30000001");
    let mut leaves = larder.connect();
    let id = leaves.say("CLIENT ID");
    let kill = ["CLIENT", "KILL", "ID", &id, "SKIPME", "no"];
    let words: [&[&str]; 6] = [
        &["MULTI"],
        &["SET", "a", "1"],
        &kill,
        &["BITCOUNT", "long"],
        &["SET", "b", "1"],
        &["EXEC"],
    ];
    leaves.send(words.iter().flat_map(|words| command(words)).collect::<Vec<u8>>());
    leaves.rest();
    wait_until("all of it", || client.say("EXISTS a b") == "2");
}

/// Mail is pushed under the locks of those who send it: a store that evicts to lend memory for mail
/// would tell of it through the same locks.
#[test]
fn a_subscriber_to_evictions_that_reads_nothing_stops_nobody() {
    let larder = one_worker();
    let mut client = larder.connect();
    assert_eq!(client.say("CONFIG SET notify-keyspace-events KEA"), "OK");
    let mut deaf = larder.connect();
    deaf.say("PSUBSCRIBE __key*");
    let value = "v".repeat(1000);
    for batch in 0..40 {
        let sets: Vec<u8> = (0..5000)
            .flat_map(|n| command(&["SET", &format!("{batch}:{n}:{}", "k".repeat(200)), &value]))
            .collect();
        client.send(sets);
        (0..5000).for_each(|_| assert_eq!(client.reply().text(), "OK"));
    }
    assert_eq!(client.say("PING"), "PONG");
}

#[test]
fn a_pipeline_of_long_commands_does_not_keep_others_from_its_key() {
    const COMMANDS: i64 = 300;
    const LEN: i64 = 10_000_000;
    for threads in ["1", "2"] {
        let larder = Redis::larder(&["--threads", threads, "--memory", "256MiB"]);
        let (mut busy, mut writer, mut reader, mut both) =
            (larder.connect(), larder.connect(), larder.connect(), larder.connect());
        busy.ask(&["SETRANGE", "long", &(LEN - 1).to_string(), "x"]);
        both.say("MULTI");
        both.say("APPEND long z");
        both.say("INCR short");
        busy.send(command(&["APPEND", "long", "busy"]).repeat(COMMANDS as usize));
        assert_eq!(busy.reply().text(), (LEN + 4).to_string());
        writer.send(command(&["APPEND", "long", "w"]));
        reader.send(command(&["STRLEN", "long"]));
        both.send(command(&["EXEC"]));
        let end = LEN + 4 * COMMANDS;
        let number = |text: String| text.parse::<i64>().unwrap();
        for (name, len) in [
            ("a write", number(writer.reply().text())),
            ("a read", number(reader.reply().text())),
            ("a transaction", number(both.reply().items()[0].text())),
        ] {
            assert!(len < end, "{threads} threads: {name} came after all of the pipeline: {len}");
        }
        let last = (1..COMMANDS).map(|_| number(busy.reply().text())).last();
        assert_eq!(last, Some(end + 2));
    }
}

#[test]
fn a_random_key_is_found_among_many_of_another_database() {
    let larder = one_worker();
    let mut client = larder.connect();
    let names = keys("many", 100_000);
    let (two, value) = ("2".to_owned(), "value".to_owned());
    client.ask(&words(&["MSET"], names.iter().flat_map(|name| [name, &value])));
    client.ask(&["SELECT", &two]);
    assert_eq!(client.say("RANDOMKEY"), "(nil)");
    client.say("SET one value");
    (0..20).for_each(|_| assert_eq!(client.say("RANDOMKEY"), "one"));
    client.say("SELECT 0");
    assert!(names.contains(&client.say("RANDOMKEY")));
}

/// ECHO of 50 MB was copied at once, and a key of 50 MB hashed several times.
#[test]
fn only_values_may_be_long() {
    let larder = one_worker();
    let mut client = larder.connect();
    let long = "x".repeat(5 << 20);
    for (words, most) in [
        (&["ECHO", &long][..], 1 << 20),
        (&["PING", &long], 1 << 20),
        (&["PUBLISH", "news", &long], 4 << 20),
        (&["EVAL", "return 1", "1", "key", &long], 4 << 20),
        (&["EVAL", &long, "0"], 4 << 20),
        (&["HSET", "hash", "field", &long], 4 << 20),
        (&["GET", &long], 65_536),
        (&["SET", &long, "value"], 65_536),
        (&["MSET", "key", "value", &long, "value"], 65_536),
        (&["CLIENT", "LIST", "TYPE", &long], 65_536),
        (&["CLIENT", "SETNAME", &long], 65_536),
        (&["CONFIG", "SET", &long, "1"], 65_536),
        (&["SUBSCRIBE", &long], 65_536),
    ] {
        let name = words[0].to_lowercase();
        let error = format!("ERR an argument of '{name}' is longer than {most} bytes");
        assert_eq!(client.ask(words).text(), error);
    }
    // The next command is whole, and a transaction knows of the refusal.
    assert_eq!(client.ask(&["ECHO", &long[..1 << 20]]).text().len(), 1 << 20);
    assert!(client.ask(&["NOBODY", &long]).text().starts_with("ERR unknown command 'NOBODY'"));
    assert_eq!(client.ask(&["SET", "key", &long]).text(), "OK");
    for (refused, error) in [
        (&["GET", &long][..], "ERR an argument of 'get' is longer than 65536 bytes"),
        (&["SET", "key", &long], "OOM the transaction is too large"),
    ] {
        client.say("MULTI");
        assert_eq!(client.ask(refused).text(), error);
        assert!(client.say("EXEC").starts_with("EXECABORT "));
    }
    assert_eq!(client.say("STRLEN key"), long.len().to_string());
}
