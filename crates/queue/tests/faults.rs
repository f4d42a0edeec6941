//! Faults that lost items, brought old ones back, or stopped a queue, each as it was found.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use larder_queue::{Limits, NewItem, Options, Put, Queues, Read, Rules};

/// How long another test may need to start its child; no part of what is asserted.
const PATIENCE: Duration = Duration::from_secs(60);

fn open_with(path: &Path, segment: u64, default: Limits) -> Queues {
    let options = Options { path: path.to_owned(), memory: 1 << 20, segment, always: true };
    let rules = Rules { queues: 400, default, ..Rules::default() };
    // A child that another test starts has the old descriptors until its exec: with the lock.
    let begin = Instant::now();
    loop {
        match Queues::open(options.clone(), rules.clone(), 1).unwrap() {
            Some((queues, _)) => return queues,
            None => std::thread::yield_now(),
        }
        assert!(begin.elapsed() < PATIENCE, "the queues are still locked");
    }
}

fn open(path: &Path) -> Queues {
    open_with(path, 4000, Limits::default())
}

fn item(flags: u32, len: usize) -> NewItem {
    NewItem { flags, expires: 0, data: Bytes::from(vec![b'x'; len]) }
}

fn add(queues: &mut Queues, name: &[u8], flags: std::ops::Range<u32>, len: usize) {
    for flags in flags {
        assert!(matches!(queues.put(name, &item(flags, len), 1), Put::Stored));
    }
    assert!(queues.write().is_empty());
}

fn take(queues: &mut Queues, name: &[u8]) -> Option<u32> {
    queues.read(name, Read::Take, 9, 1).unwrap().map(|item| item.flags)
}

