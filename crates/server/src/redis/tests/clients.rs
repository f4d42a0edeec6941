//! Authentication, connection states, CLIENT commands on other connections.

use std::sync::Arc;

use super::{TestClient, face, secret, settings, shared};
use crate::{redis::Face, settings::RedisSettings};

fn with_password() -> std::rc::Rc<Face> {
    let users: crate::settings::Users = Arc::new([("ann".to_owned(), secret("hers"))]);
    Face::new(
        &shared(RedisSettings { password: Some(secret("open")), users: Some(users), ..settings() }),
        0,
    )
}

#[test]
fn authentication_comes_before_other_commands() {
    let mut client = TestClient::new(&with_password());
    assert_eq!(client.say("get k"), "-NOAUTH Authentication required.\r\n");
    assert_eq!(
        client.say("nosuch"),
        "-ERR unknown command 'nosuch', with args beginning with: \r\n"
    );
    assert!(client.say("hello 3").starts_with("-NOAUTH HELLO must be called"));
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    assert_eq!(client.say("auth shut"), wrong);
    assert_eq!(client.say("auth ann open"), wrong);
    assert_eq!(client.say("auth nobody hers"), wrong);
    assert_eq!(client.say("get k"), "-NOAUTH Authentication required.\r\n");
    assert_eq!(client.say("auth open"), "+OK\r\n");
    assert_eq!(client.say("get k"), "$-1\r\n");
    assert_eq!(client.say("acl whoami"), "$7\r\ndefault\r\n");
    assert_eq!(client.say("reset\nget k"), "+RESET\r\n-NOAUTH Authentication required.\r\n");
    assert!(client.say("hello 3 auth ann hers").starts_with("%7\r\n"));
    assert_eq!(client.say("acl whoami"), "$3\r\nann\r\n");
}

#[test]
fn a_stranger_may_send_little() {
    let mut client = TestClient::new(&with_password());
    assert_eq!(
        client.send(b"*11\r\n"),
        b"-ERR Protocol error: unauthenticated multibulk length\r\n"
    );
    assert!(client.closed);
    let mut client = TestClient::new(&with_password());
    assert_eq!(
        client.send(b"*2\r\n$4\r\nAUTH\r\n$20000\r\n"),
        b"-ERR Protocol error: unauthenticated bulk length\r\n"
    );
}

#[test]
fn protected_mode_admits_local_clients() {
    let face = face();
    let mut far = TestClient::from(&face, "192.0.2.7:4711");
    let answer = far.say("ping");
    assert!(answer.starts_with("-DENIED Larder is running in protected mode"), "{answer}");
    assert!(far.closed);
    assert_eq!(TestClient::from(&face, "[::ffff:127.0.0.1]:1").say("ping"), "+PONG\r\n");
    let mut near = TestClient::new(&face);
    assert_eq!(near.say("config set protected-mode no"), "+OK\r\n");
    assert_eq!(TestClient::from(&face, "192.0.2.7:4712").say("ping"), "+PONG\r\n");
    assert_eq!(near.say("config set protected-mode yes requirepass x"), "+OK\r\n");
    assert_eq!(
        TestClient::from(&face, "192.0.2.7:4713").say("ping"),
        "-NOAUTH Authentication required.\r\n"
    );
}

#[test]
fn answers_can_be_turned_off_and_skipped() {
    let mut client = TestClient::new(&face());
    assert_eq!(client.say("client reply skip\nset k 1\nget k"), "$1\r\n1\r\n");
    assert_eq!(client.say("client reply off\nset k 2\nget k\nnosuch"), "");
    assert_eq!(client.say("client reply skip\nping"), "", "SKIP does not turn them on");
    assert_eq!(client.say("client reply on\nget k"), "+OK\r\n$1\r\n2\r\n");
    assert_eq!(client.say("client reply off\nreset\nping"), "+RESET\r\n+PONG\r\n");
}

#[test]
fn databases_are_apart() {
    let mut client = TestClient::new(&face());
    assert_eq!(
        client.say("set k zero\nselect 15\nget k\nset k last\nselect 0\nget k"),
        "+OK\r\n+OK\r\n$-1\r\n+OK\r\n+OK\r\n$4\r\nzero\r\n"
    );
    assert_eq!(client.say("select 16"), "-ERR DB index is out of range\r\n");
    assert!(client.say("info keyspace").contains("db15:keys=1,"));
}

#[test]
fn connections_are_listed_and_closed_by_filters() {
    let face = face();
    let (mut me, mut other) = (TestClient::new(&face), TestClient::from(&face, "127.0.0.1:5000"));
    assert_eq!(
        other.say("client setname worker\nselect 3\nsubscribe news").matches("+OK").count(),
        2
    );
    let list = me.say("client list");
    let line = list.lines().find(|line| line.contains("name=worker")).unwrap();
    for part in [
        "addr=127.0.0.1:5000",
        "flags=P",
        "db=3",
        "sub=1",
        "cmd=subscribe",
        "user=default",
        "resp=2",
    ] {
        assert!(line.split(' ').any(|word| word == part), "{part} in {line}");
    }
    assert!(!me.say("client list type normal").contains("name=worker"));
    assert_eq!(me.say("client kill type pubsub skipme yes"), ":1\r\n");
    assert!(other.inner.is_killed() && !me.inner.is_killed());
    assert_eq!(me.say("client kill 127.0.0.1:9"), "-ERR No such client\r\n");
    drop(other);
    assert_eq!(me.say("client list").matches("id=").count(), 1, "who is gone is not listed");
    assert_eq!(me.say("client kill 127.0.0.1:4711"), "+OK\r\n");
    assert!(me.closed, "its own connection ends after the answer");
}

#[test]
fn newer_libraries_may_introduce_themselves() {
    let mut client = TestClient::new(&face());
    assert_eq!(
        client.say("client setinfo LIB-NAME redis-py\nclient setinfo lib-ver 5.0"),
        "+OK\r\n+OK\r\n"
    );
    assert!(client.say("client info").contains(" lib-name=redis-py lib-ver=5.0\n"));
    assert!(client.say("client setinfo foo bar").starts_with("-ERR Unrecognized option 'foo'"));
}
