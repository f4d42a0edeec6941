//! FUNCTION and FCALL: libraries to Larder and to Debian's redis-server get the same answers; they
//! are on all workers, and stay over a snapshot.
//!
//! The order of libraries and functions in FUNCTION LIST is that of a shuffled table in Redis: it is
//! compared in sorted order. Not compared: `error({})`, and functions of a library whose names
//! differ in case alone, at which Redis 7.0.15 ends; raw writes to the globals, which are undone here.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use std::net::TcpStream;

use larder_tests::{Larder, Redis, Resp, Scratch, Value, wait_until};

/// Codes of a library `lib` that are refused, or taken.
const LIBRARIES: &[&str] = &[
    "",
    "redis.register_function()",
    "redis.register_function(1)",
    "redis.register_function('x')",
    "redis.register_function(1,2)",
    "redis.register_function('f',2)",
    "redis.register_function({},function() end)",
    "redis.register_function(7,function() return 'seven' end)",
    "redis.register_function('f-a',function() end)",
    "redis.register_function('',function() end)",
    "redis.register_function('f',function() end,1)",
    "redis.register_function{1}",
    "redis.register_function{[true]=1}",
    "redis.register_function{function_name={}}",
    "redis.register_function{function_name='f'}",
    "redis.register_function{callback=function() end}",
    "redis.register_function{function_name='f',callback=1}",
    "redis.register_function{function_name='f',callback=function() end,flags=1}",
    "redis.register_function{function_name='f',callback=function() end,flags={'x'}}",
    "redis.register_function{function_name='f',callback=function() end,flags={1}}",
    "redis.register_function{function_name='f',callback=function() end,flags={}}",
    "redis.register_function{function_name='f',callback=function() end,x=1}",
    "redis.register_function{function_name='f',callback=function() end,description=1}",
    "redis.register_function{function_name='f',callback=function() end,description={}}",
    "redis.register_function{function_name='f',callback=function() end,description='of f',\
     flags={'no-writes','allow-oom','allow-stale','no-cluster','allow-cross-slot-keys'}}",
    "redis.call('ping')",
    "redis.nosuch()",
    "redis.sha1hex('')",
    "redis.setresp(3)",
    "local a = redis.LOG_NOTICE .. redis.REDIS_VERSION redis.register_function('f', \
     function() return a end)",
    "redis.log(redis.LOG_NOTICE,'x') redis.register_function('f',function() end)",
    "x=1",
    "local a = x",
    "local a = KEYS",
    "local a = string",
    "local a = pcall",
    "local a = _G",
    "redis.x=1",
    "local function f( end",
    "\n\nlocal a = nil + 1",
    "return redis.register_function('f',function() end)",
    "local a = ('x'):rep(3) redis.register_function('f',function() return a end)",
    "while true do end",
    "local function f() return f() end f()",
];

/// Bodies of a function with a key and two arguments.
const BODIES: &[&str] = &[
    "return keys",
    "return args",
    "return {#keys, #args, keys[1], args[2]}",
    "return redis.nosuch",
    "return nosuch",
    "return KEYS",
    "return _G.ARGV",
    "x=1",
    "redis.x=1",
    "_G.x=1",
    "return redis.register_function('a',function() end)",
    "return redis.call('set',keys[1],1)",
    "return redis.call('incr',keys[1])",
    "return redis.call('nosuch')",
    "return redis.pcall('nosuch')",
    "return redis.call('fcall', 'g', '0')",
    "return redis.pcall('function', 'list')",
    "error('boom')",
    "error({err='boom'})",
    "error({err='ERR boom'})",
    "return {err='boom'}",
    "return {ok='fine'}",
    "return redis.error_reply('A B')",
    "return tostring(redis.breakpoint)",
    "return tostring(redis.replicate_commands)",
    "return tostring(redis.debug)",
    "return redis.REDIS_VERSION",
    "return loadstring('return 1')()",
    "return loadstring('return KEYS')()",
    "return tostring(_G) ~= nil",
    "local t={} for k in pairs(redis) do t[#t+1]=k end table.sort(t) return t",
    "return redis.acl_check_cmd('nosuch')",
    "return redis.acl_check_cmd('get', 'a')",
    "return nil+1",
    "local a={} return a.b.c",
    "redis.setresp(3) return redis.call('hgetall', 'nosuch')",
    "return select(2, pcall(function() return nosuch end))",
    "return cjson.encode({keys, args})",
    "rawset(_G, 'a', 1)",
    "setmetatable(_G, {})",
    "return getmetatable(_G) == nil",
    "return math.floor(3.7)",
    "return redis.sha1hex('a')",
    "return 1.9",
    "return {1, 2, nil, 4}",
    "",
];

