//! A store that drops nothing alive: full is full, and memory of expired, removed or replaced
//! entries can be used again. Also the observers of entries that the store removes by itself where
//! it may.
#![allow(missing_docs, clippy::unwrap_used)]

use larder_store::*;
use std::sync::{Arc, Mutex};

const NS: Namespace = Namespace(2);
const MIB: usize = 1 << 20;

fn open(budget: usize) -> Store {
    Store::open(Options { budget, evict: false, seed: 11, threads: 2, ..Options::default() })
        .unwrap()
}

fn put(s: &Store, n: u64, len: usize, expires: Option<Ms>, now: Ms) -> Result<u64, PutError> {
    s.set(
        NS,
        &n.to_le_bytes(),
        Put { value: &[&vec![n as u8; len]], expires, ..Put::default() },
        now,
    )
}

/// Stores from `n` on until it is full; returns the first number that did not fit.
fn fill_up(s: &Store, mut n: u64, len: usize, expires: Option<Ms>, now: Ms) -> u64 {
    loop {
        match put(s, n, len, expires, now) {
            Ok(_) => n += 1,
            Err(e) => {
                assert_eq!(e, PutError::Full);
                return n;
            }
        }
    }
}

fn all_there(s: &Store, mut keys: impl Iterator<Item = u64>, len: usize, now: Ms) -> bool {
    keys.all(|n| {
        s.peek(NS, &n.to_le_bytes(), now)
            .is_some_and(|e| e.len() == len as u64 && e.head()[0] == n as u8)
    })
}

#[test]
fn full_is_full_and_nothing_is_lost() {
    let s = open(16 * MIB);
    let n = fill_up(&s, 0, 400, None, 0);
    assert!(n > 30_000, "{n}");
    (0..1000).for_each(|i| assert_eq!(put(&s, n + i, 400, None, 0), Err(PutError::Full)));
    assert!(all_there(&s, 0..n, 400, 0));
    assert_eq!((s.stats(NS).items, s.stats(NS).evictions), (n, 0));
    assert_eq!(s.append(NS, &0u64.to_le_bytes(), &[b"x"], 0), Err(PutError::Full));
    assert!(s.fill(NS, b"fill", FillOptions::default(), 0).is_err());
}

#[test]
fn what_was_deleted_here_and_there_is_used_again() {
    let s = open(16 * MIB);
    let n = fill_up(&s, 0, 400, None, 0);
    (0..n).filter(|i| i % 4 == 1).for_each(|i| assert!(s.delete(NS, &i.to_le_bytes(), 0)));
    let more = fill_up(&s, n, 400, None, 0) - n;
    assert!(more * 4 > n * 8 / 10, "{more} of the places of {}", n / 4);
    assert!(
        all_there(&s, (0..n).filter(|i| i % 4 != 1), 400, 0) && all_there(&s, n..n + more, 400, 0)
    );
}

#[test]
fn what_has_expired_or_was_flushed_is_used_again_at_once() {
    let s = open(16 * MIB);
    let n = fill_up(&s, 0, 400, Some(5000), 0);
    assert_eq!(put(&s, n, 400, None, 4999), Err(PutError::Full));
    // Without a sweep.
    let m = fill_up(&s, 1 << 32, 400, Some(9000), 5000) - (1 << 32);
    assert!(m * 100 > n * 95, "{m} after {n}");
    s.flush(NS, 5000);
    let k = fill_up(&s, 1 << 33, 400, None, 5000) - (1 << 33);
    assert!(k * 100 > n * 95, "{k} after {n}");
}

#[test]
fn overwriting_goes_on_while_a_fifth_is_free() {
    let s = open(16 * MIB);
    let n = fill_up(&s, 0, 400, None, 0) * 8 / 10;
    s.flush(NS, 0);
    (0..n).for_each(|i| assert!(put(&s, i, 400, None, 0).is_ok()));
    let mut state = 1u64;
    for i in 0..300_000u64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let key = (state >> 33) % n;
        assert!(put(&s, key, 400, None, 0).is_ok(), "{key} in round {i}: {:?}", s.totals());
    }
    assert!(all_there(&s, 0..n, 400, 0));
}

