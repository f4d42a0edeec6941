//! Load, slowness and experiments: `larder bench`, `larder slow` and `larder lab`.
//!
//! What is asked and when is [`load`]'s; [`engine`] asks it, over real sockets, and measures; [`report`] shows what came of it.
//! `bench` is the command line over these three, `compare` visits several servers with them in short rounds, and `peers` starts
//! those servers from configurations that lie in the repository. `slow` is a proxy that delays and breaks; `mediawiki` and
//! `simulate` are experiments made of all this.

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
