//! Servers visited in turn, for a fraction of a second each, in another order each round. What wanders (the speed of a shared machine
//! does, by 40 % within a third of a second) is then in all figures of a round alike, and not in their ratios.

use std::{
    io::{self, IsTerminal, Write},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use rand::{SeedableRng, rngs::SmallRng, seq::SliceRandom};

use super::result::{Measure, Round, Row, Table};
use crate::{
    engine::{self, Address, Check, Known, Plan, Protocol, Until},
    interrupt,
    load::Load,
    peers::Origin,
    report::Run,
};

/// Rounds before those that count: connections, caches and branch predictors find their shape.
const UNCOUNTED: usize = 2;
/// On a busy machine the generator may not get the processor in all of a visit. So often in a row it is the server that says nothing.
const SILENT: usize = 20;
/// In the counted rounds so many of the large pages are one that is compared: over 60 connections each of them in turn, and a
/// hundredth of what summing or comparing all would cost the generator. A prime, so that it is not the same connection each time.
const LOOKED_AT: u32 = 61;
/// An answer that takes longer is an error. A saturated server on one processor answers within tens of milliseconds.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A server in a table.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) base: Option<String>,
    pub(crate) ours: bool,
    pub(crate) address: SocketAddr,
    pub(crate) protocol: Protocol,
    /// Its processes; what they start is found by the engine.
    pub(crate) pids: Vec<u32>,
    /// Where it gets its pages, and nobody else: is not to be asked while it is visited, everything is a hit.
    pub(crate) origin: Option<Arc<Origin>>,
    /// It was found wrong before any round.
    pub(crate) wrong: Option<String>,
}

impl Contender {
    /// Pages that its origin has sent so far.
    fn asked(&self) -> u64 {
        self.origin.as_deref().map_or(0, Origin::asked)
    }
}

/// One table's task.
pub(crate) struct Task {
    pub(crate) title: String,
    pub(crate) unit: &'static str,
    pub(crate) measure: Measure,
    pub(crate) load: Load,
    pub(crate) connections: usize,
    pub(crate) depth: usize,
    /// Of the unit, in one request.
    pub(crate) per_request: u64,
    /// What the origin serves: what the answers are compared with.
    pub(crate) known: Arc<Known>,
    /// In the counted rounds not all pages are compared: with a megabyte each it would cost the generator a good part of what it counts.
    pub(crate) large: bool,
    /// Every get must find its key.
    pub(crate) must_hit: bool,
    pub(crate) rounds: usize,
    pub(crate) slice: Duration,
}

/// Measures. An interruption ends it early, with the rounds there are.
pub(crate) fn measure(task: &Task, contenders: &[Contender]) -> Table {
    let mut rows: Vec<Row> = contenders.iter().map(row).collect();
    let mut order: Vec<usize> = (0..contenders.len()).collect();
    // Another order for each round, the same in each run.
    let mut random = SmallRng::seed_from_u64(task.rounds as u64);
    for round in 0..task.rounds + UNCOUNTED {
        order.shuffle(&mut random);
        progress(&task.title, round, task.rounds + UNCOUNTED);
        let before: Vec<usize> = rows.iter().map(|row| row.rounds.len()).collect();
        for &at in &order {
            if rows[at].wrong.is_some() || interrupt::asked() {
                continue;
            }
            match visit_again(task, &contenders[at], round as u64) {
                Ok(figures) if round >= UNCOUNTED => rows[at].rounds.push(figures),
                Ok(_) => {}
                // Ended in the middle, it is not at fault.
                Err(_) if interrupt::asked() => {}
                Err(wrong) => rows[at].wrong = Some(wrong),
            }
        }
        if interrupt::asked() {
            // A round that not all servers were in has no ratios.
            rows.iter_mut().zip(before).for_each(|(row, rounds)| row.rounds.truncate(rounds));
            break;
        }
    }
    progress_end();
    Table { title: task.title.clone(), unit: task.unit.to_owned(), measure: task.measure, rows }
}

fn row(contender: &Contender) -> Row {
    Row {
        name: contender.name.clone(),
        title: contender.title.clone(),
        base: contender.base.clone(),
        ours: contender.ours,
        wrong: contender.wrong.clone(),
        figures: None,
        behind: Vec::new(),
        rounds: Vec::new(),
    }
}

/// A visit in which something was answered.
fn visit_again(task: &Task, contender: &Contender, round: u64) -> Result<Round, String> {
    for _ in 0..SILENT {
        if let Some(round) = visit(task, contender, round)? {
            return Ok(round);
        }
        if interrupt::asked() {
            return Err("interrupted".to_owned());
        }
    }
    Err(format!("it answered nothing in {SILENT} visits"))
}

