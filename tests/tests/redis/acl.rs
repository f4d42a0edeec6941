//! Users and their rights, beside Debian's redis-server: rules, lists, refused commands, open
//! connections, files.
//!
//! Redis lists the single commands of a rule in the order of a shuffled table: the words of rules
//! are compared in sorted order. Not compared: descriptions of clients and times in ACL LOG; the
//! rules `%`, `%R` and `%~x`, which Redis 7.0.15 takes and ends at.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use std::net::TcpStream;

use larder_tests::{
    Larder, Redis, Resp, Scratch, Value, memcache_stream::Dice, redis::command, wait_until,
};

/// A value with the words of rules in sorted order.
fn sorted(value: Value) -> Value {
    match value {
        Value::Bulk(kind, Some(text)) if text.contains(&b'@') => {
            let mut words: Vec<&[u8]> = text.split(|byte| b" ()".contains(byte)).collect();
            words.sort();
            Value::Bulk(kind, Some(words.join(&b' ')))
        }
        Value::Many(kind, Some(items)) => {
            Value::Many(kind, Some(items.into_iter().map(sorted).collect()))
        }
        other => other,
    }
}

/// Both answer the same.
#[track_caller]
fn same(pair: &mut [Resp<TcpStream>; 2], words: &[&str]) -> Value {
    let [ours, theirs] = pair.each_mut().map(|client| sorted(client.ask(words)));
    let (told, wanted) = (shown(&ours), shown(&theirs));
    assert!(ours == theirs || of_redis(&told) == wanted, "{words:?}\n{told}\n{wanted}");
    ours
}

/// The rules of a user without those about commands that Redis 7.0 does not have.
fn of_redis(told: &str) -> String {
    let later = |word: &str| {
        word.strip_prefix(['+', '-'])
            .is_some_and(|name| LATER.contains(&name.trim_end_matches(',')))
    };
    told.split(' ').filter(|word| !later(word)).collect::<Vec<_>>().join(" ")
}

/// Commands of Redis 7.4 and 8.0.
const LATER: &[&str] = &[
    "hexpire",
    "hexpireat",
    "hexpiretime",
    "hgetdel",
    "hgetex",
    "hpersist",
    "hpexpire",
    "hpexpireat",
    "hpexpiretime",
    "hpttl",
    "hsetex",
    "httl",
];

/// A value in a line.
fn shown(value: &Value) -> String {
    match value {
        Value::Many(kind, Some(items)) => {
            let items: Vec<String> = items.iter().map(shown).collect();
            format!("{}[{}]", char::from(*kind), items.join(", "))
        }
        other => other.text(),
    }
}

fn pair(larder: &Redis, redis: &Redis) -> [Resp<TcpStream>; 2] {
    [larder.connect(), redis.connect()]
}

const RULES: &[&str] = &[
    "on",
    "off",
    "nopass",
    "resetpass",
    "reset",
    "allkeys",
    "~*",
    "resetkeys",
    "allchannels",
    "&*",
    "resetchannels",
    "allcommands",
    "+@all",
    "nocommands",
    "-@all",
    "clearselectors",
    "sanitize-payload",
    "skip-sanitize-payload",
    ">one",
    ">two",
    "<one",
    "<two",
    "",
    "#2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
    "!2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
    "#short",
    "!no",
    "#2D711642B726B04401627CA9FBAC32F5C8530FB1903CC4DB02258717921A4881",
    "~a*",
    "~b",
    "%R~r*",
    "%W~w*",
    "%RW~a*",
    "%rw~both",
    "%W~r*",
    "%X~a",
    "%RR~a",
    "~with space",
    "&news",
    "&n*",
    "& x",
    "+@read",
    "-@read",
    "+@write",
    "-@write",
    "+@string",
    "-@string",
    "+@dangerous",
    "-@dangerous",
    "+@admin",
    "-@admin",
    "+@slow",
    "-@fast",
    "+@connection",
    "-@scripting",
    "+@pubsub",
    "+@hash",
    "+@list",
    "+@nosuch",
    "+get",
    "-get",
    "+GET",
    "+set",
    "-set",
    "+config",
    "-config",
    "+config|get",
    "-config|get",
    "-config|set",
    "+CONFIG|SET",
    "+config|nosuch",
    "+nosuch",
    "-nosuch",
    "+get|first",
    "+select|0",
    "+SELECT|0",
    "+select|1",
    "-select|0",
    "+config|get|x",
    "+get|",
    "+config|",
    "+",
    "-",
    "+|x",
    "@read",
    "nonsense",
    "+acl",
    "+acl|whoami",
    "-acl",
    "+client|id",
    "+client",
    "+module",
    "-replicaof",
    "-debug",
    "-flushall",
    "-keys",
    "+publish",
    "+subscribe",
    "+psubscribe",
    "+eval",
    "+multi",
    "+exec",
    "+sort",
    "+mset",
    "+mget",
    "+del",
    "+copy",
    "+bitfield",
    "+xadd",
    "+function|load",
    "(+get ~s*)",
    "(%R~x &c -@all +@write)",
    "(+nosuch)",
    "(~* ~a)",
    "()",
    "(\"+set\" ~q)",
    "(\"+set ~q)",
    "(",
    ")",
    "(+get",
    "~k)",
    "(on)",
    "(>x)",
    "(+@all ~* &*)",
];

