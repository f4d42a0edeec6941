//! Parts live and die with their owner.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_store::{Cursor, Namespace, Options, Owner, Put, Store};

const OWNERS: Namespace = Namespace(2);
const PARTS: Namespace = Namespace(18);
const NOW: u64 = 1_700_000_000_000;
/// Later than the time for which a part may be without an owner.
const LATER: u64 = NOW + 60_000;
const VERSION: u64 = 1 << 63 | 7;

fn store(budget: usize) -> Store {
    Store::open(Options { budget, parts: Some(PARTS), threads: 1, ..Options::default() }).unwrap()
}

/// Stores an owner and so many parts of it.
fn tree(store: &Store, key: &[u8], parts: u64, now: u64) -> Owner {
    let owner = store.owner(OWNERS, key, VERSION).unwrap();
    for number in 0..parts {
        store.put_part(&owner, number, &[b'p'; 1000], 1000, now).unwrap();
    }
    let put = Put { value: &[b"head"], version: Some(VERSION), ..Put::default() };
    store.set(OWNERS, key, put, now).unwrap();
    owner
}

fn reap(store: &Store, now: u64) -> usize {
    let (mut cursor, mut all) = (Cursor::START, 0);
    loop {
        let (next, removed) = store.reap(cursor, 1000, now);
        all += removed;
        match next {
            Some(next) => cursor = next,
            None => return all,
        }
    }
}

#[test]
fn parts_are_freed_when_their_owner_is_gone_in_any_way() {
    let store = store(16 << 20);
    for way in ["deleted", "replaced", "expired", "flushed"] {
        tree(&store, b"stays", 50, NOW);
        tree(&store, b"goes", 100, NOW);
        let mut now = LATER;
        match way {
            "deleted" => assert!(store.delete(OWNERS, b"goes", NOW)),
            "replaced" => {
                let put = Put { value: &[b"text"], ..Put::default() };
                store.set(OWNERS, b"goes", put, NOW).map(drop).unwrap();
            }
            "expired" => {
                store.touch(OWNERS, b"goes", Some(NOW + 1000), NOW).unwrap();
                now += 1000;
            }
            _ => {
                store.flush(OWNERS, NOW);
                let put = Put { value: &[b"head"], version: Some(VERSION), ..Put::default() };
                store.set(OWNERS, b"stays", put, NOW).unwrap();
            }
        }
        assert_eq!(reap(&store, NOW + 1000), 0, "{way}: a part may come before its owner");
        assert_eq!(reap(&store, now), 100, "{way}");
        assert_eq!(store.stats(PARTS).items, 50, "{way}");
    }
}

/// Of two collections of which nobody reads the parts, the one whose head is read stays whole.
#[test]
fn parts_stay_as_long_as_their_owner_is_used() {
    let store = store(16 << 20);
    let (used, unused) = (tree(&store, b"used", 1000, NOW), tree(&store, b"unused", 1000, NOW));
    for nth in 0..60_000u64 {
        let put = Put { value: &[&[b'v'; 1000]], ..Put::default() };
        store.set(OWNERS, &nth.to_le_bytes(), put, NOW + nth).unwrap();
        if nth % 100 == 0 {
            store.get(OWNERS, b"used", NOW + nth).expect("it is used");
        }
    }
    let left = |owner: Owner| {
        let there = |n: &u64| store.read_part(&owner, *n, &mut Vec::new(), LATER).is_some();
        (0..1000).filter(there).count()
    };
    assert!(store.stats(OWNERS).evictions > 10_000);
    assert_eq!(left(used), 1000);
    assert_eq!(left(unused), 0);
}
