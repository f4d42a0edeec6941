//! How late a worker handles a timer: the time that ready work waits while other work is done.

use std::{sync::Arc, time::Duration};

use larder_metrics::Recorder;

use crate::clock::Clock;

/// Time between two measurements. Ten wake-ups a second have no measurable cost.
const EVERY: Duration = Duration::from_millis(100);

/// Records how late this worker is, until the task is aborted. The runtime's timers have steps of a
/// millisecond: an idle worker is up to that late.
pub(crate) async fn watch(clock: Clock, delays: Arc<Recorder>) {
    loop {
        let due = clock.micros() + EVERY.as_micros() as u64;
        tokio::time::sleep(EVERY).await;
        delays.record(clock.micros().saturating_sub(due));
    }
}
