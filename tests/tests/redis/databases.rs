//! SWAPDB: what a database has is another's at once, for all connections and all they have begun.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::{Larder, Redis, Resp, Scratch, redis::command};

#[test]
fn swapped_databases_answer_as_in_redis() {
    let (larder, redis) = (Redis::larder(&[]), Redis::debian(&[]));
    let mut pairs = [0, 1, 2].map(|_| [larder.connect(), redis.connect()]);
    for (client, line) in [
        (0, "SET a zero"),
        (1, "SELECT 1"),
        (1, "SET a one"),
        (1, "RPUSH l x y"),
        (2, "SWAPDB 0 1"),
        (0, "GET a"),
        (1, "GET a"),
        (0, "LRANGE l 0 -1"),
        (1, "SET a ONE"),
        (0, "DBSIZE"),
        (2, "SWAPDB 0 0"),
        (2, "SWAPDB 0 16"),
        (2, "SWAPDB x 1"),
        (2, "SWAPDB 0 x"),
        (2, "SWAPDB 0"),
        // A transaction sees the swap from its next command on.
        (2, "MULTI"),
        (2, "GET a"),
        (2, "SWAPDB 0 1"),
        (2, "GET a"),
        (2, "SET b 2"),
        (2, "EXEC"),
        (0, "GET b"),
        (1, "GET b"),
        (0, "MOVE b 1"),
        (1, "GET b"),
        // A key under WATCH that another now has.
        (0, "WATCH a"),
        (2, "SWAPDB 1 0"),
        (0, "MULTI"),
        (0, "GET a"),
        (0, "EXEC"),
        (0, "EVAL redis.call('swapdb',0,1)return{redis.call('get','a'),redis.call('get','b')} 0"),
        (0, "GET a"),
        (1, "GET a"),
        (2, "FLUSHDB"),
        (1, "GET a"),
        (0, "GET a"),
    ] {
        let words: Vec<&str> = match line.strip_prefix("EVAL ") {
            Some(script) => vec!["EVAL", script.strip_suffix(" 0").unwrap(), "0"],
            None => line.split(' ').collect(),
        };
        let [ours, theirs] = pairs[client].each_mut().map(|client| client.ask(&words));
        assert_eq!(ours, theirs, "{line}");
    }
}

/// A client that waits in a database gets items that a swap brings there.
#[test]
fn waiting_clients_are_served_by_a_swap() {
    for server in [Redis::larder(&[]), Redis::debian(&[])] {
        let (mut admin, mut waiting, mut other) =
            (server.connect(), server.connect(), server.connect());
        assert_eq!(admin.say("SELECT 1"), "OK");
        assert_eq!(admin.say("RPUSH l x"), "1");
        waiting.send(command(&["BLPOP", "l", "0"]));
        server.wait_for_blocked(1);
        assert_eq!(admin.say("SWAPDB 0 1"), "OK");
        assert_eq!(waiting.reply().items()[1].text(), "x");
        // It still waits in its database, and not in its old place.
        waiting.send(command(&["BLPOP", "l", "0"]));
        server.wait_for_blocked(1);
        assert_eq!(admin.say("SWAPDB 0 1"), "OK");
        assert_eq!(admin.say("RPUSH l one"), "1");
        assert_eq!(other.say("RPUSH l zero"), "1");
        assert_eq!(waiting.reply().items()[1].text(), "zero");
    }
}

/// Writers on all workers, while databases change places: each write is in the database that its
/// connection has, and no value of one database is ever seen in the other but by a swap.
#[test]
fn writers_see_whole_swaps() {
    let larder = Redis::larder(&[]);
    let mut writers: Vec<_> = (0..4).map(|_| larder.connect()).collect();
    let mut swapper = larder.connect();
    for round in 0..200 {
        // A transaction writes and reads one database, whichever place it has.
        for (nth, client) in writers.iter_mut().enumerate() {
            let value = format!("{round}-{nth}");
            let mut bytes = Vec::new();
            for words in [&["MULTI"][..], &["SET", "k", &value], &["GET", "k"], &["EXEC"]] {
                bytes.extend(command(words));
            }
            client.send(bytes);
        }
        swapper.send(command(&["SWAPDB", "0", "1"]));
        for (nth, client) in writers.iter_mut().enumerate() {
            (0..3).for_each(|_| drop(client.reply()));
            assert_eq!(client.reply().items()[1].text(), format!("{round}-{nth}"));
        }
        assert_eq!(swapper.reply().text(), "OK");
    }
}

/// The places of databases are kept with what they have.
#[test]
fn swapped_databases_stay_over_a_snapshot() {
    let dir = Scratch::new("databases");
    let config = format!(
        "memory = \"32MiB\"\nsnapshot = \"{}\"\n[http]\nlisten = \"127.0.0.1:0\"\n[[site]]\n\
         origin = \"http://127.0.0.1:9\"\n[redis]\nlisten = \"127.0.0.1:0\"\n",
        dir.file("snapshot").display()
    );
    let mut larder = Larder::with_config(&config);
    let mut client = Resp::tcp(larder.face("redis"));
    for line in ["SET a zero", "SWAPDB 0 3"] {
        assert_eq!(client.say(line), "OK");
    }
    drop(client);
    larder.term();
    larder.wait_exit();
    let larder = Larder::with_config(&config);
    let mut client = Resp::tcp(larder.face("redis"));
    assert_eq!(client.say("GET a"), "(nil)");
    assert_eq!(client.say("SELECT 3"), "OK");
    assert_eq!(client.say("GET a"), "zero");
}
