//! The program `larder-lab`: `larder bench`, `slow` and `lab` start it.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// As in the server: the proxy, the simulations and reports allocate from several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Load, slowness and experiments for caches.
#[derive(Debug, Parser)]
#[command(name = "larder-lab", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Load a server, with honest percentiles; compare several
    Bench(Box<larder_lab::BenchArgs>),
    /// Delay, limit and break what goes through: a proxy for tests and experiments
    Slow(Box<larder_lab::SlowArgs>),
    /// Experiments, with reports
    Lab(larder_lab::LabArgs),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Bench(args) => larder_lab::bench(&args),
        Command::Slow(args) => larder_lab::slow(&args),
        Command::Lab(args) => larder_lab::lab(&args),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
