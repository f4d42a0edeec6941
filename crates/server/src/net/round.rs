//! Connections of one worker that have received something, answered one after the other.
//!
//! A round receives from some ready connections before it answers any of them, so that the memory
//! for their answers is fetched for all at once. Large rounds cost more than they gain: received
//! bytes leave the near caches, and clients wait for answers that could be ready.
//! (Measured: docs/notebook/rounds.md.)

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
};

/// Connections that receive for one round: each holds a receive buffer. Further ones that join
/// receive when their turn comes.
pub(crate) const MOST: usize = 64;
/// Connections received from before they are answered. Times all that are ready: 0.97 to 0.98 for
/// a get and 0.96 to 0.98 for a set of 100 B, 0.96 and 0.90 for those of 10 KB; with 4 0.98, 0.97
/// to 0.98, 0.95, 0.93; with 1 1.04, 1.02, 0.98 (set of 10 KB not run).
const GROUP: usize = 8;
/// Commands, and bytes received and sent, after which others of the worker get their turn: one or
/// two milliseconds of single commands, one of values of 10 KB. (With a quarter of the bytes a turn
/// ended within one look, and what was left of it was received from at once: with 1 MiB a get of 10
/// KB takes 0.98 to 0.99 of that, a set 0.96 to 0.98.)
const TURN: Work = Work { commands: 256, bytes: 1 << 20, task: false, late: false };
/// Microseconds after which a turn is over, whatever was done. The answers of 120 connections that
/// ask for large pages are few bytes before they are sent, and took 8 to 18 ms.
pub(crate) const TIME: u64 = 2000;
/// Connections that are answered between two looks at the clock, so that a hit pays an eighth of
/// one.
const LOOK: usize = GROUP;

/// Work done for a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) commands: usize,
    /// Received and sent.
    pub(crate) bytes: u64,
    /// A task was started: it is to have its turn.
    pub(crate) task: bool,
    /// Of a turn: its time is over.
    pub(crate) late: bool,
}

/// A connection that has received something.
pub(crate) trait Member {
    /// Prefetches the first memory that its answer needs, without waiting for it.
    fn fetch(&self);

    /// Prefetches the memory that the first leads to.
    fn fetch_more(&self);

    /// Answers it, without waiting for anything.
    fn answer(self: Rc<Self>) -> Work;
}

/// Connections that wait to be answered, in order.
#[derive(Default)]
pub(crate) struct Round {
    waiting: RefCell<VecDeque<Rc<dyn Member>>>,
    /// Connections answered since the last look at the clock.
    answered: Cell<usize>,
}

impl Round {
    /// Appends a connection.
    pub(crate) fn join(&self, member: Rc<dyn Member>) {
        self.waiting.borrow_mut().push_back(member);
    }

    /// Whether so many wait that further ones receive in their turn.
    pub(crate) fn is_crowded(&self) -> bool {
        self.waiting.borrow().len() >= MOST
    }

    /// Whether so many wait that they are answered before more is received.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.borrow().len() >= GROUP
    }

    /// Answers all in order, and adds the work to `done`. False: other tasks are to have their turn
    /// before the next call. `is_late` looks at the clock: is the time of the turn over? Memory is
    /// prefetched for the first [`MOST`] only: thousands may wait that others have woken, and each
    /// call would prefetch for all that are left.
    pub(crate) fn answer(&self, done: &mut Work, is_late: impl Fn() -> bool) -> bool {
        let is_over =
            |done: &Work| done.commands >= TURN.commands || done.bytes >= TURN.bytes || done.late;
        if !is_over(done) {
            let waiting = self.waiting.borrow();
            let next = || waiting.iter().take(MOST);
            next().for_each(|member| member.fetch());
            next().for_each(|member| member.fetch_more());
        }
        loop {
            if is_over(done) {
                return self.waiting.borrow().is_empty();
            }
            let Some(member) = self.waiting.borrow_mut().pop_front() else { return true };
            let work = member.answer();
            done.commands += work.commands;
            done.bytes += work.bytes;
            done.task |= work.task;
            let answered = self.answered.get() + 1;
            self.answered.set(answered % LOOK);
            done.late |= answered == LOOK && is_late();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        static FETCHED: Cell<usize> = const { Cell::new(0) };
    }

    struct Counted(Rc<Cell<usize>>, Work);

    impl Member for Counted {
        fn fetch(&self) {
            FETCHED.set(FETCHED.get() + 1);
        }

        fn fetch_more(&self) {}

        fn answer(self: Rc<Self>) -> Work {
            self.0.set(self.0.get() + 1);
            self.1
        }
    }

    #[test]
    fn memory_is_prefetched_for_as_many_as_a_call_answers() {
        let (round, answered) = (Round::default(), Rc::new(Cell::new(0)));
        let most = Work { commands: TURN.commands, ..Work::default() };
        (0..10 * MOST).for_each(|_| round.join(Rc::new(Counted(answered.clone(), most))));
        assert!(!round.answer(&mut Work::default(), || false));
        assert_eq!((answered.get(), FETCHED.take()), (1, MOST));
    }

    #[test]
    fn much_work_is_done_in_parts() {
        let (round, answered) = (Round::default(), Rc::new(Cell::new(0)));
        let join = |commands, bytes| {
            round.join(Rc::new(Counted(
                answered.clone(),
                Work { commands, bytes, ..Work::default() },
            )))
        };
        (0..3).for_each(|_| join(1, 100));
        assert_eq!((round.answer(&mut Work::default(), || false), answered.take()), (true, 3));
        assert!(
            round.answer(&mut Work::default(), || false) && answered.get() == 0,
            "nobody waits"
        );
        for (commands, bytes) in [(200, 0), (0, 800 * 1024)] {
            (0..5).for_each(|_| join(commands, bytes));
            assert_eq!((round.answer(&mut Work::default(), || false), answered.take()), (false, 2));
            assert_eq!((round.answer(&mut Work::default(), || false), answered.take()), (false, 2));
            assert_eq!((round.answer(&mut Work::default(), || false), answered.take()), (true, 1));
        }
    }

    /// Answers that are few bytes and commands, and take long.
    #[test]
    fn a_turn_ends_by_the_clock_and_the_rest_keep_their_places() {
        let (round, answered) = (Round::default(), Rc::new(Cell::new(0)));
        (0..40).for_each(|_| round.join(Rc::new(Counted(answered.clone(), Work::default()))));
        let (now, looks) = (|| answered.get() as u64 * 200, Cell::new(0));
        let mut turns = Vec::new();
        loop {
            let (before, began) = (answered.get(), now());
            let is_late = || {
                looks.set(looks.get() + 1);
                now() - began >= TIME
            };
            let all = round.answer(&mut Work::default(), is_late);
            turns.push(answered.get() - before);
            if all {
                break;
            }
        }
        // A turn is 10 of these, and ends at the next look.
        assert_eq!(turns, [16, 16, 8]);
        assert_eq!(looks.get(), 40 / LOOK);
    }
}
