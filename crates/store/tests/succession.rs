//! The memory given from one store to another that maps the same memory, as two processes do:
//! every entry is there, with all it has; what the giver still reads stays; threads that write
//! meanwhile lose nothing that was answered before.
#![cfg(not(miri))]
#![allow(missing_docs, clippy::unwrap_used)]

use larder_store::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const A: Namespace = Namespace(0);
const B: Namespace = Namespace(3);

fn options() -> Options {
    Options { budget: 32 << 20, seed: 77, shared: true, ..Options::default() }
}

fn succeed(old: &Store, now: Ms) -> Store {
    let image = old.give(now).unwrap();
    let memory = old.memory().unwrap().try_clone_to_owned().unwrap();
    Store::take_over(options(), memory, &image).unwrap()
}

fn value(n: u64, len: usize) -> Vec<u8> {
    (0..len).map(|i| (n as usize * 31 + i * 7) as u8).collect()
}

fn read(entry: &Entry<'_>) -> Vec<u8> {
    entry.chunks().flatten().copied().collect()
}

/// Small ones, some of several segments, with tags and expiries.
fn fill(store: &Store, now: Ms) {
    for n in 0..20_000u64 {
        let len = if n % 4000 == 7 { 900_000 } else { 20 + n as usize % 300 };
        let (key, value) = (format!("key{n}"), value(n, len));
        let put = Put {
            value: &[&value],
            flags: n as u32,
            expires: n.is_multiple_of(3).then_some(now + 1000 + n),
            tags: if n % 5 == 0 { &[b"five"] } else { &[] },
            ..Put::default()
        };
        let ns = if n.is_multiple_of(2) { A } else { B };
        store.put(ns, key.as_bytes(), put, If::Always, now).unwrap();
    }
}

#[test]
fn every_entry_comes_with_all_it_has() {
    let (now, old) = (1_000_000, Store::open(options()).unwrap());
    fill(&old, now);
    old.get(A, b"key10", now).unwrap();
    let before = [A, B].map(|ns| old.stats(ns));
    let versions: Vec<_> = (0..20_000)
        .map(|n: u64| {
            let ns = if n.is_multiple_of(2) { A } else { B };
            old.peek(ns, format!("key{n}").as_bytes(), now).unwrap().version()
        })
        .collect();
    let new = succeed(&old, now);
    for (n, version) in versions.iter().enumerate() {
        let n = n as u64;
        let ns = if n.is_multiple_of(2) { A } else { B };
        let entry = new.peek(ns, format!("key{n}").as_bytes(), now).unwrap();
        let len = if n % 4000 == 7 { 900_000 } else { 20 + n as usize % 300 };
        assert_eq!(read(&entry), value(n, len), "{n}");
        assert_eq!(entry.flags(), n as u32);
        assert_eq!(entry.expires(), n.is_multiple_of(3).then_some(now + 1000 + n));
        assert_eq!(entry.version(), *version);
    }
    assert_eq!([A, B].map(|ns| new.stats(ns)), before);
    assert_eq!(old.stats(A).items, 0);
    assert!(old.get(A, b"key10", now).is_none(), "the giver has nothing any more");
    assert_eq!(new.purge_tag(A, b"five", false, now), 2000);
    assert!(new.sweep(now + 500_000, 1 << 30) > 0);
    assert_eq!(old.give(now), Err(GiveError::Given));
    assert_eq!(new.give(now), Err(GiveError::Predecessor));
    drop(old);
    let limbo = new.totals().free;
    new.predecessor_ended();
    assert!(new.totals().free > limbo, "what the giver kept comes back");
    // And on to the next.
    let third = succeed(&new, now);
    assert!(third.get(B, b"key10001", now).is_some());
}