const COMMANDS: &[&str] = &[
    "get a1",
    "get r1",
    "get w1",
    "get s1",
    "set a1 x",
    "set a1 x get",
    "set w1 x",
    "set r1 x",
    "mget a1 b r1",
    "mset a1 1 b 2",
    "del a1 w1",
    "exists a1",
    "exists zz",
    "copy r1 w1",
    "copy w1 r1",
    "config get maxmemory",
    "config set maxclients 100",
    "config help",
    "select 0",
    "select 1",
    "acl whoami",
    "acl list",
    "acl cat",
    "client id",
    "publish news x",
    "publish other x",
    "subscribe news",
    "psubscribe n*",
    "psubscribe x*",
    "spublish news x",
    "ssubscribe news other",
    "ping",
    "auth a b",
    "hello",
    "eval return(1) 1 a1",
    "eval return(1) 0",
    "sort r1",
    "sort r1 by x*",
    "sort r1 by x* get #",
    "sort r1 store w1",
    "xread streams r1 0",
    "xadd w1 * a b",
    "bitfield r1 get u8 0",
    "bitfield r1 set u8 0 1",
    "georadius r1 0 0 1 m",
    "georadius r1 0 0 1 m store w1",
    "lmpop 1 r1 left",
    "zunionstore w1 2 r1 r2",
    "flushall",
    "keys *",
    "nosuch",
    "get",
    "config nosuch",
    "object freq r1",
    "memory usage r1",
    "hset w1 a b",
    "type zz",
    "unlink w1 r1",
    "getex r1",
    "set r1 x ex 1",
    "rename r1 w1",
    "multi",
    "script load x",
];

#[test]
fn rules_are_those_of_redis() {
    let (larder, redis) = (Redis::larder(&[]), Redis::debian(&[]));
    let mut admin = pair(&larder, &redis);
    for seed in 1..=6 {
        let mut dice = Dice::new(seed);
        let names = ["default2", "anna", "bob", "c"];
        for _ in 0..500 {
            let name = dice.one(&names);
            match dice.below(20) {
                0 => drop(same(&mut admin, &["ACL", "DELUSER", name, dice.one(&names)])),
                1 => drop(same(&mut admin, &["ACL", "LIST"])),
                2 => drop(same(&mut admin, &["ACL", "USERS"])),
                3..=5 => drop(same(&mut admin, &["ACL", "GETUSER", name])),
                6..=11 => {
                    let words: Vec<&str> = dice.one(COMMANDS).split(' ').collect();
                    same(&mut admin, &[&["ACL", "DRYRUN", name], &words[..]].concat());
                }
                _ => {
                    let rules = (0..dice.below(4)).map(|_| dice.one(RULES));
                    let words: Vec<&str> =
                        ["ACL", "SETUSER", name].into_iter().chain(rules).collect();
                    same(&mut admin, &words);
                }
            }
        }
        same(&mut admin, &["ACL", "LIST"]);
        same(&mut admin, &["ACL", "DELUSER", "default2", "anna", "bob", "c"]);
    }
}

