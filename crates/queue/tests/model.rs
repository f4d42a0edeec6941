//! Random commands against a plain ordered map as the model, with crashes: the journal is cut at
//! any byte that was not on the device, and the queue must be in the state after the last whole
//! record.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use larder_queue::{Decoded, Limits, NewItem, Options, Put, Queues, Read, Record, Rules, decode};

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// An item and its number.
type Item = (Bytes, u64);

/// Items by their order; the opened ones by client.
#[derive(Clone, Debug, Default)]
struct Model {
    next: u64,
    waiting: BTreeMap<u64, (Bytes, u64)>,
    open: BTreeMap<u64, VecDeque<(u64, Item)>>,
}

impl Model {
    /// All items wait again.
    fn crash(&mut self) {
        for (id, item) in std::mem::take(&mut self.open).into_values().flatten() {
            self.waiting.insert(id, item);
        }
    }

    fn expire(&mut self, now: u64) {
        while let Some(first) = self.waiting.first_entry() {
            if first.get().1 == 0 || first.get().1 > now {
                break;
            }
            first.remove();
        }
    }
}

/// The last segment of a queue, and its length.
fn end(directory: &Path) -> (PathBuf, u64) {
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let last = files.pop().unwrap();
    let len = fs::metadata(&last).unwrap().len();
    (last, len)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.join("q")).unwrap();
    for entry in fs::read_dir(from.join("q")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join("q").join(path.file_name().unwrap())).unwrap();
    }
}

