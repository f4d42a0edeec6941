//! Writes nobody waits for, one behind the other.
//!
//! Where the server has meta commands each is sent quiet (`q`): it is answered only if it fails. A no-op behind the run is
//! answered when all before it is done, and is what the run waits for. So of hundreds of writes one line comes back, and errors
//! still have an owner: whatever comes before the no-op's answer is of the run.

use std::time::Instant;

use tokio::sync::OwnedSemaphorePermit;

/// Bytes of a run, about: then the server is to say how far it is.
const FULL: usize = 64 << 10;

/// Quiet operations whose no-op is not sent yet.
#[derive(Debug)]
pub(super) struct Run {
    /// How many.
    pub(super) count: u64,
    /// Bytes they bring.
    pub(super) bytes: usize,
    /// When the first was asked for.
    pub(super) asked: Instant,
    /// Their place in the queue.
    pub(super) place: OwnedSemaphorePermit,
}

impl Run {
    /// This one, behind those before it.
    pub(super) fn behind(self, before: Option<Run>) -> Run {
        let Some(mut run) = before else { return self };
        run.count += self.count;
        run.bytes += self.bytes;
        run.place.merge(self.place);
        run
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes >= FULL
    }
}
