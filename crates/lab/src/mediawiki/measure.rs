//! Measures one row: starts its caches, warms them if the row says so, runs the load, and verifies
//! that the measurement matches the row's title.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use serde::Serialize;

use super::{
    args::MediawikiArgs,
    caches::Caches,
    error::Error,
    load,
    rows::{Database, Figures, Objects, Pages, Row},
    sample::{Sampler, Series},
    setup::Setup,
};
use crate::{
    engine::{self, Stop},
    interrupt,
    load::Source,
    peers,
    report::Run,
};

/// Interval at which interruptions are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Least time of an answer with a slow database, as a share of the delays of its statements: some
/// statements run after the answer.
const SLOW_AT_LEAST: f64 = 0.5;

/// Result of a row.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) row: Row,
    pub(super) users: u32,
    pub(super) figures: Figures,
    /// Answers from a page cache, according to their heads.
    pub(super) page_hits: u64,
    /// Statements per answer that reached the database.
    pub(super) statements: f64,
    /// Processor time per answer of the wiki (web server and PHP), the database, and each cache.
    pub(super) cpu: Vec<Cost>,
    /// Articles that equalled the originals.
    pub(super) compared: usize,
    /// Why the row is invalid; empty if it is valid.
    pub(super) faults: Vec<String>,
    /// Start of the row in seconds since the start of the experiment.
    pub(super) began: f64,
    pub(super) series: Vec<Series>,
}

/// Processor time per answer.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Cost {
    pub(super) of: &'static str,
    pub(super) milliseconds: f64,
}

/// Measures a row.
pub(super) fn measure(setup: &Setup, args: &MediawikiArgs, row: &Row) -> Result<Outcome, Error> {
    let users = row.users(args);
    let loops = row.requests(args).div_ceil(u64::from(users));
    let caches = Caches::start(&setup.programs, setup.dir(), row, setup.web.addr())?;
    let front = caches.front.unwrap_or(setup.web.addr());
    let articles = &setup.wiki.articles;
    let mut faults = Vec::new();
    if row.warm {
        setup.tell(row, "warming");
        setup.wiki.route(&setup.database_for(Database::Tcp), caches.objects)?;
        let warming = setup.originals.compare(front, articles, users as usize, 1);
        faults.extend(warming.faults.into_iter().map(|fault| format!("while warming: {fault}")));
        go_on()?;
    }
    setup.wiki.route(&setup.database_for(row.database), caches.objects)?;
    setup.tell(row, &format!("{} requests of {users} users", loops * u64::from(users)));

    let began = setup.began.elapsed().as_secs_f64();
    let pids = pids(setup, &caches);
    let statements = setup.database.statements()?;
    let sampler = Sampler::begin(&caches.watched);
    let run = ask(setup, args, row, front, loops, pids.iter().map(|(_, pid)| *pid).collect())?;
    let series = sampler.end();
    let statements = setup.database.statements()?.saturating_sub(statements);

    let answers = run.answers.max(1) as f64;
    let mut outcome = Outcome {
        row: *row,
        users,
        figures: figures(&run),
        page_hits: run.hits,
        statements: statements as f64 / answers,
        cpu: costs(&run, &pids),
        compared: 0,
        faults,
        began,
        series,
    };
    outcome.verify_run(&run, loops * u64::from(users));
    outcome.verify_database(args.delay);
    outcome.verify_caches();
    // With a slow database each article takes as long here as in the row: a few are enough.
    let slow = row.database == Database::Slow && row.pages == Pages::None;
    let step = if slow { articles.len().div_ceil(users as usize) } else { 1 };
    let round = setup.originals.compare(front, articles, users as usize, step);
    go_on()?;
    outcome.compared = round.right;
    outcome.faults.extend(round.faults);
    setup.tell(row, &outcome.in_short());
    Ok(outcome)
}

/// Runs the load until all users are done, or an interruption.
fn ask(
    setup: &Setup,
    args: &MediawikiArgs,
    row: &Row,
    front: std::net::SocketAddr,
    loops: u64,
    pids: Vec<u32>,
) -> Result<Run, Error> {
    let stop = Stop::default();
    let plan = load::plan(front, row.users(args), loops, args.ramp_up, stop.clone(), pids);
    let done = AtomicBool::new(false);
    let articles = &setup.wiki.articles;
    let source = |thread: usize| {
        let seed = args.seed.wrapping_mul(0x9e37_79b9).wrapping_add(thread as u64);
        Box::new(load::Articles::new(articles, seed)) as Box<dyn Source>
    };
    let run = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if interrupt::requested() {
                    stop.set();
                }
                thread::sleep(CHECK_INTERVAL);
            }
        });
        let run = engine::run(&plan, &source, &mut |_, _| {});
        done.store(true, Ordering::Relaxed);
        run
    });
    go_on()?;
    Ok(run?)
}

/// Fails after an interruption.
fn go_on() -> Result<(), Error> {
    if interrupt::requested() { Err(peers::Error::Interrupted.into()) } else { Ok(()) }
}

fn pids(setup: &Setup, caches: &Caches) -> Vec<(&'static str, u32)> {
    let wiki = setup.web.pids().into_iter().map(|pid| ("wiki", pid));
    wiki.chain([("database", setup.database.pid())]).chain(caches.pids()).collect()
}

