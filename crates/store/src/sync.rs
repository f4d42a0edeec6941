//! The atomics and locks of the parts that `loom` models: std's and parking_lot's, or loom's own
//! under `cfg(loom)`.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(not(loom))]
pub(crate) use parking_lot::Mutex;
#[cfg(not(loom))]
use std::cell::{Cell, OnceCell};

/// loom's mutex with parking_lot's signature.
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

#[cfg(loom)]
impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.0.lock().expect("no model thread panics with the lock")
    }
}

/// Number of this thread: small, dense and unique among running threads; numbers of finished
/// threads are reused. A word without a destructor, so that reading it is one load.
#[cfg(not(loom))]
#[inline]
pub(crate) fn thread_number() -> usize {
    let number = NUMBER.get();
    if number != usize::MAX {
        return number;
    }
    let number = number_thread();
    NUMBER.set(number);
    number
}

/// Adds to one of a thread's counters. There is a row for each thread number and a last one for all
/// further threads. A row with one writer needs no locked instruction, which costs as much as
/// twenty others.
#[cfg(not(loom))]
#[inline]
pub(crate) fn count<R>(rows: &[R], counter: impl Fn(&R) -> &AtomicU64, n: u64) {
    let Some(last) = rows.len().checked_sub(1) else { return };
    let number = thread_number();
    if number < last {
        let own = counter(&rows[number]);
        own.store(own.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    } else {
        counter(&rows[last]).fetch_add(n, Ordering::Relaxed);
    }
}

/// The number of threads without a number of their own: while their thread-locals are destroyed.
#[cfg(not(loom))]
const NOBODY: usize = usize::MAX >> 1;

#[cfg(not(loom))]
thread_local!(static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) });

/// Takes a number, and releases it when the thread ends.
#[cfg(not(loom))]
#[cold]
fn number_thread() -> usize {
    static FREE: Mutex<(usize, Vec<usize>)> = Mutex::new((0, Vec::new()));
    struct Number(usize);
    impl Drop for Number {
        fn drop(&mut self) {
            NUMBER.set(NOBODY);
            FREE.lock().1.push(self.0);
        }
    }
    thread_local!(static HELD: OnceCell<Number> = const { OnceCell::new() });
    let take = || {
        let mut free = FREE.lock();
        if let Some(n) = free.1.pop() {
            return Number(n);
        }
        free.0 += 1;
        Number(free.0 - 1)
    };
    HELD.try_with(|n| n.get_or_init(take).0).unwrap_or(NOBODY)
}

#[cfg(loom)]
pub(crate) fn thread_number() -> usize {
    // The models give every thread its own row by hand.
    0
}
