//! Large hashes, which are trees: the answers are Redis's while a hash grows beyond one record and
//! shrinks again, and fields of a tree expire as those of a record do.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_proto::resp::hash;
use larder_tests::memcache_stream::Dice;
use larder_tests::redis::{Value, command, keys, words};
use larder_tests::{Larder, Redis, Resp, wait_until};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

/// The items of an answer in groups of `size`, sorted.
fn sorted(value: &Value, size: usize) -> Vec<Vec<Value>> {
    let mut groups: Vec<Vec<Value>> = value.items().chunks(size).map(<[Value]>::to_vec).collect();
    groups.sort();
    groups
}

/// Fields with their values, by a whole walk.
fn walked(client: &mut Resp<TcpStream>, key: &str, count: &str) -> BTreeSet<(String, String)> {
    let (mut cursor, mut seen) = ("0".to_owned(), BTreeSet::new());
    loop {
        let step = client.ask(&["HSCAN", key, &cursor, "COUNT", count]);
        let [next, items] = step.items() else { panic!("{step:?}") };
        seen.extend(items.items().chunks(2).map(|pair| (pair[0].text(), pair[1].text())));
        cursor = next.text();
        if cursor == "0" {
            return seen;
        }
    }
}

/// A random command on the hash `h` whose answer must be Redis's. `grows`: most add fields.
fn random_command(dice: &mut Dice, grows: bool) -> Vec<String> {
    let some = 1 + dice.below(60);
    let field = |dice: &mut Dice| format!("field:{}", dice.below(2500));
    let value = |dice: &mut Dice| match dice.below(20) {
        0 => "x".repeat(dice.below(6000)),
        1 => String::new(),
        _ => format!("{}", dice.below(1_000_000)),
    };
    let line =
        |name: &str, more: Vec<String>| [vec![name.to_owned(), "h".to_owned()], more].concat();
    match dice.below(16) {
        0..=4 if grows => {
            line("HSET", (0..some).flat_map(|_| [field(dice), value(dice)]).collect())
        }
        0..=4 => line("HDEL", (0..2 * some).map(|_| field(dice)).collect()),
        5 => line("HSET", vec![field(dice), value(dice)]),
        6 => line("HDEL", vec![field(dice)]),
        7 => line("HSETNX", vec![field(dice), value(dice)]),
        8 => line("HINCRBY", vec![field(dice), "3".to_owned()]),
        9 => line("HINCRBYFLOAT", vec![field(dice), "0.5".to_owned()]),
        10 => line("HGET", vec![field(dice)]),
        11 => line("HMGET", (0..some).map(|_| field(dice)).collect()),
        12 => line("HEXISTS", vec![field(dice)]),
        13 => line("HSTRLEN", vec![field(dice)]),
        14 => line("HLEN", Vec::new()),
        _ => line("HMSET", (0..some / 8 + 1).flat_map(|_| [field(dice), value(dice)]).collect()),
    }
}

