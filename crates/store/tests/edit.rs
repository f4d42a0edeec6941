//! Parts that change where they lie.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use larder_store::{
    Cursor, GiveError, Keep, MOST_ROOM, Namespace, OpenError, Options, Owner, Part, Put, PutError,
    Snapshot, Store,
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
        4 => (0u64..20, size.clone(), 0usize..5000)
            .prop_map(|(n, len, room)| Step::Put(n, len, room)),
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
                    let least = if len > MOST_ROOM { 0 } else { len.max(room.min(MOST_ROOM)) };
                    prop_assert!(got >= least && (len <= MOST_ROOM || got == 0));
                    model.insert(n, (value, got));
                }
                Step::Rewrite(n, len) => {
                    let value = vec![serial; len];
                    let there = model.get(&n);
                    let fits = there
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

/// Stops all threads when one ends, by a panic, too.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Each writer has parts of its own, and knows them; readers see each as one write made it. All
/// that goes on until the memory was turned over several times.
#[test]
fn parts_change_while_they_are_moved_and_read() {
    const WRITERS: u64 = 3;
    const NUMBER: u64 = 40;
    /// Entries of 5 KB that are evicted meanwhile: six times the memory.
    const EVICTED: u64 = 20_000;
    const TURNS: u64 = 30_000;
    let store = store(16 << 20, true);
    let owners: Vec<Owner> =
        (0..WRITERS).map(|n| owner(&store, format!("key{n}").as_bytes())).collect();
    let (store, owners) = (&store, &owners);
    for owner in owners {
        (0..NUMBER).for_each(|n| {
            store.put_part(owner, n, &[0; 100], 600, NOW).unwrap();
        });
    }
    let stop = &AtomicBool::new(false);
    let (turns, seen) = (&AtomicU64::new(0), &AtomicU64::new(0));
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let _stop = Stop(stop);
                let (mut own, mut turn) = (vec![0u8; NUMBER as usize], 0u64);
                while !stop.load(Ordering::Relaxed) {
                    turn += 1;
                    let n = turn.wrapping_mul(7 + writer) % NUMBER;
                    let owner = &owners[writer as usize];
                    let value = (turn % 251) as u8;
                    let len = 1 + (turn as usize * 13) % 600;
                    assert!(store.rewrite_part(owner, n, &vec![value; len], NOW));
                    own[n as usize] = value;
                    let other = turn.wrapping_mul(11) % NUMBER;
                    let (bytes, _) = read(store, owner, other).unwrap();
                    assert!(bytes.iter().all(|byte| *byte == own[other as usize]));
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(move || {
            let _stop = Stop(stop);
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
            let _stop = Stop(stop);
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
                    let evicted = store.stats(OWNERS).evictions;
                    if evicted > EVICTED && turns.load(Ordering::Relaxed) > TURNS {
                        return;
                    }
                }
            }
        });
    });
    assert!(seen.load(Ordering::Relaxed) > 0);
}

/// Writers of the same part: its bytes are always those of one of them.
#[test]
fn a_part_is_replaced_and_deleted_while_it_is_rewritten() {
    const TURNS: u64 = 20_000;
    /// So that a length tells the bytes.
    fn value(turn: u64) -> Vec<u8> {
        let byte = (turn % 250) as u8;
        vec![byte; 1 + 2 * usize::from(byte)]
    }
    let store = store(16 << 20, true);
    let owner = owner(&store, b"key");
    let (store, owner) = (&store, &owner);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            scope.spawn(move || {
                for turn in 0..TURNS {
                    store.rewrite_part(owner, 1, &value(turn * (3 + writer)), NOW);
                }
            });
        }
        scope.spawn(move || {
            for turn in 0..TURNS {
                let value = value(turn * 7);
                store.put_part(owner, 1, &value, (turn % 900) as usize, NOW).unwrap();
            }
        });
        scope.spawn(move || {
            for _ in 0..TURNS {
                store.delete_part(owner, 1, NOW);
            }
        });
        scope.spawn(move || {
            for _ in 0..TURNS {
                let Some((bytes, room)) = read(store, owner, 1) else { continue };
                assert!(bytes.len() == 1 + 2 * usize::from(bytes[0]) && bytes.len() <= room);
                assert!(bytes.iter().all(|byte| *byte == bytes[0]));
            }
        });
    });
    store.put_part(owner, 1, b"end", 3, NOW).unwrap();
    assert_eq!(store.stats(PARTS).items, 1);
}

/// The options of a store that may be given.
fn given() -> Options {
    let parts = Some(PARTS);
    Options { budget: 16 << 20, parts, threads: 4, seed: 77, shared: true, ..Options::default() }
}

/// A store of a snapshot of another, of which the image may be changed.
fn restored(
    store: &Store,
    options: Options,
    change: impl Fn(&mut [u8]),
) -> Result<Store, OpenError> {
    let mut snapshot = snapshot(store);
    change(&mut snapshot.image);
    Store::restore(options, &snapshot.image, &mut |segment, into| {
        let mut bytes = Vec::new();
        snapshot.copy(segment, &mut bytes);
        into.copy_from_slice(&bytes);
        true
    })
}

