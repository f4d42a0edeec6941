//! Precise waits.
//!
//! tokio's timers count milliseconds and round up, so that a wait of 300 ms takes 301. Here all
//! waits of a proxy are in one heap, and one `timerfd(2)` is set to the earliest: the kernel does
//! not round it, and timer slack (`prctl(2)`, `PR_SET_TIMERSLACK`) does not apply to timer
//! descriptors. The remaining error is the wakeup latency of the thread, reported in
//! [`super::Totals::late`].

use std::{
    cell::{Cell, RefCell},
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    future::Future,
    io,
    os::fd::OwnedFd,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// The waits of one thread.
#[derive(Clone)]
pub(super) struct Timer(Rc<Waits>);

struct Waits {
    fd: AsyncFd<OwnedFd>,
    /// Ends of waits; a wait without a waker was cancelled.
    ends: RefCell<BinaryHeap<Reverse<(Instant, u64)>>>,
    wakers: RefCell<HashMap<u64, Waker>>,
    armed: Cell<Option<Instant>>,
    next: Cell<u64>,
}

impl Timer {
    /// Must be called in a runtime; [`Timer::run`] must run beside the waiters.
    pub(super) fn new() -> io::Result<Timer> {
        let fd = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        // Unsound only if the descriptor is closed while registered; an OwnedFd is not closed
        // elsewhere.
        #[expect(
            deprecated,
            reason = "its successor is an unsafe function, and this crate has none"
        )]
        let fd = AsyncFd::new(fd)?;
        Ok(Timer(Rc::new(Waits {
            fd,
            ends: RefCell::default(),
            wakers: RefCell::default(),
            armed: Cell::new(None),
            next: Cell::new(0),
        })))
    }

    /// Wakes waits that are over. Returns only if the descriptor fails.
    pub(super) async fn run(self) -> io::Result<()> {
        loop {
            let mut ready = self.0.fd.readable().await?;
            match rustix::io::read(self.0.fd.get_ref(), &mut [0u8; 8]) {
                Ok(_) | Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
                Err(error) => return Err(error.into()),
            }
            self.0.armed.set(None);
            self.0.wake();
        }
    }

    /// Waits until `end`.
    pub(super) fn until(&self, end: Instant) -> Wait {
        Wait { waits: self.0.clone(), end, number: None }
    }
}

impl Waits {
    fn wake(&self) {
        let now = Instant::now();
        let mut ends = self.ends.borrow_mut();
        while let Some(Reverse((end, number))) = ends.peek().copied() {
            if end > now && self.wakers.borrow().contains_key(&number) {
                self.arm(end, now);
                return;
            }
            ends.pop();
            if let Some(waker) = self.wakers.borrow_mut().remove(&number) {
                waker.wake();
            }
        }
    }

    fn arm(&self, end: Instant, now: Instant) {
        if self.armed.get().is_some_and(|armed| armed <= end) {
            return;
        }
        // A time of zero would disarm it.
        let left = end.saturating_duration_since(now).max(Duration::from_nanos(1));
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let spec = Itimerspec { it_interval: zero, it_value: value };
        // Cannot fail with a valid descriptor and time.
        if timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::empty(), &spec).is_ok() {
            self.armed.set(Some(end));
        }
    }
}

/// A wait; see [`Timer::until`].
pub(super) struct Wait {
    waits: Rc<Waits>,
    end: Instant,
    number: Option<u64>,
}

impl Future for Wait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        if now >= self.end {
            return Poll::Ready(());
        }
        let number = match self.number {
            Some(number) => number,
            None => {
                let number = self.waits.next.get();
                self.waits.next.set(number + 1);
                self.waits.ends.borrow_mut().push(Reverse((self.end, number)));
                self.number = Some(number);
                number
            }
        };
        self.waits.wakers.borrow_mut().insert(number, context.waker().clone());
        self.waits.arm(self.end, now);
        Poll::Pending
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.waits.wakers.borrow_mut().remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::LocalSet;

    fn with_timer<F: Future>(work: impl FnOnce(Timer) -> F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let timer = Timer::new().unwrap();
            tokio::task::spawn_local(timer.clone().run());
            work(timer).await
        })
    }

    #[test]
    fn waits_end_in_their_order_and_not_before() {
        with_timer(|timer| async move {
            let begin = Instant::now();
            let order = RefCell::new(Vec::new());
            let wait = |ms| {
                let (timer, order) = (&timer, &order);
                async move {
                    timer.until(begin + Duration::from_millis(ms)).await;
                    assert!(begin.elapsed() >= Duration::from_millis(ms));
                    order.borrow_mut().push(ms);
                }
            };
            tokio::join!(wait(30), wait(5), wait(12), wait(5), wait(0));
            assert_eq!(*order.borrow(), [0, 5, 5, 12, 30]);
        });
    }

    #[test]
    fn a_wait_given_up_wakes_nobody_and_holds_nobody_up() {
        with_timer(|timer| async move {
            let begin = Instant::now();
            let early = timer.until(begin + Duration::from_millis(2));
            let late = timer.until(begin + Duration::from_millis(6));
            tokio::select! {
                biased;
                () = early => {}
                () = late => unreachable!("it is later"),
            }
            timer.until(begin + Duration::from_millis(10)).await;
            assert!(timer.0.wakers.borrow().is_empty());
        });
    }
}