/// Each rule alone upon a user that may do everything, and one that may do nothing.
#[test]
fn each_rule_is_that_of_redis() {
    let (larder, redis) = (Redis::larder(&[]), Redis::debian(&[]));
    let mut admin = pair(&larder, &redis);
    admin.iter_mut().for_each(|admin| drop(admin.ask(&["HELLO", "3"])));
    for base in [&["reset"][..], &["reset", "+@all", "~*", "&*", "on", "nopass"]] {
        for rule in RULES {
            same(&mut admin, &[&["ACL", "SETUSER", "u"], base].concat());
            same(&mut admin, &["ACL", "SETUSER", "u", rule]);
            same(&mut admin, &["ACL", "GETUSER", "u"]);
            same(&mut admin, &["ACL", "LIST"]);
        }
    }
    // Every category and command of Redis 7.0, added to nothing and taken from everything.
    let words = |value: Value| value.items().iter().map(Value::text).collect::<Vec<_>>();
    let mut names: Vec<String> = words(admin[1].ask(&["COMMAND", "LIST"]));
    names.extend(words(admin[1].ask(&["ACL", "CAT"])).iter().map(|name| format!("@{name}")));
    for name in &names {
        let (adds, takes) = (format!("+{name}"), format!("-{name}"));
        same(&mut admin, &["ACL", "SETUSER", "u", "-@all", &adds]);
        same(&mut admin, &["ACL", "GETUSER", "u"]);
        same(&mut admin, &["ACL", "SETUSER", "u", "+@all", &takes]);
        same(&mut admin, &["ACL", "GETUSER", "u"]);
    }
}

#[test]
fn commands_of_acl_answer_as_in_redis() {
    let (larder, redis) = (Redis::larder(&[]), Redis::debian(&[]));
    let mut admin = pair(&larder, &redis);
    for words in [
        "ACL",
        "ACL NOSUCH",
        "ACL HELP",
        "ACL CAT",
        "ACL CAT nosuch",
        "ACL CAT a b",
        "ACL WHOAMI",
        "ACL WHOAMI x",
        "ACL LIST",
        "ACL USERS",
        "ACL GETUSER nobody",
        "ACL GETUSER default",
        "ACL SETUSER",
        "ACL SETUSER x +get (+set",
        "ACL DELUSER default",
        "ACL DELUSER nobody",
        "ACL DRYRUN nobody get a",
        "ACL DRYRUN default nosuch a",
        "ACL DRYRUN default get",
        "ACL DRYRUN default get a",
        "ACL LOAD",
        "ACL SAVE",
        "ACL GENPASS 0",
        "ACL GENPASS 4097",
        "ACL GENPASS x",
        "ACL GENPASS 1 2",
        "ACL LOG x",
        "ACL LOG RESET",
        "ACL LOG",
        "ACL LOG -1",
        "ACL LOG 1 2",
        "CLIENT KILL USER nobody",
        "CONFIG GET acllog-max-len",
        "CONFIG SET aclfile x",
        "AUTH x",
        "AUTH default x",
        "AUTH nobody x",
        "ACL SETUSER off off",
        "AUTH off x",
        "HELLO 2 AUTH nobody x",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        same(&mut admin, &words);
    }
    same(&mut admin, &["ACL", "SETUSER", "with space", "on"]);
    for bits in ["1", "5", "256", "4096"] {
        let [ours, theirs] = admin.each_mut().map(|client| client.ask(&["ACL", "GENPASS", bits]));
        assert_eq!(ours.text().len(), theirs.text().len());
    }
    // `requirepass` is the password of the user `default`.
    let mut other = pair(&larder, &redis);
    // It is let in before.
    same(&mut other, &["PING"]);
    same(&mut admin, &["CONFIG", "SET", "requirepass", "secret"]);
    same(&mut admin, &["ACL", "GETUSER", "default"]);
    same(&mut other, &["PING"]);
    let mut late = pair(&larder, &redis);
    same(&mut late, &["PING"]);
    same(&mut late, &["AUTH", "wrong"]);
    same(&mut admin, &["ACL", "SETUSER", "default", "nopass"]);
    same(&mut late, &["PING"]);
    same(&mut admin, &["ACL", "SETUSER", "default", "off"]);
    same(&mut late, &["PING"]);
    same(&mut other, &["PING"]);
    same(&mut admin, &["ACL", "SETUSER", "default", "on", "-@all", "+ping"]);
    same(&mut other, &["PING"]);
    same(&mut other, &["GET", "a"]);
}

