//! Lua scripts: some hundreds to Larder and to Debian's redis-server get the same answers; long and
//! hostile ones hold nobody up.
//!
//! Not compared: values with addresses or the time in them, and `error({})`, at which Redis 7.0.15
//! ends.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use std::net::TcpStream;

use larder_tests::{Redis, Resp, Value, redis::command, wait_until};

/// One script in a line; comments begin with two dashes.
const CASES: &str = include_str!("../../lua/cases.lua");
/// A lock's release, as most libraries have it.
const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return \
                       redis.call('del', KEYS[1]) else return 0 end";
/// A token bucket: tokens of a rate a second, up to a capacity.
const BUCKET: &str = "local key, rate, capacity, now, wanted = KEYS[1], tonumber(ARGV[1]), \
     tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]) \
     local state = redis.call('HMGET', key, 'tokens', 'time') \
     local tokens, time = tonumber(state[1]) or capacity, tonumber(state[2]) or now \
     tokens = math.min(capacity, tokens + math.max(0, now - time) * rate) \
     local allowed = tokens >= wanted \
     if allowed then tokens = tokens - wanted end \
     redis.call('HSET', key, 'tokens', tokens, 'time', now) \
     redis.call('EXPIRE', key, 2 * math.ceil(capacity / rate)) \
     return {allowed, tostring(tokens)}";

fn cases() -> impl Iterator<Item = &'static str> {
    CASES.lines().filter(|line| !line.is_empty() && !line.starts_with("--"))
}

/// The answer of a script with two keys and two arguments, byte for byte.
fn answer(client: &mut Resp<TcpStream>, script: &str) -> Vec<u8> {
    let words = ["EVAL", script, "2", "k1", "k2", "a1", "a2"];
    client.send(command(&words)).maybe().unwrap_or_else(|| panic!("closed at {script}")).1
}

