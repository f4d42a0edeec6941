//! Queues when a new process takes over: no item is lost, their order stays, and a new process that
//! fails leaves them where they were.

// A test reports by panicking.
#![allow(clippy::unwrap_used)]

use super::upgrade::{Line, RUNAWAY, fresh, load};
use larder_tests::Origin;
use larder_tests::memcache::Talk;
use larder_tests::queues::{set, value};
use larder_tests::scratch::Small;
use larder_tests::wait_until;
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

fn start(origin: &Origin, lines: &str) -> Line {
    start_in(Path::new("@DIR@/queues"), origin, lines)
}

fn start_in(path: &Path, origin: &Origin, lines: &str) -> Line {
    let queue = format!(
        "[queue]\nlisten = [\"127.0.0.1:0\"]\npath = \"{}\"\nmax_aborts = 1\n{lines}",
        path.display()
    );
    Line::start("", &queue, origin)
}

fn connect(line: &Line) -> Talk<TcpStream> {
    Talk::tcp(line.larder.face("queue"))
}

fn number(answer: &str) -> Option<u64> {
    answer.lines().nth(1)?.parse().ok()
}

#[track_caller]
fn drain(talk: &mut Talk<TcpStream>) -> Vec<u64> {
    std::iter::from_fn(|| number(&talk.ask("get q\r\n", "END\r\n"))).collect()
}

/// Items that wait, one that is open, and a reader that waits, before an upgrade.
fn fill(line: &Line, talk: &mut Talk<TcpStream>) -> (Talk<TcpStream>, Talk<TcpStream>) {
    for item in 0..20 {
        talk.expect(set("q", &item.to_string()), "STORED\r\n");
    }
    let (mut opened, mut waits) = (connect(line), connect(line));
    opened.expect("get q/open\r\n", &value("q", "0"));
    waits.send("get other/t=60000\r\n");
    wait_until("it to wait", || talk.stat("queue_other_waiters") == "1");
    (opened, waits)
}

#[test]
fn items_open_reads_and_waiting_readers_live_through_upgrades() {
    let origin = fresh();
    let mut line = start(&origin, "sync = \"always\"");
    let mut talk = connect(&line);
    talk.expect(set("other", "x"), "STORED\r\n").expect("get other\r\n", &value("other", "x"));
    for _ in 0..2 {
        let (mut opened, mut waits) = fill(&line, &mut talk);
        // One that has closed its open read is passed on.
        let mut closed = connect(&line);
        closed.expect(set("own", "y"), "STORED\r\n");
        closed.expect("get own/open\r\nget own/close\r\n", &(value("own", "y") + "END\r\n"));
        line.upgrade_whole();
        assert_eq!((opened.rest(), waits.rest()), (Vec::new(), Vec::new()));
        closed.expect("get own\r\n", "END\r\n");
        // The open item is the first in line again; the upgrade was no abort of it.
        assert_eq!(drain(&mut talk), (0..20).collect::<Vec<_>>());
        talk.expect(set("other", "x"), "STORED\r\n");
        talk.expect("get other\r\n", &value("other", "x"));
    }
}

#[test]
fn no_item_is_lost_or_given_twice_under_load() {
    let origin = fresh();
    let mut line = start(&origin, "");
    let (stop, added) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut writer = connect(&line);
    let counts = added.clone();
    let writes = load(&stop, move |n| {
        writer.expect(set("q", &n.to_string()), "STORED\r\n");
        counts.fetch_add(1, Ordering::SeqCst);
    });
    let got = Arc::new(Mutex::new(Vec::new()));
    let (mut reader, gets) = (connect(&line), got.clone());
    let reads = load(&stop, move |_| {
        let item = number(&reader.ask("get q\r\n", "END\r\n"));
        gets.lock().unwrap().extend(item);
    });
    for _ in 0..2 {
        let before = added.load(Ordering::SeqCst);
        line.upgrade_whole();
        wait_until("items to pass", || added.load(Ordering::SeqCst) > before + 50);
    }
    stop.store(true, Ordering::SeqCst);
    let (added, _) = (writes.join().unwrap() as u64, reads.join().unwrap());
    let mut all = std::mem::take(&mut *got.lock().unwrap());
    all.extend(drain(&mut connect(&line)));
    assert_eq!(all, (0..added).collect::<Vec<_>>());
}

