//! Instructions of the hot verbs, for callgrind: its counts do not depend on the load of the
//! machine. `cargo build --release -p larder-store --example cost`, then for each VERB of get,
//! miss, set, add, new, evict, incr, hinted `valgrind --tool=callgrind
//! --toggle-collect='*measured*' target/release/examples/cost VERB`, and divide the total by
//! 200,000.
//!
//! 100,000 entries of 16-byte keys and 100-byte values, 200,000 operations spread over them. `new`
//! stores 200,000 new keys while the index grows for them, `evict` does the same in a full store,
//! `add` stores half as many keys twice each. docs/decisions/0002-store.md has the figures.
#![allow(missing_docs, clippy::unwrap_used)]

use larder_store::{Hint, Namespace, Options, Put, Store};

const NS: Namespace = Namespace(1);
const ITEMS: u64 = 100_000;
const OPERATIONS: u64 = 200_000;
const BATCH: usize = 32;

fn key(n: u64) -> [u8; 16] {
    let mut key = *b"key:........0000";
    key[4..12].copy_from_slice(&n.to_le_bytes());
    key
}

fn keys(first: u64) -> Vec<[u8; 16]> {
    (0..OPERATIONS).map(|n| key(first + n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % ITEMS)).collect()
}

const PUT: Put<'static> = Put {
    value: &[&[7; 100]],
    flags: 0,
    expires: None,
    tags: &[],
    version: None,
    stale: false,
    claimed: false,
};

#[inline(never)]
fn measured_get(store: &Store, keys: &[[u8; 16]]) -> u64 {
    keys.iter().filter_map(|k| store.get(NS, k, 1000)).map(|e| e.len()).sum()
}

#[inline(never)]
fn measured_set(store: &Store, keys: &[[u8; 16]]) -> u64 {
    keys.iter().map(|k| store.set(NS, k, PUT, 1000).unwrap()).fold(0, u64::wrapping_add)
}

#[inline(never)]
fn measured_incr(store: &Store, keys: &[[u8; 16]]) -> u64 {
    keys.iter().map(|k| store.incr(NS, k, 1, 1000).unwrap().value).sum()
}

#[inline(never)]
fn measured_hinted(store: &Store, keys: &[[u8; 16]]) -> u64 {
    let mut sum = 0;
    for batch in keys.chunks_exact(BATCH) {
        let mut hints: [Hint; BATCH] = std::array::from_fn(|i| store.prefetch(NS, &batch[i]));
        hints.iter_mut().for_each(|h| store.prefetch_record(h));
        for (hint, key) in hints.into_iter().zip(batch) {
            sum += store.get_hinted(hint, NS, key, 1000).map_or(0, |e| e.len());
        }
    }
    sum
}

fn main() {
    let verb = std::env::args().nth(1).unwrap_or_default();
    let full = verb == "evict";
    let options = Options {
        budget: if full { 16 << 20 } else { 64 << 20 },
        max_value: 1 << 20,
        seed: 42,
        threads: 2,
        ..Options::default()
    };
    let store = Store::open(options).unwrap();
    let first = if verb == "incr" { Put { value: &[b"1000"], ..PUT } } else { PUT };
    for n in 0..if full { 3 * ITEMS } else { ITEMS } {
        store.set(NS, &key(n), first, 1000).unwrap();
    }
    let (there, absent) = (keys(0), keys(1 << 40));
    // The first reads of an entry change its word; later reads are measured.
    (0..4).for_each(|_| there.iter().for_each(|k| drop(store.get(NS, k, 1000))));
    let new: Vec<[u8; 16]> = (0..OPERATIONS).map(|n| key((1 << 41) + n)).collect();
    let sum = match verb.as_str() {
        "get" => measured_get(&store, &there),
        "miss" => measured_get(&store, &absent),
        "set" => measured_set(&store, &there),
        "add" => measured_set(&store, &absent),
        "new" | "evict" => measured_set(&store, &new),
        "incr" => measured_incr(&store, &there),
        "hinted" => measured_hinted(&store, &there),
        _ => 0,
    };
    println!("{verb}: {sum}");
}
