//! A short mix of operations for an interpreter that watches every access. Run with
//! `cargo +nightly miri test -p larder-store --test miri` (needs
//! `rustup component add miri rust-src --toolchain nightly`; about a minute). Without miri it is a
//! quick test as well.
#![allow(missing_docs, clippy::unwrap_used)]

use larder_store::*;

const NS: Namespace = Namespace(0);

fn put<'a>(value: &'a [&'a [u8]], tags: &'a [&'a [u8]], expires: Option<Ms>) -> Put<'a> {
    Put { value, flags: 7, expires, tags, ..Put::default() }
}

fn value(e: &Entry<'_>) -> Vec<u8> {
    e.chunks().collect::<Vec<_>>().concat()
}

#[test]
fn a_little_of_everything() {
    let options = Options {
        budget: 8 << 20,
        max_value: 1 << 30,
        policy: Policy::S3Fifo,
        seed: 1,
        threads: 1,
        ..Options::default()
    };
    let s = Store::open(options).unwrap();
    entries(&s);
    fills(&s);
    eviction(&s);
    threads(&s);
    s.flush(NS, 50);
    (0..12).for_each(|i| {
        s.sweep(5000 * i, 8 << 20);
    });
    assert_eq!(s.stats(NS).items, 0);
}

fn entries(s: &Store) {
    let v = s.set(NS, b"a", put(&[b"on", b"e"], &[b"t", b"u"], Some(100)), 10).unwrap();
    let held = s.get(NS, b"a", 10).unwrap();
    assert_eq!(
        (held.head(), held.flags(), held.expires(), held.version()),
        (&b"one"[..], 7, Some(100), v)
    );
    s.append(NS, b"a", &[b"two"], 11).unwrap();
    assert!(s.touch(NS, b"a", None, 11).is_ok() && s.touch(NS, b"a", Some(1 << 50), 11).is_ok());
    assert!(s.mark_stale(NS, b"a", 11));
    assert_eq!(
        (value(&s.peek(NS, b"a", 12).unwrap()), held.head()),
        (b"onetwo".to_vec(), &b"one"[..])
    );
    assert_eq!(s.purge_tag(NS, b"u", false, 12), 1);
    s.set(NS, b"n", put(&[b"9"], &[], None), 12).unwrap();
    assert_eq!(s.incr(NS, b"n", 1, 12).unwrap().value, 10);
    let mine = Put { value: &[b"v"], version: Some(99), stale: true, ..Put::default() };
    assert_eq!(s.put(NS, b"c", mine, If::Absent, 12), Ok(99));
    let mut hint = s.prefetch(NS, b"c");
    s.prefetch_record(&mut hint);
    let e = s.get_hinted(hint, NS, b"c", 12).unwrap();
    assert!(e.claim() && !e.claim() && e.stale() && s.touch_same(&e, Some(1 << 50), 12).is_ok());
    assert!(random_key(s, NS, 5, 12).is_some() && !s.delete_same(&e, 12));
    assert!(
        s.peek(NS, b"c", 12)
            .is_some_and(|e| e.claimed() && e.version() == 99 && s.delete_same(&e, 12))
    );
    let mut seen = 0;
    let mut count = |_: &[u8], _: &EntryInfo| {
        seen += 1;
        Keep::Delete
    };
    assert_eq!(s.scan(NS, Cursor::START, 1 << 30, &mut count), None);
    assert_eq!((seen, s.stats(NS).items), (1, 0));
}

fn fills(s: &Store) {
    let bytes: Vec<u8> = b"0123456".repeat(50_000);
    for (hint, commit) in [(None, true), (Some(350_000), true), (None, false)] {
        let o = FillOptions { size_hint: hint, contiguous: 1000, ..FillOptions::default() };
        let mut fill = s.fill(NS, b"big", o, 20).unwrap();
        let reader = fill.reader();
        fill.write(&bytes).unwrap();
        if commit {
            fill.commit(None, 20).unwrap();
            assert!(value(&s.get(NS, b"big", 20).unwrap()) == bytes);
        } else {
            drop(fill);
        }
        assert_eq!(reader.chunk_at(349_999), *b"6");
    }
}

fn eviction(s: &Store) {
    let held = s.get(NS, b"big", 30).unwrap();
    let chunk = [3; 60_000];
    for n in 0..200u32 {
        s.set(NS, &n.to_be_bytes(), put(&[&chunk], &[], None), 30).unwrap();
        s.get(NS, &(n / 2).to_be_bytes(), 30);
    }
    assert!(s.stats(NS).evictions > 50);
    for n in 0..40u32 {
        s.set(Namespace(7), &n.to_be_bytes(), put(&[&chunk], &[], None), 30).unwrap();
    }
    assert!(s.stats(Namespace(7)).bytes <= (1 << 20) + s.share_slack());
    assert_eq!(held.chunk_at(349_999), *b"6");
}

fn threads(s: &Store) {
    std::thread::scope(|scope| {
        for t in 0..2u8 {
            scope.spawn(move || {
                for n in 0..60u8 {
                    let key = [n % 7];
                    s.set(NS, &key, put(&[&[n; 900]], &[b"t"], None), 40).unwrap();
                    if let Some(e) = s.get(NS, &[(n + t) % 7], 40) {
                        assert_eq!((e.len(), e.head()[0]), (900, e.head()[899]));
                    }
                }
            });
        }
    });
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
