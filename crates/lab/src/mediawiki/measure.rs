//! One row: its caches started empty, warmed where it is said, the load, and the proof that what was measured is what the row's
//! title says.

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
    house::House,
    load,
    rows::{Database, Figures, Objects, Pages, Row},
    sample::{Sampler, Series},
};
use crate::{
    engine::{self, Stop},
    interrupt,
    load::Source,
    peers,
    report::Run,
};

/// Between two looks whether somebody asked us to stop.
const LOOK: Duration = Duration::from_millis(50);
/// Of what its statements alone must take with a slow database, an answer must have taken at least this: some statements run
/// after the answer has been sent.
const SLOW_AT_LEAST: f64 = 0.5;

/// What came of a row.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) row: Row,
    pub(super) users: u32,
    pub(super) figures: Figures,
    /// Pages that came from a page cache, by what their heads say.
    pub(super) page_hits: u64,
    /// Statements that reached the database, for each answer.
    pub(super) statements: f64,
    /// Processor time for each answer: of the wiki (web server and PHP), the database, each cache.
    pub(super) cpu: Vec<Cost>,
    /// Articles compared with the originals, and equal.
    pub(super) compared: usize,
    /// Why the row is not what it says; none: it is valid.
    pub(super) faults: Vec<String>,
    /// When it began, seconds since the experiment did.
    pub(super) began: f64,
    pub(super) series: Vec<Series>,
}

/// Processor time for one answer.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Cost {
    pub(super) of: &'static str,
    pub(super) milliseconds: f64,
}

/// Makes a row.
pub(super) fn measure(house: &House, args: &MediawikiArgs, row: &Row) -> Result<Outcome, Error> {
    let users = row.users(args);
    let loops = row.requests(args).div_ceil(u64::from(users));
    let caches = Caches::start(&house.programs, house.dir(), row, house.web.addr())?;
    let front = caches.front.unwrap_or(house.web.addr());
    let articles = &house.wiki.articles;
    let mut faults = Vec::new();
    if row.warm {
        house.tell(row, "warming");
        house.wiki.route(&house.database_for(Database::Tcp), caches.objects)?;
        let warming = house.originals.compare(front, articles, users as usize, 1);
        faults.extend(warming.faults.into_iter().map(|fault| format!("while warming: {fault}")));
        go_on()?;
    }
    house.wiki.route(&house.database_for(row.database), caches.objects)?;
    house.tell(row, &format!("{} requests of {users} users", loops * u64::from(users)));

    let began = house.began.elapsed().as_secs_f64();
    let pids = pids(house, &caches);
    let statements = house.database.statements()?;
    let sampler = Sampler::begin(&caches.watched);
    let run = ask(house, args, row, front, loops, pids.iter().map(|(_, pid)| *pid).collect())?;
    let series = sampler.end();
    let statements = house.database.statements()?.saturating_sub(statements);

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
    // Each article takes a slow database as long as in the row: a few are enough there.
    let slow = row.database == Database::Slow && row.pages == Pages::None;
    let step = if slow { articles.len().div_ceil(users as usize) } else { 1 };
    let round = house.originals.compare(front, articles, users as usize, step);
    go_on()?;
    outcome.compared = round.right;
    outcome.faults.extend(round.faults);
    house.tell(row, &outcome.in_short());
    Ok(outcome)
}

/// Loads until all users are done, or somebody asks us to stop.
fn ask(
    house: &House,
    args: &MediawikiArgs,
    row: &Row,
    front: std::net::SocketAddr,
    loops: u64,
    pids: Vec<u32>,
) -> Result<Run, Error> {
    let stop = Stop::default();
    let plan = load::plan(front, row.users(args), loops, args.ramp_up, stop.clone(), pids);
    let done = AtomicBool::new(false);
    let articles = &house.wiki.articles;
    let source = |thread: usize| {
        let seed = args.seed.wrapping_mul(0x9e37_79b9).wrapping_add(thread as u64);
        Box::new(load::Articles::new(articles, seed)) as Box<dyn Source>
    };
    let run = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if interrupt::asked() {
                    stop.set();
                }
                thread::sleep(LOOK);
            }
        });
        let run = engine::run(&plan, &source, &mut |_, _| {});
        done.store(true, Ordering::Relaxed);
        run
    });
    go_on()?;
    Ok(run?)
}

/// Fails when somebody asked us to stop.
fn go_on() -> Result<(), Error> {
    if interrupt::asked() { Err(peers::Error::Interrupted.into()) } else { Ok(()) }
}

fn pids(house: &House, caches: &Caches) -> Vec<(&'static str, u32)> {
    let wiki = house.web.pids().into_iter().map(|pid| ("wiki", pid));
    wiki.chain([("database", house.database.pid())]).chain(caches.pids()).collect()
}

fn costs(run: &Run, pids: &[(&'static str, u32)]) -> Vec<Cost> {
    let mut costs: Vec<Cost> = Vec::new();
    for (name, pid) in pids {
        let taken: Duration = run.servers.iter().filter(|cpu| cpu.pid == *pid).map(|cpu| cpu.time).sum();
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
    /// Whether it is what its title says.
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

    /// Every request was answered with 200 and whole.
    fn verify_run(&mut self, run: &Run, asked: u64) {
        for (what, times) in &run.errors {
            self.fault(format!("{times} requests failed: {what}"));
        }
        if run.wrong > 0 {
            self.fault(format!("{} answers had wrong bytes", run.wrong));
        }
        if run.answers != asked && run.errors.is_empty() {
            self.fault(format!("{} answers to {asked} requests", run.answers));
        }
    }

    /// The database was asked, or was not, and was slow where it should be.
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

    /// Hits where hits should be, by what the answers say and by what the caches count.
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
            (_, false) if self.page_hits == n => self.fault("only hits in a cold page cache".to_owned()),
            (_, false) if self.page_hits == 0 => self.fault("no hits in a page cache".to_owned()),
            _ => {}
        }
        for series in self.series.clone() {
            let (hits, misses) = (series.gained(|sample| sample.hits), series.gained(|sample| sample.misses));
            let pages = !matches!(series.server, "memcached" | "Larder, objects");
            if series.samples.len() < 2 {
                self.fault(format!("{} gave no figures", series.server));
            } else if pages && hits < self.page_hits {
                self.fault(format!("{} counts {hits} hits, its answers {}", series.server, self.page_hits));
            } else if !pages && self.row.pages == Pages::None {
                self.verify_objects(&series, hits, misses);
            }
        }
        if self.row.objects != Objects::None && self.series.iter().all(|series| series.samples.is_empty()) {
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
