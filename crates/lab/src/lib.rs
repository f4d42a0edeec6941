//! Load, slowness and experiments: `larder bench`, `larder slow` and `larder lab`, commands of the
//! program `larder-lab`.
//!
//! [`load`] makes requests and their times; [`engine`] sends them over real sockets and measures;
//! [`report`] presents the results. `bench` is the command line of these three, `compare` visits
//! several servers in short rounds, and `peers` starts those servers from configurations in the
//! repository. `slow` is a proxy that delays and breaks; `mediawiki` and `simulate` are experiments
//! built from all of these.

#![forbid(unsafe_code)]

mod bench;
mod compare;
mod cpu;
pub mod engine;
mod exit;
mod experiments;
mod interrupt;
pub mod load;
mod mediawiki;
mod output;
pub mod peers;
mod progress;
mod random;
pub mod report;
mod simulate;
pub mod slow;

use std::process::ExitCode;

pub use bench::BenchArgs;
pub use experiments::LabArgs;
pub use slow::SlowArgs;

/// `larder bench`: load with honest percentiles.
pub fn bench(args: &BenchArgs) -> ExitCode {
    bench::run(args)
}

/// `larder slow`: a proxy that delays, limits and breaks.
pub fn slow(args: &SlowArgs) -> ExitCode {
    slow::run(args)
}

/// `larder lab`: the experiments.
pub fn lab(args: &LabArgs) -> ExitCode {
    experiments::run(args)
}