struct Run {
    random: Random,
    root: tempfile::TempDir,
    path: PathBuf,
    rules: Rules,
    memory: u64,
    segment: u64,
    now: u64,
    model: Model,
    /// Ends of the journal with the state there, since the journal was on the device last.
    states: Vec<((String, u64), Model)>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let root = tempfile::tempdir().unwrap();
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let rules = Rules { queues: 10, ..Rules::default() };
        let path = root.path().join("0");
        let memory = [0, 2000, 1 << 20][random.below(3) as usize];
        let segment = [300, 2000, 1 << 20][random.below(3) as usize];
        let (model, states) = (Model::default(), Vec::new());
        Run { random, root, path, rules, memory, segment, now: 1000, model, states }
    }

    fn open(&self) -> Queues {
        let (path, memory, segment) = (self.path.clone(), self.memory, self.segment);
        let options = Options { path, memory, segment, always: false };
        Queues::open(options, self.rules.clone(), self.now).unwrap().unwrap().0
    }

    fn place(&self) -> (String, u64) {
        let (file, len) = end(&self.path.join("q"));
        (file.file_name().unwrap().to_str().unwrap().to_owned(), len)
    }

    fn step(&mut self, queues: &mut Queues) {
        let client = self.random.below(3);
        match self.random.below(20) {
            0..=6 => {
                let len = self.random.below(60) as usize;
                let data = Bytes::from(vec![b'a' + (self.model.next % 26) as u8; len]);
                let expires = if self.random.below(6) == 0 { self.now + 50 } else { 0 };
                let item = NewItem { flags: self.model.next as u32, expires, data: data.clone() };
                assert!(matches!(queues.put(b"q", &item, self.now), Put::Stored));
                self.model.waiting.insert(self.model.next, (data, expires));
                self.model.next += 1;
            }
            7..=11 => {
                let read = [Read::Take, Read::Open, Read::Peek][self.random.below(3) as usize];
                let got = queues.read(b"q", read, client, self.now).unwrap();
                self.model.expire(self.now);
                let first = self.model.waiting.iter().next().map(|(id, item)| (*id, item.clone()));
                let wanted = first.as_ref().map(|(id, item)| (*id as u32, item.0.clone()));
                assert_eq!(got.clone().map(|item| (item.flags, item.data)), wanted);
                // Now and then an item does not reach its client.
                if let Some(item) = got.filter(|_| read == Read::Take && client == 1) {
                    queues.restore(b"q", item);
                } else if let Some((id, item)) = first.filter(|_| read != Read::Peek) {
                    self.model.waiting.remove(&id);
                    if read == Read::Open {
                        self.model.open.entry(client).or_default().push_back((id, item));
                    }
                }
            }
            12..=14 => {
                let confirmed = queues.confirm(b"q", client, 1);
                let opened = self.model.open.entry(client).or_default();
                assert_eq!(confirmed, usize::from(opened.pop_front().is_some()));
            }
            15..=16 => {
                queues.abort(b"q", client, self.now);
                for (id, item) in self.model.open.remove(&client).into_iter().flatten() {
                    self.model.waiting.insert(id, item);
                }
            }
            17 if self.random.below(10) == 0 => {
                queues.flush(b"q");
                self.model.waiting.clear();
                // A flush is several records: a cut between them leaves a part of the items.
                assert!(queues.write().is_empty());
                queues.take_work(true).run().unwrap();
                self.states.clear();
            }
            18 => self.now += self.random.below(40),
            19 => {
                queues.maintain(self.now);
                self.model.expire(self.now);
            }
            _ => {}
        }
        assert!(queues.write().is_empty());
        if let Some((_, figures)) = queues.figures().next() {
            let bytes: u64 = self.model.waiting.values().map(|(data, _)| data.len() as u64).sum();
            assert_eq!((figures.items, figures.bytes), (self.model.waiting.len() as u64, bytes));
            self.states.push((self.place(), self.model.clone()));
        }
    }

    /// The process or the machine dies: what is left is a copy whose last file is cut.
    fn crash(&mut self, number: u64) {
        let Some(((file, least), _)) = self.states.first().cloned() else { return };
        let next = self.root.path().join(number.to_string());
        copy(&self.path, &next);
        let (last, len) = end(&next.join("q"));
        let name = last.file_name().unwrap().to_str().unwrap().to_owned();
        let least = if file == name { least } else { 0 };
        let cut = least + self.random.below(len - least + 1);
        let written = fs::OpenOptions::new().write(true).open(&last).unwrap();
        written.set_len(cut).unwrap();
        if self.random.below(3) == 0 {
            // A file system may have given room to bytes that it did not write.
            written.set_len(cut + 100).unwrap();
        }
        let state = self.states.iter().rev().find(|(place, _)| *place <= (name.clone(), cut));
        let ((file, from), model) = state.unwrap();
        self.model = model.clone();
        self.model.crash();
        // The last command may have been cut between its records: items that expired before it.
        let mut files: Vec<_> =
            fs::read_dir(next.join("q")).unwrap().map(|e| e.unwrap().path()).collect();
        files.retain(|path| path.file_name().unwrap().to_str() >= Some(file));
        files.sort();
        let mut removed = None;
        for path in files {
            let bytes = fs::read(&path).unwrap();
            let is_same = path.file_name().unwrap().to_str() == Some(file);
            let mut rest = &bytes[if is_same { *from as usize } else { 0 }..];
            while let Decoded::Record(record, used) = decode(rest) {
                rest = &rest[used..];
                match record {
                    Record::Removed { id, .. } => {
                        removed = self.model.waiting.remove_entry(&(id - 1));
                        assert!(removed.is_some());
                    }
                    // Cut in its last bytes, which are zeros as the room behind them.
                    Record::Returned { .. } => self.model.waiting.extend(removed.take()),
                    _ => {}
                }
            }
        }
        self.path = next;
        self.states.clear();
    }
}

