//! The Redis face over real connections: channels, tracking and MONITOR across threads; limits; who is let in.

use larder_tests::{Larder, Redis, Resp, Value, wait_until};
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

#[test]
fn monitor_shows_what_all_threads_do() {
    let larder = Redis::larder(&["--threads", "4"]);
    let mut monitor = larder.connect();
    assert_eq!(monitor.say("MONITOR"), "OK");
    for number in 0..MANY {
        assert_eq!(larder.connect().say(&format!("SET key{number} x")), "OK");
        let line = monitor.reply().text();
        assert!(
            line.ends_with(&format!("] \"SET\" \"key{number}\" \"x\"")) && line.contains(" [0 127.0.0.1:"),
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
    // Connections that only looked whether it listens may still be counted.
    let mut held: Vec<Resp<TcpStream>> = Vec::new();
    wait_until("three connections", || {
        let mut one = larder.connect();
        one.send("PING\r\n");
        if one.maybe().is_some_and(|(reply, _)| reply.text() == "PONG") {
            held.push(one);
        }
        held.len() == 3
    });
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
fn a_subscriber_that_does_not_read_is_closed() {
    let larder = Redis::larder(&["--client-output-buffer-limit", "pubsub 1mb 1mb 60"]);
    let mut sleeper = larder.connect();
    sleeper.ask(&["SUBSCRIBE", "news"]);
    let mut publisher = larder.connect();
    let text = "x".repeat(64 << 10);
    // The kernel's buffers take some megabytes, the server one; more than 256 MiB were no limit.
    let sent = (0..4096).take_while(|_| publisher.ask(&["PUBLISH", "news", &text]).text() == "1").count();
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
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
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
        assert!(!other.ask(&["HELLO", "3", "AUTH", "default", "s3cret", "SETNAME", "me"]).is_error());
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
    assert!(answer(&[]).starts_with("DENIED Larder is running in protected mode"), "{}", answer(&[]));
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
