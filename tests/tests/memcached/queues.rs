//! Kestrel's queues: its commands, readers that leave in every state, limits, and programs that use
//! them.

// A test reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::helper::source_root;
use larder_tests::memcache::{Memcached, Talk, client, script};
use larder_tests::queues::{Queues, set, value};
use larder_tests::scratch::Scratch;
use larder_tests::wait_until;
use std::net::{Shutdown, TcpStream};

#[track_caller]
fn start(lines: &str) -> (Scratch, Queues) {
    let directory = Scratch::new("queues");
    let queues = Queues::start(&directory, lines);
    (directory, queues)
}

/// A figure of a queue.
#[track_caller]
fn stat(talk: &mut Talk<TcpStream>, queue: &str, figure: &str) -> u64 {
    talk.stat(&format!("queue_{queue}_{figure}")).parse().unwrap()
}

#[test]
fn commands_have_kestrels_answers() {
    let (_directory, queues) = start("");
    let mut talk = queues.connect();
    talk.expect("get work\r\n", "END\r\n");
    talk.expect(set("work", "one"), "STORED\r\n");
    talk.expect("SET work 7 0 3\r\ntwo\r\n", "STORED\r\n");
    talk.expect(set("work", ""), "STORED\r\n");
    talk.expect("GET work/peek\r\n", &value("work", "one"));
    talk.expect("get work\r\n", &value("work", "one"));
    talk.expect("get work\r\n", "VALUE work 7 3\r\ntwo\r\nEND\r\n");
    talk.expect("get work/t=5000\r\n", &value("work", ""));
    talk.expect("get work/t=1\r\n", "END\r\n");
    talk.expect("get work/close\r\n", "END\r\n");
    talk.expect("set work 0 0 1 noreply\r\nx\r\nget work\r\n", &value("work", "x"));
    talk.expect("set work 0 0 1\r\nxx\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\n");
    assert!(talk.ask("version\r\n", "\r\n").contains("VERSION "));
    talk.expect("status\r\n", "UP\r\n");
    talk.expect("nonsense\r\n", "ERROR\r\n");
    talk.expect("shutdown\r\n", "ERROR: shutdown not enabled\r\n");
    for data in ["a", "b", "c"] {
        talk.expect(set("work", data), "STORED\r\n");
    }
    talk.expect("flush work\r\n", "END\r\n").expect("get work\r\n", "END\r\n");
    talk.expect(set("work", "d") + &set("other", "e"), "STORED\r\nSTORED\r\n");
    talk.expect("flush_all\r\n", "Flushed all queues.\r\n").expect("get other\r\n", "END\r\n");
    talk.expect("delete work\r\n", "END\r\n").expect("delete work\r\n", "END\r\n");
    let all = talk.ask("stats\r\n", "END\r\n");
    assert!(all.contains("STAT queue_other_total_items 1\r\n"), "{all}");
    assert!(!all.contains("queue_work_"), "{all}");
    let dump = talk.ask("dump_stats\r\n", "END\r\n");
    assert!(dump.starts_with("queue 'other' {\r\n  items=0\r\n"), "{dump}");
    let config = talk.ask("dump_config\r\n", "END\r\n");
    assert!(config.contains("  item_size=1048576\r\n"), "{config}");
    talk.expect("set more 0 -1 1\r\nx\r\nset more 0 -1 1\r\nx\r\n", "STORED\r\nSTORED\r\n");
    talk.expect("flush_expired more\r\n", "2\r\n").expect("flush_all_expired\r\n", "0\r\n");
    talk.send("quit\r\n");
    assert_eq!(talk.rest(), b"");
}

