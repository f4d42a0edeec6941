//! Threads that write, read, hold, follow and delete while everything is evicted all the time.
//! Every value names its write and carries a checksum of it: a byte that moved under a reader would
//! show. Under ThreadSanitizer (no races found): `RUSTFLAGS=-Zsanitizer=thread cargo +nightly test
//! -Zbuild-std --target x86_64-unknown-linux-gnu -p larder-store --test stress`
#![allow(missing_docs, clippy::unwrap_used)]

use larder_store::*;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const NS: Namespace = Namespace(3);
const KEYS: u64 = 20_000;

/// Splitmix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Key, seed, length; then a stream that follows from them.
fn value(key: u64, seed: u64, len: usize) -> Vec<u8> {
    let mut v = Vec::with_capacity(len + 32);
    [key, seed, len as u64].iter().for_each(|n| v.extend_from_slice(&n.to_le_bytes()));
    let mut state = key ^ seed.rotate_left(17) ^ (len as u64).rotate_left(40);
    while v.len() < len + 24 {
        v.extend_from_slice(&random(&mut state).to_le_bytes());
    }
    v.truncate(len + 24);
    v
}

fn check(key: u64, bytes: &[u8]) {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!(word(0), key, "another key's bytes");
    assert!(
        bytes == value(key, word(8), word(16) as usize),
        "bytes of {key} changed under a reader"
    );
}

fn check_entry(key: u64, e: &Entry<'_>) {
    assert_eq!(e.key(), key.to_le_bytes());
    let bytes: Vec<u8> = e.chunks().flatten().copied().collect();
    check(key, &bytes);
}

fn length(r: u64) -> usize {
    match r % 1000 {
        0..900 => (r >> 32) as usize % 600,
        900..996 => (r >> 32) as usize % 40_000,
        _ => (r >> 32) as usize % 900_000,
    }
}

struct World {
    store: Store,
    now: AtomicU64,
    done: AtomicBool,
    full: AtomicU64,
}

impl World {
    fn now(&self) -> Ms {
        self.now.load(Ordering::Relaxed)
    }

    fn note(&self, result: Result<u64, PutError>) {
        match result {
            Ok(_) | Err(PutError::Exists | PutError::NotFound | PutError::NotNumber) => {}
            Err(PutError::Full) => {
                self.full.fetch_add(1, Ordering::Relaxed);
            }
            Err(e) => panic!("{e}"),
        }
    }

    fn writer(&self, seed: u64, operations: usize) {
        let mut state = seed;
        for _ in 0..operations {
            let r = random(&mut state);
            let key = random(&mut state) % KEYS;
            let name = key.to_le_bytes();
            let now = self.now.fetch_add(1, Ordering::Relaxed);
            let v = value(key, r, length(r));
            let expires = r.is_multiple_of(3).then_some(now + r % 5000);
            let tag = [(key % 50) as u8];
            let tags: &[&[u8]] = &[&tag];
            let put = Put {
                value: &[&v],
                expires,
                tags: &tags[..usize::from(r.is_multiple_of(5))],
                ..Put::default()
            };
            match r >> 56 {
                0..200 => self.note(self.store.set(NS, &name, put, now)),
                200..210 => self.note(self.store.add(NS, &name, put, now)),
                210..220 => self.note(self.store.replace(NS, &name, put, now)),
                220..230 => drop(self.store.delete(NS, &name, now)),
                230..240 => drop(self.store.touch(NS, &name, expires, now)),
                240..242 => drop(self.store.purge_tag(NS, &tag, r.is_multiple_of(2), now)),
                242 if r % 128 == 1 => self.store.flush(NS, now),
                _ => self.fill(key, &v, !r.is_multiple_of(4), now),
            }
        }
    }

    fn fill(&self, key: u64, v: &[u8], commit: bool, now: Ms) {
        let Ok(mut fill) = self.store.fill(NS, &key.to_le_bytes(), FillOptions::default(), now)
        else {
            return;
        };
        let reader = fill.reader();
        if v.chunks(9000).try_for_each(|c| fill.write(c)).is_err() {
            return;
        }
        if commit {
            self.note(fill.commit(None, now));
        } else {
            drop(fill);
        }
        let mut bytes = Vec::new();
        while bytes.len() < v.len() {
            bytes.extend_from_slice(reader.chunk_at(bytes.len() as u64));
        }
        check(key, &bytes);
    }

