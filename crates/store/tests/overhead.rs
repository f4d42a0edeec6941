//! A million small entries in their own size plus 24 bytes each, everything included; all are found
//! again.
#![allow(missing_docs, clippy::unwrap_used)]

use larder_store::*;

const ITEMS: u32 = 1_000_000;
const NS: Namespace = Namespace(0);

fn key(n: u32) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    key[8..12].copy_from_slice(&n.to_be_bytes());
    key
}

fn value(n: u32) -> [u8; 100] {
    std::array::from_fn(|i| (n >> (8 * (i % 4))) as u8 ^ i as u8)
}

/// Stores all; returns the budget in bytes per entry beyond key and value.
fn fill(overhead: usize) -> Store {
    let budget = ITEMS as usize * (116 + overhead);
    let options = Options {
        budget,
        max_value: 1 << 20,
        policy: Policy::S3Fifo,
        seed: 99,
        threads: 2,
        ..Options::default()
    };
    let store = Store::open(options).unwrap();
    for n in 0..ITEMS {
        store.set(NS, &key(n), Put { value: &[&value(n)], ..Put::default() }, 1000).unwrap();
    }
    store
}

#[test]
fn a_million_entries_cost_24_bytes_each_at_most() {
    let store = fill(24);
    assert_eq!(store.stats(NS).evictions, 0, "{:?}", store.totals());
    for n in 0..ITEMS {
        assert_eq!(store.get(NS, &key(n), 1000).expect("all are found again").head(), value(n));
    }
    let t = store.totals();
    // Without the segments still free: the real size of the entries.
    let used = t.bookkeeping + (t.segments - t.free) * t.segment;
    let each = used as f64 / f64::from(ITEMS) - 116.0;
    println!("{each:.2} bytes of overhead per entry ({t:?})");
    assert!(each <= 24.0, "{each}");
    assert_eq!(store.stats(NS).items, u64::from(ITEMS));
}

#[test]
fn an_index_that_can_grow_loses_nothing() {
    // With this seed, entries were once dropped because the index examined too few buckets for a
    // free slot.
    let options = Options {
        budget: 256 << 20,
        max_value: 1 << 20,
        policy: Policy::S3Fifo,
        seed: 42,
        threads: 64,
        ..Options::default()
    };
    let store = Store::open(options).unwrap();
    for n in 0..ITEMS {
        let key = format!("k0000000{n:08x}");
        store.set(NS, key.as_bytes(), Put { value: &[&value(n)], ..Put::default() }, 1000).unwrap();
    }
    assert_eq!((store.stats(NS).items, store.stats(NS).evictions), (u64::from(ITEMS), 0));
}
