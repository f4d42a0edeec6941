//! Values that lie elsewhere.
#![allow(missing_docs, clippy::unwrap_used)]

use larder_store::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const NS: Namespace = Namespace(1);
const OTHER: Namespace = Namespace(0);
const KEYS: u32 = 20_000;
const RUN: u64 = 77;

type Values = Arc<Mutex<HashMap<(u64, Vec<u8>), Vec<u8>>>>;

fn options() -> Options {
    Options { budget: 16 << 20, seed: 3, shared: true, ..Options::default() }
}

/// A store that gives values away, and what it gave away.
fn open() -> (&'static Store, Values) {
    let store: &Store = Box::leak(Box::new(Store::open(options()).unwrap()));
    let values = Values::default();
    give_to(store, &values, RUN, |_, _| true);
    (store, values)
}

/// Has a store give values away, of which only those are there that `has` says.
fn give_to(
    store: &'static Store,
    values: &Values,
    run: u64,
    has: impl Fn(&Values, Elsewhere) -> bool + Send + Sync + 'static,
) {
    let (into, of, tickets) = (values.clone(), values.clone(), AtomicU64::new(1));
    let away = Away {
        ns: NS,
        least: 1024,
        run,
        announce: Box::new(move |_, _, _| Some(tickets.fetch_add(1, Ordering::SeqCst))),
        take: Box::new(move |entry: Entry<'static>, _| {
            let bytes = entry.chunks().collect::<Vec<_>>().concat();
            into.lock().unwrap().insert((entry.written(), entry.key().to_vec()), bytes);
        }),
        withdraw: Box::new(|_, _, _| ()),
        has: Box::new(move |_, place| has(&of, place)),
    };
    assert!(store.put_away(away));
}

fn value(n: u32, length: usize) -> Vec<u8> {
    n.to_le_bytes().into_iter().cycle().take(length).collect()
}

fn set(store: &Store, n: u32, length: usize) -> u64 {
    let value = value(n, length);
    let put = Put { value: &[&value], flags: n, expires: Some(900_000), ..Put::default() };
    store.set(NS, &n.to_le_bytes(), put, 1).unwrap()
}

/// Brings a stub back from what was given away.
fn bring_back(store: &Store, values: &Values, stub: &Entry<'_>) -> Result<(), PutError> {
    let place = stub.elsewhere().unwrap();
    assert_eq!(place.run, RUN);
    let value = values.lock().unwrap()[&(place.number, stub.key().to_vec())].clone();
    store.bring_back(&stub.stub().unwrap(), &value, 1)
}

#[test]
fn entries_stay_with_all_but_their_value_and_get_it_back() {
    let (store, values) = open();
    let versions: Vec<u64> = (0..KEYS).map(|n| set(store, n, 3_000)).collect();
    assert!(values.lock().unwrap().len() > KEYS as usize / 2);
    assert_eq!(store.stats(NS).items, u64::from(KEYS), "four times the memory, and none is gone");
    let mut away = 0;
    for n in 0..KEYS {
        let key = n.to_le_bytes();
        let entry = store.peek(NS, &key, 1).unwrap();
        assert_eq!((entry.flags(), entry.version(), entry.len()), (n, versions[n as usize], 3_000));
        assert_eq!(entry.expires(), Some(900_000));
        if entry.elsewhere().is_some() {
            away += 1;
            assert!(entry.head().is_empty() && entry.chunks().next().is_none(), "no byte of it");
            bring_back(store, &values, &entry).unwrap();
            assert_eq!(bring_back(store, &values, &entry), Err(PutError::NotFound), "it is back");
        }
        let entry = store.peek(NS, &key, 1).unwrap();
        assert_eq!((entry.flags(), entry.version()), (n, versions[n as usize]));
        assert_eq!(entry.chunks().collect::<Vec<_>>().concat(), value(n, 3_000));
    }
    assert!(away > KEYS / 2, "{away}");
    let totals = store.totals();
    assert!(totals.budget == 16 << 20 && store.stats(NS).items == u64::from(KEYS));
}