/// Both answer the same.
#[track_caller]
fn same(pair: &mut [Resp<TcpStream>; 2], words: &[impl AsRef<[u8]>]) -> Value {
    let [ours, theirs] = pair.each_mut().map(|client| client.ask(words));
    let shown: Vec<_> =
        words.iter().map(|w| String::from_utf8_lossy(w.as_ref()).into_owned()).collect();
    assert!(ours == theirs, "{shown:?}\n{}\n{}", text(&ours), text(&theirs));
    ours
}

fn text(value: &Value) -> String {
    match value {
        Value::Many(kind, Some(items)) => {
            let items: Vec<String> = items.iter().map(text).collect();
            format!("{}[{}]", char::from(*kind), items.join(", "))
        }
        other => other.text(),
    }
}

/// A value with all lists in sorted order.
fn sorted(value: Value) -> Value {
    match value {
        Value::Many(kind, Some(items)) => {
            let mut items: Vec<Value> = items.into_iter().map(sorted).collect();
            items.sort();
            Value::Many(kind, Some(items))
        }
        other => other,
    }
}

fn library(name: &str, code: &str) -> String {
    format!("#!lua name={name}\n{code}")
}

#[test]
fn libraries_and_functions_answer_as_in_redis() {
    let (larder, redis) = (Redis::larder(&[]), Redis::debian(&[]));
    for version in ["2", "3"] {
        let mut pair = [larder.connect(), redis.connect()];
        for client in &mut pair {
            client.ask(&["HELLO", version]);
            client.ask(&["FUNCTION", "FLUSH"]);
            client.ask(&["FLUSHALL"]);
        }
        for code in LIBRARIES {
            let code = library("lib", code);
            same(&mut pair, &["FUNCTION", "LOAD", "REPLACE", &code]);
            same(&mut pair, &["FCALL", "f", "0"]);
            same(&mut pair, &["FCALL_RO", "f", "0"]);
            same(&mut pair, &["FUNCTION", "LIST"]);
        }
        for body in BODIES {
            let code = format!("redis.register_function('g', function(keys, args) {body} end)");
            same(&mut pair, &["FUNCTION", "LOAD", "REPLACE", &library("g", &code)]);
            same(&mut pair, &["FCALL", "g", "1", "k", "a", "b"]);
            same(&mut pair, &["FCALL", "g", "1", "k", "a", "b"]);
        }
    }
}