#[test]
fn a_command_that_cannot_be_meant_closes_and_others_do_not() {
    let (_directory, queues) = start("");
    for line in ["get q/open/peek", "get /open", "get q/what", "set q 0 0 x", "GET / HTTP/1.1"] {
        let mut talk = queues.connect();
        talk.send(format!("{line}\r\n"));
        let rest = talk.rest();
        assert!(rest.is_empty() || rest.starts_with(b"CLIENT_ERROR"), "{line}");
    }
    let mut talk = queues.connect();
    talk.expect("get\r\n", "CLIENT_ERROR bad command line format\r\n");
    talk.expect("set a/b 0 0 1\r\nx\r\n", "CLIENT_ERROR bad command line format\r\n");
    // As the name of its directory it is too long; the same length of plain characters is not.
    for (name, answer) in [
        ("é".repeat(42), "STORED\r\n"),
        ("é".repeat(43), "CLIENT_ERROR bad command line format\r\n"),
        (":".repeat(86), "CLIENT_ERROR bad command line format\r\n"),
        ("q".repeat(250), "STORED\r\n"),
    ] {
        talk.expect(set(&name, "x"), answer);
    }
    // Data of a command that queues do not have is no command.
    talk.expect("set kept 0 0 1\r\nx\r\n", "STORED\r\n");
    for verb in ["add", "replace", "append", "prepend", "cas"] {
        let unique = if verb == "cas" { " 7" } else { "" };
        talk.expect(format!("{verb} q 0 0 9{unique}\r\nflush_all\r\n"), "ERROR\r\n");
    }
    talk.expect("ms q 9 T0\r\nflush_all\r\n", "ERROR\r\n");
    let mut closed = queues.connect();
    closed.send("add q 0 0 x\r\nflush_all\r\n");
    assert_eq!(closed.rest(), b"ERROR\r\n");
    talk.expect("get kept\r\n", "VALUE kept 0 1\r\nx\r\nEND\r\n");
    let large = "x".repeat((1 << 20) + 1);
    talk.expect(set("q", &large), "SERVER_ERROR object too large for queue\r\n");
    talk.expect("get q\r\n", "END\r\n");
}

/// Data longer or shorter than announced: as memcached, which takes what follows the announced
/// bytes as a command.
#[test]
fn data_of_another_length_has_memcacheds_answers() {
    let (_directory, queues) = start("");
    let memcached = Memcached::debian(&[]);
    for data in [
        "set q 0 0 1\r\nab\r\n",
        "set q 0 0 1\r\nabcdefgh\r\n",
        "set q 0 0 1\r\nabcdefgh\n",
        "set q 0 0 1\r\na\nX\r\n",
        "set q 0 0 1 noreply\r\nabcdefgh\r\n",
        "set q 0 0 5\r\nab\r\nget x\r\n",
    ] {
        let command = format!("{data}get none\r\n");
        let theirs = memcached.connect().ask(&command, "END\r\n");
        let ours = queues.connect().ask(&command, "END\r\n");
        assert_eq!(ours, theirs, "{data:?}");
        assert!(ours.contains("ERROR\r\n"), "{ours:?}");
    }
}

#[test]
fn large_items_pass_in_pieces() {
    let (_directory, queues) = start("item_size = \"8MiB\"");
    let mut talk = queues.connect();
    let large: String = (0..5_000_000u32).map(|n| char::from(b'a' + (n % 23) as u8)).collect();
    talk.expect(set("q", &large), "STORED\r\n");
    talk.expect(set("q", "next"), "STORED\r\n");
    let answer = talk.ask("get q\r\n", "END\r\n");
    assert!(answer == value("q", &large), "{} bytes", answer.len());
    talk.expect("get q\r\n", &value("q", "next"));
    // A reader that leaves in the middle of an item has not got it.
    talk.expect(set("q", &large), "STORED\r\n");
    let mut leaves = queues.connect();
    leaves.send("get q\r\n").take(1);
    drop(leaves);
    wait_until("the item to come back", || stat(&mut talk, "q", "items") == 1);
    let answer = talk.ask("get q\r\n", "END\r\n");
    assert!(answer == value("q", &large), "{} bytes", answer.len());
}