/// The stub of some key: evictions are made by others.
fn stub(store: &'static Store, values: &Values, key: u32) -> Entry<'static> {
    set(store, key, 2_000);
    let mut n = 1_000_000;
    while store.peek(NS, &key.to_le_bytes(), 1).unwrap().elsewhere().is_none() {
        let value = value(n, 4_000);
        let put = Put { value: &[&value], ..Put::default() };
        store.set(OTHER, &n.to_le_bytes(), put, 1).unwrap();
        n += 1;
    }
    assert!(values.lock().unwrap().len() == 1, "only long values of its namespace");
    store.peek(NS, &key.to_le_bytes(), 1).unwrap()
}

#[test]
fn a_stub_is_an_entry_for_every_verb_that_needs_no_value() {
    let (store, values) = open();
    let key = 7u32.to_le_bytes();
    let found = stub(store, &values, 7);
    // A touch, near and far.
    for expires in [Some(5_000), None, Some(1 << 40)] {
        store.touch(NS, &key, expires, 1).unwrap();
        let touched = store.peek(NS, &key, 1).unwrap();
        assert_eq!((touched.expires(), touched.elsewhere()), (expires, found.elsewhere()));
    }
    assert_eq!(bring_back(store, &values, &found), Ok(()), "with the expiry that it has by now");
    assert_eq!(store.peek(NS, &key, 1).unwrap().expires(), Some(1 << 40));
    assert_eq!(store.peek(NS, &key, 1).unwrap().head(), value(7, 2_000));

    for change in ["set", "add", "version", "delete", "flush", "expire"] {
        let (store, values) = open();
        let found = stub(store, &values, 7);
        let put = Put { value: &[b"new"], ..Put::default() };
        let mut now = 1;
        match change {
            "set" => drop(store.put(NS, &key, put, If::Always, 1).unwrap()),
            "add" => {
                assert_eq!(store.put(NS, &key, put, If::Absent, 1), Err(PutError::Exists));
                assert!(store.delete(NS, &key, 1));
                store.put(NS, &key, put, If::Absent, 1).unwrap();
            }
            "version" => {
                let other = If::Version(found.version() + 1);
                assert_eq!(store.put(NS, &key, put, other, 1), Err(PutError::Exists));
                store.put(NS, &key, put, If::Version(found.version()), 1).unwrap();
            }
            "delete" => assert!(store.delete_same(&found, 1)),
            "flush" => store.flush(NS, 1),
            _ => now = 900_000,
        }
        let value = values.lock().unwrap().values().next().unwrap().clone();
        assert_eq!(
            store.bring_back(&found.stub().unwrap(), &value, now),
            Err(PutError::NotFound),
            "{change}"
        );
        let there = store.peek(NS, &key, now).map(|entry| entry.head().to_vec());
        let written = ["set", "add", "version"].contains(&change);
        assert_eq!(there, written.then(|| b"new".to_vec()), "{change}");
    }
}

#[test]
fn stubs_take_no_more_than_half_of_the_memory() {
    let (store, values) = open();
    // Stubs of some 70 bytes: all would take more than there is.
    for n in 0..300_000 {
        set(store, n, 1_024);
        values.lock().unwrap().clear();
    }
    let items = store.stats(NS).items;
    assert!((90_000..140_000).contains(&items), "{items}");
    let (there, stubs) = count(store, 300_000);
    assert!(there - stubs > 5_000, "{} values: a third of the memory", there - stubs);
    let newest = (299_000..300_000u32).filter(|n| store.peek(NS, &n.to_le_bytes(), 1).is_some());
    assert_eq!(newest.count(), 1_000);
}

#[test]
fn a_value_of_another_length_is_not_taken() {
    let (store, values) = open();
    let found = stub(store, &values, 7);
    assert_eq!(
        store.bring_back(&found.stub().unwrap(), &value(7, 1_999), 1),
        Err(PutError::TooLarge)
    );
    assert!(store.peek(NS, &7u32.to_le_bytes(), 1).unwrap().elsewhere().is_some());
}

/// How many of the first keys are there, and how many of these are stubs.
fn count(store: &Store, keys: u32) -> (u32, u32) {
    let there = |n: u32| store.peek(NS, &n.to_le_bytes(), 1);
    let stub = |n: u32| there(n).is_some_and(|entry| entry.elsewhere().is_some());
    let number = |test: &dyn Fn(u32) -> bool| (0..keys).filter(|n| test(*n)).count() as u32;
    (number(&|n| there(n).is_some()), number(&stub))
}

#[test]
fn a_stub_that_is_dropped_is_an_evicted_entry() {
    let (store, values) = open();
    let found = stub(store, &values, 7).stub().unwrap();
    let before = store.stats(NS);
    let other = Elsewhere { number: found.place.number + 1, ..found.place };
    assert!(!store.drop_stub(&Stub { place: other, ..found.clone() }, 1), "of another write");
    let other = Elsewhere { run: 1, ..found.place };
    assert!(!store.drop_stub(&Stub { place: other, ..found.clone() }, 1), "of another process");
    assert!(store.drop_stub(&found, 1));
    assert!(!store.drop_stub(&found, 1), "once");
    let after = store.stats(NS);
    assert_eq!((before.items - after.items, after.evictions - before.evictions), (1, 1));
    assert_eq!(after.bytes, 0);
    assert!(store.peek(NS, &found.key, 1).is_none());
    // One whose value is back is no stub.
    let (store, values) = open();
    let found = stub(store, &values, 7);
    bring_back(store, &values, &found).unwrap();
    assert!(!store.drop_stub(&found.stub().unwrap(), 1));
    assert!(store.peek(NS, &7u32.to_le_bytes(), 1).is_some());
}

#[test]
fn a_stub_without_a_value_is_swept() {
    let store: &Store = Box::leak(Box::new(Store::open(options()).unwrap()));
    let values = Values::default();
    // Values of the later half of the writes are kept: half of a disk was evicted.
    let last = Arc::new(AtomicU64::new(0));
    let from = last.clone();
    give_to(store, &values, RUN, move |_, place| place.number > from.load(Ordering::SeqCst));
    for n in 0..KEYS {
        let version = set(store, n, 3_000);
        if n == KEYS / 2 {
            last.store(version, Ordering::SeqCst);
        }
        values.lock().unwrap().clear();
    }
    // As many are made again: the sweep looks at all.
    for n in KEYS..KEYS * 2 {
        set(store, n, 3_000);
        values.lock().unwrap().clear();
        if n % 100 == 0 {
            store.sweep(1, 0);
        }
    }
    assert_eq!(count(store, KEYS / 2).1, 0);
    let newest = (KEYS / 2 + 1..KEYS).filter(|n| store.peek(NS, &n.to_le_bytes(), 1).is_some());
    assert_eq!(newest.count() as u32, KEYS / 2 - 1, "those with a value stay");
}

#[test]
fn dead_records_are_neither_announced_nor_given_space() {
    let store: &Store = Box::leak(Box::new(Store::open(options()).unwrap()));
    let announced = Arc::new(AtomicU64::new(0));
    let counts = announced.clone();
    let away = Away {
        ns: NS,
        least: 1024,
        run: RUN,
        announce: Box::new(move |_, _, _| {
            counts.fetch_add(1, Ordering::SeqCst);
            None
        }),
        take: Box::new(|_, _| panic!("nothing was announced")),
        withdraw: Box::new(|_, _, _| panic!("nothing was announced")),
        has: Box::new(|_, _| true),
    };
    assert!(store.put_away(away));
    // Each is written again at once: of what memory throws out, all but a few records are dead.
    for n in 0..KEYS * 2 {
        set(store, n % 100, 3_000);
    }
    let seen = announced.load(Ordering::SeqCst);
    assert!(seen < 500, "{seen} announced");
    assert_eq!(count(store, 100), (100, 0));
}

#[test]
fn stubs_take_no_more_than_half_of_the_ceiling_of_their_namespace() {
    let ceiling = 4 << 20;
    let share = Share { first: NS, last: NS, floor: 0, ceiling };
    let store = Store::open(Options { shares: vec![share], ..options() }).unwrap();
    let store: &Store = Box::leak(Box::new(store));
    let values = Values::default();
    give_to(store, &values, RUN, |_, _| true);
    for n in 0..200_000 {
        set(store, n, 1_024);
        values.lock().unwrap().clear();
    }
    let (there, stubs) = count(store, 200_000);
    // A stub has some 60 bytes here.
    assert!((20_000..36_000).contains(&stubs), "{stubs}");
    assert!(there - stubs > 1_200, "{} values in memory: a third of the ceiling", there - stubs);
}

#[cfg(not(miri))]
fn successor(store: &Store) -> &'static Store {
    let memory = store.memory().unwrap().try_clone_to_owned().unwrap();
    let image = store.give(1).unwrap();
    Box::leak(Box::new(Store::take_over(options(), memory, &image).unwrap()))
}

