//! Floors and ceilings for groups of namespaces, and behaviour without any.
#![allow(missing_docs, clippy::unwrap_used)]

use larder_store::*;
use std::sync::atomic::{AtomicBool, Ordering};

const PAGES: Namespace = Namespace(0);
const OBJECTS: Namespace = Namespace(1);
const REDIS: Namespace = Namespace(5);
const MIB: usize = 1 << 20;

fn share(first: u8, last: u8, floor: usize, ceiling: usize) -> Share {
    Share { first: Namespace(first), last: Namespace(last), floor, ceiling }
}

fn open(budget: usize, shares: &[Share]) -> Store {
    Store::open(Options {
        budget,
        shares: shares.to_vec(),
        seed: 11,
        threads: 2,
        ..Options::default()
    })
    .unwrap()
}

fn put(s: &Store, ns: Namespace, n: u64, len: usize) -> Result<u64, PutError> {
    s.set(ns, &n.to_le_bytes(), Put { value: &[&vec![n as u8; len]], ..Put::default() }, 0)
}

fn bytes(s: &Store, ns: Namespace) -> usize {
    s.stats(ns).bytes as usize
}

/// Splitmix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[test]
fn a_ceiling_holds_and_takes_nothing_from_others() {
    let s = open(32 * MIB, &[share(1, 1, 0, 4 * MIB)]);
    let most = 4 * MIB + s.share_slack() as usize;
    assert!(most < 7 * MIB, "{most}");
    (0..10_000).for_each(|n| {
        put(&s, PAGES, n, 1000).unwrap();
    });
    for n in 0..60_000 {
        put(&s, OBJECTS, n, 200 + n as usize % 1500).unwrap();
        assert!(bytes(&s, OBJECTS) <= most, "{} after {n}", bytes(&s, OBJECTS));
        // Part of them is hot: even entries that are read all the time must be evicted.
        (n.saturating_sub(3000)..n)
            .step_by(100)
            .for_each(|k| drop(s.get(OBJECTS, &k.to_le_bytes(), 0)));
    }
    assert!(
        bytes(&s, OBJECTS) > 2 * MIB && s.stats(OBJECTS).evictions > 50_000,
        "{:?}",
        s.stats(OBJECTS)
    );
    assert_eq!((s.stats(PAGES).items, s.stats(PAGES).evictions), (10_000, 0));
    assert!(s.totals().free > 0);
}

#[test]
fn a_ceiling_holds_for_large_values() {
    let s = open(64 * MIB, &[share(0, 0, 0, 10 * MIB)]);
    let most = 10 * MIB + s.share_slack() as usize;
    for n in 0..40 {
        put(&s, PAGES, n, 3 * MIB + 1234 * n as usize).unwrap();
        assert!(bytes(&s, PAGES) <= most, "{}", bytes(&s, PAGES));
        assert!(
            s.get(PAGES, &n.to_le_bytes(), 0).is_some(),
            "{n}: the last one is there, {:?} {:?}",
            s.stats(PAGES),
            s.totals()
        );
    }
    assert_eq!(put(&s, PAGES, 99, 11 * MIB), Err(PutError::TooLarge));
    put(&s, OBJECTS, 99, 11 * MIB).unwrap();
}

#[test]
fn a_floor_holds_against_a_flood() {
    let s = open(32 * MIB, &[share(2, 17, 10 * MIB, usize::MAX)]);
    (0..20_000).for_each(|n| {
        put(&s, REDIS, n, 600).unwrap();
    });
    assert!(bytes(&s, REDIS) > 11 * MIB);
    for n in 0..100_000 {
        put(&s, OBJECTS, n, 1000).unwrap();
    }
    // Bytes of records: the key and value here are 608 of 616.
    let kept = s.stats(REDIS).items as usize * 616;
    assert!((10 * MIB..12 * MIB).contains(&kept), "{kept}");
    assert!(bytes(&s, OBJECTS) > 10 * MIB, "the rest is for the others");
}

#[test]
fn a_group_below_its_floor_grows_to_it() {
    let s = open(32 * MIB, &[share(2, 17, 12 * MIB, usize::MAX)]);
    let mut redis = 0;
    for n in 0..300_000 {
        put(&s, OBJECTS, n, 500).unwrap();
        if n > 100_000 && n % 8 == 0 {
            redis += 1;
            put(&s, REDIS, redis, 1000).unwrap();
        }
    }
    // It was offered 25 MB; as one of equals it would have about a fifth of the memory.
    assert!(bytes(&s, REDIS) > 11 * MIB, "{}", bytes(&s, REDIS));
}

#[test]
fn a_floor_of_nearly_everything_leaves_the_rest_and_ends() {
    let s = open(16 * MIB, &[share(0, 0, 15 * MIB, usize::MAX)]);
    let mut n = 0;
    while s.stats(PAGES).evictions == 0 {
        put(&s, PAGES, n, 900).unwrap();
        n += 1;
    }
    let before = s.stats(PAGES);
    let stored = (0..20_000).filter(|n| put(&s, OBJECTS, *n, 900).is_ok()).count();
    // The group holds less than its floor (index and reserve take the rest): no other group may
    // take any of it.
    assert_eq!(s.stats(PAGES), before);
    assert!(stored < 20_000 || s.stats(OBJECTS).evictions > 0);
    // Its owner continues to write.
    (n..n + 20_000).for_each(|n| {
        put(&s, PAGES, n, 900).unwrap();
    });
    assert!(s.stats(PAGES).evictions > before.evictions);
}