#[test]
fn commands_of_functions_answer_as_in_redis() {
    let (larder, redis) = (Redis::larder(&[]), Redis::debian(&[]));
    let mut pair = [larder.connect(), redis.connect()];
    let ro = library(
        "ro",
        "redis.register_function{function_name='ro', description='of ro', flags={'no-writes'}, \
         callback=function(k) return redis.call('set', k[1], 1) end} \
         redis.register_function('rw', function(k) return redis.call('incr', k[1]) end)",
    );
    for head in [
        "return 1",
        "#!lua\nreturn 1",
        "#!lua name=a-b\n",
        "#!lua name=\n",
        "#!lua name=a name=b\nx",
        "#!perl name=a\nx",
        "#!lua name=a foo=b\nx",
        "#!lua name=a",
        "#!lua foo\nx",
        "#!LUA name=u\nredis.register_function('u', function() return 1 end)",
    ] {
        same(&mut pair, &["FUNCTION", "LOAD", head]);
    }
    same(&mut pair, &["FUNCTION", "LOAD", &ro]);
    let of_ro = library("other", "redis.register_function('RO', function() end)");
    for words in [
        &["FUNCTION", "LOAD", &ro][..],
        &["FUNCTION", "LOAD", "REPLACE", &ro],
        &["FUNCTION", "LOAD", &of_ro],
        &["FUNCTION", "LOAD", "REPLACE", &of_ro],
        &["FUNCTION", "LOAD", "X", &ro],
        &["FUNCTION", "LOAD", "REPLACE", "REPLACE", &ro],
        &["FUNCTION", "LOAD"],
        &["FCALL", "ro", "1", "k"],
        &["FCALL_RO", "ro", "1", "k"],
        &["FCALL", "rw", "1", "k"],
        &["FCALL_RO", "rw", "1", "k"],
        &["FCALL", "RW", "1", "k"],
        &["FCALL", "nosuch", "0"],
        &["FCALL", "rw", "x"],
        &["FCALL", "rw", "-1"],
        &["FCALL", "rw", "5"],
        &["FCALL", "rw"],
        &["EVAL_RO", "#!lua\nreturn 1", "0"],
        &["EVAL_RO", "#!lua flags=no-writes\nreturn 1", "0"],
        &["EVAL", "#!lua\nreturn 1", "0"],
        &["FUNCTION", "LIST", "LIBRARYNAME", "nosuch*"],
        &["FUNCTION", "LIST", "LIBRARYNAME", "u", "WITHCODE"],
        &["FUNCTION", "LIST", "X"],
        &["FUNCTION", "LIST", "LIBRARYNAME"],
        &["FUNCTION", "LIST", "WITHCODE", "WITHCODE"],
        &["FUNCTION", "LIST", "LIBRARYNAME", "a", "LIBRARYNAME", "b"],
        &["FUNCTION", "STATS"],
        &["FUNCTION", "KILL"],
        &["SCRIPT", "KILL"],
        &["FUNCTION", "HELP"],
        &["FUNCTION", "NOSUCH"],
        &["FUNCTION"],
        &["FUNCTION", "FLUSH", "X"],
        &["FUNCTION", "FLUSH", "SYNC", "X"],
        &["FUNCTION", "DELETE", "nosuch"],
        &["FUNCTION", "RESTORE", "x"],
        &["FUNCTION", "RESTORE", "x", "NOW"],
        &["FUNCTION", "RESTORE", "x", "FLUSH", "x"],
        &["COMMAND", "GETKEYS", "FCALL", "f", "2", "a", "b", "c"],
        &["COMMAND", "INFO", "fcall", "fcall_ro", "function|load"],
        &["COMMAND", "DOCS", "fcall", "function|restore"],
        &["MULTI"],
        &["FCALL", "rw", "1", "k"],
        &["FUNCTION", "DELETE", "u"],
        &["FCALL", "u", "0"],
        &["EXEC"],
    ] {
        same(&mut pair, words);
    }
    let lists = pair.each_mut().map(|client| sorted(client.ask(&["FUNCTION", "LIST", "WITHCODE"])));
    assert!(lists[0] == lists[1], "{}\n{}", text(&lists[0]), text(&lists[1]));
    // Each restores the other's payload.
    let dump = |client: &mut Resp<TcpStream>| match client.ask(&["FUNCTION", "DUMP"]) {
        Value::Bulk(_, Some(bytes)) => bytes,
        other => panic!("{other:?}"),
    };
    for payload in pair.each_mut().map(dump) {
        let mut broken = payload.clone();
        *broken.last_mut().unwrap() ^= 1;
        for (payload, policy) in
            [(&payload, "APPEND"), (&payload, "REPLACE"), (&broken, "REPLACE"), (&payload, "FLUSH")]
        {
            let words: [&[u8]; 4] = [b"FUNCTION", b"RESTORE", payload, policy.as_bytes()];
            same(&mut pair, &words);
            same(&mut pair, &["FCALL", "rw", "1", "k"]);
        }
    }
    same(&mut pair, &["FUNCTION", "FLUSH", "ASYNC"]);
    same(&mut pair, &["FUNCTION", "DUMP"]);
    same(&mut pair, &["FUNCTION", "LIST"]);
    same(&mut pair, &["FCALL", "rw", "1", "k"]);
}

