//! Client-side caching.

use super::{TestClient, face};

const INVALID_A: &str = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n";

#[test]
fn readers_of_a_key_receive_one_invalidation() {
    let face = face();
    let (mut me, mut other) = (TestClient::new(&face).resp3(), TestClient::new(&face));
    assert_eq!(me.say("client tracking on\nget a\nmget a b"), "+OK\r\n_\r\n*2\r\n_\r\n_\r\n");
    other.say("set c 1");
    assert_eq!(me.mail(), "", "a key it did not read");
    other.say("set a 1\nset a 2");
    assert_eq!(me.mail(), INVALID_A);
    me.say("get a");
    other.say("del a");
    assert_eq!(me.mail(), INVALID_A);
    me.say("get a");
    other.say("flushall");
    assert_eq!(me.mail(), ">2\r\n$10\r\ninvalidate\r\n_\r\n");
    me.say("client tracking off\nget a");
    other.say("set a 1");
    assert_eq!(me.mail(), "");
    assert_eq!(face.shared.attention.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[test]
fn own_writes_invalidate_after_the_answer_unless_noloop() {
    let mut me = TestClient::new(&face()).resp3();
    assert_eq!(
        me.say("client tracking on\nget a\nset a 1\nping"),
        format!("+OK\r\n_\r\n+OK\r\n{INVALID_A}+PONG\r\n")
    );
    me.say("client tracking off\nclient tracking on noloop\nget a");
    assert_eq!(me.say("set a 1"), "+OK\r\n");
}

#[test]
fn expired_and_swept_keys_are_invalidated() {
    let face = face();
    let mut me = TestClient::new(&face).resp3();
    me.say("client tracking on noloop\nset a 1 px 10\nget a");
    face.shared.store.sweep(super::NOW + 10_000, 64 << 20);
    assert_eq!(me.mail(), INVALID_A);
}

#[test]
fn opt_in_remembers_announced_reads() {
    let face = face();
    let (mut me, mut other) = (TestClient::new(&face).resp3(), TestClient::new(&face));
    me.say("client tracking on optin\nget a");
    other.say("set a 1");
    assert_eq!(me.mail(), "");
    me.say("client caching yes\nget a\nget b");
    other.say("set a 1\nset b 1");
    assert_eq!(me.mail(), INVALID_A, "CACHING counts for one command");
    me.say("client caching yes\nmulti\nget b\nget a\nexec");
    other.say("set a 1");
    assert_eq!(me.mail(), INVALID_A, "or for one transaction");
}

#[test]
fn broadcast_tells_of_keys_by_their_beginning() {
    let face = face();
    let (mut me, mut other) = (TestClient::new(&face).resp3(), TestClient::new(&face));
    me.say("client tracking on bcast prefix a");
    other.say("set a 1\nset b 1\nset a 2");
    assert_eq!(me.mail(), format!("{INVALID_A}{INVALID_A}"));
    assert!(
        me.say("client tracking on bcast prefix ab")
            .starts_with("-ERR Prefix 'ab' overlaps with an existing prefix 'a'.")
    );
}

#[test]
fn resp2_hears_on_another_connection() {
    let face = face();
    let (mut data, mut subscriber, mut other) =
        (TestClient::new(&face), TestClient::new(&face), TestClient::new(&face));
    let id = subscriber.inner.id;
    subscriber.say("subscribe __redis__:invalidate");
    assert_eq!(
        data.say(&format!("client tracking on redirect {id}\nget a\nclient getredir")),
        format!("+OK\r\n$-1\r\n:{id}\r\n")
    );
    other.say("set a 1");
    assert_eq!(
        subscriber.mail(),
        "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$1\r\na\r\n"
    );
    assert_eq!(data.mail(), "");
    data.say("get a");
    drop(subscriber);
    other.say("set a 1");
    assert!(data.say("client trackinginfo").contains("broken_redirect"));
}

#[test]
fn the_table_is_bounded_and_dropped_keys_are_invalidated() {
    let face = face();
    let mut me = TestClient::new(&face).resp3();
    me.say("config set tracking-table-max-keys 100\nclient tracking on");
    let mut invalidated = 0;
    for n in 0..1000 {
        invalidated += me.say(&format!("get key:{n}")).matches("invalidate").count();
    }
    let (keys, items, _, clients) = face.shared.tracking.counts();
    assert!(keys <= 100 && items <= 100, "{keys} {items}");
    assert_eq!((invalidated + keys, clients), (1000, 1), "every key is recorded or invalidated");
}

#[test]
fn departed_clients_do_not_accumulate_at_an_unwritten_key() {
    let face = face();
    let mut me = TestClient::new(&face).resp3();
    me.say("client tracking on\nget hot");
    for _ in 0..1000 {
        TestClient::new(&face).resp3().say("client tracking on\nget hot");
    }
    let (_, items, ..) = face.shared.tracking.counts();
    assert!(items < 130, "{items}");
    TestClient::new(&face).say("set hot 1");
    assert!(me.mail().contains("hot"), "connected clients still receive invalidations");
    assert_eq!(face.shared.tracking.counts().1, 0);
}

#[test]
fn long_keys_leave_the_table_when_they_take_too_much() {
    let face = face();
    let (mut reader, mut writer) = (TestClient::new(&face).resp3(), TestClient::new(&face));
    reader.say("client tracking on");
    // 2 MiB, an eighth of the clients' memory here.
    let key = |n: u32| format!("{n:010000}");
    let count = |text: String| text.matches("invalidate").count();
    let invalidated: usize = (0..1000).map(|n| count(reader.say(&format!("get {}", key(n))))).sum();
    assert!((780..820).contains(&invalidated), "{invalidated} of them have left again");
    // Keys in the table are invalidated by a write; all others were invalidated before.
    let write = |n| {
        writer.say(&format!("set {} 1", key(n)));
        count(reader.mail())
    };
    assert_eq!(invalidated + (0..1000).map(write).sum::<usize>(), 1000);
}

/// They are remembered in parts, as they are read.
#[test]
fn all_of_many_keys_are_remembered() {
    let face = face();
    let (mut reader, mut writer) = (TestClient::new(&face).resp3(), TestClient::new(&face));
    let keys: Vec<String> = (0..3000).map(|n| format!("k{n}")).collect();
    assert_eq!(reader.say("client tracking on"), "+OK\r\n");
    for command in ["mget", "exists", "multi\nmget"] {
        reader.say(&format!("{command} {}", keys.join(" ")));
        if command.starts_with("multi") {
            reader.say("exec");
        }
        for key in ["k0", "k255", "k256", "k1500", "k2999"] {
            assert_eq!(writer.say(&format!("set {key} v")), "+OK\r\n");
            let told = format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n${}\r\n{key}\r\n", key.len());
            assert_eq!(reader.mail(), told, "{command}");
        }
    }
    reader.say(&format!("hmget h {}", keys.join(" ")));
    writer.say("hset h f v");
    assert_eq!(reader.mail(), INVALID_A.replace("$1\r\na", "$1\r\nh"));
    reader.say("client tracking off");
    reader.say(&format!("mget {}", keys.join(" ")));
    writer.say("set k0 v");
    assert_eq!(reader.mail(), "");
}
