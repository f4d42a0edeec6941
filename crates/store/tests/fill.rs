//! Streaming fills: followers, abandonment, limits, memory.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{open, value};
use larder_store::*;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};

const NS: Namespace = Namespace(0);

fn data(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 253) as u8).collect()
}

/// Runs a future on this thread.
fn block_on<F: Future>(f: F) -> F::Output {
    struct Signal(Mutex<bool>, Condvar);
    impl Wake for Signal {
        fn wake(self: Arc<Self>) {
            *self.0.lock().unwrap() = true;
            self.1.notify_one();
        }
    }
    let signal = Arc::new(Signal(Mutex::new(false), Condvar::new()));
    let waker = Waker::from(signal.clone());
    let mut f = pin!(f);
    loop {
        if let Poll::Ready(r) = f.as_mut().poll(&mut Context::from_waker(&waker)) {
            return r;
        }
        let mut woken = signal.0.lock().unwrap();
        while !*woken {
            woken = signal.1.wait(woken).unwrap();
        }
        *woken = false;
    }
}

/// All bytes a follower gets, and how the fill ends.
async fn follow(reader: FillReader<'_>) -> (Vec<u8>, FillState) {
    let mut got = Vec::new();
    loop {
        let at = got.len() as u64;
        match std::future::poll_fn(|cx| reader.poll(at, cx)).await {
            FillState::Grown => got.extend_from_slice(reader.chunk_at(at)),
            end => return (got, end),
        }
    }
}

fn options(size_hint: Option<u64>, contiguous: usize) -> FillOptions {
    FillOptions { flags: 5, expires: None, size_hint, contiguous }
}

fn idle(s: &Store) -> bool {
    s.sweep(0, 0);
    let t = s.totals();
    (t.staging, t.limbo) == (0, 0)
}

#[test]
fn every_size_arrives_with_and_without_a_hint() {
    for budget in [16 << 20, 300 << 20] {
        let s = open(budget);
        for size in [
            0,
            1,
            1000,
            20_000,
            130_000,
            261_000,
            262_144,
            262_145,
            400_000,
            700_000,
            1 << 20,
            1_100_000,
            3_000_000,
        ] {
            let bytes = data(size);
            for hint in [None, Some(size as u64), Some(size as u64 / 2), Some(size as u64 + 9)] {
                for contiguous in [0, 64 << 10, MAX_CONTIGUOUS] {
                    let mut fill = s.fill(NS, b"key", options(hint, contiguous), 0).unwrap();
                    let reader = fill.reader();
                    bytes.chunks(7001).for_each(|c| fill.write(c).unwrap());
                    let version = fill.commit(Some(50), 0).unwrap();
                    let e = s.get(NS, b"key", 0).unwrap();
                    assert_eq!((e.version(), e.flags(), e.expires()), (version, 5, Some(50)));
                    assert!(value(&e) == bytes, "{size} {hint:?} {contiguous}");
                    assert!(
                        e.head().len() >= contiguous.min(size),
                        "{size} {hint:?} {contiguous} {}",
                        e.head().len()
                    );
                    assert!(
                        block_on(follow(reader))
                            == (bytes.clone(), FillState::Done { len: size as u64 })
                    );
                }
            }
        }
        assert!(idle(&s), "{:?}", s.totals());
        s.delete(NS, b"key", 0);
        assert_eq!(s.totals().chained, 0);
    }
}

#[test]
fn followers_on_other_threads_see_it_grow() {
    let s = open(64 << 20);
    let bytes = data(2_000_000);
    let mut fill = s.fill(NS, b"k", options(None, 65536), 0).unwrap();
    std::thread::scope(|scope| {
        let followers: Vec<_> =
            (0..3).map(|_| fill.reader()).map(|r| scope.spawn(|| block_on(follow(r)))).collect();
        bytes.chunks(3000).for_each(|c| fill.write(c).unwrap());
        assert!(s.get(NS, b"k", 0).is_none(), "not there before the commit");
        fill.commit(None, 0).unwrap();
        for f in followers {
            assert!(f.join().unwrap() == (bytes.clone(), FillState::Done { len: 2_000_000 }));
        }
    });
    assert!(idle(&s), "{:?}", s.totals());
}

