//! The Redis face over real connections: channels, tracking and MONITOR across threads; limits; who
//! is let in.

use larder_tests::{Larder, Redis, Resp, Value, wait_until};
use std::collections::HashSet;
use std::net::{IpAddr, TcpStream, UdpSocket};

/// With so many connections, every thread has some.
const MANY: usize = 24;

/// A push or message without its type byte: RESP2 sends arrays, RESP3 pushes.
fn words(value: &Value) -> Vec<String> {
    value.items().iter().map(Value::text).collect()
}

#[test]
fn messages_reach_subscribers_on_every_thread() {
    let larder = Redis::larder(&["--threads", "4"]);
    let mut subscribers: Vec<Resp<TcpStream>> = (0..MANY).map(|_| larder.connect()).collect();
    for (number, subscriber) in subscribers.iter_mut().enumerate() {
        if number % 2 == 0 {
            assert!(!subscriber.ask(&["HELLO", "3"]).is_error());
        }
        let subscribed = subscriber.ask(&["SUBSCRIBE", "news"]);
        assert_eq!(words(&subscribed), ["subscribe", "news", "1"]);
        assert_eq!(words(&subscriber.ask(&["PSUBSCRIBE", "n?ws"])), ["psubscribe", "n?ws", "2"]);
    }
    let mut publisher = larder.connect();
    for number in 0..5 {
        assert_eq!(publisher.say(&format!("PUBLISH news hello{number}")), (2 * MANY).to_string());
    }
    assert_eq!(publisher.say("PUBLISH other x"), "0");
    for subscriber in &mut subscribers {
        for number in 0..5 {
            let hello = format!("hello{number}");
            assert_eq!(words(&subscriber.reply()), ["message", "news", &hello]);
            assert_eq!(words(&subscriber.reply()), ["pmessage", "n?ws", "news", &hello]);
        }
    }
    drop(subscribers);
    wait_until("subscribers to be gone", || publisher.say("PUBLISH news x") == "0");
}

#[test]
fn what_a_client_has_read_is_invalidated_from_any_thread() {
    let larder = Redis::larder(&["--threads", "4"]);
    let mut reader = larder.connect();
    assert!(!reader.ask(&["HELLO", "3"]).is_error());
    assert_eq!(reader.say("CLIENT TRACKING ON"), "OK");
    for number in 0..MANY {
        let key = format!("key{number}");
        assert_eq!(reader.ask(&["GET", &key]).text(), "");
        assert_eq!(larder.connect().say(&format!("SET {key} x")), "OK");
        let push = reader.reply();
        assert!(matches!(push, Value::Many(b'>', _)), "{push:?}");
        assert_eq!(words(&push), ["invalidate", &format!("[{key}]")]);
    }
    // What it has not read again is not told again.
    assert_eq!(larder.connect().say("SET key0 y"), "OK");
    assert_eq!(reader.say("PING"), "PONG");
}

/// One write may have the store evict more keys than messages about them are kept.
#[test]
fn what_a_client_has_read_is_invalidated_when_it_is_evicted() {
    const KEYS: usize = 20_000;
    let larder = Redis::larder(&["--threads", "1", "--memory", "32MiB"]);
    let mut writer = larder.connect();
    let keys: Vec<String> = (0..KEYS).map(|number| format!("small:{number}")).collect();
    let mut reader = larder.connect();
    assert!(!reader.ask(&["HELLO", "3"]).is_error());
    assert_eq!(reader.ask(&["CLIENT", "TRACKING", "ON"]).text(), "OK");
    for key in &keys {
        assert_eq!(writer.ask(&["SET", key, "v"]).text(), "OK");
        assert_eq!(reader.ask(&["GET", key]).text(), "v");
    }
    // They are asked for, as the small ones were.
    let large = "x".repeat(256 << 10);
    for number in 0..600 {
        let key = format!("large:{number}");
        assert_eq!(writer.ask(&["SET", &key, &large]).text(), "OK");
        for _ in 0..3 {
            assert!(!writer.ask(&["GET", &key]).is_error());
        }
    }
    let gone = |key: &&String| writer.ask(&["EXISTS", key]).text() == "0";
    let mut kept: HashSet<&String> = keys.iter().filter(gone).collect();
    assert!(kept.len() > KEYS / 2, "{} evicted", kept.len());
    while !kept.is_empty() {
        let push = reader.reply();
        let [word, told] = push.items() else { panic!("{push:?}") };
        assert_eq!(word.text(), "invalidate");
        match told.items() {
            [] => kept.clear(),
            keys => kept.retain(|key| !keys.iter().any(|gone| gone.text() == **key)),
        }
    }
}

