//! Walks while entries move.
#![allow(missing_docs, clippy::unwrap_used)]

use larder_store::*;

const NS: Namespace = Namespace(0);
const WANTED: &[u8] = b"wanted";

fn open() -> Store {
    Store::open(Options { budget: 16 << 20, seed: 7, ..Options::default() }).unwrap()
}

/// Writes three times as much as there is memory, while one key is asked for: evictions move it to
/// the main queue.
fn churn(store: &Store) {
    let value = [7; 4_000];
    for n in 0..12_000u32 {
        store.set(NS, &n.to_le_bytes(), Put { value: &[&value], ..Put::default() }, 1).unwrap();
        if n % 64 == 0 {
            assert!(store.get(NS, WANTED, 1).is_some(), "it is evicted after {n}");
        }
    }
}

/// Walks over all entries, and does this to the wanted one after it was moved.
fn walk(store: &Store, change: impl Fn(&Store), keep: Keep) {
    let (mut cursor, mut seen) = (Some(Cursor::START), 0);
    while let Some(at) = cursor {
        cursor = store.scan(NS, at, 100, &mut |key, _| {
            if key != WANTED || seen > 0 {
                return Keep::Keep;
            }
            seen += 1;
            change(store);
            keep
        });
    }
    assert_eq!(seen, 1);
}

#[test]
fn a_walk_marks_an_entry_that_an_eviction_moves_meanwhile() {
    let store = open();
    store.set(NS, WANTED, Put { value: &[b"v"], ..Put::default() }, 1).unwrap();
    walk(&store, churn, Keep::Stale(2));
    assert!(store.peek(NS, WANTED, 2).unwrap().stale());
}

#[test]
fn a_walk_deletes_an_entry_that_an_eviction_moves_meanwhile() {
    let store = open();
    store.set(NS, WANTED, Put { value: &[b"v"], ..Put::default() }, 1).unwrap();
    walk(&store, churn, Keep::Delete);
    assert!(store.peek(NS, WANTED, 2).is_none(), "the copy that was moved is still there");
    assert_eq!(store.stats(NS).deleted, 1);
}

#[test]
fn a_walk_leaves_entries_that_are_written_meanwhile() {
    let store = open();
    store.set(NS, WANTED, Put { value: &[b"old"], ..Put::default() }, 1).unwrap();
    let write = |store: &Store| {
        store.set(NS, WANTED, Put { value: &[b"new"], ..Put::default() }, 1).unwrap();
    };
    walk(&store, write, Keep::Delete);
    assert_eq!(store.peek(NS, WANTED, 2).unwrap().head(), b"new");
}
