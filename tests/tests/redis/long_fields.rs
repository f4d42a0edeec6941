//! Hashes with long values: their changes take as many steps as their bytes need, and are one step
//! to all clients all the same; readers without a lock see whole hashes while others change them,
//! and while parts are evicted.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::memcache_stream::Dice;
use larder_tests::redis::{Value, command, keys, words};
use larder_tests::{Redis, Resp};
use std::collections::BTreeSet;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a long value.
const LONG: usize = 300_000;

/// Sets a hash of so many long values.
fn fill(client: &mut Resp<TcpStream>, names: &[String]) {
    let value = "v".repeat(LONG);
    for name in names {
        client.ask(&["HSET", "h", name, &value]);
    }
}

/// `NAME h MORE FIELDS number field ...`
fn fields(name: &str, more: &str, names: &[String]) -> String {
    let more = if more.is_empty() { String::new() } else { format!("{more} ") };
    format!("{name} h {more}FIELDS {} {}", names.len(), names.join(" "))
}

#[test]
fn others_are_served_while_long_fields_are_read_and_changed() {
    let larder = Redis::larder(&["--threads", "1", "--memory", "512MiB"]);
    let mut client = larder.connect();
    // Fewer than 256 arguments, and few bytes of them: what these commands go by.
    let (names, missing) = (keys("f", 120), keys("missing", 120));
    fill(&mut client, &names);
    let hdel = format!("HDEL h {}", names.join(" "));
    for long in [
        fields("HEXPIRE", "1000", &names),
        fields("HTTL", "", &names),
        fields("HEXPIRE", "1000 NX", &[&names[..], &missing].concat()),
        fields("HPERSIST", "", &names),
        fields("HGETEX", "EX 1000", &names[..60]),
        format!("HSETEX h FNX FIELDS 120 {} f0 1", missing[..119].join(" 1 ") + " 1"),
    ] {
        larder.serves_others_during(&["HPERSIST h FIELDS 1 f0"], &long);
    }
    for long in [fields("HGETDEL", "", &names[..60]), hdel, fields("HEXPIRE", "0", &names)] {
        larder.serves_others_after(|other| fill(other, &names), &long);
    }
}

