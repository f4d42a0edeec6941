//! Visits servers in turn, for a fraction of a second each, in a new order each round. Slow
//! variations (the speed of a shared machine varies by 40 % within a third of a second) then affect
//! all figures of a round alike and cancel in their ratios.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use rand::{SeedableRng, rngs::SmallRng, seq::SliceRandom};

use super::result::{Measure, Round, Row, Table};
use crate::{
    engine::{self, Address, Check, KnownPages, Plan, Protocol, Until},
    interrupt,
    load::Load,
    peers::Origin,
    progress::Progress,
    report::Run,
};

/// Uncounted first rounds, in which connections, caches and branch predictors warm up.
const UNCOUNTED: usize = 2;
/// Consecutive visits without an answer after which a server counts as silent: on a busy machine
/// the generator may miss a whole visit.
const SILENT: usize = 20;
/// One in this many large pages is compared in the counted rounds: over 60 connections that is each
/// in turn, at a hundredth of the cost of comparing all. A prime, so that the connection differs
/// each time.
const SAMPLED: u32 = 61;
/// Timeout of an answer. A saturated server on one processor answers within tens of milliseconds.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A server in a table.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) base: Option<String>,
    pub(crate) ours: bool,
    pub(crate) address: SocketAddr,
    pub(crate) protocol: Protocol,
    /// Its processes; the engine finds their children.
    pub(crate) pids: Vec<u32>,
    /// Its own origin, which must not be asked during a visit as everything is a hit.
    pub(crate) origin: Option<Arc<Origin>>,
    /// Why it was found wrong before the rounds.
    pub(crate) wrong: Option<String>,
}

impl Candidate {
    /// Number of pages its origin has sent.
    fn pages_sent(&self) -> u64 {
        self.origin.as_deref().map_or(0, Origin::pages_sent)
    }
}

/// Workload of one table.
pub(crate) struct Task {
    pub(crate) title: String,
    pub(crate) unit: &'static str,
    pub(crate) measure: Measure,
    pub(crate) load: Load,
    pub(crate) connections: usize,
    pub(crate) depth: usize,
    /// Units per request.
    pub(crate) per_request: u64,
    /// The origin's pages, to compare answers with.
    pub(crate) known: Arc<KnownPages>,
    /// Compare only a sample of the pages in counted rounds: comparing every megabyte would distort
    /// the generator's cost.
    pub(crate) large: bool,
    /// Every get must hit.
    pub(crate) must_hit: bool,
    pub(crate) rounds: usize,
    pub(crate) slice: Duration,
}

/// Measures all rounds. An interruption ends it early with the rounds completed so far.
pub(crate) fn measure(task: &Task, candidates: &[Candidate]) -> Table {
    let mut rows: Vec<Row> = candidates.iter().map(row).collect();
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    // A different order each round, the same in each run.
    let mut random = SmallRng::seed_from_u64(task.rounds as u64);
    let progress =
        Progress::new(&format!("{}, rounds", task.title), (task.rounds + UNCOUNTED) as u64);
    for round in 0..task.rounds + UNCOUNTED {
        order.shuffle(&mut random);
        let before: Vec<usize> = rows.iter().map(|row| row.rounds.len()).collect();
        for &at in &order {
            if rows[at].wrong.is_some() || interrupt::requested() {
                continue;
            }
            match visit_again(task, &candidates[at], round as u64) {
                Ok(figures) if round >= UNCOUNTED => rows[at].rounds.push(figures),
                Ok(_) => {}
                // A visit cut off by an interruption is not the server's fault.
                Err(_) if interrupt::requested() => {}
                Err(wrong) => rows[at].wrong = Some(wrong),
            }
        }
        if interrupt::requested() {
            // A round without all servers has no ratios.
            rows.iter_mut().zip(before).for_each(|(row, rounds)| row.rounds.truncate(rounds));
            break;
        }
        progress.advance(1);
    }
    drop(progress);
    Table { title: task.title.clone(), unit: task.unit.to_owned(), measure: task.measure, rows }
}

fn row(candidate: &Candidate) -> Row {
    Row {
        name: candidate.name.clone(),
        title: candidate.title.clone(),
        base: candidate.base.clone(),
        ours: candidate.ours,
        wrong: candidate.wrong.clone(),
        figures: None,
        behind: Vec::new(),
        rounds: Vec::new(),
    }
}

/// Repeats a visit until there is an answer.
fn visit_again(task: &Task, candidate: &Candidate, round: u64) -> Result<Round, String> {
    for _ in 0..SILENT {
        if let Some(round) = visit(task, candidate, round)? {
            return Ok(round);
        }
        if interrupt::requested() {
            return Err("interrupted".to_owned());
        }
    }
    Err(format!("it answered nothing in {SILENT} visits"))
}

/// One visit; `None` without any answer. The error says what the server did wrong.
fn visit(task: &Task, candidate: &Candidate, round: u64) -> Result<Option<Round>, String> {
    let plan = Plan {
        connections: task.connections,
        depth: task.depth,
        until: Until { time: Some(task.slice), requests: None },
        timeout: TIMEOUT,
        check: if task.large && round >= UNCOUNTED as u64 {
            Check::Every(SAMPLED)
        } else {
            Check::Bytes
        },
        lengths: task.load.lengths(true),
        known: Arc::clone(&task.known),
        seed: round,
        server_pids: candidate.pids.clone(),
        ..Plan::new(Address::Tcp(candidate.address), candidate.protocol.clone())
    };
    let sent = candidate.pages_sent();
    // Another part of the stream each round, the same for all servers of a round.
    let run = run(&plan, &task.load, round)?;
    let sent = candidate.pages_sent() - sent;
    if sent > 0 {
        return Err(format!("it asked the origin {sent} times: not every answer was a hit"));
    }
    if task.must_hit && run.misses > 0 {
        return Err(format!("{} keys were not found", run.misses));
    }
    Ok((run.answers > 0).then(|| figures(&run, task.per_request)))
}

/// Runs a plan to its end; the error says what was wrong or missing.
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
            known: Arc::new(KnownPages::of([(target, page)])),
            large: false,
            must_hit: false,
            rounds: 2,
            slice: Duration::from_millis(20),
        }
    }

    /// A page server and its origin.
    fn candidate(server: &Origin, origin: Option<Arc<Origin>>) -> Candidate {
        Candidate {
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
        // The second server is its own origin.
        let candidates =
            [candidate(&server, Some(quiet)), candidate(&asked, Some(Arc::clone(&asked)))];
        let done = AtomicBool::new(false);
        let table = std::thread::scope(|scope| {
            // Its origin is requested all the time, also during the visits of the other.
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    super::super::fetch::page(asked.address(), 100, 0).unwrap();
                }
            });
            while asked.pages_sent() == 0 {
                std::thread::yield_now();
            }
            let table = measure(&task(1000, pages::body(1000, 0)), &candidates);
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
            let table = measure(&Task { large, ..task(1000, other) }, &[candidate(&server, None)]);
            let wrong = table.rows[0].wrong.as_deref().unwrap();
            assert!(wrong.ends_with("had other bytes than they should have"), "{wrong}");
        }
    }
}