#[test]
fn opened_items_are_closed_aborted_or_come_back() {
    let (_directory, queues) = start("");
    let (mut one, mut two) = (queues.connect(), queues.connect());
    for data in ["1", "2", "3"] {
        one.expect(set("q", data), "STORED\r\n");
    }
    one.expect("get q/open\r\n", &value("q", "1"));
    one.expect("get q/close/open\r\n", &value("q", "2"));
    one.expect("get q/abort\r\n", "END\r\n");
    one.expect("get q/t=10/open\r\n", &value("q", "2"));
    two.expect("get q/peek\r\n", &value("q", "3"));
    assert_eq!(stat(&mut two, "q", "open_transactions"), 1);
    // The second opens its item first: the one that comes back goes to the front.
    two.expect("get q/t=20000/open\r\n", &value("q", "3"));
    drop(one);
    wait_until("the item of the reader that left", || stat(&mut two, "q", "items") == 1);
    // A second open read, and a plain one beside an open read, end the connection.
    two.send("get q/open\r\n");
    assert_eq!(two.rest(), b"ERROR\r\n");
    let mut three = queues.connect();
    wait_until("both items", || stat(&mut three, "q", "items") == 2);
    three.expect("get q/open\r\n", &value("q", "2"));
    three.send("get q\r\n");
    assert_eq!(three.rest(), b"ERROR\r\n");
    let mut four = queues.connect();
    wait_until("both items again", || stat(&mut four, "q", "items") == 2);
    four.expect("get q\r\n", &value("q", "2")).expect("get q\r\n", &value("q", "3"));
    assert_eq!(stat(&mut four, "q", "canceled_transactions"), 4);
}

#[test]
fn readers_wait_in_their_order_and_leave_while_they_wait() {
    let (_directory, queues) = start("");
    let mut writer = queues.connect();
    let mut first = queues.connect();
    first.send("get q/t=60000\r\n");
    writer.expect(set("q", "first"), "STORED\r\n");
    assert_eq!(first.ask("", "END\r\n"), value("q", "first"));
    let mut waiting = Vec::new();
    for number in 1..=3 {
        let mut reader = queues.connect();
        reader.send("get q/t=60000\r\n");
        wait_until("it to wait", || stat(&mut writer, "q", "waiters") == number);
        waiting.push(reader);
    }
    drop(waiting.remove(0));
    wait_until("one to be gone", || stat(&mut writer, "q", "waiters") == 2);
    writer.expect(set("q", "a") + &set("q", "b"), "STORED\r\nSTORED\r\n");
    assert_eq!(waiting[0].ask("", "END\r\n"), value("q", "a"));
    assert_eq!(waiting[1].ask("", "END\r\n"), value("q", "b"));
    // One that waits is told at the end of its time.
    waiting[0].expect("get q/t=30\r\n", "END\r\n");
}

#[test]
fn no_item_is_lost_to_readers_that_leave_as_it_comes() {
    let (_directory, queues) = start("");
    let mut writer = queues.connect();
    for number in 0..200 {
        let mut reader = queues.connect();
        reader.send("get q/t=60000\r\n");
        writer.send(set("q", &number.to_string()));
        drop(reader);
        assert_eq!(writer.take(8), b"STORED\r\n");
    }
    // Readers that were answered before they left have taken theirs; what is left is in order.
    let mut found = Vec::new();
    loop {
        let answer = writer.ask("get q/t=300\r\n", "END\r\n");
        let Some(number) = answer.lines().nth(1) else { break };
        found.push(number.parse::<u32>().unwrap());
    }
    assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "{found:?}");
    assert_eq!(stat(&mut writer, "q", "open_transactions"), 0);
}

#[test]
fn a_client_that_closes_its_side_gets_its_answers() {
    let (_directory, queues) = start("sync = \"always\"");
    let mut talk = queues.connect();
    talk.send(set("q", "1") + &set("q", "2") + "get q\r\nget q/open\r\nget q/close\r\n");
    talk.stream().shutdown(Shutdown::Write).unwrap();
    let wanted = format!("STORED\r\nSTORED\r\n{}{}END\r\n", value("q", "1"), value("q", "2"));
    assert_eq!(String::from_utf8(talk.rest()).unwrap(), wanted);
}