#[test]
fn large_values_and_a_strict_ceiling() {
    let share = Share { first: NS, last: NS, floor: 0, ceiling: 6 * MIB };
    let s = Store::open(Options {
        budget: 32 * MIB,
        evict: false,
        shares: vec![share],
        ..Options::default()
    });
    let s = s.unwrap();
    assert_eq!(
        (put(&s, 0, 3 * MIB, None, 0).is_ok(), put(&s, 1, 2 * MIB, None, 0).is_ok()),
        (true, true)
    );
    assert_eq!(put(&s, 2, 3 * MIB, None, 0), Err(PutError::Full));
    assert_eq!(put(&s, 2, 7 * MIB, None, 0), Err(PutError::TooLarge));
    assert!(s.delete(NS, &0u64.to_le_bytes(), 0) && put(&s, 2, 3 * MIB, None, 0).is_ok());
    let n = fill_up(&s, 3, 1000, None, 0);
    assert!(n > 200 && s.stats(NS).bytes as usize <= 6 * MIB && s.stats(NS).evictions == 0);
    assert!(s.set(Namespace(9), b"k", Put::default(), 0).is_ok(), "others have room");
}

/// Many threads in a nearly full store: every entry stored and not removed is found.
#[test]
fn threads_lose_nothing() {
    let s = open(12 * MIB);
    std::thread::scope(|scope| {
        for t in 0..4u64 {
            let s = &s;
            scope.spawn(move || {
                let mut mine = std::collections::VecDeque::new();
                let (mut state, mut refused) = (t, 0);
                for n in 0..40_000u64 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let (key, len) = (t << 32 | n, 1 + (state >> 40) as usize % 900);
                    match put(s, key, len, None, n) {
                        Ok(_) => mine.push_back((key, len)),
                        Err(e) => {
                            assert_eq!(e, PutError::Full);
                            refused += 1;
                            let at = (state >> 20) as usize % mine.len().max(1);
                            let gone = mine.remove(at);
                            assert!(gone.is_none_or(|(key, _)| s.delete(
                                NS,
                                &key.to_le_bytes(),
                                n
                            )));
                        }
                    }
                    if n % 512 == 0 {
                        s.sweep(n, MIB);
                        assert!(mine.iter().all(|(key, len)| all_there(
                            s,
                            [*key].into_iter(),
                            *len,
                            n
                        )));
                    }
                }
                assert!(
                    refused > 0
                        && mine.iter().all(|(key, len)| all_there(s, [*key].into_iter(), *len, 0))
                );
            });
        }
    });
    assert_eq!(s.stats(NS).evictions, 0);
}

/// An expiry is changed in place, with and without an earlier one.
#[test]
fn a_full_store_gives_and_takes_expiries() {
    const DAY: Ms = 86_400_000;
    let s = open(16 * MIB);
    let at = |n: u64| s.peek(NS, &n.to_le_bytes(), 10).unwrap();
    let touch = |n: u64, expires| s.touch(NS, &n.to_le_bytes(), expires, 10);
    // An entry with its own version and one with a distant expiry have the long header, with no
    // field for either before.
    s.set(NS, &0u64.to_le_bytes(), Put { value: &[b"v"], version: Some(7), ..Put::default() }, 10)
        .unwrap();
    put(&s, 1, 40_000, Some(4000 * DAY), 10).unwrap();
    s.set(NS, &2u64.to_le_bytes(), Put { value: &[b"12"], ..Put::default() }, 10).unwrap();
    s.incr(NS, &2u64.to_le_bytes(), 1, 10).unwrap();
    let mut fill = s.fill(NS, &3u64.to_le_bytes(), FillOptions::default(), 10).unwrap();
    fill.write(&[3; 3000]).unwrap();
    fill.commit(None, 10).unwrap();
    let mut n = fill_up(&s, 4, 400, None, 10);
    while put(&s, n, 1, None, 10).is_ok() {
        n += 1;
    }
    let version = at(1).version();
    for key in (0..500).chain([n - 1]) {
        for expires in [Some(30 * DAY), Some(5000), None, Some(6000)] {
            assert_eq!((touch(key, expires), at(key).expires()), (Ok(()), expires), "{key}");
        }
    }
    assert_eq!((at(0).version(), at(1).version()), (7, version));
    assert_eq!((at(2).head(), at(3).len()), (&b"13"[..], 3000));
    // Too far for the field, and no other place: the entry is unchanged.
    assert_eq!((touch(5, Some(4000 * DAY)), at(5).expires()), (Err(PutError::Full), Some(6000)));
    assert_eq!(touch(n, None), Err(PutError::NotFound));
    assert!(s.peek(NS, &5u64.to_le_bytes(), 6000).is_none(), "it is over when it was told to be");
}

