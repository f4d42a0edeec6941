//! The requests of one connection that are under way.

use std::{
    cell::RefCell,
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use super::{layer::Layer, plan::Fate, queue::Begin};

/// A request without a whole answer.
pub(super) struct Open {
    pub(super) number: u64,
    pub(super) text: Option<Arc<str>>,
    pub(super) came: Instant,
    pub(super) held: Duration,
    hold_answer: Duration,
    down: Vec<Layer>,
    progress: Progress,
}

/// What was read of an answer; the client may have less of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    Nothing,
    Begun,
    Ended,
}

/// They are in the order in which they came, which is that of their answers. Whoever adds one waits before there are too many.
#[derive(Default)]
pub(super) struct Asked {
    open: RefCell<VecDeque<Open>>,
    fewer: Notify,
}

impl Asked {
    pub(super) fn len(&self) -> usize {
        self.open.borrow().len()
    }

    /// Returns when there are fewer, or when more are allowed.
    pub(super) async fn fewer(&self) {
        self.fewer.notified().await;
    }

    /// To be looked at anew by who waits for [`Asked::fewer`].
    pub(super) fn look(&self) {
        self.fewer.notify_one();
    }

    pub(super) fn push(&self, number: u64, text: Option<Arc<str>>, came: Instant, fate: Fate) {
        let Fate { hold_answer, down, .. } = fate;
        let (held, progress) = (Duration::ZERO, Progress::Nothing);
        self.open.borrow_mut().push_back(Open { number, text, came, held, hold_answer, down, progress });
    }

    /// Whether there is one that the server has said nothing about.
    pub(super) fn waits(&self) -> bool {
        self.open.borrow().back().is_some_and(|open| open.progress == Progress::Nothing)
    }

    /// A delay of a request, or of its answer, is over.
    pub(super) fn held(&self, number: u64, time: Duration) {
        if let Some(open) = self.open.borrow_mut().iter_mut().find(|open| open.number == number) {
            open.held += time;
        }
    }

    /// The answer to the oldest request that had none begins. Gives how long it is held.
    pub(super) fn answer_begins(&self) -> Option<(Duration, Begin)> {
        let mut asked = self.open.borrow_mut();
        let open = asked.iter_mut().find(|open| open.progress == Progress::Nothing)?;
        open.progress = Progress::Begun;
        Some((open.hold_answer, Begin { number: open.number, layers: std::mem::take(&mut open.down) }))
    }

    /// So many of the oldest answers end, whether they had begun or not.
    pub(super) fn answers_end(&self, count: usize) {
        let mut asked = self.open.borrow_mut();
        let ended = asked.iter_mut().filter(|open| open.progress != Progress::Ended).take(count);
        ended.for_each(|open| open.progress = Progress::Ended);
    }

    /// Takes away the oldest.
    pub(super) fn pop(&self) -> Option<Open> {
        self.fewer.notify_one();
        self.open.borrow_mut().pop_front()
    }

    /// Takes away the oldest if its answer has begun.
    pub(super) fn pop_begun(&self) -> Option<Open> {
        let begun = self.open.borrow().front().is_some_and(|open| open.progress != Progress::Nothing);
        if begun { self.pop() } else { None }
    }
}
