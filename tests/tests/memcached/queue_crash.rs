//! Queues after the process was killed, stopped and replaced: nothing that was answered is lost.

// A test reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::memcache::{End, Talk};
use larder_tests::queues::{Queues, set, value};
use larder_tests::scratch::Scratch;
use larder_tests::wait_until;
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Items that a client has added, and items that it has got, as far as it was answered.
#[derive(Default)]
struct Seen {
    added: BTreeSet<u64>,
    /// It asked for them, and was not answered.
    perhaps_added: BTreeSet<u64>,
    got: Vec<u64>,
}

fn number(answer: &[u8]) -> Option<u64> {
    String::from_utf8_lossy(answer).lines().nth(1)?.parse().ok()
}

/// Adds and takes items until the connection breaks.
fn use_queue(addr: SocketAddr, client: u64, rounds: &AtomicUsize, seen: &Mutex<Seen>) {
    let mut talk = Talk::tcp(addr);
    for round in 0.. {
        let item = client * 1_000_000 + round;
        seen.lock().unwrap().perhaps_added.insert(item);
        let (answer, end) = talk.send(set("q", &item.to_string())).until(b"STORED\r\n");
        if end != End::Found || answer != b"STORED\r\n" {
            return;
        }
        seen.lock().unwrap().added.insert(item);
        // Every third item is taken, every sixth by an open read that is closed.
        if round % 3 == 0 {
            let how = if round % 2 == 0 { "get q\r\n" } else { "get q/open\r\n" };
            let (answer, end) = talk.send(how).until(b"END\r\n");
            if end != End::Found {
                return;
            }
            if round % 2 == 1 && talk.send("get q/close\r\n").until(b"END\r\n").1 != End::Found {
                return;
            }
            seen.lock().unwrap().got.extend(number(&answer));
        }
        rounds.fetch_add(1, Ordering::Relaxed);
    }
}

fn kill(queues: Queues) {
    // Dropping it kills it (SIGKILL).
    drop(queues);
}

#[track_caller]
fn drain(talk: &mut Talk<TcpStream>) -> Vec<u64> {
    let mut left = Vec::new();
    while let Some(item) = number(talk.ask("get q\r\n", "END\r\n").as_bytes()) {
        left.push(item);
    }
    left
}

/// Kills it again and again under load; at the end every item that was answered is there, or was
/// got, once.
fn survives_kills(lines: &str, kills: u64) {
    let directory = Scratch::new("queue-crash");
    let seen = Arc::new(Mutex::new(Seen::default()));
    for run in 0..kills {
        let queues = Queues::start(&directory, lines);
        let rounds = Arc::new(AtomicUsize::new(0));
        let clients: Vec<_> = (0..4)
            .map(|client| {
                let (seen, rounds, addr) = (seen.clone(), rounds.clone(), queues.addr());
                let client = run * 4 + client;
                std::thread::spawn(move || use_queue(addr, client, &rounds, &seen))
            })
            .collect();
        let wanted = 40 + 30 * run as usize;
        wait_until("some rounds", || rounds.load(Ordering::Relaxed) >= wanted);
        kill(queues);
        clients.into_iter().for_each(|client| client.join().unwrap());
    }
    let queues = Queues::start(&directory, lines);
    let left = drain(&mut queues.connect());
    let seen = seen.lock().unwrap();
    let unique: BTreeSet<_> = left.iter().copied().collect();
    assert_eq!(unique.len(), left.len(), "an item is there twice");
    let got: BTreeSet<_> = seen.got.iter().copied().collect();
    let twice: Vec<_> = unique.intersection(&got).collect();
    // Items whose removal was answered do not come back.
    assert!(twice.is_empty(), "{twice:?}");
    // Of each kill and client one read may have been carried out and not answered.
    let lost: Vec<_> =
        seen.added.iter().filter(|i| !unique.contains(i) && !got.contains(i)).collect();
    assert!(lost.len() <= 4 * kills as usize, "{lost:?}");
    assert!(unique.iter().chain(&got).all(|item| seen.perhaps_added.contains(item)));
    // Items of one client stay in their order.
    let mut last = std::collections::BTreeMap::new();
    for item in left {
        assert!(last.insert(item / 1_000_000, item).is_none_or(|before| before < item));
    }
}