/// Refusals on the wire: alone, queued, in EXEC, in scripts; and their log.
#[test]
fn refusals_are_those_of_redis() {
    let (larder, redis) = (Redis::larder(&[]), Redis::debian(&[]));
    let mut admin = pair(&larder, &redis);
    let mut user = pair(&larder, &redis);
    let ann = |more: &[&'static str]| {
        let rules = ["ACL", "SETUSER", "ann", "reset", "on", ">pw", "+@all", "-@dangerous"];
        [&rules[..], &["-incr", "~a*", "%R~r*", "%W~w*", "&news"], more].concat()
    };
    same(&mut admin, &ann(&[]));
    same(&mut user, &["AUTH", "ann", "wrong"]);
    same(&mut user, &["AUTH", "ann", "pw"]);
    for words in [
        "SET a1 x",
        "GET a1",
        "GET r1",
        "SET r1 x",
        "GET w1",
        "SET w1 x",
        "SET w1 x GET",
        "INCR a1",
        "KEYS *",
        "CONFIG GET a",
        "PUBLISH news x",
        "PUBLISH other x",
        "SUBSCRIBE other",
        "PSUBSCRIBE news*",
        "MGET a1 r1 w1",
        "NOSUCH",
        "GET",
        "SORT a2 BY x*",
        "SORT a2 GET #",
        "MULTI",
        "GET w1",
        "EXEC",
        "MULTI",
        "SET a1 y",
        "EXEC",
        "MULTI",
        "SET r1 x",
        "DISCARD",
        "MULTI",
        "AUTH ann wrong",
        "EXEC",
        "ACL WHOAMI",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        same(&mut user, &words);
    }
    for script in [
        "return redis.call('set', 'r1', 1)",
        "return redis.pcall('set', 'r1', 1)",
        "return redis.pcall('incr', 'a1')",
        "return redis.call('publish', 'other', 1)",
        "return redis.call('get', 'r1')",
        "return redis.acl_check_cmd('set', 'r1', 1)",
        "return redis.acl_check_cmd('set', 'w1', 1)",
        "return redis.acl_check_cmd('config', 'get', 'x')",
        "return redis.acl_check_cmd('config', 'nosuch', 'x')",
        "return redis.acl_check_cmd('nosuch')",
        "return redis.acl_check_cmd('incr', 'a1')",
    ] {
        same(&mut user, &["EVAL", script, "0"]);
    }
    same(&mut user, &["EVAL", "return 1", "1", "zz"]);
    // The rights change between a command and EXEC.
    for rules in [&["-get"][..], &["resetkeys", "+get", "~b*"], &["resetchannels", "&x"]] {
        same(&mut admin, &ann(&[]));
        for words in [&["MULTI"][..], &["GET", "a1"], &["PUBLISH", "news", "x"], &["PING"]] {
            same(&mut user, words);
        }
        same(&mut admin, &ann(rules));
        same(&mut user, &["EXEC"]);
        same(&mut user, &["GET", "a1"]);
    }
    let log = |client: &mut Resp<TcpStream>| {
        let entries = client.ask(&["ACL", "LOG", "100"]);
        let facts = |entry: &Value| {
            let texts: Vec<String> = entry.items().iter().map(Value::text).collect();
            texts[..10].join(" ")
        };
        entries.items().iter().map(facts).collect::<Vec<_>>()
    };
    let [ours, theirs] = admin.each_mut().map(log);
    assert_eq!(ours, theirs);
    assert!(ours.len() > 10);
    same(&mut admin, &["CONFIG", "SET", "acllog-max-len", "2"]);
    same(&mut user, &["INCR", "a1"]);
    let [ours, theirs] = admin.each_mut().map(log);
    assert_eq!((ours.len(), ours), (2, theirs));
}

/// Is the connection closed by the server?
fn is_closed(client: &mut Resp<TcpStream>) -> bool {
    client.send(command(&["PING"])).maybe().is_none()
}

