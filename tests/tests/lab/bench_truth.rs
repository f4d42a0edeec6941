//! The load generator tells the truth: its percentiles against delays that are known.
//!
//! The slow proxy holds requests and keeps a record of each: when it came, how long it took. What
//! the generator says must be within 2 % of what that record says, or arithmetic. Delays are
//! hundreds of milliseconds and stalls seconds, so that 2 % is well above what a machine with some
//! other work adds. Where it is not, the proxy's record shows it (waits that ended late), and all
//! is measured again; a machine that is too busy each time shows only that no percentile is below
//! the record. That must always hold: what the generator measures begins before what the proxy does
//! and ends after it, however late either is woken, so that less would mean that waiting was left
//! out.

#![allow(clippy::unwrap_used)]

use larder_lab::engine::{self, Address, Plan, Protocol, Until};
use larder_lab::load::{Arrivals, Operation, Pace, Source, Verb};
use larder_lab::report::Run;
use larder_lab::slow::{self, Config, Handle, Per, Request, Rule, Stall};
use larder_tests::{Larder, Origin, PATIENCE, wait_until};
use std::net::SocketAddr;
use std::time::Duration;

/// What may be between the generator and the truth.
const TOLERANCE: f64 = 0.02;
/// Measured so often at most, where the machine was too busy.
const ATTEMPTS: usize = 3;
/// A machine that wakes the proxy later than this after one of its waits, seconds, wakes the
/// generator as late: too busy.
const LATE: f64 = 0.003;

/// Percentiles that are compared, those that so many requests have.
const PERCENTILES: [f64; 8] = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999];

/// Whether so many requests have this percentile: one at least is beyond it.
fn is_told(at: f64, requests: usize) -> bool {
    requests as f64 * (1.0 - at) > 0.999
}

/// A thread's requests. Each has its place among those of all threads in its target, as they take
/// turns at an open loop's schedule.
struct Numbered {
    next: usize,
    threads: usize,
}

impl Source for Numbered {
    fn next(&mut self, operation: &mut Operation) -> bool {
        operation.key = format!("/page?{}", self.next).into_bytes();
        operation.verb = Verb::Get;
        self.next += self.threads;
        true
    }
}

/// The place of a request that the proxy saw.
fn place(request: &Request) -> usize {
    let number =
        request.text.as_deref().and_then(|text| text.split_once('?')?.1.trim().parse().ok());
    number.unwrap_or_else(|| panic!("no place in {request}"))
}

fn origin() -> Origin {
    Origin::serving(&["Cache-Control: max-age=600"], "hello")
}

fn proxy(server: SocketAddr, rule: &Rule) -> Handle {
    let mut config =
        Config::new(Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0))), Address::Tcp(server));
    config.protocol = slow::Protocol::Http;
    config.rules = vec![rule.clone()];
    config.keep = 10_000;
    slow::start(config).unwrap()
}

/// 600 ms, 200 ms more or less.
fn jittered() -> Rule {
    let mut rule = Rule::delay(Duration::from_millis(600));
    rule.what.jitter = Duration::from_millis(200);
    rule
}

/// A rate for a time.
fn open(rate: f64, arrivals: Arrivals, seconds: f64) -> impl Fn(Plan) -> Plan {
    let until = Until { time: Some(Duration::from_secs_f64(seconds)), requests: None };
    move |plan| Plan { pace: Pace::Open { rate, arrivals }, until, ..plan }
}

/// A run, and what the proxy saw of it.
struct Seen {
    run: Run,
    /// In the order in which they came.
    requests: Vec<Request>,
    /// The worst lateness of a wait, seconds.
    late: f64,
}

