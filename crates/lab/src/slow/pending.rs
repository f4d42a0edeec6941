//! Pending requests of one connection.

use std::{
    cell::RefCell,
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use super::{layer::Layer, plan::RequestFaults, queue::Begin};

/// A request without a complete answer.
pub(super) struct PendingRequest {
    pub(super) number: u64,
    pub(super) text: Option<Arc<str>>,
    pub(super) came: Instant,
    pub(super) held: Duration,
    hold_answer: Duration,
    down: Vec<Layer>,
    progress: Progress,
}

/// Progress of reading an answer; the client may have received less.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    Nothing,
    Begun,
    Ended,
}

/// Pending requests in the order of arrival, which is the order of their answers. Their number is
/// limited by [`PendingRequests::fewer`].
#[derive(Default)]
pub(super) struct PendingRequests {
    open: RefCell<VecDeque<PendingRequest>>,
    fewer: Notify,
}

impl PendingRequests {
    pub(super) fn len(&self) -> usize {
        self.open.borrow().len()
    }

    /// Waits until there are fewer than the limit, or the limit changes.
    pub(super) async fn fewer(&self) {
        self.fewer.notified().await;
    }

    /// Wakes the waiters of [`PendingRequests::fewer`].
    pub(super) fn look(&self) {
        self.fewer.notify_one();
    }

    pub(super) fn push(
        &self,
        number: u64,
        text: Option<Arc<str>>,
        came: Instant,
        faults: RequestFaults,
    ) {
        let RequestFaults { hold_answer, down, .. } = faults;
        let (held, progress) = (Duration::ZERO, Progress::Nothing);
        self.open.borrow_mut().push_back(PendingRequest {
            number,
            text,
            came,
            held,
            hold_answer,
            down,
            progress,
        });
    }

    /// Whether the server has not answered a request at all.
    pub(super) fn waits(&self) -> bool {
        self.open.borrow().back().is_some_and(|open| open.progress == Progress::Nothing)
    }

    /// Adds a completed delay of a request or its answer.
    pub(super) fn held(&self, number: u64, time: Duration) {
        if let Some(open) = self.open.borrow_mut().iter_mut().find(|open| open.number == number) {
            open.held += time;
        }
    }

    /// The answer to the oldest unanswered request begins. Returns its delay.
    pub(super) fn answer_begins(&self) -> Option<(Duration, Begin)> {
        let mut pending = self.open.borrow_mut();
        let open = pending.iter_mut().find(|open| open.progress == Progress::Nothing)?;
        open.progress = Progress::Begun;
        Some((
            open.hold_answer,
            Begin { number: open.number, layers: std::mem::take(&mut open.down) },
        ))
    }

    /// The oldest `count` answers end, whether or not they had begun.
    pub(super) fn answers_end(&self, count: usize) {
        let mut pending = self.open.borrow_mut();
        let ended = pending.iter_mut().filter(|open| open.progress != Progress::Ended).take(count);
        ended.for_each(|open| open.progress = Progress::Ended);
    }

    /// Removes the oldest request.
    pub(super) fn pop(&self) -> Option<PendingRequest> {
        self.fewer.notify_one();
        self.open.borrow_mut().pop_front()
    }

    /// Removes the oldest request if its answer has begun.
    pub(super) fn pop_begun(&self) -> Option<PendingRequest> {
        let begun =
            self.open.borrow().front().is_some_and(|open| open.progress != Progress::Nothing);
        if begun { self.pop() } else { None }
    }
}
