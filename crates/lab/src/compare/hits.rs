//! Hit ratios of caches smaller than the data, over synthetic traces.

use super::{
    cache_aside::{BATCH, Cache},
    objects::{self, Language},
    plan::Hits,
    result::{Comparison, Grid, GridRow},
    rounds::Candidate,
    servers::Environment,
};
use crate::{
    interrupt,
    load::{Operation, Source},
    peers::{Error, Role},
    simulate::exact,
};

/// Share of a trace that only fills the cache.
const WARM: f64 = 0.25;

pub(crate) fn compare(
    plan: &Hits,
    environment: &Environment,
    comparison: &mut Comparison,
) -> Result<(), Error> {
    comparison.how = vec![
        ("memory".to_owned(), format!("{} MiB", plan.memory >> 20)),
        (
            "requests".to_owned(),
            format!("{}, of which the first quarter is not counted", plan.requests),
        ),
        ("values".to_owned(), "lognormal: median 300 B, 16 B to 4 KiB".to_owned()),
    ];
    let mut grid = Grid {
        title: "Share of hits".to_owned(),
        columns: plan.traces.clone(),
        rows: Vec::new(),
        less: false,
        digits: 3,
    };
    let done = all(plan, environment, comparison, &mut grid);
    comparison.grids.push(grid);
    done
}

fn all(
    plan: &Hits,
    environment: &Environment,
    comparison: &mut Comparison,
    grid: &mut Grid,
) -> Result<(), Error> {
    let fault = |fault| Error::Template { file: "hitratio.toml", fault };
    for (at, trace) in plan.traces.iter().enumerate() {
        for name in &plan.servers {
            let versions = comparison.versions.len();
            let started = environment.start(
                std::slice::from_ref(name),
                Role::Objects,
                (&[], 0),
                plan.memory,
                comparison,
            )?;
            if at > 0 {
                comparison.versions.truncate(versions);
            }
            let Some(server) = started.servers.first() else { continue };
            let language = if name.starts_with("redis") { Language::Redis } else { Language::Meta };
            let candidate = objects::candidate(server, language);
            let mut source = exact::source(trace, plan.keys, plan.requests).map_err(fault)?;
            match share(&candidate, language, &mut *source, plan.requests) {
                Ok(share) => set(grid, (&candidate.title, candidate.ours, true), at, share),
                Err(wrong) => {
                    comparison.left_out.push(format!("{} at {trace}: {wrong}", candidate.title))
                }
            }
            if interrupt::requested() {
                return Err(Error::Interrupted);
            }
        }
        let lru = exact::lru(trace, plan.keys, plan.requests, WARM, plan.memory).map_err(fault)?;
        set(
            grid,
            ("exact LRU of as many bytes, without overhead (computed)", false, false),
            at,
            lru,
        );
    }
    Ok(())
}

fn set(grid: &mut Grid, (title, ours, rival): (&str, bool, bool), at: usize, value: f64) {
    let row = grid.rows.iter().position(|row| row.title == title).unwrap_or_else(|| {
        let values = vec![None; grid.columns.len()];
        grid.rows.push(GridRow { title: title.to_owned(), ours, rival, values });
        grid.rows.len() - 1
    });
    grid.rows[row].values[at] = Some(value);
}

/// Replays a trace against a cache; returns the hit ratio after the warm-up.
fn share(
    candidate: &Candidate,
    language: Language,
    source: &mut dyn Source,
    requests: u64,
) -> Result<f64, String> {
    let mut cache = Cache::connect(candidate.address, language)?;
    let warm = (requests as f64 * WARM) as u64;
    let (mut done, mut hits, mut counted) = (0, 0, 0);
    let mut operations = vec![Operation::default(); BATCH];
    loop {
        let mut filled = 0;
        while filled < BATCH && source.next(&mut operations[filled]) {
            filled += 1;
        }
        if filled == 0 || interrupt::requested() {
            break;
        }
        for found in cache.fetch(&operations[..filled])? {
            if done >= warm {
                counted += 1;
                hits += u64::from(found);
            }
            done += 1;
        }
    }
    if counted == 0 {
        return Err("the trace was over before anything was counted".to_owned());
    }
    Ok(hits as f64 / counted as f64)
}