impl Seen {
    fn of(server: SocketAddr, rule: &Rule, with: impl Fn(Plan) -> Plan) -> Seen {
        let slow = proxy(server, rule);
        let protocol = Protocol::Http { host: "test".to_owned(), fields: Vec::new() };
        let plan = with(Plan { timeout: PATIENCE, ..Plan::new(slow.address().clone(), protocol) });
        let source =
            |thread| Box::new(Numbered { next: thread, threads: plan.threads }) as Box<dyn Source>;
        let run = engine::run(&plan, &source, &mut |_, _| {}).unwrap();
        assert_eq!(
            (run.errors.len(), run.wrong, run.answers),
            (0, 0, run.requests),
            "{:?}",
            run.errors
        );
        // What was asked last on a connection is recorded when it ends.
        wait_until("the proxy's connections to end", || slow.totals().open == 0);
        let mut requests = slow.requests();
        requests.sort_by_key(|request| request.at);
        assert_eq!(requests.len() as u64, run.answers);
        assert!(requests.iter().all(|request| request.took.is_some()), "{requests:?}");
        Seen { run, requests, late: slow.totals().latest as f64 / 1e9 }
    }

    fn quantile(&self, at: f64) -> f64 {
        self.run.latency.value_at_quantile(at) as f64 / 1e9
    }

    /// How long each request took, as recorded, in order of length.
    fn took(&self) -> Vec<f64> {
        sorted(self.requests.iter().map(|request| request.took.unwrap().as_secs_f64()))
    }

    /// When each request came, seconds from the first.
    fn came(&self) -> Vec<f64> {
        self.requests
            .iter()
            .map(|request| (request.at - self.requests[0].at).as_secs_f64())
            .collect()
    }

    /// The same for requests that were due at even gaps, from when they were due. One at least was
    /// sent in time.
    fn took_from_due(&self, rate: f64) -> Vec<f64> {
        let due = |request: &Request| place(request) as f64 / rate;
        let begin = self
            .requests
            .iter()
            .map(|request| request.at.as_secs_f64() - due(request))
            .fold(f64::MAX, f64::min);
        let end = |request: &Request| (request.at + request.took.unwrap()).as_secs_f64();
        sorted(self.requests.iter().map(|request| end(request) - due(request) - begin))
    }

    /// Compares the generator's percentiles with these times: a spread, not one number. Smaller
    /// ones fail at once, larger ones are an error.
    #[track_caller]
    fn check(&self, right: &[f64]) -> Result<(), String> {
        assert_eq!(self.run.latency.len(), right.len() as u64);
        assert!(
            nearest_rank(right, 0.9) - nearest_rank(right, 0.1) > 0.25,
            "no spread: nothing is told"
        );
        for at in PERCENTILES.into_iter().filter(|at| is_told(*at, right.len())) {
            let (said, right) = (self.quantile(at), nearest_rank(right, at));
            assert!(
                said > right * (1.0 - TOLERANCE),
                "p{}: {said:.4} s, but it was {right:.4} s",
                at * 100.0
            );
            close(&format!("p{}", at * 100.0), said, right)?;
        }
        Ok(())
    }
}

fn sorted(times: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut times: Vec<f64> = times.collect();
    times.sort_by(f64::total_cmp);
    times
}

