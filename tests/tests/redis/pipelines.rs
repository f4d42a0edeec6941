//! Pipelines sent whole before the first answer is read, as libraries send them.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::{Larder, Redis, Resp};
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

/// Long enough for debug builds on a busy machine; a test that takes as long has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Sends all of `commands` and reads nothing meanwhile; then reads and compares answers of
/// `answers` bytes.
fn write_then_read(server: &Redis, commands: &[u8], answers: impl Iterator<Item = Vec<u8>>) {
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(commands).expect("the server takes the whole pipeline");
    let mut got = Vec::new();
    for expected in answers {
        got.resize(expected.len(), 0);
        stream.read_exact(&mut got).expect("an answer");
        assert!(got == expected, "{:?} instead of {:?}", ends(&got), ends(&expected));
    }
    stream.write_all(b"PING\r\n").unwrap();
    got.resize(7, 0);
    stream.read_exact(&mut got).unwrap();
    assert_eq!(String::from_utf8_lossy(&got), "+PONG\r\n", "and nothing behind the last answer");
}

/// For a message: not megabytes.
fn ends(bytes: &[u8]) -> String {
    format!("{}... ({} bytes)", String::from_utf8_lossy(&bytes[..bytes.len().min(40)]), bytes.len())
}

/// Numbered texts of 100 bytes: an answer that is not in its place is seen.
fn text(number: usize) -> String {
    format!("{number:0100}")
}

#[test]
fn a_pipeline_of_many_megabytes_is_taken_before_an_answer_is_read() {
    // Half of the memory may be held so.
    let larder = Redis::larder(&["--memory", "512MiB"]);
    for megabytes in [10, 50, 50, 50] {
        let count = megabytes * 1_000_000 / 108;
        let commands: String =
            (0..count).map(|n| format!("*2\r\n$4\r\nPING\r\n$100\r\n{}\r\n", text(n))).collect();
        let answers = (0..count).map(|n| format!("$100\r\n{}\r\n", text(n)).into_bytes());
        write_then_read(&larder, commands.as_bytes(), answers);
    }
    // What one such client has needed is used again for the next one.
    assert!(larder.usage().peak_rss < 256 << 20, "{:?}", larder.usage());
}

#[test]
fn large_values_wait_in_the_store_while_commands_are_received() {
    let larder = Redis::larder(&["--memory", "256MiB"]);
    let mut talk = larder.connect();
    let large = "v".repeat(20_000);
    assert_eq!(talk.ask(&["SET", "large", &large]).text(), "OK");
    // Each asked for value is followed by a long command with a short answer, and one in ten by two
    // of one transaction.
    let (mut commands, mut answers) = (Vec::new(), Vec::new());
    for number in 0..3000 {
        commands.extend_from_slice(b"GET large\r\n");
        answers.push(format!("$20000\r\n{large}\r\n").into_bytes());
        let value = text(number).repeat(50);
        commands.extend_from_slice(
            format!("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5000\r\n{value}\r\n").as_bytes(),
        );
        answers.push(b"+OK\r\n".to_vec());
        if number % 10 == 0 {
            commands.extend_from_slice(b"MULTI\r\nSTRLEN a\r\nGET a\r\nEXEC\r\n");
            answers.push(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n".to_vec());
            answers.push(format!("*2\r\n:5000\r\n$5000\r\n{value}\r\n").into_bytes());
        }
    }
    write_then_read(&larder, &commands, answers.into_iter());
}

#[test]
fn who_sends_for_ever_and_never_reads_is_closed_and_counted() {
    // In that time a busy machine takes more than what may be gathered: half of the memory, and 16
    // MiB.
    let larder = Larder::with_config(
        "memory = \"64MiB\"\nthreads = 1\n[http]\nlisten = \"127.0.0.1:0\"\n[[site]]\norigin = \"http://127.0.0.1:9\"\n\
         [redis]\nlisten = \"127.0.0.1:0\"\nsend_timeout = \"10s\"\n",
    );
    let mut stream = TcpStream::connect(larder.face("redis")).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let batch = format!("*2\r\n$4\r\nPING\r\n$100\r\n{}\r\n", text(1)).repeat(1000);
    let mut sent = 0u64;
    let error = loop {
        match stream.write(batch.as_bytes()) {
            Ok(n) => sent += n as u64,
            Err(error) => break error,
        }
        assert!(sent < 1 << 30, "there is no limit");
    };
    assert!(
        !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut),
        "{error}"
    );
    assert!(sent > 16 << 20, "{sent}");
    let mut other = Resp::tcp(larder.face("redis"));
    let info = other.ask(&["INFO", "stats"]).text();
    let clients = other.ask(&["INFO", "clients"]).text();
    let stats = format!("{info}{clients}");
    let counted = ["stalled_connections:1\r\n", "evicted_clients:1\r\n"];
    assert!(counted.iter().any(|line| stats.contains(line)), "{stats}");
    assert!(larder.usage().peak_rss < (64 + 64) << 20, "{:?}", larder.usage());
}

#[test]
fn who_ends_its_side_after_a_long_pipeline_gets_all_answers() {
    let larder = Redis::larder(&[]);
    let count = 120_000;
    let commands: String = (0..count).map(|n| format!("PING {}\r\n", text(n))).collect();
    let mut stream = TcpStream::connect(larder.addr()).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(commands.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    let answers: String = (0..count).map(|n| format!("$100\r\n{}\r\n", text(n))).collect();
    assert!(got == answers.as_bytes(), "{} bytes instead of {}", got.len(), answers.len());
}
