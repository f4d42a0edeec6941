//! Channels with many subscribers, many channels, many patterns: messages go out in steps, in one
//! order for all.

#![allow(clippy::unwrap_used)]

use larder_tests::redis::{Value, command, keys, words};
use larder_tests::{Redis, Resp, wait_until};
use std::net::TcpStream;

/// Subscribers of one name: a message reaches them in several steps.
const CROWD: usize = 2500;

/// One worker: what holds it holds everybody.
fn one_worker() -> Redis {
    Redis::larder(&["--threads", "1"])
}

fn crowd(larder: &Redis, subscribe: &str) -> Vec<Resp<TcpStream>> {
    crowd_of(CROWD, larder, subscribe)
}

fn crowd_of(count: usize, larder: &Redis, subscribe: &str) -> Vec<Resp<TcpStream>> {
    let crowd = (0..count).map(|_| {
        let mut client = larder.connect();
        client.say(subscribe);
        client
    });
    crowd.collect()
}

#[test]
fn messages_of_two_publishers_reach_a_crowd_in_one_order() {
    const EACH: usize = 20;
    let larder = Redis::larder(&["--threads", "2"]);
    let mut crowd = crowd(&larder, "SUBSCRIBE news");
    let mut publishers = [larder.connect(), larder.connect()];
    for (number, publisher) in publishers.iter_mut().enumerate() {
        let message = |at| command(&["PUBLISH", "news", &format!("{number} {at}")]);
        publisher.send((0..EACH).map(message).collect::<Vec<_>>().concat());
    }
    for publisher in &mut publishers {
        for _ in 0..EACH {
            assert_eq!(publisher.reply().text(), CROWD.to_string());
        }
    }
    let heard = |client: &mut Resp<TcpStream>| -> Vec<String> {
        (0..2 * EACH).map(|_| client.reply().items()[2].text()).collect()
    };
    let first = heard(&mut crowd[0]);
    for publisher in ["0 ", "1 "] {
        let own: Vec<_> = first.iter().filter(|text| text.starts_with(publisher)).collect();
        let sent: Vec<_> = (0..EACH).map(|at| format!("{publisher}{at}")).collect();
        assert_eq!(own, sent.iter().collect::<Vec<_>>());
    }
    for client in &mut crowd[1..] {
        assert_eq!(heard(client), first);
    }
}

#[test]
fn others_are_served_while_a_crowd_gets_a_message() {
    let larder = one_worker();
    for (subscribe, publish) in [
        ("SUBSCRIBE news", "PUBLISH news x"),
        ("PSUBSCRIBE other*", "PUBLISH others x"),
        ("SSUBSCRIBE shard", "SPUBLISH shard x"),
    ] {
        // Several steps on a fast machine as well.
        let _crowd = crowd_of(8000, &larder, subscribe);
        larder.serves_others_during(&[], publish);
    }
}

#[test]
fn subscribers_that_leave_during_a_delivery_keep_nobody_from_the_message() {
    let larder = one_worker();
    let mut crowd = crowd(&larder, "SUBSCRIBE news");
    let mut publisher = larder.connect();
    publisher.send(command(&["PUBLISH", "news", "x"]).repeat(10));
    for (number, client) in crowd.iter_mut().enumerate() {
        if number % 2 == 0 {
            client.send(command(&["UNSUBSCRIBE", "news"]));
        }
    }
    (0..10).for_each(|_| drop(publisher.reply()));
    for client in crowd.iter_mut().skip(1).step_by(2) {
        for _ in 0..10 {
            assert_eq!(client.reply().items()[2].text(), "x");
        }
    }
    assert_eq!(publisher.say("PUBLISH news last"), (CROWD / 2).to_string());
}

#[test]
fn others_are_served_while_many_channels_are_listed_and_patterns_compared() {
    let larder = one_worker();
    let channels = keys("a-channel-with-a-name-of-some-length-", 60_000);
    let mut listeners: Vec<_> = (0..20).map(|_| larder.connect()).collect();
    let mut subscriber = larder.connect();
    subscriber.say("HELLO 3");
    subscriber.send(command(&words(&["SUBSCRIBE"], &channels)));
    channels.iter().for_each(|_| drop(subscriber.reply()));
    for (number, listener) in listeners.iter_mut().enumerate() {
        let patterns = keys(&format!("*a*b{number}-"), 1000);
        listener.send(command(&words(&["PSUBSCRIBE"], &patterns)));
        patterns.iter().for_each(|_| drop(listener.reply()));
    }
    let publish = format!("PUBLISH {} news", "a".repeat(1000));
    for long in ["PUBSUB CHANNELS", "PUBSUB CHANNELS *a*a*a*a*b", &publish] {
        larder.serves_others_during(&[], long);
    }
    let mut client = larder.connect();
    assert_eq!(client.say("PUBSUB NUMPAT"), "20000");
    assert_eq!(client.ask(&["PUBSUB", "CHANNELS"]).items().len(), channels.len());
    listeners[0].send(command(&["PSUBSCRIBE", "*c"]));
    assert_eq!(listeners[0].reply().items()[2].text(), "1001");
    assert_eq!(client.say("PUBLISH abc news"), "1");
    assert_eq!(listeners[0].reply().items()[3].text(), "news");
    // A connection resets all it hears, and is what a new one is.
    assert_eq!(subscriber.say("RESET"), "RESET");
    assert_eq!(subscriber.ask(&["PUBSUB", "CHANNELS"]).items().len(), 0);
    drop(listeners);
    wait_until("the patterns to be left", || client.say("PUBSUB NUMPAT") == "0");
}