/// One visit; `None`: there was no answer. The error is what the server did wrong.
fn visit(task: &Task, contender: &Contender, round: u64) -> Result<Option<Round>, String> {
    let plan = Plan {
        connections: task.connections,
        depth: task.depth,
        until: Until { time: Some(task.slice), requests: None },
        timeout: TIMEOUT,
        check: if task.large && round >= UNCOUNTED as u64 { Check::Every(LOOKED_AT) } else { Check::Bytes },
        lengths: task.load.lengths(true),
        known: Arc::clone(&task.known),
        seed: round,
        server_pids: contender.pids.clone(),
        ..Plan::new(Address::Tcp(contender.address), contender.protocol.clone())
    };
    let asked = contender.asked();
    // Another part of the stream each round, the same for all servers of a round.
    let run = run(&plan, &task.load, round)?;
    let asked = contender.asked() - asked;
    if asked > 0 {
        return Err(format!("it asked the origin {asked} times: not every answer was a hit"));
    }
    if task.must_hit && run.misses > 0 {
        return Err(format!("{} keys were not found", run.misses));
    }
    Ok((run.answers > 0).then(|| figures(&run, task.per_request)))
}

/// Runs a plan to its end; the error is what was answered wrongly, or not at all.
pub(crate) fn run(plan: &Plan, load: &Load, seed: u64) -> Result<Run, String> {
    let source = |thread| load.source(thread, plan.threads, seed);
    let run = engine::run(plan, &source, &mut |_, _| {}).map_err(|error| error.to_string())?;
    if run.wrong > 0 {
        return Err(format!(
            "{} of {} answers had other bytes than they should have",
            run.wrong,
            run.answers + run.wrong
        ));
    }
    if let Some((what, times)) = run.errors.iter().next() {
        return Err(format!("{times} requests failed: {what}"));
    }
    Ok(run)
}

fn figures(run: &Run, per_request: u64) -> Round {
    let done = run.answers * per_request;
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / done as f64;
    let server: Duration = run.servers.iter().map(|cpu| cpu.time).sum();
    let latency = |share| run.latency.value_at_quantile(share) as f64 / 1e3;
    Round {
        done,
        seconds: run.took.as_secs_f64(),
        cpu: micros(server),
        total: micros(server + run.own_cpu),
        p50: latency(0.5),
        p99: latency(0.99),
    }
}

/// One line that is written over, for whoever watches.
fn progress(title: &str, round: usize, rounds: usize) {
    if io::stderr().is_terminal() {
        eprint!("\r\x1b[K{title}: round {} of {rounds}", round + 1);
        let _shown = io::stderr().flush();
    }
}

fn progress_end() {
    if io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::{load::Keys, peers::pages};

    fn task(size: usize, page: Vec<u8>) -> Task {
        let target = pages::target(size, 0);
        Task {
            title: "pages".to_owned(),
            unit: "request",
            measure: Measure::Cpu,
            load: Load::of(Keys::list([target.as_str()]).unwrap()),
            connections: 3,
            depth: 1,
            per_request: 1,
            known: Arc::new(Known::of([(target, page)])),
            large: false,
            must_hit: false,
            rounds: 2,
            slice: Duration::from_millis(20),
        }
    }

    /// A server of pages, and where it gets them.
    fn contender(server: &Origin, origin: Option<Arc<Origin>>) -> Contender {
        Contender {
            name: server.address().to_string(),
            title: String::new(),
            base: None,
            ours: false,
            address: server.address(),
            protocol: Protocol::Http { host: "test".to_owned(), fields: Vec::new() },
            pids: Vec::new(),
            origin,
            wrong: None,
        }
    }

    #[test]
    fn who_asks_its_origin_is_told_from_others() {
        let [server, quiet, asked] = [(); 3].map(|()| Arc::new(Origin::start().unwrap()));
        // The second is its own origin.
        let contenders = [contender(&server, Some(quiet)), contender(&asked, Some(Arc::clone(&asked)))];
        let done = AtomicBool::new(false);
        let table = std::thread::scope(|scope| {
            // Its origin is asked without end, in the visits of the other as well.
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    super::super::fetch::page(asked.address(), 100, 0).unwrap();
                }
            });
            while asked.asked() == 0 {
                std::thread::yield_now();
            }
            let table = measure(&task(1000, pages::body(1000, 0)), &contenders);
            done.store(true, Ordering::Relaxed);
            table
        });
        assert_eq!((&table.rows[0].wrong, table.rows[0].rounds.len()), (&None, 2));
        let wrong = table.rows[1].wrong.as_deref().unwrap();
        assert!(wrong.starts_with("it asked the origin"), "{wrong}");
    }

    #[test]
    fn a_page_that_is_wrong_in_every_answer_is_wrong() {
        let server = Origin::start().unwrap();
        for large in [false, true] {
            let mut other = pages::body(1000, 0);
            other[999] ^= 1;
            let table = measure(&Task { large, ..task(1000, other) }, &[contender(&server, None)]);
            let wrong = table.rows[0].wrong.as_deref().unwrap();
            assert!(wrong.ends_with("had other bytes than they should have"), "{wrong}");
        }
    }
}
