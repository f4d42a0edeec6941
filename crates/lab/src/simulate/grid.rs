//! Simulation of all policies with all sizes over one trace, in parallel.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use super::cell::{self, Outcome};
use super::policy::Kind;
use super::trace::Trace;
use crate::progress::Progress;

/// Results of one policy.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) policy: Kind,
    /// For each size, the result or an error.
    pub(crate) outcomes: Vec<Result<Outcome, String>>,
}

/// Whether each policy can do with each size; the error names the first that cannot. Nothing is
/// simulated.
pub(crate) fn check(policies: &[Kind], sizes: &[u64], sample: f64) -> Result<(), String> {
    for policy in policies {
        for size in sizes {
            cell::open(*policy, *size, sample, 1, 0).map_err(|why| {
                let sampled = match sample < 1.0 {
                    true => format!(" with --sample {sample}"),
                    false => String::new(),
                };
                let (size, name) = (crate::report::show::bytes(*size as f64), policy.name());
                format!("--sizes: {size}{sampled} is too small for {name}: {why}")
            })?;
        }
    }
    Ok(())
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
    let progress = Progress::new("simulations", cells.len() as u64);
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, cells.len().max(1)) {
            scope.spawn(|| {
                while let Some((policy, size)) =
                    cells.get(next.fetch_add(1, Ordering::Relaxed)).copied()
                {
                    let outcome = cell::run(trace, policies[policy], sizes[size], seed);
                    rows.lock().unwrap_or_else(PoisonError::into_inner)[policy].outcomes[size] =
                        outcome;
                    progress.advance(1);
                }
            });
        }
    });
    rows.into_inner().unwrap_or_else(PoisonError::into_inner)
}