#[test]
fn a_queue_is_what_its_journal_says_wherever_that_is_cut() {
    let seeds = std::env::var("LARDER_QUEUE_SEEDS").ok().and_then(|n| n.parse().ok());
    for seed in 1..=seeds.unwrap_or(25) {
        let mut run = Run::new(seed);
        for number in 1..8 {
            let mut queues = run.open();
            for _ in 0..run.random.below(300) {
                run.step(&mut queues);
                if run.random.below(10) == 0 {
                    queues.take_work(true).run().unwrap();
                    let keep = run.states.len().saturating_sub(1);
                    run.states.drain(..keep);
                }
            }
            run.crash(number);
        }
        let mut queues = run.open();
        run.model.expire(run.now);
        for (id, (data, expires)) in std::mem::take(&mut run.model.waiting) {
            if expires != 0 && expires <= run.now {
                continue;
            }
            let item = queues.read(b"q", Read::Take, 0, run.now).unwrap().unwrap();
            assert_eq!((item.flags, item.data), (id as u32, data), "seed {seed}");
        }
        assert_eq!(queues.read(b"q", Read::Take, 0, run.now).unwrap(), None);
    }
}

fn options(path: &Path) -> Options {
    Options { path: path.to_owned(), memory: 1 << 20, segment: 4000, always: false }
}

fn item(data: &'static str) -> NewItem {
    NewItem { flags: 0, expires: 0, data: Bytes::from_static(data.as_bytes()) }
}

fn take(queues: &mut Queues, name: &[u8]) -> Option<String> {
    let item = queues.read(name, Read::Take, 9, 1).unwrap()?;
    Some(String::from_utf8(item.data.to_vec()).unwrap())
}

#[test]
fn an_item_open_for_long_holds_no_old_segments() {
    let root = tempfile::tempdir().unwrap();
    let rules = Rules { queues: 3, ..Rules::default() };
    let mut queues = Queues::open(options(root.path()), rules.clone(), 1).unwrap().unwrap().0;
    assert!(matches!(queues.put(b"q", &item("kept"), 1), Put::Stored));
    assert!(queues.read(b"q", Read::Open, 1, 1).unwrap().is_some());
    let data = Bytes::from(vec![b'x'; 500]);
    for _ in 0..1000 {
        let new = NewItem { flags: 0, expires: 0, data: data.clone() };
        assert!(matches!(queues.put(b"q", &new, 1), Put::Stored));
        assert!(queues.read(b"q", Read::Take, 2, 1).unwrap().is_some());
        assert!(queues.write().is_empty());
        while queues.maintain(1) {}
        assert!(queues.write().is_empty());
        queues.take_work(false).run().unwrap();
    }
    let journal = queues.figures().next().unwrap().1.journal;
    assert!(journal < 40_000, "{journal}");
    drop(queues);
    let mut queues = Queues::open(options(root.path()), rules, 1).unwrap().unwrap().0;
    assert_eq!(take(&mut queues, b"q").as_deref(), Some("kept"));
    assert_eq!(take(&mut queues, b"q"), None);
}

#[test]
fn children_get_copies_from_their_first_read_on() {
    let root = tempfile::tempdir().unwrap();
    let rules = Rules { queues: 4, ..Rules::default() };
    let mut queues = Queues::open(options(root.path()), rules.clone(), 1).unwrap().unwrap().0;
    assert!(matches!(queues.put(b"q", &item("early"), 1), Put::Stored));
    assert_eq!(take(&mut queues, b"q+a"), None);
    assert_eq!(take(&mut queues, b"qq+a"), None);
    assert!(matches!(queues.put(b"q", &item("late"), 1), Put::Stored));
    assert_eq!(take(&mut queues, b"q+a").as_deref(), Some("late"));
    assert_eq!(take(&mut queues, b"qq+a"), None);
    assert_eq!(take(&mut queues, b"q").as_deref(), Some("early"));
    assert!(queues.delete(b"q+a").unwrap() && !queues.delete(b"q+a").unwrap());
    assert!(matches!(queues.put(b"other", &item("x"), 1), Put::Stored));
    assert!(matches!(queues.put(b"more", &item("x"), 1), Put::Stored));
    assert!(matches!(queues.put(b"most", &item("x"), 1), Put::TooManyQueues));
    queues.close().unwrap();
    let mut queues = Queues::open(options(root.path()), rules.clone(), 1).unwrap().unwrap().0;
    let names: Vec<_> = queues.names().iter().map(|n| n.to_vec()).collect();
    assert_eq!(names, [&b"more"[..], b"other", b"q", b"qq+a"]);
    assert_eq!(take(&mut queues, b"q").as_deref(), Some("late"));
    assert!(Queues::open(options(root.path()), rules, 1).unwrap().is_none(), "it is locked");
}

