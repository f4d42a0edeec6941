//! An answer is one write, and no exchange waits for an acknowledgement: values around 8 KiB, where
//! clients' buffers end, cost what others cost. With two small packets instead of one, each would
//! wait up to 40 ms for the peer's delayed ACK.

// A test reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::memcache::{Memcached, Talk};
use larder_tests::{PATIENCE, Scratch, wait_for};
use std::io::Write;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Around the size of libmemcached's and others' buffers (8 KiB), with header and without, and well
/// beyond.
fn sizes() -> Vec<usize> {
    (8170..=8200).chain([10 << 10, 16 << 10, 60_000]).collect()
}

/// Watches a process's writes to sockets with strace.
struct Traced {
    strace: Child,
    scratch: Scratch,
}

impl Traced {
    #[track_caller]
    fn attach(server: &Memcached) -> Traced {
        let scratch = Scratch::new("strace");
        let strace = Command::new("strace")
            .args(["-f", "-q", "-s", "0", "-e", "trace=write,writev,sendto,sendmsg", "-o"])
            .arg(scratch.file("trace"))
            .args(["-p", &server.pid().to_string()])
            .stdin(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| {
                panic!("strace does not start: {e}; scripts/test-deps.sh installs what tests need")
            });
        let traced = Traced { strace, scratch };
        wait_for("strace to attach", || {
            server.connect().expect("mn\r\n", "MN\r\n");
            (!traced.calls().is_empty()).then_some(())
        });
        traced
    }

    /// Bytes of each write to a socket so far. Wakers of threads (8 bytes to an eventfd) are none.
    fn calls(&self) -> Vec<usize> {
        let text = std::fs::read_to_string(self.scratch.file("trace")).unwrap_or_default();
        let written = |line: &str| line.rsplit_once(" = ")?.1.split(' ').next()?.parse().ok();
        text.lines().filter_map(written).filter(|bytes| *bytes != 8).collect()
    }

    /// The writes once there is one of so many bytes, the last.
    #[track_caller]
    fn until(&self, last: usize) -> Vec<usize> {
        wait_for("the last write", || {
            Some(self.calls()).filter(|calls| calls.last() == Some(&last))
        })
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.strace.kill();
        let _ = self.strace.wait();
    }
}

#[test]
fn an_answer_is_one_write_of_any_size() {
    let larder = Memcached::larder(&["-t", "1"]);
    let mut talk = larder.connect();
    for size in sizes() {
        talk.expect(format!("set k{size} 0 0 {size}\r\n{}\r\n", "v".repeat(size)), "STORED\r\n");
    }
    let traced = Traced::attach(&larder);
    let before = traced.calls().len();
    let mut expected = Vec::new();
    for size in sizes() {
        let answer = format!("VALUE k{size} 0 {size}\r\n{}\r\nEND\r\n", "v".repeat(size));
        talk.expect(format!("get k{size}\r\n"), &answer);
        expected.push(answer.len());
    }
    talk.expect("version\r\n", "VERSION 1.6.18\r\n");
    expected.push("VERSION 1.6.18\r\n".len());
    let all = traced.until("VERSION 1.6.18\r\n".len());
    // Answers to the connections that saw strace attach may be written down late.
    let calls = all[before..].iter().filter(|&&bytes| bytes != "MN\r\n".len()).copied();
    assert_eq!(calls.collect::<Vec<_>>(), expected);
}

#[test]
fn a_batch_is_answered_with_one_write() {
    let larder = Memcached::larder(&["-t", "1"]);
    let mut talk = larder.connect();
    talk.expect("set k 0 0 5\r\nvalue\r\n", "STORED\r\n");
    let traced = Traced::attach(&larder);
    let answer = "VALUE k 0 5\r\nvalue\r\nEND\r\n".repeat(16);
    talk.expect("get k\r\n".repeat(16), &answer);
    let calls = traced.until(answer.len());
    assert_eq!(calls.iter().filter(|&&bytes| bytes % 25 == 0).count(), 1, "{calls:?}");
}

/// Stores and reads `rounds` times as a client does that fills a buffer of 8 KiB and sends the rest
/// after it; gives the time in microseconds.
fn exchange(larder: &Memcached, nodelay: bool, size: usize, rounds: usize) -> u128 {
    let stream = TcpStream::connect(larder.addr()).unwrap();
    stream.set_nodelay(nodelay).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut sending = stream.try_clone().unwrap();
    let mut talk = Talk::over(stream);
    let request = format!("set k 0 0 {size}\r\n{}\r\n", "v".repeat(size));
    let answer = format!("VALUE k 0 {size}\r\n{}\r\nEND\r\n", "v".repeat(size));
    let started = Instant::now();
    for _ in 0..rounds {
        let (first, rest) = request.as_bytes().split_at(request.len().min(8192));
        sending.write_all(first).unwrap();
        sending.write_all(rest).unwrap();
        assert_eq!(talk.take(8), b"STORED\r\n");
        sending.write_all(b"get k\r\n").unwrap();
        assert!(talk.take(answer.len()) == answer.as_bytes());
    }
    started.elapsed().as_micros()
}

/// Compared with small values on the same machine at the same time: one delayed ACK per round would
/// be two hundred times that.
#[test]
fn no_round_waits_for_an_acknowledgement() {
    const ROUNDS: usize = 50;
    let larder = Memcached::larder(&[]);
    for nodelay in [true, false] {
        for size in [8170, 8180, 8185, 8192, 8200, 10 << 10] {
            // The best of three: other programs may hold the machine, a delayed ACK holds every
            // round.
            let best =
                |size| (0..3).map(|_| exchange(&larder, nodelay, size, ROUNDS)).min().unwrap_or(0);
            let (small, large) = (best(100), best(size));
            assert!(
                large < small * 20 + 500_000,
                "{size} bytes, nodelay {nodelay}: {large} µs, small {small} µs"
            );
        }
    }
}
