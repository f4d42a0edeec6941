//! Faults that the test suites of Redis and of its clients have found (`scripts/redis-suite.py`,
//! `scripts/client-suites.py`), beside a redis-server from Debian.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::{Redis, Value};

/// Rounds of what is a race where a client is there for longer than its answer says.
const ROUNDS: usize = 30;

fn words(value: &Value) -> Vec<String> {
    value.items().iter().map(Value::text).collect()
}

/// Redis's unit `tracking`: the client that a QUIT has answered was told of one more key.
#[test]
fn a_client_that_quits_is_gone_when_it_has_its_answer() {
    for server in [Redis::larder(&["--threads", "4"]), Redis::debian(&[])] {
        let (mut reader, mut writer) = (server.connect(), server.connect());
        assert!(!reader.ask(&["HELLO", "3"]).is_error());
        for round in 0..ROUNDS {
            let mut target = server.connect();
            let id = target.say("CLIENT ID");
            target.say("SUBSCRIBE __redis__:invalidate");
            assert_eq!(reader.say(&format!("CLIENT TRACKING ON REDIRECT {id}")), "OK");
            reader.say("GET key");
            assert_eq!(target.say("QUIT"), "OK");
            assert_eq!(writer.say(&format!("SET key {round}")), "OK");
            let mut answers = [words(&reader.ask(&["PING"])), words(&reader.reply())];
            answers.sort();
            assert_eq!(answers, [Vec::new(), vec!["tracking-redir-broken".to_owned(), id.clone()]]);
            assert!(reader.say("CLIENT TRACKINGINFO").contains("broken_redirect"));
            assert_eq!(writer.say("PUBLISH __redis__:invalidate x"), "0");
            assert!(!writer.say("CLIENT LIST").contains(&format!("id={id} ")));
            let gone = "ERR The client ID you want redirect to does not exist";
            assert_eq!(writer.say(&format!("CLIENT TRACKING ON REDIRECT {id}")), gone);
            assert!(target.maybe().is_none());
            assert_eq!(reader.say("CLIENT TRACKING OFF"), "OK");
        }
    }
}

/// go-redis: a shard of a ring that FLUSHDB had emptied had keys.
#[test]
fn keys_that_were_flushed_are_not_counted() {
    let (larder, redis) = (Redis::larder(&[]), Redis::debian(&[]));
    let [mut ours, mut theirs] = [&larder, &redis].map(Redis::connect);
    for line in [
        "MSET a 1 b 2 c 3",
        "SELECT 1",
        "MSET a 1 b 2",
        "INFO keyspace",
        "FLUSHDB",
        "INFO keyspace",
        "SET a 1",
        "INFO keyspace",
        "FLUSHALL",
        "INFO keyspace",
        "DBSIZE",
    ] {
        assert_eq!(ours.say(line), theirs.say(line), "{line}");
    }
}

/// redis-py and hiredis: they ask for errors and delays by DEBUG.
#[test]
fn debug_gives_errors_and_delays() {
    let options = ["--enable-debug-command", "yes"];
    let (larder, redis) = (Redis::larder(&options), Redis::debian(&options));
    let [mut ours, mut theirs] = [&larder, &redis].map(Redis::connect);
    for words in [
        &["DEBUG", "ERROR", "LOADING fake message"][..],
        &["DEBUG", "error", "ERR two\r\nlines"],
        &["DEBUG", "SLEEP", "0"],
        &["DEBUG", "SLEEP", "0.01"],
        &["DEBUG", "SLEEP", "no number"],
        &["DEBUG"],
        &["MULTI"],
        &["DEBUG", "ERROR", "x"],
        &["EXEC"],
        &["EVAL", "return redis.call('debug', 'sleep', '0')", "0"],
    ] {
        assert_eq!(ours.ask(words), theirs.ask(words), "{words:?}");
    }
    // Nobody else sleeps.
    let id = ours.say("CLIENT ID");
    ours.send("DEBUG SLEEP 600\r\n");
    larder.wait_for_blocked(1);
    let mut other = larder.connect();
    assert_eq!(other.say("SET a 1"), "OK");
    assert_eq!(other.say(&format!("CLIENT UNBLOCK {id}")), "1");
    assert_eq!(ours.reply().text(), "OK");
}
