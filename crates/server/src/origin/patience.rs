//! How long to wait for an origin.

use std::pin::pin;

use tokio::time::{Duration, Instant};

use super::{
    OriginError,
    connect::{earlier, within},
    upload::Progress,
};
use crate::clock::instant;

/// Which patience ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Late {
    /// The origin was silent for too long.
    Silent,
    /// The exchange as a whole took too long.
    Total,
    /// The same, and the client has not sent all of its body.
    Upload,
}

impl Late {
    /// The error, where silence is `silent`.
    pub(super) fn error(self, silent: OriginError) -> OriginError {
        match self {
            Late::Silent => silent,
            Late::Total => OriginError::TotalTimeout,
            Late::Upload => OriginError::UploadTimeout,
        }
    }
}

/// Waits for `future` as long as the origin is not silent for `limit` and the exchange not older
/// than `total`. Time in which the origin waits for the client's body does not count as its
/// silence.
pub(super) async fn patiently<F: Future>(
    future: F,
    progress: &Progress,
    limit: Duration,
    total: Option<Instant>,
) -> Result<F::Output, Late> {
    let since = instant();
    let mut future = pin!(future);
    loop {
        // Asked first: an origin that always has one more byte ready would never let a timer fire.
        if total.is_some_and(|total| total <= instant()) {
            return Err(if progress.uploads() { Late::Upload } else { Late::Total });
        }
        let until = earlier(progress.deadline(since, limit), total);
        if let Some(output) = within(until, future.as_mut()).await {
            return Ok(output);
        }
        let now = instant();
        if progress.deadline(since, limit).is_some_and(|silent| silent <= now) {
            return Err(Late::Silent);
        }
    }
}