/// Asks `look` until the command has ended; every look must be one of these two.
fn all_or_nothing(larder: &Redis, long: &[u8], look: &str, states: [&str; 2]) {
    let (mut busy, mut other) = (larder.connect(), larder.connect());
    assert_eq!(other.say(look), states[0]);
    busy.send(long);
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
fn changes_of_long_fields_are_one_step_to_readers() {
    for threads in ["1", "2"] {
        let larder = Redis::larder(&["--threads", threads, "--memory", "512MiB"]);
        let mut client = larder.connect();
        let names = keys("f", 60);
        fill(&mut client, &names);
        for round in 0..3 {
            let last = names[59].as_str();
            let hset = command(&words(&["HSET", "h"], names.iter().flat_map(|name| [name; 2])));
            let look = format!("HSTRLEN h {last}");
            all_or_nothing(&larder, &hset, &look, ["300000", &last.len().to_string()]);
            fill(&mut client, &names);
            let hdel = command(&words(&["HDEL", "h"], &names[1..]));
            all_or_nothing(&larder, &hdel, "HLEN h", ["60", "1"]);
            fill(&mut client, &names);
            let when = 4_102_444_800_000_u64 + round;
            let expire = fields("HPEXPIREAT", &when.to_string(), &names);
            let expire = command(&expire.split(' ').collect::<Vec<_>>());
            let look = format!("HPEXPIRETIME h FIELDS 1 {last}");
            all_or_nothing(&larder, &expire, &look, ["[-1]", &format!("[{when}]")]);
            client.say(&fields("HPERSIST", "", &names));
        }
    }
}

/// A short write of a hash with fields that are due: these go in steps, and then it is found to
/// need several steps itself.
#[test]
fn long_fields_are_changed_behind_those_that_are_due() {
    let larder = Redis::larder(&["--threads", "1", "--memory", "512MiB"]);
    let mut client = larder.connect();
    let names = keys("f", 40);
    for (change, wanted) in [
        (format!("HDEL h {}", names[20..].join(" ")), "20"),
        (fields("HPERSIST", "", &names[..21]), ""),
        (fields("HGETDEL", "", &names[18..]), ""),
        ("HINCRBY h n 2".to_owned(), "2"),
    ] {
        fill(&mut client, &names);
        client.say("HDEL h n");
        client.say(&fields("HEXPIRE", "1000", &names[..20]));
        // These are due when the next command looks.
        client.say(&fields("HPEXPIREAT", "1", &names[..10]));
        fill(&mut client, &names[..10]);
        client.say(&fields("HPEXPIRE", "1", &names[..10]));
        let answer = client.say(&change);
        assert!(wanted.is_empty() || answer == wanted, "{change}: {answer}");
        assert!(!answer.starts_with("ERR"), "{answer}");
        let length: usize = client.say("HLEN h").parse().unwrap();
        assert_eq!(client.ask(&["HKEYS", "h"]).items().len(), length, "{change}");
        client.say("DEL h");
    }
}

/// A random command on the hash `h` with values of any length.
fn random_command(dice: &mut Dice) -> Vec<String> {
    let field = |dice: &mut Dice| format!("field:{}", dice.below(40));
    let value = |dice: &mut Dice| match dice.below(4) {
        0 => "x".repeat(dice.below(400_000)),
        1 => "y".repeat(dice.below(5000)),
        _ => dice.below(1_000_000).to_string(),
    };
    let some = 1 + dice.below(24);
    let line =
        |name: &str, more: Vec<String>| [vec![name.to_owned(), "h".to_owned()], more].concat();
    let many = |dice: &mut Dice| (0..some).map(|_| field(dice)).collect::<Vec<_>>();
    match dice.below(12) {
        0..=2 => line("HSET", (0..some).flat_map(|_| [field(dice), value(dice)]).collect()),
        3 | 4 => line("HDEL", many(dice)),
        5 => line("HSETNX", vec![field(dice), value(dice)]),
        6 => line("HGET", vec![field(dice)]),
        7 => line("HMGET", many(dice)),
        8 => line("HINCRBY", vec![format!("number:{}", dice.below(4)), "3".to_owned()]),
        9 => line("HSTRLEN", vec![field(dice)]),
        10 => line("HEXISTS", vec![field(dice)]),
        _ => line("HLEN", Vec::new()),
    }
}

#[test]
fn long_values_are_those_of_redis() {
    let (larder, redis) = (Redis::larder(&["--memory", "512MiB"]), Redis::debian(&[]));
    let mut both = [larder.connect(), redis.connect()];
    for seed in 1..=2 {
        let mut dice = Dice::new(seed);
        for nth in 0..300 {
            let words = random_command(&mut dice);
            let [ours, theirs] = both.each_mut().map(|talk| talk.ask(&words));
            assert!(ours == theirs, "seed {seed}, {nth}: {:?}", &words[..words.len().min(3)]);
            if nth % 50 == 49 {
                let [ours, theirs] = both.each_mut().map(|talk| {
                    let all = talk.ask(&["HGETALL", "h"]);
                    let mut pairs: Vec<Vec<Value>> =
                        all.items().chunks(2).map(<[Value]>::to_vec).collect();
                    pairs.sort();
                    pairs
                });
                assert!(ours == theirs, "seed {seed}, {nth}: the whole");
                let Value::Bulk(_, Some(payload)) = both[0].ask(&["DUMP", "h"]) else { continue };
                let parts: [&[u8]; 5] = [b"RESTORE", b"h", b"0", &payload, b"REPLACE"];
                assert_eq!(both[0].send(command(&parts)).reply().text(), "OK");
            }
        }
        both.iter_mut().for_each(|talk| drop(talk.say("DEL h")));
    }
}

/// `HGET` takes no lock: it must see each field as one of the writes left it, whatever becomes of
/// the hash's form.
#[test]
fn readers_see_whole_hashes_while_others_write_them() {
    let larder = Redis::larder(&["--threads", "2", "--memory", "256MiB"]);
    let (names, is_over) = (keys("f", 2000), AtomicBool::new(false));
    larder.connect().say("HSET h stays here");
    std::thread::scope(|scope| {
        let read = || {
            let (mut client, mut reads) = (larder.connect(), 0);
            while !is_over.load(Ordering::Relaxed) || reads < 100 {
                assert_eq!(client.say("HGET h stays"), "here");
                let value = client.say(&format!("HGET h f{}", reads % 2000));
                assert!(["(nil)", "value"].contains(&&*value), "{value}");
                let length: usize = client.say("HLEN h").parse().unwrap();
                assert!([1, 101, 1001, 2001].contains(&length), "{length}");
                reads += 1;
            }
        };
        let readers = [scope.spawn(read), scope.spawn(read)];
        let mut client = larder.connect();
        let value = "value".to_owned();
        for _ in 0..30 {
            // It becomes a tree of two sizes, and one record.
            for half in names.chunks(1000) {
                client.ask(&words(&["HSET", "h"], half.iter().flat_map(|name| [name, &value])));
            }
            for half in names.chunks(1000) {
                client.ask(&words(&["HDEL", "h"], half));
            }
            // A write that is one step.
            client.ask(&words(&["HSET", "h"], names[..100].iter().flat_map(|name| [name, &value])));
            client.ask(&words(&["HDEL", "h"], &names[..100]));
        }
        is_over.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

/// The names of its fields as `HKEYS` lists them.
fn listed(client: &mut Resp<TcpStream>) -> Vec<String> {
    client.ask(&["HKEYS", "h"]).items().iter().map(Value::text).collect()
}

/// One value lists its fields in the order they came, a tree does not: so the form is seen.
#[test]
fn a_walk_shows_all_that_stays_whatever_form_the_hash_takes() {
    let larder = Redis::larder(&["--threads", "1"]);
    let mut client = larder.connect();
    let (stays, goes, new) = (keys("stays", 7), keys("goes", 3000), keys("new", 5));
    // Longer than Redis packs: a walk over one value has several calls, too.
    let value = "v".repeat(100);
    client.ask(&words(&["HSET", "h"], stays.iter().flat_map(|name| [name, &value])));
    assert_eq!(listed(&mut client), stays, "one value");
    let (mut cursor, mut seen, mut steps) = ("0".to_owned(), BTreeSet::new(), 0);
    loop {
        if steps % 2 == 0 {
            client.ask(&words(&["HSET", "h"], goes.iter().flat_map(|name| [name; 2])));
            assert_ne!(listed(&mut client)[..7], stays[..], "a tree");
        } else {
            client.ask(&words(&["HDEL", "h"], &goes));
            client.ask(&words(&["HSET", "h"], new.iter().flat_map(|name| [name; 2])));
            assert_eq!(listed(&mut client)[7..], new[..], "one value again");
            client.ask(&words(&["HDEL", "h"], &new));
        }
        let count = if steps % 2 == 0 { "600" } else { "2" };
        let step = client.ask(&["HSCAN", "h", &cursor, "COUNT", count]);
        let [next, items] = step.items() else { panic!("{step:?}") };
        seen.extend(items.items().iter().step_by(2).map(Value::text));
        (cursor, steps) = (next.text(), steps + 1);
        if cursor == "0" {
            break;
        }
    }
    assert!(stays.iter().all(|name| seen.contains(name)), "{steps} steps: {seen:?}");
}

/// Twice as many hashes as there is room for, in many pieces each: a hash is read whole, or it is
/// not there, and no more seen by anyone.
#[test]
fn a_hash_of_which_parts_are_evicted_is_gone() {
    let larder = Redis::larder(&["--threads", "2", "--memory", "32MiB"]);
    let mut client = larder.connect();
    let (names, value) = (keys("f", 5000), "v".repeat(200));
    let whole = |client: &mut Resp<TcpStream>, hash: &str| {
        let all = client.ask(&["HGETALL", hash]).items().len();
        let value = client.say(&format!("HGET {hash} f7"));
        let length = client.say(&format!("HLEN {hash}"));
        match &*length {
            "5000" => assert_eq!((value.len(), all), (200, 10_000), "{hash}"),
            _ => assert_eq!((&*value, all, &*length), ("(nil)", 0, "0"), "{hash}"),
        }
        all > 0
    };
    let hashes = keys("h", 60);
    for hash in &hashes {
        client.ask(&words(&["HSET", hash], names.iter().flat_map(|name| [name, &value])));
        assert!(whole(&mut client, hash), "{hash} is gone at once");
    }
    let kept = hashes.iter().filter(|hash| whole(&mut client, hash)).count();
    assert!((5..40).contains(&kept), "{kept} hashes of 1.1 MB in 32 MiB");
}
