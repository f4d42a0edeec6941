//! Asks: connections, protocols, clocks. One event loop a thread, no allocation a request.
//!
//! | file | what |
//! |---|---|
//! | `plan`, `error` | a run as it is to be, and why it cannot be |
//! | `worker`, `life` | a thread: its event loop; connections that begin, fail, end |
//! | `dispatch`, `pacer` | open loop: when requests are due, and which connection takes them |
//! | `conn`, `socket` | a connection: what is under way on it, bytes in both directions |
//! | `talk/` | protocols: requests into bytes, bytes into what came of them |
//! | `desk` | what the connections of a thread share |
//! | `tally`, `pages` | what is counted; what pages were when first seen |
//! | `gather` | threads' counts into one result |
//!
//! The system calls of a request in a closed loop are one `recv`, one `send` and its share of an `epoll_wait`; a batch of
//! pipelined requests has one `send`. The clock is read once for each `recv`.
//!
//! A request is counted by the time it was due (closed loop: sent), not by that of its answer; so in the end every counted
//! request is exactly one of right, wrong or failed, whatever the server did. When the time is over nothing more becomes due, and
//! what is under way is waited for; of a run that is stopped, only a second, and what is then still under way is not counted.

mod conn;
mod desk;
mod dispatch;
mod error;
mod gather;
mod life;
mod pacer;
mod pages;
mod plan;
mod socket;
mod talk;
mod tally;
#[cfg(test)]
mod tests;
mod worker;

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    thread,
    time::{Duration, Instant},
};

pub use error::Error;
pub use pages::Known;
pub use plan::{Address, Check, Plan, Protocol, Stop, Until};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{
    cpu::Watch,
    load::{Pace, Source},
    report::{Run, Second},
};
use gather::Gather;
use pages::Pages;
#[cfg(test)]
pub(crate) use tally::histogram;
use worker::{Report, Setup};

/// Reports on their way from one thread to the gathering one, each with its histograms; a thread whose report finds no place
/// tells of two seconds at once.
const REPORTS: usize = 4;
/// Requests under way on one connection.
const MOST_DEPTH: usize = 65_536;
/// Threads.
const MOST_THREADS: usize = 1024;
/// Files beside the connections: event loops, standard streams, what the program has open anyhow.
const OTHER_FILES: u64 = 64;
/// Processes of a server are looked for so often, so that little is missed of those that come and go.
const REFRESH: Duration = Duration::from_secs(1);

/// Carries out `plan`, with requests of `source`, which makes one source for each thread. `on_second` is told of every second
/// that is counted, when it is over.
pub fn run(
    plan: &Plan,
    source: &dyn Fn(usize) -> Box<dyn Source>,
    on_second: &mut dyn FnMut(u64, &Second),
) -> Result<Run, Error> {
    check(plan)?;
    allow_files(plan.connections as u64 + plan.threads as u64 + OTHER_FILES)?;
    let pages = Pages::new();
    let sources: Vec<_> = (0..plan.threads).map(source).collect();
    let mut watch = Watch::new(&plan.server_pids)?;
    let start = Instant::now();
    let mut gather = Gather::new(plan.threads, plan.pace != Pace::Closed);
    let ended = thread::scope(|scope| {
        let (tell, told) = sync_channel(plan.threads * REPORTS);
        let threads: Vec<_> = sources
            .into_iter()
            .enumerate()
            .map(|(thread, source)| {
                let setup = Setup { plan, thread, start, pages: &pages, source, tell: tell.clone() };
                scope.spawn(move || worker::run(setup))
            })
            .collect();
        drop(tell);
        listen(plan, &told, start, &mut watch, &mut gather, on_second);
        let mut threads = threads.into_iter();
        threads.try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    ended?;
    let mut run = gather.finish(plan, watch.spent());
    if pages.unchecked() > 0 {
        run.how.push(("pages not compared, being too many".to_owned(), pages.unchecked().to_string()));
    }
    Ok(run)
}

/// Takes in what the threads tell until all have ended, and looks at the server's processes.
fn listen(
    plan: &Plan,
    told: &Receiver<Report>,
    start: Instant,
    watch: &mut Watch,
    gather: &mut Gather,
    on_second: &mut dyn FnMut(u64, &Second),
) {
    let mut next = start + plan.warm_up;
    let mut counted = false;
    loop {
        let report = told.recv_timeout(next.saturating_duration_since(Instant::now()));
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
            Ok(report) => gather.take(report, on_second),
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

/// Raises the limit of open files as far as this process may.
fn allow_files(wanted: u64) -> Result<(), Error> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match limit.maximum {
        Some(most) if most < wanted => Err(Error::Files { wanted, most }),
        _ => setrlimit(Resource::Nofile, raised)
            .map_err(|error| Error::System { what: "raise the limit of open files", source: error.into() }),
    }
}
