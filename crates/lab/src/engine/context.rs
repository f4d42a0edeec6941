//! State shared by the connections of a thread: time, counters, the source of requests.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    os::fd::BorrowedFd,
    time::{Duration, Instant},
};

use super::{
    Address, Plan,
    codec::{Codec, Outcome},
    tally::{Fault, Tally},
};
use crate::load::{Operation, Source};

/// Read size: several answers, or a good part of a large one, within a core's cache.
pub(super) const SCRATCH: usize = 64 << 10;

/// Action due at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TimerAction {
    /// Connect, or try again.
    Dial,
    /// Make a request after a think time.
    Operation,
    /// A timer of QUIC.
    Timer,
}

/// State shared by the connections of a thread. Times are nanoseconds since the start of the run.
pub(super) struct ThreadContext<'a> {
    pub(super) plan: &'a Plan,
    pub(super) address: &'a Address,
    pub(super) poll: BorrowedFd<'a>,
    pub(super) codec: Codec<'a>,
    pub(super) start: Instant,
    /// Time of the last read or wait.
    pub(super) now: u64,
    pub(super) counted_from: u64,
    pub(super) open: bool,
    /// Pending requests on all connections.
    pub(super) under_way: usize,
    pub(super) tally: Tally,
    pub(super) scratch: Box<[u8]>,
    /// Answers of one look at a connection of HTTP/3, empty between looks.
    pub(super) answered: Vec<(usize, Outcome)>,
    /// Actions by time, with their connection. At most one per request and connection, and a timer
    /// for each time it is moved to an earlier time.
    pub(super) actions: BinaryHeap<Reverse<(u64, usize, TimerAction)>>,
    pub(super) last_answer: u64,
    pub(super) source: Box<dyn Source>,
    /// A request taken from the source before it is due.
    pub(super) staged: Option<Operation>,
    /// Buffers of a request, while `staged` is not in use.
    pub(super) spare: Operation,
    /// The source is exhausted.
    pub(super) dry: bool,
}

impl ThreadContext<'_> {
    /// Reads the clock.
    #[inline]
    pub(super) fn tick(&mut self) {
        self.now = self.start.elapsed().as_nanos() as u64;
    }

    /// Takes the next request from the source.
    #[inline]
    pub(super) fn next(&mut self, operation: &mut Operation) -> bool {
        if let Some(mut staged) = self.staged.take() {
            std::mem::swap(operation, &mut staged);
            self.spare = staged;
            return true;
        }
        self.dry = self.dry || !self.source.next(operation);
        !self.dry
    }

    #[inline]
    pub(super) fn counting(&self) -> bool {
        self.now >= self.counted_from
    }

    #[inline]
    pub(super) fn received(&mut self, bytes: usize) {
        if self.counting() {
            self.tally.received += bytes as u64;
        }
    }

    #[inline]
    pub(super) fn sent(&mut self, bytes: usize) {
        if self.counting() {
            self.tally.sent += bytes as u64;
        }
    }

    /// Counts an answer.
    #[inline]
    pub(super) fn count(&mut self, outcome: Outcome, due: u64, sent: u64) {
        self.last_answer = self.now;
        if let Some(fault) = outcome.fault {
            return self.tally.fault(fault);
        }
        let tally = &mut self.tally;
        tally.requests += 1;
        if outcome.wrong {
            tally.wrong += 1;
            return;
        }
        tally.answers += 1;
        tally.hits += u64::from(outcome.hits);
        tally.misses += u64::from(outcome.misses);
        tally.latency.saturating_record(self.now.saturating_sub(due).max(1));
        if let Some(service) = &mut tally.service {
            service.saturating_record(self.now.saturating_sub(sent).max(1));
        }
    }

    /// Counts a failure to connect that cost no request.
    pub(super) fn not_connected(&mut self, why: String) {
        if self.counting() {
            self.tally.fault(Fault::Connect(why));
        }
    }

    pub(super) fn wake_after(&mut self, connection: usize, pause: Duration) {
        let at = self.now + u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX / 4);
        self.actions.push(Reverse((at, connection, TimerAction::Operation)));
    }

    pub(super) fn wake_at(&mut self, connection: usize, at: u64) {
        self.actions.push(Reverse((at, connection, TimerAction::Timer)));
    }

    pub(super) fn dial_at(&mut self, connection: usize, at: u64) {
        self.actions.push(Reverse((at, connection, TimerAction::Dial)));
    }
}
