//! What memcached prints at `-vv`, and what waiting connections are counted as.

use larder_tests::{Memcached, wait_until};

/// The lines that a server printed of connections, from the first with a client's command on,
/// without the numbers of connections.
fn conversation(server: &Memcached) -> Vec<String> {
    let printed = server.printed();
    let lines = printed
        .lines()
        .filter(|line| line.starts_with(['<', '>']) || line.contains(": Client using"));
    let mut lines = lines
        .map(|line| line.trim_start_matches(|c: char| c.is_ascii_digit()).to_owned())
        .map(|line| {
            let (arrow, rest) = line.split_at(line.len().min(1));
            format!("{arrow}{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
        });
    let _before = lines.by_ref().take_while(|line| !line.contains("mn first")).count();
    lines.take_while(|line| !line.contains("mn last")).collect()
}

#[test]
fn commands_and_answers_are_printed_as_memcached_prints_them() {
    let printed = |server: Memcached| {
        let mut talk = server.connect();
        talk.expect("mn first\r\n", "MN\r\n");
        for (command, end) in [
            ("get foo\r\n", "END\r\n"),
            ("set foo 0 0 3\r\nbar\r\n", "STORED\r\n"),
            ("get foo bar foo\r\n", "END\r\n"),
            ("set large 0 0 5000\r\n", ""),
            (&*format!("{}\r\n", "END\r\n".repeat(1000)), "STORED\r\n"),
            ("gets large\r\n", "\r\nEND\r\n"),
            ("delete large\r\n", "DELETED\r\n"),
            ("incr foo 1\r\n", "value\r\n"),
            ("set n 5 0 1\r\n1\r\n", "STORED\r\n"),
            ("incr n 5\r\n", "6\r\n"),
            ("gat 100 n foo\r\n", "END\r\n"),
            ("touch nothing 1\r\n", "NOT_FOUND\r\n"),
            ("mg foo v\r\n", "bar\r\n"),
            ("mg nothing v\r\n", "EN\r\n"),
            ("ms a 2\r\nxx\r\n", "HD\r\n"),
            ("bogus\r\n", "ERROR\r\n"),
            ("version\r\n", "1.6.18\r\n"),
            ("stats settings\r\n", "END\r\n"),
            ("set foo 0 0 2000000\r\n", ""),
        ] {
            talk.send(command);
            if !end.is_empty() {
                let (got, _) = talk.until(end.as_bytes());
                assert!(got.ends_with(end.as_bytes()), "{command}");
            }
        }
        talk.send(vec![b'x'; 2_000_002]);
        talk.expect("mn last\r\n", "SERVER_ERROR object too large for cache\r\nMN\r\n");
        wait_until("the last command to be printed", || server.printed().contains("mn last"));
        conversation(&server)
    };
    let flags = ["-vv", "-t", "1"];
    assert_eq!(printed(Memcached::larder(&flags)), printed(Memcached::debian(&flags)));
}

#[test]
fn printing_can_begin_and_end_while_running() {
    let larder = Memcached::larder(&[]);
    let mut talk = larder.connect();
    talk.expect("get silent\r\nverbosity 2\r\n", "END\r\nOK\r\n");
    talk.expect("get shown\r\nverbosity 0\r\n", "END\r\nOK\r\n");
    talk.expect("get silent\r\n", "END\r\n");
    let printed = larder.printed();
    assert!(printed.contains(" get shown\n") && !printed.contains("silent"), "{printed}");
}

#[test]
fn how_long_connections_waited_is_counted() {
    let larder = Memcached::larder(&["-c", "2", "-o", "no_maxconns_fast"]);
    let (mut first, mut second) = (larder.connect(), larder.connect());
    // Both have their places: of connections on different threads an earlier one could come later.
    first.expect("mn\r\n", "MN\r\n");
    second.expect("mn\r\n", "MN\r\n");
    let mut third = larder.connect();
    wait_until("somebody to wait", || first.stat("listen_disabled_num") != "0");
    drop(second);
    third.expect("mn\r\n", "MN\r\n");
    wait_until("the time to be counted", || first.stat("time_in_listen_disabled_us") != "0");
}