#[test]
fn changes_apply_to_open_connections() {
    let (larder, redis) = (Redis::larder(&[]), Redis::debian(&[]));
    for server in [&larder, &redis] {
        let mut admin = server.connect();
        let set = |admin: &mut Resp<TcpStream>, rules: &[&str]| {
            let words = [&["ACL", "SETUSER", "ann"], rules].concat();
            assert_eq!(admin.ask(&words).text(), "OK");
        };
        set(&mut admin, &["on", "nopass", "+@all", "~*", "&*"]);
        let log_in = || {
            let mut client = server.connect();
            assert_eq!(client.say("AUTH ann x"), "OK");
            client
        };
        let mut client = log_in();
        assert_eq!(client.say("SET a 1"), "OK");
        set(&mut admin, &["-set"]);
        assert!(client.say("SET a 2").starts_with("NOPERM"), "{}", client.say("GET a"));
        set(&mut admin, &["+set", "resetkeys", "~b"]);
        assert!(client.say("SET a 2").starts_with("NOPERM"));
        assert_eq!(client.say("SET b 2"), "OK");
        // A user that is off stays where it is.
        set(&mut admin, &["off"]);
        assert_eq!(client.say("GET b"), "2");
        set(&mut admin, &["on"]);
        let mut bob = server.connect();
        // Deleted: its connections end, others do not.
        assert_eq!(admin.say("ACL DELUSER ann"), "1");
        wait_until("the connection to end", || is_closed(&mut client));
        assert_eq!(bob.say("PING"), "PONG");
        // One that deletes itself gets its answer.
        set(&mut admin, &["on", "nopass", "+@all", "~*", "&*"]);
        let mut client = log_in();
        assert_eq!(client.say("ACL DELUSER ann"), "1");
        assert!(is_closed(&mut client));
    }
}

#[test]
fn subscriptions_end_with_the_right_to_them() {
    let (larder, redis) = (Redis::larder(&[]), Redis::debian(&[]));
    for server in [&larder, &redis] {
        let mut admin = server.connect();
        for (subscribe, name, ends) in [
            ("SUBSCRIBE", "news", false),
            ("SUBSCRIBE", "other", true),
            ("SSUBSCRIBE", "other", true),
            ("PSUBSCRIBE", "o*", true),
            ("PSUBSCRIBE", "news", false),
        ] {
            let set = |admin: &mut Resp<TcpStream>, rules: &[&str]| {
                let words = [&["ACL", "SETUSER", "ann"], rules].concat();
                assert_eq!(admin.ask(&words).text(), "OK");
            };
            set(&mut admin, &["on", "nopass", "+@all", "~*", "resetchannels"]);
            set(&mut admin, &["&news", "&other", "&o*"]);
            let mut client = server.connect();
            assert_eq!(client.say("AUTH ann x"), "OK");
            client.ask(&[subscribe, name]);
            set(&mut admin, &["resetchannels", "&news"]);
            if ends {
                wait_until("the connection to end", || is_closed(&mut client));
            } else {
                assert!(!is_closed(&mut client), "{subscribe} {name}");
            }
            // All channels, and then one.
            set(&mut admin, &["allchannels"]);
            let mut client = server.connect();
            assert_eq!(client.say("AUTH ann x"), "OK");
            client.ask(&[subscribe, name]);
            set(&mut admin, &["resetchannels", "&news"]);
            if ends {
                wait_until("the connection to end", || is_closed(&mut client));
            } else {
                assert!(!is_closed(&mut client), "{subscribe} {name}, all before");
            }
        }
    }
}