#[test]
fn what_the_giver_still_reads_and_fills_stays() {
    let (now, old) = (1_000_000, Store::open(options()).unwrap());
    fill(&old, now);
    let pinned: Vec<_> = (0..20)
        .map(|n| (n, old.get(A, format!("key{}", n * 1000 + 8).as_bytes(), now).unwrap()))
        .collect();
    let large = old.get(B, b"key4007", now).unwrap();
    let mut begun = old.fill(A, b"begun", FillOptions::default(), now).unwrap();
    begun.write(&value(5, 700_000)).unwrap();
    let mut whole = old.fill(A, b"whole", FillOptions::default(), now).unwrap();
    whole.write(&value(6, 100)).unwrap();
    let reader = begun.reader();
    let new = succeed(&old, now);
    // The successor writes all of its memory several times.
    for n in 0..200_000u64 {
        let put = [&[0xee; 700][..]];
        let put = Put { value: &put, ..Put::default() };
        new.put(A, format!("new{n}").as_bytes(), put, If::Always, now + n).unwrap();
    }
    for (n, entry) in &pinned {
        let n = n * 1000 + 8;
        assert_eq!(read(entry), value(n, 20 + n as usize % 300), "{n}");
    }
    assert_eq!(read(&large), value(4007, 900_000));
    begun.write(&value(7, 500_000)).unwrap();
    assert_eq!(reader.written(), 1_200_000);
    let mut seen = Vec::new();
    while seen.len() < 1_200_000 {
        seen.extend_from_slice(reader.chunk_at(seen.len() as u64));
    }
    assert_eq!(seen[..700_000], value(5, 700_000));
    assert_eq!(seen[700_000..], value(7, 500_000));
    begun.commit(None, now).unwrap();
    whole.commit(None, now).unwrap();
    assert_eq!(read(&old.get(A, b"whole", now).unwrap()), value(6, 100));
    assert!(new.get(A, b"whole", now).is_none());
    drop((pinned, large, reader));
    new.predecessor_ended();
    for n in 0..50_000u64 {
        let put = [&[0xdd; 700][..]];
        let put = Put { value: &put, ..Put::default() };
        new.put(A, format!("more{n}").as_bytes(), put, If::Always, now + n).unwrap();
    }
}

#[test]
fn threads_that_write_meanwhile_lose_nothing() {
    let now = 1_000_000;
    for round in 0..20u64 {
        let old = Store::open(Options { threads: 4, ..options() }).unwrap();
        let (stop, sum) = (AtomicBool::new(false), AtomicU64::new(0));
        let (written, new) = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3u64)
                .map(|thread| {
                    let (old, stop, sum) = (&old, &stop, &sum);
                    scope.spawn(move || {
                        let mut last = HashMap::new();
                        for n in 0.. {
                            if stop.load(Ordering::SeqCst) {
                                break;
                            }
                            let key = format!("{thread}:{}", n % 500);
                            let bytes = value(n, 50 + (n as usize * 131) % 9000);
                            let put = [&bytes[..]];
                            let put = Put { value: &put, ..Put::default() };
                            // One that was written before the gift, by all means.
                            let before = old.may_give().is_ok();
                            let stored = old.put(A, key.as_bytes(), put, If::Always, now);
                            if let Some(entry) = old.get(A, key.as_bytes(), now) {
                                assert_eq!(read(&entry), bytes);
                            }
                            if before && stored.is_ok() && old.may_give().is_ok() {
                                last.insert(key, bytes);
                            } else {
                                last.remove(&key);
                            }
                            sum.fetch_add(1, Ordering::SeqCst);
                        }
                        last
                    })
                })
                .collect();
            while sum.load(Ordering::SeqCst) < 200 + round * 100 {
                std::hint::spin_loop();
            }
            let image = loop {
                match old.give(now) {
                    Ok(image) => break image,
                    Err(error) => assert_eq!(error, GiveError::Busy),
                }
            };
            let memory = old.memory().unwrap().try_clone_to_owned().unwrap();
            let new = Store::take_over(Options { threads: 4, ..options() }, memory, &image);
            let more = sum.load(Ordering::SeqCst) + 500;
            while sum.load(Ordering::SeqCst) < more {
                std::hint::spin_loop();
            }
            stop.store(true, Ordering::SeqCst);
            let written: Vec<_> =
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
            (written, new.unwrap())
        });
        for (key, bytes) in written {
            let entry = new.get(A, key.as_bytes(), now).unwrap_or_else(|| panic!("{key}"));
            assert_eq!(read(&entry), bytes, "{key}");
        }
    }
}

