//! Queue of operations from callers to a connection's task.
//!
//! The task takes everything queued at once. The queue itself has no limit: each operation holds a
//! permit of the `peer` semaphore. A task that ends, for example with its runtime, drops the queued
//! operations; the next operation starts a new task.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

/// Capacity above which the buffer is released once emptied.
const KEPT: usize = 1024;

/// Queued operations. The lock is held briefly, never across an await.
#[derive(Debug)]
pub(crate) struct Queue<T>(Mutex<State<T>>);

#[derive(Debug)]
struct State<T> {
    jobs: VecDeque<T>,
    /// Waker of the task, while it waits.
    waker: Option<Waker>,
    /// A task is running.
    served: bool,
    /// No more operations will come.
    closed: bool,
}

/// The task's end of a queue.
#[derive(Debug)]
pub(crate) struct Jobs<T> {
    queue: Arc<Queue<T>>,
    taken: VecDeque<T>,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Arc<Queue<T>> {
        let state = State { jobs: VecDeque::new(), waker: None, served: false, closed: false };
        Arc::new(Queue(Mutex::new(state)))
    }

    /// Enqueues an operation. `Some`: no task is running; the caller starts one with this.
    pub(crate) fn put(self: &Arc<Self>, job: T) -> Option<Jobs<T>> {
        let mut state = self.lock();
        state.jobs.push_back(job);
        let served = std::mem::replace(&mut state.served, true);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        (!served).then(|| Jobs { queue: self.clone(), taken: VecDeque::new() })
    }

    /// Closes the queue: the task ends when it has taken everything.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Jobs<T> {
    /// Ready with true if there is an operation to take, with false if the queue is closed and
    /// empty. While pending, the next enqueued operation wakes the task.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if !self.taken.is_empty() {
            return Poll::Ready(true);
        }
        let mut state = self.queue.lock();
        match (state.jobs.is_empty(), state.closed) {
            (false, _) => Poll::Ready(true),
            (true, true) => Poll::Ready(false),
            (true, false) => {
                match &mut state.waker {
                    Some(waker) => waker.clone_from(cx.waker()),
                    none => *none = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
        }
    }

    /// Waits for an operation; false: the queue is closed and empty.
    pub(crate) async fn wait(&mut self) -> bool {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    /// Takes the first operation.
    pub(crate) fn take(&mut self) -> Option<T> {
        if self.taken.is_empty() {
            if self.taken.capacity() > KEPT {
                self.taken = VecDeque::new();
            }
            std::mem::swap(&mut self.queue.lock().jobs, &mut self.taken);
        }
        self.taken.pop_front()
    }
}

impl<T> Drop for Jobs<T> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.served = false;
        let left = (std::mem::take(&mut state.jobs), state.waker.take());
        drop(state);
        // Dropping an operation notifies its caller: outside the lock.
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_put_in_is_taken_in_order_and_then_it_ends() {
        let queue = Queue::new();
        let mut jobs = queue.put(0).expect("the first begins a task");
        assert!((1..3000).all(|n| queue.put(n).is_none()), "and no other does");
        let taker = tokio::spawn(async move {
            let mut all = Vec::new();
            while jobs.wait().await {
                while let Some(job) = jobs.take() {
                    all.push(job);
                }
                assert_eq!(jobs.take(), None);
            }
            all
        });
        for n in 3000..3010 {
            // The task waits, and each operation wakes it.
            tokio::task::yield_now().await;
            assert!(queue.put(n).is_none());
        }
        queue.close();
        assert_eq!(taker.await.expect("the task"), (0..3010).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_task_that_ends_drops_what_is_left_and_another_is_begun() {
        let queue = Queue::new();
        let dropped = Arc::new(());
        let mut jobs = queue.put(dropped.clone()).expect("a task");
        assert!(jobs.take().is_some());
        assert!(queue.put(dropped.clone()).is_none() && queue.put(dropped.clone()).is_none());
        drop(jobs);
        assert_eq!(Arc::strong_count(&dropped), 1);
        let mut jobs = queue.put(dropped.clone()).expect("another");
        assert!(jobs.wait().await && jobs.take().is_some() && jobs.take().is_none());
    }
}
