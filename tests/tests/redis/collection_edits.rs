//! Several clients change and read the same large collections, while memory is short.

use std::sync::atomic::{AtomicBool, Ordering};

use larder_tests::editor::{Editor, check_pair, pair_value, read_pair};
use larder_tests::redis::command;
use larder_tests::{Redis, Resp};

/// Steps of a client, and bytes of other values that it stores with each: memory is full after a
/// third of them.
const STEPS: usize = 1500;
const FILLING: usize = 30_000;
const CLIENTS: usize = 4;

/// Runs and nodes change where they lie while they are moved by eviction and compaction, and read
/// without a lock.
#[test]
fn collections_hold_what_each_client_put_there_while_memory_is_short() {
    let larder = Redis::larder(&[]);
    let addr = larder.addr();
    let mut editors: Vec<Editor> = (0..CLIENTS).map(|number| Editor::new(addr, number)).collect();
    std::thread::scope(|scope| {
        for editor in &mut editors {
            scope.spawn(|| (0..STEPS).for_each(|_| editor.step(FILLING)));
        }
    });
    let info = larder.connect().say("INFO stats");
    let evicted = info.lines().find_map(|line| line.trim().strip_prefix("evicted_keys:"));
    assert!(evicted.is_some_and(|number| number != "0"), "{info}");
    Editor::check(&mut editors);
}

/// Fields that make a record a tree, and times that this happens.
const FIELDS: usize = 700;
const ROUNDS: u64 = 25;

/// Says that the writer has ended, by a panic, too.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A hash grows from a record to a tree, which is divided, and joined again until it is a record;
/// some of its fields expire, which readers notice. Two fields always change together.
#[test]
fn reads_without_a_lock_see_whole_changes_while_a_hash_changes_its_form() {
    let larder = Redis::larder(&[]);
    let addr = larder.addr();
    let mut writer = larder.connect();
    let mut changes = 1;
    let change = |changes: u64| {
        let value = pair_value(changes);
        command(&["HSET", "form", "a", &value, "b", &value])
    };
    assert_eq!(writer.send(change(changes)).reply().text(), "2");
    let ended = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(move || {
                let mut client = Resp::tcp(addr);
                let looks = read_pair("form", ["a", "b"]).repeat(16);
                while !ended.load(Ordering::Relaxed) {
                    client.send(&looks);
                    (0..16).for_each(|_| check_pair(&mut client));
                }
            });
        }
        let _ends = Ends(ended);
        for round in 0..ROUNDS {
            for grows in [true, false] {
                for first in (0..FIELDS).step_by(20) {
                    let (mut sent, mut answers) = (Vec::new(), 0);
                    for number in first..first + 20 {
                        // From the middle on: runs in the middle are divided and joined.
                        let field = format!("field{}", (number * 331 + round as usize) % FIELDS);
                        sent.extend(match grows {
                            true => command(&["HSET", "form", &field, &"v".repeat(40)]),
                            false => command(&["HDEL", "form", &field]),
                        });
                        answers += 1;
                        if grows && number % 50 == 7 {
                            sent.extend(command(&["HPEXPIRE", "form", "1", "FIELDS", "1", &field]));
                            answers += 1;
                        }
                        if number % 4 == 0 {
                            changes += 1;
                            sent.extend(change(changes));
                            answers += 1;
                        }
                    }
                    writer.send(&sent);
                    (0..answers).for_each(|_| assert!(!writer.reply().is_error()));
                }
            }
        }
    });
    let value = pair_value(changes);
    let all = writer.ask(&["HGETALL", "form"]);
    let mut all: Vec<String> = all.items().iter().map(|item| item.text()).collect();
    all.sort();
    assert_eq!(all, [value.clone(), value, "a".to_owned(), "b".to_owned()]);
}

/// Items that lie in the head count once.
#[test]
fn memory_usage_counts_each_item_once() {
    let larder = Redis::larder(&[]);
    let mut client = larder.connect();
    let element = "e".repeat(100);
    for (count, kind) in [(30, "packed"), (300, "tree")] {
        for _ in 0..count {
            client.ask(&["RPUSH", kind, &element]);
        }
        let usage: u64 = client.ask(&["MEMORY", "USAGE", kind]).text().parse().unwrap();
        let least = count * 100;
        assert!((least..least * 6 / 5).contains(&usage), "{kind}: {usage}");
    }
}
