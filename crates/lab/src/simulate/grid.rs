//! Simulation of all policies with all sizes over one trace, in parallel.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use super::cell::{self, Outcome};
use super::policy::Kind;
use super::trace::Trace;

/// Results of one policy.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) policy: Kind,
    /// For each size, the result or an error.
    pub(crate) outcomes: Vec<Result<Outcome, String>>,
}

/// Runs all simulations.
pub(crate) fn run(
    trace: &Trace,
    policies: &[Kind],
    sizes: &[u64],
    threads: usize,
    seed: u64,
) -> Vec<Row> {
    let cells: Vec<(usize, usize)> = (0..policies.len())
        .flat_map(|policy| (0..sizes.len()).map(move |size| (policy, size)))
        .collect();
    let none = || Err("it was not run".to_owned());
    let rows =
        policies.iter().map(|policy| Row { policy: *policy, outcomes: vec![none(); sizes.len()] });
    let rows: Mutex<Vec<Row>> = Mutex::new(rows.collect());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, cells.len().max(1)) {
            scope.spawn(|| {
                while let Some((policy, size)) =
                    cells.get(next.fetch_add(1, Ordering::Relaxed)).copied()
                {
                    let outcome = cell::run(trace, policies[policy], sizes[size], seed);
                    rows.lock().unwrap_or_else(PoisonError::into_inner)[policy].outcomes[size] =
                        outcome;
                }
            });
        }
    });
    rows.into_inner().unwrap_or_else(PoisonError::into_inner)
}