fn drain(queues: &mut Queues, name: &[u8]) -> Vec<u32> {
    std::iter::from_fn(|| take(queues, name)).collect()
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn a_recreated_queue_keeps_its_first_segments() {
    let root = tempfile::tempdir().unwrap();
    let mut queues = open(root.path());
    add(&mut queues, b"q", 0..50, 500);
    assert_eq!(drain(&mut queues, b"q").len(), 50);
    assert!(queues.write().is_empty());
    // The device is slow: the queue is deleted and made again before its old files are removed.
    let work = queues.take_work(true);
    assert!(queues.delete(b"q").unwrap());
    add(&mut queues, b"q", 100..150, 500);
    work.run().unwrap();
    queues.take_work(true).run().unwrap();
    drop(queues);
    let mut queues = open(root.path());
    assert_eq!(drain(&mut queues, b"q"), (100..150).collect::<Vec<_>>());
}

#[test]
fn an_item_of_a_deleted_queue_does_not_enter_the_next_of_its_name() {
    let root = tempfile::tempdir().unwrap();
    let mut queues = open(root.path());
    add(&mut queues, b"q", 0..2, 5);
    let old = queues.read(b"q", Read::Take, 9, 1).unwrap().unwrap();
    assert!(queues.delete(b"q").unwrap());
    add(&mut queues, b"q", 7..9, 5);
    queues.restore(b"q", old);
    assert_eq!(drain(&mut queues, b"q"), [7, 8]);
}

/// This test in a process whose files may not grow beyond 8 KiB (of a file system that is full).
fn in_a_full_file_system(test: &str, path: &Path) {
    let this = std::env::current_exe().unwrap();
    // 16 blocks of 512 bytes; the signal is ignored, so that writes fail with EFBIG.
    let script = "trap '' XFSZ; ulimit -f 16; exec \"$0\" --exact \"$1\" --nocapture";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).arg(this).arg(test).env("LARDER_QUEUE_FULL", path);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Until the journal of `q` cannot be written.
fn fill_up(queues: &mut Queues) {
    while queues.write().is_empty() {
        let _ = queues.put(b"q", &item(1000, 500), 1);
    }
}

#[test]
fn an_item_that_comes_back_to_a_full_file_system_is_not_lost() {
    if let Some(path) = std::env::var_os("LARDER_QUEUE_FULL") {
        let mut queues = open_with(Path::new(&path), 1 << 20, Limits::default());
        // The last write before the file system is full has the removals of the first items.
        let taken: Vec<_> =
            (0..20).map(|_| queues.read(b"q", Read::Take, 9, 1).unwrap().unwrap()).collect();
        fill_up(&mut queues);
        for item in taken {
            queues.restore(b"q", item);
        }
        assert!(!queues.write().is_empty());
        // Reads go on: also of what could not be written.
        assert_eq!(queues.read(b"q", Read::Peek, 9, 1).unwrap().unwrap().flags, 0);
        for _ in 0..3 {
            queues.maintain(1);
            queues.take_work(true).run().unwrap();
        }
        // The end of the test is a kill: nothing more is written.
        std::process::exit(0);
    }
    let root = tempfile::tempdir().unwrap();
    let mut queues = open(root.path());
    add(&mut queues, b"q", 0..40, 500);
    drop(queues);
    let before = files(&root.path().join("q"));
    in_a_full_file_system("an_item_that_comes_back_to_a_full_file_system_is_not_lost", root.path());
    let after = files(&root.path().join("q"));
    assert!(before.iter().all(|file| after.contains(file)), "{before:?} {after:?}");
    // The records that say that the items are taken were written, those that bring them back were
    // not: but no file was removed, and nothing that waited is gone.
    let mut queues = open(root.path());
    let left = drain(&mut queues, b"q");
    assert_eq!(left[..20], (20..40).collect::<Vec<_>>());
}

#[test]
fn packing_does_not_lose_items_in_a_full_file_system() {
    if let Some(path) = std::env::var_os("LARDER_QUEUE_FULL") {
        let mut queues = open_with(Path::new(&path), 1000, Limits::default());
        assert_eq!(queues.read(b"q", Read::Open, 1, 1).unwrap().unwrap().flags, 0);
        // The journal grows by files that are full at once, for the sake of the open item.
        for _ in 0..40 {
            add(&mut queues, b"q", 1..2, 700);
            assert_eq!(take(&mut queues, b"q"), Some(1));
            assert!(queues.write().is_empty());
        }
        let large = item(2, 9000);
        assert!(matches!(queues.put(b"q", &large, 1), Put::Stored));
        assert!(!queues.write().is_empty());
        for _ in 0..9 {
            queues.maintain(1);
            queues.write();
            queues.take_work(true).run().unwrap();
        }
        std::process::exit(0);
    }
    let root = tempfile::tempdir().unwrap();
    let mut queues = open(root.path());
    add(&mut queues, b"q", 0..1, 500);
    drop(queues);
    in_a_full_file_system("packing_does_not_lose_items_in_a_full_file_system", root.path());
    assert_eq!(drain(&mut open(root.path()), b"q")[0], 0);
}

#[test]
fn a_file_that_cannot_be_removed_does_not_bring_items_back() {
    let root = tempfile::tempdir().unwrap();
    let mut queues = open(root.path());
    add(&mut queues, b"q", 0..30, 500);
    assert_eq!(drain(&mut queues, b"q").len(), 30);
    assert!(queues.write().is_empty());
    let directory = root.path().join("q");
    let first = files(&directory)[0].clone();
    let aside = root.path().join("aside");
    // A directory cannot be removed as a file.
    fs::rename(&first, &aside).unwrap();
    fs::create_dir(&first).unwrap();
    let undone = queues.take_work(true).run().unwrap_err();
    assert!(undone.is_synced, "{undone:?}");
    queues.undone(undone);
    assert!(queues.broken().is_none());
    // Later files are still there: they have the removals of its items.
    assert!(files(&directory).len() > 4);
    fs::remove_dir(&first).unwrap();
    fs::rename(&aside, &first).unwrap();
    assert!(drain(&mut open_copy(root.path()).1, b"q").is_empty());
    queues.take_work(true).run().unwrap();
    assert!(files(&directory).len() < 3);
}

/// The queues as another process would find them after a crash.
fn open_copy(path: &Path) -> (tempfile::TempDir, Queues) {
    let copy = tempfile::tempdir().unwrap();
    fs::create_dir(copy.path().join("q")).unwrap();
    for file in files(&path.join("q")) {
        fs::copy(&file, copy.path().join("q").join(file.file_name().unwrap())).unwrap();
    }
    let queues = open(copy.path());
    (copy, queues)
}

#[test]
fn a_failed_sync_brings_no_items_back() {
    let root = tempfile::tempdir().unwrap();
    let mut queues = open(root.path());
    add(&mut queues, b"q", 0..30, 500);
    assert_eq!(drain(&mut queues, b"q").len(), 30);
    assert!(queues.write().is_empty());
    let (directory, aside) = (root.path().join("q"), root.path().join(".aside"));
    // A link to itself: the directory cannot be opened for the sync.
    let work = queues.take_work(true);
    fs::rename(&directory, &aside).unwrap();
    std::os::unix::fs::symlink(&directory, &directory).unwrap();
    let undone = work.run().unwrap_err();
    fs::remove_file(&directory).unwrap();
    fs::rename(&aside, &directory).unwrap();
    assert!(!undone.is_synced);
    queues.undone(undone);
    assert!(matches!(queues.put(b"q", &item(0, 5), 1), Put::Failed(_)));
    let before = files(&directory).len();
    queues.maintain(1);
    queues.write();
    queues.take_work(true).run().unwrap();
    assert_eq!(files(&directory).len(), before, "nothing is removed after a failed sync");
    drop(queues);
    let mut queues = open(root.path());
    assert!(drain(&mut queues, b"q").is_empty());
    add(&mut queues, b"q", 3..4, 5);
    queues.take_work(true).run().unwrap();
    assert!(files(&directory).len() < 4);
}

#[test]
fn many_items_go_to_an_error_queue_at_once() {
    let root = tempfile::tempdir().unwrap();
    let limits = Limits { max_aborts: 1, error_queue: Some(b"e"[..].into()), ..Limits::default() };
    let mut queues = open_with(root.path(), 4000, limits.clone());
    add(&mut queues, b"q", 0..1000, 50);
    for _ in 0..1000 {
        assert!(queues.read(b"q", Read::Open, 1, 1).unwrap().is_some());
    }
    assert_eq!(queues.leave(1, true, 1).len(), 2);
    assert_eq!(take(&mut queues, b"q"), None);
    assert_eq!(take(&mut queues, b"e"), Some(0));
    // Before the write a crash finds them in the old queue still.
    assert_eq!(drain(&mut open_copy(root.path()).1, b"q").len(), 1000);
    assert!(queues.write().is_empty());
    assert!(drain(&mut open_copy(root.path()).1, b"q").is_empty());
    queues.close().unwrap();
    let mut queues = open_with(root.path(), 4000, limits);
    assert_eq!(drain(&mut queues, b"e"), (1..1000).collect::<Vec<_>>());
    assert_eq!(take(&mut queues, b"q"), None);
}

#[test]
fn bytes_that_cannot_be_read_cost_their_items_only() {
    let root = tempfile::tempdir().unwrap();
    let mut queues = open(root.path());
    add(&mut queues, b"q", 0..30, 500);
    drop(queues);
    let mut queues = open(root.path());
    // A file that is cut under the running process, as one with a bad sector at its end.
    let second = files(&root.path().join("q"))[1].clone();
    fs::File::options().write(true).open(&second).unwrap().set_len(1000).unwrap();
    let left = drain(&mut queues, b"q");
    assert!(left.len() >= 20 && left.is_sorted(), "{left:?}");
    assert_eq!((left[0], left.last()), (0, Some(&29)));
    // An open item whose bytes are damaged does not keep the journal from being packed.
    add(&mut queues, b"q", 40..41, 500);
    let last = files(&root.path().join("q")).pop().unwrap();
    assert!(queues.read(b"q", Read::Open, 1, 1).unwrap().is_some());
    fs::File::options().write(true).open(&last).unwrap().set_len(100).unwrap();
    for _ in 0..300 {
        add(&mut queues, b"q", 0..1, 700);
        assert_eq!(take(&mut queues, b"q"), Some(0));
        assert!(queues.write().is_empty());
        while queues.maintain(1) {}
        assert!(queues.write().is_empty());
        queues.take_work(false).run().unwrap();
    }
    let journal = queues.figures().next().unwrap().1.journal;
    assert!(journal < 40_000, "{journal}");
}

#[test]
fn a_read_tells_that_it_has_found_expired_items_only() {
    let root = tempfile::tempdir().unwrap();
    let mut queues = open_with(root.path(), 1 << 20, Limits::default());
    for flags in 0..25_000 {
        let new = NewItem { expires: 5, ..item(flags, 1) };
        assert!(matches!(queues.put(b"q", &new, 1), Put::Stored));
    }
    add(&mut queues, b"q", 77..78, 1);
    let mut reads = 0;
    let found = loop {
        match queues.read(b"q", Read::Take, 1, 9).unwrap() {
            None if queues.is_sweeping(b"q") => reads += 1,
            other => break other.unwrap().flags,
        }
    };
    assert_eq!((found, reads), (77, 2));
    assert!(queues.read(b"q", Read::Take, 1, 9).unwrap().is_none() && !queues.is_sweeping(b"q"));
}

#[test]
fn a_child_gets_no_copy_of_an_item_that_was_refused() {
    let root = tempfile::tempdir().unwrap();
    let mut queues = open_with(root.path(), 4000, Limits { items: 1, ..Limits::default() });
    assert_eq!(take(&mut queues, b"q+a"), None);
    assert!(matches!(queues.put(b"q", &item(1, 1), 1), Put::Stored));
    assert_eq!(take(&mut queues, b"q+a"), Some(1));
    assert!(matches!(queues.put(b"q", &item(2, 1), 1), Put::Full));
    assert_eq!(take(&mut queues, b"q+a"), None);
}

#[test]
fn queues_at_rest_have_no_descriptors() {
    let root = tempfile::tempdir().unwrap();
    let mut queues = open_with(root.path(), 4000, Limits::default());
    let of_this = || {
        let links = fs::read_dir("/proc/self/fd").unwrap().flatten().map(|entry| entry.path());
        links.filter(|link| fs::read_link(link).is_ok_and(|to| to.starts_with(root.path()))).count()
    };
    for number in 0..300 {
        add(&mut queues, format!("q{number}").as_bytes(), 0..2, 50);
    }
    queues.take_work(true).run().unwrap();
    for _ in 0..2 {
        queues.maintain(1);
    }
    assert!(of_this() < 10, "{}", of_this());
    assert_eq!(drain(&mut queues, b"q7"), [0, 1]);
    add(&mut queues, b"q7", 5..6, 50);
    drop(queues);
    let mut queues = open_with(root.path(), 4000, Limits::default());
    assert!(of_this() < 10, "{}", of_this());
    assert_eq!(drain(&mut queues, b"q7"), [5]);
    assert_eq!(drain(&mut queues, b"q299"), [0, 1]);
}