#[test]
fn a_hash_that_grows_and_shrinks_answers_as_redis_does() {
    let (larder, redis) = (Redis::larder(&[]), Redis::debian(&[]));
    let mut both = [larder.connect(), redis.connect()];
    for seed in 1..=3 {
        let mut dice = Dice::new(seed);
        for nth in 0..2400 {
            // It crosses the border in both directions, several times.
            let words = random_command(&mut dice, nth / 300 % 2 == 0);
            let [ours, theirs] = both.each_mut().map(|talk| talk.ask(&words));
            assert_eq!(ours, theirs, "seed {seed}, {nth}: {:?}", &words[..words.len().min(6)]);
            if nth % 600 == 599 {
                // Down to few bytes, with which it is one value again.
                let most = &keys("field:", 2500)[3..];
                let del = [vec!["HDEL".to_owned(), "h".to_owned()], most.to_vec()].concat();
                let [ours, theirs] = both.each_mut().map(|talk| talk.ask(&del));
                assert_eq!(ours, theirs, "seed {seed}, {nth}: HDEL of nearly all");
            }
            if nth % 100 != 99 {
                continue;
            }
            for (name, size) in [("HGETALL", 2), ("HKEYS", 1), ("HVALS", 1)] {
                let [ours, theirs] = both.each_mut().map(|talk| talk.ask(&[name, "h"]));
                assert_eq!(sorted(&ours, size), sorted(&theirs, size), "seed {seed}, {nth}");
            }
            let [ours, theirs] = both.each_mut().map(|talk| walked(talk, "h", "7"));
            assert!(ours == theirs, "HSCAN, seed {seed}, {nth}");
            for asked in ["HRANDFIELD h 40", "HRANDFIELD h -40 WITHVALUES", "HRANDFIELD h 9999"] {
                let asked: Vec<&str> = asked.split(' ').collect();
                let [ours, theirs] = both.each_mut().map(|talk| talk.ask(&asked));
                assert_eq!(ours.items().len(), theirs.items().len(), "{asked:?}");
            }
            // A copy, moved to another database, and a restored payload are the same hash.
            for line in ["COPY h c REPLACE", "RENAME c r", "MOVE r 1", "OBJECT ENCODING h"] {
                let [ours, theirs] = both.each_mut().map(|talk| talk.say(line));
                assert!(ours == theirs || line.starts_with("OBJECT"), "{line}: {ours}, {theirs}");
            }
            both.iter_mut().for_each(|talk| assert_eq!(talk.say("SELECT 1"), "OK"));
            let [ours, theirs] = both.each_mut().map(|talk| walked(talk, "r", "100"));
            assert!(ours == theirs, "moved, seed {seed}, {nth}");
            for talk in &mut both {
                talk.say("DEL r");
                talk.say("SELECT 0");
                let Value::Bulk(_, Some(payload)) = talk.ask(&["DUMP", "h"]) else { continue };
                let parts: [&[u8]; 5] = [b"RESTORE", b"h", b"0", &payload, b"REPLACE"];
                assert_eq!(talk.send(command(&parts)).reply().text(), "OK");
            }
        }
        both.iter_mut().for_each(|talk| drop(talk.say("DEL h")));
    }
}

/// A large hash of one server is read by the other.
#[test]
fn payloads_of_large_hashes_are_those_of_redis() {
    let (larder, redis) = (Redis::larder(&[]), Redis::debian(&[]));
    let (mut ours, mut theirs) = (larder.connect(), redis.connect());
    let names = keys("name", 3000);
    let set = words(&["HSET", "h"], names.iter().flat_map(|name| [name, name]));
    assert_eq!(ours.ask(&set).text(), "3000");
    let carry = |from: &mut Resp<TcpStream>, to: &mut Resp<TcpStream>, key: &[u8]| {
        let Value::Bulk(_, Some(payload)) = from.ask(&["DUMP", "h"]) else { panic!() };
        let parts: [&[u8]; 5] = [b"RESTORE", key, b"0", &payload, b"REPLACE"];
        assert_eq!(to.send(command(&parts)).reply().text(), "OK");
    };
    carry(&mut ours, &mut theirs, b"h");
    carry(&mut theirs, &mut ours, b"back");
    assert_eq!(walked(&mut theirs, "h", "1000"), walked(&mut ours, "back", "1000"));
    assert_eq!(ours.say("HGET back name2999"), "name2999");
    assert_eq!(ours.say("HLEN back"), "3000");
    assert_eq!(ours.say("OBJECT ENCODING back"), "hashtable");
    assert_eq!(ours.say("TYPE back"), "hash");
}