#[test]
fn limits_on_all_sides() {
    let shares = [
        share(0, 0, 5 * MIB, 8 * MIB),
        share(1, 1, 5 * MIB, 8 * MIB),
        share(2, 17, 5 * MIB, 8 * MIB),
    ];
    let s = open(24 * MIB, &shares);
    let slack = s.share_slack() as usize;
    let mut state = 1;
    for _ in 0..150_000 {
        let r = random(&mut state);
        let ns = Namespace([0, 1, 5, 9, 25, 25][r as usize % 6]);
        put(&s, ns, r >> 40, (r >> 20) as usize % 2000).unwrap();
        s.get(ns, &(random(&mut state) >> 40).to_le_bytes(), 0);
    }
    for group in [&[PAGES][..], &[OBJECTS], &[REDIS, Namespace(9)]] {
        let held: usize = group.iter().map(|ns| bytes(&s, *ns)).sum();
        assert!((4 * MIB..8 * MIB + slack).contains(&held), "{group:?} {held}");
    }
    assert!(bytes(&s, Namespace(25)) > MIB, "{} {:?}", bytes(&s, Namespace(25)), s.totals());
}

#[test]
fn threads_respect_the_limits() {
    let s = open(24 * MIB, &[share(0, 0, 8 * MIB, usize::MAX), share(1, 1, 0, 6 * MIB)]);
    let ceiling = 6 * MIB + s.share_slack() as usize + MIB;
    (0..12_000).for_each(|n| {
        put(&s, PAGES, n, 1000).unwrap();
    });
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4u64)
            .map(|t| {
                let s = &s;
                scope.spawn(move || {
                    let mut state = t;
                    for _ in 0..25_000 {
                        let r = random(&mut state);
                        let ns = if t % 2 == 0 { OBJECTS } else { REDIS };
                        put(s, ns, r % 30_000, (r >> 20) as usize % 1500).unwrap();
                        s.get(ns, &(random(&mut state) % 30_000).to_le_bytes(), 0);
                        if r.is_multiple_of(64) {
                            assert!(bytes(s, OBJECTS) <= ceiling, "{}", bytes(s, OBJECTS));
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                s.sweep(1, MIB);
            }
        });
        let ended: Vec<_> = writers.into_iter().map(|t| t.join()).collect();
        done.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|e| e.unwrap());
    });
    let kept = s.stats(PAGES).items as usize * 1016;
    assert!(kept >= 8 * MIB, "{kept}");
    [PAGES, OBJECTS, REDIS].into_iter().for_each(|ns| s.flush(ns, 1));
    (0..100).for_each(|i| {
        s.sweep(2000 * i, 64 * MIB);
    });
    for ns in [PAGES, OBJECTS, REDIS] {
        assert_eq!((s.stats(ns).items, s.stats(ns).bytes), (0, 0));
    }
}

#[test]
fn equals_get_equal_parts_without_any_limit() {
    let s = open(16 * MIB, &[]);
    let mut state = 3;
    for _ in 0..400_000 {
        let r = random(&mut state);
        let ns = Namespace((r % 2) as u8);
        // Popularity falls with the cube of the rank, for both alike.
        let unit = (random(&mut state) >> 40) as f64 / (1u64 << 24) as f64;
        let key = (unit * unit * unit * 60_000.0) as u64;
        if s.get(ns, &key.to_le_bytes(), 0).is_none() {
            put(&s, ns, key, 600).unwrap();
        }
    }
    let (a, b) = (bytes(&s, PAGES) as f64, bytes(&s, OBJECTS) as f64);
    assert!((0.9..1.1).contains(&(a / b)), "{a} {b}");
    let rate = |ns| s.stats(ns).hits as f64 / (s.stats(ns).hits + s.stats(ns).misses) as f64;
    assert!((rate(PAGES) - rate(OBJECTS)).abs() < 0.01, "{} {}", rate(PAGES), rate(OBJECTS));
}

/// The same with a share that limits no group: groups compete as if they were one.
#[test]
fn a_scan_does_not_wipe_out_the_hot_set_of_another() {
    for shares in [&[][..], &[share(1, 1, 0, usize::MAX)]] {
        let s = open(16 * MIB, shares);
        // 6000 pages of 600 bytes that were read a few times before.
        for n in 0..60_000u64 {
            let key = n % 6000;
            if s.get(PAGES, &key.to_le_bytes(), 0).is_none() {
                put(&s, PAGES, key, 600).unwrap();
            }
            put(&s, Namespace(3), n, 600).unwrap();
        }
        let mut hits = 0;
        let mut asked = 0;
        for n in 0..400_000u64 {
            put(&s, OBJECTS, n, 600).unwrap();
            if n % 8 == 0 {
                // Each is requested once in 48,000 writes of the scan: twice the memory.
                let key = (n / 8).wrapping_mul(2_654_435_761) % 6000;
                let found = s.get(PAGES, &key.to_le_bytes(), 0).is_some();
                if !found {
                    put(&s, PAGES, key, 600).unwrap();
                }
                asked += 1;
                hits += u64::from(found);
            }
        }
        assert!(hits * 100 > asked * 90, "{hits} of {asked} with {shares:?}");
    }
}