#[test]
fn a_failed_upgrade_takes_the_queues_back() {
    let origin = fresh();
    let memory = "sync = \"always\"\n[[queue.named]]\nname = \"mem\"\nmemory_only = true";
    let mut line = start(&origin, memory);
    let mut talk = connect(&line);
    talk.expect(set("other", "x"), "STORED\r\n").expect("get other\r\n", &value("other", "x"));
    talk.expect(set("mem", "one") + &set("mem", "two"), "STORED\r\nSTORED\r\n");
    talk.expect("get mem\r\n", &value("mem", "one"));
    let (mut opened, mut waits) = fill(&line, &mut talk);
    // It ends when the queues are closed for it. Another has opened them by then, and keeps them
    // for a while.
    let lock = "import fcntl\nf = open('queues/.lock', 'w')\n";
    let keeps = format!(
        "{}import os, time\n{lock}fcntl.flock(f, fcntl.LOCK_EX)\n\
         if os.fork() == 0:\n    s.close()\n    open('kept', 'w').close()\n    \
         while not os.path.exists('enough'): time.sleep(0.01)\n",
        RUNAWAY.replace("import socket\n", "import socket, os\n"),
    );
    let directory = line.larder.dir().to_owned();
    let keeps = keeps
        .replace("import socket, os\n", &format!("import socket, os\nos.chdir({directory:?})\n"));
    let program = line.script(&keeps);
    let said = line.upgrade(&["--program", program.to_str().unwrap()]).unwrap_err();
    assert!(said.contains("has ended"), "{said}");
    assert_eq!((opened.rest(), waits.rest()), (Vec::new(), Vec::new()));
    assert!(directory.join("kept").exists());
    wait_until("it to say so", || line.larder.stderr().contains("not served until they open"));
    std::fs::write(directory.join("enough"), "").unwrap();
    wait_until("the queues to be served again", || {
        connect(&line).send("get other\r\n").until(b"END\r\n").0 == b"END\r\n"
    });
    assert_eq!(talk.stat("queue_q_total_items"), "20");
    assert_eq!(drain(&mut talk), (0..20).collect::<Vec<_>>());
    // Once it was gone.
    talk.expect("get mem\r\nget mem\r\n", &(value("mem", "two") + "END\r\n"));
    line.upgrade_whole();
    talk.expect(set("q", "after"), "STORED\r\n").expect("get q\r\n", &value("q", "after"));
}

/// Once every connection was closed until there was room, and items that were taken came back.
#[test]
fn an_upgrade_on_a_full_file_system_is_refused_and_changes_nothing() {
    let Some(small) = Small::new("2m") else { return };
    let origin = fresh();
    let mut line = start_in(&small.file("queues"), &origin, "sync = \"always\"");
    let mut talk = connect(&line);
    talk.expect(set("other", "x"), "STORED\r\n").expect("get other\r\n", &value("other", "x"));
    let (mut opened, mut waits) = fill(&line, &mut talk);
    small.fill("filler");
    let mut added = 20;
    while talk.ask(set("q", &format!("{added:05}")), "\r\n") == "STORED\r\n" {
        added += 1;
    }
    // Nothing of this can be written.
    opened.expect("get q/close\r\n", "END\r\n");
    talk.expect("get q\r\n", &value("q", "1"));
    opened.expect("get q/open\r\n", &value("q", "2"));
    let said = line.upgrade(&[]).unwrap_err();
    assert!(said.contains("the queues cannot be closed"), "{said}");
    // The same connections, reads that are open, and readers that wait.
    talk.expect("get q\r\n", &value("q", "3"));
    opened.expect("get q/close\r\n", "END\r\n");
    assert_eq!(talk.stat("queue_other_waiters"), "1");
    std::fs::remove_file(small.file("filler")).unwrap();
    talk.expect(set("other", "late"), "STORED\r\n");
    waits.expect("", &value("other", "late"));
    line.upgrade_whole();
    // The one that was answered by the error may be there.
    let mut left = drain(&mut connect(&line));
    left.retain(|item| *item < added);
    assert_eq!(left, (4..added).collect::<Vec<_>>());
}