fn nearest_rank(sorted: &[f64], at: f64) -> f64 {
    let rank = (sorted.len() as f64 * at).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

fn close(what: &str, said: f64, right: f64) -> Result<(), String> {
    if (said / right - 1.0).abs() < TOLERANCE {
        return Ok(());
    }
    Err(format!("{what}: {said:.4} s, but it was {right:.4} s"))
}

/// Measures and checks; again only where the check fails and the machine was too busy, as `busy`
/// tells from the record. Where it always was, what is left is what the check asserts.
#[track_caller]
fn truthful(
    measure: impl Fn() -> Seen,
    busy: impl Fn(&Seen) -> bool,
    check: impl Fn(&Seen) -> Result<(), String>,
) {
    for attempt in 1..=ATTEMPTS {
        let seen = measure();
        let Err(why) = check(&seen) else { return };
        let why =
            format!("attempt {attempt}: {why}; the proxy was late by up to {:.4} s", seen.late);
        assert!(busy(&seen), "{why}");
        eprintln!("{why}: the machine was too busy");
    }
}

fn woken_late(seen: &Seen) -> bool {
    seen.late > LATE
}

#[test]
fn a_closed_loop_before_an_origin_and_before_larder() {
    let origin = origin();
    let larder = Larder::before(&origin.url());
    for (server, threads) in [(origin.addr(), 1), (larder.addr(), 2)] {
        let until = Until { requests: Some(300), time: None };
        let measure = || {
            Seen::of(server, &jittered(), |plan| Plan { connections: 30, threads, until, ..plan })
        };
        truthful(measure, woken_late, |seen| {
            assert_eq!(seen.run.answers, 300);
            seen.check(&seen.took())
        });
    }
}

#[test]
fn an_open_loop_at_even_gaps() {
    let (origin, rate) = (origin(), 200.0);
    // Of each thread sixty are under way at a time: what is due finds a free connection at once.
    let with =
        |plan| Plan { connections: 240, threads: 2, ..open(rate, Arrivals::Even, 5.0)(plan) };
    truthful(
        || Seen::of(origin.addr(), &jittered(), with),
        woken_late,
        |seen| {
            assert_eq!(seen.run.answers, 1000);
            close("the last one's coming", *seen.came().last().unwrap(), 999.0 / rate)?;
            seen.check(&seen.took_from_due(rate))
        },
    );
}

#[test]
fn an_open_loop_of_poisson_arrivals() {
    let (origin, rate, seconds) = (origin(), 200.0, 6.0);
    let with = |plan| Plan {
        connections: 300,
        threads: 2,
        ..open(rate, Arrivals::Poisson, seconds)(plan)
    };
    truthful(
        || Seen::of(origin.addr(), &jittered(), with),
        woken_late,
        |seen| {
            // Four standard deviations, which are the root of the number.
            let count = seen.run.answers as f64;
            assert!((count - rate * seconds).abs() < 4.0 * (rate * seconds).sqrt(), "{count}");
            // Half of exponential gaps are shorter than 0.69 of their mean; of even ones, none
            // would be. This is known of so many to 0.04.
            let gaps = sorted(seen.came().windows(2).map(|pair| pair[1] - pair[0]));
            let median = nearest_rank(&gaps, 0.5) * rate;
            if !(0.5..0.85).contains(&median) {
                return Err(format!("the median gap is {median} of the mean"));
            }
            seen.check(&seen.took())
        },
    );
}

const RATE: f64 = 100.0;
const SECONDS: f64 = 10.0;
const STALL: f64 = 4.0;
const CONNECTIONS: usize = 8;

/// Of the requests that are due during a stall of S seconds at R a second, R x (S - x) wait longer
/// than x: so the percentile of the longest tenth is S - 0.1 x all / R, and so on.
fn by_arithmetic(at: f64) -> f64 {
    STALL - (1.0 - at) * SECONDS
}

#[test]
fn a_stall_is_in_the_latency_of_whatever_was_due_in_it() {
    let origin = origin();
    let mut rule = Rule::delay(Duration::ZERO);
    rule.per = Some(Per::Bytes);
    (rule.when.after, rule.when.until) =
        (Some(Duration::from_secs(3)), Some(Duration::from_secs(7)));
    rule.what.stall = Some(Stall::ToEnd);
    let with = |plan| Plan {
        connections: CONNECTIONS,
        threads: 2,
        ..open(RATE, Arrivals::Even, SECONDS)(plan)
    };
    let long = [0.9, 0.95, 0.99, 0.999];
    // Requests that waited take their time after the stall. p90 contains a quarter of that time,
    // higher percentiles less. If the record itself is off, this took too long.
    let busy = |seen: &Seen| {
        let right = seen.took_from_due(RATE);
        long.iter().any(|at| close("", nearest_rank(&right, *at), by_arithmetic(*at)).is_err())
    };
    truthful(
        || Seen::of(origin.addr(), &rule, with),
        busy,
        |seen| {
            assert_eq!(seen.run.answers as f64, RATE * SECONDS);
            let right = seen.took_from_due(RATE);
            for at in [0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99, 0.999] {
                close(
                    &format!("recorded p{}", at * 100.0),
                    seen.quantile(at),
                    nearest_rank(&right, at),
                )?;
            }
            for at in long {
                close(&format!("p{}", at * 100.0), seen.quantile(at), by_arithmetic(at))?;
            }
            // The server was slow only for what it had: one on each connection.
            let service = seen.run.service.as_ref().unwrap();
            let slow_ones = service.len() - service.count_between(0, 1_000_000_000);
            assert_eq!(slow_ones, CONNECTIONS as u64);
            Ok(())
        },
    );
}
