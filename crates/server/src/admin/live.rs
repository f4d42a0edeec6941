//! Once a second: the history grows, and who watches figures is told.

use std::{sync::Arc, time::Duration};

use axum::{extract::State, response::Response};
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};

use super::{
    App,
    answer::Refused,
    events::{self, Hub, Places, event},
};
use crate::measure::{Latencies, Merged, Snapshot};

/// From one look at the figures to the next.
const STEP: Duration = Duration::from_secs(1);

/// Everybody who watches.
#[derive(Default)]
pub(super) struct Watchers {
    pub(super) places: Places,
    live: Hub,
    hist: Hub,
}

/// A snapshot now, and another every second.
pub(super) async fn live(State(app): State<Arc<App>>) -> Result<Response, Refused> {
    let place = app.watchers.places.take()?;
    let first = event("stats", &app.registry.snapshot(app.now()));
    Ok(events::stream(app.watchers.live.join(Some(first)), place))
}

/// The latencies of each second.
pub(super) async fn hist(State(app): State<Arc<App>>) -> Result<Response, Refused> {
    let place = app.watchers.places.take()?;
    Ok(events::stream(app.watchers.hist.join(None), place))
}

/// Runs as long as the thread.
pub(super) async fn tick(app: Arc<App>) {
    let mut steps = interval(STEP);
    // After a stop of the machine: one step, not a burst of them.
    steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before: Option<Latencies> = None;
    loop {
        steps.tick().await;
        let snapshot = app.registry.snapshot(app.now());
        app.history.push(&snapshot);
        app.watchers.live.tell(|| event("stats", &snapshot));
        let latencies = latencies(&snapshot);
        if let Some(before) = before {
            app.watchers.hist.tell(|| event("hist", &Interval::between(&before, &latencies)));
        }
        before = Some(latencies);
    }
}

fn latencies(snapshot: &Snapshot) -> Latencies {
    snapshot.http.as_ref().map(|http| http.latency.clone()).unwrap_or_default()
}

/// What one second brought.
#[derive(Serialize)]
struct Interval {
    hit: Fine,
    miss: Fine,
}

/// A histogram with all its buckets.
#[derive(Serialize)]
struct Fine {
    count: u64,
    sum_us: u64,
    p50_us: u64,
    p90_us: u64,
    p99_us: u64,
    p999_us: u64,
    /// Upper end in microseconds, and how many; those without any are left out.
    buckets: Vec<(u64, u64)>,
}

impl Interval {
    fn between(before: &Latencies, after: &Latencies) -> Interval {
        let fine = |before: &Merged, after: &Merged| Fine::of(&after.clone().since(before));
        Interval { hit: fine(&before.hit.0, &after.hit.0), miss: fine(&before.miss.0, &after.miss.0) }
    }
}

impl Fine {
    fn of(merged: &Merged) -> Fine {
        Fine {
            count: merged.count(),
            sum_us: merged.sum,
            p50_us: merged.quantile(500),
            p90_us: merged.quantile(900),
            p99_us: merged.quantile(990),
            p999_us: merged.quantile(999),
            buckets: merged.fine().filter(|(_, count)| *count > 0).collect(),
        }
    }
}
