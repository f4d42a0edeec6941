//! What all connections of a thread share: time, counters, the source of requests.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    os::fd::BorrowedFd,
    time::{Duration, Instant},
};

use super::{
    Address, Plan,
    talk::{Outcome, Speech},
    tally::{Fault, Tally},
};
use crate::load::{Ask, Source};

/// Bytes one read can take: several answers, or a good part of a large one, and still within a core's cache.
pub(super) const SCRATCH: usize = 64 << 10;

/// What is to be done at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Chore {
    /// A connection begins, or tries again.
    Dial,
    /// A pause between two requests is over.
    Ask,
}

/// What all connections of a thread share. Times are nanoseconds since the start of the run.
pub(super) struct Desk<'a> {
    pub(super) plan: &'a Plan,
    pub(super) address: &'a Address,
    pub(super) poll: BorrowedFd<'a>,
    pub(super) speech: Speech<'a>,
    pub(super) start: Instant,
    /// As of the last bytes that came, or the last wait.
    pub(super) now: u64,
    pub(super) counted_from: u64,
    pub(super) depth: usize,
    pub(super) open: bool,
    /// Requests under way on all connections.
    pub(super) under_way: usize,
    pub(super) tally: Tally,
    pub(super) scratch: Box<[u8]>,
    /// Times to come, each with its connection. At most one for each request and connection.
    pub(super) chores: BinaryHeap<Reverse<(u64, usize, Chore)>>,
    pub(super) last_answer: u64,
    pub(super) source: Box<dyn Source>,
    /// A request that was taken from the source before its time.
    pub(super) staged: Option<Ask>,
    /// Buffers of a request between two uses of `staged`.
    pub(super) spare: Ask,
    /// The source has no more.
    pub(super) dry: bool,
}

impl Desk<'_> {
    /// Looks at the clock.
    #[inline]
    pub(super) fn tick(&mut self) {
        self.now = self.start.elapsed().as_nanos() as u64;
    }

    /// The next request.
    #[inline]
    pub(super) fn next(&mut self, ask: &mut Ask) -> bool {
        if let Some(mut staged) = self.staged.take() {
            std::mem::swap(ask, &mut staged);
            self.spare = staged;
            return true;
        }
        self.dry = self.dry || !self.source.next(ask);
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
        tally.asked += 1;
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

    pub(super) fn wake_after(&mut self, conn: usize, pause: Duration) {
        let at = self.now + u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX / 4);
        self.chores.push(Reverse((at, conn, Chore::Ask)));
    }

    pub(super) fn dial_at(&mut self, conn: usize, at: u64) {
        self.chores.push(Reverse((at, conn, Chore::Dial)));
    }
}