/// While parts change, the memory is not given: it is asked for until it is.
fn snapshot(store: &Store) -> Snapshot<'_> {
    loop {
        match store.snapshot(NOW) {
            Ok(snapshot) => return snapshot,
            Err(error) => assert_eq!(error, GiveError::Busy),
        }
        std::thread::yield_now();
    }
}

#[cfg(not(miri))]
fn taken_over(store: &Store) -> Store {
    loop {
        match store.give(NOW) {
            Ok(image) => {
                let memory = store.memory().unwrap().try_clone_to_owned().unwrap();
                return Store::take_over(given(), memory, &image).unwrap();
            }
            Err(error) => assert_eq!(error, GiveError::Busy),
        }
        std::thread::yield_now();
    }
}

/// Two parts that always change together are equal for whoever gets the memory, and as they were
/// written last.
#[cfg(not(miri))]
#[test]
fn parts_that_change_together_are_given_together() {
    const WRITERS: usize = 3;
    for takes_over in [false, true] {
        let old = Store::open(given()).unwrap();
        let owners: Vec<Owner> =
            (0..WRITERS).map(|n| owner(&old, format!("key{n}").as_bytes())).collect();
        for (owner, part) in owners.iter().flat_map(|owner| [(owner, 1), (owner, 2)]) {
            old.put_part(owner, part, &0u64.to_le_bytes(), 100, NOW).unwrap();
        }
        let (store, turns) = (&old, &AtomicU64::new(0));
        let (new, last) = std::thread::scope(|scope| {
            let writers: Vec<_> = owners
                .iter()
                .map(|owner| {
                    scope.spawn(move || {
                        for turn in 1u64.. {
                            let together = store.together();
                            let value = turn.to_le_bytes();
                            let done = [1, 2].map(|n| store.rewrite_part(owner, n, &value, NOW));
                            drop(together);
                            assert_eq!(done[0], done[1]);
                            if !done[0] {
                                return turn - 1;
                            }
                            turns.fetch_add(1, Ordering::Relaxed);
                        }
                        0
                    })
                })
                .collect();
            while turns.load(Ordering::Relaxed) < 10_000 {
                std::thread::yield_now();
            }
            let new = match takes_over {
                true => taken_over(store),
                false => restored(store, given(), |_| ()).unwrap(),
            };
            let last: Vec<u64> = writers.into_iter().map(|one| one.join().unwrap()).collect();
            (new, last)
        });
        for (owner, last) in owners.iter().zip(last) {
            for part in [1, 2] {
                let (bytes, _) = read(&new, owner, part).unwrap();
                assert_eq!(bytes, last.to_le_bytes(), "{takes_over}, {part}");
            }
        }
    }
}

/// Memory of a program without parts that have room is taken over: its parts never change.
#[test]
fn parts_of_the_layout_before_are_understood() {
    fn add(word: &mut [u8], what: u64) {
        let number = u64::from_le_bytes(word.try_into().unwrap());
        word.copy_from_slice(&number.wrapping_add(what).to_le_bytes());
    }
    const ONE: u64 = 1 << 32;
    let key = {
        let store = Store::open(given()).unwrap();
        let owner = owner(&store, b"key");
        store.put_part(&owner, 1, b"part", 100, NOW).unwrap();
        let mut key = Vec::new();
        store.scan(PARTS, Cursor::START, usize::MAX, &mut |part, _| {
            key = part.to_vec();
            Keep::Keep
        });
        key
    };
    // Nothing but the number of the namespace tells what parts are: then they can be stored as the
    // program before stored them.
    let before = || {
        let store = Store::open(Options { parts: None, ..given() }).unwrap();
        let put = Put { value: &[b"head"], version: Some(VERSION), ..Put::default() };
        store.set(OWNERS, b"key", put, NOW).unwrap();
        store.set(PARTS, &key, Put { value: &[b"part"], ..Put::default() }, NOW).unwrap();
        store
    };
    let as_parts =
        |image: &mut [u8]| image[40..48].copy_from_slice(&u64::from(PARTS.0).to_le_bytes());
    let store = restored(&before(), given(), |image| {
        as_parts(image);
        add(&mut image[..8], ONE.wrapping_neg());
    });
    let store = store.unwrap();
    let owner = store.owner(OWNERS, b"key", VERSION).unwrap();
    assert_eq!(read(&store, &owner, 1), Some((b"part".to_vec(), 0)));
    assert!(!store.rewrite_part(&owner, 1, b"x", NOW));
    assert!(store.use_part(&owner, 1, NOW));
    let room = store.put_part(&owner, 1, b"other", 100, NOW).unwrap();
    assert!(store.rewrite_part(&owner, 1, b"third", NOW));
    assert_eq!(read(&store, &owner, 1), Some((b"third".to_vec(), room)));
    for layout in [ONE, ONE.wrapping_mul(2).wrapping_neg(), 1] {
        let unknown = restored(&before(), given(), |image| {
            as_parts(image);
            add(&mut image[..8], layout);
        });
        assert!(unknown.is_err(), "{layout:x}");
    }
}