#[test]
fn limits_expiry_and_error_queues() {
    let root = tempfile::tempdir().unwrap();
    let named = |name: &'static str, limits| (name.as_bytes().into(), limits);
    let rules = Rules {
        queues: 9,
        named: vec![
            named("two", Limits { items: 2, ..Limits::default() }),
            named("newest", Limits { bytes: 10, discard_oldest: true, ..Limits::default() }),
            named("young", Limits { max_age: 10, default_expiry: 5, ..Limits::default() }),
            named("memory", Limits { memory_only: true, bytes: 99, ..Limits::default() }),
            named("only", Limits { fanout_only: true, ..Limits::default() }),
            named(
                "poison",
                Limits {
                    max_aborts: 2,
                    error_queue: Some(b"errors"[..].into()),
                    ..Limits::default()
                },
            ),
        ],
        ..Rules::default()
    };
    let mut queues = Queues::open(options(root.path()), rules.clone(), 1).unwrap().unwrap().0;
    for (at, put) in [("two", true), ("two", true), ("two", false)] {
        assert_eq!(matches!(queues.put(at.as_bytes(), &item("x"), 1), Put::Stored), put);
    }
    for data in ["12345", "abcde", "ABCDE"] {
        assert!(matches!(queues.put(b"newest", &item(data), 1), Put::Stored));
    }
    assert!(matches!(queues.put(b"newest", &item("01234567890"), 1), Put::Full));
    assert_eq!(take(&mut queues, b"newest").as_deref(), Some("abcde"));
    for (expires, gone) in [(0, 6), (4, 4), (100, 11)] {
        let new = NewItem { expires, ..item("x") };
        assert!(matches!(queues.put(b"young", &new, 1), Put::Stored));
        assert!(queues.read(b"young", Read::Peek, 1, gone - 1).unwrap().is_some());
        assert!(queues.read(b"young", Read::Peek, 1, gone).unwrap().is_none());
    }
    assert!(matches!(queues.put(b"memory", &item("m"), 1), Put::Stored));
    assert_eq!(take(&mut queues, b"only+a"), None);
    assert!(matches!(queues.put(b"only", &item("o"), 1), Put::Stored));
    assert_eq!(take(&mut queues, b"only"), None);
    assert!(matches!(queues.put(b"poison", &item("p"), 1), Put::Stored));
    for aborts in 0..2 {
        queues.write();
        queues.take_work(true).run().unwrap();
        drop(queues);
        queues = Queues::open(options(root.path()), rules.clone(), 1).unwrap().unwrap().0;
        assert_eq!(take(&mut queues, b"errors"), None);
        assert!(queues.read(b"poison", Read::Open, 1, 1).unwrap().is_some());
        let touched = queues.leave(1, true, 1);
        assert_eq!(touched.len(), 1 + aborts);
    }
    assert_eq!(take(&mut queues, b"poison"), None);
    assert_eq!(take(&mut queues, b"errors").as_deref(), Some("p"));
    assert_eq!(take(&mut queues, b"memory"), None, "lost with the process");
    assert_eq!(take(&mut queues, b"only+a").as_deref(), Some("o"));
}