#[test]
fn monitor_shows_what_all_threads_do() {
    let larder = Redis::larder(&["--threads", "4"]);
    let mut monitor = larder.connect();
    assert_eq!(monitor.say("MONITOR"), "OK");
    for number in 0..MANY {
        assert_eq!(larder.connect().say(&format!("SET key{number} x")), "OK");
        let line = monitor.reply().text();
        assert!(
            line.ends_with(&format!("] \"SET\" \"key{number}\" \"x\""))
                && line.contains(" [0 127.0.0.1:"),
            "{line}"
        );
    }
}

#[test]
fn changes_of_keys_are_published_where_asked_for() {
    let larder = Redis::larder(&[]);
    let (mut listener, mut writer) = (larder.connect(), larder.connect());
    assert_eq!(writer.say("CONFIG SET notify-keyspace-events KEA"), "OK");
    assert_eq!(words(&listener.ask(&["PSUBSCRIBE", "__key*__:*"]))[0], "psubscribe");
    assert_eq!(writer.say("SET a 1"), "OK");
    assert_eq!(words(&listener.reply())[2..], ["__keyspace@0__:a", "set"]);
    assert_eq!(words(&listener.reply())[2..], ["__keyevent@0__:set", "a"]);
    assert_eq!(writer.say("DEL a"), "1");
    assert_eq!(words(&listener.reply())[2..], ["__keyspace@0__:a", "del"]);
}

#[test]
fn one_client_too_many_is_told_so() {
    let larder = Redis::larder(&["--maxclients", "3"]);
    let mut held = [(); 3].map(|()| larder.connect());
    for one in &mut held {
        assert_eq!(one.say("PING"), "PONG");
    }
    let mut refused = larder.connect();
    assert_eq!(String::from_utf8_lossy(&refused.rest()), "-ERR max number of clients reached\r\n");
    drop(held);
    wait_until("a place to be free", || {
        let mut one = larder.connect();
        one.send("PING\r\n");
        one.maybe().is_some_and(|(reply, _)| reply.text() == "PONG")
    });
}

#[test]
fn who_is_silent_is_closed_and_subscribers_are_not() {
    let larder = Redis::larder(&["--timeout", "1"]);
    let mut subscriber = larder.connect();
    subscriber.ask(&["SUBSCRIBE", "news"]);
    let mut silent = larder.connect();
    assert_eq!(silent.say("PING"), "PONG");
    assert_eq!(silent.rest(), b"", "closed without a word");
    assert_eq!(larder.connect().say("PUBLISH news x"), "1");
    assert_eq!(words(&subscriber.reply()), ["message", "news", "x"]);
}

#[test]
fn a_timeout_that_is_set_reaches_clients_at_rest() {
    let larder = Redis::larder(&["--timeout", "0"]);
    let (mut silent, mut other) = (larder.connect(), larder.connect());
    assert_eq!(silent.say("PING"), "PONG");
    assert_eq!(other.say("CONFIG SET timeout 1"), "OK");
    assert_eq!(silent.rest(), b"", "closed without a word");
}

#[test]
fn a_timeout_that_is_taken_back_closes_no_client_at_rest() {
    let larder = Redis::larder(&["--timeout", "2"]);
    let (mut silent, mut other) = (larder.connect(), larder.connect());
    assert_eq!(silent.say("CLIENT SETNAME silent"), "OK");
    assert_eq!(other.say("CONFIG SET timeout 0"), "OK");
    wait_until("the old timeout to be over", || {
        let list = other.say("CLIENT LIST");
        let line = list.lines().find(|line| line.contains("name=silent")).expect("still there");
        let idle = line.split(' ').find_map(|field| field.strip_prefix("idle="));
        idle.is_some_and(|seconds| seconds.parse::<u64>().unwrap() >= 4)
    });
    assert_eq!(silent.say("PING"), "PONG");
}