/// A library that one connection loads is there for those of other workers, and so is its
/// replacement; functions of a state never are those of an older library of the same name.
#[test]
fn libraries_are_on_all_workers() {
    let larder = Redis::larder(&[]);
    let mut clients: Vec<_> = (0..8).map(|_| larder.connect()).collect();
    for round in 0..20 {
        let code = format!("redis.register_function('f', function() return {round} end)");
        let loader = round % clients.len();
        let words = ["FUNCTION", "LOAD", "REPLACE", &library("lib", &code)];
        assert_eq!(clients[loader].ask(&words).text(), "lib");
        for client in &mut clients {
            assert_eq!(client.say("FCALL f 0"), round.to_string());
        }
    }
    assert_eq!(clients[0].say("FUNCTION DELETE lib"), "OK");
    for client in &mut clients {
        assert_eq!(client.say("FCALL f 0"), "ERR Function not found");
    }
}

/// A function that runs for long is seen and ended by FUNCTION KILL, and not by SCRIPT KILL.
#[test]
fn long_functions_are_killed() {
    let larder = Redis::larder(&[]);
    let (mut admin, mut client) = (larder.connect(), larder.connect());
    let code = library("l", "redis.register_function('long', function() while true do end end)");
    assert_eq!(admin.ask(&["FUNCTION", "LOAD", &code]).text(), "l");
    client.send(larder_tests::redis::command(&["FCALL", "long", "1", "k", "arg"]));
    wait_until("the function to be seen", || {
        let stats = admin.ask(&["FUNCTION", "STATS"]);
        text(&stats).contains("*[name, long, command, *[FCALL, long, 1, k, arg], duration_ms, ")
    });
    assert!(admin.say("SCRIPT KILL").starts_with("BUSY"));
    assert_eq!(admin.say("FUNCTION KILL"), "OK");
    assert!(client.reply().text().starts_with("ERR Script killed by user"));
    assert_eq!(admin.say("FUNCTION KILL"), "NOTBUSY No scripts in execution right now.");
}

/// Libraries are kept over a restart with a snapshot.
#[test]
fn libraries_stay_over_a_snapshot() {
    let dir = Scratch::new("functions");
    let file = dir.file("snapshot");
    let config = format!(
        "memory = \"32MiB\"\nsnapshot = \"{}\"\n[http]\nlisten = \"127.0.0.1:0\"\n[[site]]\n\
         origin = \"http://127.0.0.1:9\"\n[redis]\nlisten = \"127.0.0.1:0\"\n",
        file.display()
    );
    let code = library("kept", "redis.register_function('f', function() return 'here' end)");
    let mut larder = Larder::with_config(&config);
    let mut client = Resp::tcp(larder.face("redis"));
    assert_eq!(client.ask(&["FUNCTION", "LOAD", &code]).text(), "kept");
    let list = text(&client.ask(&["FUNCTION", "LIST", "WITHCODE"]));
    drop(client);
    larder.term();
    larder.wait_exit();
    let larder = Larder::with_config(&config);
    let mut client = Resp::tcp(larder.face("redis"));
    assert_eq!(client.say("FCALL f 0"), "here");
    assert_eq!(text(&client.ask(&["FUNCTION", "LIST", "WITHCODE"])), list);
}
