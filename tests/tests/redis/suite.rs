//! Places where Redis's own test suite stopped, or found a difference: the same lines to Larder and
//! to Debian's redis-server, with the same answers.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::Redis;
use larder_tests::redis::command;

fn both() -> [Redis; 2] {
    [
        Redis::larder(&["--memory", "256MiB", "--maxmemory-policy", "noeviction"]),
        Redis::debian(&["--maxmemory-policy", "noeviction"]),
    ]
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// The answers to lines; a text behind `|` is the script.
fn answers(lines: &[&str]) -> [Vec<String>; 2] {
    both().map(|server| {
        let mut client = server.connect();
        let mut said = Vec::new();
        for line in lines {
            let (head, script) = line.split_once('|').unwrap_or((line, ""));
            let mut parts = words(head);
            if !script.is_empty() {
                parts.insert(if parts[0] == "FUNCTION" { 2 } else { 1 }, script);
            }
            said.push(format!("{line}: {}", client.ask(&parts).text()));
        }
        said
    })
}

/// Without replicas, and with a full memory, commands are refused that Redis refuses.
#[test]
fn writes_are_refused_as_by_redis() {
    for setting in ["min-replicas-to-write", "maxmemory"] {
        let on = format!("CONFIG SET {setting} 1");
        let off = format!("CONFIG SET {setting} 0");
        let said = answers(&[
            "SET x 1",
            "FUNCTION LOAD|#!lua name=one\nredis.register_function('w', function() return 1 end)\n\
             redis.register_function{function_name='r', callback=function() return 2 end, \
             flags={'no-writes'}}",
            &on,
            "SET x 2",
            "GET x",
            "DEL y",
            "PUBLISH c m",
            "EVAL 1 x|return redis.call('set', KEYS[1], 1)",
            "EVAL 1 x|return redis.pcall('set', KEYS[1], 1)",
            "EVAL 1 x|return redis.call('get', KEYS[1])",
            "EVAL 1 x|#!lua\nreturn 1",
            "EVAL 1 x|#!lua flags=allow-oom\nreturn redis.call('set', KEYS[1], 3)",
            "EVAL 1 x|#!lua flags=no-writes\nreturn redis.call('get', KEYS[1])",
            "EVAL_RO 1 x|return redis.call('get', KEYS[1])",
            "FCALL w 0",
            "FCALL r 0",
            "MULTI",
            "GET x",
            "EXEC",
            "DISCARD",
            "MULTI",
            &off,
            "DISCARD",
            &off,
            "SET x 4",
            "MULTI",
            "SET x 5",
            "EXEC",
            "CONFIG SET min-replicas-to-write -1",
        ]);
        assert_eq!(said[0], said[1]);
    }
}

/// An error of a command in a script is counted once.
#[test]
fn errors_in_scripts_are_counted_once() {
    let said = both().map(|server| {
        let mut client = server.connect();
        [
            "return redis.call('select', 99)",
            "return redis.pcall('select', 99)",
            "redis.pcall('select', 99) return 1",
            "return redis.error_reply('MY_CODE text')",
            "return redis.call('geoadd', 's', 'x', 'y', 'z')",
            "return redis.call('nothing')",
            "return redis.call('set', 'a')",
            "return redis.call('subscribe', 'c')",
            "return nothing",
        ]
        .map(|script| {
            client.say("CONFIG RESETSTAT");
            client.ask(&["EVAL", script, "0"]);
            let errors = client.say("INFO errorstats");
            let stats = client.say("INFO commandstats");
            let counts = stats.lines().filter(|line| !line.contains("cmdstat_config"));
            let mut counts: Vec<String> = counts
                .filter_map(|line| {
                    let (name, rest) = line.split_once(":calls=")?;
                    let calls = rest.split_once(',')?.0;
                    Some(format!("{name} {calls} {}", rest.split_once("rejected_calls")?.1))
                })
                .filter(|line| !line.starts_with("cmdstat_info"))
                .collect();
            counts.sort_unstable();
            format!("{script}: {errors} {counts:?}")
        })
    });
    assert_eq!(said[0], said[1]);
}

/// Clients that track prefixes are told of the keys of a command in one message for each prefix.
#[test]
fn keys_of_a_command_are_invalidated_together() {
    let said = both().map(|server| {
        let (mut reader, mut writer) = (server.connect(), server.connect());
        reader.say("HELLO 3");
        reader.say("CLIENT TRACKING ON BCAST PREFIX b: PREFIX a:");
        let mut heard = Vec::new();
        for (lines, messages) in [
            (&["MSET b:2 1 a:3 1 c:1 1 b:1 1 a:1 1"][..], 2),
            (&["MULTI", "INCR a:2", "INCR b:9", "INCR a:2", "INCR a:1", "EXEC"], 2),
            (&["MSET a:2 1 a:3 1"], 1),
            (&["DEL a:1 a:2 a:9"], 1),
            (&["RENAME a:3 b:3"], 2),
        ] {
            for line in lines {
                writer.say(line);
            }
            (0..messages).for_each(|_| heard.push(reader.reply().text()));
        }
        heard
    });
    assert_eq!(said[0], said[1]);
}

/// Monitors see a script before its commands.
#[test]
fn scripts_are_shown_before_their_commands() {
    let said = both().map(|server| {
        let (mut monitor, mut client) = (server.connect(), server.connect());
        client.ask(&[
            "FUNCTION",
            "LOAD",
            "#!lua name=l\nredis.register_function('f', function() redis.call('get', 'b') end)",
        ]);
        monitor.send(command(&["MONITOR"]));
        assert_eq!(monitor.reply().text(), "OK");
        client.ask(&["EVAL", "redis.call('set', 'a', 1)", "1", "a"]);
        client.say("FCALL f 0");
        client.say("EVAL return(1) nothing");
        client.say("MULTI");
        client.say("EVAL return(1) 0");
        client.say("EXEC");
        client.say("PING");
        let shown = (0..9).map(|_| {
            let line = monitor.reply().text();
            let (head, rest) = line.split_once("] ").unwrap();
            format!("{} {rest}", head.ends_with("lua"))
        });
        shown.collect::<Vec<_>>()
    });
    assert_eq!(said[0], said[1]);
}

/// PFDEBUG and PFSELFTEST.
#[test]
fn hyperloglogs_are_shown_as_by_redis() {
    let said = answers(&[
        "PFSELFTEST",
        "PFDEBUG ENCODING h",
        "PFADD h a b c",
        "PFDEBUG ENCODING h",
        "PFDEBUG DECODE h",
        "PFDEBUG TODENSE h",
        "PFDEBUG TODENSE h",
        "PFDEBUG ENCODING h",
        "PFDEBUG DECODE h",
        "PFDEBUG GETREG h",
        "GET h",
        "PFADD i a b c d e f",
        "PFDEBUG GETREG i",
        "PFDEBUG ENCODING i",
        "PFDEBUG NOTHING i",
        "PFDEBUG GETREG",
        "SET s x",
        "PFDEBUG GETREG s",
        "COMMAND INFO pfdebug pfselftest",
        "COMMAND DOCS pfdebug pfselftest",
    ]);
    assert_eq!(said[0], said[1]);
}

/// Settings, libraries, lists of commands.
#[test]
fn further_lines_have_the_same_answers() {
    let said = answers(&[
        "CONFIG SET maxmemory-clients 200%",
        "CONFIG SET maxmemory-clients x",
        "CONFIG SET maxmemory x",
        "CONFIG SET maxmemory 100mb maxmemory-clients 101%",
        "CONFIG SET maxmemory 100mb",
        "CONFIG GET maxmemory",
        "CONFIG SET maxmemory-policy nothing",
        "CONFIG GET key-load-delay",
        "CONFIG GET *load-delay",
        "CONFIG SET latency-monitor-threshold 20",
        "CONFIG GET latency-monitor-threshold",
        "LATENCY LATEST",
        "LATENCY HISTORY command",
        "LATENCY RESET",
        "LATENCY RESET command",
        "LATENCY GRAPH command",
        "FUNCTION LOAD|#!lua name=\"quoted\"\nredis.register_function('q', function() end)",
        "FUNCTION LOAD|#! name=none\nredis.register_function('q2', function() end)",
        "FUNCTION LOAD|#!lua name=\"open\nredis.register_function('q3', function() end)",
        "FUNCTION LOAD|#!lua name=late\nlocal r = redis\nr.register_function('q4', function() \
         r.register_function('q5', function() end) end)",
        "FCALL q4 0",
        "EVAL 0|local a = {} local b = {a} a[1] = b return {1, 2}",
    ]);
    assert_eq!(said[0], said[1]);
    let listed = both().map(|server| {
        let mut client = server.connect();
        let all = client.say("COMMAND LIST");
        ["get", "client", "client|list", "config|resetstat"].map(|name| all.contains(name))
    });
    assert_eq!(listed[0], listed[1]);
}

/// Commands that take longer than the threshold are noted.
#[test]
fn slow_commands_are_latency_events() {
    for server in both() {
        let mut client = server.connect();
        client.say("CONFIG SET latency-monitor-threshold 20");
        let script = "local function now() local t = redis.call('time') return t[1] * 1e6 + t[2] \
                      end local start = now() while now() < start + 200000 do end return 1";
        assert_eq!(client.ask(&["EVAL", script, "0"]).text(), "1");
        let latest = client.ask(&["LATENCY", "LATEST"]);
        assert_eq!(latest.items()[0].items()[0].text(), "command");
        let history = ["LATENCY", "HISTORY", "command"];
        assert!(!client.ask(&history).items().is_empty());
        assert!(client.say("LATENCY GRAPH command").starts_with("command - high "));
        // On a busy machine fast commands are slow, too.
        let reset = client.say("LATENCY RESET fast-command nothing command");
        assert!(["1", "2"].contains(&&*reset), "{reset}");
        assert!(client.ask(&history).items().is_empty());
    }
}

/// A client sees the length of its own command in CLIENT LIST.
#[test]
fn a_command_counts_in_the_list_of_clients() {
    let said = both().map(|server| {
        let mut client = server.connect();
        ["CLIENT INFO", "CLIENT LIST"].map(|line| {
            let shown = client.say(line);
            ["qbuf=", "argv-mem=", "multi-mem="].map(|name| {
                let word = shown.split(' ').find(|word| word.starts_with(name));
                word.unwrap().to_owned()
            })
        })
    });
    assert_eq!(said[0], said[1]);
}
