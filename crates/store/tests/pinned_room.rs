//! Large values held by stalled readers leave memory for others.

#![allow(clippy::unwrap_used)]

use larder_store::{FillOptions, Namespace, Options, Policy, Store};

const NS: Namespace = Namespace(0);

fn store() -> Store {
    Store::open(Options {
        budget: 16 << 20,
        max_value: 1 << 30,
        policy: Policy::S3Fifo,
        seed: 7,
        threads: 3,
        ..Options::default()
    })
    .unwrap()
}

fn fill(store: &Store, key: &[u8], len: usize) -> Result<u64, larder_store::PutError> {
    let options = FillOptions {
        size_hint: Some(len as u64),
        contiguous: 300.min(len),
        ..FillOptions::default()
    };
    let mut fill = store.fill(NS, key, options, 1)?;
    for _ in 0..len / 50_000 {
        fill.write(&[b'q'; 50_000])?;
    }
    fill.write(&vec![b'q'; len % 50_000])?;
    fill.commit(None, 1)
}

#[test]
fn half_of_the_memory_pinned_leaves_the_other_half_usable() {
    let store = store();
    let mut pinned = Vec::new();
    for n in 0..4u8 {
        fill(&store, &[b'l', n], 3_500_000).unwrap();
        let entry = store.get(NS, &[b'l', n], 1).unwrap();
        if n < 2 {
            pinned.push(entry);
        }
    }
    for n in 0..10u8 {
        fill(&store, &[b'x', n], 3_500_000)
            .unwrap_or_else(|e| panic!("large {n}: {e} {:?}", store.totals()));
    }
    for n in 0..100u8 {
        fill(&store, &[b's', n], 300).unwrap_or_else(|e| panic!("{n}: {e} {:?}", store.totals()));
        assert!(store.get(NS, &[b's', n], 1).is_some(), "{n}");
    }
    drop(pinned);
}
