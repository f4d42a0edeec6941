//! The load generator: connections, protocols, time. One event loop per thread; no allocation per
//! request.
//!
//! | file | contents |
//! |---|---|
//! | `plan`, `error` | description of a run, and errors that prevent it |
//! | `worker`, `life` | a thread: its event loop; life cycle of connections |
//! | `dispatch`, `pacer` | open loop: due times of requests, and their assignment to connections |
//! | `connection`, `slots`, `socket`, `tls` | a connection: pending requests, bytes in both directions |
//! | `codec/` | protocols: encoding of requests, decoding and checking of answers |
//! | `http3`, `quic` | the same over HTTP/3: a UDP socket with QUIC, requests on its streams |
//! | `context` | state shared by the connections of a thread |
//! | `tally`, `pages` | counters; expected contents of pages |
//! | `collect` | combination of the threads' counts |
//!
//! A request in a closed loop costs one `recv`, one `send` and its share of an `epoll_wait`; a
//! batch of pipelined requests costs one `send`. The clock is read once per `recv`.
//!
//! A request is counted at its due time (closed loop: send time), not at the time of its answer; in
//! the end every counted request is exactly one of right, wrong or failed. When the time is over
//! nothing more becomes due and pending requests are awaited; in a run that is stopped for one
//! second only, and requests still pending then are not counted.

mod codec;
mod collect;
mod connection;
mod context;
mod dispatch;
mod error;
mod http3;
mod life;
mod pacer;
mod pages;
mod plan;
mod quic;
mod slots;
mod socket;
mod tally;
#[cfg(test)]
mod tests;
mod tls;
mod worker;

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    thread,
    time::{Duration, Instant},
};

pub use error::Error;
pub use pages::KnownPages;
pub use plan::{Address, Check, HttpVersion, Plan, Protocol, Stop, Until};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
pub use tls::{Tls, Trust};

use crate::{
    cpu::Watch,
    load::{Pace, Source},
    report::{Run, Second},
};
use collect::Collector;
use pages::SeenPages;
#[cfg(test)]
pub(crate) use tally::histogram;
use worker::{Report, ThreadSetup};

/// Capacity of the channel of reports, each with its histograms; a thread that finds it full
/// combines two seconds in one report.
const REPORTS: usize = 4;
/// Largest pipelining depth.
const MOST_DEPTH: usize = 65_536;
/// Most threads.
const MOST_THREADS: usize = 1024;
/// Files needed besides the connections: event loops, standard streams, others already open.
const OTHER_FILES: u64 = 64;
/// Interval at which a server's processes are listed, short enough to see most short-lived ones.
const REFRESH: Duration = Duration::from_secs(1);

/// Carries out `plan` with requests of `source`, which makes one source per thread. `on_second` is
/// called for every counted second when it is complete.
pub fn run(
    plan: &Plan,
    source: &dyn Fn(usize) -> Box<dyn Source>,
    on_second: &mut dyn FnMut(u64, &Second),
) -> Result<Run, Error> {
    check(plan)?;
    allow_files(plan.connections as u64 + plan.threads as u64 + OTHER_FILES)?;
    let pages = SeenPages::new();
    let sources: Vec<_> = (0..plan.threads).map(source).collect();
    let mut watch = Watch::new(&plan.server_pids)?;
    let start = Instant::now();
    let mut collector = Collector::new(plan.threads, plan.pace != Pace::Closed);
    let ended = thread::scope(|scope| {
        let (sender, receiver) = sync_channel(plan.threads * REPORTS);
        let threads: Vec<_> = sources
            .into_iter()
            .enumerate()
            .map(|(thread, source)| {
                let setup = ThreadSetup {
                    plan,
                    thread,
                    start,
                    pages: &pages,
                    source,
                    reports: sender.clone(),
                };
                scope.spawn(move || worker::run(setup))
            })
            .collect();
        drop(sender);
        listen(plan, &receiver, start, &mut watch, &mut collector, on_second);
        let mut threads = threads.into_iter();
        threads.try_for_each(|thread| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    });
    ended?;
    let mut run = collector.finish(plan, watch.spent());
    if pages.unchecked() > 0 {
        run.how
            .push(("pages not compared, being too many".to_owned(), pages.unchecked().to_string()));
    }
    Ok(run)
}

/// Collects reports until all threads have ended, and refreshes the server's processor times.
fn listen(
    plan: &Plan,
    receiver: &Receiver<Report>,
    start: Instant,
    watch: &mut Watch,
    collector: &mut Collector,
    on_second: &mut dyn FnMut(u64, &Second),
) {
    let mut next = start + plan.warm_up;
    let mut counted = false;
    loop {
        let report = receiver.recv_timeout(next.saturating_duration_since(Instant::now()));
        if Instant::now() >= next {
            if counted {
                watch.refresh()
            } else {
                watch.begin()
            }
            counted = true;
            next += REFRESH;
        }
        match report {
            Ok(report) => collector.take(report, on_second),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    watch.refresh();
}

fn check(plan: &Plan) -> Result<(), Error> {
    let rate = match plan.pace {
        Pace::Closed => 1.0,
        Pace::Open { rate, .. } => rate,
        Pace::Recorded { speed } => speed,
    };
    let wrong = if plan.connections == 0 {
        "there must be one connection at least"
    } else if plan.threads == 0 || plan.threads > MOST_THREADS.min(plan.connections) {
        "there must be one thread at least, and a connection for each of at most 1024"
    } else if plan.depth == 0 || plan.depth > MOST_DEPTH {
        "the depth is 1 to 65536"
    } else if plan.version == HttpVersion::Http3 && plan.tls.is_none() {
        "HTTP/3 needs TLS"
    } else if plan.reconnect && plan.depth > 1 {
        "a new connection for each request and several under way on one exclude each other"
    } else if plan.check == Check::Every(0) {
        "no more than every page can be looked at"
    } else if plan.timeout.is_zero() {
        "a timeout of zero lets no answer through"
    } else if !rate.is_finite() || rate < 0.001 {
        "a rate or speed is 0.001 or more"
    } else {
        return Ok(());
    };
    Err(Error::Plan(wrong.to_owned()))
}

/// Raises the limit of open files as far as permitted.
fn allow_files(wanted: u64) -> Result<(), Error> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match limit.maximum {
        Some(most) if most < wanted => Err(Error::Files { wanted, most }),
        _ => setrlimit(Resource::Nofile, raised).map_err(|error| Error::System {
            what: "raise the limit of open files",
            source: error.into(),
        }),
    }
}