#[test]
fn monitors_open_items_and_confirm_closes_them() {
    let (_directory, queues) = start("");
    let (mut reader, mut writer) = (queues.connect(), queues.connect());
    writer.expect(set("q", "1"), "STORED\r\n");
    reader.send("monitor q 60 3\r\n");
    assert_eq!(reader.take(value("q", "1").len()), value("q", "1").as_bytes());
    writer.expect(set("q", "2") + &set("q", "3") + &set("q", "4"), &"STORED\r\n".repeat(3));
    let wanted = value("q", "2") + &value("q", "3") + "END\r\n";
    assert_eq!(String::from_utf8(reader.take(wanted.len())).unwrap(), wanted);
    assert_eq!(stat(&mut writer, "q", "open_transactions"), 3);
    reader.expect("confirm q 2\r\n", "END\r\n").expect("confirm q 2\r\n", "ERROR\r\n");
    writer.expect("get q\r\n", &value("q", "4"));
    reader.expect("monitor q 0\r\n", "END\r\n");
    drop(reader);
    writer.expect("get q\r\n", "END\r\n");
}

#[test]
fn children_get_copies_and_limits_hold() {
    let (_directory, queues) = start(
        "max_queues = 8\n\
         [[queue.named]]\nname = \"two\"\nmax_items = 2\n\
         [[queue.named]]\nname = \"newest\"\nmax_bytes = 10\ndiscard_oldest = true\n\
         [[queue.named]]\nname = \"poison\"\nmax_aborts = 2\nerror_queue = \"errors\"\n\
         [[queue.named]]\nname = \"events\"\nfanout_only = true",
    );
    let mut talk = queues.connect();
    talk.expect("get orders+audit\r\n", "END\r\n");
    talk.expect(set("orders", "o"), "STORED\r\n");
    talk.expect("get orders+audit\r\n", &value("orders+audit", "o"));
    talk.expect("get orders\r\n", &value("orders", "o"));
    // A reader of a child waits for items of the parent.
    let mut waits = queues.connect();
    waits.expect("get events+log\r\n", "END\r\n").send("get events+log/t=60000\r\n");
    wait_until("it to wait", || stat(&mut talk, "events+log", "waiters") == 1);
    talk.expect(set("events", "e"), "STORED\r\n").expect("get events\r\n", "END\r\n");
    assert_eq!(waits.ask("", "END\r\n"), value("events+log", "e"));
    talk.expect(set("two", "1") + &set("two", "2"), "STORED\r\nSTORED\r\n");
    talk.expect(set("two", "3"), "NOT_STORED\r\n");
    talk.expect(set("newest", "12345678"), "STORED\r\n");
    talk.expect(set("newest", "abc"), "STORED\r\n")
        .expect("get newest\r\n", &value("newest", "abc"));
    talk.expect(set("poison", "p"), "STORED\r\n");
    talk.expect("get poison/open\r\nget poison/abort\r\n", &(value("poison", "p") + "END\r\n"));
    let mut leaves = queues.connect();
    leaves.expect("get poison/open\r\n", &value("poison", "p"));
    drop(leaves);
    talk.expect("get errors/t=60000\r\n", &value("errors", "p"))
        .expect("get poison\r\n", "END\r\n");
    talk.expect(set("a", "x") + &set("b", "x"), "STORED\r\nSERVER_ERROR too many queues\r\n");
}

#[test]
fn kestrels_own_client_uses_queues() {
    let (_directory, queues) = start("");
    let mut command = script("/usr/bin/python3", "kestrel_client.py");
    command.arg(queues.addr().to_string());
    // It was written for Python 2, where a module finds those beside it by their names alone.
    let installed = source_root().join("tests/.cache/kestrel");
    let paths = [installed.clone(), installed.join("kestrel")];
    command.env("PYTHONPATH", std::env::join_paths(paths).unwrap());
    assert_eq!(String::from_utf8_lossy(&client(&mut command).stdout), "ok\n");
}

#[test]
fn pymemcache_and_pylibmc_use_queues() {
    let (_directory, queues) = start("");
    let output = client(script("/usr/bin/python3", "queues.py").arg(queues.addr().to_string()));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n");
}