#[test]
fn scripts_answer_as_in_redis() {
    let (larder, redis) = (Redis::larder(&[]), Redis::debian(&[]));
    let mut differences = Vec::new();
    for version in ["2", "3"] {
        let (mut ours, mut theirs) = (larder.connect(), redis.connect());
        for client in [&mut ours, &mut theirs] {
            client.ask(&["FLUSHALL"]);
            client.ask(&["HELLO", version]);
        }
        for script in cases() {
            let (left, right) = (answer(&mut ours, script), answer(&mut theirs, script));
            if left != right {
                let [left, right] = [left, right].map(|b| String::from_utf8_lossy(&b).into_owned());
                differences.push(format!("RESP{version}: {script}\n  {left:?}\n  {right:?}"));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// EVAL, SCRIPT and their errors beside Redis, in transactions and pipelines, too.
#[test]
fn commands_of_scripts_answer_as_in_redis() {
    let (larder, redis) = (Redis::larder(&[]), Redis::debian(&[]));
    let sum = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    let lines: &[&[&str]] = &[
        &["EVAL", "return 1"],
        &["EVAL", "return 1", "x"],
        &["EVAL", "return 1", "-1"],
        &["EVAL", "return 1", "1"],
        &["EVAL", "return 1", "9223372036854775807"],
        &["EVALSHA", sum, "0"],
        &["EVALSHA", "short", "0"],
        &["EVALSHA_RO", sum, "0"],
        &["EVAL_RO", "return redis.call('set', 'a', 1)", "0"],
        &["EVAL_RO", "return redis.call('get', 'a')", "0"],
        &["EVAL", "#!lua flags=no-writes\nreturn redis.call('set', 'a', 1)", "0"],
        &["EVAL", "#!lua flags=allow-oom,no-cluster\nreturn 5", "0"],
        &["EVAL", "#!lua flags=what\nreturn 5", "0"],
        &["EVAL", "#!lua name=what\nreturn 5", "0"],
        &["EVAL", "#!perl\nreturn 5", "0"],
        &["EVAL", "#!lua", "0"],
        &["SCRIPT"],
        &["SCRIPT", "NOSUCH"],
        &["SCRIPT", "LOAD", "return 7"],
        &["SCRIPT", "LOAD", "return ("],
        &["SCRIPT", "EXISTS", "4ca238f611c9d0ae4e9a75a5dbac22aedc1e44bb", sum],
        &["EVALSHA", "4CA238F611C9D0AE4E9A75A5DBAC22AEDC1E44BB", "0"],
        &["SCRIPT", "FLUSH", "NOW"],
        &["SCRIPT", "FLUSH", "SYNC"],
        &["SCRIPT", "KILL"],
        &["SCRIPT", "HELP"],
        &["COMMAND", "GETKEYS", "EVAL", "return 1", "2", "a", "b", "c"],
        &["MULTI"],
        &["EVAL", "return redis.call('incr', KEYS[1])", "1", "n"],
        &["EVAL", "return redis.call('incr', 'n')", "0"],
        &["EVAL", "return redis.call('blmpop', 1, 1, 'q', 'left')", "0"],
        &["EVAL", "return nosuch", "0"],
        &["GET", "n"],
        &["EXEC"],
        &["SELECT", "2"],
        &["EVAL", "redis.call('select', 1) return redis.call('set', 'here', 1)", "0"],
        &["EXISTS", "here"],
        &["EVAL", RELEASE, "1", "n", "x"],
    ];
    let (mut ours, mut theirs) = (larder.connect(), redis.connect());
    for words in lines {
        let [left, right] = [&mut ours, &mut theirs].map(|client| client.ask(words));
        assert_eq!(left, right, "{words:?}");
    }
    let all: Vec<u8> = lines.iter().flat_map(|words| command(words)).collect();
    ours.send(&all);
    theirs.send(&all);
    for words in lines {
        assert_eq!(ours.reply(), theirs.reply(), "in a pipeline: {words:?}");
    }
}

/// A client's limiter, which two workers run at the same time: no token is given twice.
#[test]
fn scripts_of_many_clients_are_one_step_each() {
    let larder = Redis::larder(&[]);
    let given: usize = std::thread::scope(|scope| {
        let takers: Vec<_> = (0..4)
            .map(|_| {
                let mut client = larder.connect();
                scope.spawn(move || {
                    let words = ["EVAL", BUCKET, "1", "bucket", "1", "100", "1000", "1"];
                    (0..100).filter(|_| client.ask(&words).items()[0].text() == "1").count()
                })
            })
            .collect();
        takers.into_iter().map(|taker| taker.join().unwrap()).sum()
    });
    assert_eq!(given, 100, "tokens of 400 that were wanted");
    // Keys that are not declared: each script is still whole.
    let transfer = "redis.call('decr', ARGV[1]) redis.call('incr', ARGV[2]) \
                    return redis.call('get', ARGV[1]) + redis.call('get', ARGV[2])";
    larder.connect().say("MSET left 0 right 0");
    std::thread::scope(|scope| {
        for pair in [["left", "right"], ["right", "left"], ["left", "right"]] {
            let mut client = larder.connect();
            scope.spawn(move || {
                for _ in 0..300 {
                    let sum = client.ask(&["EVAL", transfer, "0", pair[0], pair[1]]);
                    assert_eq!(sum.text(), "0", "{pair:?}");
                }
            });
        }
    });
}

/// A script without an end: its worker serves others, its keys wait, and it is killed.
#[test]
fn a_script_without_an_end_holds_only_its_keys() {
    let larder = Redis::larder(&["--threads", "1"]);
    let (mut other, mut waiter) = (larder.connect(), larder.connect());
    let key_first = "if ARGV[1] == 'end' then return 1 end ";
    for text in [
        "redis.call('get', KEYS[1]) while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do redis.call('get', KEYS[1]) end",
        "return string.find(string.rep('a', 5000), string.rep('a-', 30) .. 'b')",
        "table.sort({1, 2, 3}, function() while true do end end)",
    ] {
        let text = &[key_first, text].concat();
        let mut caller = larder.connect();
        // From its second run on it locks its key alone.
        assert_eq!(caller.ask(&["EVAL", text, "1", "key", "end"]).text(), "1");
        caller.send(command(&["EVAL", text, "1", "key"]));
        waiter.send(command(&["SET", "key", "later"]));
        wait_until("the script to be killed", || {
            assert_eq!(other.say("PING"), "PONG");
            assert_eq!(other.say("SET another 1"), "OK");
            other.ask(&["SCRIPT", "KILL"]).text() == "OK"
        });
        let error = caller.reply().text();
        assert!(error.starts_with("ERR Script killed by user with SCRIPT KILL."), "{error}");
        assert_eq!(waiter.reply().text(), "OK", "after {text}");
    }
}

/// A script that has written is not killed, and others that need its keys are told so in time.
#[test]
fn a_script_that_has_written_is_not_killed() {
    let larder = Redis::larder(&["--threads", "1"]);
    let (mut other, mut waiter) = (larder.connect(), larder.connect());
    let mut caller = larder.connect();
    let text =
        "redis.call('set', KEYS[1], 1) while redis.call('get', ARGV[1]) ~= '1' do end return 1";
    // The key that ends it is taken at its first use: another connection cannot write it then.
    caller.send(command(&["EVAL", text, "1", "key", "end"]));
    wait_until("the script to run", || {
        !other.ask(&["SCRIPT", "KILL"]).text().starts_with("NOTBUSY")
    });
    assert!(other.ask(&["SCRIPT", "KILL"]).text().starts_with("UNKILLABLE"));
    let busy = waiter.ask(&["GET", "key"]);
    assert!(busy.text().starts_with("BUSY Redis is busy running a script."), "{busy:?}");
    // It has all keys: nobody knows yet which it uses beside those it declares.
    assert!(other.say("GET unrelated").starts_with("BUSY "));
    // As Redis has it; other commands without keys go on.
    assert!(other.say("PING").starts_with("BUSY "));
    assert_eq!(other.say("ECHO x"), "x");
}

/// Memory and stacks have limits, and the state is as before.
#[test]
fn hostile_scripts_get_errors() {
    let larder = Redis::larder(&[]);
    let mut client = larder.connect();
    for text in [
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 1e12)",
        "local t = {} while true do t[#t + 1] = {} end",
        "local function f() return f() + 1 end return f()",
        "local function f() return coroutine.wrap(f)() end return f()",
        "return cjson.decode(string.rep('[', 100000))",
        "return string.find(string.rep('a', 100000), string.rep('a?', 100000))",
        "return loadstring(string.dump(function() end))()",
        "getmetatable('').__index.rep = nil",
        "for k, v in pairs(redis) do redis[k] = nil end",
        "rawset(redis, 'call', nil)",
    ] {
        let answer = client.ask(&["EVAL", text, "0"]);
        assert!(matches!(answer, Value::Line(b'-', _)), "{text}: {answer:?}");
        let fine = client.ask(&["EVAL", "return {('x'):rep(2), redis.call('ping')}", "0"]);
        assert_eq!(fine.items()[0].text(), "xx", "after {text}");
    }
}

/// MONITOR shows what scripts call.
#[test]
fn monitors_see_what_scripts_call() {
    let larder = Redis::larder(&[]);
    let (mut client, mut monitor) = (larder.connect(), larder.connect());
    assert_eq!(monitor.say("MONITOR"), "OK");
    client.ask(&["EVAL", "return redis.call('set', KEYS[1], 'v')", "1", "k"]);
    assert!(monitor.reply().text().contains("\"EVAL\""));
    let line = monitor.reply().text();
    assert!(line.ends_with("[0 lua] \"set\" \"k\" \"v\""), "{line}");
}