    /// Reads, and holds some entries for long. Returns how many it found.
    fn reader(&self, seed: u64) -> u64 {
        let mut state = seed;
        let mut held: VecDeque<(u64, Entry<'_>)> = VecDeque::new();
        let mut found = 0;
        while !self.done.load(Ordering::Relaxed) {
            let key = random(&mut state) % KEYS;
            if let Some(e) = self.store.get(NS, &key.to_le_bytes(), self.now()) {
                check_entry(key, &e);
                found += 1;
                if found % 50 == 0 {
                    held.push_back((key, e));
                }
            }
            if held.len() > 12 {
                let (key, e) = held.pop_front().unwrap();
                check_entry(key, &e);
            }
        }
        held.iter().for_each(|(key, e)| check_entry(*key, e));
        found
    }

    fn sweeper(&self) {
        while !self.done.load(Ordering::Relaxed) {
            self.store.sweep(self.now(), 1 << 20);
            let mut cursor = Some(Cursor::START);
            while let Some(c) = cursor {
                cursor = self.store.scan(NS, c, 200, &mut |key, info| {
                    assert!(key.len() == 8 && info.len >= 24);
                    Keep::Keep
                });
            }
        }
    }
}

fn run(policy: Policy, operations: usize) {
    let store = Store::open(Options {
        budget: 12 << 20,
        max_value: 2 << 20,
        policy,
        seed: 1,
        threads: 4,
        ..Options::default()
    })
    .unwrap();
    let w = World {
        store,
        now: AtomicU64::new(1 << 40),
        done: AtomicBool::new(false),
        full: AtomicU64::new(0),
    };
    std::thread::scope(|s| {
        let readers: Vec<_> = (0..3)
            .map(|n| {
                s.spawn({
                    let w = &w;
                    move || w.reader(100 + n)
                })
            })
            .collect();
        s.spawn(|| w.sweeper());
        let writers: Vec<_> = (0..3)
            .map(|n| {
                s.spawn({
                    let w = &w;
                    move || w.writer(n, operations)
                })
            })
            .collect();
        let ended: Vec<_> = writers.into_iter().map(|t| t.join()).collect();
        w.done.store(true, Ordering::Relaxed);
        let found: u64 = readers.into_iter().map(|t| t.join().unwrap()).sum();
        ended.into_iter().for_each(|e| e.unwrap());
        assert!(found > 1000, "{found}");
    });
    let full = w.full.load(Ordering::Relaxed);
    assert!(full < operations as u64 / 10, "{full} refused for lack of memory");
    assert!(w.store.stats(NS).evictions > operations as u64 / 4, "{:?}", w.store.stats(NS));
    even_accounts(&w);
}

/// When nobody is left, everything can be removed and every segment is freed.
fn even_accounts(w: &World) {
    w.store.flush(NS, w.now());
    (1..30).for_each(|i| {
        w.store.sweep(w.now() + i * 5000, 64 << 20);
    });
    let (s, t) = (w.store.stats(NS), w.store.totals());
    assert_eq!((s.items, s.bytes), (0, 0));
    assert_eq!((t.limbo, t.chained, t.staging), (0, 0, 0), "{t:?}");
}

#[test]
fn no_byte_moves_under_a_reader() {
    run(Policy::S3Fifo, 60_000);
}

#[test]
fn no_byte_moves_under_a_reader_fifo() {
    run(Policy::Fifo, 20_000);
}

#[test]
fn counters_lose_nothing() {
    let store = Store::open(Options {
        budget: 12 << 20,
        max_value: 2 << 20,
        policy: Policy::S3Fifo,
        seed: 1,
        threads: 4,
        ..Options::default()
    })
    .unwrap();
    store.set(NS, b"n", Put { value: &[b"0"], ..Put::default() }, 0).unwrap();
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| (0..5000).for_each(|_| assert!(store.incr(NS, b"n", 1, 0).is_ok())));
        }
    });
    assert_eq!(store.get(NS, b"n", 0).unwrap().head(), b"20000");
}

