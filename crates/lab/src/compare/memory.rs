//! What an item takes beyond its key and value.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use super::{
    ground::{Stage, Started},
    objects::{self, Language},
    plan::Memory,
    result::{Comparison, Grid, GridRow},
    rounds::Contender,
};
use crate::{
    interrupt,
    load::{Keys, Sizes},
    peers::{Error, Role},
};

/// Items put in before the first look: what a server makes ready at its first use is then there.
const PROBE: u64 = 20_000;
/// Bytes of a key.
const KEY: usize = 16;
/// What an item may take besides: no server needs so much, and none evicts.
const BESIDES: u64 = 200;
const CONNECTIONS: usize = 50;
/// Servers free and tidy for some time after the last set.
const SETTLE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(250);
/// So many looks alike, within so many bytes, and it is settled.
const ALIKE: (usize, u64) = (4, 65_536);

pub(crate) fn compare(plan: &Memory, stage: &Stage, comparison: &mut Comparison) -> Result<(), Error> {
    comparison.how =
        vec![("items".to_owned(), plan.items.to_string()), ("keys".to_owned(), format!("{KEY} B"))];
    let columns = plan.values.iter().flat_map(|value| [format!("{value} B"), format!("{value} B, all told")]);
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
                if interrupt::asked() {
                    comparison.grids.push(grid);
                    return Err(Error::Interrupted);
                }
                one(plan, stage, comparison, (name, language), (at, *value), &mut grid)?;
            }
        }
    }
    comparison.grids.push(grid);
    Ok(())
}

/// A fresh server for each way to store: Larder keeps the items of both protocols.
fn spoken(name: &str) -> Vec<Language> {
    match name {
        "memcached" => vec![Language::Meta],
        "larder" | "larder-objects" => vec![Language::Meta, Language::Redis],
        _ => vec![Language::Redis],
    }
}

/// One server, one size of values.
fn one(
    plan: &Memory,
    stage: &Stage,
    comparison: &mut Comparison,
    (name, language): (&str, Language),
    (at, value): (usize, usize),
    grid: &mut Grid,
) -> Result<(), Error> {
    let memory = (plan.items * (value as u64 + KEY as u64 + BESIDES) * 2).max(2 << 30);
    let versions = comparison.versions.len();
    let names = [name.to_owned()];
    let started = stage.start(&names, Role::Objects, (&[], 0), memory, comparison)?;
    if at > 0 || grid.rows.iter().any(|row| row.title.starts_with(&started.title())) {
        comparison.versions.truncate(versions);
    }
    let Some(server) = started.servers.first() else { return Ok(()) };
    let contender = objects::contender(server, language);
    let row = match grid.rows.iter().position(|row| row.title == contender.title) {
        Some(row) => row,
        None => {
            let values = vec![None; grid.columns.len()];
            grid.rows.push(GridRow {
                title: contender.title.clone(),
                ours: contender.ours,
                rival: true,
                values,
            });
            grid.rows.len() - 1
        }
    };
    match weigh(plan.items, value, &contender, &started) {
        Ok((beside, all)) => {
            grid.rows[row].values[2 * at] = Some(beside);
            grid.rows[row].values[2 * at + 1] = Some(all);
        }
        Err(wrong) => comparison.left_out.push(format!("{} at {value} B: {wrong}", contender.title)),
    }
    Ok(())
}

/// Bytes beside key and value: what the items brought, and with what was there before.
fn weigh(items: u64, value: usize, contender: &Contender, started: &Started) -> Result<(f64, f64), String> {
    let fill = |keys| objects::fill(contender, keys, Sizes::fixed(value), CONNECTIONS);
    fill(Keys::pattern("p{:015}", 0..PROBE)?)?;
    let before = settled(started);
    fill(objects::keys(value, items)?)?;
    let after = settled(started);
    let each = |bytes: u64| bytes as f64 / items as f64 - (KEY + value) as f64;
    Ok((each(after.saturating_sub(before)), each(after)))
}

/// Resident memory once it stays as it is.
fn settled(started: &Started) -> u64 {
    let (alike, within) = ALIKE;
    let (began, mut last, mut same) = (Instant::now(), started.resident(), 0);
    while same < alike && began.elapsed() < SETTLE && !interrupt::asked() {
        sleep(LOOK);
        let now = started.resident();
        same = if now.abs_diff(last) < within { same + 1 } else { 0 };
        last = now;
    }
    last
}
