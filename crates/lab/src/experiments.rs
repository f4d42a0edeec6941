//! `larder lab`: selection of the experiment.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::{mediawiki, simulate};

/// Arguments of `larder lab`.
#[derive(Args, Debug)]
pub struct LabArgs {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Debug, Subcommand)]
enum Experiment {
    /// Does caching help a wiki? MediaWiki, its database and caches on this machine, with a report
    Mediawiki(mediawiki::MediawikiArgs),
    /// Simulate traces against policies, sizes, tiers and fleets larger than this machine
    Simulate(Box<simulate::SimulateArgs>),
}

pub(crate) fn run(args: &LabArgs) -> ExitCode {
    match &args.experiment {
        Experiment::Mediawiki(args) => mediawiki::run(args),
        Experiment::Simulate(args) => simulate::run(args),
    }
}