#[test]
fn a_subscriber_that_does_not_read_is_closed() {
    let larder = Redis::larder(&["--client-output-buffer-limit", "pubsub 1mb 1mb 60"]);
    let mut sleeper = larder.connect();
    sleeper.ask(&["SUBSCRIBE", "news"]);
    let mut publisher = larder.connect();
    let text = "x".repeat(64 << 10);
    // The kernel's buffers take some megabytes, the server one; more than 256 MiB were no limit.
    let sent =
        (0..4096).take_while(|_| publisher.ask(&["PUBLISH", "news", &text]).text() == "1").count();
    assert!(sent < 4096, "it is never closed");
    assert!(larder.usage().peak_rss < 200 << 20, "{:?}", larder.usage());
    assert_eq!(publisher.say("PING"), "PONG");
}

#[test]
fn a_socket_in_the_file_system_serves() {
    let larder = Redis::larder(&["--unixsocket", "@DIR@/socket", "--unixsocketperm", "700"]);
    let path = larder.dir().join("socket");
    // The port is there before the socket is.
    wait_until("it says where it listens", || larder.printed().contains("redis+unix:"));
    let mut talk = Resp::unix(&path);
    assert_eq!(talk.say("SET a 1"), "OK");
    assert_eq!(larder.connect().say("GET a"), "1");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn a_password_is_asked_for_as_redis_asks() {
    let (larder, redis) =
        (Redis::larder(&["--requirepass", "s3cret"]), Redis::debian(&["--requirepass", "s3cret"]));
    for server in [&larder, &redis] {
        let mut talk = server.connect();
        let said = |words: &str, talk: &mut Resp<TcpStream>| talk.say(words);
        assert_eq!(said("GET a", &mut talk), "NOAUTH Authentication required.");
        assert!(said("HELLO 3", &mut talk).starts_with("NOAUTH HELLO must be called"));
        let wrong = "WRONGPASS invalid username-password pair or user is disabled.";
        assert_eq!(said("AUTH wrong", &mut talk), wrong);
        assert_eq!(said("AUTH nobody s3cret", &mut talk), wrong);
        assert_eq!(said("AUTH default s3cret", &mut talk), "OK");
        assert_eq!(said("SET a 1", &mut talk), "OK");
        let mut other = server.connect();
        assert!(
            !other.ask(&["HELLO", "3", "AUTH", "default", "s3cret", "SETNAME", "me"]).is_error()
        );
        assert_eq!(said("GET a", &mut other), "1");
        let mut patient = server.connect();
        assert_eq!(said("QUIT", &mut patient), "OK", "without a password, too");
    }
}

#[test]
fn users_are_those_of_the_file() {
    let dir = larder_tests::Scratch::new("users");
    let users = dir.write("users", "anna:of anna\nbob:of:bob\n");
    let larder = Larder::with_config(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n[[site]]\norigin = \"http://127.0.0.1:9\"\n\
         [redis]\nlisten = \"127.0.0.1:0\"\nusers_file = \"{}\"\n",
        users.display()
    ));
    let mut talk = Resp::tcp(larder.face("redis"));
    assert_eq!(talk.ask(&["AUTH", "anna", "of bob"]).text().split(' ').next(), Some("WRONGPASS"));
    assert_eq!(talk.ask(&["AUTH", "anna", "of anna"]).text(), "OK");
    assert_eq!(talk.say("ACL WHOAMI"), "anna");
    assert_eq!(talk.say("AUTH bob of:bob"), "OK");
}

/// An address of this machine that is not its loopback. None: it has none.
fn outside() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: the system only picks the address it would send from.
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_loopback())
}

#[test]
fn other_machines_are_refused_while_there_is_no_password() {
    let Some(ip) = outside() else {
        eprintln!("this machine has no address but its loopback: not tested");
        return;
    };
    let answer = |options: &[&str]| {
        let larder = Redis::larder(&[options, &["--bind", "0.0.0.0"]].concat());
        let mut talk = Resp::tcp((ip, larder.port()).into());
        talk.send("PING\r\n").maybe().map(|(reply, _)| reply.text()).unwrap_or_default()
    };
    assert!(
        answer(&[]).starts_with("DENIED Larder is running in protected mode"),
        "{}",
        answer(&[])
    );
    assert_eq!(answer(&["--protected-mode", "no"]), "PONG");
    assert_eq!(answer(&["--requirepass", "x"]), "NOAUTH Authentication required.");
}