/// Fields that exist throughout are shown, whatever becomes of others, and of the hash's form.
#[test]
fn a_walk_shows_all_that_stays() {
    let larder = Redis::larder(&[]);
    let mut client = larder.connect();
    let (stays, goes) = (keys("stays", 500), keys("goes", 5000));
    for names in [&stays, &goes] {
        client.ask(&words(&["HSET", "h"], names.iter().flat_map(|name| [name, name])));
    }
    let (mut cursor, mut seen, mut steps) = ("0".to_owned(), BTreeSet::new(), 0);
    loop {
        let step = client.ask(&["HSCAN", "h", &cursor, "COUNT", "20"]);
        let [next, items] = step.items() else { panic!("{step:?}") };
        assert!(items.items().len() < 400, "{}", items.items().len());
        seen.extend(items.items().iter().step_by(2).map(Value::text));
        (cursor, steps) = (next.text(), steps + 1);
        if cursor == "0" {
            break;
        }
        match steps % 3 {
            0 => client.ask(&words(&["HDEL", "h"], goes.iter().skip(steps).step_by(7))),
            _ => client
                .ask(&words(&["HSET", "h"], goes[steps..steps + 9].iter().flat_map(|n| [n; 2]))),
        };
    }
    assert!(steps > 20, "{steps}");
    assert!(stays.iter().all(|name| seen.contains(name)), "{} of all", seen.len());
}

/// A tree of 3,000 fields, and those of its fields with an odd number.
fn with_odd(client: &mut Resp<TcpStream>) -> Vec<String> {
    let names = keys("f", 3000);
    client.ask(&words(&["HSET", "h"], names.iter().flat_map(|name| [name, name])));
    names.into_iter().skip(1).step_by(2).collect()
}

#[test]
fn fields_of_a_tree_expire() {
    let larder = Redis::larder(&[]);
    let mut client = larder.connect();
    let odd = with_odd(&mut client);
    let late = words(&["HPEXPIREAT", "h", "4102444800005", "FIELDS", "1500"], &odd);
    assert!(client.ask(&late).items().iter().all(|result| result.text() == "1"));
    assert_eq!(client.say("HPEXPIRETIME h FIELDS 3 f0 f1 none"), "[-1 4102444800005 -2]");
    assert_eq!(client.say("HPERSIST h FIELDS 2 f1 f2"), "[1 -1]");
    assert_eq!(client.say("HPEXPIREAT h 4102444800001 LT FIELDS 2 f3 f4"), "[1 1]");
    // The key's own expiry is another.
    assert_eq!(client.say("PEXPIREAT h 4102444900000"), "1");
    assert_eq!(client.say("PEXPIRETIME h"), "4102444900000");
    assert_eq!(client.say("HINCRBYFLOAT h new 1.5"), "1.5");
    assert_eq!(client.say("PEXPIRETIME h"), "4102444900000");
    assert_eq!(client.say("PERSIST h"), "1");
    assert_eq!(
        client.say("HPEXPIRETIME h FIELDS 3 f3 f4 f5"),
        "[4102444800001 4102444800001 4102444800005]"
    );
    // They go with a payload and a copy.
    let Value::Bulk(_, Some(payload)) = client.ask(&["DUMP", "h"]) else { panic!() };
    let parts: [&[u8]; 4] = [b"RESTORE", b"r", b"0", &payload];
    assert_eq!(client.send(command(&parts)).reply().text(), "OK");
    client.say("COPY h c");
    for key in ["r", "c"] {
        let asked = format!("HPEXPIRETIME {key} FIELDS 3 f2 f3 f5");
        assert_eq!(client.say(&asked), "[-1 4102444800001 4102444800005]");
        assert_eq!(client.say(&format!("HLEN {key}")), "3001");
    }
    // Those that are due go, a field at a time and all at once.
    assert_eq!(client.say("HEXPIRE h 0 FIELDS 2 f0 f1"), "[2 2]");
    client.ask(&words(&["HPEXPIRE", "h", "1", "FIELDS", "1500"], &odd));
    wait_until("the fields to expire", || client.say("HLEN h") == "1500");
    assert_eq!(client.say("HGET h f3"), "(nil)");
    assert_eq!(client.say("HGET h f2"), "f2");
    assert_eq!(client.say("HTTL h FIELDS 2 f2 f3"), "[-1 -2]");
    assert_eq!(walked(&mut client, "h", "100").len(), 1500);
    assert_eq!(client.ask(&["HGETALL", "h"]).items().len(), 3000);
    // A value is got with an expiry, and deleted.
    assert_eq!(client.say("HGETEX h PXAT 4102444800007 FIELDS 2 f2 x"), "[f2 (nil)]");
    assert_eq!(client.say("HPEXPIRETIME h FIELDS 1 f2"), "[4102444800007]");
    assert_eq!(client.say("HGETDEL h FIELDS 2 f2 f2"), "[f2 (nil)]");
    assert_eq!(client.say("HSETEX h FXX FIELDS 2 f4 1 f2 1"), "0");
    assert_eq!(client.say("HSETEX h FNX EX 1000 FIELDS 2 n1 1 n2 1"), "1");
    assert_eq!(client.say("HTTL h FIELDS 1 f6"), "[-1]");
}