/// Fields for expiries are kept where records are moved, and an expiry that needs the long header
/// stays exact.
#[test]
fn moved_entries_have_room_for_an_expiry_too() {
    const FAR: Ms = 1 << 45;
    let s = open(16 * MIB);
    let n = fill_up(&s, 0, 400, Some(FAR), 0);
    (0..n).filter(|i| i % 4 != 1).for_each(|i| assert!(s.delete(NS, &i.to_le_bytes(), 0)));
    let m = fill_up(&s, n, 400, None, 0);
    let kept = || (0..n).filter(|i| i % 4 == 1);
    for key in kept() {
        assert_eq!(s.peek(NS, &key.to_le_bytes(), 0).unwrap().expires(), Some(FAR));
    }
    for (key, expires) in kept().chain(n..m).zip((1..).map(|i| (i % 3 != 0).then_some(1000 + i))) {
        assert_eq!(s.touch(NS, &key.to_le_bytes(), expires, 0), Ok(()));
        assert_eq!(s.peek(NS, &key.to_le_bytes(), 0).unwrap().expires(), expires);
    }
    assert!(m > n + n / 2, "{n} {m}");
}

/// The mark needs no space; a claim made before must be made again.
#[test]
fn a_full_store_marks_what_is_there_stale() {
    let s = open(16 * MIB);
    fill_up(&s, 0, 400, None, 0);
    let key = 9u64.to_le_bytes();
    let old = s.peek(NS, &key, 0).unwrap();
    assert!(old.claim() && s.mark_stale_same(&old, 0));
    let now = s.peek(NS, &key, 0).unwrap();
    assert_eq!((now.stale(), now.claimed(), now.version()), (true, false, old.version()));
    assert!(now.claim());
    s.touch(NS, &key, Some(50), 0).unwrap();
    assert!(!s.mark_stale_same(&old, 0), "it was touched since");
    assert!(!s.mark_stale_same(&s.peek(NS, &key, 0).unwrap(), 50));
}

#[test]
fn an_observer_hears_of_evictions_and_expiries_only_while_it_wants_to() {
    let s = Store::open(Options { budget: 16 * MIB, seed: 3, ..Options::default() }).unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let notes = heard.clone();
    let observer = move |e: &Evicted<'_>| {
        notes.lock().unwrap().push((
            e.ns,
            e.key.to_vec(),
            e.info.len,
            e.ttl(),
            e.info.fetched,
            e.cause,
            e.now,
        ));
    };
    assert!(s.observe(Box::new(observer)));
    let others = (0..9).filter(|_| s.observe(Box::new(|_| {}))).count();
    assert_eq!(others, 3, "four in all");
    let fill = |from: u64, now| {
        (from..from + 40_000).for_each(|n| assert!(put(&s, n, 500, None, now).is_ok()))
    };
    fill(0, 0);
    assert!(s.stats(NS).evictions > 0 && heard.lock().unwrap().is_empty());
    s.observing(true);
    let before = s.stats(NS).evictions;
    fill(1 << 32, 10);
    let list = std::mem::take(&mut *heard.lock().unwrap());
    assert_eq!(list.len() as u64, s.stats(NS).evictions - before);
    assert!(list.iter().all(|(ns, key, len, ttl, fetched, cause, now)| {
        (*ns, key.len(), *len, *ttl, *fetched, *cause, *now)
            == (NS, 8, 500, None, false, Cause::Evicted, 10)
    }));
    put(&s, 1, 10, Some(100), 20).unwrap();
    assert!(s.get(NS, &1u64.to_le_bytes(), 20).is_some());
    put(&s, 2, 10, Some(5000), 20).unwrap();
    s.sweep(100, 64 * MIB);
    let mut list = std::mem::take(&mut *heard.lock().unwrap());
    list.retain(|gone| gone.5 == Cause::Expired);
    assert_eq!(list.len(), 1, "one has expired, open segment or not");
    let (_, key, len, ttl, fetched, cause, _) = &list[0];
    assert_eq!((&key[..], *len, *ttl), (&1u64.to_le_bytes()[..], 10, Some(0)));
    assert_eq!((*fetched, *cause), (true, Cause::Expired));
    s.flush(NS, 100);
    s.delete(NS, &2u64.to_le_bytes(), 100);
    (1..9).for_each(|n| {
        s.sweep(2000 * n, 64 * MIB);
    });
    assert!(heard.lock().unwrap().is_empty(), "who flushes or deletes knows it");
    s.observing(false);
    fill(0, 9000);
    assert!(heard.lock().unwrap().is_empty());
}