#[test]
fn an_abandoned_fill_leaves_nothing() {
    let s = open(64 << 20);
    s.set(NS, b"k", Put { value: &[b"before"], ..Put::default() }, 0).unwrap();
    let mut fill = s.fill(NS, b"k", options(None, 0), 0).unwrap();
    fill.write(&data(900_000)).unwrap();
    let reader = fill.reader();
    drop(fill);
    assert_eq!(s.get(NS, b"k", 0).unwrap().head(), b"before");
    let (got, end) = block_on(follow(reader.clone()));
    assert!(got == data(900_000) && end == FillState::Aborted);
    assert!(s.totals().staging > 0, "the reader still holds the bytes");
    drop(reader);
    assert!(idle(&s) && s.totals().chained == 0, "{:?}", s.totals());
}

#[test]
fn a_waiting_follower_is_woken_once_for_each_change() {
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let s = open(16 << 20);
    let mut fill = s.fill(NS, b"k", options(None, 0), 0).unwrap();
    let reader = fill.reader();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(count.clone());
    let cx = &mut Context::from_waker(&waker);
    assert!(reader.poll(0, cx).is_pending() && reader.poll(0, cx).is_pending());
    fill.write(b"x").unwrap();
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    assert_eq!(reader.poll(0, cx), Poll::Ready(FillState::Grown));
    assert!(reader.poll(1, cx).is_pending());
    drop(fill);
    assert_eq!(count.0.load(Ordering::SeqCst), 2);
    assert_eq!(reader.poll(1, cx), Poll::Ready(FillState::Aborted));
}

#[test]
fn limits() {
    let s = Store::open(Options {
        budget: 64 << 20,
        max_value: 1_000_000,
        policy: Policy::S3Fifo,
        seed: 1,
        threads: 1,
        ..Options::default()
    })
    .unwrap();
    assert_eq!(s.fill(NS, b"k", options(Some(1_000_001), 0), 0).unwrap_err(), PutError::TooLarge);
    let mut fill = s.fill(NS, b"k", options(None, 0), 0).unwrap();
    let reader = fill.reader();
    fill.write(&data(999_999)).unwrap();
    assert_eq!(fill.write(b"ab"), Err(PutError::TooLarge));
    assert_eq!(fill.write(b"a"), Err(PutError::TooLarge), "nothing can be written any more");
    assert_eq!(fill.commit(None, 0), Err(PutError::TooLarge));
    let (got, end) = block_on(follow(reader));
    assert!(got == data(999_999) && end == FillState::Aborted);
    assert!(s.get(NS, b"k", 0).is_none());
}

#[test]
fn too_many_fills_are_refused_and_the_rest_goes_on() {
    let s = open(16 << 20);
    let mut fills = Vec::new();
    let error = loop {
        match s.fill(NS, &fills.len().to_be_bytes(), options(None, MAX_CONTIGUOUS), 0) {
            Ok(f) => fills.push(f),
            Err(e) => break e,
        }
    };
    assert_eq!(error, PutError::Full);
    assert!(fills.len() > 80, "{}", fills.len());
    assert!(fills.iter_mut().all(|f| f.write(b"still works").is_ok()));
    fills.truncate(10);
    s.set(NS, b"k", Put { value: &[b"v"], ..Put::default() }, 0).unwrap();
    for f in fills.drain(..) {
        f.commit(None, 0).unwrap();
    }
    assert_eq!(s.get(NS, &9usize.to_be_bytes(), 0).unwrap().head(), b"still works");
    assert!(idle(&s), "{:?}", s.totals());
}

#[test]
fn followers_keep_the_bytes_when_the_entry_is_evicted() {
    let s = open(16 << 20);
    let bytes = data(1_500_000);
    let mut fill = s.fill(NS, b"big", options(Some(1_500_000), 65536), 0).unwrap();
    let reader = fill.reader();
    fill.write(&bytes).unwrap();
    fill.commit(None, 0).unwrap();
    for n in 0..100_000u32 {
        s.set(NS, &n.to_be_bytes(), Put { value: &[&[n as u8; 700]], ..Put::default() }, 0)
            .unwrap();
    }
    assert!(s.peek(NS, b"big", 0).is_none(), "evicted");
    assert!(block_on(follow(reader)).0 == bytes);
    assert!(idle(&s), "{:?}", s.totals());
}

#[test]
fn tags_of_a_fill() {
    let s = open(16 << 20);
    let mut fill = s.fill(NS, b"k", options(None, 0), 0).unwrap();
    fill.write(b"v").unwrap();
    fill.set_tags(&[b"a", b"b", b"a"]);
    fill.commit(None, 0).unwrap();
    assert_eq!(s.purge_tag(NS, b"b", false, 0), 1);
    assert!(s.get(NS, b"k", 0).is_none());
}