#[test]
fn memcached_and_redis_share_objects_where_asked() {
    let config = |share: bool| {
        Larder::with_config(&format!(
            "[http]\nlisten = \"127.0.0.1:0\"\n[[site]]\norigin = \"http://127.0.0.1:9\"\n\
             [memcached]\nlisten = \"127.0.0.1:0\"\n[redis]\nlisten = \"127.0.0.1:0\"\nshare_memcached = {share}\n"
        ))
    };
    for (share, found) in [(true, "from redis"), (false, "(nil)")] {
        let larder = config(share);
        let mut redis = Resp::tcp(larder.face("redis"));
        let mut memcached = larder_tests::Talk::tcp(larder.face("memcached"));
        memcached.expect("set a 0 0 10\r\nfrom redis\r\n", "STORED\r\n");
        assert_eq!(redis.say("GET a"), found);
        assert_eq!(redis.ask(&["SET", "b", "of redis"]).text(), "OK");
        let there = if share { "VALUE b 0 8\r\nof redis\r\nEND\r\n" } else { "END\r\n" };
        memcached.expect("get b\r\n", there);
    }
}

#[test]
fn a_watched_key_that_came_and_went_has_changed() {
    for server in [Redis::larder(&[]), Redis::debian(&[])] {
        let (mut watcher, mut writer) = (server.connect(), server.connect());
        let mut tried = |watched: &str, writes: &[&str]| {
            watcher.say(&format!("WATCH {watched}"));
            writes.iter().for_each(|write| drop(writer.say(write)));
            watcher.say("MULTI");
            watcher.say("PING");
            watcher.ask(&["EXEC"]).items().len()
        };
        assert_eq!(tried("a", &["SET a 1", "DEL a"]), 0, "it came and went");
        assert_eq!(tried("a b", &["SET b 1", "DEL b"]), 0);
        assert_eq!(tried("a", &["SET b 1", "DEL a", "FLUSHDB"]), 1, "it was never there");
        assert_eq!(tried("a", &["SET a 1", "FLUSHALL"]), 0);
        assert_eq!(
            tried("a", &["SELECT 1", "SET a 1", "DEL a", "SELECT 0"]),
            1,
            "it was another database's"
        );
        assert_eq!(tried("a", &["SET b 1", "RENAME b a", "RENAME a b"]), 0);
        assert_eq!(tried("b", &["EXPIRE b 100", "PERSIST b"]), 0, "its expiry came and went");
        assert_eq!(tried("b", &["PERSIST b", "GET b"]), 1);
    }
}

#[test]
fn subscribers_hear_what_others_say_though_answers_are_off() {
    for (server, version) in [
        (Redis::larder(&[]), 2),
        (Redis::debian(&[]), 2),
        (Redis::larder(&[]), 3),
        (Redis::debian(&[]), 3),
    ] {
        let (mut subscriber, mut publisher) = (server.connect(), server.connect());
        subscriber.ask(&["HELLO", &version.to_string()]);
        subscriber.send("CLIENT REPLY OFF\r\nPING\r\nSUBSCRIBE news\r\n");
        assert_eq!(words(&subscriber.reply()), ["subscribe", "news", "1"]);
        assert_eq!(publisher.say("PUBLISH news hello"), "1");
        assert_eq!(words(&subscriber.reply()), ["message", "news", "hello"]);
        subscriber.send("UNSUBSCRIBE\r\nPING\r\nCLIENT REPLY ON\r\n");
        assert_eq!(words(&subscriber.reply()), ["unsubscribe", "news", "0"]);
        assert_eq!(subscriber.reply().text(), "OK");
        subscriber.send("CLIENT REPLY SKIP\r\nSUBSCRIBE more\r\nPING\r\n");
        assert_eq!(words(&subscriber.reply()), ["subscribe", "more", "1"]);
        let pong = if version == 2 { "*2\r\n$4\r\npong\r\n$0\r\n\r\n" } else { "+PONG\r\n" };
        assert_eq!(Some(subscriber.reply()), Value::parse(pong.as_bytes()).map(|(value, _)| value));
    }
}

