//! What caches do, live in a terminal: `larder top`, `larder log` and `larder hist`.
//!
//! A *server* is a Larder (asked over its admin API), a memcached or a Redis. A task for each asks it once an interval
//! (`poll`) and gives a `Sample`: counters since its start, under names that are the same for all kinds. Two samples of one server
//! make `Figures`: the rates between them, or since the start (`rates`). `table` sets figures out in columns, and `view` and
//! `once` show the same table, on a terminal and as text.
//!
//! What a server says is not trusted: names, keys and URLs come in as [`Text`](text::Text), which holds nothing that a terminal
//! would obey; answers have a greatest length; and a server that does not answer holds up no other.

#![forbid(unsafe_code)]

mod address;
mod app;
mod args;
mod ask;
mod chart;
mod drill;
mod exit;
mod hist;
mod log;
mod once;
mod poll;
mod rates;
mod sample;
mod screen;
mod snapshot;
mod sse;
mod table;
mod text;
mod view;

use std::{future::Future, process::ExitCode, time::Duration};

pub use args::{HistArgs, LogArgs, TopArgs};

/// How long looking up a name may hold up the end.
const LEAVE: Duration = Duration::from_millis(100);

/// `larder top`: a live table of several caches.
pub fn top(args: &TopArgs) -> ExitCode {
    block_on(app::run(args))
}

/// `larder log`: requests as they are answered.
pub fn log(args: &LogArgs) -> ExitCode {
    block_on(log::run(args))
}

/// `larder hist`: how long requests take, live.
pub fn hist(args: &HistArgs) -> ExitCode {
    block_on(hist::run(args))
}

fn block_on(run: impl Future<Output = ExitCode>) -> ExitCode {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(run);
            runtime.shutdown_timeout(LEAVE);
            code
        }
        Err(error) => {
            eprintln!("larder: cannot start: {error}");
            ExitCode::from(exit::SOME_DOWN)
        }
    }
}
