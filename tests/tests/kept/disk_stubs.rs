//! Stubs of memcached's items (`memcached.disk`) whose values cannot be had: they go with them, no
//! other face sees them, and no command is lost over a wait for the disk.

#![allow(clippy::unwrap_used)]

use super::disk_objects::{ITEMS, away, config, figure, fill, hit, set, talk};
use super::upgrade::Line;
use larder_tests::memcache::Talk;
use larder_tests::{Larder, Scratch, wait_until};
use std::net::{Shutdown, TcpStream};

/// How many of the items are answered, each with its bytes.
fn found(talk: &mut Talk<TcpStream>, items: u32) -> u32 {
    let mut found = 0;
    for n in 0..items {
        let answer = talk.ask(format!("get key{n}\r\n"), "END\r\n");
        assert!(answer == "END\r\n" || answer == format!("{}END\r\n", hit(n, 0)), "{n}");
        found += u32::from(answer != "END\r\n");
    }
    found
}

/// A stub whose value the writer refuses once stayed until it was asked for, and took memory from
/// values.
#[test]
fn what_the_disk_does_not_take_is_evicted_as_without_it() {
    let place = Scratch::new("stubs");
    let config = config(&place.file("disk"), "", "");
    let larder = Larder::with_config(&format!("{config}write_limit = \"1MiB\"\n"));
    let mut talk = talk(&larder);
    (0..ITEMS).for_each(|n| set(&mut talk, n, 0));
    assert!(figure(&larder, "object_drops") > 1_000, "the limit is reached");
    // A value on its way is waited for.
    let found = found(&mut talk, ITEMS);
    assert_eq!(figure(&larder, "object_lost"), 0, "no stub without a value");
    assert!(figure(&larder, "object_hits") > 100, "some were written");
    assert!(found < ITEMS - 1_000, "{found}");
    let stored: u64 = talk.stat("extstore_objects_written").parse().unwrap();
    assert_eq!(stored, figure(&larder, "object_stores"));
}

/// A command that waits for the disk was once dropped when its client closed its side.
#[test]
fn a_client_that_closes_its_side_is_answered() {
    let place = Scratch::new("stubs");
    let larder = Larder::with_config(&config(&place.file("disk"), "", ""));
    let mut first = talk(&larder);
    away(&larder, &mut first, 40, "");
    for n in (0..40).step_by(4) {
        let mut client = talk(&larder);
        let ask = format!("get key{n} none key{}\r\nget key{}\r\nmn\r\n", n + 1, n + 2);
        client.send(ask);
        client.stream().shutdown(Shutdown::Write).unwrap();
        let answer = String::from_utf8(client.rest()).unwrap();
        let expected =
            format!("{}{}END\r\n{}END\r\nMN\r\n", hit(n, 0), hit(n + 1, 0), hit(n + 2, 0));
        assert!(answer == expected, "{n}: {} of {} bytes", answer.len(), expected.len());
    }
    assert!(figure(&larder, "object_hits") >= 25);
}

/// Redis's protocol once answered `$6000` and no byte for a stub of a snapshot: all later answers
/// were taken for the value.
#[test]
fn without_the_disk_a_stub_of_before_is_missing_for_every_face() {
    let place = Scratch::new("stubs");
    let top = format!("snapshot = \"{}\"", place.file("snapshot").display());
    let with = config(&place.file("disk"), &top, "") + "[redis]\nlisten = [\"127.0.0.1:0\"]\n";
    let mut larder = Larder::with_config(&with);
    let mut client = talk(&larder);
    fill(&larder, &mut client);
    client.expect("set short 0 0 2\r\nhi\r\n", "STORED\r\n");
    larder.term();
    assert!(larder.wait_exit().success(), "{}", larder.stderr());
    assert!(larder.stderr().contains("of memory are in"), "{}", larder.stderr());

    let without = with.replace("disk = true\n", "");
    let larder = Larder::with_config(&format!("{without}share_memcached = true\n"));
    assert!(larder.stderr().contains("entries of the snapshot"), "{}", larder.stderr());
    let (mut client, mut redis) = (talk(&larder), Talk::tcp(larder.face("redis")));
    redis.expect("GET short\r\n", "$2\r\nhi\r\n");
    let mut missing = Vec::new();
    for n in 0..ITEMS {
        // In one batch: an answer that is out of step is seen at the next one.
        let answer = redis.ask(format!("GET key{n}\r\nECHO key{n}.\r\n"), ".\r\n");
        let echo = format!("${}\r\nkey{n}.\r\n", format!("key{n}.").len());
        if answer == format!("$-1\r\n{echo}") {
            missing.push(n);
            continue;
        }
        let (head, value) = answer.split_once("\r\n").unwrap();
        let length: usize = head.strip_prefix('$').unwrap().parse().unwrap();
        assert!(hit(n, 0).ends_with(&format!("\r\n{}\r\n", &value[..length])), "{n}");
        assert_eq!(value[length..], format!("\r\n{echo}"));
    }
    let stubs = missing.len() as u32;
    assert!(stubs > ITEMS / 3 && stubs < ITEMS, "{stubs} missing");
    for n in missing.iter().step_by(100) {
        client.expect(format!("get key{n}\r\n"), "END\r\n");
        redis.expect(format!("EXISTS key{n}\r\n"), ":0\r\n");
        redis.expect(format!("STRLEN key{n}\r\n"), ":0\r\n");
        client.expect(format!("append key{n} 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
        client.expect(format!("add key{n} 0 0 1\r\nx\r\n"), "STORED\r\n");
        redis.expect(format!("APPEND key{n} y\r\n"), ":2\r\n");
        client.expect(format!("get key{n}\r\n"), &format!("VALUE key{n} 0 2\r\nxy\r\nEND\r\n"));
    }
}

/// An upgrade once threw away what waited for the writer, and gave the stubs of it.
#[test]
fn values_on_their_way_are_found_after_an_upgrade() {
    let place = Scratch::new("stubs");
    let mut line = Line::of(Larder::with_config(&config(&place.file("disk"), "", "")));
    let mut client = talk(&line.larder);
    fill(&line.larder, &mut client);
    // As fast as it can, and at once the upgrade: many values wait.
    (0..1_000).for_each(|n| set(&mut client, ITEMS + n, 0));
    line.upgrade_whole();
    wait_until("the index is filled", || figure(&line.larder, "load_ms") > 0);
    let mut client = talk(&line.larder);
    let found = found(&mut client, ITEMS + 1_000);
    assert!(found > ITEMS / 2, "{found}");
    assert_eq!(figure(&line.larder, "object_lost"), 0);
    assert!(figure(&line.larder, "object_hits") > u64::from(ITEMS / 3));
}
