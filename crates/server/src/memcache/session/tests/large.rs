//! Values stored as they arrive, and refused values.

use super::*;
use crate::object::WINDOW;

/// A value with varied bytes.
fn value(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

fn command(line: &str, value: &[u8]) -> Vec<u8> {
    [line.as_bytes(), b"\r\n", value, b"\r\n"].concat()
}

#[track_caller]
fn is_there(server: &Server, key: &str, flags: u32, expected: &[u8]) {
    let output = server.exchange([format!("get {key}\r\n").as_bytes()], NOW);
    let head = format!("VALUE {key} {flags} {}", expected.len());
    let whole = [command(&head, expected), b"END\r\n".to_vec()].concat();
    assert!(output.answers == whole, "{key}: {} bytes", output.answers.len());
}

#[test]
fn a_long_value_is_stored_whatever_pieces_it_comes_in() {
    let server = Server::new();
    for len in [WINDOW - 30, WINDOW, WINDOW + 1, 300_000, 1_000_000] {
        let value = value(len);
        for pieces in [usize::MAX, 60_000, 1460] {
            let input =
                [command(&format!("set a 3 0 {len}"), &value), b"version\r\n".to_vec()].concat();
            let output = server.exchange(input.chunks(pieces.min(input.len())), NOW);
            assert_eq!(output.answers, b"STORED\r\nVERSION 1.6.18\r\n", "{len} in {pieces}");
            is_there(&server, "a", 3, &value);
            server.ask("delete a\r\n");
        }
    }
}

#[test]
fn conditions_hold_for_long_values_too() {
    let server = Server::new();
    let (one, two) = (value(100_000), value(150_000));
    let send = |line: &str, value: &[u8]| {
        let input = command(line, value);
        String::from_utf8(server.exchange(input.chunks(10_000), NOW).answers).unwrap()
    };
    assert_eq!(send("replace a 0 0 100000", &one), "NOT_STORED\r\n");
    assert_eq!(send("append a 0 0 100000", &one), "NOT_STORED\r\n");
    assert_eq!(send("cas a 0 0 100000 5", &one), "NOT_FOUND\r\n");
    assert_eq!(send("add a 3 0 100000", &one), "STORED\r\n");
    assert_eq!(send("add a 0 0 150000", &two), "NOT_STORED\r\n");
    assert_eq!(send("cas a 0 0 150000 1", &two), "EXISTS\r\n");
    is_there(&server, "a", 3, &one);
    assert_eq!(send("append a 9 0 150000", &two), "STORED\r\n");
    is_there(&server, "a", 3, &[&one[..], &two].concat());
    assert_eq!(send("set a 4 0 100000", &one), "STORED\r\n");
    assert_eq!(send("prepend a 9 0 150000 noreply", &two), "");
    is_there(&server, "a", 4, &[&two[..], &one].concat());
    assert_eq!(send("ms a 100000 MR F6 k O7", &one), "HD ka O7\r\n");
    is_there(&server, "a", 6, &one);
    assert_eq!(send("ms a 150000 q C1 I", &two), "");
    assert_eq!(server.ask("mg a s\r\n"), "HD s150000 X W\r\n");
    assert_eq!(server.face.counters.cmd_set.get(), 11);
}

#[test]
fn a_long_block_with_a_wrong_end_leaves_the_old_item() {
    let server = Server::new();
    server.ask("set a 0 0 3\r\nold\r\n");
    for (line, answer) in [
        ("set a 0 0 100000", "CLIENT_ERROR bad data chunk\r\n"),
        ("set a 0 0 100000 noreply", ""),
        ("ms a 100000 q", "CLIENT_ERROR bad data chunk\r\n"),
    ] {
        let input = [line.as_bytes(), b"\r\n", &value(100_000), b"xyversion\r\n"].concat();
        for pieces in [input.len(), 4096, 99_999 + line.len()] {
            let output = server.exchange(input.chunks(pieces), NOW);
            assert_eq!(
                String::from_utf8(output.answers).unwrap(),
                format!("{answer}VERSION 1.6.18\r\n"),
                "{line}"
            );
        }
    }
    is_there(&server, "a", 0, b"old");
}

#[test]
fn a_client_that_leaves_within_a_value_leaves_nothing() {
    let server = Server::new();
    let output = server.exchange([&command("set a 0 0 200000", &value(100_000))[..]], NOW);
    assert_eq!(output.answers, b"");
    assert_eq!(server.ask("get a\r\n"), "END\r\n");
}

#[test]
fn an_items_size_includes_memcacheds_overhead() {
    let server = Server::new();
    // 1 MiB less header 48, version 8, key and NUL 4, line end 2; flags that are not 0 take 4.
    let (most, answer) = (1_048_514, "SERVER_ERROR object too large for cache\r\n");
    for (flags, len, stored) in
        [(0, most, true), (0, most + 1, false), (1, most - 4, true), (1, most - 3, false)]
    {
        let output =
            server.exchange([&command(&format!("set big {flags} 0 {len}"), &value(len))[..]], NOW);
        let expected = if stored { "STORED\r\n" } else { answer };
        assert_eq!(String::from_utf8(output.answers).unwrap(), expected, "{flags} {len}");
    }
    assert_eq!(server.face.counters.store_too_large.get(), 2);
}

#[test]
fn a_value_too_large_is_discarded_and_deletes_the_old_item() {
    let server = Server::new();
    let answer = "SERVER_ERROR object too large for cache\r\n";
    for (line, said, stays) in [
        ("set a 0 0 2000000", answer, false),
        ("set a 0 0 2000000 noreply", "", false),
        ("add a 0 0 2000000", answer, true),
        ("append a 0 0 2000000", answer, true),
        ("ms a 2000000 q", answer, false),
        ("ms a 2000000 ME", answer, false),
    ] {
        server.ask("set a 0 0 1\r\n1\r\n");
        let input = [command(line, &value(2_000_000)), b"get a\r\n".to_vec()].concat();
        let there = if stays { "VALUE a 0 1\r\n1\r\nEND\r\n" } else { "END\r\n" };
        for pieces in [input.len(), 10_000] {
            let output = server.exchange(input.chunks(pieces), NOW);
            assert_eq!(
                String::from_utf8(output.answers).unwrap(),
                format!("{said}{there}"),
                "{line}"
            );
        }
    }
    // If the result would be too large, the old item stays.
    server.exchange([&command("set a 0 0 1048500", &value(1_048_500))[..]], NOW);
    assert_eq!(
        server.ask("append a 0 0 30\r\n012345678901234567890123456789\r\n"),
        "NOT_STORED\r\n"
    );
    assert_eq!(server.ask("mg a s\r\n"), "HD s1048500\r\n");
}

#[test]
fn a_limit_above_1_mib_is_honoured() {
    let server = Server::with(MemcachedSettings { item_size: 8 << 20, ..settings() });
    let value = value(7 << 20);
    let output =
        server.exchange(command(&format!("set a 0 0 {}", value.len()), &value).chunks(50_000), NOW);
    assert_eq!(output.answers, b"STORED\r\n");
    is_there(&server, "a", 0, &value);
}

/// Values in transfer occupy at most half of the memory, whatever their number, and return it.
/// Announced values occupy next to nothing.
#[test]
fn values_that_do_not_arrive_leave_memory_for_others() {
    let server = Server::new();
    let kept = value(1000);
    for n in 0..8000 {
        let stored = server.exchange([&command(&format!("set kept{n} 0 0 1000"), &kept)[..]], NOW);
        assert_eq!(stored.answers, b"STORED\r\n");
    }
    let mut out = Out::default();
    let mut begin = |part: &[u8]| {
        let mut session = server.session();
        let mut output = Output { answers: Vec::new(), closed: false };
        let mut input = [b"set stuck 0 0 1000000\r\n", part].concat();
        output.feed(&mut session, &mut input, NOW, &mut out);
        (session, String::from_utf8(output.answers).unwrap())
    };
    let announced: Vec<_> = (0..100).map(|_| begin(b"only this")).collect();
    assert!(announced.iter().all(|(_, answer)| answer.is_empty()));
    assert!(server.client.held() <= 100 * 64 * 1024, "{}", server.client.held());
    drop(announced);

    let part = value(990_000);
    let stuck: Vec<_> = (0..20).map(|_| begin(&part)).collect();
    let held = server.client.held();
    assert!((15 << 20..=16 << 20).contains(&held), "nearly half of 32 MiB: {held}");
    // Five of them were too many; each is answered at its value's end.
    assert!(stuck.iter().all(|(_, answer)| answer.is_empty()));
    is_there(&server, "kept0", 0, &kept);
    is_there(&server, "kept7999", 0, &kept);
    assert_eq!(server.ask("set other 0 0 1\r\na\r\n"), "STORED\r\n");

    let long = command("set long 0 0 1000000", &value(1_000_000));
    let refused = server.exchange(long.chunks(60_000), NOW).answers;
    assert_eq!(refused, b"SERVER_ERROR out of memory storing object\r\n");
    drop(stuck);
    assert_eq!(server.client.held(), 0);
    assert_eq!(server.exchange(long.chunks(60_000), NOW).answers, b"STORED\r\n");
    assert_eq!(
        server.exchange(long.chunks(60_000), NOW).answers,
        b"STORED\r\n",
        "its place was given back"
    );
}

#[test]
fn a_value_that_looks_like_commands_stays_a_value() {
    let server = Server::new();
    server.ask("set b 0 0 1\r\nB\r\n");
    let value = b"get zz\r\n".repeat(25_000);
    let set = command("set a 0 0 200000", &value);
    let input = [&set[..], &b"get b\r\n".repeat(50)].concat();
    let expected = [&b"STORED\r\n"[..], &b"VALUE b 0 1\r\nB\r\nEND\r\n".repeat(50)].concat();
    for pieces in [64, 1460, 4096, 60_000] {
        assert!(
            server.exchange(input.chunks(pieces), NOW).answers == expected,
            "in pieces of {pieces}"
        );
    }
}
