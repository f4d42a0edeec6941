//! Queues with many children: their copies are made in steps, and nobody waits for all of them.

// A test reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::queues::{Queues, set, value};
use larder_tests::scratch::Scratch;
use larder_tests::wait_until;

/// Makes the children of a queue: the first command for each does.
fn make(queues: &Queues, parent: &str, count: usize) {
    let mut talk = queues.connect();
    for child in 0..count {
        talk.expect(format!("get {parent}+{child:03}\r\n"), "END\r\n");
    }
}

/// Once all copies were made at once: no other command was carried out before the last.
#[test]
fn others_have_their_turn_while_copies_are_made() {
    let directory = Scratch::new("queue-children");
    let lines = "segment = \"1MiB\"\n[[queue.named]]\nname = \"fan\"\nmax_items = 1\n\
                 discard_oldest = true";
    let queues = Queues::start(&directory, lines);
    let count = 200;
    make(&queues, "fan", count);
    let (mut writer, mut other) = (queues.connect(), queues.connect());
    let (first, last) = ("fan+000", format!("fan+{:03}", count - 1));
    let mut round = 0;
    wait_until("commands between two copies", || {
        round += 1;
        let item = format!("{round:05}{}", "x".repeat(100 << 10));
        writer.send(set("fan", &item));
        // The first child has the item, and then the last one has it not.
        wait_until("the first copy", || {
            other.ask(format!("get {first}/peek\r\n"), "END\r\n") == value(first, &item)
        });
        let found = other.ask(format!("get {last}/peek\r\n"), "END\r\n");
        writer.expect("", "STORED\r\n");
        // With the answer it has.
        other.expect(format!("get {last}/peek\r\n"), &value(&last, &item));
        found != value(&last, &item)
    });
}

#[test]
fn children_have_all_items_in_one_order_also_after_a_kill() {
    let directory = Scratch::new("queue-children");
    let queues = Queues::start(&directory, "sync = \"always\"");
    let parents = ["a", "b"];
    for parent in parents {
        make(&queues, parent, 20);
    }
    // Pipelines of items for both, by clients that do not wait for each other.
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            let mut talk = queues.connect();
            std::thread::spawn(move || {
                for round in 0..5 {
                    let items = (0..20).flat_map(|item| {
                        let data = format!("{writer}{round}{item:02}{}", "x".repeat(3000));
                        parents.map(|parent| set(parent, &data))
                    });
                    talk.expect(items.collect::<String>(), &"STORED\r\n".repeat(40));
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    queues.kill();
    let queues = Queues::start(&directory, "sync = \"always\"");
    let mut talk = queues.connect();
    for parent in parents {
        let mut items = |queue: &str| -> Vec<String> {
            let get = format!("get {queue}\r\n");
            let next = || talk.ask(&get, "END\r\n").lines().nth(1).map(|data| data[..4].to_owned());
            std::iter::from_fn(next).collect()
        };
        let own = items(parent);
        assert_eq!(own.len(), 300);
        for writer in ["0", "1", "2"] {
            let of = own.iter().filter(|item| item.starts_with(writer));
            assert!(of.is_sorted(), "{own:?}");
        }
        for child in 0..20 {
            assert_eq!(items(&format!("{parent}+{child:03}")), own);
        }
    }
}
