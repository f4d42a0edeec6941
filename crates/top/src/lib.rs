//! Live views of caches in a terminal: `larder top`, `larder log` and `larder hist`.
//!
//! A *server* is a Larder (queried over its admin API), a memcached or a Redis. One task per server
//! queries it once an interval (`poll`) and produces a `Sample`: counters since its start, under
//! the same names for all kinds. Two samples of a server give the rates between them, or one the
//! rates since the start (`rates`). `table` arranges them in columns; `view` and `once` show the
//! same table on a terminal and as text.
//!
//! Servers are not trusted: names, keys and URLs become [`Text`](text::Text), which contains no
//! terminal control sequences; answers have a maximum length; and a server that does not answer
//! delays no other.

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
mod sse;
mod table;
mod text;
mod view;

use std::{
    future::Future,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use address::Address;

pub use args::{HistArgs, LogArgs, TopArgs};

/// Longest delay of the program's end by a pending name lookup.
const LEAVE: Duration = Duration::from_millis(100);

/// `larder top`: a live table of several caches. Without names: of those behind these control
/// sockets.
pub fn top(args: &TopArgs, local: &[PathBuf]) -> ExitCode {
    let mut args = args.clone();
    if !args.names_server() {
        args.servers.extend(local.iter().map(|path| Address::control(path)));
    }
    block_on(app::run(&args))
}

/// `larder log`: requests as they are answered.
pub fn log(args: &LogArgs, local: Option<&Path>) -> ExitCode {
    block_on(log::run(args, &Address::larder(args.server.as_ref(), local)))
}

/// `larder hist`: live latency histogram.
pub fn hist(args: &HistArgs, local: Option<&Path>) -> ExitCode {
    block_on(hist::run(args, &Address::larder(args.server.as_ref(), local)))
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