#[test]
fn commands_wait_while_clients_are_paused() {
    for server in [Redis::larder(&[]), Redis::debian(&[])] {
        let (mut talk, mut admin) = (server.connect(), server.connect());
        assert_eq!(admin.say("CLIENT PAUSE 600000 WRITE"), "OK");
        assert_eq!(talk.say("GET a"), "(nil)", "reads go on");
        assert!(talk.say("SET a").starts_with("ERR wrong number"), "and so do errors");
        assert_eq!(talk.say("MULTI"), "OK");
        assert_eq!(talk.say("PING"), "QUEUED");
        assert_eq!(talk.ask(&["EXEC"]).items().len(), 1);
        // One after the other: a write, and what is behind it.
        let large = "x".repeat(200_000);
        talk.send(larder_tests::redis::command(&[
            b"SET".to_vec(),
            b"a".to_vec(),
            large.clone().into_bytes(),
        ]));
        talk.send("STRLEN a\r\nPUBLISH a b\r\n");
        assert_eq!(admin.say("STRLEN a"), "0");
        assert_eq!(admin.say("CLIENT PAUSE 1 WRITE"), "OK", "it is made no shorter");
        assert_eq!(admin.say("STRLEN a"), "0");
        assert_eq!(admin.say("CLIENT UNPAUSE"), "OK");
        assert_eq!(talk.reply().text(), "OK");
        assert_eq!(talk.reply().text(), "200000");
        assert_eq!(talk.reply().text(), "0");
        // What waits at the time of a transaction's end.
        for command in ["MULTI", "SET a 1"] {
            talk.say(command);
        }
        assert_eq!(admin.say("CLIENT PAUSE 600000 WRITE"), "OK");
        talk.send("EXEC\r\n");
        assert_eq!(admin.say("STRLEN a"), "200000");
        assert_eq!(admin.say("CLIENT UNPAUSE"), "OK");
        assert_eq!(talk.reply().items().len(), 1);
        // Everything, until its time has come.
        assert_eq!(admin.say("CLIENT PAUSE 300"), "OK");
        assert_eq!(talk.say("PING"), "PONG");
        for (command, error) in [
            ("CLIENT PAUSE x", "ERR timeout is not an integer or out of range"),
            ("CLIENT PAUSE -1", "ERR timeout is negative"),
            ("CLIENT PAUSE x y", "ERR CLIENT PAUSE mode must be WRITE or ALL"),
            ("CLIENT PAUSE 0", "OK"),
            ("CLIENT UNPAUSE", "OK"),
        ] {
            assert_eq!(talk.say(command), error, "{command}");
        }
    }
}

#[test]
fn who_leaves_while_paused_is_not_heard_later() {
    for server in [Redis::larder(&[]), Redis::debian(&[])] {
        let mut admin = server.connect();
        assert_eq!(admin.say("CLIENT PAUSE 600000 WRITE"), "OK");
        let mut impatient = server.connect();
        impatient.say("CLIENT SETNAME impatient");
        impatient.send("SET a old\r\n");
        drop(impatient);
        wait_until("it to be gone", || !admin.say("CLIENT LIST").contains("name=impatient"));
        assert_eq!(admin.say("CLIENT UNPAUSE"), "OK");
        assert_eq!(admin.say("SET b 1"), "OK");
        assert_eq!(admin.say("GET a"), "(nil)");
    }
}

