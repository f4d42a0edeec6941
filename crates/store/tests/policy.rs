//! The policy beats an exact LRU that has no overhead at all, on stable and on drifting popularity.
//! The traces are those of the bench (`benches/store/trace.rs`) at a quarter of their size.
#![allow(missing_docs, clippy::unwrap_used)]

use larder_store::*;
use std::collections::{BTreeMap, HashMap};

const BUDGET: usize = 16 << 20;
const KEYS: u64 = 250_000;
const REQUESTS: usize = 1_000_000;
const NS: Namespace = Namespace(0);

/// Splitmix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn unit(r: u64) -> f64 {
    (r >> 11) as f64 / (1u64 << 53) as f64
}

/// Bytes of an object: lognormal, median 300, 16 to 4096.
fn size(id: u64) -> usize {
    let mut state = id.wrapping_mul(77);
    let (a, b) = (unit(random(&mut state)), unit(random(&mut state)));
    let z = (-2.0 * (a + 1e-18).ln()).sqrt() * (std::f64::consts::TAU * b).cos();
    (300.0 * z.exp()).clamp(16.0, 4096.0) as usize
}

/// Zipf 0.9; with `drift` every key takes another key's place now and then.
fn trace(drift: bool) -> Vec<u64> {
    let mut total = 0.0;
    let weights = (1..=KEYS).map(|i| (i as f64).powf(-0.9));
    let sums: Vec<f64> = weights
        .map(|w| {
            total += w;
            total
        })
        .collect();
    let mut state = 11;
    let pick = |i: usize| {
        let u = unit(random(&mut state)) * total;
        let rank = sums.partition_point(|s| *s < u) as u64;
        let shift = if drift { i as u64 / 62_500 * (KEYS / 16 + 1) } else { 0 };
        (rank * 2_654_435_761 + shift) % KEYS
    };
    (0..REQUESTS).map(pick).collect()
}

/// Hits after the first quarter.
fn hits(trace: &[u64], mut request: impl FnMut(u64) -> bool) -> usize {
    trace.iter().enumerate().filter(|(i, id)| request(**id) && *i >= REQUESTS / 4).count()
}

fn larder(trace: &[u64], policy: Policy) -> usize {
    let store = Store::open(Options {
        budget: BUDGET,
        max_value: 1 << 20,
        policy,
        seed: 5,
        threads: 1,
        ..Options::default()
    })
    .unwrap();
    let bytes = [1; 4096];
    hits(trace, |id| {
        let key = format!("{id:016}");
        let hit = store.get(NS, key.as_bytes(), 1000).is_some();
        if !hit {
            store
                .set(
                    NS,
                    key.as_bytes(),
                    Put { value: &[&bytes[..size(id)]], ..Put::default() },
                    1000,
                )
                .unwrap();
        }
        hit
    })
}

/// Exact, of key and value bytes only.
fn lru(trace: &[u64]) -> usize {
    let (mut last, mut order, mut used, mut clock) = (HashMap::new(), BTreeMap::new(), 0, 0u64);
    hits(trace, |id| {
        clock += 1;
        let hit = last.insert(id, clock).map(|old| order.remove(&old)).is_some();
        order.insert(clock, id);
        used += if hit { 0 } else { size(id) + 16 };
        while used > BUDGET {
            let (_, victim) = order.pop_first().unwrap();
            last.remove(&victim);
            used -= size(victim) + 16;
        }
        hit
    })
}

#[test]
fn popularity_that_stays() {
    let trace = trace(false);
    let (ours, fifo, lru) =
        (larder(&trace, Policy::S3Fifo), larder(&trace, Policy::Fifo), lru(&trace));
    println!("{ours} against LRU {lru}, FIFO {fifo}");
    assert!(ours > lru + lru / 25 && lru > fifo, "{ours} against LRU {lru}, FIFO {fifo}");
}

#[test]
fn popularity_that_drifts() {
    let trace = trace(true);
    let (ours, lru) = (larder(&trace, Policy::S3Fifo), lru(&trace));
    println!("{ours} against LRU {lru}");
    assert!(ours > lru, "{ours} against LRU {lru}");
}