/// An event once compared its channel with all patterns in one step.
#[test]
fn others_are_served_while_an_event_is_compared_with_long_patterns() {
    let larder = one_worker();
    let mut listener = larder.connect();
    // Of several stars only the last is moved: each comparison once took the product of the lengths.
    let patterns: Vec<_> =
        (0..500).map(|number| format!("*{}b{number}", "a".repeat(1000))).collect();
    listener.send(command(&words(&["PSUBSCRIBE"], &patterns)));
    patterns.iter().for_each(|_| drop(listener.reply()));
    assert_eq!(larder.connect().say("CONFIG SET notify-keyspace-events KA"), "OK");
    larder.serves_others_during(&[], &format!("SET {} value", "a".repeat(16_000)));
}

/// Keyspace events and invalidations were delivered to all their receivers in one step.
#[test]
fn others_are_served_while_a_crowd_is_told_of_a_write() {
    let larder = one_worker();
    assert_eq!(larder.connect().say("CONFIG SET notify-keyspace-events Eg"), "OK");
    for (join, write) in [
        (&["SUBSCRIBE __keyevent@0__:del"][..], "DEL k"),
        (&["HELLO 3", "CLIENT TRACKING ON", "GET k"], "SET k new"),
        (&["HELLO 3", "CLIENT TRACKING ON BCAST PREFIX k"], "SET k new"),
        (&["HELLO 3", "CLIENT TRACKING ON"], "FLUSHALL"),
    ] {
        let mut crowd: Vec<_> = (0..8000)
            .map(|_| {
                let mut client = larder.connect();
                join.iter().for_each(|line| drop(client.say(line)));
                client
            })
            .collect();
        let again = join.contains(&"GET k");
        larder.serves_others_after(
            |other| {
                if write == "DEL k" {
                    other.say("SET k 1");
                }
                // A client is told once after it has read the key.
                for client in crowd.iter_mut().filter(|_| again) {
                    client.send(command(&["GET", "k"]));
                    while matches!(client.reply(), Value::Many(..)) {}
                }
            },
            write,
        );
    }
}

/// The rest of a delivery follows the command, and keeps its place before what comes later.
#[test]
fn events_of_one_client_reach_a_crowd_in_their_order() {
    const WRITES: usize = 20;
    let larder = one_worker();
    let mut writer = larder.connect();
    assert_eq!(writer.say("CONFIG SET notify-keyspace-events E$"), "OK");
    let mut crowd = crowd(&larder, "PSUBSCRIBE __keyevent@0__:s*");
    let set = |at| command(&["SET", &format!("key{at}"), "x"]);
    let transaction: Vec<_> = (WRITES..2 * WRITES).map(set).collect();
    let plain: Vec<_> = (0..WRITES).map(set).collect();
    writer.send([plain.concat(), command(&["MULTI"]), transaction.concat()].concat());
    writer.send(command(&["EXEC"]));
    (0..2 * WRITES + 1).for_each(|_| drop(writer.reply()));
    assert_eq!(writer.reply().items().len(), WRITES);
    for client in &mut crowd {
        for at in 0..2 * WRITES {
            assert_eq!(client.reply().items()[3].text(), format!("key{at}"));
        }
    }
}

#[test]
fn the_list_of_a_crowd_is_whole_and_its_memory_is_counted() {
    let larder = Redis::larder(&["--threads", "1", "--memory", "64MiB"]);
    let mut crowd = crowd_of(1500, &larder, &format!("CLIENT SETNAME {}", "n".repeat(1000)));
    for client in &mut crowd {
        for library in ["LIB-NAME", "LIB-VER"] {
            client.say(&format!("CLIENT SETINFO {library} {}", "n".repeat(1000)));
        }
    }
    let mut client = larder.connect();
    let before = larder.usage().peak_rss;
    let list = client.say("CLIENT LIST");
    assert_eq!(list.lines().count(), crowd.len() + 1);
    // Once, and not a second time as it is answered.
    let grown = larder.usage().peak_rss - before;
    assert!(grown < list.len() as u64 * 3 / 2, "{grown} bytes for a list of {}", list.len());
    client.say("HELLO 3");
    let list = client.say("CLIENT LIST");
    assert_eq!(list.lines().count(), crowd.len() + 1);
    client.say("MULTI");
    client.say("CLIENT LIST");
    client.say("PING");
    client.send(command(&["EXEC"]));
    let answers = client.reply();
    assert_eq!(answers.items()[0].text().lines().count(), crowd.len() + 1);
    assert_eq!(answers.items()[1].text(), "PONG");
}

#[test]
fn monitors_have_a_largest_number() {
    let larder = one_worker();
    let mut monitors = crowd_of(64, &larder, "MONITOR");
    assert_eq!(larder.connect().say("MONITOR"), "ERR too many clients in MONITOR");
    monitors.pop();
    wait_until("a place among the monitors", || larder.connect().say("MONITOR") == "OK");
}