#[test]
fn damage_in_the_middle_costs_what_follows_in_its_segment_only() {
    let root = tempfile::tempdir().unwrap();
    let rules = Rules { queues: 3, ..Rules::default() };
    let mut queues = Queues::open(options(root.path()), rules.clone(), 1).unwrap().unwrap().0;
    for n in 0..100u32 {
        let new =
            NewItem { flags: n, ..item("some data that takes room in the journal's segments") };
        assert!(matches!(queues.put(b"q", &new, 1), Put::Stored));
    }
    queues.close().unwrap();
    let first = root.path().join("q/0000000000000001.log");
    let mut bytes = fs::read(&first).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(&first, bytes).unwrap();
    let (mut queues, damage) = Queues::open(options(root.path()), rules, 1).unwrap().unwrap();
    assert!(damage.len() == 1 && !damage[0].is_tail, "{damage:?}");
    let items = queues.figures().next().unwrap().1.items;
    let mut flags = Vec::new();
    while let Some(item) = queues.read(b"q", Read::Take, 1, 1).unwrap() {
        flags.push(item.flags);
    }
    assert_eq!(items, flags.len() as u64);
    assert!(items > 50 && flags.is_sorted() && flags[0] == 0 && flags.last() == Some(&99));
}

/// A small file system of its own, or none where this process may not mount.
struct Small(tempfile::TempDir);

impl Small {
    fn mount(size: &str) -> Option<Small> {
        let root = tempfile::tempdir().unwrap();
        let mount = Small::run(&["mount", "-t", "tmpfs", "-o", size, "tmpfs"], root.path());
        mount.then_some(Small(root))
    }

    fn grow(&self, size: &str) {
        assert!(Small::run(&["mount", "-o", &format!("remount,{size}")], self.0.path()));
    }

    fn run(words: &[&str], path: &Path) -> bool {
        let mut command = std::process::Command::new(words[0]);
        command.args(&words[1..]).arg(path).stderr(std::process::Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        Small::run(&["umount", "-l"], self.0.path());
    }
}

/// Once an item that came back was kept from readers with all others, while its file system was
/// full: its copy waited to be written, and counted as too much to wait.
#[test]
fn items_that_come_back_to_a_full_file_system_are_first_in_line() {
    // Segments shorter and longer than what comes back: from older ones, and from the last.
    for segment in [1 << 20, 64 << 20] {
        let Some(small) = Small::mount("size=24m") else {
            eprintln!("left out: this process may not mount");
            return;
        };
        let path = small.0.path().join("queues");
        let open = || {
            let (path, memory) = (path.clone(), 64 << 10);
            let options = Options { path, memory, segment, always: true };
            let rules = Rules { queues: 2, ..Rules::default() };
            Queues::open(options, rules, 1).unwrap().unwrap().0
        };
        let mut queues = open();
        let data = |number: u32| Bytes::from(vec![b'a' + (number % 26) as u8; 700_000]);
        let mut count = 0;
        loop {
            let item = NewItem { flags: count, expires: 0, data: data(count) };
            assert!(matches!(queues.put(b"q", &item, 1), Put::Stored));
            count += 1;
            if !queues.write().is_empty() {
                break;
            }
        }
        // Nothing more fits. (The file system takes its rest.)
        let _full = fs::write(small.0.path().join("rest"), vec![0; 24 << 20]);
        // More than waits to be written of removals.
        for round in 0..3 {
            let taken: Vec<_> =
                (0..count).map(|_| queues.read(b"q", Read::Take, 1, 1).unwrap().unwrap()).collect();
            assert_eq!(queues.read(b"q", Read::Take, 1, 1).unwrap(), None, "round {round}");
            assert!(!queues.write().is_empty());
            queues.take_work(true).run().unwrap();
            for item in taken.into_iter().rev() {
                queues.restore(b"q", item);
            }
            assert!(!queues.write().is_empty());
            let first = queues.read(b"q", Read::Peek, 1, 1).unwrap().unwrap();
            assert_eq!((first.flags, first.data), (0, data(0)));
        }
        small.grow("size=96m");
        assert!(queues.write().is_empty());
        queues.take_work(true).run().unwrap();
        // Killed: what is in the files counts.
        drop(queues);
        let mut queues = open();
        for number in 0..count {
            let item = queues.read(b"q", Read::Take, 1, 1).unwrap().unwrap();
            assert_eq!((item.flags, item.data), (number, data(number)));
        }
        assert_eq!(queues.read(b"q", Read::Take, 1, 1).unwrap(), None);
    }
}
