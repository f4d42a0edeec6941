//! The binary: command line, configuration, wiring.

mod check;
mod cli;
mod config;
mod demo;
mod docs;
mod exit;
mod purge;
mod serve;
mod signals;

use std::process::ExitCode;

use clap::Parser;

/// Workers, the log's thread and the origins' connections allocate and free on different threads all the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match cli::Cli::parse().command {
        cli::Command::Serve(args) => serve::run(&args.flags()),
        cli::Command::Demo(args) => demo::run(&args),
        cli::Command::Purge(args) => purge::run(&args),
        cli::Command::Check(args) => check::run(&args.flags()),
        cli::Command::Docs { page } => docs::run(page),
    }
}