fn costs(run: &Run, pids: &[(&'static str, u32)]) -> Vec<Cost> {
    let mut costs: Vec<Cost> = Vec::new();
    for (name, pid) in pids {
        let taken: Duration =
            run.servers.iter().filter(|cpu| cpu.pid == *pid).map(|cpu| cpu.time).sum();
        let each = taken.as_secs_f64() * 1e3 / run.answers.max(1) as f64;
        match costs.iter_mut().find(|cost| cost.of == *name) {
            Some(cost) => cost.milliseconds += each,
            None => costs.push(Cost { of: name, milliseconds: each }),
        }
    }
    costs
}

fn figures(run: &Run) -> Figures {
    let ms = |nanoseconds: u64| nanoseconds as f64 / 1e6;
    let seconds = run.took.as_secs_f64().max(1e-9);
    Figures {
        n: run.answers,
        mean: run.latency.mean() / 1e6,
        median: ms(run.latency.value_at_quantile(0.5)),
        p90: ms(run.latency.value_at_quantile(0.9)),
        min: ms(run.latency.min()),
        max: ms(run.latency.max()),
        per_second: run.answers as f64 / seconds,
        kb_per_second: run.received as f64 / 1024.0 / seconds,
    }
}

impl Outcome {
    /// Whether the measurement matches the row's title.
    pub(super) fn is_valid(&self) -> bool {
        self.faults.is_empty()
    }

    fn in_short(&self) -> String {
        let Figures { mean, per_second, .. } = self.figures;
        let valid = match self.faults.first() {
            None => "valid".to_owned(),
            Some(fault) => format!("NOT VALID: {fault}"),
        };
        format!(
            "mean {mean:.1} ms, {per_second:.1} requests/s, {:.1} statements each; {valid}",
            self.statements
        )
    }

    fn fault(&mut self, what: String) {
        self.faults.push(what);
    }

    /// Checks that every request was answered completely with status 200.
    fn verify_run(&mut self, run: &Run, requests: u64) {
        for (what, times) in &run.errors {
            self.fault(format!("{times} requests failed: {what}"));
        }
        if run.wrong > 0 {
            self.fault(format!("{} answers had wrong bytes", run.wrong));
        }
        if run.answers != requests && run.errors.is_empty() {
            self.fault(format!("{} answers to {requests} requests", run.answers));
        }
    }

    /// Checks whether the database was queried as expected, and was slow if it should be.
    fn verify_database(&mut self, delay: Duration) {
        if self.row.pages != Pages::None {
            if self.row.warm && self.statements > 0.0 {
                self.fault(format!(
                    "{:.2} statements for each answer, and all should come from the page cache",
                    self.statements
                ));
            }
            return;
        }
        if self.statements < 1.0 {
            self.fault("the database was not asked".to_owned());
        }
        let least = delay.as_secs_f64() * 1e3 * self.statements * SLOW_AT_LEAST;
        if self.row.database == Database::Slow && self.figures.mean < least {
            let Outcome { statements, figures, .. } = self;
            let fault = format!(
                "{statements:.1} slow statements in {:.0} ms: the database was not slow",
                figures.mean
            );
            self.fault(fault);
        }
    }

    /// Checks hits as reported by answers and by the caches' counters.
    fn verify_caches(&mut self) {
        let n = self.figures.n;
        match (self.row.pages, self.row.warm) {
            (Pages::None, _) if self.page_hits > 0 => {
                self.fault(format!("{} hits without a page cache", self.page_hits))
            }
            (Pages::None, _) => {}
            (_, true) if self.page_hits < n => {
                self.fault(format!("{} hits in {n} answers of a warm page cache", self.page_hits))
            }
            (_, false) if self.page_hits == n => {
                self.fault("only hits in a cold page cache".to_owned())
            }
            (_, false) if self.page_hits == 0 => self.fault("no hits in a page cache".to_owned()),
            _ => {}
        }
        for series in self.series.clone() {
            let (hits, misses) =
                (series.gained(|sample| sample.hits), series.gained(|sample| sample.misses));
            let pages = !matches!(series.server, "memcached" | "Larder, objects");
            if series.samples.len() < 2 {
                self.fault(format!("{} gave no figures", series.server));
            } else if pages && hits < self.page_hits {
                self.fault(format!(
                    "{} counts {hits} hits, its answers {}",
                    series.server, self.page_hits
                ));
            } else if !pages && self.row.pages == Pages::None {
                self.verify_objects(&series, hits, misses);
            }
        }
        if self.row.objects != Objects::None
            && self.series.iter().all(|series| series.samples.is_empty())
        {
            self.fault("no figures of the object cache".to_owned());
        }
    }

    fn verify_objects(&mut self, series: &Series, hits: u64, misses: u64) {
        let items = series.samples.last().map_or(0, |sample| sample.items);
        if hits == 0 || items == 0 {
            self.fault(format!("{}: {hits} hits, {items} items: it was not used", series.server));
        } else if !self.row.warm && misses == 0 {
            self.fault(format!("{} was not cold: it missed nothing", series.server));
        } else if self.row.warm && misses > hits {
            self.fault(format!("{} was not warm: {hits} hits, {misses} misses", series.server));
        }
    }
}
