//! Places where a comparison with Redis 7.0.15 by its own test suite found differences: the same
//! lines to Larder and to Debian's redis-server, with the same answers.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::Redis;
use larder_tests::redis::command;
use larder_tests::wait::wait_until;

fn both() -> [Redis; 2] {
    [Redis::larder(&["--memory", "256MiB"]), Redis::debian(&[])]
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// A client that waits in XREADGROUP is told if its stream goes.
#[test]
fn a_reader_of_a_group_is_told_that_its_stream_is_gone() {
    let ways = [
        &["DEL s"][..],
        &["UNLINK s"],
        &["SET s 1"],
        &["RENAME s t"],
        &["RENAME other s"],
        &["LPUSH l x", "RENAME l s"],
        &["MOVE s 1"],
        &["FLUSHALL"],
        &["FLUSHDB"],
        &["SWAPDB 0 1"],
        &["MULTI", "DEL s", "SADD s x", "EXEC"],
        &["MULTI", "DEL s", "XADD s 9-1 a b", "EXEC"],
        &["MULTI", "DEL s", "XGROUP CREATE s g $ MKSTREAM", "XADD s 9-1 a b", "EXEC"],
        &["XGROUP DESTROY s g"],
        &["XTRIM s MAXLEN 0", "XADD s 9-1 a b"],
        &["PEXPIREAT s 1"],
        &["LPUSH l x", "SORT l ALPHA STORE s"],
    ];
    let said = both().map(|server| {
        let (mut client, mut reader, mut other) =
            (server.connect(), server.connect(), server.connect());
        let mut heard = Vec::new();
        for way in ways {
            client.say("FLUSHALL");
            client.say("XGROUP CREATE s g $ MKSTREAM");
            client.say("XADD other 1-1 a b");
            reader.send(command(&words("XREADGROUP GROUP g al BLOCK 0 STREAMS s >")));
            other.send(command(&words("BLPOP s 0")));
            server.wait_for_blocked(1);
            // A stream is no list.
            heard.push(other.reply().text());
            for line in way {
                client.say(line);
            }
            heard.push(format!("{way:?}: {}", reader.reply().text()));
            assert_eq!(reader.say("PING"), "PONG");
        }
        heard
    });
    assert_eq!(said[0], said[1]);
}

/// Other blocking commands wait on, whatever becomes of the key.
#[test]
fn others_who_wait_go_on() {
    let ways = [
        ("XREAD BLOCK 0 STREAMS k $", "XADD k 9-1 a b"),
        ("BLPOP k 0", "RPUSH k x"),
        ("BZPOPMIN k 0", "ZADD k 1 x"),
        ("BLMOVE k to LEFT LEFT 0", "RPUSH k x"),
    ];
    let said = both().map(|server| {
        let (mut client, mut waiter) = (server.connect(), server.connect());
        let mut heard = Vec::new();
        for (waits, serves) in ways {
            for between in ["SET k 1", "FLUSHALL", "SADD k x", "DEL k"] {
                client.say("FLUSHALL");
                waiter.send(command(&words(waits)));
                server.wait_for_blocked(1);
                client.say(between);
                client.say("DEL k");
                client.say(serves);
                heard.push(waiter.reply().text());
            }
        }
        heard
    });
    assert_eq!(said[0], said[1]);
}

/// Parameters that Redis lets be set are set, shown, and refused with the same words.
#[test]
fn parameters_are_set_as_in_redis() {
    let lines = [
        "list-compress-depth 2",
        "list-compress-depth -1",
        "list-max-ziplist-size -5",
        "list-max-listpack-size x",
        "set-max-intset-entries 3",
        "zset-max-ziplist-entries 0",
        "zset-max-listpack-value 1kb",
        "zset-max-listpack-value 1xb",
        "hash-max-ziplist-value 1kb",
        "stream-node-max-bytes 0",
        "stream-node-max-entries 7",
        "hll-sparse-max-bytes 3000",
        "activerehashing no",
        "activerehashing maybe",
        "active-defrag-cycle-min 100",
        "active-defrag-ignore-bytes 2mb",
        "latency-monitor-threshold 200",
        "lua-time-limit 10",
        "busy-reply-threshold 5000",
        "appendonly no",
        "appendfsync always",
        "appendfsync never",
        "loglevel debug",
        "hz 100",
        "lfu-log-factor 5",
        "maxmemory-samples 0",
        "repl-diskless-load swapdb",
        "repl-ping-slave-period 3600",
        "shutdown-on-sigterm nosave",
        "sanitize-dump-payload no",
        "dir /nowhere",
        "daemonize yes",
        "nothing 1",
    ];
    let said = both().map(|server| {
        let mut client = server.connect();
        let mut heard = Vec::new();
        for line in lines {
            let name = words(line)[0];
            let set = client.say(&format!("CONFIG SET {line}"));
            let shown = match name {
                // Each has its own.
                "dir" | "daemonize" => String::new(),
                _ => client.say(&format!("CONFIG GET {name}")),
            };
            heard.push(format!("{line}: {set} {shown}"));
        }
        for save in ["900 1 300 10", "900", "0 1", ""] {
            heard.push(client.ask(&["CONFIG", "SET", "save", save]).text());
            heard.push(client.say("CONFIG GET save"));
        }
        heard
    });
    assert_eq!(said[0], said[1]);
}

/// A refused parameter leaves the others as they were, and a reload does not forget them.
#[test]
fn all_parameters_are_set_or_none() {
    let said = both().map(|server| {
        let mut client = server.connect();
        let mut heard = vec![client.say("CONFIG SET hz 50 list-compress-depth 1")];
        client.say("CONFIG SET hz 70 list-compress-depth x");
        heard.push(client.say("CONFIG GET hz"));
        heard.push(client.say("CONFIG GET list-compress-depth"));
        heard
    });
    assert_eq!(said[0], said[1]);
}

/// Blocks of a stream are as long as the client has them.
#[test]
fn approximate_trims_follow_the_length_of_nodes() {
    let said = both().map(|server| {
        let mut client = server.connect();
        let mut heard = Vec::new();
        for (node, count, trims) in [
            (
                10,
                100,
                &["XADD s MAXLEN ~ 55 LIMIT 30 * a b", "XADD s MAXLEN ~ 55 LIMIT 30 * a b"][..],
            ),
            (1, 102, &["XTRIM s MAXLEN ~ 1"]),
            (2, 3, &["XTRIM s MAXLEN ~ 0 LIMIT 1", "XTRIM s MAXLEN ~ 0 LIMIT 2"]),
            (100, 250, &["XTRIM s MAXLEN ~ 120"]),
        ] {
            client.say("DEL s");
            client.say(&format!("CONFIG SET stream-node-max-entries {node}"));
            (0..count).for_each(|_| drop(client.say("XADD s * a b")));
            for trim in trims {
                client.say(trim);
                heard.push(client.say("XLEN s"));
            }
        }
        heard
    });
    assert_eq!(said[0], said[1]);
}

/// Answers to single lines.
#[test]
fn lines_have_the_same_answers() {
    let lines = [
        "RPUSH l c a b d",
        "SORT l BY nosort DESC",
        "SORT l BY nosort",
        "SORT l BY nosort DESC LIMIT 1 2",
        "SORT l BY nosort LIMIT 1 2",
        "SORT_RO l BY nosort DESC LIMIT 3 9",
        "SORT l BY nosort DESC STORE m",
        "LRANGE m 0 -1",
        "ZADD z 1 4.9e-324",
        "SORT z",
        "SORT z ALPHA",
        "LPOS l a RANK -9223372036854775808",
        "LPOS l a RANK -9223372036854775807",
        "CLIENT CACHING maybe",
        "CLIENT TRACKING ON",
        "CLIENT CACHING maybe",
        "CLIENT CACHING yes",
        "CLIENT TRACKING OFF",
        "XADD s 1-1 a b",
        "XGROUP CREATE s g\0x $",
        "XREADGROUP GROUP h\0x al STREAMS s >",
        "XREADGROUP GROUP g\0x al STREAMS n\0x >",
        "XACK s h\0x 1-1",
        "XPENDING n\0x h\0x",
        "XGROUP DELCONSUMER s h\0x al",
        "COMMAND GETKEYS EVAL x 0",
        "COMMAND GETKEYS EVAL x 1 k",
        "COMMAND GETKEYS ZDIFFSTORE z 9 a b",
        "COMMAND GETKEYS ZDIFFSTORE z 2 a b",
        "COMMAND GETKEYS ZUNION 0 a",
        "COMMAND GETKEYS OBJECT FOO k",
        "COMMAND GETKEYS OBJECT ENCODING k",
        "COMMAND GETKEYSANDFLAGS SORT k STORE d",
        "COMMAND GETKEYSANDFLAGS SET k v",
        "COMMAND GETKEYSANDFLAGS ZUNIONSTORE d 2 a b",
        "COMMAND GETKEYSANDFLAGS MSET a 1 b 2",
    ];
    let said = both().map(|server| {
        let mut client = server.connect();
        lines.map(|line| format!("{line}: {}", client.say(line)))
    });
    assert_eq!(said[0], said[1]);
    let subcommands = both().map(|server| {
        let mut client = server.connect();
        client.say("HELLO 3");
        let told = client.ask(&["COMMAND", "INFO", "config", "get"]);
        let kind = |nth: usize| match &told.items()[nth].items()[9] {
            larder_tests::redis::Value::Many(kind, _) => char::from(*kind),
            other => panic!("{other:?}"),
        };
        [kind(0), kind(1)]
    });
    assert_eq!(subcommands[0], subcommands[1]);
}

/// EXEC does not fail for commands that change nothing.
#[test]
fn watched_streams_that_do_not_change() {
    let said = both().map(|server| {
        let (mut client, mut other) = (server.connect(), server.connect());
        client.say("XADD s 1-1 a b");
        client.say("XGROUP CREATE s g 0");
        client.say("XREADGROUP GROUP g al STREAMS s >");
        let mut heard = Vec::new();
        for line in [
            "XDEL s 5-5",
            "XAUTOCLAIM s g al 1000000 0",
            "XCLAIM s g al 1000000 1-1",
            "XACK s g 9-9",
            "XTRIM s MAXLEN 5",
            "XDEL s 1-1",
        ] {
            client.say("WATCH s");
            other.say(line);
            client.say("MULTI");
            client.say("PING");
            heard.push(format!("{line}: {}", client.say("EXEC")));
        }
        heard
    });
    assert_eq!(said[0], said[1]);
}

/// Scripts: commands that Redis refuses in them.
#[test]
fn scripts_may_not_wait_nor_publish_when_they_only_read() {
    let said = both().map(|server| {
        let mut client = server.connect();
        client.say("XADD s 1-1 a b");
        client.say("XGROUP CREATE s g $");
        [
            ("EVAL", "return redis.pcall('xread','BLOCK',0,'STREAMS','s','$')"),
            ("EVAL", "return redis.pcall('xread','STREAMS','s','0')"),
            (
                "EVAL",
                "return redis.pcall('xreadgroup','group','g','c','BLOCK',0,'STREAMS','s','>')",
            ),
            ("EVAL_RO", "return redis.pcall('pfcount','h')"),
            ("EVAL_RO", "return redis.pcall('publish','c','m')"),
            ("EVAL_RO", "return redis.pcall('spublish','c','m')"),
            ("EVAL", "return redis.pcall('publish','c','m')"),
            ("EVAL", "#!lua flags=no-writes\nreturn redis.pcall('publish','c','m')"),
        ]
        .map(|(name, text)| client.ask(&[name, text, "1", "s"]).text())
    });
    assert_eq!(said[0], said[1]);
}

/// A large message in a script: its tables take tens of megabytes.
#[test]
fn a_script_packs_large_tables() {
    let text = "local array, map = {}, {}
        for i = 1, 100000 do array[i] = i map[tostring(i)] = i end
        local packed = cmsgpack.pack({a = array, m = map})
        local again = cmsgpack.unpack(packed)
        local _, once = cmsgpack.unpack_one(packed, 0)
        return {#again.a, again.m['777'], once.m['100000']}";
    let larder = Redis::larder(&["--memory", "512MiB"]);
    let mut client = larder.connect();
    assert_eq!(client.ask(&["EVAL", text, "0"]).text(), "[100000 777 100000]");
    assert_eq!(client.ask(&["EVAL", text, "0"]).text(), "[100000 777 100000]");
}

/// While a script runs for long, transactions are refused as a whole, and PING tells.
#[test]
fn transactions_are_refused_while_a_script_runs_for_long() {
    let said = both().map(|server| {
        let mut client = server.connect();
        client.say("CONFIG SET busy-reply-threshold 10");
        client.say("SET xx 1");
        let mut heard = Vec::new();
        for (before, during, after) in [
            (&[][..], &["MULTI", "INCR xx"][..], &["INCR xx", "EXEC"][..]),
            (&["MULTI", "INCR xx"], &["INCR xx", "EXEC"], &[]),
            (&["MULTI", "INCR xx"], &["INCR xx"], &["EXEC"]),
            (&["MULTI", "INCR xx"], &["EXEC"], &[]),
            (&["MULTI", "INCR xx"], &["DISCARD"], &[]),
        ] {
            let (mut looping, mut other) = (server.connect(), server.connect());
            heard.extend(before.iter().map(|line| other.say(line)));
            looping.send(command(&["EVAL", "while true do end", "0"]));
            wait_until("the script to be long", || client.say("PING").starts_with("BUSY"));
            heard.extend(during.iter().map(|line| other.say(line)));
            assert_eq!(client.say("SCRIPT KILL"), "OK");
            assert!(looping.reply().is_error());
            wait_until("the script to end", || client.say("PING") == "PONG");
            heard.extend(after.iter().map(|line| other.say(line)));
            heard.push(other.say("PING"));
            heard.push(client.say("GET xx"));
        }
        heard
    });
    assert_eq!(said[0], said[1]);
}

/// A script in a loop does not keep the process from ending.
#[test]
fn a_script_in_a_loop_ends_with_the_process() {
    let mut larder = Redis::larder(&[]);
    let (mut client, mut looping) = (larder.connect(), larder.connect());
    client.say("CONFIG SET busy-reply-threshold 10");
    looping.send(command(&["EVAL", "while true do redis.call('SET', 'k', 1) end", "1", "k"]));
    wait_until("the script to be long", || client.say("PING").starts_with("BUSY"));
    larder.term();
    assert!(larder.wait_exit().success());
}

/// INFO tells of clients that a pause holds up, and of changes; CONFIG RESETSTAT forgets latencies.
#[test]
fn figures_are_those_of_redis() {
    let said = both().map(|server| {
        let (mut client, mut paused) = (server.connect(), server.connect());
        let figure = |client: &mut larder_tests::Resp<std::net::TcpStream>, name: &str| {
            let info = client.say("INFO everything");
            let line = info.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap();
            line.to_owned()
        };
        client.say("CLIENT PAUSE 100000 WRITE");
        paused.send(command(&words("SET k 1")));
        server.wait_for_blocked(1);
        client.say("CLIENT UNPAUSE");
        let mut heard = vec![paused.reply().text()];
        server.wait_for_blocked(0);
        heard.push(figure(&mut client, "rdb_changes_since_last_save:"));
        client.say("SET k 2");
        client.say("GET k");
        heard.push(figure(&mut client, "rdb_changes_since_last_save:"));
        client.say("CONFIG RESETSTAT");
        heard.push(client.say("LATENCY HISTOGRAM set get"));
        client.say("SET k 3");
        client.say("SET k 4");
        client.say("GET k");
        let told = client.ask(&["LATENCY", "HISTOGRAM", "set", "get", "nothing"]);
        let mut names: Vec<_> = told.items().iter().step_by(2).map(|name| name.text()).collect();
        names.sort();
        heard.extend(names);
        let told = client.ask(&["LATENCY", "HISTOGRAM", "set"]);
        heard.push(told.items()[1].items()[1].text());
        heard
    });
    assert_eq!(said[0], said[1]);
}

/// A command that waited is in the slow log when it was served, after that which served it.
#[test]
fn a_command_that_waited_is_in_the_slow_log() {
    let said = both().map(|server| {
        let (mut client, mut waiter) = (server.connect(), server.connect());
        waiter.send(command(&words("BLPOP l 0")));
        server.wait_for_blocked(1);
        waiter = {
            client.say("DEL nothing");
            client.say("CONFIG SET slowlog-log-slower-than 0");
            client.say("LPUSH l x");
            waiter.reply();
            waiter.send(command(&words("BLPOP l 0")));
            server.wait_for_blocked(1);
            waiter
        };
        for line in ["MULTI", "LPUSH l x", "SLOWLOG RESET", "EXEC"] {
            client.say(line);
        }
        let first = client.ask(&["SLOWLOG", "GET", "1"]).items()[0].items()[3].text();
        assert_eq!(waiter.reply().text(), "[l x]");
        first
    });
    assert_eq!(said[0], said[1]);
}

/// A pause of writes holds up what Redis replicates: messages and scripts too.
#[test]
fn a_pause_of_writes_holds_messages_and_scripts_up() {
    for server in both() {
        let mut client = server.connect();
        client.say("PFADD h a");
        client.say("CLIENT PAUSE 100000 WRITE");
        let lines = ["PUBLISH c m", "SPUBLISH c m", "PFCOUNT h", "EVAL return(1) 0"];
        let mut held = lines.map(|line| {
            let mut talk = server.connect();
            talk.send(command(&words(line)));
            talk
        });
        server.wait_for_blocked(lines.len());
        assert_eq!(client.say("EVAL_RO return(1) 0"), "1");
        client.say("CLIENT UNPAUSE");
        assert_eq!(held.each_mut().map(|talk| talk.reply().text()), ["0", "0", "1", "1"]);
    }
}

/// A time to live is never longer than the client asked for.
#[test]
fn a_time_to_live_is_no_longer_than_asked_for() {
    let larder = Redis::larder(&[]);
    let mut client = larder.connect();
    client.say("SET k v");
    let longest = (0..500).map(|_| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        client.say(&format!("GETEX k PXAT {}", now.as_millis() + 10_000));
        client.say("PTTL k").parse::<u64>().unwrap()
    });
    assert!(longest.max().unwrap() <= 10_000);
}
