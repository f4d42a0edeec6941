//! Every verb once, on a small store.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{open, value};
use larder_store::*;

const NS: Namespace = Namespace(1);

fn put<'a>(value: &'a [&'a [u8]]) -> Put<'a> {
    Put { value, ..Put::default() }
}

fn get(s: &Store, key: &[u8], now: Ms) -> Option<Vec<u8>> {
    s.get(NS, key, now).map(|e| value(&e))
}

#[test]
fn set_and_get() {
    let s = open(16 << 20);
    assert!(s.get(NS, b"k", 1000).is_none());
    let v = s
        .set(NS, b"k", Put { value: &[b"ab", b"", b"c"], flags: 9, ..Put::default() }, 1000)
        .unwrap();
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
    assert_eq!(
        (s.stats(NS).hits, s.stats(NS).misses, s.stats(NS).items, s.stats(NS).bytes),
        (2, 1, 1, 4)
    );
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
    s.set(NS, b"k", Put { value: &[b"mid"], flags: 3, expires: Some(99), ..Put::default() }, 0)
        .unwrap();
    s.append(NS, b"k", &[b">", b"!"], 0).unwrap();
    s.prepend(NS, b"k", &[b"<"], 0).unwrap();
    let e = s.get(NS, b"k", 0).unwrap();
    assert_eq!((e.head(), e.flags(), e.expires()), (&b"<mid>!"[..], 3, Some(99)));
    assert_eq!(s.incr(NS, b"k", 1, 0), Err(PutError::NotNumber));
    s.set(NS, b"n", put(&[b"18446744073709551615"]), 0).unwrap();
    assert_eq!(s.incr(NS, b"n", 2, 0).unwrap().value, 1);
    assert_eq!(s.decr(NS, b"n", 5, 0).unwrap().value, 0);
    assert_eq!(get(&s, b"n", 0).unwrap(), b"0                   ", "the text keeps its length");
}

/// The answers of memcached 1.6.18 to `decr n 1`, `incr n 2` and `get n` after `set n`.
#[test]
fn counters_read_and_write_as_memcached_does() {
    let s = open(16 << 20);
    let kept: [(&[u8], u64, u64, &[u8]); 9] = [
        (b"10", 9, 11, b"11"),
        (b" 12", 11, 13, b"13 "),
        (b"12 abc", 11, 13, b"13    "),
        (b"+5", 4, 6, b"6 "),
        (b"-0", 0, 2, b"2 "),
        (b"5                              ", 4, 6, b"6                              "),
        (b"012", 11, 13, b"13 "),
        (b"\t7", 6, 8, b"8 "),
        (b"18446744073709551615", u64::MAX - 1, 0, b"0                   "),
    ];
    for (text, down, up, end) in kept {
        s.set(NS, b"n", put(&[text]), 0).unwrap();
        assert_eq!(s.decr(NS, b"n", 1, 0).unwrap().value, down);
        assert_eq!(s.incr(NS, b"n", 2, 0).unwrap().value, up);
        assert_eq!(get(&s, b"n", 0).unwrap(), end);
    }
    for text in [&b""[..], b"   ", b"-", b"-5", b"1a", b"a", b"18446744073709551616"] {
        s.set(NS, b"n", put(&[text]), 0).unwrap();
        assert_eq!(s.decr(NS, b"n", 1, 0), Err(PutError::NotNumber), "{text:?}");
    }
}

#[test]
fn a_mark_has_the_time_of_the_first() {
    let s = open(16 << 20);
    s.set(NS, b"k", Put { tags: &[b"t"], ..put(&[b"v"]) }, 0).unwrap();
    s.get(NS, b"k", 3_000).unwrap();
    let marked = || s.peek(NS, b"k", 9_000).map(|e| (e.stale(), e.fetched(), e.last_access()));
    assert!(s.mark_stale(NS, b"k", 5_000));
    assert_eq!(marked(), Some((true, true, 5_000)));
    assert!(s.mark_stale(NS, b"k", 7_000));
    assert_eq!(s.purge_tag(NS, b"t", true, 8_000), 1);
    s.scan(NS, Cursor::START, 1_000_000, &mut |_, _| Keep::Stale(8_000));
    s.bump_stale(&s.peek(NS, b"k", 9_000).unwrap());
    assert_eq!(marked(), Some((true, true, 5_000)));
    assert_eq!(s.stats(NS).hits, 2);
    s.set(NS, b"k", Put { tags: &[b"t"], ..put(&[b"v"]) }, 0).unwrap();
    assert_eq!(s.purge_tag(NS, b"t", true, 8_000), 1);
    assert_eq!(marked(), Some((true, false, 8_000)));
}

#[test]
fn an_entry_is_claimed_once_per_write() {
    let s = open(16 << 20);
    s.set(NS, b"k", put(&[b"v"]), 0).unwrap();
    let e = s.get(NS, b"k", 0).unwrap();
    assert!(!e.claimed() && e.claim() && !e.claim());
    let again = s.get(NS, b"k", 5000).unwrap();
    assert!(again.claimed() && !again.claim() && again.info().claimed);
    // Reads, marks and touches (in place and with a move) keep it.
    assert!(s.mark_stale(NS, b"k", 0) && s.touch(NS, b"k", Some(99), 0).is_ok());
    assert!(s.touch(NS, b"k", None, 0).is_ok());
    assert!(s.get(NS, b"k", 0).is_some_and(|e| e.claimed() && e.stale()));
    let before = s.get(NS, b"k", 0).unwrap();
    for n in 0..100_000u32 {
        s.set(Namespace(2), &n.to_be_bytes(), put(&[&[7; 500]]), 0).unwrap();
        assert!(s.get(NS, b"k", 0).is_some_and(|e| !e.claim()), "after {n} others");
    }
    let after = s.get(NS, b"k", 0).unwrap();
    assert!(
        s.stats(Namespace(2)).evictions > 0 && !std::ptr::eq(after.head(), before.head()),
        "it was moved"
    );
    assert!(!before.claim(), "the old place knows the new one");
    s.append(NS, b"k", &[b"w"], 0).unwrap();
    assert!(s.get(NS, b"k", 0).is_some_and(|e| !e.claimed() && e.claim()), "a write starts anew");
}

#[test]
fn same_means_neither_written_nor_touched() {
    let s = open(16 << 20);
    let write = |same: &Entry<'_>, text: &[u8]| s.put(NS, b"k", put(&[text]), If::Same(same), 0);
    s.set(NS, b"k", Put { value: &[b"v"], expires: Some(50), ..Put::default() }, 0).unwrap();
    let e = s.peek(NS, b"k", 0).unwrap();
    assert_eq!(s.touch_same(&e, Some(60), 0), Ok(()));
    assert_eq!(s.touch_same(&e, Some(70), 0), Err(PutError::Exists));
    assert!(!s.delete_same(&e, 0));
    assert_eq!(write(&e, b"w"), Err(PutError::Exists), "touched");
    let e = s.peek(NS, b"k", 0).unwrap();
    assert_eq!(e.expires(), Some(60));
    // A touch that moves the record, and one that moves it back.
    assert!(s.touch_same(&e, Some(1 << 40), 0).is_ok() && s.touch(NS, b"k", Some(60), 0).is_ok());
    let moved = s.peek(NS, b"k", 0).unwrap();
    assert_eq!(moved.version(), e.version());
    write(&moved, b"w").unwrap();
    assert_eq!(write(&moved, b"x"), Err(PutError::Exists));
    assert!(!s.delete_same(&moved, 0));
    let e = s.peek(NS, b"k", 0).unwrap();
    assert!(s.delete_same(&e, 0) && !s.delete_same(&e, 0));
    assert_eq!(s.touch_same(&e, None, 0), Err(PutError::NotFound));
    assert_eq!(write(&e, b"x"), Err(PutError::NotFound));
}

fn mine<'a>(value: &'a [&'a [u8]], version: u64) -> Put<'a> {
    Put { value, version: Some(version), stale: true, flags: 3, ..Put::default() }
}

#[test]
fn versions_and_stale_marks_that_writers_choose() {
    let s = open(16 << 20);
    for (version, size) in [(7, 0), (u64::MAX, 100), (0, 40_000), (7, 700_000)] {
        let value = vec![5; size];
        assert_eq!(s.set(NS, b"k", mine(&[&value], version), 0), Ok(version));
        let e = s.get(NS, b"k", 0).unwrap();
        assert_eq!((e.version(), e.stale(), e.flags(), e.len()), (version, true, 3, size as u64));
        assert_eq!(s.cas(NS, b"k", mine(&[b"w"], 9), version ^ 1, 0), Err(PutError::Exists));
        assert!(
            s.touch(NS, b"k", Some(1000), 0).is_ok() && s.touch(NS, b"k", Some(1 << 45), 0).is_ok()
        );
        let e = s.get(NS, b"k", 0).unwrap();
        assert_eq!(
            (e.version(), e.chunk_at(0).first(), e.key()),
            (version, value.first(), &b"k"[..])
        );
    }
    let free = s.append(NS, b"k", &[b"x"], 0).unwrap();
    let e = s.get(NS, b"k", 0).unwrap();
    assert_eq!((e.version(), e.stale(), free != 7), (free, false, true));
    // A flush compares the time of the write, not the version it claims.
    s.set(NS, b"a", mine(&[b"v"], u64::MAX), 0).unwrap();
    s.flush(NS, 0);
    s.set(NS, b"b", mine(&[b"v"], 1), 0).unwrap();
    assert!(s.get(NS, b"a", 0).is_none() && s.get(NS, b"b", 0).is_some());
    let tagged = Put { tags: &[b"t"], ..mine(&[b"v"], 12) };
    assert_eq!(s.add(NS, b"t", tagged, 0), Ok(12));
    assert_eq!((s.purge_tag(NS, b"t", false, 0), s.get(NS, b"t", 0).is_none()), (1, true));
}

#[test]
fn other_bytes_that_mean_the_same() {
    let s = open(16 << 20);
    let tagged =
        Put { tags: &[b"t"], stale: true, flags: 7, expires: Some(60_000), ..put(&[b"v"]) };
    s.set(NS, b"k", tagged, 1000).unwrap();
    s.get(NS, b"k", 5000).unwrap();
    let e = s.peek(NS, b"k", 9000).unwrap();
    s.recode(&e, &[b"longer", b" bytes"], 9000).unwrap();
    assert_eq!(s.recode(&e, &[b"x"], 9000), Err(PutError::Exists));
    let new = s.peek(NS, b"k", 9000).unwrap();
    assert_eq!(new.head(), b"longer bytes");
    assert_eq!((new.flags(), new.expires(), new.stale()), (7, e.expires(), true));
    assert_eq!((new.fetched(), new.last_access()), (true, 5000));
    assert_ne!(new.written(), e.written());
    assert_eq!(s.purge_tag(NS, b"t", false, 9000), 1);
    assert_eq!(s.recode(&new, &[b"x"], 9000), Err(PutError::NotFound));
    assert!(s.peek(NS, b"k", 9000).is_none());
}

#[test]
fn a_write_that_counts_as_the_same_entry() {
    let s = open(16 << 20);
    let first = s.set(NS, b"k", put(&[b"v"]), 1000).unwrap();
    s.get(NS, b"k", 5000).unwrap();
    let e = s.peek(NS, b"k", 9000).unwrap();
    let marked = Put { stale: true, claimed: true, ..put(&[b"w"]) };
    let second = s.put_same(&e, marked, false, 9000).unwrap();
    assert_eq!(s.put_same(&e, marked, false, 9000), Err(PutError::Exists));
    let e = s.peek(NS, b"k", 9000).unwrap();
    assert_eq!((e.fetched(), e.last_access(), e.stale(), e.claimed()), (true, 5000, true, true));
    assert!(!e.claim(), "it is claimed from the start");
    assert!(e.is_newer_than(first) && !e.is_newer_than(second + 1) && !e.is_newer_than(u64::MAX));
    s.put_same(&e, put(&[b"x"]), true, 20_000).unwrap();
    let e = s.peek(NS, b"k", 20_000).unwrap();
    assert_eq!(
        (e.fetched(), e.last_access(), e.stale(), e.claimed()),
        (true, 20_000, false, false)
    );
    // A flush begins another segment: the versions before it are older all the same.
    s.flush(NS, 20_000);
    s.set(NS, b"k", put(&[b"y"]), 20_000).unwrap();
    let e = s.peek(NS, b"k", 20_000).unwrap();
    assert!(e.is_newer_than(first) && e.is_newer_than(second) && e.claim());
    // Those that writers chose are numbers, no more.
    s.set(NS, b"k", mine(&[b"z"], 50), 20_000).unwrap();
    let e = s.peek(NS, b"k", 20_000).unwrap();
    assert!(e.is_newer_than(49) && !e.is_newer_than(51));
}

#[test]
fn namespaces_are_31() {
    let s = open(16 << 20);
    for ns in 0..NAMESPACES as u8 {
        s.set(Namespace(ns), b"k", put(&[&[ns]]), 0).unwrap();
    }
    for ns in 0..NAMESPACES as u8 {
        assert_eq!(s.get(Namespace(ns), b"k", 0).unwrap().head(), [ns]);
        assert_eq!(s.stats(Namespace(ns)).items, 1);
    }
    assert_eq!(s.set(Namespace(31), b"k", put(&[b"v"]), 0), Err(PutError::TooLarge));
    assert!(s.get(Namespace(31), b"k", 0).is_none());
    s.count_miss(Namespace(31));
    s.flush(Namespace(30), 0);
    assert!(s.get(Namespace(30), b"k", 0).is_none() && s.get(Namespace(29), b"k", 0).is_some());
}

#[test]
fn peek_and_bump_are_a_get() {
    let s = open(16 << 20);
    s.set(NS, b"k", put(&[b"v"]), 0).unwrap();
    let e = s.peek(NS, b"k", 3000).unwrap();
    assert_eq!(s.stats(NS).hits, 0);
    s.bump(&e, 3000);
    s.count_miss(NS);
    let e = s.peek(NS, b"k", 3000).unwrap();
    assert_eq!(
        (s.stats(NS).hits, s.stats(NS).misses, e.fetched(), e.last_access()),
        (1, 1, true, 3000)
    );
}

#[test]
fn hints_find_what_a_get_finds() {
    let s = open(16 << 20);
    for n in 0..5000u32 {
        s.set(NS, &n.to_be_bytes(), put(&[&n.to_be_bytes()]), 0).unwrap();
    }
    for n in 0..6000u32 {
        let key = n.to_be_bytes();
        let mut hint = s.prefetch(NS, &key);
        s.prefetch_record(&mut hint);
        assert_eq!(s.get_hinted(hint, NS, &key, 0).is_some(), n < 5000);
        assert_eq!(s.peek_hinted(hint, NS, &key, 0).is_some_and(|e| e.head() == key), n < 5000);
        assert!(s.get_hinted(hint, NS, b"another key", 0).is_none());
    }
    assert!(s.get_hinted(s.prefetch(Namespace(31), b"k"), Namespace(31), b"k", 0).is_none());
    assert_eq!((s.stats(NS).hits, s.stats(NS).misses), (5000, 7000));
}

#[test]
fn random_keys_are_live_ones_of_the_namespace() {
    let s = open(16 << 20);
    assert_eq!(random_key(&s, NS, 77, 0), None);
    for n in 0..3000u32 {
        s.set(Namespace(2), &n.to_be_bytes(), put(&[b"v"]), 0).unwrap();
    }
    s.set(NS, b"over", Put { value: &[b"v"], expires: Some(5), ..Put::default() }, 0).unwrap();
    assert_eq!(random_key(&s, NS, 78, 9), None, "expired");
    s.set(NS, b"one", put(&[b"v"]), 0).unwrap();
    let mut seen = std::collections::HashSet::new();
    for n in 0..6000u64 {
        let pick = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        seen.extend(random_key(&s, Namespace(2), pick, 9));
        assert!(n % 100 != 0 || random_key(&s, NS, pick, 9).is_some_and(|k| k == b"one"));
    }
    assert!(seen.len() > 1500 && seen.iter().all(|k| k.len() == 4), "{} of 3000", seen.len());
}

#[test]
fn expiry_is_exact() {
    let s = open(16 << 20);
    let now = 1_700_000_000_000;
    for (key, expires) in [(&b"short"[..], now + 5), (b"long", now + 400 * 86_400_000)] {
        s.set(NS, key, Put { value: &[b"v"], expires: Some(expires), ..Put::default() }, now)
            .unwrap();
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
    for expires in
        [Some(now + 10), Some(now + 20), None, Some(now + 900 * 86_400_000), Some(now + 7)]
    {
        assert!(s.touch(NS, b"k", expires, now).is_ok());
        let e = s.peek(NS, b"k", now).unwrap();
        assert_eq!((e.expires(), e.version(), e.head()), (expires, v, &b"v"[..]));
    }
    assert_eq!(s.touch(NS, b"k", None, now + 7), Err(PutError::NotFound));
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
        s.set(NS, &n.to_be_bytes(), Put { value: &[&[0; 500]], expires, ..Put::default() }, 0)
            .unwrap();
    }
    let free = s.totals().free;
    let removed: usize = (0..100).map(|_| s.sweep(1000, 1 << 20)).sum();
    assert!(removed > 9000 * 500);
    assert_eq!(
        (s.stats(NS).items, s.stats(NS).expired, s.stats(NS).expired_unfetched),
        (1000, 9000, 9000)
    );
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
    let found = (0..200_000u32)
        .filter(|n| get(&s, &n.to_be_bytes(), 0).is_some_and(|v| v[..4] == n.to_be_bytes()));
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
        s.set(NS, &n.to_be_bytes(), Put { value: &[b"v"], tags: &tags, ..Put::default() }, 0)
            .unwrap();
    }
    assert_eq!(s.purge_tag(Namespace(2), b"t1", false, 0), 0);
    assert_eq!(s.purge_tag(NS, b"t1", true, 0), 1000);
    assert!(s.peek(NS, &4u32.to_be_bytes(), 0).unwrap().stale());
    s.delete(NS, &4u32.to_be_bytes(), 0);
    assert_eq!(s.purge_tag(NS, b"t1", false, 0), 999);
    assert_eq!(s.purge_tag(NS, b"u5", false, 0), 1);
    assert_eq!(s.purge_tag(NS, b"t1", false, 0), 0);
    assert_eq!(s.stats(NS).items, 1999);
    s.set(NS, &1u32.to_be_bytes(), Put { value: &[b"v"], tags: &[b"t1"], ..Put::default() }, 0)
        .unwrap();
    assert_eq!(s.purge_tag(NS, b"t1", false, 0), 1);
}

/// The end of a walk for a random key, in steps of a few places.
fn random_key(s: &Store, ns: Namespace, pick: u64, now: u64) -> Option<Vec<u8>> {
    let mut at = Cursor::START;
    loop {
        match s.random_key(ns, pick, at, 7, now) {
            Ok(key) => return Some(key),
            Err(next) => at = next?,
        }
    }
}
