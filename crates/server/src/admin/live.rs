//! Once a second: a sample for the history, and an event for the watchers of figures.

use std::{sync::Arc, time::Duration};

use axum::{extract::State, response::Response};
use larder_metrics::{Interval, Latencies, Snapshot};
use tokio::time::{MissedTickBehavior, interval};

use super::{
    App,
    answer::Refused,
    events::{self, Hub, WatcherPermits, event},
};

/// Time between two snapshots.
const STEP: Duration = Duration::from_secs(1);

/// All watchers.
#[derive(Default)]
pub(super) struct Watchers {
    pub(super) permits: WatcherPermits,
    live: Hub,
    hist: Hub,
}

/// A snapshot now, and another every second.
pub(super) async fn live(State(app): State<Arc<App>>) -> Result<Response, Refused> {
    let permit = app.watchers.permits.take()?;
    let first = event("stats", &app.registry.snapshot(app.now()));
    Ok(events::stream(app.watchers.live.join(Some(first)), permit))
}

/// The latencies of each second.
pub(super) async fn hist(State(app): State<Arc<App>>) -> Result<Response, Refused> {
    let permit = app.watchers.permits.take()?;
    Ok(events::stream(app.watchers.hist.join(None), permit))
}

/// Takes the snapshots, as long as the thread runs.
pub(super) async fn tick(app: Arc<App>) {
    let mut steps = interval(STEP);
    // After a pause of the machine: one step, not a burst.
    steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before: Option<Latencies> = None;
    loop {
        steps.tick().await;
        if app.settings().admin.is_none() && app.watchers.permits.are_free() {
            // Nobody sees the history.
            before = None;
            continue;
        }
        let snapshot = app.registry.snapshot(app.now());
        app.history.push(&snapshot);
        app.watchers.live.tell(|| event("stats", &snapshot));
        let latencies = latencies(&snapshot);
        if let Some(before) = before {
            app.watchers.hist.tell(|| event("hist", &between(&before, &latencies)));
        }
        before = Some(latencies);
    }
}

fn latencies(snapshot: &Snapshot) -> Latencies {
    snapshot.http.as_ref().map(|http| http.latency.clone()).unwrap_or_default()
}

/// The times of one second.
fn between(before: &Latencies, now: &Latencies) -> Interval {
    Interval { hit: now.hit.clone().since(&before.hit), miss: now.miss.clone().since(&before.miss) }
}
