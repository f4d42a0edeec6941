//! Real clients of Redis, used as applications use them, and what frameworks send whose clients are
//! not here.

use larder_tests::memcache::{client, script};
use larder_tests::{Redis, Value};
use std::process::{Command, Output};

fn ends_well(output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.trim_end().ends_with("OK"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn redis_py() {
    let larder = Redis::larder(&[]);
    for protocol in ["2", "3"] {
        let port = larder.port().to_string();
        let mut command = script("/usr/bin/python3", "redis_all.py");
        ends_well(&client(command.args(["127.0.0.1", &port, protocol])));
    }
}

/// Django's own cache, and django-redis. Debian's Django may be older than the former:
/// scripts/test-deps.sh gets one.
#[test]
fn django() {
    let packages = larder_tests::helper::source_root().join("tests/.cache/python");
    let larder = Redis::larder(&[]);
    for backend in ["django.core.cache.backends.redis.RedisCache", "django_redis.cache.RedisCache"]
    {
        let mut command = script("/usr/bin/python3", "redis_django.py");
        command.env("PYTHONPATH", &packages).args([
            "127.0.0.1",
            &larder.port().to_string(),
            backend,
        ]);
        ends_well(&client(&mut command));
    }
}

/// PHP with assertions: by default they are not even compiled.
fn php(name: &str, arguments: &[&str]) -> Output {
    let path = larder_tests::helper::source_root().join("tests/clients").join(name);
    client(Command::new("php").args(["-d", "zend.assertions=1"]).arg(path).args(arguments))
}

#[test]
fn phpredis() {
    let larder = Redis::larder(&[]);
    ends_well(&php("phpredis_all.php", &["127.0.0.1", &larder.port().to_string()]));
}

#[test]
fn php_sessions_are_locked_and_let_go() {
    let larder = Redis::larder(&[]);
    let port = larder.port().to_string();
    let requests = |_: usize| {
        let port = port.clone();
        std::thread::spawn(move || php("phpredis_session.php", &["127.0.0.1", &port, "onevisitor"]))
    };
    let requests: Vec<_> = (0..3).map(requests).collect();
    let ends = requests.into_iter().map(|request| {
        let output = request.join().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        String::from_utf8_lossy(&output.stdout).trim().parse::<u32>().unwrap()
    });
    assert_eq!(ends.max(), Some(150), "no count was lost: each request had the session for itself");
    assert_eq!(larder.connect().say("EXISTS S:onevisitor_LOCK"), "0");
}

fn cli(larder: &Redis, arguments: &[&str]) -> String {
    let port = larder.port().to_string();
    let output = client(Command::new("redis-cli").args(["-p", &port]).args(arguments));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn redis_cli() {
    let larder = Redis::larder(&[]);
    assert_eq!(cli(&larder, &["set", "greeting", "hello"]), "OK\n");
    assert_eq!(cli(&larder, &["get", "greeting"]), "hello\n");
    assert_eq!(cli(&larder, &["-3", "hset", "h", "a", "1"]), "1\n");
    assert_eq!(cli(&larder, &["-3", "--json", "hgetall", "h"]), "{\"a\":\"1\"}\n");
    let mut keys: Vec<String> = cli(&larder, &["--scan"]).lines().map(str::to_owned).collect();
    keys.sort();
    assert_eq!(keys, ["greeting", "h"]);
    let big = cli(&larder, &["--bigkeys"]);
    assert!(
        big.contains("Biggest string found") && big.contains("Sampled 2 keys in the keyspace"),
        "{big}"
    );
    assert!(cli(&larder, &["--memkeys"]).contains("Sampled 2 keys"));
    let info = cli(&larder, &["info"]);
    for line in
        ["redis_version:7.", "used_memory:", "connected_clients:", "keyspace_hits:", "db0:keys=2"]
    {
        assert!(info.lines().any(|held| held.starts_with(line)), "{line} is not in\n{info}");
    }
    // All sections are names in brackets and `name:value`, as every tool splits them.
    for line in info.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        assert!(line.split_once(':').is_some(), "{line:?}");
    }
    assert_eq!(cli(&larder, &["-r", "3", "incr", "n"]), "1\n2\n3\n");
}

#[test]
fn redis_benchmark() {
    let larder = Redis::larder(&[]);
    let port = larder.port().to_string();
    for pipeline in ["1", "16"] {
        let mut command = Command::new("redis-benchmark");
        command.args([
            "-p",
            &port,
            "-n",
            "2000",
            "-P",
            pipeline,
            "-q",
            "-t",
            "ping,set,get,incr,hset,mset",
        ]);
        let output = client(&mut command);
        let said = String::from_utf8_lossy(&output.stdout);
        for test in ["SET", "GET", "INCR", "HSET", "MSET"] {
            let done = format!("{test}: ");
            assert!(
                said.contains(&done) || said.contains(&format!("{test} (10 keys): ")),
                "{test}: {said}"
            );
        }
        assert!(!said.to_ascii_lowercase().contains("error"), "{said}");
    }
}

/// What frameworks send, one command a line, and the reply. From their sources; `#` says whose.
const FRAMEWORKS: &str = r#"
# Rails redis_cache_store: write, fetch, read_multi, increment, delete_matched
SET views/a entry PX 60000 -> OK
SET views/b entry NX PX 60000 -> OK
SET views/b entry NX PX 60000 -> (nil)
MGET views/a views/none views/b -> [entry (nil) entry]
INCRBY counter 1 -> 1
PEXPIRE counter 60000 -> 1
SCAN 0 MATCH views/* COUNT 1000 -> *
DEL views/a views/b -> 2
# Laravel: cache, tags are other stores; locks; rate limits
SETEX laravel_cache:a 60 s:1:"x"; -> OK
GET laravel_cache:a -> s:1:"x";
SET laravel_lock owner EX 10 NX -> OK
INCRBY limiter 1 -> 1
# Spring Data: cache and sessions
SET app::key value PX 60000 -> OK
HMSET spring:session:sessions:1 creationTime 1 maxInactiveInterval 1800 lastAccessedTime 1 -> OK
HSET spring:session:sessions:1 sessionAttr:name anna -> 1
EXPIRE spring:session:sessions:1 2100 -> 1
HGETALL spring:session:sessions:1 -> [creationTime 1 maxInactiveInterval 1800 lastAccessedTime 1 sessionAttr:name anna]
APPEND spring:session:sessions:expires:1  -> 0
PEXPIRE spring:session:sessions:1 2100000 -> 1
PUBLISH spring:session:event:0:created:1 x -> 0
CONFIG GET notify-keyspace-events -> *
CONFIG SET notify-keyspace-events gxE -> OK
RENAME spring:session:sessions:1 spring:session:sessions:2 -> OK
EXISTS spring:session:sessions:1 -> 0
KEYS app::* -> [app::key]
DEL app::key -> 1
# WordPress object caches (redis-cache, object-cache-pro, WP Redis)
SELECT 0 -> OK
SETEX wp:posts:1 100 x -> OK
MGET wp:posts:1 wp:posts:2 -> [x (nil)]
EXISTS wp:posts:1 -> 1
INCRBY wp:counter 5 -> 5
DECRBY wp:counter 2 -> 3
UNLINK wp:posts:1 -> 1
FLUSHDB ASYNC -> OK
# node: connect-redis, cache-manager, express sessions
SET sess:1 {"cookie":1} EX 86400 -> OK
EXPIRE sess:1 86400 -> 1
TTL sess:1 -> *
GETDEL sess:1 -> {"cookie":1}
CLIENT SETNAME app -> OK
CLIENT SETINFO LIB-NAME x -> OK
"#;

#[test]
fn what_frameworks_send_is_answered() {
    let larder = Redis::larder(&[]);
    let mut talk = larder.connect();
    for line in FRAMEWORKS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (command, reply) = line.split_once(" -> ").unwrap();
        let answer = talk.ask(&command.split(' ').collect::<Vec<_>>());
        assert!(!answer.is_error(), "{command}: {answer:?}");
        if reply != "*" {
            assert_eq!(answer.text(), reply, "{command}");
        }
    }
}

#[test]
fn locks_are_let_go_by_their_holders_only() {
    let larder = Redis::larder(&[]);
    let mut talk = larder.connect();
    let release = "if redis.call('get', KEYS[1]) == ARGV[1] then\n return redis.call('del', \
                   KEYS[1])\nelse\n return 0\nend";
    assert_eq!(talk.say("SET lock mine NX PX 60000"), "OK");
    assert_eq!(talk.ask(&["EVAL", release, "1", "lock", "another's"]).text(), "0");
    assert_eq!(talk.say("EXISTS lock"), "1");
    assert_eq!(talk.ask(&["EVAL", release, "1", "lock", "mine"]).text(), "1");
    assert_eq!(talk.say("EXISTS lock"), "0");
    assert_eq!(talk.ask(&["EVAL", release, "1", "lock", "mine"]).text(), "0");
    for refused in [&["REPLICAOF", "no", "one"][..], &["MODULE", "LOAD", "s"]] {
        let answer = talk.ask(refused);
        assert!(
            matches!(answer, Value::Line(b'-', _)) && answer.text().contains("Larder"),
            "{answer:?}"
        );
    }
    // Libraries send the text then.
    let unknown = talk.ask(&["EVALSHA", "abc", "1", "lock", "mine"]);
    assert_eq!(unknown.text(), "NOSCRIPT No matching script. Please use EVAL.");
}