#[test]
fn slow_readers_keep_their_bytes_while_all_else_is_evicted() {
    let store = Store::open(Options {
        budget: 16 << 20,
        max_value: 2 << 20,
        policy: Policy::S3Fifo,
        seed: 1,
        threads: 2,
        ..Options::default()
    })
    .unwrap();
    let mut held = Vec::new();
    for key in 0..60_000u64 {
        let v = value(key, 1, if key % 3000 == 0 { 600_000 } else { 800 });
        store.set(NS, &key.to_le_bytes(), Put { value: &[&v], ..Put::default() }, 0).unwrap();
        if key % 3000 == 0 {
            held.push((key, store.get(NS, &key.to_le_bytes(), 0).unwrap()));
        }
        if held.len() > 8 {
            held.remove(0);
        }
    }
    assert!(store.totals().limbo > 0 || store.totals().chained > 0);
    held.iter().for_each(|(key, e)| check_entry(*key, e));
    held.clear();
    store.sweep(0, 0);
    assert_eq!(store.totals().limbo, 0);
}

/// More threads than processors, so that the writer is often stopped in the middle of moving
/// entries: readers once missed the entries of the first moved bucket.
#[test]
fn nothing_hides_while_the_index_grows() {
    let store = Store::open(Options {
        budget: 64 << 20,
        max_value: 2 << 20,
        policy: Policy::S3Fifo,
        seed: 1,
        threads: 4,
        ..Options::default()
    })
    .unwrap();
    const ITEMS: u64 = 400_000;
    let stored = AtomicU64::new(0);
    std::thread::scope(|s| {
        for t in 0..4 {
            let (store, stored) = (&store, &stored);
            s.spawn(move || {
                let mut state = t;
                loop {
                    let there = stored.load(Ordering::Acquire);
                    if there == ITEMS {
                        return;
                    }
                    for _ in 0..50 {
                        // The newest keys as often as any.
                        let r = random(&mut state);
                        let back = if r.is_multiple_of(2) { r >> 1 } else { (r >> 1) % 100 };
                        let key = there.saturating_sub(1 + back % there.max(1));
                        if there > 0 {
                            assert!(
                                store.get(NS, &key.to_le_bytes(), 0).is_some(),
                                "{key} of {there}"
                            );
                        }
                    }
                }
            });
        }
        for key in 0..ITEMS {
            store.set(NS, &key.to_le_bytes(), Put { value: &[b"v"], ..Put::default() }, 0).unwrap();
            stored.store(key + 1, Ordering::Release);
        }
    });
    assert_eq!((store.stats(NS).items, store.stats(NS).evictions), (ITEMS, 0));
    assert!(store.totals().index > 10, "it did grow: {:?}", store.totals());
}

/// While the entry is moved about by evictions, each write of it is claimed by one caller only.
#[test]
fn one_claim_for_each_write() {
    let options = Options { budget: 8 << 20, seed: 1, threads: 4, ..Options::default() };
    let store = Store::open(options).unwrap();
    let done = AtomicBool::new(false);
    let write = || store.set(NS, b"hot", Put { value: &[b"v"], ..Put::default() }, 0).unwrap();
    write();
    let mut won: Vec<u64> = std::thread::scope(|s| {
        let claimers: Vec<_> = (0..3)
            .map(|_| {
                s.spawn(|| {
                    let mut won = Vec::new();
                    while !done.load(Ordering::Relaxed) {
                        let entry = store.get(NS, b"hot", 0);
                        won.extend(entry.filter(|e| e.claim()).map(|e| e.version()));
                    }
                    won
                })
            })
            .collect();
        for n in 0..150_000u64 {
            store
                .set(
                    Namespace(4),
                    &n.to_le_bytes(),
                    Put { value: &[&[1; 700]], ..Put::default() },
                    0,
                )
                .unwrap();
            if n.is_multiple_of(500) {
                // Not before a thread has claimed the last one, or it was evicted.
                while store.peek(NS, b"hot", 0).is_some_and(|e| !e.claimed()) {
                    std::thread::yield_now();
                }
                write();
            }
        }
        done.store(true, Ordering::Relaxed);
        claimers.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    let claims = won.len();
    won.sort_unstable();
    won.dedup();
    assert!(claims == won.len() && claims > 100, "{claims} claims of {} writes", won.len());
}