#[test]
fn damage_and_other_options_are_refused() {
    let (now, old) = (1_000_000, Store::open(options()).unwrap());
    fill(&old, now);
    assert_eq!(Store::open(Options::default()).unwrap().give(now), Err(GiveError::Private));
    let image = old.give(now).unwrap();
    let memory = || old.memory().unwrap().try_clone_to_owned().unwrap();
    let refused = |o, image: &[u8]| Store::take_over(o, memory(), image).is_err();
    for end in [0, 7, 8, 100, image.len() / 2, image.len() - 1] {
        assert!(refused(options(), &image[..end]), "{end}");
    }
    let mut other = image.clone();
    other[0] ^= 1;
    assert!(refused(options(), &other));
    assert!(refused(Options { budget: 64 << 20, ..options() }, &image));
    assert!(refused(Options { evict: false, ..options() }, &image));
    let share = Share { first: A, last: A, floor: 1 << 20, ceiling: usize::MAX };
    assert!(refused(Options { shares: vec![share], ..options() }, &image));
    assert!(!refused(options(), &image));
}

/// A snapshot as a file would have it.
fn written(store: &Store, now: Ms, segments: usize) -> (Vec<u8>, HashMap<u32, Vec<u8>>) {
    let snapshot = store.snapshot(now).unwrap();
    let mut bytes = Vec::new();
    let copied = snapshot.segments.iter().take(segments).map(|segment| {
        snapshot.copy(*segment, &mut bytes);
        (*segment, bytes.clone())
    });
    let copied = copied.collect();
    (snapshot.image, copied)
}

fn restored(image: &[u8], copied: &HashMap<u32, Vec<u8>>) -> Result<Store, OpenError> {
    Store::restore(options(), image, &mut |segment, into| match copied.get(&segment) {
        Some(bytes) => {
            into.copy_from_slice(bytes);
            true
        }
        None => false,
    })
}

#[test]
fn a_snapshot_brings_everything_back() {
    for shared in [true, false] {
        let (now, old) = (1_000_000, Store::open(Options { shared, ..options() }).unwrap());
        fill(&old, now);
        let before = [A, B].map(|ns| old.stats(ns));
        let (image, copied) = written(&old, now, usize::MAX);
        drop(old);
        let new = restored(&image, &copied).unwrap();
        for n in 0..20_000u64 {
            let ns = if n.is_multiple_of(2) { A } else { B };
            let entry = new.peek(ns, format!("key{n}").as_bytes(), now).unwrap();
            let len = if n % 4000 == 7 { 900_000 } else { 20 + n as usize % 300 };
            assert_eq!(read(&entry), value(n, len), "{n}");
        }
        assert_eq!([A, B].map(|ns| new.stats(ns)), before);
        assert_eq!(new.purge_tag(A, b"five", false, now), 2000);
        fill(&new, now);
        assert!(new.snapshot(now).is_ok(), "and so on");
    }
}

#[test]
fn what_was_not_written_is_missing_and_the_rest_is_right() {
    for segments in [5, 10, 20, 30, 35, 40, 45] {
        let (now, old) = (1_000_000, Store::open(options()).unwrap());
        fill(&old, now);
        let (image, copied) = written(&old, now, segments);
        drop(old);
        let Ok(new) = restored(&image, &copied) else {
            assert!(segments <= 5, "the index is first");
            continue;
        };
        let (mut items, mut tagged) = ([0, 0], 0);
        for n in 0..20_000u64 {
            let at = n as usize % 2;
            let found = new.peek([A, B][at], format!("key{n}").as_bytes(), now);
            let Some(entry) = found else { continue };
            let len = if n % 4000 == 7 { 900_000 } else { 20 + n as usize % 300 };
            assert_eq!(read(&entry), value(n, len), "{n} of {segments}");
            items[at] += 1;
            tagged += u64::from(n % 10 == 0);
        }
        assert_eq!([A, B].map(|ns| new.stats(ns).items), items);
        assert_eq!(new.purge_tag(A, b"five", false, now), tagged);
        // It takes as much as any.
        fill(&new, now);
        new.sweep(now + 500_000, 1 << 30);
        fill(&new, now + 500_000);
        assert!(new.get(A, b"key19998", now + 500_000).is_some());
    }
}
