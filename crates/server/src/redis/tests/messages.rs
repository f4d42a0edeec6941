//! Channels, patterns, keyspace events, MONITOR.

use super::{NOW, TestClient, face, settings, shared};
use crate::{redis::Face, settings::RedisSettings};

#[test]
fn messages_reach_subscribers_only() {
    let face = face();
    let (mut a, mut b, mut c) =
        (TestClient::new(&face), TestClient::new(&face).resp3(), TestClient::new(&face));
    assert_eq!(a.say("subscribe news"), "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    assert_eq!(
        b.say("psubscribe n* x*"),
        ">3\r\n$10\r\npsubscribe\r\n$2\r\nn*\r\n:1\r\n>3\r\n$10\r\npsubscribe\r\n$2\r\nx*\r\n:2\r\n"
    );
    assert_eq!(c.say("publish news hello"), ":2\r\n");
    assert_eq!(a.mail(), "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nhello\r\n");
    assert_eq!(b.mail(), ">4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$5\r\nhello\r\n");
    assert_eq!(c.mail(), "");
    assert_eq!(c.say("publish other hello"), ":0\r\n");
    assert_eq!(
        c.say("pubsub channels\npubsub numpat\npubsub numsub news other"),
        "*1\r\n$4\r\nnews\r\n:2\r\n*4\r\n$4\r\nnews\r\n:1\r\n$5\r\nother\r\n:0\r\n"
    );
    assert_eq!(a.say("unsubscribe"), "*3\r\n$11\r\nunsubscribe\r\n$4\r\nnews\r\n:0\r\n");
    drop(b);
    assert_eq!(
        c.say("publish news hello\npubsub numpat"),
        ":0\r\n:0\r\n",
        "who left hears nothing"
    );
}

#[test]
fn a_subscriber_of_resp2_may_do_little() {
    let mut client = TestClient::new(&face());
    client.say("subscribe a");
    assert_eq!(
        client.say("get x"),
        "-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context\r\n"
    );
    assert_eq!(client.say("ping"), "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    client.say("unsubscribe");
    assert_eq!(client.say("ping"), "+PONG\r\n");
    let mut newer = TestClient::new(&face()).resp3();
    newer.say("subscribe a");
    assert_eq!(newer.say("get x"), "_\r\n", "RESP3 tells messages from answers");
}

#[test]
fn its_own_message_comes_before_the_answer_and_never_inside_a_transaction() {
    let mut client = TestClient::new(&face()).resp3();
    client.say("subscribe a");
    let message = ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n";
    assert_eq!(client.say("publish a x"), format!("{message}:1\r\n"));
    assert_eq!(
        client.say("multi\npublish a x\nping\nexec"),
        format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n+PONG\r\n{message}")
    );
}

#[test]
fn a_subscriber_that_does_not_read_is_disconnected() {
    let face = Face::new(&shared(RedisSettings { subscriber_buffer: 4096, ..settings() }), 0);
    let (mut slow, mut writer) = (TestClient::new(&face), TestClient::new(&face));
    slow.say("subscribe a");
    let payload = "x".repeat(1000);
    for _ in 0..3 {
        writer.say(&format!("publish a {payload}"));
    }
    assert!(!slow.inner.is_killed());
    for _ in 0..3 {
        writer.say(&format!("publish a {payload}"));
    }
    assert!(slow.inner.is_killed());
    assert!(slow.inner.waiting() <= 4096);
}

#[test]
fn shard_channels_are_a_space_of_their_own() {
    let face = face();
    let (mut a, mut b) = (TestClient::new(&face), TestClient::new(&face));
    assert_eq!(a.say("ssubscribe s"), "*3\r\n$10\r\nssubscribe\r\n$1\r\ns\r\n:1\r\n");
    assert_eq!(
        b.say("publish s x\nspublish s x\npubsub shardchannels\npubsub channels"),
        ":0\r\n:1\r\n*1\r\n$1\r\ns\r\n*0\r\n"
    );
    assert_eq!(a.mail(), "*3\r\n$8\r\nsmessage\r\n$1\r\ns\r\n$1\r\nx\r\n");
}

#[test]
fn keyspace_events_are_published_if_configured() {
    let face = face();
    let (mut subscriber, mut writer) = (TestClient::new(&face), TestClient::new(&face));
    subscriber.say("psubscribe __key*");
    writer.say("set k 1");
    assert_eq!(subscriber.mail(), "", "off by default");
    assert_eq!(writer.say("config set notify-keyspace-events Eg$x"), "+OK\r\n");
    writer.say("select 2\nset k 1\ndel k\nhset h f v");
    let messages = subscriber.mail();
    assert!(messages.contains("__keyevent@2__:set\r\n$1\r\nk\r\n"), "{messages}");
    assert!(messages.contains("__keyevent@2__:del\r\n$1\r\nk\r\n"), "{messages}");
    assert!(!messages.contains("hset") && !messages.contains("__keyspace"), "{messages}");
}

#[test]
fn expired_events_suit_spring_session() {
    let face = face();
    let (mut subscriber, mut writer) = (TestClient::new(&face), TestClient::new(&face));
    subscriber.say("psubscribe __keyevent@*__:expired");
    writer.say("config set notify-keyspace-events Egx\nset session:1 x px 10\nset session:2 x");
    // Much later: the sweep works by whole seconds.
    let swept = face.shared.store.sweep(NOW + 10_000, 64 << 20);
    let messages = subscriber.mail();
    assert!(
        swept > 0 && messages.contains("__keyevent@0__:expired\r\n$9\r\nsession:1\r\n"),
        "{messages}"
    );
    assert!(!messages.contains("session:2"), "{messages}");
}

#[test]
fn monitor_shows_commands_and_hides_passwords() {
    let face = face();
    let (mut watcher, mut writer) =
        (TestClient::new(&face), TestClient::from(&face, "127.0.0.1:5001"));
    assert_eq!(watcher.say("monitor"), "+OK\r\n");
    writer.say("set k 'a b'\nauth secret\nhello 2 auth default secret\nconfig get x");
    let messages = watcher.mail();
    assert!(messages.contains(" [0 127.0.0.1:5001] \"set\" \"k\" \"a b\"\r\n"), "{messages}");
    assert!(
        messages.starts_with('+') && !messages.contains("secret") && !messages.contains("config"),
        "{messages}"
    );
    drop(watcher);
    assert_eq!(
        face.shared.attention.load(std::sync::atomic::Ordering::Relaxed),
        0,
        "nobody watches any more"
    );
}

#[test]
fn monitor_counts_the_arguments_behind_many() {
    let face = face();
    let (mut watcher, mut client) = (TestClient::new(&face), TestClient::new(&face));
    assert_eq!(watcher.say("monitor"), "+OK\r\n");
    let keys = vec!["k".repeat(100); 10_000];
    let words: String = keys.iter().map(|key| format!("$100\r\n{key}\r\n")).collect();
    client.send(format!("*10001\r\n$6\r\nEXISTS\r\n{words}").as_bytes());
    let line = watcher.mail();
    assert!((64 << 10..70_000).contains(&line.len()), "{} bytes", line.len());
    let shown = line.matches(&keys[0]).count();
    assert!(line.ends_with(&format!(" \"... ({} more arguments)\"\r\n", 10_000 - shown)));
}
