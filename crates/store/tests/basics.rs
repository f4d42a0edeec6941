//! Every verb once, on a small store.
#![allow(missing_docs, clippy::unwrap_used)]

use larder_store::*;

const NS: Namespace = Namespace(1);

fn open(budget: usize) -> Store {
    Store::open(Options {
        budget,
        max_value: 1 << 30,
        policy: Policy::S3Fifo,
        seed: 7,
        threads: 2,
        ..Options::default()
    })
    .unwrap()
}

fn put<'a>(value: &'a [&'a [u8]]) -> Put<'a> {
    Put { value, ..Put::default() }
}

fn value(e: &Entry<'_>) -> Vec<u8> {
    e.chunks().flatten().copied().collect()
}

fn get(s: &Store, key: &[u8], now: Ms) -> Option<Vec<u8>> {
    s.get(NS, key, now).map(|e| value(&e))
}

#[test]
fn set_and_get() {
    let s = open(16 << 20);
    assert!(s.get(NS, b"k", 1000).is_none());
    let v = s.set(NS, b"k", Put { value: &[b"ab", b"", b"c"], flags: 9, ..Put::default() }, 1000).unwrap();
    let e = s.get(NS, b"k", 5000).unwrap();
    assert_eq!(
        (value(&e), e.head(), e.flags(), e.version(), e.len()),
        (b"abc".to_vec(), &b"abc"[..], 9, v, 3)
    );
    assert_eq!(
        (e.expires(), e.last_access(), e.fetched(), e.stale(), e.key()),
        (None, 1000, false, false, &b"k"[..])
    );
    assert!(s.peek(Namespace(2), b"k", 5000).is_none());
    let again = s.get(NS, b"k", 9000).unwrap();
    assert_eq!((again.last_access(), again.fetched()), (5000, true));
    assert_eq!((s.stats(NS).hits, s.stats(NS).misses, s.stats(NS).items, s.stats(NS).bytes), (2, 1, 1, 4));
}

#[test]
fn a_replaced_entry_stays_readable_for_its_holder() {
    let s = open(16 << 20);
    let a = s.set(NS, b"k", put(&[b"old"]), 0).unwrap();
    let e = s.get(NS, b"k", 0).unwrap();
    let b = s.set(NS, b"k", put(&[b"new!"]), 0).unwrap();
    assert!(a != b);
    assert_eq!(e.head(), b"old");
    assert_eq!(get(&s, b"k", 0).unwrap(), b"new!");
    assert_eq!((s.stats(NS).items, s.stats(NS).bytes, s.stats(NS).stored), (1, 5, 2));
}

#[test]
fn conditions() {
    let s = open(16 << 20);
    assert_eq!(s.replace(NS, b"k", put(&[b"x"]), 0), Err(PutError::NotFound));
    assert_eq!(s.cas(NS, b"k", put(&[b"x"]), 1, 0), Err(PutError::NotFound));
    let v = s.add(NS, b"k", put(&[b"1"]), 0).unwrap();
    assert_eq!(s.add(NS, b"k", put(&[b"2"]), 0), Err(PutError::Exists));
    assert_eq!(s.cas(NS, b"k", put(&[b"2"]), v + 1, 0), Err(PutError::Exists));
    let w = s.cas(NS, b"k", put(&[b"3"]), v, 0).unwrap();
    assert_eq!(s.cas(NS, b"k", put(&[b"4"]), v, 0), Err(PutError::Exists));
    assert!(!s.delete_if(NS, b"k", v));
    assert!(s.delete_if(NS, b"k", w));
    assert!(!s.delete(NS, b"k", 0));
    assert_eq!(s.stats(NS).items, 0);
}

#[test]
fn append_prepend_and_counters() {
    let s = open(16 << 20);
    assert_eq!(s.append(NS, b"k", &[b"x"], 0), Err(PutError::NotFound));
    s.set(NS, b"k", Put { value: &[b"mid"], flags: 3, expires: Some(99), ..Put::default() }, 0).unwrap();
    s.append(NS, b"k", &[b">", b"!"], 0).unwrap();
    s.prepend(NS, b"k", &[b"<"], 0).unwrap();
    let e = s.get(NS, b"k", 0).unwrap();
    assert_eq!((e.head(), e.flags(), e.expires()), (&b"<mid>!"[..], 3, Some(99)));
    assert_eq!(s.incr(NS, b"k", 1, 0), Err(PutError::NotNumber));
    s.set(NS, b"n", put(&[b"18446744073709551615"]), 0).unwrap();
    assert_eq!(s.incr(NS, b"n", 2, 0).unwrap().value, 1);
    assert_eq!(s.decr(NS, b"n", 5, 0).unwrap().value, 0);
    assert_eq!(get(&s, b"n", 0).unwrap(), b"0");
}

#[test]
fn expiry_is_exact() {
    let s = open(16 << 20);
    let now = 1_700_000_000_000;
    for (key, expires) in [(&b"short"[..], now + 5), (b"long", now + 400 * 86_400_000)] {
        s.set(NS, key, Put { value: &[b"v"], expires: Some(expires), ..Put::default() }, now).unwrap();
        assert_eq!(s.get(NS, key, expires - 1).unwrap().expires(), Some(expires));
        assert!(s.get(NS, key, expires).is_none());
    }
    assert_eq!(s.add(NS, b"short", put(&[b"w"]), now + 4), Err(PutError::Exists));
    s.add(NS, b"short", put(&[b"w"]), now + 5).unwrap();
    assert_eq!(s.stats(NS).expired, 1);
}

#[test]
fn touch_keeps_the_version() {
    let s = open(16 << 20);
    let now = 1_700_000_000_000;
    let v = s.set(NS, b"k", put(&[b"v"]), now).unwrap();
    for expires in [Some(now + 10), Some(now + 20), None, Some(now + 900 * 86_400_000), Some(now + 7)] {
        assert!(s.touch(NS, b"k", expires, now));
        let e = s.peek(NS, b"k", now).unwrap();
        assert_eq!((e.expires(), e.version(), e.head()), (expires, v, &b"v"[..]));
    }
    assert!(!s.touch(NS, b"k", None, now + 7));
}

#[test]
fn stale_marks_and_walks() {
    let s = open(16 << 20);
    for n in 0..1000u32 {
        s.set(NS, &n.to_be_bytes(), put(&[b"v"]), 0).unwrap();
    }
    assert!(s.mark_stale(NS, &3u32.to_be_bytes(), 0));
    assert!(s.peek(NS, &3u32.to_be_bytes(), 0).unwrap().stale());
    let mut seen = std::collections::BTreeSet::new();
    let mut cursor = Some(Cursor::START);
    while let Some(c) = cursor {
        cursor = s.scan(NS, c, 10, &mut |key, info| {
            seen.insert(key.to_vec());
            assert_eq!(info.stale, key == 3u32.to_be_bytes());
            if key[3] % 2 == 0 { Keep::Delete } else { Keep::Keep }
        });
    }
    assert_eq!(seen.len(), 1000);
    assert_eq!(s.stats(NS).items, 500);
}

#[test]
fn flush_hides_at_once_and_frees_later() {
    let s = open(16 << 20);
    for n in 0..5000u32 {
        s.set(NS, &n.to_be_bytes(), put(&[&[0; 500]]), 0).unwrap();
    }
    s.set(Namespace(2), b"other", put(&[b"stays"]), 0).unwrap();
    s.flush(NS, 0);
    s.set(NS, b"after", put(&[b"v"]), 0).unwrap();
    assert!((0..5000u32).all(|n| s.get(NS, &n.to_be_bytes(), 0).is_none()));
    assert!(get(&s, b"after", 0).is_some() && s.get(Namespace(2), b"other", 0).is_some());
    let free = s.totals().free;
    (0..100).for_each(|_| {
        s.sweep(1, 1 << 20);
    });
    assert_eq!((s.stats(NS).items, s.stats(NS).flushed), (1, 5000));
    assert!(s.totals().free > free + 8, "{:?}", s.totals());
}

#[test]
fn expired_memory_comes_back_untouched() {
    let s = open(16 << 20);
    for n in 0..10_000u32 {
        let expires = Some(if n % 10 == 0 { 100_000 } else { 1000 });
        s.set(NS, &n.to_be_bytes(), Put { value: &[&[0; 500]], expires, ..Put::default() }, 0).unwrap();
    }
    let free = s.totals().free;
    let removed: usize = (0..100).map(|_| s.sweep(1000, 1 << 20)).sum();
    assert!(removed > 9000 * 500);
    assert_eq!((s.stats(NS).items, s.stats(NS).expired, s.stats(NS).expired_unfetched), (1000, 9000, 9000));
    assert!(s.totals().free > free + 15, "{:?}", s.totals());
    assert!((0..10_000u32).step_by(10).all(|n| s.get(NS, &n.to_be_bytes(), 1000).is_some()));
}

#[test]
fn large_values_in_pieces() {
    let s = open(64 << 20);
    for size in [100_000usize, 262_000, 262_144, 300_000, 1 << 20, 5_000_001] {
        let data: Vec<u8> = (0..size).map(|i| (i * 7 + i / 251) as u8).collect();
        s.set(NS, b"big", put(&[&data[..size / 3], &data[size / 3..]]), 0).unwrap();
        let e = s.get(NS, b"big", 0).unwrap();
        assert_eq!(e.len(), size as u64);
        assert!(value(&e) == data, "{size}");
        for at in [0, 1, 65_535, 99_999, size - 1] {
            assert_eq!(e.chunk_at(at as u64)[0], data[at]);
        }
        assert!(e.chunk_at(size as u64).is_empty());
    }
    assert_eq!(s.set(NS, b"big", put(&[&vec![0; 33 << 20]]), 0), Err(PutError::TooLarge));
    s.append(NS, b"big", &[b"end"], 0).unwrap();
    assert_eq!(s.get(NS, b"big", 0).unwrap().len(), 5_000_004);
    assert!(s.delete(NS, b"big", 0));
    s.sweep(0, 0);
    let t = s.totals();
    assert_eq!((t.chained, t.limbo, t.staging), (0, 0, 0), "{t:?}");
}

#[test]
fn eviction_keeps_within_the_budget_and_keeps_the_hot() {
    let s = open(16 << 20);
    for n in 0..200_000u32 {
        s.set(NS, &n.to_be_bytes(), put(&[&n.to_be_bytes(), &[1; 300]]), 0).unwrap();
        for hot in 0..10u32 {
            if n > hot {
                assert!(s.get(NS, &hot.to_be_bytes(), 0).is_some(), "{hot} after {n}");
            }
        }
    }
    let found =
        (0..200_000u32).filter(|n| get(&s, &n.to_be_bytes(), 0).is_some_and(|v| v[..4] == n.to_be_bytes()));
    let found = found.count() as u64;
    assert_eq!(found, s.stats(NS).items);
    assert!(found > 40_000, "{found}");
    assert_eq!(s.stats(NS).evictions, 200_000 - found);
}

#[test]
fn tags() {
    let s = open(16 << 20);
    for n in 0..3000u32 {
        let (a, b) = (format!("t{}", n % 3), format!("u{n}"));
        let tags: [&[u8]; 2] = [a.as_bytes(), b.as_bytes()];
        s.set(NS, &n.to_be_bytes(), Put { value: &[b"v"], tags: &tags, ..Put::default() }, 0).unwrap();
    }
    assert_eq!(s.purge_tag(Namespace(2), b"t1", false, 0), 0);
    assert_eq!(s.purge_tag(NS, b"t1", true, 0), 1000);
    assert!(s.peek(NS, &4u32.to_be_bytes(), 0).unwrap().stale());
    s.delete(NS, &4u32.to_be_bytes(), 0);
    assert_eq!(s.purge_tag(NS, b"t1", false, 0), 999);
    assert_eq!(s.purge_tag(NS, b"u5", false, 0), 1);
    assert_eq!(s.purge_tag(NS, b"t1", false, 0), 0);
    assert_eq!(s.stats(NS).items, 1999);
    s.set(NS, &1u32.to_be_bytes(), Put { value: &[b"v"], tags: &[b"t1"], ..Put::default() }, 0).unwrap();
    assert_eq!(s.purge_tag(NS, b"t1", false, 0), 1);
}
