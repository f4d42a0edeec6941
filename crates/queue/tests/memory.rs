//! Memory of items that wait on disk: none. A million by default; `LARDER_QUEUE_ITEMS=10000000` for
//! more.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use larder_queue::{NewItem, Options, Put, Queues, Read, Rules};

/// Memory of this process, in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn items_on_disk_have_no_memory() {
    let items = std::env::var("LARDER_QUEUE_ITEMS").ok().and_then(|n| n.parse().ok());
    let items = items.unwrap_or(1_000_000u32);
    let root = tempfile::tempdir().unwrap();
    let memory = 8 << 20;
    let open = || {
        let (path, segment) = (root.path().to_owned(), 16 << 20);
        let options = Options { path, memory, segment, always: false };
        let rules = Rules { queues: 2, ..Rules::default() };
        Queues::open(options, rules, 1).unwrap().unwrap().0
    };
    let before = resident();
    let mut queues = open();
    for n in 0..items {
        let item = NewItem { flags: n, expires: 0, data: Bytes::from(vec![b'x'; 20]) };
        assert!(matches!(queues.put(b"q", &item, 1), Put::Stored));
        if n % 512 == 0 {
            assert!(queues.write().is_empty());
        }
    }
    assert!(queues.write().is_empty());
    let waiting = resident().saturating_sub(before);
    drop(queues);
    let mut queues = open();
    let loaded = resident().saturating_sub(before);
    assert_eq!(queues.figures().next().unwrap().1.items, u64::from(items));
    for n in 0..items {
        assert_eq!(queues.read(b"q", Read::Take, 1, 1).unwrap().unwrap().flags, n);
        if n % 512 == 0 {
            assert!(queues.write().is_empty());
            queues.take_work(false).run().unwrap();
        }
    }
    let read = resident().saturating_sub(before);
    println!("{items} items: {waiting} waiting, {loaded} after a restart, {read} at the end");
    // Twice the memory that is counted, and some for the process.
    let most = 2 * memory + (16 << 20);
    assert!(waiting < most && loaded < most && read < most, "{waiting} {loaded} {read}");
}

#[test]
fn the_first_items_of_many_queues_are_within_the_memory_of_all() {
    let root = tempfile::tempdir().unwrap();
    let memory = 8 << 20;
    let options = Options { path: root.path().to_owned(), memory, segment: 1 << 20, always: false };
    let rules = Rules { queues: 1000, ..Rules::default() };
    let mut queues = Queues::open(options, rules, 1).unwrap().unwrap().0;
    for n in 0..1000u32 {
        let name = format!("q{n}");
        for flags in 0..2 {
            let item = NewItem { flags, expires: 0, data: Bytes::from(vec![b'x'; 50_000]) };
            assert!(matches!(queues.put(name.as_bytes(), &item, 1), Put::Stored));
        }
        assert!(queues.write().is_empty());
        let _ = queues.maintain(1);
    }
    // A few hundred bytes for the item that is known, and none of its data.
    let most = memory + 1000 * 512;
    assert!(queues.memory() <= most, "{}", queues.memory());
    for n in 0..1000u32 {
        for flags in 0..2 {
            let item = queues.read(format!("q{n}").as_bytes(), Read::Take, 1, 1).unwrap().unwrap();
            assert_eq!((item.flags, item.data.len()), (flags, 50_000));
        }
        assert!(queues.memory() <= most, "{}", queues.memory());
    }
}
