//! Turns of tasks that send much, or go on with long work.
//!
//! One turn of one connection is short, about a millisecond. But a client that reads nothing has
//! megabytes copied into its socket's buffers (6 MB on a loopback interface of Linux), and hundreds
//! of such clients are ready at once: their turns, one after the other, would keep the worker from
//! its sockets for a second. So these tasks stand in a queue. Those in front have their turns for
//! about a millisecond in all ([`WINDOW`]). Then the worker looks at its sockets, and answers what
//! has come, before the next has its turn. Tasks with little to send do not stand in this queue.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    future::poll_fn,
    rc::Rc,
    task::{Poll, Waker},
};

use crate::clock::Clock;

/// Bytes of answers from which sending them is a turn: some 80 microseconds of copying. All else
/// is sent at once: pages of 100 KB that wait in a queue cost some 7 % more.
pub(crate) const LARGE: u64 = 256 * 1024;
/// Microseconds after a look at the sockets in which turns may begin. A turn exceeds them by its
/// own length at most.
const WINDOW: u64 = 1000;

/// The queue of one worker.
pub(crate) struct Turns {
    clock: Clock,
    /// The last look at the sockets, in microseconds.
    looked: Cell<u64>,
    /// A task is called, and has not begun its turn yet.
    called: Cell<bool>,
    queue: RefCell<VecDeque<Rc<Waiter>>>,
}

/// A task in the queue.
#[derive(Default)]
struct Waiter {
    waker: Cell<Option<Waker>>,
    state: Cell<State>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Waits,
    Called,
    /// It does not wait any more.
    Left,
}

/// A task's place in the queue, until its turn begins. When it is dropped the next is called.
struct Place<'t> {
    turns: &'t Turns,
    waiter: Rc<Waiter>,
}

impl Turns {
    pub(super) fn new(clock: Clock) -> Self {
        let (looked, called, queue) = Default::default();
        Self { clock, looked, called, queue }
    }

    /// The worker looks at its sockets.
    pub(super) fn looked(&self, micros: u64) {
        self.looked.set(micros);
    }

    /// Whether a turn that begins now has to wait: others do, or the time is over.
    pub(crate) fn is_over(&self) -> bool {
        self.called.get() || self.is_late()
    }

    fn is_late(&self) -> bool {
        self.clock.micros().saturating_sub(self.looked.get()) >= WINDOW
    }

    /// Waits for the first turn of a task, unless there is time for it.
    pub(crate) async fn begin(&self) {
        if self.is_over() {
            self.next().await;
        }
    }

    /// Ends a task's turn and waits for its next one.
    pub(crate) async fn next(&self) {
        let place = self.enter();
        if place.waiter.state.get() == State::Called {
            // It is alone.
            self.look().await;
            return;
        }
        poll_fn(|cx| match place.waiter.state.get() {
            State::Called => Poll::Ready(()),
            _ => {
                place.waiter.waker.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        })
        .await;
        if self.is_late() {
            self.look().await;
        }
    }

    /// The runtime looks at the sockets, and the worker answers what has come.
    async fn look(&self) {
        tokio::task::yield_now().await;
        self.looked(self.clock.micros());
    }

    fn enter(&self) -> Place<'_> {
        let waiter = Rc::new(Waiter::default());
        if self.called.replace(true) {
            self.queue.borrow_mut().push_back(waiter.clone());
        } else {
            waiter.state.set(State::Called);
        }
        Place { turns: self, waiter }
    }

    /// Calls the first of the queue.
    fn call(&self) {
        let next = loop {
            let waiter = self.queue.borrow_mut().pop_front();
            match waiter {
                Some(waiter) if waiter.state.get() == State::Left => {}
                other => break other,
            }
        };
        self.called.set(next.is_some());
        if let Some(waiter) = next {
            waiter.state.set(State::Called);
            if let Some(waker) = waiter.waker.take() {
                waker.wake();
            }
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.waiter.state.replace(State::Left) == State::Called {
            self.turns.call();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::{LocalSet, spawn_local, yield_now};

    /// Runs `tasks`, and counts the looks at the sockets: turns of a task that always yields.
    fn run(tasks: impl FnOnce(&Rc<Turns>) -> Vec<tokio::task::JoinHandle<()>>) -> u64 {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let turns = Rc::new(Turns::new(Clock::start()));
        let looks = Rc::new(Cell::new(0));
        LocalSet::new().block_on(&runtime, async {
            let counted = looks.clone();
            let other = spawn_local(async move {
                loop {
                    counted.set(counted.get() + 1);
                    yield_now().await;
                }
            });
            for task in tasks(&turns) {
                let _ = task.await;
            }
            other.abort();
        });
        assert!(!turns.called.get() && turns.queue.borrow().is_empty());
        looks.get()
    }

    /// Waits until so many microseconds have passed: the work of a turn.
    fn work(clock: Clock, micros: u64) {
        let until = clock.micros() + micros;
        while clock.micros() < until {}
    }

    #[test]
    fn turns_are_in_order_and_each_long_one_is_followed_by_a_look() {
        let order = Rc::new(RefCell::new(Vec::new()));
        let looks = run(|turns| {
            let task = |number: usize| {
                let (turns, order) = (turns.clone(), order.clone());
                spawn_local(async move {
                    turns.begin().await;
                    for _ in 0..3 {
                        order.borrow_mut().push(number);
                        work(turns.clock, WINDOW);
                        turns.next().await;
                    }
                })
            };
            (0..20).map(task).collect()
        });
        // The first one is alone when its first turn ends: the others have not begun yet. Or it is
        // late itself, and stands in the queue as they do.
        let [alone, late] = [vec![0..1, 0..20, 0..20, 1..20], vec![0..20; 3]]
            .map(|rounds| rounds.into_iter().flatten().collect::<Vec<usize>>());
        let order = order.borrow();
        assert!(*order == alone || *order == late, "{order:?}");
        assert!(looks >= 60, "{looks} looks for 60 long turns");
    }

    #[test]
    fn tasks_that_leave_the_queue_do_not_hold_up_others() {
        let done = Rc::new(Cell::new(0));
        run(|turns| {
            let task = |number: usize| {
                let (turns, done) = (turns.clone(), done.clone());
                spawn_local(async move {
                    for round in 0..4 {
                        let next = turns.next();
                        if (number + round).is_multiple_of(3) {
                            // It is polled once, and dropped.
                            let mut next = std::pin::pin!(next);
                            poll_fn(|cx| {
                                let _ = next.as_mut().poll(cx);
                                Poll::Ready(())
                            })
                            .await;
                        } else {
                            next.await;
                        }
                    }
                    done.set(done.get() + 1);
                })
            };
            (0..50).map(task).collect()
        });
        assert_eq!(done.get(), 50);
    }

    #[test]
    fn short_turns_share_a_look() {
        let turns_taken = Rc::new(Cell::new(0));
        let looks = run(|turns| {
            let task = |_| {
                let (turns, taken) = (turns.clone(), turns_taken.clone());
                spawn_local(async move {
                    for _ in 0..10 {
                        turns.next().await;
                        taken.set(taken.get() + 1);
                    }
                })
            };
            (0..100).map(task).collect()
        });
        assert_eq!(turns_taken.get(), 1000);
        assert!(looks < 1000, "{looks} looks for 1,000 short turns");
    }
}
