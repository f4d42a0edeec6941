//! Pages over HTTP, all of them hits.

use std::sync::Arc;

use super::{
    fetch,
    ground::{Stage, Started},
    plan::Pages,
    result::{Comparison, Measure},
    rounds::{self, Contender, Task},
};
use crate::{
    engine::{Known, Protocol},
    interrupt,
    load::{Keys, Load},
    peers::{Error, Role, pages},
};

/// From here the generator's time counts too; see [`Measure::Total`].
const LARGE: usize = 64 << 10;

pub(crate) fn compare(plan: &Pages, stage: &Stage, comparison: &mut Comparison) -> Result<(), Error> {
    let started =
        stage.start(&plan.servers, Role::Pages, (&plan.sizes, plan.pages), plan.memory, comparison)?;
    comparison.how = vec![
        ("connections".to_owned(), plan.connections.to_string()),
        ("rounds".to_owned(), format!("{} of {} ms each", plan.rounds, plan.slice.as_millis())),
        ("processors".to_owned(), stage.pinned()),
    ];
    let base = base(&plan.base, &started);
    for size in &plan.sizes {
        let contenders: Vec<Contender> =
            started.servers.iter().map(|server| contender(server, base.clone(), *size, plan.pages)).collect();
        if interrupt::asked() {
            return Err(Error::Interrupted);
        }
        let targets = (0..plan.pages).map(|number| pages::target(*size, number));
        let keys = Keys::list(targets).map_err(|fault| Error::Template { file: "http.toml", fault })?;
        let task = Task {
            title: format!("{} B", thousands(*size)),
            unit: "request",
            measure: if *size < LARGE { Measure::Cpu } else { Measure::Total },
            load: Load::of(keys),
            known: Arc::new(Known::of(
                (0..plan.pages).map(|number| (pages::target(*size, number), pages::body(*size, number))),
            )),
            connections: plan.connections,
            depth: 1,
            per_request: 1,
            large: *size >= LARGE,
            must_hit: false,
            rounds: plan.rounds,
            slice: plan.slice,
        };
        let mut table = rounds::measure(&task, &contenders);
        for (row, contender) in table.rows.iter_mut().zip(&contenders) {
            if row.wrong.is_none() {
                // Still right after the load?
                row.wrong = check(contender, *size, plan.pages).err();
            }
        }
        comparison.tables.push(table.finish());
    }
    Ok(())
}

/// The plan's base, or the first there is.
fn base(wanted: &str, started: &Started) -> Option<String> {
    let found = started.servers.iter().find(|server| server.name == wanted).or(started.servers.first());
    found.map(|server| server.name.clone())
}

fn contender(server: &super::ground::Server, base: Option<String>, size: usize, pages: u32) -> Contender {
    let origin = server.origin.as_deref();
    let wrong = (0..pages).find_map(|number| fetch::warm(server.address, size, number, origin).err());
    Contender {
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

fn check(contender: &Contender, size: usize, pages: u32) -> Result<(), String> {
    (0..pages).try_for_each(|number| fetch::page(contender.address, size, number)).map_err(
        |fault| match fault {
            fetch::Fault::Refused(why) | fetch::Fault::Wrong(why) => format!("after the rounds: {why}"),
        },
    )
}

/// `26,510`.
pub(crate) fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
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