#[test]
fn monitor_writes_what_redis_writes() {
    let lines = |server: &Redis, socket: &str| -> Vec<String> {
        let (mut monitor, mut talk) = (server.connect(), server.connect());
        assert_eq!(monitor.say("MONITOR"), "OK");
        let refused = monitor.say("GET a");
        for command in [
            "SET a \"b c\\x00\\n\"",
            "get a",
            "GET",
            "AUTH x",
            "AUTH default x",
            "HELLO 2 AUTH default x",
            "HELLO 3 SETNAME y",
            "CONFIG GET maxmemory",
            "CLIENT SETNAME x",
            "MULTI",
            "SET a 2",
            "INCR a",
            "EXEC",
            "SELECT 1",
            "GET a",
            "SELECT 0",
            "PUBLISH a b",
            "SLOWLOG GET",
            "TIME",
            "MSET a 1 b 2",
            "FLUSHALL",
            "RESET",
            "PING",
            "QUIT",
        ] {
            let _ = talk.send(format!("{command}\r\n")).reply();
        }
        Resp::unix(&server.dir().join(socket)).say("ECHO last");
        let mut shown = vec![refused];
        // Without the time and the port.
        while !shown.last().is_some_and(|line| line.ends_with("\"last\"")) {
            let line = monitor.reply().text();
            let line = line.split_once(' ').map_or("", |(_, rest)| rest).to_owned();
            let end = line.find(']').unwrap_or(0);
            let port = line[..end].rfind(':').filter(|_| !line.contains("unix:")).unwrap_or(end);
            shown.push(
                format!("{}{}", &line[..port], &line[end..])
                    .replace(&*server.dir().to_string_lossy(), ""),
            );
        }
        // It asks for the second time, subscribes, and leaves: what it does then is not shown to
        // itself.
        monitor.send("MONITOR\r\nPING\r\nRESET\r\nPING\r\nQUIT\r\n");
        let rest = String::from_utf8_lossy(&monitor.rest()).into_owned();
        shown
            .extend(rest.lines().map(|line| line.split(" [").next().unwrap_or("")[..1].to_owned()));
        shown
    };
    let options = ["--unixsocket", "@DIR@/socket"];
    let (larder, redis) = (Redis::larder(&options), Redis::debian(&options));
    wait_until("it says where it listens", || larder.printed().contains("redis+unix:"));
    assert_eq!(lines(&larder, "socket"), lines(&redis, "socket"));
}

#[test]
fn shutdown_ends_the_program_where_it_is_allowed() {
    let config = |lines: &str| {
        format!(
            "[http]\nlisten = \"127.0.0.1:0\"\n[[site]]\norigin = \"http://127.0.0.1:9\"\n\
             [memcached]\nlisten = \"127.0.0.1:0\"\n[redis]\nlisten = \"127.0.0.1:0\"\n{lines}"
        )
    };
    let mut larder = Larder::with_config(&config(""));
    let mut talk = Resp::tcp(larder.face("redis"));
    for words in ["SHUTDOWN", "SHUTDOWN NOSAVE", "SHUTDOWN NOW FORCE"] {
        let told = talk.say(words);
        assert!(
            told.starts_with("ERR ") && told.contains("`shutdown = true` in [redis]"),
            "{words}: {told}"
        );
    }
    // A transaction and the memcached face are no way round it.
    for words in ["MULTI", "SHUTDOWN", "EXEC"] {
        talk.say(words);
    }
    larder_tests::Talk::tcp(larder.face("memcached"))
        .expect("shutdown\r\n", "ERROR: shutdown not enabled\r\n");
    assert!(larder.is_running());
    assert_eq!(talk.say("PING"), "PONG");
    larder.rewrite_config(&config("shutdown = true\n"));
    larder.hup();
    wait_until("it to be allowed", || {
        Resp::tcp(larder.face("redis")).send("SHUTDOWN\r\n").maybe().is_none()
    });
    assert!(larder.wait_exit().success());
}

#[test]
fn shutdown_ends_a_program_that_is_nothing_but_a_redis() {
    let larder = Redis::larder(&[]);
    let mut talk = larder.connect();
    assert!(talk.say("SHUTDOWN SAVE").starts_with("ERR "));
    assert_eq!(talk.send("SHUTDOWN\r\n").rest(), b"");
    wait_until("it to be gone", || TcpStream::connect(larder.addr()).is_err());
}

/// A server without a password where one was meant would be open to all.
#[test]
fn a_password_that_is_missing_on_the_command_line_starts_nothing() {
    for options in [&["--requirepass"][..], &["--requirepass", "--port", "0"]] {
        let output = std::process::Command::new(larder_tests::larder::binary())
            .args(["redis", "--port", "0"])
            .args(options)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains("a password"), "{options:?}: {told}");
    }
}