#[test]
fn the_sweep_finds_fields_of_trees_and_a_tree_goes_with_its_last() {
    let larder = Redis::larder(&[]);
    let mut client = larder.connect();
    client.say("CONFIG SET notify-keyspace-events KEA");
    let mut hearer = larder.connect();
    hearer.say("PSUBSCRIBE __keyspace@0__:*");
    let mut hear = move |what: &str| {
        // A large command tells several times that fields expired.
        while hearer.reply().items()[3].text() != what {}
    };
    let odd = with_odd(&mut client);
    client.ask(&words(&["HPEXPIRE", "h", "30", "FIELDS", "1500"], &odd));
    hear("hexpire");
    hear("hexpired");
    let expired = |client: &mut Resp<TcpStream>| {
        let stats = client.say("INFO stats");
        let line = stats.lines().find_map(|line| line.strip_prefix("expired_subkeys:"));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    // Nobody looks at the hash.
    wait_until("the sweep", || expired(&mut client) == 1500);
    assert_eq!(client.say("HLEN h"), "1500");
    let even: Vec<String> = keys("f", 3000).into_iter().step_by(2).collect();
    client.ask(&words(&["HPEXPIRE", "h", "30", "FIELDS", "1500"], &even));
    wait_until("the hash to be gone", || client.say("DBSIZE") == "0");
    hear("del");
    assert_eq!(client.say("EXISTS h"), "0");
}

/// A record with 20,000 fields, as earlier versions wrote: it is read as it is, and the first write
/// makes a tree of it.
#[test]
fn a_large_record_of_an_earlier_version_is_read_and_becomes_a_tree() {
    let larder = Larder::with_config(
        "[http]\nlisten = \"127.0.0.1:0\"\n[[site]]\norigin = \"http://127.0.0.1:9\"\n[memcached]\n\
         listen = \"127.0.0.1:0\"\n[redis]\nlisten = \"127.0.0.1:0\"\nshare_memcached = true\n",
    );
    let names = keys("field", 20_000);
    let pairs: Vec<hash::Pair<'_>> =
        names.iter().map(|name| (name.as_bytes(), name.as_bytes())).collect();
    let record = hash::pack(&pairs).unwrap();
    let mut memcached = TcpStream::connect(larder.face("memcached")).unwrap();
    let head = format!("set h {} 0 {}\r\n", hash::FLAGS, record.len());
    memcached.write_all(&[head.as_bytes(), &record, b"\r\n"].concat()).unwrap();
    let mut stored = [0; 8];
    memcached.read_exact(&mut stored).unwrap();
    assert_eq!(&stored, b"STORED\r\n");
    let mut client = Resp::tcp(larder.face("redis"));
    assert_eq!(client.say("HLEN h"), "20000");
    assert_eq!(client.say("HGET h field777"), "field777");
    let listed = client.ask(&["HKEYS", "h"]);
    assert!(listed.items().iter().zip(&names).all(|(listed, name)| listed.text() == *name));
    assert_eq!(client.say("HSET h more 1"), "1");
    assert_eq!(client.say("HLEN h"), "20001");
    let mut wanted: BTreeSet<(String, String)> =
        names.iter().map(|name| (name.clone(), name.clone())).collect();
    wanted.insert(("more".to_owned(), "1".to_owned()));
    assert!(walked(&mut client, "h", "1000") == wanted);
    assert_eq!(client.ask(&words(&["HDEL", "h"], &names)).text(), "20000");
    assert_eq!(client.say("HGETALL h"), "[more 1]");
}
