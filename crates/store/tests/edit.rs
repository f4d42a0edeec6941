//! Parts that change where they lie.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use larder_store::{
    Cursor, Keep, MOST_ROOM, Namespace, Options, Owner, Part, Put, PutError, Store,
};
use proptest::prelude::*;

const OWNERS: Namespace = Namespace(2);
const PARTS: Namespace = Namespace(18);
const NOW: u64 = 1_700_000_000_000;
const VERSION: u64 = 1 << 63 | 7;

fn store(budget: usize, evict: bool) -> Store {
    let parts = Some(PARTS);
    Store::open(Options { budget, parts, threads: 4, evict, ..Options::default() }).unwrap()
}

fn owner(store: &Store, key: &[u8]) -> Owner {
    let put = Put { value: &[b"head"], version: Some(VERSION), ..Put::default() };
    store.set(OWNERS, key, put, NOW).unwrap();
    store.owner(OWNERS, key, VERSION).unwrap()
}

fn read(store: &Store, owner: &Owner, number: u64) -> Option<(Vec<u8>, usize)> {
    let mut bytes = Vec::new();
    match store.read_part(owner, number, &mut bytes, NOW)? {
        Part::Copied(room) => Some((bytes, room)),
        Part::Fixed(entry) => Some((entry.chunks().flatten().copied().collect(), 0)),
    }
}

#[test]
fn parts_are_not_lent() {
    let store = store(16 << 20, true);
    let owner = owner(&store, b"key");
    store.put_part(&owner, 1, b"part", 100, NOW).unwrap();
    let mut keys = Vec::new();
    store.scan(PARTS, Cursor::START, usize::MAX, &mut |key, _| {
        keys.push(key.to_vec());
        Keep::Keep
    });
    let key = &keys[0];
    assert!(store.peek(PARTS, key, NOW).is_none() && store.get(PARTS, key, NOW).is_none());
    let hint = store.prefetch(PARTS, key);
    assert!(store.get_hinted(hint, PARTS, key, NOW).is_none());
    let put = Put { value: &[b"other"], ..Put::default() };
    assert_eq!(store.set(PARTS, key, put, NOW), Err(PutError::TooLarge));
    assert!(store.append(PARTS, key, &[b"more"], NOW).is_err());
    assert!(!store.delete(PARTS, key, NOW));
    assert_eq!(read(&store, &owner, 1).unwrap().0, b"part");
}