#[cfg(not(miri))]
#[test]
fn stubs_that_came_with_the_memory_are_found_by_a_receiver_alone() {
    let (store, values) = open();
    (0..KEYS).for_each(|n| _ = set(store, n, 3_000));
    let next = successor(store);
    give_to(next, &values, RUN + 1, |_, _| true);
    let (there, stubs) = count(next, KEYS);
    assert!(there > KEYS * 9 / 10 && stubs > KEYS / 2, "{there} {stubs}");
    let found = next.peek(NS, &1u32.to_le_bytes(), 1).unwrap();
    bring_back(next, &values, &found).unwrap();
    assert_eq!(next.peek(NS, &1u32.to_le_bytes(), 1).unwrap().head(), value(1, 3_000));
    next.predecessor_ended();

    // A process that has no receiver: whoever asks for a stub finds nothing, as if it were flushed.
    let third = successor(next);
    let (there, stubs) = count(third, KEYS);
    assert!(there > 1_000 && stubs == 0, "{there} {stubs}");
    let missing: Vec<u32> =
        (0..KEYS).filter(|n| third.peek(NS, &n.to_le_bytes(), 1).is_none()).collect();
    let put = Put { value: &[b"new"], ..Put::default() };
    for n in missing.iter().take(100) {
        let key = n.to_le_bytes();
        assert!(third.get(NS, &key, 1).is_none() && !third.delete(NS, &key, 1));
        assert_eq!(third.touch(NS, &key, None, 1), Err(PutError::NotFound));
        assert_eq!(third.put(NS, &key, put, If::Present, 1), Err(PutError::NotFound));
        third.put(NS, &key, put, If::Absent, 1).unwrap();
        assert_eq!(third.peek(NS, &key, 1).unwrap().head(), b"new");
    }
    let mut seen = 0;
    let mut cursor = Some(Cursor::START);
    while let Some(at) = cursor {
        cursor = third.scan(NS, at, 1_000, &mut |_, _| {
            seen += 1;
            Keep::Keep
        });
    }
    let there = count(third, KEYS).0;
    assert_eq!(seen, there, "walks see none either");
    third.predecessor_ended();

    // Keys were deleted and written there, so none of its stubs comes back to life.
    let fourth = successor(third);
    give_to(fourth, &values, RUN + 2, |_, _| true);
    let (still, stubs) = count(fourth, KEYS);
    assert!(still > 100 && still <= there && stubs == 0, "{still} of {there}, {stubs}");
    // It makes stubs of its own, which are seen.
    (KEYS..KEYS * 2).for_each(|n| _ = set(fourth, n, 3_000));
    let later = (KEYS..KEYS * 2).filter(|n| {
        fourth.peek(NS, &n.to_le_bytes(), 1).is_some_and(|entry| entry.elsewhere().is_some())
    });
    assert!(later.count() as u32 > KEYS / 2);
}

