//! The process grows by the budget and five percent at most, whatever is stored. Alone in its
//! process.
#![allow(missing_docs, clippy::unwrap_used)]

use larder_store::*;

const BUDGET: usize = 64 << 20;

/// Resident bytes of this process.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Splitmix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 29)
}

#[test]
fn resident_memory_stays_within_the_budget() {
    let bytes = vec![7u8; 4 << 20];
    let before = resident();
    let store = Store::open(Options {
        budget: BUDGET,
        max_value: 8 << 20,
        policy: Policy::S3Fifo,
        seed: 5,
        threads: 8,
        ..Options::default()
    })
    .unwrap();
    let mut state = 1;
    let mut most = 0;
    // Small entries until full, then sizes mixed, tags, fills, reads: five times the budget.
    for n in 0..300_000u64 {
        let r = random(&mut state);
        let ns = Namespace((n % 3) as u8);
        let key = (r % 200_000).to_be_bytes();
        let len = match n {
            0..200_000 => 100,
            _ if n % 1000 == 0 => (r >> 20) as usize % bytes.len(),
            _ => (r >> 20) as usize % 5000,
        };
        let tag = (r % 5000).to_be_bytes();
        let tags: &[&[u8]] = &[&tag];
        let put = Put {
            value: &[&bytes[..len]],
            flags: 1,
            expires: Some(n + 100_000),
            tags: &tags[..(n % 2) as usize],
            ..Put::default()
        };
        store.set(ns, &key, put, n).unwrap();
        store.get(ns, &(random(&mut state) % 200_000).to_be_bytes(), n);
        if n % 5000 == 0 {
            let mut fill = store.fill(ns, b"fill", FillOptions::default(), n).unwrap();
            fill.write(&bytes[..len]).unwrap();
            store.sweep(n, 1 << 20);
            most = most.max(resident());
        }
    }
    most = most.max(resident()) - before;
    println!(
        "grew by {most} bytes, {:.3} of the budget; {:?}",
        most as f64 / BUDGET as f64,
        store.totals()
    );
    assert!(most <= BUDGET + BUDGET / 20, "{most}");
    assert!(most >= BUDGET / 2, "the store was really full: {most}");
}
