//! Progress of a fill, and the tasks that wait for it. `tests/loom.rs` runs this module through
//! every interleaving.

use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering};
use crate::types::FillState;
use std::task::{Context, Poll, Waker};

const FILLING: u32 = 0;
const DONE: u32 = 1;
const ABORTED: u32 = 2;

/// Written by the only writer of a fill, watched by its followers.
#[derive(Debug)]
pub struct Progress {
    written: AtomicU64,
    state: AtomicU32,
    /// One per waiting follower at most (a follower that polls again finds its waker here and adds
    /// none).
    wakers: Mutex<Vec<Waker>>,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress {
            written: AtomicU64::new(0),
            state: AtomicU32::new(FILLING),
            wakers: Mutex::new(Vec::new()),
        }
    }
}

impl Progress {
    /// Bytes that may be read.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Announces `n` more bytes.
    pub fn advance(&self, n: u64) {
        self.written.fetch_add(n, Ordering::Release);
        self.wake();
    }

    /// Ends the fill: complete (`whole`), or abandoned.
    pub fn finish(&self, whole: bool) {
        self.state.store(if whole { DONE } else { ABORTED }, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        // A follower checks again after it has put its waker here, under this lock: it either sees
        // the change or is woken.
        let wakers = std::mem::take(&mut *self.wakers.lock());
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The state for a follower that has `offset` bytes.
    pub fn poll(&self, offset: u64, cx: &mut Context<'_>) -> Poll<FillState> {
        if let Some(news) = self.news(offset) {
            return Poll::Ready(news);
        }
        let mut wakers = self.wakers.lock();
        if let Some(news) = self.news(offset) {
            return Poll::Ready(news);
        }
        if !wakers.iter().any(|w| w.will_wake(cx.waker())) {
            wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }

    fn news(&self, offset: u64) -> Option<FillState> {
        // The state first: it is set after the last byte.
        let state = self.state.load(Ordering::Acquire);
        let written = self.written();
        match state {
            _ if written > offset => Some(FillState::Grown),
            DONE => Some(FillState::Done { len: written }),
            ABORTED => Some(FillState::Aborted),
            _ => None,
        }
    }
}