#[test]
fn killed_with_sync_always() {
    survives_kills("sync = \"always\"", 4);
}

#[test]
fn killed_with_an_interval_and_little_memory() {
    survives_kills("sync = \"100ms\"\nmemory = 0\nsegment = \"64KiB\"", 3);
}

#[test]
fn killed_without_syncs() {
    survives_kills("sync = \"never\"", 2);
}

#[test]
fn every_item_that_was_answered_is_there_after_a_kill() {
    let directory = Scratch::new("queue-crash");
    let queues = Queues::start(&directory, "sync = \"always\"");
    let mut talk = queues.connect();
    for item in 0..50 {
        talk.expect(set("q", &item.to_string()), "STORED\r\n");
    }
    talk.expect("get q/open\r\n", &value("q", "0"));
    talk.expect("set q 0 0 100\r\nnot all of it", "");
    kill(queues);
    let queues = Queues::start(&directory, "sync = \"always\"");
    assert_eq!(drain(&mut queues.connect()), (0..50).collect::<Vec<_>>());
}

#[test]
fn a_stop_keeps_items_and_gives_open_ones_back() {
    let directory = Scratch::new("queue-stop");
    let lines = "sync = \"never\"\nmax_aborts = 1";
    let mut queues = Queues::start(&directory, lines);
    let mut talk = queues.connect();
    for item in 0..20 {
        talk.expect(set("q", &item.to_string()), "STORED\r\n");
    }
    talk.expect("get q/open\r\n", &value("q", "0"));
    let mut waits = queues.connect();
    waits.send("get other/t=60000\r\n");
    queues.term();
    assert!(queues.wait_exit().success(), "{}", queues.printed());
    assert_eq!(waits.rest(), b"");
    let queues = Queues::start(&directory, lines);
    // The stop was no abort: with `max_aborts = 1` the item would be gone.
    assert_eq!(drain(&mut queues.connect()), (0..20).collect::<Vec<_>>());
}

/// Unlike a kill, a stop answers what it has carried out, and gives back what it cannot answer.
#[test]
fn a_stop_under_load_loses_nothing() {
    let directory = Scratch::new("queue-stop");
    let lines = "sync = \"always\"";
    let seen = Arc::new(Mutex::new(Seen::default()));
    for run in 0..3 {
        let mut queues = Queues::start(&directory, lines);
        let rounds = Arc::new(AtomicUsize::new(0));
        let clients: Vec<_> = (0..6)
            .map(|client| {
                let (seen, rounds, addr) = (seen.clone(), rounds.clone(), queues.addr());
                std::thread::spawn(move || use_queue(addr, run * 6 + client, &rounds, &seen))
            })
            .collect();
        wait_until("some rounds", || rounds.load(Ordering::Relaxed) >= 60);
        queues.term();
        assert!(queues.wait_exit().success(), "{}", queues.printed());
        clients.into_iter().for_each(|client| client.join().unwrap());
    }
    let queues = Queues::start(&directory, lines);
    let left: BTreeSet<_> = drain(&mut queues.connect()).into_iter().collect();
    let seen = seen.lock().unwrap();
    let got: BTreeSet<_> = seen.got.iter().copied().collect();
    assert_eq!(left.intersection(&got).count(), 0);
    let gone: Vec<_> =
        seen.added.iter().filter(|i| !left.contains(i) && !got.contains(i)).collect();
    assert!(gone.is_empty(), "{gone:?}");
}

#[test]
fn two_processes_do_not_share_a_directory() {
    let directory = Scratch::new("queue-lock");
    let queues = Queues::start(&directory, "");
    let other = directory.write(
        "other.toml",
        &format!(
            "[queue]\nlisten = [\"127.0.0.1:0\"]\npath = \"{}\"\n",
            directory.file("queues").display()
        ),
    );
    let (status, _, stderr) =
        larder_tests::larder::run(&["serve", "--config", other.to_str().unwrap()]);
    assert!(!status.success() && stderr.contains("another process has these queues open"));
    queues.connect().expect(set("q", "x"), "STORED\r\n");
}
