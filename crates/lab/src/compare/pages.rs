//! Comparison of pages over HTTP, all of them hits.

use std::sync::Arc;

use super::{
    fetch,
    plan::Pages,
    result::{Comparison, Measure},
    rounds::{self, Candidate, Task},
    servers::{Environment, RunningServers},
};
use crate::{
    engine::{KnownPages, Protocol},
    interrupt,
    load::{Keys, Load},
    peers::{Error, Role, pages},
};

/// Page size from which the generator's time is included; see [`Measure::Total`].
const LARGE: usize = 64 << 10;

pub(crate) fn compare(
    plan: &Pages,
    environment: &Environment,
    comparison: &mut Comparison,
) -> Result<(), Error> {
    let started = environment.start(
        &plan.servers,
        Role::Pages,
        (&plan.sizes, plan.pages),
        plan.memory,
        comparison,
    )?;
    comparison.how = vec![
        ("connections".to_owned(), plan.connections.to_string()),
        ("rounds".to_owned(), format!("{} of {} ms each", plan.rounds, plan.slice.as_millis())),
        ("processors".to_owned(), environment.pinned()),
    ];
    let base = base(&plan.base, &started);
    for size in &plan.sizes {
        let candidates: Vec<Candidate> = started
            .servers
            .iter()
            .map(|server| candidate(server, base.clone(), *size, plan.pages))
            .collect();
        if interrupt::requested() {
            return Err(Error::Interrupted);
        }
        let targets = (0..plan.pages).map(|number| pages::target(*size, number));
        let keys =
            Keys::list(targets).map_err(|fault| Error::Template { file: "http.toml", fault })?;
        let task = Task {
            title: format!("{} B", thousands(*size)),
            unit: "request",
            measure: if *size < LARGE { Measure::Cpu } else { Measure::Total },
            load: Load::of(keys),
            known: Arc::new(KnownPages::of(
                (0..plan.pages)
                    .map(|number| (pages::target(*size, number), pages::body(*size, number))),
            )),
            connections: plan.connections,
            depth: 1,
            per_request: 1,
            large: *size >= LARGE,
            must_hit: false,
            rounds: plan.rounds,
            slice: plan.slice,
        };
        let mut table = rounds::measure(&task, &candidates);
        for (row, candidate) in table.rows.iter_mut().zip(&candidates) {
            if row.wrong.is_none() {
                // Checked again after the load.
                row.wrong = check(candidate, *size, plan.pages).err();
            }
        }
        comparison.tables.push(table.finish());
    }
    Ok(())
}

/// The plan's base if it runs, else the first server.
fn base(wanted: &str, started: &RunningServers) -> Option<String> {
    let found =
        started.servers.iter().find(|server| server.name == wanted).or(started.servers.first());
    found.map(|server| server.name.clone())
}

fn candidate(
    server: &super::servers::Server,
    base: Option<String>,
    size: usize,
    pages: u32,
) -> Candidate {
    let origin = server.origin.as_deref();
    let wrong =
        (0..pages).find_map(|number| fetch::warm(server.address, size, number, origin).err());
    Candidate {
        name: server.name.clone(),
        title: server.title.clone(),
        base,
        ours: server.ours,
        address: server.address,
        protocol: Protocol::Http { host: server.address.to_string(), fields: Vec::new() },
        pids: server.pids.clone(),
        origin: server.origin.clone(),
        wrong,
    }
}

fn check(candidate: &Candidate, size: usize, pages: u32) -> Result<(), String> {
    (0..pages).try_for_each(|number| fetch::page(candidate.address, size, number)).map_err(
        |fault| match fault {
            fetch::Fault::Refused(why) | fetch::Fault::Wrong(why) => {
                format!("after the rounds: {why}")
            }
        },
    )
}

/// `26,510`.
pub(crate) fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .filter_map(|group| std::str::from_utf8(group).ok())
        .collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(1000), "1,000");
        assert_eq!(thousands(26_510), "26,510");
        assert_eq!(thousands(1_000_000), "1,000,000");
    }
}