#[derive(Clone, Debug)]
enum Step {
    Put(u64, usize, usize),
    Rewrite(u64, usize),
    Delete(u64),
    /// Other entries push them through the queues.
    Fill(u32),
    Sweep,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![8 => 0usize..600, 2 => 3900usize..4200, 1 => 30_000usize..40_000];
    let step = prop_oneof![
        4 => (0u64..20, size.clone(), 0usize..5000).prop_map(|(n, l, room)| Step::Put(n, l, room)),
        8 => (0u64..20, size).prop_map(|(n, len)| Step::Rewrite(n, len)),
        1 => (0u64..20).prop_map(Step::Delete),
        2 => (1u32..400).prop_map(Step::Fill),
        1 => Just(Step::Sweep),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn parts_hold_what_was_written_last(steps in steps()) {
        // So large that no part is evicted, so small that all are moved.
        let store = store(24 << 20, true);
        let owner = owner(&store, b"key");
        let mut model: BTreeMap<u64, (Vec<u8>, usize)> = BTreeMap::new();
        let (mut serial, mut others) = (0u8, 0u64);
        for step in steps {
            serial = serial.wrapping_add(1);
            match step {
                Step::Put(n, len, room) => {
                    let value = vec![serial; len];
                    let got = store.put_part(&owner, n, &value, room, NOW).unwrap();
                    let least = len.max(room.min(MOST_ROOM));
                    let is_right = if len > MOST_ROOM { got == 0 } else { got >= least };
                    prop_assert!(is_right, "{} bytes, room {}: {}", len, room, got);
                    model.insert(n, (value, got));
                }
                Step::Rewrite(n, len) => {
                    let value = vec![serial; len];
                    let fits = model
                        .get(&n)
                        .is_some_and(|(old, room)| *room >= len && old.len() <= MOST_ROOM);
                    prop_assert_eq!(store.rewrite_part(&owner, n, &value, NOW), fits);
                    if fits {
                        model.get_mut(&n).unwrap().0 = value;
                    }
                }
                Step::Delete(n) => {
                    prop_assert_eq!(store.delete_part(&owner, n, NOW), model.remove(&n).is_some());
                }
                Step::Fill(number) => {
                    for _ in 0..number {
                        others += 1;
                        let put = Put { value: &[&[b'o'; 10_000]], ..Put::default() };
                        store.set(OWNERS, &others.to_le_bytes(), put, NOW).unwrap();
                        store.get(OWNERS, b"key", NOW).unwrap();
                    }
                }
                Step::Sweep => {
                    store.sweep(NOW, usize::MAX);
                }
            }
            for n in 0..20 {
                prop_assert_eq!(read(&store, &owner, n), model.get(&n).cloned());
                prop_assert_eq!(store.use_part(&owner, n, NOW), model.contains_key(&n));
            }
        }
        let image = store.snapshot(NOW);
        prop_assert!(image.is_ok());
        // Nothing is written into what was given.
        for n in 0..20 {
            prop_assert!(!store.rewrite_part(&owner, n, b"x", NOW));
        }
    }
}

/// Each writer has parts of its own, and knows them; readers see each as one write made it.
#[test]
fn parts_change_while_they_are_moved_and_read() {
    const WRITERS: u64 = 3;
    const NUMBER: u64 = 40;
    let store = store(16 << 20, true);
    let owners: Vec<Owner> =
        (0..WRITERS).map(|n| owner(&store, format!("key{n}").as_bytes())).collect();
    let (store, owners) = (&store, &owners);
    for owner in owners {
        (0..NUMBER).for_each(|n| {
            store.put_part(owner, n, &[0; 100], 600, NOW).unwrap();
        });
    }
    let (stop, seen) = (&AtomicBool::new(false), &AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || {
                    let mut own = vec![0u8; NUMBER as usize];
                    for turn in 0..30_000u64 {
                        let n = turn.wrapping_mul(7 + writer) % NUMBER;
                        let owner = &owners[writer as usize];
                        let value = (turn % 251) as u8;
                        let len = 1 + (turn as usize * 13) % 600;
                        assert!(store.rewrite_part(owner, n, &vec![value; len], NOW));
                        own[n as usize] = value;
                        let other = turn.wrapping_mul(11) % NUMBER;
                        let (bytes, _) = read(store, owner, other).unwrap();
                        assert!(bytes.iter().all(|byte| *byte == own[other as usize]));
                    }
                })
            })
            .collect();
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                for owner in owners {
                    for n in 0..NUMBER {
                        let (bytes, room) = read(store, owner, n).unwrap();
                        assert!(bytes.len() <= room && room == 600);
                        assert!(bytes.iter().all(|byte| *byte == bytes[0]));
                        seen.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        scope.spawn(move || {
            let mut n = 0u64;
            while !stop.load(Ordering::Relaxed) {
                n += 1;
                let put = Put { value: &[&[b'v'; 5000]], ..Put::default() };
                store.set(OWNERS, &(n % 100_000).to_le_bytes(), put, NOW).unwrap();
                (0..WRITERS).for_each(|n| {
                    store.get(OWNERS, format!("key{n}").as_bytes(), NOW).unwrap();
                });
                if n.is_multiple_of(100) {
                    store.sweep(NOW, 1 << 20);
                }
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(seen.load(Ordering::Relaxed) > 0);
}
