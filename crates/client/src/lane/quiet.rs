//! Runs of quiet writes, whose callers do not wait.
//!
//! With meta commands each write is sent quiet (`q`): the server answers only failures. A no-op
//! after the run is answered when all writes before it are done; the run ends with that answer.
//! Hundreds of writes thus cost one reply line, and errors can be attributed: replies before the
//! no-op's belong to the run.

use std::time::Instant;

use tokio::sync::OwnedSemaphorePermit;

/// Bytes of a run, approximately, after which a no-op is sent.
const FULL: usize = 64 << 10;

/// Quiet operations whose no-op is not sent yet.
#[derive(Debug)]
pub(super) struct QuietRun {
    /// Number of operations.
    pub(super) count: u64,
    /// Their size in bytes.
    pub(super) bytes: usize,
    /// Time the first was submitted.
    pub(super) asked: Instant,
    /// Their permits of the queue.
    pub(super) permit: OwnedSemaphorePermit,
}

impl QuietRun {
    /// Appends this run to an earlier one.
    pub(super) fn behind(self, before: Option<QuietRun>) -> QuietRun {
        let Some(mut run) = before else { return self };
        run.count += self.count;
        run.bytes += self.bytes;
        run.permit.merge(self.permit);
        run
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes >= FULL
    }
}
