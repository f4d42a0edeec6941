//! Memory overhead of an item beyond its key and value.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use super::{
    objects::{self, Language},
    plan::Memory,
    result::{Comparison, Grid, GridRow},
    rounds::Candidate,
    servers::{Environment, RunningServers},
};
use crate::{
    interrupt,
    load::{Keys, Sizes},
    peers::{Error, Role},
};

/// Items stored before the first measurement, so that memory allocated at first use is included in
/// it.
const PROBE: u64 = 20_000;
/// Length of a key in bytes.
const KEY: usize = 16;
/// Assumed overhead per item: above that of any server, so that none evicts.
const BESIDES: u64 = 200;
const CONNECTIONS: usize = 50;
/// Servers free and reorganise memory for some time after the last set.
const SETTLE: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// This many consecutive measurements within this many bytes count as settled.
const SETTLED: (usize, u64) = (4, 65_536);

pub(crate) fn compare(
    plan: &Memory,
    environment: &Environment,
    comparison: &mut Comparison,
) -> Result<(), Error> {
    comparison.how =
        vec![("items".to_owned(), plan.items.to_string()), ("keys".to_owned(), format!("{KEY} B"))];
    let columns =
        plan.values.iter().flat_map(|value| [format!("{value} B"), format!("{value} B, all told")]);
    let mut grid = Grid {
        title: "Bytes an item takes beside key and value".to_owned(),
        columns: columns.collect(),
        rows: Vec::new(),
        less: true,
        digits: 1,
    };
    for (at, value) in plan.values.iter().enumerate() {
        for name in &plan.servers {
            for language in spoken(name) {
                if interrupt::requested() {
                    comparison.grids.push(grid);
                    return Err(Error::Interrupted);
                }
                one(plan, environment, comparison, (name, language), (at, *value), &mut grid)?;
            }
        }
    }
    comparison.grids.push(grid);
    Ok(())
}

/// One fresh server per protocol, as Larder keeps the items of both.
fn spoken(name: &str) -> Vec<Language> {
    match name {
        "memcached" => vec![Language::Meta],
        "larder" | "larder-objects" => vec![Language::Meta, Language::Redis],
        _ => vec![Language::Redis],
    }
}

/// Measures one server with one value size.
fn one(
    plan: &Memory,
    environment: &Environment,
    comparison: &mut Comparison,
    (name, language): (&str, Language),
    (at, value): (usize, usize),
    grid: &mut Grid,
) -> Result<(), Error> {
    let memory = (plan.items * (value as u64 + KEY as u64 + BESIDES) * 2).max(2 << 30);
    let versions = comparison.versions.len();
    let names = [name.to_owned()];
    let started = environment.start(&names, Role::Objects, (&[], 0), memory, comparison)?;
    if at > 0 || grid.rows.iter().any(|row| row.title.starts_with(&started.title())) {
        comparison.versions.truncate(versions);
    }
    let Some(server) = started.servers.first() else { return Ok(()) };
    let candidate = objects::candidate(server, language);
    let row = match grid.rows.iter().position(|row| row.title == candidate.title) {
        Some(row) => row,
        None => {
            let values = vec![None; grid.columns.len()];
            grid.rows.push(GridRow {
                title: candidate.title.clone(),
                ours: candidate.ours,
                rival: true,
                values,
            });
            grid.rows.len() - 1
        }
    };
    match weigh(plan.items, value, &candidate, &started) {
        Ok((beside, all)) => {
            grid.rows[row].values[2 * at] = Some(beside);
            grid.rows[row].values[2 * at + 1] = Some(all);
        }
        Err(wrong) => {
            comparison.left_out.push(format!("{} at {value} B: {wrong}", candidate.title))
        }
    }
    Ok(())
}

/// Overhead in bytes per item: without and with the memory in use before.
fn weigh(
    items: u64,
    value: usize,
    candidate: &Candidate,
    started: &RunningServers,
) -> Result<(f64, f64), String> {
    let fill = |keys| objects::fill(candidate, keys, Sizes::fixed(value), CONNECTIONS);
    fill(Keys::pattern("p{:015}", 0..PROBE)?)?;
    let before = settled(started);
    fill(objects::keys(value, items)?)?;
    let after = settled(started);
    let each = |bytes: u64| bytes as f64 / items as f64 - (KEY + value) as f64;
    Ok((each(after.saturating_sub(before)), each(after)))
}

/// Resident memory once it no longer changes.
fn settled(started: &RunningServers) -> u64 {
    let (alike, within) = SETTLED;
    let (began, mut last, mut same) = (Instant::now(), started.resident(), 0);
    while same < alike && began.elapsed() < SETTLE && !interrupt::requested() {
        sleep(POLL_INTERVAL);
        let now = started.resident();
        same = if now.abs_diff(last) < within { same + 1 } else { 0 };
        last = now;
    }
    last
}
