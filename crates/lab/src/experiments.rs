//! `larder lab`: which experiment.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::{mediawiki, simulate};

/// What `larder lab` takes.
#[derive(Args, Debug)]
pub struct LabArgs {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Debug, Subcommand)]
enum Experiment {
    /// Does caching help a wiki? MediaWiki, its database and caches on this machine, with a report
    Mediawiki(mediawiki::MediawikiArgs),
    /// Traces against policies, sizes, tiers and fleets that no machine here holds
    Simulate(Box<simulate::SimulateArgs>),
}

pub(crate) fn run(args: &LabArgs) -> ExitCode {
    match &args.experiment {
        Experiment::Mediawiki(args) => mediawiki::run(args),
        Experiment::Simulate(args) => simulate::run(args),
    }
}
