//! `--fill`: writes every key once before the run.

use std::time::Duration;

use crate::{
    engine::{self, Error, Plan, Until},
    load::{Load, Mix, Pace, Popularity, Think, Verb},
    progress::Progress,
    report::Run,
};

/// Pipelining depth while filling: enough to keep a server busy.
const DEPTH: usize = 16;

/// Writes every key of `load` once, with the size that gets expect.
pub(super) fn fill(plan: &Plan, load: &Load, quiet: bool) -> Result<Run, Error> {
    let progress = match load.key_count().filter(|_| !quiet) {
        Some(keys) => Progress::new("keys written", keys),
        None => Progress::hidden(),
    };
    let once = load
        .clone()
        .popularity(Popularity::Once)
        .mix(Mix::only(Verb::Set))
        .multi(1)
        .think(Think::None);
    let plan = Plan {
        depth: if plan.reconnect { 1 } else { plan.depth.max(DEPTH) },
        pace: Pace::Closed,
        until: Until::default(),
        warm_up: Duration::ZERO,
        ramp_up: Duration::ZERO,
        per_connection: None,
        server_pids: Vec::new(),
        ..plan.clone()
    };
    engine::run(&plan, &|thread| once.source(thread, plan.threads, plan.seed), &mut |_, second| {
        progress.advance(second.answers);
    })
}
