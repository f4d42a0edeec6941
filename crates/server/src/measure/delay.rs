//! How late a worker gets to a timer: what everything waits that is ready while something else is being done.

use std::{sync::Arc, time::Duration};

use super::Histogram;
use crate::clock::Clock;

/// How often a worker is looked at. Ten wake-ups a second cost nothing that can be measured.
const EVERY: Duration = Duration::from_millis(100);

/// Counts how late this worker is, until the task is ended. The runtime's timers have steps of a millisecond: an idle
/// worker is up to that late.
pub(crate) async fn watch(clock: Clock, delays: Arc<Histogram>) {
    loop {
        let due = clock.micros() + EVERY.as_micros() as u64;
        tokio::time::sleep(EVERY).await;
        delays.record(clock.micros().saturating_sub(due));
    }
}