/// A file of users: read at the start, saved, changed by hand, read again.
#[test]
fn files_of_users_are_those_of_redis() {
    let text = "user default on nopass ~* &* +@all\n\nuser ann on >pw ~a* +@read (+set ~s*)\r\n\
                user bob off resetchannels -@all\n";
    let dirs = [Scratch::new("acl"), Scratch::new("acl")];
    let files = [dirs[0].write("users", text), dirs[1].write("users", text)];
    let option = |at: usize| files[at].to_string_lossy().into_owned();
    let (larder, redis) =
        (Redis::larder(&["--aclfile", &option(0)]), Redis::debian(&["--aclfile", &option(1)]));
    let mut admin = pair(&larder, &redis);
    let read = |at: usize| {
        let text = std::fs::read_to_string(&files[at]).unwrap();
        text.lines().map(|line| sorted(Value::Bulk(b'$', Some(line.into())))).collect::<Vec<_>>()
    };
    same(&mut admin, &["ACL", "LIST"]);
    same(&mut admin, &["ACL", "SETUSER", "new", "on", "nopass", "+get", "~n"]);
    same(&mut admin, &["ACL", "SAVE"]);
    assert_eq!(read(0), read(1));
    let mut user = pair(&larder, &redis);
    same(&mut user, &["AUTH", "ann", "pw"]);
    same(&mut user, &["GET", "a"]);
    // A mistake in the file changes nothing.
    for wrong in [
        "user x +nosuch on\n",
        "user x\nuser x\n",
        "admin x\n",
        "user\n",
        "user a (+get\n",
        "user a nonsense more +nosuch\n",
        "user d >\n# comment\n",
    ] {
        files.iter().for_each(|file| std::fs::write(file, wrong).unwrap());
        let [ours, theirs] = [0, 1].map(|at| {
            let answer = admin[at].ask(&["ACL", "LOAD"]).text();
            answer.replace(&option(at), "FILE")
        });
        assert_eq!(ours, theirs, "{wrong}");
        same(&mut admin, &["ACL", "LIST"]);
        same(&mut user, &["GET", "a"]);
    }
    files.iter().for_each(|file| std::fs::write(file, "user eve on nopass +@all ~*\n").unwrap());
    same(&mut admin, &["ACL", "LOAD"]);
    same(&mut admin, &["ACL", "LIST"]);
    user.iter_mut().for_each(|user| wait_until("the connection to end", || is_closed(user)));
    same(&mut admin, &["CONFIG", "GET", "acl-pubsub-default"]);
    assert_eq!(admin[0].ask(&["CONFIG", "GET", "aclfile"]).items()[1].text(), option(0));
}

/// A reload of the configuration reads the file; connections of users that remain go on.
#[test]
fn a_reload_reads_the_file_of_users() {
    let dir = Scratch::new("acl");
    let file = dir.write("users", "user ann on >pw ~* +@all\nuser bob on >pw ~* +@all\n");
    let larder = Larder::with_config(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n[[site]]\norigin = \"http://127.0.0.1:9\"\n\
         [redis]\nlisten = \"127.0.0.1:0\"\nacl_file = \"{}\"\n",
        file.display()
    ));
    let connect = |user: &str| {
        let mut client = Resp::tcp(larder.face("redis"));
        assert_eq!(client.ask(&["AUTH", user, "pw"]).text(), "OK");
        client
    };
    let (mut ann, mut bob) = (connect("ann"), connect("bob"));
    std::fs::write(&file, "user ann on >pw ~* +@all -set\n").unwrap();
    larder.hup();
    wait_until("the rules of the file", || ann.say("SET a 1").starts_with("NOPERM"));
    assert_eq!(ann.say("GET b"), "(nil)");
    wait_until("the connection of a user that is gone to end", || is_closed(&mut bob));
    let mut client = Resp::tcp(larder.face("redis"));
    assert!(client.ask(&["AUTH", "bob", "pw"]).is_error());
}

/// Keys and patterns that would take long to compare hold nobody up: the command is refused.
#[test]
fn long_comparisons_are_refused() {
    let larder = Redis::larder(&[]);
    let (mut admin, mut user) = (larder.connect(), larder.connect());
    let patterns: Vec<String> = (0..300).map(|n| format!("~*{n}*x*y*z*")).collect();
    let mut words = vec!["ACL", "SETUSER", "ann", "on", "nopass", "+@all"];
    words.extend(patterns.iter().map(String::as_str));
    assert_eq!(admin.ask(&words).text(), "OK");
    assert_eq!(user.say("AUTH ann x"), "OK");
    let key = "a".repeat(60_000);
    assert!(user.ask(&["GET", &key]).text().starts_with("NOPERM too many or too long keys"));
    assert!(user.say("GET 1").starts_with("NOPERM this user"));
    assert_eq!(user.say("GET 1xyz"), "(nil)");
    let many = vec!["~a"; 2000];
    words.extend(&many[..900.min(1020 - words.len())]);
    assert_eq!(admin.ask(&words).text(), "OK", "the same pattern is one");
    let long = format!("~{}", "a".repeat(2000));
    assert!(admin.ask(&["ACL", "SETUSER", "ann", &long]).text().contains("1024 bytes"));
}