#[cfg(not(miri))]
#[test]
fn hidden_stubs_are_swept_and_a_flush_changes_nothing_for_them() {
    let (store, _values) = open();
    (0..KEYS).for_each(|n| _ = set(store, n, 3_000));
    let next = successor(store);
    let (there, _) = count(next, KEYS);
    next.predecessor_ended();
    (0..1_000).for_each(|_| _ = next.sweep(1, 1 << 20));
    assert_eq!(next.stats(NS).items, u64::from(there), "only what can be read is left");
    next.flush(NS, 1);
    assert_eq!(count(next, KEYS), (0, 0));
    set(next, 1, 3_000);
    assert_eq!(count(next, KEYS), (1, 0));
}

#[cfg(not(miri))]
#[test]
fn stubs_of_before_count_in_the_bound() {
    let (store, values) = open();
    let fill = |store: &Store, from: u32| {
        for n in from..from + 150_000 {
            set(store, n, 1_024);
            values.lock().unwrap().clear();
        }
    };
    fill(store, 0);
    let first = successor(store);
    give_to(first, &values, RUN + 1, |_, _| true);
    first.predecessor_ended();
    fill(first, 150_000);
    let (there, stubs) = count(first, 300_000);
    // As many as one process alone keeps; else values would have no memory.
    assert!(stubs < 140_000, "{stubs}");
    assert!(there - stubs > 5_000, "{} values: a third of the memory", there - stubs);
    // A store that was given has none, and none that it would count.
    successor(first);
    assert_eq!(first.stats(NS).items, 0);
}
