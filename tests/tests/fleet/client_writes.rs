//! How many writes a set takes, counted by strace: one, whatever the size around the 8 KiB where
//! clients that gather in a buffer begin to take two (the second of which waits for a delayed
//! acknowledgement, where TCP_NODELAY is not set).

#![allow(clippy::unwrap_used)]

use larder_tests::{Memcached, Scratch, client::peer, larder::binary};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;

/// Stores a value of each size by `larder set` under strace; gives the writes to the connection of
/// each, and how many of all `setsockopt`s set TCP_NODELAY.
fn writes(server: &str, sizes: &[usize]) -> (Vec<usize>, usize) {
    let scratch = Scratch::new("writes");
    let traced = scratch.file("traced");
    let mut command = Command::new("strace");
    command.args([
        "-f",
        "-yy",
        "-s",
        "40",
        "-e",
        "trace=write,writev,sendto,sendmsg,setsockopt",
        "-o",
    ]);
    command.arg(&traced).arg(binary()).args([
        "set",
        "--text",
        "--timeout",
        "20s",
        "--servers",
        server,
    ]);
    for size in sizes {
        let file = scratch.write(&format!("value-{size}"), &"v".repeat(*size));
        command.arg("--file").arg(file);
    }
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("strace: {e}; scripts/test-deps.sh installs what tests need"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let traced = std::fs::read_to_string(traced).unwrap();
    let is_write = |line: &&str| {
        line.contains("TCP:[")
            && ["write", "send"].iter().any(|call| line.contains(call))
            && !line.contains("EAGAIN")
    };
    let mut counts = Vec::new();
    for line in traced.lines().filter(is_write) {
        match line.contains("\"set value-") {
            true => counts.push(1),
            false => *counts.last_mut().unwrap() += 1,
        }
    }
    (counts, traced.lines().filter(|line| line.contains("TCP_NODELAY, [1]")).count())
}

/// Answers every set. Its window is small, and it acknowledges late.
fn small_and_late(stream: TcpStream, sets: usize) -> usize {
    rustix::net::sockopt::set_tcp_quickack(&stream, false).unwrap();
    let mut answers = stream.try_clone().unwrap();
    let mut requests = BufReader::with_capacity(1500, stream);
    for done in 0..sets {
        let mut line = String::new();
        if requests.read_line(&mut line).unwrap() == 0 {
            return done;
        }
        let size: usize = line.trim_end().rsplit(' ').next().unwrap().parse().unwrap();
        let mut value = vec![0; size + 2];
        requests.read_exact(&mut value).unwrap();
        assert!(value.ends_with(b"v\r\n"));
        answers.write_all(b"STORED\r\n").unwrap();
    }
    sets
}

/// Around 8 KiB with and without the head, and above.
fn sizes() -> Vec<usize> {
    (8170..=8200).chain([1, 1400, 1500, 2048, 2049, 4096, 10_240, 16_384]).collect()
}

#[test]
fn a_set_is_one_write_at_every_size() {
    let server = Memcached::debian(&[]);
    let (counts, nodelay) = writes(&server.server(), &sizes());
    assert_eq!(counts, vec![1; sizes().len()]);
    assert_eq!(nodelay, 1, "one connection, and TCP_NODELAY on it");
}

#[test]
fn small_windows_and_late_acknowledgements_make_no_more_writes() {
    let many = sizes().len();
    let (server, played) = peer(move |listener| {
        rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
        small_and_late(listener.accept().unwrap().0, many)
    });
    let (counts, _) = writes(&server.address.to_string(), &sizes());
    assert_eq!(counts, vec![1; many]);
    assert_eq!(played.join().unwrap(), many);
}

#[test]
fn a_large_set_is_written_in_the_pieces_the_socket_takes() {
    let server = Memcached::debian(&[]);
    let (counts, _) = writes(&server.server(), &[100_000, 1_000_000]);
    assert_eq!(counts.len(), 2);
    assert!(counts[0] <= 4 && counts[1] <= 40, "{counts:?}");
}
