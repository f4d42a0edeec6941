//! Every interleaving of readers, evictors, writers of fills and their followers. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p larder-store --test loom --release`
#![cfg(loom)]
#![allow(missing_docs, clippy::unwrap_used)]

use larder_store::FillState;
use larder_store::pin::PinTable;
use larder_store::progress::Progress;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use std::task::{Context, Poll, Wake, Waker};

const SEGMENT: u32 = 0;
const SLOT: u64 = 7;

/// One slot, one segment, its bytes (a cell in which loom sees every race).
struct World {
    pins: PinTable,
    slot: AtomicU64,
    bytes: UnsafeCell<u64>,
}

impl World {
    fn new() -> Arc<World> {
        Arc::new(World {
            pins: PinTable::new(1, 0),
            slot: AtomicU64::new(SLOT),
            bytes: UnsafeCell::new(1),
        })
    }

    /// Reads as `Store::get` does, on a row of its own.
    fn read(&self, row: usize) {
        let seen = self.slot.load(Ordering::Acquire);
        if seen != SLOT {
            return;
        }
        if let Some(pin) = self.pins.pin_row(row, SEGMENT, &self.slot, seen) {
            // SAFETY: the model checks that no write happens meanwhile.
            assert_eq!(self.bytes.with(|b| unsafe { *b }), 1, "a byte moved under a pin");
            drop(pin);
        }
    }

    /// Evicts as `Store::evict` does; true if the segment could be reused, and then reuses it.
    fn evict(&self) -> bool {
        self.slot.store(0, Ordering::Release);
        let free = !self.pins.pinned(SEGMENT);
        if free {
            // SAFETY: the model checks that nobody reads meanwhile.
            self.bytes.with_mut(|b| unsafe { *b = 2 });
        }
        free
    }
}

#[test]
fn a_pinned_segment_is_not_reused() {
    loom::model(|| {
        let w = World::new();
        let reader = thread::spawn({
            let w = w.clone();
            move || w.read(1)
        });
        let freed = w.evict();
        reader.join().unwrap();
        // A segment set aside is free once the reader has left.
        assert!(freed || !w.pins.pinned(SEGMENT));
    });
}

#[test]
fn two_readers_and_an_evictor() {
    loom::model(|| {
        let w = World::new();
        let readers = [0, 1].map(|row| {
            let w = w.clone();
            thread::spawn(move || w.read(row))
        });
        w.evict();
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

#[test]
fn a_moved_entry_is_found_in_one_of_its_places() {
    // The index moves a slot by writing the new place first; a reader looks at the old one first.
    loom::model(|| {
        let slots = Arc::new([AtomicU64::new(SLOT), AtomicU64::new(0)]);
        let mover = thread::spawn({
            let slots = slots.clone();
            move || {
                slots[1].store(SLOT, Ordering::Release);
                slots[0].store(0, Ordering::Release);
            }
        });
        let found = slots.iter().any(|s| s.load(Ordering::Acquire) == SLOT);
        assert!(found);
        mover.join().unwrap();
    });
}

#[test]
fn the_evictor_of_the_new_place_and_a_reader_of_the_old() {
    // The entry is copied elsewhere and the slot points there, then the old segment is reused.
    loom::model(|| {
        let w = World::new();
        let reader = thread::spawn({
            let w = w.clone();
            move || w.read(0)
        });
        w.slot.store(SLOT + 1, Ordering::SeqCst);
        if !w.pins.pinned(SEGMENT) {
            // SAFETY: the model checks that nobody reads meanwhile.
            w.bytes.with_mut(|b| unsafe { *b = 2 });
        }
        reader.join().unwrap();
    });
}

struct Wakes(std::sync::atomic::AtomicUsize);

impl Wake for Wakes {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Wakes {
    fn new() -> (std::sync::Arc<Wakes>, Waker) {
        let wakes = std::sync::Arc::new(Wakes(Default::default()));
        (wakes.clone(), wakes.into())
    }

    fn number(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// A follower that is told to wait is woken afterwards, and then sees the change.
fn follower_is_not_forgotten(end: fn(&Progress), expected: FillState) {
    loom::model(move || {
        let progress = Arc::new(Progress::default());
        let writer = thread::spawn({
            let progress = progress.clone();
            move || end(&progress)
        });
        let (wakes, waker) = Wakes::new();
        let first = progress.poll(0, &mut Context::from_waker(&waker));
        writer.join().unwrap();
        match first {
            Poll::Ready(state) => assert_eq!(state, expected),
            Poll::Pending => {
                assert_eq!(wakes.number(), 1);
                assert_eq!(
                    progress.poll(0, &mut Context::from_waker(&waker)),
                    Poll::Ready(expected)
                );
            }
        }
    });
}

#[test]
fn growth_wakes() {
    follower_is_not_forgotten(|p| p.advance(3), FillState::Grown);
}

#[test]
fn abandonment_wakes() {
    follower_is_not_forgotten(|p| p.finish(false), FillState::Aborted);
}

#[test]
fn the_end_is_never_seen_before_the_last_byte() {
    loom::model(|| {
        let progress = Arc::new(Progress::default());
        let bytes = Arc::new(UnsafeCell::new(0u64));
        let writer = thread::spawn({
            let (progress, bytes) = (progress.clone(), bytes.clone());
            move || {
                // SAFETY: the model checks that nobody reads before `advance`.
                bytes.with_mut(|b| unsafe { *b = 5 });
                progress.advance(1);
                progress.finish(true);
            }
        });
        let (_wakes, waker) = Wakes::new();
        match progress.poll(0, &mut Context::from_waker(&waker)) {
            // SAFETY: the model checks that nobody writes any more.
            Poll::Ready(FillState::Grown) => assert_eq!(bytes.with(|b| unsafe { *b }), 5),
            Poll::Ready(other) => panic!("{other:?} with a byte unread"),
            Poll::Pending => {}
        }
        writer.join().unwrap();
    });
}
