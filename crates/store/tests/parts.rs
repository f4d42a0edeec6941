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

/// How many of an owner's parts with these numbers are there.
fn whole(store: &Store, owner: &Owner, parts: u64, now: u64) -> usize {
    let there = |n: &u64| store.read_part(owner, *n, &mut Vec::new(), now).is_some();
    (0..parts).filter(there).count()
}

/// A change in place marks the owner, and does not write it: those that are changed every three to
/// ten seconds stay whole through many turns of both queues.
#[test]
fn parts_stay_as_long_as_they_change_now_and_then() {
    const OWNERS_USED: usize = 6;
    const NUMBER: u64 = 100;
    let store = store(16 << 20);
    let keys: Vec<String> = (0..OWNERS_USED).map(|n| format!("used{n}")).collect();
    let used: Vec<Owner> =
        keys.iter().map(|key| tree(&store, key.as_bytes(), NUMBER, NOW)).collect();
    let unused = tree(&store, b"unused", NUMBER, NOW);
    let mut next = [NOW + 3000; OWNERS_USED];
    for nth in 0..200_000u64 {
        let now = NOW + nth;
        let other = |nth: u64| (nth << 8).to_le_bytes();
        let put = Put { value: &[&[b'v'; 1000]], ..Put::default() };
        store.set(OWNERS, &other(nth), put, now).unwrap();
        // Half of them are asked for again, and turn the main queue over.
        if nth % 2 == 0 && nth > 500 {
            store.get(OWNERS, &other(nth - 500), now);
        }
        for (which, (key, owner)) in keys.iter().zip(&used).enumerate() {
            if next[which] <= now {
                next[which] = now + 3000 + (nth.wrapping_mul(2_654_435_761) >> 7) % 7000;
                let entry = store.peek(OWNERS, key.as_bytes(), now).expect("it is used");
                let part = nth % NUMBER;
                if nth % 3 == 0 {
                    store.put_part(owner, part, &[b'q'; 900], 1000, now).map(drop).unwrap();
                } else {
                    assert!(store.rewrite_part(owner, part, &[b'r'; 950], now), "{key}, {part}");
                }
                store.note_use(&entry, now);
            }
        }
    }
    assert!(store.stats(OWNERS).evictions > 100_000);
    let now = NOW + 200_000;
    for (key, owner) in keys.iter().zip(&used) {
        assert_eq!(whole(&store, owner, NUMBER, now), NUMBER as usize, "{key}");
    }
    assert_eq!(whole(&store, &unused, NUMBER, now), 0);
}

/// More than the memory holds, all of it used: some are dropped, and writes go on.
#[test]
fn parts_that_are_used_do_not_stop_writes() {
    const COUNT: u64 = 40;
    const NUMBER: u64 = 700;
    let store = store(16 << 20);
    let key = |n: u64| format!("used{}", n % COUNT).into_bytes();
    for nth in 0..2 * COUNT {
        let now = NOW + 1000 * nth;
        let owner = store.owner(OWNERS, &key(nth), VERSION).unwrap();
        for number in 0..NUMBER {
            store.put_part(&owner, number, &[nth as u8; 1000], 1000, now).map(drop).unwrap();
        }
        let put = Put { value: &[b"head"], version: Some(VERSION), ..Put::default() };
        store.set(OWNERS, &key(nth), put, now).map(drop).unwrap();
        for other in 0..COUNT {
            store.get(OWNERS, &key(other), now);
        }
    }
    let items = store.stats(PARTS).items;
    assert!((4 * NUMBER..COUNT * NUMBER).contains(&items), "{items}");
    // Later nobody uses them: the memory is free for others.
    let later = NOW + 1_000_000;
    for nth in 0..60_000u64 {
        let put = Put { value: &[&[b'v'; 1000]], ..Put::default() };
        store.set(OWNERS, &nth.to_le_bytes(), put, later + nth).map(drop).unwrap();
    }
    assert!(store.stats(PARTS).items < items);
}
